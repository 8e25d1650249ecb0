"""Data frames to arrays, without importing pandas, polars or pyarrow.

A frame is recognised by what it can do: pandas and polars frames have ``columns``, Arrow tables have
``column_names``. Each column is turned into float64 on its own, so that a refusal can name it. Missing
values of nullable columns become NaN and are counted with the other NaNs by the caller.

Why not narwhals (2.28)? It would replace 47 lines by about 20 and be one more dependency. Of 42 kinds of columns that were
tried it treats six otherwise: sparse and long double columns of pandas and columns of nulls are not numbers to it, Arrow
integers beyond 2⁵³ and ``pyarrow.Array`` end in errors that are not ours. What it does not know it calls Unknown, so that
refusals of complex numbers, intervals and periods no longer say what is wrong. Mending these takes the lines that it saves.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from planted._typing import Array
from planted.outcomes import BadInputError, BadInputTypeError

__all__ = [
    "column_names",
    "frame_to_array",
    "is_frame",
    "is_series",
    "numbers_of_objects",
    "refuse_kind",
    "series_to_array",
]

_KIND_HINTS = {
    "c": "Complex data not supported; pass real and imaginary parts as two columns",
    "U": "strings are not numbers, not even digit strings; convert them with .astype(float)",
    "S": "byte strings are not numbers; convert them with .astype(float)",
    "T": "strings are not numbers, not even digit strings; convert them with .astype(float)",
    "M": "dates have no scale of their own; subtract a reference date and pass a number of days or seconds",
    "m": "durations need a unit; divide by np.timedelta64(1, 's') to pass numbers",
    "V": "structured arrays are not matrices; stack the fields with np.column_stack",
}


def is_frame(data: object) -> bool:
    """Tell whether `data` is a pandas or polars frame or an Arrow table.

    Examples
    --------
    >>> is_frame([[1.0, 2.0]])
    False
    """
    has_columns = hasattr(data, "columns") and (hasattr(data, "iloc") or hasattr(data, "get_columns"))
    return has_columns or hasattr(data, "column_names")


def is_series(data: object) -> bool:
    """Tell whether `data` is a single pandas or polars column.

    Examples
    --------
    >>> is_series([1.0, 2.0])
    False
    """
    return (
        not is_frame(data) and hasattr(data, "dtype") and hasattr(data, "to_numpy") and hasattr(data, "name")
    )


def column_names(frame: Any, label: str) -> tuple[str, ...] | None:
    """Return the names of a frame's columns, or None where they are not all strings."""
    names = list(frame.column_names if hasattr(frame, "column_names") else frame.columns)
    repeated = sorted(str(name) for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise BadInputError(
            f"{label} has repeated column names: {repeated}. Rename them so that each is unique."
        )
    return tuple(names) if names and all(isinstance(name, str) for name in names) else None


def frame_to_array(frame: Any, label: str) -> Array:
    """Turn a frame into a float64 matrix; missing values become NaN.

    Returns a view of the frame's memory where pandas allows it, else a copy. Shapes: frame (n, d), result (n, d).
    """
    if hasattr(frame, "iloc"):
        if all(isinstance(dtype, np.dtype) and dtype == np.float64 for dtype in frame.dtypes):
            return np.asarray(frame.to_numpy())
        columns = [frame.iloc[:, j] for j in range(frame.shape[1])]
        names = list(frame.columns)
    elif hasattr(frame, "get_columns"):
        columns, names = frame.get_columns(), list(frame.columns)
    else:
        columns, names = list(frame.itercolumns()), list(frame.column_names)
    values = np.empty(frame.shape, dtype=np.float64, order="F")
    for j, (column, name) in enumerate(zip(columns, names, strict=True)):
        values[:, j] = series_to_array(column, f"column {name!r} of {label}")
    return values


def series_to_array(column: Any, label: str) -> Array:
    """Turn one column into float64; missing values become NaN.

    Shapes: column (n,), result (n,).
    """
    dtype = column.dtype if hasattr(column, "dtype") else column.type
    if isinstance(dtype, np.dtype):
        return _plain_column(column.to_numpy(), label)
    if hasattr(column, "iloc"):
        return _pandas_extension(column, dtype, label)
    if hasattr(dtype, "is_numeric"):  # polars
        if not (dtype.is_numeric() or str(dtype) in {"Boolean", "Null"}):
            raise _wrong_kind(label, str(dtype))
        return np.asarray(column.cast(float).to_numpy(), dtype=np.float64)
    text = str(dtype)  # Arrow
    if not text.startswith(("int", "uint", "float", "double", "halffloat", "bool", "decimal", "null")):
        raise _wrong_kind(label, text)
    if text == "bool":
        column = column.cast("uint8")
    return np.asarray(column.cast("double", safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _plain_column(values: npt.NDArray[Any], label: str) -> Array:
    """Convert a pandas column that is backed by a NumPy dtype."""
    if values.dtype.kind == "O":
        return numbers_of_objects(values[:, None], label)[:, 0]
    refuse_kind(values.dtype, label)
    return values.astype(np.float64, copy=False)


def _pandas_extension(column: Any, dtype: Any, label: str) -> Array:
    """Convert a pandas column of a nullable, Arrow-backed or sparse dtype."""
    is_number = getattr(dtype, "kind", "O") in "biuf"
    if not (is_number or str(dtype).startswith("decimal")):
        raise _wrong_kind(label, str(dtype))
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def _wrong_kind(label: str, kind: str) -> BadInputTypeError:
    return BadInputTypeError(
        f"{label} is of type {kind}, expected numbers. Drop the column, or encode it as numbers yourself "
        "(one 0/1 column per category, a number of seconds for a date): the coding decides what is recovered."
    )


def refuse_kind(dtype: np.dtype[Any], label: str) -> None:
    """Raise if a NumPy dtype is not a kind of real number."""
    if dtype.kind in _KIND_HINTS:
        raise BadInputTypeError(
            f"{label} has dtype {dtype}, expected real numbers: {_KIND_HINTS[dtype.kind]}."
        )


def numbers_of_objects(values: npt.NDArray[Any], label: str) -> Array:
    """Turn an object matrix into float64 if every entry is a number; None becomes NaN.

    Shapes: values (n, d), result (n, d).

    Examples
    --------
    >>> import numpy as np
    >>> numbers_of_objects(np.array([[1, None]], dtype=object), "X")
    array([[ 1., nan]])
    """
    # pandas.NA, which float() refuses, is missing too.
    if any(kind.__name__ == "NAType" for kind in set(map(type, values.ravel()))):
        missing = np.array([type(entry).__name__ == "NAType" for entry in values.ravel()])
        values = values.copy()
        values[missing.reshape(values.shape)] = None
    wrong = {kind for kind in set(map(type, values.ravel())) if not _is_number_type(kind)}
    if wrong:
        where = next(index for index, entry in np.ndenumerate(values) if type(entry) in wrong)
        raise BadInputTypeError(
            f"the {label} argument must be numeric (no string, dict or date): row {where[0]}, "
            f"column {where[1]} holds {values[where]!r} of type {type(values[where]).__name__}. "
            "Convert it to a number."
        )
    return values.astype(np.float64)


def _is_number_type(kind: type) -> bool:
    """Real numbers, booleans, and None for a missing value."""
    return issubclass(kind, Real | Decimal | np.bool_ | None.__class__)
