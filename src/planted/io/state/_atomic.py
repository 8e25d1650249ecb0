"""Writing a file whole or not at all.

The new contents go to a temporary file in the same directory, reach the disk, and take the old file's place
in one step. Whoever reads the path sees the old file or the new one, never a part; if anything fails, the old
file is untouched and the temporary one is removed. A process that is killed cannot remove its own: the name of a
temporary file says which process it belongs to, and the next write of the same file deletes those of dead ones.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import socket
from collections.abc import Callable
from functools import cache
from os import PathLike
from pathlib import Path

from planted.outcomes import BadInputError, shown

__all__ = ["atomic_write", "remove_strays"]

LONGEST_STEM = 150  # bytes; names of files have at most 255
_PART = re.compile(r"\.(?P<stem>.+)\.(?P<place>[0-9a-f]{8})-(?P<pid>\d+)-[0-9a-f]{8}\.part(?P<suffix>\.\w+)?")


def atomic_write(path: str | PathLike[str], write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file, then put it in the place of ``path``.

    `path`: the file to write; a symbolic link is followed. Its permissions are kept if it exists, and what is read-only,
    a folder, a pipe or a device is refused. `write`: called
    with the path of an empty file in the same directory and with the same suffix.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory; expected a file name")
    if target.exists() and not target.is_file():
        raise BadInputError(f"{shown(target)} is a pipe or a device; expected the name of a file to write")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is read-only", str(target))
    stem = _short(target.stem)
    remove_strays(target.parent, re.compile(re.escape(stem)))
    token = f"{_place()}-{os.getpid()}-{secrets.token_hex(4)}"
    partial = target.with_name(f".{stem}.{token}.part{target.suffix}")
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


def remove_strays(folder: Path, stems: re.Pattern[str]) -> None:
    """Delete the temporary files for files of these stems that killed processes of this machine left in a folder."""
    for name in os.listdir(folder) if os.name == "posix" else ():
        found = _PART.fullmatch(name)
        if found is None or found["place"] != _place() or not stems.fullmatch(found["stem"]):
            continue
        if not _is_alive(int(found["pid"])):
            (folder / name).unlink(missing_ok=True)


def _short(stem: str) -> str:
    """Return a stem to which a temporary file can add its own words: a longer one by its hash."""
    name = os.fsencode(stem)
    return stem if len(name) <= LONGEST_STEM else hashlib.sha256(name).hexdigest()


@cache
def _place() -> str:
    """Return a short name of where process numbers mean something: this machine, and this container on it."""
    try:
        space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        space = 0
    return hashlib.sha256(f"{socket.gethostname()} {space}".encode()).hexdigest()[:8]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it runs, as another user
        return True
    return True


def _flush_to_disk(path: Path) -> None:
    # Windows flushes only through a writable handle; a directory opens for reading alone.
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
