"""Three-layer networks: fixed features ``z = (R x + s)^p``, then a quadratic network, as in [GWZ20]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from planted._typing import Array, as_array
from planted.networks._network import TwoLayerNetwork
from planted.outcomes import BadInputError

__all__ = ["ThreeLayerNetwork"]

LARGEST_POWER = 64  # far above any use; float64 overflows for inputs that are not close to one


@dataclass(frozen=True, slots=True, eq=False)
class ThreeLayerNetwork:
    """The network ``x -> head((R x + s)^p)`` with fixed random features and a quadratic head.

    Parameters
    ----------
    R : ndarray of shape (q, d)
        Weights of the random features.
    s : ndarray of shape (q,)
        Their offsets; zero without a bias.
    power : int
        The power p, from 2 to 64.
    head : TwoLayerNetwork
        A quadratic network on the q features.

    Examples
    --------
    >>> head = TwoLayerNetwork(W=[[1.0]], A=[[1.0]], activation="quadratic")
    >>> ThreeLayerNetwork(np.array([[2.0, 0.0]]), np.zeros(1), 2, head)([[1.0, 5.0]])
    array([[16.]])
    """

    R: Array
    s: Array
    power: int
    head: TwoLayerNetwork

    def __post_init__(self) -> None:
        for name, n_axes in (("R", 2), ("s", 1)):
            frozen = np.array(getattr(self, name), dtype=np.float64, order="C")
            if frozen.ndim != n_axes:
                raise BadInputError(f"{name} has {frozen.ndim} dimension(s); expected {n_axes}")
            if not np.isfinite(frozen).all():
                raise BadInputError(f"{name} contains NaN or infinity")
            frozen.flags.writeable = False
            object.__setattr__(self, name, frozen)
        q = len(self.s)
        if len(self.R) != q or self.head.n_features != q:
            raise BadInputError(
                f"R has {len(self.R)} rows, s has {q} entries and the head has {self.head.n_features} inputs; "
                "expected the same number"
            )
        if type(self.power) is not int or not 2 <= self.power <= LARGEST_POWER:
            raise BadInputError(f"power={self.power!r}; expected an integer from 2 to {LARGEST_POWER}")

    @property
    def n_features(self) -> int:
        """Number of inputs, d."""
        return int(self.R.shape[1])

    @property
    def n_hidden(self) -> int:
        """Number of trained hidden units."""
        return self.head.n_hidden

    @property
    def n_outputs(self) -> int:
        """Number of outputs, m."""
        return self.head.n_outputs

    def __repr__(self) -> str:
        features = f"n_features={self.n_features}, n_random={len(self.s)}, power={self.power}"
        return f"ThreeLayerNetwork({features}, n_hidden={self.n_hidden}, n_outputs={self.n_outputs})"

    def features(self, X: Any) -> Array:
        """Return the random features.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Inputs.

        Returns
        -------
        ndarray of shape (n, q)
            ``(X R' + s)^p``.
        """
        rows = as_array(X)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise BadInputError(f"X has shape {rows.shape}; expected (n, {self.n_features})")
        return (rows @ self.R.T + self.s) ** self.power

    def __call__(self, X: Any) -> Array:
        """Evaluate the network.

        Shapes: X (n, d), result (n, m).
        """
        return self.head(self.features(X))

    def save(
        self,
        path: str | PathLike[str],
        *,
        features: Sequence[str] | None = None,
        targets: Sequence[str] | None = None,
    ) -> None:
        """Write the network to a safetensors file; `planted.load_network` reads it back.

        Parameters
        ----------
        path : path-like
            Where to write. An existing file is replaced only when the new one is complete.
        features, targets : sequence of str, optional
            Names of the inputs and of the outputs, kept in the file.
        """
        from planted.io.networks._safetensors import save_network

        save_network(self, path, features=features, targets=targets)
