"""The checks at the door, on data that are fine: what is kept, converted, shared and counted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from planted import _conversion, _validation
from planted._conversion import available_memory, require_memory
from planted._validation import check_features, check_finite, check_n_hidden, check_rows, check_weights
from planted.outcomes import BadInputError, BadInputTypeError

RNG = np.random.default_rng(11)
X = RNG.standard_normal((20, 3))
Y = RNG.standard_normal((20, 2))


@pytest.mark.parametrize("order", ["C", "F"])
def test_float64_is_used_where_it_lies(order):
    inputs = np.asarray(X, order=order)
    data = check_rows(inputs, Y)
    assert np.shares_memory(data.X, inputs) and np.shares_memory(data.Y, Y)
    assert data.notices == () and data.feature_names is None and not data.y_was_1d


def test_slices_of_a_table_are_not_copied():
    table = RNG.standard_normal((30, 5))
    data = check_rows(table[::2, :3], table[::2, 3:])
    assert np.shares_memory(data.X, table) and np.shares_memory(data.Y, table)
    np.testing.assert_array_equal(data.X, table[::2, :3])


@pytest.mark.parametrize(
    "view", [lambda a: a[::-1], lambda a: a[:, ::-1], lambda a: a[:, ::2]], ids=["up", "left", "every second"]
)
def test_views_blas_cannot_read_are_copied_and_left_alone(view):
    base = RNG.standard_normal((20, 4))
    before = base.copy()
    data = check_rows(view(base), Y)
    assert data.X.flags.c_contiguous and not np.shares_memory(data.X, base)
    np.testing.assert_array_equal(data.X, view(before))
    np.testing.assert_array_equal(base, before)


def test_read_only_memory_map_is_neither_copied_nor_changed(tmp_path):
    file = tmp_path / "map.npy"
    np.save(file, np.column_stack([X, Y]))
    content = file.read_bytes()
    rows = np.load(file, mmap_mode="r")
    data = check_rows(rows[:, :3], rows[:, 3:])
    assert np.shares_memory(data.X, rows) and not data.X.flags.writeable
    assert file.read_bytes() == content


def test_unaligned_and_foreign_byte_order_are_converted():
    record = np.zeros(20, dtype=np.dtype([("flag", "i1"), ("x", "f8", (3,))]))
    record["x"] = X
    assert not record["x"].flags.aligned
    np.testing.assert_array_equal(check_rows(record["x"], Y).X, X)
    shifted = np.frombuffer(b"\0" + X.tobytes(), dtype=np.float64, offset=1).reshape(X.shape)
    assert not shifted.flags.aligned and shifted.flags.c_contiguous
    assert check_rows(shifted, Y).X.flags.aligned
    swapped = check_rows(X.astype(">f8"), Y).X
    assert swapped.dtype == np.float64 and swapped.dtype.isnative
    np.testing.assert_array_equal(swapped, X)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint64", "bool", "longdouble", "object"])
def test_real_kinds_are_upcast(dtype):
    inputs = np.floor(np.abs(X) * 3).astype(dtype)
    data = check_rows(inputs, Y)
    assert data.X.dtype == np.float64
    np.testing.assert_array_equal(data.X, inputs.astype(np.float64))


def test_vector_targets_become_one_column_and_are_remembered():
    data = check_rows(X, Y[:, 0])
    assert data.Y.shape == (20, 1) and data.y_was_1d
    column = check_rows(X, Y[:, :1])
    assert column.Y.shape == (20, 1) and not column.y_was_1d
    assert check_rows(X.tolist(), Y[:, 0].tolist()).y_was_1d


@pytest.mark.parametrize("scale, offset", [(1e150, 0.0), (1e-150, 0.0), (1.0, 1e8)])
def test_scales_and_offsets_pass_untouched(scale, offset):
    inputs = X * scale + offset
    assert np.shares_memory(check_rows(inputs, Y * scale).X, inputs)


def test_distinct_rows_are_counted_over_inputs_and_targets():
    twice = check_rows(np.vstack([X, X]), np.vstack([Y, Y]))
    assert twice.n_distinct == 20
    assert "20 of 40 rows" in twice.notices[0] and "effective sample size is 20" in twice.notices[0]
    remeasured = check_rows(np.vstack([X, X]), np.vstack([Y, Y + 1.0]))
    assert remeasured.n_distinct == 40 and remeasured.notices == ()


def test_distinct_rows_of_small_integers_and_signed_zeros():
    # Round numbers differ in their leading bits only: a careless hash would merge them.
    grid = np.stack(np.meshgrid(np.arange(40.0), np.arange(40.0), [0.5, 2.0]), axis=-1).reshape(-1, 3)
    assert check_rows(grid, grid[:, :1] + grid[:, 1:2]).n_distinct == len(np.unique(grid, axis=0)) == 3200
    zeros = check_rows(np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]]), [1.0, 1.0, 2.0])
    assert zeros.n_distinct == 2


def test_distinct_rows_do_not_confuse_columns():
    swapped = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert check_rows(swapped, swapped).n_distinct == 2


def test_distinct_rows_are_not_counted_above_the_stated_size(monkeypatch):
    monkeypatch.setattr(_validation, "MAX_HASHED_VALUES", 99)
    data = check_rows(np.vstack([X, X]), np.vstack([Y, Y]))
    assert data.n_distinct is None and data.notices == ()


def test_constant_columns_across_blocks(monkeypatch):
    monkeypatch.setattr(_validation, "BLOCK_VALUES", 6)
    values = np.column_stack([np.ones(9), np.repeat([1.0, 2.0, 3.0], 3)])
    assert check_finite(values, "X") == (0,)
    assert check_finite(values[:1], "X") == ()


def frames():
    values = {"a": [1, 2, 3], "b": [0.5, 1.5, 2.5], "c": [True, False, True]}
    return {
        "pandas": pd.DataFrame(values),
        "pandas nullable": pd.DataFrame(values).convert_dtypes(),
        "pandas arrow": pd.DataFrame(values).convert_dtypes(dtype_backend="pyarrow"),
        "pandas object": pd.DataFrame(values).astype(object),
        "polars": pl.DataFrame(values),
        "arrow": pa.table(values),
    }


@pytest.mark.parametrize("kind", frames())
def test_frames_keep_names_and_values(kind):
    frame = frames()[kind]
    data = check_rows(frame, [1.0, 2.0, 4.0])
    assert data.feature_names == ("a", "b", "c")
    np.testing.assert_array_equal(data.X, [[1, 0.5, 1], [2, 1.5, 0], [3, 2.5, 1]])


def test_float64_pandas_frame_is_not_copied():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert np.shares_memory(check_rows(frame, Y).X, frame.to_numpy())


@pytest.mark.parametrize(
    "series", [pd.Series([1, 2, 3], name="y"), pl.Series("y", [1, 2, 3])], ids=["pandas", "polars"]
)
def test_series_as_targets(series):
    data = check_rows(X[:3], series)
    assert data.target_names == ("y",) and data.y_was_1d
    np.testing.assert_array_equal(data.Y[:, 0], [1.0, 2.0, 3.0])


def test_frames_with_numbered_columns_have_no_names():
    assert check_rows(pd.DataFrame(X), Y).feature_names is None


def test_features_of_a_prediction():
    names = ("a", "b", "c")
    frame = pd.DataFrame(X, columns=list(names))
    np.testing.assert_array_equal(check_features(frame, 3, names), X)
    np.testing.assert_array_equal(check_features(X, 3, names), X)
    np.testing.assert_array_equal(check_features(frame, 3), X)


def test_weights():
    assert check_weights(None, 3) is None
    np.testing.assert_array_equal(check_weights([1, 0, 2], 3), [1.0, 0.0, 2.0])
    np.testing.assert_array_equal(check_weights(pd.Series([1, 0, 2]), 3), [1.0, 0.0, 2.0])


@pytest.mark.parametrize(
    "weights, message",
    [
        ([1.0, 1.0], r"shape \(2,\), expected \(3,\)"),
        ([[1.0], [1.0], [1.0]], r"shape \(3, 1\), expected \(3,\)"),
        ([1.0, np.nan, 1.0], "sample_weight contains 1 values that are not finite.*row 1"),
        ([1.0, -1.0, -2.0], "2 negative entries, the first in row 1"),
        ([0.0, 0.0, 0.0], "all 3 entries of sample_weight are zero"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(BadInputError, match=message):
        check_weights(weights, 3)


def test_n_hidden():
    assert check_n_hidden("auto") == "auto"
    assert check_n_hidden(np.int64(4)) == 4 and type(check_n_hidden(np.int64(4))) is int


@pytest.mark.parametrize(
    "value, error",
    [(0, BadInputError), (-2, BadInputError), ("many", BadInputError)]
    + [(wrong, BadInputTypeError) for wrong in (True, np.True_, 3.0, None, [3])],
)
def test_bad_n_hidden(value, error):
    with pytest.raises(error, match="expected 'auto' or an integer of at least 1"):
        check_n_hidden(value)


def test_memory_is_read_and_enforced(monkeypatch):
    assert available_memory() > 0
    with pytest.raises(
        BadInputError, match=r"X needs 8,000,000,000,000,000\.00 GB as float64, but .* Do less"
    ):
        require_memory((10**12, 10**12), "X", remedy="Do less.")
    monkeypatch.setattr(_conversion, "available_memory", lambda: 8 * X.size - 1)
    with pytest.raises(BadInputError, match="Pass float64 data"):
        check_rows(X.astype(np.float32), Y)
    assert np.shares_memory(check_rows(X, Y).X, X)  # no copy, nothing to refuse
    monkeypatch.setattr(_conversion, "available_memory", lambda: 8 * X.size)
    check_rows(X.astype(np.float32), Y)
    monkeypatch.setattr(_conversion, "available_memory", lambda: None)
    check_rows(X.astype(np.float32), Y)
