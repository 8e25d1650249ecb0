"""Dask arrays and dataframes as row blocks: a partition is a part.

Nothing is computed but the lengths of the partitions, when the first sum is asked for, and those only where Dask does not
know them. Partitions stay on the workers; each is cut into blocks where it is summed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from planted._conversion import require_memory
from planted.distributed._waiting import computed, current_client
from planted.outcomes import BadInputError
from planted.rows import (
    DEFAULT_BLOCK_ROWS,
    Block,
    RowBlocks,
    RowSource,
    checked_pair,
    outline_rows,
    weighed_block,
)

__all__ = ["CollectionSource", "PartitionSource", "blocks_of_collections", "gathered", "mapped_rows"]


def blocks_of_collections(
    X: Any, Y: Any, *, weights: Any = None, block_rows: int = DEFAULT_BLOCK_ROWS
) -> RowBlocks:
    """Return Dask collections as row blocks, summed on the cluster of the current client if there is one.

    Shapes: X (n, d), Y (n, m), weights (n,).
    """
    if getattr(X, "ndim", 2) != 2:
        raise BadInputError(
            f"X has {X.ndim} dimension(s); expected a Dask array or dataframe of two: rows and inputs"
        )
    given = {"X": X, "Y": Y} | ({} if weights is None else {"weights": weights})
    columns = [_partitions(data, label) for label, data in given.items()]
    for label, found in zip(given, columns, strict=True):
        if len(found) != len(columns[0]):
            raise BadInputError(
                f"X has {len(columns[0])} partitions and {label} {len(found)}; take both from one collection, or rechunk "
                f"{label} like X"
            )
    source = CollectionSource(
        tuple(zip(*columns, strict=True)), _known_lengths(X), _widths(X, Y), block_rows, weights is not None
    )
    blocks = RowBlocks.from_source(source)
    client = current_client()
    if client is None:
        return blocks
    from planted.distributed._engine import DaskEngine

    return blocks.executed(engine=DaskEngine(client))


def gathered(data: Any, label: str) -> Any:
    """Bring a Dask collection into this process as an array or a frame, if it fits into memory.

    For what needs all rows at once; everything else is summed where the rows are.
    """
    known = _known_lengths(data)
    if known is None:
        import dask

        known = tuple(map(int, computed(*(dask.delayed(len)(part) for part in _partitions(data, label)))))
    remedy = "This estimator needs all rows at once; pass a part of them."
    require_memory((sum(known), *data.shape[1:]), label, remedy=remedy)
    return computed(data)[0]


def mapped_rows(function: Callable[[Any], npt.NDArray[Any]], X: Any, *, empty: npt.NDArray[Any]) -> Any:
    """Return a Dask array of a function of the rows of a collection; nothing is computed yet.

    `function`: called on each partition, with at least one row. `empty`: what it would return for no rows.

    Examples
    --------
    >>> import dask.array as da
    >>> X = da.ones((5, 2), chunks=(3, 2))
    >>> mapped_rows(lambda rows: rows.sum(axis=1), X, empty=np.zeros(0)).compute()
    array([2., 2., 2., 2., 2.])
    """
    from dask import array, delayed

    lengths = _known_lengths(X) or (np.nan,) * len(_partitions(X, "X"))
    work = delayed(_of_rows, pure=True)
    parts = [
        array.from_delayed(work(part, function, empty), (length, *empty.shape[1:]), meta=empty)
        for part, length in zip(_partitions(X, "X"), lengths, strict=True)
    ]
    return array.concatenate(parts, allow_unknown_chunksizes=True)


def _of_rows(
    rows: Any, function: Callable[[Any], npt.NDArray[Any]], empty: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    return function(rows) if len(rows) else empty


@dataclass(frozen=True, repr=False)
class CollectionSource(RowSource):
    """Partitions that Dask will compute."""

    # For each partition those of X, of Y and, if there are any, of the weights.
    partitions: tuple[tuple[Any, ...], ...]
    known_lengths: tuple[int, ...] | None  # their rows, where Dask knows them
    widths: tuple[int, int]  # numbers of inputs and outputs
    block_rows: int  # rows in a block; the last one of a partition may be shorter
    is_weighted: bool = False  # whether there are weights

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Rows of each partition; computed where Dask does not know them, which may take as long as a pass."""
        if self.known_lengths is not None:
            return self.known_lengths
        import dask

        return tuple(map(int, computed(*(dask.delayed(len)(columns[0]) for columns in self.partitions))))

    @property
    def n_parts(self) -> int:
        """Number of partitions."""
        return len(self.partitions) or len(self.lengths)

    def outline(self) -> CollectionSource:
        """Return where the rows stand, without the rows."""
        return replace(self, partitions=(), known_lengths=self.lengths)

    def blocks(self, first: int, last: int | None) -> Iterator[Block]:
        """Compute partitions one after the other and yield their blocks."""
        for part in range(first, self.n_parts if last is None else min(last, self.n_parts)):
            yield from self.cut(part, *computed(*self.partitions[part]))

    def cut(self, part: int, X: Any, Y: Any, weights: Any = None) -> Iterator[Block]:
        """Cut a partition into blocks."""
        inputs, outputs = _numbers(X), _numbers(Y)
        w = None if weights is None else _numbers(weights)
        step = self.block_rows
        number = sum(-(-length // step) for length in self.lengths[:part])
        row = sum(self.lengths[:part])
        for start in range(0, len(inputs), step):
            rows = slice(start, start + step)
            pair = checked_pair(number, inputs[rows], outputs[rows], None)
            block = Block(part, number, row + start, *pair)
            yield block if w is None else weighed_block(block, w[rows])
            number += 1

    def __repr__(self) -> str:
        kind = f"{self.n_parts} Dask partitions"
        n_rows = None if self.known_lengths is None else sum(self.known_lengths)
        return outline_rows(
            kind, n_rows, list(self.widths), block_rows=self.block_rows, weighted=self.is_weighted
        )


@dataclass(frozen=True, slots=True)
class PartitionSource(RowSource):
    """Partitions that are here."""

    outline: CollectionSource  # where they stand
    first_part: int  # number of the first
    rows: Sequence[Sequence[Any]]  # inputs, outputs and perhaps weights of each

    @property
    def n_parts(self) -> int:
        """Number of partitions in all."""
        return self.outline.n_parts

    def blocks(self, first: int, last: int | None) -> Iterator[Block]:
        """Yield the blocks of the partitions that are here."""
        for place, columns in enumerate(self.rows):
            part = self.first_part + place
            if part >= first and (last is None or part < last):
                yield from self.outline.cut(part, *columns)


def _partitions(data: Any, label: str) -> list[Any]:
    """Return the row partitions of a collection as delayed objects."""
    if not hasattr(data, "to_delayed"):
        raise BadInputError(
            f"{label} is of type {type(data).__name__}; expected a Dask array or dataframe like the other"
        )
    if hasattr(data, "chunks"):
        if data.ndim == 2 and len(data.chunks[1]) > 1:
            data = data.rechunk({1: -1})
        return list(np.ravel(data.to_delayed()))
    return list(data.to_delayed())


def _known_lengths(X: Any) -> tuple[int, ...] | None:
    known = X.chunks[0] if hasattr(X, "chunks") else (float("nan"),)
    return None if any(length != length for length in known) else tuple(int(length) for length in known)


def _widths(X: Any, Y: Any) -> tuple[int, int]:
    """Return the numbers of inputs and outputs, which Dask knows without computing anything."""
    return int(X.shape[1]), int(Y.shape[1]) if Y.ndim == 2 else 1


def _numbers(values: Any) -> npt.NDArray[Any]:
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
