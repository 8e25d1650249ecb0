"""Find the largest value of a network, or of the difference of two, on a box: branch and bound on the inputs.

Every box is bounded by zonotopes, and where that does not suffice by lines with the limits of the zonotopes. The boxes
with the largest bounds are halved along the input that contributes most to the width of the bound. This suits few inputs
and any depth; it does not end where the maximum lies on a bend, only the bracket becomes smaller.
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array, IntArray
from planted.verification._backward import Domain, improve, start_weights
from planted.verification._limits import open_signs, refine_limits
from planted.verification._search import Found, InputSet
from planted.verification._stages import Stage
from planted.verification._zonotopes import Reach, reach

__all__ = ["InputSearch"]

BATCH = 64  # boxes that are bounded at once
MOST_NUMBERS = 4_000_000  # in the zonotopes of one stage of a batch
MOST_BENDS = 100  # a pass back is not tried on boxes where more activations bend


class InputSearch:
    """Branch and bound over boxes of inputs; `step` refines, `bounds` tells what is proved."""

    def __init__(self, stages: tuple[Stage, ...], inputs: InputSet, found: Found) -> None:
        self.stages, self.inputs, self.found = stages, inputs, found
        m2 = len(found.values)
        self.low, self.high = inputs.low[None].copy(), inputs.high[None].copy()
        self.box_bounds = np.full((1, m2), np.inf)
        self.split: IntArray = np.zeros(1, dtype=np.intp)
        self.closed = np.full(m2, -np.inf)  # bounds of boxes that cannot be halved, and of those set aside
        self.n_boxes = 0
        widest = max(len(stage.b) for stage in stages)
        symbols = len(inputs.low) + sum(len(stage.b) + len(stage.e) for stage in stages)
        self.batch = max(2, min(BATCH, MOST_NUMBERS // (widest * symbols)))

    def bounds(self) -> Array:
        """The proved bound of every direction."""
        found = np.maximum(self.closed, self.found.values)
        return np.asarray(np.maximum(found, self.box_bounds.max(axis=0, initial=-np.inf)))

    def start(self) -> None:
        """Bound the whole box."""
        self._bound(self.low, self.high, self.box_bounds)

    def step(self, goal: float) -> bool:
        """Halve the boxes with the largest bounds above `goal`; False if there are none."""
        worst = self.box_bounds.max(axis=1)
        # Boxes below the goal are set aside for good: they stay bounded by what is known of them.
        low, high, split, caps = self.low, self.high, self.split, self.box_bounds
        aside = worst <= goal
        if aside.any():
            self.closed = np.maximum(self.closed, caps[aside].max(axis=0))
            low, high, split, caps, worst = (part[~aside] for part in (low, high, split, caps, worst))
        count = len(worst)
        if count == 0:
            self.low, self.high, self.split, self.box_bounds = low, high, split, caps
            return False
        chosen = np.zeros(count, dtype=bool)
        half = self.batch // 2
        chosen[np.argpartition(-worst, min(half, count) - 1)[:half]] = True
        self.low, self.high, self.split = low[~chosen], high[~chosen], split[~chosen]
        self.box_bounds = caps[~chosen]
        rows, axis = np.flatnonzero(chosen), split[chosen]
        middle = 0.5 * low[rows, axis] + 0.5 * high[rows, axis]
        stuck = (middle <= low[rows, axis]) | (middle >= high[rows, axis])
        self.closed = np.maximum(self.closed, caps[rows[stuck]].max(axis=0, initial=-np.inf))
        rows, axis, middle = rows[~stuck], axis[~stuck], middle[~stuck]
        lows, highs = np.repeat(low[rows], 2, axis=0), np.repeat(high[rows], 2, axis=0)
        place = np.arange(len(rows))
        highs[2 * place, axis] = middle
        lows[2 * place + 1, axis] = middle
        if len(rows):
            self._bound(lows, highs, np.repeat(caps[rows], 2, axis=0))
        return True

    def _bound(self, low: Array, high: Array, caps: Array) -> None:
        """Bound boxes and keep them, with the bounds of the boxes they come from as caps."""
        is_met = self._meets_polytope(low, high)
        low, high, caps = low[is_met], high[is_met], caps[is_met]
        if not len(low):
            self._keep(low, high, caps, np.zeros(0, dtype=np.intp))
            return
        domain = Domain(low, high, self.inputs.G, self.inputs.g)
        reached = reach(self.stages, domain)
        bounds = np.minimum(np.concatenate([reached.high, -reached.low], axis=1), caps)
        bounds = np.where(np.isnan(bounds), np.inf, bounds)
        wide = np.flatnonzero((bounds.max(axis=1) > self.found.values.max()) & (reached.bends <= MOST_BENDS))
        if len(wide):
            bounds[wide] = np.minimum(bounds[wide], self._through_lines(reached, domain, wide))
        worst = bounds.argmax(axis=1)
        m = reached.low.shape[1]
        shares = reached.shares[np.arange(len(low)), worst % m]
        shares = np.where(np.isfinite(shares), shares, 0.0) + 1e-9 * (high - low)
        shares = np.where(high > low, shares, -1.0)
        middle = 0.5 * low + 0.5 * high
        self.found.offer(middle[self.inputs.contains(middle)])
        self.n_boxes += len(low)
        self._keep(low, high, bounds, shares.argmax(axis=1))

    def _keep(self, low: Array, high: Array, bounds: Array, split: IntArray) -> None:
        if self.n_boxes <= 1:
            self.low, self.high, self.box_bounds, self.split = low, high, bounds, split
            return
        self.low, self.high = np.concatenate([self.low, low]), np.concatenate([self.high, high])
        self.box_bounds = np.concatenate([self.box_bounds, bounds])
        self.split = np.concatenate([self.split, split])

    def _through_lines(self, reached: Reach, domain: Domain, rows: IntArray) -> Array:
        """Bounds of all directions through lines, with the limits of the zonotopes."""
        limits = [limit.take(rows) for limit in reached.limits]
        stages = self.stages
        part = domain.take(rows)
        lines = refine_limits(stages, part, limits)
        m, r, k = reached.low.shape[1], len(stages[-1].e), len(stages[-1].b)
        both = np.vstack([np.eye(m), -np.eye(m)])
        blank = np.zeros((2 * m, k if r else 0))
        z, d = (blank, both) if r else (both, blank)
        target = np.broadcast_to(z, (len(rows), *z.shape)), np.broadcast_to(d, (len(rows), *d.shape))
        weights = start_weights(lines, 1, len(domain.g))
        return improve(stages, lines, open_signs(stages, len(rows)), part, target, weights, n_steps=0)[0]

    def _meets_polytope(self, low: Array, high: Array) -> Array:
        """Whether a box may contain points of the polytope."""
        G, g = self.inputs.G, self.inputs.g
        least = np.maximum(G, 0.0) @ low.T + np.minimum(G, 0.0) @ high.T
        size = np.abs(G) @ np.maximum(np.abs(low), np.abs(high)).T + np.abs(g)[:, None]
        return np.asarray((least <= g[:, None] + 1e-12 * size).all(axis=0))
