"""Anything a user may pass, turned into a float64 matrix.

The data are used where they lie if they are float64 and BLAS can read them: C or Fortran order, or a slice
of such, read-only memory maps included. Everything else is copied once, after a check that
the copy fits in memory. Nothing is ever written to the caller's data.

A frame is recognised by what it can do: pandas and polars frames have ``columns``, Arrow tables have
``column_names``. Each column is turned into float64 on its own, so that a refusal can name it. Missing
values of nullable columns become NaN and are counted with the other NaNs by the caller.

Why not narwhals (2.28)? It would replace 47 lines by about 20 and be one more dependency. Of 42 kinds of columns that were
tried it treats six otherwise: sparse and long double columns of pandas and columns of nulls are not numbers to it, Arrow
integers beyond 2⁵³ and ``pyarrow.Array`` end in errors that are not ours. What it does not know it calls Unknown, so that
refusals of complex numbers, intervals and periods no longer say what is wrong. Mending these takes the lines that it saves.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from planted._typing import Array
from planted.outcomes import BadInputError, BadInputTypeError

__all__ = [
    "as_matrix",
    "as_numbers",
    "available_memory",
    "column_names",
    "frame_to_array",
    "frozen_array",
    "input_rows",
    "is_frame",
    "is_series",
    "is_vector",
    "numbers_of_objects",
    "refuse_kind",
    "require_memory",
    "series_to_array",
]


def as_matrix(data: Any, label: str, *, vector_ok: bool) -> tuple[Array, tuple[str, ...] | None]:
    """Turn anything a user may pass into a float64 matrix, with column names where there are any.

    `vector_ok`: whether a vector is taken as one column; it is refused otherwise. Returns matrix: the values; shares
    memory with `data` where it can; names: the column names. Shapes: data (n, d).

    Examples
    --------
    >>> as_matrix([1, 2], "Y", vector_ok=True)
    (array([[1.],
           [2.]]), None)
    """
    _refuse_containers(data, label)
    names: tuple[str, ...] | None = None
    if is_frame(data):
        names = column_names(data, label)
        require_memory(data.shape, label, remedy="Convert a part of the rows, or read them in blocks.")
        raw: npt.NDArray[Any] = frame_to_array(data, label)
    elif is_series(data):
        names = (data.name,) if isinstance(data.name, str) and data.name else None
        raw = series_to_array(data, label)
    else:
        raw = _plain_array(data, label)
    _refuse_shape(raw, label, vector_ok=vector_ok)
    matrix = raw[:, None] if raw.ndim == 1 else raw
    return _as_float64(matrix, label), names


def as_numbers(data: Any, label: str) -> Array:
    """Turn a part of the rows into float64, of whatever shape; refuse what NumPy would convert silently.

    Returns the values; shares memory with `data` where it can.

    Examples
    --------
    >>> as_numbers([[1, 2]], "X")
    array([[1., 2.]])
    """
    if type(data) is np.ndarray and data.dtype == np.float64:  # inside the library they always are
        return data
    _refuse_containers(data, label)
    raw = _plain_array(data, label)
    refuse_kind(raw.dtype, label)
    return numbers_of_objects(raw, label) if raw.dtype.kind == "O" else np.asarray(raw, dtype=np.float64)


def is_vector(data: Any) -> bool:
    """Tell whether the data are one-dimensional.

    Examples
    --------
    >>> is_vector([1.0, 2.0]), is_vector([[1.0], [2.0]])
    (True, False)
    """
    shape = getattr(data, "shape", None)
    return len(shape) == 1 if shape is not None else np.asarray(data).ndim == 1


def require_memory(shape: Sequence[int], label: str, *, remedy: str) -> None:
    """Refuse an array that does not fit in the memory now available, before it is allocated."""
    needed, available = 8, available_memory()
    for length in shape:
        needed *= int(length)  # Python integers: a forged shape must not overflow
    if available is not None and needed > available:
        raise BadInputError(
            f"{label} needs {needed / 1e9:,.2f} GB as float64, but {available / 1e9:,.2f} GB of memory "
            f"are available. {remedy}"
        )


def available_memory() -> int | None:
    """Return the bytes that can be allocated without swapping, or None where the system does not say.

    Examples
    --------
    >>> memory = available_memory()
    >>> memory is None or memory > 0
    True
    """
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, AttributeError):
            return None


def _refuse_containers(data: Any, label: str) -> None:
    """Refuse the containers that NumPy would silently turn into something else."""
    if isinstance(data, np.ma.MaskedArray):
        raise BadInputTypeError(
            f"{label} is a masked array, and the mask would be lost. "
            "Drop the masked rows, or pass data.filled(value)."
        )
    if hasattr(data, "tocsr") or hasattr(data, "nnz"):
        raise BadInputTypeError(f"{label} is a sparse matrix, expected a dense one. Pass {label}.toarray().")
    if hasattr(data, "__dask_graph__"):
        raise BadInputTypeError(
            f"{label} is a Dask collection, expected an array in memory. Pass {label}.compute()."
        )
    if isinstance(data, str | bytes | dict | set):
        raise BadInputTypeError(f"{label} is of type {type(data).__name__}, expected an array of numbers.")


def _plain_array(data: Any, label: str) -> npt.NDArray[Any]:
    """Call `np.asarray` and word its failures."""
    try:
        return np.asarray(data)
    except ValueError as error:
        raise BadInputError(
            f"{label} is not a rectangular array of numbers ({error}). Check that all rows are equally long."
        ) from error
    except (TypeError, RuntimeError) as error:
        raise BadInputTypeError(f"{label} cannot be read as an array: {error}") from error


def _refuse_shape(raw: npt.NDArray[Any], label: str, *, vector_ok: bool) -> None:
    """Refuse everything but matrices (and vectors where allowed) with at least one row and column."""
    if raw.ndim == 1 and not vector_ok:
        raise BadInputError(
            f"Expected a 2-d array for {label}, got 1-d of shape {raw.shape}. Reshape your data: "
            f"{label}.reshape(-1, 1) if it is one feature, {label}.reshape(1, -1) if it is one sample."
        )
    if raw.ndim not in (1, 2):
        kinds = "1-d or 2-d" if vector_ok else "2-d"
        raise BadInputError(f"Expected a {kinds} array for {label}, got {raw.ndim}-d of shape {raw.shape}.")
    if raw.shape[0] == 0:
        raise BadInputError(
            f"Found array with 0 sample(s) (shape={raw.shape}) in {label} while a minimum of 1 is required."
        )
    if raw.ndim == 2 and raw.shape[1] == 0:
        raise BadInputError(
            f"Found array with 0 feature(s) (shape={raw.shape}) while a minimum of 1 is required in {label}."
        )


def _as_float64(matrix: npt.NDArray[Any], label: str) -> Array:
    """Return the matrix itself where it can be used as it lies, else a float64 copy."""
    refuse_kind(matrix.dtype, label)
    if matrix.dtype == np.float64 and matrix.dtype.isnative and _is_readable_by_blas(matrix):
        return np.asarray(matrix)
    require_memory(matrix.shape, label, remedy="Pass float64 data (it is used without a copy) or fewer rows.")
    if matrix.dtype.kind == "O":
        return numbers_of_objects(matrix, label)
    with np.errstate(over="ignore"):  # a long double beyond the range becomes inf, and is then named
        return np.array(matrix, dtype=np.float64, order="C")


def _is_readable_by_blas(matrix: npt.NDArray[Any]) -> bool:
    """One axis is dense and the other has a positive stride: C or Fortran order, or a slice of such."""
    if not matrix.flags.aligned:
        return False
    (n, d), (row, column), size = matrix.shape, matrix.strides, matrix.itemsize
    by_rows = column == size and (n == 1 or (row >= d * size and row % size == 0))
    by_columns = row == size and (d == 1 or (column >= n * size and column % size == 0))
    return by_rows or by_columns


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


def frozen_array(name: str, values: Any, ndim: int) -> Array:
    """Return a read-only float64 copy of ``values`` with ``ndim`` axes, or say what is wrong with it."""
    raw = np.asarray(values)
    if raw.dtype.kind not in "fiub":
        raise BadInputTypeError(f"{name} has dtype {raw.dtype}; expected real numbers")
    array = np.array(raw, dtype=np.float64, order="C")
    if name in ("A", "B") and array.ndim == 1:
        array = array[None, :]
    if array.ndim != ndim:
        raise BadInputError(f"{name} has {array.ndim} dimension(s); expected {ndim}")
    if not np.isfinite(array).all():
        first = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise BadInputError(f"{name} contains NaN or infinity, first at {first}")
    array.flags.writeable = False
    return array


def input_rows(X: Any, n_features: int) -> Array:
    """Return inputs as a matrix. Inside the library they are always plain float64 arrays; users pass anything.

    Shapes: result (n, d).
    """
    is_plain = type(X) is np.ndarray and X.dtype == np.float64
    rows = X if is_plain else as_matrix(X, "X", vector_ok=False)[0]
    if rows.ndim != 2 or rows.shape[1] != n_features:
        raise BadInputError(f"X has shape {rows.shape}; expected (n, {n_features})")
    return rows
