r"""Write a network, or the difference of two, as stages that carry units and differences of matched units.

Problem     Bound ``f``, or ``f - g``, on a set of inputs. Two copies that differ little have large values and a small
            difference; bounding the two apart and subtracting loses everything.
Idea        A stage carries the pre-activations z of f and, where g is matched unit by unit, δ = z - u with the
            pre-activations u of g. With h = φ(z) and D = φ(z) - φ(u) the next stage is linear again:

            .. math:: z' = W h + b, \qquad \delta' = (W - V) h + V D + (b - c) .                              \quad (1)

            A single network has no δ. Two networks that are not matched become one whose units are side by side and whose
            last layers are subtracted; a shorter one is extended by units with the activation t ↦ t.
Notation    φ(t) = t for t > 0 and slope · t for t < 0, one slope for each unit; slopes up to one, so φ is convex.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from planted._typing import Array
from planted.networks import DeepNetwork, TwoLayerNetwork
from planted.outcomes import BadInputError, BadInputTypeError

__all__ = ["Plain", "Stage", "as_plain", "matched_stages", "side_by_side", "single_stages", "stacked_stages"]


@dataclass(frozen=True, slots=True)
class Plain:
    """A network as arrays: weights and biases of every layer, and the slopes of the hidden units left of zero."""

    layers: tuple[tuple[Array, Array], ...]
    slopes: tuple[Array, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of inputs, of units in every hidden layer, and of outputs."""
        return (self.layers[0][0].shape[1], *(len(b) for _, b in self.layers))

    def __call__(self, X: Array) -> Array:
        """Evaluate the network; X (n, d), result (n, m)."""
        hidden = X
        for (W, b), slope in zip(self.layers, self.slopes, strict=False):
            t = hidden @ W.T + b
            hidden = np.where(t > 0, t, slope * t)
        W, b = self.layers[-1]
        return np.asarray(hidden @ W.T + b)


@dataclass(frozen=True, slots=True)
class Stage:
    """One linear map of (1): from units h (p) and differences D (q) to z (k) and δ (r); q or r may be zero."""

    W: Array  # (k, p)
    b: Array  # (k,)
    M: Array  # (r, p): W - V
    V: Array  # (r, q)
    e: Array  # (r,): b - c
    slopes: Array  # (k,): of the activation that follows; empty for the last stage
    other: tuple[Array, Array] | None = None  # the layer (V, c) of g as it is, where it is matched


def as_plain(net: Any) -> Plain:
    """Read a network with a piecewise linear activation as arrays.

    Examples
    --------
    >>> as_plain(TwoLayerNetwork(W=[[1.0, 0.0]], A=[[2.0]])).widths
    (2, 1, 1)
    """
    if isinstance(net, Plain):
        return net
    if isinstance(net, TwoLayerNetwork):
        layers = [(net.W, net.b), (net.A, net.c)]
    elif isinstance(net, DeepNetwork):
        layers = list(net.layers)
    else:
        raise BadInputTypeError(
            f"a proof needs the weights of a network; got an object of type {type(net).__name__}"
        )
    activation = net.activation
    slope = -activation.left / activation.right if activation.right else np.inf
    if not activation.is_piecewise_linear or activation.right != 1.0 or not slope <= 1.0:
        raise BadInputError(
            f"the activation is {activation.name!r}; proofs are known for 'relu', 'absolute' and 'leaky-relu:SLOPE' "
            "with a slope below 1"
        )
    slopes = [np.full(len(b), slope) for _, b in layers[:-1]]
    straight = getattr(net, "B", None)
    if straight is not None and np.any(straight):
        # Units with the activation t -> t carry the inputs to the last layer.
        (W, b), (A, c) = layers
        d = W.shape[1]
        layers = [(np.vstack([W, np.eye(d)]), np.append(b, np.zeros(d))), (np.hstack([A, straight]), c)]
        slopes = [np.append(slopes[0], np.ones(d))]
    return Plain(tuple(layers), tuple(slopes))


def single_stages(net: Plain) -> tuple[Stage, ...]:
    """Return the stages of one network."""
    slopes = [*net.slopes, np.zeros(0)]
    return tuple(
        Stage(W, b, np.zeros((0, W.shape[1])), np.zeros((0, 0)), np.zeros(0), slope)
        for (W, b), slope in zip(net.layers, slopes, strict=True)
    )


def matched_stages(f: Plain, g: Plain) -> tuple[Stage, ...]:
    """Return the stages of f and f - g for two networks of the same widths whose units correspond."""
    stages = []
    q = 0
    for place, ((W, b), (V, c)) in enumerate(zip(f.layers, g.layers, strict=True)):
        slopes = f.slopes[place] if place < len(f.slopes) else np.zeros(0)
        stages.append(Stage(W, b, W - V, V if q else np.zeros((len(b), 0)), b - c, slopes, (V, c)))
        q = len(b)
    return tuple(stages)


def stacked_stages(f: Plain, g: Plain) -> tuple[Stage, ...]:
    """Return the stages of the single network f - g, with the units of the two side by side."""
    both = side_by_side(f, g)
    (W, b), (V, c) = f.layers[-1], g.layers[-1]
    last = np.hstack([W, -V]), b - c
    return single_stages(Plain((*both.layers[:-1], last), both.slopes))


def side_by_side(f: Plain, g: Plain) -> Plain:
    """Return the network with the outputs of both."""
    depth = max(len(f.layers), len(g.layers))
    f, g = _extended(f, depth), _extended(g, depth)
    layers, slopes = [], []
    for place, ((W, b), (V, c)) in enumerate(zip(f.layers, g.layers, strict=True)):
        weights = (
            np.vstack([W, V])
            if place == 0
            else np.block([[W, np.zeros((len(b), V.shape[1]))], [np.zeros((len(c), W.shape[1])), V]])
        )
        layers.append((weights, np.append(b, c)))
        if place < depth - 1:
            slopes.append(np.append(f.slopes[place], g.slopes[place]))
    return Plain(tuple(layers), tuple(slopes))


def _extended(net: Plain, depth: int) -> Plain:
    """Insert layers with the activation t -> t below the last layer."""
    k = net.widths[-2]
    extra = depth - len(net.layers)
    layers = (*net.layers[:-1], *[(np.eye(k), np.zeros(k))] * extra, net.layers[-1])
    return Plain(layers, (*net.slopes, *[np.ones(k)] * extra))
