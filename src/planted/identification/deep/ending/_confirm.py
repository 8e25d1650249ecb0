r"""Confirm known layers by fresh answers: where none of their units changes, the answer must not change.

Let h(x) be the last of some known layers. While the pattern of active units of these layers is fixed, h = M x + m, and along
any direction u with M u = 0 the layer does not change. If the layers are complete, the answer is a function of h alone:

.. math:: f(x + s u) = f(x)                                                                                  \quad (1)

for every step s that keeps the pattern. A unit that is missing and on at either end, or a wrong row, breaks (1). Places are
drawn as typical inputs are, steps are long, and each place costs two questions. Units that are off at almost all typical
inputs, and those whose part in the answers is below the tolerance, are not excluded.
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array
from planted.identification._rounding import Rounding
from planted.identification.two_layer._search import BlackBox
from planted.networks._deep import Layer

__all__ = ["confirming_places"]

PLACES = 64  # at which (1) is tested
FEWEST = 16  # of these: fewer confirm nothing
TRIES = 8  # directions, of which the longest step is taken
LONGEST = 4.0  # radii: of a step
INSIDE = 0.9  # of the way to the next switch of a known unit
RANK = 1e-9  # of the largest singular value: below it a direction does not change the layer
SAME = 1e-6  # of the spread of the answers: what rows with few digits may change


def confirming_places(
    box: BlackBox, layers: list[Layer], rounding: Rounding, rng: np.random.Generator
) -> int:
    """Test (1) at fresh places and return at how many it holds; 0 if it fails at one, or hardly any can be tested."""
    pairs = [_step(box, layers, rounding.radius, rng) for _ in range(PLACES)]
    starts, ends = (np.array(each) for each in zip(*pairs, strict=True))
    is_moved = (starts != ends).any(axis=1)
    starts, ends = box.snap(starts[is_moved]), box.snap(ends[is_moved])
    if len(starts) < FEWEST:
        return 0
    before, after = box.ask(starts), box.ask(ends)
    spread = before.std(axis=0)
    farther = 1 + np.linalg.norm(ends, axis=1, keepdims=True) / rounding.radius
    allowed = 16 * (rounding.at(starts) + rounding.at(ends)) + SAME * spread * farther
    return len(starts) if (np.abs(after - before) <= allowed).all() else 0


def _step(box: BlackBox, layers: list[Layer], radius: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """A typical input, and another at which no known unit differs; the same if every direction changes some."""
    x = box.draw(1, rng)[0]
    M, h = np.eye(x.size), x
    slopes, heights = [], []
    for W, b in layers:
        M, t = W @ M, W @ h + b
        slopes.append(M)
        heights.append(t)
        M, h = M * (t > 0)[:, None], np.maximum(t, 0.0)
    _, sizes, rows = np.linalg.svd(M)
    still = rows[int((sizes > RANK * max(sizes[0], np.finfo(float).tiny)).sum()) :]
    if not len(still):
        return x, x
    directions = rng.standard_normal((TRIES, len(still))) @ still
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    along, height = directions @ np.concatenate(slopes).T, np.concatenate(heights)
    with np.errstate(divide="ignore"):
        lengths = np.where(along * height < 0, np.abs(height) / np.abs(along), np.inf).min(axis=1)
        room = ((box.room - np.sign(directions) * x) / np.abs(directions)).min(axis=1)
    lengths = np.minimum(INSIDE * np.minimum(lengths, room), LONGEST * radius)
    best = int(lengths.argmax())
    return x, x + lengths[best] * directions[best]
