r"""`planted.bounds` and `planted.slopes`: proved ranges of the outputs of a network, and of its derivatives, on a box.

Outputs are bracketed as differences of networks are (`planted.verification._bracket`). Derivatives: on a box the activation
of a unit has the slope 1, or that left of zero, or, where its pre-activation changes sign, any between. Going back from the
outputs with intervals of slopes gives an interval for every ∂f_j / ∂x_i, which holds for all pieces that meet the box.
Boxes are halved until the interval and the derivatives seen at points agree, or until the time is over. From these
intervals follow monotonicity, and the Lipschitz constant for the largest change of an input: max_j Σ_i |∂f_j / ∂x_i|.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from planted._clock import StopRequested, check_time, time_budget
from planted._streams import solver_streams
from planted._threads import one_thread_inside
from planted._typing import Array, BoolArray, Seed
from planted.outcomes import BadInputError
from planted.verification._backward import UNIT, Domain
from planted.verification._bracket import bracket
from planted.verification._limits import refine_limits
from planted.verification._lines import Limits
from planted.verification._search import as_input_set
from planted.verification._stages import Plain, as_plain, single_stages
from planted.verification._zonotopes import reach

__all__ = ["OutputBounds", "SlopeBounds", "bounds", "slopes"]

SECONDS = 60.0  # unless a budget is given
BATCH = 32
MOST_OPEN = 8  # units of one layer whose slopes are tried in all combinations
CLOSED = 1e-9  # relative gap of a bracket that counts as none


@dataclass(frozen=True, slots=True)
class OutputBounds:
    """The answer of `bounds`; all arrays have one entry, or row, for each output.

    Parameters
    ----------
    low, high : ndarray of shape (m,)
        Proved: the output stays between them on the whole set.
    seen_low, seen_high : ndarray of shape (m,)
        The smallest and largest values that were found.
    low_at, high_at : ndarray of shape (m, d)
        The inputs at which they were found.
    reason : str
        Why it ended before the brackets closed; empty if they did.
    """

    low: Array
    high: Array
    seen_low: Array
    seen_high: Array
    low_at: Array
    high_at: Array
    reason: str


@dataclass(frozen=True, slots=True)
class SlopeBounds:
    """The answer of `slopes`.

    Parameters
    ----------
    low, high : ndarray of shape (m, d)
        Proved: between them lies every derivative of output j in input i on the set.
    seen_low, seen_high : ndarray of shape (m, d)
        Smallest and largest derivatives that were found.
    lipschitz : (float, float)
        Found and proved: no output changes by more than this times the largest change of an input.
    lipschitz_at : ndarray of shape (d,)
        An input at which the found value holds.
    reason : str
        Why it ended before the bracket closed; empty if it did.
    """

    low: Array
    high: Array
    seen_low: Array
    seen_high: Array
    lipschitz: tuple[float, float]
    lipschitz_at: Array
    reason: str

    def is_monotone(self, feature: int, output: int = 0) -> bool | None:
        """Tell whether an output never falls as one input rises; None if that is not decided.

        Parameters
        ----------
        feature : int
            Number of the input.
        output : int, default=0
            Number of the output.

        Returns
        -------
        bool or None
            True if it is proved, False if a negative derivative was found.
        """
        if self.low[output, feature] >= 0:
            return True
        return False if self.seen_low[output, feature] < 0 else None


@one_thread_inside
def bounds(
    network: Any,
    box: Any,
    *,
    gap: float = 1e-3,
    budget_seconds: float | None = None,
    random_state: Seed = None,
) -> OutputBounds:
    """Bound the outputs of a network on a set of inputs, with proof.

    Parameters
    ----------
    network : TwoLayerNetwork or DeepNetwork
        A network with ReLU or leaky ReLU units.
    box : (low, high) or (low, high, A, b)
        The inputs: ends as numbers or one for each input, and inequalities ``A x <= b`` if given.
    gap : float, default=1e-3
        The work ends when the largest bound is within this part of a value that was found.
    budget_seconds : float, optional
        Time limit, 60 seconds if not given; what is proved by then is returned.
    random_state : int, Generator, SeedSequence or None
        Seed of the search.

    Returns
    -------
    OutputBounds
        Proved ranges, and the values that were found in them.

    Examples
    --------
    >>> import planted
    >>> net = planted.TwoLayerNetwork(W=[[1.0, 0.0], [0.0, 1.0]], A=[[1.0, -2.0]])
    >>> found = planted.bounds(net, (-1, 1), random_state=0)
    >>> found.low.round(6).tolist(), found.high.round(6).tolist()
    ([-2.0], [1.0])
    """
    net = as_plain(network)
    (rng,) = solver_streams(random_state, 1)
    inputs = as_input_set(box, net.widths[0])
    with time_budget(SECONDS if budget_seconds is None else budget_seconds):
        known = bracket(net, None, inputs, gap=gap, rng=rng)
    m = net.widths[-1]
    return OutputBounds(
        -known.proved[m:],
        known.proved[:m],
        -known.found[m:],
        known.found[:m],
        known.inputs[m:],
        known.inputs[:m],
        known.reason,
    )


@one_thread_inside
def slopes(network: Any, box: Any, *, budget_seconds: float | None = None) -> SlopeBounds:
    """Bound the derivatives of a network on a box, with proof: monotonicity and the Lipschitz constant.

    Parameters
    ----------
    network : TwoLayerNetwork or DeepNetwork
        A network with ReLU or leaky ReLU units.
    box : (low, high)
        The inputs: ends as numbers or one for each input.
    budget_seconds : float, optional
        Time limit, 60 seconds if not given; what is proved by then is returned.

    Returns
    -------
    SlopeBounds
        Proved and found derivatives of every output in every input, and the Lipschitz constant.

    Examples
    --------
    >>> import planted
    >>> net = planted.TwoLayerNetwork(W=[[1.0, 0.0], [1.0, 1.0]], b=[0.0, -0.5], A=[[1.0, 2.0]])
    >>> found = planted.slopes(net, (-1, 1))
    >>> found.is_monotone(0), found.lipschitz[0], round(found.lipschitz[1], 9)
    (True, 5.0, 5.0)
    """
    net = as_plain(network)
    inputs = as_input_set(box, net.widths[0])
    if len(inputs.g):
        raise BadInputError(
            "box: derivatives are bounded on boxes; expected (low, high) without inequalities"
        )
    search = _SlopeSearch(net, inputs.low, inputs.high)
    reason = ""
    with time_budget(SECONDS if budget_seconds is None else budget_seconds), np.errstate(all="ignore"):
        try:
            while search.step():
                check_time()
        except StopRequested as stop:
            reason = str(stop)
        except KeyboardInterrupt:
            reason = "interrupted"
    low, high, largest = search.proved()
    return SlopeBounds(
        low,
        high,
        search.seen_low,
        search.seen_high,
        (max(search.seen_norm, 0.0), largest),
        search.seen_at,
        reason,
    )


class _SlopeSearch:
    """Boxes with intervals of derivatives; those with the largest norms are halved first."""

    def __init__(self, net: Plain, low: Array, high: Array) -> None:
        self.net, self.stages = net, single_stages(net)
        self.width = np.where(high > low, high - low, 1.0)
        m, d = net.widths[-1], net.widths[0]
        self.seen_low, self.seen_high = np.full((m, d), np.inf), np.full((m, d), -np.inf)
        self.seen_norm, self.seen_at = -np.inf, low
        self.closed_low, self.closed_high, self.closed_norm = (
            self.seen_low.copy(),
            self.seen_high.copy(),
            -np.inf,
        )
        self.low, self.high = low[None], high[None]
        self.J_low, self.J_high, self.norms = self._bound(self.low, self.high)
        self._see(self.low)
        self._see(self.high)

    def proved(self) -> tuple[Array, Array, float]:
        """Intervals of all derivatives and the largest norm."""
        low = np.minimum(self.closed_low, self.J_low.min(axis=0, initial=np.inf))
        high = np.maximum(self.closed_high, self.J_high.max(axis=0, initial=-np.inf))
        norm = self.norms.max(initial=-np.inf)
        return low, high, float(max(norm, self.closed_norm, self.seen_norm))

    def step(self) -> bool:
        """Halve the boxes with the largest norms; False if no box can be improved."""
        norms = self.norms
        size = np.maximum(np.abs(self.J_low), np.abs(self.J_high)).max(initial=0.0)
        loose = (self.J_high - self.J_low).max(axis=(1, 2)) > CLOSED * size
        # Inside the range that was seen, and no larger norm: nothing to learn from this box.
        slack = CLOSED * size
        wider = ((self.J_low < self.seen_low - slack) | (self.J_high > self.seen_high + slack)).any(
            axis=(1, 2)
        )
        open_ = loose & ((norms > self.seen_norm * (1 + CLOSED)) | wider)
        self._set_aside(~open_)
        if not len(self.low):
            return False
        chosen = np.argsort(-self.norms, kind="stable")[:BATCH]
        low, high = self.low[chosen], self.high[chosen]
        axis = ((high - low) / self.width).argmax(axis=1)
        rows = np.arange(len(chosen))
        middle = 0.5 * low[rows, axis] + 0.5 * high[rows, axis]
        stuck = (middle <= low[rows, axis]) | (middle >= high[rows, axis])
        keep = np.ones(len(self.low), dtype=bool)
        keep[chosen[~stuck]] = False
        aside = np.zeros(len(self.low), dtype=bool)
        aside[chosen[stuck]] = True
        lows, highs = np.repeat(low[~stuck], 2, axis=0), np.repeat(high[~stuck], 2, axis=0)
        place = np.arange(int((~stuck).sum()))
        highs[2 * place, axis[~stuck]] = middle[~stuck]
        lows[2 * place + 1, axis[~stuck]] = middle[~stuck]
        self._set_aside(aside, keep)
        if len(lows):
            J_low, J_high, norms = self._bound(lows, highs)
            self.norms = np.concatenate([self.norms, norms])
            self._see(0.5 * lows + 0.5 * highs)
            self.low, self.high = np.concatenate([self.low, lows]), np.concatenate([self.high, highs])
            self.J_low, self.J_high = (
                np.concatenate([self.J_low, J_low]),
                np.concatenate([self.J_high, J_high]),
            )
        return True

    def _set_aside(self, aside: BoolArray, keep: BoolArray | None = None) -> None:
        """Remember the bounds of boxes that are not halved any more, and drop them."""
        if aside.any():
            self.closed_low = np.minimum(self.closed_low, self.J_low[aside].min(axis=0))
            self.closed_high = np.maximum(self.closed_high, self.J_high[aside].max(axis=0))
            self.closed_norm = max(self.closed_norm, float(self.norms[aside].max()))
        left = ~aside if keep is None else keep & ~aside
        self.low, self.high = self.low[left], self.high[left]
        self.J_low, self.J_high, self.norms = self.J_low[left], self.J_high[left], self.norms[left]

    def _bound(self, low: Array, high: Array) -> tuple[Array, Array, Array]:
        """Intervals of the derivatives (B, m, d) on boxes, and bounds of their norms."""
        domain = Domain(low, high, np.zeros((0, low.shape[1])), np.zeros(0))
        limits = reach(self.stages, domain).limits
        refine_limits(self.stages, domain, limits)
        W = self.stages[-1].W
        J_low = J_high = np.broadcast_to(W, (len(low), *W.shape))
        for stage, limit in zip(self.stages[-2::-1], limits[::-1], strict=True):
            # A unit that touches zero has both slopes.
            least = np.where(limit.z_low > 0, 1.0, stage.slopes)[:, None, :]
            most = np.where(limit.z_high < 0, stage.slopes, 1.0)[:, None, :]
            products = (J_low * least, J_low * most, J_high * least, J_high * most)
            J_low, J_high = np.minimum.reduce(products), np.maximum.reduce(products)
            up, down = np.maximum(stage.W, 0.0), np.minimum(stage.W, 0.0)
            # Sizes of the terms of each end, so that an end that is exactly zero stays zero.
            sizes = np.abs(J_low) @ up - np.abs(J_high) @ down, np.abs(J_high) @ up - np.abs(J_low) @ down
            ends = J_low @ up + J_high @ down, J_high @ up + J_low @ down
            rounding = (2 * len(stage.W) + 32) * UNIT
            J_low, J_high = ends[0] - rounding * sizes[0], ends[1] + rounding * sizes[1]
        J_low = np.where(np.isnan(J_low), -np.inf, J_low)
        J_high = np.where(np.isnan(J_high), np.inf, J_high)
        norms = _norms(J_low, J_high)
        if len(limits) == 1:
            norms = np.minimum(norms, self._norms_of_pieces(limits[0]))
        return J_low, J_high, norms

    def _norms_of_pieces(self, limits: Limits) -> Array:
        """With one hidden layer: the largest norm over all choices of the slopes that are open; infinite if too many."""
        (first, last), count = self.stages, len(limits.z_low)
        is_open = (limits.z_low <= 0) & (limits.z_high >= 0) & (first.slopes < 1)
        rate = np.where(limits.z_low > 0, 1.0, first.slopes)
        found = np.full(count, np.inf)
        size = np.abs(last.W) @ np.abs(first.W)
        slack = (4 * sum(first.W.shape) + 32) * UNIT * float(size.sum(axis=1).max(initial=0.0))
        for box in np.flatnonzero(is_open.sum(axis=1) <= MOST_OPEN):
            units = np.flatnonzero(is_open[box])
            choices = np.array(list(product((False, True), repeat=len(units))), dtype=bool)
            rates = np.tile(rate[box], (len(choices), 1))
            if len(units):
                rates[:, units] = np.where(choices, 1.0, first.slopes[units])
            J = (last.W[None] * rates[:, None, :]) @ first.W
            found[box] = np.abs(J).sum(axis=2).max() + slack
        return found

    def _see(self, rows: Array) -> None:
        """Derivatives at points: those of a piece that contains the point, unless it lies on a bend."""
        hidden, rates, is_clear = rows, [], np.ones(len(rows), dtype=bool)
        for (W, b), slope in zip(self.net.layers, self.net.slopes, strict=False):
            t = hidden @ W.T + b
            size = np.abs(hidden) @ np.abs(W).T + np.abs(b)
            is_clear &= ((np.abs(t) > 1e-9 * size) | (size == 0) | (slope == 1.0)).all(axis=1)
            rates.append(np.where(t > 0, 1.0, slope))
            hidden = np.where(t > 0, t, slope * t)
        if not is_clear.any():
            return
        J = np.broadcast_to(self.net.layers[-1][0], (len(rows), *self.net.layers[-1][0].shape))
        size = np.abs(J)
        for (W, _), rate in zip(self.net.layers[-2::-1], rates[::-1], strict=True):
            J = (J * rate[:, None, :]) @ W
            size = (size * np.abs(rate)[:, None, :]) @ np.abs(W)
        # A derivative whose sign may be rounding counts as zero: monotonicity is refuted by it.
        J = np.where(np.abs(J) > (sum(self.net.widths) + 32) * UNIT * size, J, 0.0)
        J, rows = J[is_clear], rows[is_clear]
        self.seen_low = np.minimum(self.seen_low, J.min(axis=0))
        self.seen_high = np.maximum(self.seen_high, J.max(axis=0))
        norms = np.abs(J).sum(axis=2).max(axis=1)
        if norms.max() > self.seen_norm:
            self.seen_norm, self.seen_at = float(norms.max()), rows[norms.argmax()]


def _norms(J_low: Array, J_high: Array) -> Array:
    """The largest row sum of sizes on each box, rounded up."""
    sums = np.maximum(np.abs(J_low), np.abs(J_high)).sum(axis=2)
    return np.asarray(sums.max(axis=1, initial=0.0) * (1 + (J_low.shape[2] + 8) * UNIT))
