"""Writing a file whole or not at all.

The new contents go to a temporary file in the same directory, reach the disk, and take the old file's place
in one step. Whoever reads the path sees the old file or the new one, never a part; if anything fails, the old
file is untouched and the temporary one is removed.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from os import PathLike
from pathlib import Path

__all__ = ["atomic_write"]


def atomic_write(path: str | PathLike[str], write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file, then put it in the place of ``path``.

    `path`: the file to write; a symbolic link is followed. Its permissions are kept if it exists. `write`: called
    with the path of an empty file in the same directory and with the same suffix.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> atomic_write(folder / "note.txt", lambda partial: partial.write_text("whole"))
    >>> [file.name for file in folder.iterdir()], (folder / "note.txt").read_text()
    (['note.txt'], 'whole')
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory; expected a file name")
    partial = target.with_name(f".{target.stem}.{secrets.token_hex(8)}.part{target.suffix}")
    partial.touch(exist_ok=False)  # with the permissions of any new file of this user
    try:
        write(partial)
        if target.exists():
            shutil.copymode(target, partial)
        _flush_to_disk(partial)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    if os.name == "posix":
        _flush_to_disk(target.parent)  # so that the new name survives a power cut too


def _flush_to_disk(path: Path) -> None:
    # Windows flushes only through a writable handle; a directory opens for reading alone.
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
