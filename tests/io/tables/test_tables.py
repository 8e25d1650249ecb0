"""Tables on disk: every format gives the same numbers, whole or in blocks, and comes back as written."""

from __future__ import annotations

import builtins
import importlib.util
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from planted.io import iter_table, read_table, write_table
from planted.io.tables import _write
from planted.outcomes import BadInputError, FileFormatError

RNG = np.random.default_rng(3)
VALUES = RNG.standard_normal((1000, 4)) * 10.0 ** RNG.integers(-200, 200, (1000, 4))
NAMES = ("speed", "angle", "load", "force")
SUFFIXES = (".npy", ".npz", ".csv", ".parquet", ".feather")


def save(path, values=VALUES, names=NAMES):
    """Write a table with the format's own library, not with ours."""
    columns = {name: values[:, j] for j, name in enumerate(names)}
    if path.suffix == ".npy":
        np.save(path, values)
    elif path.suffix == ".npz":
        np.savez_compressed(path, X=values[:, :-1], Y=values[:, -1:])
    elif path.suffix == ".csv":
        lines = [",".join(names), *(",".join(map(repr, row)) for row in values.tolist())]
        path.write_text("\n".join(lines) + "\n")
    elif path.suffix == ".parquet":
        parquet.write_table(pa.table(columns), path, row_group_size=300)
    else:
        feather.write_feather(pa.table(columns), str(path), chunksize=300)
    return path


@pytest.fixture
def without_arrow(monkeypatch):
    """A plain installation: pyarrow is not there."""
    real_import, real_find = builtins.__import__, importlib.util.find_spec

    def refuse(name, *args, **kwargs):
        if name.split(".")[0] == "pyarrow":
            raise ImportError("No module named 'pyarrow'")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyarrow" else real_find(name)
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_the_same_bits(tmp_path, suffix):
    table = read_table(save(tmp_path / f"t{suffix}"))
    np.testing.assert_array_equal(table.X, VALUES[:, :3])
    np.testing.assert_array_equal(table.Y, VALUES[:, 3:])
    assert table.X.dtype == table.Y.dtype == np.float64
    assert table.X.flags.c_contiguous and table.Y.flags.c_contiguous


@pytest.mark.parametrize("block_rows", [1, 7, 300, 1000, 5000])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_blocks_are_the_table_cut_evenly(tmp_path, suffix, block_rows):
    file = save(tmp_path / f"t{suffix}")
    blocks = list(iter_table(file, block_rows=block_rows))
    lengths = [len(inputs) for inputs, _ in blocks]
    assert set(lengths[:-1]) <= {block_rows} and 0 < lengths[-1] <= block_rows
    table = read_table(file)
    assert np.concatenate([inputs for inputs, _ in blocks]).tobytes() == table.X.tobytes()
    assert np.concatenate([targets for _, targets in blocks]).tobytes() == table.Y.tobytes()


@pytest.mark.parametrize("block_rows", [1, 7, 5000])
def test_plain_csv_parser_agrees_with_arrow(tmp_path, without_arrow, block_rows):
    file = save(tmp_path / "t.csv")
    blocks = list(iter_table(file, block_rows=block_rows))
    assert np.concatenate([inputs for inputs, _ in blocks]).tobytes() == VALUES[:, :3].tobytes()


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_columns_by_name_and_number(tmp_path, suffix):
    file = save(tmp_path / f"t{suffix}")
    table = read_table(file, targets=["load", 0])
    assert table.target_names == ("load", "speed") and table.feature_names == ("angle", "force")
    np.testing.assert_array_equal(table.Y, VALUES[:, [2, 0]])
    np.testing.assert_array_equal(table.X, VALUES[:, [1, 3]])
    chosen = read_table(file, targets="speed", features=["force", "angle"])
    np.testing.assert_array_equal(chosen.X, VALUES[:, [3, 1]])
    last = read_table(file, targets=-2)
    assert last.target_names == ("load",)


def test_columns_of_an_array_by_number_or_its_text(tmp_path):
    file = save(tmp_path / "t.npy")
    np.testing.assert_array_equal(read_table(file, targets=[0, 1]).Y, VALUES[:, :2])
    np.testing.assert_array_equal(read_table(file, targets="1").Y, VALUES[:, 1:2])
    np.testing.assert_array_equal(read_table(file, targets=["2", "3"]).X, VALUES[:, :2])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int16", ">f8", "bool"])
def test_arrays_of_other_kinds_and_orders(tmp_path, order, dtype):
    values = np.asarray(RNG.integers(0, 9, (50, 3)), dtype=dtype, order=order)
    np.save(tmp_path / "t.npy", values)
    np.savez(tmp_path / "t.npz", X=values[:, :2].copy(order), y=values[:, 2])
    for file in (tmp_path / "t.npy", tmp_path / "t.npz"):
        joined = np.concatenate([np.hstack(pair) for pair in iter_table(file, block_rows=8)])
        np.testing.assert_array_equal(joined, values.astype(np.float64))


def test_archives_by_array_name(tmp_path):
    file = tmp_path / "t.npz"
    np.savez(file, inputs=VALUES[:, :2], torque=VALUES[:, 2], other=VALUES[:5, 3], note=np.float64(3))
    table = read_table(file, targets="torque", features="inputs")
    assert table.feature_names == ("inputs[0]", "inputs[1]") and table.target_names == ("torque",)
    np.testing.assert_array_equal(table.X, VALUES[:, :2])
    with pytest.raises(BadInputError, match=r"holds the arrays \['inputs', 'other', 'torque'\], expected Y"):
        read_table(file)
    with pytest.raises(BadInputError, match=r"number of rows: \{'inputs': 1000, 'other': 5\}"):
        read_table(file, targets="other", features="inputs")


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".parquet", ".feather"])
def test_written_tables_come_back_to_the_bit(tmp_path, suffix):
    file = tmp_path / f"out{suffix}"
    write_table(file, {name: VALUES[:, j] for j, name in enumerate(NAMES)})
    table = read_table(file, targets="force", features=list(NAMES[:3]))
    assert table.X.tobytes() == VALUES[:, :3].tobytes() and table.Y.tobytes() == VALUES[:, 3:].tobytes()
    assert [entry.name for entry in tmp_path.iterdir()] == [file.name]


def test_refused_tables_leave_the_old_file(tmp_path):
    file = tmp_path / "out.csv"
    file.write_text("old")
    with pytest.raises(BadInputError, match=r"shapes \{'a': \(2,\), 'b': \(3,\)\}"):
        write_table(file, {"a": [1.0, 2.0], "b": [1.0, 2.0, 3.0]})
    with pytest.raises(BadInputError, match="expected vectors"):
        write_table(file, {})
    with pytest.raises(FileFormatError, match=r"cannot write files named '\.xlsx'"):
        write_table(tmp_path / "out.xlsx", {"a": [1.0]})
    assert file.read_text() == "old"


def test_failure_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "out.csv"
    file.write_text("old")

    def fill_the_disk(path, arrays):
        path.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(_write._WRITERS, ".csv", fill_the_disk)
    with pytest.raises(OSError, match="No space left"):
        write_table(file, {"a": [1.0]})
    assert file.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.parametrize("suffix", [".npy", ".csv"])
def test_streaming_holds_a_block_not_the_file(tmp_path, suffix):
    file = tmp_path / f"big{suffix}"
    if suffix == ".npy":
        rows = np.lib.format.open_memmap(file, "w+", np.float64, (650_000, 10))
        rows[:] = np.arange(10.0)
        rows.flush()
        del rows
    else:
        file.write_text("a,b,c\n" + "0.12345678901234567,-1.2345678901234567e-05,3.5\n" * 1_050_000)
    n_bytes = file.stat().st_size
    assert n_bytes > 50e6
    n_rows, total = 0, 0.0
    tracemalloc.start()
    for inputs, targets in iter_table(file, block_rows=10_000):
        n_rows, total = n_rows + len(inputs), total + float(targets.sum())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    expected = (650_000, 9.0) if suffix == ".npy" else (1_050_000, 3.5)
    assert n_rows == expected[0] and total == expected[0] * expected[1]
    assert (
        peak < n_bytes / 8
    )  # a block of 10 000 rows is below 1 MB; a few copies of it and of Arrow's are alive


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_missing_arrow_is_explained(tmp_path, request, suffix):
    file = save(tmp_path / f"t{suffix}")
    request.getfixturevalue("without_arrow")
    with pytest.raises(BadInputError, match=rf"{suffix} files need pyarrow.*pip install 'planted\[files\]'"):
        read_table(file)
    with pytest.raises(BadInputError, match="need pyarrow"):
        write_table(tmp_path / f"new{suffix}", {"a": [1.0]})
