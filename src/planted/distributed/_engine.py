"""Sums over rows on a Dask cluster: the same functions, the same tree, the same bits.

What travels to a worker is a branch of parts to read and the function to sum; what comes back are its sums. Branches are
merged by the client in their order, so neither the number of workers nor the order in which they finish matters, and a
branch whose worker died is computed again elsewhere. Only a few branches for each thread are under way at any time, so the
memory of the scheduler and of the client stays at that many sums. The small algebra between passes runs once, on the client.

Rows that can only be read from their beginning (a generator, CSV, Feather, NumPy archives) are read by the client, part by
part, and sent with the branch: reading is then as fast as one process reads, whatever the number of workers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, TypeVar
from uuid import uuid4

from planted._clock import StopRequested, check_time
from planted._threads import one_thread
from planted.distributed._collections import CollectionSource, PartitionSource
from planted.distributed._waiting import awaited, patience
from planted.outcomes import BadInputError, ClusterError, PlantedError
from planted.rows import (
    FAN_IN,
    ArraySource,
    HeldSource,
    RowBlocks,
    RowSource,
    Summand,
    Sums,
    root_of,
    sum_branch,
    with_root,
)

__all__ = ["DaskEngine", "on_cluster"]

S = TypeVar("S", bound=Sums)

# At least, while there are so many parts: keeps the last branches from being waited for.
BRANCHES_PER_THREAD = 4
IN_FLIGHT_PER_THREAD = 2
CONNECT_SECONDS = 10.0  # for which a scheduler is tried to be reached


def on_cluster(blocks: RowBlocks, client: Any) -> RowBlocks:
    """Return the same rows with every sum over them computed on a Dask cluster.

    Parameters
    ----------
    blocks : RowBlocks
        `planted.open_blocks` of files, which every worker must see if they are `.parquet` or `.npy`; arrays and other rows
        are read here and sent.
    client : distributed.Client or str
        A client, or the address of a scheduler such as ``"tcp://127.0.0.1:8786"``.

    Returns
    -------
    RowBlocks
        The rows, to be passed to `planted.recover`.

    Examples
    --------
    >>> import numpy as np
    >>> from distributed import Client
    >>> from planted.moments import joint_moments
    >>> blocks = RowBlocks.from_arrays(np.arange(6.0)[:, None], np.ones((6, 1)), block_rows=2)
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as client:
    ...     joint_moments(on_cluster(blocks, client)).mean
    array([2.5, 1. ])
    """
    if isinstance(client, str):
        client = _connect(client)
    return blocks.executed(engine=DaskEngine(client))


@dataclass(frozen=True, slots=True)
class DaskEngine:
    """Sums branches of parts on the workers of a client."""

    client: Any  # the connection
    # Rows are summed where they lie; nothing should gather them in this process.
    is_elsewhere: ClassVar[bool] = True

    def run(self, source: RowSource, summand: Summand[S], *, first: int) -> Iterator[tuple[int, S | None]]:
        """Yield the sums of branches in their order."""
        threads = self._threads()
        waiting: deque[tuple[int, int, int, Any]] = deque()
        run = uuid4().hex
        try:
            for level, start, stop, rows in _branches_of(source, first, threads):
                waiting.append((level, start, stop, self._submit(rows, summand, (start, stop), run)))
                if len(waiting) >= IN_FLIGHT_PER_THREAD * threads + 1:
                    yield self._next(waiting)
            while waiting:
                yield self._next(waiting)
        finally:
            for _, _, _, future in waiting:
                future.cancel()

    def _threads(self) -> int:
        try:
            return max(int(sum(self.client.nthreads(callback_timeout=patience()).values())), 1)
        except (OSError, ValueError) as error:
            check_time()
            raise _lost(self.client, 0, error) from error

    def _submit(self, source: RowSource, summand: Any, parts: tuple[int, int], run: str) -> Any:
        """Send a branch; rows in this process travel with it, those of a collection stay where Dask has them."""
        import dask

        root, key = root_of(source), f"planted-sum-{run}-{parts[0]}"
        if isinstance(root, CollectionSource):
            task = dask.delayed(_sum_partitions, pure=False)(
                [list(root.partitions[part]) for part in range(*parts)],
                source=with_root(source, root.outline()),
                summand=summand,
                parts=parts,
                dask_key_name=key,
            )
            return self.client.compute(task)
        if isinstance(root, ArraySource):
            source = with_root(source, root.excerpt(*parts))
        # Rows travel with the task, so that the scheduler can give it to another worker if one dies.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.client.submit(_sum_on_worker, source, summand, parts, key=key, pure=False)

    def _next(self, waiting: deque[tuple[int, int, int, Any]]) -> tuple[int, Any]:
        """Wait for the first branch under way; say which one failed and why."""
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        level, start, stop, future = waiting[0]
        try:
            total = awaited(future)
        except (CancelledError, CommClosedError, ConnectionError, TimeoutError) as error:
            raise _lost(self.client, start, error) from error
        except KilledWorker as error:
            raise ClusterError(
                f"parts {start} to {stop - 1} ended {error.allowed_failures + 1} workers one after the other, the last "
                f"{error.last_worker.address}. Either these rows are poison or a worker's memory is too small."
            ) from error
        except (PlantedError, StopRequested):
            raise
        except Exception as error:
            raise ClusterError(
                f"parts {start} to {stop - 1} failed on a worker: {type(error).__name__}: {error}"
            ) from error
        waiting.popleft()
        return level, total


def _connect(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise BadInputError(
            "a cluster needs Dask, which is not installed. Install it with: pip install 'planted[dask]'"
        ) from error
    try:
        return Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address} ({error}). Start one with: dask scheduler"
        ) from error


def _lost(client: Any, part: int, reason: object) -> ClusterError:
    address = getattr(getattr(client, "scheduler", None), "address", "the scheduler")
    why = " ".join(str(reason).split())
    return ClusterError(
        f"the connection to the scheduler at {address} was lost while part {part} was summed ({why}). What was summed "
        "before is kept if there is a checkpoint: start the scheduler again and resume, or resume without a cluster."
    )


def _branches_of(source: RowSource, first: int, threads: int) -> Iterator[tuple[int, int, int, RowSource]]:
    """Yield branches with the source their worker reads; rows that workers cannot read are read here, part by part."""
    root = root_of(source)
    if root.n_parts is None:
        for part, blocks in groupby(root.blocks(first, None), key=lambda block: block.part):
            yield 0, part, part + 1, with_root(source, HeldSource(tuple(blocks)))
        return
    for branch in _branches(first, root.n_parts, 1 if isinstance(root, CollectionSource) else threads):
        yield *branch, source


def _branches(first: int, n_parts: int, threads: int) -> Iterator[tuple[int, int, int]]:
    """Cut the parts into whole branches, as high as keeps every thread busy: (level, first part, end)."""
    highest = 0
    while n_parts >= BRANCHES_PER_THREAD * threads * FAN_IN ** (highest + 1):
        highest += 1
    while first < n_parts:
        level = next(level for level in range(highest, -1, -1) if first % FAN_IN**level == 0)
        yield level, first, min(first + FAN_IN**level, n_parts)
        first += FAN_IN**level


def _sum_on_worker(source: RowSource, summand: Any, parts: tuple[int, int]) -> Any:
    """Sum a branch with one thread of BLAS: a worker has as many tasks as it has threads."""
    with one_thread():
        return sum_branch(source, summand, *parts)


def _sum_partitions(rows: list[list[Any]], *, source: RowSource, summand: Any, parts: tuple[int, int]) -> Any:
    """Sum partitions of a collection that Dask has brought to this worker."""
    outline: Any = root_of(source)
    return _sum_on_worker(with_root(source, PartitionSource(outline, parts[0], rows)), summand, parts)
