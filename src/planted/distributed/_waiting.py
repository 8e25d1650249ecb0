"""Wait for work on a cluster without waiting past the deadline.

Results can be late in two ways: the work is not done, or it is done and the worker that holds the result does not send it
(it is stopped, or its network is gone). Both waits end at the deadline of `planted._clock` with `StopRequested`.
"""

from __future__ import annotations

from threading import Event
from typing import Any

from planted._clock import check_time, seconds_left

__all__ = ["awaited", "computed", "current_client", "patience"]

POLL_SECONDS = 0.5
# For a result that is ready to reach the client. Longer than the five minutes after which a scheduler gives a silent worker
# up (`distributed.scheduler.worker-ttl`) and has its work done again elsewhere.
TRANSFER_SECONDS = 600.0


def awaited(future: Any) -> Any:
    """Return the result of a future, raise what its work raised, or `StopRequested` at the deadline.

    A lost scheduler is a `ConnectionError`, a result that does not come a `TimeoutError`.
    """
    is_done = Event()
    future.add_done_callback(lambda _: is_done.set())
    while not is_done.wait(min(POLL_SECONDS, seconds_left())):
        check_time()
        if future.client.status not in ("running", "connecting"):
            raise ConnectionError(future.client.status)
    try:
        return future.result(timeout=patience())
    except TimeoutError:
        check_time()
        raise


def computed(*delayed: Any) -> tuple[Any, ...]:
    """Compute delayed objects, on the cluster of the current client if there is one."""
    client = current_client()
    if client is None:
        import dask

        return tuple(dask.compute(*delayed))
    return tuple(awaited(future) for future in client.compute(list(delayed)))


def current_client() -> Any:
    """Return the client in whose context we are, or None."""
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


def patience() -> float:
    """Return how long a single answer of the cluster may take: `TRANSFER_SECONDS`, or the time left if that is less."""
    check_time()
    return min(TRANSFER_SECONDS, seconds_left())
