r"""Measure the rounding error of a black box, and test whether it is piecewise linear.

Problem     Everything that is read off a black box rests on differences of its answers. The size of their rounding error
            must therefore be known first: about 1e-16 of the answer in double precision, 1e-7 in single precision, more
            for a noisy instrument.
Idea        Within one linear region, six points on a short segment lie on a line, and the residuals of a straight fit are
            rounding errors. The error grows with the input, so it is modelled as

            .. math:: \varepsilon(x) = \ell\,(1 + |x| / r)                                          \quad (1)

            where r is the radius of typical inputs and ℓ the larger of the errors seen near r and far out. The same
            number of points is asked on segments a quarter as long: there rounding errors stay the same, while the effect
            of curvature falls by a factor of sixteen. A few dozen questions thus tell a smooth function from a
            piecewise-linear one. Where the answers are known to lie on a grid (`_grid`), the level is at least half a step
            of it, and residuals below a quarter of a step say nothing about curvature.
Guarantee   The level is an estimate. A breakpoint within a segment affects that segment only, and the median of three
            segments decides. Far out, segments elsewhere are asked if the errors of two differ. Kind: heuristic.
Cost        `N_SEGMENTS` segments of six questions each, twice, and two segments far out, twice if they differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from planted._typing import Array
from planted.identification._grid import DOUBLES, Grid

__all__ = ["Rounding", "calibrate_rounding"]

N_SEGMENTS = 3
SEGMENT = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])  # points of a segment, in steps
STEP = 2.0**-14  # of the radius: so short that hundreds of hyperplanes are unlikely to cut a segment
SAFETY = 4.0  # ratio of the largest error to the largest of a few residuals
AGAIN = 16.0  # times shorter: segments elsewhere if those far out differ, since a breakpoint may have cut one
CURVED_RATIO = 8.0  # of the residuals on long and short segments: one for rounding, sixteen for curvature


@dataclass(frozen=True, slots=True)
class Rounding:
    """The rounding error of a black box, eq. (1)."""

    level: Array  # (m,): largest error to be expected near the origin, output by output
    radius: float  # norm of typical inputs
    is_curved: bool  # whether the function bends between breakpoints
    relative: float  # the level relative to the size of the answers

    def at(self, X: Array) -> Array:
        """Return the error to be expected at each row.

        Shapes: X (n, d), result (n, m).
        """
        norms = np.linalg.norm(X, axis=1)
        return np.asarray((1.0 + norms / self.radius)[:, None] * self.level)

    def of_places(self, sizes: Array) -> Array:
        """Return what the rounding of places adds that are sums of terms of these sizes, far larger than themselves.

        The answers change by about their size over a radius. Shapes: sizes (n,), result (n, m).
        """
        slope = self.level / (SAFETY * self.relative * self.radius)
        return np.asarray(2 * np.finfo(float).eps * sizes[:, None] * slope)

    def seen(self, X: Array, Y: Array) -> Rounding:
        """Return the model with its level raised where further answers are larger; the relative error stays the same.

        Shapes: X (n, d), Y (n, m).
        """
        growth = 1.0 + np.linalg.norm(X, axis=1, keepdims=True) / self.radius
        sizes = (np.abs(Y) / growth).max(axis=0)
        return replace(self, level=np.maximum(self.level, SAFETY * self.relative * sizes))


def calibrate_rounding(
    ask: Callable[[Array], Array],
    centres: Array,
    *,
    far: Array,
    rng: np.random.Generator,
    grid: Grid = DOUBLES,
) -> Rounding:
    """Measure the rounding error of a black box.

    `ask`: takes rows of shape (n, d) and returns answers of shape (n, m). `grid`: how the answers are rounded, if that is
    known. Shapes: centres (N_SEGMENTS, d), far (f, d).
    """
    count, d = centres.shape
    radius = float(np.linalg.norm(centres, axis=1).mean())
    directions = rng.standard_normal((count + len(far), d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    long, sizes = _residuals(ask, centres, directions[:count] * STEP * radius)
    short, _ = _residuals(ask, centres, directions[:count] * STEP * radius / 4)
    typical = sizes.max(axis=0)
    quarter = grid.steps(typical) / 4
    floor = np.maximum(np.maximum(np.median(short, axis=0), quarter), 2 * np.finfo(float).eps * typical)
    is_curved = bool((np.median(long, axis=0) > CURVED_RATIO * floor).any())
    if len(far):
        distance = np.linalg.norm(far, axis=1, keepdims=True)
        apart, far_sizes = _residuals(ask, far, directions[count:] * STEP * distance)
        if (apart.max(axis=0) > CURVED_RATIO * np.maximum(apart.min(axis=0), floor)).any():
            other, more = _residuals(
                ask, np.roll(far, 1, axis=1), directions[count:] * STEP * distance / AGAIN
            )
            apart, far_sizes = np.minimum(apart, other), np.maximum(far_sizes, more)
        growth = 1.0 + distance / radius
        typical = np.maximum(typical, (far_sizes / growth).max(axis=0))
        level = np.maximum(np.median(short, axis=0), (apart / growth).max(axis=0))
    else:
        level = np.median(short, axis=0)
    # An output that happens to be zero on every segment shows no error there: give it the relative error of the others.
    seen = sizes > 0
    share = float(np.median(short[seen] / sizes[seen])) if seen.any() else 0.0
    share = max(share, 2 * np.finfo(float).eps)
    level = np.maximum(np.maximum(level, share * typical), grid.step / 4)
    scale = np.where(typical > 0, typical, np.inf)
    relative = max(share, float((level / scale).max()), grid.relative if grid.words else 0.0)
    return Rounding(SAFETY * level, radius, is_curved, relative)


def _residuals(ask: Callable[[Array], Array], centres: Array, steps: Array) -> tuple[Array, Array]:
    """Largest distance from a line on each segment, shape (s, m), and the sizes of the answers."""
    rows = (centres[:, None, :] + SEGMENT[:, None] * steps[:, None, :]).reshape(-1, centres.shape[1])
    answers = ask(rows).reshape(len(centres), SEGMENT.size, -1)
    basis = np.linalg.qr(np.column_stack([np.ones_like(SEGMENT), SEGMENT]))[0]
    left = answers - np.einsum("ij,kj,skm->sim", basis, basis, answers)
    return np.abs(left).max(axis=1), np.abs(answers).max(axis=1)
