"""Dask arrays and dataframes as row blocks: a partition is a part.

Nothing is computed but the lengths of the partitions, and those only where Dask does not know them. Partitions stay on the
workers; each is cut into blocks where it is summed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

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

__all__ = ["CollectionSource", "PartitionSource", "blocks_of_collections"]


def blocks_of_collections(
    X: Any, Y: Any, *, weights: Any = None, block_rows: int = DEFAULT_BLOCK_ROWS
) -> RowBlocks:
    """Return Dask collections as row blocks, summed on the cluster of the current client if there is one.

    Shapes: X (n, d), Y (n, m), weights (n,).

    Examples
    --------
    >>> import dask.array as da
    >>> blocks = blocks_of_collections(da.ones((10, 2), chunks=(4, 2)), da.zeros(10, chunks=4))
    >>> [X.shape for X, Y in blocks]
    [(4, 2), (4, 2), (2, 2)]
    """
    given = {"X": X, "Y": Y} | ({} if weights is None else {"weights": weights})
    columns = [_partitions(data, label) for label, data in given.items()]
    for label, found in zip(given, columns, strict=True):
        if len(found) != len(columns[0]):
            raise BadInputError(
                f"X has {len(columns[0])} partitions and {label} {len(found)}; take both from one collection, or rechunk "
                f"{label} like X"
            )
    lengths = _lengths(X, columns[0])
    source = CollectionSource(tuple(zip(*columns, strict=True)), lengths, block_rows, weights is not None)
    blocks = RowBlocks.from_source(source)
    client = _current_client()
    if client is None:
        return blocks
    from planted.distributed._engine import DaskEngine

    return blocks.executed(engine=DaskEngine(client))


@dataclass(frozen=True, slots=True, repr=False)
class CollectionSource(RowSource):
    """Partitions that Dask will compute."""

    # For each partition those of X, of Y and, if there are any, of the weights.
    partitions: tuple[tuple[Any, ...], ...]
    lengths: tuple[int, ...]  # their rows
    block_rows: int  # rows in a block; the last one of a partition may be shorter
    is_weighted: bool = False  # whether there are weights

    @property
    def n_parts(self) -> int:
        """Number of partitions."""
        return len(self.lengths)

    def outline(self) -> CollectionSource:
        """Return where the rows stand, without the rows."""
        return replace(self, partitions=())

    def blocks(self, first: int, last: int | None) -> Iterator[Block]:
        """Compute partitions one after the other and yield their blocks."""
        import dask

        for part in range(first, self.n_parts if last is None else min(last, self.n_parts)):
            yield from self.cut(part, *dask.compute(*self.partitions[part]))

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
        n_rows = sum(self.lengths)
        return outline_rows(kind, n_rows, None, block_rows=self.block_rows, weighted=self.is_weighted)


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


def _lengths(X: Any, partitions: list[Any]) -> tuple[int, ...]:
    known = X.chunks[0] if hasattr(X, "chunks") else (float("nan"),)
    if not any(length != length for length in known):
        return tuple(int(length) for length in known)
    import dask

    return tuple(int(length) for length in dask.compute(*(dask.delayed(len)(part) for part in partitions)))


def _numbers(values: Any) -> npt.NDArray[Any]:
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)


def _current_client() -> Any:
    """Return the client in whose context we are, or None."""
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None
