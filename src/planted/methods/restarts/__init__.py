r"""Recover a ReLU network with any number of outputs: expand, fit, prune, polish, and certify.

Problem     Y = f(X W' + b) A' + c + ξ with f the ReLU, any m ≥ 1, any law of x, k possibly above d. Most real
            problems have one output, where fits in the ReLU form end in local minima. Sought: W, b, A, c up to order
            and scale of units.
Idea        1. Write the network as absolute values and a linear part: no orientation to guess (`_absolute_form`).
            2. Fit k + extra hyperplanes by variable projection, take away the units that are missed least, polish;
               repeat from other starts until all rows are reproduced or what is left is noise (`_expand_search`).
            3. Orient the units by the linear part (`_orient_units`).
            4. Refine on all rows in the ReLU form, certify (`certificate`).
            Without a given k, the width with the plateau of held-out error is used (`_width_path`).
Guarantee   None that the search succeeds; a network is called recovered by its certificate alone: every row
            reproduced to rounding, among them rows the search never used; more equations than unknowns; Jacobian of
            full rank; every unit seen by 2(d+1) rows on either side. Kind: heuristic; with noise asymptotic.
            Not promised: units that fewer rows see on one side (the linear part absorbs them; the outcome names the
            unit), two-valued inputs (several networks agree on all of them).
Notation    V = (W, b) hyperplanes, β halves of the output weights, Λ linear part.
Departures  Ours; no paper. The ambiguity of orientations is Claim 4.8 of [ATV21]_.
Cost        Per step of the search n' (M(d+1))²/2 multiplications for M units on n' rows, about 4 equations per
            unknown; some 20–40 steps; a few passes over all rows. Memory O((M(d+1))²) and one block.
References  [ATV21]_
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from planted._typing import Progress, Seed
from planted._validation import check_choice
from planted.certificates._few_outputs import weigh_rows, weights_in_memory
from planted.certificates._missing_unit import lacks_a_unit
from planted.certificates._resolution import fails_by_resolution_alone
from planted.certificates.searches._run import SAME_SCORE, Run
from planted.certificates.searches._verdict import finish_exactly, finish_noisily
from planted.checks import Check
from planted.fitting._losses import check_loss
from planted.fitting._problem import Problem, prepare_problem, without_network
from planted.fitting.multistart._attempts import Attempt, attempt_from, attempts, challenge, explain_bulk
from planted.fitting.multistart._rows import EXACT_RMS, split_rows
from planted.fitting.multistart._width_path import follow_widths
from planted.methods.landscape import landscape_start
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Requirements, Unavailable, Verdict
from planted.rows import RowBlocks

__all__ = ["recover_restarts", "search_from"]

PATIENCE = 3  # further attempts that end at a known score before a doubtful answer is returned
CHALLENGE_GAIN = 0.03  # fall of the held-out error beside a network that is at most overfitting
MIN_ROWS = 8
STARTS = ("random", "landscape")
MAX_WIDENINGS = 3  # units added to a width whose residual still has room for one


def recover_restarts(
    blocks: RowBlocks,
    n_hidden: int | str = "auto",
    *,
    n_restarts: int = 10,
    extra: int | str = "auto",
    start: str = "random",
    offset: bool | str = "auto",
    loss: str = "squared",
    sample_weight: Any = None,
    random_state: Seed = None,
    progress: Progress | None = None,
) -> Recovery:
    """Recover a network with any number of outputs by restarts of an expanded fit.

    Parameters
    ----------
    blocks : RowBlocks
        The data.
    n_hidden : int or "auto"
        Number of units; chosen by held-out error if "auto".
    n_restarts : int
        Largest number of attempts.
    extra : int or "auto"
        Units beyond ``n_hidden`` in the expanded fit; half as many again, at least four, if "auto".
    start : {"random", "landscape"}
        First attempt: from random hyperplanes, or from a minimum of the objective f′ of `landscape`, for normal inputs, one
        output and no more units than inputs. Same-sign networks are found from either, at about the same cost.
    offset : bool or "auto"
        Whether the outputs may have an unknown constant; "auto" keeps it when it is needed.
    loss : {"squared", "huber", "cauchy", "sharp-cauchy", "l1", "auto"}
        Loss of the fit; all but the first forgive outliers, "auto" chooses by the tails of the residual.
    sample_weight : array_like of shape (n,), optional
        Weights of the samples, inverse to the variance of their noise; samples of weight zero are left out. Omitted for
        rows that carry their weights, as `planted.open_blocks` reads them.
    random_state : int, Generator, SeedSequence or None
        Seed of the solver.
    progress : callable, optional
        Told what is being done, with the best residual so far.

    Returns
    -------
    Recovery
        The network with its evidence. Interrupted by Ctrl-C, the best network so far with outcome ``STOPPED_EARLY``.
    """
    check_loss(loss)
    check_choice("start", start, STARTS)
    blocks, weights = weigh_rows(blocks, sample_weight)
    problem = prepare_problem(blocks, random_state=random_state, progress=progress)
    problem, local = weights_in_memory(problem, weights)
    options = {
        "n_hidden": n_hidden,
        "n_restarts": n_restarts,
        "extra": extra,
        "start": start,
        "offset": offset,
        "loss": loss,
        "sample_weight": "given" if weights is not None else None,
    }
    refusal = _too_few_samples(problem, n_hidden, options)
    if refusal is not None:
        return refusal
    search = split_rows(problem, loss=loss, omega=local)
    run = Run(problem, search, n_hidden, offset, loss, weights, options, REQUIRES)
    try:
        return _widen(run, _recover(run, n_restarts, extra), n_restarts, extra)
    except KeyboardInterrupt:
        return run.interrupted()


def search_from(run: Run, first: Attempt | None, *, n_restarts: int) -> Recovery:
    """Judge an attempt that another method has made, then go on as this one does.

    Returns the record, as of `recover_restarts`.
    """
    try:
        return _widen(run, _recover(run, n_restarts, "auto", first), n_restarts, "auto")
    except KeyboardInterrupt:
        return run.interrupted()


def _widen(run: Run, answer: Recovery, n_restarts: int, extra: int | str) -> Recovery:
    """Try more units while a width that was chosen by the path leaves room for another one."""
    latest = answer
    for _ in range(MAX_WIDENINGS):
        if run.n_hidden != "auto" or latest.network is None or not lacks_a_unit(latest):
            break
        latest = _recover(run.widened(latest.network.n_hidden + 1), n_restarts, extra)
        if latest.outcome is Outcome.RECOVERED:
            return latest
    return answer


@dataclass(frozen=True, slots=True)
class _Answer:
    """What would be returned if nothing better is found."""

    recovery: Recovery
    score: float
    is_final: bool


def _recover(run: Run, n_restarts: int, extra: int | str, first: Attempt | None = None) -> Recovery:
    """Attempt until a certificate holds; else return the best with what speaks against it."""
    k, run.waiting = _starting_width(run)
    if first is None and run.options.get("start") == "landscape":
        first = _attempt_from_landscape(run, k)
    run.waiting += [] if first is None else [first]
    if k == 0:
        return run.record(None, _no_kink_verdict())
    tries = attempts(run.problem, run.search, k, extra=extra, n_restarts=n_restarts)
    answer, patience = None, PATIENCE
    while (attempt := run.waiting.pop() if run.waiting else next(tries, None)) is not None:
        is_repeated = run.note(attempt)
        is_better = answer is None or attempt.score < (1 - SAME_SCORE) * answer.score
        found = _finish(run, attempt, is_repeated) if is_better else None
        if found is not None and found.is_final:
            return found.recovery
        if found is not None:
            answer, patience = found, PATIENCE
        elif answer is not None:
            patience -= int(is_repeated or answer.recovery.outcome is Outcome.NOT_IDENTIFIABLE)
        if not patience:
            break
    if answer is not None:
        return answer.recovery
    assert run.best is not None
    recovery = finish_noisily(run, run.best)
    return replace(recovery, outcome=Outcome.STOPPED_EARLY, guarantee=Guarantee.NONE)


def _finish(run: Run, attempt: Attempt, is_repeated: bool) -> _Answer | None:
    """Take an attempt to its verdict; None if it is neither exact nor down to the noise."""
    exact = attempt if attempt.is_exact else explain_bulk(run.search, attempt.fit)
    if exact is not None:
        recovery, missed = finish_exactly(run, exact)
        if missed and exact is not attempt:
            run.waiting.append(challenge(run.problem, run.search, exact.fit)[0])
        return _Answer(recovery, attempt.score, not missed and recovery.outcome is not Outcome.FITTED)
    if not (attempt.is_settled or is_repeated):
        return None
    recovery = finish_noisily(run, attempt)
    if recovery.outcome is not Outcome.RECOVERED and not fails_by_resolution_alone(recovery):
        return _Answer(recovery, attempt.score, False)
    rival, gain = challenge(run.problem, run.search, attempt.fit)
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
    run.waiting.append(rival)
    text = f"Splitting its units lowers the held-out error by {gain:.0%}: it is a local minimum."
    doubtful = replace(recovery, outcome=Outcome.FITTED, guarantee=Guarantee.HEURISTIC, detail=text)
    return _Answer(doubtful, attempt.score, False)


def _starting_width(run: Run) -> tuple[int, list[Attempt]]:
    """Return the number of units to look for and, if it was chosen by a path, the path's own fit as first attempt."""
    rows = run.search.rows
    linear = np.linalg.lstsq(rows, run.search.Y, rcond=None)[0]
    if np.abs(run.search.Y - rows @ linear).max() <= EXACT_RMS:
        return 0, []
    if isinstance(run.n_hidden, int):
        return run.n_hidden, []
    run.path = path = follow_widths(run.problem, run.search, keep=run.keep)
    run.best = None  # the expanded fits of the path are of other widths
    run.trace.extend(path.records)
    score, missed = run.search.judge(path.fit)
    record = {"start": "path", "k": path.n_hidden, "residual": float(np.sqrt(score)), "costs": []}
    is_exact = run.loss == "squared" and path.is_exact
    return path.n_hidden, [Attempt(path.fit, score, is_exact, missed, True, score, record)]


def _attempt_from_landscape(run: Run, n_hidden: int) -> Attempt | None:
    """Make an attempt from a minimum of f′, where it is defined."""
    network = landscape_start(run.problem, n_hidden) if n_hidden else None
    if network is None:
        return None
    V = np.hstack([network.W, network.b[:, None]])
    return attempt_from(run.problem, run.search, V, n_hidden=n_hidden, start="landscape")


def _no_kink_verdict() -> Verdict:
    text = "The outputs are a linear function of the inputs on all samples: no unit is seen both on and off."
    reason = Unavailable("There is no network.")
    return Verdict(Outcome.NOT_IDENTIFIABLE, Guarantee.NONE, (), text, reason)


def _too_few_samples(problem: Problem, n_hidden: int | str, options: dict[str, Any]) -> Recovery | None:
    """Refuse when there are fewer equations than unknowns, or hardly any rows."""
    d, m = problem.n_features, problem.n_outputs
    k = n_hidden if isinstance(n_hidden, int) else 1
    need = max((k * (d + m)) // m + 1, d + 2, MIN_ROWS)
    if problem.n_samples > need:
        return None
    line = Evidence(
        "samples", problem.n_samples, need + 1, ">=", "(k(d+1) + mk - k)/m and one more", key=Check.SAMPLES
    )
    text = f"{problem.n_samples} samples for {k} unit(s) of {d} inputs; at least {need + 1} are needed."
    stats = problem.stats(restarts=0)
    return without_network(
        problem,
        REQUIRES,
        options,
        outcome=Outcome.TOO_FEW_SAMPLES,
        evidence=(line,),
        detail=text,
        stats=stats,
    )
