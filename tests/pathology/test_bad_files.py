"""Damaged, hostile and merely odd files: a named refusal before any allocation, or the right numbers."""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from pathology.tries import tried
from planted import _conversion
from planted.io.tables._tables import iter_table, read_table
from planted.outcomes import BadInputError, BadInputTypeError, FileFormatError, PlantedError

VALUES = np.random.default_rng(8).standard_normal((200, 3))


@pytest.fixture(params=["arrow", "plain"])
def parser(request, monkeypatch):
    """Run a CSV test with Arrow and on an installation without it."""
    if request.param == "plain":
        find = importlib.util.find_spec
        real_import = builtins.__import__

        def refuse(name, *args, **kwargs):
            if name.split(".")[0] == "pyarrow":
                raise ImportError(name)
            return real_import(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", refuse)
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: None if name == "pyarrow" else find(name)
        )
    return request.param


def content_of(suffix):
    """Return the bytes of a sound file."""
    buffer = io.BytesIO()
    table = pa.table({name: VALUES[:, j] for j, name in enumerate("abc")})
    if suffix == ".npy":
        np.save(buffer, VALUES)
    elif suffix == ".npz":
        np.savez_compressed(buffer, X=VALUES[:, :2], Y=VALUES[:, 2])
    elif suffix == ".parquet":
        parquet.write_table(table, buffer, write_page_checksum=True)
    else:
        feather.write_feather(table, buffer)
    return buffer.getvalue()


def npy_header(shape, descr="<f8"):
    """Return the head of an array that claims a shape, without its data."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"shape": shape, "fortran_order": False, "descr": descr})
    return buffer.getvalue()


# --- what is not a readable file


def test_paths_that_are_not_tables(tmp_path):
    with pytest.raises(BadInputError, match=r"there is no file .*lost\.csv"):
        read_table(tmp_path / "lost.csv")
    with pytest.raises(BadInputError, match="is a folder"):
        read_table(tmp_path)
    (tmp_path / "sheet.xlsx").write_bytes(b"PK")
    with pytest.raises(
        FileFormatError, match=r"format '\.xlsx' is unknown, expected one of \.csv, \.csv\.gz, \.feather"
    ):
        read_table(tmp_path / "sheet.xlsx")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(BadInputError, match="not a regular file"):
        read_table(tmp_path / "pipe.csv")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet", ".feather"])
def test_empty_files(tmp_path, suffix):
    file = tmp_path / f"empty{suffix}"
    file.touch()
    with pytest.raises(FileFormatError, match=r"is empty \(0 bytes, so 0 sample\(s\)\)"):
        read_table(file)


def test_permission_is_named(tmp_path, monkeypatch):
    file = tmp_path / "secret.csv"
    file.write_text("a,y\n1,2\n")
    real_open = io.open

    def refuse(name, *args, **kwargs):
        if str(name) == str(file):
            raise PermissionError(13, "Permission denied", str(file))
        return real_open(name, *args, **kwargs)

    monkeypatch.setattr(io, "open", refuse)  # what Path.open calls; root may read anything
    with pytest.raises(BadInputError, match=r"secret\.csv may not be read by this user: Permission denied"):
        read_table(file)


# --- truncated and corrupted


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet", ".feather"])
def test_truncation_anywhere_is_refused(tmp_path, suffix):
    whole = content_of(suffix)
    file = tmp_path / f"cut{suffix}"
    cuts = sorted(
        {1, 4, 7, 20, 90, 130, *np.linspace(1, len(whole) - 1, 25).astype(int).tolist(), len(whole) - 1}
    )
    for cut in cuts:
        file.write_bytes(whole[:cut])
        for read in (read_table, lambda path: list(iter_table(path, block_rows=16))):
            with pytest.raises(FileFormatError, match=rf"cut\{suffix}"):
                read(file)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet", ".feather"])
def test_garbage_is_refused(tmp_path, suffix):
    file = tmp_path / f"noise{suffix}"
    for content in (b"\0" * 500, np.random.default_rng(1).bytes(2000), b"a,b\n1,2\n" * 20):
        file.write_bytes(content)
        with pytest.raises(FileFormatError, match=rf"noise\{suffix} cannot be read as \{suffix}"):
            read_table(file)


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_a_changed_byte_of_the_data_fails_its_checksum(tmp_path, suffix):
    whole = bytearray(content_of(suffix))
    file = tmp_path / f"flip{suffix}"
    for place in (200, 600, 900):
        changed = whole.copy()
        changed[place] ^= 0x10
        file.write_bytes(changed)
        with pytest.raises(FileFormatError, match="flip"):
            read_table(file)


def test_flipped_bytes_never_escape_as_foreign_errors(tmp_path):
    rng = np.random.default_rng(2)
    for suffix in (".npz", ".parquet", ".feather"):
        whole = content_of(suffix)
        file = tmp_path / f"flip{suffix}"
        for _ in range(60):
            changed = bytearray(whole)
            changed[int(rng.integers(len(whole)))] ^= int(rng.integers(1, 256))
            file.write_bytes(changed)
            try:
                table = read_table(file)
            except PlantedError as error:
                assert "flip" in str(error)
            else:
                assert np.isfinite(table.X).all() and table.X.ndim == 2


# --- hostile headers


def test_pickled_objects_are_never_loaded(tmp_path):
    objects = np.array([[1.0, "x"], [2.0, "y"]], dtype=object)
    np.save(tmp_path / "o.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "o.npz", X=objects, Y=VALUES[:2, 0])
    for file in (tmp_path / "o.npy", tmp_path / "o.npz"):
        tried()
        with pytest.raises(FileFormatError, match=r"o\.np. holds Python objects"):
            read_table(file)


@pytest.mark.parametrize("shape", [(10**9, 10**4), (2**62, 2**62), (1, 10**6)])
def test_headers_claiming_terabytes(tmp_path, shape):
    file = tmp_path / "huge.npy"
    file.write_bytes(npy_header(shape) + b"\0" * 100)
    with pytest.raises(
        FileFormatError, match=rf"claims {shape[0] * shape[1] * 8:,} bytes of data, 100 are there"
    ):
        read_table(file)
    archive = tmp_path / "huge.npz"
    with zipfile.ZipFile(archive, "w") as members:
        members.writestr("X.npy", npy_header(shape) + b"\0" * 100)
        members.writestr("Y.npy", npy_header((2, 1)) + b"\0" * 16)
    with pytest.raises(FileFormatError, match=r"array 'X' of .*huge\.npz claims .* 100 are there"):
        read_table(archive)


def test_shapes_that_claim_nothing_but_columns(tmp_path):
    file = tmp_path / "wide.npy"
    file.write_bytes(npy_header((0, 10**15)))
    with pytest.raises(BadInputError, match=r"0 sample\(s\)"):
        read_table(file)


def test_bytes_after_an_array_are_refused(tmp_path):
    file = tmp_path / "tail.npz"
    with zipfile.ZipFile(file, "w") as members:
        members.writestr("X.npy", npy_header((2, 1)) + b"\0" * 16 + b"more")
        members.writestr("Y.npy", npy_header((2, 1)) + b"\0" * 16)
    with pytest.raises(FileFormatError, match="array 'X' is followed by bytes that do not belong to it"):
        read_table(file)


def test_forged_lengths_of_record_batches(tmp_path):
    file = tmp_path / "forged.feather"
    table = pa.table({name: VALUES[:, j] for j, name in enumerate("abc")})
    feather.write_feather(table, str(file), compression="uncompressed")
    claim = (200).to_bytes(8, "little")
    assert file.read_bytes().count(claim) >= 4  # of the batch and of each column
    file.write_bytes(file.read_bytes().replace(claim, (10**6).to_bytes(8, "little")))
    with pytest.raises(FileFormatError, match=r"forged\.feather"):
        read_table(file)


@pytest.mark.parametrize("shape", [(5,), (2, 2, 2), ()])
def test_arrays_that_are_not_tables(tmp_path, shape):
    np.save(tmp_path / "odd.npy", np.zeros(shape))
    with pytest.raises(BadInputError, match="expected 2-d"):
        read_table(tmp_path / "odd.npy")


@pytest.mark.parametrize("descr", ["<c16", "<U3", "<M8[s]"])
def test_arrays_of_wrong_kinds(tmp_path, descr):
    np.save(tmp_path / "kind.npy", np.zeros((2, 2), dtype=descr))
    with pytest.raises(BadInputTypeError, match=r"kind\.npy has dtype .* expected real numbers"):
        read_table(tmp_path / "kind.npy")


def test_zip_bombs_are_refused_before_they_expand(tmp_path):
    file = tmp_path / "bomb.npz"
    rows = 2**25 + 1  # 256 MB of zeros and a row, which deflate shrinks a thousandfold
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as members, members.open("X.npy", "w") as member:
        member.write(npy_header((rows, 1)))
        for _ in range(8):
            member.write(bytes(rows))
    assert file.stat().st_size < 1e6
    with pytest.raises(FileFormatError, match=r"array 'X' of .*bomb\.npz would expand .*-fold to 268\.44 MB"):
        read_table(file, targets=0)


def test_tables_larger_than_memory_are_refused_with_the_number(tmp_path, monkeypatch):
    monkeypatch.setattr(_conversion, "available_memory", lambda: 2 * 8 * VALUES.size - 1)
    file = tmp_path / "large.npy"
    file.write_bytes(content_of(".npy"))
    with pytest.raises(
        BadInputError, match=r"large\.npy \(200 rows, 3 columns\) needs 4\.80 kB .* is 4\.80 kB.*--stream"
    ):
        read_table(file)
    assert sum(len(X) for X, _ in iter_table(tmp_path / "large.npy", block_rows=10)) == 200


# --- columns and values


def test_unknown_columns_suggest_close_ones(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("pressure,torque\n1,2\n")
    with pytest.raises(
        BadInputError, match=r"no column 'torqe' \(targets, --targets\)\. Did you mean 'torque'\?"
    ):
        read_table(file, targets="torqe")
    with pytest.raises(
        BadInputError, match=r"no column 'zzz' \(features, --features\)\. It has: pressure, torque"
    ):
        read_table(file, features="zzz")
    with pytest.raises(BadInputError, match="2 columns, so there is no column 2"):
        read_table(file, targets=2)
    with pytest.raises(BadInputError, match=r"\['torque'\] are both features and targets"):
        read_table(file, targets="torque", features=["torque"])
    with pytest.raises(BadInputError, match="chooses a column twice"):
        read_table(file, targets=["torque", 1])
    with pytest.raises(BadInputError, match="chooses no column"):
        read_table(file, targets=[])
    with pytest.raises(BadInputError, match="block_rows=0"):
        iter_table(file, block_rows=0)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet", ".feather", ".csv"])
def test_missing_values_are_named_by_file_row_and_column(tmp_path, suffix):
    values = VALUES.copy()
    values[150, 1] = np.nan
    file = tmp_path / f"gap{suffix}"
    if suffix == ".npy":
        np.save(file, values)
    elif suffix == ".npz":
        np.savez(file, X=values[:, :2], Y=values[:, 2])
    elif suffix == ".csv":
        file.write_text(
            "a,b,c\n" + "\n".join(",".join("" if x != x else repr(x) for x in row) for row in values.tolist())
        )
    else:
        table = pa.table({name: pa.array(values[:, j], from_pandas=True) for j, name in enumerate("abc")})
        assert table["b"].null_count == 1
        (parquet.write_table if suffix == ".parquet" else feather.write_feather)(table, str(file))
    column = {".npy": "1", ".npz": r"X\[1\]"}.get(suffix, "b")
    for read in (read_table, lambda path: list(iter_table(path, block_rows=64))):
        with pytest.raises(
            BadInputError, match=rf"gap\{suffix} contains 1 .* row 150, column 1 \('{column}'\)"
        ):
            read(file)


def test_text_columns_of_arrow_files_are_named_and_may_be_left_out(tmp_path):
    table = pa.table(
        {"when": pa.array([1, 2], pa.timestamp("s")), "kind": ["u", "v"], "x": [1, 2], "y": [0.5, 1.5]}
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    feather.write_feather(table, str(tmp_path / "t.feather"))
    for file in (tmp_path / "t.parquet", tmp_path / "t.feather"):
        with pytest.raises(BadInputTypeError, match=rf"column 'kind' of .*t\{file.suffix} is of type string"):
            read_table(file, features=["x", "kind"])
        with pytest.raises(BadInputTypeError, match=r"column 'when' .* timestamp"):
            read_table(file)
        np.testing.assert_array_equal(read_table(file, features="x").X, [[1.0], [2.0]])


# --- odd and broken text


def read_text(tmp_path, text, **options):
    file = tmp_path / "t.csv"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_table(file, **options)


@pytest.mark.parametrize(
    "text",
    [
        "a,b,y\n1,2,3\n4,5,6\n",
        "a,b,y\r\n1,2,3\r\n4,5,6\r\n",
        "a,b,y\n1,2,3\n4,5,6",
        "\ufeffa,b,y\n1,2,3\n4,5,6\n",
        '\ufeff"a",b,y\n1,2,3\n4,5,6\n',
        "a;b;y\n1;2;3\n4;5;6\n",
        "a\tb\ty\n1\t2\t3\n4\t5\t6\n",
        "a, b, y\n1, 2, 3\n4, 5, 6\n",
        'a,b,y\n"1",2,3\n4,"5",6\n',
        "a,b,y\n1,2,3\n\n4,5,6\n\n",
        "a,b,y\n1e0,+2,3.\n0.4e1,5.00,6\n",
    ],
    ids=[
        "plain",
        "crlf",
        "no last newline",
        "bom",
        "bom quoted",
        "semicolon",
        "tab",
        "spaces",
        "quotes",
        "blank lines",
        "floats",
    ],
)
def test_dialects_that_are_understood(tmp_path, parser, text):
    table = read_text(tmp_path, text)
    assert table.feature_names == ("a", "b") and table.target_names == ("y",)
    np.testing.assert_array_equal(np.hstack([table.X, table.Y]), [[1, 2, 3], [4, 5, 6]])


def test_no_header_single_row_and_quoted_names(tmp_path, parser):
    table = read_text(tmp_path, "1,2,3\n4,5,6\n")
    assert table.feature_names == ("0", "1") and table.X.shape == (2, 2)
    assert read_text(tmp_path, "a,y\n1,2\n").X.shape == (1, 1)
    table = read_text(tmp_path, '"<script>alert(1)</script>","two\nlines, one name",y\n1,2,3\n')
    assert table.feature_names == ("<script>alert(1)</script>", "two\nlines, one name")
    np.testing.assert_array_equal(table.X, [[1.0, 2.0]])


def test_text_columns_may_be_left_out(tmp_path, parser):
    table = read_text(tmp_path, 'note,x,y\n"two\nlines",1,2\nplain,3,4\n', features="x")
    np.testing.assert_array_equal(table.X, [[1.0], [3.0]])


def test_quoted_lines_across_the_blocks_of_the_parser(tmp_path, parser):
    note = "line\n" * 500  # a cut at any newline of a block would nearly always fall inside a note
    table = read_text(tmp_path, "note,x,y\n" + f'"{note}",1,2\n' * 1500, features="x")
    assert table.X.shape == (1500, 1) and (table.Y == 2.0).all()


def test_wide_tables(tmp_path, parser):
    width = 20_000
    header = ",".join(f"column_{j}" for j in range(width))
    row = ",".join(["0.12345678901234567"] * width)
    table = read_text(tmp_path, f"{header}\n{row}\n{row}\n{row}\n")
    assert table.X.shape == (3, width - 1) and (table.X == 0.12345678901234567).all()


@pytest.mark.parametrize(
    "text, error, message",
    [
        ("a,b,y\n1,2,3\n4,5\n", FileFormatError, "row 1 has 2 cells, expected 3"),
        ("a,b,y\n1,2,3\n4,5,6,7\n", FileFormatError, "row 1 has 4 cells, expected 3"),
        ("a,b,y\n1,2,3\n4,five,6\n", BadInputTypeError, "row 1, column 'b' holds 'five', expected a number"),
        ("a,b,y\n1,2,3\n4,1_000,6\n", BadInputTypeError, "row 1, column 'b' holds '1_000'"),
        ("a,b,y\n1,2026-01-01,3\n", BadInputTypeError, "row 0, column 'b' holds '2026-01-01'"),
        ("a;b;y\n1,5;2;3\n", BadInputTypeError, "column 'a' holds '1,5'.*point, not a comma"),
        ("a,b,y\n1,,3\n", BadInputError, r"1 missing or NaN.*row 0, column 1 \('b'\)"),
        ("a,b,y\n1,2,3\n1,NA,3\n", BadInputError, r"1 missing or NaN.*row 1, column 1 \('b'\)"),
        ("a,b,y\n1,2,3\n1,inf,3\n", BadInputError, r"1 inf.*row 1, column 1 \('b'\)"),
        ("a,b,y\n", BadInputError, r"0 sample\(s\)"),
        ("\n\n\n", FileFormatError, "no line of text"),
        ("a,b,a\n1,2,3\n", BadInputError, r"the same name: \['a'\]"),
        ("alone\n1\n2\n", BadInputError, "leaves 0 columns for the inputs.*separator"),
        (b"a,b,y\n\xff\xfe,2,3\n", FileFormatError, "cannot be read as .csv"),
        ("a,b,y\n1,2,3\n".encode("utf-16"), FileFormatError, "text in UTF-16, expected UTF-8"),
        (b"PAR1\0\0\0\0\0", FileFormatError, "zero bytes"),
        ('a,b,y\n1,2,"3\n4,5,6\n', PlantedError, r"t\.csv"),
    ],
)
def test_broken_text_is_refused_at_its_place(tmp_path, parser, text, error, message):
    with pytest.raises(error, match=message) as caught:
        read_text(tmp_path, text)
    assert "t.csv" in str(caught.value)


def test_breaks_deep_in_a_long_file_keep_their_row(tmp_path, parser):
    rows = ["1.5,2.5"] * 200_000
    rows[180_001] = "1.5,x"
    with pytest.raises(BadInputTypeError, match="row 180001, column 'y' holds 'x'"):
        read_text(tmp_path, "a,y\n" + "\n".join(rows))
    rows[180_001] = "1.5,nan"
    with pytest.raises(BadInputError, match=r"row 180001, column 1 \('y'\)"):
        read_text(tmp_path, "a,y\n" + "\n".join(rows))
