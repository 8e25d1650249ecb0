"""Tests whether a network has one unit too many, or one that does not bend.

Problem     When a correct network of k units fails a test by chance, one of k + 1 units is fitted: its last unit looks
            strong beside standard errors that hold its hyperplane fixed, although the hyperplane was free to turn to
            the noise. Likewise, nearly linear data are fitted well by a unit that is on for nearly all samples,
            although nothing in the data bends.
Idea        *A needless unit.* Take away the unit whose output weights stand out least, refine the rest, and measure
            how much the sum of squares rises, in noise variances. Some of the rows are enough where the rise is
            clear: the rest is refined on them, the network is not, so that the rise is too small if anything.
            *A needless bend.* Give the outputs a free affine
            part and take each unit away while the others are held fixed. What the unit then explains is due to its
            bend alone. One regression on [H, x, 1] gives the answer for all units (`planted.linalg.symmetric`). A
            unit is accepted if it exceeds what the χ² of `_missing_unit` reaches once in ten thousand times.
Guarantee   Heuristic. The refined rest may be a local minimum, in which case the rise is too large.
Cost        One refinement of k - 1 units on `SOME_ROWS` rows; after a doubt on the rows in memory, with a few steps on all
            rows. One pass of n (k + d)².
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import linalg

from planted._typing import Array
from planted.certificates._missing_unit import noise_limit
from planted.certificates.noise._fitted_rows import FittedRows
from planted.checks import Check
from planted.fitting._refine import Refinement, refine
from planted.fitting._run import Problem
from planted.linalg.symmetric import column_spectrum, rises_of_columns
from planted.moments import RegressionSums, augment
from planted.networks import TwoLayerNetwork
from planted.results import Evidence
from planted.rows import RowBlocks, RowWeights, accumulate

__all__ = ["bend_evidence", "needless_unit_evidence"]

NEEDED_LEVEL = 1e-4
REST_STEPS = 30
STEPS_ON_ALL_ROWS = 5
STEP_GAIN = 0.01  # part of the limit: a step that gains less decides nothing
SOME_ROWS, ROWS_PER_UNKNOWN = (300, 1000), 5
CLEARLY = 4.0  # times the limit: a rise on some rows that needs no others


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
    name = f"rise of the sum of squares without unit {unit + 1}, in noise variances"
    limit = noise_limit(problem, NEEDED_LEVEL)
    if fit.network.n_hidden == 1:
        rest = problem.Y - problem.Y.mean(axis=0) * offset
        if fit.network.B is not None:
            Q = linalg.orth(augment(problem.X))
            rest = problem.Y - Q @ (Q.T @ problem.Y)
        cost = (rest**2).sum() * problem.n_samples / len(problem.Y)
    else:
        rest = _without(fit.network, unit)
        again = partial(refine, offset=offset, biases=biases, decrease_tol=STEP_GAIN * limit, weights=weights)
        for count in () if weights is not None else _some_rows(fit.network):
            some = problem.evenly_spaced_rows(count)
            if some is None:
                break
            own, clear = _sum_of_squares(some, fit.network), CLEARLY * limit * noise**2
            rise = again(some, rest, max_iter=REST_STEPS, goal=own + clear).cost - own
            if rise >= clear:
                return Evidence(
                    name, float(rise / noise**2), limit, ">=", "χ² with 2(d + m)", key=Check.NEEDLESS_UNIT
                )
        near = again(problem.sampled_rows, rest, max_iter=REST_STEPS)
        if not problem.holds_all_rows:
            near = again(problem.blocks, near.network, max_iter=STEPS_ON_ALL_ROWS)
        cost = near.cost
    return Evidence(
        name,
        float((cost - fit.cost) / noise**2),
        limit,
        ">=",
        "χ² with 2(d + m)",
        key=Check.NEEDLESS_UNIT,
    )


def _some_rows(network: TwoLayerNetwork) -> list[int]:
    """Return numbers of rows on which strong units, and most units, are seen to be needed."""
    return [max(rows, ROWS_PER_UNKNOWN * network.n_parameters // network.n_outputs) for rows in SOME_ROWS]


def _sum_of_squares(rows: RowBlocks, network: TwoLayerNetwork) -> float:
    return float(sum(((Y - network(X)) ** 2).sum() for X, Y in rows))


def bend_evidence(
    problem: Problem,
    network: TwoLayerNetwork,
    *,
    noise: float,
    weights: RowWeights | None = None,
    at: FittedRows | None = None,
) -> Evidence:
    """Measure how much the bend of the straightest unit explains beyond an affine function.

    That part of the sum of squares, in noise variances, must be beyond what a bend fitted to noise reaches. `at`: the
    network at the rows in memory, if that was computed already.
    """
    k = network.n_hidden
    if at is not None and problem.holds_all_rows and weights is None:
        regressors = np.vstack([at.H, at.X, np.ones((1, at.X.shape[1]))]).T
        sums = RegressionSums.of(regressors, at.residual.T)
    else:
        sums = accumulate(problem.all_rows, _RegressionSummand(network, weights))
    columns = column_spectrum(sums.GG)
    coefficients = columns.regular().solve(sums.GY)
    coefficients[:k] += network.A.T
    bends = rises_of_columns(columns, coefficients)[:k] / noise**2
    unit = int(np.argmin(bends))
    name = f"rise of the sum of squares when unit {unit + 1} does not bend, in noise variances"
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
        residual = self.network.less_linear(X, Y) - H @ self.network.A.T - self.network.c
        weights = None if self.weights is None else self.weights(first_row, X, Y)
        return RegressionSums.of(np.hstack([H, augment(X)]), residual, weights)


def _without(network: TwoLayerNetwork, unit: int) -> TwoLayerNetwork:
    kept = np.arange(network.n_hidden) != unit
    return replace(network, W=network.W[kept], b=network.b[kept], A=network.A[:, kept])
