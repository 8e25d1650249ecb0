"""A hash of every row: the same rows have the same number, wherever they stand.

Repeated rows are counted by it, and a sample of rows that does not depend on their order is chosen by it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from planted._typing import Array

__all__ = ["hash_rows"]

BLOCK_VALUES = 1 << 20  # values hashed together: 8 MB


def hash_rows(X: Array, Y: Array) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash of every row of ``[X, Y]``, the same wherever the row stands.

    Shapes: X (n, d), Y (n, m), result (n,).

    Examples
    --------
    >>> X, Y = np.array([[1.0], [2.0], [1.0]]), np.zeros((3, 1))
    >>> [int(np.sum(hash_rows(X, Y) == value)) for value in hash_rows(X, Y)]
    [2, 1, 2]
    """
    hashes = np.zeros(len(X), dtype=np.uint64)
    for values, salt in ((X, 1), (Y, 2)):
        keys = np.random.SeedSequence(salt).generate_state(values.shape[1], np.uint64) | np.uint64(1)
        step = max(1, BLOCK_VALUES // values.shape[1])
        for start in range(0, len(values), step):
            block = values[start : start + step]
            # + 0.0 makes one zero of the two. The mixing spreads the leading bits, where round numbers
            # differ, over the whole word before the columns are added up (Steele, Lea, Flood 2014).
            word = (np.ascontiguousarray(block) + 0.0).view(np.uint64) ^ keys
            word ^= word >> np.uint64(30)
            word *= np.uint64(0xBF58476D1CE4E5B9)
            word ^= word >> np.uint64(27)
            word *= np.uint64(0x94D049BB133111EB)
            word ^= word >> np.uint64(31)
            hashes[start : start + len(block)] += (word * keys).sum(axis=1, dtype=np.uint64)
    return hashes
