"""A time budget that long work can notice.

`time_budget` sets a deadline for everything called inside it; `check_time` raises `OutOfTime` once it has passed. Every read
of a block of rows and every batch of starts checks it, so work ends within a block or a batch. `OutOfTime` derives from
`KeyboardInterrupt` on purpose: what returns the best so far on Ctrl-C does the same when time is up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

from planted.outcomes import BadInputError

__all__ = ["OutOfTime", "check_time", "time_budget"]

_DEADLINE: ContextVar[float] = ContextVar("planted_deadline", default=float("inf"))


class OutOfTime(KeyboardInterrupt):
    """The time budget is used up."""


@contextmanager
def time_budget(seconds: float | None) -> Iterator[None]:
    """Limit the time of what runs inside; budgets nest, the earliest deadline counts.

    Examples
    --------
    >>> with time_budget(0.0):
    ...     try:
    ...         check_time()
    ...     except OutOfTime:
    ...         print("time is up")
    time is up
    """
    if seconds is not None and not seconds >= 0:
        raise BadInputError(f"budget_seconds={seconds}; expected a number of seconds, zero or more, or None")
    deadline = float("inf") if seconds is None else monotonic() + seconds
    token = _DEADLINE.set(min(deadline, _DEADLINE.get()))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def check_time() -> None:
    """Raise `OutOfTime` if the deadline of the enclosing `time_budget` has passed."""
    if monotonic() >= _DEADLINE.get():
        raise OutOfTime("the time budget is used up")
