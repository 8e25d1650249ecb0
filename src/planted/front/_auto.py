r"""`method="auto"`: an ordered plan, run within a budget, ended by the first certificate.

Problem     A table, no theorem. Choose methods the data allow, cheap and exact ones first; return one answer.
Idea        1. The methods' cards say which of them apply. They are tried in the registry's order; the others are passed
               over with the reason. Nothing is measured that no card asks for.
            2. The first answer that is certified, RECOVERED, ends the search. One that reproduces every sample to rounding
               and says why it is not the only one is returned unless a later one is certified.
            3. Otherwise every network found is refined again on a part of the rows and scored on the rest; the best
               score wins, scores within `TIE` of it give way to fewer units. An answer with a cross-validation of its own
               gives way only to one that is better by `CLEARLY`.
            4. Time: `budget_seconds` is a deadline for all of it. What ran out of time is recorded, and the best network
               so far is returned as STOPPED_EARLY.
            What happened to each method is in `trace`.
Guarantee   That of the method that answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from planted._clock import OutOfTime, check_time, time_budget
from planted._typing import Progress, Seed
from planted.algorithms._problem import prepare_problem
from planted.algorithms.refine import refine
from planted.front._diagnose import Facts, check_method
from planted.front._registry import Method, find_method, methods
from planted.moments import RowBlocks, sample_rows
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Provenance, Recovery, Unavailable

__all__ = ["nothing_found", "recover_automatically"]

SCORE_ROWS = 5000
HELD_OUT = 0.25
TIE = 0.01  # relative difference of held-out scores that counts as none
CLEARLY = 0.1  # part of its error by which a cross-validated answer must be beaten on one split


def recover_automatically(
    blocks: RowBlocks,
    n_hidden: int | str,
    *,
    activation: str,
    random_state: Seed,
    progress: Progress | None,
    budget_seconds: float | None,
) -> Recovery:
    """Try the methods the data allow until one is certified.

    Parameters
    ----------
    blocks : RowBlocks
        The data.
    n_hidden : int or "auto"
        Number of hidden units.
    activation : str
        Name of the activation.
    random_state : int, Generator, SeedSequence or None
        Seed of all solvers.
    progress : callable or None
        Told what is being done.
    budget_seconds : float or None
        Time for everything; None for no limit.

    Returns
    -------
    Recovery
        The answer; its trace begins with one line per method considered.
    """
    seed = np.random.SeedSequence() if random_state is None else random_state
    trace: list[dict[str, Any]] = []
    answers: list[Recovery] = []
    interrupted = False
    try:
        with time_budget(budget_seconds):
            problem = prepare_problem(blocks, random_state=seed)
            for method in _plan(Facts(problem, n_hidden), activation, trace, answers):
                check_time()
                keywords = method.activation_keyword(activation)
                answer = method.run(
                    blocks, n_hidden, random_state=problem.seed, progress=progress, **keywords
                )
                trace.append(_line(answer))
                answers.append(answer)
                if (
                    answer.outcome in (Outcome.RECOVERED, Outcome.STOPPED_EARLY)
                    and answer.network is not None
                ):
                    break
    except KeyboardInterrupt as interrupt:
        if not isinstance(interrupt, OutOfTime) and not answers:
            raise
        trace.append(
            {
                "method": "auto",
                "outcome": "out of time" if isinstance(interrupt, OutOfTime) else "interrupted",
            }
        )
        interrupted = True
    best = _choose(blocks, answers, seed)
    if best is None:
        return nothing_found(blocks, trace, n_hidden)
    if interrupted and best.outcome is not Outcome.RECOVERED:
        best = replace(best, outcome=Outcome.STOPPED_EARLY, guarantee=Guarantee.NONE)
    return replace(best, trace=(*trace, *best.trace))


def _plan(
    facts: Facts, activation: str, trace: list[dict[str, Any]], answers: list[Recovery]
) -> Iterator[Method]:
    """Yield the methods to try, in order; those passed over are recorded with the reason.

    A method that bears noise and ends with a mere fit has met a residual: methods for noiseless data are then passed over.
    Where every sample is already reproduced, a method that promises nothing has nothing to add.
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
    return any(
        item.name.startswith("largest residual of a sample") and item.passed for item in answer.evidence
    )


def _line(answer: Recovery) -> dict[str, Any]:
    units = answer.network.n_hidden if answer.network is not None else 0
    return {
        "method": answer.provenance.algorithm,
        "outcome": answer.outcome.name,
        "detail": answer.detail,
        "n_hidden": units,
        "seconds": answer.stats.get("seconds"),
    }


def _choose(blocks: RowBlocks, answers: list[Recovery], seed: Seed) -> Recovery | None:
    """Return the certified answer, or the best by held-out residual with ties to the simpler (step 3)."""
    for answer in answers:
        if answer.outcome is Outcome.RECOVERED or _reproduces_all(answer):
            return answer
    found = [answer for answer in answers if answer.network is not None]
    steady = [answer for answer in found if "held_out_mse" in answer.stats]
    if steady:  # others are judged after a fit to all rows, which flatters those with hardly fewer unknowns than samples
        found = [answer for answer in found if answer.outcome is not Outcome.TOO_FEW_SAMPLES]
    if len(found) <= 1:
        return found[0] if found else (answers[0] if answers else None)
    X, Y = sample_rows(blocks, SCORE_ROWS, np.random.default_rng(0))
    cut = max(int(HELD_OUT * len(X)), 1)
    train, held_out = RowBlocks.from_arrays(X[cut:], Y[cut:]), (X[:cut], Y[:cut])
    scores = [_score(train, held_out, answer) for answer in found]
    if steady and scores[found.index(steady[0])] * (1 - CLEARLY) <= min(scores):
        return steady[0]
    good = [answer for answer, score in zip(found, scores, strict=True) if score <= min(scores) * (1 + TIE)]
    return min(good, key=lambda answer: answer.network.n_hidden if answer.network is not None else 0)


def _score(train: RowBlocks, held_out: tuple[Any, Any], answer: Recovery) -> float:
    """Return the squared error on rows held out, from the method's own cross-validation where it has one."""
    if "held_out_mse" in answer.stats:
        return float(answer.stats["held_out_mse"])
    assert answer.network is not None
    fitted = refine(train, answer.network, max_iter=20).network
    return float(((held_out[1] - fitted(held_out[0])) ** 2).mean())


def nothing_found(
    blocks: RowBlocks, trace: list[dict[str, Any]], n_hidden: int | str, *, method: str = "auto"
) -> Recovery:
    """Return the record of a search that has no answer at all.

    Parameters
    ----------
    blocks : RowBlocks
        The data.
    trace : list of dict
        What became of each method.
    n_hidden : int or "auto"
        What was asked for.
    method : str
        Who was asked.

    Returns
    -------
    Recovery
        Without a network; ``STOPPED_EARLY`` if time ran out.
    """
    X, Y = next(iter(blocks))
    shape = (len(X), X.shape[1], Y.shape[1])
    parameters: Mapping[str, Any] = {"n_hidden": n_hidden}
    tried = sum(line["outcome"] != "passed over" for line in trace)
    evidence = (Evidence("methods that could be tried", tried),)
    text = "; ".join(f"{line['method']}: {line.get('detail') or line['outcome']}" for line in trace)
    out_of_time = any(line["outcome"] == "out of time" for line in trace)
    return Recovery(
        None,
        Outcome.STOPPED_EARLY if out_of_time else Outcome.ASSUMPTION_FAILED,
        Guarantee.NONE,
        evidence,
        Unavailable("There is no network."),
        {},
        Provenance(method, "planted", parameters, None, shape),
        text,
        tuple(trace),
    )
