"""Three-layer networks: fixed features ``z = (R x + s)^p``, then a quadratic network, as in [GWZ20]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from planted._conversion import frozen_array, input_rows
from planted._threads import one_thread_inside
from planted._typing import Array
from planted.networks._network import Saved, TwoLayerNetwork
from planted.outcomes import BadInputError

__all__ = ["ThreeLayerNetwork"]

LARGEST_POWER = 64  # far above any use; float64 overflows for inputs that are not close to one


@dataclass(frozen=True, slots=True, eq=False)
class ThreeLayerNetwork(Saved):
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
    >>> ThreeLayerNetwork([[2.0, 0.0]], [0.0], 2, head)([[1.0, 5.0]])
    array([[16.]])
    """

    R: Array
    s: Array
    power: int
    head: TwoLayerNetwork

    def __post_init__(self) -> None:
        for name, n_axes in (("R", 2), ("s", 1)):
            object.__setattr__(self, name, frozen_array(name, getattr(self, name), n_axes))
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

    @one_thread_inside
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
        rows = input_rows(X, self.n_features)
        return (rows @ self.R.T + self.s) ** self.power

    @one_thread_inside
    def __call__(self, X: Any) -> Array:
        """Evaluate the network.

        Shapes: X (n, d), result (n, m).
        """
        return self.head(self.features(X))
