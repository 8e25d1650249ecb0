"""A pass over the rows: the one place where a sum over all data is executed.

`accumulate` asks an engine for the sums of branches of parts, in order, and merges them in the tree of
`planted.rows._sums`. The engine decides where the branches are computed (`LocalEngine` here, a Dask cluster in
`planted.distributed`). If there is a journal, it keeps what is done, so that an interrupted run continues where it
stopped. Neither changes a bit of the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from planted.outcomes import BadInputError
from planted.rows._sums import Sums, SumTree
from planted.rows._weights import bind_weights

if TYPE_CHECKING:
    from planted._typing import Array
    from planted.rows._blocks import RowBlocks
    from planted.rows._sources import RowSource

__all__ = ["Engine", "Journal", "LocalEngine", "Passes", "Summand", "accumulate", "sum_branch"]

S = TypeVar("S", bound=Sums)
S_co = TypeVar("S_co", bound=Sums, covariant=True)


class Summand(Protocol[S_co]):
    """What is summed: called on a block with the number of its first row."""

    def __call__(self, first_row: int, X: Array, Y: Array) -> S_co:
        """Return the sums of a block of at least one row."""


class Engine(Protocol):
    """Where branches of parts are summed."""

    def run(self, source: RowSource, summand: Summand[S], *, first: int) -> Iterator[tuple[int, S | None]]:
        """Yield ``(level, sums)`` of consecutive branches, beginning with part ``first``."""


class Journal(Protocol):
    """What remembers passes."""

    def open_pass(self, number: int, summand: Summand[S]) -> SumTree[S] | S:
        """Return the sums of a pass that is complete, else the tree to go on with."""

    def note(self, number: int, tree: SumTree[Any]) -> None:
        """Take note of one more branch; called often, need not write."""

    def save(self, number: int, tree: SumTree[Any]) -> None:
        """Write the tree of an interrupted pass."""

    def close_pass(self, number: int, total: Sums) -> None:
        """Write the sums of a complete pass."""


@dataclass(slots=True)
class Passes:
    """How the passes over a source are executed, and how many there were."""

    engine: Engine | None = None  # where; None for this process
    journal: Journal | None = None  # what remembers them
    count: int = field(default=0, compare=False)  # passes so far


class LocalEngine:
    """Sum in this process, part after part."""

    def run(self, source: RowSource, summand: Summand[S], *, first: int) -> Iterator[tuple[int, S | None]]:
        """Yield the sums of every part."""
        for part in _sum_parts(source, summand, first, None):
            yield 0, part


def accumulate(blocks: RowBlocks, summand: Summand[S]) -> S:
    """Sum over all rows: one pass.

    The sums have the same bits for the same blocks wherever they are computed. Raises `BadInputError` if there is no
    row.

    Examples
    --------
    >>> import numpy as np
    >>> from planted.moments._gram import JointSummand
    >>> from planted.rows import RowBlocks
    >>> blocks = RowBlocks.from_arrays(np.arange(6.0)[:, None], np.ones((6, 1)), block_rows=4)
    >>> accumulate(blocks, JointSummand()).mean, blocks.passes.count
    (array([2.5, 1. ]), 1)
    """
    passes = blocks.passes
    passes.count += 1
    number, journal = passes.count, passes.journal
    tree: SumTree[S] = SumTree()
    if journal is not None:
        found = journal.open_pass(number, summand)
        if not isinstance(found, SumTree):
            return found
        tree = found
    engine = passes.engine or LocalEngine()
    try:
        for level, node in engine.run(blocks.source, summand, first=tree.n_parts):
            tree.push(node, level)
            if journal is not None:
                journal.note(number, tree)
    except BaseException:  # Ctrl-C, a lost cluster, a bad block: what is done is done
        if journal is not None:
            journal.save(number, tree)
        raise
    total = tree.total()
    if total is None:
        what = "all weights are zero: the data have" if blocks.is_weighted else "the data have"
        raise BadInputError(f"{what} 0 sample(s)")
    if journal is not None:
        journal.close_pass(number, total)
    return total


def sum_branch(source: RowSource, summand: Summand[S], first: int, last: int) -> S | None:
    """Return the sums of parts ``first``, ..., ``last - 1`` as one node of the tree."""
    tree: SumTree[S] = SumTree()
    for part in _sum_parts(source, summand, first, last):
        tree.push(part)
    return tree.total()


def _sum_parts(source: RowSource, summand: Summand[S], first: int, last: int | None) -> Iterator[S | None]:
    """Yield the sums of each part, blocks merged from left to right."""
    part, total = first, None
    for block in source.blocks(first, last):
        while block.part > part:
            yield total
            part, total = part + 1, None
        if len(block.X):
            sums = bind_weights(summand, block.first_row, block.w)(block.first_row, block.X, block.Y)
            total = sums if total is None else total.merge(sums)
    yield total
