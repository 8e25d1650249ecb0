r"""Intervals of the place of a kink, of its change of slope and of the slopes beside it.

Problem     The place of a kink is no smooth parameter: intervals by the delta method cover 42 to 94 per cent instead of
            95. Those of a change of slope or of a short segment's slope cover 65 to 89 per cent where the kink lies near an
            edge (n = 100), since the samples that tell it change as the kink moves.
Idea        The sum of squares is followed over the places of one kink, the others moving along. For the place, its rise
            above the least one is compared with what the same profile of bootstrap samples reaches at the place of least
            squares. A slope is followed in the same way: at every place the sum of squares with the slope given is that
            without, and the square of what is missing over its variance there. The interval holds all values for which some
            place leaves a rise below the quantile of bootstrap samples, or of the F law if that is larger: few samples
            with random signs make tails too light.
Guarantee   By simulation (benchmarks/kinks.py).
Cost        `SAMPLES` products of n by `GRID`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from planted._typing import Array, as_array
from planted.fitting.segments._bootstrap import SAMPLES, wild_samples
from planted.fitting.segments._least_squares import FLAT

__all__ = ["Profile", "Quantity", "place_grid", "profile_place"]

GRID = 200  # places of a profile, half of them near the kink
NEAR = 6.0  # standard errors
LEVEL = 0.95
# Of the bootstrap's law: intervals that take 0.95 of it covered 92.7 % of 660 places (2026-11; the fitted place is the true
# one of bootstrap samples, and its noise is the fitted one).
CUT_OFF = 0.965


@dataclass(frozen=True, slots=True)
class Quantity:
    """A sum of coefficients of the fit: of those that do not move, and of the column of the kink."""

    others: Array  # (n,): its product with the outputs is the quantity if the kink has no change of slope
    own: float  # part of the kink's change of slope in it


@dataclass(frozen=True, slots=True)
class Profile:
    """What the profile over the places of one kink says."""

    low: float  # ends of the interval of the place; infinite where it reaches the end of the grid
    high: float
    p_value: float  # of no kink at all
    change: tuple[float, float]  # interval of the change of slope
    quantities: tuple[tuple[float, float], ...]  # intervals of what was asked for


def place_grid(low: float, high: float, place: float, error: float) -> Array:
    """Return places between two ends, half of them near one place of a given standard error."""
    near = np.linspace(max(low, place - NEAR * error), min(high, place + NEAR * error), GRID // 2)
    return np.unique(np.concatenate([np.linspace(low, high, GRID // 2), near, [place]]))


def profile_place(
    y: Array,
    Q: Array,
    H: Array,
    grid: Array,
    place: float,
    moving: Array,
    rounding: float,
    rng: np.random.Generator,
    quantities: Sequence[Quantity] = (),
) -> Profile:
    """Return the intervals of a place on a grid, of the change there and of other quantities, and the p-value of no kink.

    `Q`: orthonormal basis of everything but this kink; `H`: its column at every place of the grid; `moving`: basis of the
    whole fit with the moves of its kinks. Shapes: y (n,), Q (n, q), H (n, j), grid (j,), moving (n, r).
    """
    rest = H - Q @ (Q.T @ H)
    squares = (rest**2).sum(axis=0)
    usable = squares > FLAT * np.maximum((H**2).sum(axis=0), np.finfo(float).tiny)
    if not usable.any():
        everything = (-np.inf, np.inf)
        return Profile(*everything, 1.0, everything, (everything,) * len(quantities))
    columns = _Columns(Q, H[:, usable], rest[:, usable], squares[usable], rounding)
    grid, asked = grid[usable], [Quantity(np.zeros(len(y)), 1.0), *quantities]
    own = int(np.argmin(np.abs(grid - place)))
    # Bootstrap samples of the fit itself: the null of the intervals.
    full = np.hstack([Q, columns.rest[:, [own]] / np.sqrt(columns.squares[own])])
    mean = full @ (full.T @ y)
    fitted = columns.fit(mean[:, None])
    excess: list[list[Array]] = [[] for _ in range(1 + len(asked))]
    for noise in wild_samples(y - mean, moving, rng):
        sample = columns.fit(mean[:, None] + noise)
        excess[0].append(sample.rises[own])
        for found, quantity in zip(excess[1:], asked, strict=True):
            truth = columns.values(quantity, fitted)[own, 0]
            found.append(columns.rises_at(quantity, sample, truth).min(axis=0))
    limits = [float(np.quantile(np.concatenate(each), CUT_OFF)) for each in excess]
    data = columns.fit(y[:, None])
    inside = np.flatnonzero(data.rises[:, 0] <= limits[0])
    least = float(stats.f.ppf(LEVEL, 1, columns.freedom))
    change, *others = (
        columns.interval(quantity, data, max(limit, least))
        for quantity, limit in zip(asked, limits[1:], strict=True)
    )
    # The ends lie between places of the grid: half way to the first one outside.
    first, last = int(inside[0]), int(inside[-1])
    low = -np.inf if first == 0 else float(grid[first] + grid[first - 1]) / 2
    high = np.inf if last == len(grid) - 1 else float(grid[last] + grid[last + 1]) / 2
    return Profile(low, high, columns.p_value(y, rng), change, tuple(others))


@dataclass(frozen=True, slots=True)
class _Fits:
    """Some outputs with the kink at every place."""

    outputs: Array  # (n, r)
    changes: Array  # (j, r): of the slope
    rises: Array  # (j, r): of the sum of squares above the least one, in noise variances
    variances: Array  # (r,): of the noise


@dataclass(frozen=True, slots=True)
class _Columns:
    """One kink at every place of a grid, beside everything else."""

    Q: Array  # (n, q): orthonormal basis of everything else
    H: Array  # (n, j)
    rest: Array  # (n, j): without its part in Q
    squares: Array  # (j,): of the rest
    rounding: float

    @property
    def freedom(self) -> int:
        n, q = self.Q.shape
        return max(int(n) - int(q) - 2, 1)

    def gains(self, outputs: Array) -> tuple[Array, Array]:
        """Return the sums of squares without the kink, and what it explains at every place; (r,) and (j, r)."""
        left = (outputs**2).sum(axis=0) - ((self.Q.T @ outputs) ** 2).sum(axis=0)
        return as_array(left), (self.rest.T @ outputs) ** 2 / self.squares[:, None]

    def fit(self, outputs: Array) -> _Fits:
        """Fit outputs with the kink at every place; (n, r)."""
        left, gains = self.gains(outputs)
        highest = gains.max(axis=0)
        variances = np.maximum(left - highest, self.rounding) / self.freedom
        changes = self.rest.T @ outputs / self.squares[:, None]
        return _Fits(outputs, changes, (highest - gains) / variances, variances)

    def values(self, quantity: Quantity, fits: _Fits) -> Array:
        """Return a quantity in every fit; (j, r)."""
        return as_array(quantity.others @ fits.outputs + self._weights(quantity)[:, None] * fits.changes)

    def _weights(self, quantity: Quantity) -> Array:
        """Return how a quantity follows the change of slope at every place, the other coefficients fitted to it; (j,)."""
        return as_array(quantity.own - quantity.others @ self.H)

    def _spread(self, quantity: Quantity) -> Array:
        """Return the variance of a quantity at every place, in noise variances; (j,)."""
        return as_array(quantity.others @ quantity.others + self._weights(quantity) ** 2 / self.squares)

    def rises_at(self, quantity: Quantity, fits: _Fits, value: float) -> Array:
        """Return the rises of the sum of squares with a quantity given, in noise variances; (j, r)."""
        missing = self.values(quantity, fits) - value
        return as_array(fits.rises + missing**2 / self._spread(quantity)[:, None] / fits.variances)

    def interval(self, quantity: Quantity, data: _Fits, limit: float) -> tuple[float, float]:
        """Return between which values of a quantity some place leaves a rise below a limit, for one output."""
        spare = limit - data.rises[:, 0]
        inside = spare >= 0
        values = self.values(quantity, data)[inside, 0]
        reach = np.sqrt(spare[inside] * self._spread(quantity)[inside] * data.variances[0])
        return float((values - reach).min()), float((values + reach).max())

    def p_value(self, y: Array, rng: np.random.Generator) -> float:
        """Return the p-value of no kink: residuals without this one, random signs."""

        def share(outputs: Array) -> Array:
            left, gains = self.gains(outputs)
            return as_array(gains.max(axis=0) / np.maximum(left, self.rounding))

        own = share(y[:, None])
        null = y - self.Q @ (self.Q.T @ y)
        count = sum(int((share(noise) >= own).sum()) for noise in wild_samples(null, self.Q, rng))
        return (1 + count) / (1 + SAMPLES)
