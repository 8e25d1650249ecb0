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
    X : array_like of shape (n, d), DataFrame or RowBlocks
        Inputs, or a source that carries outputs too.
    Y : array_like of shape (n, m) or (n,), or None
        Outputs.

    Returns
    -------
    RowBlocks
        The rows.
    """
    if isinstance(X, RowBlocks) and Y is None:
        return X
    data = check_rows(X, Y)
    return RowBlocks.from_arrays(data.X, data.Y)
