"""Rows of a source seen through a function, or with weights beside them.

Views are stacked. `root_of` finds the rows as they are stored, and `with_root` puts others in their place; this is
how a worker that has been sent some rows sees them through the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from planted._typing import Array
from planted.rows._sources import Block, RowSource, checked_pair, weighed_block
from planted.rows._weights import bind_weights

__all__ = ["Mapped", "Weighted", "has_weights", "root_of", "with_root"]


@dataclass(frozen=True, slots=True, repr=False)
class Mapped(RowSource):
    """Rows seen through a function."""

    inner: RowSource  # the rows
    transform: Callable[[int, Array, Array], tuple[Array, Array]]  # called as ``transform(first_row, X, Y)``
    may_miss: bool = False  # whether outputs may be NaN: a missing label

    @property
    def n_parts(self) -> int | None:
        """Number of parts."""
        return self.inner.n_parts

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
class Weighted(RowSource):
    """Rows of another source with weights beside them."""

    inner: RowSource  # the rows
    w: Array  # (n,): weights of all of them

    @property
    def n_parts(self) -> int | None:
        """Number of parts."""
        return self.inner.n_parts

    def blocks(self, first: int, last: int | None) -> Iterator[Block]:
        """Yield the blocks of some parts; rows of weight zero are left out."""
        for block in self.inner.blocks(first, last):
            yield weighed_block(block, self.w[block.first_row : block.first_row + len(block.X)])

    def __repr__(self) -> str:
        return f"{self.inner!r}, weighted"


def has_weights(source: RowSource) -> bool:
    """Return whether the blocks of a source carry weights."""
    if isinstance(source, Mapped):
        return has_weights(source.inner)
    return isinstance(source, Weighted) or bool(getattr(source, "is_weighted", False))


def root_of(source: RowSource) -> RowSource:
    """Return the rows as they are stored, before any function of them."""
    return root_of(source.inner) if isinstance(source, Mapped | Weighted) else source


def with_root(source: RowSource, root: RowSource) -> RowSource:
    """Return the same functions of other rows."""
    if isinstance(source, Mapped | Weighted):
        return replace(source, inner=with_root(source.inner, root))
    return root
