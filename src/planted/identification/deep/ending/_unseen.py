r"""Places at which units of the last hidden layer would be on that no answer has shown; no questions.

A unit σ(w h + b) that is off at every input asked leaves no trace, and a random input hardly ever meets one that is on for
one input of ten thousand. But the layers below are known, and so is what units of this layer look like. A unit with weights
w may be missing if -b is at least m, the largest w h at an input asked; and it is on at a place of value v = w h if -b < v.
With biases that are normal, of standard deviation s, the place shows the missing unit with probability

.. math:: P(m \le -b < v) = \Phi(v / s) - \Phi(m / s).                                                      \quad (1)

Weights are drawn in units of the typical sizes of h, and s is as for the units found, for weights of that length. For most
of them m is so large that (1) is nearly zero everywhere. For the others a hill-climbing walk on typical inputs goes to where
w h is largest. Of the ends of these walks the one at which the sum of (1) over all weights is largest comes first, then the
one that adds most to it, and so on.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from planted._typing import Array
from planted.identification.deep._layers import pass_layers
from planted.identification.deep._patterns import LEAST_ROOM
from planted.identification.two_layer._search import BlackBox
from planted.networks._deep import Layer

__all__ = ["unseen_places"]

BLOCKS, DRAWN = 10, 20_000  # times so many units whose weights are drawn
WALKS = 3_000  # of these, at most, for which a walk is made
KEPT = 1_000  # of these, at most, which have most to show
FIRST, MORE = 32, 4  # inputs that are looked at first, and times as many each time after
UNLIKELY = 3.0  # standard deviations of a bias
STARTS = 2_000  # typical inputs of which a walk begins at the best
STEPS = 400  # of a walk
SIZES = (-5.0, 0.0)  # log2 of their lengths, in typical inputs
LEFT = 0.02  # of the sum of (1): what may remain


def unseen_places(
    layers: list[Layer], last: Layer, asked: Array, box: BlackBox, *, most: int, rng: np.random.Generator
) -> Array:
    """Return inputs, at most so many, at which a unit of the last layer is likely to be on if one is missing.

    Shapes: asked (n, d), result (r, d).
    """
    below = pass_layers(layers, rng.permutation(asked))
    sizes = pass_layers(layers, box.draw(STARTS, rng)).std(axis=0)
    sizes[sizes == 0] = 1.0
    W, b = last
    typical = float(np.sqrt(np.mean(b**2 / ((W * sizes) ** 2).sum(axis=1))))
    parts = [np.zeros((0, len(sizes)))]
    for _ in range(BLOCKS):
        rows = rng.standard_normal((DRAWN, len(sizes)))
        rows /= typical * np.linalg.norm(rows, axis=1, keepdims=True)  # biases have standard deviation one
        parts.append(_may_be_off(below, rows / sizes))
    rows = np.concatenate(parts)[:WALKS]
    places = _climb(layers, rows, box, rng)
    before = ndtr((below @ rows.T).max(axis=0))
    gains = ndtr((pass_layers(layers, places) * rows).sum(axis=1)) - before
    kept = np.argsort(-gains, kind="stable")[: min(KEPT, int((gains > 0).sum()))]
    shown = ndtr(pass_layers(layers, places[kept]) @ rows[kept].T)
    return box.snap(places[kept][_best(shown, before[kept], most)])


def _may_be_off(H: Array, rows: Array) -> Array:
    """The rows of units that are off at all of some outputs of the layer below, with a bias that is not unlikely."""
    done, count = 0, FIRST
    while done < len(H) and len(rows):
        rows = rows[(H[done : done + count] @ rows.T).max(axis=0) < UNLIKELY]
        done, count = done + count, MORE * count
    return rows


def _climb(layers: list[Layer], rows: Array, box: BlackBox, rng: np.random.Generator) -> Array:
    """Walk to typical inputs at which each unit is as far on as it can be. Shapes: rows (k, p), result (k, d)."""
    starts, count = box.draw(STARTS, rng), len(rows)
    X = starts[(pass_layers(layers, starts) @ rows.T).argmax(axis=0)]
    values, room = (pass_layers(layers, X) * rows).sum(axis=1), min(box.room, LEAST_ROOM)
    for _ in range(STEPS):
        moved = np.clip(X + 2.0 ** rng.uniform(*SIZES, (count, 1)) * box.draw(count, rng), -room, room)
        trial = (pass_layers(layers, moved) * rows).sum(axis=1)
        up = trial > values
        X[up], values[up] = moved[up], trial[up]
    return np.asarray(X)


def _best(shown: Array, before: Array, most: int) -> list[int]:
    """Places that together show most, the best first. Shapes: shown (places, units), before (units,)."""
    chosen, enough = list[int](), LEFT * float(np.maximum(shown.max(axis=0, initial=0.0) - before, 0.0).sum())
    while len(chosen) < most:
        gains = np.maximum(shown - before, 0.0)
        if gains.max(axis=0, initial=0.0).sum() <= enough:
            break
        chosen.append(int(gains.sum(axis=1).argmax()))
        before = np.maximum(before, shown[chosen[-1]])
    return chosen
