"""The hyperplanes along which a network bends, and the unique form that they give to its function.

A unit with a positively homogeneous activation breaks along one hyperplane and nowhere else. Scaled to a unit normal
it reads ``a f(n'x + o)``. A piecewise-linear function of a two-layer network can be written in exactly one way as

    f(x) = sum_i s_i |n_i'x + o_i| + V x + c                                                        (1)

with distinct hyperplanes and strengths ``s_i`` that are not zero. Hence two-layer networks with activations of degree
one are the same function if and only if their forms (1) agree.

Two hyperplanes are the same if their unit normals and offsets differ, up to a common sign, by less than a tolerance;
offsets above one are compared relative to their size (on the scale of ``arcsinh``). Signs and order come from the
product with one fixed generic vector. Unlike "first coordinate positive" and lexicographic order, this does not
depend on the rounding of coordinates that are zero or equal.

Cost: neighbours are found by sorting along that vector, O(h log h + h d) for h hyperplanes in general position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planted._typing import Array, BoolArray, IntArray, as_array

if TYPE_CHECKING:
    from planted.networks._network import TwoLayerNetwork

__all__ = [
    "ScaledUnits",
    "UnitGroups",
    "group_units",
    "has_positive_lead",
    "joined_points",
    "looks_ahead",
    "scale_units",
    "sum_groups",
    "sum_labels",
    "unit_order",
]

EQUAL_WEIGHTS = 1e-9  # relative difference of input weights that are of one size


@dataclass(frozen=True, slots=True)
class ScaledUnits:
    """The units of a network that have an effect and a hyperplane, with unit normals."""

    normals: Array  # (k, d): unit normals
    offsets: Array  # (k,): offsets
    outputs: Array  # (m, k): output weights, with the scale of the unit moved into them
    constant: Array  # (m,): the output offset, with the constant units folded in


@dataclass(frozen=True, slots=True)
class UnitGroups:
    """Which units share a hyperplane."""

    normals: Array  # (h, d): unit normals of the distinct hyperplanes, signs fixed, in canonical order
    offsets: Array  # (h,): their offsets
    labels: IntArray  # (k,): the hyperplane of each unit
    signs: Array  # (k,): +1 where the unit looks along the hyperplane's normal, -1 where it looks against it


def scale_units(net: TwoLayerNetwork) -> ScaledUnits:
    """Scale the units to unit normals; fold constant units into the offset and drop those without effect."""
    norms = _row_norms(net.W)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        offsets = net.b / norms
    is_flat = (norms == 0) | ~np.isfinite(offsets)
    live = ~is_flat & (net.A != 0).any(axis=0)
    return ScaledUnits(
        normals=net.W[live] / norms[live, None],
        offsets=offsets[live],
        outputs=net.A[:, live] * norms[live] ** net.activation.degree,
        constant=net.c + net.A[:, is_flat] @ net.activation(net.b[is_flat]),
    )


def group_units(units: ScaledUnits, *, tol: float) -> UnitGroups:
    """Group units by hyperplane; the distinct hyperplanes are in canonical order.

    `tol`: two hyperplanes whose unit normals and offsets differ by less are the same.
    """
    labels, signs = joined_points(_points(units.normals, units.offsets), tol, up_to_sign=True)
    first = np.unique(labels, return_index=True)[1]
    facing = np.where(looks_ahead(units.normals[first]), 1.0, -1.0)
    normals, offsets = units.normals[first] * facing[:, None], units.offsets[first] * facing
    order = unit_order(normals, offsets)
    rank = np.argsort(order)
    return UnitGroups(normals[order], offsets[order], labels=rank[labels], signs=signs * facing[labels])


def sum_groups(values: Array, groups: UnitGroups) -> Array:
    """Sum the columns of ``values`` (m, k) hyperplane by hyperplane, giving (m, h)."""
    return sum_labels(values, groups.labels, groups.offsets.size)


def sum_labels(values: Array, labels: IntArray, count: int) -> Array:
    """Sum the columns of ``values`` (m, k) by label, giving (m, count)."""
    sums = np.zeros((count, len(values)))
    np.add.at(sums, labels, values.T)
    return sums.T


def looks_ahead(normals: Array) -> BoolArray:
    """Mark the normals that point to the positive side of the generic vector, as those of canonical hyperplanes do.

    Shapes: normals (h, d), result (h,).
    """
    return np.asarray(normals @ _generic_vector(normals.shape[1]) >= 0)


def has_positive_lead(normals: Array) -> BoolArray:
    """Mark the normals whose largest weight is positive: the first of those that are equal to rounding.

    Shapes: normals (h, d), result (h,).
    """
    sizes = np.abs(normals)
    largest = (sizes >= sizes.max(axis=1, keepdims=True) * (1 - EQUAL_WEIGHTS)).argmax(axis=1)
    return np.asarray(normals[np.arange(len(largest)), largest] >= 0)


def unit_order(normals: Array, offsets: Array) -> IntArray:
    """Return the order in which canonical forms list oriented hyperplanes: by their products with a generic vector.

    Shapes: normals (h, d), offsets (h,), result (h,).
    """
    points = _points(normals, offsets)
    return np.argsort(-(points @ _generic_vector(points.shape[1])), kind="stable").astype(np.intp)


def _row_norms(rows: Array) -> Array:
    """Euclidean norms that neither overflow nor underflow."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    return as_array(largest * np.linalg.norm(rows / np.where(largest > 0, largest, 1.0)[:, None], axis=1))


def joined_points(points: Array, tol: float, *, up_to_sign: bool) -> tuple[IntArray, Array]:
    """Label points alike that agree within ``tol``, or whose negatives do; labels count up in order of appearance.

    Returns the labels, and signs relative to the first point of a label. Shapes: points (k, p), results (k,).
    """
    one, other = _near_pairs(points, tol)
    if not up_to_sign:
        same = np.linalg.norm(points[one] - points[other], axis=1) <= tol
        one, other = one[same], other[same]
    components = _components(len(points), np.stack([one, other]))
    _, first, labels = np.unique(components, return_index=True, return_inverse=True)
    labels = np.argsort(np.argsort(first))[labels]
    alignment = np.einsum("ij,ij->i", points, points[np.sort(first)][labels])
    return labels, np.where(alignment >= 0, 1.0, -1.0)


def _components(count: int, pairs: IntArray) -> IntArray:
    """Number the groups of points that pairs connect."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(pairs.shape[1]), (pairs[0], pairs[1])), shape=(count, count))
    numbers: IntArray = connected_components(graph, directed=False)[1]
    return numbers


def _near_pairs(points: Array, tol: float) -> IntArray:
    """Pairs of points that agree up to sign within ``tol``, found among neighbours on a generic line."""
    direction = _generic_vector(points.shape[1])
    keys = np.abs(points @ direction)
    order = np.argsort(keys, kind="stable")
    # A point and its copy can differ on the line by tol times the direction's length, and by rounding.
    reach = tol * np.linalg.norm(direction) + 1e-14 * keys.max(initial=1.0)
    found = [np.zeros((2, 0), dtype=np.intp)]
    for shift in range(1, len(points)):
        near = np.flatnonzero(keys[order[shift:]] - keys[order[:-shift]] <= reach)
        if near.size == 0:
            break
        one, other = order[near], order[near + shift]
        apart = np.linalg.norm(points[one] - points[other], axis=1)
        opposed = np.linalg.norm(points[one] + points[other], axis=1)
        same = np.minimum(apart, opposed) <= tol
        found.append(np.stack([one[same], other[same]]))
    return np.concatenate(found, axis=1)


def _points(normals: Array, offsets: Array) -> Array:
    """Hyperplanes as points; on the scale of arcsinh large offsets differ by their ratio."""
    return np.column_stack([normals, np.arcsinh(offsets)])


def _generic_vector(size: int) -> Array:
    """A fixed vector, decreasing so that coordinate axes sort in order, without simple linear relations."""
    return as_array(1.0 / np.sqrt(np.arange(size) + np.sqrt(2.0)))
