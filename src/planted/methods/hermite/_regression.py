"""From units of unknown sign to a network with small squared error, and a bound on that error.

Algorithm 5 of [ATV21]_ (`printed`) regresses y on σ(t_i), σ(-t_i), x and 1, t_i = w_i'x + b_i, on rows that were not
used for the units. Here its function becomes a network: v₊σ(t) + v₋σ(-t) = (v₊ + v₋) σ(t) - v₋ t, so that each pair is
one unit, and the linear rest β₀(w₀'x + b₀) is two more (Claim D.14), k + 2 in all. With several outputs the linear rest
takes two units for each of its singular directions. The squared error on further rows gets a one-sided limit
(`_bound`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array
from planted.checks import Check
from planted.methods.hermite._bound import ErrorBound, bound_error
from planted.methods.hermite.printed import Units, regress_on_both_signs
from planted.networks import TwoLayerNetwork
from planted.results import Evidence
from planted.rows import RowBlocks

__all__ = ["Approximation", "approximate_function", "consolidate"]

NO_REST = 1e-10  # size of the linear rest, in output standard deviations, that is none


@dataclass(frozen=True, slots=True)
class Approximation:
    """A network close to the target in L2."""

    network: TwoLayerNetwork  # at most two units more than were given, for one output
    error: ErrorBound  # its squared error on rows that were not fitted
    linear_rest: float  # standard deviation of the linear rest
    truncated: float  # share of the fitted rows that the truncation left out

    def evidence(self, function: str = "the network") -> tuple[Evidence, ...]:
        """Return the numbers as lines of evidence."""
        rest = "standard deviation of the linear part beside the units, in output standard deviations"
        left_out = "share of rows that the truncated loss leaves out"
        return (
            *self.error.evidence(function),
            Evidence(rest, self.linear_rest, equation="Claim D.14", key=Check.LINEAR_REST),
            Evidence(left_out, self.truncated, equation="step 4", key=Check.TRUNCATED_ROWS),
        )


def approximate_function(
    fitted: RowBlocks,
    judged: RowBlocks,
    units: Units,
    n_unseen: int = 0,
    *,
    tau: float | None = None,
    radius: float | None = None,
) -> Approximation:
    """Run steps 3 and 4 of Algorithm 5 on some rows, consolidate, and judge the network on others."""
    found, k = regress_on_both_signs(units, fitted, tau=tau, radius=radius), len(units.W)
    network = consolidate(units.W, units.b, found.coefficients)
    rest = found.coefficients[:, 2 * k : -1] - found.coefficients[:, k : 2 * k] @ units.W
    error = bound_error(network, judged, network.A[:, :k], n_unseen)
    return Approximation(network, error, float(np.linalg.norm(rest)), found.truncated)


def consolidate(W: Array, b: Array, coefficients: Array) -> TwoLayerNetwork:
    """Merge pairs of opposite units and turn the linear rest into units, none if it vanishes (Claim D.14).

    Shapes: W (k, d), b (k,), coefficients (m, 2k + d + 1).
    """
    k = len(W)
    plus, minus = coefficients[:, :k], coefficients[:, k : 2 * k]
    linear = coefficients[:, 2 * k : -1] - minus @ W
    constant = coefficients[:, -1] - minus @ b
    left, values, right = linalg.svd(linear, full_matrices=False, check_finite=False)
    kept = values > NO_REST
    rows, outputs = right[kept], left[:, kept] * values[kept]
    biases = np.zeros(len(rows))
    if len(constant) == 1 and len(rows) == 1:  # the paper's w_0, b_0 carries the constant
        biases, constant = constant / outputs[0], np.zeros(1)
    return TwoLayerNetwork(
        np.vstack([W, rows, -rows]),
        np.concatenate([b, biases, -biases]),
        np.hstack([plus + minus, outputs, -outputs]),
        constant,
    )
