"""Judge a deep network that was read from a black box, or the layers that are certain where the reading ended early."""

from __future__ import annotations

import numpy as np

from planted.checks import Check
from planted.identification.deep.ending._far import FARTHEST
from planted.identification.deep.ending._finish import DeepFinding
from planted.identification.deep.stages._state import Reading
from planted.identification.two_layer._search import N_CHECKS
from planted.identification.two_layer._verdict import CONFIDENCE
from planted.linalg.symmetric import unit_rows
from planted.networks import DeepNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Unavailable, Verdict

__all__ = ["count_parallel", "judge_deep", "judge_deep_stop"]

PARALLEL = 1e-7  # between unit rows that are called parallel
LARGEST_BOUND = 1e-3  # on the error of a parameter, above which rounded answers say too little


def judge_deep(
    reading: Reading, finding: DeepFinding | None, *, queries: int, has_box: bool, depth: int | None
) -> tuple[Verdict, bool]:
    """Return the verdict on a reading that came to its end, and whether the network is to be shown.

    RECOVERED needs: all fresh answers as predicted, a settled orientation of every unit, no unit that never switches, and a
    Jacobian of full rank.
    """
    asked = Evidence("questions asked", queries, key=Check.QUESTIONS)
    if finding is None:
        known = _describe_layers(reading)
        outcome = reading.outcome or Outcome.STOPPED_EARLY
        head = (
            "The black box has several layers"
            if outcome is Outcome.ASSUMPTION_FAILED
            else "The reading ended early"
        )
        detail = f"{head}, but {reading.reason}. {known}"
        return Verdict.refusal(outcome, detail, *_layer_evidence(reading), asked), False
    per_parameter = queries / finding.network.n_parameters
    outcome, guarantee, detail = _decide(reading, finding, has_box=has_box)
    if depth not in (None, finding.network.n_hidden_layers):
        detail = f"The black box has {finding.network.n_hidden_layers} hidden layers; {depth} were asked for."
        outcome, guarantee = Outcome.ASSUMPTION_FAILED, Guarantee.NONE
    is_shown = outcome in (Outcome.RECOVERED, Outcome.FITTED, Outcome.NOT_IDENTIFIABLE)
    evidence = (
        *_evidence(reading, finding),
        *(_unit_evidence(finding.network) if is_shown else _layer_evidence(reading)),
        asked,
        Evidence("questions per parameter", per_parameter, key=Check.QUESTIONS_PER_PARAMETER),
    )
    doubt = (
        "The answers are not a sample; the evidence says how far they are off."
        if is_shown
        else "There is no network."
    )
    return Verdict(outcome, guarantee, evidence, detail, Unavailable(doubt)), is_shown


def judge_deep_stop(reason: str, reading: Reading, *, queries: int, budget: int | None) -> Verdict:
    """Return the verdict on a reading that was stopped."""
    limit = (budget, "<=", "budget") if budget is not None else (float("nan"), "info", "")
    evidence = (
        Evidence("questions asked", queries, *limit, key=Check.QUESTIONS),
        *_layer_evidence(reading),
    )
    known = _describe_layers(reading) or "No unit is certain."
    detail = f"Stopped: {reason}; {queries} questions were asked. {known}"
    return Verdict.refusal(Outcome.STOPPED_EARLY, detail, *evidence)


def _unit_evidence(net: DeepNetwork) -> tuple[Evidence, ...]:
    """How many units the layers of a network have that is shown."""
    return tuple(
        Evidence(f"units of hidden layer {number}", width, key=Check.UNITS)
        for number, width in enumerate(net.widths[1:-1], start=1)
    )


def _layer_evidence(reading: Reading) -> tuple[Evidence, ...]:
    """The layers that are certain, how many units each has, and what the answers that confirm them leave open."""
    found: tuple[Evidence, ...] = ()
    for number, ((_, b), places) in enumerate(zip(reading.certain, reading.places, strict=True), start=1):
        more = f"fraction of inputs on which hidden layer {number} may have further units, not parallel, at 99 % confidence"
        left = 1 - (1 - CONFIDENCE) ** (1 / places)
        found += (
            Evidence(f"units of hidden layer {number}, certain", len(b), key=Check.UNITS),
            Evidence(more, left, key=Check.COVERED_INPUTS),
        )
    return found


def _describe_layers(reading: Reading) -> str:
    """Say which layers are certain; if none is, what was found of the first."""
    if reading.certain:
        widths = " and ".join(str(len(b)) for _, b in reading.certain)
        return (
            f"Units that are certain: {widths}, in the first {len(reading.certain)} hidden layer(s); {min(reading.places)} "
            "or more pairs of fresh answers at which none of them changes were equal. Units whose weights are combinations "
            "of theirs, such as parallel ones, are not excluded."
        )
    found = reading.surveys[0].planes.offsets.size if reading.surveys else 0
    if not found:
        return ""
    open_ = "there may be more" if reading.layers else "their sides not settled"
    return f"Hyperplanes of the first layer that were found again elsewhere, {open_}: {found}."


def _decide(reading: Reading, finding: DeepFinding, *, has_box: bool) -> tuple[Outcome, Guarantee, str]:
    """Return the outcome, the guarantee and the reason in a sentence."""
    top, net = reading.top, finding.network
    assert top is not None
    if finding.checks.misfits or finding.off_line:
        detail = (
            f"{finding.checks.misfits} of {N_CHECKS} fresh answers, and {finding.off_line} of {finding.on_line} on fresh "
            f"lines and in corners, did not match the network of {_shape(net)} that was read: units are missing, or the "
            "black box is piecewise linear in another way."
        )
        return Outcome.STOPPED_EARLY, Guarantee.NONE, detail
    if finding.unexplained:
        detail = (
            f"{finding.unexplained} answers, most of them where some unit is hardly ever on, are not those of the network "
            f"of {_shape(net)} that was read: units or weights are missing."
        )
        return Outcome.STOPPED_EARLY, Guarantee.NONE, detail
    if finding.rays and finding.agrees_within < FARTHEST:
        detail = (
            f"The network of {_shape(net)} agrees with every answer out to {finding.agrees_within:.0e} times typical "
            f"inputs, but not with all on {finding.rays} rays farther out: units that switch only there are missing."
        )
        return Outcome.FITTED, Guarantee.HEURISTIC, detail
    if reading.passing:
        detail = (
            f"The function is known, but not the network: units of the last hidden layer, at most {reading.passing}, pass "
            "their input on and never switch, as units that are always on or a connection that skips the layer do, so that "
            "other networks give the same answers."
        )
        return Outcome.NOT_IDENTIFIABLE, Guarantee.NONE, detail
    if top.unseen and finding.missing_rank < 0:
        detail = (
            f"The function is known, but not the network: {top.unseen} weight(s) of the last hidden layer have no effect on "
            "any answer, since their unit is off wherever the unit below is on."
        )
        return Outcome.NOT_IDENTIFIABLE, Guarantee.NONE, detail
    if not top.is_unique:
        detail = "The function is known, but which side of the units of the last layer is on was not settled."
        return Outcome.FITTED, Guarantee.HEURISTIC, detail
    if finding.missing_rank > 0 or finding.one_sided:
        named = ", ".join(f"unit {unit + 1} of layer {layer}" for layer, unit in finding.one_sided[:5])
        reason = (
            f"never seen on, or never off: {named}"
            if named
            else f"{finding.missing_rank} parameter{'s are' if finding.missing_rank > 1 else ' is'} not determined"
        )
        detail = f"The network agrees with every answer, but others would as well: {reason}."
        return Outcome.FITTED, Guarantee.HEURISTIC, detail
    parallel = count_parallel(net)
    if parallel:
        detail = (
            f"The network agrees with every answer, but {parallel} unit(s) of its last hidden layer have the "
            "weights of another one, with another bias. Such units are also what a unit of one more layer looks like, as "
            "long as nothing shows where its inputs switch."
        )
        return Outcome.FITTED, Guarantee.HEURISTIC, detail
    if finding.bound is not None and not finding.bound <= LARGEST_BOUND:
        left = f"answers with {finding.words} leave parameters uncertain by {finding.bound:.1e}"
        detail = f"The network agrees with every answer, but {left}."
        return Outcome.FITTED, Guarantee.HEURISTIC, detail
    law = "uniform in the box" if has_box else "normal, a quarter to four times as large as typical ones"
    uncovered = _uncovered(finding)
    detail = (
        f"For the region asked about: {N_CHECKS} fresh random questions ({law}) were answered as predicted, to "
        f"{finding.checks.largest:.1e} of the outputs' spread, and so were {finding.on_line} on a fresh line: with "
        f"{CONFIDENCE:.0%} confidence the network agrees with the black box on all but {uncovered:.1%} of such inputs. "
        f"Hidden layers: {_shape(net)}. Units "
        "that switch nowhere in that region leave no trace."
    )
    if finding.rays:
        detail += (
            f" Answers on {finding.rays} rays out to {FARTHEST:.0e} times typical inputs were as predicted; nothing is "
            "claimed beyond, nor far out between the rays."
        )
    if finding.bound is not None:
        detail += (
            f" The answers have {finding.words}: parameters are right to {finding.bound:.1e}, with unit rows."
        )

    return Outcome.RECOVERED, Guarantee.HEURISTIC, detail


def count_parallel(net: DeepNetwork) -> int:
    """Count the units of the last hidden layer whose weights are those of another one, up to a factor."""
    rows = unit_rows(net.layers[-2][0])[0]
    gaps = np.minimum(
        np.linalg.norm(rows[:, None] - rows, axis=2), np.linalg.norm(rows[:, None] + rows, axis=2)
    )
    return int(np.triu(gaps < PARALLEL, 1).any(axis=0).sum())


def _uncovered(finding: DeepFinding) -> float:
    """The fraction of inputs on which network and black box may still differ."""
    return float(1 - ((1 - CONFIDENCE) / finding.n_attempts) ** (1 / N_CHECKS))


def _shape(net: DeepNetwork) -> str:
    return " and ".join(str(width) for width in net.widths[1:-1]) + " units"


def _evidence(reading: Reading, finding: DeepFinding) -> tuple[Evidence, ...]:
    """The numbers behind the outcome."""
    top = reading.top
    assert top is not None
    missed = "fresh random questions not answered as predicted"
    line = "answers on the pieces of a fresh line that were not as predicted"
    differ = "fraction of such inputs on which the two may still differ, at 99 % confidence"
    off = "largest error of a fresh answer, in output standard deviations"
    linear = "linear part of the last layer that no switching unit explains, relative"
    rank = "parameters that the answers do not determine"
    sides = "hidden units never seen on, or never off"
    found: tuple[Evidence, ...] = (
        Evidence(missed, finding.checks.misfits, 0, "<=", f"of {N_CHECKS}", key=Check.FRESH_ANSWERS),
        Evidence(line, finding.off_line, 0, "<=", f"of {finding.on_line}", key=Check.FRESH_ANSWERS),
        Evidence(differ, _uncovered(finding), key=Check.COVERED_INPUTS),
        Evidence(off, finding.checks.largest, key=Check.RESIDUAL),
        Evidence(linear, top.rest, 0, "<=", "L = Σ oⱼ αⱼ wⱼ", key=Check.LINEAR_REST),
        Evidence(sides, len(finding.one_sided), 0, "<=", key=Check.INVISIBLE_UNITS),
    )
    if finding.bound is not None:
        bound = "bound on the error of a parameter, with unit rows"
        found = (*found, Evidence(bound, finding.bound, LARGEST_BOUND, "<=", key=Check.ERROR_BOUND))
    if finding.rays:
        far = "distance out to which answers on rays were as predicted, in typical inputs"
        within = finding.agrees_within, FARTHEST, ">=", f"{finding.rays} rays"
        found = (*found, Evidence(far, *within, key=Check.FAR_ANSWERS))
    if finding.missing_rank < 0:
        return found
    return (*found, Evidence(rank, finding.missing_rank, 0, "<=", "rank J", key=Check.JACOBIAN))
