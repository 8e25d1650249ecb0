"""Whatever the user passes as data, as row blocks."""

from __future__ import annotations

from typing import Any

from planted._validation import check_rows
from planted.rows import RowBlocks

__all__ = ["blocks_and_notices", "blocks_of"]


def blocks_of(X: Any, Y: Any) -> RowBlocks:
    """Return row blocks of validated arrays, or the blocks themselves.

    Shapes: X (n, d), Y (n, m).
    """
    return blocks_and_notices(X, Y)[0]


def blocks_and_notices(X: Any, Y: Any) -> tuple[RowBlocks, tuple[str, ...]]:
    """Return row blocks and what is worth knowing about arrays: constant columns, repeated rows.

    Returns blocks: the rows; notices: sentences; none for sources that are not looked at as a whole. Shapes: X (n,
    d), Y (n, m).
    """
    if isinstance(X, RowBlocks) and Y is None:
        return X, ()
    if hasattr(X, "__dask_graph__"):
        # The lazy door of Dask collections: only who passes one has Dask imported.
        from planted.distributed._collections import blocks_of_collections

        return blocks_of_collections(X, Y), ()
    data = check_rows(X, Y)
    return RowBlocks.from_arrays(data.X, data.Y), data.notices
