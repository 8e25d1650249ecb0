"""The theorems on memorising, as tests: [GWZ20] and the linear problem behind it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planted
from planted._streams import data_streams
from planted.checks import Check
from planted.memorization._theory import (
    TheoremFacts,
    curvature_matrix,
    hessian_product,
    landscape_bound,
    smallest_hessian_eigenvalue,
    smoothed_singular_value_bound,
)
from planted.memorization.printed import descent_constants
from planted.memorization.solvers._kernel import form_kernel, monomials
from planted.outcomes import DataWarning

SOLVERS: dict[str, dict[str, Any]] = {
    "auto": {},
    "direct": {},
    "cg": {},
    "low-rank": {},
    "ridge": {"penalty": 1e-8},
    "pgd": {"width": 300},
    "lbfgs": {"width": 300},
}


def uniform_data(n: int, d: int, seed: int) -> tuple[Any, Any]:
    """Return the paper's synthetic example: uniform entries, unit rows, uniform labels."""
    rows, labels = data_streams(seed, 2)
    X = rows.uniform(-1, 1, (n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True), labels.uniform(-1, 1, n)


def quadratic_matrix(network: Any) -> Any:
    """Return M = W'diag(a)W."""
    return network.W.T @ (network.A[0][:, None] * network.W)


def loss(network: Any, X: Any, y: Any) -> float:
    return float(np.mean((network(X)[:, 0] - y) ** 2) / 4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_memorises_the_synthetic_example(solver: str) -> None:
    X, y = uniform_data(300, 100, 1)
    memory = planted.memorize(X, y, solver=solver, random_state=7, **SOLVERS[solver])
    assert memory.outcome.name == "MEMORISED"
    assert loss(memory.network, X, y) <= 1e-10  # the target's number
    assert memory.loss == pytest.approx(loss(memory.network, X, y), rel=1e-6)
    assert set(np.unique(memory.network.A)) <= {-1.0, 1.0}
    assert all(item.passed for item in memory.evidence)


def test_adam_memorises_the_synthetic_example() -> None:
    pytest.importorskip("torch")
    X, y = uniform_data(40, 20, 1)
    options = {"learning_rate": 0.03, "batch_size": 40, "decay": 0.5, "decay_every": 60, "max_epochs": 800}
    memory = planted.memorize(X, y, solver="adam", precision="float64", random_state=7, **options)
    assert memory.outcome.name == "MEMORISED" and loss(memory.network, X, y) <= 1e-10


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_memorises_almost_up_to_the_dimension_of_the_quadratic_forms(share: float) -> None:
    d = 40
    n = int(share * d * (d + 1) / 2)
    X, y = uniform_data(n, d, 2)
    memory = planted.memorize(X, y)
    assert loss(memory.network, X, y) <= 1e-10
    assert memory.network.n_hidden <= d  # the linear solution needs d units, the theorem 2d + 2


def test_least_norm_solution_agrees_with_least_squares_on_monomials() -> None:
    X, y = uniform_data(60, 12, 3)
    memory = planted.memorize(X, y, solver="direct")
    solution, *_ = np.linalg.lstsq(monomials(X), y, rcond=None)
    fresh, _ = uniform_data(20, 12, 4)
    # Rounding is amplified by the condition number of the monomials, below 1e3 here.
    np.testing.assert_allclose(memory.network(fresh)[:, 0], monomials(fresh) @ solution, atol=1e-10)


def test_kernel_is_the_gram_matrix_of_tensor_squares() -> None:
    X, _ = uniform_data(9, 5, 5)
    tensors = np.array([np.kron(x, x) for x in X])
    np.testing.assert_allclose(form_kernel(X), tensors @ tensors.T, atol=1e-14)
    np.testing.assert_allclose(monomials(X) @ monomials(X).T, tensors @ tensors.T, atol=1e-14)


def test_rotating_inputs_and_scaling_labels_transforms_the_answer() -> None:
    X, y = uniform_data(50, 12, 6)
    rotation = np.linalg.qr(data_streams(8, 1)[0].standard_normal((12, 12)))[0]
    fresh, _ = uniform_data(10, 12, 9)
    plain = planted.memorize(X, y).network(fresh)
    np.testing.assert_allclose(planted.memorize(X @ rotation, y).network(fresh @ rotation), plain, atol=1e-10)
    np.testing.assert_allclose(planted.memorize(X, -7 * y).network(fresh), -7 * plain, atol=1e-10)
    np.testing.assert_allclose(planted.memorize(1e150 * X, y).network(1e150 * fresh), plain, atol=1e-10)
    np.testing.assert_allclose(planted.memorize(1e-150 * X, y).network(1e-150 * fresh), plain, atol=1e-10)


def test_lemma_3_smallest_hessian_eigenvalue_is_the_norm_of_the_curvature_matrix() -> None:
    X, y = uniform_data(30, 6, 10)
    (rng,) = data_streams(11, 1)
    width = 2 * 6 + 2
    W, a = rng.standard_normal((width, 6)), np.repeat([1.0, -1.0], width // 2)
    residual = ((X @ W.T) ** 2) @ a - y
    start = rng.standard_normal(W.shape)
    lanczos = smallest_hessian_eigenvalue(X, y, W=W, a=a, start=start, max_restarts=200)
    assert lanczos == pytest.approx(-np.linalg.norm(curvature_matrix(X, residual), 2), rel=1e-6)


def test_hessian_product_agrees_with_differences_of_the_gradient() -> None:
    from planted.memorization.solvers._weights import loss_and_gradient

    X, y = uniform_data(20, 5, 12)
    (rng,) = data_streams(13, 1)
    W, V, a = rng.standard_normal((6, 5)), rng.standard_normal((6, 5)), np.repeat([1.0, -1.0], 3)
    step = 1e-5
    above, below = (loss_and_gradient(X, y, W + sign * step * V, a)[1] for sign in (1, -1))
    curvature = curvature_matrix(X, ((X @ W.T) ** 2) @ a - y)
    product = hessian_product(X, curvature, W=W, a=a, direction=V)
    # Central differences of a cubic gradient: error step² times its third derivative, about 1e-9 here.
    np.testing.assert_allclose(product, (above - below) / (2 * step), atol=1e-8)


def test_lemma_1_bounds_the_loss_at_any_point() -> None:
    X, y = uniform_data(40, 10, 14)
    sigma = float(np.sqrt(np.linalg.eigvalsh(form_kernel(X))[0]))
    a = np.repeat([1.0, -1.0], 11)
    for rng in data_streams(15, 5):
        residual = ((X @ rng.standard_normal((22, 10)).T) ** 2) @ a - y
        curvature = float(np.linalg.norm(curvature_matrix(X, residual), 2))
        bound = landscape_bound(40, 10, curvature=curvature, sigma=sigma)
        assert np.mean(residual**2) / 4 <= bound


def test_theorem_4_constants_cannot_be_run_and_say_so() -> None:
    X, y = uniform_data(60, 12, 16)
    memory = planted.memorize(X, y, solver="pgd", constants="theorem", max_iter=5, random_state=0)
    assert memory.outcome.name == "STOPPED_EARLY"
    assert memory.stats["constants"]["step"] < 1e-2 and memory.stats["constants"]["wait"] > 1e6
    assert memory.stats["predicted_iterations"] > 1e12
    assert memory.stats["perturbations"] == 1  # the start is a saddle: line 4 of Algorithm 1 applies at once


def test_theorem_4_constants_follow_its_formulas() -> None:
    facts = {"sigma": 0.5, "largest_norm": 2.0, "largest_label": 3.0, "initial_loss": 1.0, "epsilon": 0.1}
    told = TheoremFacts(10, 4, **facts)
    constants = descent_constants(4, told.descent_input())
    gamma = np.sqrt(0.25 * 0.1 / 40)
    ell = 3 * 16 * 2 * 2 / gamma + 3 * 4 + gamma
    assert told.penalty == pytest.approx(gamma, rel=1e-12)
    assert constants.step == pytest.approx(1 / ell, rel=1e-12)
    # √(ρε') = γ: the choice that makes regularisation and curvature tolerance equal in the proof.
    rho = 6 * 16 * np.sqrt(2 * 2) * (40 / (0.25 * 0.1)) ** 0.25
    stationarity = gamma**2 / rho
    chi = 3 * max(np.log(4 * ell * 2 / (stationarity**2 * 0.1)), 4)
    assert constants.wait == pytest.approx(chi * ell / gamma, rel=1e-9)
    assert constants.radius == pytest.approx(stationarity / (chi**2 * ell), rel=1e-9)


def test_theorem_5_three_layers_memorise_more_than_two() -> None:
    d, n = 20, 400  # d(d+1)/2 = 210
    X, y = uniform_data(n, d, 17)
    two = planted.memorize(X, y)
    three = planted.memorize(X, y, layers=3, random_state=0, smoothing=0.05)
    assert two.outcome.name == "TOO_MANY_SAMPLES"
    assert three.outcome.name == "MEMORISED" and loss(three.network, X, y) <= 1e-10
    assert three.network.R.shape == (2 * 20, d)  # 2⌈√n⌉ features
    for key in (Check.INDEPENDENT_FEATURES, Check.FEATURES, Check.KERNEL):  # Lemma 2, Theorem 5 and Theorem 6
        (item,) = three.find(key)
        assert item.passed


def test_lemma_2_bound_lies_below_the_measured_singular_value() -> None:
    X, y = uniform_data(30, 40, 18)
    noise = 0.1 * data_streams(19, 1)[0].standard_normal(X.shape)
    memory = planted.memorize(X + noise, y, layers=3, n_random=12, random_state=1)
    bound = smoothed_singular_value_bound(30, 40, n_random=12, power=2, variance=0.01)
    assert 0 < bound <= memory.conditions["sigma_min"]


def test_power_three_and_several_outputs() -> None:
    X, _ = uniform_data(90, 12, 20)
    Y = data_streams(21, 1)[0].integers(0, 10, (90, 3)).astype(float)
    memory = planted.memorize(X, Y, layers=3, power=3, random_state=0)
    assert memory.outcome.name == "MEMORISED"
    np.testing.assert_allclose(memory.network(X), Y, atol=1e-6)


def test_rank_three_teacher_is_found_by_low_rank_and_missed_by_least_norm() -> None:
    network = planted.simulate.teacher(60, 3, activation="quadratic", random_state=2)
    data = planted.simulate.dataset(1500, network, random_state=2)
    fresh = planted.simulate.dataset(1000, network, random_state=102)
    errors = {}
    for solver in ("low-rank", "direct"):
        memory = planted.memorize(data.X, data.Y, solver=solver, random_state=3)
        assert memory.outcome.name == "MEMORISED"
        errors[solver] = float(np.mean((memory.network(fresh.X) - fresh.Y) ** 2) / np.mean(fresh.Y**2))
        if solver == "low-rank":
            assert memory.network.n_hidden == 3
            # Units of a quadratic network are defined up to rotations that keep M: M is what can be found.
            np.testing.assert_allclose(
                quadratic_matrix(memory.network), quadratic_matrix(network), atol=1e-10
            )
    assert errors["low-rank"] <= 1e-6  # the target's number
    assert errors["direct"] > 1e-2  # memorising is not generalising


def test_contradictory_labels_are_named() -> None:
    X, y = uniform_data(30, 12, 22)
    X[7] = -X[3]  # a quadratic network cannot tell x from -x
    memory = planted.memorize(X, y)
    assert memory.outcome.name == "CONTRADICTION" and "Rows 3 and 7" in memory.detail
    X[7] = X[3]
    assert planted.memorize(X, y, bias=True).outcome.name == "CONTRADICTION"
    y[7] = y[3]
    assert planted.memorize(X, y).outcome.name == "MEMORISED"


def test_more_samples_than_dimensions() -> None:
    X, y = uniform_data(60, 6, 23)
    memory = planted.memorize(X, y)
    assert memory.outcome.name == "TOO_MANY_SAMPLES" and "layers=3" in memory.advice
    best, *_ = np.linalg.lstsq(monomials(X), y, rcond=None)
    assert loss(memory.network, X, y) == pytest.approx(np.mean((monomials(X) @ best - y) ** 2) / 4, rel=1e-9)


def test_zero_rows() -> None:
    X, y = uniform_data(30, 12, 24)
    X[5] = 0
    memory = planted.memorize(X, y)
    assert memory.outcome.name == "CONTRADICTION" and "Row 5 is zero" in memory.detail
    y[5] = 0
    assert planted.memorize(X, y).outcome.name == "MEMORISED"
    y[5] = 1
    assert planted.memorize(X, y, bias=True).outcome.name == "MEMORISED"


def test_dependent_products_are_told_from_contradictions() -> None:
    X, y = uniform_data(30, 12, 25)
    X[:, 3:] = 0  # products of three columns span 6 dimensions
    with pytest.warns(DataWarning, match="constant"):
        memory = planted.memorize(X, y)
    assert memory.outcome.name == "DEPENDENT_INPUTS" and "rank of [x⊗x] is 6" in memory.detail
    assert "fallback" in memory.stats


@pytest.mark.parametrize("spread", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("seed", range(2))
def test_rows_close_to_one_another_are_independent(spread: float, seed: int) -> None:
    """x₀ + spread · N: the kernel squares the condition number and looks singular, the products themselves do not."""
    rng = np.random.default_rng([seed, 61])
    X = rng.standard_normal(25) + spread * rng.standard_normal((200, 25))
    y = rng.uniform(-1, 1, 200)
    memory = planted.memorize(X, y)
    values = np.linalg.svd(monomials(X), compute_uv=False)
    assert memory.conditions["rank"] == 200 and "fallback" not in memory.stats
    scale = np.mean(np.sum(X**2, axis=1))
    assert memory.conditions["sigma_min"] == pytest.approx(values[-1] / scale, rel=1e-3)
    assert memory.outcome.name == "MEMORISED" and memory.conditions["relative_loss"] <= 1e-12
    other = planted.memorize(X, y, solver="cg", max_iter=3)
    assert other.conditions["rank"] == 200, "the condition is the same whoever solves"


def test_dependent_rows_stay_dependent_at_any_scale() -> None:
    """Three rows on a line have products of rank three, four do not; rounding of the products is no rank."""
    rng = np.random.default_rng(62)
    base, along = rng.standard_normal((2, 12))
    for scale in (1e-3, 1.0, 1e5):
        X = scale * (base + rng.standard_normal((8, 1)) * along)
        memory = planted.memorize(X, rng.standard_normal(8))
        assert memory.outcome.name == "DEPENDENT_INPUTS" and memory.conditions["rank"] == 3


@pytest.mark.parametrize(("d", "n"), [(2, 10), (3, 20)])
def test_three_layers_have_at_most_the_dimensions_of_their_forms(d: int, n: int) -> None:
    """Forms of degree 4 in d inputs have C(d+3, 4) dimensions, 5 or 15, however many random features there are."""
    X, y = uniform_data(n, d, 63)
    memory = planted.memorize(X, y, layers=3, n_random=40, random_state=1)
    assert memory.conditions["capacity"] == (5 if d == 2 else 15) < 40 * 41 / 2
    assert memory.outcome.name == "TOO_MANY_SAMPLES"
    assert "layers=3" not in str(memory) and "higher power" in memory.advice
    fewer = planted.memorize(X[: 4 * d], y[: 4 * d], layers=3, n_random=40, random_state=1)
    assert fewer.outcome.name == ("TOO_MANY_SAMPLES" if d == 2 else "MEMORISED")


def test_algorithm_1_that_ends_by_its_own_rule_is_said_to_have_converged() -> None:
    """n = d = 1: Theorem 4's constants end after some thousand steps, with f ≤ ε; fifty steps are too few."""
    X, y = np.array([[1.0]]), np.array([1.0])
    memory = planted.memorize(
        X, y, solver="pgd", constants="theorem", epsilon=0.1, max_iter=200_000, random_state=0
    )
    steps = memory.stats["iterations"]
    assert (
        memory.outcome.name == "CONVERGED" and memory.conditions["relative_loss"] <= 0.1 and steps < 200_000
    )
    short = planted.memorize(
        X, y, solver="pgd", constants="theorem", epsilon=0.1, max_iter=50, random_state=0
    )
    assert short.outcome.name == "STOPPED_EARLY"


def test_constant_labels_are_memorised() -> None:
    X, _ = uniform_data(30, 12, 26)
    for bias in (False, True):
        with pytest.warns(DataWarning, match="constant"):
            memory = planted.memorize(X, np.full(30, 4.0), bias=bias)
        assert memory.outcome.name == "MEMORISED"
        np.testing.assert_allclose(memory.network(X)[:, 0], 4.0, atol=1e-9)


def test_missing_values_are_refused_with_their_place() -> None:
    X, y = uniform_data(30, 12, 27)
    X[4, 2] = np.nan
    with pytest.raises(ValueError, match="row 4, column 2"):
        planted.memorize(X, y)


def test_same_seed_same_bits() -> None:
    X, y = uniform_data(40, 12, 28)
    for solver in ("lbfgs", "pgd"):
        first, second = (planted.memorize(X, y, solver=solver, random_state=5) for _ in range(2))
        assert first.network.W.tobytes() == second.network.W.tobytes()


def test_the_fused_step_of_adam_is_asked_for_and_is_the_same_step(monkeypatch):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((20, 4)), rng.standard_normal(20)
    plain_adam, asked = torch.optim.Adam, []
    monkeypatch.setattr(
        torch.optim, "Adam", lambda *a, **given: asked.append(given["fused"]) or plain_adam(*a, **given)
    )
    fused, plain = (
        planted.memorize(X, y, solver="adam", width=12, max_epochs=20, fused=choice, random_state=0)
        for choice in (True, False)
    )
    assert asked == [True, False]
    np.testing.assert_allclose(fused.network(X), plain.network(X), rtol=1e-3, atol=1e-4)
