"""Stopping before the end: a time budget that long work can notice, and a request that anyone may make.

`time_budget` sets a deadline for everything called inside it; `check_time` raises `StopRequested` once it has passed. Every
read of a block of rows and every batch of starts checks it, so work ends within a block or a batch. A `progress` callback
may raise `StopRequested` too. Public entries turn it into an outcome; Ctrl-C stays `KeyboardInterrupt`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

from planted.outcomes import BadInputError

__all__ = ["StopRequested", "check_time", "seconds_left", "time_budget"]

_DEADLINE: ContextVar[float] = ContextVar("planted_deadline", default=float("inf"))


class StopRequested(Exception):  # a request, not an error
    """Work is to end now with what it has: the time budget is used up, or a progress callback says so.

    Parameters
    ----------
    reason : str
        Why, as part of a sentence.

    Examples
    --------
    >>> import planted
    >>> def close_window(what, fraction):
    ...     raise planted.StopRequested("the window was closed")
    >>> data = planted.simulate.dataset(800, n_features=4, n_hidden=2, noise=0.1, random_state=0)
    >>> planted.recover(data.X, data.Y, random_state=0, progress=close_window).outcome.name
    'STOPPED_EARLY'
    """

    def __init__(self, reason: str = "it was asked to stop") -> None:
        super().__init__(reason)


@contextmanager
def time_budget(seconds: float | None) -> Iterator[None]:
    """Limit the time of what runs inside; budgets nest, the earliest deadline counts. None is no limit."""
    if seconds is not None and not seconds >= 0:
        raise BadInputError(f"budget_seconds={seconds}; expected a number of seconds, zero or more, or None")
    deadline = float("inf") if seconds is None else monotonic() + seconds
    token = _DEADLINE.set(min(deadline, _DEADLINE.get()))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def seconds_left() -> float:
    """Return the time until the deadline, infinite if there is none: for foreign solvers that keep a limit of their own."""
    return max(_DEADLINE.get() - monotonic(), 0.0)


def check_time() -> None:
    """Raise `StopRequested` if the deadline of the enclosing `time_budget` has passed."""
    if monotonic() >= _DEADLINE.get():
        raise StopRequested("out of time, the budget is used up")
