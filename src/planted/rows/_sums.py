"""Sums that merge, and the fixed tree in which they are merged.

Floating-point addition is not associative, so "the sum over all rows" is a number only once the order is fixed. Here
it is fixed by the data alone. Rows are cut into blocks and blocks into parts; the blocks of a part are merged from
left to right, and parts are the leaves of a tree of fan-in `FAN_IN`, merged from left to right at every node. The
bits do not depend on who computes a leaf or a whole branch, nor when: one process, many workers, and a run that was
interrupted and resumed give the same sum.

A `SumTree` holds one partial node for each level, so its memory is the logarithm of the number of parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt

from planted.outcomes import FileFormatError

__all__ = ["FAN_IN", "SumTree", "Sums", "kind_of", "pack_sums", "unpack_sums"]

FAN_IN = 8


class Sums:
    """Base of every set of sums: a frozen dataclass of numbers and arrays.

    Examples
    --------
    >>> @dataclass(frozen=True, slots=True)
    ... class Count(Sums):
    ...     rows: int
    >>> Count(2).merge(Count(3))
    Count(rows=5)
    """

    __slots__ = ()

    def merge(self, other: Self) -> Self:
        """Add two sets of sums, field by field."""
        names = [item.name for item in fields(self)]  # type: ignore[arg-type]  # every subclass is a dataclass
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


S = TypeVar("S", bound=Sums)


@dataclass(slots=True)
class SumTree(Generic[S]):
    """Partial sums of the parts seen so far, merged in the fixed order.

    Examples
    --------
    >>> from planted.moments._gram import RowMoments
    >>> tree = SumTree()
    >>> for value in range(20):
    ...     tree.push(RowMoments.of(np.array([[float(value)]])))
    >>> tree.n_parts, tree.total().mean, tree.counts
    (20, array([9.5]), [4, 2])
    """

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
    """Return the name of a class of sums by which files know it; classes of two modules may share a short name.

    Examples
    --------
    >>> from planted.moments import RowSummary
    >>> kind_of(RowSummary)
    'planted.moments._summary.RowSummary'
    """
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
