"""Deep networks with fewer units, in canonical form, and matched layer by layer.

Two neighbouring layers are a two-layer network whose outputs are the pre-activations above. Writing that network with
fewer units, or in canonical form (`planted.networks._simplify`), keeps the whole function, for every layer in turn from
the input to the output. For ReLU the inputs of every later layer are not negative. There a unit whose weights and bias are
all at most zero is never on and is dropped; units whose weights and bias are all at least zero are never off and are
linear. They are replaced by one such unit for the positive and one for the negative part of each output of the layer
above, if these are fewer.

Matching goes from the input to the output as well: units of a layer are assigned by their unit rows and biases, once the
columns are in the order of the layer below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planted._typing import Array
from planted.networks._activations import is_rectifier
from planted.networks._network import TwoLayerNetwork

if TYPE_CHECKING:
    from planted.networks._deep import DeepNetwork, Layer

__all__ = ["canonical_deep", "deep_parameter_error", "simplify_deep", "unit_rows"]


def simplify_deep(net: DeepNetwork, *, tol: float) -> DeepNetwork:
    """Return an equal network of the same depth with fewer units, or the network itself if none can be saved."""
    layers = list(net.layers)
    count = net.n_hidden
    while True:
        for place in range(net.n_hidden_layers):
            layers[place : place + 2] = _simplify_pair(net, layers, place, tol, canonical=False)
        left = sum(len(b) for _, b in layers[:-1])
        if left == count:
            break
        count = left
    return net if count == net.n_hidden else type(net)(layers, net.activation)


def canonical_deep(net: DeepNetwork, *, tol: float) -> DeepNetwork:
    """Return the representative of a network: simplified, unit rows in hidden layers, units in a fixed order."""
    simple = simplify_deep(net, tol=tol)
    layers = list(simple.layers)
    for place in range(net.n_hidden_layers):
        layers[place : place + 2] = _simplify_pair(net, layers, place, tol, canonical=True)
    return type(net)(layers, net.activation)


def unit_rows(net: DeepNetwork) -> DeepNetwork:
    """Return the same network with unit rows in hidden layers; rows of zeros stay."""
    layers, scales = [], np.ones(net.n_features)
    for W, b in net.layers[:-1]:
        weights = W * scales
        rows, norms = net.activation.unit_scale(weights)
        layers.append((rows, b / norms))
        scales = norms**net.activation.degree
    W, b = net.layers[-1]
    return type(net)([*layers, (W * scales, b)], net.activation)


def deep_parameter_error(
    net: DeepNetwork | TwoLayerNetwork, truth: DeepNetwork | TwoLayerNetwork, *, tol: float
) -> float:
    """Return the largest difference of parameters after matching; infinity if the shapes differ once simplified."""
    one, other = _as_deep(net), _as_deep(truth)
    shapes = {(each.n_features, each.n_outputs, each.activation) for each in (one, other)}
    if len(shapes) > 1:
        return float("inf")
    pairs = [(one.canonical(tol=tol), other.canonical(tol=tol)), (unit_rows(one), unit_rows(other))]
    return min((_matched_error(*pair) for pair in pairs if pair[0].widths == pair[1].widths), default=np.inf)


def _as_deep(net: DeepNetwork | TwoLayerNetwork) -> DeepNetwork:
    from planted.networks._deep import DeepNetwork

    return DeepNetwork.from_two_layer(net) if isinstance(net, TwoLayerNetwork) else net


def _simplify_pair(
    net: DeepNetwork, layers: list[Layer], place: int, tol: float, *, canonical: bool
) -> list[Layer]:
    """Simplify one hidden layer against the layer above it."""
    (W, b), (A, c) = layers[place : place + 2]
    if place > 0 and is_rectifier(net.activation):
        never_on = (W <= 0).all(axis=1) & (b <= 0)
        W, b, A = W[~never_on], b[~never_on], A[:, ~never_on]
        W, b, A = _join_linear(W, b, A)
    pair = TwoLayerNetwork(W=W, b=b, A=A, c=c, activation=net.activation)
    pair = pair.canonical(tol=tol) if canonical else pair.simplify(tol=tol)
    return [(pair.W, pair.b), (pair.A, pair.c)]


def _join_linear(W: Array, b: Array, A: Array) -> tuple[Array, Array, Array]:
    """Replace units that are never off, for inputs that are not negative, by fewer such units if possible."""
    linear = (W >= 0).all(axis=1) & (b >= 0)
    # One linear function for each output of the layer above.
    rows = A[:, linear] @ np.column_stack([W, b])[linear]
    parts, outputs = [], []
    for place, row in enumerate(rows):
        for sign in (1.0, -1.0):
            part = np.maximum(sign * row, 0.0)
            if part.any():
                parts.append(part)
                outputs.append(sign * np.eye(len(rows))[place])
    if len(parts) >= linear.sum():
        return W, b, A
    joined = np.array(parts).reshape(len(parts), W.shape[1] + 1)
    columns = np.array(outputs).reshape(len(parts), len(A)).T
    W = np.vstack([W[~linear], joined[:, :-1]])
    return W, np.append(b[~linear], joined[:, -1]), np.hstack([A[:, ~linear], columns])


def _matched_error(net: DeepNetwork, truth: DeepNetwork) -> float:
    """The largest difference of parameters, with the units of every layer assigned by rows and biases."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    order, worst = np.arange(net.n_features), 0.0
    for place, (W, b) in enumerate(truth.layers):
        weights, biases = net.layers[place][0][:, order], net.layers[place][1]
        order = np.arange(len(b))
        if place < truth.n_hidden_layers:
            planes = [np.column_stack([rows, np.arcsinh(ends)]) for rows, ends in ((W, b), (weights, biases))]
            order = linear_sum_assignment(cdist(*planes, "sqeuclidean"))[1]
        gaps = np.abs(W - weights[order]).max(initial=0.0), np.abs(b - biases[order]).max(initial=0.0)
        worst = max(worst, float(max(gaps)))
    return worst
