"""Networks of any depth: ``h_0 = x``, ``h_l = f(W_l h_{l-1} + b_l)``, and a last layer without activation.

The layers are kept as pairs ``(W, b)`` in the order of evaluation. The activation is positively homogeneous, so the scale
of every hidden unit is a gauge: it can move into the layer above without changing the function. A `TwoLayerNetwork` is the
case of one hidden layer. A `ThreeLayerNetwork` is not a case: its first layer raises to a power, its second one squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planted._conversion import frozen_array, input_rows
from planted._threads import one_thread_inside
from planted._typing import Array, BoolArray, as_array
from planted.networks._activations import Activation, parse_activation
from planted.networks._network import Saved, TwoLayerNetwork
from planted.outcomes import BadInputError, BadInputTypeError

__all__ = ["DeepNetwork"]

Layer = tuple[Array, Array]
LARGEST_DEPTH = 1_000  # layers


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class DeepNetwork(Saved):
    """A network of one or more hidden layers, ``x -> W_L f(… f(W_1 x + b_1) …) + b_L``, immutable.

    Parameters
    ----------
    layers : sequence of (W, b)
        Weights of shape (units, units below) and biases of shape (units,) of every layer, in the order of
        evaluation; a bias may be None, for zero. The last pair gives the outputs, without an activation.
    activation : str or Activation, default="relu"
        ``"relu"``, ``"leaky-relu:SLOPE"``, ``"power:P"``, ``"absolute"`` or ``"quadratic"``.

    Examples
    --------
    >>> net = DeepNetwork([([[1.0, 0.0]], [-1.0]), ([[2.0], [-1.0]], [0.0, 1.0]), ([[1.0, 1.0]], [0.5])])
    >>> net
    DeepNetwork(widths=(2, 1, 2, 1), activation='relu')
    >>> net([[3.0, 5.0], [0.0, 5.0]])
    array([[4.5],
           [1.5]])
    """

    layers: tuple[Layer, ...]
    activation: Activation

    def __init__(self, layers: Any, activation: str | Activation = "relu") -> None:
        if isinstance(layers, str | bytes) or not isinstance(layers, Sequence):
            raise BadInputTypeError(
                f"layers is of type {type(layers).__name__}; expected a sequence of pairs (W, b)"
            )
        if not 2 <= len(layers) <= LARGEST_DEPTH:
            raise BadInputError(
                f"{len(layers)} layer(s); expected 2 to {LARGEST_DEPTH}: hidden layers, then the output"
            )
        checked: list[Layer] = []
        for place, pair in enumerate(layers):
            if not isinstance(pair, Sequence) or isinstance(pair, str | bytes) or len(pair) != 2:
                raise BadInputError(f"layers[{place}] is not a pair (W, b)")
            weights = frozen_array(f"W of layer {place}", pair[0], 2)
            given = np.zeros(len(weights)) if pair[1] is None else pair[1]
            biases = frozen_array(f"b of layer {place}", given, 1)
            if len(biases) != len(weights):
                raise BadInputError(
                    f"layer {place} has {len(biases)} biases but {len(weights)} rows of weights"
                )
            below = len(checked[-1][1]) if checked else weights.shape[1]
            if weights.shape[1] != below:
                raise BadInputError(
                    f"the weights of layer {place} have {weights.shape[1]} columns but layer {place - 1} has "
                    f"{below} units"
                )
            checked.append((weights, biases))
        object.__setattr__(self, "layers", tuple(checked))
        object.__setattr__(self, "activation", parse_activation(activation))

    @classmethod
    def from_two_layer(cls, net: TwoLayerNetwork) -> DeepNetwork:
        """Return a two-layer network as a network with one hidden layer.

        Parameters
        ----------
        net : TwoLayerNetwork
            The network.

        Returns
        -------
        DeepNetwork
            The same function, with the same numbers.

        Examples
        --------
        >>> DeepNetwork.from_two_layer(TwoLayerNetwork(W=[[1.0, 2.0]], A=[[3.0]])).widths
        (2, 1, 1)
        """
        if np.any(getattr(net, "B", 0.0)):
            raise BadInputError("the network has an affine part; a deep network has none")
        return cls([(net.W, net.b), (net.A, net.c)], net.activation)

    def to_two_layer(self) -> TwoLayerNetwork:
        """Return the network as a `TwoLayerNetwork`; it must have one hidden layer.

        Returns
        -------
        TwoLayerNetwork
            The same function, with the same numbers.

        Examples
        --------
        >>> DeepNetwork([([[1.0, 2.0]], [0.0]), ([[3.0]], [1.0])]).to_two_layer().A
        array([[3.]])
        """
        if self.n_hidden_layers != 1:
            raise BadInputError(f"the network has {self.n_hidden_layers} hidden layers; expected one")
        (W, b), (A, c) = self.layers
        return TwoLayerNetwork(W=W, b=b, A=A, c=c, activation=self.activation)

    @property
    def n_features(self) -> int:
        """Number of inputs, d."""
        return int(self.layers[0][0].shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of outputs, m."""
        return len(self.layers[-1][1])

    @property
    def n_hidden_layers(self) -> int:
        """Number of hidden layers."""
        return len(self.layers) - 1

    @property
    def n_hidden(self) -> int:
        """Number of hidden units in all layers."""
        return sum(self.widths[1:-1])

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of inputs, of units in every hidden layer, and of outputs."""
        return (self.n_features, *(len(b) for _, b in self.layers))

    @property
    def n_parameters(self) -> int:
        """Degrees of freedom: all weights and biases, without the scale of each hidden unit."""
        return sum(W.size + b.size for W, b in self.layers) - self.n_hidden

    def __repr__(self) -> str:
        return f"DeepNetwork(widths={self.widths}, activation={self.activation.name!r})"

    @one_thread_inside
    def __call__(self, X: Any) -> Array:
        """Evaluate the network.

        Shapes: X (n, d), result (n, m).
        """
        hidden, (W, b) = input_rows(X, self.n_features), self.layers[-1]
        for weights, biases in self.layers[:-1]:
            hidden = self.activation(hidden @ weights.T + biases)
        return as_array(hidden @ W.T + b)

    @one_thread_inside
    def preactivations(self, X: Any) -> list[Array]:
        """Return the pre-activations of every hidden layer.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Inputs, one sample per row.

        Returns
        -------
        list of ndarray of shape (n, units)
            One array for each hidden layer.
        """
        hidden, found = input_rows(X, self.n_features), []
        for weights, biases in self.layers[:-1]:
            found.append(as_array(hidden @ weights.T + biases))
            hidden = self.activation(found[-1])
        return found

    @one_thread_inside
    def patterns(self, X: Any) -> list[BoolArray]:
        """Return which units are on for which sample, for every hidden layer.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Inputs, one sample per row.

        Returns
        -------
        list of ndarray of bool, shape (n, units)
            True where a unit is active.
        """
        return [values > 0 for values in self.preactivations(X)]

    @one_thread_inside
    def canonical(self, *, tol: float = 1e-10) -> DeepNetwork:
        """Return the same function in canonical form: simplified, unit rows in hidden layers, units sorted.

        Parameters
        ----------
        tol : float, default=1e-10
            Two hyperplanes whose unit normals and offsets differ by less are the same.

        Returns
        -------
        DeepNetwork
            The canonical network; scales are moved to the last layer.

        Examples
        --------
        >>> DeepNetwork([([[2.0]], [2.0]), ([[3.0]], [-3.0]), ([[1.0]], [0.0])]).canonical().layers[-1][0]
        array([[6.]])
        """
        from planted.networks._deep_forms import canonical_deep

        return canonical_deep(self, tol=tol)

    @one_thread_inside
    def simplify(self, *, tol: float = 1e-10) -> DeepNetwork:
        """Return an equal network without dead, constant, parallel or cancelling units.

        Parameters
        ----------
        tol : float, default=1e-10
            Two hyperplanes whose unit normals and offsets differ by less are the same.

        Returns
        -------
        DeepNetwork
            The simplified network, with the same number of layers.

        Examples
        --------
        >>> DeepNetwork([([[1.0], [2.0]], None), ([[1.0, 1.0]], [-1.0]), ([[1.0]], None)]).simplify().widths
        (1, 1, 1, 1)
        """
        from planted.networks._deep_forms import simplify_deep

        return simplify_deep(self, tol=tol)
