r"""Bound stages by zonotopes: every value is an affine function of shared symbols in [-1, 1], plus a remainder.

Problem     Bound z and δ of every stage on many small boxes of inputs, fast.
Idea        A value is c + G ε ± ρ with symbols ε in [-1, 1]: one for each input, one for each activation that bends in the
            box. Linear maps act on c and G. An activation between limits lies between its chord λ t + τ and the parallel
            line λ t, so it is λ t + τ/2 ± τ/2 with a new symbol. The difference D of two matched units is exact if both
            signs are known; otherwise it is the smaller of

            .. math:: D = \tfrac{1 + s}{2}\,\delta \pm \tfrac{1 - s}{2} \max|\delta|, \qquad D = h - \varphi(u) , \quad (1)

            the second with the symbols of h and a new one for φ(u); s is the slope left of zero. f and f - g share their
            symbols, so u = z - δ is bounded as a difference and not apart.
Rounding    ρ collects the errors of all operations, each at most its number of roundings times the sizes of its terms, and
            is passed on through the sizes of the weights.
References  Teuber et al. 2024 (VeryDiff), Singh et al. 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planted._typing import Array, BoolArray, IntArray
from planted.verification._backward import UNIT, Domain
from planted.verification._lines import SLACK, Limits
from planted.verification._stages import Stage

__all__ = ["Reach", "reach"]


@dataclass(slots=True)
class _Forms:
    """A batch of affine forms: centre (B, k), generators, remainder (B, k), and the sums of sizes of generators (B, k).

    The generators of symbols of f are (B, k, s). Those of symbols that only differences have are apart, (B, k, t).
    """

    c: Array
    G: Array
    own: Array
    rho: Array
    radius: Array

    def limits(self) -> tuple[Array, Array]:
        """Sound limits of the values."""
        count = self.G.shape[2] + self.own.shape[2]
        radius = self.radius + self.rho
        radius = radius + (count + 8) * UNIT * (radius + np.abs(self.c))
        return self.c - radius, self.c + radius


@dataclass(slots=True)
class Reach:
    """Limits of the last stage on each box, and how much each input contributes to their width."""

    low: Array  # (B, rows): of z, or of δ where there is one
    high: Array
    shares: Array  # (B, rows, d)
    bends: Array  # (B,): activations, of f and of g, that bend inside the box
    limits: list[Limits]  # of every hidden stage

    def take(self, rows: IntArray) -> Reach:
        """What is known of some boxes."""
        limits = [limit.take(rows) for limit in self.limits]
        return Reach(self.low[rows], self.high[rows], self.shares[rows], self.bends[rows], limits)

    def join(self, other: Reach) -> Reach:
        """What is known of the boxes of both."""
        low, high, shares, bends = (
            np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("low", "high", "shares", "bends")
        )
        limits = [one.join(two) for one, two in zip(self.limits, other.limits, strict=True)]
        return Reach(low, high, shares, bends, limits)


def reach(stages: Sequence[Stage], domain: Domain, known: Sequence[Limits] | None = None) -> Reach:
    """Bound the outputs (the differences of outputs, if there are two networks) on every box.

    `known` are sound limits of every hidden stage, of a larger box for instance; the tighter ones count.
    """
    count, d = domain.low.shape
    centre = 0.5 * domain.low + 0.5 * domain.high
    radius = np.maximum(domain.high - centre, centre - domain.low) * (1 + 4 * UNIT)
    eye = np.eye(d)
    none = np.zeros((count, 0))
    f = _Forms(centre, radius[:, :, None] * eye, np.zeros((count, d, 0)), np.zeros((count, d)), radius)
    D = _Forms(none, np.zeros((count, 0, d)), np.zeros((count, 0, 0)), none, none)
    # Which inputs a symbol stems from, of f and of differences.
    origins = np.broadcast_to(eye, (count, d, d)), np.zeros((count, 0, d))
    bends = np.zeros(count)
    limits = []
    for place, stage in enumerate(stages[:-1]):
        z, delta = _mapped(stage, f, D)
        found = _limits(z, delta)
        if known is not None:
            found.tighten(known[place])
        f, D, origins, bent = _activated(stage.slopes, z, delta, origins, found)
        limits.append(found)
        bends = bends + bent
    z, delta = _mapped(stages[-1], f, D)
    out = delta if len(stages[-1].e) else z
    low, high = out.limits()
    shares = np.abs(out.G) @ origins[0] + np.abs(out.own) @ origins[1]
    return Reach(low, high, shares, bends, limits)


def _mapped(stage: Stage, f: _Forms, D: _Forms) -> tuple[_Forms, _Forms]:
    """Apply the linear map of a stage; remainders take up rounding."""
    k, r = len(stage.b), len(stage.e)
    both = np.vstack([stage.W, stage.M]) if r else stage.W
    c, G = f.c @ both.T, both @ f.G
    own = np.zeros((len(c), r, D.own.shape[2]))
    gamma = (sum(stage.W.shape) + f.G.shape[2] + D.own.shape[2] + 32) * UNIT
    size = np.abs(f.c) + f.radius
    rho = (f.rho + gamma * (size + f.rho)) @ np.abs(both).T
    c_d, G_d, rho_d = c[:, k:], G[:, k:], rho[:, k:]
    if D.c.shape[1]:
        c_d = c_d + D.c @ stage.V.T
        G_d += stage.V @ D.G
        own = stage.V @ D.own
        rho_d = rho_d + (D.rho + gamma * (np.abs(D.c) + D.radius + D.rho)) @ np.abs(stage.V).T
    none = np.zeros((len(c), k, 0))
    z = _Forms(c[:, :k] + stage.b, G[:, :k], none, rho[:, :k], _sizes(G[:, :k]))
    delta = _Forms(c_d + stage.e, G_d, own, rho_d, _sizes(G_d) + _sizes(own))
    for form, shift in ((z, stage.b), (delta, stage.e)):
        form.rho = (form.rho + 4 * UNIT * (np.abs(shift) + np.abs(form.c) + form.radius)) * (1 + 2 * gamma)
    return z, delta


def _sizes(G: Array) -> Array:
    """Sums of the sizes of generators."""
    return np.asarray(np.abs(G).sum(axis=2))


def _limits(z: _Forms, delta: _Forms) -> Limits:
    """Sound limits of z, of u = z - δ and of δ."""
    r = delta.c.shape[1]
    if not r:
        empty = np.zeros((len(z.c), 0))
        return Limits(*z.limits(), empty, empty, empty, empty)
    radius = _sizes(z.G[:, :r] - delta.G) + _sizes(delta.own)
    c, rho = z.c[:, :r] - delta.c, z.rho[:, :r] + delta.rho
    u = _Forms(c, delta.G, delta.own, rho + 4 * UNIT * (np.abs(c) + radius), radius)
    return Limits(*z.limits(), *u.limits(), *delta.limits())


def _activated(
    slopes: Array, z: _Forms, delta: _Forms, origins: tuple[Array, Array], limits: Limits
) -> tuple[_Forms, _Forms, tuple[Array, Array], Array]:
    """Apply the activation to z and to the difference; new symbols are appended, also to `origins`."""
    chord = _chord(limits.z_low, limits.z_high, slopes)
    rate, half, bends = chord
    new = _new_symbols(bends)
    size = np.abs(rate)
    h = _Forms(
        rate * z.c + half,
        _scaled(rate, z.G, new, half),
        z.own,
        size * z.rho + 8 * UNIT * (size * (np.abs(z.c) + z.radius) + half),
        (size * z.radius + half) * (1 + 4 * UNIT),
    )
    stems = _stems(new, [z.G], origins[:1])
    first = np.concatenate([origins[0], stems], axis=1)
    if not delta.c.shape[1]:
        return h, delta, (first, origins[1]), bends.sum(axis=1)
    D, fresh, u_bends = _differed(slopes, z, delta, limits, (chord, new))
    own = np.concatenate([origins[1], _stems(fresh, [delta.G, delta.own], origins)], axis=1)
    return h, D, (first, own), bends.sum(axis=1) + u_bends.sum(axis=1)


def _differed(
    slopes: Array, z: _Forms, delta: _Forms, limits: Limits, ours: tuple[tuple[Array, Array, BoolArray], _New]
) -> tuple[_Forms, _New, BoolArray]:
    """Apply (1): the difference of the activations, its new symbols, and where the other network bends."""
    r = delta.c.shape[1]
    slope = slopes[:r]
    (rate, half, bends), new = ours
    rate, half, bends = rate[:, :r], half[:, :r], bends[:, :r]
    u_rate, u_half, u_bends = _chord(limits.u_low, limits.u_high, slope)
    d_size = np.maximum(np.abs(limits.d_low), np.abs(limits.d_high))
    width = d_size * (1 - slope) * 0.5 * (1 + 8 * UNIT)
    # The first of (1) where it is narrower; where both signs are known the second is exact.
    by_delta = (bends | u_bends) & (width < half + u_half)
    # D = rate z + half ± half - (u_rate (z - δ) + u_half ± u_half), or middle δ ± width.
    of_delta = np.where(by_delta, 0.5 * (1 + slope), u_rate)
    of_z = np.where(by_delta, 0.0, rate - u_rate)
    shared = np.where(by_delta, 0.0, half)
    own = np.where(by_delta, width, u_half)
    fresh = _new_symbols(own > 0)
    G = _scaled(of_z, z.G[:, :r], new, shared)
    G[:, :, : z.G.shape[2]] += of_delta[:, :, None] * delta.G
    sizes = (np.abs(of_z) + np.abs(u_rate)) * (np.abs(z.c[:, :r]) + z.radius[:, :r])
    sizes = sizes + np.abs(of_delta) * (np.abs(delta.c) + delta.radius) + half + u_half + width
    D = _Forms(
        of_z * z.c[:, :r] + of_delta * delta.c + np.where(by_delta, 0.0, half - u_half),
        G,
        _scaled(of_delta, delta.own, fresh, own),
        np.abs(of_z) * z.rho[:, :r] + np.abs(of_delta) * delta.rho + 16 * UNIT * sizes,
        _sizes(G),
    )
    D.radius = (D.radius + np.abs(of_delta) * _sizes(delta.own) + own) * (1 + 4 * UNIT)
    return D, fresh, u_bends


def _chord(low: Array, high: Array, slopes: Array) -> tuple[Array, Array, BoolArray]:
    """Slope of the chord of φ, half its height above the parallel line through zero, and where φ bends."""
    bends = (low < 0) & (high > 0) & (slopes < 1)
    width = np.where(bends, high - low, 1.0)
    rate = np.where(bends, (high - slopes * low) / width, np.where(low >= 0, 1.0, slopes))
    rate = np.clip(rate, slopes, 1.0)
    ends = np.maximum((slopes - rate) * low, (1 - rate) * high)
    height = ends + SLACK * (np.abs(low) + np.abs(high)) * (1.0 + np.abs(slopes))
    return rate, np.where(bends, 0.5 * height, 0.0), bends


@dataclass(slots=True)
class _New:
    """New symbols, numbered box by box: a column belongs to another unit in another box."""

    box: IntArray
    unit: IntArray
    column: IntArray
    width: int  # columns


def _new_symbols(bends: BoolArray) -> _New:
    """Number the units that need a symbol."""
    box, unit = np.nonzero(bends)
    column = (np.cumsum(bends, axis=1) - 1)[box, unit]
    return _New(box, unit, column, int(bends.sum(axis=1).max(initial=0)))


def _scaled(rate: Array, G: Array, new: _New, parts: Array) -> Array:
    """Generators times rates, and the columns of new symbols with `parts`; units beyond those of `parts` have none."""
    count, k, s = G.shape
    found = np.zeros((count, k, s + new.width))
    np.multiply(rate[:, :, None], G, out=found[:, :, :s])
    inside = new.unit < k
    box, unit = new.box[inside], new.unit[inside]
    found[box, unit, s + new.column[inside]] = parts[box, unit]
    return found


def _stems(new: _New, sources: list[Array], origins: Sequence[Array]) -> Array:
    """The inputs that new symbols stem from, in proportion to the generators of their units, (B, width, d)."""
    count, _, d = origins[0].shape
    stems = np.zeros((count, new.width, d))
    for source, origin in zip(sources, origins, strict=True):
        rows = np.zeros((count, new.width, source.shape[2]))
        rows[new.box, new.column] = np.abs(source[new.box, new.unit])
        stems += rows @ origin
    total = stems.sum(axis=2, keepdims=True)
    return np.asarray(stems / np.where(total > 0, total, 1.0))
