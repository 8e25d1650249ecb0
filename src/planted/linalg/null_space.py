"""Numerical null spaces whose rank decision reports its gap.

Problem     Decide how many singular values of M are zero, and return a basis of the null space.
Idea        A singular value counts as zero when it is below ``tol`` times the largest. The answer contains the two
            singular values on either side of the cut, so that a reader sees at once whether the decision was clear,
            as with 1e-3 and 1e-15, or not.
Cost        One singular value decomposition of the triangular factor, O(n q² + q³) for an n × q matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array

__all__ = ["NullSpace", "column_space", "null_space", "numerical_rank"]

# Noiseless float64 data leave null singular values near 1e-15; real ones seldom fall below 1e-7.
RANK_TOL = 1e-10
# Relative singular value that a product, rounded to 1e-13 of its largest, cannot mistake for zero.
SURELY_FULL = 1e-4


@dataclass(frozen=True, slots=True)
class NullSpace:
    """A null space and the evidence for its dimension."""

    basis: Array  # (q, dimension): orthonormal basis
    # (q,): singular values divided by the largest, descending; zeros where the matrix has fewer rows than columns.
    singular_values: Array

    @property
    def dimension(self) -> int:
        """Dimension of the null space."""
        return int(self.basis.shape[1])

    @property
    def smallest_kept(self) -> float:
        """The smallest relative singular value that counts as non-zero (1 if there is none)."""
        kept = len(self.singular_values) - self.dimension
        return float(self.singular_values[kept - 1]) if kept else 1.0

    @property
    def largest_dropped(self) -> float:
        """The largest relative singular value that counts as zero (0 if there is none)."""
        kept = len(self.singular_values) - self.dimension
        return float(self.singular_values[kept]) if self.dimension else 0.0


def null_space(M: Array, *, tol: float = RANK_TOL) -> NullSpace:
    """Return the right null space of M.

    `tol`: singular values below ``tol`` times the largest count as zero. Shapes: M (n, q).
    """
    n, q = M.shape
    # A product decides most cases without a null space at a fraction of the cost.
    if n >= q and tol < SURELY_FULL:
        squares = linalg.eigvalsh(M.T @ M, check_finite=False)
        if squares[0] > SURELY_FULL**2 * squares[-1]:
            return NullSpace(np.zeros((q, 0)), np.sqrt(squares[::-1] / squares[-1]))
    compact = linalg.qr(M, mode="r", check_finite=False)[0][:q] if n > q else M
    _, values, right = linalg.svd(compact, full_matrices=True, check_finite=False)
    padded = np.zeros(q)
    padded[: len(values)] = values
    relative = padded / padded[0] if padded[0] > 0 else padded
    rank = int((relative > tol).sum())
    return NullSpace(np.ascontiguousarray(right[rank:].T), relative)


def column_space(M: Array, *, tol: float = RANK_TOL) -> tuple[Array, Array]:
    """Return an orthonormal basis of the column space, and all relative singular values in descending order.

    `tol`: singular values below ``tol`` times the largest count as zero. Shapes: M (n, q), results (n, rank) and
    (q,).
    """
    left, values, _ = linalg.svd(M, full_matrices=False, check_finite=False)
    relative = values / values[0] if len(values) and values[0] > 0 else values
    return np.ascontiguousarray(left[:, relative > tol]), relative


def numerical_rank(relative: Array, *, tol: float = RANK_TOL) -> int:
    """Count relative singular values above a tolerance."""
    return int((np.asarray(relative) > tol).sum())
