"""Repeated attempts at the kinks of a network until a certificate holds.

Problem     Find the network behind the rows from attempts that may end in local minima, and know when to stop.
Idea        Each attempt is an expanded fit of absolute values, pruned and polished (`planted.fitting.multistart`). An
            attempt that reproduces its rows, or reaches the noise of the best one, is oriented, refined on all rows
            and certified (`_kink_verdict`). A network certified on noisy rows is also challenged: all its units are
            split in two and fitted again, and if the held-out error falls, the network was a local minimum. Without a
            certificate the search ends when further attempts keep ending at scores already known. A width that was
            chosen by held-out error is raised while the residual has room for one more unit, and lowered while
            the units of an exact answer stand for one another.
Guarantee   The network may be missed; the certificate decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planted.certificates._missing_unit import lacks_a_unit
from planted.certificates.searches._kink_search import SAME_SCORE, KinkSearch
from planted.certificates.searches._kink_verdict import finish_exactly, finish_noisily
from planted.certificates.searches._one_input import start_from_lines
from planted.certificates.searches._segments import answer_from_segments, has_one_curve
from planted.checks import Check
from planted.fitting.multistart._attempts import Attempt, attempts, challenge, explain_bulk
from planted.fitting.multistart._rows import EXACT_RMS
from planted.fitting.multistart._width_path import follow_widths
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Verdict

__all__ = ["search_with_restarts"]

CHALLENGE_GAIN = 0.03  # fall of the held-out error beside a network that is at most overfitting
NARROW_RESTARTS = 3  # attempts with a unit less
MAX_WIDENINGS = 3  # units added to a width whose residual still has room for one
# Part of the residual that one more unit explains: held-out rows would have shown it, unless it is nearly all.
PLAIN_FALL, NEARLY_ALL = 0.03, 0.9


def search_with_restarts(search: KinkSearch, *, n_restarts: int, extra: int | str = "auto") -> Recovery:
    """Attempt until a certificate holds, with more units where a chosen width leaves room for one.

    `extra`: units beyond those looked for in the expanded fits; half as many again, at least four, if "auto".
    """
    search.run.on_stop = search.interrupted
    tested = answer_from_segments(search) if has_one_curve(search) and not _is_plain(search) else None
    if tested is not None and not _leaves_a_trace(tested):
        return tested
    search = search if tested is None else search.widened(search.n_hidden)
    found = _narrow(search, _recover(search, n_restarts, extra), n_restarts, extra)
    found = _widen(search, found, n_restarts, extra)
    is_better = found.outcome is Outcome.RECOVERED or any(line.passed for line in found.find(Check.RESIDUAL))
    return _along_columns(search, found) if tested is None or is_better else tested


def _along_columns(search: KinkSearch, found: Recovery) -> Recovery:
    """Return the answer with kinks along single columns where the samples are better explained by them."""
    if search.problem.n_features == 1:
        return found
    from planted.certificates.searches._axes import (  # only several inputs need it
        answer_from_axes,
        may_have_axes,
        with_p_values,
    )

    if not may_have_axes(search, found):
        return found
    return answer_from_axes(search, found) or with_p_values(search, found)


def _is_plain(search: KinkSearch) -> bool:
    """Whether the samples lie on one line, or on lines that show their kinks."""
    return _starts_exactly(search) is not None


def _leaves_a_trace(answer: Recovery) -> bool:
    """Whether the residual of an answer shows more than noise; without a network it does not."""
    return answer.outcome is Outcome.TOO_FEW_SAMPLES or any(
        line.key in (Check.LACK_OF_FIT, Check.MISSING_UNIT) for line in answer.failed
    )


def _narrow(search: KinkSearch, answer: Recovery, n_restarts: int, extra: int | str) -> Recovery:
    """Try fewer units where those of a chosen width reproduce the samples in more than one way."""
    is_exact = any(line.passed for line in answer.find(Check.RESIDUAL))
    is_loose = any(line.key is Check.JACOBIAN for line in answer.failed)
    if search.n_hidden != "auto" or answer.network is None or not (is_exact and is_loose):
        return answer
    for width in range(answer.network.n_hidden - 1, 0, -1):
        narrower = _recover(search.widened(width), min(n_restarts, NARROW_RESTARTS), extra)
        if narrower.outcome is not Outcome.NOT_IDENTIFIABLE:
            return narrower if narrower.outcome is Outcome.RECOVERED else answer
    return answer


def _widen(search: KinkSearch, answer: Recovery, n_restarts: int, extra: int | str) -> Recovery:
    """Try more units while a width that was chosen by the path leaves room for another one."""
    latest = answer
    for _ in range(MAX_WIDENINGS):
        if search.n_hidden != "auto" or latest.network is None or not lacks_a_unit(latest):
            break
        if _is_approximation(search, latest):
            break
        latest = _recover(search.widened(latest.network.n_hidden + 1), n_restarts, extra)
        if latest.outcome is Outcome.RECOVERED:
            return latest
    return answer


def _is_approximation(search: KinkSearch, answer: Recovery) -> bool:
    """Return whether one more unit explains much on the rows at hand, although held-out rows chose the width.

    Units are then added to a function that has none: there is no end to it, unless one explains nearly all that is left,
    as the other of two units that nearly agree does.
    """
    n, _, m = search.problem.shape
    falls = [line.measured / (n * m) for line in answer.find(Check.MISSING_UNIT)]
    return any(PLAIN_FALL < fall < NEARLY_ALL for fall in falls)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What would be returned if nothing better is found."""

    recovery: Recovery
    score: float
    is_final: bool


def _recover(search: KinkSearch, n_restarts: int, extra: int | str) -> Recovery:
    """Attempt until a certificate holds; else return the best with what speaks against it."""
    k, search.waiting = _starting_width(search)
    if k == 0:
        text = (
            "The outputs are a linear function of the inputs on all samples: no unit is seen both on and off."
        )
        return search.record(None, Verdict.refusal(Outcome.NOT_IDENTIFIABLE, text))
    start = None if search.start is None else search.start(k)
    search.waiting += [] if start is None else [start]
    tries = attempts(search.problem, search.rows, k, extra=extra, n_restarts=n_restarts)
    answer, patience = None, search.patience
    while (attempt := search.waiting.pop() if search.waiting else next(tries, None)) is not None:
        is_repeated = search.note(attempt)
        is_better = answer is None or attempt.score < (1 - SAME_SCORE) * answer.score
        found = _finish(search, attempt, is_repeated) if is_better else None
        if found is not None and found.is_final:
            return found.recovery
        if found is not None:
            hopeless = search.n_hidden == "auto" and _is_approximation(search, found.recovery)
            answer, patience = found, min(search.patience, 1) if hopeless else search.patience
        elif (
            answer is not None
        ):  # it predicts as well as wider networks: not a minimum that another start would leave
            patience -= 1
        if answer is not None and not patience:
            break
    if answer is not None:
        return answer.recovery
    assert search.best is not None
    recovery = finish_noisily(search, search.best)
    return replace(recovery, outcome=Outcome.STOPPED_EARLY, guarantee=Guarantee.NONE)


def _finish(search: KinkSearch, attempt: Attempt, is_repeated: bool) -> _Answer | None:
    """Take an attempt to its verdict; None if it is neither exact nor down to the noise."""
    exact = attempt if attempt.is_exact else explain_bulk(search.rows, attempt.fit)
    if exact is not None:
        recovery, missed = finish_exactly(search, exact)
        if missed and exact is not attempt:
            search.waiting.append(challenge(search.problem, search.rows, exact.fit)[0])
        return _Answer(recovery, attempt.score, not missed and recovery.outcome is not Outcome.FITTED)
    if not (attempt.is_settled or is_repeated):
        return None
    recovery = finish_noisily(search, attempt)
    if any(
        line.passed for line in recovery.find(Check.RESIDUAL)
    ):  # to the rounding of the labels: no error is left to fall
        return _Answer(recovery, attempt.score, recovery.outcome is Outcome.RECOVERED)
    if recovery.outcome is not Outcome.RECOVERED and not recovery.fails_only(
        Check.CLOSE_UNITS, Check.HIDDEN_PAIRS, Check.HIDDEN_UNITS, Check.KNOWN_LINEAR_PART
    ):
        return _Answer(recovery, attempt.score, False)
    rival, gain = challenge(search.problem, search.rows, attempt.fit)
    line = Evidence(
        "fall of the held-out error when every unit is split in two",
        gain,
        CHALLENGE_GAIN,
        "<=",
        key=Check.LOCAL_MINIMUM,
    )
    recovery = replace(recovery, evidence=(*recovery.evidence, line))
    if line.passed:
        return _Answer(recovery, attempt.score, True)
    search.waiting.append(rival)
    text = f"Splitting its units lowers the held-out error by {gain:.0%}: it is a local minimum."
    doubtful = replace(recovery, outcome=Outcome.FITTED, guarantee=Guarantee.HEURISTIC, detail=text)
    return _Answer(doubtful, attempt.score, False)


def _starting_width(search: KinkSearch) -> tuple[int, list[Attempt]]:
    """Return the number of units to look for and, if it was chosen by a path, the path's own fit as first attempt."""
    exact = _starts_exactly(search)
    if exact is not None:
        return exact
    if isinstance(search.n_hidden, int):
        return search.n_hidden, []
    search.path = path = follow_widths(search.problem, search.rows, keep=search.keep)
    search.best = None  # the expanded fits of the path are of other widths
    search.run.trace.extend(path.records)
    score, missed = search.rows.judge(path.fit)
    record = {"start": "path", "k": path.n_hidden, "residual": float(np.sqrt(score)), "costs": []}
    is_exact = search.loss == "squared" and path.is_exact
    return path.n_hidden, [Attempt(path.fit, score, is_exact, missed, True, score, record)]


def _starts_exactly(search: KinkSearch) -> tuple[int, list[Attempt]] | None:
    """Return no units for a linear function, those between the lines of one input, or None."""
    rows = search.rows.rows
    linear = np.linalg.lstsq(rows, search.rows.Y, rcond=None)[0]
    if np.abs(search.rows.Y - rows @ linear).max() <= EXACT_RMS:
        return 0, []
    if search.problem.n_features == 1 and search.loss in ("squared", "auto"):
        read = start_from_lines(search)
        if read is not None:
            return search.n_hidden if isinstance(search.n_hidden, int) else read.fit.n_units, [read]
    return None
