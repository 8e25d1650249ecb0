"""Which rows a checkpoint belongs to: a hash of every block, taken while the blocks are read.

The identity of rows is the SHA-256 of the hashes of their blocks, in order; the hash of a block covers the number of its
first row, the shapes and every byte of inputs, outputs and weights. It is of the rows as they are summed, not of a file's
bytes: columns that are not read do not count, and a table written again with the same numbers is the same table. The first
pass of a run hashes the rows it reads anyway, at about 500 MB of numbers a second; what is kept of an interrupted first
pass carries the identity of the rows up to there. A resumed run hashes all rows before it uses anything that was kept. On a
cluster the hashes are a pass of their own, which the workers compute. Both happen when the first sum is asked for, so that
the time budget of the run holds for them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from planted._typing import Array, Json
from planted.outcomes import BadInputError
from planted.rows import (
    Block,
    Engine,
    RowBlocks,
    RowSource,
    StoredWeights,
    Summand,
    Sums,
    accumulate,
    root_of,
)
from planted.rows._passes import LocalEngine
from planted.rows._sources import Mapped, View, Weighted

__all__ = ["HashingEngine", "RowIdentity", "views_above"]

S = TypeVar("S", bound=Sums)


@dataclass(slots=True)
class RowIdentity:
    """What is known of the identity of the rows of a run."""

    source: RowSource  # the rows as they were given to the run
    name: str | None = None  # the caller's word for which rows they are; nothing is hashed then
    is_whole: bool = field(default=False, init=False)  # whether all rows were hashed
    _digests: list[bytes] = field(default_factory=list, init=False)  # of each block that has rows
    _ends: list[int] = field(default_factory=list, init=False)  # blocks up to the end of each part
    _stamps: list[tuple[int, ...]] | None = field(default=None, init=False)

    def read(self, engine: Engine | None = None) -> None:
        """Hash all rows, in a pass of its own."""
        if self.name is not None or self.is_whole:
            return
        self._stamps = _stamps_of(self.source)
        found = accumulate(RowBlocks.from_source(self.source).executed(engine=engine), DigestSummand())
        self._digests, self._ends = [row.tobytes() for row in found.values], []
        self.is_whole = True

    def mark(self, n_parts: int | None = None) -> Json | None:
        """Return the identity of all rows, or of the first parts; None if these were not hashed."""
        if self.name is not None:
            return {"name": self.name}
        if self.is_whole:
            return self._mark_of(len(self._digests))
        if n_parts is None or n_parts > len(self._ends):
            return None
        return self._mark_of(self._ends[n_parts - 1] if n_parts else 0)

    def agrees_with(self, mark: Any) -> bool:
        """Return whether something was summed over these rows, or over the first of them."""
        if self.name is not None:
            return bool(mark == {"name": self.name})
        count = mark.get("blocks") if isinstance(mark, dict) else None
        return type(count) is int and 0 <= count <= len(self._digests) and self._mark_of(count) == mark

    def check_files(self) -> None:
        """Refuse to go on if a file was changed since it was hashed."""
        if self._stamps is not None and self._stamps != _stamps_of(self.source):
            paths = ", ".join(map(str, _paths_of(self.source)[:3]))
            raise BadInputError(f"{paths} changed while the run was reading it. Run again on the new rows.")

    def watching(self, source: RowSource, first: int) -> RowSource:
        """Return the same rows, hashed on the way if hashes of the rows from part ``first`` on are still missing."""
        if self.name is not None or self.is_whole or first > len(self._ends):
            return source
        watched = _replaced(source, self.source, Watched(self.source, self))
        if watched is None:
            return source
        del self._ends[first:]
        del self._digests[self._ends[-1] if self._ends else 0 :]
        if not first:
            self._stamps = _stamps_of(self.source)
        return watched

    def note(self, block: Block) -> None:
        """Hash the next block."""
        self.close_parts(block.part)
        if len(block.X):
            self._digests.append(_digest(block.first_row, block.X, block.Y, block.w))

    def close_parts(self, last: int) -> None:
        """Take note that no block of the parts before ``last`` will follow."""
        self._ends += [len(self._digests)] * (last - len(self._ends))

    def finish(self) -> None:
        """Take note that there are no more rows."""
        self.close_parts(len(self._ends) + 1)
        self.is_whole = True

    def _mark_of(self, count: int) -> Json:
        return {"blocks": count, "sha256": hashlib.sha256(b"".join(self._digests[:count])).hexdigest()}


@dataclass(frozen=True, slots=True)
class HashingEngine:
    """Sum in this process, and hash the rows on the way while that has not been done."""

    identity: RowIdentity

    def run(self, source: RowSource, summand: Summand[S], *, first: int) -> Iterator[tuple[int, S | None]]:
        """Yield the sums of every part."""
        return LocalEngine().run(self.identity.watching(source, first), summand, first=first)


@dataclass(frozen=True, slots=True, repr=False)
class Watched(View):
    """Rows that are hashed as they are read, from a part to the end."""

    identity: RowIdentity

    def blocks(self, first: int, last: int | None) -> Iterator[Block]:
        """Yield the blocks of some parts."""
        for block in self.inner.blocks(first, last):
            self.identity.note(block)
            yield block
        if last is None:
            self.identity.finish()


@dataclass(frozen=True, slots=True)
class RowDigests(Sums):
    """Hashes of consecutive blocks."""

    values: npt.NDArray[np.uint8]  # (blocks, 32)

    def merge(self, other: RowDigests) -> RowDigests:
        """Put the hashes of later blocks behind."""
        return RowDigests(np.concatenate([self.values, other.values]))


@dataclass(frozen=True, slots=True)
class DigestSummand:
    """The hash of a block, wherever it is read."""

    weights: StoredWeights = field(default_factory=StoredWeights)

    def __call__(self, first_row: int, X: Array, Y: Array) -> RowDigests:
        """Hash a block."""
        digest = _digest(first_row, X, Y, self.weights.values)
        return RowDigests(np.frombuffer(digest, dtype=np.uint8)[None])


def _digest(first_row: int, X: Array, Y: Array, w: Array | None) -> bytes:
    digest = hashlib.sha256(repr((first_row, X.shape, Y.shape, w is not None)).encode())
    for array in (X, Y) if w is None else (X, Y, w):
        digest.update(np.ascontiguousarray(array, dtype="<f8").data)
    return digest.digest()


def views_above(source: RowSource, given: RowSource) -> list[object]:
    """Return what makes the rows that are summed out of the given ones: functions and weights, the last one first."""
    if source is given or not isinstance(source, Mapped | Weighted):
        return []
    own = source.w if isinstance(source, Weighted) else (source.transform, source.may_miss)
    return [own, *views_above(source.inner, given)]


def _replaced(source: RowSource, given: RowSource, new: RowSource) -> RowSource | None:
    """Return the same functions of the rows with others in the place of the given ones; None if these are not there."""
    if source is given:
        return new
    inner = _replaced(source.inner, given, new) if isinstance(source, Mapped | Weighted) else None
    return None if inner is None else replace(source, inner=inner)  # type: ignore[type-var]


def _paths_of(source: RowSource) -> tuple[str, ...]:
    return tuple(getattr(root_of(source), "paths", ()))


def _stamps_of(source: RowSource) -> list[tuple[int, ...]]:
    """Return size, time and number of every file that the rows are read from."""
    found = [os.stat(path) for path in _paths_of(source)]
    return [(info.st_size, info.st_mtime_ns, info.st_ino) for info in found]
