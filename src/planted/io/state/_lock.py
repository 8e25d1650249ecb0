"""One run at a time in a folder.

The lock is the kernel's lock on a small file in the folder, which says who holds it: process and host. A process that dies
loses the lock at once, so a lock that a killed run left behind is taken over. A file left by a process of another host is
not: whether that process still runs cannot be known from here. Within one process the newest holder counts; an older one
finds out that it was replaced.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from planted._clock import check_time
from planted.outcomes import BadInputError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["LOCK", "Lease", "lock_folder"]

LOCK = "planted-lock.json"
FORMAT = "planted.lock"
POLL_SECONDS = 0.2
_WINDOWS_OFFSET = 1 << 20  # the locked byte lies beyond the text, which others may read


class Lease:
    """The right to write in a folder, until it is released, collected, or the process ends."""

    __slots__ = ("__weakref__", "_end", "folder")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._end = weakref.finalize(self, _release, folder, os.getpid(), id(self))

    @property
    def is_current(self) -> bool:
        """Whether no newer holder of this process has taken the folder."""
        return self.folder in _HELD and _HELD[self.folder].holder == id(self)

    def release(self) -> None:
        """Give the folder back."""
        self._end()


@dataclass(slots=True)
class _Held:
    handle: int  # the open file that the kernel has locked
    holder: int  # the lease that counts


_HELD: dict[Path, _Held] = {}


def lock_folder(folder: Path, *, wait_seconds: float = 0.0) -> Lease:
    """Take the lock of a folder, which is created if it is not there; refuse if another process keeps it.

    Examples
    --------
    >>> import tempfile
    >>> first = lock_folder(Path(tempfile.mkdtemp()))
    >>> second = lock_folder(first.folder)
    >>> first.is_current, second.is_current
    (False, True)
    """
    folder.mkdir(parents=True, exist_ok=True)
    key = Path(os.path.realpath(folder))
    if key in _HELD and not _is_at(_HELD[key].handle, key / LOCK):  # the folder was deleted meanwhile
        os.close(_HELD.pop(key).handle)
    deadline = time.monotonic() + wait_seconds
    while key not in _HELD:
        refusal = _try_to_hold(key, folder)
        if refusal is None:
            break
        if time.monotonic() >= deadline:
            raise BadInputError(refusal)
        check_time()
        time.sleep(POLL_SECONDS)
        folder.mkdir(parents=True, exist_ok=True)  # whoever kept it may have removed it
    lease = Lease(key)
    _HELD[key].holder = id(lease)
    return lease


def _try_to_hold(key: Path, folder: Path) -> str | None:
    """Lock the file; return None, or the sentence that says who has it."""
    path = key / LOCK
    foreign = f"{folder / LOCK} is not a file of planted; choose another folder for the checkpoint."
    removed = f"the folder {folder} is being removed by another run; run again."
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return foreign
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except FileNotFoundError:  # the folder was removed between two looks
        return removed
    try:
        holder = _read_holder(handle)
        is_free = _lock_handle(handle)
        if holder is None:
            return foreign
        pid, host = holder
        if not is_free or (host and host != socket.gethostname()):
            where = f" on {host}" if host else ""
            return (
                f"the checkpoint in {folder} is in use by process {pid or '(unknown)'}{where}. Wait until it has ended, or "
                f"choose another folder; if no such process runs, delete {folder / LOCK}."
            )
        if not _is_at(handle, path):  # removed by its last holder while we opened it
            return removed
        record = {"format": FORMAT, "pid": os.getpid(), "host": socket.gethostname()}
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps(record).encode())
        _HELD[key] = _Held(handle, 0)
        return None
    finally:
        if key not in _HELD:
            os.close(handle)


def _read_holder(handle: int) -> tuple[int, str] | None:
    """Return process and host of whoever wrote the file, (0, "") if it is empty, None if it is not a lock."""
    os.lseek(handle, 0, os.SEEK_SET)
    text = os.read(handle, 4096)
    os.lseek(handle, 0, os.SEEK_SET)
    if not text:
        return 0, ""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        return None
    pid, host = record.get("pid"), record.get("host")
    return (pid, host) if type(pid) is int and isinstance(host, str) else None


def _lock_handle(handle: int) -> bool:
    try:
        if sys.platform == "win32":
            os.lseek(handle, _WINDOWS_OFFSET, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            os.lseek(handle, 0, os.SEEK_SET)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Return whether the open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False


def _release(key: Path, pid: int, holder: int) -> None:
    held = _HELD.get(key)
    if held is None or held.holder != holder or pid != os.getpid():  # a forked child owns nothing
        return
    del _HELD[key]
    if _is_at(held.handle, key / LOCK):
        with suppress(OSError):
            (key / LOCK).unlink()
    os.close(held.handle)
