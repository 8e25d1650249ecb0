r"""Small ReLU fits decided exactly by mixed-integer programs.

Problem     Decide whether there are ReLU units with given properties on a few samples: (a) a single unit whose
            activations lie in a subspace; (b) k units whose sum with output weights one is a given vector.
Idea        For |t| ≤ M the equation h = max(t, 0) is four linear inequalities with one binary s:

            .. math:: h \ge 0, \quad h \ge t, \quad h \le t + M (1 - s), \quad h \le M s .                 \quad (1)

            In (a) t = X v and h = Q w, and a linear functional of w that vanishes on the units already known equals
            one. In (b) t_j = X v_j and Σ_j h_j = y.
Guarantee   Exact up to the solver's tolerances if some solution has pre-activations below M. The worst case is
            exponential in the number of samples; [BJW18]_ prove that (b) is NP-hard for two units already.
Cost        30-60 samples in about a second for (a); some tens of samples for (b).
References  [BJW18]_
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array
from planted.linalg._highs import LinearProgram, ProgramSolution, solve_program

__all__ = ["fit_units_exactly", "unit_in_subspace"]


def unit_in_subspace(
    X: Array, Q: Array, functional: Array, *, bound: float = 50.0, time_limit: float | None = 10.0
) -> ProgramSolution:
    """Find one ReLU unit whose activations lie in a subspace (a).

    The product of `functional` with w must be one; choose it orthogonal to the w of known units. The solution's ``x``
    starts with v (d numbers) and w (k numbers). Shapes: X (n, d), Q (n, k), functional (k,).
    """
    (n, d), k = X.shape, Q.shape[1]
    on = bound * np.eye(n)
    none_v, none_s = np.zeros((n, d)), np.zeros((n, n))
    G = np.block([[none_v, -Q, none_s], [X, -Q, none_s], [-X, Q, on], [none_v, Q, -on]])
    g = np.concatenate([np.zeros(2 * n), np.full(n, bound), np.zeros(n)])
    E = np.concatenate([np.zeros(d), functional, np.zeros(n)])[None, :]
    upper = np.concatenate([np.full(d + k, bound), np.ones(n)])
    lower = np.concatenate([np.full(d + k, -bound), np.zeros(n)])
    is_integer = np.concatenate([np.zeros(d + k, dtype=bool), np.ones(n, dtype=bool)])
    program = LinearProgram(np.zeros(d + k + n), G, g, E, np.ones(1), lower, upper, is_integer)
    return solve_program(program, time_limit=time_limit)


def fit_units_exactly(
    X: Array, y: Array, n_units: int = 2, *, bound: float = 100.0, time_limit: float | None = 60.0
) -> ProgramSolution:
    """Decide whether a sum of ReLU units with output weights one takes given values (b).

    `bound` is M of (1), the largest pre-activation considered; weights are bounded by it too. The solution's ``x``
    starts with the rows of V, ``n_units * d`` numbers; its status is INFEASIBLE when there is no such network.
    Shapes: X (n, d), y (n,).
    """
    n, d = X.shape
    one, zero = np.eye(n), np.zeros((n, n))
    none_v = np.zeros((n, d))
    # Columns: v, h, s of one unit.
    unit_G = np.block([[X, -one, zero], [-X, one, bound * one], [none_v, one, -bound * one]])
    unit_g = np.concatenate([np.zeros(n), np.full(n, bound), np.zeros(n)])
    # Order of the variables: all v, then all h, then all s.
    parts = np.split(unit_G, [d, d + n], axis=1)
    G = np.hstack([np.kron(np.eye(n_units), part) for part in parts])
    E = np.hstack([np.zeros((n, n_units * d)), np.tile(one, n_units), np.zeros((n, n_units * n))])
    sizes = (n_units * d, n_units * n, n_units * n)
    lower = np.repeat([-bound, 0.0, 0.0], sizes)
    upper = np.repeat([bound, bound, 1.0], sizes)
    is_integer = np.repeat([False, False, True], sizes)
    program = LinearProgram(np.zeros(sum(sizes)), G, np.tile(unit_g, n_units), E, y, lower, upper, is_integer)
    return solve_program(program, time_limit=time_limit)
