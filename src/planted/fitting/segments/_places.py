r"""Where the kinks of noisy samples lie: the medians of the likelihood over their places.

Problem     With noise as large as the bends the sum of squares has many minima of nearly the same height, and the lowest
            of them is often far from the truth: the places of least squares are a poor estimate.
Idea        Take the likelihood of all places, slopes and noise fitted to each, as a density of the places, and each kink
            at the median of its own. It is the estimate of least absolute error if every place is as likely as any other
            beforehand. As samples become many it agrees with least squares; in noise it is much closer to the truth.

            The density is summed over sets of places: first over all sets of candidates, then over a grid of its own for
            each kink around the part that holds all but `TAIL` of the probability, until the grids are fine enough.
            Medians of a density with several peaks may lie between them, where no fit is good: they are taken only if the
            sum of squares there is not larger than the least one by more than noise makes it (`LIKELY`).
Guarantee   By simulation (benchmarks/kinks.py). Beyond four kinks, and where the noise is below 1 per cent of what the kinks
            explain, least squares.
Cost        Some thousand systems of order k for each grid.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy import stats

from planted._typing import Array, IntArray, as_array
from planted.fitting.segments._least_squares import (
    BETWEEN,
    CandidateSets,
    KinkData,
    SegmentFit,
    SetGains,
)

__all__ = ["at_median_places"]

POINTS = {1: 41, 2: 21, 3: 13, 4: 9}  # places of each kink's grid, by the number of kinks
TAIL = 1e-3  # probability left out on either side
GRIDS = 6  # at most
FINE = 6  # places of a grid that hold the probability
CLEAR = 1e-4  # part of the sum of squares beside a line that noise leaves: places are certain
# Of the law of the rise of the sum of squares at the true places. At 0.9 the medians found 331 of 510 kinks, at 0.95 332,
# at 0.7 320, least squares 305 (2026-11; n = 200, noise 0.05 and 0.1).
LIKELY = 0.9


def at_median_places(data: KinkData, fit: SegmentFit) -> SegmentFit:
    """Return the fit at the median places of its kinks; the fit itself where they are certain or explain too little."""
    k, n = len(fit.kinks), len(data.x)
    freedom = n - fit.n_parameters
    if k not in POINTS or freedom <= 0 or fit.cost <= CLEAR * data.fit(np.zeros(0)).cost:
        return fit
    kinks = _medians(data, fit)
    if kinks is None or not data.is_allowed(kinks):
        return fit
    found = data.fit(kinks)
    rise = (found.cost - fit.cost) * freedom / fit.cost
    return found if rise <= stats.chi2.ppf(LIKELY, k) else fit


def _medians(data: KinkData, fit: SegmentFit) -> Array | None:
    """Return the median place of each kink; None where there are too few places."""
    k = len(fit.kinks)
    coarse = CandidateSets.of(data, k)
    if coarse is None or len(coarse.places) < 2:
        return None
    grids = np.tile(coarse.places, (k, 1))
    sets, costs = coarse.gains.sets, coarse.costs(data.y[:, None])[:, 0]
    shares = _marginals(data, grids, sets, costs)
    finer = np.array(list(product(range(POINTS[k]), repeat=k)), dtype=np.intp)
    for _ in range(GRIDS):
        if shares is None:
            return None
        first, last = _ends(shares)
        if sets is not coarse.gains.sets and (last - first >= FINE).all():
            break
        grids = _closer(grids, first, last, fit.kinks)
        sets = finer[_are_apart(data, _places(grids, finer))]
        shares = _marginals(data, grids, sets, _costs(data, coarse.Q, grids, sets))
    return None if shares is None else np.array([_median(*each) for each in zip(grids, shares, strict=True)])


def _marginals(data: KinkData, grids: Array, sets: IntArray, costs: Array) -> Array | None:
    """Return the probability of each place of each kink's grid, from sets of them; (k, j), (s, k) and (s,) to (k, j)."""
    k, j = grids.shape
    widths = np.gradient(grids, axis=1)
    logs = -(len(data.x) - 2 - k) / 2 * np.log(np.maximum(costs, data.rounding))
    logs += np.log(_places(widths, sets)).sum(axis=1)
    logs = np.where(_are_apart(data, _places(grids, sets)), logs, -np.inf)
    if not np.isfinite(logs.max(initial=-np.inf)):
        return None
    weights = np.exp(logs - logs.max())
    shares = [np.bincount(column, weights, minlength=j) for column in sets.T]
    return as_array(np.array(shares) / weights.sum())


def _places(grids: Array, sets: IntArray) -> Array:
    """Return what each kink's grid holds at the places of each set; (k, j) and (s, k) to (s, k)."""
    return as_array(np.take_along_axis(grids.T, sets, axis=0))


def _are_apart(data: KinkData, kinks: Array) -> Array:
    """Return which sets of kinks are in order, with samples between them; (s, k) to (s,)."""
    return np.asarray((np.diff(np.searchsorted(data.values, kinks), axis=1) >= BETWEEN).all(axis=1))


def _ends(shares: Array) -> tuple[IntArray, IntArray]:
    """Return the first and last place of each grid between which all but the tails lie."""
    sums = np.cumsum(shares, axis=1)
    return (sums < TAIL).sum(axis=1), np.minimum((sums < 1 - TAIL).sum(axis=1), shares.shape[1] - 1)


def _closer(grids: Array, first: IntArray, last: IntArray, kinks: Array) -> Array:
    """Return grids of the part that holds the probability, one place more on either side, and the fitted kinks."""
    k, j = grids.shape
    low = np.minimum(grids[np.arange(k), np.maximum(first - 1, 0)], kinks)
    high = np.maximum(grids[np.arange(k), np.minimum(last + 1, j - 1)], kinks)
    return as_array(np.linspace(low, high, POINTS[k], axis=1))


def _costs(data: KinkData, Q: Array, grids: Array, sets: IntArray) -> Array:
    """Return the sum of squares of each set of places; (n, 2), (k, j) and (s, k) to (s,)."""
    k, j = grids.shape
    H = data.hinges(grids.ravel())
    H = H - Q @ (Q.T @ H)
    left = data.y @ data.y - ((Q.T @ data.y) ** 2).sum()
    gains = SetGains.of(H.T @ H, sets + j * np.arange(k)).explained((H.T @ data.y)[:, None])
    return as_array(left - gains[:, 0])


def _median(grid: Array, shares: Array) -> float:
    """Return the median of probabilities of places, each spread over its part of the grid."""
    edges = np.concatenate([grid[:1], (grid[1:] + grid[:-1]) / 2, grid[-1:]])
    return float(np.interp(0.5, np.concatenate([[0.0], np.cumsum(shares)]), edges))
