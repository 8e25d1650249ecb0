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

from planted._typing import Array, BoolArray
from planted.verification._backward import UNIT, Domain
from planted.verification._lines import SLACK, Limits
from planted.verification._stages import Stage

__all__ = ["Reach", "reach"]


@dataclass(slots=True)
class _Forms:
    """A batch of affine forms: centre (B, k), generators (B, k, s), remainder (B, k)."""

    c: Array
    G: Array
    rho: Array

    def limits(self) -> tuple[Array, Array]:
        """Sound limits of the values."""
        radius = np.abs(self.G).sum(axis=2)
        radius = radius + self.rho + (self.G.shape[2] + 8) * UNIT * (radius + np.abs(self.c) + self.rho)
        return self.c - radius, self.c + radius


@dataclass(slots=True)
class Reach:
    """Limits of the last stage on each box, and how much each input contributes to their width."""

    low: Array  # (B, rows): of z, or of δ where there is one
    high: Array
    shares: Array  # (B, rows, d)
    bends: Array  # (B,): activations, of f and of g, that bend inside the box
    limits: list[Limits]  # of every hidden stage


def reach(stages: Sequence[Stage], domain: Domain) -> Reach:
    """Bound the outputs (the differences of outputs, if there are two networks) on every box."""
    count, d = domain.low.shape
    centre = 0.5 * domain.low + 0.5 * domain.high
    radius = np.maximum(domain.high - centre, centre - domain.low) * (1 + 4 * UNIT)
    eye = np.eye(d)
    f = _Forms(centre, radius[:, :, None] * eye, np.zeros((count, d)))
    D = _Forms(np.zeros((count, 0)), np.zeros((count, 0, d)), np.zeros((count, 0)))
    origin = np.broadcast_to(eye, (count, d, d))  # which inputs a symbol stems from
    bends = np.zeros(count)
    limits = []
    for stage in stages[:-1]:
        z, delta = _mapped(stage, f, D)
        f, D, origin, bent, found = _activated(stage.slopes, z, delta, origin)
        limits.append(found)
        bends = bends + bent
    z, delta = _mapped(stages[-1], f, D)
    out = delta if len(stages[-1].e) else z
    low, high = out.limits()
    return Reach(low, high, np.abs(out.G) @ origin, bends, limits)


def _mapped(stage: Stage, f: _Forms, D: _Forms) -> tuple[_Forms, _Forms]:
    """Apply the linear map of a stage."""
    z = _linear(stage.W, f)
    z.c = z.c + stage.b
    z.rho = z.rho + 2 * UNIT * (np.abs(stage.b) + np.abs(z.c))
    delta = _linear(stage.M, f)
    if D.c.shape[1]:
        second = _linear(stage.V, D)
        delta = _Forms(delta.c + second.c, delta.G + second.G, delta.rho + second.rho)
    delta.c = delta.c + stage.e
    sizes = np.abs(stage.e) + np.abs(delta.c) + np.abs(delta.G).sum(axis=2)
    delta.rho = (delta.rho + 4 * UNIT * sizes) * (1 + 8 * UNIT)
    return z, delta


def _linear(W: Array, forms: _Forms) -> _Forms:
    """W times the forms; the remainder takes up rounding."""
    size = np.abs(forms.c) + np.abs(forms.G).sum(axis=2)
    gamma = (W.shape[1] + forms.G.shape[2] + 16) * UNIT
    rho = (forms.rho + gamma * (size + forms.rho)) @ np.abs(W).T
    return _Forms(forms.c @ W.T, W @ forms.G, rho * (1 + gamma))


def _activated(
    slopes: Array, z: _Forms, delta: _Forms, origin: Array
) -> tuple[_Forms, _Forms, Array, Array, Limits]:
    """Apply the activation to z and to the difference; new symbols are appended, also to `origin`."""
    r = delta.c.shape[1]
    low, high = z.limits()
    rate, height, bends = _chord(low, high, slopes)
    h = _Forms(rate * z.c + 0.5 * height, rate[:, :, None] * z.G, np.abs(rate) * z.rho)
    h.rho = h.rho + 8 * UNIT * (np.abs(rate) * (np.abs(z.c) + np.abs(z.G).sum(axis=2)) + height)
    bent = bends.sum(axis=1)
    heights = [np.where(bends, 0.5 * height, 0.0)]
    sources = [z.G]
    D = delta
    empty = np.zeros((len(low), 0))
    limits = Limits(low, high, empty, empty, empty, empty)
    if r:
        slope = slopes[:r]
        u = _Forms(z.c[:, :r] - delta.c, z.G[:, :r] - delta.G, z.rho[:, :r] + delta.rho)
        u.rho = u.rho + 4 * UNIT * (np.abs(u.c) + np.abs(u.G).sum(axis=2))
        u_low, u_high = u.limits()
        u_rate, u_height, u_bends = _chord(u_low, u_high, slope)
        d_low, d_high = delta.limits()
        limits = Limits(low, high, u_low, u_high, d_low, d_high)
        width = np.maximum(np.abs(d_low), np.abs(d_high)) * (1 - slope) * 0.5 * (1 + 8 * UNIT)
        middle = 0.5 * (1 + slope)
        open_ = bends[:, :r] | u_bends
        # The first of (1) where it is narrower; where both signs are known the second is exact.
        by_delta = open_ & (width < 0.5 * (height[:, :r] + u_height))
        s, t = np.where(by_delta, 0.0, rate[:, :r]), np.where(by_delta, middle, u_rate)
        # D = rate z + height/2 ± - (u_rate (z - δ) + u_height/2 ±), or middle δ ± width.
        of_z = np.where(by_delta, 0.0, s - t)
        D = _Forms(
            of_z * z.c[:, :r] + t * delta.c + np.where(by_delta, 0.0, 0.5 * height[:, :r] - 0.5 * u_height),
            of_z[:, :, None] * z.G[:, :r] + t[:, :, None] * delta.G,
            np.abs(of_z) * z.rho[:, :r] + np.abs(t) * delta.rho,
        )
        sizes = (np.abs(s) + np.abs(t)) * (np.abs(z.c[:, :r]) + np.abs(z.G[:, :r]).sum(axis=2))
        sizes = sizes + np.abs(t) * (np.abs(delta.c) + np.abs(delta.G).sum(axis=2)) + height[:, :r] + u_height
        D.rho = D.rho + 16 * UNIT * sizes
        bent = bent + u_bends.sum(axis=1)
        heights.append(np.where(by_delta, width, np.where(u_bends, 0.5 * u_height, 0.0)))
        sources.append(delta.G)
    h_new, D_new, origins = _new_symbols(heights, sources, origin, by_delta if r else None)
    h.G = np.concatenate([h.G, h_new], axis=2)
    D = _Forms(D.c, np.concatenate([D.G, D_new], axis=2), D.rho) if r else _Forms(D.c, D_new, D.rho)
    return h, D, np.concatenate([origin, origins], axis=1), bent, limits


def _chord(low: Array, high: Array, slopes: Array) -> tuple[Array, Array, BoolArray]:
    """Slope of the chord of φ, height of the chord above the parallel line through zero, and where φ bends."""
    bends = (low < 0) & (high > 0) & (slopes < 1)
    width = np.where(bends, high - low, 1.0)
    rate = np.where(bends, (high - slopes * low) / width, np.where(low >= 0, 1.0, slopes))
    rate = np.clip(rate, slopes, 1.0)
    ends = np.maximum((slopes - rate) * low, (1 - rate) * high)
    height = ends + SLACK * (np.abs(low) + np.abs(high)) * (1.0 + np.abs(slopes))
    return rate, np.where(bends, height, 0.0), bends


def _new_symbols(
    heights: list[Array], sources: list[Array], origin: Array, by_delta: BoolArray | None
) -> tuple[Array, Array, Array]:
    """Columns of the new symbols for h and for D, and the inputs they stem from.

    Every box numbers its own symbols: a column belongs to another unit in another box.
    """
    count, k = heights[0].shape
    r = heights[1].shape[1] if by_delta is not None else 0
    columns_h, columns_D, origins = [], [], []
    for number, (height, source) in enumerate(zip(heights, sources, strict=True)):
        bends = height > 0
        number_of = np.cumsum(bends, axis=1) - 1
        box, unit = np.nonzero(bends)
        column = number_of[box, unit]
        width = int(bends.sum(axis=1).max(initial=0))
        own, other = np.zeros((count, k, width)), np.zeros((count, r, width))
        part = height[box, unit]
        if number == 0:
            own[box, unit, column] = part
            if by_delta is not None:
                shared = unit < r
                b, j, c = box[shared], unit[shared], column[shared]
                other[b, j, c] = np.where(by_delta[b, j], 0.0, part[shared])
        else:
            other[box, unit, column] = part
        columns_h.append(own)
        columns_D.append(other)
        weights = np.abs(source[box, unit])
        total = weights.sum(axis=1, keepdims=True)
        stems = np.zeros((count, width, origin.shape[1]))
        stems[box, column] = weights / np.where(total > 0, total, 1.0)
        origins.append(stems @ origin)
    return (
        np.concatenate(columns_h, axis=2),
        np.concatenate(columns_D, axis=2),
        np.concatenate(origins, axis=1),
    )
