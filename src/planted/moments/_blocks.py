"""Rows in blocks: the only way in which the library reads data.

`RowBlocks` is a re-iterable source of ``(X, Y)`` row blocks. Arrays in memory, memory maps, files, generators and Dask
collections all become one, so that every sum over rows is written once and memory stays at one block plus the sums.

Sixteen blocks are a part: the unit of work, of a checkpoint and of the tree in which sums are merged. A source that can be
entered at any part can be summed by many workers; a plain stream is read from its beginning.

Numbers travel as they are stored (float32 stays float32 in memory and on disk) and become float64 block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from planted._clock import check_time
from planted._typing import Array
from planted.moments._passes import Engine, Journal, Passes
from planted.outcomes import BadInputError

__all__ = [
    "DEFAULT_BLOCK_ROWS",
    "PART_BLOCKS",
    "ArraySource",
    "Block",
    "RowBlocks",
    "RowSource",
    "checked_pair",
    "root_of",
    "with_root",
]

DEFAULT_BLOCK_ROWS = 4096
PART_BLOCKS = 16


class Block(NamedTuple):
    """Some rows and where they stand."""

    part: int
    number: int
    first_row: int
    X: Array
    Y: Array


class RowSource(Protocol):
    """Rows that can be read from any part on."""

    @property
    def n_parts(self) -> int | None:
        """Number of parts; None if it is not known before they are read."""

    def blocks(self, first: int, last: int | None) -> Iterator[Block]:
        """Yield the blocks of parts ``first``, ..., ``last - 1`` (to the end if None), checked, as float64.

        Parameters
        ----------
        first : int
            First part.
        last : int or None
            End, not included.

        Yields
        ------
        Block
            The rows.
        """


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """A source of row blocks that can be read several times.

    Parameters
    ----------
    open : callable
        Returns a fresh iterable of ``(X, Y)`` pairs of arrays of shapes (rows, d) and (rows, m).
    entry : RowSource, optional
        The same rows, enterable at any part; `planted.open_blocks` and `from_arrays` give it.
    passes : Passes
        How passes are executed, and their count.

    Examples
    --------
    >>> blocks = RowBlocks.from_arrays(np.eye(3), np.ones((3, 1)), block_rows=2)
    >>> [len(rows) for rows, _ in blocks]
    [2, 1]
    """

    open: Callable[[], Iterable[tuple[Array, Array]]]
    entry: RowSource | None = None
    passes: Passes = field(default_factory=Passes, compare=False)

    @classmethod
    def from_arrays(
        cls, X: npt.NDArray[Any], Y: npt.NDArray[Any], *, block_rows: int = DEFAULT_BLOCK_ROWS
    ) -> RowBlocks:
        """Slice arrays (or memory maps) into blocks without copying them first.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs.
        Y : ndarray of shape (n, m)
            Outputs.
        block_rows : int
            Rows in a block.

        Returns
        -------
        RowBlocks
            The blocks, in order.
        """
        return cls.from_source(ArraySource(X, Y, block_rows))

    @classmethod
    def from_source(cls, source: RowSource) -> RowBlocks:
        """Wrap rows that can be read from any part on.

        Parameters
        ----------
        source : RowSource
            The rows.

        Returns
        -------
        RowBlocks
            The blocks, in order.
        """
        return cls(partial(_pairs, source), source)

    @property
    def source(self) -> RowSource:
        """The rows by parts; a plain stream is read from its beginning to reach a part."""
        return self.entry if self.entry is not None else _Stream(self.open)

    def map(
        self, transform: Callable[[Array, Array], tuple[Array, Array]], *, may_miss: bool = False
    ) -> RowBlocks:
        """Apply a function to every block as it is read.

        Parameters
        ----------
        transform : callable
            Takes and returns a pair of arrays with the same number of rows.
        may_miss : bool
            Whether the outputs it returns may be NaN, a missing label; so may then those of further functions.

        Returns
        -------
        RowBlocks
            The transformed source.
        """
        return self.map_numbered(partial(_without_number, transform), may_miss=may_miss)

    def map_numbered(
        self, transform: Callable[[int, Array, Array], tuple[Array, Array]], *, may_miss: bool = False
    ) -> RowBlocks:
        """Apply a function of a block and of the number of its first row.

        Parameters
        ----------
        transform : callable
            Called as ``transform(first_row, X, Y)``; may leave out rows.
        may_miss : bool
            As in `map`.

        Returns
        -------
        RowBlocks
            The transformed source, executed as this one is.
        """
        inner = self.source
        source = _Mapped(inner, transform, may_miss or (isinstance(inner, _Mapped) and inner.may_miss))
        return RowBlocks(partial(_pairs, source), source, self.passes)

    def executed(self, *, engine: Engine | None = None, journal: Journal | None = None) -> RowBlocks:
        """Return the same rows with passes executed elsewhere, or remembered, and counted from zero.

        Parameters
        ----------
        engine : Engine, optional
            Where sums are computed; as before if omitted.
        journal : Journal, optional
            What remembers passes; as before if omitted.

        Returns
        -------
        RowBlocks
            The rows.
        """
        passes = Passes(engine or self.passes.engine, journal or self.passes.journal)
        return replace(self, passes=passes)

    def widths(self) -> tuple[int, int]:
        """Return the numbers of inputs and outputs, from the first block.

        Returns
        -------
        tuple of int
            d and m.
        """
        for block in self.source.blocks(0, None):
            return int(block.X.shape[1]), int(block.Y.shape[1])
        raise BadInputError("the data have 0 sample(s)")

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        for block in self.source.blocks(0, None):
            yield block.X, block.Y


@dataclass(frozen=True, slots=True)
class ArraySource:
    """Arrays in memory, cut into blocks of equal length.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs.
    Y : ndarray of shape (n, m)
        Outputs.
    block_rows : int
        Rows in a block.
    first_part : int
        Number of the part that begins with the first row here: an excerpt keeps the numbers of the whole.
    """

    X: npt.NDArray[Any]
    Y: npt.NDArray[Any]
    block_rows: int = DEFAULT_BLOCK_ROWS
    first_part: int = 0

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return self.first_part + -(-len(self.X) // (PART_BLOCKS * self.block_rows))

    def excerpt(self, first: int, last: int) -> ArraySource:
        """Return some parts alone, as they are sent to a worker.

        Parameters
        ----------
        first, last : int
            The parts.

        Returns
        -------
        ArraySource
            Their rows.
        """
        step = PART_BLOCKS * self.block_rows
        rows = slice((first - self.first_part) * step, (last - self.first_part) * step)
        return ArraySource(np.array(self.X[rows]), np.array(self.Y[rows]), self.block_rows, first)

    def blocks(self, first: int, last: int | None) -> Iterator[Block]:
        """Yield the blocks of some parts.

        Parameters
        ----------
        first : int
            First part.
        last : int or None
            End, not included.

        Yields
        ------
        Block
            The rows.
        """
        step, offset = self.block_rows, self.first_part * PART_BLOCKS
        shape: tuple[int, int] | None = None
        end = -(-len(self.X) // step) + offset
        for number in range(first * PART_BLOCKS, end if last is None else min(last * PART_BLOCKS, end)):
            rows = slice((number - offset) * step, (number - offset + 1) * step)
            X, Y = checked_pair(number, self.X[rows], self.Y[rows], shape)
            shape = X.shape[1], Y.shape[1]
            yield Block(number // PART_BLOCKS, number, number * step, X, Y)


@dataclass(frozen=True, slots=True)
class _Stream:
    """A plain iterable of pairs; parts are counted as they come."""

    open: Callable[[], Iterable[tuple[Array, Array]]]

    @property
    def n_parts(self) -> None:
        return None

    def blocks(self, first: int, last: int | None) -> Iterator[Block]:
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


@dataclass(frozen=True, slots=True)
class _Mapped:
    """Rows seen through a function."""

    inner: RowSource
    transform: Callable[[int, Array, Array], tuple[Array, Array]]
    may_miss: bool = False  # whether outputs may be NaN: a missing label

    @property
    def n_parts(self) -> int | None:
        return self.inner.n_parts

    def blocks(self, first: int, last: int | None) -> Iterator[Block]:
        shape: tuple[int, int] | None = None
        for block in self.inner.blocks(first, last):
            pair = self.transform(block.first_row, block.X, block.Y)
            X, Y = checked_pair(block.number, *pair, shape, may_miss=self.may_miss)
            shape = X.shape[1], Y.shape[1]
            yield block._replace(X=X, Y=Y)


def root_of(source: RowSource) -> RowSource:
    """Return the rows as they are stored, before any function of them.

    Parameters
    ----------
    source : RowSource
        Rows, perhaps seen through functions.

    Returns
    -------
    RowSource
        The innermost source.
    """
    return root_of(source.inner) if isinstance(source, _Mapped) else source


def with_root(source: RowSource, root: RowSource) -> RowSource:
    """Return the same functions of other rows.

    Parameters
    ----------
    source : RowSource
        Rows, perhaps seen through functions.
    root : RowSource
        What to put in the place of the innermost source.

    Returns
    -------
    RowSource
        The functions of the new rows.
    """
    if not isinstance(source, _Mapped):
        return root
    return _Mapped(with_root(source.inner, root), source.transform, source.may_miss)


def checked_pair(
    number: int,
    X: npt.NDArray[Any],
    Y: npt.NDArray[Any],
    shape: tuple[int, int] | None,
    *,
    may_miss: bool = False,
) -> tuple[Array, Array]:
    """Return a block as float64 arrays of the right shapes, or refuse it by its number.

    Parameters
    ----------
    number : int
        Number of the block.
    X : ndarray of shape (rows, d)
        Inputs.
    Y : ndarray of shape (rows, m) or (rows,)
        Outputs.
    shape : tuple of int or None
        Widths of the blocks before it.
    may_miss : bool
        Whether outputs may be NaN.

    Returns
    -------
    tuple of ndarray
        The checked block.
    """
    check_time()
    inputs, outputs = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
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


def _pairs(source: RowSource) -> Iterator[tuple[Array, Array]]:
    for block in source.blocks(0, None):
        yield block.X, block.Y


def _without_number(
    transform: Callable[[Array, Array], tuple[Array, Array]], first_row: int, X: Array, Y: Array
) -> tuple[Array, Array]:
    return transform(X, Y)
