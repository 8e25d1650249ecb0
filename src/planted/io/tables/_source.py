"""What every table format offers to the readers, and the checks they share.

A format module looks at a file's head only and returns a `Source`: the column names, the number of rows
where the head tells it, and a function that streams chosen columns in blocks of rows. All values travel
as float64; missing ones as NaN, so that one place words the refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from planted._typing import Array
from planted.outcomes import FileFormatError

__all__ = ["Source", "damaged"]


@dataclass(frozen=True, slots=True)
class Source:
    """A table on disk, opened but not loaded."""

    path: Path  # the file
    names: tuple[str, ...]  # column names; the column numbers as text where the file has no names
    n_rows: int | None  # number of rows, where the head of the file tells it
    # ``blocks(columns, block_rows)`` yields arrays of shape (about `block_rows`, ``len(columns)``).
    blocks: Callable[[Sequence[int], int], Iterator[Array]]
    # Names that stand for several columns: the arrays of an `.npz` archive.
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    # ``blocks_from(columns, block_rows, row)`` begins at a row without reading those before, where the format allows
    # it.
    blocks_from: Callable[[Sequence[int], int, int], Iterator[Array]] | None = None

    def stream(self, columns: Sequence[int], block_rows: int, row: int) -> Iterator[Array]:
        """Stream chosen columns from a row on; earlier rows are read and dropped where the format knows no better.

        Shapes: result (rows, columns).
        """
        if self.blocks_from is not None:
            yield from self.blocks_from(columns, block_rows, row)
            return
        skipped = 0
        for block in self.blocks(columns, block_rows):
            kept = block[min(max(row - skipped, 0), len(block)) :]
            skipped += len(block)
            if len(kept):
                yield kept


def damaged(path: Path, reason: object) -> FileFormatError:
    """Word the refusal of a file that is truncated, corrupted or of another format than its name says.

    Examples
    --------
    >>> print(damaged(Path("a.npy"), "40 bytes missing"))
    a.npy cannot be read as .npy: 40 bytes missing. The file is damaged or of another format; write it again.
    """
    return FileFormatError(
        f"{path} cannot be read as {path.suffix.lower()}: {str(reason).rstrip('.')}. "
        "The file is damaged or of another format; write it again."
    )
