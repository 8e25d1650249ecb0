"""Keep rows that arrive in parts, for a fit to all of them in an order that does not depend on how they arrived.

Small tables stay in memory. From `HELD_BYTES` on the rows are written to a temporary file without a name, which takes
8 (d + m) bytes of the disk per row, in the folder that `TMPDIR` names. The file disappears with the store or with the
process, however that ends. The hashes by which rows are sorted stay in memory: 8 bytes per row, and as many again while
rows are read.
"""

from __future__ import annotations

import tempfile
import weakref
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from planted._typing import Array
from planted.moments import row_keys
from planted.outcomes import BadInputError
from planted.rows import ArraySource, RowBlocks

__all__ = ["RowStore", "in_own_order"]

HELD_BYTES = 64_000_000


class RowStore:
    """The rows of all calls so far.

    A copy or a pickle contains the rows themselves and keeps them in a file of its own.

    Examples
    --------
    >>> first, second = RowStore(), RowStore()
    >>> X, Y = np.arange(6.0)[:, None], np.ones((6, 1))
    >>> for part in (slice(0, 4), slice(4, 6)):
    ...     first.add(X[part], Y[part])
    >>> for part in (slice(4, 6), slice(0, 4)):
    ...     second.add(X[part], Y[part])
    >>> all((a == b).all() for (a, _), (b, _) in zip(first.blocks(), second.blocks(), strict=True))
    True
    """

    def __init__(self) -> None:
        self._keys: list[npt.NDArray[np.uint64]] = []
        self._held: list[Array] = []
        self._file: IO[bytes] | None = None
        self._width: int | None = None
        self._n_inputs = 0

    def __len__(self) -> int:
        return sum(map(len, self._keys))

    def add(self, X: Array, Y: Array) -> None:
        """Keep further rows.

        Shapes: X (rows, d), Y (rows, m).
        """
        shape = X.shape[1], X.shape[1] + Y.shape[1]
        if self._width is not None and shape != (self._n_inputs, self._width):
            raise BadInputError(
                f"y has {Y.shape[1]} outputs, earlier rows had {self._width - self._n_inputs}; expected as many"
            )
        rows = np.hstack([X, Y])
        self._n_inputs, self._width = shape
        if self._file is None and (len(self) + len(rows)) * self._width * 8 <= HELD_BYTES:
            self._held.append(rows)
        else:
            self._write([*self._held, rows])
            self._held = []
        self._keys.append(row_keys(X, Y))

    def blocks(self) -> RowBlocks:
        """Return all rows, sorted by their keys."""
        rows = self._rows()
        return in_own_order(rows[:, : self._n_inputs], rows[:, self._n_inputs :], np.concatenate(self._keys))

    def _rows(self) -> npt.NDArray[Any]:
        """Return all rows in the order of the calls, from memory or mapped from the file."""
        if self._file is None:
            self._held = [np.concatenate(self._held)]
            return self._held[0]
        shape = (len(self), self._width or 0)
        return np.memmap(self._file, dtype=np.float64, mode="r", shape=shape)

    def _write(self, parts: list[Array]) -> None:
        """Append to the file; if the disk is full, the file keeps what it had."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="planted-")  # noqa: SIM115 - it is closed with the store
            weakref.finalize(self, self._file.close)
        before = self._file.seek(0, 2)
        try:
            for part in parts:
                self._file.write(np.ascontiguousarray(part).data)
            self._file.flush()
        except OSError as error:
            self._file.truncate(before)
            needed = before + sum(part.nbytes for part in parts)
            raise BadInputError(
                f"the rows so far need {needed / 1e9:,.2f} GB in {tempfile.gettempdir()}, which could not be written "
                f"({error.strerror}). Let TMPDIR name a folder with more room; rows of earlier calls are kept."
            ) from error

    def __getstate__(self) -> dict[str, Any]:
        rows = np.array(self._rows()) if self._keys else None
        return {"rows": rows, "n_inputs": self._n_inputs}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]  # an empty store, filled with the rows
        if state["rows"] is not None:
            self.add(state["rows"][:, : state["n_inputs"]], state["rows"][:, state["n_inputs"] :])


def in_own_order(
    X: npt.NDArray[Any], Y: npt.NDArray[Any], keys: npt.NDArray[np.uint64] | None = None
) -> RowBlocks:
    """Return rows sorted by their keys, so that the order in which they were given does not matter.

    A small table is sorted once; a large one is gathered block by block from where it lies. Shapes: X (n, d),
    Y (n, m), keys (n,).
    """
    order = np.argsort(row_keys(X, Y) if keys is None else keys, kind="stable")
    if X.nbytes + Y.nbytes <= HELD_BYTES:
        return RowBlocks.from_arrays(X[order], Y[order])
    return RowBlocks.from_source(ArraySource(X, Y, order=order))
