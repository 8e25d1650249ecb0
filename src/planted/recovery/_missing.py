"""`planted.recover(..., missing_labels="mask")`: labels that are NaN in some outputs of some rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from planted._typing import Array
from planted._validation import check_rows
from planted.certificates._exact import output_limits
from planted.certificates._robust import certify_with_loss
from planted.certificates.noise._law import independence
from planted.checks import Check
from planted.fitting._losses import refine_with_loss
from planted.fitting._masked_labels import complete_rows, label_counts
from planted.fitting._outlier_table import find_outliers
from planted.fitting._run import MethodRun, Preparation
from planted.outcomes import BadInputError, Guarantee, Outcome
from planted.recovery._registry import Method, find_method
from planted.results import Evidence, Recovery
from planted.rows import RowBlocks

__all__ = ["masked_blocks", "recover_despite_missing"]

MASKED_METHODS = ("gross-errors", "half-spaces")  # they leave missing labels out themselves
FEWEST_COMPLETE = 40
WHATEVER = "Labels are taken to be missing whatever their noise is: nothing in the others tells."
CHANCE_LEVEL = 0.01  # of the test that labels are missing by chance
STEP = 4096


def masked_blocks(X: Any, Y: Any, *, keep_empty: bool = False) -> RowBlocks:
    """Return row blocks whose outputs are NaN where a label is missing.

    Shapes: X (n, d), Y (n, m).
    """
    if isinstance(X, RowBlocks) and Y is None:
        pairs: Callable[[], Iterable[tuple[Any, Any]]] = X.open
    else:
        data = check_rows(X, Y, may_miss=True)
        pairs = partial(_slices, data.X, data.Y)
    # Blocks are checked to be finite where they are read: the mask travels beside the values up to there.
    return RowBlocks(partial(_with_mask, pairs, keep_empty)).map(_masked, may_miss=True)


def recover_despite_missing(
    run: MethodRun, n_hidden: int | str, *, method: Method, activation: str, options: dict[str, Any]
) -> Recovery:
    """Recover a network from all labels there are; the best answer if none is certified.

    `method`: what was asked for; `run` is a run on rows of which some labels are NaN.
    """
    blocks, name = run.data.blocks, method.requires.method
    rows, complete, by_output = label_counts(blocks)
    if not by_output.any() or name in MASKED_METHODS:
        answer = method.run(run.data, n_hidden, activation=activation, **options)
        return _if_by_chance(run.data, answer) if by_output.any() else answer
    if (by_output == rows).any():
        empty = int(np.argmax(by_output == rows))
        raise BadInputError(
            f"output {empty}, counted from 0, has no label in any row. Leave this output out."
        )
    answers = []
    if complete >= FEWEST_COMPLETE or name != "auto":
        whole = run.data.of(complete_rows(blocks))
        answer = method.run(whole, n_hidden, activation=activation, **options)
        if answer.outcome is Outcome.RECOVERED:
            return _if_by_chance(run.data, _judge_with_incomplete_rows(run.data, answer))
        answers.append(answer)
    for other in MASKED_METHODS if name == "auto" else ():
        answer = find_method(other).run(run.data, n_hidden)
        if answer.outcome is Outcome.RECOVERED:
            return _if_by_chance(run.data, answer)
        answers.append(answer)
    return next((answer for answer in reversed(answers) if answer.network is not None), answers[0])


def _judge_with_incomplete_rows(data: Preparation, recovery: Recovery) -> Recovery:
    """Compare a network found on complete rows with all labels, refine it on them if there is noise, and judge again."""
    assert recovery.network is not None
    problem = data.problem("clipped")
    network = problem.scaling.standardise(recovery.network)
    missing = Evidence("missing labels", int(label_counts(data.blocks)[2].sum()), key=Check.MISSING_LABELS)
    if recovery.guarantee is Guarantee.EXACT:
        limits = output_limits(problem.Y)
        wrong = find_outliers(problem.blocks, network, limits=limits).n_entries
        line = Evidence(
            "labels, also of incomplete rows, that are not reproduced",
            wrong,
            0,
            "==",
            key=Check.CONTRADICTED_LABELS,
        )
        answer = replace(recovery, evidence=(missing, line, *recovery.evidence))
        if line.passed:
            return answer
        text = f"{wrong} label(s) of incomplete rows contradict the network that the complete rows determine."
        return replace(
            answer, outcome=Outcome.ASSUMPTION_FAILED, guarantee=Guarantee.NONE, detail=text, network=None
        )
    robust = refine_with_loss(problem, network, "auto", loss="squared")
    verdict = certify_with_loss(problem, robust, asked="squared")
    return replace(
        recovery,
        network=problem.scaling.restore(robust.fit.network),
        outcome=verdict.outcome,
        guarantee=verdict.guarantee,
        evidence=(missing, *verdict.evidence),
        uncertainty=verdict.uncertainty,
        detail=verdict.detail,
    )


def _if_by_chance(data: Preparation, recovery: Recovery) -> Recovery:
    """Claim a network of noisy labels only if those that are missing are missing whatever x and the prediction are.

    Labels that are missing because of what they were leave others with a noise of another mean; nothing tells that from
    labels that are missing because of x.
    """
    if recovery.outcome is not Outcome.RECOVERED or recovery.guarantee is Guarantee.EXACT:
        return recovery
    assert recovery.network is not None
    problem = data.problem("clipped")
    F, is_missing = problem.scaling.standardise(recovery.network)(problem.X), np.isnan(problem.Y)
    line = Evidence(
        "p-value of the test that missing labels ignore x",
        independence(problem.X, F, is_missing.astype(np.float64)),
        CHANCE_LEVEL,
        ">=",
        "missing by chance",
        key=Check.MISSING_LABELS,
    )
    answer = replace(recovery, evidence=(*recovery.evidence, line))
    if line.passed:
        return replace(answer, detail=f"{answer.detail} {WHATEVER}")
    text = f"{line.shortfall}: if labels are missing because of what they were, the others mislead."
    return replace(answer, outcome=Outcome.FITTED, guarantee=Guarantee.HEURISTIC, detail=text)


def _slices(X: Array, Y: Array) -> Iterator[tuple[Array, Array]]:
    for start in range(0, len(X), STEP):
        yield X[start : start + STEP], Y[start : start + STEP]


def _with_mask(
    pairs: Callable[[], Iterable[tuple[Any, Any]]], keep_empty: bool
) -> Iterator[tuple[Array, Array]]:
    """Labels with zero where they are missing, and beside them one where they are."""
    for X, Y in pairs():
        labels = np.asarray(Y, dtype=np.float64).reshape(len(X), -1)
        is_missing = np.isnan(labels)
        kept = ~is_missing.all(axis=1) | keep_empty
        if kept.any():
            filled = np.hstack([np.where(is_missing, 0.0, labels), is_missing])
            yield np.asarray(X, dtype=np.float64)[kept], filled[kept]


def _masked(X: Array, filled: Array) -> tuple[Array, Array]:
    labels, is_missing = np.hsplit(filled, 2)
    return X, np.where(is_missing > 0, np.nan, labels)
