"""The two-layer network: what every method returns, and the notation used everywhere.

One model and one notation, used everywhere:

=========================================  ==========================  =======
meaning                                    name                        shape
=========================================  ==========================  =======
samples, inputs, outputs, hidden units     ``n``, ``d``, ``m``, ``k``
inputs, outputs (samples are rows)         ``X``, ``Y``                (n, d), (n, m)
hidden weights, biases (a unit is a row)   ``W``, ``b``                (k, d), (k,)
output weights, offset                     ``A``, ``c``                (m, k), (m,)
linear part, where there is one            ``B``                       (m, d)
model                                      ``Y = f(X W' + b) A' + X B' + c``
=========================================  ==========================  =======
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from planted._conversion import frozen_array, input_rows
from planted._threads import one_thread_inside
from planted._typing import Array, BoolArray, Json, as_array
from planted.networks._activations import Activation, parse_activation
from planted.outcomes import BadInputError

__all__ = ["Saved", "TwoLayerNetwork", "plain_parameters"]


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


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class TwoLayerNetwork(Saved):
    """A two-layer network ``x -> A f(W x + b) + B x + c``, immutable.

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
        ``"relu"``, ``"leaky-relu:SLOPE"``, ``"power:P"``, ``"absolute"``, ``"quadratic"``, ``"tanh"``, ``"sigmoid"``,
        ``"softplus"``, ``"gelu"``, ``"silu"``, ``"elu"``, or one of `planted.register_activation`.
    B : array_like of shape (m, d), optional
        Linear part; a vector of length d is one output. A network without one has ``B`` None.

    Examples
    --------
    >>> net = TwoLayerNetwork(W=[[1.0, 0.0]], b=[-1.0], A=[[2.0]])
    >>> net([[3.0, 5.0], [0.0, 5.0]])
    array([[4.],
           [0.]])
    >>> bent = TwoLayerNetwork(W=[[1.0]], b=[-4.0], A=[[3.0]], B=[[2.0]])  # 2x + 3 max(x - 4, 0)
    >>> bent([[1.0], [5.0]])
    array([[ 2.],
           [13.]])
    """

    W: Array
    b: Array
    A: Array
    c: Array
    activation: Activation
    B: Array | None

    def __init__(
        self,
        W: Any,
        b: Any = None,
        A: Any = None,
        c: Any = None,
        activation: str | Activation = "relu",
        B: Any = None,
    ) -> None:
        if A is None:
            raise BadInputError("A is required: the output weights, of shape (m, k)")
        slopes = None if B is None else frozen_array("B", B, 2)
        if slopes is not None and np.size(W) == 0:  # an empty list does not tell the number of inputs; B does
            W = np.zeros((0, slopes.shape[1]))
        weights = frozen_array("W", W, 2)
        k = weights.shape[0]
        outputs = frozen_array("A", A, 2)
        if outputs.shape[1] != k:
            raise BadInputError(
                f"A has {outputs.shape[1]} columns but W has {k} rows; both count hidden units"
            )
        biases = frozen_array("b", np.zeros(k) if b is None else b, 1)
        if biases.shape != (k,):
            raise BadInputError(f"b has shape {biases.shape} but W has {k} rows")
        m = outputs.shape[0]
        offset = frozen_array("c", np.zeros(m) if c is None else c, 1)
        if offset.shape != (m,):
            raise BadInputError(f"c has shape {offset.shape} but A has {m} rows")
        if slopes is not None and slopes.shape != (m, weights.shape[1]):
            raise BadInputError(
                f"B has shape {slopes.shape}; expected {(m, weights.shape[1])}, outputs by inputs"
            )
        values = (weights, biases, outputs, offset, parse_activation(activation), slopes)
        for name, value in zip(("W", "b", "A", "c", "activation", "B"), values, strict=True):
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
        """Degrees of freedom k(d+1) + mk + m, md more for B, and k less where the scale of each unit is a gauge."""
        d, k, m = self.n_features, self.n_hidden, self.n_outputs
        gauge = 0 if self.activation.is_curved else k
        return k * (d + 1) + m * k - gauge + m + (0 if self.B is None else m * d)

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the arrays of parameters: W, b, A, c, and B where there is one."""
        return ("W", "b", "A", "c") if self.B is None else ("W", "b", "A", "c", "B")

    def __repr__(self) -> str:
        linear = "" if self.B is None else ", B"
        return (
            f"TwoLayerNetwork(n_features={self.n_features}, n_hidden={self.n_hidden}, "
            f"n_outputs={self.n_outputs}, activation={self.activation.name!r}{linear})"
        )

    @one_thread_inside
    def __call__(self, X: Any) -> Array:
        """Evaluate the network.

        Shapes: X (n, d), result (n, m).
        """
        if self.B is None:
            return self.activation(self.preactivations(X)) @ self.A.T + self.c
        rows = input_rows(X, self.n_features)
        return self.activation(self.preactivations(rows)) @ self.A.T + rows @ self.B.T + self.c

    def less_linear(self, X: Array, Y: Array) -> Array:
        """Return outputs less the linear part: ``Y - X B'``, or Y itself where there is none.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs.
        Y : ndarray of shape (n, m)
            Outputs.

        Returns
        -------
        ndarray of shape (n, m)
            What the units and the offset have to explain.
        """
        return Y if self.B is None else Y - X @ self.B.T

    @one_thread_inside
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
        rows = input_rows(X, self.n_features)
        return as_array(rows @ self.W.T + self.b)

    @one_thread_inside
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

    @one_thread_inside
    def canonical(self, *, tol: float = 1e-10) -> TwoLayerNetwork:
        """Return the same function in canonical form: simplified, unit rows of W, units sorted.

        Units with a curved activation keep the scale of their rows; where they can be turned round, the first weight that
        is not zero is positive.

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
        from planted.networks._simplify import canonical_form

        return canonical_form(self, tol=tol)

    @one_thread_inside
    def simplify(self, *, tol: float = 1e-10, affine: bool | None = None) -> TwoLayerNetwork:
        """Return an equal network without dead, constant, parallel or cancelling units.

        Parameters
        ----------
        tol : float, default=1e-10
            Two hyperplanes whose unit normals and offsets differ by less are the same.
        affine : bool, optional
            Whether the result may have a linear part B, which takes the place of pairs of units whose kinks cancel. By
            default only if the network has one.

        Returns
        -------
        TwoLayerNetwork
            The simplified network.

        Examples
        --------
        >>> TwoLayerNetwork(W=[[1.0], [2.0]], A=[[1.0, 1.0]]).simplify().n_hidden
        1
        >>> TwoLayerNetwork(W=[[1.0], [-1.0]], A=[[2.0, -2.0]]).simplify(affine=True).B
        array([[2.]])
        """
        from planted.networks._simplify import simplify_network

        return simplify_network(self, tol=tol, affine=affine)

    @one_thread_inside
    def is_equivalent(self, other: TwoLayerNetwork, *, tol: float = 1e-9) -> bool:
        """Decide on the parameters whether two networks are the same function up to a tolerance.

        Parameters
        ----------
        other : TwoLayerNetwork
            The network to compare with.
        tol : float, default=1e-9
            Largest difference on typical inputs, relative to the scale of each output there.

        Returns
        -------
        bool
            True if it is proved that the functions agree everywhere; `planted.compare` tells "different" from "not decided".

        Examples
        --------
        >>> absolute = TwoLayerNetwork(W=[[1.0]], A=[[1.0]], activation="absolute")
        >>> absolute.is_equivalent(TwoLayerNetwork(W=[[1.0], [-1.0]], A=[[1.0, 1.0]]))
        True
        """
        from planted.networks._equivalence import are_equivalent

        return are_equivalent(self, other, tol=tol)


def plain_parameters(net: Any) -> Json:
    """Return the parameters as lists that JSON can hold: W, b, A, c and B, or the layers of a deep network."""
    if hasattr(net, "layers"):
        return {"layers": [[W.tolist(), b.tolist()] for W, b in net.layers]}
    return {name: getattr(net, name).tolist() for name in net.parts}
