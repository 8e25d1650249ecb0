r"""The last hidden layer: test whether a layer is the last, orient it, and fit the output layer; no questions.

If the layer with pre-activations t_j = w_j h + b_j is the last one, then σ(t) = (t + |t|) / 2 gives

.. math:: f = \sum_j \alpha_j |t_j| + L h + c                                                             \quad (1)

for every input, with h the layer below. Least squares on all answers so far decides whether (1) holds. Its coefficients
orient the units, since L is the sum of o_j α_j w_j: the system that `planted.linalg.signs` solves.

A weight that was not seen, from unit i below, is a gap. Often it cannot be seen where unit j switches: wherever i is on, j
is on one side s_j. There |t_j| = s_j t_j is linear, with a coefficient of its own, and L_i has a further part s_j α_j w_ji.
If s_j is the side on which j is on, the gap is (L_i - Σ o α w_i) / (2 s_j α_j), the sum over the other units; else the
weight has no effect on any answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array, BoolArray
from planted.identification.deep._layers import pass_layers
from planted.linalg.signs import round_shares, search_corners
from planted.networks._deep import Layer

__all__ = ["EXPLAINED", "NO_REST", "Top", "fit_top", "orientations"]

EXPLAINED = 1e-6  # residual of (1) relative to the spread of the answers
NEEDLESS = 1e-7  # of the spread of the answers: the largest part of a unit that has none
NO_REST = 1e-5  # relative size of a linear part that is put down to errors
SIDED = 1e-3  # relative difference of the coefficients of |t| and of t beyond a gap
CHANCE = -6.0  # log10 of the probability that other orientations fit by accident


@dataclass(frozen=True, slots=True)
class Top:
    """The last hidden layer and the output layer."""

    layer: Layer
    output: Layer
    rest: float  # part of L that no orientation explains, relative: units that never switch
    passing: int  # units that were added to pass that part on
    is_unique: bool  # whether the orientation is the only one
    residual: float  # of (1), relative
    gaps: BoolArray  # (k, p): weights that have no effect on any answer so far, and are put at zero

    @property
    def unseen(self) -> int:
        """How many gaps are left."""
        return int(self.gaps.sum())


def fit_top(
    answers: tuple[Array, Array],
    layers: list[Layer],
    planes: tuple[Array, Array],
    known: BoolArray | None = None,
    *,
    explained: float = EXPLAINED,
    no_rest: float = NO_REST,
) -> Top | None:
    """Return the last layers if the hyperplanes explain all answers; None if they do not.

    `known`: which weights of the hyperplanes are known, if there are gaps; these have the value zero. `explained`: the
    largest residual, relative to the spread of the answers. `no_rest`: the largest linear part that is put down to errors.
    """
    Z, Y = answers
    H = pass_layers(layers, Z)
    rows, biases = planes
    k = len(biases)
    gaps = np.zeros(rows.shape, dtype=np.bool_) if known is None else ~known
    weights = 1.0 / (1.0 + np.linalg.norm(Z, axis=1) / np.sqrt(Z.shape[1]))
    T = H @ rows.T + biases
    beyond = (H > 0) @ gaps.T  # where a weight that is not known has an effect
    open_ones = np.flatnonzero(beyond.any(axis=0))
    apart = (T * beyond)[:, open_ones]
    features = np.column_stack([np.abs(T) * ~beyond, H, np.ones(len(H)), apart])
    if features.shape[0] < 2 * features.shape[1]:
        return None
    scaled = features * weights[:, None]
    lengths = np.linalg.norm(scaled, axis=0)
    lengths[lengths == 0] = 1.0
    coefficients = np.linalg.lstsq(scaled / lengths, Y * weights[:, None], rcond=1e-13)[0] / lengths[:, None]
    residual = np.abs((features @ coefficients - Y) * weights[:, None]).max(axis=0)
    spread = (Y * weights[:, None]).std(axis=0)
    relative = float((residual / np.where(spread > 0, spread, 1.0)).max())
    if relative > explained:
        return None
    parts = np.abs(features[:, :k] * weights[:, None]).max(axis=0)
    needed = (np.abs(coefficients[:k]) * parts[:, None] > NEEDLESS * spread).any(axis=1)
    if not needed.all() and needed.any():  # what was taken for units has no part in any answer
        kept = (rows[needed], biases[needed]), (None if known is None else known[needed])
        return fit_top(answers, layers, *kept, explained=explained, no_rest=no_rest)
    p = H.shape[1]
    alphas, linear, constant = coefficients[:k].T, coefficients[k : k + p].T, coefficients[k + p]
    sides = np.zeros(k)
    for unit, part in zip(open_ones, coefficients[k + p + 1 :], strict=True):
        strength = alphas[:, unit]
        sides[unit] = (part @ strength) / (strength @ strength)
        if np.linalg.norm(part - np.sign(sides[unit]) * strength) > SIDED * np.linalg.norm(strength):
            return None
    sides = np.sign(sides)
    seen = (H > 0).any(axis=0)  # other units below have no linear part
    whole = ~gaps.any(axis=0) & seen  # units below whose weights are all known
    columns = np.einsum("mk,kp->mpk", alphas, rows)
    ups, is_unique, left = orientations(columns[:, whole].reshape(-1, k), linear[:, whole].ravel(), no_rest)
    rest = (linear - columns @ ups) * seen
    rows = rows.copy()
    if left <= no_rest:
        rows, rest, gaps = _filled(rows, gaps, rest, alphas, np.where(sides == ups, sides, 0.0))
        size = float(np.linalg.norm(linear) + np.linalg.norm(columns, axis=(0, 1)).sum())
        left = float(np.linalg.norm(rest)) / size if size else 0.0
    W, b = rows * ups[:, None], biases * ups
    A, c = 2 * alphas, constant - alphas @ b
    if left <= no_rest:
        return Top((W, b), (A, c), 0.0, 0, is_unique, relative, gaps)
    passing, signs = _passing_units(rest)
    W, b = np.concatenate([W, passing]), np.append(b, np.zeros(len(passing)))
    gaps = np.concatenate([gaps, np.zeros(passing.shape, dtype=np.bool_)])
    return Top((W, b), (np.hstack([A, signs]), c), left, len(passing), is_unique, relative, gaps)


def orientations(columns: Array, target: Array, share: float) -> tuple[Array, bool, float]:
    """The signs with which the columns add up to the target, whether there are no others, and what is left, relative."""
    k = columns.shape[1]
    size = float(np.linalg.norm(columns, axis=0).sum() + np.linalg.norm(target))
    error = share * size
    goal = target + columns.sum(axis=1)
    shares = round_shares(2 * columns, goal, error=error)
    is_unique = True
    if shares is None:
        corner = search_corners(2 * columns, goal, error=error)
        shares, is_unique = (np.ones(k), False) if corner is None else (corner[0], corner[1] < CHANCE)
    ups = np.where(shares > 0.5, 1.0, -1.0)
    return ups, is_unique, float(np.linalg.norm(target - columns @ ups)) / size if size else 0.0


def _filled(
    rows: Array, gaps: BoolArray, rest: Array, alphas: Array, sides: Array
) -> tuple[Array, Array, BoolArray]:
    """Fill gaps from the linear part that is left; return the rows, what is left then, and the gaps that remain.

    `sides`: +1 or -1 for units that are on wherever a gap has an effect, 0 for others. Shapes: rows (k, p), rest (m, p).
    """
    rows, rest, gaps = rows.copy(), rest.copy(), gaps.copy()
    for below in np.flatnonzero(gaps.any(axis=0)):
        units = np.flatnonzero(gaps[:, below] & (sides != 0))
        system = 2 * alphas[:, units] * sides[units]
        if not units.size or np.linalg.matrix_rank(system) < units.size:
            continue
        rows[units, below] = np.linalg.lstsq(system, rest[:, below], rcond=None)[0]
        rest[:, below] -= system @ rows[units, below]
        gaps[units, below] = False
    return rows, rest, gaps


def _passing_units(rest: Array) -> tuple[Array, Array]:
    """Units that are never off, for inputs that are not negative, and add up to linear functions of shape (m, p)."""
    rows, columns = [], []
    for place, row in enumerate(rest):
        for sign in (1.0, -1.0):
            part = np.maximum(sign * row, 0.0)
            if np.linalg.norm(part) > NO_REST * np.linalg.norm(rest):
                rows.append(part)
                columns.append(sign * np.eye(len(rest))[place])
    return np.array(rows), np.array(columns).T
