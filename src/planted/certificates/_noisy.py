"""The certificate for noisy data: see `planted.certificates`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from planted._typing import Array
from planted.certificates._exact import gap_evidence
from planted.certificates._few_outputs import units_apart
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
from planted.certificates.noise._close_units import ClosePairs
from planted.certificates.noise._faults import fault_evidence
from planted.certificates.noise._fitted_rows import FittedRows
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
DEARER_ANYWAY = (Check.HIDDEN_UNITS, Check.LOST_ROWS, Check.CHOSEN_ROWS, Check.UNCERTAIN_SIDES)
# Tests that say what noise may hide, and those of parameters that are not known well: more samples help both.
UNSEEN = (Check.CLOSE_UNITS, Check.HIDDEN_PAIRS, Check.HIDDEN_UNITS)
UNKNOWN = (Check.DIRECTION_ERROR, Check.SIZE_ERROR)
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
    claim = _Claim(problem, fit, offset, biases, weights)
    if not claim.count.passed or claim.info.variances is None:
        return claim.refused()
    if claim.noise == 0:
        text = "The network reproduces every label, so that there is no noise to measure a claim by."
        return Verdict(Outcome.FITTED, Guarantee.NONE, claim.first_lines, text, claim.model_doubt)
    net, at, noise = fit.network, claim.at, claim.noise
    how: dict[str, Any] = {"offset": offset, "biases": biases, "weights": weights}
    traces = _trace_evidence(residual_sums(problem, net, known=fit.sums, **how))
    missing = missing_unit_evidence(problem, fit, noise=noise, at=at, **how)
    strengths, direction = _unit_strengths(net, claim.info, noise)
    hidden_pairs = resolution_evidence(problem, net, noise=noise, biases=biases, at=at)
    law = noise_law(problem, net, weights=weights, at=at)
    doubt = standard_errors_under(law, problem, fit, known=claim.info, **how)
    steps = half_steps(problem, ordered=at.ordered_labels)
    doubt = with_half_step(doubt, problem, net, steps, offset=offset, biases=biases)
    residual = at.residual.T
    checks = [
        claim.enough,
        claim.rank,
        *claim.sides,
        *units_apart(at),
        *gap_evidence(net, at.t),
        *traces,
        *missing,
        needless_unit_evidence(problem, fit, strengths, noise=noise, **how),
        bend_evidence(problem, net, noise=noise, weights=weights, at=at),
        hidden_pairs,
        _tails(residual),
        *_known_units(problem, net, doubt, direction),
        *fault_evidence(at, law),
    ]
    if _asks_for_more(checks):
        checks += input_trace_evidence(problem.X, residual)
        checks += near_model_evidence(problem, fit, law, doubt, at=at, **how)
    if _asks_for_more(checks):  # the dearest test
        rivals = smooth_rival_evidence(problem, net, noise=noise, **how)
        checks += (*rivals, *_rounded_by_noise(law, rivals))
    pairs = None
    if _asks_for_more(checks, *UNSEEN, *UNKNOWN):
        pairs = ClosePairs.of(problem, fit, at, noise=noise, offset=offset, biases=biases)
        checks += pairs.evidence
    return _verdict(claim, checks, pairs, doubt, further)


@dataclass(frozen=True)
class _Claim:
    """A network that is to be judged, with what is known of it before any test of its residual."""

    problem: Problem
    fit: Refinement
    offset: bool
    biases: bool
    weights: RowWeights | None

    @cached_property
    def at(self) -> FittedRows:
        """The network at the rows in memory."""
        return FittedRows(self.problem, self.fit.network, self.weights)

    @property
    def unknowns(self) -> int:
        return degrees_of_freedom(self.fit.network, offset=self.offset, biases=self.biases)

    @property
    def equations(self) -> int:
        return self.at.activity.n_samples * self.fit.network.n_outputs

    @cached_property
    def noise(self) -> float:
        """Standard deviation of the residual, with the unknowns accounted for."""
        return float(np.sqrt(self.fit.cost / (self.equations - self.unknowns)))

    @cached_property
    def info(self) -> Information:
        """What the rows say about the parameters."""
        return information(self.fit.sums, self.fit.network, offset=self.offset, biases=self.biases)

    @cached_property
    def count(self) -> Evidence:
        twice = 2 * self.unknowns
        return Evidence("equations", self.equations, twice, ">=", "twice the unknowns", key=Check.EQUATIONS)

    @cached_property
    def enough(self) -> Evidence:
        floor = MIN_NOISY_ROWS + 5 * self.unknowns / self.fit.network.n_outputs
        n = self.at.activity.n_samples
        return Evidence("samples", n, floor, ">=", "40 + 5 unknowns / m", key=Check.SAMPLES)

    @cached_property
    def rank(self) -> Evidence:
        """The line on the Jacobian, with the columns of biases also where a method looks for none.

        Inputs of few values do not tell a bias from a weight.
        """
        info, sums, network = self.info, self.fit.sums, self.fit.network
        loosest = info if self.biases else information(sums, network, offset=self.offset)
        name, value = (
            "smallest relative singular value of the Jacobian",
            min(info.conditioning, loosest.conditioning),
        )
        return Evidence(name, value, CONDITIONING_TOL, ">=", key=Check.JACOBIAN)

    @cached_property
    def sides(self) -> tuple[Evidence, Evidence]:
        return both_sides(self.fit.network, self.at.activity)

    @property
    def first_lines(self) -> tuple[Evidence, ...]:
        """What is said of a network whose residual is not tested."""
        return self.count, self.rank, *self.sides

    @property
    def model_doubt(self) -> Uncertainty | Unavailable:
        """Standard errors for noise of one variance."""
        return model_uncertainty(self.problem, self.fit, self.offset, self.biases, self.info)

    def refused(self) -> Verdict:
        """Return the verdict on a network that the samples do not determine."""
        named = named_failure(self.at.activity, self.info, self.rank, *self.sides)
        few = (Outcome.NOT_IDENTIFIABLE, f"{self.equations} equations for {self.unknowns} unknowns.")
        outcome, text = named or few
        outcome = outcome if self.count.passed else Outcome.TOO_FEW_SAMPLES
        return Verdict(outcome, Guarantee.NONE, self.first_lines, text, self.model_doubt)


def _asks_for_more(checks: Sequence[Evidence], *others: Check) -> bool:
    """Return whether nothing failed so far whose cause is plain; `others`: tests that may have failed as well."""
    return all(item.passed or item.key in (*DEARER_ANYWAY, *others) for item in checks)


def _verdict(
    claim: _Claim,
    checks: Sequence[Evidence],
    pairs: ClosePairs | None,
    doubt: Uncertainty | Unavailable,
    further: Sequence[Evidence],
) -> Verdict:
    """Return what the lines of evidence amount to; `pairs`: close units in place of one, if they were asked for."""
    net, noise = claim.fit.network, claim.noise
    level = Evidence(
        "residual standard deviation, in output standard deviations", noise, key=Check.NOISE_LEVEL
    )
    evidence = (claim.count, *checks, *further)
    failed = [item for item in checks if not item.passed]
    if failed:
        text = _why_doubted(claim, failed, pairs)
        return Verdict(Outcome.FITTED, Guarantee.HEURISTIC, (level, *evidence), text, doubt)
    if first_failure(further):
        text = first_failure(further)
        return Verdict(Outcome.NOT_IDENTIFIABLE, Guarantee.NONE, (level, *evidence), text, doubt)
    text = f"The residual ({noise:.2g} output standard deviations) carries no trace of x; see the standard errors."
    these = "this one" if net.n_hidden == 1 else "one of these"
    if pairs is not None:
        text += f" Two units with like output weights within {pairs.hidden_angle:.2g} radians may look like {these}."
    if net.B is not None:
        text += " Inputs are taken to be exact: errors in a column that acts linearly shrink its weights without a trace."
    said = (level, _error_bound(noise, claim.unknowns, claim.equations), _scope(net))
    return Verdict(Outcome.RECOVERED, Guarantee.ASYMPTOTIC, (*said, *evidence), text, doubt)


def _why_doubted(claim: _Claim, failed: Sequence[Evidence], pairs: ClosePairs | None) -> str:
    """Say why a network is only a fit: what failed, or how much more it takes to see what may be hidden."""
    unseen = [item for item in failed if item.key in UNSEEN]
    if not unseen or any(item.key not in (*UNSEEN, *UNKNOWN) for item in failed):
        return "; ".join(item.shortfall for item in failed) + "."
    k = claim.fit.network.n_hidden
    these = "this unit" if k == 1 else f"these {k} units"
    text = f"Nothing in the residual speaks against {these}, but at this noise "
    needed = [
        claim.problem.n_samples * pairs.samples_needed
        if line.key is Check.CLOSE_UNITS and pairs
        else samples_that_resolve(claim.problem, line, biases=claim.biases)
        for line in unseen
        if line.key is not Check.HIDDEN_UNITS
    ]
    if needed and pairs:
        return text + (
            f"two units with like output weights within {pairs.hidden_angle:.2g} radians may look like one. More samples "
            f"or less noise tell them apart. About {max(needed):.2g} samples are needed."
        )
    return text + (
        f"{100 * unseen[0].measured:.2g} % of further units half as strong would not be seen. "
        "More samples show them."
    )


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
    bound = float(noise**2 * special.chdtri(unknowns, 0.05) / equations)
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
