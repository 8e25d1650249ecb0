"""Files of sums that are damaged, forged or bombs: a typed error with the file's name, before memory is taken."""

import json
import tracemalloc
import zipfile

import numpy as np
import pytest

from pathology.tries import tried
from planted import RowBlocks
from planted.io import write_sums
from planted.io._memory import Budget
from planted.io.state._archive import read_archive, write_archive
from planted.io.state._sums import read_sums_with_names
from planted.moments import summarise_rows
from planted.outcomes import FileFormatError, PlantedError
from planted.rows import pack_sums

DRAW = np.random.default_rng(0)
SUMMARY = summarise_rows(
    RowBlocks.from_arrays(DRAW.standard_normal((40, 3)), DRAW.standard_normal((40, 2))), 20
)
HEAD = json.dumps({"format": "planted.sums", "schema": 1, "planted": "0.1.0"})


def write_forged(path, *, head=HEAD, save=np.savez, **changes):
    with path.open("wb") as file:
        save(file, head=np.array(head), **(pack_sums(SUMMARY) | changes))


def npy_head(shape, kind="<f8", length=None):
    text = repr({"descr": kind, "fortran_order": False, "shape": shape}).ljust(117) + "\n"
    size = len(text) if length is None else length
    return b"\x93NUMPY\x01\x00" + size.to_bytes(2, "little") + text.encode()


def test_files_of_earlier_versions_are_read(tmp_path):
    write_forged(tmp_path / "old.sums")
    write_sums(tmp_path / "new.sums", SUMMARY)
    old, new = (read_sums_with_names([tmp_path / name])[0] for name in ("old.sums", "new.sums"))
    for name, array in pack_sums(SUMMARY).items():
        np.testing.assert_array_equal(getattr(old, name), array)
        np.testing.assert_array_equal(getattr(new, name), array)


@pytest.mark.parametrize("gigabytes", [1, 10])
def test_a_bomb_is_refused_before_memory_is_taken(tmp_path, gigabytes):
    """A file of some kilobytes that claims gigabytes, in the head of an array or in the list of members."""
    path, zeros = tmp_path / "bomb.sums", bytes(1 << 24)
    write_forged(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name != "X.npy"}
    rows = gigabytes * 2**30 // 24
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        with archive.open("X.npy", "w", force_zip64=True) as member:
            member.write(npy_head((rows, 3)))
            for _ in range(4):  # 64 MB are real, the rest is a claim: enough to see whether any is taken
                member.write(zeros)
    data = bytearray(path.read_bytes())
    place = data.rindex(b"X.npy")
    claimed = (24 * rows + 128).to_bytes(8, "little")
    if gigabytes == 1:
        data[place - 46 + 24 : place - 46 + 28] = claimed[:4]
        path.write_bytes(data)
    assert path.stat().st_size < 200_000
    for memory in (None, 10**6, "100GB"):
        tried()
        tracemalloc.start()
        with pytest.raises(FileFormatError, match=r"bomb\.sums is not a file of sums"):
            read_sums_with_names([path], memory=memory)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
        tracemalloc.stop()


def test_the_budget_is_a_parameter(tmp_path):
    write_sums(tmp_path / "part.sums", SUMMARY)
    assert read_sums_with_names([tmp_path / "part.sums"], memory=10**6)[0].count == 40
    with pytest.raises(
        FileFormatError, match=r"part\.sums is not a file of sums .* of memory, but the budget is"
    ):
        read_sums_with_names([tmp_path / "part.sums"], memory=100)


FORGERIES = {
    "another format": {"head": json.dumps({"format": "x", "schema": 1})},
    "another schema": {"head": json.dumps({"format": "planted.sums", "schema": 2})},
    "a head that is no record": {"head": "[1]"},
    "a head that is no JSON": {"head": "{"},
    "a deep head": {"head": "[" * 100_000},
    "compressed": {"save": np.savez_compressed},
    "no rows": {"count": np.array(0)},
    "a negative number of rows": {"count": np.array(-5)},
    "a fractional number of rows": {"count": np.array(2.5)},
    "a size that is an array": {"size": np.ones(3)},
    "rows in one dimension": {"X": np.ones(60)},
    "too few rows": {"X": np.ones((3, 3))},
    "a wrong width": {"Y": np.ones((20, 5))},
    "no width": {"Y": np.ones((20, 0)), "X": np.ones((20, 5))},
    "text": {"X": np.full((20, 3), "a")},
    "NaN": {"X": np.full((20, 3), np.nan)},
    "an infinite mean": {"mean": np.full(5, np.inf)},
    "a mean without shape": {"mean": np.array(1.0)},
    "a scatter that is no square": {"scatter": np.ones((5, 4))},
    "a negative scatter": {"scatter": -np.eye(5)},
    "keys of another kind": {"keys": np.arange(20.0)},
    "keys out of order": {"keys": np.arange(20, dtype=np.uint64)[::-1]},
    "a field too many": {"more": np.ones(2)},
    "dates": {"X": np.zeros((20, 3), dtype="datetime64[s]")},
    "complex numbers": {"X": np.zeros((20, 3), dtype=complex)},
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_file_is_a_typed_error(tmp_path, name):
    write_forged(tmp_path / "forged.sums", **FORGERIES[name])
    with pytest.raises(FileFormatError, match=r"forged\.sums is not a file of sums"):
        read_sums_with_names([tmp_path / "forged.sums"])


@pytest.mark.parametrize(
    "member",
    [
        b"",
        b"no array",
        npy_head((True, 3)) + bytes(24),
        npy_head((-1, 3)),
        npy_head((2**62, 2**62)),
        npy_head((20, 3), kind="|O") + bytes(480),
        npy_head((20, 3), kind="<U999999999"),
        npy_head((20, 3), length=60_000),
        b"\x93NUMPY\x01\x00\x0a\x00" + b"(" * 9 + b"\n",
        b"\x93NUMPY\x01\x00\x0a\x00" + b"\xff\x00 lambda:",
        b"\x93NUMPY\x09\x00" + bytes(100),
    ],
)
def test_a_forged_member_is_a_typed_error(tmp_path, member):
    write_forged(tmp_path / "forged.sums")
    with zipfile.ZipFile(tmp_path / "forged.sums") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(tmp_path / "forged.sums", "w") as archive:
        for name, data in (members | {"X.npy": member}).items():
            archive.writestr(name, data)
    with pytest.raises(FileFormatError, match=r"forged\.sums is not a file of sums"):
        read_sums_with_names([tmp_path / "forged.sums"])


def test_damaged_files_give_typed_errors_or_the_same_sums(tmp_path):
    write_sums(tmp_path / "part.sums", SUMMARY)
    whole, draw, refused = (tmp_path / "part.sums").read_bytes(), np.random.default_rng(3), 0
    for _ in range(600):
        data = bytearray(whole)
        place, span = int(draw.integers(0, len(data))), int(draw.integers(0, 9))
        data[place : place + span] = draw.bytes(int(draw.integers(0, 9)))
        (tmp_path / "part.sums").write_bytes(data)
        try:
            found = read_sums_with_names([tmp_path / "part.sums"])[0]
            for name, array in pack_sums(SUMMARY).items():
                np.testing.assert_array_equal(getattr(found, name), array)
        except PlantedError as error:
            assert "part.sums" in str(error)
            refused += 1
    assert refused > 500


@pytest.mark.parametrize(
    "names",
    [
        ["a"],
        ["a", "b", "c"],
        ["a", "a"],
        ["a", 1],
        "ab",
        {"a": 1, "b": 2},
        None,
        [["a"], ["b"]],
        ["a", "\x1b[2J"],
        3,
    ],
)
def test_names_that_no_table_has(tmp_path, names):
    """Of two inputs: too many, too few, twice the same, no text."""
    path = tmp_path / "part.sums"
    summary = summarise_rows(RowBlocks.from_arrays(np.eye(4)[:, :2], np.ones((4, 1))), 10)
    write_sums(path, summary, features=["a", "b"], targets=["y"])
    found, known = read_sums_with_names([path, path])
    assert found.count == 8 and known == {"features": ("a", "b"), "targets": ("y",)}
    with path.open("rb") as file:
        head, arrays = read_archive(file, budget=Budget(None))
    with path.open("wb") as file:
        write_archive(file, head | {"features": names}, arrays)
    with pytest.raises(FileFormatError, match=r"part\.sums is not a file of sums"):
        read_sums_with_names([path])
