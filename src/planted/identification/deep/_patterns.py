r"""Places of known layers at which units of the next one show, found without questions.

With one binary variable for each unit, and bounds on every pre-activation, a known network is a set of linear constraints:

.. math:: h \ge 0, \quad h \ge t, \quad h \le t - t_{low} (1 - z), \quad h \le t_{high} z, \qquad t = W h' + b.   \quad (1)

A place at which a unit of the next layer is on by its known weights, and one unit below whose weight is not known is barely
on, shows that weight. If there is no such place, the weight has no effect on that side of the unit.

A unit of the next layer that hardly ever switches at typical inputs does so at corners of what the layer below reaches,
where few of its units are large and the others small. For random directions, most of whose parts are negative, a
hill-climbing walk on the inputs goes to such corners. A walk does not reach the corner where nearly all units are off;
the mixed-integer program (1) finds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from planted._typing import Array, IntArray
from planted.identification.deep._layers import pass_layers
from planted.identification.two_layer._search import BlackBox
from planted.networks._deep import Layer

__all__ = ["Sought", "barely_on", "corner_places", "least_places", "network_constraints", "on_surface"]

PROGRAMS = {"node_limit": 300, "presolve": False}  # presolve takes longer than it saves here (2026-11-18)
ON = 0.3  # of its typical size: how far the unit above is on at least
STEPS = 150  # of a walk
UPWARD = 0.3  # share of the units of a direction that should be large
STRONGER = (1.0, 1.0, 3.0, 1.0)  # times as much as the others should be small
ROOMS = (3.0, 10.0, 40.0)  # typical inputs: how far walks go
LEAST_ROOM = 4.0  # typical inputs are within
RAISED = 0.3  # of the others' weight: a unit that should be large where the others are small


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
    cost = np.zeros(len(sought.weights))
    cost[sought.gaps] = 1.0
    found = (_solve(layers, sought, gap, barely, (at_least, np.inf), room, cost) for room in rooms)
    return next((place for place in found if place is not None), None)


def on_surface(
    layers: list[Layer], sought: Sought, gap: int, *, height: float, room: float, cost: Array
) -> Array | None:
    """An input at which a unit switches by its known weights and ``gap`` is barely on below, alone of its gaps; or None.

    `height`: of the unit below, at least; at most twice that. `cost`: for each unit below, what is to be small.
    """
    level = (-sought.bias, -sought.bias)
    return _solve(layers, sought, gap, height, level, room, cost, is_alone=True)


def _solve(
    layers: list[Layer],
    sought: Sought,
    gap: int,
    height: float,
    level: tuple[float, float],
    room: float,
    cost: Array,
    *,
    is_alone: bool = False,
) -> Array | None:
    """Solve the program: unit ``gap`` at its height, the known part of the unit at its level; other gaps off, if alone."""
    d = layers[0][0].shape[1]
    matrix, low, high, n_binary = network_constraints(layers, room)
    total = matrix.shape[1]
    width = len(layers[-1][1])
    start = total - n_binary - width  # of the outputs of the last layer
    row = np.zeros(total)
    row[start : start + width] = sought.weights
    at_least = np.concatenate([np.full(d, -room), np.zeros(total - d)])
    at_most = np.concatenate([np.full(d, room), np.full(total - d, np.inf)])
    at_most[-n_binary:] = 1.0
    if is_alone:
        at_most[start + sought.gaps] = 0.0
    at_least[start + gap], at_most[start + gap] = height, 2 * height
    goal = np.zeros(total)
    goal[start : start + width] = cost
    answer = milp(
        goal,
        constraints=[LinearConstraint(matrix, low, high), LinearConstraint(row[None], *level)],
        bounds=Bounds(at_least, at_most),
        integrality=np.concatenate([np.zeros(total - n_binary), np.ones(n_binary)]),
        options=PROGRAMS,
    )
    return None if answer.x is None else np.asarray(answer.x[:d])


def network_constraints(layers: list[Layer], room: float) -> tuple[csr_array, Array, Array, int]:
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
        rows.append(block)
        lows.append(np.concatenate([b, np.full(2 * width, -np.inf)]))
        highs.append(np.concatenate([np.full(width, np.inf), b - bottom, np.zeros(width)]))
        before, here, binary = here, here + width, binary + width
        at_least, at_most = np.zeros(width), top
    return csr_array(np.concatenate(rows)), np.concatenate(lows), np.concatenate(highs), n_binary


def corner_places(layers: list[Layer], box: BlackBox, count: int, rng: np.random.Generator) -> Array:
    """Return the ends of walks towards corners of the outputs of the last of some layers, shape (count, d)."""
    d, k = box.n_features, len(layers[-1][1])
    sizes = pass_layers(layers, box.draw(500, rng)).std(axis=0)
    directions = np.abs(rng.standard_normal((count, k)))
    stronger = np.resize(STRONGER, count)[:, None]
    directions = np.where(rng.random((count, k)) < UPWARD, stronger * directions, -directions)
    directions /= np.where(sizes > 0, sizes, 1.0)
    room = np.resize(ROOMS, count)[:, None] * np.sqrt(d)
    longest = 1.0 if box.has_box else room / (4 * np.sqrt(d))
    X = box.draw(count, rng)
    best = (pass_layers(layers, X) * directions).sum(axis=1)
    for _ in range(STEPS):
        moved = X + longest * 2.0 ** rng.uniform(-5, 0, (count, 1)) * box.draw(count, rng)
        if box.has_box:
            moved = np.clip(moved, -1.0, 1.0)
        else:
            moved *= np.minimum(1.0, room / np.linalg.norm(moved, axis=1, keepdims=True))
        values = (pass_layers(layers, moved) * directions).sum(axis=1)
        up = values > best
        X[up], best[up] = moved[up], values[up]
    return box.snap(X)


def least_places(layers: list[Layer], box: BlackBox, rng: np.random.Generator) -> Array:
    """Return typical inputs at which the outputs of the last of some layers, or all but one, are small, shape (n, d)."""
    d, k = box.n_features, len(layers[-1][1])
    room = min(box.room, LEAST_ROOM)
    sizes = pass_layers(layers, box.draw(500, rng)).std(axis=0)
    weights = 1.0 / np.where(sizes > 0, sizes, 1.0)
    matrix, low, high, n_binary = network_constraints(layers, room)
    total = matrix.shape[1]
    at_least = np.concatenate([np.full(d, -room), np.zeros(total - d)])
    at_most = np.concatenate([np.full(d, room), np.full(total - d, np.inf)])
    at_most[-n_binary:] = 1.0
    found = [np.zeros((0, d))]
    for raised in range(-1, k):
        cost = np.zeros(total)
        cost[total - n_binary - k : total - n_binary] = (
            np.where(np.arange(k) == raised, -RAISED, 1.0) * weights
        )
        answer = milp(
            cost,
            constraints=LinearConstraint(matrix, low, high),
            bounds=Bounds(at_least, at_most),
            integrality=np.concatenate([np.zeros(total - n_binary), np.ones(n_binary)]),
            options=PROGRAMS,
        )
        if answer.x is not None:
            found.append(answer.x[None, :d])
    return box.snap(np.concatenate(found))
