"""Every kind of bad data: refused or warned about by name, number and place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from planted import _validation
from planted._validation import check_features, check_rows
from planted.outcomes import BadInputError, BadInputTypeError, DataWarning

RNG = np.random.default_rng(5)
X = RNG.standard_normal((12, 3))
Y = RNG.standard_normal((12, 2))
DATES = np.array(["2026-01-01"] * 36, dtype="datetime64[D]").reshape(12, 3)


def spoiled(values, *places):
    """Return a copy with the given (row, column, value) entries."""
    values = values.copy()
    for row, column, value in places:
        values[row, column] = value
    return values


@pytest.mark.parametrize("block_values", [3, 1 << 20], ids=["many blocks", "one block"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_values_that_are_not_finite_are_counted_and_placed(monkeypatch, block_values, order):
    monkeypatch.setattr(_validation, "BLOCK_VALUES", block_values)
    bad = np.asarray(spoiled(X, (7, 0, np.inf), (4, 2, np.nan), (9, 1, -np.inf)), order=order)
    with pytest.raises(BadInputError) as caught:
        check_rows(bad, Y)
    message = str(caught.value)
    assert "X contains 3 values that are not finite (1 missing or NaN, 2 inf)" in message
    assert "row 4, column 2" in message
    with pytest.raises(BadInputError, match=r"Y contains 1 values .* row 11, column 1"):
        check_rows(X, spoiled(Y, (11, 1, np.nan)))
    with pytest.raises(BadInputError, match="X contains 3 values"):
        check_features(bad, 3)


def test_long_doubles_beyond_the_range_are_placed():
    if np.finfo(np.longdouble).max == np.finfo(float).max:
        pytest.skip("long double is double here")
    huge = X.astype(np.longdouble)
    huge[2, 1] = np.longdouble("1e400")
    with pytest.raises(BadInputError, match=r"1 inf.*row 2, column 1"):
        check_rows(huge, Y)


def test_constant_columns_are_warned_about_and_kept():
    inputs = spoiled(X)
    inputs[:, 1] = 7.0
    with pytest.warns(DataWarning, match=r"1 constant column\(s\) in X: 1; kept"):
        data = check_rows(inputs, Y)
    assert data.X.shape == (12, 3) and data.constant_features == (1,)
    assert "constant" in data.notices[0]
    with pytest.warns(DataWarning, match="in X: 'b'; kept"):
        check_rows(pd.DataFrame(inputs, columns=list("abc")), Y)
    with pytest.warns(
        DataWarning, match=r"constant column\(s\) in Y: 0; kept, but there is nothing to recover"
    ):
        check_rows(X, np.ones(12))


def test_many_constant_columns_are_counted_not_listed():
    with pytest.warns(DataWarning, match=r"9 constant column\(s\) in X: 0, 1, 2, 3, 4 and 4 more"):
        check_rows(np.zeros((4, 9)), np.arange(4.0))


def test_one_row_is_accepted_without_a_word_about_constants():
    assert check_rows(X[:1], Y[:1]).notices == ()


@pytest.mark.parametrize(
    "inputs, targets, message",
    [
        (X, Y[:-1], "X has 12 rows but Y has 11 rows"),
        (X[:, 0], Y, r"2-d array for X, got 1-d of shape \(12,\)\. Reshape your data.*reshape\(-1, 1\)"),
        (X[None], Y, r"2-d array for X, got 3-d of shape \(1, 12, 3\)"),
        (X, Y[None], r"1-d or 2-d array for Y, got 3-d of shape \(1, 12, 2\)"),
        (np.float64(3.0), Y, "2-d array for X, got 0-d"),
        (X, 3.0, "1-d or 2-d array for Y, got 0-d"),
        (X[:0], Y[:0], r"0 sample\(s\) \(shape=\(0, 3\)\) in X"),
        ([], [], r"1-d of shape \(0,\)"),
        (X, [], r"0 sample\(s\) \(shape=\(0,\)\) in Y"),
        (X[:, :0], Y, r"0 feature\(s\) \(shape=\(12, 0\)\) while a minimum of 1 is required"),
        ([[1.0, 2.0], [3.0]], [1.0, 2.0], "X is not a rectangular array.*equally long"),
        (X, None, "requires y to be passed, but the target Y is None"),
    ],
)
def test_wrong_shapes(inputs, targets, message):
    with pytest.raises(BadInputError, match=message):
        check_rows(inputs, targets)


@pytest.mark.parametrize(
    "inputs, message",
    [
        (X + 1j, "X has dtype complex128.*Complex data not supported.*real and imaginary"),
        (scipy.sparse.csr_matrix(X), r"X is a sparse matrix.*toarray\(\)"),
        (scipy.sparse.coo_array(X), r"X is a sparse matrix.*toarray\(\)"),
        (X.astype(str), r"X has dtype <U.*digit strings.*astype\(float\)"),
        (X.astype("S8"), r"X has dtype \|S8.*byte strings"),
        (X.astype(np.dtypes.StringDType()), "X has dtype StringDType.*digit strings"),
        ([["1", "2"], ["3", "4"]], "digit strings"),
        ([[1.0, "2"], [3.0, 4.0]], "digit strings"),
        (DATES, r"X has dtype datetime64\[D\].*reference date"),
        (DATES - DATES[0, 0], r"X has dtype timedelta64\[D\].*durations need a unit"),
        (np.ma.masked_array(X, X > 1), "X is a masked array.*filled"),
        (np.ma.masked_array(X), "X is a masked array"),
        (np.zeros(12, dtype=[("a", float), ("b", float)])[:, None], "structured arrays"),
        (spoiled(X.astype(object), (3, 1, "high")), "row 3, column 1 holds 'high' of type str"),
        (spoiled(X.astype(object), (3, 1, "7")), "row 3, column 1 holds '7' of type str"),
        (spoiled(X.astype(object), (0, 0, {"foo": "bar"})), "argument must be .* string.* number"),
        (spoiled(X.astype(object), (2, 2, 1j)), "row 2, column 2 holds 1j of type complex"),
        ("data.csv", "X is of type str.*open_blocks"),
        ({"a": [1.0]}, "X is of type dict"),
    ],
)
def test_wrong_kinds(inputs, message):
    with pytest.raises(BadInputTypeError, match=message):
        check_rows(inputs, Y)
    with pytest.raises(BadInputTypeError):
        check_features(inputs, 3)


def test_a_file_without_targets_says_how_to_open_it():
    with pytest.raises(BadInputTypeError, match=r"X is of type .*open_blocks.*read_table"):
        check_rows(Path("data.csv"), None)


def test_wrong_kinds_of_targets_are_called_by_their_name():
    with pytest.raises(BadInputTypeError, match=r"^Y has dtype complex128"):
        check_rows(X, Y + 1j)
    with pytest.raises(BadInputTypeError, match=r"^y has dtype <U"):
        check_rows(X, ["a"] * 12, y_name="y")


def test_none_among_objects_is_a_missing_value():
    with pytest.raises(BadInputError, match=r"1 missing or NaN.*row 5, column 0"):
        check_rows(spoiled(X.astype(object), (5, 0, None)), Y)


def test_dask_arrays_are_sent_to_compute():
    dask_array = pytest.importorskip("dask.array")
    with pytest.raises(BadInputTypeError, match=r"Dask collection.*compute\(\)"):
        check_rows(dask_array.from_array(X), Y)


def frames_with(values, name="grade"):
    """Return the same three columns in each library, the last one holding `values`."""
    columns = {"a": [1.0, 2.0, 3.0], "b": [4, 5, 7], name: values}
    return {"pandas": pd.DataFrame(columns), "polars": pl.DataFrame(columns), "arrow": pa.table(columns)}


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize(
    "values",
    [["x", "y", "z"], ["1", "2", "3"], list(DATES[:3, 0].astype(object)), [[1], [2], [3]]],
    ids=["strings", "digit strings", "dates", "lists"],
)
def test_text_and_dates_in_frames_are_named(library, values):
    with pytest.raises(BadInputTypeError, match="column 'grade' of X"):
        check_rows(frames_with(values)[library], [1.0, 2.0, 4.0])


@pytest.mark.parametrize("dtype", ["category", "datetime64[ns]", "timedelta64[ns]", "string", "period[D]"])
def test_pandas_kinds_that_numpy_would_let_through(dtype):
    frame = pd.DataFrame({"a": [1.0, 2.0], "grade": [1, 2]})
    frame["grade"] = (
        pd.Series(pd.PeriodIndex(["2026-01-01"] * 2, freq="D"))
        if "period" in dtype
        else frame["grade"].astype(dtype)
    )
    with pytest.raises(BadInputTypeError, match="column 'grade' of X"):
        check_rows(frame, [1.0, 2.0])


def test_polars_categories_and_arrow_dictionaries_are_named():
    for frame in (
        pl.DataFrame({"grade": pl.Series(["u", "v"], dtype=pl.Categorical)}),
        pa.table({"grade": pa.array(["u", "v"]).dictionary_encode()}),
    ):
        with pytest.raises(BadInputTypeError, match="column 'grade' of X is of type"):
            check_rows(frame, [1.0, 2.0])


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize("values", [[1.0, None, 3.0], [1, None, 3], [True, None, False], [None, None, None]])
def test_missing_values_in_frames_are_named(library, values):
    first = "row 0" if values == [None] * 3 else "row 1"
    with pytest.raises(BadInputError, match=rf"missing or NaN.*{first}, column 2 \('grade'\)"):
        check_rows(frames_with(values)[library], [1.0, 2.0, 4.0])


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "double[pyarrow]", object])
def test_missing_values_in_nullable_columns_are_named(dtype):
    frame = pd.DataFrame({"a": [1.0, 2.0, 5.0], "grade": pd.array([1, pd.NA, 0], dtype="Int64")})
    frame["grade"] = frame["grade"].astype(dtype)
    with pytest.raises(
        BadInputError, match=r"1 missing or NaN, 0 inf\), the first in row 1, column 1 \('grade'\)"
    ):
        check_rows(frame, [1.0, 2.0, 4.0])


def test_repeated_column_names_are_refused():
    with pytest.raises(BadInputError, match=r"repeated column names: \['a'\]"):
        check_rows(pd.DataFrame(X, columns=["a", "b", "a"]), Y)


def test_prediction_columns_must_be_those_of_the_fit():
    fitted = ("a", "b", "c")
    frame = pd.DataFrame(X, columns=list(fitted))
    with pytest.raises(BadInputError, match="another order: column 0 is 'c', expected 'a'"):
        check_features(frame[["c", "a", "b"]], 3, fitted)
    with pytest.raises(BadInputError, match=r"Missing: \['b'\] \(1\); not seen during fit: \[\]"):
        check_features(frame[["a", "c"]], 3, fitted)
    with pytest.raises(BadInputError, match=r"Missing: \['c'\] \(1\); not seen during fit: \['z'\]"):
        check_features(pl.DataFrame({"a": [1.0], "b": [1.0], "z": [1.0]}), 3, fitted)
    with pytest.raises(BadInputError, match="X has 2 features, but Teacher is expecting 3 features as input"):
        check_features(X[:, :2], 3, fitted, owner="Teacher")
