r"""Fit a polynomial of degree one or two to rows without forming its features.

Problem     Given whitened x and y, find the least-squares fit of degree one or two, for large d and for any x.
Idea        The features 1, x and (xx' - I)/√2 are orthonormal for normal x, so conjugate gradients on the normal equations
            need few steps. The product of the normal matrix with a polynomial p is E[p(x) He_j(x)], j = 0, 1, 2: the
            moments of p as an output, which are weighted Gram matrices (`planted.moments.accumulate_grams`).
Guarantee   The least-squares fit up to `FIT_TOL`, also where features are linearly dependent: then one of its solutions.
Departures  `planted.moments.fit_polynomial` solves the same problem from the products of all d²/2 features. It takes
            O(n d⁴) against O(n d²) per step here (n = 50,000: as long at d = 20, 3.2 s against 0.4 s at d = 50, November
            2026), and ends in a singular system for two-valued inputs, whose squares are constant. A test compares them.
Cost        One pass of O(n d²) per step, some ten steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array
from planted.moments import Residual, RowFunction, accumulate_grams
from planted.rows import RowBlocks

__all__ = ["LowDegree", "fit_low_degree", "rows_in_memory"]

MAX_FIT_STEPS, FIT_TOL = 30, 1e-8
MEMORY_CELLS = 120_000_000  # rows are kept in memory up to a gigabyte of inputs


@dataclass(frozen=True, slots=True)
class LowDegree:
    """A polynomial c + l'x + x'Qx - tr Q of degree two."""

    constant: float  # c
    linear: Array  # (d,): l
    quadratic: Array  # (d, d): Q

    def __call__(self, X: Array) -> Array:
        """Return the values on rows, shape (n,)."""
        even = ((X @ self.quadratic) * X).sum(axis=1) - np.trace(self.quadratic)
        return np.asarray(self.constant + X @ self.linear + even)

    def values(self, X: Array, Y: Array) -> Array:
        """Return the values on rows as one output, shape (n, 1)."""
        return self(X)[:, None]

    def subtract(self, X: Array, Y: Array) -> tuple[Array, Array]:
        """Return the inputs, and the outputs (n, 1) without the polynomial."""
        return X, Y - self(X)[:, None]


def fit_low_degree(rows: RowBlocks, degree: int) -> LowDegree:
    """Fit a polynomial of degree one or two by conjugate gradients; degree zero stands for no polynomial at all."""
    d = rows.widths()[0]
    keep = np.concatenate([[1.0], np.ones(d), np.full(d * d, float(degree >= 2))]) * float(degree >= 1)
    theta = np.zeros(len(keep))
    residual = keep * _moments(rows, Residual(None))
    direction, size = residual.copy(), residual @ residual
    first = size
    for _ in range(MAX_FIT_STEPS):
        if size <= FIT_TOL**2 * first or size == 0.0:
            break
        image = keep * _moments(rows, _polynomial(direction, d).values)
        step = size / (direction @ image)
        theta += step * direction
        residual -= step * image
        fresh = residual @ residual
        direction, size = residual + (fresh / size) * direction, fresh
    return _polynomial(theta, d)


def _moments(rows: RowBlocks, output: RowFunction) -> Array:
    """Return the means of an output times each feature, as one vector; one pass."""
    sums = accumulate_grams(rows, output, quadratic=False)
    zeroth, first, second = (sums.moment(0, order) for order in range(3))
    return np.concatenate([zeroth[None], first, second.ravel() / np.sqrt(2.0)])


def _polynomial(theta: Array, d: int) -> LowDegree:
    """Return the polynomial whose coefficients on the features are a vector."""
    return LowDegree(float(theta[0]), theta[1 : d + 1], theta[d + 1 :].reshape(d, d) / np.sqrt(2.0))


def rows_in_memory(rows: RowBlocks) -> RowBlocks:
    """Keep the rows in memory if they fit: an objective reads them hundreds of times. On a cluster they stay there."""
    if getattr(rows.passes.engine, "is_elsewhere", False):
        return rows
    kept: list[tuple[Array, Array]] = []
    for X, Y in rows:
        kept.append((X, Y))
        if sum(block.size for block, _ in kept) > MEMORY_CELLS:
            return rows
    return RowBlocks(lambda: iter(kept))
