"""Further conditions on a network with fewer outputs than units.

With fewer outputs than units there is no column space that could be searched again, so two conditions take its place.
A unit with few rows on one side of its kink is distinguished from a linear function by these rows alone: with fewer
than `SIDE_ROWS` (d + 1) of them it is not identifiable. And if all inputs of a unit take two values only, the same
function is piecewise linear in many ways, so every unit must depend on an input with more values.
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array, IntArray, as_array
from planted.certificates.noise._fitted_rows import FittedRows
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
    "units_apart",
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


def units_apart(at: FittedRows) -> tuple[Evidence, ...]:
    """Count the samples on which one of two units is on and the other is off, for the two that are most alike.

    Where both are on, samples determine only the sum of the two; units that are mixed with one another give the same sum,
    so that few other samples decide between them, and to a large step in parameters the Jacobian is blind. Beside a linear
    part a unit is like one that is on where it is off.
    """
    network, on = at.network, (at.t > 0).astype(np.float64)
    if network.n_hidden < 2:
        return ()
    count = on.sum(axis=1)
    apart = count[:, None] + count - 2 * on @ on.T
    if network.B is not None:
        apart = np.minimum(apart, on.shape[1] - apart)
    first, second = np.triu_indices(network.n_hidden, 1)
    closest = int(np.argmin(apart[first, second]))
    i, j = first[closest] + 1, second[closest] + 1
    return (
        Evidence(
            f"samples on which one of the units {i} and {j} is on and the other off, the fewest of all pairs",
            int(apart[first, second][closest]),
            network.n_features + 2,
            ">=",
            "d + 2",
            key=Check.UNITS_APART,
        ),
    )


def reproduced_rows(network: TwoLayerNetwork, tol: float) -> RowWeights:
    """Return weights that are one on rows a network reproduces and zero on those it misses."""

    def weights(start: int, X: Array, Y: Array) -> Array:
        return as_array((np.abs(Y - network(X)).max(axis=1) <= tol).astype(np.float64))

    return weights
