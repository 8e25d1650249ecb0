"""A pass over the rows: the one place where a sum over all data is executed, and the fixed tree that merges it.

Floating-point addition is not associative, so "the sum over all rows" is a number only once the order is fixed. Here
it is fixed by the data alone. Rows are cut into blocks and blocks into parts; the blocks of a part are merged from
left to right, and parts are the leaves of a tree of fan-in `FAN_IN`, merged from left to right at every node. The
bits do not depend on who computes a leaf or a whole branch, nor when: one process, many workers, and a run that was
interrupted and resumed give the same sum. A `SumTree` holds one partial node for each level, so its memory is the
logarithm of the number of parts.

`accumulate` asks an engine for the sums of branches of parts, in order, and merges them in the tree. The engine
decides where the branches are computed (`LocalEngine` here, a Dask cluster in `planted.distributed`). If there is a
journal, it keeps what is done, so that an interrupted run continues where it stopped. Neither changes a bit of the
result.

A uniform sample of rows is such a sum as well (`sample_rows`). Every row gets a random key by its number, and the rows
with the smallest keys are kept. The key of row i is the i-th number of a stream that can be entered anywhere, so that
the sample depends on the seed and on the rows, but not on blocks or workers. When the number of rows is known, rows
whose key is too large are dropped where they are read: only the sample travels, not a sample of every part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from planted._typing import Array
from planted.outcomes import BadInputError, FileFormatError
from planted.rows._sources import bind_weights

if TYPE_CHECKING:
    from planted.rows._blocks import RowBlocks
    from planted.rows._sources import RowSource


__all__ = [
    "FAN_IN",
    "Engine",
    "Journal",
    "LocalEngine",
    "Passes",
    "RowSample",
    "SumTree",
    "Summand",
    "Sums",
    "accumulate",
    "kind_of",
    "pack_sums",
    "sample_rows",
    "sum_branch",
    "unpack_sums",
]

FAN_IN = 8


class Sums:
    """Base of every set of sums: a frozen dataclass of numbers and arrays."""

    __slots__ = ()

    def merge(self, other: Self) -> Self:
        """Add two sets of sums, field by field."""
        names = [item.name for item in fields(self)]  # type: ignore[arg-type]  # every subclass is a dataclass
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


S = TypeVar("S", bound=Sums)


@dataclass(slots=True)
class SumTree(Generic[S]):
    """Partial sums of the parts seen so far, merged in the fixed order."""

    # Children merged so far into the open node of each level, lowest first; fewer than `FAN_IN`.
    counts: list[int] = field(default_factory=list)
    nodes: list[S | None] = field(default_factory=list)  # these open nodes; None where no row was seen

    @property
    def n_parts(self) -> int:
        """Number of parts pushed so far."""
        return sum(count * FAN_IN**level for level, count in enumerate(self.counts))

    def push(self, node: S | None, level: int = 0) -> None:
        """Append the sums of the next ``FAN_IN**level`` parts.

        `node`: their merged sums, as a tree of their own gives them; None if they hold no row. `level`: height of
        that branch; the parts seen so far must be a multiple of its size.
        """
        while len(self.counts) <= level:
            self.counts.append(0)
            self.nodes.append(None)
        self.nodes[level] = _merged(self.nodes[level], node)
        self.counts[level] += 1
        if self.counts[level] == FAN_IN:
            full, self.nodes[level], self.counts[level] = self.nodes[level], None, 0
            self.push(full, level + 1)

    def total(self) -> S | None:
        """Merge the open nodes, lowest last, without changing the tree; None if there was no row."""
        last: S | None = None
        for node in self.nodes:
            last = _merged(node, last)
        return last


def kind_of(sums: type) -> str:
    """Return the name of a class of sums by which files know it; classes of two modules may share a short name."""
    return f"{sums.__module__}.{sums.__qualname__}"


def pack_sums(sums: Sums) -> dict[str, npt.NDArray[Any]]:
    """Return sums as arrays for a file."""
    return {item.name: np.asarray(getattr(sums, item.name)) for item in fields(sums)}  # type: ignore[arg-type]


def unpack_sums(kind: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Sums:
    """Make sums of the arrays of `pack_sums`, bit by bit."""
    known = {kind_of(found): found for found in _kinds(Sums)}
    if kind not in known:
        raise FileFormatError(f"sums of the unknown kind {kind!r}; they were written by another version")
    names = [item.name for item in fields(known[kind])]  # type: ignore[arg-type]
    if set(names) != set(arrays):
        short = known[kind].__name__
        raise FileFormatError(f"sums of kind {short} with fields {sorted(arrays)}; expected {sorted(names)}")
    return known[kind](*(arrays[name] if arrays[name].ndim else arrays[name].item() for name in names))


def _kinds(base: type[Sums]) -> list[type[Sums]]:
    return [found for child in base.__subclasses__() for found in (child, *_kinds(child))]


def _merged(left: S | None, right: S | None) -> S | None:
    if left is None or right is None:
        return right if left is None else left
    return left.merge(right)


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

    def open_pass(self, number: int, summand: Summand[S], source: RowSource) -> SumTree[S] | S:
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
    """
    passes = blocks.passes
    passes.count += 1
    number, journal = passes.count, passes.journal
    tree: SumTree[S] = SumTree()
    if journal is not None:
        found = journal.open_pass(number, summand, blocks.source)
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


SPARE_DEVIATIONS = 8.0  # standard deviations of the number of rows below the cut: short once in 1e15 samples


@dataclass(frozen=True, slots=True)
class RowSample(Sums):
    """The rows of the smallest keys, in their original order."""

    size: int  # at most so many are kept
    seen: int  # rows they were drawn from
    keys: Array  # (rows,): their keys
    X: Array  # (rows, d): inputs
    Y: Array  # (rows, m): outputs

    def merge(self, other: RowSample) -> RowSample:
        """Return the smallest keys of both."""
        joined = (np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("keys", "X", "Y"))
        return RowSample(self.size, self.seen + other.seen, *joined).cut()

    def cut(self) -> RowSample:
        """Return no more rows than wanted."""
        if len(self.keys) <= self.size:
            return self
        chosen = np.sort(np.argpartition(self.keys, self.size)[: self.size])
        return RowSample(self.size, self.seen, self.keys[chosen], self.X[chosen], self.Y[chosen])


def _sample_block(
    size: int, state: dict[str, Any], highest: float, first_row: int, X: Array, Y: Array
) -> RowSample:
    """Draw the keys of a block from the generator's state at row zero; keys above the highest are dropped at once."""
    stream = np.random.PCG64()
    stream.state = state  # type: ignore[assignment]  # a plain dict of the same keys
    keys = np.random.Generator(stream.advance(first_row)).random(len(X))
    chosen = keys <= highest
    return RowSample(size, len(X), keys[chosen], X[chosen], Y[chosen]).cut()


def sample_rows(
    blocks: RowBlocks, max_rows: int, rng: np.random.Generator, *, n_rows: int | None = None
) -> tuple[Array, Array]:
    """Draw a uniform sample of the rows (X, Y) in one pass, in their original order.

    At most `max_rows` rows are kept. Every row gets a random key from `rng`, which is advanced, and the smallest keys
    win. If the number of rows `n_rows` is known, far fewer of them have to travel.
    """
    stream = rng.bit_generator
    # A stream that cannot be entered anywhere gives the seed of one that can.
    if not isinstance(stream, np.random.PCG64):
        stream = np.random.PCG64([int(word) for word in rng.integers(0, 2**32, size=4)])
    highest = 1.0
    if n_rows is not None and n_rows > max_rows:
        highest = min(1.0, (max_rows + SPARE_DEVIATIONS * np.sqrt(max_rows) + SPARE_DEVIATIONS**2) / n_rows)
    sample = accumulate(blocks, partial(_sample_block, max_rows, dict(stream.state), highest))
    stream.advance(sample.seen)
    return sample.X, sample.Y
