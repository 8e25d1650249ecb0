"""Whatever the user passes as data, as row blocks."""

from __future__ import annotations

from typing import Any

from planted._validation import check_rows
from planted.rows import RowBlocks

__all__ = ["blocks_and_notices", "blocks_of"]


def blocks_of(X: Any, Y: Any) -> RowBlocks:
    """Return row blocks of validated arrays, or the blocks themselves.

    Parameters
    ----------
    X : array_like of shape (n, d), DataFrame, Dask array or dataframe, or RowBlocks
        Inputs, or a source that carries outputs too.
    Y : array_like of shape (n, m) or (n,), Dask array, dataframe or series, or None
        Outputs.

    Returns
    -------
    RowBlocks
        The rows.
    """
    return blocks_and_notices(X, Y)[0]


def blocks_and_notices(X: Any, Y: Any) -> tuple[RowBlocks, tuple[str, ...]]:
    """Return row blocks and what is worth knowing about arrays: constant columns, repeated rows.

    Parameters
    ----------
    X : array_like of shape (n, d), DataFrame, Dask array or dataframe, or RowBlocks
        Inputs, or a source that carries outputs too.
    Y : array_like of shape (n, m) or (n,), Dask array, dataframe or series, or None
        Outputs.

    Returns
    -------
    blocks : RowBlocks
        The rows.
    notices : tuple of str
        Sentences; none for sources that are not looked at as a whole.
    """
    if isinstance(X, RowBlocks) and Y is None:
        return X, ()
    if hasattr(X, "__dask_graph__"):
        # The lazy door of Dask collections: only who passes one has Dask imported.
        from planted.distributed._collections import blocks_of_collections

        return blocks_of_collections(X, Y), ()
    data = check_rows(X, Y)
    return RowBlocks.from_arrays(data.X, data.Y), data.notices
