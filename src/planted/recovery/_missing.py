"""`planted.recover(..., missing_labels="mask")`: labels that are NaN in some outputs of some rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from planted._typing import Array, Progress, Seed
from planted._validation import check_rows
from planted.methods.gross_errors._missing_labels import (
    complete_rows,
    judge_with_incomplete_rows,
    label_counts,
)
from planted.outcomes import BadInputError, Outcome
from planted.recovery._registry import find_method
from planted.results import Recovery
from planted.rows import RowBlocks

__all__ = ["masked_blocks", "recover_despite_missing"]

MASKED_METHODS = ("gross-errors", "half-spaces")  # they leave missing labels out themselves
FEWEST_COMPLETE = 40
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
    blocks: RowBlocks,
    n_hidden: int | str,
    *,
    method: str,
    run: Callable[[RowBlocks], Recovery],
    random_state: Seed,
    progress: Progress | None,
    options: dict[str, Any],
) -> Recovery:
    """Recover a network from all labels there are.

    Returns the answer on all labels; the best there is if none is certified.
    """
    rows, complete, by_output = label_counts(blocks)
    if not by_output.any():
        return run(blocks)
    if (by_output == rows).any():
        empty = int(np.argmax(by_output == rows))
        raise BadInputError(
            f"output {empty}, counted from 0, has no label in any row. Leave this output out."
        )
    if method in MASKED_METHODS:
        return find_method(method).run(
            blocks, n_hidden, random_state=random_state, progress=progress, **options
        )
    answers = []
    if complete >= FEWEST_COMPLETE or method != "auto":
        answer = run(complete_rows(blocks))
        if answer.outcome is Outcome.RECOVERED:
            return judge_with_incomplete_rows(blocks, answer, random_state=random_state, progress=progress)
        answers.append(answer)
    for name in MASKED_METHODS if method == "auto" else ():
        answer = find_method(name).run(blocks, n_hidden, random_state=random_state, progress=progress)
        if answer.outcome is Outcome.RECOVERED:
            return answer
        answers.append(answer)
    return next((answer for answer in reversed(answers) if answer.network is not None), answers[0])


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
