r"""`method="auto"`: an ordered plan, run within a budget, ended by the first certificate.

Problem     A table, no theorem. Choose methods the data allow, cheap and exact ones first; return one answer.
Idea        1. The methods' cards say which of them apply. They are tried in the registry's order; the others are passed
               over with the reason. Nothing is measured that no card asks for.
            2. The first answer that is certified, RECOVERED, ends the search; so does one against which nothing speaks but
               that noise would hide units closer than its own, since no method sees further. One that reproduces every
               sample to rounding and says why it is not the only one is returned unless a later one is certified.
            3. Otherwise answers are cross-validated, each method searching again on part of the rows: a network that
               was only refined there would remember the rest. The best score wins, scores within `TIE` of it give way to
               fewer units. An answer with a cross-validation of its own gives way only to one better by `CLEARLY`.
            4. Time: `budget_seconds` is a deadline for all of it. What ran out of time is recorded, and the best network
               so far is returned as STOPPED_EARLY.
            What happened to each method is in `trace`.
Guarantee   That of the method that answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from planted._clock import check_time, without_deadline
from planted._typing import Array
from planted.checks import Check
from planted.fitting._problem import Preparation
from planted.fitting._refine import refine
from planted.fitting._run import MethodRun
from planted.outcomes import Guarantee, Outcome
from planted.recovery._diagnose import Facts, check_method
from planted.recovery._registry import Method, find_method, methods
from planted.results import Evidence, Recovery, Requirements
from planted.rows import RowBlocks, sample_rows

__all__ = ["AUTO", "recover_automatically"]

SCORE_ROWS = 5000
FOLDS = 4
FLATTERING_STEPS = 20
TIE = 0.01  # relative difference of held-out scores that counts as none
CLEARLY = 0.5  # part of its error by which an answer chosen by cross-validation must be beaten on other folds


AUTO = Requirements(
    method="auto",
    summary="every method that the data allow, cheap and exact ones first, until one is certified",
    input_law="any",
    n_outputs="m >= 1",
    activations=(),
    biases=True,
    noise="any",
    samples="those of the method that answers",
    guarantee=Guarantee.EXACT,
    reference="planted",
)


def recover_automatically(run: MethodRun, n_hidden: int | str, *, activation: str) -> Recovery:
    """Try the methods the data allow until one is certified; the trace begins with one line per method considered."""
    answers: list[Recovery] = []
    run.on_stop = partial(_stopped_early, run, answers)
    for method in _plan(Facts(run.problem, n_hidden), activation, run.trace, answers):
        check_time()
        answer = method.run(run.data, n_hidden, activation=activation)
        run.trace.append(_line(answer))
        answers.append(answer)
        if answer.network is not None and (
            answer.outcome in (Outcome.RECOVERED, Outcome.STOPPED_EARLY)
            or answer.fails_only(Check.HIDDEN_PAIRS)
        ):
            break
    best = _choose(run, answers, activation)
    if best is None:
        run.refuse(Outcome.ASSUMPTION_FAILED, _what_was_tried(run), _methods_tried(run))
    return _with_trace(run, best)


def _with_trace(run: MethodRun, best: Recovery) -> Recovery:
    return replace(best, trace=(*run.trace, *best.trace))


def _what_was_tried(run: MethodRun) -> str:
    return "; ".join(f"{line['method']}: {line.get('detail') or line['outcome']}" for line in run.trace)


def _methods_tried(run: MethodRun) -> Evidence:
    tried = sum(line["outcome"] != "passed over" for line in run.trace)
    return Evidence("methods that could be tried", tried, key=Check.METHODS_TRIED)


def _plan(
    facts: Facts, activation: str, trace: list[dict[str, Any]], answers: list[Recovery]
) -> Iterator[Method]:
    """Yield the methods to try, in order; those passed over are recorded with the reason.

    If a noise-tolerant method returned FITTED, the data are noisy: methods for noiseless data are passed over. Where every
    sample is already reproduced, a method without a guarantee has nothing to add.
    """
    known = facts.n_hidden if isinstance(facts.n_hidden, int) else 1
    for name, card in methods().items():
        if activation.partition(":")[0] not in card.activations:
            trace.append(_passed_over(name, f"does not handle the activation {activation!r}"))
            continue
        if card.guarantee is Guarantee.NONE and any(map(_reproduces_all, answers)):
            trace.append(_passed_over(name, "every sample is already reproduced to rounding"))
            continue
        is_noisy = any(answer.outcome is Outcome.FITTED for answer in answers)
        check = check_method(card, facts, n_hidden=known, is_noisy=is_noisy)
        # Too few samples for a promise are still worth a try; the certificate decides.
        if check.applies or check.lacks_samples:
            yield find_method(name)
        else:
            trace.append(_passed_over(name, check.reason))


def _passed_over(name: str, reason: str) -> dict[str, Any]:
    return {"method": name, "outcome": "passed over", "detail": reason}


def _reproduces_all(answer: Recovery) -> bool:
    """Return whether the samples are reproduced to rounding, as a line of evidence says."""
    if answer.network is None or answer.outcome is Outcome.TOO_FEW_SAMPLES:  # interpolation proves nothing
        return False
    return any(item.passed for item in answer.find(Check.RESIDUAL))


def _line(answer: Recovery) -> dict[str, Any]:
    units = answer.network.n_hidden if answer.network is not None else 0
    return {
        "method": answer.provenance.algorithm,
        "outcome": answer.outcome.name,
        "detail": answer.detail,
        "n_hidden": units,
        "seconds": answer.stats.get("seconds"),
    }


def _choose(run: MethodRun, answers: list[Recovery], activation: str) -> Recovery | None:
    """Return the certified answer, or the best by cross-validation with ties to the simpler (step 3)."""
    if _settled(answers):
        return _settled(answers)
    found = [answer for answer in answers if answer.network is not None]
    if any(
        answer.outcome is Outcome.STOPPED_EARLY for answer in found
    ):  # stopped early: do not cross-validate
        return _best_so_far(run, answers)
    steady = [answer for answer in found if answer.held_out_mse is not None]
    if steady:
        found = [answer for answer in found if not _has_few_samples(answer)]
    if len(found) <= 1:
        return found[0] if found else (answers[0] if answers else None)
    rows = sample_rows(run.data.blocks, SCORE_ROWS, np.random.default_rng(0))
    if steady:  # a new search costs much: it is spared those that do not even look better
        bar = _score(rows, steady[0], activation) * (1 - CLEARLY)
        found = [answer for answer in found if answer is steady[0] or _flattering_score(rows, answer) < bar]
    scores = [_score(rows, answer, activation) for answer in found]
    if steady and scores[found.index(steady[0])] * (1 - CLEARLY) <= min(scores):
        return steady[0]
    good = [answer for answer, score in zip(found, scores, strict=True) if score <= min(scores) * (1 + TIE)]
    return min(good, key=lambda answer: answer.network.n_hidden if answer.network is not None else 0)


def _has_few_samples(answer: Recovery) -> bool:
    """Return whether there are hardly more samples than unknowns: a comparison would be luck."""
    is_short = any(not item.passed for item in answer.find(Check.SAMPLES))
    return is_short or answer.outcome is Outcome.TOO_FEW_SAMPLES


def _settled(answers: list[Recovery]) -> Recovery | None:
    """Return the first answer that needs no comparison: certified, as far as noise lets anyone see, or all samples."""
    return next(
        (
            answer
            for answer in answers
            if answer.outcome is Outcome.RECOVERED
            or answer.fails_only(Check.HIDDEN_PAIRS)
            or _reproduces_all(answer)
        ),
        None,
    )


def _score(rows: tuple[Array, Array], answer: Recovery, activation: str) -> float:
    """Return the squared error on rows the search did not see, from the method's own cross-validation where it has one."""
    if answer.held_out_mse is not None:
        return answer.held_out_mse
    assert answer.network is not None
    X, Y = rows
    method = find_method(answer.provenance.algorithm)
    folds = np.random.default_rng(FOLDS).permutation(len(X)) % FOLDS
    errors = []
    for fold in range(FOLDS):
        train, test = folds != fold, folds == fold
        part = Preparation(RowBlocks.from_arrays(X[train], Y[train]), random_state=0)
        again = method.run(part, answer.network.n_hidden, activation=activation).network
        errors.append(np.inf if again is None else float(((Y[test] - again(X[test])) ** 2).mean()))
    return float(np.mean(errors))


def _flattering_score(rows: tuple[Array, Array], answer: Recovery) -> float:
    """Return the squared error on a part of the rows after refining the network, which has seen them, on the others."""
    assert answer.network is not None
    X, Y = rows
    cut = max(len(X) // FOLDS, 1)
    fit = refine(RowBlocks.from_arrays(X[cut:], Y[cut:]), answer.network, max_iter=FLATTERING_STEPS)
    return float(((Y[:cut] - fit.network(X[:cut])) ** 2).mean())


def _best_so_far(run: MethodRun, answers: list[Recovery]) -> Recovery | None:
    """Return the best by the residual: there is no time for a comparison."""
    found = [answer for answer in answers if answer.network is not None]
    best = _settled(answers)
    if best is None and found:
        X, Y = sample_rows(run.data.blocks, SCORE_ROWS, np.random.default_rng(0))
        best = min(found, key=lambda answer: float(((Y - answer.network(X)) ** 2).mean()))  # type: ignore[misc]
    if best is None or best.outcome is Outcome.RECOVERED:
        return best
    return replace(best, outcome=Outcome.STOPPED_EARLY, guarantee=Guarantee.NONE)


def _stopped_early(run: MethodRun, answers: list[Recovery], reason: str) -> Recovery:
    """Return what there is when time is up or the user has had enough."""
    text, tried = f"{reason} {_what_was_tried(run)}".strip(), _methods_tried(run)
    run.trace.append({"method": "auto", "outcome": Outcome.STOPPED_EARLY.name, "detail": reason})
    with without_deadline():
        best = _best_so_far(run, answers)
    return run.interrupted(text, None, tried) if best is None else _with_trace(run, best)
