r"""How many kinks, where, and whether they are kinks: decisions on noisy samples of one input.

Problem     Few samples and noise as large as the bends. A rule for the number of kinks that counts parameters finds
            kinks in plain noise, or misses pairs of opposite kinks; intervals by the delta method cover 42 to 94 per
            cent instead of 95, since the place of a kink is not a smooth parameter.
Idea        *Number.* Starting from none, one kink is added while one, two or three further ones (opposite kinks hide each
            other) explain more than noise does. The statistic at k kinks is the likelihood with up to three more over that
            without, averaged over their places and their number: weak kinks whose place is unknown show better in the
            mean than in the largest one. The fits compared are all sets of candidates of either number, and the k kinks
            of the fit, free to move, with one or two more: a pair that takes the place of one kink is seen as well as an
            addition. Its law under the null is that of the same statistic of the fit with residuals of random signs, each
            divided by one minus its leverage (wild bootstrap), which needs neither normal noise nor equal variances. Too
            many kinks are found with the probability `LEVEL` of the one test that is made at their true number, whatever
            was tested before it.

            *Places.* Each kink lies at the median of the likelihood over its places (`_places`). Its interval and those
            of the slopes follow the sum of squares over the places of one kink (`_intervals`). The interval of a place
            is open where it reaches the last place at which a kink could be seen.

            *Kink or curve.* Polynomials and rounded kinks of one free width are fitted to the same samples. With Δ the
            difference of their best BIC to that of the kinks, Δ > 2 is called kinks, Δ < -log n a smooth curve, and
            anything between is undecided.

            *Neighbours.* Correlated noise has false kinks in more than half of all samples under every rule. The
            correlation of neighbouring residuals along x is tested and reported. Kinks that follow the noise take part of
            it with them: the null is that of residuals with random signs after the same fit.
Guarantee   By simulation (benchmarks/kinks.py).
Cost        `SAMPLES` products of n by some forty columns for every number of kinks, and by 200 for every interval.
References  Andrews and Ploberger (1994), Econometrica 62; Davies (1987), Biometrika 74; Muggeo (2003), Statist. Med. 22.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy import optimize

from planted._clock import check_time
from planted._typing import Array, IntArray, as_array
from planted.fitting.segments._bootstrap import SAMPLES, wild_samples
from planted.fitting.segments._intervals import Profile, Quantity, place_grid, profile_place
from planted.fitting.segments._least_squares import (
    FLAT,
    CandidateSets,
    KinkData,
    SegmentFit,
    SetGains,
    segment_fits,
)
from planted.fitting.segments._places import at_median_places

__all__ = ["Kink", "Segments", "find_segments"]

NUMBER_SAMPLES = 499  # of the test for further kinks: each compares thousands of sets
TOGETHER = 50  # samples compared with all sets at once, so that the products stay in the cache
# Of the test for further kinks. At 0.05 the first one found kinks in 37 of 720 straight lines, at 0.03 in 26 (2026-11;
# n = 50 to 1,000; normal, t3 and unequal noise).
# n = 200: of 795 samples with one to three kinks the number was right in 507 with 0.05 for further ones, in 502 with 0.1.
FIRST_LEVEL, LEVEL = 0.03, 0.05
AHEAD = 3  # kinks more that it looks for
MOST_KINKS = 10
SINGULAR = 1e-9  # relative singular value of columns that say nothing new
Z_95 = 1.959963984540054
POLYNOMIALS = range(2, 10)
WIDTHS = (0.02, 0.05, 0.12, 0.3)  # of rounded kinks, in ranges of x: starts
KINKS_SHARP = 2.0
NEIGHBOUR_LEVEL = 0.05
BESIDE = 8  # gaps on either side that tell the spacing


@dataclass(frozen=True, slots=True)
class Kink:
    """One kink in the units of the samples."""

    place: float
    low: float  # ends of the interval of its place; infinite where it is open
    high: float
    change: float  # of the slope
    change_low: float  # ends of its interval
    change_high: float
    change_error: float  # standard error, for noise of any variance
    p_value: float  # of no kink there at all, the others kept
    below: int  # samples below and above
    above: int


@dataclass(frozen=True, slots=True)
class Segments:
    """What noisy samples of one input say about kinks."""

    least: SegmentFit  # of least squares
    fit: SegmentFit  # at the median places of its kinks, which the table names
    kinks: tuple[Kink, ...]
    slopes: tuple[tuple[float, float, float], ...]  # slope of each segment with the ends of its interval
    p_values: tuple[float, ...]  # of the tests for further kinks, at each number
    sharpness: float  # Δ: BIC of the best smooth curve less that of the kinks; infinite without kinks
    threshold: float  # Δ below which it is a smooth curve
    neighbours: float  # correlation of neighbouring residuals along x
    neighbour_p_value: float
    widest_gap: float  # between samples, within the interval of a kink, in spacings beside it

    @property
    def verdict(self) -> str:
        """One of "kink", "undecided", "smooth" and "straight"."""
        if not self.kinks:
            return "straight"
        if self.sharpness > KINKS_SHARP:
            return "kink"
        return "smooth" if self.sharpness < self.threshold else "undecided"

    @property
    def is_correlated(self) -> bool:
        """Whether neighbouring residuals are correlated, so that kinks may be chance."""
        return self.neighbour_p_value < NEIGHBOUR_LEVEL


def find_segments(
    x: Array, y: Array, rng: np.random.Generator, *, n_kinks: int | None = None, details: bool = True
) -> Segments | None:
    """Find the kinks of noisy samples; None where there are too few samples, or not as many kinks as asked for.

    `n_kinks`: their number if it is known. `details`: whether to compute intervals and the comparison with curves.
    Shapes: x (n,), y (n,).
    """
    order = np.argsort(x, kind="stable")
    data = KinkData(x[order], y[order])
    if not data.range[0] < data.range[1]:
        return None
    fits = segment_fits(data, 1 if n_kinks is None else n_kinks)
    p_values: list[float] = []
    if n_kinks is None:
        k = 0
        while k < MOST_KINKS:
            check_time()
            fits = segment_fits(data, k + 1, fits)
            if len(fits) <= k + 1:
                break
            p_values.append(further_kinks(data, fits[k], rng))
            if p_values[-1] >= (LEVEL if k else FIRST_LEVEL):
                break
            k += 1
    else:
        k = n_kinks
        if len(fits) <= k:
            return None
    return _describe(data, fits[: k + 1], rng, p_values, details=details)


def further_kinks(data: KinkData, fit: SegmentFit, rng: np.random.Generator) -> float:
    """Return the p-value of the mean likelihood of one, two or three further kinks."""
    mean = data.mean(fit)
    residual = data.y - mean
    if residual @ residual <= data.rounding:
        return 1.0
    Q = data.basis(fit.kinks, with_steps=True)
    H = data.hinges(data.candidates())
    columns = _NewColumns.of(Q, H, np.zeros(H.shape[1], dtype=np.intp))
    half, k = len(data.x) / 2, len(fit.kinks)
    # Without kinks the columns are all sets of one and two.
    every = {more: CandidateSets.of(data, k + more) for more in (range(AHEAD + 1) if k else (AHEAD,))}
    tables = {more: sets for more, sets in every.items() if sets is not None}

    def evidence(noise: Array) -> Array:
        """Return the log of the likelihood ratio of the fit with such noise, averaged over kinks and their number; (r,)."""
        left, gains = columns.gains(noise)
        costs = {more: [left - each] for more, each in zip((1, 2), gains, strict=True) if len(each)}
        for more, sets in tables.items():
            each = sets.costs(mean[:, None] + noise)
            if more:
                costs.setdefault(more, []).append(each)
            else:
                left = np.minimum(left, each.min(axis=0))
        if not costs:
            return np.full(noise.shape[1], -np.inf)
        logs = [
            np.max([_mean_log(each, half, data.rounding) for each in ways], axis=0) for ways in costs.values()
        ]
        return as_array(half * np.log(np.maximum(left, data.rounding)) + np.logaddexp.reduce(logs))

    own, count = evidence(residual[:, None]), 0
    for noise in wild_samples(residual, Q, rng, NUMBER_SAMPLES):
        for start in range(0, noise.shape[1], TOGETHER):
            count += int((evidence(noise[:, start : start + TOGETHER]) >= own).sum())
    return (1 + count) / (1 + NUMBER_SAMPLES)


def _mean_log(costs: Array, half: float, rounding: float) -> Array:
    """Return the logs of the likelihoods cost^(-n/2), averaged over sets; (s, r) to (r,)."""
    logs = -half * np.log(np.maximum(costs, rounding))
    highest = logs.max(axis=0)
    return as_array(highest + np.log(np.exp(logs - highest).mean(axis=0)))


def column_p_values(
    y: Array,
    Q: Array,
    H: Array,
    groups: IntArray,
    rounding: float,
    rng: np.random.Generator,
    n_samples: int = SAMPLES,
) -> tuple[float, float]:
    """Return the p-values of the largest gains of one of some columns, and of two of one group.

    `Q`: orthonormal basis of what is explained already; `rounding`: the sum of squares that is none; `n_samples`: of the
    bootstrap. Shapes: y (n,), Q (n, q), H (n, j), groups (j,).
    """
    columns = _NewColumns.of(Q, H, groups)
    residual = y - Q @ (Q.T @ y)
    if not columns.rest.shape[1] or residual @ residual <= rounding:
        return 1.0, 1.0
    own = columns.largest_shares(residual[:, None])
    counts = np.zeros(2)
    for sample in wild_samples(residual, Q, rng, n_samples):
        counts += (columns.largest_shares(sample) >= own).sum(axis=1)
    first, second = (1 + counts) / (1 + n_samples)
    return float(first), float(second) if len(columns.sets[1].sets) else 1.0


def mean_p_value(
    y: Array, Q: Array, H: Array, rounding: float, rng: np.random.Generator, n_samples: int
) -> float:
    """Return the p-value of the likelihood with one of some columns, averaged over them.

    Shapes and arguments as in `column_p_values`.
    """
    columns, half = _NewColumns.of(Q, H, np.arange(H.shape[1])), len(y) / 2
    residual = y - Q @ (Q.T @ y)
    if not columns.rest.shape[1] or residual @ residual <= rounding:
        return 1.0

    def evidence(noise: Array) -> Array:
        left, (gains, _) = columns.gains(noise)
        return as_array(half * np.log(np.maximum(left, rounding)) + _mean_log(left - gains, half, rounding))

    own = evidence(residual[:, None])
    count = sum(int((evidence(noise) >= own).sum()) for noise in wild_samples(residual, Q, rng, n_samples))
    return (1 + count) / (1 + n_samples)


@dataclass(frozen=True, slots=True)
class _NewColumns:
    """Columns that explain what others do not, alone and in pairs of one group."""

    Q: Array  # (n, q): orthonormal basis of the others
    rest: Array  # (n, j): the columns without their part in it
    sets: tuple[SetGains, SetGains]  # of one column, and of two of a group

    @classmethod
    def of(cls, Q: Array, H: Array, groups: IntArray) -> _NewColumns:
        """Remove Q from some columns; those of which almost nothing is left are dropped."""
        rest = H - Q @ (Q.T @ H)
        is_new = (rest**2).sum(axis=0) > FLAT * (H**2).sum(axis=0)
        rest, groups = rest[:, is_new], groups[is_new]
        one, other = np.triu_indices(len(groups), 1)
        pairs = np.column_stack([one, other])[groups[one] == groups[other]]
        products = rest.T @ rest
        return cls(
            Q, rest, (SetGains.of(products, np.arange(len(groups))[:, None]), SetGains.of(products, pairs))
        )

    def gains(self, samples: Array) -> tuple[Array, list[Array]]:
        """Return the sums of squares without Q, and what each column and each two explain; (r,) and (s, r) each."""
        squares = (samples**2).sum(axis=0) - ((self.Q.T @ samples) ** 2).sum(axis=0)
        cross = self.rest.T @ samples
        return as_array(squares), [each.explained(cross) for each in self.sets]

    def largest_shares(self, samples: Array) -> Array:
        """Return the largest part of each sample that one column and that two columns explain; (2, r)."""
        squares, gains = self.gains(samples)
        largest = [each.max(axis=0, initial=0.0) for each in gains]
        return as_array(np.array(largest) / np.maximum(squares, np.finfo(float).tiny))


def _describe(
    data: KinkData,
    fits: list[SegmentFit],
    rng: np.random.Generator,
    p_values: list[float],
    *,
    details: bool,
) -> Segments:
    """Add places, slopes, sharpness and neighbours to the last of the fits."""
    least = fits[-1]
    fit = at_median_places(data, least)
    full = data.basis(least.kinks, with_steps=True)
    residual = data.y - full @ (full.T @ data.y)
    covariance = _coefficient_covariance(data, least, residual, full)
    profiles = []
    for i in range(len(fit.kinks) if details else 0):
        check_time()
        profiles.append(_profile(data, least, i, rng))
    kinks = [_kink(data, fit, i, covariance, profiles) for i in range(len(fit.kinks))]
    slopes = [_slope(fit, i, covariance, profiles) for i in range(len(fit.kinks) + 1)]
    sharpness = _sharpness(data, fits) if details and len(fit.kinks) else np.inf
    correlation, p_value = _neighbours(residual, full, rng)
    threshold = -float(np.log(len(data.x)))
    return Segments(
        least,
        fit,
        tuple(kinks),
        tuple(slopes),
        tuple(p_values),
        sharpness,
        threshold,
        correlation,
        p_value,
        _widest_gap(data, kinks),
    )


def _kink(data: KinkData, fit: SegmentFit, i: int, covariance: Array, profiles: list[Profile]) -> Kink:
    """Describe one kink; without profiles the interval of its place is open, and that of its change rests on its error."""
    place, change = float(fit.kinks[i]), float(fit.weights[2 + i])
    error = float(np.sqrt(max(covariance[2 + i, 2 + i], 0.0)))
    low, high, p_value = -np.inf, np.inf, np.nan
    around = (change - Z_95 * error, change + Z_95 * error)
    if profiles:
        low, high, p_value, around = (
            profiles[i].low,
            profiles[i].high,
            profiles[i].p_value,
            profiles[i].change,
        )
    below = int((data.x <= place).sum())
    return Kink(
        place,
        min(low, place),
        max(high, place),
        change,
        min(around[0], change),
        max(around[1], change),
        error,
        p_value,
        below,
        len(data.x) - below,
    )


def _slope(fit: SegmentFit, i: int, covariance: Array, profiles: list[Profile]) -> tuple[float, float, float]:
    """Return the slope of one segment with the ends of its interval: of the profiles of both kinks beside it."""
    direction = np.zeros(len(fit.weights))
    direction[1 : 2 + i] = 1.0
    value = float(direction @ fit.weights)
    half = Z_95 * float(np.sqrt(max(float(direction @ covariance @ direction), 0.0)))
    around = [profiles[j].quantities[i - j] for j in (i - 1, i) if 0 <= j < len(profiles)]
    lows, highs = zip(*(around or [(value - half, value + half)]), strict=True)
    return value, min(value, *lows), max(value, *highs)


def _widest_gap(data: KinkData, kinks: list[Kink]) -> float:
    """Return the widest gap between distinct values of x that reaches into the interval of a kink, in spacings beside it."""
    x = data.values
    gaps = np.diff(x)
    widest = 0.0
    for i in np.flatnonzero(
        [any(kink.low <= right and left <= kink.high for kink in kinks) for left, right in pairwise(x)]
    ):
        beside = [
            np.mean(side)
            for side in (gaps[max(i - BESIDE, 0) : i], gaps[i + 1 : i + 1 + BESIDE])
            if side.size
        ]
        widest = max(widest, float(gaps[i] / max(beside, default=np.inf)))
    return widest


def _coefficient_covariance(data: KinkData, fit: SegmentFit, residual: Array, Q: Array) -> Array:
    """Return the covariance of (c, B, a) with the kinks free to move, for noise of any variance (HC3)."""
    steps = -(data.x[:, None] > fit.kinks).astype(np.float64) * fit.weights[2:]
    J = np.hstack([np.ones((len(data.x), 1)), data.x[:, None], data.hinges(fit.kinks), steps])
    inverse = np.linalg.pinv(J)
    leverage = np.minimum((Q**2).sum(axis=1), 1 - 0.1)
    influence = inverse * (residual / (1 - leverage))
    return as_array((influence @ influence.T)[: len(fit.weights), : len(fit.weights)])


def _profile(data: KinkData, fit: SegmentFit, i: int, rng: np.random.Generator) -> Profile:
    """Return the intervals of one place, of the change there and of the slopes on either side."""
    low, high = _reach(data, fit, i)
    grid = place_grid(low, high, fit.kinks[i], _place_error(data, fit, i))
    others = np.delete(fit.kinks, i)
    steps = (data.x[:, None] > others).astype(np.float64)
    columns = np.hstack([np.ones((len(data.x), 1)), data.x[:, None], data.hinges(others), steps])
    # The slope left of the kink is that of x and of all kinks before; the one on the right has its change, too.
    before = np.linalg.pinv(columns, rcond=SINGULAR)[1 : 2 + i].sum(axis=0)
    found = profile_place(
        data.y,
        data.basis(others, with_steps=True),
        data.hinges(grid),
        grid,
        fit.kinks[i],
        data.basis(fit.kinks, with_steps=True),
        data.rounding,
        rng,
        (Quantity(before, 0.0), Quantity(before, 1.0)),
    )
    # Between kinks the interval ends at the neighbours; beyond the outermost it is open.
    return replace(
        found,
        low=max(found.low, grid[0]) if i > 0 else found.low,
        high=min(found.high, grid[-1]) if i < len(fit.kinks) - 1 else found.high,
    )


def _reach(data: KinkData, fit: SegmentFit, i: int) -> tuple[float, float]:
    """Return between which places one kink may be moved: its neighbours, or the last place where it could be seen."""
    low, high = data.range
    if i > 0:
        low = float(fit.kinks[i - 1])
    if i < len(fit.kinks) - 1:
        high = float(fit.kinks[i + 1])
    return low, high


def _place_error(data: KinkData, fit: SegmentFit, i: int) -> float:
    """Return the standard error of a place by the delta method: too small for an interval, right for a grid."""
    steps = -(data.x[:, None] > fit.kinks).astype(np.float64) * fit.weights[2:]
    J = np.hstack([np.ones((len(data.x), 1)), data.x[:, None], data.hinges(fit.kinks), steps])
    inverse = np.linalg.pinv(J)
    variance = fit.cost / max(len(data.x) - fit.n_parameters, 1)
    return float(np.sqrt(variance * (inverse[len(fit.weights) + i] ** 2).sum()))


def _sharpness(data: KinkData, fits: list[SegmentFit]) -> float:
    """Return Δ: the best BIC of polynomials and of rounded kinks, as many or fewer, less that of the kinks."""
    n, fit = len(data.x), fits[-1]
    low, high = data.x[0], data.x[-1]
    scaled = KinkData((data.x - low) / (high - low) * 2 - 1, data.y)
    rounded = {min(k, len(fit.kinks)) for k in (1, 2, 3, len(fit.kinks))}

    def bic(cost: float, parameters: int) -> float:
        return float(n * np.log(max(cost, np.finfo(float).tiny) / n) + parameters * np.log(n))

    curves = [np.inf]
    for degree in POLYNOMIALS:
        if degree + 2 < n // 2:
            columns = as_array(np.polynomial.chebyshev.chebvander(scaled.x, degree))
            curves.append(bic(_left_over(columns, data.y), degree + 1))
    for k in sorted(rounded):
        start = (fits[k].kinks - low) / (high - low) * 2 - 1
        cost = min(_rounded_cost(scaled, start, 2 * width) for width in WIDTHS)
        curves.append(bic(cost, 3 + 2 * k))
    return float(min(curves) - bic(fit.cost, fit.n_parameters))


def _rounded_cost(data: KinkData, kinks: Array, width: float) -> float:
    """Return the sum of squares of rounded kinks of one free width, softplus in place of hinges, from given kinks."""

    def residual(parameters: Array) -> Array:
        s = np.exp(np.clip(parameters[-1], -6.0, 2.0))
        soft = s * np.logaddexp(0.0, (data.x[:, None] - parameters[:-1]) / s)
        Q = np.linalg.qr(np.hstack([np.ones((len(data.x), 1)), data.x[:, None], soft]))[0]
        return as_array(data.y - Q @ (Q.T @ data.y))

    start = np.append(kinks, np.log(width))
    found = optimize.least_squares(residual, start, method="lm", max_nfev=12 * len(start))
    return float(2 * found.cost)


def _left_over(columns: Array, y: Array) -> float:
    Q = np.linalg.qr(columns)[0]
    rest = y - Q @ (Q.T @ y)
    return float(rest @ rest)


def _neighbours(residual: Array, Q: Array, rng: np.random.Generator) -> tuple[float, float]:
    """Return the correlation of neighbouring residuals along x, and its p-value against none or a negative one.

    A fit makes residuals of independent noise negatively correlated, kinks most of all: they are compared with those of
    random signs after the same fit. Equal values of x are no neighbours of each other in any order; they are taken as
    they come. Shapes: residual (n,), Q (n, q): basis of the fit and the moves of its kinks.
    """

    def correlation(noise: Array) -> Array:
        squares = np.maximum((noise**2).sum(axis=0), np.finfo(float).tiny)
        return as_array((noise[1:] * noise[:-1]).sum(axis=0) / squares)

    own = float(correlation(residual))
    count = sum(
        int((correlation(noise - Q @ (Q.T @ noise)) >= own).sum()) for noise in wild_samples(residual, Q, rng)
    )
    return own, (1 + count) / (1 + SAMPLES)
