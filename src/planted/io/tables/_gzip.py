"""Compressed text, expanded piece by piece.

Nothing is expanded beyond what the reader asks for, so the memory budget of the reader holds for what is inside. A file
that expands beyond what tables do is refused, as archives of NumPy are: otherwise a megabyte of zeros would be read for
hours.
"""

from __future__ import annotations

import gzip
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, cast

from planted.io._memory import show_bytes
from planted.io.tables._arrays import BOMB_BYTES, BOMB_RATIO
from planted.outcomes import FileFormatError, shown

__all__ = ["open_expanded"]

PIECE_BYTES = 1 << 20


def open_expanded(path: Path) -> BinaryIO:
    """Open a compressed file for reading what is inside."""
    return cast(BinaryIO, BufferedReader(_Expanded(path), PIECE_BYTES))


class _Expanded(RawIOBase):
    """The bytes inside a compressed file; one that expands too far is refused while it is read."""

    def __init__(self, path: Path) -> None:
        self._path, self._size, self._n_read = path, path.stat().st_size, 0
        self._file = gzip.open(path, "rb")  # noqa: SIM115  # closed with this stream

    def readable(self) -> bool:
        """Return that this stream can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer as many bytes as it holds, or what there is."""
        n_bytes = self._file.readinto(buffer)
        self._n_read += n_bytes
        if self._n_read > BOMB_BYTES and self._n_read > BOMB_RATIO * self._size:
            raise FileFormatError(
                f"{shown(self._path)} expands more than {BOMB_RATIO:.0f}-fold, to {show_bytes(self._n_read)} so far, "
                "which tables of measured numbers do not. If you trust it, expand it with gunzip and read the result."
            )
        return n_bytes

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()
