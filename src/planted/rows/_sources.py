"""Where rows come from: sources that yield checked blocks, from any part on.

A source is a small object that knows how to read its rows; the rows themselves stay with the worker that reads them.
Arrays and memory maps are cut as they lie; a plain stream is counted from its beginning. Files and Dask collections
are sources too (`planted.io`, `planted.distributed`).

A view is a source as well: the rows of another one seen through a function (`Mapped`) or with weights beside them
(`Weighted`). Views are stacked. `root_of` finds the rows as they are stored, and `with_root` puts others in their
place; this is how a worker that has been sent some rows sees them through the same functions.

A source may carry a weight beside every row (a column of a file, an array, a Dask series). Rows of weight zero are
left out where they are read. A sum that can be weighted has a field ``weights``, a `RowWeights`. To use the weights
that the rows carry, this field is a `StoredWeights`, which is given the weights of a block when the block is summed.
So weights are never held for more than a block, and travel with the rows to the worker that sums them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from planted._clock import check_time
from planted._conversion import as_numbers
from planted._typing import Array, as_array
from planted.outcomes import BadInputError

__all__ = [
    "DEFAULT_BLOCK_ROWS",
    "PART_BLOCKS",
    "ArraySource",
    "Block",
    "HeldSource",
    "Mapped",
    "RowSource",
    "RowWeights",
    "StoredWeights",
    "Stream",
    "View",
    "Weighted",
    "bind_weights",
    "checked_pair",
    "checked_weights",
    "outline_rows",
    "root_of",
    "weighed_block",
    "weighed_rows",
    "with_root",
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
        return None

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


@dataclass(frozen=True, slots=True, repr=False)
class View(RowSource):
    """Rows of another source, in the same parts."""

    inner: RowSource  # the rows

    @property
    def n_parts(self) -> int | None:
        """Number of parts."""
        return self.inner.n_parts

    @property
    def is_weighted(self) -> bool:
        """Whether blocks carry weights."""
        return self.inner.is_weighted


@dataclass(frozen=True, slots=True, repr=False)
class Mapped(View):
    """Rows seen through a function."""

    transform: Callable[[int, Array, Array], tuple[Array, Array]]  # called as ``transform(first_row, X, Y)``
    may_miss: bool = False  # whether outputs may be NaN: a missing label

    def blocks(self, first: int, last: int | None) -> Iterator[Block]:
        """Yield the blocks of some parts, transformed."""
        shape: tuple[int, int] | None = None
        for block in self.inner.blocks(first, last):
            transform = bind_weights(self.transform, block.first_row, block.w)
            pair = transform(block.first_row, block.X, block.Y)
            X, Y = checked_pair(block.number, *pair, shape, may_miss=self.may_miss)
            assert block.w is None or len(X) == len(block.w), "a function that leaves out rows loses weights"
            shape = X.shape[1], Y.shape[1]
            yield block._replace(X=X, Y=Y)

    def __repr__(self) -> str:
        return f"{self.inner!r}, transformed"


@dataclass(frozen=True, slots=True, repr=False)
class Weighted(View):
    """Rows of another source with weights beside them."""

    w: Array  # (n,): weights of all of them

    @property
    def is_weighted(self) -> bool:
        """Always."""
        return True

    def blocks(self, first: int, last: int | None) -> Iterator[Block]:
        """Yield the blocks of some parts; rows of weight zero are left out."""
        for block in self.inner.blocks(first, last):
            yield weighed_block(block, self.w[block.first_row : block.first_row + len(block.X)])

    def __repr__(self) -> str:
        return f"{self.inner!r}, weighted"


def root_of(source: RowSource) -> RowSource:
    """Return the rows as they are stored, before any function of them."""
    return root_of(source.inner) if isinstance(source, Mapped | Weighted) else source


def with_root(source: RowSource, root: RowSource) -> RowSource:
    """Return the same functions of other rows."""
    if isinstance(source, Mapped | Weighted):
        return replace(source, inner=with_root(source.inner, root))
    return root


F = TypeVar("F")

RowWeights = Callable[[int, Array, Array], Array]
"""Called as ``weights(number of the first row, X, Y)``; returns one non-negative weight for each of these rows."""


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """The weights that rows carry, as a `RowWeights`."""

    scale: float = 1.0  # they are multiplied by it
    first_row: int = 0  # number of the first row of the block that is being summed
    values: Array | None = None  # (rows,): its weights; None while no block is being summed

    def __call__(self, first_row: int, X: Array, Y: Array) -> Array:
        """Return the weights of some rows of the block."""
        assert self.values is not None, (
            "stored weights are read with their rows, in a pass over weighted rows"
        )
        start = first_row - self.first_row
        return self.scale * self.values[start : start + len(X)]


def bind_weights(function: F, first_row: int, values: Array | None) -> F:
    """Return a function of a block with the weights of that block, if it asks for stored ones.

    `function`: a summand or a transformation, with or without a field ``weights``. Shapes: values (rows,).
    """
    given = getattr(function, "weights", None)
    if not isinstance(given, StoredWeights):
        return function
    bound = StoredWeights(given.scale, first_row, values)
    return replace(function, weights=bound)  # type: ignore[type-var]  # with such a field it is a dataclass


def checked_weights(values: npt.ArrayLike, first_row: int, label: str) -> Array:
    """Return weights as a vector, or refuse them by row.

    Shapes: values (rows,), result (rows,).
    """
    weights = np.ravel(as_array(values))
    is_bad = ~(np.isfinite(weights) & (weights >= 0))
    if is_bad.any():
        place = int(np.argmax(is_bad))
        raise BadInputError(
            f"{label}: the weight of row {first_row + place} is {weights[place]}; weights must be finite and zero or "
            "more. Give rows that should not count a weight of 0."
        )
    return weights


def weighed_rows(X: npt.NDArray[Any], Y: npt.NDArray[Any], w: Array) -> tuple[Any, Any, Array]:
    """Leave out the rows of weight zero; return the others with their weights.

    Shapes: X (rows, d), Y (rows, m), w (rows,).
    """
    if len(w) != len(X):
        raise BadInputError(f"there are {len(w)} weights for {len(X)} rows; expected one for each")
    counts = w > 0
    return (X, Y, w) if counts.all() else (X[counts], Y[counts], w[counts])
