"""Small files with changed bytes, for everything that planted reads, reproducible from a seed.

``make fuzz`` or ``python tests/pathology/mutations.py --seconds 60 --seed 3`` reads mutated files of every kind in turn and
ends with code 1 at the first one that gives neither a right answer nor a typed error within seconds and within the budget;
the file is kept, and ``--again READER SEED NUMBER`` makes it again. Tests read a few hundred of each kind.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import itertools
import json
import os
import shlex
import shutil
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import feather, parquet

from planted import DeepNetwork, RowBlocks, TwoLayerNetwork, checkpointed, export_network, import_network
from planted.identification import as_oracle
from planted.identification._session import QuerySession
from planted.io import (
    Recipe,
    learn_recipe,
    load_with_columns,
    memory_budget,
    open_blocks,
    read_table,
    write_sums,
)
from planted.io.state import _checkpoint
from planted.io.state._query_log import QueryLog
from planted.io.state._sums import read_sums_with_names
from planted.moments import RowMoments, summarise_rows
from planted.outcomes import FileFormatError, PlantedError, shown
from planted.rows import PART_BLOCKS, accumulate

if sys.platform != "win32":
    import resource
if __package__ in (None, ""):  # run as a program
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

__all__ = ["FORMATS", "READERS", "Failure", "mutate", "read_corpus", "read_mutants", "sound_files"]

FORMATS = (".npy", ".npz", ".csv", ".tsv", ".csv.gz", ".parquet", ".feather")
BUDGET = 200_000_000
LONGEST_READ = 10.0  # seconds of processor time for one file
SEEDS = Path(__file__).with_name("fuzz_seeds.json")  # of CI, and of every file that once failed
_INTERESTING = (
    0,
    1,
    2,
    127,
    128,
    255,
    2**15,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**62,
    2**63,
    2**64 - 1,
)
_TOKENS = (
    b"True", b"-1", b"99999999999", b"\n", b'"', b",", b"\0", b"\xff", b"PK\x05\x06", b"PAR1", b"ARROW1", b"nan",
    b"Expand", b"Range", b"Tile", b"1e999", b"[[", b"}", b"\x93NUMPY", b"power:9", b"\xe2\x80\xae", b"\x1b[2J",
)  # fmt: skip


@dataclass(frozen=True)
class Failure:
    """A mutated file that was not read as promised."""

    reader: str
    seed: int
    number: int
    reason: str


@dataclass(frozen=True)
class Reader:
    """A kind of file: sound ones, and a function that reads one and says what is wrong with the answer, if anything is."""

    name: str  # of the file
    sound: Callable[[], list[bytes]]
    judge: Callable[[Path, int], str | None]  # also gets the number of the try


def mutate(content: bytes, rng: np.random.Generator) -> bytes:
    """Change a few places: bytes, numbers of interesting size, tokens, pieces that are cut, copied or appended."""
    data = bytearray(content)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3, 8]))):
        at = int(rng.integers(len(data))) if data else 0
        # Headers and footers decide what is allocated: half of the changes go there.
        if rng.random() < 0.5:
            at = (
                min(int(rng.integers(200)), len(data))
                if rng.random() < 0.5
                else max(len(data) - int(rng.integers(1, 300)), 0)
            )
        match int(rng.integers(7)):
            case 0:
                data[at : at + 1] = bytes([int(rng.integers(256))])
            case 1 if data:
                data[min(at, len(data) - 1)] ^= 1 << int(rng.integers(8))
            case 2:
                width = int(rng.choice([1, 2, 4, 8]))
                number = int(_INTERESTING[rng.integers(len(_INTERESTING))]) % 2 ** (8 * width)
                data[at : at + width] = number.to_bytes(width, "little")
            case 3:
                token = _TOKENS[rng.integers(len(_TOKENS))]
                data[at : at + (len(token) if rng.random() < 0.5 else 0)] = token
            case 4:
                del data[at : at + int(rng.integers(1, 40))]
            case 5:
                source = int(rng.integers(len(data) + 1))
                data[at:at] = data[source : source + int(rng.integers(1, 60))]
            case _ if rng.random() < 0.3:
                del data[max(at, 1) :]
    return bytes(data)


def _mutate_member(content: bytes, rng: np.random.Generator) -> bytes:
    """Change one member of an archive and write it again, so that lengths and checksums of the archive fit."""
    start = content.index(b"PK\x03\x04")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    changed, buffer = int(rng.integers(len(members))), io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for place, (info, member) in enumerate(members):
            archive.writestr(info, mutate(member, rng) if place == changed else member)
    return content[:start] + buffer.getvalue()


def read_mutants(reader: str, seed: int, folder: Path, *, first: int = 0) -> Iterator[Failure | None]:
    """Read mutated files for ever; yield a failure for each that breaks the promise, else nothing."""
    for number in itertools.count(first):
        reason = _broken_promise(READERS[reader], _write_mutant(reader, seed, number, folder), number)
        yield None if reason is None else Failure(reader, seed, number, reason)


def _write_mutant(reader: str, seed: int, number: int, folder: Path) -> Path:
    sound, file = _sound(reader), folder / READERS[reader].name
    rng = np.random.default_rng((seed, list(READERS).index(reader), number))
    content = sound[number % len(sound)]
    is_archive = b"PK\x03\x04" in content[:200] and number // len(sound) % 2 == 1
    file.write_bytes(_mutate_member(content, rng) if is_archive else mutate(content, rng))
    return file


def _broken_promise(reader: Reader, file: Path, number: int) -> str | None:
    """Read a file; say what was wrong with the answer or the error, if anything was."""
    began, peak = time.process_time(), _peak()
    try:
        with memory_budget(BUDGET), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reason = reader.judge(file, number)
        if reason is not None:
            return reason
    except PlantedError as error:
        if file.name not in str(error) or len(str(error)) > 5000:
            return f"an error that does not name the file, or is endless: {error!r}"
    except Exception as error:
        return f"a foreign error: {error!r}"
    seconds, grown = time.process_time() - began, _peak() - peak
    if grown > 2 * BUDGET:
        return f"{grown:,} bytes of memory"
    return f"{seconds:.0f} seconds" if seconds > LONGEST_READ else None


def _peak() -> int:
    return 0 if sys.platform == "win32" else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


# --- tables


def sound_files(suffix: str) -> list[bytes]:
    """Return the contents of sound files of a format, one for each way of writing it."""
    values = np.random.default_rng(12).integers(-9, 9, (12, 3)) / 4.0
    table = pa.table(
        {
            "a": values[:, 0],
            "b": values[:, 1].astype("float32"),
            "c": pa.array([1, None] * 6),
            "y": values[:, 2],
        }
    )
    buffers = [io.BytesIO() for _ in range(4)]
    if suffix == ".npy":
        np.save(buffers[0], values)
        np.save(buffers[1], np.asfortranarray(values.astype(">i2")))
    elif suffix == ".npz":
        np.savez(buffers[0], X=values[:, :2], y=values[:, 2])
        np.savez_compressed(buffers[1], X=np.asfortranarray(values[:, :2]), Y=values[:, 2:])
    elif suffix == ".csv":
        lines = [",".join(map(repr, row)) for row in values.tolist()]
        buffers[0].write("\n".join(["a,b,y", *lines, ""]).encode())
        buffers[1].write(b'"a ""1""";"b";y\r\n"1";2;3\r\n4;"5";6e3\r\n')
    elif suffix == ".tsv":
        buffers[0].write(sound_files(".csv")[0].replace(b",", b"\t"))
    elif suffix == ".csv.gz":
        buffers[0].write(gzip.compress(sound_files(".csv")[0], mtime=0))
        buffers[1].write(b"".join(gzip.compress(part, mtime=0) for part in (b"a,b,y\n1,2,3\n", b"4,5,6\n")))
    elif suffix == ".parquet":
        for buffer, compression in zip(buffers, ("none", "snappy", "gzip", "zstd"), strict=True):
            parquet.write_table(
                table if compression in {"none", "zstd"} else table.drop_columns("c"),
                buffer,
                compression=compression,
                use_dictionary=compression in {"snappy", "zstd"},
                data_page_version="2.0" if compression == "zstd" else "1.0",
                write_page_checksum=compression == "gzip",
            )
    else:
        for buffer, compression in zip(buffers, ("uncompressed", "lz4", "zstd"), strict=False):
            feather.write_feather(table.drop_columns("c"), buffer, compression=compression, chunksize=5)
    return [buffer.getvalue() for buffer in buffers if buffer.getvalue()]


def _judge_table(file: Path, number: int) -> str | None:
    """Read a table, whole or in blocks."""
    if number % 5:
        table = read_table(file)
        pairs = [(table.X, table.Y)]
    else:
        pairs = list(open_blocks(file, block_rows=4))
    is_sound = pairs and all(
        len(X) == len(Y) > 0 and np.isfinite(X).all() and np.isfinite(Y).all() for X, Y in pairs
    )
    return None if is_sound else "a table with values that are not finite, or without rows"


def _sound_prepared() -> list[bytes]:
    """Return tables with texts, dates, truth values and gaps."""
    rng = np.random.default_rng(5)
    cells = [
        f"{rng.integers(9)},{'' if row % 5 == 0 else row / 4},{('north', 'south', 'east')[row % 3]},"
        f"2024-0{1 + row % 9}-11,{('True', 'False')[row % 2]},{rng.integers(-9, 9)}"
        for row in range(12)
    ]
    return ["\n".join(["n,gaps,region,day,sold,y", *cells, ""]).encode()]


def _judge_prepared(file: Path, number: int) -> str | None:
    """Learn how columns become inputs, and read the table by it; what was stored and read back is the same recipe."""
    recipe = learn_recipe(file, missing=("mean", "drop", "refuse")[number % 3])
    if Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) != recipe:
        return "another recipe than the one that was stored"
    table = read_table(file, recipe=recipe)
    is_sound = len(table.X) == len(table.Y) > 0 and table.X.shape[1] == len(recipe.inputs)
    is_sound = is_sound and bool(np.isfinite(table.X).all() and np.isfinite(table.Y).all())
    return None if is_sound else "a table with values that are not finite, or without rows"


# --- networks


@cache
def _nets() -> list[TwoLayerNetwork | DeepNetwork]:
    """Return a network with every homogeneous activation, one with a linear part, curved ones, one of three layers."""
    rng = np.random.default_rng(3)
    kinds = ("relu", "leaky-relu:0.1", "absolute", "quadratic", "power:3", "relu", "tanh", "gelu")
    nets: list[TwoLayerNetwork | DeepNetwork] = []
    for place, kind in enumerate(kinds):
        d, k, m = (int(side) for side in rng.integers(1, 5, 3))
        parts = [rng.standard_normal(shape) for shape in ((k, d), (k,), (m, k), (m,))]
        B = rng.standard_normal((m, d)) if place == 5 else None
        nets.append(TwoLayerNetwork(*parts, activation=kind, B=B))
    widths = rng.integers(1, 5, 4)
    layers = [(rng.standard_normal((k, d)), rng.standard_normal(k)) for d, k in itertools.pairwise(widths)]
    return [*nets, DeepNetwork(layers)]


def _numbers_of(net: Any) -> list[Any]:
    layers = net.layers if isinstance(net, DeepNetwork) else [[getattr(net, name) for name in net.parts]]
    return [part for layer in layers for part in layer]


def _written(write: Callable[[Any, Path], object], name: str) -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for net in _nets():
            with suppress(PlantedError):  # not every format has a place for every network
                write(net, Path(folder) / name)
                found.append((Path(folder) / name).read_bytes())
        return found


def _columns(net: TwoLayerNetwork | DeepNetwork) -> dict[str, list[str]]:
    return {
        "features": [f"in {j}" for j in range(net.n_features)],
        "targets": [f"out {j}" for j in range(net.n_outputs)],
    }


def _judge_network(file: Path, number: int) -> str | None:
    """Read a network; a format with a checksum gives the one that was written or an error."""
    net = load_with_columns(file).network if number % 2 or file.suffix == ".json" else import_network(file)
    if not isinstance(net, TwoLayerNetwork | DeepNetwork) or not all(
        np.isfinite(part).all() for part in _numbers_of(net)
    ):
        return "no network, or numbers that are not finite"
    original = _nets()[number % len(_nets())]
    pairs = itertools.zip_longest(_numbers_of(net), _numbers_of(original))
    is_same = net.activation == original.activation and all(np.array_equal(*pair) for pair in pairs)
    return (
        None
        if is_same or file.name != "planted.safetensors"
        else "another network than the one that was written"
    )


def _judge_state(file: Path, number: int) -> str | None:
    net = import_network(file)
    return (
        None if all(np.isfinite(part).all() for part in _numbers_of(net)) else "numbers that are not finite"
    )


def _judge_onnx(file: Path, number: int) -> str | None:
    """Read a network from a graph: where onnxruntime runs it, the answers are the same."""
    net = import_network(file)
    try:
        oracle = as_oracle(str(file))
    except FileFormatError:
        return None  # not for onnxruntime, which lacks operators for doubles
    rows = np.random.default_rng(number).standard_normal((5, net.n_features))
    with np.errstate(all="ignore"):
        expected, answers = net(rows), np.asarray(oracle.call(rows))
    scale = float(np.abs(expected).max(initial=0.0))
    if not np.isfinite(scale) or (oracle.is_single and scale > 1e25):
        return None  # beyond single precision intermediate sums decide
    tol = 1e-3 if oracle.is_single else 1e-9
    is_same = np.allclose(answers, expected, rtol=tol, atol=tol * max(1.0, scale), equal_nan=True)
    return None if is_same else f"read as {expected.tolist()}, run as {answers.tolist()}"


def _judge_run(file: Path, number: int) -> str | None:
    """Run whatever a model is."""
    oracle = as_oracle(str(file))
    width = oracle.n_features or 3
    if width > 10_000:
        return None
    try:
        QuerySession(oracle, width).ask(np.ones((1 + number % 7, width)))
    except (
        PlantedError
    ) as error:  # of a model that answers otherwise than row by row; it has no file any more
        return None if str(error) else "an error without words"
    return None


def _foreign_models() -> list[bytes]:
    """Return graphs with the operators that decide sizes while they run, and those of other libraries."""
    from onnx import TensorProto, helper, numpy_helper

    def model(nodes: list[Any], **constants: Any) -> bytes:
        tensors = [numpy_helper.from_array(np.asarray(values), name) for name, values in constants.items()]
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", None]) for name in "xy"]
        ends[0].type.tensor_type.shape.dim[1].dim_value = 3
        graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], initializer=tensors)
        opsets = [helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 3)]
        return helper.make_model(graph, ir_version=8, opset_imports=opsets).SerializeToString()

    def node(kind: str, inputs: str, output: str, **options: Any) -> Any:
        return helper.make_node(kind, inputs.split(), [output], **options)

    two, many = np.array([1, 1]), np.array([2, 1, 3])
    linear = {"coefficients": [1.0, 2.0, 3.0], "intercepts": [0.0], "targets": 1, "domain": "ai.onnx.ml"}
    scaler = {"offset": [0.0] * 3, "scale": [1.0] * 3, "domain": "ai.onnx.ml"}
    return [
        model([node("Tile", "x t", "y")], t=two),
        model([node("Expand", "x t", "z"), node("ReduceMean", "z", "y", axes=[0], keepdims=0)], t=many),
        model([node("Reshape", "x t", "z"), node("Softmax", "z", "y")], t=np.array([-1, 3])),
        model([node("ConstantOfShape", "t", "z"), node("Add", "x z", "y")], t=two),
        model([node("Pad", "x t", "y")], t=np.array([0, 0, 0, 1])),
        model([node("Range", "a b c", "r"), node("Cast", "r", "z", to=1), node("Mul", "x z", "y")], a=0, b=3, c=1),
        model([node("Scaler", "x", "z", **scaler), node("LinearRegressor", "z", "y", **linear)]),
        model([node("Unsqueeze", "x o", "z"), node("Resize", "z  s", "u"), node("Squeeze", "u o", "y")],
              o=np.array([0]), s=np.ones(3, dtype=np.float32)),
        model([node("TopK", "x k", "y")], k=np.array([2])),
    ]  # fmt: skip


# --- what outlives a run


def _blocks() -> RowBlocks:
    rows = np.random.default_rng(8).standard_normal((3 * PART_BLOCKS, 3))
    return RowBlocks.from_arrays(rows[:, :2], rows[:, 2:], block_rows=1)


def _sound_sums() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for kept in (10, 100):
            names = {"features": ["a", "b"], "targets": ["y"]} if kept == 10 else {}
            write_sums(Path(folder) / "part.sums", summarise_rows(_blocks(), kept), **names)
            found.append((Path(folder) / "part.sums").read_bytes())
        return found


def _judge_sums(file: Path, number: int) -> str | None:
    found = read_sums_with_names([file])[0]
    return None if found.count > 0 and np.isfinite(found.scatter).all() else "sums of nothing"


@dataclass(frozen=True)
class _Pass:
    """Sums rows until a row, then is interrupted."""

    until: int | None

    def __call__(self, first_row: int, X: Any, Y: Any) -> RowMoments:
        if first_row == self.until:
            raise KeyboardInterrupt
        return RowMoments.of(np.hstack([X, Y]))

    def __repr__(self) -> str:
        return "a pass"


def _sum_twice(blocks: RowBlocks, until: int | None = None) -> list[bytes]:
    return [accumulate(blocks, summand).scatter.tobytes() for summand in (_Pass(None), _Pass(until))]


@cache
def _whole_checkpoint() -> dict[str, bytes]:
    """Return the files of a run of two passes that was interrupted in its second."""
    with tempfile.TemporaryDirectory() as folder:
        kept = checkpointed(_blocks(), folder)
        with suppress(KeyboardInterrupt):
            _sum_twice(kept, 2 * PART_BLOCKS)
        del kept
        files = sorted(path for path in Path(folder).iterdir() if path.name != "planted-lock.json")
        return {path.name: path.read_bytes() for path in files}


def _judge_checkpoint(file: Path, number: int) -> str | None:
    """Resume with one file of the checkpoint changed; every second one has a hash that fits its contents."""
    folder, mutant = file.parent / "run.checkpoint", file.read_bytes()
    whole = _whole_checkpoint()
    changed = list(whole)[number % len(whole)]
    is_forged = changed.endswith(".npz") and number // len(whole) % 2 == 1
    if is_forged:
        body = mutant[_checkpoint._LINE_BYTES :]
        mutant = b"planted checkpoint 3 sha256 %s\n" % hashlib.sha256(body).hexdigest().encode() + body
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in whole.items():
        (folder / name).write_bytes(mutant if name == changed else content)
    kept = None
    try:
        kept = checkpointed(_blocks(), folder, resume=True)
        found = _sum_twice(kept)
    except PlantedError as error:
        return None if folder.name in str(error) else f"an error that does not name the folder: {error}"
    finally:
        del kept
    return None if is_forged or found == _sum_twice(_blocks()) else "other bits than those of the whole run"


_ASKED = np.random.default_rng(6).standard_normal((30, 2))


def _sound_logs() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        log = QueryLog(Path(folder) / "log", 2)
        for rows in np.split(_ASKED, [4, 5, 20]):
            log.append(rows, rows.sum(axis=1, keepdims=True))
        return [(Path(folder) / "log").read_bytes()]


def _judge_log(file: Path, number: int) -> str | None:
    log = QueryLog(file, 2)
    answers = [(log.find(row), row.sum()) for row in _ASKED]
    return None if all(found is None or found == [right] for found, right in answers) else "a wrong answer"


# --- the command line

_CALLS = (
    "recover DATA --targets y --hidden 1 --budget 0.3 --seed 1",
    "recover DATA --targets y --hidden 1 --budget 0.3 --seed 1 --stream --out new.safetensors",
    "diagnose DATA --targets y --seed 1 --json",
    "memorize DATA --targets y --rows 8 --budget 0.3 --seed 1",
    "predict NET DATA --features a b",
    "predict NET DATA --features a b --out new.csv --force",
    "export NET --to json --out new.json --force",
    "export NET --to onnx --precision float32 --out new.onnx --force",
    "simplify NET --out new.safetensors",
    "compare NET NET --tol 1e-9",
    "sums DATA --targets y --out new.sums --rows 5",
    "simulate new.csv --samples 9 --features 2 --hidden 2 --outputs 1 --force",
    "recover --sums SUMS --budget 0.3 --seed 1",
)
_OPTIONS = [
    "--out",
    "--report",
    "--targets",
    "--features",
    "--hidden",
    "--seed",
    "--json",
    "--force",
    "--memory",
    "--stream",
    "--resume",
    "--wait",
    "--to",
    "--tol",
    "--method",
    "--activation",
    "--checkpoint",
    "--weights",
    "--precision",
    "--rows",
    "--samples",
    "--noise",
    "--law",
    "--truth",
    "--no-such",
    "-o",
    "-h",
    "--",
]
_WORDS = (
    "", "-", "=", "0", "-1", "nan", "inf", "1e400", "9" * 25, "auto", "power:9", "leaky-relu:nan", "../..", ".", "/dev/null",
    "/dev/full", "a", "y", "a,b,y", "x" * 5000, "é", "\x1b[2J", "a\0b", "\udcff", "\u202e", "4GB", "NET", "DATA",
    "SUMS", "new.html", "no/such/folder/x.html", "[red]", "%s", "{0}", "'; ls", "*",
)  # fmt: skip


@cache
def _command() -> Any:
    """Return the command line, made once: it takes longer than most commands."""
    from typer.main import get_command

    from planted.cli import app

    return get_command(app)


def _run_command(words: list[str]) -> tuple[int, str]:
    """Run a command in this process; return its exit code and what it printed."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    code: Any = 0
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        try:
            _command().main(words, prog_name="planted")
        except SystemExit as ended:
            code = ended.code or 0
    return code, b"".join(stream.buffer.getvalue() for stream in streams).decode()


def _judge_command(file: Path, number: int) -> str | None:
    """Run a command with changed words: code 0, 1, 2 or 4, no character that a terminal obeys, and inputs as they were."""
    rng = np.random.default_rng((77, number))
    place = file.parent / "command"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    inputs = {"NET": place / "net.safetensors", "DATA": place / "rows.csv", "SUMS": place / "part.sums"}
    rows = np.random.default_rng(1).integers(-9, 9, (12, 2)) / 4.0
    lines = [f"{a},{b},{max(a - b, 0.0)}" for a, b in rows.tolist()]
    inputs["DATA"].write_text("\n".join(["a,b,y", *lines, ""]), encoding="utf-8")
    TwoLayerNetwork([[1.0, -1.0]], A=[[1.0]]).save(inputs["NET"], features=["a", "b"])
    inputs["SUMS"].write_bytes(_sound("sums")[0])
    before = {path: path.read_bytes() for path in inputs.values()}
    words = _CALLS[number % len(_CALLS)].split()
    for _ in range(int(rng.choice([1, 1, 2, 3]))):
        at = int(rng.integers(1, len(words) + 1))
        new = str(rng.choice(_WORDS if rng.random() < 0.6 else _OPTIONS))
        words[at : at + int(rng.integers(0, 2))] = [new] * int(rng.integers(0, 3))
    words = [str(inputs.get(word, word)) for word in words]
    home = Path.cwd()
    try:
        os.chdir(place)
        code, output = _run_command(words)
    finally:
        os.chdir(home)
    said = f"planted {shlex.join(words)!a}: code {code}, {output[-300:]!a}"
    if code not in (0, 1, 2, 4):
        return said
    if any(shown(char, keep="\n") != char for char in output if char not in "\r\t"):
        return f"a character that a terminal obeys: {said}"
    if any(path.read_bytes() != content for path, content in before.items() if path.exists() or content):
        return f"an input was changed: {said}"
    return None


READERS: dict[str, Reader] = {
    **{
        suffix: Reader(f"mutant{suffix}", lambda suffix=suffix: sound_files(suffix), _judge_table)
        for suffix in FORMATS
    },
    "prepared": Reader("mutant.csv", _sound_prepared, _judge_prepared),
    "planted": Reader(
        "planted.safetensors",
        lambda: _written(lambda net, path: net.save(path, **_columns(net)), "net.safetensors"),
        _judge_network,
    ),
    "json": Reader(
        "net.json",
        lambda: _written(lambda net, path: export_network(net, path, **_columns(net)), "net.json"),
        _judge_network,
    ),
    "torch": Reader("net.safetensors", lambda: _written(export_network, "net.safetensors"), _judge_state),
    "onnx": Reader("net.onnx", lambda: _written(export_network, "net.onnx"), _judge_onnx),
    "onnx run": Reader("foreign.onnx", _foreign_models, _judge_run),
    "sums": Reader("part.sums", _sound_sums, _judge_sums),
    "checkpoint": Reader("changed", lambda: list(_whole_checkpoint().values()), _judge_checkpoint),
    "query log": Reader("answers.log", _sound_logs, _judge_log),
    "arguments": Reader("unused", lambda: [b"unused"], _judge_command),
}


def read_corpus(folder: Path, *, seed: int = 0, mutants: int = 10) -> Iterator[Failure | None]:
    """Read the hostile files of `corpus.py` as they are, and with changes; yield a failure for each broken promise."""
    from pathology.corpus import corpus

    for reader, contents in corpus().items():
        file = folder / READERS[reader].name
        for place, content in enumerate(contents):
            for number in range(mutants + 1):
                rng = np.random.default_rng((seed, list(READERS).index(reader), place, number))
                file.write_bytes(mutate(content, rng) if number else content)
                reason = _broken_promise(READERS[reader], file, number)
                yield (
                    None
                    if reason is None
                    else Failure(reader, seed, -1 - place, f"corpus, change {number}: {reason}")
                )


@cache
def _sound(reader: str) -> list[bytes]:
    return READERS[reader].sound()


def main() -> int:
    """Read mutated files of all kinds in turn until the time or the number is over."""
    stored = json.loads(SEEDS.read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long; after the stored cases")
    parser.add_argument("--tries", type=int, help="files of each kind; ends earlier than the time")
    parser.add_argument("--seed", type=int, default=stored["seed"])
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--only", nargs="*", choices=list(READERS), default=list(READERS))
    parser.add_argument(
        "--again", nargs=3, metavar=("READER", "SEED", "NUMBER"), help="one file, to be looked at"
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    for failure in [] if options.again else filter(None, read_corpus(folder, seed=options.seed)):
        print(f"{failure}\nThe file is kept in {folder}.")
        return 1
    cases = [options.again] if options.again else stored["once_failed"]
    for reader, seed, number in cases:
        failure = next(read_mutants(reader, int(seed), folder, first=int(number)))
        if failure is not None or options.again:
            print(f"{failure or 'as promised'}\nThe file is kept in {folder}.")
            return int(failure is not None)
    streams = [read_mutants(reader, options.seed, folder, first=options.first) for reader in options.only]
    tries, end = 0, time.monotonic() + options.seconds
    while time.monotonic() < end and (options.tries is None or tries < options.tries):
        tries += 1
        for failure in map(next, streams):
            if failure is not None:
                print(f"{failure}\nThe file is kept in {folder}.")
                return 1
    shutil.rmtree(folder)
    kinds = ", ".join(options.only)
    print(
        f"{tries:,} mutated files each of {kinds}; seed {options.seed}, from number {options.first}: as promised."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
