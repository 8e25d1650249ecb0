r"""Sums that pair quadratic functions of the inputs with quadratic functions of the outputs.

The method of symmetric inputs needs, for a predictor Q of the outputs, the covariance of two quadratic feature maps,

.. math:: g(x) = \mathrm{svec}(V^\top x x^\top V), \qquad
          h(x, y) = \mathrm{svec}\left(q q^\top - (q - y')(q - y')^\top\right), \quad q = Q x,\ y' = P y .

By polarisation :math:`\langle \mathrm{svec}(U), h\rangle = 2\, y'^\top U q - y'^\top U y'`, the pure-neuron detector of
[GKLW19]_ for every symmetric U at once. Q is itself estimated from second moments, hence two passes over the rows; no
array of n × k² numbers ever exists. Features of a slice of rows are built with one row of memory for each feature, by
products of contiguous vectors straight into the buffer that the matrix product reads ("fused"): the product of the features
then takes most of the time. Features may be float32; sums are float64 always.

`PairMoments` is what the algorithm asks of its data; `SampleMoments` answers from row blocks and
`planted.moments.population.GaussianMoments` in closed form, so that the same algebra runs on n = ∞.

Cost: for r = columns of V and k = rows of P, p = r(r+1)/2 and q = k(k+1)/2: O(n p (p + q)) time, O(p (p + q)) memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import linalg

from planted._typing import Array
from planted.moments._blocks import RowBlocks
from planted.moments._gram import RowMoments, joint_moments

__all__ = [
    "ControlledSlope",
    "PairMaps",
    "PairMoments",
    "PairedSums",
    "SampleMoments",
    "accumulate_pairs",
    "distinguishing_sums",
    "second_moments",
    "triangle_weights",
]

_BUFFER_BYTES = (
    4_000_000  # features of one slice: large enough for the matrix product, small enough for the cache
)
_MIN_SLICE = 64
_RANK_TOL = (
    1e-11  # relative eigenvalue of a Gram matrix below which features are collinear (a sphere: |x|² = 1)
)


@dataclass(frozen=True, slots=True)
class PairMaps:
    """The linear maps that define g and h.

    Parameters
    ----------
    V : ndarray of shape (d, r)
        Directions of the inputs.
    P : ndarray of shape (k, m)
        Map of the outputs.
    Q : ndarray of shape (k, d)
        Linear predictor of the mapped outputs.
    """

    V: Array
    P: Array
    Q: Array


@dataclass(frozen=True, slots=True)
class PairedSums:
    """Sums of the features g (length p) and h (length q) and of their products.

    Parameters
    ----------
    count : float
        Number of rows.
    g : ndarray of shape (p,)
        Sum of g.
    h : ndarray of shape (q,)
        Sum of h.
    gg : ndarray of shape (p, p)
        Sum of g g'; of shape (0, 0) when it was not asked for.
    gh : ndarray of shape (p, q)
        Sum of g h'.
    """

    count: float
    g: Array
    h: Array
    gg: Array
    gh: Array

    def merge(self, other: PairedSums) -> PairedSums:
        """Add two sets of sums.

        Parameters
        ----------
        other : PairedSums
            Sums of other rows with the same maps.

        Returns
        -------
        PairedSums
            Their sum.
        """
        return PairedSums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

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


@dataclass(frozen=True, slots=True)
class ControlledSlope:
    """A linear regression of the outputs with further functions of x held fixed.

    Parameters
    ----------
    B : ndarray of shape (m, d)
        Twice the coefficients of x; an estimate of A W for symmetric x.
    residual_variance : float
        Mean square of what remains, per output.
    """

    B: Array
    residual_variance: float


class PairMoments(Protocol):
    """What the method of symmetric inputs asks of its data, be they samples or a law."""

    @property
    def n_features(self) -> int:
        """Number of inputs, d."""

    def joint(self) -> RowMoments:
        """Return count, mean and scatter of the rows (x, y)."""

    def slope(self, V: Array) -> ControlledSlope:
        """Regress y on x with a constant and the products of V'x as controls."""

    def pairs(self, maps: PairMaps, *, spread: bool = True) -> PairedSums:
        """Return the sums of g and h; the products of g with itself only if ``spread``."""

    def hidden_gradient(self, W: Array, A: Array) -> Array:
        """Return the gradient in W of half the mean squared residual of A f(W x)."""

    def halves(self) -> tuple[PairMoments, PairMoments]:
        """Return the moments of the first and of the second half of the samples."""


@dataclass(frozen=True)
class SampleMoments:
    """`PairMoments` of row blocks.

    Parameters
    ----------
    blocks : RowBlocks
        The data.
    precision : {"double", "single"}
        Number format of the features; sums are float64 always.
    """

    blocks: RowBlocks
    precision: str = "double"

    @cached_property
    def n_features(self) -> int:
        """Number of inputs, d."""
        return int(next(iter(self.blocks))[0].shape[1])

    @cached_property
    def _joint(self) -> RowMoments:
        return joint_moments(self.blocks)

    def joint(self) -> RowMoments:
        """Return count, mean and scatter of the rows (x, y), read once.

        Returns
        -------
        RowMoments
            The sums.
        """
        return self._joint

    def slope(self, V: Array) -> ControlledSlope:
        """Regress y on x with a constant and the products of V'x as controls, one pass.

        Parameters
        ----------
        V : ndarray of shape (d, r)
            Directions of the inputs.

        Returns
        -------
        ControlledSlope
            Twice the coefficients of x.
        """

        def fill(X: Array, out: npt.NDArray[Any]) -> None:
            _fill_products((V.T @ X.T).astype(out.dtype), out)

        return _regress_with_controls(self.blocks, fill, _triangle(V.shape[1]), self._dtype)

    def slope_beside(self, W: Array) -> ControlledSlope:
        """Regress y on x with a constant and |W x| as controls, one pass: all of the even part once W is right.

        Parameters
        ----------
        W : ndarray of shape (k, d)
            Hidden weights.

        Returns
        -------
        ControlledSlope
            Twice the coefficients of x.
        """

        def fill(X: Array, out: npt.NDArray[Any]) -> None:
            out[:] = np.abs(W @ X.T)

        return _regress_with_controls(self.blocks, fill, len(W), np.float64)

    def pairs(self, maps: PairMaps, *, spread: bool = True) -> PairedSums:
        """Sum the paired features, one pass.

        Parameters
        ----------
        maps : PairMaps
            What defines the features.
        spread : bool
            Whether the products of g with itself are needed.

        Returns
        -------
        PairedSums
            The sums.
        """
        return accumulate_pairs(self.blocks, maps, spread=spread, precision=self.precision)

    def hidden_gradient(self, W: Array, A: Array) -> Array:
        """Return the gradient in W of half the mean squared residual, one pass.

        Parameters
        ----------
        W : ndarray of shape (k, d)
            Hidden weights.
        A : ndarray of shape (m, k)
            Output weights.

        Returns
        -------
        ndarray of shape (k, d)
            The gradient.
        """
        total, count = np.zeros_like(W), 0
        for X, Y in self.blocks:
            t = X @ W.T
            residual = np.maximum(t, 0.0) @ A.T - Y
            total += ((residual @ A) * (t > 0)).T @ X
            count += len(X)
        return total / count

    def halves(self) -> tuple[PairMoments, PairMoments]:
        """Split the rows in the middle of their order.

        Returns
        -------
        tuple of SampleMoments
            The first and the second half.
        """
        middle = self.joint().count // 2
        return tuple(  # type: ignore[return-value]
            SampleMoments(_rows_between(self.blocks, *bounds), self.precision)
            for bounds in ((0, middle), (middle, self.joint().count))
        )

    @property
    def _dtype(self) -> npt.DTypeLike:
        return np.float32 if self.precision == "single" else np.float64


def second_moments(joint: RowMoments, d: int) -> tuple[Array, Array]:
    """Return C = E[x x'] and R = E[y x'], about zero.

    Parameters
    ----------
    joint : RowMoments
        Moments of the rows (x, y).
    d : int
        Number of inputs.

    Returns
    -------
    C : ndarray of shape (d, d)
        Second moments of the inputs.
    R : ndarray of shape (m, d)
        Products of outputs and inputs.
    """
    second = joint.covariance + np.outer(joint.mean, joint.mean)
    return second[:d, :d], second[d:, :d]


def accumulate_pairs(
    blocks: RowBlocks, maps: PairMaps, *, spread: bool = True, precision: str = "double"
) -> PairedSums:
    """Sum g, h and their products over all rows.

    Parameters
    ----------
    blocks : RowBlocks
        The data.
    maps : PairMaps
        What defines the features.
    spread : bool
        Whether to sum g g' too.
    precision : {"double", "single"}
        Number format of the features of a slice; what is carried from slice to slice is float64.

    Returns
    -------
    PairedSums
        The sums.
    """
    dtype = np.float32 if precision == "single" else np.float64
    p, q = _triangle(maps.V.shape[1]), _triangle(len(maps.P))
    rows = max(_MIN_SLICE, _BUFFER_BYTES // (np.dtype(dtype).itemsize * (p + q)))
    buffer, work = np.empty((p + q, rows), dtype), np.empty((len(maps.P), rows), dtype)
    first = np.concatenate([maps.V.T, maps.Q]).astype(dtype)
    sums, products, count = np.zeros(p + q), np.zeros((p, (p if spread else 0) + q)), 0
    for X, Y in _slices(blocks, rows):
        n, k = len(X), len(maps.P)
        linear = first @ X.T.astype(dtype)
        rest = linear[-k:] - maps.P.astype(dtype) @ Y.T.astype(dtype)
        features = buffer[:, :n]
        _fill_products(linear[:-k], features[:p])
        _fill_products(linear[-k:], features[p:], minus=rest, work=work[:, :n])
        products += features[:p] @ (features if spread else features[p:]).T
        sums += features.sum(axis=1, dtype=np.float64)
        count += n
    weights = np.concatenate([triangle_weights(maps.V.shape[1]), triangle_weights(len(maps.P))])
    sums *= weights
    products *= np.outer(weights[:p], weights if spread else weights[p:])
    gg = products[:, :p] if spread else np.zeros((0, 0))
    return PairedSums(float(count), sums[:p], sums[p:], gg, products[:, -q:])


def distinguishing_sums(blocks: RowBlocks, W: Array, V: Array) -> tuple[Array, Array]:
    """Average the columns of the distinguishing matrix of [GKLW19]_, Definition 1, over rows.

    Parameters
    ----------
    blocks : RowBlocks
        Inputs (outputs are ignored).
    W : ndarray of shape (k, d)
        Hidden weights.
    V : ndarray of shape (d, r)
        Directions in which the inputs' products are taken; the identity for the paper's matrix.

    Returns
    -------
    N : ndarray of shape (r(r+1)/2, k(k-1)/2)
        Columns E[t_i t_j g 1{t_i t_j <= 0}], i < j, with g = svec(V'x x'V).
    second : ndarray of shape (r(r+1)/2,)
        E[g].
    """
    k, r = len(W), V.shape[1]
    p, pairs = _triangle(r), np.triu_indices(k, 1)
    rows = max(_MIN_SLICE, _BUFFER_BYTES // (8 * (p + len(pairs[0]) + 1)))
    N, second, count = np.zeros((p, len(pairs[0]))), np.zeros(p), 0
    g = np.empty((p, rows))
    for X, _ in _slices(blocks, rows):
        _fill_products(np.ascontiguousarray((X @ V).T), g[:, : len(X)])
        t = W @ X.T
        opposite = np.minimum(t[pairs[0]] * t[pairs[1]], 0.0)
        N += g[:, : len(X)] @ opposite.T
        second += g[:, : len(X)].sum(axis=1)
        count += len(X)
    weights = triangle_weights(r)
    return weights[:, None] * N / count, weights * second / count


def _regress_with_controls(
    blocks: RowBlocks, fill: Callable[[Array, npt.NDArray[Any]], None], n_controls: int, dtype: npt.DTypeLike
) -> ControlledSlope:
    """Regress y on [x, 1, controls]; ``fill`` writes the controls of a slice, one row for each."""
    d = next(iter(blocks))[0].shape[1]
    size = d + 1 + n_controls
    rows = max(_MIN_SLICE, _BUFFER_BYTES // (np.dtype(dtype).itemsize * size))
    features = np.ones((size, rows), dtype)
    gram, cross, squares, count = np.zeros((size, size)), np.zeros((size, 0)), 0.0, 0
    for X, Y in _slices(blocks, rows):
        part = features[:, : len(X)]
        part[:d] = X.T
        fill(X, part[d + 1 :])
        gram += part @ part.T
        products = (part @ Y.astype(dtype)).astype(np.float64)
        cross = cross + products if cross.size else products
        squares += float((Y**2).sum())
        count += len(X)
    coefficients = _solve_gram(gram, cross)
    freedom = max(count - size, 1) * cross.shape[1]
    left = max(squares - float((coefficients * cross).sum()), 0.0)
    return ControlledSlope(2.0 * coefficients[:d].T, left / freedom)


def _fill_products(
    columns: npt.NDArray[Any],
    out: npt.NDArray[Any],
    *,
    minus: npt.NDArray[Any] | None = None,
    work: npt.NDArray[Any] | None = None,
) -> None:
    """Write ``c_i c_j`` (i <= j, row by row of the triangle), less the same products of ``minus``, into ``out``."""
    position, k = 0, len(columns)
    for i in range(k):
        target = out[position : position + k - i]
        np.multiply(columns[i], columns[i:], out=target)
        if minus is not None and work is not None:
            np.multiply(minus[i], minus[i:], out=work[: k - i])
            np.subtract(target, work[: k - i], out=target)
        position += k - i


def _slices(blocks: RowBlocks, rows: int) -> Iterator[tuple[Array, Array]]:
    for X, Y in blocks:
        for start in range(0, len(X), rows):
            yield X[start : start + rows], Y[start : start + rows]


def _rows_between(blocks: RowBlocks, start: int, stop: int) -> RowBlocks:
    """Return the rows start, ..., stop - 1 of a source."""

    def chosen() -> Iterator[tuple[Array, Array]]:
        seen = 0
        for X, Y in blocks:
            low, high = max(start - seen, 0), min(stop - seen, len(X))
            if low < high:
                yield X[low:high], Y[low:high]
            seen += len(X)

    return RowBlocks(chosen)


def _solve_gram(G: Array, right: Array) -> Array:
    """Solve the normal equations with unit diagonal; collinear features share their coefficient."""
    lengths = np.sqrt(np.diag(G))
    lengths = np.where(lengths > 0, lengths, 1.0)
    values, vectors = linalg.eigh(G / np.outer(lengths, lengths), check_finite=False)
    keep = values > _RANK_TOL * values[-1]
    solution = vectors[:, keep] @ ((vectors[:, keep].T @ (right / lengths[:, None])) / values[keep, None])
    return np.asarray(solution / lengths[:, None])


def _triangle(k: int) -> int:
    return k * (k + 1) // 2


def triangle_weights(k: int) -> Array:
    """Return the weights of svec: 1 on the diagonal, √2 off it.

    Parameters
    ----------
    k : int
        Size of the symmetric matrix.

    Returns
    -------
    ndarray of shape (k(k+1)/2,)
        The weights, row by row of the upper triangle.
    """
    rows, columns = np.triu_indices(k)
    return np.where(rows == columns, 1.0, np.sqrt(2.0))
