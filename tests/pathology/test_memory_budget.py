"""Files that would take all memory or all time: a typed error within seconds, with the file and the numbers.

Every family draws its shapes, sizes and compressions from a seeded generator. Files are read in another process whose
address space is limited, so that a bomb that is not stopped fails the test and not the machine.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from pathology.mutations import FORMATS, sound_files
from pathology.tries import tried
from planted import _conversion
from planted.io import _memory, iter_table, memory_budget, open_blocks, read_table, write_table
from planted.outcomes import BadInputError, BadInputTypeError, FileFormatError, PlantedError

BUDGET = 100_000_000
SECONDS = 20.0  # of CPU: alone on a machine each refusal takes less than 2
SEEDS = (0, 1)
ONE_SEED = (0,)  # where making or reading the files takes seconds, and one seed draws several of every kind

# A process that has everything imported reads each file in a child of its own, whose address space is limited.
READER = """
import json, os, resource, sys, time
import numpy, pyarrow.csv, pyarrow.feather, pyarrow.parquet
from itertools import islice
from planted.io import iter_table, open_blocks, read_table
from planted.io.tables import _arrow, _arrow_sizes, _arrays, _csv

def held(): return int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
def read(mode, file, budget):
    before, began = peak(), time.process_time()
    try:
        if mode == "read":
            read_table(file, targets=0, memory=budget)
        elif mode == "stream":
            for _ in islice(iter_table(file, targets=0, memory=budget), 3): pass
        else:
            for _ in islice(open_blocks(file, targets=0, memory=budget), 3): pass
        kinds, text = [], ""
    except Exception as error:
        kinds, text = [kind.__name__ for kind in type(error).__mro__], str(error)
    return {"kinds": kinds, "text": text, "seconds": time.process_time() - began, "grown": peak() - before}

for line in sys.stdin:
    mode, file, budget = json.loads(line)
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (held() + 1_200_000_000,) * 2)
        print(json.dumps(read(mode, os.fsdecode(bytes.fromhex(file)), budget)), flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(json.dumps({"kinds": ["death"], "text": "", "seconds": 0, "grown": 0}), flush=True)
"""


@pytest.fixture(autouse=True, scope="module")
def _reader_ends():
    yield
    if reader.cache_info().currsize:
        with reader() as process:  # closes its input, which ends it, and waits
            reader.cache_clear()
        assert process.returncode == 0


@cache
def reader():
    """Start the process that reads."""
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", READER], text=True, env=environment, **pipes)


def read_apart(files, *, modes=("read",), budget=BUDGET):
    """Read files in processes of limited memory; return what happened to each."""
    places = [(f"{mode}:{os.fsdecode(file)}", mode, file) for file in files for mode in modes]
    ends = []
    for _, mode, file in places:
        print(json.dumps([mode, os.fsencode(file).hex(), budget]), file=reader().stdin, flush=True)
        ends.append(json.loads(reader().stdout.readline()))
    return [(place, end) for (place, *_), end in zip(places, ends, strict=True)]


def assert_refused(files, says, *, modes=("read",), budget=BUDGET):
    """Every file is refused in time and within the budget, by an error that names it and says the number."""
    for place, end in read_apart(files, modes=modes, budget=budget):
        tried()
        name = os.path.basename(place)
        assert "PlantedError" in end["kinds"], (place, end)
        assert name in end["text"] and re.search(says, end["text"]), (place, end)
        assert "more memory than there is" not in end["text"], (
            place,
            end,
        )  # the limit of the process was met
        assert end["seconds"] < SECONDS and end["grown"] < 2 * budget, (place, end)


def npy_head(shape, *, descr="<f8", fortran=False):
    """Return the head of an array as text claims it."""
    text = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text.encode() + b"\n"


# --- .npy


@pytest.mark.parametrize("seed", ONE_SEED)
def test_arrays_whose_shape_is_forged(tmp_path, seed):
    rng = np.random.default_rng((seed, 1))
    odd = [f"({a}, {b})" for a, b in (("True", 3), (3, "False"), (-1, 3), (4, -2), ("True", "True"))]
    huge = [f"({2 ** int(rng.integers(40, 200))}, {int(rng.integers(1, 9))})" for _ in range(5)]
    files = []
    for i, shape in enumerate([*odd, *huge]):
        files.append(tmp_path / f"forged{i}.npy")
        files[-1].write_bytes(npy_head(shape) + rng.bytes(100))
        files.append(tmp_path / f"forged{i}.npz")
        with zipfile.ZipFile(
            files[-1], "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
        ) as members:
            members.writestr("X.npy", npy_head(shape) + rng.bytes(100))
    assert_refused(
        files, r"claims the shape|claims [\d,]+ bytes of data, [\d,]+ are there", modes=("read", "stream")
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_arrays_larger_than_the_budget(tmp_path, seed):
    """The bytes are really there (as holes of the file), and memory is not."""
    rng = np.random.default_rng((seed, 2))
    files = []
    for i in range(4):
        shape = (int(rng.integers(10**7, 10**9)), int(rng.integers(2, 40)))
        kind = ("<f8", "<f4", "<i2", "|b1")[i]
        files.append(tmp_path / f"large{i}.npy")
        with files[-1].open("wb") as file:
            file.write(npy_head(str(shape), descr=kind, fortran=bool(rng.integers(2))))
            file.truncate(file.tell() + shape[0] * shape[1] * np.dtype(kind).itemsize)
    assert_refused(
        files,
        r"[\d,]+ rows, \d+ columns\) needs [\d,.]+ [MG]B of memory, but the budget is 100\.00 MB.*--stream",
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_wide_arrays_are_streamed_within_the_budget(tmp_path, seed):
    rng = np.random.default_rng((seed, 3))
    shape = (int(rng.integers(2500, 3000)), int(rng.integers(20_000, 30_000)))
    file = tmp_path / "wide.npy"
    with file.open("wb") as out:
        out.write(npy_head(str(shape), fortran=False))
        out.truncate(out.tell() + 8 * shape[0] * shape[1])
    ends = read_apart([file], modes=("stream", "blocks"))  # all rows together would be half a gigabyte
    assert all("Give a smaller block_rows" in end["text"] for _, end in ends), ends
    assert all(end["grown"] < 4 * BUDGET for _, end in ends), ends  # the mapped pages of the file count, too


def test_headers_that_are_long_themselves(tmp_path):
    head = b"\x93NUMPY\x02\x00" + (3 * 2**30).to_bytes(4, "little")
    with (tmp_path / "head.npy").open("wb") as file:
        file.write(head)
        file.truncate(3 * 2**30 + 100)
    with (
        zipfile.ZipFile(tmp_path / "head.npz", "w", zipfile.ZIP_DEFLATED) as members,
        members.open("X.npy", "w") as member,
    ):
        member.write(head)
        for _ in range(25):
            member.write(bytes(10_000_000))
    assert_refused(
        [tmp_path / "head.npy", tmp_path / "head.npz"], "header claims 3,221,225,472 bytes", budget=50_000_000
    )


# --- .npz


@pytest.mark.parametrize("seed", SEEDS)
def test_archives_of_many_wide_arrays(tmp_path, seed):
    rng = np.random.default_rng((seed, 4))
    n_arrays, width = int(rng.integers(30, 50)), int(rng.integers(10**5 // 2, 10**6))
    file = tmp_path / "wide.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as members:
        for i in range(n_arrays):
            members.writestr(f"X{i}.npy", npy_head(f"(1, {width})", descr="|b1") + bytes(width))
    assert_refused([file], r"has [\d,]+ columns, expected at most 100,000", modes=("read", "stream"))


@pytest.mark.parametrize("seed", ONE_SEED)
def test_archives_that_expand(tmp_path, seed):
    rng = np.random.default_rng((seed, 5))
    files = []
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED):
        rows = int(rng.integers(7_000_000, 9_000_000))
        files.append(tmp_path / f"bomb{len(files)}.npz")
        with zipfile.ZipFile(files[-1], "w", method) as members, members.open("Z.npy", "w") as member:
            member.write(npy_head(f"({rows // 2}, 2)", fortran=bool(len(files) % 2)))
            for _ in range(8):
                member.write(bytes(rows // 2 * 2))
    says = r"needs [\d.]+ MB of memory|compressed by method 1[24], which expands without a bound"
    assert_refused(files, says, budget=50_000_000)


def test_a_directory_of_millions_of_members(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as members:
        members.writestr("X.npy", npy_head("(1, 2)") + bytes(16))
    content = buffer.getvalue()
    place = content.index(b"PK\x01\x02")
    entry, end = (
        content[place : content.index(b"PK\x05\x06")],
        bytearray(content[content.index(b"PK\x05\x06") :]),
    )
    end[12:16] = (500_000 * len(entry)).to_bytes(4, "little")
    (tmp_path / "directory.npz").write_bytes(content[:place] + entry * 500_000 + end)
    assert_refused([tmp_path / "directory.npz"], r"directory has [\d,]+ bytes, expected at most 4,194,304")


# --- text


@pytest.mark.parametrize("seed", ONE_SEED)
def test_text_of_too_many_columns(tmp_path, seed):
    rng = np.random.default_rng((seed, 6))
    files = []
    for separator in ",;\t":
        width = int(rng.integers(150_000, 1_500_000))
        files.append(tmp_path / f"wide{len(files)}.csv")
        names = separator.join(map(str, range(width))) if rng.integers(2) else separator.join(["a1"] * width)
        files[-1].write_text(f"{names}\n" + separator.join(["0"] * width) + "\n")
    assert_refused(
        files, r"has [\d,]+ columns, expected at most 100,000|is longer than 16 MB", modes=("read", "stream")
    )


@pytest.mark.parametrize("seed", ONE_SEED)
def test_lines_that_do_not_end(tmp_path, seed):
    """Holes of a file read as zero bytes: three gigabytes of them in one line, at the start or after some rows."""
    rng = np.random.default_rng((seed, 7))
    starts = {"first": b"", "second": b"a,b\n", "later": b"a,b\n" + b"1,2\n" * int(rng.integers(1, 10**5))}
    files = []
    for name, start in starts.items():
        files.append(tmp_path / f"{name}.csv")
        with files[-1].open("wb") as file:
            file.write(start)
            file.truncate(len(start) + int(rng.integers(2 * 10**9, 4 * 10**9)))
    (tmp_path / "digits.csv").write_bytes(b"7" * int(rng.integers(2e7, 6e7)))
    (tmp_path / "blank.csv").write_bytes(b"\n" * int(rng.integers(2e7, 6e7)))
    (tmp_path / "quote.csv").write_bytes(b'a,b\n"' + b"1\n" * int(rng.integers(2e7, 4e7)))
    files += [tmp_path / "digits.csv", tmp_path / "blank.csv", tmp_path / "quote.csv"]
    assert_refused(
        files, "is longer than 16 MB|lines hold no row of text|field larger than", modes=("read", "stream")
    )


@pytest.mark.parametrize("seed", ONE_SEED)
def test_text_that_grows_in_memory(tmp_path, seed):
    rng = np.random.default_rng((seed, 8))
    file = tmp_path / "long.csv"
    width = int(rng.integers(2, 30))
    file.write_text((",".join("1" * width) + "\n") * (30_000_000 // (2 * width)))
    assert_refused(
        [file], r"its first [\d,]+ rows\) needs [\d.]+ MB of memory, but the budget is 100\.00 MB.*--stream"
    )
    total = sum(len(X) for X, _ in iter_table(file, memory=BUDGET))
    assert total == 30_000_000 // (2 * width)


def test_what_is_not_a_regular_file(tmp_path):
    names = []
    for suffix in FORMATS:
        os.mkfifo(tmp_path / f"pipe{suffix}")
        (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
        (tmp_path / f"folder{suffix}").mkdir()
        names += [f"pipe{suffix}", f"zero{suffix}"]
    assert_refused(
        [tmp_path / name for name in names], "not a regular file", modes=("read", "stream", "blocks")
    )
    assert_refused([tmp_path / f"folder{suffix}" for suffix in FORMATS], "is a folder")


# --- Arrow


def write_arrow(file, table, compression, **options):
    """Write a table as the file's name says."""
    if file.suffix == ".parquet":
        parquet.write_table(table, file, compression=compression, **options)
    else:
        compression = {"none": "uncompressed", "zstd": "zstd"}.get(compression, "lz4")
        feather.write_feather(table, str(file), compression=compression, chunksize=table.num_rows)


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
@pytest.mark.parametrize("seed", ONE_SEED)
def test_few_bytes_that_are_many_rows(tmp_path, seed, suffix):
    """Bits, nulls and runs of one value: kilobytes in the file, gigabytes as float64."""
    rng = np.random.default_rng((seed, 9))
    files = []
    for kind in ("bits", "nulls", "bytes"):
        rows = int(rng.integers(3 * 10**7, 6 * 10**7))
        values = {
            "bits": lambda rows=rows: pa.array(np.zeros(rows, dtype=bool)),
            "nulls": lambda rows=rows: pa.nulls(rows),
            "bytes": lambda rows=rows: pa.array(np.zeros(rows, dtype=np.int8)),
        }[kind]()
        files.append(tmp_path / f"{kind}{suffix}")
        write_arrow(files[-1], pa.table({"a": values, "b": values}), str(rng.choice(["zstd", "snappy"])))
        assert files[-1].stat().st_size < 3_000_000
    assert_refused(files, r"[\d,]+ rows, 2 columns\) needs [\d.]+ MB of memory, but the budget is 100\.00 MB")


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
@pytest.mark.parametrize("seed", ONE_SEED)
def test_pages_and_batches_that_expand(tmp_path, seed, suffix):
    """One page or batch holds all rows: streaming does not help, since Arrow expands it whole."""
    rng = np.random.default_rng((seed, 10))
    files = []
    for compression in ("zstd", "snappy", "gzip", "brotli"):
        rows = int(rng.integers(4_000_000, 6_000_000))
        table = pa.table({"a": np.zeros(rows), "b": np.zeros(rows)})
        files.append(tmp_path / f"{compression}{suffix}")
        options = {
            "use_dictionary": False,
            "data_page_size": 2**30,
            "row_group_size": rows,
            "write_batch_size": rows,
        }
        if "max_rows_per_page" in inspect.signature(parquet.ParquetWriter).parameters:
            options["max_rows_per_page"] = rows  # 20 000 by default in new versions of Arrow
        options["data_page_version"] = str(rng.choice(["1.0", "2.0"]))
        write_arrow(files[-1], table, compression, **(options if suffix == ".parquet" else {}))
        assert files[-1].stat().st_size < 30_000_000
        del table
    assert_refused(
        files,
        r"a (row group|record batch) of .* needs [\d.]+ MB of memory",
        modes=("stream", "blocks"),
        budget=50_000_000,
    )


@pytest.mark.parametrize("seed", ONE_SEED)
def test_what_is_loaded_whole_fits_beside_the_table(tmp_path, seed):
    """A batch, or an array in Fortran order, that fits alone and not beside the arrays that it is read into."""
    rng = np.random.default_rng((seed, 11))
    files = [tmp_path / "batch.feather", tmp_path / "fortran.npz"]
    rows = int(rng.integers(2_600_000, 3_000_000))
    feather.write_feather(
        pa.table({"a": np.zeros(rows), "b": np.zeros(rows)}), files[0], compression="zstd", chunksize=rows
    )
    short = rows // 3
    np.savez_compressed(files[1], a=np.asfortranarray(rng.integers(0, 9, (short, 2)).astype(np.float64)))
    says = r"needs [\d.]+ MB of memory beside the [\d.]+ MB of the table, but the budget is [\d.]+ MB"
    for file, budget in ((files[0], 60_000_000), (files[1], 40_000_000)):
        for _, end in read_apart([file], budget=budget):
            assert "PlantedError" in end["kinds"] and re.search(says, end["text"]), end
            assert end["grown"] < budget, end
    for _, end in read_apart(files, budget=120_000_000):
        assert not end["kinds"], end


@pytest.mark.parametrize("seed", ONE_SEED)
def test_buffers_whose_length_is_forged(tmp_path, seed):
    rng = np.random.default_rng((seed, 11))
    buffer = io.BytesIO()
    rows = int(rng.integers(1000, 5000))
    feather.write_feather(pa.table({"a": np.zeros(rows), "b": np.ones(rows)}), buffer, compression="lz4")
    claim = (8 * rows).to_bytes(8, "little")
    assert buffer.getvalue().count(claim) == 2
    files = []
    for bits in rng.integers(28, 62, 5):
        files.append(tmp_path / f"forged{bits}.feather")
        files[-1].write_bytes(buffer.getvalue().replace(claim, (2 ** int(bits)).to_bytes(8, "little")))
    assert_refused(files, r"a record batch of .* needs [\d,.]+ [MG]B of memory", modes=("read", "stream"))


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_columns_of_long_text_are_refused_unread(tmp_path, suffix):
    """A dictionary of one long text, named by every row, would be a gigabyte a block."""
    text = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(60_000, dtype=np.int32)), pa.array(["x" * 100_000])
    )
    table = pa.table({"a": np.zeros(60_000), "b": text})
    write_arrow(tmp_path / f"text{suffix}", table, "zstd")
    assert_refused([tmp_path / f"text{suffix}"], "column 'b' .* is of type", modes=("read", "stream"))


def test_tables_of_too_many_columns(tmp_path):
    schema = pa.schema([(str(j), pa.float64()) for j in range(100_001)])
    with pa.OSFile(str(tmp_path / "wide.feather"), "wb") as file, pa.ipc.new_file(file, schema):
        pass
    parquet.write_table(schema.empty_table(), tmp_path / "wide.parquet")
    files = [tmp_path / "wide.feather", tmp_path / "wide.parquet"]
    assert_refused(files, "has 100,001 columns, expected at most 100,000", budget=2 * 10**9)
    assert_refused(files, r"description of the columns of .* needs [\d.]+ [MG]B of memory")


# --- the budget itself


def test_the_budget_is_given_by_argument_by_block_or_by_the_machine(tmp_path, monkeypatch):
    file = tmp_path / "t.npy"
    np.save(file, np.ones((1000, 10)))
    monkeypatch.setattr(_conversion, "available_memory", lambda: 170_000)
    monkeypatch.setattr(_memory, "_left_in_control_group", lambda: None)
    assert read_table(file).X.shape == (1000, 9)
    with (
        memory_budget("79kB"),
        pytest.raises(BadInputError, match=r"needs 80\.00 kB .* the budget is 79\.00 kB"),
    ):
        read_table(file)
    with memory_budget(1):
        assert read_table(file, memory=80_000).X.shape == (1000, 9)
    monkeypatch.setattr(_memory, "_left_in_control_group", lambda: 150_000)
    with pytest.raises(BadInputError, match=r"the budget is 75\.00 kB"):
        read_table(file)


def test_a_container_limits_the_budget(tmp_path, monkeypatch):
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next(line.removeprefix("0::/") for line in lines if line.startswith("0::/"))
    folder = tmp_path / own if own else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(_memory, "_CONTROL_GROUPS", tmp_path)
    (folder / "memory.stat").write_text("anon 300\nfile 5000\n")
    (folder / "memory.max").write_text("max\n")
    assert _memory._left_in_control_group() is None
    (folder / "memory.max").write_text("1000\n")
    assert _memory._left_in_control_group() == 700 and _memory.current_budget().n_bytes == 350


@pytest.mark.parametrize("memory", ["", "many", "-1", 0, -5, "0GB", "4 XB", "1e9", "nan", True, 2.5, "٣GB"])
def test_budgets_that_are_not_a_number_of_bytes(tmp_path, memory):
    np.save(tmp_path / "t.npy", np.ones((2, 2)))
    with pytest.raises((BadInputError, BadInputTypeError), match="memory="):
        read_table(tmp_path / "t.npy", memory=memory)


def test_the_budget_travels_with_the_rows(tmp_path):
    np.save(tmp_path / "t.npy", np.ones((1000, 1000)))
    blocks = open_blocks(tmp_path / "t.npy", memory="4MB", block_rows=1000)
    with pytest.raises(BadInputError, match=r"a block of 1,000 rows of .* the budget is 4\.00 MB"):
        list(blocks)


# --- errors


@pytest.mark.parametrize("suffix", FORMATS)
def test_names_that_are_not_text(tmp_path, suffix):
    """Sound files with such names are read, damaged ones are refused in words that can be printed."""
    file = tmp_path / os.fsdecode(b"\xff\xfe\x1b[31m" + suffix.encode())
    file.write_bytes(sound_files(suffix)[0])
    options = {"features": ["a"]} if suffix in (".parquet", ".feather") else {}
    assert read_table(file, **options).X.shape[0] == 12
    if suffix in (".npy", ".tsv", ".csv.gz"):  # read, and never written
        with pytest.raises(FileFormatError, match=r"\\udcff\\udcfe\\x1b\[31m") as caught:
            write_table(file, {"X": [1.0, 2.0], "Y": [3.0, 4.0]})
        assert str(caught.value).isprintable()
    else:
        write_table(file, {"X": [1.0, 2.0], "Y": [3.0, 4.0]})
        assert read_table(file).X.tolist() == [[1.0], [2.0]]
    file.write_bytes(b"\x00" * 20)
    with pytest.raises(FileFormatError, match=r"\\udcff\\udcfe\\x1b\[31m") as caught:
        read_table(file)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("path", ["x" * 5000 + ".csv", "a\0b.csv", "\ud800.csv", "no/such/folder.npy"])
def test_paths_that_no_file_can_have(path):
    with pytest.raises(PlantedError) as caught:
        read_table(path)
    assert str(caught.value).isprintable()


def test_tables_without_columns(tmp_path):
    np.save(tmp_path / "t.npy", np.empty((5, 0)))
    feather.write_feather(pa.table({}), str(tmp_path / "t.feather"))
    parquet.write_table(pa.table({}), tmp_path / "t.parquet")
    for file in tmp_path.iterdir():
        with pytest.raises(FileFormatError, match=rf"t\{file.suffix} has 0 columns"):
            read_table(file)


@pytest.mark.parametrize("path", [None, 3, b"bytes.csv", ["t.csv"]])
def test_paths_that_are_not_paths(path):
    with pytest.raises(BadInputTypeError, match="expected a text or a path"):
        read_table(path)


def test_errors_of_the_reader_itself_are_not_hidden(tmp_path, monkeypatch):
    np.save(tmp_path / "t.npy", np.ones((2, 2)))
    monkeypatch.setattr(np, "memmap", lambda *_: [][0])
    with pytest.raises(IndexError):
        read_table(tmp_path / "t.npy")


@pytest.mark.parametrize("seed", SEEDS)
def test_wide_rows_of_text_are_read_within_the_budget(tmp_path, seed):
    """Arrow takes kilobytes for each column; a wide table is parsed without it where the budget asks for that."""
    rng = np.random.default_rng((seed, 12))
    values = rng.integers(0, 9, (2, int(rng.integers(60_000, 99_000))))
    file = tmp_path / "wide.csv"
    file.write_text("\n".join(",".join(map(repr, row)) for row in values.tolist()) + "\n")
    ((_, end),) = read_apart([file])
    assert end["kinds"] == [] and end["grown"] < 2 * BUDGET, end
    table = read_table(file, targets=0, memory=BUDGET)
    np.testing.assert_array_equal(np.hstack([table.Y, table.X]), values)
