"""Where rows come from: sources that yield checked blocks, from any part on.

A source is a small object that knows how to read its rows; the rows themselves stay with the worker that reads them.
Arrays and memory maps are cut as they lie; a plain stream is counted from its beginning. Files and Dask collections
are sources too (`planted.io`, `planted.distributed`). `planted.rows._views` shows the rows of any source through a
function or with weights beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from planted._clock import check_time
from planted._conversion import as_numbers
from planted._typing import Array
from planted.outcomes import BadInputError
from planted.rows._weights import checked_weights, weighed_rows

__all__ = [
    "DEFAULT_BLOCK_ROWS",
    "PART_BLOCKS",
    "ArraySource",
    "Block",
    "HeldSource",
    "RowSource",
    "Stream",
    "checked_pair",
    "outline_rows",
    "weighed_block",
]

DEFAULT_BLOCK_ROWS = 4096
PART_BLOCKS = 16


class Block(NamedTuple):
    """Some rows, where they stand, and their weights if they have any."""

    part: int
    number: int
    first_row: int
    X: Array
    Y: Array
    w: Array | None = None


class RowSource(Protocol):
    """Rows that can be read from any part on."""

    @property
    def n_parts(self) -> int | None:
        """Number of parts; None if it is not known before they are read."""

    @property
    def is_weighted(self) -> bool:
        """Whether blocks carry weights."""
        return False

    def blocks(self, first: int, last: int | None) -> Iterator[Block]:
        """Yield the blocks of parts ``first``, ..., ``last - 1`` (to the end if None), checked, as float64."""


@dataclass(frozen=True, slots=True, repr=False)
class ArraySource(RowSource):
    """Arrays in memory, cut into blocks of equal length."""

    X: npt.NDArray[Any]  # (n, d): inputs
    Y: npt.NDArray[Any]  # (n, m): outputs
    block_rows: int = DEFAULT_BLOCK_ROWS  # rows in a block
    # Number of the part that begins with the first row here: an excerpt keeps the numbers of the whole.
    first_part: int = 0
    w: Array | None = None  # (n,): weights
    # (n,): the order in which the rows are read; as they lie if omitted.
    order: npt.NDArray[np.intp] | None = None

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return self.first_part + -(-len(self.X) // (PART_BLOCKS * self.block_rows))

    @property
    def is_weighted(self) -> bool:
        """Whether there are weights."""
        return self.w is not None

    def excerpt(self, first: int, last: int) -> ArraySource:
        """Return some parts alone, as they are sent to a worker."""
        step = PART_BLOCKS * self.block_rows
        rows = self._rows((first - self.first_part) * step, (last - self.first_part) * step)
        w = None if self.w is None else self.w[rows]
        return ArraySource(np.array(self.X[rows]), np.array(self.Y[rows]), self.block_rows, first, w)

    def blocks(self, first: int, last: int | None) -> Iterator[Block]:
        """Yield the blocks of some parts."""
        step, offset = self.block_rows, self.first_part * PART_BLOCKS
        shape: tuple[int, int] | None = None
        end = -(-len(self.X) // step) + offset
        for number in range(first * PART_BLOCKS, end if last is None else min(last * PART_BLOCKS, end)):
            rows = self._rows((number - offset) * step, (number - offset + 1) * step)
            X, Y = checked_pair(number, self.X[rows], self.Y[rows], shape)
            shape = X.shape[1], Y.shape[1]
            block = Block(number // PART_BLOCKS, number, number * step, X, Y)
            yield block if self.w is None else weighed_block(block, self.w[rows])

    def _rows(self, start: int, stop: int) -> slice | npt.NDArray[np.intp]:
        return slice(start, stop) if self.order is None else self.order[start:stop]

    def __repr__(self) -> str:
        columns = [array.shape[1] if array.ndim > 1 else 1 for array in (self.X, self.Y)]
        kind = "a memory map" if isinstance(self.X, np.memmap) else "arrays"
        return outline_rows(kind, len(self.X), columns, block_rows=self.block_rows, weighted=self.is_weighted)


@dataclass(frozen=True, slots=True, repr=False)
class Stream(RowSource):
    """A plain iterable of pairs; parts are counted as they come."""

    open: Callable[[], Iterable[tuple[Array, Array]]]  # returns a fresh iterable of ``(X, Y)``

    @property
    def n_parts(self) -> None:
        """Not known."""
        return None

    def blocks(self, first: int, last: int | None) -> Iterator[Block]:
        """Yield the blocks of some parts; those before are read and dropped."""
        shape: tuple[int, int] | None = None
        first_row = 0
        for number, (X, Y) in enumerate(self.open()):
            part = number // PART_BLOCKS
            if last is not None and part >= last:
                return
            inputs, outputs = checked_pair(number, X, Y, shape)
            shape = inputs.shape[1], outputs.shape[1]
            if part >= first:
                yield Block(part, number, first_row, inputs, outputs)
            first_row += len(inputs)

    def __repr__(self) -> str:
        return outline_rows("a stream", None, None)


@dataclass(frozen=True, slots=True)
class HeldSource(RowSource):
    """Blocks that were read already, as they are sent to a worker that cannot read them itself."""

    held: tuple[Block, ...]  # the blocks of some consecutive parts

    @property
    def n_parts(self) -> None:
        """Not known: these are some of them."""
        return None

    def blocks(self, first: int, last: int | None) -> Iterator[Block]:
        """Yield the blocks of some parts."""
        for block in self.held:
            if block.part >= first and (last is None or block.part < last):
                yield block


def checked_pair(
    number: int,
    X: npt.NDArray[Any],
    Y: npt.NDArray[Any],
    shape: tuple[int, int] | None,
    *,
    may_miss: bool = False,
) -> tuple[Array, Array]:
    """Return a block as float64 arrays of the right shapes, or refuse it by its number.

    Shapes: X (rows, d), Y (rows, m).
    """
    check_time()
    inputs, outputs = as_numbers(X, f"X of block {number}"), as_numbers(Y, f"Y of block {number}")
    if outputs.ndim == 1:
        outputs = outputs[:, None]
    if inputs.ndim != 2 or outputs.ndim != 2 or len(inputs) != len(outputs):
        raise BadInputError(
            f"block {number}: X has shape {inputs.shape} and Y {outputs.shape}; expected (rows, d) and (rows, m)"
        )
    if shape is not None and (inputs.shape[1], outputs.shape[1]) != shape:
        here = f"{inputs.shape[1]} inputs and {outputs.shape[1]} outputs"
        raise BadInputError(f"block {number} has {here}; the first had {shape[0]} and {shape[1]}")
    is_bad = np.isinf(outputs) if may_miss else ~np.isfinite(outputs)
    if not np.isfinite(inputs).all() or is_bad.any():
        raise BadInputError(f"block {number} contains NaN or infinity")
    return inputs, outputs


def outline_rows(
    kind: str,
    n_rows: int | None,
    columns: list[int] | None,
    *,
    block_rows: int | None = None,
    weighted: bool = False,
) -> str:
    """Say in a line what a source holds, without its numbers.

    Examples
    --------
    >>> outline_rows("arrays", 5000, [3, 1], block_rows=4096)
    '5,000 rows, d=3, m=1, blocks of 4,096, arrays'
    """
    parts = ["rows not counted" if n_rows is None else f"{n_rows:,} rows"]
    parts += [] if columns is None else [f"d={columns[0]}", f"m={columns[1]}"]
    parts += [] if block_rows is None else [f"blocks of {block_rows:,}"]
    return ", ".join([*parts, kind, *(["weighted"] if weighted else [])])


def weighed_block(block: Block, w: Array) -> Block:
    """Put weights beside a block and leave out rows of weight zero.

    Shapes: w (rows,).
    """
    weights = checked_weights(w, block.first_row, f"block {block.number}")
    X, Y, kept = weighed_rows(block.X, block.Y, weights)
    return block._replace(X=X, Y=Y, w=kept)
