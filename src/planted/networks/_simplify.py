"""Write a network with fewer units, as the same function.

Problem     Given a network, return an equal one with the same activation and as few units as can be found.
Idea        The units are grouped by hyperplane. Units on the same side of one hyperplane add up; dead, constant and
            cancelling units are dropped. For degree one, ``f(t) = kink |t| + slope t``, units that look against their
            hyperplane's orientation are turned round, which leaves a linear rest ``R x``:

                a f(-t) = a f(t) - 2 slope a t                                                         (1)

            The rest is taken up, in order of preference,

            1. by turning some units round (`planted.linalg.signs`), which needs no further unit;
            2. by a second unit on one of the hyperplanes, looking the other way: one unit per hyperplane;
            3. by pairs ``f(t) - f(-t) = 2 slope t``: two units for each rank that is left.
Guarantee   The function is kept to rounding, where hyperplanes within the tolerance count as one. Every kink needs a
            unit, so after 1. the number of units is the smallest possible. After 2. and 3. it is an upper bound that
            never exceeds the number at the start; with one output it is the smallest possible whenever the searches
            of 1. and 2. are feasible. The canonical representative is unique if 1., or 2. with one hyperplane,
            succeeds, or if there is one output. Otherwise units keep the orientation they came with, and so do blocks
            of dependent units that are too large for the search.
Linear part A network with B may keep the rest as its B. If turning units round takes up all of the rest, B is absent (it
            is the network that has none). Otherwise orientation is a gauge, since f(t) = f(-t) + 2 slope t: every unit
            is turned so that its largest input weight is positive, and B is what is left.
Powers      For degree two and more, only units on the same side of a hyperplane are merged (the quadratic unit looks
            both ways); polynomial relations between different hyperplanes stay.
References  [ATV21]_, Claims 4.8 and D.14.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from planted._typing import Array, BoolArray
from planted.linalg.signs import LARGEST_BLOCK, find_flips
from planted.networks._kinks import group_units, has_positive_lead, scale_units, sum_groups, unit_order
from planted.outcomes import BadInputError

if TYPE_CHECKING:
    from planted.networks._network import TwoLayerNetwork

__all__ = ["canonical_form", "facing_form", "linear_part_as_units", "simplify_network"]

LARGEST_SYSTEM = 20_000_000  # m d h: numbers in the system whose singular values the search for flips needs


@dataclass(frozen=True, slots=True)
class _Bends:
    """A piecewise-linear function: one oriented unit per hyperplane, and a linear rest.

    ``sum_i outputs_i f(orientation_i (normals_i x + offsets_i)) + rest x + constant``; ``rest_size`` is the
    sum of the sizes of the terms of ``rest``, output by output; ``two_sided`` marks hyperplanes that had
    units on both sides.
    """

    normals: Array
    offsets: Array
    outputs: Array
    orientation: Array
    two_sided: BoolArray
    rest: Array
    rest_size: Array
    constant: Array
    slope: float


@dataclass(frozen=True, slots=True)
class _Units:
    """Units with unit normals, and the offset of the output."""

    W: Array
    b: Array
    A: Array
    c: Array
    B: Array | None = None


def simplify_network(net: TwoLayerNetwork, *, tol: float, affine: bool | None = None) -> TwoLayerNetwork:
    """Return an equal network with fewer units, or the network itself if none can be saved.

    `tol`: two hyperplanes whose unit normals and offsets differ by less are the same. If anything was simplified, the
    rows of W have unit norm. `affine`: whether the result may have a linear part; by default if the network has one.
    """
    if affine is False and net.B is not None and net.B.any():
        raise BadInputError("the network has a linear part B; affine=False asks for one without")
    if net.activation.is_curved:
        from planted.networks._curved_forms import simplify_curved

        return simplify_curved(net, tol=tol, affine=affine)
    may_have_linear = net.B is not None if affine is None else affine
    units = _fewest_units(net, tol, canonical=False, affine=may_have_linear)
    is_same = units.b.size >= net.n_hidden and (units.B is None) == (net.B is None)
    return net if is_same else _as_network(net, units)


def canonical_form(net: TwoLayerNetwork, *, tol: float) -> TwoLayerNetwork:
    """Return the representative of a function: simplified, unit rows of W, fixed orientations and order.

    `tol`: two hyperplanes whose unit normals and offsets differ by less are the same.
    """
    if net.activation.is_curved:
        from planted.networks._curved_forms import curved_form

        return curved_form(net, tol=tol)
    units = _fewest_units(net, tol, canonical=True, affine=net.B is not None)
    order = unit_order(units.W, units.b)
    return _as_network(net, _Units(units.W[order], units.b[order], units.A[:, order], units.c, units.B))


def facing_form(net: TwoLayerNetwork, *, tol: float) -> TwoLayerNetwork:
    """Return an equal network with a linear part, every unit turned so that its largest input weight is positive.

    `tol`: two hyperplanes whose unit normals and offsets differ by less are the same. Networks with an activation of
    degree one are equal if and only if these forms are, up to the order of units.
    """
    units = _with_linear_part(_gather_bends(net, tol), tol)
    return _as_network(net, units)


def linear_part_as_units(net: TwoLayerNetwork) -> TwoLayerNetwork:
    """Return an equal network without B: pairs of units f(u'x) - f(-u'x), a multiple of u'x, take its place.

    For programs and forms that know no linear part. The activation must differ from its mirror image by a linear function.
    """
    if net.B is None:
        return net
    mirror = net.activation.mirror
    if mirror is None or mirror.sign != 1 or mirror.slope == 0:
        raise BadInputError(
            f"units with the activation {net.activation.name!r} cannot stand for the linear part B of this network"
        )
    inputs = np.flatnonzero(net.B.any(axis=0))
    rows = np.eye(net.n_features)[inputs]
    outputs = net.B[:, inputs] / -mirror.slope
    return type(net)(
        W=np.vstack([net.W, rows, -rows]),
        b=np.concatenate([net.b, np.zeros(2 * len(inputs))]),
        A=np.hstack([net.A, outputs, -outputs]),
        c=net.c,
        activation=net.activation,
    )


def _fewest_units(net: TwoLayerNetwork, tol: float, *, canonical: bool, affine: bool) -> _Units:
    """Group, turn, and take up the linear rest in the order of the module's docstring."""
    if not net.activation.is_piecewise_linear or net.activation.slope == 0:
        return replace(_merge_sides(net, tol), B=net.B if net.B is not None and net.B.any() else None)
    bends = _gather_bends(net, tol)
    nowhere = np.zeros(bends.offsets.size, dtype=np.bool_)
    is_searchable = bends.rest.size * bends.offsets.size <= LARGEST_SYSTEM
    absorbed = _absorb_rest(bends, tol) if is_searchable and (canonical or bends.rest.any()) else None
    if absorbed is not None:
        return _place_rest(absorbed, nowhere, tol)
    if not bends.rest.any():
        return _place_rest(bends, nowhere, tol)
    if affine:
        return _with_linear_part(bends, tol)
    candidates = [_place_rest(bends, doubled, tol) for doubled in _promising_doubles(bends, tol)]
    if canonical and net.n_outputs == 1:
        facing = _turn(bends, bends.orientation < 0, tol)
        candidates.insert(0, _place_rest(facing, nowhere, tol))
    if is_searchable and bends.offsets.size <= LARGEST_BLOCK:
        candidates = _absorb_beside_one(bends, tol) + candidates
    return min(candidates, key=lambda units: units.b.size)  # the first of the smallest


def _merge_sides(net: TwoLayerNetwork, tol: float) -> _Units:
    """Add up units on the same side of a hyperplane; for an even activation both sides are the same."""
    units = scale_units(net)
    groups = group_units(units, tol=tol)
    is_even = net.activation.left == net.activation.right
    parts = []
    for side in (1.0,) if is_even else (1.0, -1.0):
        members = units.outputs if is_even else units.outputs * (groups.signs == side)
        total, size = sum_groups(members, groups), sum_groups(np.abs(members), groups)
        kept = (np.abs(total) > tol * size).any(axis=0)
        parts.append((side * groups.normals[kept], side * groups.offsets[kept], total[:, kept]))
    W, b, A = zip(*parts, strict=True)
    return _Units(np.concatenate(W), np.concatenate(b), np.concatenate(A, axis=1), units.constant)


def _gather_bends(net: TwoLayerNetwork, tol: float) -> _Bends:
    """One unit per hyperplane, looking where its largest unit looks; the others turned by (1)."""
    units = scale_units(net)
    groups = group_units(units, tol=tol)
    count = groups.offsets.size
    sizes = np.linalg.norm(units.outputs, axis=0)
    orientation = np.ones(count)
    ascending = np.argsort(sizes, kind="stable")
    orientation[groups.labels[ascending]] = groups.signs[ascending]  # the largest writes last
    turned = groups.signs != orientation[groups.labels]
    outputs, size = sum_groups(units.outputs, groups), sum_groups(np.abs(units.outputs), groups)
    kept = (np.abs(outputs) > tol * size).any(axis=0)
    twist = -2 * net.activation.slope * sum_groups(units.outputs * turned, groups) * orientation
    twist_size = np.abs(2 * net.activation.slope) * sum_groups(np.abs(units.outputs * turned), groups).sum(
        axis=1
    )
    rest = twist @ groups.normals
    if net.B is not None:
        rest, twist_size = rest + net.B, twist_size + np.linalg.norm(net.B, axis=1)
    return _clear_rest(
        _Bends(
            normals=groups.normals[kept],
            offsets=groups.offsets[kept],
            outputs=outputs[:, kept],
            orientation=orientation[kept],
            two_sided=np.bincount(groups.labels[turned], minlength=count)[kept] > 0,
            rest=rest,
            rest_size=twist_size,
            constant=units.constant + twist @ groups.offsets,
            slope=net.activation.slope,
        ),
        tol,
    )


def _clear_rest(bends: _Bends, tol: float) -> _Bends:
    """Set the rest to zero, output by output, where it is no more than the rounding of its terms."""
    is_noise = np.linalg.norm(bends.rest, axis=1) <= 10 * tol * bends.rest_size
    return replace(bends, rest=np.where(is_noise[:, None], 0.0, bends.rest))


def _turn(bends: _Bends, flips: BoolArray, tol: float) -> _Bends:
    """Turn the marked units round: f is kept, the rest takes up the difference (1)."""
    change = 2 * bends.slope * bends.outputs * (bends.orientation * flips)
    return _clear_rest(
        replace(
            bends,
            orientation=np.where(flips, -bends.orientation, bends.orientation),
            rest=bends.rest + change @ bends.normals,
            rest_size=bends.rest_size + np.abs(change).sum(axis=1),
            constant=bends.constant + change @ bends.offsets,
        ),
        tol,
    )


def _absorb_rest(bends: _Bends, tol: float) -> _Bends | None:
    """Turn units round so that the rest vanishes, if that can be done."""
    flips = _find_flips(bends, bends.normals, bends.rest, tol)
    if flips is None:
        return None
    turned = _turn(bends, flips, tol)
    return replace(turned, rest=np.zeros_like(turned.rest))


def _find_flips(bends: _Bends, normals: Array, rest: Array, tol: float) -> BoolArray | None:
    changes = -2 * bends.slope * bends.outputs * bends.orientation
    columns = np.einsum("rh,hj->rjh", changes, normals).reshape(rest.size, bends.offsets.size)
    return find_flips(columns, rest.ravel(), preferred=bends.orientation < 0, tol=tol)


def _absorb_beside_one(bends: _Bends, tol: float) -> list[_Units]:
    """Take up the rest by turning units round and one second unit, on the first hyperplane that allows it."""
    for index, normal in enumerate(bends.normals):
        across = bends.normals - np.outer(bends.normals @ normal, normal)
        across[np.linalg.norm(across, axis=1) <= tol] = 0.0
        rest = bends.rest - np.outer(bends.rest @ normal, normal)
        is_noise = np.linalg.norm(rest, axis=1) <= 10 * tol * bends.rest_size
        flips = _find_flips(bends, across, np.where(is_noise[:, None], 0.0, rest), tol)
        if flips is not None:
            return [_place_rest(_turn(bends, flips, tol), np.arange(bends.offsets.size) == index, tol)]
    return []


def _promising_doubles(bends: _Bends, tol: float) -> list[BoolArray]:
    """Sets of hyperplanes that may get a second unit: those within the rest's row space, and those that had one."""
    values, rows = np.linalg.svd(bends.rest, full_matrices=False)[1:]
    space = rows[values > 10 * tol * values[0]]
    outside = np.linalg.norm(bends.normals - bends.normals @ space.T @ space, axis=1)
    within = np.zeros(bends.offsets.size, dtype=np.bool_)
    for index in np.flatnonzero(outside <= 10 * tol):
        within[index] = True
        if np.linalg.matrix_rank(bends.normals[within], tol=np.sqrt(tol)) < within.sum():
            within[index] = False
    return [within, bends.two_sided]


def _place_rest(bends: _Bends, doubled: BoolArray, tol: float) -> _Units:
    """Write the function as units: one per hyperplane, a second where ``doubled``, pairs for what is left."""
    share = np.zeros_like(bends.outputs)
    share[:, doubled] = bends.rest @ np.linalg.pinv(bends.normals[doubled])
    left = bends.rest - share @ bends.normals
    vectors, values, rows = np.linalg.svd(left, full_matrices=False)
    kept = values > 10 * tol * bends.rest_size.max(initial=0.0)
    pair_outputs = vectors[:, kept] * values[kept] / (2 * bends.slope)
    second = -share * bends.orientation / (2 * bends.slope)
    outward = bends.normals * bends.orientation[:, None]
    outward_offsets = bends.offsets * bends.orientation
    A = np.concatenate([bends.outputs - second, second, pair_outputs, -pair_outputs], axis=1)
    size = np.concatenate(
        [np.abs(bends.outputs) + np.abs(second), np.abs(second), *[np.abs(pair_outputs)] * 2], axis=1
    )
    alive = (np.abs(A) > tol * size).any(axis=0)
    zeros = np.zeros(2 * int(kept.sum()))
    W = np.concatenate([outward, -outward, rows[kept], -rows[kept]])
    b = np.concatenate([outward_offsets, -outward_offsets, zeros])
    return _Units(W[alive], b[alive], A[:, alive], bends.constant - share @ bends.offsets)


def _with_linear_part(bends: _Bends, tol: float) -> _Units:
    """Turn every unit so that its largest input weight is positive; B is the rest."""
    facing = np.where(has_positive_lead(bends.normals), 1.0, -1.0)
    if bends.slope:  # an even activation has no orientation
        bends = _turn(bends, bends.orientation != facing, tol)
    return _Units(
        bends.normals * facing[:, None], bends.offsets * facing, bends.outputs, bends.constant, bends.rest
    )


def _as_network(net: TwoLayerNetwork, units: _Units) -> TwoLayerNetwork:
    return type(net)(W=units.W, b=units.b, A=units.A, c=units.c, activation=net.activation, B=units.B)
