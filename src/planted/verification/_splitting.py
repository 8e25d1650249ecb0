"""Find the largest value of a network, or of the difference of two, on a box: branch and bound on the inputs.

Every box is bounded by zonotopes, and where that does not suffice by lines with the limits of the zonotopes. The boxes
with the largest bounds are halved. A box keeps the limits of its units, so its halves begin with what is known of it; of
the inputs that contribute most to the width of the bound, the one is halved for which the zonotopes of the halves give the
smallest bounds. This suits few inputs and any depth; it does not end where the maximum lies on a bend, only the bracket
becomes smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from planted._typing import Array, BoolArray, IntArray
from planted.verification._backward import Domain, improve, start_weights
from planted.verification._limits import open_signs, refine_limits
from planted.verification._lines import Limits
from planted.verification._search import Found, InputSet
from planted.verification._stages import Stage
from planted.verification._zonotopes import Reach, reach

__all__ = ["InputSearch"]

BATCH = 48  # boxes that are bounded at once
N_BATCHES = 4  # in one step
MOST_NUMBERS = 4_000_000  # in the zonotopes of one stage of a batch
MOST_KEPT = 40_000_000  # numbers in the limits of all boxes; beyond, halves begin anew
MOST_BENDS = 400  # a pass back is not tried on boxes where more activations bend
N_TRIED, FEW = 5, 12  # inputs that are halved on trial; one only where there are more than a few


@dataclass(slots=True)
class _Boxes:
    """Boxes with what is known on them."""

    low: Array  # (B, d)
    high: Array
    bounds: Array  # (B, 2m)
    bends: Array  # (B,)
    inputs: IntArray  # (B, t): the inputs to be halved on trial, the one with the largest effect first
    known: Array  # (B, p): limits of all hidden stages side by side, or (B, 0)

    def take(self, rows: IntArray | BoolArray) -> _Boxes:
        """Some of the boxes, copied."""
        return _Boxes(*(getattr(self, field.name)[rows] for field in fields(self)))


class InputSearch:
    """Branch and bound over boxes of inputs; `step` refines, `bounds` tells what is proved."""

    def __init__(self, stages: tuple[Stage, ...], inputs: InputSet, found: Found) -> None:
        self.stages, self.inputs, self.found = stages, inputs, found
        self.closed = np.full(
            len(found.values), -np.inf
        )  # of boxes that cannot be halved, and of those set aside
        self.n_boxes = 0
        self.keeps = True  # the limits of boxes
        widest = max(len(stage.b) for stage in stages)
        symbols = len(inputs.low) + sum(len(stage.b) + len(stage.e) for stage in stages)
        self.batch = max(2, min(BATCH, MOST_NUMBERS // (widest * symbols)))
        self.boxes = self._whole()

    def bounds(self) -> Array:
        """The proved bound of every direction."""
        found = np.maximum(self.closed, self.found.values)
        return np.asarray(np.maximum(found, self.boxes.bounds.max(axis=0, initial=-np.inf)))

    def start(self) -> None:
        """Bound the whole box."""
        whole = self._whole()
        self.boxes = self._bounded(whole, self._reached(whole), -np.inf)

    def step(self, goal: float) -> bool:
        """Halve the boxes with the largest bounds above `goal`; False if there are none."""
        boxes = self.boxes
        if boxes.known.size > MOST_KEPT:
            self.keeps, boxes.known = False, boxes.known[:, :0]
        worst = boxes.bounds.max(axis=1)
        # Boxes below the goal are set aside for good: they stay bounded by what is known of them.
        aside = worst <= goal
        if aside.any():
            self.closed = np.maximum(self.closed, boxes.bounds[aside].max(axis=0))
            boxes, worst = boxes.take(~aside), worst[~aside]
        self.boxes = boxes
        if not len(worst):
            return False
        chosen = np.zeros(len(worst), dtype=bool)
        most = max(1, self.batch // 2) * N_BATCHES
        chosen[np.argpartition(-worst, min(most, len(worst)) - 1)[:most]] = True
        rest, parents = boxes.take(~chosen), boxes.take(chosen)
        middle = 0.5 * parents.low + 0.5 * parents.high
        is_wide = np.asarray(((middle > parents.low) & (middle < parents.high)).any(axis=1))
        self.closed = np.maximum(self.closed, parents.bounds[~is_wide].max(axis=0, initial=-np.inf))
        parts, parents = [rest], parents.take(is_wide)
        # Boxes with as many bends go together: arrays are as wide as the box with the most needs them.
        for rows in np.array_split(np.argsort(parents.bends, kind="stable"), N_BATCHES):
            if len(rows):
                parts.append(self._bounded(*self._halved(parents.take(rows)), goal))
        self.boxes = _joined(parts)
        return True

    def _whole(self) -> _Boxes:
        """The box of all inputs, of which nothing is known."""
        none = np.zeros((1, 0))
        bounds = np.full((1, len(self.found.values)), np.inf)
        d = len(self.inputs.low)
        order = np.zeros((1, min(N_TRIED, d) if d <= FEW else 1), dtype=np.intp)
        return _Boxes(self.inputs.low[None], self.inputs.high[None], bounds, np.zeros(1), order, none)

    def _halved(self, parents: _Boxes) -> tuple[_Boxes, Reach]:
        """Both halves of every box along the input, of those on trial, whose halves have the smallest bounds."""
        best: tuple[_Boxes, Reach] | None = None
        for place in range(parents.inputs.shape[1]):
            halves = _split(parents, parents.inputs[:, place])
            reached = self._reached(halves)
            if best is None:
                best = halves, reached
                continue
            better = np.repeat(_total(halves) < _total(best[0]), 2)
            best = _where(better, halves, best[0]), _where_reached(better, reached, best[1])
        assert best is not None
        is_met = self._meets_polytope(best[0].low, best[0].high)
        return (best[0].take(is_met), best[1].take(np.flatnonzero(is_met)))

    def _reached(self, boxes: _Boxes) -> Reach:
        """Zonotopes of boxes; their bounds are noted in place."""
        domain = Domain(boxes.low, boxes.high, self.inputs.G, self.inputs.g)
        known = _unpacked(self.stages, boxes.known) if boxes.known.shape[1] else None
        reached = reach(self.stages, domain, known)
        both = np.concatenate([reached.high, -reached.low], axis=1)[:, : len(self.found.values)]
        bounds = np.fmin(both, boxes.bounds)
        empty = ~self._meets_polytope(boxes.low, boxes.high)
        boxes.bounds = np.where(empty[:, None], -np.inf, bounds)
        return reached

    def _bounded(self, boxes: _Boxes, reached: Reach, goal: float) -> _Boxes:
        """Bound boxes through lines where zonotopes are not enough; offer their centres, and choose inputs to halve."""
        if not len(boxes.low):
            return boxes
        goal = max(goal, float(self.found.values.max()))
        wide = np.flatnonzero((boxes.bounds.max(axis=1) > goal) & (reached.bends <= MOST_BENDS))
        if len(wide):
            boxes.bounds[wide] = np.fmin(boxes.bounds[wide], self._through_lines(reached, boxes, wide))
        boxes.bends = reached.bends
        self.n_boxes += len(boxes.low)
        middle = 0.5 * boxes.low + 0.5 * boxes.high
        self.found.offer(middle[self.inputs.contains(middle)])
        worst = boxes.bounds.argmax(axis=1)
        shares = reached.shares[np.arange(len(worst)), worst % reached.low.shape[1]]
        shares = np.where(np.isfinite(shares), shares, 0.0) + 1e-9 * (boxes.high - boxes.low)
        shares = np.where((middle > boxes.low) & (middle < boxes.high), shares, -1.0)
        boxes.inputs = np.argsort(-shares, axis=1, kind="stable")[:, : boxes.inputs.shape[1]]
        if self.keeps:
            boxes.known = _packed(reached.limits)
        return boxes

    def _through_lines(self, reached: Reach, boxes: _Boxes, rows: IntArray) -> Array:
        """Bounds of all directions through lines, with the limits of the zonotopes, which become tighter in place."""
        limits = [limit.take(rows) for limit in reached.limits]
        stages = self.stages
        part = Domain(boxes.low[rows], boxes.high[rows], self.inputs.G, self.inputs.g)
        lines = refine_limits(stages, part, limits)
        for limit, refined in zip(reached.limits, limits, strict=True):
            for mine, found in zip(limit.parts(), refined.parts(), strict=True):
                mine[rows] = found
        m, r, k = reached.low.shape[1], len(stages[-1].e), len(stages[-1].b)
        both = np.vstack([np.eye(m), -np.eye(m)])[: len(self.found.values)]
        blank = np.zeros((len(both), k if r else 0))
        z, d = (blank, both) if r else (both, blank)
        target = np.broadcast_to(z, (len(rows), *z.shape)), np.broadcast_to(d, (len(rows), *d.shape))
        weights = start_weights(lines, 1, len(part.g))
        return improve(stages, lines, open_signs(stages, len(rows)), part, target, weights, n_steps=0)[0]

    def _meets_polytope(self, low: Array, high: Array) -> BoolArray:
        """Whether a box may contain points of the polytope."""
        G, g = self.inputs.G, self.inputs.g
        least = np.maximum(G, 0.0) @ low.T + np.minimum(G, 0.0) @ high.T
        size = np.abs(G) @ np.maximum(np.abs(low), np.abs(high)).T + np.abs(g)[:, None]
        return np.asarray((least <= g[:, None] + 1e-12 * size).all(axis=0))


def _joined(parts: Sequence[_Boxes]) -> _Boxes:
    """All boxes of several groups."""
    return _Boxes(
        *(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(_Boxes))
    )


def _split(parents: _Boxes, axis: IntArray) -> _Boxes:
    """Both halves of every box, one after the other; a box that is a point along its axis stays as it is."""
    place = np.arange(len(axis))
    middle = 0.5 * parents.low[place, axis] + 0.5 * parents.high[place, axis]
    halves = parents.take(np.repeat(place, 2))
    halves.high[2 * place, axis] = middle
    halves.low[2 * place + 1, axis] = middle
    return halves


def _total(halves: _Boxes) -> Array:
    """The bounds of the two halves of every box together."""
    return np.asarray(halves.bounds.max(axis=1).reshape(-1, 2).sum(axis=1))


def _where(first: BoolArray, one: _Boxes, other: _Boxes) -> _Boxes:
    """Rows of the one where `first`, else of the other."""
    rows = np.where(first, np.arange(len(first)), np.arange(len(first)) + len(first))
    return _joined([one, other]).take(rows)


def _where_reached(first: BoolArray, one: Reach, other: Reach) -> Reach:
    rows = np.where(first, np.arange(len(first)), np.arange(len(first)) + len(first))
    return one.join(other).take(rows)


def _packed(limits: Sequence[Limits]) -> Array:
    """All limits of every box in one row."""
    return np.concatenate([part for limit in limits for part in limit.parts()], axis=1)


def _unpacked(stages: Sequence[Stage], rows: Array) -> list[Limits]:
    """The limits of every hidden stage, from `_packed`."""
    limits, begin = [], 0
    for stage in stages[:-1]:
        parts = []
        for width in (len(stage.b), len(stage.b), *[len(stage.e)] * 4):
            parts.append(rows[:, begin : begin + width])
            begin += width
        limits.append(Limits(*parts))
    return limits
