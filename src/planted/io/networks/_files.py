"""Opening a file that should hold a network: it must be a regular file of a size that fits in memory.

A pipe or a device has no end that a reader could rely on, so it is refused before it is opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import BinaryIO

from planted.io._memory import current_budget
from planted.outcomes import FileFormatError

__all__ = ["open_regular", "read_regular"]


@contextmanager
def open_regular(path: str | PathLike[str]) -> Iterator[tuple[BinaryIO, int]]:
    """Open a regular file for reading and yield it with its size in bytes."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise FileFormatError(f"{os.fspath(path)}: not a regular file, so no network is read from it")
    with open(path, "rb") as stream:
        yield stream, os.fstat(stream.fileno()).st_size


def read_regular(path: str | PathLike[str], *, largest: int, growth: int) -> bytes:
    """Read a regular file of at most ``largest`` bytes whose contents may take ``growth`` times its size in memory.

    The memory budget is asked first; see `planted.io.memory_budget`.
    """
    with open_regular(path) as (stream, size):
        if size > largest:
            raise FileFormatError(f"{os.fspath(path)}: {size} bytes; files up to {largest} bytes are read")
        remedy = "Give a larger budget, or check where the file comes from."
        current_budget().require(growth * size, os.fspath(path), instead=remedy)
        return stream.read(size)
