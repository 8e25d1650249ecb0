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
from planted.results import Evidence, Unavailable, Uncertainty

__all__ = ["CONDITIONING_TOL", "both_sides", "first_failure", "model_uncertainty", "named_failure"]

# Relative singular value of the Jacobian; rounding leaves about 1e-8 for a singular one.
CONDITIONING_TOL = 1e-6


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
    network: TwoLayerNetwork, rows: RowChecks, info: Information, checks: tuple[Evidence, ...]
) -> str:
    """Return a sentence naming the unit at fault, or nothing if all checks hold."""
    rank, on, off, *search = checks
    if not on.passed:
        unit = int(np.argmin(rows.active))
        seen = f"{rows.active[unit]} of {rows.n_samples} samples"
        return f"Unit {unit} was active in {seen}; {on.required:.0f} are needed."
    if not off.passed:
        unit = int(np.argmax(rows.active))
        idle = rows.n_samples - rows.active[unit]
        return (
            f"Unit {unit} was inactive in {idle} of {rows.n_samples} samples ({off.required:.0f} are needed): "
            "it cannot be told from a linear part."
        )
    if not rank.passed:
        return (
            f"The samples leave a direction of unit {info.weakest_unit} undetermined: relative singular value "
            f"{info.conditioning:.1e}, needed {rank.required:.0e}."
        )
    if search and not search[0].passed:
        return f"{search[0].measured:.0f} further unit(s) explain the same samples equally well."
    return ""


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
