r"""Extreme rays of the cone of non-negative vectors in a subspace, one linear program each.

Problem     Q (n × k) spans the column space of H = f(X W'), f rectified. Find the columns of H, up to scale.
Idea        Each column is non-negative and lies in the span, so it is Q w for a w in the cone {w : Q w ≥ 0}. On the
            rows where unit j is off the other columns still span k - 1 dimensions, so column j is an extreme ray.
            Extreme rays are the vertices of

            .. math:: \{ w : Q w \ge 0, \; \mathbf 1^\top Q w = 1 \},                                    \quad (1)

            and a linear objective with random c ends at one of them.
Guarantee   Every vertex returned is an extreme ray to the precision of the solver. Not every extreme ray is a unit.
            The k units are the only rays exactly when every unit is the only active one on some sample; otherwise
            there are more, and the caller must verify f(X v) = Q w.
Cost        One linear program with k variables and n inequalities for each vertex.
References  [BJW18]_
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array
from planted.linalg._highs import LinearProgram, ProgramSolution, solve_program

__all__ = ["extreme_ray"]


def extreme_ray(Q: Array, objective: Array) -> ProgramSolution:
    """Return the vertex of (1) that minimises a linear objective.

    Shapes: Q (n, k), objective (k,).
    """
    n, k = Q.shape
    scale = np.sqrt(n)  # entries of order one, so that the solver's absolute tolerances mean something
    rows = Q * scale
    free = np.full(k, np.inf)
    total = rows.sum(axis=0, keepdims=True) / n
    return solve_program(LinearProgram(objective, -rows, np.zeros(n), total, np.ones(1), -free, free))
