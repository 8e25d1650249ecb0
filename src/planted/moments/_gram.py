r"""Means and scatter matrices of rows as mergeable, shift-stable sums.

Naive sums of squares lose all digits when the mean is large (at an offset of 1e8 they return a variance of 2 for 1).
`RowMoments` keeps the count, the mean and the scatter about the mean, and merges two parts with the formulas of Chan,
Golub and LeVeque:

.. math:: S = S_1 + S_2 + \frac{n_1 n_2}{n_1 + n_2} \delta\delta^\top, \qquad \delta = \mu_2 - \mu_1 .

Cost: one symmetric product per block, O(rows · p²) time, O(p²) memory for rows of length p.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array
from planted.rows._blocks import RowBlocks
from planted.rows._passes import accumulate
from planted.rows._sums import Sums

__all__ = ["JointSummand", "RowMoments", "joint_moments"]


@dataclass(frozen=True, slots=True)
class RowMoments(Sums):
    """Count, mean and scatter of a set of rows.

    Examples
    --------
    >>> left, right = RowMoments.of(np.array([[1e8], [1e8 + 2]])), RowMoments.of(np.array([[1e8 + 4]]))
    >>> left.merge(right).covariance
    array([[2.66666667]])
    """

    count: int  # number of rows
    mean: Array  # (p,): their mean
    scatter: Array  # (p, p): sum of outer products of the centred rows

    @classmethod
    def of(cls, rows: Array) -> RowMoments:
        """Sum one block.

        Shapes: rows (rows, p).
        """
        mean = rows.mean(axis=0)
        centred = rows - mean
        return cls(len(rows), mean, centred.T @ centred)

    def merge(self, other: RowMoments) -> RowMoments:
        """Return the sums of both sets of rows together."""
        total = self.count + other.count
        step = other.mean - self.mean
        mean = self.mean + step * (other.count / total)
        scatter = self.scatter + other.scatter + np.outer(step, step) * (self.count * other.count / total)
        return RowMoments(total, mean, scatter)

    @property
    def covariance(self) -> Array:
        """Scatter divided by the count."""
        return self.scatter / self.count


def joint_moments(blocks: RowBlocks) -> RowMoments:
    """Sum the joint rows ``(x, y)`` of a source, of length d + m, in one pass."""
    return accumulate(blocks, JointSummand())


@dataclass(frozen=True, slots=True)
class JointSummand:
    """The joint rows ``(x, y)``."""

    def __call__(self, first_row: int, X: Array, Y: Array) -> RowMoments:
        """Sum a block."""
        return RowMoments.of(np.hstack([X, Y]))
