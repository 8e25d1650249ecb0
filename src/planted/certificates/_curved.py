r"""Certificates for networks whose activation has no kinks: without noise, and with noise.

Problem     A network of curved units fits the samples. May it be called the planted one?
Idea        *Without noise.* Analytic activations leave no freedom but the order and orientation of units [Sussmann1992]_,
            [Albertini1993]_, if the network has no unit to spare. So every sample must be reproduced to rounding, each
            output on its own scale; there must be more equations than unknowns on nine tenths of the distinct samples; the
            Jacobian on them must have full rank, with a margin for which the nearest solution is the only one nearby; and
            searches from other starts must end at the same network or fail. What a sample does not show is a unit that is
            linear on all of them (|t| small, it can be traded for a linear part) or constant (|t| large): such units are
            named with the numbers

                part of the unit's variance that is not linear in t,      largest slope over the steepest one.      (1)

            *With noise.* Least squares is the maximum-likelihood estimate. The residual must carry no trace of x (F test
            with functions of x), the tests of the noise's law choose the standard errors, a renewed search must end at the
            same optimum, one more unit must not be worth its unknowns, and no other activation with as many units may
            explain the samples as well: two that do cannot be told apart, and then nothing is claimed. Nor is anything
            claimed of a width that noisy samples chose. Smooth units stand for one another far better than kinks do: of
            tanh networks with 5 inputs and 4 units, 360 samples and noise of a tenth, six of eight are fitted to the noise
            by fewer units.
Guarantee   The claim is about networks of this width and activation. The searches are evidence, since they may miss a rival.
References  [Albertini1993]_, [Sussmann1992]_
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import linalg, stats

from planted._typing import Array, as_array
from planted.certificates._near_models import near_model_evidence
from planted.certificates._parts import CONDITIONING_TOL, SINGULAR, model_uncertainty, reproduces_rows
from planted.certificates._residual import input_trace_evidence, lack_of_fit, residual_sums
from planted.certificates.noise._faults import fault_evidence
from planted.certificates.noise._fitted_rows import FittedRows
from planted.certificates.noise._law import noise_law, standard_errors_under
from planted.checks import Check
from planted.fitting._jacobian import degrees_of_freedom, information, jacobian_conditioning, rounding_level
from planted.fitting._refine import Refinement
from planted.fitting._run import Problem
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Verdict
from planted.rows import RowWeights

__all__ = ["certify_curved_exactly", "certify_curved_noisily", "unit_shapes"]

FIT_PART = 0.9
# An error u of the outputs moves parameters by u / σ, and the Jacobian by as much (Newton-Kantorovich; as for kinks).
KANTOROVICH = 10.0
WEAKEST_UNIT = 1e-7  # part of an output's standard deviation that a unit must make
LEAST_BEND = 1e-10  # part of a unit's variance that is not linear in t: a bend of 1e-5, which rounding determines to 1e-11
LEAST_SLOPE = 1e-6  # largest slope on the samples, in units of the steepest
SIGNIFICANCE = 0.02  # of the test for traces of x in the residual
MIN_NOISY_ROWS = 40
RELATIVE_ERROR = 0.25  # largest standard error of a unit's weights, relative to their size


def unit_shapes(problem: Problem, network: TwoLayerNetwork) -> tuple[Array, Array]:
    """Return the two numbers (1) for every unit; an activation without a steepest slope has the second one."""
    t = network.preactivations(problem.X)
    values, slopes = network.activation(t), np.abs(network.activation.derivative(t))
    bends = np.zeros(network.n_hidden)
    for j in range(network.n_hidden):
        columns = np.column_stack([np.ones(len(t)), t[:, j] - t[:, j].mean()])
        left = values[:, j] - columns @ linalg.lstsq(columns, values[:, j], check_finite=False)[0]
        spread = values[:, j].var()
        bends[j] = (left**2).mean() / spread if spread > 0 else 0.0
    steepest = network.activation.steepest
    return bends, as_array(slopes.max(axis=0) / (steepest if np.isfinite(steepest) else slopes.max()))


def _shape_evidence(problem: Problem, network: TwoLayerNetwork) -> tuple[Evidence, Evidence]:
    bends, slopes = unit_shapes(problem, network)
    straight, flat = int(np.argmin(bends)), int(np.argmin(slopes))
    return (
        Evidence(
            f"part of the variance of unit {straight + 1} on the samples that is not linear",
            float(bends[straight]),
            LEAST_BEND,
            ">=",
            key=Check.BEND,
        ),
        Evidence(
            f"largest slope of unit {flat + 1} on the samples, over the steepest",
            float(slopes[flat]),
            LEAST_SLOPE,
            ">=",
            key=Check.UNIT_ON,
        ),
    )


def _scope(network: TwoLayerNetwork) -> Evidence:
    name = f"units ({network.activation.name}) of the networks that the claim is about; wider ones are not excluded"
    return Evidence(name, network.n_hidden, key=Check.SCOPE)


def certify_curved_exactly(
    problem: Problem, fit: Refinement, *, offset: bool, rivals: int | None, searches: int
) -> Verdict:
    """Judge a network that claims to reproduce noiseless data.

    `rivals`: other networks of this width that renewed searches found, of which there were `searches`; None before they
    were made. The outcome FITTED means that samples are missed.
    """
    net = fit.network
    rows, grid = reproduces_rows(problem, net)
    distinct = np.unique(problem.X, axis=0, return_index=True)[1]
    chosen = problem.rng.permutation(distinct)[: int(np.ceil(FIT_PART * len(distinct)))]
    unknowns = degrees_of_freedom(net, offset=offset)
    need = max(rounding_level(net, problem.scaling), KANTOROVICH * float(np.sqrt(rows.noise)))
    local = jacobian_conditioning(problem.X[chosen], net, offset=offset, need=need)
    where = "" if grid.is_double else f"labels of {grid.name}"
    exact = Evidence(
        "largest residual of a sample, over what rounding may leave of it",
        float(rows.excess.max()),
        1.0,
        "<=",
        where,
        key=Check.RESIDUAL,
    )
    count = Evidence(
        f"equations from {len(chosen)} of the distinct samples",
        len(chosen) * net.n_outputs,
        unknowns + 1,
        ">=",
        "unknowns + 1",
        key=Check.EQUATIONS,
    )
    rank = Evidence(
        "smallest relative singular value of the Jacobian on them",
        local.conditioning,
        need,
        ">=",
        "rounding",
        key=Check.JACOBIAN,
    )
    shapes = _shape_evidence(problem, net)
    search = () if rivals is None else (_rival_line(rivals, searches),)
    evidence = (exact, count, rank, *shapes, _weakest(problem, net, rows.noise), *search, _scope(net))
    doubt = model_uncertainty(problem, fit, offset, True)
    outcome, text = _exact_outcome(evidence, local.conditioning, local.weakest_unit, unknowns)
    if outcome is Outcome.RECOVERED:
        text = (
            f"All {rows.n_samples} samples are reproduced to {rows.largest_residual:.1e} output standard deviations; "
            f"locally unique among networks of {net.n_hidden} {net.activation.name} units"
            + (f", and {searches} renewed search(es) found no other." if rivals is not None else ".")
        )
        guarantee = Guarantee.EXACT if grid.is_double else Guarantee.ASYMPTOTIC
        return Verdict(outcome, guarantee, evidence, text, doubt)
    return Verdict(outcome, Guarantee.NONE, evidence, text, doubt)


def _rival_line(rivals: int, searches: int) -> Evidence:
    name = f"other networks of this width that {searches} renewed search(es) found"
    return Evidence(name, rivals, 0, "==", key=Check.RIVAL_UNITS)


def _weakest(problem: Problem, network: TwoLayerNetwork, noise: float) -> Evidence:
    """Return the smallest part that a unit has in the outputs: at rounding error its weights mean nothing."""
    spread = network.activation(network.preactivations(problem.X)).std(axis=0)
    sizes = np.linalg.norm(network.A, axis=0) * spread
    unit = int(np.argmin(sizes))
    name = f"part of unit {unit + 1} in the outputs, in output standard deviations"
    return Evidence(name, float(sizes[unit]), max(WEAKEST_UNIT, 100 * noise), ">=", key=Check.WEAKEST_UNIT)


def _exact_outcome(
    lines: Sequence[Evidence], conditioning: float, weakest: int, unknowns: int
) -> tuple[Outcome, str]:
    """Return the outcome, with a sentence on the first line that fails."""
    failed = {line.key: line for line in reversed(lines) if not line.passed}
    if Check.RESIDUAL in failed:
        return Outcome.FITTED, f"{failed[Check.RESIDUAL].shortfall}."
    if Check.EQUATIONS in failed:
        line = failed[Check.EQUATIONS]
        text = f"{line.measured:.0f} equations cannot determine {unknowns} unknowns with redundancy."
        return Outcome.TOO_FEW_SAMPLES, text
    if Check.JACOBIAN in failed:
        line = failed[Check.JACOBIAN]
        text = (
            f"The samples leave a direction of unit {weakest + 1} undetermined: relative singular value {conditioning:.1e}, "
            f"needed {line.required:.1e}."
        )
        others = [failed[key] for key in (Check.BEND, Check.UNIT_ON) if key in failed]
        text += "".join(f" {other.shortfall}." for other in others)
        return (Outcome.NOT_IDENTIFIABLE if conditioning <= SINGULAR else Outcome.ILL_CONDITIONED), text
    if failed:
        return Outcome.NOT_IDENTIFIABLE, f"{next(iter(failed.values())).shortfall}."
    return Outcome.RECOVERED, ""


def certify_curved_noisily(
    problem: Problem,
    fit: Refinement,
    *,
    offset: bool,
    weights: RowWeights | None,
    further: Sequence[Evidence],
    extra_unknowns: int = 0,
) -> Verdict:
    """Judge a network fitted to noisy data.

    `further`: lines of the search, on its other starts, on one more unit and on other activations. `extra_unknowns`: such as
    the slope of leaky units.
    """
    net = fit.network
    n, m = problem.n_samples, net.n_outputs
    unknowns = degrees_of_freedom(net, offset=offset) + extra_unknowns
    count = Evidence("equations", n * m, 2 * unknowns, ">=", "twice the unknowns", key=Check.EQUATIONS)
    floor = MIN_NOISY_ROWS + 5 * unknowns / m
    enough = Evidence("samples", n, floor, ">=", "40 + 5 unknowns / m", key=Check.SAMPLES)
    info = information(fit.sums, net, offset=offset)
    rank = Evidence(
        "smallest relative singular value of the Jacobian",
        info.conditioning,
        CONDITIONING_TOL,
        ">=",
        key=Check.JACOBIAN,
    )
    if not count.passed or info.variances is None:
        outcome = Outcome.NOT_IDENTIFIABLE if count.passed else Outcome.TOO_FEW_SAMPLES
        text = f"The samples leave a direction of unit {info.weakest_unit + 1} undetermined."
        text = text if count.passed else f"{n * m} equations for {unknowns} unknowns."
        doubt = model_uncertainty(problem, fit, offset, True)
        return Verdict(outcome, Guarantee.NONE, (count, rank), text, doubt)
    noise = float(np.sqrt(fit.cost / (n * m - unknowns)))
    p_value, tested = lack_of_fit(residual_sums(problem, net, offset=offset, weights=weights))
    trace = Evidence(
        "p-value of the test for traces of x in the residual",
        p_value if tested else 0.0,
        SIGNIFICANCE,
        ">=",
        "F test",
        key=Check.LACK_OF_FIT,
    )
    errors = noise * np.sqrt(info.variances["W"].sum(axis=1)) / np.linalg.norm(net.W, axis=1)
    unit = int(np.argmax(errors))
    direction = Evidence(
        f"standard error of the weights of unit {unit + 1}, relative to their size",
        float(errors[unit]),
        RELATIVE_ERROR,
        "<=",
        key=Check.DIRECTION_ERROR,
    )
    law = noise_law(problem, net, weights=weights)
    doubt = standard_errors_under(law, problem, fit, offset=offset, biases=True, weights=weights)
    at = FittedRows(problem, net, weights)
    checks = (enough, rank, trace, direction, *fault_evidence(at, law), *further)
    if all(item.passed for item in checks):
        near = near_model_evidence(problem, fit, law, doubt, offset=offset, weights=weights, at=at)
        checks = (*checks, *input_trace_evidence(problem.X, at.residual.T), *near)
    level = Evidence(
        "residual standard deviation, in output standard deviations", noise, key=Check.NOISE_LEVEL
    )
    evidence = (level, _scope(net), count, *checks, *_shape_evidence(problem, net))
    failed = [line for line in checks if not line.passed]
    if failed:
        text = "; ".join(line.shortfall for line in failed) + "."
        return Verdict(Outcome.FITTED, Guarantee.HEURISTIC, evidence, text, doubt)
    bound = float(noise**2 * stats.chi2.ppf(0.95, unknowns) / (n * m))
    name = "95 % upper bound on the network's mean squared error, in output variances"
    known = Evidence(name, bound, equation="normal noise of one variance", key=Check.ERROR_BOUND)
    text = f"The residual ({noise:.2g} output standard deviations) carries no trace of x; see the standard errors."
    return Verdict(Outcome.RECOVERED, Guarantee.ASYMPTOTIC, (known, *evidence), text, doubt)
