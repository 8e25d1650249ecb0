"""Tests whether a network has one unit too few or one too many.

Problem     If the noise is large, a network with one unit too few can leave a residual that passes a global test. And
            when a correct network of k units fails a test by chance, one of k + 1 units is fitted: its last unit
            looks strong beside standard errors that hold its hyperplane fixed, although the hyperplane was free to
            turn to the noise. Likewise, nearly linear data are fitted well by a unit that is on for nearly all
            samples, although nothing in the data bends.
Idea        *A missing unit* is looked for directly. Of many random half-spaces those are taken whose activation, made
            orthogonal to the network's own functions, explains most of the residual. Each is added as a unit and
            refined, and the fall of the sum of squares is measured in noise variances. If no unit is missing, that
            fall is due to d + m parameters and to a search over half-spaces: about a χ² with 2 (d + m) degrees of
            freedom. Measured at (d, k, m, n) = (4, 5, 1, 800), (4, 5, 1, 4000) and (10, 5, 5, 600), its mean was
            11.7, 10.4 and 32.3, the largest of twelve 19.4, 18.7 and 44.7. The 99 % quantile of that χ² is the limit.

            *A needless unit.* Take away the unit whose output weights stand out least, refine the rest, and measure
            how much the sum of squares rises, in noise variances. *A needless bend.* Give the outputs a free affine
            part and take each unit away while the others are held fixed. What the unit then explains is due to its
            bend alone. One regression on [H, x, 1] gives the answer for all units (`planted.linalg.symmetric`). A
            unit is accepted if it exceeds what the same χ² reaches once in ten thousand times.
Guarantee   Heuristic. The search may miss a unit, and no test excludes one that is too weak for the noise: the fall
            that was found is a lower bound. The refined rest may be a local minimum, in which case the rise is too
            large.
Cost        `STARTS` refinements of k + 1 units and one of k - 1 on the rows in memory, a few steps on all rows, and one
            pass of n (k + d)².
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, stats

from planted._typing import Array
from planted.checks import Check
from planted.fitting._problem import Problem
from planted.fitting._refine import Refinement, refine
from planted.linalg.products import unit_rows
from planted.linalg.symmetric import column_spectrum, rises_of_columns
from planted.moments import RegressionSums, augment
from planted.networks import TwoLayerNetwork
from planted.results import Evidence, Recovery
from planted.rows import RowWeights, accumulate

__all__ = [
    "LEVEL",
    "bend_evidence",
    "lacks_a_unit",
    "missing_unit_evidence",
    "needless_unit_evidence",
    "noise_limit",
]

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


NEEDED_LEVEL = 1e-4
REST_STEPS = 30
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

    `strengths` are the output weights of the units in standard errors; the smallest is the weakest. The rise, in
    noise variances, must be beyond what a unit fitted to noise reaches. Shapes: strengths (k,).
    """
    unit = int(np.argmin(strengths))
    name = f"rise of the sum of squares without unit {unit}, in noise variances"
    if fit.network.n_hidden == 1:
        cost = ((problem.Y - problem.Y.mean(axis=0) * offset) ** 2).sum() * problem.n_samples / len(problem.Y)
    else:
        rest = _without(fit.network, unit)
        near = refine(
            problem.sampled_rows, rest, offset=offset, biases=biases, max_iter=REST_STEPS, weights=weights
        ).network
        cost = refine(
            problem.blocks, near, offset=offset, biases=biases, max_iter=STEPS_ON_ALL_ROWS, weights=weights
        ).cost
    return Evidence(
        name,
        float((cost - fit.cost) / noise**2),
        noise_limit(problem, NEEDED_LEVEL),
        ">=",
        "χ² with 2(d + m)",
        key=Check.NEEDLESS_UNIT,
    )


def bend_evidence(
    problem: Problem, network: TwoLayerNetwork, *, noise: float, weights: RowWeights | None = None
) -> Evidence:
    """Measure how much the bend of the straightest unit explains beyond an affine function.

    That part of the sum of squares, in noise variances, must be beyond what a bend fitted to noise reaches.
    """
    k = network.n_hidden
    sums = accumulate(problem.blocks, _RegressionSummand(network, weights))
    columns = column_spectrum(sums.GG)
    coefficients = columns.regular().solve(sums.GY)
    coefficients[:k] += network.A.T
    bends = rises_of_columns(columns, coefficients)[:k] / noise**2
    unit = int(np.argmin(bends))
    name = f"rise of the sum of squares when unit {unit} does not bend, in noise variances"
    return Evidence(
        name, float(bends[unit]), noise_limit(problem, NEEDED_LEVEL), ">=", "χ² with 2(d + m)", key=Check.BEND
    )


@dataclass(frozen=True, slots=True)
class _RegressionSummand:
    """Products of [H, x, 1] with itself and with the residual of a network."""

    network: TwoLayerNetwork
    weights: RowWeights | None

    def __call__(self, first_row: int, X: Array, Y: Array) -> RegressionSums:
        H = self.network.activation(self.network.preactivations(X))
        residual = Y - H @ self.network.A.T - self.network.c
        weights = None if self.weights is None else self.weights(first_row, X, Y)
        return RegressionSums.of(np.hstack([H, augment(X)]), residual, weights)


def _without(network: TwoLayerNetwork, unit: int) -> TwoLayerNetwork:
    kept = np.arange(network.n_hidden) != unit
    return TwoLayerNetwork(
        network.W[kept], network.b[kept], network.A[:, kept], network.c, network.activation
    )
