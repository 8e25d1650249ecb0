"""Polynomials of low degree fitted to rows, and the moments they come from: the sums behind `_objective_targets`.

Problem     y less its least-squares fit of degree one or two in whitened x.
Idea        For normal x the features 1, x, xx' - I are orthogonal, so conjugate gradients on the normal equations need few
            steps, and a step is one weighted Gram matrix: no matrix of d²/2 columns is ever formed.
Cost        O(n d²) per step, one pass each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from planted._typing import Array
from planted.rows import RowBlocks

__all__ = ["LowDegree", "WeightedMoments", "every_other", "fit_low_degree", "row_moments", "rows_in_memory"]

MAX_FIT_STEPS, FIT_TOL = 30, 1e-8
MEMORY_CELLS = 120_000_000  # rows are kept in memory up to a gigabyte of inputs


@dataclass(frozen=True, slots=True)
class LowDegree:
    """A polynomial c + l'x + x'Qx - tr Q of degree two."""

    constant: float  # c
    linear: Array  # (d,): l
    quadratic: Array  # (d, d): Q

    def __call__(self, X: Array) -> Array:
        return np.asarray(
            self.constant
            + X @ self.linear
            + ((X @ self.quadratic) * X).sum(axis=1)
            - np.trace(self.quadratic)
        )

    def subtract(self, X: Array, Y: Array) -> tuple[Array, Array]:
        """Return the inputs and the outputs without the polynomial.

        Shapes: X (n, d), Y (n, 1).
        """
        return X, Y - self(X)[:, None]


@dataclass(frozen=True, slots=True)
class WeightedMoments:
    """Means of r, r x and r xx' over samples."""

    count: int  # number of samples
    mean: float  # mean of r
    slope: Array  # (d,): mean of r x
    weighted: Array  # (d, d): mean of r xx'

    @property
    def centred(self) -> Array:
        """Mean of r (xx' - I)."""
        return np.asarray(self.weighted - self.mean * np.eye(len(self.slope)))


def row_moments(rows: RowBlocks) -> WeightedMoments:
    """Return the moments of rows and one output; one pass."""
    count, mean = 0, 0.0
    slope: Array | float = 0.0
    weighted: Array | float = 0.0
    for X, r in rows:
        count += len(X)
        mean += float(r.sum())
        slope = slope + r[:, 0] @ X
        weighted = weighted + (X * r).T @ X
    size = max(count, 1)
    return WeightedMoments(count, mean / size, np.asarray(slope) / size, np.asarray(weighted) / size)


def every_other(rows: RowBlocks, parity: int) -> RowBlocks:
    """Return every second sample of each block: the two halves are independent."""
    return rows.map(lambda X, Y: (X[parity::2], Y[parity::2]))


def rows_in_memory(rows: RowBlocks) -> RowBlocks:
    """Keep the rows in memory if they fit: an objective reads them hundreds of times."""
    kept: list[tuple[Array, Array]] = []
    for X, Y in rows:
        kept.append((X, Y))
        if sum(block.size for block, _ in kept) > MEMORY_CELLS:
            return rows
    return RowBlocks(lambda: iter(kept))


def fit_low_degree(rows: RowBlocks, degree: int) -> LowDegree:
    """Fit a polynomial by conjugate gradients; its features are orthonormal for normal x, so few steps are enough.

    `degree`: degree of the polynomial; zero stands for no polynomial at all.
    """
    raw = row_moments(rows)
    d = len(raw.slope)
    keep = np.concatenate([[1.0], np.ones(d), np.full(d * d, float(degree >= 2))]) * float(degree >= 1)
    theta = np.zeros(len(keep))
    residual = keep * _flatten(raw)
    direction, size = residual.copy(), residual @ residual
    first = size
    for _ in range(MAX_FIT_STEPS):
        if size <= FIT_TOL**2 * first or size == 0.0:
            break
        image = keep * _flatten(row_moments(rows.map(_values_of(_unflatten(direction, d)))))
        step = size / (direction @ image)
        theta += step * direction
        residual -= step * image
        fresh = residual @ residual
        direction, size = residual + (fresh / size) * direction, fresh
    return _unflatten(theta, d)


def _values_of(polynomial: LowDegree) -> Callable[[Array, Array], tuple[Array, Array]]:
    return lambda X, Y: (X, polynomial(X)[:, None])


def _flatten(moments: WeightedMoments) -> Array:
    return np.concatenate([[moments.mean], moments.slope, moments.centred.ravel() / np.sqrt(2.0)])


def _unflatten(theta: Array, d: int) -> LowDegree:
    return LowDegree(float(theta[0]), theta[1 : d + 1], theta[d + 1 :].reshape(d, d) / np.sqrt(2.0))
