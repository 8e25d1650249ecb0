"""Limits of the pre-activations of every hidden stage on parts of the input set.

The first stage is an interval product, which is exact up to rounding. Every later one is bounded through the lines of the
stages below (`planted.verification._backward`) and by intervals, and the tighter limit counts. Signs that define a part cut
the limits: where z ≥ 0 is given, z_low is zero, and u = z - δ ≥ -d_high follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planted._typing import Array, BoolArray
from planted.verification._backward import UNIT, Domain, Signs, Weights, go_back, improve, start_weights
from planted.verification._lines import Limits, Lines, activate, lines_between
from planted.verification._stages import Stage

__all__ = ["clip_to_signs", "find_limits", "open_signs", "output_limits", "refine_limits"]


def open_signs(stages: Sequence[Stage], count: int) -> list[Signs]:
    """Return signs of which none is given."""
    return [Signs(np.zeros((count, len(s.b))), np.zeros((count, len(s.e)))) for s in stages[:-1]]


def find_limits(
    stages: Sequence[Stage], domain: Domain, signs: Sequence[Signs], *, n_steps: int = 0
) -> tuple[list[Limits], list[Lines]]:
    """Return sound limits of every hidden stage, and the lines between them."""
    limits: list[Limits] = []
    lines: list[Lines] = []
    for place, stage in enumerate(stages[:-1]):
        found = _intervals(stage, domain, limits[-1] if limits else None, stages[place - 1].slopes)
        if place:
            found.tighten(_bounded(stages[: place + 1], lines, signs, domain, n_steps))
        clip_to_signs(found, signs[place])
        limits.append(found)
        lines.append(lines_between(found, stage.slopes))
    return limits, lines


def refine_limits(stages: Sequence[Stage], domain: Domain, limits: Sequence[Limits]) -> list[Lines]:
    """Tighten known limits, in place, through lines: only of units that may bend; return the lines between them.

    The rows of `_bounded` are chosen box by box: a unit whose sign is known on a box needs no tighter limits there.
    """
    lines: list[Lines] = []
    signs = open_signs(stages, len(domain.low))
    for place, (stage, known) in enumerate(zip(stages, limits, strict=False)):
        if place:
            r = known.d_low.shape[1]
            bends = (known.z_low < 0) & (known.z_high > 0)
            if r:
                bends |= (known.u_low < 0) & (known.u_high > 0)
            _tighten_bent(stages[: place + 1], lines, signs[:place], domain, known, bends)
            if r:
                _tighten_relation(known)
        lines.append(lines_between(known, stage.slopes))
    return lines


def _tighten_bent(
    stages: Sequence[Stage],
    lines: Sequence[Lines],
    signs: Sequence[Signs],
    domain: Domain,
    known: Limits,
    bends: BoolArray,
) -> None:
    """Tighten the limits of the units that bend, in place."""
    width = int(bends.sum(axis=1).max(initial=0))
    if not width:
        return
    count, k = bends.shape
    r = known.d_low.shape[1]
    box, unit = np.nonzero(bends)
    row = (np.cumsum(bends, axis=1) - 1)[box, unit]
    rows = np.zeros((count, 2 * width, k))
    rows[box, row, unit] = 1.0
    rows[box, width + row, unit] = -1.0
    weights = start_weights(lines, 1, len(domain.g))
    # z depends on f alone; u is bounded by z - δ.
    alone = [replace(s, M=s.M[:0], V=s.V[:0, :0], e=s.e[:0]) for s in stages]
    pairs = [(alone, [_alone(line) for line in lines], (rows, rows[:, :, :0]), known.z_low, known.z_high)]
    if r:
        pairs.append((list(stages), list(lines), (0 * rows, rows), known.d_low, known.d_high))
    for chain, between, target, low, high in pairs:
        used = weights if chain is not alone else ([_alone_weights(w) for w in weights[0]], weights[1])
        bounds = go_back(chain, between, signs, domain, target, used, is_safe=True).bounds
        high[box, unit] = np.minimum(high[box, unit], bounds[box, row])
        low[box, unit] = np.maximum(low[box, unit], -bounds[box, width + row])


def _alone(line: Lines) -> Lines:
    """The lines of f without those of the difference."""
    return replace(
        line,
        **{
            name: getattr(line, name)[:, :, :0]
            for name in ("u_slope", "u_constant", "up_slope", "up_constant", "down_slope", "down_constant")
        },
        d_size=line.d_size[:, :, :0],
        D_size=line.D_size[:, :, :0],
    )


def _alone_weights(weight: Weights) -> Weights:
    """The free numbers of f without those of the difference."""
    return Weights(weight.unit, weight.share[:, :, :0], weight.pair[:, :, :0], weight.f, weight.g[:, :, :0])


def output_limits(stage: Stage, last: Limits, domain: Domain, slopes: Array) -> Limits:
    """Return intervals of the outputs, from the limits of the last hidden stage."""
    return _intervals(stage, domain, last, slopes)


def clip_to_signs(limits: Limits, signs: Signs) -> None:
    """Cut limits to where units have the given signs, in place."""
    limits.z_low[signs.f > 0] = np.maximum(limits.z_low[signs.f > 0], 0.0)
    limits.z_high[signs.f < 0] = np.minimum(limits.z_high[signs.f < 0], 0.0)
    r = limits.d_low.shape[1]
    if r:
        limits.u_low[signs.g > 0] = np.maximum(limits.u_low[signs.g > 0], 0.0)
        limits.u_high[signs.g < 0] = np.minimum(limits.u_high[signs.g < 0], 0.0)
        _tighten_relation(limits)
    # A part without inputs may have limits in the wrong order; any numbers bound nothing.
    for low, high in (
        (limits.z_low, limits.z_high),
        (limits.u_low, limits.u_high),
        (limits.d_low, limits.d_high),
    ):
        np.maximum(high, low, out=high)


def _tighten_relation(limits: Limits) -> None:
    """Use u = z - δ, rounded outwards."""
    widen = 4 * UNIT

    def low(one: Array, other: Array) -> Array:
        found = one - other
        return np.asarray(found - widen * np.abs(found))

    def high(one: Array, other: Array) -> Array:
        found = one - other
        return np.asarray(found + widen * np.abs(found))

    np.maximum(limits.u_low, low(limits.z_low, limits.d_high), out=limits.u_low)
    np.minimum(limits.u_high, high(limits.z_high, limits.d_low), out=limits.u_high)
    np.maximum(limits.z_low, low(limits.u_low, -limits.d_low), out=limits.z_low)
    np.minimum(limits.z_high, high(limits.u_high, -limits.d_high), out=limits.z_high)
    np.maximum(limits.d_low, low(limits.z_low, limits.u_high), out=limits.d_low)
    np.minimum(limits.d_high, high(limits.z_high, limits.u_low), out=limits.d_high)


def _intervals(stage: Stage, domain: Domain, below: Limits | None, slopes: Array) -> Limits:
    """Interval products, widened by their rounding."""
    if below is None:
        h = domain.low, domain.high
        D = np.zeros((len(domain.low), 0)), np.zeros((len(domain.low), 0))
    else:
        h = _activated(below.z_low, below.z_high, slopes)
        r = below.d_low.shape[1]
        matched = slopes[:r]
        up = _activated(below.d_low, below.d_high, matched)[1]
        down = -_activated(-below.d_high, -below.d_low, matched)[1]
        g = _activated(below.u_low, below.u_high, matched)
        # D from δ, or from the two activations apart.
        D = np.maximum(down, h[0][:, :r] - g[1]), np.minimum(up, h[1][:, :r] - g[0])
    z = _product(stage.W, stage.b, *h)
    if not len(stage.e):
        empty = np.zeros((len(domain.low), 0))
        return Limits(*z, empty, empty.copy(), empty.copy(), empty.copy())
    d = _product(np.hstack([stage.M, stage.V]), stage.e, np.hstack([h[0], D[0]]), np.hstack([h[1], D[1]]))
    u = z[0] - d[1], z[1] - d[0]
    size = 4 * UNIT * (np.abs(u[0]) + np.abs(u[1]))
    return Limits(*z, u[0] - size, u[1] + size, *d)


def _activated(low: Array, high: Array, slopes: Array) -> tuple[Array, Array]:
    """The range of φ between limits."""
    ends = activate(low, slopes), activate(high, slopes)
    inside = np.where((low < 0) & (high > 0), 0.0, ends[0])
    least = np.minimum(np.minimum(*ends), inside)
    largest = np.maximum(*ends)
    size = 2 * UNIT * np.maximum(np.abs(least), np.abs(largest))
    return least - size, largest + size


def _product(W: Array, b: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """The range of W h + b, widened by rounding."""
    up, down = np.maximum(W, 0.0).T, np.minimum(W, 0.0).T
    size = (np.maximum(np.abs(low), np.abs(high)) @ np.abs(W).T + np.abs(b)) * ((W.shape[1] + 16) * UNIT)
    with np.errstate(invalid="ignore"):
        least, largest = low @ up + high @ down + b - size, high @ up + low @ down + b + size
    return np.where(np.isnan(least), -np.inf, least), np.where(np.isnan(largest), np.inf, largest)


def _bounded(
    stages: Sequence[Stage], lines: Sequence[Lines], signs: Sequence[Signs], domain: Domain, n_steps: int
) -> Limits:
    """Limits of the last of `stages` through the lines below it."""
    count, k, r = len(domain.low), len(stages[-1].b), len(stages[-1].e)
    unit, pair = np.eye(k), np.eye(k, r)
    blank = np.zeros((k, r))
    # Rows: z, -z, u = z - δ, -u, δ, -δ.
    z = np.vstack([unit, -unit, *([unit, -unit, 0 * unit, 0 * unit] if r else [])])
    d = np.vstack([blank, blank, *([-pair, pair, pair, -pair] if r else [])])
    target = np.broadcast_to(z, (count, *z.shape)), np.broadcast_to(d, (count, *d.shape))
    weights = start_weights(lines, len(z) if n_steps else 1, len(domain.g))
    if n_steps:
        bounds = improve(stages, lines, signs[: len(lines)], domain, target, weights, n_steps=n_steps)[0]
    else:
        bounds = go_back(stages, lines, signs[: len(lines)], domain, target, weights, is_safe=True).bounds
    parts = np.split(bounds, len(z) // k, axis=1)
    empty = np.zeros((count, 0))
    if not r:
        return Limits(-parts[1], parts[0], empty, empty, empty, empty)
    return Limits(-parts[1], parts[0], -parts[3], parts[2], -parts[5], parts[4])
