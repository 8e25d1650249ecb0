r"""Weighted Gram matrices of linear and quadratic features: the sums behind Hermite tensors.

For weights u(x, y) the matrix :math:`E[u\, F F^\top]` with F = (1, x) holds E[u He_j(x)] for j ≤ 2, and with F =
(1, x, h), where h = svec(xx' - I), for j ≤ 4. Each weight costs one matrix product per block. Rows of even and odd
number are summed apart, so that the difference of the two halves measures the sampling error of whatever is computed
from them.

Cost: O(n p²) time and O(p²) memory for each weight, p = 1 + d or 1 + d + d(d+1)/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from planted._typing import Array, as_array
from planted.linalg.symmetric import symmetric_pairs, triangle_weights
from planted.moments._hermite_tensors import to_fourth, to_third
from planted.moments._paired import fill_products, slice_rows
from planted.rows._blocks import RowBlocks
from planted.rows._passes import Sums, accumulate

__all__ = ["RowFunction", "WeightedGrams", "_sum_grams", "accumulate_grams"]


class RowFunction(Protocol):
    """Maps inputs (n, d) and outputs (n, m) of a block to numbers (n, q)."""

    def __call__(self, X: Array, Y: Array) -> Array:
        """Evaluate on rows."""


@dataclass(frozen=True, slots=True)
class WeightedGrams(Sums):
    """Sums of u F F' for q weights u, over rows of even and of odd number."""

    counts: Array  # (2,): numbers of rows
    linear: Array  # (2, q, 1 + d, 1 + d): sums of u (1, x)(1, x)'
    mixed: Array  # (2, q, D, 1 + d): sums of u h (1, x)'; D = 0 where only linear features were asked for
    squares: Array  # (2, q, D, D): sums of u h h'

    def moment(self, weight: int, order: int, half: int | None = None) -> Array:
        """Return E[u He_j].

        `order`: the order j, at most 2 with linear features, at most 4 with quadratic ones.
        """
        chosen = slice(None) if half is None else slice(half, half + 1)
        count = self.counts[chosen].sum()
        L, M, H = (
            part[chosen, weight].sum(axis=0) / count for part in (self.linear, self.mixed, self.squares)
        )
        if order <= 1:
            return as_array(L[0, 0] if order == 0 else L[0, 1:])
        second = L[1:, 1:] - L[0, 0] * np.eye(len(L) - 1)
        if order == 2:
            return as_array(second)
        return to_third(M[:, 1:], L[0, 1:]) if order == 3 else to_fourth(H, second, L[0, 0])


def accumulate_grams(blocks: RowBlocks, weights: RowFunction, *, quadratic: bool) -> WeightedGrams:
    """Sum u F F' over rows, one pass."""
    return accumulate(blocks, partial(_sum_grams, weights, quadratic))


def _sum_grams(weights: RowFunction, quadratic: bool, first_row: int, X: Array, Y: Array) -> WeightedGrams:
    """Sum a block in slices that stay in the cache; the features are multiplied by one weight at a time."""
    u, d = weights(X, Y), X.shape[1]
    width = 1 + d + (d * (d + 1) // 2 if quadratic else 0)
    step = min(slice_rows(2 * width, np.float64), len(X))
    F, weighted = np.empty((width, step)), np.empty((width, step))
    G, counts = np.zeros((2, u.shape[1], width, width)), np.zeros(2)
    for half in (0, 1):
        first = (half - first_row) % 2
        rows, columns = np.ascontiguousarray(X[first::2].T), np.ascontiguousarray(u[first::2].T)
        counts[half] = rows.shape[1]
        for start in range(0, rows.shape[1], step):
            n = min(step, rows.shape[1] - start)
            _fill_features(rows[:, start : start + n], F[:, :n], quadratic)
            for place, column in enumerate(columns[:, start : start + n]):
                np.multiply(F[:, :n], column, out=weighted[:, :n])
                G[half, place] += weighted[:, :n] @ F[:, :n].T
    linear = slice(0, 1 + d)
    return WeightedGrams(counts, G[..., linear, linear], G[..., 1 + d :, linear], G[..., 1 + d :, 1 + d :])


def _fill_features(rows: Array, out: Array, quadratic: bool) -> None:
    """Write F into ``out``, one row for each feature; ``rows`` are the inputs, transposed."""
    d = len(rows)
    out[0], out[1 : 1 + d] = 1.0, rows
    if quadratic:
        fill_products(rows, out[1 + d :])
        out[1 + d :] *= triangle_weights(d)[:, None]
        first, second = symmetric_pairs(d)
        out[1 + d :][first == second] -= 1.0
