"""Test whether one more unit would explain the residual.

Problem     If the noise is large, a network with one unit too few can leave a residual that passes a global test of
            noise.
Idea        The missing unit is looked for directly. Of many random half-spaces those are taken whose activation, made
            orthogonal to the network's own functions, explains most of the residual. Each is added as a unit and
            refined, and the fall of the sum of squares is measured in noise variances. If no unit is missing, that
            fall is due to d + m parameters and to a search over half-spaces: about a χ² with 2 (d + m) degrees of
            freedom. Measured at (d, k, m, n) = (4, 5, 1, 800), (4, 5, 1, 4000) and (10, 5, 5, 600), its mean was
            11.7, 10.4 and 32.3, the largest of twelve 19.4, 18.7 and 44.7. The 99 % quantile of that χ² is the limit.
Guarantee   Heuristic. The search may miss the unit, and no test excludes a unit that is too weak for the noise. The
            fall that was found is a lower bound.
Cost        `STARTS` refinements of k + 1 units on the rows in memory.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, stats

from planted._typing import Array
from planted.checks import Check
from planted.fitting._problem import Problem
from planted.fitting._refine import refine
from planted.linalg.products import unit_rows
from planted.moments import augment
from planted.networks import TwoLayerNetwork
from planted.results import Evidence, Recovery
from planted.rows import RowWeights

__all__ = ["LEVEL", "lacks_a_unit", "missing_unit_evidence", "noise_limit"]

NAME = "fall of the sum of squares with one more unit, in noise variances"
LEVEL = 0.01
HALF_SPACES = 400
STARTS = 3
STEPS = 12


def missing_unit_evidence(
    problem: Problem,
    network: TwoLayerNetwork,
    *,
    offset: bool,
    noise: float,
    biases: bool = True,
    weights: RowWeights | None = None,
) -> Evidence:
    """Measure how much one more unit lowers the sum of squares.

    The fall, in noise variances, must stay below what noise alone reaches once in a hundred times.
    """
    X, Y = problem.X, problem.Y
    rows = problem.sampled_rows
    base = refine(rows, network, offset=offset, biases=biases, max_iter=STEPS, weights=weights).cost
    falls = [0.0]
    for w, b in _promising_half_spaces(X, Y, network, problem.rng, biases):
        wider = TwoLayerNetwork(
            np.vstack([network.W, w]),
            np.append(network.b, b),
            np.hstack([network.A, np.zeros((network.n_outputs, 1))]),
            network.c,
            network.activation,
        )
        fit = refine(rows, wider, offset=offset, biases=biases, max_iter=STEPS, weights=weights)
        falls.append((base - fit.cost) / noise**2)
    return Evidence(
        NAME,
        float(max(falls)),
        noise_limit(problem, LEVEL),
        "<=",
        "99 % of χ² with 2(d + m)",
        key=Check.MISSING_UNIT,
    )


def noise_limit(problem: Problem, level: float) -> float:
    """Return what a unit fitted to noise explains, in noise variances, with at most a given probability."""
    return float(stats.chi2.ppf(1 - level, 2 * (problem.n_features + problem.n_outputs)))


def lacks_a_unit(recovery: Recovery) -> bool:
    """Return whether a recovery failed because one more unit, or one split in two, would explain more than noise."""
    return any(item.key in (Check.MISSING_UNIT, Check.SPLIT_UNIT) for item in recovery.failed)


def _promising_half_spaces(
    X: Array, Y: Array, network: TwoLayerNetwork, rng: np.random.Generator, biases: bool
) -> list[tuple[Array, float]]:
    """Return the half-spaces whose activations explain most of the residual beyond the network's own functions."""
    W = unit_rows(rng.standard_normal((HALF_SPACES, X.shape[1])))[0]
    t = X @ W.T
    shares = rng.uniform(0.05, 0.95, HALF_SPACES)
    cuts = (
        np.array([np.quantile(t[:, j], share) for j, share in enumerate(shares)])
        if biases
        else np.zeros(HALF_SPACES)
    )
    H = network.activation(t - cuts)
    Q = linalg.orth(augment(np.hstack([X, network.activation(network.preactivations(X))])))
    H = H - Q @ (Q.T @ H)
    lengths = np.linalg.norm(H, axis=0)
    gains = np.linalg.norm(H.T @ (Y - network(X)), axis=1) / np.where(lengths > 0, lengths, np.inf)
    return [(W[j], -float(cuts[j])) for j in np.argsort(gains)[::-1][:STARTS]]
