"""Judge what the answers of a black box show: the outcome, what is guaranteed, and the numbers behind both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array
from planted.checks import Check
from planted.identification._grid import DOUBLES, Grid
from planted.identification.two_layer._orientation import LARGEST_CHANCE, OtherKind, other_kind
from planted.identification.two_layer._search import COARSE, N_CHECKS, Identification, Refusal
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Unavailable, Verdict

__all__ = ["judge", "judge_stop"]

CONFIDENCE = 0.99
ERRORS = 4.0  # standard errors in a bound
# Error of a unit's direction above which the unit is not claimed: 0.43 for one made up by noise, 1e-6 for true ones of
# answers with two decimals.
VAGUE = 0.03
REFINED_ERRORS = 6.0  # after refinement, where the standard error is the largest of all parameters
# The same in a bound on any parameter: rounding errors of answers on one line are not independent, and of 110 networks five
# had a bias up to 14 standard errors off.
BOUND_ERRORS = 20.0
REPEATED = 1e-14  # relative difference of two answers to one question above which they carry noise
SHOWN = (Outcome.RECOVERED, Outcome.FITTED, Outcome.NOT_IDENTIFIABLE)  # outcomes that come with a network
# Evidence that holds whether or not units are still missing; the rest is about the whole network.
HOLDS_EARLY = (Check.FRESH_ANSWERS, Check.RESIDUAL, Check.CLOSE_BREAKS, Check.ROUNDING)

Judgement = tuple[Verdict, TwoLayerNetwork | None]


@dataclass(frozen=True, slots=True)
class Terms:
    """Under which conditions the black box was asked."""

    queries: int  # questions so far
    has_box: bool  # whether inputs were bounded
    scale: Array  # (d,): units of the search
    grid: Grid = DOUBLES  # how answers are rounded
    unrepeatable: float = 0.0  # relative difference of two answers to one question


def judge(found: Identification | Refusal, terms: Terms) -> Judgement:
    """Return the verdict on what a search has found, and the network if there is one to show.

    The outcome is RECOVERED only if every fresh answer matched the prediction and the orientation of every unit is
    settled. Questions cannot exclude that the black box differs elsewhere: the detail says on how many inputs it may.
    """
    coarse = _coarse_answers(found, terms)
    asked = Evidence("questions asked", terms.queries, key=Check.QUESTIONS)
    if coarse is not None:
        return Verdict.refusal(Outcome.ILL_CONDITIONED, coarse, asked), None
    if isinstance(found, Refusal):
        detail = f"The black box is no two-layer ReLU network: {found.reason}"
        return Verdict.refusal(Outcome.ASSUMPTION_FAILED, detail, asked), None
    outcome, guarantee, detail = _decide(found, terms)
    network = _shown_network(found, terms) if outcome in SHOWN else None
    return Verdict(outcome, guarantee, _evidence(found, terms), detail, _no_noise(network)), network


def _kind(found: Identification, terms: Terms) -> OtherKind | None:
    """What the network has beside ReLU units; in a box a linear part may be units that do not cross it."""
    if found.misfits or found.deviation is not None or (terms.has_box and found.orientation.residual > 0):
        return None
    return other_kind(found.network, found.orientation, relative=found.rounding.relative)


def _shown_network(found: Identification, terms: Terms) -> TwoLayerNetwork:
    """The network in canonical form, with leaky units or a linear part if it has them."""
    kind = _kind(found, terms)
    return (found.network if kind is None else kind.network).canonical()


def _coarse_answers(found: Identification | Refusal, terms: Terms) -> str | None:
    """Say what to ask for if the grid of the answers explains why no network was found; None if it does not."""
    is_found = isinstance(found, Identification) and found.misfits == 0
    if is_found or not terms.grid.words or not (terms.has_box or terms.grid.step == 0):
        return None
    advice = "ask for more digits" + (", or allow a larger box" if terms.grid.step else "")
    return (
        f"The answers are rounded to {terms.grid.words}, which is too coarse to find every break: {advice}. Whether the "
        "black box is a two-layer ReLU network was not decided."
    )


def judge_stop(
    reason: str, latest: Identification | Refusal | None, *, terms: Terms, budget: int | None
) -> Judgement:
    """Return the verdict on a search that was stopped, from what was known after the last line.

    A network is shown only if all fresh answers matched its prediction: then only the repeated questions at the end are
    missing.
    """
    queries = terms.queries
    if budget is None:
        asked = Evidence("questions asked", queries, key=Check.QUESTIONS)
    else:
        asked = Evidence("questions asked", queries, budget, "<=", "budget", key=Check.QUESTIONS)
    evidence: tuple[Evidence, ...] = (asked,)
    network = None
    if isinstance(latest, Identification):
        known, lines = latest.jumps.offsets.size, _evidence(latest, terms)
        evidence += (Evidence("hyperplanes found on a line and again elsewhere", known, key=Check.UNITS),)
        evidence += tuple(item for item in lines if latest.misfits == 0 or item.key in HOLDS_EARLY)
        is_shown = _decide(latest, terms)[0] in SHOWN
        network = _shown_network(latest, terms) if is_shown else None
    detail = f"Stopped: {reason}; {queries} questions were asked. {_describe_progress(latest)}"
    return Verdict(Outcome.STOPPED_EARLY, Guarantee.NONE, evidence, detail, _no_noise(network)), network


def _no_noise(network: TwoLayerNetwork | None) -> Unavailable:
    """Say why there are no standard errors."""
    if network is None:
        return Unavailable("There is no network.")
    return Unavailable("The answers are not a sample; the evidence bounds the error of every parameter.")


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


def _decide(found: Identification, terms: Terms) -> tuple[Outcome, Guarantee, str]:
    """Return the outcome, the guarantee and the reason in a sentence."""
    has_box = terms.has_box
    shares, k = found.orientation.shares, found.jumps.offsets.size
    if found.misfits:
        detail = (
            f"After {found.n_lines} lines and {k} units, {found.misfits} of {N_CHECKS} fresh answers did not match the "
            "prediction. There may be units too close to each other to be told apart, or more hidden layers."
        )
        return Outcome.STOPPED_EARLY, Guarantee.NONE, detail
    if k == 0 and found.orientation.residual > 0:
        detail = "The black box is linear wherever it was asked: two units make that, at any place."
        return Outcome.NOT_IDENTIFIABLE, Guarantee.NONE, detail
    kind = _kind(found, terms)
    # As many hyperplanes as equations: pairs of units explain any linear part, so that they say nothing.
    is_vacuous = (
        has_box
        and bool(found.orientation.doubled.any())
        and k >= found.jumps.strengths.shape[0] * len(terms.scale)
    )
    if is_vacuous or (found.orientation.residual > 0 and kind is None):
        return _decide_on_linear_rest(k, has_box=has_box)
    is_settled = found.orientation.is_unique or found.orientation.residual > 0  # beside B x sides are free
    if shares is None or not is_settled:
        detail = (
            f"The function is known, with its {k} hyperplanes, but which side of each is on was not settled: there are "
            "fewer equations than units. The network shown is equal as a function."
        )
        return Outcome.FITTED, Guarantee.HEURISTIC, detail
    doubt = _direction_bound(found, terms.scale)
    if doubt > VAGUE:
        detail = (
            f"The function is known, but not every unit: the direction of one is uncertain by {doubt:.2g}, as of a unit "
            "that the errors of the answers may have made up. The network shown agrees with all fresh answers."
        )
        return Outcome.FITTED, Guarantee.HEURISTIC, detail
    law = "uniform in the box" if has_box else "normal, a quarter to four times as large as typical ones"
    detail = (
        f"{N_CHECKS} fresh random questions ({law}) were answered as predicted, to {found.largest_misfit:.1e} of the "
        f"outputs' spread: with {CONFIDENCE:.0%} confidence the network agrees with the black box on all but "
        f"{_uncovered(found):.1%} of such inputs. {k} hyperplanes were found and met again elsewhere. Units without effect, "
        f"or merged with another on the same hyperplane, leave no trace.{_describe_rounding(found, terms)}"
        + (f" It has {kind.words}." if kind is not None else "")
    )
    return Outcome.RECOVERED, Guarantee.HEURISTIC, detail


def _uncovered(found: Identification) -> float:
    """Part of the inputs on which network and black box may still differ, at the confidence given.

    If they differ on a part p, N answers match by accident with probability (1 - p)^N, at each attempt.
    """
    return float(1 - ((1 - CONFIDENCE) / found.n_attempts) ** (1 / N_CHECKS))


def _describe_rounding(found: Identification, terms: Terms) -> str:
    """Say how the answers are rounded, or that they carry an error that is no rounding."""
    if terms.unrepeatable > REPEATED:
        return f" The same question got answers {terms.unrepeatable:.1e} of their size apart: the parameters carry noise."
    if terms.grid.words:
        return f" The answers are rounded to {terms.grid.words}; differences of that size are not seen."
    if found.rounding.relative > COARSE:
        return (
            f" The answers carry errors of {found.rounding.relative:.1e} of their size that are no rounding."
        )
    return ""


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


def _parameter_bound(found: Identification, scale: Array) -> float:
    """Bound on the error of any parameter, in the units of the inputs: `ERRORS` standard errors.

    In the units of the search a hyperplane is off by its error e in direction, e times the distance of its anchor in
    offset, and e times its strength in output weight. The offset of the outputs is read off where all units may be on.
    A network that was refined on many answers has standard errors from them.
    """
    if found.deviation is not None:
        return BOUND_ERRORS * found.deviation.largest
    jumps, rounding = found.jumps, found.rounding
    level = float(rounding.level.max(initial=0.0))
    lengths = np.linalg.norm(jumps.normals / scale, axis=1)
    tilt = jumps.errors / (scale.min() * lengths)
    reach = np.maximum(1.0, np.linalg.norm(jumps.anchors, axis=1))
    sizes = np.linalg.norm(jumps.strengths, axis=0)
    of_b = (jumps.errors * reach + tilt * np.abs(jumps.offsets)) / lengths
    of_A = (jumps.errors + tilt) * sizes * lengths
    of_c = level + float(np.linalg.norm(jumps.errors * sizes * (reach + rounding.radius)))
    return ERRORS * max(float(np.concatenate([tilt, of_b, of_A]).max(initial=0.0)), of_c)


def _direction_bound(found: Identification, scale: Array) -> float:
    """Bound on the error of the direction of any unit, a vector of length one."""
    if found.deviation is not None:
        return REFINED_ERRORS * found.deviation.of_directions
    lengths = np.linalg.norm(found.jumps.normals / scale, axis=1)
    return ERRORS * float((found.jumps.errors / (scale.min() * lengths)).max(initial=0.0))


def _evidence(found: Identification, terms: Terms) -> tuple[Evidence, ...]:
    """Return the numbers behind the outcome: the fresh questions, the orientation, and the precision."""
    orientation, queries = found.orientation, terms.queries
    bound = _parameter_bound(found, terms.scale)
    fraction = _uncovered(found)
    rest, per_parameter = orientation.residual, queries / found.network.n_parameters
    missed = "fresh random questions not answered as predicted"
    differ = "fraction of such inputs on which the two may still differ, at 99 % confidence"
    off = "largest error of a fresh answer, in output standard deviations"
    linear = "linear part that no unit explains, relative"
    kind = _kind(found, terms)
    is_linear = kind is not None and rest > 0
    of_rest = (
        Evidence("linear part B x, relative", rest, key=Check.LINEAR_PART)
        if is_linear
        else Evidence(linear, rest, 0, "<=", "Σ zᵢ aᵢnᵢ' = R", key=Check.LINEAR_REST)
    )
    slopes: tuple[Evidence, ...] = ()
    if kind is not None and kind.slopes.size:
        spread = float(np.ptp(kind.slopes))
        slopes = (
            Evidence("slope of the units below zero, median", float(np.median(kind.slopes)), key=Check.LEAK),
            Evidence("difference of the slopes of two units, largest", spread, key=Check.LEAK_SPREAD),
        )
    close = "breaks too close to be told apart on the last line"
    doubled = "hyperplanes with two units that look opposite ways"
    rounding = "relative rounding error of the answers"
    repeated = "relative difference of two answers to the same question"
    error = "bound on the error of any parameter"
    tilt = "bound on the error of a unit's direction"
    return (
        Evidence(missed, found.misfits, 0, "<=", f"of {N_CHECKS}", key=Check.FRESH_ANSWERS),
        Evidence(differ, fraction, key=Check.COVERED_INPUTS),
        Evidence(off, found.largest_misfit, key=Check.RESIDUAL),
        of_rest,
        *slopes,
        _orientation_evidence(found),
        Evidence(close, found.unresolved, key=Check.CLOSE_BREAKS),
        Evidence(doubled, int(orientation.doubled.sum()), key=Check.DOUBLED_UNITS),
        Evidence(rounding, found.rounding.relative, key=Check.ROUNDING),
        Evidence(repeated, terms.unrepeatable, key=Check.NOISE_LEVEL),
        Evidence(error, bound, key=Check.ERROR_BOUND),
        Evidence(tilt, _direction_bound(found, terms.scale), VAGUE, "<=", key=Check.DIRECTION_ERROR),
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
