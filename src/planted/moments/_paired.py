r"""Sums that pair quadratic functions of the inputs with quadratic functions of the outputs.

The method of symmetric inputs needs, for a predictor Q of the outputs, the covariance of two quadratic feature maps,

.. math:: g(x) = \mathrm{svec}(V^\top x x^\top V), \qquad
          h(x, y) = \mathrm{svec}\left(q q^\top - (q - y')(q - y')^\top\right), \quad q = Q x,\ y' = P y .

By polarisation :math:`\langle \mathrm{svec}(U), h\rangle = 2\, y'^\top U q - y'^\top U y'`, which is the pure-neuron
detector of [GKLW19]_ for every symmetric U at once. Q is itself estimated from second moments, hence two passes over
the rows. No array of n × k² numbers is ever formed. The features of a slice of rows are stored with one row of memory
for each feature; products of contiguous vectors are written straight into the buffer that the matrix product reads,
so that this product takes most of the time. Features may be float32; sums are always float64.

Cost: for r = columns of V and k = rows of P, p = r(r+1)/2 and q = k(k+1)/2: O(n p (p + q)) time, O(p (p + q)) memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from planted._typing import Array
from planted.linalg.symmetric import triangle_weights
from planted.rows._blocks import RowBlocks
from planted.rows._passes import Sums, accumulate

__all__ = [
    "PairMaps",
    "PairedSums",
    "accumulate_pairs",
    "distinguishing_sums",
    "fill_products",
    "row_slices",
    "slice_rows",
]

# Features of one slice: large enough for the matrix product, small enough for the cache.
_BUFFER_BYTES = 4_000_000
_MIN_SLICE = 64


@dataclass(frozen=True, slots=True)
class PairMaps:
    """The linear maps that define g and h."""

    V: Array  # (d, r): directions of the inputs
    P: Array  # (k, m): map of the outputs
    Q: Array  # (k, d): linear predictor of the mapped outputs


@dataclass(frozen=True, slots=True)
class PairedSums(Sums):
    """Sums of the features g (length p) and h (length q) and of their products."""

    count: float  # number of rows
    g: Array  # (p,): sum of g
    h: Array  # (q,): sum of h
    gg: Array  # (p, p): sum of g g'; of shape (0, 0) when it was not asked for
    gh: Array  # (p, q): sum of g h'

    @property
    def moment(self) -> Array:
        """E[g h'], of shape (p, q)."""
        return self.gh / self.count

    @property
    def covariance(self) -> Array:
        """Cov(g, h), of shape (p, q)."""
        return self.gh / self.count - np.outer(self.g / self.count, self.h / self.count)

    @property
    def spread(self) -> Array:
        """Cov(g), of shape (p, p)."""
        return self.gg / self.count - np.outer(self.g / self.count, self.g / self.count)


def accumulate_pairs(
    blocks: RowBlocks, maps: PairMaps, *, spread: bool = True, precision: str = "double"
) -> PairedSums:
    """Sum g, h and their products over all rows.

    `precision`: number format of the features of a slice; what is carried from slice to slice is float64.
    """
    return accumulate(blocks, partial(_sum_pairs, maps, spread, precision))


def _sum_pairs(
    maps: PairMaps, spread: bool, precision: str, first_row: int, X: Array, Y: Array
) -> PairedSums:
    """Sum the features g and h of a block and their products, slice by slice."""
    maps, spread = maps, spread
    dtype = np.float32 if precision == "single" else np.float64
    p, q, k = _triangle(maps.V.shape[1]), _triangle(len(maps.P)), len(maps.P)
    rows = slice_rows(p + q, dtype)
    buffer, work = np.empty((p + q, rows), dtype), np.empty((k, rows), dtype)
    first, P = np.concatenate([maps.V.T, maps.Q]).astype(dtype), maps.P.astype(dtype)
    sums, products = np.zeros(p + q), np.zeros((p, (p if spread else 0) + q))
    for inputs, outputs in row_slices(X, Y, rows):
        n = len(inputs)
        linear = first @ inputs.T.astype(dtype)
        rest = linear[-k:] - P @ outputs.T.astype(dtype)
        features = buffer[:, :n]
        fill_products(linear[:-k], features[:p])
        fill_products(linear[-k:], features[p:], minus=rest, work=work[:, :n])
        products += features[:p] @ (features if spread else features[p:]).T
        sums += features.sum(axis=1, dtype=np.float64)
    weights = np.concatenate([triangle_weights(maps.V.shape[1]), triangle_weights(k)])
    sums *= weights
    products *= np.outer(weights[:p], weights if spread else weights[p:])
    gg = products[:, :p] if spread else np.zeros((0, 0))
    return PairedSums(float(len(X)), sums[:p], sums[p:], gg, products[:, -q:])


def distinguishing_sums(blocks: RowBlocks, W: Array, V: Array) -> tuple[Array, Array]:
    """Average the columns of the distinguishing matrix of [GKLW19]_, Definition 1, over rows.

    The products of the inputs are taken in the directions V, which is the identity for the paper's matrix: g =
    svec(V'x x'V). Returns the columns E[t_i t_j g 1{t_i t_j <= 0}], i < j, and E[g]. Shapes: W (k, d), V (d, r),
    results (r(r+1)/2, k(k-1)/2) and (r(r+1)/2,).
    """
    sums = accumulate(blocks, partial(_sum_distinguishing, W, V))
    return sums.N / sums.count, sums.second / sums.count


@dataclass(frozen=True, slots=True)
class DistinguishingSums(Sums):
    """Sums behind the distinguishing matrix."""

    count: int  # number of rows
    N: Array  # (r(r+1)/2, k(k-1)/2): sums of t_i t_j g 1{t_i t_j <= 0}
    second: Array  # (r(r+1)/2,): sum of g


def _sum_distinguishing(W: Array, V: Array, first_row: int, X: Array, Y: Array) -> DistinguishingSums:
    """Sum the columns of the distinguishing matrix over a block, slice by slice."""
    k, r = len(W), V.shape[1]
    p, pairs = _triangle(r), np.triu_indices(k, 1)
    rows = slice_rows(p + len(pairs[0]) + 1, np.float64)
    N, second, g = np.zeros((p, len(pairs[0]))), np.zeros(p), np.empty((p, rows))
    for inputs, _ in row_slices(X, Y, rows):
        n = len(inputs)
        fill_products(np.ascontiguousarray((inputs @ V).T), g[:, :n])
        t = W @ inputs.T
        N += g[:, :n] @ np.minimum(t[pairs[0]] * t[pairs[1]], 0.0).T
        second += g[:, :n].sum(axis=1)
    weights = triangle_weights(r)
    return DistinguishingSums(len(X), weights[:, None] * N, weights * second)


def fill_products(
    columns: npt.NDArray[Any],
    out: npt.NDArray[Any],
    *,
    minus: npt.NDArray[Any] | None = None,
    work: npt.NDArray[Any] | None = None,
) -> None:
    """Write ``c_i c_j`` (i <= j, row by row of the triangle), less the same products of ``minus``, into ``out``.

    Shapes: columns (k, n), out (k(k+1)/2, n), minus (k, n), work (k, n).
    """
    position, k = 0, len(columns)
    for i in range(k):
        target = out[position : position + k - i]
        np.multiply(columns[i], columns[i:], out=target)
        if minus is not None and work is not None:
            np.multiply(minus[i], minus[i:], out=work[: k - i])
            np.subtract(target, work[: k - i], out=target)
        position += k - i


def slice_rows(n_features: int, dtype: npt.DTypeLike) -> int:
    """Return how many rows a slice has when so many features of each are in memory at once."""
    return max(_MIN_SLICE, _BUFFER_BYTES // (np.dtype(dtype).itemsize * n_features))


def row_slices(X: Array, Y: Array, rows: int) -> Iterator[tuple[Array, Array]]:
    """Cut a block into slices.

    Yields inputs and outputs of a slice. Shapes: X (n, d), Y (n, m).
    """
    for start in range(0, len(X), rows):
        yield X[start : start + rows], Y[start : start + rows]


def _triangle(k: int) -> int:
    return k * (k + 1) // 2
