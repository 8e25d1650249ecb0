"""Judge what the answers of a black box show: the outcome, what is guaranteed, and the numbers behind both."""

from __future__ import annotations

from math import log

import numpy as np

from planted.checks import Check
from planted.identification._orientation import LARGEST_CHANCE
from planted.identification._search import N_CHECKS, Identification, Refusal
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Unavailable, Verdict

__all__ = ["judge", "judge_stop"]

CONFIDENCE = 0.99
ERRORS = 4.0  # standard errors in a bound
SHOWN = (Outcome.RECOVERED, Outcome.FITTED, Outcome.NOT_IDENTIFIABLE)  # outcomes that come with a network
# Evidence that holds whether or not units are still missing; the rest is about the whole network.
HOLDS_EARLY = (Check.FRESH_ANSWERS, Check.RESIDUAL, Check.CLOSE_BREAKS, Check.ROUNDING)

Judgement = tuple[Verdict, TwoLayerNetwork | None]


def judge(found: Identification | Refusal, *, queries: int, has_box: bool) -> Judgement:
    """Return the verdict on what a search has found, and the network if there is one to show.

    The outcome is RECOVERED only if every fresh answer matched the prediction and the orientation of every unit is
    settled.
    """
    if isinstance(found, Refusal):
        detail = f"The black box is no two-layer ReLU network: {found.reason}"
        asked = Evidence("questions asked", queries, key=Check.QUESTIONS)
        return Verdict.refusal(Outcome.ASSUMPTION_FAILED, detail, asked), None
    outcome, guarantee, detail = _decide(found, has_box=has_box)
    network = found.network.canonical() if outcome in SHOWN else None
    return Verdict(outcome, guarantee, _evidence(found, queries), detail, _no_noise(network)), network


def judge_stop(
    reason: str, latest: Identification | Refusal | None, *, queries: int, budget: int | None, has_box: bool
) -> Judgement:
    """Return the verdict on a search that was stopped, from what was known after the last line.

    A network is shown only if all fresh answers matched its prediction: then only the repeated questions at the end are
    missing.
    """
    if budget is None:
        asked = Evidence("questions asked", queries, key=Check.QUESTIONS)
    else:
        asked = Evidence("questions asked", queries, budget, "<=", "budget", key=Check.QUESTIONS)
    evidence: tuple[Evidence, ...] = (asked,)
    network = None
    if isinstance(latest, Identification):
        known, lines = latest.jumps.offsets.size, _evidence(latest, queries)
        evidence += (Evidence("hyperplanes found on a line and again elsewhere", known, key=Check.UNITS),)
        evidence += tuple(item for item in lines if latest.misfits == 0 or item.key in HOLDS_EARLY)
        is_shown = _decide(latest, has_box=has_box)[0] in SHOWN
        network = latest.network.canonical() if is_shown else None
    detail = f"Stopped: {reason}; {queries} questions were asked. {_describe_progress(latest)}"
    return Verdict(Outcome.STOPPED_EARLY, Guarantee.NONE, evidence, detail, _no_noise(network)), network


def _no_noise(network: TwoLayerNetwork | None) -> Unavailable:
    """Say why there are no standard errors."""
    if network is None:
        return Unavailable("There is no network.")
    return Unavailable("The answers carry no noise; the evidence bounds the effect of their rounding.")


def _describe_progress(latest: Identification | Refusal | None) -> str:
    """Say in a sentence what is certain about a black box whose search was stopped."""
    if latest is None:
        return "No hyperplane is certain yet."
    unchecked = "That the oracle still answers as it did at the start was not checked."
    if isinstance(latest, Refusal):
        return f"The search had ended without a network: {latest.reason.rstrip('.')}. {unchecked}"
    known = f"Hyperplanes that are certain, each found on a line and again elsewhere: {latest.jumps.offsets.size}."
    if latest.misfits:
        return f"{known} Units are missing: {latest.misfits} of {N_CHECKS} fresh answers did not match the prediction."
    return f"{known} All {N_CHECKS} fresh answers matched the prediction. {unchecked}"


def _decide(found: Identification, *, has_box: bool) -> tuple[Outcome, Guarantee, str]:
    """Return the outcome, the guarantee and the reason in a sentence."""
    shares, k = found.orientation.shares, found.jumps.offsets.size
    if found.misfits:
        detail = (
            f"After {found.n_lines} lines and {k} units, {found.misfits} of {N_CHECKS} fresh answers did not match the "
            "prediction. There may be units too close to each other to be told apart."
        )
        return Outcome.STOPPED_EARLY, Guarantee.NONE, detail
    if k == 0 and found.orientation.residual > 0:
        detail = "The black box is linear wherever it was asked: two units make that, at any place."
        return Outcome.NOT_IDENTIFIABLE, Guarantee.NONE, detail
    slope = _common_slope(found)
    if slope is not None and not has_box:
        detail = (
            f"All {k} units let a part of what is below zero through, as leaky-relu:{slope:.4g} does. The black box is no "
            "two-layer ReLU network of one unit per hyperplane."
        )
        return Outcome.ASSUMPTION_FAILED, Guarantee.NONE, detail
    if found.orientation.residual > 0:
        return _decide_on_linear_rest(k, has_box=has_box)
    if shares is None or not found.orientation.is_unique:
        detail = (
            f"The function is known, with its {k} hyperplanes, but which side of each is on was not settled: there are "
            "fewer equations than units. The network shown is equal as a function."
        )
        return Outcome.FITTED, Guarantee.HEURISTIC, detail
    detail = (
        f"{N_CHECKS} fresh random questions were answered as predicted, to {found.largest_misfit:.1e} of the outputs' "
        f"spread; {k} hyperplanes were found and met again elsewhere. Units without effect, or merged with another on "
        "the same hyperplane, leave no trace."
    )
    return Outcome.RECOVERED, Guarantee.EXACT, detail


def _decide_on_linear_rest(k: int, *, has_box: bool) -> tuple[Outcome, Guarantee, str]:
    """Judge a linear part that no unit explains: hidden units outside the box, or another kind of function."""
    detail = f"A linear part remains that the {k} units do not explain"
    if has_box:
        detail += (
            ": units whose hyperplanes do not cross the box. The network equals the black box within the box."
        )
        return Outcome.FITTED, Guarantee.HEURISTIC, detail
    detail += ", such as a connection that skips the hidden layer."
    return Outcome.ASSUMPTION_FAILED, Guarantee.NONE, detail


def _common_slope(found: Identification) -> float | None:
    """Slope below zero of a leaky activation, if all hyperplanes share one; a ReLU network has units of one side each."""
    shares = found.orientation.shares
    if shares is None or shares.size < 2 or not found.orientation.doubled.all():
        return None
    larger = np.maximum(shares, 1 - shares)
    if np.ptp(larger) > 1e-3 * larger.max():
        return None
    return float(1 - 1 / larger.mean())


def _evidence(found: Identification, queries: int) -> tuple[Evidence, ...]:
    """Return the numbers behind the outcome: the fresh questions, the orientation, and the precision."""
    jumps, orientation = found.jumps, found.orientation
    sizes = np.maximum(1.0, np.linalg.norm(jumps.strengths, axis=0))
    reach = np.maximum(sizes, np.linalg.norm(jumps.anchors, axis=1))
    bound = ERRORS * float((jumps.errors * reach).max(initial=float(found.rounding.level.max(initial=0.0))))
    fraction = log(1 / (1 - CONFIDENCE)) / N_CHECKS
    rest, per_parameter = orientation.residual, queries / found.network.n_parameters
    missed = "fresh random questions not answered as predicted"
    differ = "fraction of such inputs on which the two may still differ, at 99 % confidence"
    off = "largest error of a fresh answer, in output standard deviations"
    linear = "linear part that no unit explains, relative"
    close = "breaks too close to be told apart on the last line"
    doubled = "hyperplanes with two units that look opposite ways"
    rounding = "relative rounding error of the answers"
    error = "bound on the error of any parameter, four standard errors"
    return (
        Evidence(missed, found.misfits, 0, "<=", f"of {N_CHECKS}", key=Check.FRESH_ANSWERS),
        Evidence(differ, fraction, key=Check.COVERED_INPUTS),
        Evidence(off, found.largest_misfit, key=Check.RESIDUAL),
        Evidence(linear, rest, 0, "<=", "Σ zᵢ aᵢnᵢ' = R", key=Check.LINEAR_REST),
        _orientation_evidence(found),
        Evidence(close, found.unresolved, key=Check.CLOSE_BREAKS),
        Evidence(doubled, int(orientation.doubled.sum()), key=Check.DOUBLED_UNITS),
        Evidence(rounding, found.rounding.relative, key=Check.ROUNDING),
        Evidence(error, bound, key=Check.ERROR_BOUND),
        Evidence("questions per parameter", per_parameter, key=Check.QUESTIONS_PER_PARAMETER),
    )


def _orientation_evidence(found: Identification) -> Evidence:
    """Whether the equations for the orientations leave a choice."""
    orientation = found.orientation
    if orientation.is_unique and not np.isfinite(orientation.log10_chance):
        name = "other orientations that satisfy the equations"
        return Evidence(name, 0, 0, "<=", "independent columns", key=Check.SIGN_PATTERNS)
    chance = 0.0 if orientation.shares is None else orientation.log10_chance
    name = "log10 of the chance that other orientations fit by accident"
    return Evidence(name, chance, LARGEST_CHANCE, "<=", key=Check.ORIENTATION)
