"""Whatever the user passes as data, as row blocks."""

from __future__ import annotations

from typing import Any

from planted._validation import check_rows
from planted.moments import RowBlocks

__all__ = ["blocks_of"]


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
    if isinstance(X, RowBlocks) and Y is None:
        return X
    if hasattr(X, "__dask_graph__"):
        # The lazy door of Dask collections: only who passes one has Dask imported.
        from planted.distributed._collections import blocks_of_collections

        return blocks_of_collections(X, Y)
    data = check_rows(X, Y)
    return RowBlocks.from_arrays(data.X, data.Y)
