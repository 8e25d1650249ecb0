r"""Find the largest value of a two-layer network, or of the difference of two, on a box: branch and bound on signs.

A node gives the signs of some units. It is bounded by the semidefinite relaxation of `planted.verification._bilinear`; the
node with the largest bound is split at the unit whose sign the relaxation decides least. Once all signs are given, what is
left is a concave function of the inputs,

.. math:: \max_x\; l'x + v + \sum_{s_j = 1} \kappa_j z_j - \sum_j \kappa'_j (u_j)_+, \quad \sigma_j y_j(x) \ge 0,  \quad (1)

a linear program, solved by HiGHS. Its multipliers β_j for the signs and slopes m_j in [0, 1] for (u_j)₊ ≥ m_j u_j make (1)
at most a linear function on the box, whose maximum is a corner: that number, with its rounding, is the bound. So the
solver's tolerances are not part of the proof. Signs that contradict each other are allowed at a price, which bounds β.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from planted._clock import check_time
from planted._typing import Array, BoolArray, IntArray
from planted.verification._backward import UNIT
from planted.verification._bilinear import Items, bilinear_bounds, split_into_items
from planted.verification._search import Found, InputSet
from planted.verification._stages import Stage

__all__ = ["TwoLayerSearch"]

BATCH = 16
ROOT_STEPS, NODE_STEPS = 60, 16
# The tightest tolerances that HiGHS takes.
LP_OPTIONS = {
    "presolve": False,
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}
PRICE = 1e4  # of a contradiction between signs, in units of the natural size of a multiplier


@dataclass(slots=True)
class _Node:
    direction: int
    bound: float
    signs: Array  # (k,)
    multipliers: Array  # (k,)
    X: Array  # (d, RANK)
    branch: int  # the item to split
    is_leaf: bool = False


class TwoLayerSearch:
    """Branch and bound over the signs of one hidden layer; `step` refines, `bounds` tells what is proved."""

    def __init__(
        self, stages: tuple[Stage, ...], inputs: InputSet, found: Found, rng: np.random.Generator
    ) -> None:
        self.inputs, self.found, self.rng = inputs, found, rng
        m = len(stages[-1].e) or len(stages[-1].b)
        ways = np.vstack([np.eye(m), -np.eye(m)])[: len(found.values)]
        self.items = [split_into_items(stages, row) for row in ways]
        self.known = [_known_signs(items, inputs) for items in self.items]
        self.nodes: list[_Node] = []
        self.closed = np.full(len(ways), -np.inf)  # largest bound among leaves
        self.caps = np.full(len(ways), np.inf)

    def start(self, directions: IntArray) -> None:
        """Bound some directions at the root."""
        for number in directions:
            check_time()
            self._bound(int(number), self.known[number][None], None, ROOT_STEPS, np.inf)

    def bounds(self) -> Array:
        """The proved bound of every direction that was started."""
        found = np.maximum(self.closed, self.found.values)
        for node in self.nodes:
            found[node.direction] = max(found[node.direction], node.bound)
        return np.asarray(np.minimum(found, self.caps))

    def step(self, goal: float) -> bool:
        """Split the nodes with the largest bounds above `goal`; False if there are none."""
        open_ = [node for node in self.nodes if node.bound > goal]
        if not open_:
            return False
        open_.sort(key=lambda node: -node.bound)
        chosen = [node for node in open_ if node.direction == open_[0].direction][:BATCH]
        gone = {id(node) for node in chosen}
        self.nodes = [node for node in self.nodes if id(node) not in gone]
        signs, multipliers, vectors = [], [], []
        for node in chosen:
            for sign in (1.0, -1.0):
                child = node.signs.copy()
                child[node.branch] = sign
                signs.append(child)
                multipliers.append(node.multipliers)
                vectors.append(node.X)
        start = np.array(multipliers), np.array(vectors)
        caps = np.repeat([node.bound for node in chosen], 2)
        self._bound(chosen[0].direction, np.array(signs), start, NODE_STEPS, caps)
        return True

    def _bound(
        self,
        direction: int,
        signs: Array,
        start: tuple[Array, Array] | None,
        n_steps: int,
        caps: Array | float,
    ) -> None:
        """Bound nodes; leaves are solved, the others are kept unless they cannot hold the maximum."""
        items = self.items[direction]
        is_leaf = (signs != 0).all(axis=1)
        caps = np.broadcast_to(caps, len(signs))
        for row, cap in zip(signs[is_leaf], caps[is_leaf], strict=True):
            check_time()
            bound, x = solve_leaf(items, self.inputs, row)
            if x is not None:
                self.found.offer(x[None][self.inputs.contains(x[None])])
            self.closed[direction] = max(self.closed[direction], min(bound, float(cap)))
        rest = ~is_leaf
        if not rest.any():
            return
        relaxed = bilinear_bounds(
            items,
            self.inputs.low,
            self.inputs.high,
            signs[rest],
            n_steps=n_steps,
            start=None if start is None else (start[0][rest], start[1][rest]),
            rng=self.rng,
        )
        rows = np.concatenate([relaxed.inputs, _rounded(relaxed.X, self.inputs, self.rng)])
        self.found.offer(rows[self.inputs.contains(rows)])
        bounds = np.minimum(relaxed.bounds, caps[rest])
        branch = relaxed.score.argmax(axis=1)
        parts = zip(bounds, signs[rest], relaxed.multipliers, relaxed.X, branch, strict=True)
        for bound, row, beta, X, item in parts:
            if bound > self.found.values[direction]:
                self.nodes.append(_Node(direction, float(bound), row, beta, X, int(item)))


def solve_leaf(items: Items, inputs: InputSet, signs: Array) -> tuple[float, Array | None]:
    """Bound (1) for given signs, and the input that the linear program returns."""
    d, k = len(inputs.low), len(signs)
    on = signs > 0
    concave = _is_concave(items)
    rows, other = np.where(concave[:, None], items.others, items.rows), np.abs(items.other)
    # Linear part: κ z of units that are on; concave part: -κ' (u)₊, or κ (z)₊ with κ < 0 where u carries the sign.
    linear = np.append(items.line, items.constant)
    full = np.column_stack([items.Q, items.p])
    by_u = ~concave
    straight = np.where(
        by_u[:, None], -items.other[:, None] * items.others, items.coefficient[:, None] * items.rows
    )
    linear = linear + straight[on].sum(axis=0)
    weight = np.where(concave, other, np.abs(items.coefficient))
    bent = weight > 0
    Y = np.column_stack([items.Y, items.y]) * signs[:, None]
    size = np.abs(full).sum(axis=1).max(initial=0.0) / max(
        np.abs(items.Y).sum(axis=1).max(initial=0.0), 1e-300
    )
    price = PRICE * max(size, 1e-300)
    n_bent = int(bent.sum())
    # Variables x, r (bent), t: maximise linear - weight r - price t.
    cost = np.concatenate([-linear[:-1], weight[bent], [price]])
    G = np.zeros((n_bent + k + len(inputs.g), d + n_bent + 1))
    G[:n_bent, :d], G[:n_bent, d : d + n_bent] = rows[bent][:, :-1], -np.eye(n_bent)
    G[n_bent : n_bent + k, :d], G[n_bent : n_bent + k, -1] = -Y[:, :-1], -1.0
    G[n_bent + k :, :d] = inputs.G
    g = np.concatenate([-rows[bent][:, -1], Y[:, -1], inputs.g])
    low = np.concatenate([inputs.low, np.zeros(n_bent + 1)])
    high = np.concatenate([inputs.high, np.full(n_bent + 1, np.inf)])
    answer = optimize.linprog(
        cost, A_ub=G, b_ub=g, bounds=np.column_stack([low, high]), method="highs", options=LP_OPTIONS
    )
    is_solved = answer.status == 0
    multipliers = np.maximum(-np.asarray(answer.ineqlin.marginals), 0.0) if is_solved else np.zeros(len(g))
    slopes = np.minimum(multipliers[:n_bent] / weight[bent], 1.0) if n_bent else np.zeros(0)
    beta, outside = multipliers[n_bent : n_bent + k], multipliers[n_bent + k :]
    total = linear - (weight[bent] * slopes) @ rows[bent] + beta @ Y
    total[:-1] -= outside @ inputs.G
    total[-1] += outside @ inputs.g
    bound = np.where(total[:-1] > 0, inputs.high, inputs.low) @ total[:-1] + total[-1]
    x = np.append(np.maximum(np.abs(inputs.low), np.abs(inputs.high)), 1.0)
    sizes = np.abs(items.coefficient) @ (np.abs(items.rows) @ x) + np.abs(items.other) @ (
        np.abs(items.others) @ x
    )
    sizes += items.size @ x + np.abs(linear) @ x + beta @ (np.abs(Y) @ x)
    sizes += outside @ (np.abs(inputs.G) @ x[:-1] + np.abs(inputs.g))
    bound = float(bound + (8 * len(x) + 4 * k + 64) * UNIT * sizes)
    point = None if not is_solved else np.clip(answer.x[:d], inputs.low, inputs.high)
    return (bound if np.isfinite(bound) else np.inf), point


def _is_concave(items: Items) -> BoolArray:
    """Whether the sign of an item is that of z, so that -κ' (u)₊ is what stays bent."""
    return np.asarray((items.coefficient > 0) | (items.other == 0))


def _known_signs(items: Items, inputs: InputSet) -> Array:
    """Signs that a unit has on the whole box."""
    x = np.maximum(np.abs(inputs.low), np.abs(inputs.high))
    up, down = np.maximum(items.Y, 0.0), np.minimum(items.Y, 0.0)
    slack = (len(x) + 16) * UNIT * (np.abs(items.Y) @ x + np.abs(items.y))
    low = up @ inputs.low + down @ inputs.high + items.y - slack
    high = up @ inputs.high + down @ inputs.low + items.y + slack
    return np.where(low >= 0, 1.0, np.where(high <= 0, -1.0, 0.0))


def _rounded(X: Array, inputs: InputSet, rng: np.random.Generator) -> Array:
    """Corners from the vectors of a relaxation, by random hyperplanes."""
    normals = rng.standard_normal((X.shape[2], 4))
    side = (X @ normals).transpose(0, 2, 1).reshape(-1, X.shape[1])
    return np.where(side > 0, inputs.high, inputs.low)
