r"""The last hidden layer from breaks that were met on lines, without looking for its units region by region.

Where a unit of the last hidden layer switches, the gradient jumps by the same multiple of its row everywhere,

.. math:: \Delta = 2 \alpha_j w_{j,S} M_S, \qquad w_{j,S} h_S + b_j = 0,                                    \quad (1)

with S the units that are on below and h = M v + m the layer below. If the rows of M_S are independent, every break that was
measured while lower layers were read gives 2 α_j w_j on S, with its size, and the bias. Two breaks are of the same unit if
they agree, up to sign, in the bias and in the weights that both show. If the layer is not the last, the jumps of one unit
have other sizes where other units above are on: rows that agree up to scale only say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from planted._typing import Array, BoolArray
from planted.identification.deep._layers import Base, pass_layers, region_at
from planted.identification.deep._regions import PartialRows
from planted.identification.deep._space import Breaks
from planted.identification.two_layer._jumps import Line
from planted.networks._deep import Layer

__all__ = ["explained_by", "gather_units", "switches_on"]

EXACT = 1e-6  # error of a normal, or of (1), above which a break says too little
APART = 1e-7  # distance from the switch of a lower unit, relative: a break at this distance may be the lower unit's
NEAR = 1e-6  # of the terms of a pre-activation: where a unit switches
ALIKE = 3  # weights that two rows must both show to be compared up to scale
SCALED = 2  # pairs of rows that agree up to scale only, to say that there is a layer above


def gather_units(
    parts: Sequence[tuple[Breaks, Base]], layers: list[Layer], earlier: PartialRows | None = None
) -> tuple[PartialRows, bool]:
    """Put breaks together by units, and say whether the layer may be the last.

    `earlier`: units of which more is known than breaks have shown; what agrees with the breaks is kept.
    """
    found: list[tuple[Array, float, BoolArray]] = []
    for breaks, base in parts:
        for normal, strength, place, error in zip(
            breaks.normals, breaks.strengths.T, breaks.places, breaks.errors, strict=True
        ):
            row = _row_at(normal * np.linalg.norm(strength), place, base, layers) if error < EXACT else None
            if row is not None:
                found.append(row)
    rows = PartialRows.none()
    # Breaks that show many weights come first: others are put down to them.
    for weights, bias, on in sorted(found, key=lambda each: -int(each[2].sum())):
        rows.merge(weights, bias, on, is_scaled=True)
    if earlier is not None:
        for weights, bias, on in zip(earlier.weights, earlier.biases, earlier.known, strict=True):
            rows.merge(weights, bias, on, is_new=False, is_scaled=True)
    rows.join_equal(is_scaled=True)
    return rows, bool(found) and _scaled_pairs(rows) < SCALED


def _scaled_pairs(rows: PartialRows) -> int:
    """How many pairs of different rows are the same up to scale where both are known."""
    count = 0
    for i, j in combinations(range(len(rows.biases)), 2):
        common = rows.known[i] & rows.known[j]
        if common.sum() >= ALIKE:
            one = np.append(rows.weights[i][common], rows.biases[i])
            other = np.append(rows.weights[j][common], rows.biases[j])
            off = one - (one @ other) / (other @ other) * other
            count += bool(np.linalg.norm(off) <= NEAR * np.linalg.norm(one))
    return count


def _row_at(
    jump: Array, place: Array, base: Base, layers: list[Layer]
) -> tuple[Array, float, BoolArray] | None:
    """Weights, bias and what is seen of them, by eq. (1); None if the break is no unit's of the next layer."""
    region = region_at(base, layers, place)
    lengths = np.linalg.norm(region.sides, axis=1)
    scale = lengths * (1 + np.linalg.norm(place)) + np.abs(region.limits)
    inner = slice(len(base.sides), None)
    if (np.abs(region.limits - region.sides @ place) < APART * scale)[inner].any():
        return None
    M = region.M[region.on]
    if not len(M) or np.linalg.matrix_rank(M) < len(M):
        return None
    part = np.linalg.lstsq(M.T, jump, rcond=None)[0]
    if np.linalg.norm(M.T @ part - jump) > EXACT * np.linalg.norm(jump):
        return None
    weights = np.zeros(len(region.on))
    weights[region.on] = part
    return weights, float(-weights @ (region.M @ place + region.m)), region.on


def explained_by(rows: PartialRows, layers: list[Layer], X: Array) -> BoolArray:
    """Whether a unit that has been gathered switches at some inputs, shape (n,)."""
    H = pass_layers(layers, X)
    explained = np.zeros(len(X), dtype=np.bool_)
    for weights, bias, known in zip(rows.weights, rows.biases, rows.known, strict=True):
        terms = np.abs(H) @ np.abs(weights) + abs(bias)
        seen = ~(H[:, ~known] > 0).any(axis=1)
        explained |= seen & (np.abs(H @ weights + bias) <= NEAR * terms)
    return explained


def switches_on(layers: list[Layer], base: Base, line: Line, low: float, high: float) -> Array:
    """Where the units of known layers switch on a line in the coordinates of a base; no questions."""
    found = np.array([low, high])
    for number in range(len(layers)):
        W, b = layers[number]
        # Between the switches of lower layers every pre-activation is linear.
        T = pass_layers(layers[:number], base.inputs(line.at(found))) @ W.T + b
        left, right, starts, widths = T[:-1], T[1:], found[:-1, None], np.diff(found)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            roots = (starts + widths * left / (left - right))[left * right < 0]
        found = np.unique(np.concatenate([found, roots]))
    return np.asarray(found[1:-1])
