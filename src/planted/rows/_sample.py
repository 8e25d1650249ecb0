"""A uniform sample of rows in one pass, the same for any number of readers.

Every row gets a random key by its number, and the rows with the smallest keys are kept. The key of row i is the i-th
number of a stream that can be entered anywhere, so that the sample depends on the seed and on the rows, but not on
blocks or workers. When the number of rows is known, rows whose key is too large are dropped where they are read: only
the sample travels, not a sample of every part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from planted._typing import Array
from planted.rows._blocks import RowBlocks
from planted.rows._passes import accumulate
from planted.rows._sums import Sums

__all__ = ["RowSample", "sample_rows"]

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


@dataclass(frozen=True, slots=True)
class SampleSummand:
    """Draws the keys of a block."""

    size: int  # rows wanted
    state: dict[str, Any]  # state of the generator at the key of row zero
    highest: float = 1.0  # keys above are dropped at once

    def __call__(self, first_row: int, X: Array, Y: Array) -> RowSample:
        """Return the sample of a block."""
        stream = np.random.PCG64()
        stream.state = self.state  # type: ignore[assignment]  # a plain dict of the same keys
        keys = np.random.Generator(stream.advance(first_row)).random(len(X))
        chosen = keys <= self.highest
        return RowSample(self.size, len(X), keys[chosen], X[chosen], Y[chosen]).cut()


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
    sample = accumulate(blocks, SampleSummand(max_rows, dict(stream.state), highest))
    stream.advance(sample.seen)
    return sample.X, sample.Y
