"""Tables in NumPy's `.npy` and `.npz` files, read without trusting their headers.

The header of an array claims a shape and a kind. Before anything is allocated the claim is compared with the
bytes that are there; pickled objects are never loaded. Archives whose members expand beyond what
measured numbers do are refused as zip bombs.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np

from planted._conversion import require_memory
from planted._frames import refuse_kind
from planted._typing import Array
from planted.io.tables._source import Source, damaged
from planted.outcomes import BadInputError, FileFormatError, PlantedError

__all__ = ["open_npy", "open_npz"]

BOMB_BYTES = 256 * 2**20
BOMB_RATIO = 100.0
"""Refused: members above this size that also expand by more than this factor. Measured with deflate on 8 MB:
Gaussian numbers 1.04; integers 0 to 9: 10; random bits as float64: 27; one bit in a hundred set: 239;
zeros: 1027."""

MAX_COLUMNS = 1_000_000
"""More columns than any recovery could use; a forged shape must not make us build a name for each."""

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
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    RuntimeError,  # also a compression that zipfile does not know
    ValueError,
    OSError,
)


def open_npy(path: Path) -> Source:
    """Open a two-dimensional `.npy` array as a table; rows are memory-mapped."""
    with path.open("rb") as file:
        header = _read_header(file, path, str(path))
        offset = file.tell()
    _compare_bytes(path, str(path), claimed=header.n_bytes, present=path.stat().st_size - offset)
    if len(header.shape) != 2:
        raise BadInputError(
            f"{path} holds an array of shape {header.shape}, expected 2-d: one row per sample, "
            "inputs and targets side by side. Stack them with np.column_stack."
        )
    _refuse_extremes(header, str(path))

    def blocks_from(columns: Sequence[int], block_rows: int, row: int) -> Iterator[Array]:
        rows = np.memmap(path, header.dtype, "r", offset, header.shape, "F" if header.is_fortran else "C")
        for start in range(row, header.n_rows, block_rows):
            yield rows[start : start + block_rows, list(columns)].astype(np.float64)

    def blocks(columns: Sequence[int], block_rows: int) -> Iterator[Array]:
        return blocks_from(columns, block_rows, 0)

    names = tuple(str(j) for j in range(header.n_columns))
    return Source(path, names, header.n_rows, blocks, blocks_from=blocks_from)


def open_npz(path: Path) -> Source:
    """Open an `.npz` archive as a table: its one- and two-dimensional arrays side by side.

    Returns the table; column ``j`` of an array ``X`` is called ``X[j]``, a vector keeps its own name.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = _read_members(archive, path)
    except PlantedError:
        raise
    except _ZIP_ERRORS as error:
        raise damaged(path, error) from error
    if not members:
        raise damaged(path, "the archive holds no 1-d or 2-d array")
    columns = [(name, j) for name, header in members.items() for j in range(header.n_columns)]
    names = tuple(name if len(members[name].shape) == 1 else f"{name}[{j}]" for name, j in columns)
    groups = {name: tuple(i for i, (owner, _) in enumerate(columns) if owner == name) for name in members}

    def blocks(chosen: Sequence[int], block_rows: int) -> Iterator[Array]:
        picks = [columns[i] for i in chosen]
        used = list(dict.fromkeys(name for name, _ in picks))
        lengths = {name: members[name].n_rows for name in used}
        if len(set(lengths.values())) > 1:
            raise BadInputError(f"the arrays of {path} differ in their number of rows: {lengths}.")
        try:
            with zipfile.ZipFile(path) as archive:
                streams = {name: _stream_rows(archive, name, path, block_rows) for name in used}
                for parts in zip(*streams.values(), strict=True):
                    part_of = dict(zip(streams, parts, strict=True))
                    yield np.column_stack([part_of[name][:, j] for name, j in picks])
        except PlantedError:
            raise
        except _ZIP_ERRORS as error:
            raise damaged(path, error) from error

    same_length = len({header.n_rows for header in members.values()}) == 1
    n_rows = next(iter(members.values())).n_rows if same_length else None
    return Source(path, names, n_rows, blocks, groups)


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


def _read_header(file: IO[bytes], path: Path, label: str) -> _Header:
    """Parse the head of an array and refuse kinds that are not real numbers."""
    try:
        version = np.lib.format.read_magic(file)
        if version not in {(1, 0), (2, 0), (3, 0)}:
            raise ValueError(f"version {version} of the format is unknown")
        if version == (1, 0):
            shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            shape, is_fortran, dtype = np.lib.format.read_array_header_2_0(file)
    except _HEADER_ERRORS as error:
        raise damaged(path, error) from error
    if dtype.hasobject:
        raise FileFormatError(
            f"{label} holds Python objects, which are loaded by running code from the file. "
            "Save plain numbers instead: np.save(path, array.astype(float))."
        )
    refuse_kind(dtype, label)
    if any(length < 0 for length in shape):
        raise damaged(path, f"the header claims the shape {shape}")
    return _Header(shape, is_fortran, dtype)


def _refuse_extremes(header: _Header, label: str) -> None:
    """Refuse tables without rows, and shapes with more columns than can be meant."""
    if header.n_rows == 0 or header.n_columns > MAX_COLUMNS:
        raise BadInputError(
            f"{label} has the shape {header.shape}: {header.n_rows} sample(s) of {header.n_columns} values, "
            f"expected at least one sample and at most {MAX_COLUMNS:,} columns. "
            "Samples are rows: transpose the array if yours are columns."
        )


def _compare_bytes(path: Path, label: str, *, claimed: int, present: int) -> None:
    if claimed > present:
        raise damaged(path, f"the header of {label} claims {claimed:,} bytes of data, {present:,} are there")


def _read_members(archive: zipfile.ZipFile, path: Path) -> dict[str, _Header]:
    """Read the head of every array of an archive and compare it with the size of its member."""
    members: dict[str, _Header] = {}
    for info in archive.infolist():
        if not info.filename.endswith(".npy"):
            continue
        name = info.filename.removesuffix(".npy")
        _compare_bytes(path, f"array {name!r}", claimed=info.compress_size, present=path.stat().st_size)
        expansion = info.file_size / max(info.compress_size, 1)
        if info.file_size > BOMB_BYTES and expansion > BOMB_RATIO:
            raise FileFormatError(
                f"{path}: the array {name!r} would expand {expansion:,.0f}-fold to "
                f"{info.file_size / 1e9:,.2f} GB, more than numbers do (limit {BOMB_RATIO:.0f}-fold "
                f"above {BOMB_BYTES >> 20} MB). If you trust it, save the array uncompressed with np.savez."
            )
        with archive.open(info) as file:
            header = _read_header(file, path, f"array {name!r} of {path}")
            head_bytes = file.tell()
        _compare_bytes(path, f"array {name!r}", claimed=header.n_bytes, present=info.file_size - head_bytes)
        if len(header.shape) in (1, 2):
            _refuse_extremes(header, f"array {name!r} of {path}")
            members[name] = header
    return members


def _stream_rows(archive: zipfile.ZipFile, name: str, path: Path, block_rows: int) -> Iterator[Array]:
    """Decompress an array block by block; arrays in Fortran order have to be loaded whole."""
    with archive.open(f"{name}.npy") as file:
        header = _read_header(file, path, f"array {name!r} of {path}")
        width, whole = header.n_columns, header.is_fortran and header.n_columns > 1
        if whole:
            require_memory(
                (header.n_rows, width), f"{path}", remedy="Save the array in C order to stream it."
            )
        step = header.n_rows if whole else block_rows
        for start in range(0, header.n_rows, max(step, 1)):
            rows = min(step, header.n_rows - start)
            content = file.read(rows * width * header.dtype.itemsize)
            _compare_bytes(
                path, f"array {name!r}", claimed=rows * width * header.dtype.itemsize, present=len(content)
            )
            flat = np.frombuffer(content, header.dtype)
            block = flat.reshape((rows, width), order="F" if whole else "C").astype(np.float64)
            for first in range(0, rows, block_rows):
                yield block[first : first + block_rows]
        if file.read(1):  # reading to the end also makes zipfile verify the checksum
            raise damaged(path, f"array {name!r} is followed by bytes that do not belong to it")
