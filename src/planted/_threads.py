"""Threads of the linear algebra libraries inside planted's entries.

The matrices of a recovery are small: a few hundred columns. On them two BLAS threads spend their time waiting for each
other, and beside another busy process they wait twenty times longer than one thread works. Results also depend on the
number of threads in their last bits. Every public entry therefore runs its algebra on one thread (`one_thread`), and
gives back what was there before when it ends.

Sums over very many rows are worth several threads. They are cut into blocks of rows whose size does not depend on the
number of threads; the blocks are computed side by side, each on one BLAS thread, and taken in order (`side_by_side`).
The bits are those of one thread. There are as many threads as BLAS had outside: who set one thread gets one.

The limit belongs to the process, not to the thread that sets it: entries that run at the same time, in threads or nested,
share one limit, which the first sets and the last lifts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from threading import Lock
from typing import Any, ParamSpec, TypeVar

__all__ = ["one_thread", "one_thread_inside", "side_by_side"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_lock = Lock()
_entries = 0
_outside = 1  # threads that BLAS had before the limit; one where there is none
_lift: Callable[[], None] | None = None


@contextmanager
def one_thread() -> Iterator[None]:
    """Run what is inside with one BLAS thread; nests, and may be entered by several threads at once."""
    global _entries, _lift, _outside
    with _lock:
        if _entries == 0:
            _lift = _limit()
        _entries += 1
    try:
        yield
    finally:
        with _lock:
            _entries -= 1
            if _entries == 0 and _lift is not None:
                _lift()
                _lift, _outside = None, 1


def one_thread_inside(entry: Callable[P, R]) -> Callable[P, R]:
    """Return a public entry whose algebra runs on one thread."""

    @wraps(entry)
    def limited(*args: P.args, **options: P.kwargs) -> R:
        with one_thread():
            return entry(*args, **options)

    return limited


def side_by_side(function: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
    """Yield a function of every part, in order, computed on as many threads as BLAS had outside the entry.

    Only one part for each thread is under way. Outside every entry the parts are computed one after the other.
    """
    places = list(parts)
    n_threads = min(_outside, len(places))
    if n_threads < 2:
        yield from map(function, places)
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    with ThreadPoolExecutor(n_threads) as pool:
        under_way: deque[Future[R]] = deque()
        for place in places:
            if len(under_way) == n_threads:
                yield under_way.popleft().result()
            under_way.append(pool.submit(function, place))
        while under_way:
            yield under_way.popleft().result()


def _limit() -> Callable[[], None]:
    """Set the limit in every BLAS library that is loaded, and return what lifts it, from whichever thread.

    threadpoolctl lets only the thread that set a limit change it; that right is given up at once, so that the last entry
    can lift the limit. A limit that a caller holds in another thread stays as it is.
    """
    global _outside
    controller = _blas_libraries()
    _outside = max([library.num_threads or 1 for library in controller.lib_controllers], default=1)
    limits: Any = controller.limit(limits=1, user_api="blas")
    _give_up_control()

    def lift() -> None:
        limits.restore_original_limits()
        _give_up_control()

    return lift


@cache
def _blas_libraries() -> Any:
    """Return the BLAS libraries of NumPy and SciPy; looking for them takes fifty times as long as setting a limit."""
    from scipy import linalg  # noqa: F401  # SciPy has a BLAS of its own, which must be loaded to be limited
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def _give_up_control() -> None:
    """Let any thread set the next limit; versions of threadpoolctl before 3.7 know no such thing."""
    import threadpoolctl

    release = getattr(getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", None)
    if release is not None:
        release()
