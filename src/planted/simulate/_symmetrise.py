"""Symmetric data from an oracle: ask it about -x too.

If y may be queried, any inputs become symmetric by adding their negatives, at twice the cost in labels, as [GKLW19]_
remark. It does more than restore an assumption. For a noiseless network without biases
``y(x) - y(-x) = A W x`` exactly, so that the slope B = A W, whose error limits the method of symmetric inputs, is
known to rounding from d pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from planted._typing import Array
from planted.outcomes import BadInputError

__all__ = ["symmetrise"]


def symmetrise(X: Any, oracle: Callable[[Array], Any]) -> tuple[Array, Array]:
    """Add -x to every x and ask for the outputs of all.

    Parameters
    ----------
    X : array_like of shape (n, d)
        Inputs of any law.
    oracle : callable
        Returns the outputs, of shape (rows, m), of an array of inputs of shape (rows, d).

    Returns
    -------
    X : ndarray of shape (2 n, d)
        The inputs, each followed by its negative.
    Y : ndarray of shape (2 n, m)
        Their outputs.

    Examples
    --------
    >>> X, Y = symmetrise([[1.0, 2.0]], lambda rows: np.maximum(rows, 0.0))
    >>> X.tolist(), Y.tolist()
    ([[1.0, 2.0], [-1.0, -2.0]], [[1.0, 2.0], [0.0, 0.0]])
    """
    rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2:
        raise BadInputError(f"X has shape {rows.shape}; expected (n, d)")
    paired = np.stack([rows, -rows], axis=1).reshape(2 * len(rows), rows.shape[1])
    outputs = np.asarray(oracle(paired), dtype=np.float64)
    outputs = outputs[:, None] if outputs.ndim == 1 else outputs
    if outputs.ndim != 2 or len(outputs) != len(paired):
        raise BadInputError(
            f"the oracle returned shape {outputs.shape} for {len(paired)} inputs; expected ({len(paired)}, m)"
        )
    return paired, outputs
