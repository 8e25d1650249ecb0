"""The steps of the method `hermite`: decompositions, matching, regression on both signs, tests of normality."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import planted
from planted import TwoLayerNetwork, simulate
from planted.linalg import (
    decompose_shared_terms,
    khatri_rao_values,
    roots_of_powers,
    symmetric_powers,
    unit_rows,
)
from planted.methods import hermite
from planted.methods.hermite._bound import bound_error, unseen_error
from planted.methods.hermite._matching import _normal_equations, match_moments, misfit
from planted.methods.hermite._regression import approximate_function, consolidate
from planted.methods.hermite._theory import (
    fourth_moments,
    identifiability_evidence,
    largest_visible_bias,
    normality_evidence,
    sign_alternatives,
    tail_evidence,
)
from planted.methods.hermite.printed import Units, merge_duplicates, solve_in_ball
from planted.moments import Draws, SampleHermite, whitening_map
from planted.moments._hermite import Residual
from planted.moments._hermite_products import contract_products
from planted.moments.population_hermite import PopulationHermite, relu_tensors
from planted.outcomes import BadInputError
from planted.rows import RowBlocks

SOLVER = 9


def _units(d: int, k: int, m: int, seed: int) -> tuple[Any, Any, Any]:
    net = simulate.teacher(d, k, m, bias=(-1, 1), outputs="magnitudes", random_state=seed)
    return net.W, net.b, net.A


# tensors ----------------------------------------------------------------------------------------------------------------


def test_the_rank_is_read_off_the_threshold() -> None:
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((6, 3))
    Z /= np.linalg.norm(Z, axis=0)
    weights = np.array([[1.0, 2.0, 1e-4], [3.0, -1.0, 2e-4], [1.0, 1.0, -1e-4]])
    stack = np.stack([Z @ np.diag(w) @ Z.T for w in weights])
    for threshold, rank in ((1e-2, 2), (1e-8, 3)):
        found = decompose_shared_terms(stack, rng, threshold=threshold, largest_rank=6)
        assert found.Z.shape == (6, rank)
    assert np.abs(np.abs(found.Z.T @ Z).max(axis=0) - 1).max() < 1e-6
    assert decompose_shared_terms(stack, rng, threshold=1e-8, largest_rank=1).Z.shape == (6, 1)
    assert decompose_shared_terms(stack, rng, threshold=1e2, largest_rank=6).Z.shape == (6, 0)


def test_khatri_rao_values_agree_with_the_explicit_power() -> None:
    W = np.random.default_rng(2).standard_normal((5, 3))
    power = W
    for order in (1, 2, 3):
        values = np.linalg.svd(power, compute_uv=False)
        assert np.allclose(khatri_rao_values(W, order)[: len(values)], values, atol=1e-7)
        power = np.einsum("ka,kb->kab", power, W).reshape(5, -1)


def test_a_perturbation_makes_squares_independent() -> None:
    """Smoothed analysis: two equal rows have no second singular value; after the perturbation of 0.1 they have."""
    W = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    before, after = identifiability_evidence(W, 2, np.random.default_rng(3))
    assert before.measured < 1e-12 < 1e-3 < after.measured


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_powers_keep_inner_products_and_have_their_rows_as_roots(order: int) -> None:
    rng = np.random.default_rng(order)
    U, V = rng.standard_normal((2, 5, 3))
    powers = symmetric_powers(U, order)
    np.testing.assert_allclose(
        powers @ symmetric_powers(V, order).T, (U @ V.T) ** order, rtol=1e-11, atol=1e-11
    )
    rows = roots_of_powers(powers * rng.choice([-2.0, 3.0], (5, 1)), order)
    assert np.allclose(np.abs((rows * unit_rows(U)[0]).sum(axis=1)), 1.0)


@pytest.mark.parametrize(("order", "m"), [(1, 1), (2, 1), (2, 3)])
def test_sums_of_products_are_those_of_gram_matrices(order: int, m: int) -> None:
    """Two ways to the same contractions and to the same sampling error; from order 3 on only one of them is there."""
    rng = np.random.default_rng([order, m])
    W, b, A = _units(3, 4, m, seed=order)
    X = rng.standard_normal((501, 3))
    rows = RowBlocks.from_arrays(X, TwoLayerNetwork(W, b, A)(X), block_rows=101)
    draws = Draws.random(2, 3, m, rng=rng)
    known = SampleHermite(rows, (3, m)).contract(order, draws)
    found = contract_products(rows, Residual(None), 3, order, draws)
    for ours, theirs in zip(found, (known.base, known.odd, known.even, known.noise), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_sums_of_order_three_come_near_the_coefficients() -> None:
    W, b, A = _units(2, 3, 1, seed=5)
    network = TwoLayerNetwork(W, b, A)
    X = np.random.default_rng(6).standard_normal((40_000, 2))
    draws = Draws.random(2, 2, 1, rng=np.random.default_rng(7))
    found = SampleHermite(RowBlocks.from_arrays(X, network(X)), (2, 1)).contract(3, draws)
    exact = PopulationHermite(network).contract(3, draws)
    for ours, truth, error in zip(
        (found.base, found.odd, found.even), (exact.base, exact.odd, exact.even), found.noise, strict=True
    ):
        assert 0 < np.linalg.norm(ours - truth, 2, axis=(1, 2)).max() < 4 * error


def test_too_many_products_are_refused() -> None:
    draws = Draws.random(2, 20, 1, rng=np.random.default_rng(0))
    rows = RowBlocks.from_arrays(np.zeros((4, 20)), np.zeros((4, 1)))
    with pytest.raises(BadInputError, match="lower order"):
        SampleHermite(rows, (20, 1)).contract(3, draws)


@pytest.mark.parametrize("variant", ["paper", "efficient"])
def test_order_three_is_an_option(variant: str) -> None:
    """From few samples it sees little; the refined answer is judged by its certificate all the same."""
    data = simulate.dataset(3000, n_features=2, n_hidden=3, bias=(-0.5, 0.5), random_state=8)
    answer = planted.recover(
        data.X, data.Y, 3, method="hermite", variant=variant, order=3, refined=True, random_state=1
    )
    assert answer.outcome is planted.Outcome.RECOVERED
    assert planted.parameter_error(answer.network, data.network) < 1e-9
    for bad in (0, True, 2.5):
        with pytest.raises(BadInputError, match="order"):
            planted.recover(data.X, data.Y, 3, method="hermite", order=bad)


def test_duplicates_up_to_sign_are_merged() -> None:
    rows = np.array([[1.0, 0.0], [-0.9999, 0.0141], [0.0, 1.0]])
    assert merge_duplicates(rows, 0.1).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert len(merge_duplicates(rows, 0.001)) == 3


# moment matching --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lowest", [1, 2])
def test_gradient_and_curvature_of_the_matching_are_right(lowest: int) -> None:
    """Against differences of the cost, and of the tensors, along random moves at right angles to the rows."""
    W, b, A = _units(4, 3, 2, seed=5)
    target = relu_tensors(*_units(4, 3, 2, seed=6))
    left = target.minus(relu_tensors(W, b, A))
    N, gradient = _normal_equations(W, b, A, left, range(lowest, 5))
    rng, step = np.random.default_rng(7), 1e-5
    moves = rng.standard_normal((3, 4 + 1 + 2))
    moves[:, :4] -= (moves[:, :4] * W).sum(axis=1, keepdims=True) * W

    def moved(length: float) -> tuple[Any, Any, Any]:
        turned = W + length * moves[:, :4]
        norms = np.linalg.norm(turned, axis=1, keepdims=True)
        return turned / norms, b + length * moves[:, 4], A + length * moves[:, 5:].T

    slope = (
        (misfit(target, moved(step), lowest=lowest) - misfit(target, moved(-step), lowest=lowest)) / step / 2
    )
    assert slope == pytest.approx(-2 * float(gradient @ moves.ravel()), rel=1e-6)
    change = relu_tensors(*moved(step)).minus(relu_tensors(*moved(-step)))
    parts = (change.zeroth, change.first, change.second, change.third, change.fourth)
    energy = sum((parts[j] ** 2).sum() / (1, 1, 2, 6, 24)[j] for j in range(lowest, 5)) / (2 * step) ** 2
    assert energy == pytest.approx(float(moves.ravel() @ N @ moves.ravel()), rel=1e-6)


def test_matching_ends_at_the_units_from_a_rough_start() -> None:
    W, b, A = _units(6, 4, 1, seed=8)
    rng = np.random.default_rng(9)
    rough = W + 0.15 * rng.standard_normal(W.shape)
    start = rough / np.linalg.norm(rough, axis=1, keepdims=True), b + 0.1, A * 1.1
    found = match_moments(relu_tensors(W, b, A), start, lowest=1)
    truth = TwoLayerNetwork(W, b, A)
    assert planted.parameter_error(TwoLayerNetwork(found.W, found.b, found.A), truth) < 1e-10


# Algorithm 5 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2])
def test_consolidation_keeps_the_function(m: int) -> None:
    """Claim D.14: k + 2 units for one output, the same values everywhere."""
    rng = np.random.default_rng(10)
    W, b = rng.standard_normal((3, 4)), rng.standard_normal(3)
    coefficients = rng.standard_normal((m, 3 + 3 + 4 + 1))
    net = consolidate(W, b, coefficients)
    X = rng.standard_normal((50, 4))
    t = X @ W.T + b
    features = np.hstack([np.maximum(t, 0), np.maximum(-t, 0), X, np.ones((50, 1))])
    assert np.allclose(net(X), features @ coefficients.T)
    assert net.n_hidden == 3 + 2 * m
    assert m > 1 or not net.c.any()


def test_consolidation_without_a_linear_rest_adds_no_units() -> None:
    net = consolidate(np.eye(2), np.zeros(2), np.array([[1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0]]))
    assert net.n_hidden == 2


def test_coefficients_stay_in_the_ball() -> None:
    gram, right = np.diag([1.0, 0.01, 0.0]), np.array([[1.0], [1.0], [0.0]])
    free = solve_in_ball(gram, right, 1e6, n_bounded=3)[:, 0]
    assert np.allclose(free, [1.0, 100.0, 0.0])
    held = solve_in_ball(gram, right, 10.0, n_bounded=3)[:, 0]
    assert np.linalg.norm(held) == pytest.approx(10.0)
    multiplier = 1 / held[0] - 1  # stationarity: (G + λ) β = r
    assert held[1] == pytest.approx(1 / (0.01 + multiplier))


@pytest.mark.parametrize("seed", range(3))
def test_the_ball_leaves_the_last_coefficients_free(seed: int) -> None:
    """Stationary in all coefficients, with a multiplier for the bounded ones alone; a wide ball is plain least squares."""
    rng = np.random.default_rng(seed)
    G, y = rng.standard_normal((40, 5)), 100 * rng.standard_normal((40, 2))
    gram, right = G.T @ G, G.T @ y
    np.testing.assert_allclose(
        solve_in_ball(gram, right, 1e9, n_bounded=2), np.linalg.solve(gram, right), rtol=1e-8
    )
    held = solve_in_ball(gram, right, 0.1, n_bounded=2)
    np.testing.assert_allclose(np.linalg.norm(held[:2], axis=0), 0.1, rtol=1e-9)
    slope = right - gram @ held
    np.testing.assert_allclose(slope[2:], 0.0, atol=1e-7)
    multipliers = slope[:2] / held[:2]
    np.testing.assert_allclose(multipliers[0], multipliers[1], rtol=1e-6)
    assert (multipliers > 0).all()


def test_regression_recovers_turned_units_and_bounds_its_error() -> None:
    net = simulate.teacher(4, 3, bias=(-1, 1), outputs="magnitudes", random_state=11)
    X = simulate.inputs(3_000, 4, random_state=12)
    signs = np.array([1.0, -1.0, 1.0])
    units = Units(net.W * signs[:, None], net.b * signs, net.A, np.zeros(0), 0.0)
    Y = net(X)
    found = approximate_function(
        RowBlocks.from_arrays(X[:2000], Y[:2000]), RowBlocks.from_arrays(X[2000:], Y[2000:]), units
    )
    assert found.error.error < 1e-20 and found.truncated == 0.0
    fresh = simulate.inputs(100, 4, random_state=13)
    assert np.abs(found.network(fresh) - net(fresh)).max() < 1e-10
    noisy = Y + 0.5 * np.random.default_rng(14).standard_normal(Y.shape)
    found = approximate_function(
        RowBlocks.from_arrays(X[:2000], noisy[:2000]), RowBlocks.from_arrays(X[2000:], noisy[2000:]), units
    )
    error = found.error
    assert (
        error.error < error.bound < 1.15 * error.error
    )  # 1000 squares of normal noise: 1.96 √(2/1000) = 9 %
    assert error.error == pytest.approx(0.25, rel=0.2)


def test_the_limit_of_a_mean_of_squares_is_johnsons() -> None:
    """Rows 0, ..., 0, s with one output: every moment by hand."""
    zero = TwoLayerNetwork(W=[[1.0]], b=[0.0], A=[[0.0]])
    weights = np.full((1, 1), 3.0)
    squares = np.append(np.zeros(99), 4.0)
    rows = RowBlocks.from_arrays(np.ones((100, 1)), np.sqrt(squares)[:, None])
    found = bound_error(zero, rows, weights, n_unseen=0)
    z, centred = stats.norm.isf(0.025), squares - squares.mean()
    variance, third = (centred**2).mean(), (centred**3).mean()
    limit = squares.mean() + z * np.sqrt(variance / 100) + third * (1 + 2 * z**2) / (6 * variance * 100)
    assert found.error == pytest.approx(0.04) and found.bound == pytest.approx(limit)
    assert found.unseen == pytest.approx(unseen_error(100, 3.0))
    more = bound_error(zero, rows, weights, n_unseen=2)
    assert more.bound == pytest.approx(limit + 2 * found.unseen)


@pytest.mark.parametrize("n_rows", [100, 10_000])
def test_an_unseen_unit_hides_what_a_linear_part_leaves_of_it(n_rows: int) -> None:
    """Quadrature over the unit that is on once in n / log 40 rows, with the best line taken off."""
    b = stats.norm.isf(np.log(40) / n_rows)
    g = np.linspace(-9.0, 9.0, 2_000_001)
    weights = stats.norm.pdf(g) * (g[1] - g[0])
    unit = np.maximum(g - b, 0.0)
    rest = unit - weights @ unit - g * (weights @ (g * unit))
    assert unseen_error(n_rows, 2.0) == pytest.approx(4 * weights @ rest**2, rel=1e-6)


def test_rows_without_error_have_a_limit_of_zero() -> None:
    net = simulate.teacher(3, 2, bias=(-1, 1), random_state=15)
    X = simulate.inputs(50, 3, random_state=16)
    assert bound_error(net, RowBlocks.from_arrays(X, net(X)), net.A, n_unseen=0).bound == 0.0


# normality, visibility, signs -------------------------------------------------------------------------------------------


def _fourth_moments(X: Any) -> Any:
    centred = X - X.mean(axis=0)
    white = centred @ whitening_map(centred.T @ centred / len(X))
    return fourth_moments(RowBlocks.from_arrays(white, np.zeros((len(X), 1))), len(X))


def _p_value(X: Any) -> float:
    return normality_evidence(_fourth_moments(X), len(X)).measured


@pytest.mark.parametrize(("n", "d"), [(100, 2), (500, 1), (3_000, 3), (3_000, 12)])
def test_heavy_tails_are_told_from_light_ones(n: int, d: int) -> None:
    for seed in range(20):
        rng = np.random.default_rng([seed, n, d])
        laws = rng.standard_normal((n, d)), rng.uniform(-1.0, 1.0, (n, d)), rng.standard_cauchy((n, d))
        normal, uniform, heavy = (tail_evidence(_fourth_moments(X)) for X in laws)
        assert normal.measured < 1.6 and uniform.measured < normal.measured
        assert not heavy.passed or n == 100


def test_the_fourth_moments_of_one_input_are_its_kurtosis_over_three() -> None:
    x = np.array([-3.0, 0.0, 0.0, 1.0, 2.0])
    kurtosis = (x**4).mean() / (x**2).mean() ** 2
    assert tail_evidence(_fourth_moments(x[:, None])).measured == pytest.approx(kurtosis / 3)


@pytest.mark.parametrize("d", [1, 4])
def test_normal_inputs_pass_at_the_level(d: int) -> None:
    """200 samples of 1,000 rows: at level 0.05 at most 10 + 4 √(200 × 0.05 × 0.95) = 22, and none near 1e-6."""
    rng = np.random.default_rng(15)
    values = np.array([_p_value(3.0 + 2.0 * rng.standard_normal((1_000, d))) for _ in range(200)])
    assert (values < 0.05).sum() <= 22
    assert values.min() > 1e-6
    assert (values < 0.5).sum() >= 40  # a test that always says one would pass the lines above


@pytest.mark.parametrize("law", ["uniform", "laplace", "exponential", "student-t", "rademacher"])
def test_other_laws_fail(law: str) -> None:
    assert _p_value(simulate.inputs(4_000, 5, law=law, random_state=16)) < 1e-6


def test_one_odd_direction_among_many_is_seen() -> None:
    X = np.random.default_rng(17).standard_normal((20_000, 10))
    X[:, 3] = np.sign(X[:, 3]) * np.sqrt(0.9) + np.sqrt(0.1) * X[:, 4]
    assert _p_value(X) < 1e-6


def test_visible_biases() -> None:
    assert largest_visible_bias(0.0) == np.inf
    assert largest_visible_bias(1.0) == 0.0
    b = largest_visible_bias(1e-3)
    assert np.exp(-(b**2) / 2) / np.sqrt(2 * np.pi) == pytest.approx(1e-3)


def test_alternatives_take_the_constant_into_the_offset() -> None:
    net = TwoLayerNetwork(W=[[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], b=[0.1, 0.2, 0.4], A=[[1.0, 1.0, 1.0]])
    (other,) = sign_alternatives(net)
    assert other.is_equivalent(net) and other.c[0] == pytest.approx(0.7)
    assert sign_alternatives(simulate.teacher(4, 3, random_state=18)) == []


# the method's door ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value"), [("variant", "practical"), ("order", 0), ("reduction", "cubic")]
)
def test_unknown_options_are_refused(option: str, value: Any) -> None:
    X = simulate.inputs(50, 3, random_state=19)
    with pytest.raises(BadInputError, match=f"{option}="):
        planted.recover(X, X[:, 0], 1, method="hermite", **{option: value})


def test_sums_that_do_not_fit_are_refused_before_they_are_made() -> None:
    X = simulate.inputs(200, 90, random_state=20)
    with pytest.raises(BadInputError, match="GB"):
        planted.recover(X, X[:, 0], 2, order=2, method="hermite", random_state=SOLVER)


@pytest.mark.parametrize(("k", "has_network"), [(3, True), (6, False)])
def test_interrupted_work_returns_what_the_moments_show(
    monkeypatch: pytest.MonkeyPatch, k: int, has_network: bool
) -> None:
    """Signs of more units than inputs are unknown then, so there is no network, but the hyperplanes are kept."""

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(hermite, "attempt_from", interrupt)
    data = simulate.dataset(
        20_000, n_features=4, n_hidden=k, bias=(-1, 1), outputs="magnitudes", random_state=25
    )
    answer = planted.recover(data.X, data.Y, k, method="hermite", random_state=SOLVER)
    assert answer.outcome is planted.Outcome.STOPPED_EARLY
    assert (answer.network is not None) == has_network
    assert 1 <= len(answer.stats["seen"]["W"]) <= k
    if answer.network is not None:
        assert planted.parameter_error(answer.network, data.network) < 0.2


def test_few_rows_get_a_named_outcome() -> None:
    X = simulate.inputs(6, 5, random_state=21)
    answer = planted.recover(X, np.abs(X[:, 0]), 1, method="hermite", random_state=SOLVER)
    assert answer.outcome is planted.Outcome.TOO_FEW_SAMPLES and answer.network is None


def test_units_that_are_always_on_do_not_show_as_rounding() -> None:
    """Biases of 8 and more: what a regression leaves of such outputs is rounding, which is no edge to measure units by."""
    data = simulate.dataset(5_000, n_features=4, n_hidden=3, bias=(8, 9), random_state=27)
    answer = planted.recover(data.X, data.Y, 3, method="hermite", refined=False, random_state=SOLVER)
    assert answer.outcome is planted.Outcome.TOO_FEW_SAMPLES and answer.network is None


@pytest.mark.parametrize("refined", [False, True])
def test_linear_outputs_show_no_unit(refined: bool) -> None:
    X = simulate.inputs(500, 4, random_state=22)
    answer = planted.recover(X, X[:, 0] + 1.0, 2, method="hermite", refined=refined, random_state=SOLVER)
    assert answer.outcome in (planted.Outcome.TOO_FEW_SAMPLES, planted.Outcome.NOT_IDENTIFIABLE)


def test_an_offset_is_read_from_order_zero_on_request() -> None:
    net = simulate.teacher(5, 3, bias=(-1, 1), outputs="magnitudes", random_state=23)
    X = simulate.inputs(20_000, 5, random_state=24)
    answer = planted.recover(
        X, net(X) + 2.0, 3, method="hermite", refined=False, offset=True, random_state=SOLVER
    )
    assert answer.network is not None
    assert answer.network.c[0] == pytest.approx(2.0, abs=0.05)
