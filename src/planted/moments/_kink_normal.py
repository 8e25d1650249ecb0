r"""Normal equations of a sum of absolute values as sums over rows.

The function :math:`\sum_i \beta_i |v_i^\top \tilde x| + \Lambda \tilde x` with :math:`\tilde x = (x, 1)` bends along
the hyperplanes of a ReLU network and has no orientations to guess. With the signs
:math:`s_i = \mathrm{sign}(v_i^\top \tilde x)` its Jacobian consists of rows :math:`\tilde x` multiplied by signs, so
every product that Gauss–Newton needs is contained in

.. math:: C_{(i,j),(a,b)} = \sum_{rows} (s_i s_j)\,(\tilde x_a \tilde x_b), \qquad s_0 = 1, \quad (1)

which is symmetric in (i, j) and in (a, b). It is one matrix product of the pairs of signs with the pairs of inputs.
This takes a quarter of the multiplications of a plain product of masked rows, and no array of n ×
(number of unknowns). In the notation of `planted.moments._gram`, with Z = [s_1 ∘ x̃, ..., s_k ∘ x̃] and G = [|t|,
x̃]:

    ZZ = C_ij,   GZ = [v_i' C_ij ; C_0j],   GG = [v_i' C_ij v_j, v_i' C_i0 ; ., C_00] .

Residuals are formed on every slice, never as differences of these sums. Measured at d = 50 with 75 units: 1.1 s
against 3.0 s for the product of masked rows; with 30 units of 20 inputs 20 ms against 35 ms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array, IntArray
from planted.moments._gram import NormalSums
from planted.moments._paired import fill_products, slice_rows

__all__ = ["LinearSums", "accumulate_kinks", "accumulate_linear", "masked_products"]


@dataclass(frozen=True, slots=True)
class LinearSums:
    """Products of the regressors G = [|t|, x̃] alone: enough for the cost, not for a step."""

    GG: Array  # (k + p, k + p): products of the regressors
    GR: Array  # (k + p, m): their products with the residual
    RR: float  # sum of squared residuals


def accumulate_kinks(
    rows: Array, Y: Array, V: Array, *, coefficients: Array, weights: Array | None = None
) -> NormalSums:
    """Sum the normal equations of the absolute-value form, with G = [|t|, (x, 1)].

    Shapes: rows (n, p), Y (n, m), V (k, p), coefficients (m, k + p), weights (n,).
    """
    k, p = V.shape
    m = Y.shape[1]
    products, ZR, RR = _PairProducts(k + 1, p, len(rows)), np.zeros((k + 1, p, m)), np.zeros((m, m))
    for part in _slices(len(rows), products.rows):
        inputs, w = rows[part], None if weights is None else weights[part]
        t = V @ inputs.T
        residual = Y[part] - np.abs(t).T @ coefficients[:, :k].T - inputs @ coefficients[:, k:].T
        weighted = residual if w is None else residual * w[:, None]
        signs = np.ones((k + 1, len(inputs)))
        np.copyto(signs[1:], -1.0, where=t < 0)
        products.add(signs, np.ascontiguousarray(inputs.T), w)
        for output in range(m):
            ZR[:, :, output] += (signs * weighted[:, output]) @ inputs
        RR += residual.T @ weighted
    count = float(len(rows)) if weights is None else float(weights.sum())
    C = products.expanded().reshape(k + 1, p, k + 1, p)
    return _in_terms_of_regressors(V, C, ZR, RR=RR, count=count)


def accumulate_linear(
    rows: Array, Y: Array, V: Array, *, coefficients: Array, weights: Array | None = None
) -> LinearSums:
    """Sum the products of the regressors alone; costs n (k + p)² instead of n (k p)² / 2.

    Shapes: rows (n, p), Y (n, m), V (k, p), coefficients (m, k + p), weights (n,).
    """
    width = sum(V.shape)
    GG, GR, RR = np.zeros((width, width)), np.zeros((width, Y.shape[1])), 0.0
    for part in _slices(len(rows), slice_rows(width, np.float64)):
        inputs = rows[part]
        G = np.hstack([np.abs(inputs @ V.T), inputs])
        residual = Y[part] - G @ coefficients.T
        H = G if weights is None else G * weights[part, None]
        GG += H.T @ G
        GR += H.T @ residual
        squares = residual**2 if weights is None else residual**2 * weights[part, None]
        RR += float(squares.sum())
    return LinearSums(GG, GR, RR)


def masked_products(S: Array, rows: Array, *, weights: Array | None = None) -> Array:
    """Return Z'Z for Z = [S_1 ∘ rows, ..., S_k ∘ rows] by the product (1) of pairs.

    Shapes: S (n, k), rows (n, p), weights (n,), result (k*p, k*p).
    """
    products = _PairProducts(S.shape[1], rows.shape[1], len(rows))
    for part in _slices(len(rows), products.rows):
        w = None if weights is None else weights[part]
        products.add(np.ascontiguousarray(S[part].T), np.ascontiguousarray(rows[part].T), w)
    return products.expanded()


class _PairProducts:
    """The products (1) of pairs of masks with pairs of inputs, summed in slices that stay in the cache."""

    def __init__(self, k: int, p: int, n: int) -> None:
        self.shape = k, p
        n_masks, n_inputs = k * (k + 1) // 2, p * (p + 1) // 2
        self.rows = min(slice_rows(n_masks + n_inputs, np.float64), max(n, 1))
        self._masks, self._inputs = np.empty((n_masks, self.rows)), np.empty((n_inputs, self.rows))
        self._total = np.zeros((n_masks, n_inputs))

    def add(self, masks: Array, inputs: Array, w: Array | None) -> None:
        """Add a slice: masks (k, n) and inputs (p, n), with weights of its rows."""
        n = masks.shape[1]
        left, right = self._masks[:, :n], self._inputs[:, :n]
        fill_products(masks, left)
        fill_products(inputs, right)
        if w is not None:
            left *= w
        self._total += left @ right.T

    def expanded(self) -> Array:
        """Return the sums for every (i, a), (j, b), shape (k*p, k*p)."""
        k, p = self.shape
        masks, inputs = _places(k), _places(p)
        return self._total[masks[:, None, :, None], inputs[None, :, None, :]].reshape(k * p, k * p)


def _places(size: int) -> IntArray:
    """Return for every (i, j) the place of its pair in the upper triangle."""
    first, second = np.triu_indices(size)
    place = np.empty((size, size), dtype=np.intp)
    place[first, second] = place[second, first] = np.arange(first.size)
    return place


def _slices(n_rows: int, step: int) -> list[slice]:
    return [slice(start, start + step) for start in range(0, n_rows, step)]


def _in_terms_of_regressors(V: Array, C: Array, ZR: Array, *, RR: Array, count: float) -> NormalSums:
    """Contract (1) with the hyperplanes: |t_i| = v_i'(s_i x̃)."""
    k, p = V.shape
    kinks = np.einsum("ia,iajb->ijb", V, C[1:, :, 1:])
    plain = C[0, :, 1:].reshape(p, k * p)
    GZ = np.vstack([kinks.reshape(k, k * p), plain])
    across = np.einsum("ajb,jb->aj", C[0, :, 1:], V)
    GG = np.block([[np.einsum("ijb,jb->ij", kinks, V), across.T], [across, C[0, :, 0]]])
    GR = np.vstack([np.einsum("ia,ial->il", V, ZR[1:]), ZR[0]])
    ZZ = np.ascontiguousarray(C[1:, :, 1:]).reshape(k * p, k * p)
    return NormalSums(count, ZZ, GZ, (GG + GG.T) / 2, ZR[1:].reshape(k * p, -1), GR, RR)
