r"""The last hidden layer: test whether a layer is the last, orient it, and fit the output layer; no questions.

If the layer with pre-activations t_j = w_j h + b_j is the last one, then σ(t) = (t + |t|) / 2 gives

.. math:: f = \sum_j \alpha_j |t_j| + L h + c                                                             \quad (1)

for every input, with h the layer below. Least squares on all answers so far decides whether (1) holds. Its coefficients
orient the units, since L is the sum of o_j α_j w_j: the system that `planted.linalg.signs` solves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array
from planted.identification.deep._layers import pass_layers
from planted.linalg.signs import round_shares, search_corners
from planted.networks._deep import Layer

__all__ = ["Top", "fit_top"]

EXPLAINED = 1e-6  # residual of (1) relative to the spread of the answers
NO_REST = 1e-5  # relative size of a linear part that is put down to errors
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


def fit_top(answers: tuple[Array, Array], layers: list[Layer], planes: tuple[Array, Array]) -> Top | None:
    """Return the last layers if the hyperplanes explain all answers; None if they do not."""
    Z, Y = answers
    H = pass_layers(layers, Z)
    rows, biases = planes
    weights = 1.0 / (1.0 + np.linalg.norm(Z, axis=1) / np.sqrt(Z.shape[1]))
    T = H @ rows.T + biases
    features = np.column_stack([np.abs(T), H, np.ones(len(H))])
    if features.shape[0] < 2 * features.shape[1]:
        return None
    scaled = features * weights[:, None]
    lengths = np.linalg.norm(scaled, axis=0)
    lengths[lengths == 0] = 1.0
    coefficients = np.linalg.lstsq(scaled / lengths, Y * weights[:, None], rcond=1e-13)[0] / lengths[:, None]
    residual = np.abs((features @ coefficients - Y) * weights[:, None]).max(axis=0)
    spread = (Y * weights[:, None]).std(axis=0)
    relative = float((residual / np.where(spread > 0, spread, 1.0)).max())
    if relative > EXPLAINED:
        return None
    k = len(biases)
    alphas, linear, constant = coefficients[:k].T, coefficients[k:-1].T, coefficients[-1]
    m = len(constant)
    columns = np.einsum("mk,kp->mpk", alphas, rows).reshape(-1, k)
    target = linear.ravel()
    error = 1e-5 * float(np.linalg.norm(columns, axis=0).sum() + np.linalg.norm(target))
    goal = target + columns.sum(axis=1)
    shares = round_shares(2 * columns, goal, error=error)
    is_unique = True
    if shares is None:
        corner = search_corners(2 * columns, goal, error=error)
        shares, is_unique = (np.ones(k), False) if corner is None else (corner[0], corner[1] < CHANCE)
    ups = np.where(shares > 0.5, 1.0, -1.0)
    rest = target - columns @ ups
    size = float(np.linalg.norm(target) + np.linalg.norm(columns, axis=0).sum())
    left = float(np.linalg.norm(rest)) / size if size else 0.0
    W, b = rows * ups[:, None], biases * ups
    A, c = 2 * alphas, constant - alphas @ b
    if left <= NO_REST:
        return Top((W, b), (A, c), 0.0, 0, is_unique, relative)
    passing, signs = _passing_units(rest.reshape(m, -1))
    W, b = np.concatenate([W, passing]), np.append(b, np.zeros(len(passing)))
    return Top((W, b), (np.hstack([A, signs]), c), left, len(passing), is_unique, relative)


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
