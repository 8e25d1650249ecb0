"""Read the set of inputs that a user gives: a box, or a box cut by inequalities."""

from __future__ import annotations

from typing import Any

import numpy as np

from planted._typing import Array
from planted.outcomes import BadInputError
from planted.verification._search import InputSet

__all__ = ["as_input_set"]


def as_input_set(box: Any, n_features: int) -> InputSet:
    """Read ``(low, high)`` or ``(low, high, A, b)``; each end is a number or one number for every input.

    Examples
    --------
    >>> as_input_set((0, [1, 2]), 2).high
    array([1., 2.])
    """
    if isinstance(box, InputSet):
        return box
    try:
        parts = list(box)
    except TypeError:
        parts = []
    if len(parts) not in (2, 4):
        raise BadInputError("box: expected (low, high), or (low, high, A, b) for a box cut by A x <= b")
    low, high = (_end(part, n_features) for part in parts[:2])
    if (low > high).any():
        first = int(np.flatnonzero(low > high)[0])
        raise BadInputError(f"box: input {first} has low {low[first]} above high {high[first]}")
    if len(parts) == 2:
        return InputSet(low, high, np.zeros((0, n_features)), np.zeros(0))
    G, g = (_numbers(part) for part in parts[2:])
    if G.ndim != 2 or G.shape[1] != n_features or g.shape != (len(G),):
        raise BadInputError(
            f"box: A has shape {G.shape} and b {g.shape}; expected (c, {n_features}) and (c,)"
        )
    if not (np.isfinite(G).all() and np.isfinite(g).all()):
        raise BadInputError("box: A or b contains NaN or infinity")
    return InputSet(low, high, G, g)


def _end(value: Any, n_features: int) -> Array:
    array = _numbers(value)
    if array.shape not in ((), (1,), (n_features,)):
        raise BadInputError(f"box: an end has shape {array.shape}; expected a number or {n_features} of them")
    if not np.isfinite(array).all():
        raise BadInputError("box: an end is NaN or infinite; a proof needs a bounded set of inputs")
    return np.array(np.broadcast_to(array, (n_features,)), dtype=np.float64)


def _numbers(value: Any) -> Array:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInputError("box: expected numbers") from None
