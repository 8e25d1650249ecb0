"""What networks of every kind share: read-only arrays of parameters, checked rows of inputs, and saving."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from planted._conversion import as_matrix
from planted._typing import Array
from planted.outcomes import BadInputError, BadInputTypeError

__all__ = ["Saved", "frozen_array", "input_rows"]


class Saved:
    """A network that can be written to a file."""

    __slots__ = ()

    def save(
        self,
        path: str | PathLike[str],
        *,
        features: Sequence[str] | None = None,
        targets: Sequence[str] | None = None,
        noise: tuple[float, float] | None = None,
    ) -> None:
        """Write the network to a safetensors file; `planted.load_network` reads it back.

        Parameters
        ----------
        path : path-like
            Where to write. An existing file is replaced only when the new one is complete.
        features, targets : sequence of str, optional
            Names of the inputs and of the outputs, kept in the file.
        noise : (float, float), optional
            Standard deviation of a new output about its prediction and its degrees of freedom, kept in the file.
        """
        from planted.io.networks._safetensors import save_network

        save_network(self, path, features=features, targets=targets, noise=noise)  # type: ignore[arg-type]


def frozen_array(name: str, values: Any, ndim: int) -> Array:
    """Return a read-only float64 copy of ``values`` with ``ndim`` axes, or say what is wrong with it."""
    raw = np.asarray(values)
    if raw.dtype.kind not in "fiub":
        raise BadInputTypeError(f"{name} has dtype {raw.dtype}; expected real numbers")
    array = np.array(raw, dtype=np.float64, order="C")
    if name in ("A", "B") and array.ndim == 1:
        array = array[None, :]
    if array.ndim != ndim:
        raise BadInputError(f"{name} has {array.ndim} dimension(s); expected {ndim}")
    if not np.isfinite(array).all():
        first = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise BadInputError(f"{name} contains NaN or infinity, first at {first}")
    array.flags.writeable = False
    return array


def input_rows(X: Any, n_features: int) -> Array:
    """Return inputs as a matrix. Inside the library they are always plain float64 arrays; users pass anything.

    Shapes: result (n, d).
    """
    is_plain = type(X) is np.ndarray and X.dtype == np.float64
    rows = X if is_plain else as_matrix(X, "X", vector_ok=False)[0]
    if rows.ndim != 2 or rows.shape[1] != n_features:
        raise BadInputError(f"X has shape {rows.shape}; expected (n, {n_features})")
    return rows
