"""Columns that a library of frames knows and others do not: each becomes float64, or is refused by name."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from planted._conversion import frame_to_array, series_to_array
from planted.outcomes import BadInputTypeError

NUMBERS: dict[str, tuple[Any, list[float]]] = {
    "pandas sparse": (pd.Series(pd.arrays.SparseArray([0.0, 1.0])), [0.0, 1.0]),
    "pandas long double": (pd.Series(np.array([1, 2], dtype="longdouble")), [1.0, 2.0]),
    "pandas float16": (pd.Series(np.array([1, 2], dtype="float16")), [1.0, 2.0]),
    "pandas decimals of Arrow": (
        pd.Series([Decimal("1.5"), None], dtype=pd.ArrowDtype(pa.decimal128(5, 2))),
        [1.5, np.nan],
    ),
    "pandas booleans with a gap": (pd.Series([True, None], dtype="boolean"), [1.0, np.nan]),
    "pandas numbers of several kinds": (pd.Series([1, None, Decimal(2)], dtype=object), [1.0, np.nan, 2.0]),
    "polars decimals": (pl.Series([Decimal("1.5"), None]), [1.5, np.nan]),
    "polars nulls": (pl.Series([None, None]), [np.nan, np.nan]),
    "arrow nulls": (pa.chunked_array([pa.nulls(2)]), [np.nan, np.nan]),
    "arrow integers that float64 rounds": (pa.chunked_array([[2**62 + 1]]), [float(2**62)]),
    "an array of arrow": (pa.array([1, None]), [1.0, np.nan]),
    "arrow booleans with a gap": (pa.chunked_array([[True, None]]), [1.0, np.nan]),
}
REFUSED: dict[str, tuple[Any, str]] = {
    "pandas complex": (pd.Series([1j, 2.0]), "complex128.*real and imaginary parts as two columns"),
    "pandas dates": (pd.Series(pd.to_datetime(["2020-01-01"])), "subtract a reference date"),
    "pandas durations": (pd.Series(pd.to_timedelta([1], "s")), "durations need a unit"),
    "pandas intervals": (pd.Series(pd.interval_range(0, 2)), r"interval\["),
    "pandas periods": (pd.Series(pd.period_range("2020", periods=2)), r"period\["),
    "polars lists": (pl.Series([[1.0]]), "List"),
    "arrow dictionaries of numbers": (pa.chunked_array([pa.array([1, 2]).dictionary_encode()]), "dictionary"),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_every_kind_become_float64(name: str) -> None:
    column, expected = NUMBERS[name]
    values = series_to_array(column, "y")
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_number_is_refused_by_its_type(name: str) -> None:
    column, message = REFUSED[name]
    with pytest.raises(BadInputTypeError, match=f"column 'a' of X.*{message}"):
        series_to_array(column, "column 'a' of X")


def test_the_columns_of_a_frame_are_named_in_a_refusal() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "when": pd.to_datetime(["2020-01-01", "2020-01-02"])})
    with pytest.raises(BadInputTypeError, match="column 'when' of X"):
        frame_to_array(frame, "X")
