r"""Rank-one terms of symmetric matrices that share them: Jennrich's decomposition with the rank read off a threshold.

Problem     Matrices :math:`S_t = \sum_{i \le r} d_{ti}\, z_i z_i^\top` of size q are contractions of one symmetric
            tensor along several directions, with r possibly far below q. Find r and the columns z.
Idea        The left singular vectors of the stack (S_1, S_2, ...) whose values exceed a threshold span the z. Within
            that span the matrices are r × r, and `diagonalise_by_congruence` finds the columns, by the eigenvectors of
            one pair (Jennrich) or with all matrices.
Guarantee   Exact for exact inputs when the z are linearly independent and no two rows of (d_ti) are parallel. Theorem
            A.5 of [ATV21]_ and its references bound the error under noise.
Cost        O(T q³) for the span, O(T r³) for each sweep.
References  [ATV21]_, [Tichavsky2009]_
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array
from planted.linalg.symmetric import MAX_SWEEPS, diagonalise_by_congruence

__all__ = ["RankOneTerms", "decompose_shared_terms"]


@dataclass(frozen=True, slots=True)
class RankOneTerms:
    """Columns shared by a set of symmetric matrices."""

    Z: Array  # (q, r): the columns, of unit norm; no columns if no singular value exceeds the threshold
    values: Array  # (q,): singular values of the stack, descending
    residual: float  # off-diagonal energy that is left within the span, relative


def decompose_shared_terms(
    matrices: Array,
    rng: np.random.Generator,
    *,
    threshold: float,
    largest_rank: int,
    max_sweeps: int = MAX_SWEEPS,
) -> RankOneTerms:
    """Find the columns shared by symmetric matrices.

    `threshold`: singular values of the stack at or below this count as zero. `max_sweeps`: sweeps of the joint
    diagonalisation; with 0 one random pair decides, as Jennrich's algorithm is stated. Shapes: matrices (T, q, q).
    """
    stack = matrices.transpose(1, 0, 2).reshape(matrices.shape[1], -1)
    vectors, values, _ = linalg.svd(stack, full_matrices=False, check_finite=False)
    rank = min(int((values > threshold).sum()), largest_rank)
    if rank == 0:
        return RankOneTerms(np.zeros((len(values), 0)), values, 0.0)
    span = vectors[:, :rank]
    inner = span.T @ matrices @ span
    if rank == 1:
        return RankOneTerms(span, values, 0.0)
    restarts = 5 if max_sweeps else 1
    found = diagonalise_by_congruence(inner, rng, n_restarts=restarts, max_sweeps=max_sweeps)
    return RankOneTerms(span @ found.Z, values, found.residual)
