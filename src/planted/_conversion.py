"""Anything a user may pass, turned into a float64 matrix.

The data are used where they lie if they are float64 and BLAS can read them: C or Fortran order, or a slice
of such, read-only memory maps included. Everything else is copied once, after a check that
the copy fits in memory. Nothing is ever written to the caller's data.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from planted._frames import (
    column_names,
    frame_to_array,
    is_frame,
    is_series,
    numbers_of_objects,
    refuse_kind,
    series_to_array,
)
from planted._typing import Array
from planted.outcomes import BadInputError, BadInputTypeError

__all__ = ["as_matrix", "as_numbers", "available_memory", "is_vector", "require_memory"]


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
