"""What the exact and the noisy certificate share: checks of single units, reasons for failure, standard errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planted.checks import Check
from planted.fitting._problem import Problem
from planted.fitting._refine import Refinement
from planted.fitting._standard_errors import Information, degrees_of_freedom, information
from planted.moments import RowChecks
from planted.networks import TwoLayerNetwork
from planted.outcomes import Outcome
from planted.results import Evidence, Unavailable, Uncertainty

__all__ = [
    "CONDITIONING_TOL",
    "UNDETERMINED",
    "both_sides",
    "first_failure",
    "model_uncertainty",
    "named_failure",
]

# Relative singular value of the Jacobian that is needed, and what rounding leaves of a singular one. What lies between is
# too close to zero to tell signal from rounding.
CONDITIONING_TOL = 1e-6
SINGULAR = 1e-8
# The samples are reproduced, but they do not settle the network.
UNDETERMINED = (Outcome.NOT_IDENTIFIABLE, Outcome.ILL_CONDITIONED)


def both_sides(network: TwoLayerNetwork, rows: RowChecks) -> tuple[Evidence, Evidence]:
    """Every unit needs d + 2 samples where it is on and k + 1 where it is off."""
    on, off = rows.active, rows.n_samples - rows.active
    return (
        Evidence(
            "samples on which the rarest unit is on",
            int(on.min()),
            network.n_features + 2,
            ">=",
            "d + 2",
            key=Check.UNIT_ON,
        ),
        Evidence(
            "samples on which the most frequent unit is off",
            int(off.min()),
            network.n_hidden + 1,
            ">=",
            "k + 1",
            key=Check.UNIT_OFF,
        ),
    )


def named_failure(
    rows: RowChecks, info: Information, rank: Evidence, on: Evidence, off: Evidence, *search: Evidence
) -> tuple[Outcome, str] | None:
    """Return the outcome with a sentence that names the unit at fault, or None if all checks hold.

    `on`, `off`: as `both_sides` returns them; `search`: the line on rival units, if they were searched for.
    """
    if not on.passed:
        unit = int(np.argmin(rows.active))
        seen = f"{rows.active[unit]} of {rows.n_samples} samples"
        return Outcome.NOT_IDENTIFIABLE, f"Unit {unit} was active in {seen}; {on.required:.0f} are needed."
    if not off.passed:
        unit = int(np.argmax(rows.active))
        idle = rows.n_samples - rows.active[unit]
        return (
            Outcome.NOT_IDENTIFIABLE,
            f"Unit {unit} was inactive in {idle} of {rows.n_samples} samples ({off.required:.0f} are needed): "
            "it cannot be told from a linear part.",
        )
    if not rank.passed:
        is_singular = info.conditioning <= SINGULAR
        return (
            Outcome.NOT_IDENTIFIABLE if is_singular else Outcome.ILL_CONDITIONED,
            f"The samples leave a direction of unit {info.weakest_unit} undetermined: relative singular value "
            f"{info.conditioning:.1e}, needed {rank.required:.0e}.",
        )
    for line in search:
        if not line.passed:
            text = f"{line.measured:.0f} further unit(s) explain the same samples equally well."
            return Outcome.NOT_IDENTIFIABLE, text
    return None


def first_failure(checks: Sequence[Evidence]) -> str:
    """Return a sentence on the first check that fails, or nothing."""
    for item in checks:
        if not item.passed:
            return f"{item.shortfall}."
    return ""


def model_uncertainty(
    problem: Problem, fit: Refinement, offset: bool, biases: bool
) -> Uncertainty | Unavailable:
    """Return the standard errors of a fit, for noise of one variance, in the user's units."""
    unknowns = degrees_of_freedom(fit.network, offset=offset, biases=biases)
    freedom = problem.n_samples * problem.n_outputs - unknowns
    if freedom <= 0:
        return Unavailable("There are no more equations than unknowns, so the noise cannot be estimated.")
    info = information(fit.sums, fit.network, offset=offset, biases=biases, units=problem.scaling)
    if info.variances is None:
        return Unavailable(f"The information matrix is singular along unit {info.weakest_unit}.")
    variance = fit.cost / freedom
    errors = {name: np.sqrt(variance * value) for name, value in info.variances.items()}
    return Uncertainty(errors, float(np.sqrt(variance)) * problem.scaling.y_scale)
