"""Search for another explanation of noiseless outputs, and the theorem that excludes one.

Problem     A network reproduces every sample. Does the column space of the outputs hold a further ReLU unit, and do
            the samples determine the network among all networks of its width?
Idea        *Search.* With the found units known, pursuit looks for one more unit in the column space of the outputs.
            *Theorem.* The null space of the complementarity system contains one vector for each unit of every network
            that explains the outputs. If its dimension is k, there is no other network of k units (`_null_units`).
Guarantee   The theorem is a proof. The search is evidence, since it may miss a unit.
Cost        `RIVAL_STARTS` starts of pursuit on some hundred rows, and one singular value decomposition with q =
            k(k+1)/2 + k(d+1) columns.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from planted._typing import Array
from planted.fitting._problem import Problem
from planted.fitting.units._null_units import complementarity_null_space, uniqueness_evidence
from planted.fitting.units._pursuit import pursue_units
from planted.networks import TwoLayerNetwork
from planted.results import Evidence

__all__ = ["RIVAL_STARTS", "count_rivals", "pursuit_rows", "uniqueness_of"]

RIVAL_STARTS = 128
MAX_NULL_COLUMNS = 1000  # of the theorem's linear system; beyond, it costs more than the rest


def pursuit_rows(problem: Problem, k: int) -> int:
    """Return how many rows a search for k units looks at first: ample for each of them, and few."""
    return min(len(problem.X), max(500, 12 * (problem.n_features + 1 + k)))


def count_rivals(problem: Problem, network: TwoLayerNetwork, Q: Array) -> int:
    """Count further ReLU units in a column space, with the units of the network known.

    Shapes: Q (rows, rank), an orthonormal basis on all rows in memory.
    """
    k, rows = network.n_hidden, pursuit_rows(problem, network.n_hidden)
    known = np.hstack([network.W, network.b[:, None]])
    found = pursue_units(
        problem.X[:rows],
        linalg.orth(Q[:rows]),
        k + 1,
        rng=problem.rng,
        max_starts=RIVAL_STARTS,
        known=known,
    )
    return max(len(found.V) - k, 0)


def uniqueness_of(problem: Problem, network: TwoLayerNetwork) -> tuple[Evidence, ...]:
    """Return the lines of the uniqueness theorem for ReLU units without biases; none if its system is too large."""
    k, d = network.n_hidden, network.n_features
    q = k * (k + 1) // 2 + k * (d + 1)
    if not network.activation.is_piecewise_linear or q > MAX_NULL_COLUMNS or len(problem.X) < q - k:
        return ()
    rows = min(len(problem.X), 2 * q + 50)
    y = problem.Y[:rows] @ linalg.pinv(network.A).T
    space = complementarity_null_space(problem.X[:rows], y)
    return uniqueness_evidence(space, k) if space.dimension <= k else ()
