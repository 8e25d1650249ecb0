"""What the answers of a black box allow to be said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log
from typing import Any

import numpy as np

from planted.checks import Check
from planted.identification._search import N_CHECKS, Identification, Refusal
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence

__all__ = ["Answer", "judge", "judge_budget"]

CONFIDENCE = 0.99
LARGEST_CHANCE = -6.0  # log10 of the probability that other orientations fit by accident
ERRORS = 4.0  # standard errors in a bound


@dataclass(frozen=True, slots=True)
class Answer:
    """A verdict on a black box."""

    outcome: Outcome  # how it ended
    guarantee: Guarantee  # what is proved
    detail: str  # the reason in a sentence
    evidence: tuple[Evidence, ...] = ()  # the numbers
    network: TwoLayerNetwork | None = None  # the network
    stats: Mapping[str, Any] = field(default_factory=dict)  # counts


def judge_budget(error: Exception, *, asked: int, budget: int) -> Answer:
    """Return the verdict on a search that ran out of questions."""
    evidence = (Evidence("questions asked", asked, budget, "<=", "budget", key=Check.QUESTIONS),)
    return Answer(Outcome.STOPPED_EARLY, Guarantee.NONE, str(error), evidence)


def judge(found: Identification | Refusal, *, queries: int, has_box: bool) -> Answer:
    """Return the verdict on what was found.

    The result: RECOVERED only if every fresh question was foretold and the orientation of every unit is settled.
    """
    if isinstance(found, Refusal):
        detail = f"The black box is no two-layer ReLU network: {found.reason}"
        asked = Evidence("questions asked", queries, key=Check.QUESTIONS)
        return Answer(Outcome.ASSUMPTION_FAILED, Guarantee.NONE, detail, (asked,))
    evidence = _evidence(found, queries)
    stats = {"lines": found.n_lines, "n_hidden": found.network.n_hidden}
    outcome, guarantee, detail = _decide(found, has_box=has_box)
    is_shown = outcome in (Outcome.RECOVERED, Outcome.FITTED, Outcome.NOT_IDENTIFIABLE)
    network = found.network.canonical() if is_shown else None
    return Answer(outcome, guarantee, detail, evidence, network, stats)


def _decide(found: Identification, *, has_box: bool) -> tuple[Outcome, Guarantee, str]:
    shares, k = found.orientation.shares, found.jumps.offsets.size
    if found.misfits:
        detail = (
            f"After {found.n_lines} lines and {k} units, {found.misfits} of {N_CHECKS} fresh answers were not foretold. "
            "There may be units too close to each other to be told apart."
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
        detail = f"A linear part remains that the {k} units do not explain"
        if has_box:
            detail += ": units whose hyperplanes do not cross the box. The network equals the black box within the box."
            return Outcome.FITTED, Guarantee.HEURISTIC, detail
        return (
            Outcome.ASSUMPTION_FAILED,
            Guarantee.NONE,
            detail + ", such as a connection that skips the hidden layer.",
        )
    if shares is None or not found.orientation.is_unique:
        detail = (
            f"The function is known, with its {k} hyperplanes, but which side of each is on was not settled: there are "
            "fewer equations than units. The network shown is equal as a function."
        )
        return Outcome.FITTED, Guarantee.HEURISTIC, detail
    detail = (
        f"{N_CHECKS} fresh random questions were answered as foretold, to {found.largest_misfit:.1e} of the outputs' "
        f"spread; {k} hyperplanes were found and met again elsewhere. Units without effect, or merged with another on "
        "the same hyperplane, leave no trace."
    )
    return Outcome.RECOVERED, Guarantee.EXACT, detail


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
    jumps, orientation = found.jumps, found.orientation
    sizes = np.maximum(1.0, np.linalg.norm(jumps.strengths, axis=0))
    reach = np.maximum(sizes, np.linalg.norm(jumps.anchors, axis=1))
    bound = ERRORS * float((jumps.errors * reach).max(initial=float(found.rounding.level.max(initial=0.0))))
    return (
        Evidence(
            "fresh random questions not answered as foretold",
            found.misfits,
            0,
            "<=",
            f"of {N_CHECKS}",
            key=Check.FRESH_ANSWERS,
        ),
        Evidence(
            "fraction of such inputs on which the two may still differ, at 99 % confidence",
            log(1 / (1 - CONFIDENCE)) / N_CHECKS,
            key=Check.COVERED_INPUTS,
        ),
        Evidence(
            "largest error of a fresh answer, in output standard deviations",
            found.largest_misfit,
            key=Check.RESIDUAL,
        ),
        Evidence(
            "linear part that no unit explains, relative",
            orientation.residual,
            0,
            "<=",
            "Σ zᵢ aᵢnᵢ' = R",
            key=Check.LINEAR_REST,
        ),
        _orientation_evidence(found),
        Evidence(
            "breaks too close to be told apart on the last line", found.unresolved, key=Check.CLOSE_BREAKS
        ),
        Evidence(
            "hyperplanes with two units that look opposite ways",
            int(orientation.doubled.sum()),
            key=Check.DOUBLED_UNITS,
        ),
        Evidence("relative rounding error of the answers", found.rounding.relative, key=Check.ROUNDING),
        Evidence("bound on the error of any parameter, four standard errors", bound, key=Check.ERROR_BOUND),
        Evidence(
            "questions per parameter", queries / found.network.n_parameters, key=Check.QUESTIONS_PER_PARAMETER
        ),
    )


def _orientation_evidence(found: Identification) -> Evidence:
    """Whether the equations for the orientations leave a choice."""
    orientation = found.orientation
    if orientation.is_unique and not np.isfinite(orientation.log10_chance):
        return Evidence(
            "other orientations that satisfy the equations",
            0,
            0,
            "<=",
            "independent columns",
            key=Check.SIGN_PATTERNS,
        )
    chance = 0.0 if orientation.shares is None else orientation.log10_chance
    name = "log10 of the chance that other orientations fit by accident"
    return Evidence(name, chance, LARGEST_CHANCE, "<=", key=Check.QUESTIONS)
