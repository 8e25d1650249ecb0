"""Places at which few units of a layer are large and the others small: rare units of the next layer show there.

A unit of the next layer that hardly ever switches at typical inputs does so at corners of what the layer below reaches.
For random directions, most of whose parts are negative, a hill-climbing walk on the inputs goes to such corners. It uses the
known layers only and asks nothing.
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array
from planted.identification._search import BlackBox
from planted.identification.deep._layers import pass_layers
from planted.networks._deep import Layer

__all__ = ["corner_places"]

STEPS = 150  # of a walk
UPWARD = 0.3  # share of the units of a direction that should be large
STRONGER = 3.0  # times as much as the others should be small
ROOMS = (3.0, 10.0, 40.0)  # typical inputs: how far walks go


def corner_places(layers: list[Layer], box: BlackBox, count: int, rng: np.random.Generator) -> Array:
    """Return the ends of walks towards corners of the outputs of the last of some layers, shape (count, d)."""
    d, k = box.n_features, len(layers[-1][1])
    sizes = pass_layers(layers, box.draw(500, rng)).std(axis=0)
    directions = np.abs(rng.standard_normal((count, k)))
    directions = np.where(rng.random((count, k)) < UPWARD, STRONGER * directions, -directions)
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
