"""Weights of rows: one number for each, read with the row it belongs to.

A source may carry a weight beside every row (a column of a file, an array, a Dask series). Rows of weight zero are
left out where they are read. A sum that can be weighted has a field ``weights``, a `RowWeights`. To use the weights
that the rows carry, this field is a `StoredWeights`, which is given the weights of a block when the block is summed.
So weights are never held for more than a block, and travel with the rows to the worker that sums them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from planted._typing import Array, as_array
from planted.outcomes import BadInputError

__all__ = ["RowWeights", "StoredWeights", "bind_weights", "checked_weights", "weighed_rows"]

F = TypeVar("F")

RowWeights = Callable[[int, Array, Array], Array]
"""Called as ``weights(number of the first row, X, Y)``; returns one non-negative weight for each of these rows."""


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """The weights that rows carry, as a `RowWeights`."""

    scale: float = 1.0  # they are multiplied by it
    first_row: int = 0  # number of the first row of the block that is being summed
    values: Array | None = None  # (rows,): its weights; None while no block is being summed

    def __call__(self, first_row: int, X: Array, Y: Array) -> Array:
        """Return the weights of some rows of the block."""
        assert self.values is not None, (
            "stored weights are read with their rows, in a pass over weighted rows"
        )
        start = first_row - self.first_row
        return self.scale * self.values[start : start + len(X)]


def bind_weights(function: F, first_row: int, values: Array | None) -> F:
    """Return a function of a block with the weights of that block, if it asks for stored ones.

    `function`: a summand or a transformation, with or without a field ``weights``. Shapes: values (rows,).
    """
    given = getattr(function, "weights", None)
    if not isinstance(given, StoredWeights):
        return function
    bound = StoredWeights(given.scale, first_row, values)
    return replace(function, weights=bound)  # type: ignore[type-var]  # with such a field it is a dataclass


def checked_weights(values: npt.ArrayLike, first_row: int, label: str) -> Array:
    """Return weights as a vector, or refuse them by row.

    Shapes: values (rows,), result (rows,).

    Examples
    --------
    >>> checked_weights([[1], [0]], 0, "weights")
    array([1., 0.])
    """
    weights = np.ravel(as_array(values))
    is_bad = ~(np.isfinite(weights) & (weights >= 0))
    if is_bad.any():
        place = int(np.argmax(is_bad))
        raise BadInputError(
            f"{label}: the weight of row {first_row + place} is {weights[place]}; weights must be finite and zero or "
            "more. Give rows that should not count a weight of 0."
        )
    return weights


def weighed_rows(X: npt.NDArray[Any], Y: npt.NDArray[Any], w: Array) -> tuple[Any, Any, Array]:
    """Leave out the rows of weight zero; return the others with their weights.

    Shapes: X (rows, d), Y (rows, m), w (rows,).
    """
    if len(w) != len(X):
        raise BadInputError(f"there are {len(w)} weights for {len(X)} rows; expected one for each")
    counts = w > 0
    return (X, Y, w) if counts.all() else (X[counts], Y[counts], w[counts])
