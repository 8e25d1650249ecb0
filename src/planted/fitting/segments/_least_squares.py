r"""Fit a continuous piecewise linear function of one input with a given number of kinks.

Problem     Find the kinks :math:`\tau_1 < \dots < \tau_k` of least squares for
            :math:`y = c + B x + \sum_i a_i (x - \tau_i)_+ + \xi`. The sum of squares has many local minima, and with
            noise the best one is often far from where a search by steps ends.
Idea        For fixed kinks the rest is linear. After [1, x] is removed, the gain of any set of candidate kinks follows
            from the products of their columns, so that all pairs of some forty candidates, all triples of fewer and all
            quadruples of fewer still are compared at the price of small systems. The best sets, and the kinks of the
            fit with one kink fewer and the best addition, are polished by Gauss–Newton steps, which are halved until
            the sum of squares falls; then each kink in turn moves to the best of all places. Beyond four kinks only
            additions are tried.
Guarantee   The best of the sets that were compared, or better. Kind: heuristic.
Cost        O(40 n) and some thousand systems of order k for each k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from scipy import linalg

from planted._typing import Array, IntArray, as_array

__all__ = [
    "CandidateSets",
    "KinkData",
    "SegmentFit",
    "SetGains",
    "orthonormal",
    "polish",
    "segment_fits",
]

CANDIDATES = 20  # quantiles, and as many places at equal distances
CANDIDATES_OF_SETS = {1: 40, 2: 40, 3: 22, 4: 16}
END_SAMPLES = 3
END_VALUES = 2
END_SHARE = 0.03  # part of the samples beyond the outermost kinks, at least
BETWEEN = 2  # distinct values of x between two kinks
STEPS = 30
HALVINGS = 6
POLISHED = 2  # best sets that are polished
PLACES = 400
SWEEPS = 5
SWEEP_TOL = 1e-9
ROUNDING = 1e-11  # of the outputs, relative
FLAT = 1e-6  # part of a column's square that the other columns must leave


@dataclass(frozen=True)
class KinkData:
    """Samples of one input and one output, sorted by the input."""

    x: Array  # (n,)
    y: Array  # (n,)

    @cached_property
    def range(self) -> tuple[float, float]:
        """Where a kink may lie: samples beyond it, of several values, tell its place from its change of slope."""
        n = len(self.x)
        beyond = max(END_SAMPLES, int(np.ceil(END_SHARE * n)))
        if n < 2 * beyond + 2 or len(self.values) < 2 * END_VALUES + 1:
            return float(self.x[-1]), float(self.x[0])
        low = max(self.x[beyond - 1], self.values[END_VALUES - 1])
        return float(low), float(min(self.x[n - beyond], self.values[-END_VALUES]))

    @cached_property
    def rounding(self) -> float:
        """The sum of squares that is rounding of the outputs; never zero."""
        return float(ROUNDING**2 * (self.y @ self.y)) + np.finfo(float).tiny * len(self.y)

    @cached_property
    def values(self) -> Array:
        """The distinct values of the input."""
        return np.unique(self.x)

    def candidates(self, count: int = 2 * CANDIDATES) -> Array:
        """Return about so many places for kinks: quantiles and places at equal distances, between samples."""
        low, high = self.range
        if not low < high:
            return np.zeros(0)
        half = max(count // 2, 1)
        inner = self.x[(self.x >= low) & (self.x <= high)]
        quantiles = np.quantile(inner, (np.arange(half) + 0.5) / half)
        places = np.concatenate([quantiles, low + (high - low) * (np.arange(half) + 0.5) / half])
        return np.unique(places)

    @cached_property
    def places(self) -> Array:
        """Where one kink is looked for while others are kept: samples and the middle between them, not too many."""
        low, high = self.range
        inner = self.values[(self.values >= low) & (self.values <= high)]
        every = np.sort(np.concatenate([inner, (inner[1:] + inner[:-1]) / 2]))
        return as_array(every[np.unique(np.linspace(0, len(every) - 1, min(PLACES, len(every))).astype(int))])

    def hinges(self, kinks: Array) -> Array:
        """Return the columns (x - τ)₊; (n, k)."""
        return as_array(np.maximum(self.x[:, None] - kinks, 0.0))

    def basis(self, kinks: Array, *, with_steps: bool = False) -> Array:
        """Return an orthonormal basis of [1, x, hinges], and of the steps 1(x > τ), along which kinks move."""
        columns = [np.ones((len(self.x), 1)), self.x[:, None], self.hinges(kinks)]
        if with_steps:
            columns.append((self.x[:, None] > kinks).astype(np.float64))
        return orthonormal(np.hstack(columns))

    def fit(self, kinks: Array) -> SegmentFit:
        """Fit the linear part for given kinks."""
        columns = np.hstack([np.ones((len(self.x), 1)), self.x[:, None], self.hinges(kinks)])
        weights = as_array(np.linalg.lstsq(columns, self.y, rcond=None)[0])
        residual = self.y - columns @ weights
        return SegmentFit(kinks, weights, float(residual @ residual))

    def mean(self, fit: SegmentFit) -> Array:
        """Return the values of a fit; (n,)."""
        intercept, slope = fit.weights[:2]
        return as_array(intercept + slope * self.x + self.hinges(fit.kinks) @ fit.weights[2:])

    def is_allowed(self, kinks: Array) -> bool:
        """Whether kinks are in order, apart from each other and from the ends."""
        low, high = self.range
        if not len(kinks):
            return True
        places = np.searchsorted(self.values, kinks)
        return bool(kinks[0] >= low and kinks[-1] <= high and (np.diff(places) >= BETWEEN).all())


@dataclass(frozen=True, slots=True)
class SegmentFit:
    """A fit with given kinks."""

    kinks: Array  # (k,): in order
    weights: Array  # (k + 2,): of one, of x, and of the hinges
    cost: float  # sum of squared residuals

    @property
    def n_parameters(self) -> int:
        """Offset, slope, and two for each kink."""
        return 2 + 2 * len(self.kinks)


def orthonormal(columns: Array) -> Array:
    """Return an orthonormal basis of columns; those that others leave almost nothing of are dropped."""
    lengths = np.linalg.norm(columns, axis=0)
    left, values, _ = linalg.svd(
        columns / np.where(lengths > 0, lengths, 1.0), full_matrices=False, check_finite=False
    )
    return as_array(left[:, values > 1e-8 * values[0]])


def segment_fits(data: KinkData, most: int, known: Sequence[SegmentFit] = ()) -> list[SegmentFit]:
    """Return the best fits found with 0, 1, ..., `most` kinks; fewer where the samples allow no more.

    `known`: the first of them, from an earlier call.
    """
    fits = list(known) or [data.fit(np.zeros(0))]
    for k in range(len(fits), most + 1):
        starts = _best_sets(data, k) + _additions(data, fits[-1])
        found = [_polish(data, kinks) for kinks in starts if data.is_allowed(kinks)]
        if not found:
            break
        fits.append(_swept(data, min(found, key=lambda fit: fit.cost)))
    return fits


def _swept(data: KinkData, fit: SegmentFit) -> SegmentFit:
    """Move each kink to the best of all places, the others kept, and polish, while the sum of squares falls.

    Between samples the sum of squares is smooth in the kinks, and at samples it is not: steps end there too early.
    """
    places = data.places
    for _ in range(SWEEPS):
        before = fit.cost
        for i in range(len(fit.kinks)):
            others = np.delete(fit.kinks, i)
            Q, H = data.basis(others), data.hinges(places)
            rest = H - Q @ (Q.T @ H)
            squares = (rest**2).sum(axis=0)
            is_new = squares > FLAT * (H**2).sum(axis=0)
            gains = np.where(is_new, (rest.T @ data.y) ** 2 / np.where(is_new, squares, 1.0), 0.0)
            moved = np.sort(np.append(others, places[np.argmax(gains)]))
            if data.is_allowed(moved) and data.fit(moved).cost < before:
                fit = min(_polish(data, moved), fit, key=lambda each: each.cost)
        if fit.cost >= before * (1 - SWEEP_TOL):
            break
    return fit


def _best_sets(data: KinkData, k: int) -> list[Array]:
    """Return the sets of k candidates that explain most."""
    sets = CandidateSets.of(data, k)
    if sets is None:
        return []
    order = np.argsort(sets.costs(data.y[:, None])[:, 0], kind="stable")
    best = [sets.places[sets.gains.sets[i]] for i in order[: 10 * POLISHED]]
    return [kinks for kinks in best if data.is_allowed(kinks)][:POLISHED]


@dataclass(frozen=True, slots=True)
class SetGains:
    """What each of some sets of columns explains."""

    sets: IntArray  # (s, k)
    lengths: Array  # (j,): of the columns
    systems: (
        Array  # (s,) for two columns, what they share; (s, k, k) for more, inverse roots of their products
    )

    @classmethod
    def of(cls, products: Array, sets: IntArray) -> SetGains:
        """Prepare sets of columns with given products; (j, j) and (s, k)."""
        lengths = np.sqrt(np.maximum(np.diag(products), np.finfo(float).tiny))
        scaled = products / np.outer(lengths, lengths)
        if sets.shape[1] <= 2:
            return cls(sets, lengths, as_array(scaled[sets[:, 0], sets[:, -1]]))
        systems = scaled[sets[:, :, None], sets[:, None, :]] + FLAT * np.eye(sets.shape[1])
        return cls(sets, lengths, as_array(np.linalg.inv(np.linalg.cholesky(systems))))

    def explained(self, cross: Array) -> Array:
        """Return what each set explains of right-hand sides, from their products with the columns; (j, r) to (s, r)."""
        score, k = cross / self.lengths[:, None], self.sets.shape[1]
        if k == 1:
            return as_array(score[self.sets[:, 0]] ** 2)
        if k == 2:
            one, other = score[self.sets[:, 0]], score[self.sets[:, 1]]
            shared = self.systems[:, None]
            return as_array((one**2 - 2 * shared * one * other + other**2) / np.maximum(1 - shared**2, FLAT))
        return as_array(((self.systems @ score[self.sets]) ** 2).sum(axis=1))


@dataclass(frozen=True, slots=True)
class CandidateSets:
    """All sets of so many candidate kinks of some samples."""

    places: Array  # (j,)
    Q: Array  # (n, 2): basis of [1, x]
    H: Array  # (n, j): hinges without their part in it
    gains: SetGains

    @classmethod
    def of(cls, data: KinkData, k: int) -> CandidateSets | None:
        """Return the sets of k candidates; None where sets are not compared."""
        places = data.candidates(CANDIDATES_OF_SETS[k]) if k in CANDIDATES_OF_SETS else np.zeros(0)
        if len(places) < k or not k:
            return None
        Q, H = data.basis(np.zeros(0)), data.hinges(places)
        H = H - Q @ (Q.T @ H)
        sets = np.array(list(combinations(range(len(places)), k)), dtype=np.intp)
        return cls(places, Q, H, SetGains.of(H.T @ H, sets))

    def costs(self, outputs: Array) -> Array:
        """Return the sums of squares of several outputs with each set; (n, r) to (s, r)."""
        total = (outputs**2).sum(axis=0) - ((self.Q.T @ outputs) ** 2).sum(axis=0)
        return as_array(total - self.gains.explained(self.H.T @ outputs))


def _additions(data: KinkData, fit: SegmentFit) -> list[Array]:
    """Return the kinks of a fit with the best further one, and with the best one in each gap between them."""
    places = data.candidates()
    Q = data.basis(fit.kinks, with_steps=True)
    H = data.hinges(places)
    rest = H - Q @ (Q.T @ H)
    squares = (rest**2).sum(axis=0)
    is_new = squares > FLAT * (H**2).sum(axis=0)
    gains = np.where(is_new, (rest.T @ data.y) ** 2 / np.where(is_new, squares, 1.0), 0.0)
    order = np.argsort(gains)[::-1]
    sets = [np.sort(np.append(fit.kinks, places[i])) for i in order[:10] if gains[i] > 0]
    return [kinks for kinks in sets if data.is_allowed(kinks)][:POLISHED]


def _polish(data: KinkData, kinks: Array) -> SegmentFit:
    """Polish kinks of one input."""

    def moves(fit: SegmentFit) -> Array:
        steps = -(data.x[:, None] > fit.kinks).astype(np.float64) * fit.weights[2:]
        columns = np.hstack([np.ones((len(data.x), 1)), data.x[:, None], data.hinges(fit.kinks), steps])
        return as_array(np.linalg.lstsq(columns, data.y, rcond=None)[0][2 + len(kinks) :])

    def refit(moved: Array) -> SegmentFit | None:
        moved = np.sort(np.clip(moved, *data.range))
        return data.fit(moved) if data.is_allowed(moved) else None

    return polish(data.fit(kinks), moves, refit)


def polish(
    fit: SegmentFit, moves: Callable[[SegmentFit], Array], refit: Callable[[Array], SegmentFit | None]
) -> SegmentFit:
    """Move the kinks by Gauss–Newton steps, halved until the sum of squares falls.

    `moves`: the full step from a fit; `refit`: the fit at other kinks, or None where they are not allowed.
    """
    for _ in range(STEPS):
        trial = _shorter_step(fit, moves(fit), refit)
        if trial is None:
            return fit
        gained, fit = fit.cost - trial.cost, trial
        if gained <= 1e-9 * fit.cost:
            return fit
    return fit


def _shorter_step(
    fit: SegmentFit, step: Array, refit: Callable[[Array], SegmentFit | None]
) -> SegmentFit | None:
    """Return the fit after the longest of halved steps that lowers the sum of squares, or None."""
    for _ in range(HALVINGS):
        trial = refit(fit.kinks + step)
        if trial is not None and trial.cost < fit.cost:
            return trial
        step = step / 2
    return None
