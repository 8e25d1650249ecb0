"""Rows in blocks: the only way in which the library reads data.

`RowBlocks` is a source of ``(X, Y)`` row blocks that can be read several times. Arrays in memory, memory maps, files,
generators and Dask collections all become one, so that every sum over rows is written once and memory stays at one
block plus the sums.

Sixteen blocks form a part, which is the unit of work, of a checkpoint and of the tree in which sums are merged. A
source that can be entered at any part can be read by many workers; a plain stream is read from its beginning, by one
reader.

Numbers travel as they are stored (float32 stays float32 in memory and on disk) and become float64 block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy.typing as npt

from planted._typing import Array, as_array
from planted.outcomes import BadInputError
from planted.rows._passes import Engine, Journal, Passes
from planted.rows._sources import DEFAULT_BLOCK_ROWS, ArraySource, Mapped, RowSource, Stream, Weighted

__all__ = ["RowBlocks"]


@dataclass(frozen=True, slots=True, repr=False)
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
    >>> import numpy as np
    >>> blocks = RowBlocks.from_arrays(np.eye(3), np.ones((3, 1)), block_rows=2)
    >>> [len(rows) for rows, _ in blocks]
    [2, 1]
    >>> blocks
    RowBlocks(3 rows, d=3, m=1, blocks of 2, arrays)
    """

    open: Callable[[], Iterable[tuple[Array, Array]]]
    entry: RowSource | None = None
    passes: Passes = field(default_factory=Passes, compare=False)

    @classmethod
    def from_arrays(
        cls,
        X: npt.NDArray[Any],
        Y: npt.NDArray[Any],
        *,
        block_rows: int = DEFAULT_BLOCK_ROWS,
        weights: npt.NDArray[Any] | None = None,
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
        weights : ndarray of shape (n,), optional
            Weights of the rows; those of weight zero are left out.

        Returns
        -------
        RowBlocks
            The blocks, in order.
        """
        blocks = cls.from_source(ArraySource(X, Y, block_rows))
        return blocks if weights is None else blocks.weighted(weights)

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
        return self.entry if self.entry is not None else Stream(self.open)

    @property
    def is_weighted(self) -> bool:
        """Whether the rows carry weights."""
        return self.source.is_weighted

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
            Called as ``transform(first_row, X, Y)``; may leave out rows if they carry no weights.
        may_miss : bool
            As in `map`.

        Returns
        -------
        RowBlocks
            The transformed source, executed as this one is.
        """
        inner = self.source
        is_missing = may_miss or (isinstance(inner, Mapped) and inner.may_miss)
        return self._seen_as(Mapped(inner, transform, is_missing))

    def weighted(self, weights: npt.ArrayLike) -> RowBlocks:
        """Return the same rows with weights beside them; rows of weight zero are left out.

        Parameters
        ----------
        weights : array_like of shape (n,)
            Finite, zero or more; refused by row, where they are read, if they are not.

        Returns
        -------
        RowBlocks
            The weighted rows, executed as these are.

        Examples
        --------
        >>> import numpy as np
        >>> blocks = RowBlocks.from_arrays(np.eye(3), np.ones((3, 1))).weighted([1.0, 0.0, 2.0])
        >>> [block.w for block in blocks.source.blocks(0, None)]
        [array([1., 2.])]
        """
        values, source = as_array(weights), self.source
        if not isinstance(source, ArraySource):
            return self._seen_as(Weighted(source, values))
        if values.shape != (len(source.X),):
            raise BadInputError(f"the weights have shape {values.shape}; expected ({len(source.X)},)")
        return self._seen_as(replace(source, w=values))

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
        return _pairs(self.source)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source!r})"

    def _seen_as(self, source: RowSource) -> RowBlocks:
        return RowBlocks(partial(_pairs, source), source, self.passes)


def _pairs(source: RowSource) -> Iterator[tuple[Array, Array]]:
    for block in source.blocks(0, None):
        yield block.X, block.Y


def _without_number(
    transform: Callable[[Array, Array], tuple[Array, Array]], first_row: int, X: Array, Y: Array
) -> tuple[Array, Array]:
    return transform(X, Y)
