r"""Kinks that concern one column each: their number and places in noisy samples of several inputs.

Problem     y = c + B x + Σ a_i (x_{j(i)} - τ_i)₊ + ξ with few kinks, each along one input: a dose above which something
            happens, an age from which it falls. A search over hyperplanes spends d weights on each kink, and with few
            samples and large noise finds kinks that are not there.
Idea        As for one input (`_kinks`), with [1, x] of all inputs in the place of [1, x]. Candidates are some twenty places
            of every input. Kinks are added one by one, also in place of the last one where two in one input explain more,
            each is moved to the best other place while that lowers the sum of squares, and all are polished by
            Gauss–Newton steps. A kink is added while the largest gain of one further, or of two in one input, is larger
            than noise with random signs explains; the test is joint over all inputs.

            At the end kinks along random directions are tested in the same way: where one of them explains more than noise,
            the kinks are not those of single columns, and a search over hyperplanes has to find them. Whether there is
            a kink at all in the place of one hyperplane of a fit is tested with the likelihood averaged over the same
            columns, the other hyperplanes kept: they are drawn before the data are seen, and that the fit chose the best
            of all hyperplanes does no harm.
Guarantee   By simulation (benchmarks/kinks.py).
Cost        Some thousand products of n by 20 d columns for each number of kinks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg

from planted._clock import check_time
from planted._typing import Array, IntArray, as_array
from planted.fitting.segments._intervals import place_grid, profile_place
from planted.fitting.segments._kinks import Kink, column_p_values, mean_p_value
from planted.fitting.segments._least_squares import FLAT, KinkData, SegmentFit, SetGains, orthonormal, polish

__all__ = ["AxisKinks", "find_axis_kinks", "hyperplane_p_values"]

CANDIDATES = 20  # places of each input
LEVEL = 0.025  # of each of the two tests for a further kink
MOST_KINKS = 5  # more are hardly ever those of single columns
TRIED = 2  # best additions that are polished
DIRECTIONS, THRESHOLDS = 100, (0.1, 0.3, 0.5, 0.7, 0.9)  # of the test across columns
FEWEST_PER_UNKNOWN = 3  # samples
HYPERPLANE_SAMPLES = 199  # of the bootstrap for each hyperplane


@dataclass(frozen=True, slots=True)
class AxisKinks:
    """What noisy samples of several inputs say about kinks along single ones."""

    inputs: IntArray  # (k,): the input of each kink
    kinks: tuple[Kink, ...]  # with place, interval, change of slope and p-value
    weights: Array  # (1 + d + k,): offset, slopes, changes of slope
    covariance: Array  # (1 + d + 2k,) squared: of the weights and of the places, for noise of any variance
    cost: float  # sum of squared residuals
    p_values: tuple[tuple[float, float], ...]  # of the tests for one and two further kinks, at each number
    oblique_p_value: float  # of the test for a further kink across columns

    def in_order(self, order: IntArray) -> AxisKinks:
        """Return the same kinks in another order."""
        k = len(order)
        flat = len(self.weights) - k
        places = np.concatenate([np.arange(flat), flat + order, flat + k + order])
        return replace(
            self,
            inputs=self.inputs[order],
            kinks=tuple(self.kinks[i] for i in order),
            weights=self.weights[places[: flat + k]],
            covariance=self.covariance[np.ix_(places, places)],
        )


@dataclass(frozen=True, slots=True)
class _Fit(SegmentFit):
    """A fit with kinks along given inputs; `kinks` and `inputs` are in the same order."""

    inputs: IntArray


@dataclass(frozen=True)
class _Samples:
    X: Array  # (n, d)
    y: Array  # (n,)

    @cached_property
    def columns(self) -> tuple[KinkData, ...]:
        """Each input by itself, sorted: where its kinks may lie."""
        return tuple(KinkData(np.sort(column), self.y) for column in self.X.T)

    @cached_property
    def candidates(self) -> tuple[IntArray, Array]:
        """Inputs and places of possible kinks; inputs of few values have none."""
        places = [column.candidates(CANDIDATES) for column in self.columns]
        inputs = np.repeat(np.arange(len(places)), [len(each) for each in places])
        return inputs, np.concatenate([*places, np.zeros(0)])

    @cached_property
    def plane(self) -> Array:
        """The columns [1, x]."""
        return np.column_stack([np.ones(len(self.y)), self.X])

    @property
    def rounding(self) -> float:
        return self.columns[0].rounding

    def hinges(self, inputs: IntArray, places: Array) -> Array:
        return as_array(np.maximum(self.X[:, inputs] - places, 0.0))

    def steps(self, inputs: IntArray, places: Array) -> Array:
        """How the hinges change as their kinks move, without the change of slope."""
        return -(self.X[:, inputs] > places).astype(np.float64)

    def basis(self, inputs: IntArray, places: Array) -> Array:
        """An orthonormal basis of the plane, the hinges and the moves of their kinks."""
        return orthonormal(np.hstack([self.plane, self.hinges(inputs, places), self.steps(inputs, places)]))

    def fit(self, inputs: IntArray, places: Array) -> _Fit | None:
        """Fit the linear part for given kinks; None where they are too close to each other or to an end."""
        for j in np.unique(inputs):
            if not self.columns[j].is_allowed(np.sort(places[inputs == j])):
                return None
        columns = np.hstack([self.plane, self.hinges(inputs, places)])
        weights = linalg.lstsq(columns, self.y, check_finite=False)[0]
        residual = self.y - columns @ weights
        return _Fit(places, weights, float(residual @ residual), inputs)

    def polished(self, inputs: IntArray, places: Array) -> _Fit | None:
        """Move given kinks to a minimum of the sum of squares."""
        first = self.fit(inputs, places)
        if first is None:
            return None
        flat = 1 + self.X.shape[1]
        low, high = np.array([self.columns[j].range for j in inputs]).T

        def moves(fit: SegmentFit) -> Array:
            steps = self.steps(inputs, fit.kinks) * fit.weights[flat:]
            design = np.hstack([self.plane, self.hinges(inputs, fit.kinks), steps])
            return as_array(linalg.lstsq(design, self.y, check_finite=False)[0][flat + len(inputs) :])

        found = polish(first, moves, lambda moved: self.fit(inputs, np.clip(moved, low, high)))
        return replace(first, kinks=found.kinks, weights=found.weights, cost=found.cost)


def find_axis_kinks(
    X: Array, y: Array, rng: np.random.Generator, *, n_kinks: int | None = None
) -> AxisKinks | None:
    """Find kinks along single inputs, perhaps none; None where not as many as asked for, or too few samples.

    Shapes: X (n, d), y (n,).
    """
    samples = _Samples(X, y)
    if not len(samples.candidates[0]) or len(y) < FEWEST_PER_UNKNOWN * (1 + X.shape[1]):
        return None
    nowhere = samples.fit(np.zeros(0, dtype=np.intp), np.zeros(0))
    assert nowhere is not None
    fits, p_values = [nowhere], []
    while len(fits) <= (MOST_KINKS if n_kinks is None else n_kinks):
        check_time()
        if n_kinks is None:
            p_values.append(_further(samples, fits[-1], rng))
            if min(p_values[-1]) >= LEVEL:
                break
        wider = _with_one_more(samples, fits)
        if wider is None:
            break
        fits.append(wider)
    if n_kinks is not None and len(fits) <= n_kinks:
        return None
    return _describe(samples, fits[-1], tuple(p_values), rng)


def _further(samples: _Samples, fit: _Fit, rng: np.random.Generator) -> tuple[float, float]:
    """Return the p-values of one further kink in any input, and of two in one."""
    inputs, places = samples.candidates
    Q = samples.basis(fit.inputs, fit.kinks)
    return column_p_values(samples.y, Q, samples.hinges(inputs, places), inputs, samples.rounding, rng)


def _oblique(samples: _Samples, fit: _Fit, rng: np.random.Generator) -> float:
    """Return the p-value of a further kink along one of many random directions."""
    H = _random_hinges(samples.X, rng)
    alone = np.arange(H.shape[1])
    return column_p_values(samples.y, samples.basis(fit.inputs, fit.kinks), H, alone, samples.rounding, rng)[
        0
    ]


def _random_hinges(X: Array, rng: np.random.Generator) -> Array:
    """Return hinges along random directions, some thresholds for each."""
    t = X @ rng.standard_normal((X.shape[1], DIRECTIONS))
    return np.hstack([np.maximum(t - np.quantile(t, share, axis=0), 0.0) for share in THRESHOLDS])


def hyperplane_p_values(X: Array, y: Array, V: Array, rng: np.random.Generator) -> list[float]:
    """Return, for each hyperplane of a fit, the p-value of the test that there is no kink at all in its place.

    The other hyperplanes are kept and may move. Shapes: X (n, d), y (n,), V (k, d + 1): rows (w, b).
    """
    samples = _Samples(X, y)
    rows = np.column_stack([X, np.ones(len(X))])
    H = np.hstack([samples.hinges(*samples.candidates), _random_hinges(X, rng)])
    on = rows @ V.T > 0
    found = []
    for i in range(len(V)):
        check_time()
        others = [rows * on[:, [j]] for j in range(len(V)) if j != i]  # a unit and all its moves
        Q = orthonormal(np.hstack([samples.plane, *others]))
        found.append(mean_p_value(y, Q, H, samples.rounding, rng, HYPERPLANE_SAMPLES))
    return found


def _with_one_more(samples: _Samples, fits: list[_Fit]) -> _Fit | None:
    """Return the best fit found with one kink more than the last: by an addition, by two in place of one, by exchange."""
    unknowns = 1 + samples.X.shape[1] + 2 * len(fits)
    if len(samples.y) < FEWEST_PER_UNKNOWN * unknowns:
        return None
    starts = list(_additions(samples, fits[-1], 1))
    if len(fits) > 1:
        starts += _additions(samples, fits[-2], 2)
    polished = [samples.polished(*start) for start in starts]
    found = [fit for fit in polished if fit is not None]
    if not found:
        return None
    best = min(found, key=lambda fit: fit.cost)
    for _ in range(len(fits) if len(fits) > 1 else 0):
        better = _exchanged(samples, best)
        if better is None:
            break
        best = better
    return best


def _additions(samples: _Samples, fit: _Fit, count: int) -> Iterator[tuple[IntArray, Array]]:
    """Yield the kinks of a fit with the best one further, or two further of one input."""
    inputs, places = samples.candidates
    Q = samples.basis(fit.inputs, fit.kinks)
    H = samples.hinges(inputs, places)
    rest = H - Q @ (Q.T @ H)
    usable = np.flatnonzero((rest**2).sum(axis=0) > FLAT * (H**2).sum(axis=0))
    rest = rest[:, usable]
    if count == 2:
        one, other = np.triu_indices(len(usable), 1)
        same = inputs[usable[one]] == inputs[usable[other]]
        sets = np.column_stack([one[same], other[same]])
    else:
        sets = np.arange(len(usable))[:, None]
    if not len(sets):
        return
    gains = SetGains.of(rest.T @ rest, sets).explained((rest.T @ samples.y)[:, None])[:, 0]
    tried = 0
    for best in np.argsort(gains)[::-1]:
        chosen = usable[sets[best]]
        start = np.append(fit.inputs, inputs[chosen]), np.append(fit.kinks, places[chosen])
        if samples.fit(*start) is not None:
            yield start
            tried += 1
        if tried == TRIED:
            return


def _exchanged(samples: _Samples, fit: _Fit) -> _Fit | None:
    """Return a better fit with one kink moved anywhere, or None."""
    for i in range(len(fit.kinks)):
        fewer = samples.fit(np.delete(fit.inputs, i), np.delete(fit.kinks, i))
        if fewer is None:
            continue
        for start in _additions(samples, fewer, 1):
            moved = samples.polished(*start)
            if moved is not None and moved.cost < fit.cost * (1 - 1e-6):
                return moved
    return None


def _describe(
    samples: _Samples, fit: _Fit, p_values: tuple[tuple[float, float], ...], rng: np.random.Generator
) -> AxisKinks:
    """Add intervals, p-values and errors."""
    flat = 1 + samples.X.shape[1]
    covariance = _covariance(samples, fit)
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    k, n = len(fit.kinks), len(samples.y)
    moving = samples.basis(fit.inputs, fit.kinks)
    kinks = []
    for i, (j, place) in enumerate(zip(fit.inputs, fit.kinks, strict=True)):
        check_time()
        kept = np.arange(k) != i
        start, end = samples.columns[int(j)].range
        grid = place_grid(start, end, float(place), float(errors[flat + k + i]))
        found = profile_place(
            samples.y,
            samples.basis(fit.inputs[kept], fit.kinks[kept]),
            samples.hinges(np.full(len(grid), j), grid),
            grid,
            place,
            moving,
            samples.rounding,
            rng,
        )
        below = int((samples.X[:, j] <= place).sum())
        change, error = float(fit.weights[flat + i]), float(errors[flat + i])
        around, p_value = found.change, found.p_value
        ends = found.low, found.high, change, *around
        kinks.append(Kink(float(place), *ends, error, p_value, below, n - below))
    axes = AxisKinks(
        fit.inputs, tuple(kinks), fit.weights, covariance, fit.cost, p_values, _oblique(samples, fit, rng)
    )
    return axes.in_order(np.lexsort((fit.kinks, fit.inputs)))


def _covariance(samples: _Samples, fit: _Fit) -> Array:
    """Return the covariance of weights and places for noise of any variance (HC3)."""
    hinges, steps = samples.hinges(fit.inputs, fit.kinks), samples.steps(fit.inputs, fit.kinks)
    J = np.hstack([samples.plane, hinges, steps * fit.weights[1 + samples.X.shape[1] :]])
    inverse = np.linalg.pinv(J)
    residual = samples.y - J @ (inverse @ samples.y)
    leverage = np.minimum(np.einsum("ij,ji->i", J, inverse), 0.9)
    influence = inverse * (residual / (1 - leverage))
    return as_array(influence @ influence.T)
