r"""Known lower layers: regions of a fixed pattern, the rows of the next layer seen in them, and its orientation.

While the pattern of active units of the lower layers is fixed, every layer is an affine function of the coordinates. Such a
region is a polytope. Within it the units of the next layer break along whole hyperplanes (`_planes`), whose normals are
combinations of the rows of the units that are on below:

.. math:: n = w_S M_S, \qquad o = w_S m_S + b \quad (1)

where h = M v + m is the layer below. If the rows of M_S are independent, (1) gives the weights w_S of a unit up to scale,
without those of units that are off below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array, BoolArray
from planted.networks._deep import Layer

__all__ = ["Base", "Region", "orientation_votes", "pass_layers", "region_at"]

ON = 1e-6  # of the largest coefficient: a gradient has this much of the row of a unit that is on


@dataclass(frozen=True, slots=True)
class Base:
    """Coordinates v in which later layers are read: ``x = matrix v + shift`` within ``sides v <= limits``."""

    matrix: Array  # (d, p)
    shift: Array  # (d,)
    sides: Array  # (c, p)
    limits: Array  # (c,)

    def inputs(self, V: Array) -> Array:
        """Return the inputs that have the coordinates."""
        return np.asarray(V @ self.matrix.T + self.shift)


@dataclass(frozen=True, slots=True)
class Region:
    """A polytope ``sides v <= limits`` of coordinates on which the layer below is ``h = M v + m``."""

    sides: Array
    limits: Array
    M: Array  # (k, p): zero rows for units that are off
    m: Array  # (k,)
    on: BoolArray  # (k,)


def region_at(base: Base, layers: list[Layer], v: Array, patterns: list[BoolArray] | None = None) -> Region:
    """Return the region of the coordinates ``v``, or that of given patterns of the known layers."""
    M, m = base.matrix, base.shift
    sides, limits = [base.sides], [base.limits]
    on = np.ones(len(m), dtype=np.bool_)
    for place, (W, b) in enumerate(layers):
        T, t = W @ M, W @ m + b
        on = np.asarray(T @ v + t > 0) if patterns is None else patterns[place]
        sign = np.where(on, -1.0, 1.0)
        sides.append(sign[:, None] * T)
        limits.append(-sign * t)
        M, m = T * on[:, None], t * on
    return Region(np.concatenate(sides), np.concatenate(limits), M, m, on)


def pass_layers(layers: list[Layer], X: Array) -> Array:
    """Return the outputs of the last of some known layers."""
    for W, b in layers:
        X = np.maximum(X @ W.T + b, 0.0)
    return X


def orientation_votes(rows: Array, values: Array, gradients: Array, *, noise: float) -> tuple[Array, Array]:
    """Let gradients vote on which side each unit is on; return the sums of the votes and how many were cast.

    A gradient is a combination of the rows of units that are on, and the rows are independent: units without a part in it
    are off, or not seen. `values`: pre-activations where the gradients were measured, up to orientation. Shapes: rows
    (k, p), values (n, k), gradients (n, m, p), results (k,).
    """
    parts = np.abs(gradients @ np.linalg.pinv(rows)).max(axis=1)
    largest = parts.max(axis=1, keepdims=True)
    far = np.abs(values) > 1e-6 * np.abs(values).max(axis=1, keepdims=True)
    is_on = (parts > np.maximum(ON * largest, noise)) & (largest > noise) & far
    return (np.where(values > 0, 1.0, -1.0) * is_on).sum(axis=0), is_on.sum(axis=0).astype(np.float64)
