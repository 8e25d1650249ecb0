r"""Is the weakest unit needed, or could noise have made it?

Problem     Where a network of k units is doubted by chance, one of k + 1 is fitted, and its last unit looks strong beside
            standard errors that hold its hyperplane fixed: it was free to look anywhere.
Idea        Take the unit away whose output weights stand out least, refine the rest, and measure how much the sum of squares
            rises, in noise variances. A unit fitted to noise alone lowers it by about a χ² with 2 (d + m) degrees of freedom
            (`_missing_unit`); a unit that is claimed must be beyond what that reaches once in ten thousand times.
Guarantee   Heuristic: the refined rest may be a local minimum, and the rise then too large.
Cost        One refinement of k - 1 units on the rows in memory and a few steps on all rows.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from planted._typing import Array
from planted.algorithms._problem import Problem
from planted.algorithms.refine import Refinement, refine
from planted.moments import RowBlocks, RowWeights
from planted.networks import TwoLayerNetwork
from planted.results import Evidence

__all__ = ["needless_unit_evidence"]

LEVEL = 1e-4
STEPS = 30
STEPS_ON_ALL_ROWS = 5


def needless_unit_evidence(
    problem: Problem,
    fit: Refinement,
    strengths: Array,
    *,
    offset: bool,
    noise: float,
    biases: bool = True,
    weights: RowWeights | None = None,
) -> Evidence:
    """Measure how much the sum of squares rises without the weakest unit.

    Parameters
    ----------
    problem : Problem
        The standardised problem.
    fit : Refinement
        The refined network.
    strengths : ndarray of shape (k,)
        Output weights of the units in standard errors; the smallest is the weakest.
    offset : bool
        Whether c is free.
    noise : float
        Standard deviation of the residual.
    biases : bool
        Whether b is free.
    weights : callable, optional
        Weights of the rows in the fit.

    Returns
    -------
    Evidence
        The rise in noise variances, which must be beyond what a unit fitted to noise reaches.
    """
    unit = int(np.argmin(strengths))
    limit = stats.chi2.ppf(1 - LEVEL, 2 * (problem.n_features + problem.n_outputs))
    name = f"rise of the sum of squares without unit {unit}, in noise variances"
    if fit.network.n_hidden == 1:
        cost = ((problem.Y - problem.Y.mean(axis=0) * offset) ** 2).sum() * problem.n_samples / len(problem.Y)
    else:
        rest = _without(fit.network, unit)
        rows = RowBlocks.from_arrays(problem.X, problem.Y)
        near = refine(rows, rest, offset=offset, biases=biases, max_iter=STEPS, weights=weights).network
        cost = refine(
            problem.blocks, near, offset=offset, biases=biases, max_iter=STEPS_ON_ALL_ROWS, weights=weights
        ).cost
    return Evidence(name, float((cost - fit.cost) / noise**2), float(limit), ">=", "χ² with 2(d + m)")


def _without(network: TwoLayerNetwork, unit: int) -> TwoLayerNetwork:
    kept = np.arange(network.n_hidden) != unit
    return TwoLayerNetwork(
        network.W[kept], network.b[kept], network.A[:, kept], network.c, network.activation
    )
