"""Decide from the parameters whether two networks are the same function; nothing is sampled.

An activation of degree p is ``right t₊^p + left (-t)₊^p``, and ``(-t)₊^p = (-1)^p (t^p - t₊^p)``. So the difference
of two networks is

    sum_i s_i (n_i'x + o_i)₊^p  +  sum_j g_j (n_j'x + o_j)^p  +  c                                    (1)

with distinct hyperplanes in the first sum. The powers of one degree that break along distinct hyperplanes are
linearly independent modulo polynomials, so (1) vanishes if and only if every ``s_i`` is zero and the polynomial is.
Its part of degree s is given by the symmetric tensor

    T_s = sum_j g_j binom(p, s) o_j^(p - s) n_j^{⊗s},      s = 0, ..., p   (T_0 with c)                (2)

which is computed as it stands while it has at most `LARGEST_TENSOR` entries. Beyond that only its norm is formed,
from ``|T_s|² = sum_ij w_i w_j (n_i'n_j)^s``; this costs half the digits, and the tolerance is then at least 1e-7.
Networks of different degrees are compared in the same way, degree by degree in the first sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from planted._typing import Array, IntArray
from planted.networks._kinks import ScaledUnits, UnitGroups, group_units, scale_units, sum_groups
from planted.networks._simplify import canonical_form, simplify_network

if TYPE_CHECKING:
    from planted.networks._network import TwoLayerNetwork

__all__ = ["are_equivalent", "canonical_form", "simplify_network"]

LARGEST_TENSOR = 1_000_000  # entries of T_s
NORM_TOLERANCE = 1e-7  # what is left of double precision after the norm identity: square root of 1e-14


def are_equivalent(net: TwoLayerNetwork, other: TwoLayerNetwork, *, tol: float) -> bool:
    """Decide whether two networks agree everywhere; False if their numbers of inputs or outputs differ.

    `tol` is the tolerance on hyperplanes and, output by output relative to the networks' scale, on their strengths.

    Examples
    --------
    >>> from planted.networks import TwoLayerNetwork
    >>> square = TwoLayerNetwork(W=[[1.0]], A=[[1.0]], activation="quadratic")
    >>> halves = TwoLayerNetwork(W=[[1.0], [-2.0]], A=[[1.0, 0.25]], activation="power:2")
    >>> are_equivalent(square, halves, tol=1e-9)
    True
    """
    if (net.n_features, net.n_outputs) != (other.n_features, other.n_outputs):
        return False
    difference = _subtract(net, other, tol)
    scale = sum_groups(np.abs(difference.breaks), difference.groups).max(axis=1, initial=0.0)
    return _breaks_cancel(difference, tol * scale) and _polynomial_vanishes(difference, scale, tol)


@dataclass(frozen=True, slots=True)
class _Difference:
    """The sums of (1), unit by unit: ``breaks`` are the s, ``powers`` the g, ``degrees`` the p."""

    groups: UnitGroups
    breaks: Array
    powers: Array
    degrees: IntArray
    constant: Array
    constant_size: Array


def _subtract(net: TwoLayerNetwork, other: TwoLayerNetwork, tol: float) -> _Difference:
    first, second = scale_units(net), scale_units(other)
    stacked = ScaledUnits(
        normals=np.concatenate([first.normals, second.normals]),
        offsets=np.concatenate([first.offsets, second.offsets]),
        outputs=np.concatenate([first.outputs, -second.outputs], axis=1),
        constant=first.constant - second.constant,
    )
    groups = group_units(stacked, tol=tol)
    counts = (first.offsets.size, second.offsets.size)
    degrees, right, left = (
        np.repeat([getattr(net.activation, name), getattr(other.activation, name)], counts)
        for name in ("degree", "right", "left")
    )
    parity = (-1.0) ** degrees
    before = np.where(groups.signs > 0, left, right)  # coefficient on the negative side of the hyperplane
    after = np.where(groups.signs > 0, right, left)
    return _Difference(
        groups=groups,
        breaks=stacked.outputs * (after - parity * before),
        powers=stacked.outputs * (parity * before),
        degrees=degrees,
        constant=stacked.constant,
        constant_size=np.abs(first.constant) + np.abs(second.constant),
    )


def _breaks_cancel(difference: _Difference, allowed: Array) -> bool:
    """Whether the first sum of (1) is zero, degree by degree."""
    for degree in np.unique(difference.degrees):
        jumps = sum_groups(difference.breaks * (difference.degrees == degree), difference.groups)
        if (np.abs(jumps) > allowed[:, None]).any():
            return False
    return True


def _polynomial_vanishes(difference: _Difference, scale: Array, tol: float) -> bool:
    """Whether every tensor (2) is zero, relative to the sizes of its terms."""
    groups, degrees = difference.groups, difference.degrees
    offsets = groups.offsets[groups.labels]
    for order in range(int(degrees.max(initial=0)) + 1):
        factor = np.array([comb(int(degree), order) for degree in degrees], dtype=np.float64)
        rest = np.maximum(degrees - order, 0)
        weights = sum_groups(difference.powers * (factor * offsets**rest), groups)
        sizes = np.abs(difference.powers) @ (factor * np.maximum(1.0, np.abs(offsets)) ** rest)
        # A hyperplane moved by tol moves each of the `degree` factors of a term by as much.
        allowed = (
            tol * (1 + degrees.max(initial=0)) * (sizes + scale + difference.constant_size * (order == 0))
        )
        largest, floor = _tensor_size(weights, groups.normals, order=order, constant=difference.constant)
        if (largest > np.maximum(allowed, floor * sizes)).any():
            return False
    return True


def _tensor_size(weights: Array, normals: Array, *, order: int, constant: Array) -> tuple[Array, float]:
    """Largest entry of T_order for each output, or its norm; and the relative error of that number."""
    if order == 0:
        return np.abs(weights.sum(axis=1) + constant), 0.0
    used = (weights != 0).any(axis=0)
    weights, normals = weights[:, used], normals[used]
    if normals.shape[1] ** order > LARGEST_TENSOR:
        squares = np.einsum("ri,ij,rj->r", weights, (normals @ normals.T) ** order, weights, optimize=True)
        return np.sqrt(np.maximum(squares, 0.0)), NORM_TOLERANCE
    low, high = _tensor_powers(normals, order // 2), _tensor_powers(normals, order - order // 2)
    return np.array([np.abs((low * row[:, None]).T @ high).max(initial=0.0) for row in weights]), 0.0


def _tensor_powers(rows: Array, order: int) -> Array:
    """The tensor power of each row, flattened."""
    count, d = rows.shape
    powers = np.ones((count, 1))
    for _ in range(order):
        powers = (powers[:, :, None] * rows[:, None, :]).reshape(count, powers.shape[1] * d)
    return powers
