"""Further conditions on a network with fewer outputs than units.

With fewer outputs than units there is no column space that could be searched again, so two conditions take its place.
A unit with few rows on one side of its kink is distinguished from a linear function by these rows alone: with fewer
than `SIDE_ROWS` (d + 1) of them it is not identifiable. And if all inputs of a unit take two values only, the same
function is piecewise linear in many ways, so every unit must depend on an input with more values.
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array, IntArray, as_array
from planted.checks import Check
from planted.fitting._run import Problem
from planted.networks import TwoLayerNetwork
from planted.results import Evidence
from planted.rows import RowWeights

__all__ = [
    "ORIENTATION_GAP",
    "SIDE_ROWS",
    "few_outputs_evidence",
    "reproduced_rows",
]

SIDE_ROWS = 2  # times d + 1: rows on the rarer side of a unit
MANY_VALUED = 1e-6  # smallest weight of a unit on inputs with more than two values
ORIENTATION_GAP = 25.0  # five standard errors, squared


def few_outputs_evidence(
    problem: Problem, network: TwoLayerNetwork, active: IntArray
) -> tuple[Evidence, ...]:
    """Return the conditions on sides and on values of the inputs, each naming its weakest unit.

    `active` says on how many rows each unit is on. The first line counts the rows on the rarer side of a unit, the
    second measures its weight on inputs with more than two values. Shapes: active (k,).
    """
    rarer = np.minimum(active, problem.n_samples - active)
    unit = int(np.argmin(rarer))
    sides = Evidence(
        f"samples on the rarer side of unit {unit + 1} (active in {active[unit]} of {problem.n_samples})",
        int(rarer[unit]),
        SIDE_ROWS * (problem.n_features + 1),
        ">=",
        "2(d + 1)",
        key=Check.RARER_SIDE,
    )
    lowest, highest = problem.X.min(axis=0), problem.X.max(axis=0)
    is_many_valued = ((lowest < problem.X) & (highest > problem.X)).any(axis=0)
    weight = np.linalg.norm(network.W[:, is_many_valued], axis=1)
    least = int(np.argmin(weight))
    values = Evidence(
        f"weight of unit {least + 1} on inputs with more than two values",
        float(weight[least]),
        MANY_VALUED,
        ">=",
        key=Check.CONTINUOUS_INPUTS,
    )
    return sides, values


def reproduced_rows(network: TwoLayerNetwork, tol: float) -> RowWeights:
    """Return weights that are one on rows a network reproduces and zero on those it misses."""

    def weights(start: int, X: Array, Y: Array) -> Array:
        return as_array((np.abs(Y - network(X)).max(axis=1) <= tol).astype(np.float64))

    return weights
