"""One memory budget for every reader of files.

A reader computes what it is about to allocate from the head of a file and asks the budget first; what does not fit is
refused with both numbers and with another way. The budget is half of the memory that is free when reading begins,
or what the caller gives: ``read_table(path, memory="4GB")`` for one call, ``with memory_budget("4GB"):`` for all calls
inside. Memory is shared with others in the meantime and readers need some working space, hence the half.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from planted import _conversion
from planted.outcomes import BadInputError, BadInputTypeError

__all__ = [
    "Budget",
    "chosen_bytes",
    "current_budget",
    "memory_budget",
    "parse_bytes",
    "require",
    "show_bytes",
]

SHARE = 0.5
"""Part of the free memory that a reader may take unless the caller says otherwise."""

WORKING_BYTES = 32 * 2**20
"""Rows read together take about this much at most, however wide the table is."""

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_chosen: ContextVar[int | None] = ContextVar("planted_memory_budget", default=None)


@dataclass(slots=True)
class Budget:
    """The bytes that a reader may allocate; None where the system does not tell how many there are."""

    n_bytes: int | None
    held: int = 0  # of these, what is taken until the reader ends

    def require(self, n_bytes: int, what: str, *, instead: str) -> None:
        """Refuse an allocation that exceeds the budget; `instead` says what the user can do.

        Examples
        --------
        >>> Budget(10**9).require(3 * 10**9, "big.csv", instead="Use --stream.")
        Traceback (most recent call last):
        ...
        planted.outcomes.BadInputError: big.csv needs 3.00 GB of memory, but the budget is 1.00 GB. Use --stream.
        """
        if self.n_bytes is not None and n_bytes + self.held > self.n_bytes:
            beside = f" beside the {show_bytes(self.held)} of the table" if self.held else ""
            raise BadInputError(
                f"{what} needs {show_bytes(n_bytes)} of memory{beside}, but the budget is {show_bytes(self.n_bytes)}. "
                f"{instead}"
            )

    def hold(self, n_bytes: int, what: str, *, instead: str) -> None:
        """Take memory until the reader ends: whatever it asks for later must fit beside it.

        Examples
        --------
        >>> budget = Budget(10**9)
        >>> budget.hold(6 * 10**8, "big.csv", instead="Use --stream.")
        >>> budget.require(5 * 10**8, "it", instead="Write less.")
        Traceback (most recent call last):
        ...
        planted.outcomes.BadInputError: it needs 500.00 MB of memory beside the 600.00 MB of the table, but the budget is \
1.00 GB. Write less.
        """
        self.require(n_bytes, what, instead=instead)
        self.held += n_bytes

    def rows(self, row_bytes: int, at_most: int) -> int:
        """Return how many rows to read together: at least one, and few enough for the working space.

        Examples
        --------
        >>> Budget(10**9).rows(80, 65_536), Budget(10**9).rows(2**20, 65_536)
        (65536, 32)
        """
        space = WORKING_BYTES if self.n_bytes is None else min(WORKING_BYTES, self.n_bytes // 8)
        return max(1, min(at_most, space // max(row_bytes, 1)))


@contextmanager
def memory_budget(memory: int | str | None) -> Iterator[None]:
    """Limit what readers inside the block may allocate, in this thread.

    Parameters
    ----------
    memory : int, str or None
        Bytes, or a text such as ``"4GB"`` or ``"500 MiB"``; None for half of the free memory.

    Yields
    ------
    None
        Nothing; the limit holds until the block ends.

    Examples
    --------
    >>> with memory_budget("2GB"):
    ...     current_budget().n_bytes
    2000000000
    """
    token = _chosen.set(None if memory is None else parse_bytes(memory))
    try:
        yield
    finally:
        _chosen.reset(token)


def chosen_bytes(memory: int | str | None = None) -> int | None:
    """Return what the caller or an enclosing `memory_budget` asked for; None where neither did."""
    return _chosen.get() if memory is None else parse_bytes(memory)


def current_budget(memory: int | str | None = None) -> Budget:
    """Return the budget of a reader that begins now: the argument, the enclosing block, or half of what is free."""
    chosen = chosen_bytes(memory)
    if chosen is not None:
        return Budget(chosen)
    known = [
        n_bytes
        for n_bytes in (_conversion.available_memory(), _left_in_control_group())
        if n_bytes is not None
    ]
    return Budget(int(SHARE * min(known)) if known else None)


def require(n_bytes: int, what: str, *, instead: str) -> None:
    """Refuse an allocation that exceeds the budget in force.

    Examples
    --------
    >>> with memory_budget(1000):
    ...     require(2_000_000, "part.sums", instead="Sum fewer columns.")
    Traceback (most recent call last):
    ...
    planted.outcomes.BadInputError: part.sums needs 2.00 MB of memory, but the budget is 1.00 kB. Sum fewer columns.
    """
    current_budget().require(n_bytes, what, instead=instead)


def parse_bytes(memory: int | str) -> int:
    """Read a number of bytes as people write it.

    Examples
    --------
    >>> parse_bytes("4GB"), parse_bytes("1.5 GiB"), parse_bytes(1000)
    (4000000000, 1610612736, 1000)
    """
    if isinstance(memory, bool) or not isinstance(memory, int | str):
        raise BadInputTypeError(f"memory={memory!r}, expected a number of bytes or a text such as '4GB'.")
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([kmgt]?)(i?)b?", str(memory).strip().lower())
    size = (1024 if found[3] else 1000) ** " kmgt".index(found[2] or " ") if found else 0
    n_bytes = int(float(found[1]) * size) if found else 0
    if n_bytes < 1:
        raise BadInputError(
            f"memory={memory!r}, expected a positive number of bytes or a text such as '4GB'."
        )
    return n_bytes


def show_bytes(n_bytes: int) -> str:
    """Write a number of bytes for people.

    Examples
    --------
    >>> show_bytes(512), show_bytes(3_456_000), show_bytes(10**13)
    ('512 bytes', '3.46 MB', '10,000.00 GB')
    """
    for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if n_bytes >= size:
            whole, rest = divmod(n_bytes, size)
            is_forged = whole > 10**15  # and may exceed what a float holds
            return f"more than {10**15:,} GB" if is_forged else f"{whole + rest / size:,.2f} {unit}"
    return f"{n_bytes} bytes"


def _left_in_control_group() -> int | None:
    """Return what a container may still allocate: its limit less what is held and cannot be dropped."""
    try:
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        own = next(line.removeprefix("0::/") for line in groups if line.startswith("0::/"))
        limit = (_CONTROL_GROUPS / own / "memory.max").read_text(encoding="ascii").strip()
        held = (_CONTROL_GROUPS / own / "memory.stat").read_text(encoding="ascii").split()
        return None if limit == "max" else max(int(limit) - int(held[held.index("anon") + 1]), 0)
    except (OSError, ValueError, StopIteration):
        return None
