"""Arrays in a NumPy archive, read without trusting it.

planted writes `.npz` archives without compression. So a member is as large as it stands in the file, and everything that
an archive claims can be compared with the size of the file before memory is taken: compressed members, sizes that do not
add up, arrays of objects and every kind of damage are refused with a `FileFormatError`.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Mapping
from typing import IO, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from planted._typing import Json
from planted.io._memory import Budget
from planted.outcomes import FileFormatError

__all__ = ["DAMAGES", "read_archive", "read_head", "write_archive"]

# What zipfile, struct and the parsers raise for bytes that are not as they should be.
DAMAGES = (
    OSError, ValueError, KeyError, TypeError, IndexError, EOFError, OverflowError, SyntaxError, RuntimeError,
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error,
)  # fmt: skip
_KINDS = re.compile(r"[<>|=]?[biufU]\d{1,9}")
_MAGIC, _LENGTH_FORMATS = b"\x93NUMPY", {1: "<H", 2: "<I"}
_LONGEST_HEADER, _MOST_MEMBERS = 10_000, 4096


def write_archive(file: BinaryIO, head: Json, arrays: Mapping[str, Any]) -> None:
    """Write arrays and what is said of them."""
    np.savez(file, allow_pickle=False, head=np.array(json.dumps(head)), **arrays)


def read_archive(file: BinaryIO, *, budget: Budget) -> tuple[Json, dict[str, npt.NDArray[Any]]]:
    """Return the head and the arrays; raise one of `DAMAGES` if the archive is not as it should be."""
    with zipfile.ZipFile(file) as archive:
        _check_sizes(archive, os.fstat(file.fileno()).st_size, budget)
        arrays = {}
        for info in archive.infolist():
            with archive.open(info) as member:
                arrays[info.filename.removesuffix(".npy")] = _read_array(member, info.file_size)
    return _head_of(arrays.pop("head")), arrays


def read_head(file: BinaryIO, *, budget: Budget) -> Json:
    """Return the head alone."""
    with zipfile.ZipFile(file) as archive:
        _check_sizes(archive, os.fstat(file.fileno()).st_size, budget)
        info = archive.getinfo("head.npy")
        with archive.open(info) as member:
            return _head_of(_read_array(member, info.file_size))


def _check_sizes(archive: zipfile.ZipFile, file_size: int, budget: Budget) -> None:
    members = archive.infolist()
    claimed = sum(info.file_size for info in members)
    budget.require(claimed, "what it says it holds", instead="Raise the budget if the file is trusted.")
    if any(info.compress_type != zipfile.ZIP_STORED for info in members):
        raise FileFormatError(
            f"it is compressed, to {claimed:,} bytes by its own word; planted writes no such file"
        )
    if claimed > file_size:
        raise FileFormatError(f"it claims {claimed:,} bytes of numbers and has {file_size:,} in all")
    names = {info.filename for info in members}
    if len(names) != len(members) or len(members) > _MOST_MEMBERS:
        raise FileFormatError(f"it has {len(members)} members of {len(names)} names")


def _read_array(member: IO[bytes], size: int) -> npt.NDArray[Any]:
    """Read a member whose size, shape and kind agree with one another."""
    start = member.read(8)
    if start[:6] != _MAGIC or start[6] not in _LENGTH_FORMATS:
        raise FileFormatError("a member is not an array")
    form = _LENGTH_FORMATS[start[6]]
    (length,) = struct.unpack(form, member.read(struct.calcsize(form)))
    if length > _LONGEST_HEADER:
        raise FileFormatError(f"the head of an array has {length:,} bytes")
    header = ast.literal_eval(member.read(length).decode("latin-1").strip())
    kind, shape, is_fortran = header["descr"], header["shape"], header["fortran_order"]
    if not isinstance(kind, str) or not _KINDS.fullmatch(kind):
        raise FileFormatError(f"an array is of the kind {kind!r:.60}; expected numbers")
    if not isinstance(shape, tuple) or not all(type(count) is int and count >= 0 for count in shape):
        raise FileFormatError(f"an array has the shape {shape!r:.60}")
    dtype = np.dtype(kind)
    left = size - 8 - struct.calcsize(form) - length
    if math.prod(shape) * dtype.itemsize != left:
        raise FileFormatError(f"an array of shape {shape} and kind {kind} has {left:,} bytes")
    data = bytearray(member.read(left))
    if len(data) != left or member.read(1):
        raise FileFormatError(f"an array has {len(data):,} bytes; expected {left:,}")
    array = np.frombuffer(data, dtype=dtype) if left else np.empty(0, dtype=dtype)
    native = array.astype(dtype.newbyteorder("="), copy=False)
    if dtype.kind == "U" and native.view(np.uint32).max(initial=0) > sys.maxunicode:
        raise FileFormatError("a text holds numbers that stand for no character")
    return native.reshape(shape, order="F" if is_fortran else "C")


def _head_of(array: npt.NDArray[Any]) -> Json:
    head = json.loads(str(array[()])) if array.ndim == 0 else None
    if not isinstance(head, dict):
        raise FileFormatError("its head is not a record")
    return head
