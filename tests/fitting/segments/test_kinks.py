"""Kinks of noisy samples of one input: fits, number, places, kinks or curves, neighbours."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from planted.fitting.segments._intervals import Quantity, _Columns
from planted.fitting.segments._kinks import _neighbours, find_segments, further_kinks
from planted.fitting.segments._kinks import column_p_values as additions_test
from planted.fitting.segments._least_squares import CandidateSets, KinkData, SetGains, segment_fits
from planted.fitting.segments._places import at_median_places

CASES = {1: ((0.5, 1.0),), 2: ((0.33, 1.0), (0.66, -1.0)), 3: ((0.25, 1.0), (0.5, -1.0), (0.75, 1.0))}


def draw(k: int, n: int, s: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, n])
    x = rng.random(n)
    y = 0.3 * x + sum(change * np.maximum(x - place, 0) for place, change in CASES.get(k, ()))
    return x, y + 0.1 * s * rng.standard_normal(n)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_gains_of_sets_are_those_of_regressions(k: int) -> None:
    rng = np.random.default_rng(k)
    columns, y = rng.standard_normal((30, 5)), rng.standard_normal((30, 2))
    sets = np.array(list(combinations(range(5), k)))
    gains = SetGains.of(columns.T @ columns, sets).explained(columns.T @ y)
    for row, chosen in zip(gains, sets, strict=True):
        Q = np.linalg.qr(columns[:, chosen])[0]
        np.testing.assert_allclose(row, ((Q.T @ y) ** 2).sum(axis=0), rtol=1e-4)


def test_costs_of_sets_are_those_of_fits() -> None:
    x, y = draw(3, 60, 1.0, 0)
    data = KinkData(np.sort(x), y)
    outputs = np.column_stack([y, y[::-1]])
    places = data.candidates(22)
    costs = [
        [KinkData(data.x, output).fit(np.array(chosen)).cost for chosen in combinations(places, 3)]
        for output in outputs.T
    ]
    found = CandidateSets.of(data, 3).costs(outputs)
    np.testing.assert_allclose(found.min(axis=0), np.min(costs, axis=1), rtol=1e-4)
    apart = [min(b - a, c - b) > 0.05 for a, b, c in combinations(places, 3)]
    np.testing.assert_allclose(found[apart], np.transpose(costs)[apart], rtol=1e-4)
    assert CandidateSets.of(data, 5) is None


def test_a_pair_is_seen_where_one_kink_stands_for_it() -> None:
    found = np.zeros(2)
    for seed in range(10):
        rng = np.random.default_rng([seed, 200])
        x = np.sort(rng.random(200))
        y = 0.3 * x + np.maximum(x - 0.33, 0) + np.maximum(x - 0.66, 0) + 0.09 * rng.standard_normal(200)
        data, solver = KinkData(x, y), np.random.default_rng(1000 + seed)
        fit, H = segment_fits(data, 1)[1], data.hinges(data.candidates())
        Q = data.basis(fit.kinks, with_steps=True)
        additions = additions_test(y, Q, H, np.zeros(H.shape[1], dtype=np.intp), data.rounding, solver)
        found += further_kinks(data, fit, solver) < 0.05, min(additions) < 0.025
    assert found[0] >= 8 and found[0] > found[1]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [1, 2, 3])
def test_fits_with_the_true_number_reach_the_cost_of_the_truth(k: int, seed: int) -> None:
    x, y = draw(k, 150, 0.5, seed)
    order = np.argsort(x)
    data = KinkData(x[order], y[order])
    fits = segment_fits(data, 3)
    assert [len(fit.kinks) for fit in fits] == [0, 1, 2, 3]
    assert all(one.cost >= other.cost for one, other in pairwise(fits))
    truth = data.fit(np.array([place for place, _ in CASES[k]]))
    assert fits[k].cost <= truth.cost


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_number_of_clear_kinks_is_found(k: int) -> None:
    found = [find_segments(*draw(k, 120, 0.2, seed), np.random.default_rng(seed)) for seed in range(2)]
    # Each is right with probability 0.95 or more (benchmarks/kinks.py), and these are.
    for segments in found:
        assert len(segments.kinks) == k
        for kink, (place, change) in zip(segments.kinks, CASES[k], strict=True):
            assert abs(kink.place - place) < 0.05
            assert abs(kink.change - change) < 5 * kink.change_error
            assert kink.p_value <= 0.01
            assert kink.below + kink.above == 120


def test_intervals_cover_the_places() -> None:
    hits = total = 0
    for seed in range(15):
        segments = find_segments(*draw(2, 100, 0.5, seed), np.random.default_rng(seed), n_kinks=2)
        for kink, (place, _) in zip(segments.kinks, CASES[2], strict=True):
            hits, total = hits + (kink.low <= place <= kink.high), total + 1
    # Of 95 %: fewer than 24 of 30 has probability 6e-4.
    assert total == 30 and hits >= 24


def test_intervals_of_slopes_cover_where_few_samples_tell_them() -> None:
    """One kink near the edge, noise that grows: by standard errors 0.69 and 0.65 of such intervals hold the truth."""
    hits = np.zeros(2)
    for seed in range(30):
        rng = np.random.default_rng([seed, 12])
        x, place = rng.random(100), rng.uniform(0.1, 0.14)
        noise = 0.05 * rng.standard_normal(100) * (0.4 + 1.2 * x)
        y = 0.3 * x + np.maximum(x - place, 0) + noise
        segments = find_segments(x, y, np.random.default_rng(500 + seed), n_kinks=1)
        (kink,), left = segments.kinks, segments.slopes[0]
        hits += kink.change_low <= 1 <= kink.change_high, left[1] <= 0.3 <= left[2]
        assert kink.change_low <= kink.change <= kink.change_high
    # Of 93 % (benchmarks/kinks.py): fewer than 24 of 30 has probability 4e-3.
    assert (hits >= 24).all()


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_squares_with_a_slope_given_are_those_of_regressions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, others = np.sort(rng.random(40)), rng.uniform(0.35, 0.45, 1)
    base = np.column_stack([np.ones(40), x, np.maximum(x - others, 0), x > others])
    grid, y = np.array([0.15, 0.25, 0.55, 0.7, 0.85]), rng.standard_normal(40)
    H, Q = np.maximum(x[:, None] - grid, 0), np.linalg.qr(base)[0]
    rest = H - Q @ (Q.T @ H)
    columns = _Columns(Q, H, rest, (rest**2).sum(axis=0), 0.0)
    fits, sums = columns.fit(y[:, None]), rng.standard_normal(5)
    quantity = Quantity(sums[:4] @ np.linalg.pinv(base), float(sums[4]))
    rises = columns.rises_at(quantity, fits, 0.7)[:, 0]
    designs = [np.column_stack([base, h]) for h in H.T]
    free = [_left(design, y) for design in designs]
    # The coefficients with the sum given: a solution of it, and any move that leaves it.
    fixed = 0.7 * sums / (sums @ sums)
    moves = np.linalg.svd(sums[None])[2][1:].T
    given = [_left(design @ moves, y - design @ fixed) for design in designs]
    np.testing.assert_allclose(rises, (np.array(given) - min(free)) / fits.variances[0], rtol=1e-7)
    np.testing.assert_allclose(fits.variances[0], min(free) / (40 - 4 - 2))


def _left(design: np.ndarray, y: np.ndarray) -> float:
    return float(((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2).sum())


def drawn_kinks(k: int, s: float, seed: int) -> tuple[KinkData, np.ndarray]:
    rng = np.random.default_rng([seed, k, 12])
    places = (np.arange(k) + rng.uniform(0.3, 0.7, k)) / k
    x = np.sort(rng.random(200))
    y = 0.3 * x + np.maximum(x[:, None] - places, 0) @ rng.choice([-1.0, 1.0], k)
    return KinkData(x, y + 0.1 * s * rng.standard_normal(200)), places


def test_medians_are_nearer_to_the_places_than_least_squares_where_noise_is_large() -> None:
    errors = np.zeros(2)
    for seed in range(12):
        data, places = drawn_kinks(3, 1.0, seed)
        least = segment_fits(data, 3)[3]
        errors += [((fit.kinks - places) ** 2).mean() for fit in (least, at_median_places(data, least))]
    # The ratio of the mean squares is about a half.
    assert errors[1] < 0.85 * errors[0]


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_medians_are_those_of_the_likelihood_and_no_worse_than_noise_allows(k: int) -> None:
    data, _ = drawn_kinks(k, 0.5, k)
    least = segment_fits(data, k)[k]
    found = at_median_places(data, least)
    assert least.cost <= found.cost <= least.cost * (1 + 10 / (200 - 2 - 2 * k))
    assert data.is_allowed(found.kinks)
    if k == 1:  # by a plain sum over a fine grid
        grid = np.linspace(*data.range, 2001)
        logs = -(200 - 3) / 2 * np.log([data.fit(np.array([place])).cost for place in grid])
        share = np.cumsum(np.exp(logs - logs.max()))
        assert abs(found.kinks[0] - np.interp(share[-1] / 2, share, grid)) < 2e-3


def test_a_median_between_two_peaks_where_no_fit_is_good_is_not_taken() -> None:
    """A rise between two levels, one kink asked for: either end of it explains the samples, the middle neither."""
    x, noise = np.linspace(0, 1, 200), 0.05 * np.random.default_rng(0).standard_normal(100)
    data = KinkData(x, np.clip(x, 0.3, 0.7) + np.concatenate([noise, -noise[::-1]]))
    least = segment_fits(data, 1)[1]
    assert at_median_places(data, least) is least


def test_certain_places_stay_those_of_least_squares() -> None:
    data, _ = drawn_kinks(2, 1e-3, 0)
    least = segment_fits(data, 2)[2]
    assert at_median_places(data, least) is least


@pytest.mark.parametrize("values", [5, 6, 8, 12])
def test_few_values_of_x_have_places_all_the_same(values: int) -> None:
    rng = np.random.default_rng(values)
    x = np.sort(rng.integers(0, values, 80)).astype(float)
    data = KinkData(x, np.maximum(x - values / 2, 0) + rng.standard_normal(80))
    for fit in segment_fits(data, 3)[1:]:
        assert data.is_allowed(at_median_places(data, fit).kinks)


@pytest.mark.parametrize("noise", ["normal", "t3", "unequal"])
def test_noise_alone_has_no_kink(noise: str) -> None:
    counts = []
    for seed in range(8):
        rng = np.random.default_rng([seed, 5])
        x = rng.random(80)
        e = rng.standard_t(3, 80) if noise == "t3" else rng.standard_normal(80)
        y = 0.3 * x + 0.1 * e * (0.4 + 1.2 * x if noise == "unequal" else 1.0)
        counts.append(len(find_segments(x, y, rng, details=False).kinks))
    # At most 5 % each: three of eight have probability 6e-3.
    assert sum(count > 0 for count in counts) <= 2


@pytest.mark.parametrize("curve", ["sine", "logistic"])
def test_smooth_curves_are_not_called_kinks(curve: str) -> None:
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x = rng.random(400)
        y = np.sin(4 * x) if curve == "sine" else 1 / (1 + np.exp(-10 * (x - 0.5)))
        segments = find_segments(x, y + 0.025 * rng.standard_normal(400), rng)
        assert segments.verdict == "smooth"


def test_correlated_neighbours_are_noticed() -> None:
    unnoticed = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x, e = np.sort(rng.random(200)), rng.standard_normal(200)
        for i in range(1, 200):
            e[i] += 0.6 * e[i - 1]
        segments = find_segments(x, 0.3 * x + 0.1 * e, rng, details=False)
        unnoticed += bool(segments.kinks) and not segments.is_correlated
    assert unnoticed == 0


def test_neighbours_are_judged_by_residuals_of_the_same_fit() -> None:
    rng = np.random.default_rng(8)
    data = KinkData(np.sort(rng.random(100)), np.zeros(100))
    Q = data.basis(np.array([0.2, 0.4, 0.6, 0.8]), with_steps=True)
    E = rng.standard_normal((100, 60))
    found = [_neighbours(e - Q @ (Q.T @ e), Q, rng) for e in E.T]
    correlations, p_values = np.array(found).T
    assert correlations.mean() < -0.05  # the fit makes them negative
    assert abs(p_values.mean() - 0.5) < 0.15  # uniform: four standard errors
    follows = E.copy()
    for i in range(1, 100):
        follows[i] += 0.5 * follows[i - 1]
    noticed = [_neighbours(e - Q @ (Q.T @ e), Q, rng)[1] < 0.05 for e in follows.T]
    assert np.mean(noticed) > 0.9


@pytest.mark.parametrize("x", [np.zeros(50), np.repeat([0.0, 1.0], 25), np.arange(6.0)])
def test_too_few_places_have_no_answer_or_no_kink(x: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    segments = find_segments(x, rng.standard_normal(len(x)), rng)
    assert segments is None or not segments.kinks


def test_repeated_values_and_gaps_give_finite_numbers() -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([np.repeat(np.arange(10.0), 8), 50 + rng.random(40)])
    y = np.maximum(x - 5, 0) + 0.5 * rng.standard_normal(len(x))
    segments = find_segments(x, y, rng)
    assert all(
        np.isfinite([kink.place, kink.change, kink.change_error, kink.p_value]).all()
        for kink in segments.kinks
    )


def test_exact_samples_leave_nothing_to_test() -> None:
    x = np.linspace(0, 1, 60)
    data = KinkData(x, 2 * x + 3 * np.maximum(x - 0.5, 0))
    assert further_kinks(data, segment_fits(data, 1)[1], np.random.default_rng(0)) == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_a_kink_needs_several_values_of_x_on_either_side(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-15, 15, 120).astype(float)
    y = x + 5 * np.maximum(x - 13.5, 0) + 0.05 * rng.standard_normal(120)
    for kink in find_segments(x, y, rng).kinks:
        assert len(np.unique(x[x > kink.place])) >= 2 and len(np.unique(x[x < kink.place])) >= 1
