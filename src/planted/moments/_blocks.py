"""Rows in blocks: the only way in which the library reads data.

`RowBlocks` is a re-iterable source of ``(X, Y)`` row blocks. Arrays in memory, memory maps, files and generators all
become one, so that every sum over rows is written once and memory stays at one block plus the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from planted._clock import check_time
from planted._typing import Array
from planted.outcomes import BadInputError

__all__ = ["DEFAULT_BLOCK_ROWS", "RowBlocks", "sample_rows"]

DEFAULT_BLOCK_ROWS = 4096


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """A source of row blocks that can be read several times.

    Parameters
    ----------
    open : callable
        Returns a fresh iterable of ``(X, Y)`` pairs of arrays of shapes (rows, d) and (rows, m).

    Examples
    --------
    >>> blocks = RowBlocks.from_arrays(np.eye(3), np.ones((3, 1)), block_rows=2)
    >>> [len(rows) for rows, _ in blocks]
    [2, 1]
    """

    open: Callable[[], Iterable[tuple[Array, Array]]]

    @classmethod
    def from_arrays(cls, X: Array, Y: Array, *, block_rows: int = DEFAULT_BLOCK_ROWS) -> RowBlocks:
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

        def slices() -> Iterator[tuple[Array, Array]]:
            for start in range(0, len(X), block_rows):
                yield X[start : start + block_rows], Y[start : start + block_rows]

        return cls(slices)

    def map(self, transform: Callable[[Array, Array], tuple[Array, Array]]) -> RowBlocks:
        """Apply a function to every block as it is read.

        Parameters
        ----------
        transform : callable
            Takes and returns a pair of arrays with the same number of rows.

        Returns
        -------
        RowBlocks
            The transformed source.
        """
        source = self

        def transformed() -> Iterator[tuple[Array, Array]]:
            for X, Y in source:
                yield transform(X, Y)

        return RowBlocks(transformed)

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        shape: tuple[int, int] | None = None
        for number, (X, Y) in enumerate(self.open()):
            check_time()
            inputs, outputs = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
            if outputs.ndim == 1:
                outputs = outputs[:, None]
            if inputs.ndim != 2 or outputs.ndim != 2 or len(inputs) != len(outputs):
                raise BadInputError(
                    f"block {number}: X has shape {inputs.shape} and Y {outputs.shape}; expected (rows, d) and (rows, m)"
                )
            shape = shape or (inputs.shape[1], outputs.shape[1])
            if (inputs.shape[1], outputs.shape[1]) != shape:
                here = f"{inputs.shape[1]} inputs and {outputs.shape[1]} outputs"
                raise BadInputError(f"block {number} has {here}; the first had {shape[0]} and {shape[1]}")
            if not (np.isfinite(inputs).all() and np.isfinite(outputs).all()):
                raise BadInputError(f"block {number} contains NaN or infinity")
            yield inputs, outputs


def sample_rows(blocks: RowBlocks, max_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw a uniform sample of rows in one pass, in their original order.

    Parameters
    ----------
    blocks : RowBlocks
        The source.
    max_rows : int
        At most this many rows are kept; all of them if there are fewer.
    rng : numpy.random.Generator
        Every row gets a random key, the smallest keys win.

    Returns
    -------
    X : ndarray of shape (rows, d)
        The sampled inputs.
    Y : ndarray of shape (rows, m)
        The sampled outputs.
    """
    kept: list[tuple[Array, Array, Array]] = []
    for X, Y in blocks:
        kept.append((rng.random(len(X)), X, Y))
        if sum(len(keys) for keys, _, _ in kept) > 2 * max_rows:
            kept = [_smallest_keys(kept, max_rows)]
    if not kept:
        raise BadInputError("the data have 0 sample(s)")
    _, inputs, outputs = _smallest_keys(kept, max_rows)
    return inputs, outputs


def _smallest_keys(parts: list[tuple[Array, Array, Array]], count: int) -> tuple[Array, Array, Array]:
    keys, inputs, outputs = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    if len(keys) > count:
        chosen = np.sort(np.argpartition(keys, count)[:count])
        keys, inputs, outputs = keys[chosen], inputs[chosen], outputs[chosen]
    return keys, inputs, outputs
