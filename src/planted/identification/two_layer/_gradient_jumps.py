r"""Read the units of a ReLU network off the jumps of its gradient.

Problem     A black box is piecewise linear, and points on its breaks are known because they were found along lines. For
            each break find the hyperplane n'x + o = 0 and the strength α (one number per output) of the unit
            a σ(±(n'x + o)) behind it.
Idea        On one side of a break the function is g₊x + e₊, on the other g₋x + e₋. The difference is the unit itself,

            .. math:: J(x) = (g_+ - g_-)\,x + (e_+ - e_-) = \alpha\,(n^\top x + o),                         \quad (1)

            a matrix of rank one whose singular vectors are α and (n, o). The gradients are differences, which on a
            linear piece are exact for *any* step; the only error is that of rounding, ε / step.
            The first pass (`rough_units`) measures gradients in the regions along a line. Each gradient serves both
            neighbouring breaks. Its steps are short, one question for each coordinate, and its component along the line
            must be the slope that is known there; where it is not, a break was crossed, and the steps are shortened.
            Answers too coarse for short steps are asked in pairs, one on either side, whose mean must be the value
            between them. The second pass (`measure_units`) knows all hyperplanes. It chooses on each of them a place that
            is far from all others, and measures the jump there with the longest steps that stay in the region: the
            corners of a simplex on either side. The answer at its centre must be the mean of its corners, which shows
            that no other break was crossed. A break that is missing there, or has another jump, does not belong to a
            two-layer network.
Guarantee   Exact up to rounding; the error of each unit is returned with it. Kind: exact.
Cost        (d + 1) questions per region in the first pass, 2d for coarse answers; 2d + 4 per unit in the second.
References  [Carlini2020]_
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from planted._typing import Array, BoolArray, IntArray
from planted.identification._rounding import Rounding
from planted.identification.two_layer._breakpoints import LineScan
from planted.identification.two_layer._jumps import Jumps, Line, Measurement

__all__ = ["measure_units", "rough_units"]

MAX_SHORTENINGS = 14  # of a step, by four each time: down to 4e-9 of a region's width
SHORT = 2.0**-10  # of the steps of pairs: steps to one side, few of which cross another break
AGAIN = 2.0**-4  # by which they are shortened where one did
ROUGH = 1e-6  # relative error of a slope up to which steps to one side are short enough
N_CANDIDATES = 400  # places on a hyperplane among which the best is chosen
N_FINALISTS = 12  # of them whose steps are worked out
MARGIN = 0.9  # of the distance to the next hyperplane
VAGUE = 0.2  # error of a normal above which a jump is not a unit: two breaks too close to be told apart

Ask = Callable[[Array], Array]


def rough_units(
    ask: Ask, line: Line, scan: LineScan, *, wanted: IntArray, rounding: Rounding, room: float
) -> Jumps:
    """Read units off the jumps of the gradient between neighbouring regions of a line.

    Returns the units whose jump has rank one, to rounding.
    """
    m = scan.pieces[0].value.size
    if wanted.size == 0:
        return Jumps.none(line.origin.size, m)
    regions = np.unique(np.concatenate([wanted, wanted + 1]))
    low, high = _region_bounds(scan, regions, room)
    bases = line.at((low + high) / 2)
    slopes = np.array([scan.pieces[i].slope for i in regions])
    steps = np.minimum((high - low) / 8, room)
    gradients, errors = _gradients_beside_line(ask, bases, steps, line.direction, slopes, rounding=rounding)
    place = np.searchsorted(regions, wanted)
    jump = gradients[place + 1] - gradients[place]
    spread = np.hypot(errors[place + 1], errors[place])
    found = _rank_one(jump, spread, line.at(scan.breakpoints[wanted]), np.zeros((len(wanted), m)))
    facing = np.where(found.normals @ line.direction >= 0, 1.0, -1.0)
    found = replace(_turn(found, facing), lines=np.tile(line.direction, (len(wanted), 1)))
    bend = np.stack([scan.pieces[i + 1].slope - scan.pieces[i].slope for i in wanted], axis=1)
    misfit = np.linalg.norm(found.strengths * (found.normals @ line.direction) - bend, axis=0)
    size = np.linalg.norm(found.strengths, axis=0)
    return found.select((misfit <= (0.01 + 10 * found.errors) * size) & (found.errors < VAGUE))


def measure_units(
    ask: Ask,
    jumps: Jumps,
    which: IntArray,
    *,
    rounding: Rounding,
    rng: np.random.Generator,
    room: float,
    reach: Array,
    snap: Ask,
) -> Measurement:
    """Measure units again where their hyperplanes are far from all others.

    `reach`: how far from where it was seen a unit may be measured, as a part of the way to a random place. `snap`: rounds
    rows to numbers that the black box takes as they are. Shapes: which (s,), reach (s,).
    """
    s = which.size
    plans = [
        _plan_measurement(jumps, int(i), rounding=rounding, rng=rng, room=room, reach=float(part))
        for i, part in zip(which, reach, strict=True)
    ]
    bases, steps, usable = (np.array(part) for part in zip(*plans, strict=True))
    base, step = np.concatenate([bases[:, 0], bases[:, 1]]), np.concatenate([steps[:, 0], steps[:, 1]])
    places, values, gradients, errors, agree = _gradients_with_long_steps(
        ask, base, step, rounding=rounding, snap=snap
    )
    middle = bases.mean(axis=1)
    lift = values + np.einsum("pmd,pd->pm", gradients, np.concatenate([middle, middle]) - places)
    spread = np.hypot(errors[:s], errors[s:])
    found = _rank_one(gradients[:s] - gradients[s:], spread, middle, lift[:s] - lift[s:])
    before = jumps.select(which)
    found = _turn(found, np.where(np.einsum("kd,kd->k", found.normals, before.normals) >= 0, 1.0, -1.0))
    near = _same_units(found, before) & agree[:s] & agree[s:] & usable
    is_better = near & (found.errors < before.errors)
    is_confirmed, is_missed = np.zeros((2, jumps.offsets.size), dtype=np.bool_)
    is_confirmed[which], is_missed[which] = near, usable & ~near
    good = np.concatenate([agree[:s] & usable, agree[s:] & usable])
    scalar = np.where(good, np.sqrt((errors**2).mean(axis=(1, 2))), np.inf)
    better = jumps.replace(which[is_better], found.select(is_better))
    return Measurement(better, is_confirmed, is_missed, places, values, gradients, scalar)


def _region_bounds(scan: LineScan, regions: IntArray, room: float) -> tuple[Array, Array]:
    """Return the ends of regions on the line; the outermost and very wide ones are cut to a moderate width."""
    pieces = [scan.pieces[i] for i in regions]
    edges = np.concatenate([[-np.inf], scan.breakpoints, [np.inf]])
    low = np.array(
        [edges[i] if np.isfinite(edges[i]) else piece.left for i, piece in zip(regions, pieces, strict=True)]
    )
    high = np.array(
        [
            edges[i + 1] if np.isfinite(edges[i + 1]) else piece.right
            for i, piece in zip(regions, pieces, strict=True)
        ]
    )
    nearest = np.where(np.abs(low) <= np.abs(high), low, high)
    cap = 2 * np.maximum(np.abs(nearest), room)
    return np.where(nearest == low, low, np.maximum(low, high - cap)), np.where(
        nearest == low, np.minimum(high, low + cap), high
    )


def _gradients_beside_line(
    ask: Ask, bases: Array, steps: Array, direction: Array, slopes: Array, *, rounding: Rounding
) -> tuple[Array, Array]:
    """Differences to one side whose component along the line is its slope; pairs where these do not suffice."""
    r, d = bases.shape
    middle = ask(bases)
    m = middle.shape[1]
    gradients, errors = np.zeros((r, m, d)), np.full((r, m, d), np.inf)
    noise = rounding.at(bases)
    with np.errstate(divide="ignore"):  # one output suffices: a constant one shows nothing
        shortest = (noise / (ROUGH * np.abs(slopes).max(axis=0))).min(axis=1)
    is_open = np.ones(r, dtype=np.bool_)
    for step in (SHORT * steps, SHORT * AGAIN * steps):
        step = np.maximum(step, shortest)
        which = np.flatnonzero(is_open & (step < steps))
        if which.size == 0:
            break
        rows = bases[which, None, :] + step[which, None, None] * np.eye(d)
        ahead = ask(rows.reshape(-1, d)).reshape(which.size, d, m)
        # The step that was taken, after rounding of the inputs.
        taken = np.einsum("rdd->rd", rows) - bases[which]
        found = ((ahead - middle[which, None, :]) / taken[:, :, None]).transpose(0, 2, 1)
        spread = np.sqrt(2.0) * noise[which] / step[which, None]
        good = (np.abs(found @ direction - slopes[which]) <= 4 * spread).all(axis=1)
        gradients[which[good]], errors[which[good]] = found[good], spread[good, :, None]
        is_open[which[good]] = False
    rest = np.flatnonzero(is_open)
    if rest.size:
        gradients[rest], errors[rest] = _gradients_by_pairs(
            ask, bases[rest], middle[rest], steps[rest], noise=noise[rest]
        )
    return gradients, errors


def _gradients_by_pairs(
    ask: Ask, bases: Array, middle: Array, steps: Array, *, noise: Array
) -> tuple[Array, Array]:
    """Central differences whose steps are shortened until both sides of each pair agree with the middle."""
    r, d = bases.shape
    m = middle.shape[1]
    gradients, errors = np.zeros((r, m, d)), np.full((r, m, d), np.inf)
    step = np.repeat(steps[:, None], d, axis=1)
    open_pairs = np.ones((r, d), dtype=np.bool_)
    for _ in range(MAX_SHORTENINGS):
        region, axis = np.nonzero(open_pairs)
        if region.size == 0:
            break
        ahead, behind = _ask_pairs(ask, bases[region], axis, step[region, axis])
        bend = np.abs(ahead + behind - 2 * middle[region])
        good = (bend <= 4 * noise[region]).all(axis=1)
        inverse = 1.0 / (2 * step[region, axis][good, None])
        gradients[region[good], :, axis[good]] = (ahead - behind)[good] * inverse
        errors[region[good], :, axis[good]] = noise[region[good]] * inverse
        open_pairs[region[good], axis[good]] = False
        step[region, axis] /= 4
    return gradients, errors


def _ask_pairs(ask: Ask, bases: Array, axis: IntArray, step: Array) -> tuple[Array, Array]:
    """Ask one step ahead and one behind each base, along one coordinate."""
    rows = np.concatenate([bases, bases])
    count = len(bases)
    rows[np.arange(count), axis] += step
    rows[np.arange(count, 2 * count), axis] -= step
    answers = ask(rows)
    return answers[:count], answers[count:]


def _plan_measurement(
    jumps: Jumps, unit: int, *, rounding: Rounding, rng: np.random.Generator, room: float, reach: float
) -> tuple[Array, Array, bool]:
    """Choose a place on a hyperplane far from all others: two bases (2, d), their steps, and whether there is one."""
    n = jumps.normals[unit]
    candidates = _candidate_places(jumps, unit, rounding=rounding, rng=rng, room=room, reach=reach)
    others = np.arange(len(jumps.normals)) != unit
    distance = np.abs(candidates @ jumps.normals[others].T + jumps.offsets[others])
    doubts = jumps.doubts(candidates)
    distance, own_doubt = distance - doubts[:, others], doubts[:, unit]
    across = np.abs(jumps.normals[others] @ n)
    longest = reach * rounding.radius
    lift = np.minimum((distance / (2 * across + 1e-3)).min(axis=1, initial=np.inf), longest)
    if np.isfinite(room):
        lift = np.minimum(lift, (room - np.abs(candidates)).min(axis=1) / 2)
    lift_score = np.where(
        lift > 2 * own_doubt, lift / (1 + np.linalg.norm(candidates, axis=1) / rounding.radius), -1
    )
    best_score = -np.inf
    best = np.stack([candidates[0]] * 2), np.full((2, n.size), rounding.radius * 1e-2), False
    for c in np.argsort(-lift_score, kind="stable")[:N_FINALISTS]:
        if lift_score[c] <= 0:
            break
        bases = candidates[c] + lift[c] * np.stack([n, -n])
        steps = np.stack([_longest_steps(jumps, base, doubts[c], room) for base in bases])
        steps = np.clip(MARGIN * steps, -longest, longest)
        noise = 1 + np.linalg.norm(candidates[c]) / rounding.radius
        score = 1.0 / (noise * np.sqrt(np.mean(1.0 / np.maximum(np.abs(steps), 1e-300) ** 2)))
        if score > best_score and (steps != 0).all():
            best_score, best = score, (bases, steps, True)
    return best


def _longest_steps(jumps: Jumps, base: Array, doubts: Array, room: float) -> Array:
    """The longest step along each coordinate, ahead or back, that meets no hyperplane and stays in the room.

    Shapes: base (d,), doubts (k,), result (d,).
    """
    distance = jumps.normals @ base + jumps.offsets
    left = np.maximum(np.abs(distance) - doubts, 0.0)
    towards = -np.sign(distance)[:, None] * jumps.normals  # above zero: a step ahead comes nearer
    with np.errstate(divide="ignore", invalid="ignore"):
        free = left[:, None] / np.abs(towards)
    ahead = np.where(towards > 0, free, np.inf).min(axis=0, initial=np.inf)
    back = np.where(towards < 0, free, np.inf).min(axis=0, initial=np.inf)
    ahead, back = np.minimum(ahead, room - base), np.minimum(back, room + base)
    return np.asarray(np.where(ahead >= back, ahead, -back))


def _candidate_places(
    jumps: Jumps, unit: int, *, rounding: Rounding, rng: np.random.Generator, room: float, reach: float
) -> Array:
    """Random places on a hyperplane: all over the typical inputs, and closer to where it was seen."""
    n, o, d = jumps.normals[unit], jumps.offsets[unit], jumps.normals.shape[1]
    anchor = jumps.anchors[unit]
    if np.isfinite(room):
        wide = room * rng.uniform(-1.0, 1.0, (N_CANDIDATES, d))
    else:
        wide = rounding.radius / np.sqrt(d) * rng.standard_normal((N_CANDIDATES, d))
    shares = 2.0 ** -np.arange(12)
    share = np.where(np.arange(N_CANDIDATES) % 2 == 0, 1.0, shares[np.arange(N_CANDIDATES) % 12])[:, None]
    places = anchor + reach * share * (wide - anchor)
    places -= (places @ n + o)[:, None] * n
    if np.isfinite(room):
        inside = (np.abs(places) < room).all(axis=1)
        return np.asarray(places[inside] if inside.any() else anchor[None, :])
    return np.asarray(places)


def _gradients_with_long_steps(
    ask: Ask, base: Array, step: Array, *, rounding: Rounding, snap: Ask
) -> tuple[Array, Array, Array, Array, BoolArray]:
    """Ask at the corners of simplices and in their centres.

    Returns the centres, the function and its gradients there, their errors, and whether each centre agrees with its
    corners. Shapes: base (p, d), step (p, d).
    """
    count, d = base.shape
    base = snap(base)
    corners = np.repeat(base[:, None, :], d + 2, axis=1)
    axes = np.arange(d)
    corners[:, axes, axes] = snap(base + step)
    step = corners[:, axes, axes] - base
    corners[:, d + 1] = snap(corners[:, : d + 1].mean(axis=1))
    answers = ask(corners.reshape(-1, d)).reshape(count, d + 2, -1)
    with np.errstate(divide="ignore", invalid="ignore"):  # no step: not usable
        gradients = ((answers[:, :d] - answers[:, d, None]) / step[:, :, None]).transpose(0, 2, 1)
        noise = rounding.at(base)
        errors = np.sqrt(2.0) * noise[:, :, None] / np.abs(step)[:, None, :]
    centre = corners[:, : d + 1].mean(axis=1)
    value = answers[:, : d + 1].mean(axis=1)
    shift = np.einsum("pmd,pd->pm", gradients, corners[:, d + 1] - centre)
    agree = np.asarray((np.abs(answers[:, d + 1] - value - shift) <= 4 * noise).all(axis=1))
    return centre, value, gradients, errors, agree


def _rank_one(jump: Array, spread: Array, places: Array, lift: Array) -> Jumps:
    """Split jumps (k, m, d) into strength and normal, eq. (1); ``lift`` (k, m) is J at the places.

    Outputs are weighed by their errors: one that is much smaller than another keeps its digits.
    """
    noise = np.sqrt((spread**2).mean(axis=2))
    noise = np.where(np.isfinite(noise) & (noise > 0), noise, 1.0)
    jump, spread, lift = jump / noise[:, :, None], spread / noise[:, :, None], lift / noise
    left, values, right = np.linalg.svd(jump, full_matrices=False)
    size = np.where(values[:, 0] > 0, values[:, 0], 1.0)
    strengths = (left[:, :, 0] * values[:, :1]).T
    normals = right[:, 0]
    shift = np.einsum("km,mk->k", lift, strengths) / size**2
    with np.errstate(invalid="ignore", over="ignore"):
        errors = np.sqrt(np.einsum("kmd,mk->k", spread**2, strengths**2)) / size**2
        if values.shape[1] > 1:
            rest = np.sqrt((values[:, 1:] ** 2).sum(axis=1))
            errors = np.maximum(errors, rest / size)
    errors = np.where(np.isfinite(errors) & (values[:, 0] > 0), errors, 1.0)
    offsets = shift - np.einsum("kd,kd->k", normals, places)
    return Jumps(normals, offsets, strengths * noise.T, errors, places, np.zeros_like(places))


def _turn(jumps: Jumps, signs: Array) -> Jumps:
    """Reverse the normals whose sign is -1; the function J stays the same."""
    return replace(
        jumps,
        normals=jumps.normals * signs[:, None],
        offsets=jumps.offsets * signs,
        strengths=jumps.strengths * signs,
    )


def _same_units(found: Jumps, known: Jumps) -> BoolArray:
    """Whether measured units agree with known ones, within the errors of both."""
    size = np.linalg.norm(known.strengths, axis=0)
    errors = 10 * (found.errors + known.errors) + 1e-3
    direction = np.linalg.norm(found.normals - known.normals, axis=1) <= errors
    strength = np.linalg.norm(found.strengths - known.strengths, axis=0) <= errors * size
    return np.asarray(direction & strength)
