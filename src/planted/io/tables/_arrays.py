"""Tables in NumPy's `.npy` and `.npz` files, read without trusting their headers.

The header of an array claims a shape and a kind. Before anything is allocated the claim is compared with the
bytes that are there and with the memory budget; pickled objects are never loaded. Archives whose members expand
beyond what measured numbers do are refused as zip bombs.
"""

from __future__ import annotations

import math
import os
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO, FileIO
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np

from planted._conversion import refuse_kind
from planted._typing import Array
from planted.io._memory import WORKING_BYTES, Budget, show_bytes
from planted.io.tables._source import PLAIN, Reading, Source, damaged, refuse_width
from planted.outcomes import BadInputError, FileFormatError, shown

__all__ = ["open_npy", "open_npz"]

BOMB_BYTES = 256 * 2**20
BOMB_RATIO = 100.0
"""Refused: members above this size that also expand by more than this factor. Measured with deflate on 8 MB:
Gaussian numbers 1.04; integers 0 to 9: 10; random bits as float64: 27; one bit in a hundred set: 239;
zeros: 1027."""

MAX_HEADER_BYTES = 10_000  # NumPy's own limit, which it applies after reading as much as the file claims
MAX_DIRECTORY_BYTES = 4 * 2**20
"""Longest directory of an archive: about 60 000 arrays. Each entry takes ten times its bytes in memory."""

_HEADER_ERRORS = (
    ValueError,
    TypeError,
    EOFError,
    OverflowError,
    SyntaxError,
    MemoryError,
    RecursionError,
    TokenError,
)


def open_npy(path: Path, budget: Budget, reading: Reading = PLAIN) -> Source:
    """Open a two-dimensional `.npy` array as a table; rows are memory-mapped."""
    label = shown(path)
    with path.open("rb") as file:
        header = _read_header(file, path, label)
        offset = file.tell()
    _compare_bytes(path, label, claimed=header.n_bytes, present=path.stat().st_size - offset)
    if len(header.shape) != 2:
        raise BadInputError(
            f"{label} holds an array of shape {header.shape}, expected 2-d: one row per sample, "
            "inputs and targets side by side. Stack them with np.column_stack."
        )
    _refuse_extremes(header, label)

    def blocks_from(columns: Sequence[int], block_rows: int, row: int) -> Iterator[Array]:
        rows = np.memmap(path, header.dtype, "r", offset, header.shape, "F" if header.is_fortran else "C")
        step = budget.rows(8 * len(columns), block_rows)
        for start in range(row, header.n_rows, step):
            yield rows[start : start + step, list(columns)].astype(np.float64)

    def blocks(columns: Sequence[int], block_rows: int) -> Iterator[Array]:
        return blocks_from(columns, block_rows, 0)

    names = tuple(str(j) for j in range(header.n_columns))
    return Source(path, names, header.n_rows, blocks, blocks_from=blocks_from)


def open_npz(path: Path, budget: Budget, reading: Reading = PLAIN) -> Source:
    """Open an `.npz` archive as a table: its one- and two-dimensional arrays side by side.

    Returns the table; column ``j`` of an array ``X`` is called ``X[j]``, a vector keeps its own name.
    """
    with _open_archive(path) as archive:
        members = _read_members(archive, path)
    if not members:
        raise damaged(path, "the archive holds no 1-d or 2-d array")
    columns = [(name, j) for name, header in members.items() for j in range(header.n_columns)]
    names = tuple(name if len(members[name].shape) == 1 else f"{name}[{j}]" for name, j in columns)
    ends = np.cumsum([header.n_columns for header in members.values()]).tolist()
    groups = {
        name: range(end - members[name].n_columns, end) for name, end in zip(members, ends, strict=True)
    }

    def blocks(chosen: Sequence[int], block_rows: int) -> Iterator[Array]:
        picks = [columns[i] for i in chosen]
        used = list(dict.fromkeys(name for name, _ in picks))
        lengths = {name: members[name].n_rows for name in used}
        if len(set(lengths.values())) > 1:
            raise BadInputError(f"the arrays of {shown(path)} differ in their number of rows: {lengths}.")
        row_bytes = sum(members[name].n_columns * max(members[name].dtype.itemsize, 8) for name in used)
        step = budget.rows(row_bytes, block_rows)
        _require_whole(members, used, path, budget)
        with _open_archive(path) as archive:
            streams = {name: _stream_rows(archive, name, path, step) for name in used}
            for parts in zip(*streams.values(), strict=True):
                part_of = dict(zip(streams, parts, strict=True))
                yield np.column_stack([part_of[name][:, j] for name, j in picks])

    same_length = len({header.n_rows for header in members.values()}) == 1
    n_rows = next(iter(members.values())).n_rows if same_length else None
    return Source(path, names, n_rows, blocks, groups)


class _LimitedFile(FileIO):
    """A file for `zipfile`, which would read as many bytes at once as a directory claims to have."""

    limit = MAX_DIRECTORY_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        """Read, unless more bytes are asked for at once than the limit."""
        there = max(os.fstat(self.fileno()).st_size - self.tell(), 0)
        wanted = there if size is None or size < 0 else min(size, there)
        if wanted > self.limit:
            raise zipfile.BadZipFile(f"its directory has {wanted:,} bytes, expected at most {self.limit:,}")
        return super().read(wanted) or b""


@contextmanager
def _open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive whose directory is not too long."""
    with _LimitedFile(path) as file, zipfile.ZipFile(file) as archive:
        file.limit = 2 * WORKING_BYTES
        yield archive


@dataclass(frozen=True, slots=True)
class _Header:
    """What the head of an array claims."""

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]

    @property
    def n_rows(self) -> int:
        return self.shape[0]

    @property
    def n_columns(self) -> int:
        return self.shape[1] if len(self.shape) == 2 else 1

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def is_whole(self) -> bool:
        """Whether rows lie scattered, so that the array has to be loaded whole from an archive."""
        return self.is_fortran and self.n_columns > 1


def _read_header(file: IO[bytes], path: Path, label: str) -> _Header:
    """Parse the head of an array and refuse kinds that are not real numbers."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote
            shape, is_fortran, dtype = _parse_header(file)
    except _HEADER_ERRORS as error:
        raise damaged(path, error) from error
    if dtype.hasobject:
        raise FileFormatError(
            f"{label} holds Python objects, which are loaded by running code from the file. "
            "Save plain numbers instead: np.save(path, array.astype(float))."
        )
    refuse_kind(dtype, label)
    if any(type(length) is not int or length < 0 for length in shape):
        raise damaged(path, f"the header of {label} claims the shape {shape}, expected lengths of 0 or more")
    return _Header(shape, is_fortran, dtype)


def _parse_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Let NumPy parse the header after its length was found sound."""
    version = np.lib.format.read_magic(file)
    if version not in {(1, 0), (2, 0), (3, 0)}:
        raise ValueError(f"version {version} of the format is unknown")
    width = 2 if version == (1, 0) else 4
    prefix = file.read(width)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < width or length > MAX_HEADER_BYTES:
        raise ValueError(f"its header claims {length:,} bytes, expected at most {MAX_HEADER_BYTES:,}")
    head = BytesIO(prefix + file.read(length))
    parse = np.lib.format.read_array_header_1_0 if width == 2 else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = parse(head)
    return shape, is_fortran, dtype


def _refuse_extremes(header: _Header, label: str) -> None:
    """Refuse tables without rows, and shapes with more columns than can be meant."""
    if header.n_rows == 0:
        raise BadInputError(
            f"{label} has the shape {header.shape}: 0 sample(s), expected at least one. "
            "Samples are rows: transpose the array if yours are columns."
        )
    refuse_width(header.n_columns, label)


def _compare_bytes(path: Path, label: str, *, claimed: int, present: int) -> None:
    if claimed > present:
        raise damaged(path, f"the header of {label} claims {claimed:,} bytes of data, {present:,} are there")


def _read_members(archive: zipfile.ZipFile, path: Path) -> dict[str, _Header]:
    """Read the head of every array of an archive and compare it with the size of its member."""
    members: dict[str, _Header] = {}
    n_columns = 0
    for info in archive.infolist():
        if not info.filename.endswith(".npy"):
            continue
        name = info.filename.removesuffix(".npy")
        label = f"array {shown(name)!r} of {shown(path)}"
        _refuse_member(info, path, label)
        with archive.open(info) as file:
            header = _read_header(file, path, label)
            head_bytes = file.tell()
        _compare_bytes(path, label, claimed=header.n_bytes, present=info.file_size - head_bytes)
        if len(header.shape) in (1, 2):
            _refuse_extremes(header, label)
            n_columns += header.n_columns
            refuse_width(n_columns, f"{shown(path)}, its arrays side by side,")
            members[name] = header
    return members


def _refuse_member(info: zipfile.ZipInfo, path: Path, label: str) -> None:
    """Refuse a member that is longer than the file, or expands without bound or beyond what numbers do."""
    if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        raise FileFormatError(
            f"{label} is compressed by method {info.compress_type}, which expands without a bound. "
            "Write it with np.savez or np.savez_compressed."
        )
    _compare_bytes(path, label, claimed=info.compress_size, present=path.stat().st_size)
    expansion = info.file_size / max(info.compress_size, 1)
    if info.file_size > BOMB_BYTES and expansion > BOMB_RATIO:
        raise FileFormatError(
            f"{label} would expand {expansion:,.0f}-fold to {show_bytes(info.file_size)}, more than numbers do "
            f"(limit {BOMB_RATIO:.0f}-fold above {BOMB_BYTES >> 20} MB). If you trust it, save the array "
            "uncompressed with np.savez."
        )


def _require_whole(members: dict[str, _Header], used: list[str], path: Path, budget: Budget) -> None:
    """Refuse arrays in Fortran order, which have to be loaded whole, if together they do not fit."""
    whole = [members[name] for name in used if members[name].is_whole]
    budget.require(
        sum(header.n_bytes + 8 * math.prod(header.shape) for header in whole),
        f"{shown(path)} holds arrays in Fortran order, which are loaded whole: reading it",
        instead="Save the arrays in C order to stream them.",
    )


def _stream_rows(archive: zipfile.ZipFile, name: str, path: Path, block_rows: int) -> Iterator[Array]:
    """Decompress an array block by block; arrays in Fortran order have to be loaded whole."""
    label = f"array {shown(name)!r}"
    with archive.open(f"{name}.npy") as file:
        header = _read_header(file, path, f"{label} of {shown(path)}")
        width, itemsize = header.n_columns, header.dtype.itemsize
        step = header.n_rows if header.is_whole else block_rows
        for start in range(0, header.n_rows, max(step, 1)):
            rows = min(step, header.n_rows - start)
            content = _read_pieces(file, rows * width * itemsize)
            _compare_bytes(path, label, claimed=rows * width * itemsize, present=len(content))
            flat = np.frombuffer(content, header.dtype)
            block = flat.reshape((rows, width), order="F" if header.is_whole else "C").astype(np.float64)
            for first in range(0, rows, block_rows):
                yield block[first : first + block_rows]
        if file.read(1):  # reading to the end also makes zipfile verify the checksum
            raise damaged(path, f"{label} is followed by bytes that do not belong to it")


def _read_pieces(file: IO[bytes], n_bytes: int) -> bytearray:
    """Read so many bytes, or what there is: memory grows with what is really there, not with what is claimed."""
    content = bytearray()
    while len(content) < n_bytes:
        piece = file.read(min(n_bytes - len(content), WORKING_BYTES))
        if not piece:
            break
        content += piece
    return content
