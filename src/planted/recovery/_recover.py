"""`planted.recover`: validate, choose, run; with ``method="auto"`` an ordered plan that the first certificate ends.

Problem     A table, no theorem. Choose methods the data allow, cheap and exact ones first; return one answer.
Idea        1. The methods' cards say which of them apply. They are tried in the registry's order; the others are passed
               over with the reason. Nothing is measured that no card asks for.
            2. The first answer that is certified, RECOVERED, ends the search; so does one against which nothing speaks but
               that noise would hide units closer than its own, since no method sees further. If the number of units is
               given, so does one of that width that lacks no unit and leaves no trace of x, although a model near it fits
               a little better: another method would find the same. One that reproduces every
               sample to rounding and says why it is not the only one is returned unless a later one is certified.
            3. Otherwise answers are cross-validated, each method searching again on part of the rows: a network that
               was only refined there would remember the rest. The best score wins, scores within `TIE` of it give way to
               fewer units. An answer with a cross-validation of its own gives way only to one better by `CLEARLY`; folds
               are searched while that is possible. Where samples are `PLENTY` times as many as parameters, a network
               hardly remembers them: one of fewer units that fits as well is preferred without a new search.
            4. ``effort="quick"`` tries only methods without a search and compares nothing.
            5. Time: `budget_seconds` is a deadline for all of it. What ran out of time is recorded, and the best network
               so far is returned as STOPPED_EARLY.
            What happened to each method is in `trace`.
Guarantee   That of the method that answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from planted._clock import StopRequested, check_time, time_budget
from planted._threads import one_thread_inside
from planted._typing import Array, Progress, Seed
from planted._validation import check_choice, check_n_hidden
from planted.checks import Check
from planted.fitting._refine import refine
from planted.fitting._run import MethodRun, Preparation, Problem
from planted.networks import is_slope_unknown, is_unknown, requested_activation
from planted.outcomes import BadInputError, Guarantee, Outcome
from planted.recovery._diagnose import Facts, blocks_and_notices, check_method
from planted.recovery._registry import Method, find_method, methods, require_room, weighing_method
from planted.results import Evidence, Recovery, Requirements
from planted.rows import RowBlocks, sample_rows

__all__ = ["AUTO", "recover", "recover_automatically"]

SCORE_ROWS = 5000
FOLDS = 4
FLATTERING_STEPS = 20
TIE = 0.01  # relative difference of held-out scores that counts as none
EXCLUDED = "these outputs have no noise, and complementarity found none, whatever the inputs"
BEND_NOISE = 4.0  # noise variances by which a smooth bend may fit better by chance
# What noise or a gap between the samples may hide: it speaks against a claim, not against the answer.
UNSEEN = (
    Check.CLOSE_UNITS,
    Check.HIDDEN_PAIRS,
    Check.HIDDEN_UNITS,
    Check.KNOWN_LINEAR_PART,
    Check.GAP,
    Check.UNITS_APART,
)
# Tests at a level that speak against the standard errors of a network, where nothing else does: another method would find
# the same network.
NEARBY = (Check.NEAR_MODELS, Check.UNCERTAIN_SIDES, Check.CHOSEN_ROWS, Check.LOST_ROWS)
TRACE = 1e-3  # p-value below which a trace of x in the residual is no chance
PLENTY = 100  # samples for each parameter
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


def recover_automatically(
    run: MethodRun,
    n_hidden: int | str,
    *,
    activation: str,
    effort: str = "normal",
    affine: bool | str = "auto",
) -> Recovery:
    """Try the methods the data allow until one is certified; the trace begins with one line per method considered."""
    answers: list[Recovery] = []
    run.on_stop = partial(_stopped_early, run, answers, n_hidden)
    for method in _plan(Facts(run.problem, n_hidden), activation, effort, run.trace, answers):
        asked = {**method.at_effort(effort), **method.with_affine(affine), **method.assuming_nothing()}
        if affine is True and not asked.get("affine"):
            run.trace.append(
                _passed_over(method.requires.method, "knows no linear part, and one is asked for")
            )
            continue
        check_time()
        answer = method.run(run.data, n_hidden, activation=activation, **asked)
        run.trace.append(_line(answer))
        answers.append(answer)
        if answer.network is not None and (
            answer.outcome in (Outcome.RECOVERED, Outcome.STOPPED_EARLY) or _is_settled(answer, n_hidden)
        ):
            break
    best = _first(answers, n_hidden) if effort == "quick" else _choose(run, answers, activation, n_hidden)
    if best is None:
        run.refuse(Outcome.ASSUMPTION_FAILED, _what_was_tried(run), _methods_tried(run))
    return _with_trace(run, _with_reason(best, answers))


def _with_reason(best: Recovery, answers: list[Recovery]) -> Recovery:
    """Add to a fit that nothing was tested of what kept the answer nearest to a claim from being one."""
    tested = [answer for answer in answers if answer.network is not None and answer.failed]
    is_tested = find_method(best.provenance.algorithm).requires.guarantee is not Guarantee.NONE
    if best.outcome is not Outcome.FITTED or is_tested or not tested:
        return best
    near = min(tested, key=lambda answer: len(answer.failed))
    assert near.network is not None
    count, why = near.network.n_hidden, near.detail.partition(";")[0].rstrip(".")
    units = f"{count} unit" + "s" * (count != 1)
    said = f"{best.detail} Nearest to a claim came {units} by {near.provenance.algorithm}: {why}."
    return replace(best, detail=said)


def _with_trace(run: MethodRun, best: Recovery) -> Recovery:
    return replace(best, trace=(*run.trace, *best.trace))


def _what_was_tried(run: MethodRun) -> str:
    return "; ".join(f"{line['method']}: {line.get('detail') or line['outcome']}" for line in run.trace)


def _methods_tried(run: MethodRun) -> Evidence:
    tried = sum(line["outcome"] != "passed over" for line in run.trace)
    return Evidence("methods tried", tried, key=Check.METHODS_TRIED)


def _plan(
    facts: Facts, activation: str, effort: str, trace: list[dict[str, Any]], answers: list[Recovery]
) -> Iterator[Method]:
    """Yield the methods to try, in order; those passed over are recorded with the reason.

    If a noise-tolerant method returned FITTED, the data are noisy: methods for noiseless data are passed over. Where every
    sample is already reproduced, a method without a guarantee has nothing to add.
    """
    known = facts.n_hidden if isinstance(facts.n_hidden, int) else 1
    for name, card in methods().items():
        if not card.takes(activation):
            trace.append(_passed_over(name, f"does not handle the activation {activation!r}"))
            continue
        if effort == "quick" and not card.is_quick:
            trace.append(_passed_over(name, "a search that takes longer than effort='quick' allows"))
            continue
        if card.guarantee is Guarantee.NONE and any(map(_reproduces_all, answers)):
            trace.append(_passed_over(name, "every sample is already reproduced to rounding"))
            continue
        if card.n_outputs == "m >= k" and answers and _excludes_independent_units(facts, answers):
            trace.append(_passed_over(name, f"needs units whose output weights are independent: {EXCLUDED}"))
            continue
        is_noisy = any(answer.outcome is Outcome.FITTED for answer in answers)
        check = check_method(card, facts, n_hidden=known, is_noisy=is_noisy)
        # Too few samples for a promise are still worth a try; the certificate decides.
        if check.applies or check.lacks_samples:
            yield find_method(name)
        else:
            trace.append(_passed_over(name, check.reason))


def _excludes_independent_units(facts: Facts, answers: list[Recovery]) -> bool:
    """Whether noiseless outputs are not those of any units with independent output weights.

    Outputs of exactly r dimensions carry no noise. Each of r such units adds a vector to the null space of
    `complementarity`, whatever the inputs: with samples enough for its theorem it would have reproduced them.
    """
    problem, rank = facts.problem, facts.widths[0]
    columns = rank * (rank + 1) // 2 + rank * (problem.n_features + 1)
    has_looked = any(answer.provenance.algorithm == "complementarity" for answer in answers)
    is_clean = facts.noise.kind == "rank" and 1 < rank < problem.n_outputs
    return (
        has_looked and is_clean and len(problem.X) >= 2 * columns and not any(map(_reproduces_all, answers))
    )


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


def _first(answers: list[Recovery], n_hidden: int | str) -> Recovery | None:
    """Return an answer without comparing them: one that is settled, else one that knows its own held-out error."""
    known = [answer for answer in answers if answer.held_out_mse is not None]
    return _settled(answers, n_hidden) or next(iter(known or answers), None)


def _choose(run: MethodRun, answers: list[Recovery], activation: str, n_hidden: int | str) -> Recovery | None:
    """Return the certified answer, or the best by cross-validation with ties to the simpler (step 3)."""
    settled = _settled(answers, n_hidden)
    if settled is not None:
        return settled
    found = [answer for answer in answers if answer.network is not None]
    if any(
        answer.outcome is Outcome.STOPPED_EARLY for answer in found
    ):  # stopped early: do not cross-validate
        return _best_so_far(run, answers, n_hidden)
    steady = [answer for answer in found if answer.held_out_mse is not None]
    if steady:
        found = [answer for answer in found if not _has_few_samples(answer)]
    if len(found) <= 1:
        return found[0] if found else (answers[0] if answers else None)
    rows = sample_rows(run.data.blocks, SCORE_ROWS, np.random.default_rng(0))
    bar = np.inf
    if steady:
        simpler = _simpler(run, rows, steady[0], found)
        if simpler is not None:
            return simpler
        # A new search costs much: it is spared those that do not even look better.
        bar = _score(rows, steady[0], activation) * (1 - CLEARLY)
        found = [answer for answer in found if answer is steady[0] or _flattering_score(rows, answer) < bar]
    scores = [_score(rows, answer, activation, limit=bar) for answer in found]
    if steady and scores[found.index(steady[0])] * (1 - CLEARLY) <= min(scores):
        return steady[0]
    good = [answer for answer, score in zip(found, scores, strict=True) if score <= min(scores) * (1 + TIE)]
    return min(good, key=lambda answer: answer.network.n_hidden if answer.network is not None else 0)


def _simpler(
    run: MethodRun, rows: tuple[Array, Array], steady: Recovery, answers: list[Recovery]
) -> Recovery | None:
    """Return the answer of fewest units, no more than a given one has, that fits as well where samples abound; else None."""
    n = run.problem.n_samples

    def error(answer: Recovery) -> float:
        assert answer.network is not None
        free = 1 - answer.network.n_parameters / n
        return float(((rows[1] - answer.network(rows[0])) ** 2).mean() / free)

    assert steady.network is not None and steady.held_out_mse is not None
    fewer = [
        answer
        for answer in answers
        if answer.network is not None
        and answer is not steady
        and answer.outcome is Outcome.FITTED
        and answer.network.n_hidden <= steady.network.n_hidden
        and PLENTY * answer.network.n_parameters <= n
    ]
    if not fewer:
        return None
    is_known = PLENTY * steady.network.n_parameters <= n
    bar = (error(steady) if is_known else steady.held_out_mse) * (1 + TIE)
    good = [answer for answer in fewer if error(answer) <= bar]
    return min(
        good, key=lambda answer: answer.network.n_hidden if answer.network is not None else 0, default=None
    )


def _has_few_samples(answer: Recovery) -> bool:
    """Return whether there are hardly more samples than unknowns: a comparison would be luck."""
    is_short = any(not item.passed for item in answer.find(Check.SAMPLES))
    return is_short or answer.outcome is Outcome.TOO_FEW_SAMPLES


def _is_settled(answer: Recovery, n_hidden: int | str) -> bool:
    """Whether nothing speaks against an answer but the noise, or tests show that there are kinks or none.

    An answer of the width asked for may also be refused by a test of models near it.

    Kinks that leave a trace of x beyond chance, in the residual or in that of neighbours, are only part of an answer.
    """
    keys = (Check.SMOOTH_CURVE, Check.ONE_COLUMN, Check.OBLIQUE_KINKS)
    kinks = [line for key in keys for line in answer.find(key)]
    is_asked = answer.network is not None and answer.network.n_hidden == n_hidden
    minor = (*UNSEEN, *NEARBY) if is_asked else UNSEEN
    nothing_else = answer.fails_only(*minor) or _is_one_kink(answer)
    neighbours = answer.find(Check.NEIGHBOURS)  # of a straight line too, which has no kinks to test
    is_whole = all(line.measured > TRACE for line in (*answer.find(Check.LACK_OF_FIT), *neighbours))
    return nothing_else or (bool(kinks or neighbours) and is_whole and all(line.passed for line in kinks))


def _is_one_kink(answer: Recovery) -> bool:
    """Whether one unit fits as well as any smooth bend in its place, up to noise, only not by enough to be claimed."""
    if answer.network is None or answer.network.n_hidden != 1:
        return False
    is_near = all(line.measured > -BEND_NOISE for line in answer.find(Check.SMOOTH_BENDS))
    return is_near and answer.fails_only(Check.SMOOTH_BENDS, *UNSEEN)


def _settled(answers: list[Recovery], n_hidden: int | str) -> Recovery | None:
    """Return the answer that needs no comparison: certified, as far as noise lets anyone see, or all samples."""
    certified = [answer for answer in answers if answer.outcome is Outcome.RECOVERED]
    others = [item for item in answers if _is_settled(item, n_hidden) or _reproduces_all(item)]
    return next(iter([*certified, *others]), None)


def _score(rows: tuple[Array, Array], answer: Recovery, activation: str, *, limit: float = np.inf) -> float:
    """Return the squared error on rows the search did not see, from the method's own cross-validation where it has one.

    `limit`: an error that decides whether the answer is chosen. No further fold is searched once the rows of those so
    far are on one side of it by a standard error of their mean.
    """
    if answer.held_out_mse is not None:
        return answer.held_out_mse
    assert answer.network is not None
    X, Y = rows
    method = find_method(answer.provenance.algorithm)
    folds = np.random.default_rng(FOLDS).permutation(len(X)) % FOLDS
    squares = np.zeros(0)
    for fold in range(FOLDS):
        train, test = folds != fold, folds == fold
        part = Preparation(RowBlocks.from_arrays(X[train], Y[train]), random_state=0)
        again = method.run(
            part, answer.network.n_hidden, activation=activation, **method.at_effort("quick")
        ).network
        if again is None:
            return np.inf
        squares = np.concatenate([squares, ((Y[test] - again(X[test])) ** 2).mean(axis=1)])
        if abs(squares.mean() - limit) > squares.std() / np.sqrt(len(squares)) and np.isfinite(limit):
            break
    return float(squares.mean())


def _flattering_score(rows: tuple[Array, Array], answer: Recovery) -> float:
    """Return the squared error on a part of the rows after refining the network, which has seen them, on the others."""
    assert answer.network is not None
    X, Y = rows
    cut = max(len(X) // FOLDS, 1)
    fit = refine(RowBlocks.from_arrays(X[cut:], Y[cut:]), answer.network, max_iter=FLATTERING_STEPS)
    return float(((Y[:cut] - fit.network(X[:cut])) ** 2).mean())


def _best_so_far(run: MethodRun, answers: list[Recovery], n_hidden: int | str) -> Recovery | None:
    """Return the best by the residual on the rows in memory: there is no time for a comparison, nor for a pass."""
    found = [answer for answer in answers if answer.network is not None]
    best = _settled(answers, n_hidden)
    if best is None and found:
        best = min(found, key=lambda answer: _mean_square(run.problem, answer))
    if best is None or best.outcome is Outcome.RECOVERED:
        return best
    return replace(best, outcome=Outcome.STOPPED_EARLY, guarantee=Guarantee.NONE)


def _mean_square(problem: Problem, answer: Recovery) -> float:
    """Return the mean squared residual of an answer on the sampled rows."""
    assert answer.network is not None
    network = problem.scaling.standardise(answer.network)
    return float(((problem.Y - network(problem.X)) ** 2).mean())


def _stopped_early(run: MethodRun, answers: list[Recovery], n_hidden: int | str, reason: str) -> Recovery:
    """Return what there is when time is up or the user has had enough."""
    text, tried = f"{reason} {_what_was_tried(run)}".strip(), _methods_tried(run)
    run.trace.append({"method": "auto", "outcome": Outcome.STOPPED_EARLY.name, "detail": reason})
    best = _best_so_far(run, answers, n_hidden)
    return run.interrupted(text, None, tried) if best is None else _with_trace(run, best)


EFFORTS = ("quick", "normal", "thorough")


@one_thread_inside
def recover(
    X: Any,
    Y: Any = None,
    n_hidden: int | str = "auto",
    *,
    method: str = "auto",
    activation: str = "relu",
    effort: str = "normal",
    affine: bool | str = "auto",
    likelihood: str = "gaussian",
    random_state: Seed = None,
    progress: Progress | None = None,
    budget_seconds: float | None = None,
    missing_labels: str = "refuse",
    **options: Any,
) -> Recovery:
    """Recover the two-layer network that generated the data.

    Parameters
    ----------
    X : array_like of shape (n, d), DataFrame, Dask array or dataframe, or RowBlocks
        Inputs. A `planted.RowBlocks` carries inputs and outputs, perhaps weights, and may be larger than memory; Y is
        then omitted.
    Y : array_like of shape (n, m) or (n,), or Dask array, dataframe or series, optional
        Outputs.
    n_hidden : int or "auto"
        Number of hidden units, if it is known.
    method : str, default="auto"
        One of `planted.methods`, or "auto". Rows that carry weights need a method that takes them; "auto" chooses it.
    activation : str, default="relu"
        Activation of the hidden units: ``"relu"``, ``"leaky-relu:SLOPE"``, ``"leaky-relu"`` (the slope is found too),
        ``"absolute"``, ``"power:P"``, ``"quadratic"``, ``"tanh"``, ``"sigmoid"``, ``"softplus"``, ``"gelu"``, ``"silu"``,
        ``"elu"``, one of `planted.register_activation`, or ``"auto"``, which compares a short list.
    effort : {"quick", "normal", "thorough"}
        How long to look. "quick" tries only methods without a search and fits a small network if they fail;
        "thorough" tries more networks before it says no. For "auto" and for methods with an option of that name.
    affine : bool or "auto"
        Whether the network has a linear part beside its units, y = A f(W x + b) + B x + c: slopes that bend. "auto"
        keeps it where no network without one explains the data. For "auto" and for methods with an option of that name.
    likelihood : {"gaussian", "logistic", "multinomial", "poisson"}
        Law of Y given the network. "logistic" and "multinomial": Y holds classes of any kind, and the network gives their
        log-odds against the first one; "poisson": Y holds counts, and the network gives the logarithm of their means.
        Rows in blocks carry encoded labels: 0 and 1 in one column for every class but the first, or counts.
    random_state : int, Generator, SeedSequence or None
        Seed of the solver; the same seed gives the same answer. With None a fresh one is drawn and recorded in
        the provenance.
    progress : callable, optional
        Called as ``progress(what, fraction)`` while working.
    budget_seconds : float, optional
        Time limit; the best network so far is then returned as ``STOPPED_EARLY``.
    missing_labels : {"refuse", "mask"}
        What to do about labels that are NaN: refuse them, or leave these entries out and use all others.
    **options
        Options of the method.

    Returns
    -------
    Recovery
        The network, how far to trust it, and why.

    Examples
    --------
    >>> import planted
    >>> data = planted.simulate.dataset(80, n_features=6, n_hidden=3, n_outputs=4, law="exponential",
    ...                                 activity=(0.3, 0.7), random_state=0)
    >>> recovery = planted.recover(data.X, data.Y, random_state=0)
    >>> recovery.outcome.name, planted.parameter_error(recovery.network, data.network) < 1e-12
    ('RECOVERED', True)
    """
    k = check_n_hidden(n_hidden)
    check_choice("effort", effort, EFFORTS)
    check_choice("affine", affine, ("auto", True, False))
    options = options if effort == "normal" else {**options, "effort": effort}
    if missing_labels not in ("refuse", "mask"):
        raise BadInputError(f"missing_labels={missing_labels!r}; expected 'refuse' or 'mask'")
    name = requested_activation(activation)
    classes = None
    if likelihood != "gaussian":
        method = _method_for_labels(method, name, likelihood, missing_labels)
        from planted.recovery._labels import encoded_rows  # only who has labels needs it

        X, Y, classes = encoded_rows(X, Y, likelihood)
        options = {**options, "likelihood": likelihood}
    blocks, notices = _rows_of(X, Y, missing_labels)
    chosen = _method_named(weighing_method(method) if blocks.is_weighted else method, name, options)
    if affine is True and "affine" not in chosen.options:
        able = ", ".join(repr(other) for other in methods() if "affine" in find_method(other).options)
        raise BadInputError(
            f"method {method!r} knows no linear part, and affine=True asks for one; {able} do."
        )
    options = options if affine == "auto" else {**options, **chosen.with_affine(affine)}
    data = Preparation(blocks, random_state=random_state, progress=progress)
    with time_budget(budget_seconds):
        with suppress(
            StopRequested
        ):  # the method, too, stops at the first row it asks for, and says so in its record
            require_room(blocks, k)
        if missing_labels == "mask":
            from planted.recovery._missing import recover_despite_missing  # only who masks labels needs it

            masked = Method(chosen.requires, recover_despite_missing)
            answer = masked.run(data, k, method=chosen, activation=name, options=options)
        else:
            answer = chosen.run(data, k, activation=name, **options)
    if notices:
        answer = replace(answer, stats={**answer.stats, "notices": list(notices)})
    return answer if classes is None else replace(answer, stats={**answer.stats, "classes": classes})


def _method_for_labels(method: str, activation: str, likelihood: str, missing_labels: str) -> str:
    """Return the method for a likelihood; refuse what none of those that take it can do, with what works."""
    able = [name for name, card in methods().items() if likelihood in card.likelihoods]
    if not able:
        known = sorted({each for card in methods().values() for each in card.likelihoods})
        raise BadInputError(f"likelihood={likelihood!r}; expected one of {', '.join(map(repr, known))}")
    if method != "auto" and method in methods() and method not in able:
        raise BadInputError(
            f"method {method!r} takes numbers only; likelihood={likelihood!r} is taken by {', '.join(map(repr, able))}. "
            "Name it, or leave the choice to method='auto'."
        )
    if is_unknown(activation) or is_slope_unknown(activation):
        nearest = "'leaky-relu:0.1' with its slope" if is_slope_unknown(activation) else "'relu' or 'tanh'"
        raise BadInputError(
            f"likelihood={likelihood!r} needs an activation by name, such as {nearest}; got {activation!r}"
        )
    if not any(methods()[name].takes(activation) for name in able):
        kinds = ", ".join(dict.fromkeys(kind for name in able for kind in methods()[name].activations))
        raise BadInputError(
            f"likelihood={likelihood!r} is taken with an activation among {kinds}; got {activation!r}, which "
            f"methods for numbers take only (likelihood='gaussian')"
        )
    if missing_labels == "mask":
        raise BadInputError(f"likelihood={likelihood!r} cannot mask missing labels; leave those rows out")
    return able[0] if method == "auto" else method


def _rows_of(X: Any, Y: Any, missing_labels: str) -> tuple[RowBlocks, tuple[str, ...]]:
    """Return the rows, with NaN for missing labels where they are allowed, and what is worth knowing about them."""
    if missing_labels == "refuse":
        return blocks_and_notices(X, Y)
    if isinstance(X, RowBlocks) and X.is_weighted:
        raise BadInputError("rows that carry weights cannot have missing labels; leave out one or the other")
    from planted.recovery._missing import masked_blocks

    return masked_blocks(X, Y), ()


def _method_named(name: str, activation: str, options: dict[str, Any]) -> Method:
    """Return the method that was asked for; refuse an activation or options that it does not know."""
    if name == "auto":
        unknown = [name for name in options if name != "effort"]
        if unknown:
            raise BadInputError(f"options {', '.join(unknown)} belong to a method; name it with method=...")
        if is_unknown(activation):
            from planted.recovery._activation_choice import recover_with_some_activation

            return Method(AUTO, recover_with_some_activation)
        return Method(AUTO, recover_automatically)
    chosen = find_method(name)
    if is_unknown(activation):
        raise BadInputError(
            f"method {name!r} needs to know the activation; with activation='auto' leave method='auto'"
        )
    if not chosen.requires.takes(activation):
        able = ", ".join(repr(other) for other, card in methods().items() if card.takes(activation))
        raise BadInputError(
            f"method {name!r} needs an activation among {', '.join(chosen.requires.activations)}; got {activation!r}. "
            f"Methods that take it: {able}; name one, or leave the choice to method='auto'."
        )
    chosen.check_options(options)
    return chosen
