"""The set of inputs that a user gives, and a search for inputs at which an output, or a difference, is large.

The set is a box, or a box cut by inequalities.

Many starts climb at once. The gradient at a start points to a corner of the box (of the polytope: to one of a list of
its corners); the best of a few steps towards it is taken, until no step improves. What is found is a lower bound of the
maximum, whatever the search does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import optimize

from planted._clock import check_time
from planted._typing import Array
from planted.outcomes import BadInputError
from planted.verification._stages import Plain

__all__ = ["Found", "InputSet", "as_input_set", "climb"]

STEPS = (1.0, 0.5, 0.2, 0.05, 0.01, 0.001)
N_STARTS, N_CLIMBS = 32, 60
N_VERTICES = 64


@dataclass(frozen=True, slots=True)
class InputSet:
    """A box, and inequalities G x <= g (none for a box)."""

    low: Array  # (d,)
    high: Array  # (d,)
    G: Array  # (c, d)
    g: Array  # (c,)

    def contains(self, rows: Array) -> Array:
        """Whether rows (n, d) lie in the set, up to rounding of the inequalities."""
        inside = ((rows >= self.low) & (rows <= self.high)).all(axis=1)
        size = 1e-12 * (np.abs(rows) @ np.abs(self.G).T + np.abs(self.g))
        return np.asarray(inside & (rows @ self.G.T <= self.g + size).all(axis=1))

    def vertices(self, rng: np.random.Generator) -> Array:
        """Some corners of a polytope, by linear programs with random objectives; empty if the set is empty."""
        found = []
        for _ in range(N_VERTICES):
            check_time()
            answer = optimize.linprog(
                rng.standard_normal(len(self.low)),
                A_ub=self.G,
                b_ub=self.g,
                bounds=np.column_stack([self.low, self.high]),
                method="highs",
            )
            if answer.status != 0:
                break
            found.append(np.clip(answer.x, self.low, self.high))
        return np.array(found).reshape(-1, len(self.low))


def as_input_set(box: Any, n_features: int) -> InputSet:
    """Read ``(low, high)`` or ``(low, high, A, b)``; each end is a number or one number for every input.

    Examples
    --------
    >>> as_input_set((0, [1, 2]), 2).high
    array([1., 2.])
    """
    if isinstance(box, InputSet):
        return box
    try:
        parts = list(box)
    except TypeError:
        parts = []
    if len(parts) not in (2, 4):
        raise BadInputError("box: expected (low, high), or (low, high, A, b) for a box cut by A x <= b")
    low, high = (_end(part, n_features) for part in parts[:2])
    if (low > high).any():
        first = int(np.flatnonzero(low > high)[0])
        raise BadInputError(f"box: input {first} has low {low[first]} above high {high[first]}")
    if len(parts) == 2:
        return InputSet(low, high, np.zeros((0, n_features)), np.zeros(0))
    G, g = (_numbers(part) for part in parts[2:])
    if G.ndim != 2 or G.shape[1] != n_features or g.shape != (len(G),):
        raise BadInputError(
            f"box: A has shape {G.shape} and b {g.shape}; expected (c, {n_features}) and (c,)"
        )
    if not (np.isfinite(G).all() and np.isfinite(g).all()):
        raise BadInputError("box: A or b contains NaN or infinity")
    return InputSet(low, high, G, g)


def _end(value: Any, n_features: int) -> Array:
    array = _numbers(value)
    if array.shape not in ((), (1,), (n_features,)):
        raise BadInputError(f"box: an end has shape {array.shape}; expected a number or {n_features} of them")
    if not np.isfinite(array).all():
        raise BadInputError("box: an end is NaN or infinite; a proof needs a bounded set of inputs")
    return np.array(np.broadcast_to(array, (n_features,)), dtype=np.float64)


def _numbers(value: Any) -> Array:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInputError("box: expected numbers") from None


@dataclass(slots=True)
class Found:
    """The largest value of each output direction so far: m upwards, then m downwards unless only upwards is asked."""

    values: Array  # (2m,) or (m,)
    inputs: Array  # (2m, d) or (m, d)
    evaluate: Callable[[Array], Array] = field(repr=False)  # rows (n, d) to values (n, m)

    def offer(self, rows: Array) -> None:
        """Take what is larger than what is known; rows must lie in the set."""
        if not len(rows):
            return
        outputs = self.evaluate(rows)
        both = np.where(np.isfinite(outputs), outputs, 0.0)
        both = np.concatenate([both, -both], axis=1)[:, : len(self.values)]
        best = both.argmax(axis=0)
        top = both[best, np.arange(both.shape[1])]
        better = top > self.values
        self.values = np.where(better, top, self.values)
        self.inputs = np.where(better[:, None], rows[best], self.inputs)


def climb(
    nets: tuple[Plain, ...],
    inputs: InputSet,
    found: Found,
    rng: np.random.Generator,
    *,
    starts: Array | None = None,
) -> None:
    """Climb from random starts, or from given ones, in every direction; `found` keeps what is met."""
    d = len(inputs.low)
    corners = inputs.vertices(rng) if len(inputs.g) else None
    if corners is not None and not len(corners):
        return
    if starts is None:
        starts = _starts(inputs, corners, rng)
    found.offer(starts)
    m = nets[0].widths[-1]
    ways = np.vstack([np.eye(m), -np.eye(m)])[: len(found.values)]
    directions = np.repeat(ways, len(starts), axis=0)
    rows = np.tile(starts, (len(ways), 1))
    values = (found.evaluate(rows) * directions).sum(axis=1)
    steps = np.array(STEPS)[:, None, None]
    for _ in range(N_CLIMBS):
        check_time()
        slope = _gradient(nets, rows, directions)
        goal = _goal(inputs, corners, slope, rows)
        tried = (rows + steps * (goal - rows)).reshape(-1, d)
        tried = np.clip(tried, inputs.low, inputs.high)
        outputs = (found.evaluate(tried).reshape(len(STEPS), len(rows), m) * directions).sum(axis=2)
        best = np.nan_to_num(outputs, nan=-np.inf).argmax(axis=0)
        place = np.arange(len(rows))
        better = outputs[best, place] > values + 1e-15 * np.abs(values)
        if not better.any():
            break
        chosen = tried.reshape(len(STEPS), len(rows), d)[best, place]
        rows, directions, values = chosen[better], directions[better], outputs[best, place][better]
        found.offer(rows)


def _starts(inputs: InputSet, corners: Array | None, rng: np.random.Generator) -> Array:
    if corners is not None:
        shares = rng.dirichlet(np.full(len(corners), 0.3), N_STARTS)
        return np.concatenate([corners, shares @ corners])
    low, high = inputs.low, inputs.high
    inside = low + rng.random((N_STARTS // 2, len(low))) * (high - low)
    ends = np.where(rng.random((N_STARTS // 2, len(low))) < 0.5, low, high)
    return np.asarray(np.clip(np.concatenate([inside, ends, [0.5 * low + 0.5 * high]]), low, high))


def _goal(inputs: InputSet, corners: Array | None, slope: Array, rows: Array) -> Array:
    """The corner that a gradient points to."""
    if corners is not None:
        return np.asarray(corners[(slope @ corners.T).argmax(axis=1)])
    return np.where(slope > 0, inputs.high, np.where(slope < 0, inputs.low, rows))


def _gradient(nets: tuple[Plain, ...], rows: Array, directions: Array) -> Array:
    """The gradient of ``directions`` times the first network, minus that of the second."""
    total = np.zeros_like(rows)
    for sign, net in zip((1.0, -1.0), nets, strict=False):
        hidden, rates = rows, []
        for (W, b), slope in zip(net.layers, net.slopes, strict=False):
            t = hidden @ W.T + b
            rates.append(np.where(t > 0, 1.0, slope))
            hidden = np.where(t > 0, t, slope * t)
        back = directions @ net.layers[-1][0]
        for (W, _), rate in zip(net.layers[-2::-1], rates[::-1], strict=True):
            back = (back * rate) @ W
        total += sign * back
    return total
