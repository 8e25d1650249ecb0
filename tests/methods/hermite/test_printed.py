"""The boxes of [ATV21], one by one: hand numbers, exact coefficients, and exact coefficients with a stated error.

Each test goes red when a line of its box is broken: an order that is not looked at, a threshold, a sign, the second half.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import factorial
from typing import Any

import numpy as np
import pytest

import planted
from planted import TwoLayerNetwork, simulate
from planted.fitting._run import prepare_problem
from planted.linalg import roots_of_powers
from planted.methods.hermite import printed
from planted.methods.hermite._whitening import whiten_problem
from planted.methods.hermite.printed import Thresholds, Units
from planted.moments import (
    Contractions,
    Draws,
    HermiteTensors,
    SampleHermite,
    hermite_values,
    relu_coefficients,
)
from planted.moments.population_hermite import PopulationHermite
from planted.outcomes import BadInputError
from planted.rows import RowBlocks

SOLVER = 4711  # far from the data seeds below
PEAK = 1 / np.sqrt(2 * np.pi)


def _rng() -> np.random.Generator:
    return np.random.default_rng(SOLVER)


def _network(rows: Any, b: Any, a: Any) -> TwoLayerNetwork:
    W = np.asarray(rows, float)
    return TwoLayerNetwork(W / np.linalg.norm(W, axis=1, keepdims=True), b, [a])


def _mismatch(units: Units, truth: TwoLayerNetwork) -> float:
    """Largest difference over W, b, A after matching rows up to the sign of (w, b); infinite if the numbers differ."""
    products = units.W @ truth.W.T
    if products.shape[0] != products.shape[1]:
        return float("inf")
    order = np.abs(products).argmax(axis=0)
    signs = np.sign(products[order, np.arange(len(order))])
    turned = units.W[order] * signs[:, None], units.b[order] * signs, units.A[:, order]
    return max(float(np.abs(a - b).max()) for a, b in zip(turned, (truth.W, truth.b, truth.A), strict=True))


@dataclass(frozen=True)
class _Along:
    """Coefficients of one input, T_0, ..., T_top, for units in direction 1."""

    values: Any

    def along(self, W: Any, top: int) -> Any:
        return np.asarray(self.values, float)[: top + 1, None, None] * np.ones((1, 1, len(W)))


@dataclass(frozen=True)
class _WithError:
    """Exact coefficients that are said to have a sampling error."""

    exact: PopulationHermite
    noise: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.exact.shape

    def tensors(self) -> HermiteTensors:
        return self.exact.tensors()

    def contract(self, order: int, draws: Draws) -> Contractions:
        return replace(self.exact.contract(order, draws), noise=np.full(3, self.noise))

    def along(self, W: Any, top: int) -> Any:
        return self.exact.along(W, top)


# Algorithm 2 ---------------------------------------------------------------------------------------------------------


def test_algorithm_2_by_hand_for_order_one() -> None:
    """a = 2, b = 1/2: T_2 = 2 φ(1/2) and T_3 = -φ(1/2), so b = -T_3 / T_2 and a = T_2 / φ(b)."""
    density = PEAK * np.exp(-1 / 8)
    b, A = printed.algorithm_2(1, np.ones((1, 1)), _Along([0.0, 0.0, 2 * density, -density, 0.0]))
    np.testing.assert_allclose(b, [0.5], rtol=1e-14)
    np.testing.assert_allclose(A, [[2.0]], rtol=1e-14)


@pytest.mark.parametrize("b", [1.0, 0.0, -0.4])
def test_algorithm_2_by_hand_for_order_two(b: float) -> None:
    """γ_j = (-1)^j β He_j(b), β = 3 φ(b), He = 1, b, b² - 1, b³ - 3b: q = 1 where γ_2 = 0 (b = 1), q = 2 where γ_1 = 0."""
    beta = 3 * PEAK * np.exp(-(b**2) / 2)
    T = [0.0, 0.0, beta, -beta * b, beta * (b**2 - 1), -beta * (b**3 - 3 * b)]
    found, A = printed.algorithm_2(2, np.ones((1, 1)), _Along(T))
    np.testing.assert_allclose(found, [b], atol=1e-14)
    np.testing.assert_allclose(A, [[3.0]], rtol=1e-14)


def test_algorithm_2_separates_rows_that_are_not_orthogonal() -> None:
    """Rows at 53 degrees: without the Gram matrix each value along a row would hold both units."""
    truth = _network([[1.0, 0.0], [0.6, 0.8]], [0.3, -0.7], [1.5, -2.0])
    b, A = printed.algorithm_2(1, truth.W * [[1.0], [-1.0]], PopulationHermite(truth))
    np.testing.assert_allclose(b, [0.3, 0.7], rtol=1e-12)
    np.testing.assert_allclose(A, truth.A, rtol=1e-12)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_algorithm_2_ends_at_the_largest_bias(sign: float) -> None:
    """T_3 is 50 times T_2: as a ratio that would be a bias of 50, where the density is zero to rounding."""
    b, A = printed.algorithm_2(1, np.ones((1, 1)), _Along([0.0, 0.0, 1e-9, -sign * 50e-9, 0.0]))
    assert b.tolist() == [sign * printed.LARGEST_BIAS]
    np.testing.assert_allclose(A, [[1e-9 / (PEAK * np.exp(-(printed.LARGEST_BIAS**2) / 2))]], rtol=1e-12)


def test_algorithm_2_gives_no_weight_where_the_polynomial_vanishes() -> None:
    """q = 1 at b = 0: He_1(0) = 0 divides nothing; by hand γ_0 = 0 = γ_2, γ_1 = 1."""
    b, A = printed.algorithm_2(2, np.ones((1, 1)), _Along([0.0, 0.0, 0.0, 1.0, 0.0, 0.0]))
    assert b.tolist() == [0.0] and A.tolist() == [[0.0]]


def test_algorithm_2_without_units_is_empty() -> None:
    b, A = printed.algorithm_2(1, np.zeros((0, 1)), _Along(np.zeros(5)))
    assert b.shape == (0,) and A.shape == (1, 0)


# Algorithm 3 ---------------------------------------------------------------------------------------------------------


def test_algorithm_3_by_hand() -> None:
    """a = (2, -3), T_1 = 2 Φ_1 e_1 - 3 Φ_2 e_2; the row -e_2 makes the second solution -Φ_2 = -1/4."""
    rows, first = np.array([[1.0, 0.0], [0.0, -1.0]]), np.array([[2 * 0.5, -3 * 0.25]])
    signs, margin = printed.algorithm_3(rows, np.array([[2.0, -3.0]]), first)
    assert signs.tolist() == [1.0, -1.0]
    assert margin == pytest.approx(0.25)


def test_algorithm_3_without_units_has_every_margin() -> None:
    signs, margin = printed.algorithm_3(np.zeros((0, 2)), np.zeros((1, 0)), np.zeros((1, 2)))
    assert signs.shape == (0,) and margin == np.inf


def test_algorithm_3_solves_one_system_for_all_outputs() -> None:
    """Two outputs whose first order says opposite things of a unit: least squares weighs them by their output weights."""
    A = np.array([[1.0, 0.1], [0.1, 2.0]])
    first = A @ np.diag([0.5, -0.7]) @ np.eye(2)
    signs, margin = printed.algorithm_3(np.eye(2), A, first)
    assert signs.tolist() == [1.0, -1.0]
    assert margin == pytest.approx(0.5)


# Jennrich and the rank -----------------------------------------------------------------------------------------------


def test_jennrich_finds_the_columns() -> None:
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((3, 3))
    Z /= np.linalg.norm(Z, axis=0)
    stack = np.stack([Z @ np.diag(c) @ Z.T for c in ([1.0, 2.0, -1.0], [0.5, -3.0, 2.0])])
    cosines = np.abs(printed._jennrich(stack, _rng()).T @ Z)
    assert sorted(cosines.argmax(axis=0)) == [0, 1, 2]
    np.testing.assert_allclose(cosines.max(axis=0), 1.0, rtol=1e-10)


@pytest.mark.parametrize(
    ("limit", "largest", "rank"), [(1e-6, 4, 2), (0.05, 4, 1), (10.0, 4, 0), (1e-6, 1, 1)]
)
def test_the_rank_is_that_above_the_limit(limit: float, largest: int, rank: int) -> None:
    """Terms of sizes 1 and 0.01 along e_1 and e_2 of four inputs."""
    stack = np.stack([np.diag([1.0, 0.01, 0.0, 0.0]), np.diag([-1.0, 0.02, 0.0, 0.0])])
    rows, values = printed._rank_one_rows(stack, 1, limit, largest, _rng())
    assert rows.shape == (rank, 4)
    np.testing.assert_allclose(values, [np.sqrt(2), np.sqrt(5e-4), 0.0, 0.0], atol=1e-14)
    np.testing.assert_allclose(np.abs(rows), np.eye(4)[[0, 1][:rank]], atol=1e-12)


def test_no_squares_give_no_rows() -> None:
    assert roots_of_powers(np.zeros((0, 6)), 2).shape == (0, 3)


# Algorithm 1 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("b", [[0.0, 0.0, 0.4], [1.0, -1.0, 0.4], [0.0, 1.0, -1.0]])
def test_algorithm_1_sees_units_that_one_order_misses(b: list[float], order: int) -> None:
    """For l = 1, b = 0 has no trace in T_3 and b = ±1 none in T_4: either order alone would miss units."""
    truth = _network([[1.0, 0.2, 0.0], [0.3, 1.0, 0.5], [-0.2, 0.1, 1.0]], b, [1.0, -2.0, 0.5])
    assert _mismatch(printed.algorithm_1(PopulationHermite(truth), order, rng=_rng()), truth) < 1e-10


def test_algorithm_1_finds_more_units_than_inputs() -> None:
    truth = _network(
        np.random.default_rng(2).standard_normal((5, 3)), np.linspace(-1, 1, 5), np.linspace(1, 2, 5)
    )
    units = printed.algorithm_1(PopulationHermite(truth), 2, rng=_rng())
    assert _mismatch(units, truth) < 1e-8
    assert units.values[4] > 1e-6 * units.values[0] > units.values[5]  # five units stand out


def test_exact_coefficients_tell_units_apart_that_algorithm_4_merges() -> None:
    """Rows 0.05 apart: Algorithm 1 merges what agrees to rounding, Algorithm 4 what agrees to η₃ = 0.1."""
    truth = _network([[1.0, 0.0, 0.0], [1.0, 0.05, 0.0], [0.0, 0.0, 1.0]], [0.5, -0.3, 0.2], [1.0, 1.5, 2.0])
    moments = PopulationHermite(truth)
    assert _mismatch(printed.algorithm_1(moments, 1, rng=_rng()), truth) < 1e-6  # the rows have condition 40
    assert len(printed.algorithm_4(moments, 1, rng=_rng()).W) == 2
    fine = Thresholds(angle=1e-6)
    assert _mismatch(printed.algorithm_4(moments, 1, rng=_rng(), thresholds=fine), truth) < 1e-6


# Algorithm 4 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("b", [[0.0, 0.0, 0.4], [1.0, -1.0, 0.4], [0.0, 1.0, -1.0]])
def test_algorithm_4_is_exact_for_exact_coefficients(b: list[float], order: int) -> None:
    truth = _network([[1.0, 0.2, 0.0], [0.3, 1.0, 0.5], [-0.2, 0.1, 1.0]], b, [1.0, -2.0, 0.5])
    assert _mismatch(printed.algorithm_4(PopulationHermite(truth), order, rng=_rng()), truth) < 1e-10


@pytest.mark.parametrize(
    ("weight", "eta", "count"),
    [
        (1.0, Thresholds(rank=1e-3), 2),
        (0.17, Thresholds(), 1),
        (0.17, Thresholds(weight=0.0), 1),  # the rank, η₁
        (0.17, Thresholds(rank=1e-3), 1),  # the size of a term, η₂
        (0.17, Thresholds(rank=1e-3, weight=0.1), 2),
    ],
)
def test_algorithm_4_drops_what_the_sampling_error_hides(weight: float, eta: Thresholds, count: int) -> None:
    """Orthogonal units with b = 1/2 and output weights 1 and a: |ζ_3| = 0.176 a, |ζ_4| = 0.264 a; error 0.05."""
    truth = _network(np.eye(2), [0.5, 0.5], [1.0, weight])
    found = printed.algorithm_4(_WithError(PopulationHermite(truth), 0.05), 1, rng=_rng(), thresholds=eta)
    assert len(found.W) == count
    assert found.noise == 0.05


def test_algorithm_4_keeps_the_strongest_units() -> None:
    truth = _network(np.eye(3), [0.5, 0.4, 0.3], [0.5, 3.0, 1.0])
    found = printed.algorithm_4(PopulationHermite(truth), 1, rng=_rng(), n_hidden=3)
    np.testing.assert_allclose(np.abs(found.A), [[3.0, 1.0, 0.5]], rtol=1e-8)
    assert len(printed.algorithm_4(PopulationHermite(truth), 1, rng=_rng(), n_hidden=2).W) == 2


# Algorithm 5 ---------------------------------------------------------------------------------------------------------


def test_algorithm_5_fits_units_of_any_sign_and_a_linear_part() -> None:
    """Five units of three inputs, one of them always on: four are seen, the linear part absorbs the fifth."""
    rng = np.random.default_rng(3)
    truth = _network(rng.standard_normal((5, 3)), [0.3, -0.5, 0.8, -0.1, 9.0], [1.0, -1.5, 2.0, 1.2, 0.7])
    X = rng.standard_normal((400, 3))
    rows = RowBlocks.from_arrays(X, truth(X))
    found = printed.algorithm_5(PopulationHermite(truth), rows, 2, rng=_rng())
    assert len(found.units.W) == 4
    assert found.coefficients.shape == (1, 2 * 4 + 3 + 1)
    assert found.truncated == 0.0
    fresh = rng.standard_normal((100, 3))
    assert (
        np.abs(found(fresh) - truth(fresh)).max() < 1e-6
    )  # the sums' squared condition costs half the digits
    linear = found.coefficients[0, 8:11] - found.coefficients[0, 4:8] @ found.units.W
    signs = np.sign(
        (found.units.W @ truth.W[:4].T)[np.arange(4), np.abs(found.units.W @ truth.W[:4].T).argmax(axis=1)]
    )
    turned = (
        found.units.A[0] * (signs < 0)
    ) @ found.units.W  # a unit σ(-t) = σ(t) - t leaves its own linear part
    np.testing.assert_allclose(linear + turned, 0.7 * truth.W[4], atol=1e-6)


def test_the_truncated_loss_leaves_out_long_features() -> None:
    """τ by hand for one unit of one input with a = 2, b = 1/2: B = 2; one wild row far beyond it does not count."""
    units = Units(np.ones((1, 1)), np.array([0.5]), np.array([[2.0]]), np.zeros(1), 0.0)
    tau, radius = printed._paper_bounds(units)
    assert tau == pytest.approx(20 * 1 * (8 * 1 + 1) * 2 * np.sqrt(np.log(1 * 1 * 2 * 1 / 0.01)))
    assert radius == pytest.approx(np.sqrt(8) + 1 * (1 + 2))
    X = np.append(np.linspace(-2, 2, 49), 2 * tau)[:, None]
    y = 2 * np.maximum(X + 0.5, 0)
    y[-1] = 1e9
    found = printed.regress_on_both_signs(units, RowBlocks.from_arrays(X, y))
    assert found.truncated == pytest.approx(1 / 50)
    np.testing.assert_allclose(found(X[:-1]), y[:-1], atol=1e-10)


def test_coefficients_end_on_the_ball() -> None:
    """Outputs a thousand times too large for the radius of step 4: the coefficients of the units stop at its length."""
    units = Units(np.ones((1, 1)), np.zeros(1), np.array([[1.0]]), np.zeros(1), 0.0)
    X = np.linspace(-2, 2, 50)[:, None]
    found = printed.regress_on_both_signs(units, RowBlocks.from_arrays(X, 1000 * np.maximum(X, 0)))
    assert np.linalg.norm(found.coefficients[:, :2]) == pytest.approx(np.sqrt(8) + 2)


def test_tau_and_radius_are_options() -> None:
    """A τ of three leaves out the rows with |φ(x)|² = 2x² + 1 > 9; a radius of seven ends the coefficients there."""
    units = Units(np.ones((1, 1)), np.zeros(1), np.array([[1.0]]), np.zeros(1), 0.0)
    X = np.linspace(-4, 4, 81)[:, None]
    rows = RowBlocks.from_arrays(X, 1000 * np.maximum(X, 0))
    found = printed.regress_on_both_signs(units, rows, tau=3.0, radius=7.0)
    assert found.truncated == pytest.approx(np.mean(2 * X**2 + 1 > 9))
    assert np.linalg.norm(found.coefficients[:, :2]) == pytest.approx(7.0)
    with pytest.raises(BadInputError, match=r"tau=0\.5 leaves out every row"):
        printed.regress_on_both_signs(units, rows, tau=0.5)


def test_features_are_both_signs_the_inputs_and_one() -> None:
    features = printed._Features(np.array([[2.0]]), np.array([1.0]))(np.array([[1.0], [-3.0]]))
    assert features.tolist() == [[3.0, 0.0, 1.0, 1.0], [0.0, 5.0, -3.0, 1.0]]


@pytest.mark.parametrize("seed", range(2))
def test_the_public_variant_is_algorithm_5_on_two_parts_of_the_rows(seed: int) -> None:
    """Moments of the rows 0 and 1 modulo 4, the regression of the rows 2: the same function after whitening and scaling."""
    options: dict[str, Any] = {"bias": (-1, 1), "outputs": "magnitudes", "random_state": 30 + seed}
    data = simulate.dataset(40_000, n_features=3, n_hidden=4, **options)
    answer = planted.recover(data.X, data.Y, 4, method="hermite", variant="paper", random_state=SOLVER)
    problem = prepare_problem(RowBlocks.from_arrays(data.X, data.Y), random_state=SOLVER)
    white = whiten_problem(problem)
    moments = SampleHermite(white.part(0, 1), white.sample.shape)
    found = printed.algorithm_5(moments, white.part(2), 2, rng=problem.rng, n_hidden=4)
    X, _ = problem.scaling.apply(data.X[:50], data.Y[:50])
    expected = found(X @ white.K) * problem.scaling.y_scale + problem.scaling.y_shift
    assert answer.network is not None and len(found.units.W) >= 1
    np.testing.assert_allclose(answer.network(data.X[:50]), expected, atol=1e-8 * data.Y.std())


# Algorithm 6 ---------------------------------------------------------------------------------------------------------


def test_algorithm_6_recovers_signs_and_all() -> None:
    """Theorem 3.1; the signs of the rows that Algorithm 4 leaves depend on the draws, those of Algorithm 6 do not."""
    truth = _network([[1.0, 0.2, 0.0], [0.3, 1.0, 0.5], [-0.2, 0.1, 1.0]], [0.5, -1.0, 0.0], [1.0, -2.0, 0.5])
    for seed in range(5):
        units, margin = printed.algorithm_6(PopulationHermite(truth), rng=np.random.default_rng(seed))
        found = TwoLayerNetwork(units.W, units.b, units.A)
        assert planted.parameter_error(found, truth) < 1e-10
        assert margin == pytest.approx(0.15865525, abs=1e-8)  # Φ(-1)


def test_algorithm_6_without_a_visible_unit() -> None:
    truth = _network(np.eye(2), [0.5, 0.5], [1e-3, 1e-3])
    units, margin = printed.algorithm_6(_WithError(PopulationHermite(truth), 1.0), rng=_rng())
    assert units.W.shape == (0, 2) and np.isnan(margin)


def test_flipped_units_turn_rows_and_biases() -> None:
    units = Units(np.eye(2), np.array([0.5, -0.25]), np.array([[1.0, 2.0]]), np.array([7.0]), 0.125)
    turned = printed.flip_units(units, np.array([1.0, -1.0]))
    assert turned.W.tolist() == [[1.0, 0.0], [0.0, -1.0]] and turned.b.tolist() == [0.5, 0.25]
    assert turned.A.tolist() == [[1.0, 2.0]]
    assert turned.values.tolist() == [7.0] and turned.noise == 0.125


@pytest.mark.parametrize("k", range(8))
def test_lemma_4_3_is_false_as_printed_and_true_two_degrees_higher(k: int) -> None:
    """max(|He_k|, |He_{k+1}|) falls below √(k!/2) for k = 1 to 7; of the degrees k+1 and k+2 it does not, for k ≥ 1."""
    values = np.abs(hermite_values(np.linspace(-12, 12, 240_001), k + 2))
    bound = np.sqrt(factorial(k) / 2)
    printed_least = np.maximum(values[k], values[k + 1]).min()
    least = np.maximum(values[k + 1], values[k + 2]).min()
    assert printed_least > 0.6, "no common root, which is all that the algorithms need"
    if k >= 1:
        assert printed_least < bound <= least
    else:
        assert least == pytest.approx((np.sqrt(5) - 1) / 2, abs=1e-4)
        assert least < bound <= printed_least


@pytest.mark.parametrize(("d", "k", "order"), [(3, 10, 3), (4, 19, 3), (3, 14, 4), (2, 3, 3)])
def test_algorithm_1_finds_as_many_units_as_there_are_products(d: int, k: int, order: int) -> None:
    """Up to C(d+l-1, l) of them; with the squares of order 2 in their place eight units of seven were once returned."""
    truth = simulate.teacher(d, k, bias=(-1, 1), outputs="magnitudes", random_state=k)
    units = printed.algorithm_1(PopulationHermite(truth), order, rng=_rng())
    assert units.W.shape == (k, d)
    assert _mismatch(units, truth) < 1e-6  # conditioning: 1e-9 at most in twenty draws


def test_algorithm_4_of_order_three_finds_units_that_order_two_merges() -> None:
    """Seven units of three inputs: their squares are dependent, and order 2 cannot show seven."""
    truth = simulate.teacher(3, 7, bias=(-1, 1), outputs="magnitudes", random_state=3)
    moments = PopulationHermite(truth)
    assert _mismatch(printed.algorithm_4(moments, 3, rng=_rng()), truth) < 1e-8
    lower = printed.algorithm_4(moments, 2, rng=_rng())
    assert len(lower.W) != 7 or _mismatch(lower, truth) > 0.01


@pytest.mark.parametrize("seed", range(3))
def test_proposition_b_1_the_risk_is_the_distance_of_the_coefficients(seed: int) -> None:
    """E|f - g|² = Σ_j |T_j(f) - T_j(g)|²/j!; the series to order 80 against 400,000 samples, four standard errors."""
    f, g = (
        simulate.teacher(3, k, bias=(-1, 1), outputs="magnitudes", random_state=10 * seed + k) for k in (2, 4)
    )
    W, b, a = np.vstack([f.W, g.W]), np.concatenate([f.b, g.b]), np.concatenate([f.A[0], -g.A[0]])
    weights = a * relu_coefficients(b, 80) / np.sqrt([float(factorial(j)) for j in range(81)])[:, None]
    cosines = W @ W.T
    terms = [w @ cosines**j @ w for j, w in enumerate(weights)]
    X = simulate.inputs(400_000, 3, random_state=900 + seed)
    squares = (f(X) - g(X))[:, 0] ** 2
    assert (np.array(terms) >= -1e-12).all()
    rest = 80 ** (5 / 2) * max(terms[-2:]) / 1.5 / 80**1.5  # the terms fall like j^(-5/2)
    assert abs(sum(terms) - squares.mean()) < 4 * squares.std() / np.sqrt(len(X)) + rest
    assert abs(sum(terms[1:]) - squares.mean()) > 4 * squares.std() / np.sqrt(len(X)), "every order counts"


def test_the_edge_of_noise_by_hand() -> None:
    assert [printed.noise_edge(count) for count in (1, 4, 9)] == [1.0, 1.5, 2.0]


def test_rows_at_the_distance_itself_count_as_one_and_none_stay_none() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 1.0]])
    distance = float(np.linalg.norm(rows[0] - rows[1]))
    assert len(printed.merge_duplicates(rows, distance)) == 1
    assert len(printed.merge_duplicates(rows, 0.99 * distance)) == 2
    assert printed.merge_duplicates(rows[:0], 0.1).shape == (0, 2)


def test_a_known_number_bounds_the_rank_and_the_boxes_pass_on_what_they_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Algorithms 5 and 6 are Algorithm 4 first: the number of units and the η must reach it."""
    truth = _network([[1, 0, 0], [0.3, 1, 0], [0, 0.2, 1]], [0.2, -0.3, 0.4], [1.0, 2.0, 0.05])
    moments, ranks = PopulationHermite(truth), list[int]()
    plain = printed._rank_one_rows
    monkeypatch.setattr(printed, "_rank_one_rows", lambda *given: ranks.append(given[3]) or plain(*given))
    X = np.random.default_rng(0).standard_normal((50, 3))
    rows = RowBlocks.from_arrays(X, truth(X))
    coarse = Thresholds(angle=1.5)  # all directions count as one
    for box in (
        lambda **given: printed.algorithm_4(moments, 1, rng=_rng(), **given),
        lambda **given: printed.algorithm_5(moments, rows, 1, rng=_rng(), **given).units,
        lambda **given: printed.algorithm_6(moments, rng=_rng(), **given)[0],
    ):
        ranks.clear()
        assert len(box(n_hidden=2).W) == 2 and ranks == [2, 2]
        assert len(box(thresholds=coarse).W) == 1 and ranks[2:] == [3, 3]
        assert box().noise == 0.0


@pytest.mark.parametrize("scale", [1e-5, 1e5])
def test_the_floor_of_exact_coefficients_is_relative(scale: float) -> None:
    """Units that show in even orders alone, with outputs of any size."""
    truth = _network(
        [[1, 0, 0], [0.3, 1, 0], [0, 0.2, 1]], [0.0, 0.0, 0.0], scale * np.array([1.0, 2.0, 1.5])
    )
    units = printed.algorithm_1(PopulationHermite(truth), 1, rng=_rng())
    assert units.W.shape == (3, 3)
    assert np.abs(np.abs(units.A).sum() / truth.A.sum() - 1) < 1e-9
