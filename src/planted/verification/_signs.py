r"""Find the largest value of a network, or of the difference of two, by branch and bound on signs with linear programs.

Problem     A box that is cut by inequalities, or a deep network with few units whose sign is open: halving inputs cuts
            across both, signs do not.
Idea        Inputs, units and differences of matched units are the variables of a linear program; the lines of
            `planted.verification._lines` are its inequalities, G x ≤ g among them. HiGHS solves it. A node gives some signs,
            which make the lines exact. The node with the largest bound is split at the unit that is farthest from its
            activation at the solution; once all signs are given the program is the network. This is what a mixed-integer
            solver does, with one difference.
Proof       For multipliers y ≥ 0 of the inequalities A v ≤ b, any of y for equations,

            .. math:: c'v \le y'b + \sum_i \max_{l_i \le v_i \le u_i} (c - A'y)_i v_i                        \quad (1)

            with the limits l, u of all variables. The multipliers are those of HiGHS, the number is ours, with its
            rounding: the solver's tolerances are not part of the proof. A node is empty if (1) is negative for c = 0.
Scale       Differences of copies in single precision are a millionth of the tolerance of HiGHS. Every stage measures them
            in a power of two, which changes no digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from planted._clock import check_time
from planted._typing import Array, BoolArray
from planted.verification._backward import UNIT, Domain, Signs
from planted.verification._limits import find_limits, open_signs
from planted.verification._lines import Limits, Lines
from planted.verification._search import Found, InputSet
from planted.verification._stages import Stage

__all__ = ["SignSearch", "suits_signs"]

# The tightest tolerances that HiGHS takes.
LP_OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
N_SPLIT = 4  # nodes in one step
MOST_OPEN, MOST_VARIABLES = (
    40,
    2000,
)  # open signs on a whole box, beyond which it does not help; numbers in a program


def suits_signs(stages: Sequence[Stage], inputs: InputSet) -> bool:
    """Whether signs are worth a try: a box that is cut, or few signs that are open."""
    if len(inputs.low) + 2 * sum(len(s.b) + len(s.e) for s in stages[:-1]) > MOST_VARIABLES:
        return False
    if len(inputs.g):
        return True
    whole = Domain(inputs.low[None], inputs.high[None], inputs.G, inputs.g)
    limits, _ = find_limits(stages, whole, open_signs(stages, 1))
    return bool(sum(int(((limit.z_low < 0) & (limit.z_high > 0)).sum()) for limit in limits) <= MOST_OPEN)


@dataclass(slots=True)
class _Node:
    bounds: Array  # (directions,)
    signs: list[Signs]  # one row each
    branch: tuple[int, bool, int] | None  # stage, whether of g, unit; None for a leaf


@dataclass(slots=True)
class _Program:
    """Variables between limits, equations and inequalities of one node."""

    low: Array
    high: Array
    A: Array
    b: Array
    is_equation: BoolArray


class SignSearch:
    """Branch and bound over the signs of all hidden layers; `step` refines, `bounds` tells what is proved."""

    def __init__(self, stages: tuple[Stage, ...], inputs: InputSet, found: Found) -> None:
        self.stages, self.inputs, self.found = stages, inputs, found
        m = len(stages[-1].e) or len(stages[-1].b)
        self.ways = np.vstack([np.eye(m), -np.eye(m)])[: len(found.values)]
        self.closed = np.full(len(self.ways), -np.inf)
        self.nodes: list[_Node] = []

    def start(self, goal: float) -> None:
        """Bound the whole set."""
        unknown = np.full(len(self.ways), np.inf)
        self._add([_Node(unknown, open_signs(self.stages, 1), None)], goal)

    def bounds(self) -> Array:
        """The proved bound of every direction."""
        parts = [np.maximum(self.closed, self.found.values), *(node.bounds for node in self.nodes)]
        return np.asarray(np.max(parts, axis=0))

    def step(self, goal: float) -> bool:
        """Split the nodes with the largest bounds above `goal`; False if there are none."""
        self.nodes.sort(key=lambda node: -float(node.bounds.max()))
        chosen = [node for node in self.nodes[:N_SPLIT] if node.bounds.max() > goal]
        self.nodes = self.nodes[len(chosen) :]
        for node in chosen:
            assert node.branch is not None
            place, is_other, unit = node.branch
            children = []
            for sign in (1.0, -1.0):
                signs = [Signs(part.f.copy(), part.g.copy()) for part in node.signs]
                (signs[place].g if is_other else signs[place].f)[0, unit] = sign
                children.append(_Node(node.bounds.copy(), signs, None))
            self._add(children, goal)
        return bool(chosen)

    def _add(self, nodes: list[_Node], goal: float) -> None:
        """Bound new nodes in the directions that are open, and keep those that may hold the maximum."""
        inputs = self.inputs
        count = len(nodes)
        signs = [
            Signs(np.concatenate([one.f for one in parts]), np.concatenate([one.g for one in parts]))
            for parts in zip(*(node.signs for node in nodes), strict=True)
        ]
        domain = Domain(np.tile(inputs.low, (count, 1)), np.tile(inputs.high, (count, 1)), inputs.G, inputs.g)
        limits, lines = find_limits(self.stages, domain, signs)
        for row, node in enumerate(nodes):
            program, scales = _written(self.stages, inputs, limits, lines, row)
            widest = -np.inf
            for way in np.argsort(-node.bounds, kind="stable"):
                if node.bounds[way] <= max(goal, self.found.values[way]):
                    continue
                check_time()
                cost, constant, unit = _objective(self.stages, self.ways[way], scales, len(program.low))
                bound, solution = _solved(program, cost, constant)
                node.bounds[way] = min(node.bounds[way], bound * unit)
                if bound == -np.inf:  # no input has these signs
                    node.bounds[:] = -np.inf
                    break
                if solution is None:
                    continue
                x = np.clip(solution[: len(inputs.low)], inputs.low, inputs.high)[None]
                self.found.offer(x[inputs.contains(x)])
                if node.bounds[way] > widest:
                    widest = float(node.bounds[way])
                    node.branch = self._farthest(limits, lines, scales, solution, row)
            if node.branch is None or node.bounds.max() <= goal:
                self.closed = np.maximum(self.closed, node.bounds)
            else:
                self.nodes.append(node)

    def _farthest(
        self, limits: Sequence[Limits], lines: Sequence[Lines], scales: Array, solution: Array, row: int
    ) -> tuple[int, bool, int] | None:
        """The unit with open sign whose value at the solution is farthest from its activation, for its range."""
        best, chosen = 0.0, None
        begin = len(self.inputs.low)
        for place, (stage, limit) in enumerate(zip(self.stages[:-1], limits, strict=True)):
            k, r = len(stage.b), len(stage.e)
            z, h = solution[begin : begin + k], solution[begin + k : begin + 2 * k]
            d = solution[begin + 2 * k : begin + 2 * k + r] * scales[place]
            D = solution[begin + 2 * k + r : begin + 2 * k + 2 * r] * scales[place]
            begin += 2 * k + 2 * r
            phi = np.where(z > 0, z, stage.slopes * z)
            gap = np.abs(h - phi)
            open_ = (limit.z_low[row] < 0) & (limit.z_high[row] > 0)
            pairs = [(False, np.where(open_, gap + 1e-12 * limit.z_high[row], 0.0))]
            if r:
                u = z[:r] - d
                true = phi[:r] - np.where(u > 0, u, stage.slopes[:r] * u)
                off = np.abs(D - true)
                pairs[0][1][:r] += np.where(open_[:r], off, 0.0)
                other = (limit.u_low[row] < 0) & (limit.u_high[row] > 0)
                pairs.append((True, np.where(other, off + 1e-13 * limit.u_high[row], 0.0)))
            for is_other, score in pairs:
                if len(score) and score.max() > best:
                    best, chosen = float(score.max()), (place, is_other, int(score.argmax()))
        return chosen


def _written(
    stages: Sequence[Stage], inputs: InputSet, limits: Sequence[Limits], lines: Sequence[Lines], row: int
) -> tuple[_Program, Array]:
    """Write one node as a program: x, then z, h, δ and D of every hidden stage, the last two in units of `scales`."""
    widths = [len(inputs.low), *(n for s in stages[:-1] for n in (len(s.b), len(s.b), len(s.e), len(s.e)))]
    begins = np.cumsum([0, *widths])
    scales = np.ones(len(limits))
    rows, sides, kinds = [], [], []
    low, high = np.zeros(begins[-1]), np.zeros(begins[-1])
    low[: widths[0]], high[: widths[0]] = inputs.low, inputs.high

    def add(parts: dict[int, Array], side: Array, *, is_equation: bool = False) -> None:
        block = np.zeros((len(side), len(low)))
        for group, part in parts.items():
            block[:, begins[group] : begins[group + 1]] = part
        rows.append(block)
        sides.append(side)
        kinds.append(np.full(len(side), is_equation))

    def limit_to(group: int, least: Array, largest: Array) -> None:
        low[begins[group] : begins[group + 1]] = least
        high[begins[group] : begins[group + 1]] = np.maximum(least, largest)

    add({0: inputs.G}, inputs.g)
    for place, (limit, line) in enumerate(zip(limits, lines, strict=True)):
        stage, z = stages[place], 1 + 4 * place
        h, delta, D, below = z + 1, z + 2, z + 3, 0 if place == 0 else z - 3
        k, r, slopes = len(stage.b), len(stage.e), stage.slopes
        z_low, z_high = limit.z_low[row], limit.z_high[row]
        eye = np.eye(k)
        add({z: eye, below: -stage.W}, stage.b, is_equation=True)
        fixed = (z_low >= 0) | (z_high <= 0)
        rate = np.where(z_low >= 0, 1.0, slopes)
        add({z: -(eye * rate)[fixed], h: eye[fixed]}, np.zeros(int(fixed.sum())), is_equation=True)
        bent, none = ~fixed, np.zeros(int((~fixed).sum()))
        chord, above = line.z_slope[row, 0], line.z_constant[row, 0]
        add({z: eye[bent], h: -eye[bent]}, none)
        add({z: (eye * slopes)[bent], h: -eye[bent]}, none)
        add({z: -(eye * chord)[bent], h: eye[bent]}, above[bent])
        size = line.h_size[row, 0]
        limit_to(z, z_low, z_high)
        limit_to(h, -size, size)
        if not r:
            continue
        d_low, d_high, u_low, u_high = (
            part[row] for part in (limit.d_low, limit.d_high, limit.u_low, limit.u_high)
        )
        scales[place] = unit = _power(max(float(np.abs(d_low).max()), float(np.abs(d_high).max())))
        eye, wide, slope = np.eye(r), np.eye(r, k), slopes[:r]
        add(
            {
                delta: eye,
                below: -stage.M / unit,
                **({below + 2: -stage.V * (scales[place - 1] / unit)} if place else {}),
            },
            stage.e / unit,
            is_equation=True,
        )
        both_on = (z_low[:r] >= 0) & (u_low >= 0)
        both = both_on | ((z_high[:r] <= 0) & (u_high <= 0))
        rate = np.where(both_on, 1.0, slope)
        add({delta: -(eye * rate)[both], D: eye[both]}, np.zeros(int(both.sum())), is_equation=True)
        bent, none = ~both, np.zeros(int((~both).sum()))
        # (1) of `_lines`.
        up, down = line.up_slope[row, 0], line.down_slope[row, 0]
        add({delta: -(eye * up)[bent], D: eye[bent]}, (line.up_constant[row, 0] / unit)[bent])
        add({delta: (eye * down)[bent], D: -eye[bent]}, -(line.down_constant[row, 0] / unit)[bent])
        # φ(u) = h - D lies above u = z - δ, above slope · u, and below its chord.
        for sign, rate, side in (
            (1.0, np.ones(r), none),
            (1.0, slope, none),
            (-1.0, line.u_slope[row, 0], line.u_constant[row, 0][bent]),
        ):
            part = sign * rate[:, None]
            add(
                {
                    z: (wide * part)[bent],
                    h: (-sign * wide)[bent],
                    delta: (-unit * eye * part)[bent],
                    D: (sign * unit * eye)[bent],
                },
                side,
            )
        limit_to(delta, d_low / unit, d_high / unit)
        size = line.D_size[row, 0] / unit
        limit_to(D, -size, size)
    return _Program(low, high, np.concatenate(rows), np.concatenate(sides), np.concatenate(kinds)), scales


def _power(size: float) -> float:
    """The power of two next to a size; one if it is zero or no number."""
    return float(np.exp2(np.round(np.log2(size)))) if 1e-200 < size < 1e200 else 1.0


def _objective(stages: Sequence[Stage], way: Array, scales: Array, length: int) -> tuple[Array, float, float]:
    """Coefficients of the variables, the constant, and the power of two in which both are measured."""
    last = stages[-1]
    r, k = len(last.e), last.W.shape[1]
    q = last.V.shape[1] if r else 0
    cost = np.zeros(length)
    if not r:
        cost[length - k :] = way @ last.W
        return cost, float(way @ last.b), 1.0
    unit = float(scales[-1])
    cost[length - 2 * q - k : length - 2 * q] = way @ last.M / unit
    cost[length - q :] = way @ last.V
    return cost, float(way @ last.e) / unit, unit


def _solved(program: _Program, cost: Array, constant: float) -> tuple[float, Array | None]:
    """A proved bound of ``cost' v + constant`` with the solution; minus infinity if the program is proved to be empty."""
    is_equation = program.is_equation
    A, b = program.A, program.b
    limits = np.column_stack([program.low, program.high])
    answer = optimize.linprog(
        -cost,
        A_ub=A[~is_equation],
        b_ub=b[~is_equation],
        A_eq=A[is_equation],
        b_eq=b[is_equation],
        bounds=limits,
        method="highs",
        options=LP_OPTIONS,
    )
    y = np.zeros(len(b))
    if answer.status == 2:
        # How far is it from a solution? The multipliers of that program are a proof that there is none.
        ones = -np.ones((len(b), 1))
        wide = np.vstack([np.hstack([A, ones]), np.hstack([-A[is_equation], ones[is_equation]])])
        answer = optimize.linprog(
            np.append(np.zeros(len(cost)), 1.0),
            A_ub=wide,
            b_ub=np.append(b, -b[is_equation]),
            bounds=np.vstack([limits, [0.0, np.inf]]),
            method="highs",
            options=LP_OPTIONS,
        )
        if answer.status != 0:
            return np.inf, None
        y = np.maximum(-np.asarray(answer.ineqlin.marginals)[: len(b)], 0.0)
        y[is_equation] -= np.maximum(-np.asarray(answer.ineqlin.marginals)[len(b) :], 0.0)
        return (-np.inf if _dual(program, 0 * cost, 0.0, y) < 0 else np.inf), None
    if answer.status != 0:
        return np.inf, None
    y[~is_equation] = np.maximum(-np.asarray(answer.ineqlin.marginals), 0.0)
    y[is_equation] = -np.asarray(answer.eqlin.marginals)
    return _dual(program, cost, constant, y), np.asarray(answer.x)


def _dual(program: _Program, cost: Array, constant: float, y: Array) -> float:
    """(1), with all roundings; also those of the coefficients, each at most two."""
    A, b, low, high = program.A, program.b, program.low, program.high
    rest = cost - A.T @ y
    value = constant + y @ b + np.where(rest > 0, high, low) @ rest
    size = np.maximum(np.abs(low), np.abs(high))
    sizes = abs(constant) + np.abs(y) @ np.abs(b) + (np.abs(cost) + np.abs(A).T @ np.abs(y)) @ size
    found = float(value + (2 * sum(A.shape) + 64) * UNIT * sizes)
    return found if np.isfinite(found) else np.inf
