r"""Places at which chosen units of known layers are on, found by mixed-integer programming; no questions.

With one binary variable for each unit, and bounds on every pre-activation, a known network is a set of linear constraints:

.. math:: h \ge 0, \quad h \ge t, \quad h \le t - t_{low} (1 - z), \quad h \le t_{high} z, \qquad t = W h' + b.   \quad (1)

A place at which a unit of the next layer is on by its known weights, and one unit below whose weight is not known is barely
on, shows that weight. If there is no such place, the weight has no effect on that side of the unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from planted._typing import Array, IntArray
from planted.networks._deep import Layer

__all__ = ["Sought", "barely_on"]

NODES = 300  # of branch and bound
ON = 0.3  # of its typical size: how far the unit above is on at least


@dataclass(frozen=True, slots=True)
class Sought:
    """A unit of the next layer: the weights that are known, with zeros for gaps, its bias, and the gaps."""

    weights: Array
    bias: float
    gaps: IntArray


def barely_on(
    layers: list[Layer], sought: Sought, gap: int, *, size: float, height: float, rooms: Sequence[float]
) -> Array | None:
    """An input at which a unit is on by its known weights and the unit ``gap`` below is barely on; None if there is none.

    `size`: of what is known of the unit, at typical places where it is on. `height`: of the unit below, as a share of that.
    `rooms`: bounds on the inputs, tried in turn. Other units below with unknown weights are off if possible.
    """
    barely = height * size / (float(np.abs(sought.weights).max()) or 1.0)
    at_least = ON * size - sought.bias
    found = (_solve(layers, sought, gap, barely, (at_least, np.inf), room) for room in rooms)
    return next((place for place in found if place is not None), None)


def _solve(
    layers: list[Layer],
    sought: Sought,
    gap: int,
    height: float,
    level: tuple[float, float],
    room: float,
) -> Array | None:
    """Solve the program: unit ``gap`` at its height, the known part of the unit at its level."""
    d = layers[0][0].shape[1]
    matrix, low, high, n_binary = _constraints(layers, room)
    total = matrix.shape[1]
    width = len(layers[-1][1])
    start = total - n_binary - width  # of the outputs of the last layer
    row = np.zeros(total)
    row[start : start + width] = sought.weights
    at_least = np.concatenate([np.full(d, -room), np.zeros(total - d)])
    at_most = np.concatenate([np.full(d, room), np.full(total - d, np.inf)])
    at_most[-n_binary:] = 1.0
    at_least[start + gap], at_most[start + gap] = height, 2 * height
    cost = np.zeros(total)
    cost[start + sought.gaps] = 1.0
    answer = milp(
        cost,
        constraints=[LinearConstraint(matrix, low, high), LinearConstraint(row[None], *level)],
        bounds=Bounds(at_least, at_most),
        integrality=np.concatenate([np.zeros(total - n_binary), np.ones(n_binary)]),
        options={"node_limit": NODES},
    )
    return None if answer.x is None else np.asarray(answer.x[:d])


def _constraints(layers: list[Layer], room: float) -> tuple[csr_array, Array, Array, int]:
    """The constraints (1) of all layers on inputs, outputs of every layer and binaries; bounds; how many binaries."""
    n_features = layers[0][0].shape[1]
    widths = [len(b) for _, b in layers]
    n_binary = sum(widths)
    total = n_features + 2 * n_binary
    rows, lows, highs = [], [], []
    before, binary = 0, n_features + n_binary
    at_least, at_most = np.full(n_features, -room), np.full(n_features, room)
    here = n_features
    for (W, b), width in zip(layers, widths, strict=True):
        top = np.maximum(W, 0) @ at_most + np.minimum(W, 0) @ at_least + b
        bottom = np.maximum(W, 0) @ at_least + np.minimum(W, 0) @ at_most + b
        top, bottom = np.maximum(top, 0.0), np.minimum(bottom, 0.0)
        block = np.zeros((3 * width, total))
        eye = np.eye(width)
        inputs, own, marks = (
            slice(before, before + W.shape[1]),
            slice(here, here + width),
            slice(binary, binary + width),
        )
        block[:width, own], block[:width, inputs] = eye, -W  # h >= t
        block[width : 2 * width, own], block[width : 2 * width, inputs] = eye, -W
        block[width : 2 * width, marks] = -np.diag(bottom)  # h <= t - low (1 - z)
        third = slice(2 * width, 3 * width)
        block[third, own], block[third, marks] = eye, -np.diag(top)  # h <= high z
        bounds = [(b, np.inf), (-np.inf, b - bottom), (-np.inf, 0.0)]
        rows.append(block)
        lows.append(np.concatenate([np.broadcast_to(bound[0], width) for bound in bounds]))
        highs.append(np.concatenate([np.broadcast_to(bound[1], width) for bound in bounds]))
        before, here, binary = here, here + width, binary + width
        at_least, at_most = np.zeros(width), top
    return csr_array(np.concatenate(rows)), np.concatenate(lows), np.concatenate(highs), n_binary
