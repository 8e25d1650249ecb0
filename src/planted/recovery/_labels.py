"""Class labels and counts as a user has them, encoded as the numbers that a likelihood is about.

Two classes become one column of zeros and ones, K classes K - 1 columns, one for every class but the first; classes are in
sorted order. Counts stay. Rows in blocks carry encoded labels already, and are checked in one pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from planted._typing import Array
from planted.fitting.likelihoods._families import CLASSES, LIKELIHOODS
from planted.outcomes import BadInputError
from planted.rows import RowBlocks, Sums, accumulate

__all__ = ["encode_labels", "encoded_rows"]

MOST_CLASSES = 100


def encoded_rows(X: Any, labels: Any, likelihood: str) -> tuple[Any, Any, list[Any] | None]:
    """Return inputs and encoded labels in the form that they came in, and the classes where there are names for them."""
    if likelihood not in LIKELIHOODS:
        raise BadInputError(f"likelihood={likelihood!r}; expected one of {', '.join(map(repr, LIKELIHOODS))}")
    if hasattr(X, "__dask_graph__"):
        raise BadInputError(
            f"likelihood={likelihood!r} takes rows in memory or in blocks; compute the Dask collection first, or "
            "write it to Parquet and use planted.open_blocks"
        )
    if isinstance(X, RowBlocks) and labels is None:
        _check_encoded(X, likelihood)
        return X, None, None
    if labels is None:
        raise BadInputError("recovery requires y to be passed, but the labels are None.")
    Y, classes = encode_labels(labels, likelihood)
    return X, Y, None if classes is None else [_plain(name) for name in classes.tolist()]


def _plain(name: Any) -> Any:
    """Return a class as people write it: 1 instead of 1.0."""
    return int(name) if isinstance(name, float) and name.is_integer() else name


def encode_labels(labels: Any, likelihood: str) -> tuple[Any, npt.NDArray[Any] | None]:
    """Return the encoded labels and the classes; counts stay as they are, without classes.

    Examples
    --------
    >>> Y, classes = encode_labels(["b", "a", "c", "b"], "multinomial")
    >>> classes.tolist(), Y.tolist()
    (['a', 'b', 'c'], [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    """
    if likelihood not in CLASSES:
        _check_counts(np.asarray(labels))
        return labels, None
    values = np.asarray(labels)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise BadInputError(f"class labels have shape {values.shape}; expected one label for each sample")
    if any(each is None or each != each for each in values.tolist()):
        raise BadInputError("class labels are missing; leave those rows out")
    try:
        classes, codes = np.unique(values, return_inverse=True)
    except TypeError as error:
        raise BadInputError(
            "class labels are of kinds that cannot be sorted, such as text and numbers"
        ) from error
    if len(classes) < 2:
        raise BadInputError(f"there is {len(classes)} class only; labels need at least 2 classes")
    if likelihood == "logistic" and len(classes) > 2:
        raise BadInputError(
            f"likelihood='logistic' is for 2 classes; there are {len(classes)}. Use 'multinomial', for numbers 'gaussian'."
        )
    if len(classes) > MOST_CLASSES:
        raise BadInputError(
            f"there are {len(classes)} classes, and at most {MOST_CLASSES} are taken. Are these numbers? Then leave "
            "likelihood='gaussian'."
        )
    return np.eye(len(classes))[codes][:, 1:], classes


def _check_counts(values: npt.NDArray[Any]) -> None:
    if values.dtype.kind not in "uifb":
        raise BadInputError("likelihood='poisson' is for counts: whole numbers of zero or more")
    bad = ~((values >= 0) & (values == np.round(values)))
    if bad.any():
        place = int(np.argmax(bad.any(axis=tuple(range(1, bad.ndim)))))
        raise BadInputError(
            f"likelihood='poisson' is for counts, whole numbers of zero or more; the label of row {place} is not one"
        )


@dataclass(frozen=True, slots=True)
class _LabelSums(Sums):
    wrong: int
    first: Array  # labels that are the first class
    others: Array  # (m,): labels of the other classes


@dataclass(frozen=True, slots=True)
class _LabelSummand:
    likelihood: str

    def __call__(self, first_row: int, X: Array, Y: Array) -> _LabelSums:
        total = Y.sum(axis=1)
        if self.likelihood in CLASSES:
            wrong = ~(((Y == 0) | (Y == 1)).all(axis=1) & (total <= 1))
        else:
            wrong = ~((Y >= 0) & (np.round(Y) == Y)).all(axis=1)
        return _LabelSums(int(wrong.sum()), np.array([(total == 0).sum()]), Y.sum(axis=0))


def _check_encoded(blocks: RowBlocks, likelihood: str) -> None:
    """Refuse blocks whose outputs are not encoded labels, one pass."""
    sums = accumulate(blocks, _LabelSummand(likelihood))
    what = "whole numbers of zero or more"
    if likelihood in CLASSES:
        what = "0 or 1, one column for every class but the first"
    if sums.wrong:
        raise BadInputError(
            f"rows in blocks carry encoded labels, {what} for likelihood={likelihood!r}; {sums.wrong} row(s) do not"
        )
    if likelihood == "logistic" and len(sums.others) > 1:
        raise BadInputError(
            "likelihood='logistic' is for 2 classes, one column of 0 and 1. Use 'multinomial'."
        )
    if likelihood in CLASSES and not (sums.first.all() and sums.others.all()):
        raise BadInputError("a class has no label; labels need at least 2 classes, and rows of each")
