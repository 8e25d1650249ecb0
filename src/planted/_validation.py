"""What is accepted as data, decided in one place.

Everything behind this module works on clean float64 matrices and checks nothing again. The rules:

* float64 data are used where they lie, read-only memory maps included; nothing is ever written to them.
  Views whose rows and columns are both strided are copied, because BLAS cannot read them.
* Other real kinds (float16, float32, integers, booleans, nullable columns) are converted to float64: all
  sums are accumulated in float64, whatever the storage. The copy is refused, with its size, where
  it does not fit in memory.
* Scale and offset are not judged here; standardisation takes care of both.
* NaN and infinity, wrong shapes and wrong kinds are refused with the place and the remedy.
* Constant columns are kept and warned about; repeated rows are kept and counted.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from planted._conversion import as_matrix, is_vector
from planted._typing import Array
from planted.outcomes import BadInputError, BadInputTypeError, DataWarning

__all__ = [
    "CheckedData",
    "check_choice",
    "check_features",
    "check_finite",
    "check_n_hidden",
    "check_rows",
    "check_weights",
    "hash_rows",
    "mix_bits",
]

BLOCK_VALUES = 1 << 20
"""Values looked at together: 8 MB, so that a scan of a memory map stays small."""

MAX_HASHED_VALUES = 20_000_000
"""Distinct rows are counted up to this many values (about a second of work); above, they are not."""

NAMES_SHOWN = 5
"""Columns listed by name before the rest is only counted."""


class ConstantColumnsWarning(DataWarning):
    """Columns hold one value only; who knows their names, as the command line does, says it by name instead."""


@dataclass(frozen=True, slots=True)
class CheckedData:
    """Rows that passed every check."""

    X: Array  # (n, d): inputs, float64, never to be written to
    Y: Array  # (n, m): targets, float64, never to be written to
    feature_names: tuple[str, ...] | None  # column names where the caller passed a frame
    target_names: tuple[str, ...] | None
    y_was_1d: bool  # whether the targets came as a vector, so that predictions can be given back as one
    # Number of distinct rows of ``[X, Y]``, the effective sample size; None for data too large to count.
    n_distinct: int | None
    constant_features: tuple[int, ...]  # indices of the columns of `X` with one value only
    notices: tuple[str, ...]  # what a report should say about the data


def check_rows(
    X: Any, Y: Any, *, x_name: str = "X", y_name: str = "Y", may_miss: bool = False
) -> CheckedData:
    """Check inputs and targets and return them as float64 matrices.

    Returns the matrices, the names and what is worth knowing about them. Shapes: X (n, d), Y (n, m).
    """
    if isinstance(X, str | PathLike):
        raise BadInputTypeError(
            f"{x_name} is of type {type(X).__name__}. A file is opened for recover by "
            "planted.io.open_blocks(path, targets=...), and planted.io.read_table(path, targets=...) reads its X and Y."
        )
    if Y is None:
        raise BadInputError(f"recovery requires y to be passed, but the target {y_name} is None.")
    X_clean, feature_names = as_matrix(X, x_name, vector_ok=False)
    Y_clean, target_names = as_matrix(Y, y_name, vector_ok=True)
    if len(X_clean) != len(Y_clean):
        raise BadInputError(
            f"{x_name} has {len(X_clean)} rows but {y_name} has {len(Y_clean)} rows. "
            "Pass one target row per input row."
        )
    notices: list[str] = []
    constant_features = check_finite(X_clean, x_name, names=feature_names)
    constant_targets = check_finite(Y_clean, y_name, names=target_names, may_miss=may_miss)
    for label, names, constant in (
        (x_name, feature_names, constant_features),
        (y_name, target_names, constant_targets),
    ):
        if constant:
            notices.append(_constant_notice(label, names, constant))
            warnings.warn(notices[-1], ConstantColumnsWarning, stacklevel=3)
    # By a 64-bit hash of each row; n rows collide with probability n²/2⁶⁵.
    is_countable = X_clean.size + Y_clean.size <= MAX_HASHED_VALUES
    n_distinct = len(np.unique(hash_rows(X_clean, Y_clean))) if is_countable else None
    if n_distinct is not None and n_distinct < len(X_clean):
        notices.append(
            f"{len(X_clean) - n_distinct} of {len(X_clean)} rows repeat an earlier row; "
            f"the effective sample size is {n_distinct}."
        )
    return CheckedData(
        X=X_clean,
        Y=Y_clean,
        feature_names=feature_names,
        target_names=target_names,
        y_was_1d=is_vector(Y),
        n_distinct=n_distinct,
        constant_features=constant_features,
        notices=tuple(notices),
    )


def check_choice(name: str, value: object, known: Collection[object]) -> None:
    """Refuse a value that is not one of those known.

    Examples
    --------
    >>> check_choice("noise", "some", ("none", "present"))
    Traceback (most recent call last):
    planted.outcomes.BadInputError: noise='some'; expected one of 'none', 'present'
    """
    if value not in known:
        raise BadInputError(f"{name}={value!r}; expected one of {', '.join(map(repr, known))}")


def check_features(
    X: Any, n_features: int, feature_names: Sequence[str] | None = None, *, owner: str = "TwoLayerNetwork"
) -> Array:
    """Check the inputs of a prediction against those of the fit.

    `feature_names`: the column names of the fit, if it had any. A frame must then have the same names in the same
    order. Shapes: X (n, d), result (n, d).
    """
    X_clean, names = as_matrix(X, "X", vector_ok=False)
    if feature_names is not None and names is not None:
        _compare_names(names, tuple(feature_names))
    if X_clean.shape[1] != n_features:
        raise BadInputError(
            f"X has {X_clean.shape[1]} features, but {owner} is expecting {n_features} features as input."
        )
    check_finite(X_clean, "X", names=names)
    return X_clean


def check_weights(sample_weight: Any, n_samples: int) -> Array | None:
    """Check sample weights; None means that all rows count the same.

    Shapes: sample_weight (n,), result (n,).
    """
    if sample_weight is None:
        return None
    weights, _ = as_matrix(sample_weight, "sample_weight", vector_ok=True)
    if not is_vector(sample_weight) or len(weights) != n_samples:
        shape = weights.shape if not is_vector(sample_weight) else (len(weights),)
        raise BadInputError(
            f"sample_weight has shape {shape}, expected ({n_samples},): one weight per row of X."
        )
    check_finite(weights, "sample_weight")
    negative = np.flatnonzero(weights[:, 0] < 0)
    if len(negative):
        raise BadInputError(
            f"sample_weight has {len(negative)} negative entries, the first in row {negative[0]}; "
            "weights must be zero or more."
        )
    if not weights.any():
        raise BadInputError(
            f"all {n_samples} entries of sample_weight are zero; at least one must be positive."
        )
    return weights[:, 0]


def check_n_hidden(value: Any) -> int | Literal["auto"]:
    """Check the number of hidden units."""
    expected = "expected 'auto' or an integer of at least 1"
    if isinstance(value, str):
        if value == "auto":
            return "auto"
        raise BadInputError(f"n_hidden={value!r}, {expected}.")
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise BadInputTypeError(f"n_hidden={value!r} is of type {type(value).__name__}, {expected}.")
    if value < 1:
        raise BadInputError(f"n_hidden={value}, {expected}.")
    return int(value)


def check_finite(
    values: Array,
    label: str,
    *,
    names: Sequence[str] | None = None,
    first_row: int = 0,
    may_miss: bool = False,
    if_missing: str = "Drop those rows or fill the values in.",
) -> tuple[int, ...]:
    """Refuse NaN and infinity, and find the constant columns in the same pass.

    `values`: the data; read in blocks, so that a memory map is never loaded whole. `first_row`: row number of the
    first row, where `values` is a part of a larger table. `if_missing`: what to do about missing values. Returns indices
    of the columns that hold one value only; empty if there are fewer than two rows. Shapes: values (n, d).
    """
    low, high = np.full(values.shape[1], np.inf), np.full(values.shape[1], -np.inf)
    n_nan = n_infinite = 0
    first: tuple[int, int] | None = None
    for start, block in _row_blocks(values):
        # One reduction decides the usual case: minimum and maximum carry NaN and infinity along.
        block_low, block_high = block.min(axis=0), block.max(axis=0)
        if not (np.isfinite(block_low).all() and np.isfinite(block_high).all()):
            bad = np.isinf(block) if may_miss else ~np.isfinite(block)
            nan_here = 0 if may_miss else int(np.isnan(block).sum())
            n_nan, n_infinite = n_nan + nan_here, n_infinite + int(bad.sum()) - nan_here
            if first is None and bad.any():
                row, column = np.unravel_index(int(bad.argmax()), bad.shape)
                first = (start + int(row), int(column))
        low, high = np.minimum(low, block_low), np.maximum(high, block_high)
    if first is not None:
        name = f" ({names[first[1]]!r})" if names is not None else ""
        raise BadInputError(
            f"{label} contains {n_nan + n_infinite} values that are not finite ({n_nan} missing or NaN, "
            f"{n_infinite} inf), the first in row {first_row + first[0]}, column {first[1]}{name}, "
            f"counted from 0. {if_missing if n_nan else 'Drop those rows or fill the values in.'}"
        )
    return tuple(np.flatnonzero(low == high).tolist()) if len(values) > 1 else ()


def _row_blocks(values: Array) -> Iterator[tuple[int, Array]]:
    """Cut the rows into blocks of about `BLOCK_VALUES` values."""
    step = max(1, BLOCK_VALUES // values.shape[1])
    for start in range(0, len(values), step):
        yield start, values[start : start + step]


def _constant_notice(label: str, names: Sequence[str] | None, constant: tuple[int, ...]) -> str:
    shown = [repr(names[j]) if names is not None else str(j) for j in constant[:NAMES_SHOWN]]
    more = f" and {len(constant) - NAMES_SHOWN} more" if len(constant) > NAMES_SHOWN else ""
    is_input = label.upper().startswith("X")
    effect = "what does not vary carries no weight" if is_input else "there is nothing to recover from it"
    return f"{len(constant)} constant column(s) in {label}: {', '.join(shown)}{more}; kept, but {effect}."


def _compare_names(names: tuple[str, ...], expected: tuple[str, ...]) -> None:
    """Refuse a frame whose columns are not those of the fit, in the same order."""
    if names == expected:
        return
    missing = [name for name in expected if name not in names]
    unexpected = [name for name in names if name not in expected]
    start = "The feature names should match those that were passed during fit."
    if missing or unexpected:
        raise BadInputError(
            f"{start} Missing: {missing[:NAMES_SHOWN]} ({len(missing)}); "
            f"not seen during fit: {unexpected[:NAMES_SHOWN]} ({len(unexpected)})."
        )
    place = next(j for j, name in enumerate(names) if name != expected[j])
    raise BadInputError(
        f"{start} The columns are in another order: column {place} is {names[place]!r}, expected "
        f"{expected[place]!r}. Reorder them with X[names]."
    )


def hash_rows(X: Array, Y: Array) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash of every row of ``[X, Y]``, the same wherever the row stands.

    Shapes: X (n, d), Y (n, m), result (n,).

    Examples
    --------
    >>> X, Y = np.array([[1.0], [2.0], [1.0]]), np.zeros((3, 1))
    >>> [int(np.sum(hash_rows(X, Y) == value)) for value in hash_rows(X, Y)]
    [2, 1, 2]
    """
    hashes = np.zeros(len(X), dtype=np.uint64)
    for values, salt in ((X, 1), (Y, 2)):
        keys = np.random.SeedSequence(salt).generate_state(values.shape[1], np.uint64) | np.uint64(1)
        for start, block in _row_blocks(values):
            # + 0.0 makes one zero of the two. The mixing spreads the leading bits, where round numbers
            # differ, over the whole word before the columns are added up.
            word = mix_bits((np.ascontiguousarray(block) + 0.0).view(np.uint64) ^ keys)
            hashes[start : start + len(block)] += (word * keys).sum(axis=1, dtype=np.uint64)
    return hashes


def mix_bits(word: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread the bits of every word over the whole of it, in place (Steele, Lea, Flood 2014)."""
    word ^= word >> np.uint64(30)
    word *= np.uint64(0xBF58476D1CE4E5B9)
    word ^= word >> np.uint64(27)
    word *= np.uint64(0x94D049BB133111EB)
    word ^= word >> np.uint64(31)
    return word
