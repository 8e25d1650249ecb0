"""The certificate for noisy data: see `planted.certificates`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from planted._typing import Array
from planted.certificates._fitted_rows import FittedRows
from planted.certificates._missing_unit import missing_unit_evidence
from planted.certificates._near_models import near_model_evidence
from planted.certificates._parts import (
    CONDITIONING_TOL,
    both_sides,
    first_failure,
    model_uncertainty,
    named_failure,
)
from planted.certificates._residual import (
    SPLIT_NAME,
    ResidualSums,
    input_trace_evidence,
    lack_of_fit,
    residual_sums,
    split_unit_p_value,
)
from planted.certificates._resolution import resolution_evidence, samples_that_resolve
from planted.certificates._smooth_rivals import smooth_rival_evidence
from planted.certificates._unit_count import bend_evidence, needless_unit_evidence
from planted.certificates.noise._faults import fault_evidence
from planted.certificates.noise._labels import medians
from planted.certificates.noise._law import NoiseLaw, noise_law, standard_errors_under
from planted.certificates.noise._rounding import half_steps, with_half_step
from planted.checks import Check
from planted.fitting._jacobian import Information, degrees_of_freedom, information
from planted.fitting._refine import Refinement
from planted.fitting._run import Problem
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Unavailable, Uncertainty, Verdict
from planted.rows import RowWeights

__all__ = ["certify_noisy"]

SIGNIFICANCE = 0.02  # of the lack-of-fit test: one correct network in fifty is doubted
SPLIT_LEVEL = 0.01  # of the test for units that are two
MIN_NOISY_ROWS = 40
# Tests whose failure may have a cause that a dearer one names.
DEARER_ANYWAY = (Check.HIDDEN_UNITS, Check.LOST_ROWS, Check.UNCERTAIN_SIDES)
# Below, standard errors of least squares mean little: t with 3 degrees of freedom gives 0.44.
HEAVY_TAILS = 0.3
# Largest standard errors of a unit's direction (radians) and of its size, relative to it, at which first-order errors are
# good. Nearly collinear inputs with larger ones left up to half of the parameters outside their intervals; three in a
# hundred ordinary problems have larger ones.
DIRECTION_ERROR, SIZE_ERROR = 0.12, 0.15


def certify_noisy(
    problem: Problem,
    fit: Refinement,
    *,
    offset: bool,
    biases: bool = True,
    weights: RowWeights | None = None,
    further: Sequence[Evidence] = (),
) -> Verdict:
    """Judge a network fitted to noisy data.

    `weights`: weights with which the network was fitted: the noise of a row has variance inverse to its weight.
    `further`: conditions of the method's own; the first that fails is named as the reason why the network is not
    identifiable. Returns RECOVERED (asymptotic), FITTED, or a refusal.
    """
    net = fit.network
    at = FittedRows(problem, net, weights)
    rows = at.activity
    unknowns = degrees_of_freedom(net, offset=offset, biases=biases)
    equations = rows.n_samples * net.n_outputs
    count = Evidence("equations", equations, 2 * unknowns, ">=", "twice the unknowns", key=Check.EQUATIONS)
    floor = MIN_NOISY_ROWS + 5 * unknowns / net.n_outputs
    enough = Evidence("samples", rows.n_samples, floor, ">=", "40 + 5 unknowns / m", key=Check.SAMPLES)
    info = information(fit.sums, net, offset=offset, biases=biases)
    # Inputs of few values do not tell a bias from a weight, also where a method looks for no biases.
    loosest = info if biases else information(fit.sums, net, offset=offset)
    rank = Evidence(
        "smallest relative singular value of the Jacobian",
        min(info.conditioning, loosest.conditioning),
        CONDITIONING_TOL,
        ">=",
        key=Check.JACOBIAN,
    )
    sides = both_sides(net, rows)
    if not count.passed or info.variances is None:
        failure = named_failure(rows, info, rank, *sides)
        outcome, text = failure or (
            Outcome.NOT_IDENTIFIABLE,
            f"{equations} equations for {unknowns} unknowns.",
        )
        outcome = outcome if count.passed else Outcome.TOO_FEW_SAMPLES
        doubt = model_uncertainty(problem, fit, offset, biases, info)
        return Verdict(outcome, Guarantee.NONE, (count, rank, *sides), text, doubt)
    noise = float(np.sqrt(fit.cost / (equations - unknowns)))
    if noise == 0:
        text = "The network reproduces every label, so that there is no noise to measure a claim by."
        doubt = model_uncertainty(problem, fit, offset, biases, info)
        return Verdict(Outcome.FITTED, Guarantee.NONE, (count, rank, *sides), text, doubt)
    residual = at.residual.T
    traces = _trace_evidence(
        residual_sums(problem, net, offset=offset, biases=biases, weights=weights, known=fit.sums)
    )
    missing = missing_unit_evidence(problem, fit, offset=offset, noise=noise, biases=biases, weights=weights)
    strengths, direction = _unit_strengths(net, info, noise)
    needed = needless_unit_evidence(
        problem, fit, strengths, offset=offset, noise=noise, biases=biases, weights=weights
    )
    bends = bend_evidence(problem, net, noise=noise, weights=weights, at=at)
    angle, hidden = resolution_evidence(problem, net, noise=noise, biases=biases, at=at)
    law = noise_law(problem, net, weights=weights, at=at)
    doubt = standard_errors_under(
        law, problem, fit, offset=offset, biases=biases, weights=weights, known=info
    )
    doubt = with_half_step(
        doubt, problem, net, half_steps(problem, ordered=at.ordered_labels), offset=offset, biases=biases
    )
    known = _known_units(problem, net, doubt, direction)
    checks = (enough, rank, *sides, *traces, *missing, needed, bends, hidden, _tails(residual), *known)
    checks = (*checks, *fault_evidence(at, law))
    if all(item.passed or item.key in DEARER_ANYWAY for item in checks):
        near = near_model_evidence(
            problem, fit, law, doubt, offset=offset, biases=biases, weights=weights, at=at
        )
        checks = (*checks, *input_trace_evidence(problem.X, residual), *near)
    if all(item.passed or item.key in DEARER_ANYWAY for item in checks):  # the dearest test comes last
        rivals = smooth_rival_evidence(
            problem, net, offset=offset, noise=noise, biases=biases, weights=weights
        )
        checks = (*checks, *rivals, *_rounded_by_noise(law, rivals))
    level = Evidence(
        "residual standard deviation, in output standard deviations", noise, key=Check.NOISE_LEVEL
    )
    evidence = (angle, count, *checks, *further)
    failed = [item for item in checks if not item.passed]
    if failed:
        text = "; ".join(item.shortfall for item in failed) + "."
        unseen = [item for item in failed if item is hidden or item.key is Check.HIDDEN_UNITS]
        if unseen and all(item in (*unseen, *known) for item in failed):
            these = "this unit" if net.n_hidden == 1 else f"these {net.n_hidden} units"
            text = f"Nothing in the residual speaks against {these}, but at this noise "
            if hidden in unseen:
                text += (
                    f"two units within {angle.measured:.2g} radians may look like one. More samples tell them apart. About "
                    f"{samples_that_resolve(problem, hidden, biases=biases):.2g} are needed."
                )
            else:
                text += (
                    f"{100 * unseen[0].measured:.2g} % of further units half as strong would not be seen. "
                    "More samples show them."
                )
        return Verdict(Outcome.FITTED, Guarantee.HEURISTIC, (level, *evidence), text, doubt)
    if first_failure(further):
        text = first_failure(further)
        return Verdict(Outcome.NOT_IDENTIFIABLE, Guarantee.NONE, (level, *evidence), text, doubt)
    text = f"The residual ({noise:.2g} output standard deviations) carries no trace of x; see the standard errors."
    if net.n_hidden == 1:
        text += (
            f" Two units with like output weights within {angle.measured:.2g} radians may look like this one."
        )
    said = (level, _error_bound(noise, unknowns, equations), _scope(net))
    return Verdict(Outcome.RECOVERED, Guarantee.ASYMPTOTIC, (*said, *evidence), text, doubt)


def _rounded_by_noise(law: NoiseLaw, rivals: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Ask for both traces of noise on the inputs together: a variance that rises with the slopes, and rounded kinks.

    If the kinks are sharp, the square of a score and a fall of the sum of squares both have the tails of a χ². Without a
    fall this is the test of the score alone.
    """
    falls = [line.measured for line in rivals if line.key is Check.ROUNDED_KINKS]
    name = "rise of the noise's variance with the slopes, squared, and fall of the sum of squares with rounded kinks"
    return tuple(
        Evidence(
            name,
            max(law.gradient_score, 0.0) ** 2 + fall,
            law.gradient_limit**2,
            "<=",
            "noise on the inputs",
            key=Check.NOISY_INPUTS,
        )
        for fall in falls
    )


def _scope(network: TwoLayerNetwork) -> Evidence:
    """Say which networks the claim is about: no finite sample excludes wider ones that differ little (arXiv 2503.12744)."""
    name = f"units ({network.activation.name}) of the networks that the claim is about; wider ones are not excluded"
    return Evidence(name, network.n_hidden, key=Check.SCOPE)


def _error_bound(noise: float, unknowns: int, equations: int) -> Evidence:
    """Bound the error that noise causes on these samples, if no unit is missing."""
    bound = float(noise**2 * stats.chi2.ppf(0.95, unknowns) / equations)
    name = "95 % upper bound on the network's mean squared error, in output variances"
    return Evidence(name, bound, equation="normal noise of one variance", key=Check.ERROR_BOUND)


def _tails(residual: Array) -> Evidence:
    """Compare the median absolute residual with the root mean square: 0.67 for normal noise, 0 for gross errors."""
    level = np.sqrt((residual**2).mean())
    ratio = float(medians(np.abs(residual).reshape(1, -1))[0] / level) if level > 0 else 0.0
    return Evidence(
        "median absolute residual over its standard deviation", ratio, HEAVY_TAILS, ">=", key=Check.TAILS
    )


def _unit_strengths(network: TwoLayerNetwork, info: Information, noise: float) -> tuple[Array, float]:
    """Return the output weights of units in standard errors, and the largest error of a direction."""
    assert info.variances is not None
    sigmas = np.sqrt((network.A**2 / (noise**2 * info.variances["A"] + np.finfo(float).tiny)).sum(axis=0))
    return sigmas, float(noise * np.sqrt(info.variances["W"].sum(axis=1)).max())


def _known_units(
    problem: Problem, network: TwoLayerNetwork, doubt: Uncertainty | Unavailable, direction: float
) -> tuple[Evidence, ...]:
    """Return the lines on the largest errors of a unit's direction and of its size.

    Standard errors are first-order. In a unit whose weights are lost in the noise along one direction, the noise takes
    the place of the weights: the direction found is the wrong one, with a small error, and only the error of the size
    is as large as the size. Both are therefore limited, in the user's units as well, where inputs of small spread
    may have weights of large error.
    """
    name, size = "largest standard error of a unit's direction (radians)", None
    if isinstance(doubt, Uncertainty):
        errors, A = doubt.standard_errors, problem.scaling.restore(network).A
        given = float(np.linalg.norm(errors["W"], axis=1).max())
        if given > direction:
            name, direction = f"{name}, in the units of the inputs", given
        relative = (errors["A"] / np.maximum(np.abs(A), np.finfo(float).tiny)).min(axis=0)
        size = Evidence(
            "largest relative standard error of a unit's size",
            float(relative.max()),
            SIZE_ERROR,
            "<=",
            key=Check.SIZE_ERROR,
        )
    line = Evidence(name, direction, DIRECTION_ERROR, "<=", key=Check.DIRECTION_ERROR)
    return (line,) if size is None else (line, size)


def _trace_evidence(sums: ResidualSums) -> tuple[Evidence, ...]:
    """Return the p-values of the tests for traces of x in the residual."""
    p_value, tested = lack_of_fit(sums)
    if not tested:
        return (
            Evidence(
                "functions of x left to test the residual with", 0, 1, ">=", "F test", key=Check.LACK_OF_FIT
            ),
        )
    anything = Evidence(
        "p-value of the test for traces of x in the residual",
        p_value,
        SIGNIFICANCE,
        ">=",
        "F test",
        key=Check.LACK_OF_FIT,
    )
    p_value, unit = split_unit_p_value(sums)
    if unit < 0:
        return (anything,)
    return anything, Evidence(
        SPLIT_NAME, p_value, SPLIT_LEVEL, ">=", f"largest root, unit {unit + 1}", key=Check.SPLIT_UNIT
    )
