"""Each step of memorising, with numbers worked by hand or by a second route."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planted
from planted._clock import time_budget
from planted._streams import data_streams
from planted._validation import check_rows
from planted.memorization._evidence import find_contradiction
from planted.memorization._memorize import SOLVERS
from planted.memorization._task import (
    MemoryTask,
    kernel_product,
    merge_curves,
    quadratic_forms,
    signed_units,
    weighted_gram,
)
from planted.memorization.solvers._cg import _smoothed, pair_preconditioner, solve_cg
from planted.memorization.solvers._kernel import form_kernel, solve_ridge
from planted.memorization.solvers._weights import check_width, loss_and_gradient
from planted.networks import ThreeLayerNetwork
from planted.outcomes import BadInputError


def rows_of(n: int, d: int, seed: int, decay: float = 1.0) -> Any:
    """Return rows whose columns shrink by a factor, of root-mean-square norm one."""
    (rng,) = data_streams(seed, 1)
    Z = rng.standard_normal((n, d)) * decay ** np.arange(d)
    return Z / np.sqrt(np.mean(np.sum(Z**2, axis=1)))


def task_of(Z: Any, y: Any, tol: float = 1e-12) -> MemoryTask:
    return MemoryTask(Z, y[:, None], data_streams(99, 1)[0], tol)


@pytest.mark.parametrize(("dtype", "tol"), [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_products_agree_with_the_plain_formulas(dtype: Any, tol: float) -> None:
    Z = rows_of(9001, 7, 0).astype(dtype)  # more rows than one block
    v = data_streams(1, 1)[0].standard_normal(9001).astype(dtype)
    S = Z.T @ (v[:, None] * Z)
    scale = float(np.abs(v).sum()) / 9001
    np.testing.assert_allclose(weighted_gram(Z, v), S, atol=9001 * scale * tol)
    np.testing.assert_allclose(
        quadratic_forms(Z, S), np.einsum("ij,jk,ik->i", Z, S, Z), atol=9001 * scale * tol
    )
    few = Z[:50]
    np.testing.assert_allclose(
        kernel_product(few, v[:50]), (few @ few.T) ** 2 @ v[:50], atol=50 * scale * tol
    )


def test_signed_units_rebuild_their_matrices() -> None:
    (rng,) = data_streams(2, 1)
    matrices = rng.standard_normal((2, 5, 5))
    matrices = matrices + matrices.transpose(0, 2, 1)
    W, A = signed_units(matrices)
    assert W.shape == (10, 5) and set(np.unique(A)) == {-1.0, 0.0, 1.0}
    for matrix, signs in zip(matrices, A, strict=True):
        np.testing.assert_allclose(W.T @ (signs[:, None] * W), matrix, atol=1e-13)


def test_gradient_agrees_with_autograd() -> None:
    torch = pytest.importorskip("torch")
    Z, y = rows_of(12, 4, 3), data_streams(4, 1)[0].standard_normal(12)
    W, a = data_streams(5, 1)[0].standard_normal((6, 4)), np.repeat([1.0, -1.0], 3)
    value, gradient = loss_and_gradient(Z, y, W, a)
    weights = torch.tensor(W, requires_grad=True)
    outputs = (torch.tensor(Z) @ weights.T).square() @ torch.tensor(a)
    loss = (outputs - torch.tensor(y)).square().mean() / 4
    loss.backward()
    assert value == pytest.approx(float(loss.detach()), rel=1e-13)
    np.testing.assert_allclose(gradient, weights.grad.numpy(), atol=1e-13)


def test_preconditioner_inverts_low_rank_plus_diagonal() -> None:
    Z = rows_of(60, 6, 6, decay=0.5)
    apply, n_columns = pair_preconditioner(Z, n_pairs=5)
    assert n_columns == 5
    inverse = np.column_stack([apply(column) for column in np.eye(60)])
    P = np.linalg.inv(inverse)
    # P = LL' + D has the kernel's diagonal, and differs from its diagonal part by rank five; float32 inside.
    diagonal = np.diag(form_kernel(Z))
    # D has a floor of 1e-4 of the mean diagonal.
    np.testing.assert_allclose(np.diag(P), diagonal, rtol=1e-3, atol=2e-4 * diagonal.mean())
    remainder = form_kernel(Z) - P
    assert np.linalg.norm(remainder, 2) < 0.1 * np.linalg.norm(form_kernel(Z), 2)


def test_pairs_save_iterations_where_the_spectrum_decays() -> None:
    Z, y = rows_of(400, 40, 7, decay=0.9), data_streams(8, 1)[0].standard_normal(400)
    iterations = {n: solve_cg(task_of(Z, y), n_pairs=n, max_iter=3000).curve[-1][0] for n in (0, 150)}
    assert iterations[150] < iterations[0] / 2


def test_float32_products_reach_float64_accuracy() -> None:
    Z, y = rows_of(300, 40, 9), data_streams(10, 1)[0].standard_normal(300)
    fit = solve_cg(task_of(Z, y, tol=1e-22), precision="float32", max_iter=1000)
    error = (Z @ fit.W.T) ** 2 @ fit.A[0] - y
    # A float32 residual would stall near 1e-14 of the mean square.
    assert np.mean(error**2) / 4 < 1e-20


@pytest.mark.parametrize("seed", range(4))
def test_on_a_singular_kernel_the_loss_falls_and_comes_near_that_of_least_squares(seed: int) -> None:
    """60 labels and 21 products of six inputs: conjugate gradients alone end at once, above the loss of no network."""
    rng = np.random.default_rng(seed)
    Z, y = rng.standard_normal((60, 6)), rng.standard_normal(60)
    products = np.einsum("ia,ib->iab", Z, Z).reshape(60, 36)
    left = y - products @ np.linalg.lstsq(products, y, rcond=None)[0]
    fit = solve_cg(task_of(Z, y), max_iter=100)
    losses = [loss for _, loss in fit.curve]
    reached = np.mean(((Z @ fit.W.T) ** 2 @ fit.A[0] - y) ** 2) / 4
    assert losses == sorted(losses, reverse=True)
    assert reached == pytest.approx(losses[-1], rel=1e-6)
    assert reached < 1.1 * np.mean(left**2) / 4


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_iterate_that_overflowed_does_not_replace_the_smoothed_one(bad: float) -> None:
    best = (np.array([1.0, 2.0]), np.array([0.5, -0.5]))
    with np.errstate(invalid="ignore", over="ignore"):
        kept = _smoothed(best, (np.full(2, bad), np.full(2, bad)))
    assert kept is best
    moved = _smoothed(best, (np.array([3.0, 2.0]), np.array([-0.5, -0.5])))
    np.testing.assert_allclose(moved, ([2.0, 2.0], [0.0, -0.5]))


def test_curves_of_outputs_are_added() -> None:
    assert merge_curves([[4.0, 2.0, 1.0], [3.0]]) == ((0, 7.0), (1, 5.0), (2, 4.0))


def test_ridge_chooses_its_penalty_on_rows_held_out() -> None:
    network = planted.simulate.teacher(20, 2, activation="quadratic", random_state=0)
    data = planted.simulate.dataset(150, network, noise=1.0, random_state=1)
    Z = data.X / np.sqrt(20)
    fit = solve_ridge(task_of(Z, data.Y[:, 0]))
    errors = fit.notes["validation_errors"]
    assert fit.notes["penalty"] > 1e-10  # noise makes the smallest penalty a bad one
    assert min(errors) < errors[0]


def test_low_rank_with_validation_finds_the_rank_under_noise() -> None:
    network = planted.simulate.teacher(15, 2, activation="quadratic", outputs="magnitudes", random_state=3)
    data = planted.simulate.dataset(600, network, noise=0.1, random_state=4)
    memory = planted.memorize(data.X, data.Y, solver="low-rank", validation_fraction=0.25, random_state=5)
    assert memory.outcome.name == "FITTED" and memory.stats["ranks"] == [2]
    # Thirty parameters, 600 samples: the excess error is about σ² · 30/600 = 5e-4; ten times that allows for the draw.
    fresh = planted.simulate.dataset(1000, network, random_state=6)
    assert np.mean((memory.network(fresh.X) - fresh.Y_clean) ** 2) < 5e-3


def test_three_layer_network_by_hand() -> None:
    head = planted.TwoLayerNetwork(W=[[1.0, 1.0]], A=[[-1.0]], c=[2.0], activation="quadratic")
    network = ThreeLayerNetwork(np.array([[1.0], [2.0]]), np.array([0.0, 1.0]), 3, head)
    np.testing.assert_array_equal(network.features([[1.0]]), [[1.0, 27.0]])
    np.testing.assert_array_equal(network([[1.0]]), [[2.0 - 28.0**2]])
    with pytest.raises(BadInputError, match="expected"):
        network([[1.0, 2.0]])
    with pytest.raises(BadInputError, match="power"):
        ThreeLayerNetwork(np.ones((2, 1)), np.zeros(2), 1, head)


def test_contradictions_are_found_up_to_sign_only_without_bias() -> None:
    data = check_rows([[1.0, 2.0], [0.5, 1.0], [-1.0, -2.0]], [1.0, 5.0, 2.0])
    assert "Rows 0 and 2" in find_contradiction(data, has_bias=False)
    assert find_contradiction(data, has_bias=True) == ""


def test_bias_makes_offsets_of_inputs_harmless() -> None:
    X, y = rows_of(40, 12, 11), data_streams(12, 1)[0].standard_normal(40)
    plain = planted.memorize(X, y, bias=True)
    moved = planted.memorize(X + 1e6, y, bias=True)
    assert plain.outcome.name == moved.outcome.name == "MEMORISED"
    # An offset of 1e6 leaves ten of sixteen digits to the inputs.
    np.testing.assert_allclose(moved.network(X + 1e6), plain.network(X), atol=1e-5)


def test_unknown_choices_are_refused() -> None:
    X, y = rows_of(20, 8, 13), np.arange(20.0)
    for options, text in (
        ({"layers": 4}, "expected 2 or 3"),
        ({"solver": "newton"}, "known are auto, direct"),
        ({"solver": "direct", "rank": 2}, "no option rank"),
        ({"power": 2}, "only with layers=3"),
        ({"layers": 3, "power": 1}, "from 2 to 64"),
        ({"layers": 3, "power": 65}, "from 2 to 64"),
        ({"layers": 3, "power": 2.0}, "from 2 to 64"),
        ({"layers": 3, "n_random": 0}, "at least 1"),
        ({"layers": 3, "feature_std": 0.0}, "positive"),
        ({"layers": 3, "smoothing": -1.0}, "not negative"),
        ({"solver": "pgd", "width": 3}, "even number"),
        ({"solver": "pgd", "constants": "lucky"}, "'practical' or 'theorem'"),
        ({"solver": "ridge", "penalty": -1.0}, "zero or more"),
        ({"solver": "cg", "precision": "half"}, "float32"),
        ({"tol": 0.0}, "positive"),
        ({"tol": float("nan")}, "positive"),
        ({"solver": "ridge", "penalty": float("nan")}, "zero or more"),
        ({"solver": "ridge", "penalty": "guess"}, "'validate' or a number"),
        ({"solver": "ridge", "validation_fraction": 1.0}, "between 0 and 1"),
        ({"solver": "low-rank", "validation_fraction": 1.0}, "below 1"),
        ({"solver": "low-rank", "rank": 0}, "at least 1"),
        ({"solver": "cg", "n_pairs": -1}, "zero or more"),
        ({"solver": "cg", "max_iter": 0}, "at least 1"),
        ({"solver": "lbfgs", "max_iter": 2.5}, "at least 1"),
        ({"solver": "lbfgs", "scale": 0.0}, "saddle"),
        ({"solver": "pgd", "epsilon": 0.0}, "positive loss"),
        ({"solver": "pgd", "delta": 1.0}, "probability"),
    ):
        with pytest.raises(BadInputError, match=text):
            planted.memorize(X, y, **options)
    assert check_width("auto", 8) == 18 and set(SOLVERS) >= {"direct", "cg", "pgd", "adam", "lbfgs"}


def test_absent_torch_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(BadInputError, match=r"planted\[torch\]"):
        planted.memorize(rows_of(20, 8, 14), np.arange(20.0), solver="adam")


STOPPABLE: dict[str, dict[str, Any]] = {
    "cg": {"n_pairs": 0},
    "pgd": {},
    "lbfgs": {},
    "low-rank": {},
    "adam": {"max_epochs": 10_000},
}


@pytest.mark.parametrize("solver", STOPPABLE)
def test_an_interrupted_solver_returns_what_it_has_reached(solver: str) -> None:
    if solver == "adam":
        pytest.importorskip("torch")
    X, Y = rows_of(100, 20, 15), data_streams(16, 1)[0].standard_normal((100, 2))
    calls = []

    def press_keys(what: str, fraction: float) -> None:
        calls.append(what)
        raise KeyboardInterrupt

    memory = planted.memorize(X, Y, solver=solver, progress=press_keys, random_state=1, **STOPPABLE[solver])
    assert memory.outcome.name in ("STOPPED_EARLY", "FITTED")
    assert memory.stats["interrupted_by"] == "Ctrl-C" and len(calls) == 1  # the second output is not begun
    assert memory.loss < np.mean(np.sum(Y**2, axis=1))  # and the network is whole


@pytest.mark.parametrize("solver", ["cg", "pgd", "lbfgs", "low-rank"])
def test_a_time_budget_ends_a_solver(solver: str) -> None:
    X, y = rows_of(100, 20, 17), data_streams(18, 1)[0].standard_normal(100)
    with time_budget(0.0):
        memory = planted.memorize(X, y, solver=solver, random_state=1)
    assert memory.stats["interrupted_by"] == "time budget"
    assert memory.outcome.name in ("STOPPED_EARLY", "FITTED") and memory.stats["iterations"] == 0
