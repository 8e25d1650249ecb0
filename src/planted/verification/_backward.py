r"""Bound a linear function of a stage on a set of inputs, by going back to the inputs.

Problem     max q'(z, δ) over the inputs lo ≤ x ≤ hi with G x ≤ g for which some units have given signs.
Idea        Write q'(z, δ) with the stage below, replace every activation by the line of `_lines` that bounds it (the
            upper one where its coefficient is positive, the lower one where it is negative), and repeat. At the inputs a
            linear function is left, whose maximum on a box is attained in a corner. A unit whose sign s is given contributes
            a term β s z ≥ 0 with any β ≥ 0, an inequality G x ≤ g a term β (g - G x). All these numbers are free: weights
            of lines in [0, 1], multipliers β ≥ 0. For every choice the result is an upper bound (weak duality), so they are
            improved by a few steps of a subgradient method and the best bound is kept. The derivative with respect to each
            is the value of what it multiplies, at the corner and with the lines chosen: one pass forward.
Rounding    A product of matrices of length p is wrong by at most p + 2 roundings of the product of sizes; the sizes of
            units are known from their limits. `Backward.error` adds these up, and the bound is raised by it.
References  Zhang et al. 2018 (CROWN), Wang et al. 2021 (β-CROWN), Paulsen et al. 2020 (ReluDiff).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planted._typing import Array, BoolArray, IntArray
from planted.verification._lines import Lines
from planted.verification._stages import Stage

__all__ = ["Domain", "Passed", "Signs", "Weights", "go_back", "improve", "start_weights"]

UNIT = 2.0**-53

STEP, DECAY = 0.25, 0.93  # of the subgradient method, on weights in [0, 1]
MEAN, MEAN_SQUARE = 0.7, 0.95  # memory of the averages of gradients


@dataclass(slots=True)
class Domain:
    """A batch of B parts of the input set: boxes, and inequalities G x <= g that all of them share."""

    low: Array  # (B, d)
    high: Array
    G: Array  # (c, d)
    g: Array  # (c,)

    def take(self, rows: IntArray) -> Domain:
        """Some of the parts."""
        return Domain(self.low[rows], self.high[rows], self.G, self.g)


@dataclass(slots=True)
class Signs:
    """Signs of the units of a hidden stage that a part of the input set is defined by: -1, 1, or 0 where open."""

    f: Array  # (B, k)
    g: Array  # (B, r)

    def take(self, rows: IntArray) -> Signs:
        """The signs of some parts."""
        return Signs(self.f[rows], self.g[rows])


@dataclass(slots=True)
class Weights:
    """The free numbers of one hidden stage, each (B, rows, k): weights of lines in [0, 1], multipliers >= 0."""

    unit: Array  # lower line of h: slope + unit (1 - slope)
    share: Array  # part of the bound (1) of `_lines` in that of D
    pair: Array  # line of the other activation in (2) of `_lines`
    f: Array  # multiplier of the sign of z
    g: Array  # multiplier of the sign of u

    def parts(self) -> tuple[Array, ...]:
        """All arrays."""
        return self.unit, self.share, self.pair, self.f, self.g

    def take(self, rows: IntArray) -> Weights:
        """The numbers of some parts."""
        return Weights(*(part[rows] for part in self.parts()))


@dataclass(slots=True)
class Passed:
    """What one pass back leaves: the bounds, the coefficients of units and differences, and the corner."""

    bounds: Array  # (B, rows)
    h: list[Array]  # coefficients of h, stage by stage, (B, rows, k)
    D: list[Array]
    inputs: Array  # (B, rows, d): coefficients of the inputs
    corner: Array  # (B, rows, d)


def start_weights(lines: Sequence[Lines], n_rows: int, n_constraints: int) -> tuple[list[Weights], Array]:
    """Return weights that choose, unit by unit, the line with the smaller gap; multipliers are zero.

    With `n_rows` = 1 they serve any number of rows, but cannot be improved row by row.
    """
    found = []
    count = 1
    for line in lines:
        count, _, k = line.z_slope.shape
        shape, pairs = (count, n_rows, k), (count, n_rows, line.d_size.shape[2])
        unit = np.broadcast_to(np.where(line.z_slope - line.slope > 0.5 * (1 - line.slope), 1.0, 0.0), shape)
        # Gaps at the kink: of (1) in terms of the size of δ, of (2) those of the two chords.
        one = (1 - line.slope[: pairs[2]]) * line.d_size
        two = line.z_constant[:, :, : pairs[2]] + line.u_constant
        share = np.broadcast_to(np.where(one < two, 1.0, 0.0), pairs)
        middle = line.u_slope - line.slope[: pairs[2]] > 0.5 * (1 - line.slope[: pairs[2]])
        pair = np.broadcast_to(np.where(middle, 1.0, 0.0), pairs)
        found.append(Weights(unit.copy(), share.copy(), pair.copy(), np.zeros(shape), np.zeros(pairs)))
    return found, np.zeros((count, n_rows, n_constraints))


def go_back(
    stages: Sequence[Stage],
    lines: Sequence[Lines],
    signs: Sequence[Signs],
    domain: Domain,
    target: tuple[Array, Array],
    weights: tuple[list[Weights], Array],
    *,
    is_safe: bool = False,
) -> Passed:
    """Bound ``target[0] z + target[1] δ`` of the last of `stages` from above; coefficients (B, rows, k) and (B, rows, r).

    With `is_safe` rounding is accounted for; without it the bound may be too low by it.
    """
    z, d = target
    bounds = np.zeros(z.shape[:2])
    error = np.zeros(z.shape[:2])
    of_h: list[Array] = [z] * len(lines)
    of_D: list[Array] = [d] * len(lines)
    for place in range(len(stages) - 1, -1, -1):
        stage = stages[place]
        bounds = bounds + z @ stage.b + d @ stage.e
        h, D = _times(z, stage.W) + _times(d, stage.M), _times(d, stage.V)
        if is_safe:
            below = lines[place - 1] if place else None
            error += _size_of_product(stage, z, d, domain, below) * (sum(stage.W.shape) + 24)
        if place == 0:
            break
        line, weight, sign = lines[place - 1], weights[0][place - 1], signs[place - 1]
        of_h[place - 1], of_D[place - 1] = h, D
        z, d, constant = _through(line, weight, h, D)
        bounds = bounds + constant
        if is_safe:
            error += _size_of_lines(line, h, D) * (2 * h.shape[2] + 48)
        if not (sign.f.any() or sign.g.any()):
            continue
        f, g = weight.f * sign.f[:, None, :], weight.g * sign.g[:, None, :]
        r = d.shape[2]
        z, d = z + f, d - g
        z[:, :, :r] += g
        if is_safe:
            error += (
                (np.abs(f) * line.z_size).sum(axis=2) + (np.abs(g) * line.z_size[:, :, :r]).sum(axis=2)
            ) * 24
    inputs = h
    if len(domain.g):
        inputs = inputs - weights[1] @ domain.G
        bounds = bounds + weights[1] @ domain.g
    low, high = domain.low[:, None, :], domain.high[:, None, :]
    corner = np.where(inputs > 0, high, low)
    bounds = bounds + (inputs * corner).sum(axis=2)
    if is_safe:
        size = np.maximum(np.abs(low), np.abs(high))
        error += _dot(np.abs(inputs), size) * (inputs.shape[2] + 24)
        if len(domain.g):
            multipliers = np.abs(weights[1])
            sizes = (np.abs(domain.G) @ size.transpose(0, 2, 1)).transpose(0, 2, 1) + np.abs(domain.g)
            error += (multipliers * sizes).sum(axis=2) * (sum(domain.G.shape) + 24)
        bounds = bounds + (error + np.abs(bounds) * 8) * (1.01 * UNIT * (len(stages) + 1))
        bounds = np.where(np.isnan(bounds), np.inf, bounds)
    return Passed(bounds, of_h, of_D, inputs, corner)


def improve(
    stages: Sequence[Stage],
    lines: Sequence[Lines],
    signs: Sequence[Signs],
    domain: Domain,
    target: tuple[Array, Array],
    weights: tuple[list[Weights], Array],
    *,
    n_steps: int,
) -> tuple[Array, tuple[list[Weights], Array], Array]:
    """Improve the free numbers; return safe bounds (B, rows), the numbers that give them, and mean corners (B, rows, d)."""
    best, best_bounds = weights, None
    means: list[tuple[Array, Array]] = []
    corners = np.zeros(0)
    total = 0.0
    for step in range(n_steps):
        passed = go_back(stages, lines, signs, domain, target, weights)
        if best_bounds is None:
            best_bounds = passed.bounds
        else:
            better = passed.bounds < best_bounds
            best = _where(better, weights, best)
            best_bounds = np.where(better, passed.bounds, best_bounds)
        corners = passed.corner if step == 0 else corners + (step + 1.0) * passed.corner
        total += step + 1.0
        gradients, scales = _slopes(stages, lines, signs, domain, passed, weights)
        weights, means = _descend(weights, gradients, scales, means, step)
    if best_bounds is not None:
        last = go_back(stages, lines, signs, domain, target, weights)
        best = _where(last.bounds < best_bounds, weights, best)
    final = go_back(stages, lines, signs, domain, target, best, is_safe=True)
    return final.bounds, best, final.corner if n_steps == 0 else corners / total


def _through(line: Lines, weight: Weights, h: Array, D: Array) -> tuple[Array, Array, Array]:
    """Replace units and differences by lines: coefficients of z and δ, and the constant."""
    r = D.shape[2]
    lower = line.slope + weight.unit * (1 - line.slope)
    up = np.maximum(h, 0.0)
    # up z_slope + (h - up) lower
    z = h * lower
    z += up * (line.z_slope - lower)
    constant = _dot(up, line.z_constant)
    if not r:
        return z, D, constant
    slope = line.slope[:r]
    other = slope + weight.pair * (1 - slope)
    share, rest = weight.share, 1 - weight.share
    up = np.maximum(D, 0.0)
    down = rest * (other - line.u_slope), share * line.down_slope + rest * line.u_slope
    rise = rest * (line.z_slope[:, :, :r] - other), share * line.up_slope + rest * other
    z[:, :, :r] += D * down[0]
    z[:, :, :r] += up * (rise[0] - down[0])
    d = D * down[1]
    d += up * (rise[1] - down[1])
    below = share * line.down_constant - rest * line.u_constant
    constant = constant + _dot(D, below)
    constant = constant + _dot(up, share * line.up_constant + rest * line.z_constant[:, :, :r] - below)
    return z, d, constant


def _times(rows: Array, W: Array) -> Array:
    """Rows (B, rows, k) times a matrix (k, p): one product, not B small ones."""
    count, n_rows, k = rows.shape
    return (rows.reshape(count * n_rows, k) @ W).reshape(count, n_rows, W.shape[1])


def _dot(rows: Array, values: Array) -> Array:
    """Sum over units of rows (B, rows, k) times values (B, rows, k), or (B, 1, k) for all rows."""
    if values.shape[1] == 1:
        return np.asarray((rows @ values.transpose(0, 2, 1))[:, :, 0])
    return np.asarray((rows * values).sum(axis=2))


def _size_of_product(stage: Stage, z: Array, d: Array, domain: Domain, below: Lines | None) -> Array:
    """Sum of the sizes of all terms of a stage's linear map, (B, rows)."""
    if below is None:
        units, pairs = np.maximum(np.abs(domain.low), np.abs(domain.high)), None
    else:
        units, pairs = below.h_size[:, 0, :], below.D_size[:, 0, :]
    of_z = units @ np.abs(stage.W).T + np.abs(stage.b)
    total = _dot(np.abs(z), of_z[:, None, :])
    if len(stage.e):
        of_d = units @ np.abs(stage.M).T + np.abs(stage.e)
        if pairs is not None:
            of_d = of_d + pairs @ np.abs(stage.V).T
        total = total + _dot(np.abs(d), of_d[:, None, :])
    return total


def _size_of_lines(line: Lines, h: Array, D: Array) -> Array:
    """Sum of the sizes of the terms by which units and differences are replaced, (B, rows)."""
    slope = 1 + np.abs(line.slope)
    found = _dot(np.abs(h), 2 * slope * line.z_size + np.abs(line.z_constant))
    r = D.shape[2]
    if r:
        parts = 3 * slope[:r] * (line.z_size[:, :, :r] + line.d_size) + np.abs(line.z_constant[:, :, :r])
        parts = parts + np.abs(line.u_constant) + np.abs(line.up_constant) + np.abs(line.down_constant)
        found = found + _dot(np.abs(D), parts)
    return found


def _slopes(
    stages: Sequence[Stage],
    lines: Sequence[Lines],
    signs: Sequence[Signs],
    domain: Domain,
    passed: Passed,
    weights: tuple[list[Weights], Array],
) -> tuple[list[Array], list[Array | float]]:
    """Derivatives of the bounds with respect to all free numbers, and the unit in which each is measured."""
    gradients: list[Array] = []
    scales: list[Array | float] = []
    h, D = passed.corner, passed.corner[:, :, :0]
    for place, (line, sign) in enumerate(zip(lines, signs, strict=True)):
        stage, weight = stages[place], weights[0][place]
        z = h @ stage.W.T + stage.b
        d = h @ stage.M.T + (D @ stage.V.T if D.shape[2] else 0.0) + stage.e
        r = d.shape[2]
        slope, A, B = line.slope, passed.h[place], passed.D[place]
        lower = (slope + weight.unit * (1 - slope)) * z
        h = np.where(A > 0, line.z_slope * z + line.z_constant, lower)
        gradients.append(np.minimum(A, 0.0) * (1 - slope) * z)
        spread = line.z_size + 1e-300
        size = np.abs(A)
        if r:
            zr, u = z[:, :, :r], z[:, :, :r] - d
            bend = 1 - slope[:r]
            other = slope[:r] + weight.pair * bend
            is_up = B > 0
            first = np.where(
                is_up, line.up_slope * d + line.up_constant, line.down_slope * d + line.down_constant
            )
            chord_z = line.z_slope[:, :, :r] * zr + line.z_constant[:, :, :r]
            chord_u = line.u_slope * u + line.u_constant
            second = np.where(is_up, chord_z - other * u, other * zr - chord_u)
            rest = 1 - weight.share
            D = weight.share * first + rest * second
            gradients += [B * (first - second), B * rest * np.where(is_up, -bend * u, bend * zr)]
            size[:, :, :r] += np.abs(B) * np.minimum(1.0, line.d_size / spread[:, :, :r])
        else:
            u, D = z[:, :, :0], z[:, :, :0]
            gradients += [D, D]
        gradients += [sign.f[:, None, :] * z, sign.g[:, None, :] * u]
        largest = size.max(axis=2, keepdims=True, initial=0.0)
        scales += [1.0, 1.0, 1.0, largest, largest]
    gradients.append(domain.g - passed.corner @ domain.G.T)
    norm = np.abs(domain.G).max(initial=1e-300)
    scales.append(np.abs(passed.inputs).max(axis=2, keepdims=True, initial=0.0) / norm)
    return gradients, scales


def _descend(
    weights: tuple[list[Weights], Array],
    gradients: list[Array],
    scales: list[Array | float],
    means: list[tuple[Array, Array]],
    step: int,
) -> tuple[tuple[list[Weights], Array], list[tuple[Array, Array]]]:
    """One step down (Adam's rule), projected to what is allowed."""
    flat = [part for weight in weights[0] for part in weight.parts()] + [weights[1]]
    size = STEP * DECAY**step
    new, memory = [], []
    for number, (value, gradient, scale) in enumerate(zip(flat, gradients, scales, strict=True)):
        first, second = means[number] if means else (0.0, 0.0)
        mean = MEAN * first + (1 - MEAN) * gradient
        square = MEAN_SQUARE * second + (1 - MEAN_SQUARE) * gradient**2
        memory.append((mean, square))
        away = (mean / (1 - MEAN ** (step + 1))) / (
            np.sqrt(square / (1 - MEAN_SQUARE ** (step + 1))) + 1e-300
        )
        moved = np.maximum(value - size * scale * away, 0.0)
        is_multiplier = number % 5 >= 3 or number == len(flat) - 1
        new.append(moved if is_multiplier else np.minimum(moved, 1.0))
    stages = [Weights(*new[i : i + 5]) for i in range(0, len(new) - 1, 5)]
    return (stages, new[-1]), memory


def _where(
    chosen: BoolArray, one: tuple[list[Weights], Array], other: tuple[list[Weights], Array]
) -> tuple[list[Weights], Array]:
    """Choose row by row between two sets of weights."""
    mask = chosen[:, :, None]
    stages = [
        Weights(*(np.where(mask, a, b) for a, b in zip(x.parts(), y.parts(), strict=True)))
        for x, y in zip(one[0], other[0], strict=True)
    ]
    return stages, np.where(mask, one[1], other[1])
