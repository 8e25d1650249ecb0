"""A summary of rows that merges in any order: moments of all rows, and a sample fixed by the set of rows alone.

The key of a row is a hash of its numbers, and the rows with the smallest keys are kept, sorted by key. Two summaries
of the same rows hold the same sample, bit by bit, whatever the order in which the rows came and wherever they were
summed. While there are no more rows than the sample holds, it contains all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from planted._typing import Array
from planted._validation import hash_rows, mix_bits
from planted.moments._gram import RowMoments
from planted.outcomes import BadInputError
from planted.rows._blocks import RowBlocks
from planted.rows._passes import Sums, accumulate

__all__ = ["RowSummary", "row_keys", "summarise_rows"]


@dataclass(frozen=True, slots=True)
class RowSummary(Sums):
    """Moments of all rows and a sample of them."""

    size: int  # at most so many rows are kept
    count: int  # number of rows
    mean: Array  # (d + m,): mean of the rows (x, y)
    scatter: Array  # (d + m, d + m): sum of outer products of the centred rows
    keys: npt.NDArray[np.uint64]  # (kept,): hashes of the kept rows, ascending
    X: Array  # (kept, d): their inputs
    Y: Array  # (kept, m): their outputs

    @property
    def holds_all_rows(self) -> bool:
        """Whether no row was left out."""
        return len(self.keys) == self.count

    @property
    def moments(self) -> RowMoments:
        """Count, mean and scatter of all rows."""
        return RowMoments(self.count, self.mean, self.scatter)

    def merge(self, other: RowSummary) -> RowSummary:
        """Return the summary of both sets of rows."""
        shapes = [(part.X.shape[1], part.Y.shape[1]) for part in (self, other)]
        if shapes[0] != shapes[1]:
            raise BadInputError(
                f"sums of {shapes[0][0]} inputs and {shapes[0][1]} outputs cannot be merged with sums of "
                f"{shapes[1][0]} and {shapes[1][1]}"
            )
        moments = self.moments.merge(other.moments)
        rows = (np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("keys", "X", "Y"))
        return _kept(min(self.size, other.size), moments, *rows)


def summarise_rows(blocks: RowBlocks, size: int) -> RowSummary:
    """Summarise rows in one pass."""
    return accumulate(blocks, partial(_summarise_block, size))


def _summarise_block(size: int, first_row: int, X: Array, Y: Array) -> RowSummary:
    """Summarise a block; so many rows are kept."""
    return _kept(size, RowMoments.of(np.hstack([X, Y])), row_keys(X, Y), X, Y)


def _kept(size: int, moments: RowMoments, keys: npt.NDArray[np.uint64], X: Array, Y: Array) -> RowSummary:
    """Keep the smallest keys, in their order; equal keys are equal rows."""
    order = np.argsort(keys, kind="stable")[:size]
    return RowSummary(size, moments.count, moments.mean, moments.scatter, keys[order], X[order], Y[order])


def row_keys(X: Array, Y: Array) -> npt.NDArray[np.uint64]:
    """Return the key of every row, a hash of its numbers; sorted by it, rows stand in an order that is theirs alone.

    Shapes: X (n, d), Y (n, m), result (n,).
    """
    return mix_bits(
        hash_rows(X, Y)
    )  # once more, so that small keys are as likely for round numbers as for others
