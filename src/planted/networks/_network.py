"""The two-layer network: what every method returns, and the notation used everywhere.

One model and one notation, used everywhere:

=========================================  ==========================  =======
meaning                                    name                        shape
=========================================  ==========================  =======
samples, inputs, outputs, hidden units     ``n``, ``d``, ``m``, ``k``
inputs, outputs (samples are rows)         ``X``, ``Y``                (n, d), (n, m)
hidden weights, biases (a unit is a row)   ``W``, ``b``                (k, d), (k,)
output weights, offset                     ``A``, ``c``                (m, k), (m,)
model                                      ``Y = f(X W' + b) A' + c``
=========================================  ==========================  =======
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from planted._conversion import as_matrix
from planted._typing import Array, BoolArray, as_array
from planted.networks._activations import Activation, parse_activation
from planted.outcomes import BadInputError, BadInputTypeError

__all__ = ["TwoLayerNetwork"]


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class TwoLayerNetwork:
    """A two-layer network ``x -> A f(W x + b) + c``, immutable.

    Parameters
    ----------
    W : array_like of shape (k, d)
        Hidden weights, one unit per row.
    b : array_like of shape (k,), optional
        Hidden biases; zero if omitted.
    A : array_like of shape (m, k)
        Output weights; a vector of length k is one output.
    c : array_like of shape (m,), optional
        Output offset; zero if omitted.
    activation : str or Activation, default="relu"
        ``"relu"``, ``"leaky-relu:SLOPE"``, ``"power:P"``, ``"absolute"`` or ``"quadratic"``.

    Examples
    --------
    >>> net = TwoLayerNetwork(W=[[1.0, 0.0]], b=[-1.0], A=[[2.0]])
    >>> net([[3.0, 5.0], [0.0, 5.0]])
    array([[4.],
           [0.]])
    """

    W: Array
    b: Array
    A: Array
    c: Array
    activation: Activation

    def __init__(
        self, W: Any, b: Any = None, A: Any = None, c: Any = None, activation: str | Activation = "relu"
    ) -> None:
        if A is None:
            raise BadInputError("A is required: the output weights, of shape (m, k)")
        weights = _frozen_array("W", W, 2)
        k = weights.shape[0]
        outputs = _frozen_array("A", A, 2)
        if outputs.shape[1] != k:
            raise BadInputError(
                f"A has {outputs.shape[1]} columns but W has {k} rows; both count hidden units"
            )
        biases = _frozen_array("b", np.zeros(k) if b is None else b, 1)
        if biases.shape != (k,):
            raise BadInputError(f"b has shape {biases.shape} but W has {k} rows")
        m = outputs.shape[0]
        offset = _frozen_array("c", np.zeros(m) if c is None else c, 1)
        if offset.shape != (m,):
            raise BadInputError(f"c has shape {offset.shape} but A has {m} rows")
        values = {
            "W": weights,
            "b": biases,
            "A": outputs,
            "c": offset,
            "activation": parse_activation(activation),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def n_hidden(self) -> int:
        """Number of hidden units, k."""
        return int(self.W.shape[0])

    @property
    def n_features(self) -> int:
        """Number of inputs, d."""
        return int(self.W.shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of outputs, m."""
        return int(self.A.shape[0])

    @property
    def n_parameters(self) -> int:
        """Degrees of freedom k(d+1) + mk - k + m: the scale of each unit is a gauge."""
        d, k, m = self.n_features, self.n_hidden, self.n_outputs
        return k * (d + 1) + m * k - k + m

    def __repr__(self) -> str:
        return (
            f"TwoLayerNetwork(n_features={self.n_features}, n_hidden={self.n_hidden}, "
            f"n_outputs={self.n_outputs}, activation={self.activation.name!r})"
        )

    def __call__(self, X: Any) -> Array:
        """Evaluate the network.

        Shapes: X (n, d), result (n, m).
        """
        return self.activation(self.preactivations(X)) @ self.A.T + self.c

    def preactivations(self, X: Any) -> Array:
        """Return ``X W' + b``.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Inputs, one sample per row.

        Returns
        -------
        ndarray of shape (n, k)
            Pre-activations.
        """
        # Inside the library inputs are always plain float64 arrays; users pass anything.
        is_plain = type(X) is np.ndarray and X.dtype == np.float64
        rows = X if is_plain else as_matrix(X, "X", vector_ok=False)[0]
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise BadInputError(f"X has shape {rows.shape}; expected (n, {self.n_features})")
        return as_array(rows @ self.W.T + self.b)

    def patterns(self, X: Any) -> BoolArray:
        """Return which units are on for which sample, of shape (n, k).

        Parameters
        ----------
        X : array_like of shape (n, d)
            Inputs, one sample per row.

        Returns
        -------
        ndarray of bool, shape (n, k)
            True where a unit is active.
        """
        return self.preactivations(X) > 0

    def canonical(self, *, tol: float = 1e-10) -> TwoLayerNetwork:
        """Return the same function in canonical form: simplified, unit rows of W, units sorted.

        Parameters
        ----------
        tol : float, default=1e-10
            Two hyperplanes whose unit normals and offsets differ by less are the same.

        Returns
        -------
        TwoLayerNetwork
            The canonical network.

        Examples
        --------
        >>> TwoLayerNetwork(W=[[0.0, 2.0]], A=[[3.0]]).canonical().A
        array([[6.]])
        """
        from planted.networks._equivalence import canonical_form

        return canonical_form(self, tol=tol)

    def simplify(self, *, tol: float = 1e-10) -> TwoLayerNetwork:
        """Return an equal network without dead, constant, parallel or cancelling units.

        Parameters
        ----------
        tol : float, default=1e-10
            Two hyperplanes whose unit normals and offsets differ by less are the same.

        Returns
        -------
        TwoLayerNetwork
            The simplified network.

        Examples
        --------
        >>> TwoLayerNetwork(W=[[1.0], [2.0]], A=[[1.0, 1.0]]).simplify().n_hidden
        1
        """
        from planted.networks._equivalence import simplify_network

        return simplify_network(self, tol=tol)

    def is_equivalent(self, other: TwoLayerNetwork, *, tol: float = 1e-9) -> bool:
        """Decide whether two networks are the same function (an algebraic decision, nothing is sampled).

        Parameters
        ----------
        other : TwoLayerNetwork
            The network to compare with.
        tol : float, default=1e-9
            Tolerance on hyperplanes and, relative to the networks' scale, on their strengths.

        Returns
        -------
        bool
            Whether the functions agree everywhere.

        Examples
        --------
        >>> absolute = TwoLayerNetwork(W=[[1.0]], A=[[1.0]], activation="absolute")
        >>> absolute.is_equivalent(TwoLayerNetwork(W=[[1.0], [-1.0]], A=[[1.0, 1.0]]))
        True
        """
        from planted.networks._equivalence import are_equivalent

        return are_equivalent(self, other, tol=tol)

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


def _frozen_array(name: str, values: Any, ndim: int) -> Array:
    """Return a read-only float64 copy of ``values`` with ``ndim`` axes, or say what is wrong with it."""
    raw = np.asarray(values)
    if raw.dtype.kind not in "fiub":
        raise BadInputTypeError(f"{name} has dtype {raw.dtype}; expected real numbers")
    array = np.array(raw, dtype=np.float64, order="C")
    if name == "A" and array.ndim == 1:
        array = array[None, :]
    if array.ndim != ndim:
        raise BadInputError(f"{name} has {array.ndim} dimension(s); expected {ndim}")
    if not np.isfinite(array).all():
        first = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise BadInputError(f"{name} contains NaN or infinity, first at {first}")
    array.flags.writeable = False
    return array
