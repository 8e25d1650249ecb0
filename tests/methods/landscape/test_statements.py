"""Statements of GLM18 in numbers: Theorem A.4 for other activations, saddles of F, its parameters for k < d, and samples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from planted import simulate
from planted.linalg import unit_rows
from planted.methods.landscape._descent import descend, random_rows, smallest_curvature
from planted.methods.landscape._read import invert_rows
from planted.methods.landscape.objectives import (
    THEOREM_C,
    hermite_coefficients,
    population_objective,
    sample_objective,
    theorem_weights,
)
from planted.rows import RowBlocks


def half_absolute_risk(a: np.ndarray, B: np.ndarray, truth: tuple[np.ndarray, np.ndarray]) -> float:
    """E(Σ a*_i σ(b*_i'x) - Σ a_i ½|b_i'x|)² in closed form; σ(t) = t/2 + |t|/2 and E|u'x||v'x| is an arc-cosine kernel."""
    a_true, B_true = truth
    rows, weights = np.vstack([B_true, B]), np.concatenate([a_true, -a])
    cosines = np.clip(rows @ rows.T, -1, 1)
    kernel = (2 / np.pi) * (np.sqrt(1 - cosines**2) + cosines * np.arcsin(cosines))
    linear = a_true @ B_true / 2
    return float(weights @ kernel @ weights / 4 + linear @ linear)


@pytest.mark.parametrize("seed", range(3))
def test_theorem_a_4_for_half_the_absolute_value(seed: int) -> None:
    """The risk is Σ_k |σ̂_k Σ a*_i b*_i^{⊗k} - γ̂_k Σ a_i b_i^{⊗k}|²: what partial sums lack, the orders beyond them hold."""
    rng = np.random.default_rng(seed)
    B_true, B = unit_rows(rng.standard_normal((3, 2)))[0], unit_rows(rng.standard_normal((4, 2)))[0]
    a_true, a = rng.uniform(0.5, 2, 3), rng.uniform(-1, 2, 4)
    exact = half_absolute_risk(a, B, (a_true, B_true))
    X = rng.standard_normal((400_000, 2))
    squares = (np.maximum(X @ B_true.T, 0) @ a_true - np.abs(X @ B.T) @ a / 2) ** 2
    assert abs(squares.mean() - exact) < 5 * squares.std() / np.sqrt(len(X))  # the closed form
    top = 60
    sigma, gamma = hermite_coefficients("relu", top), hermite_coefficients("absolute", top) / 2
    total, size = 0.0, np.abs(a_true).sum() + np.abs(a).sum()
    for k in range(top + 1):
        G, H, C = (B_true @ B_true.T) ** k, (B @ B.T) ** k, (B_true @ B.T) ** k
        term = sigma[k] ** 2 * a_true @ G @ a_true + gamma[k] ** 2 * a @ H @ a
        term -= 2 * sigma[k] * gamma[k] * a_true @ C @ a
        total += float(term)
        left = max(0.5 - float((sigma[: k + 1] ** 2).sum()), 0.0)  # E σ² = ½: what the orders beyond k hold
        assert -1e-9 <= exact - total <= left * size**2 + 1e-9
    assert exact - total < 2e-3 * size**2


def designed(d: int, k: int, seed: int, delta: float = 0.0) -> tuple:
    """F for a random truth, with κ_a = 2, and Theorem C.4's τ₀."""
    W = unit_rows(np.random.default_rng(seed).standard_normal((k, d)))[0]
    a = np.linspace(1.0, 2.0, k)
    fourth = float(hermite_coefficients("relu", 4)[4])
    mu, lam = theorem_weights("F", fourth, largest=2.0, smallest=1.0)
    M = (W.T * a) @ W
    least = float(np.linalg.eigvalsh(M)[d - k])
    tau = THEOREM_C * min(mu / (2.0 * d * a.max()), lam) * least
    return population_objective("F", W, a, mu=mu, lam=lam, delta=delta), W, a, tau


def test_theorem_c_4_saddles_of_f_curve_down() -> None:
    """Stationary points that are no minima, found by Newton's method: their smallest eigenvalue is at most -τ₀."""
    found = 0
    for d, seed in ((2, 0), (3, 1), (3, 2)):
        objective, W, a, tau = designed(d, d, seed)
        for start in range(12):
            root = optimize.root(
                lambda theta, f=objective, a=a, d=d: f(theta.reshape(d, d), a)[1].ravel(),
                0.7 * random_rows(d, d, np.random.default_rng([seed, start])).ravel(),
                tol=1e-13,
            )
            B = root.x.reshape(d, d)
            if np.linalg.norm(objective(B, a)[1]) > 1e-9:
                continue
            shown = (
                np.abs(invert_rows(B) @ W.T).max(axis=1).min() if np.linalg.matrix_rank(B, 1e-6) == d else 0.0
            )
            if shown > 1 - 1e-6:
                continue  # a minimum: the rows of B^{-T} are those of the truth
            found += 1
            assert smallest_curvature(objective, B, a).smallest <= -tau
    assert found >= 5


@pytest.mark.parametrize(("d", "k"), [(4, 2), (6, 3)])
def test_theorem_c_5_with_its_parameters(d: int, k: int) -> None:
    """δ = τ₀/2 and the printed μ and λ: the minimum shows the truth to ε₀, and |P_⊥ B| ≤ ε/δ everywhere (Lemma C.6)."""
    _, W, a, tau = designed(d, k, seed=d)
    delta = tau / 2
    objective = designed(d, k, d, delta)[0]
    rng = np.random.default_rng(d)
    across = np.eye(d) - W.T @ np.linalg.pinv(W.T)
    for size in (1e-3, 1.0):
        B = size * rng.standard_normal((k, d))
        assert delta * np.linalg.norm(B @ across) <= np.linalg.norm(objective(B, a)[1])
    end = descend(objective, random_rows(k, d, rng), a, max_iter=5000)
    assert smallest_curvature(objective, end.W, a).smallest >= -tau / 2
    shown = np.linalg.pinv(end.W).T  # its rows are ±(1 + small) √a_i b_i, in some order
    wanted = np.sqrt(a)[:, None] * W
    gaps = np.minimum(
        np.linalg.norm(shown[:, None] - wanted, axis=2), np.linalg.norm(shown[:, None] + wanted, axis=2)
    )
    assert sorted(gaps.argmin(axis=1)) == list(range(k))
    assert gaps.min(axis=1).max() < 0.01


def test_theorem_2_7_gradient_and_hessian_converge() -> None:
    """With the paper's λ: both differences fall like the root of n, over points whose rows have norms up to two."""
    d, sizes, worlds = 2, (1000, 16_000), 24
    a = np.ones(d)
    fourth = float(hermite_coefficients("relu", 4)[4])
    mu, lam = theorem_weights("G", fourth, largest=1.0, smallest=1.0)
    exact = population_objective("G", np.eye(d), a, mu=mu, lam=lam)
    rng = np.random.default_rng(3)
    points = [np.eye(d), random_rows(d, d, rng) * [[2.0], [0.5]]]
    squares = np.zeros((2, len(sizes)))
    for at, n in enumerate(sizes):
        for seed in range(worlds):
            X = simulate.inputs(n, d, random_state=100 * n + seed)
            y = np.maximum(X, 0.0).sum(axis=1, keepdims=True)
            empirical = sample_objective("G", RowBlocks.from_arrays(X, y), degree=0, mu=mu, lam=lam)
            for B in points:
                slope = np.linalg.norm(empirical(B, a)[1] - exact(B, a)[1])
                bend = smallest_curvature(_Difference(empirical, exact), B, a)
                squares[:, at] += slope**2, max(abs(bend.smallest), abs(bend.largest)) ** 2
    # the log of a mean of 48 such squares scatters by about 0.3: the rate by 0.3 √2 / (2 log 16) = 0.08
    rates = np.log(squares[:, 1] / squares[:, 0]) / (2 * np.log(sizes[1] / sizes[0]))
    assert (np.abs(rates + 0.5) < 0.25).all(), rates


def test_theorem_e_3_gradient_and_hessian_converge_over_a_ball() -> None:
    """The largest differences at 12 points of the ball of radius two, its centre to its rim, fall like the root of n."""
    d, sizes, worlds = 2, (1000, 16_000), 4
    a = np.ones(d)
    mu, lam = theorem_weights("G", float(hermite_coefficients("relu", 4)[4]), largest=1.0, smallest=1.0)
    exact = population_objective("G", np.eye(d), a, mu=mu, lam=lam)
    rng = np.random.default_rng(17)
    points = [size * random_rows(1, d * d, rng).reshape(d, d) for size in np.linspace(0.0, 2.0, 12)]
    worst = np.zeros((2, len(sizes)))
    for at, n in enumerate(sizes):
        for seed in range(worlds):
            X = simulate.inputs(n, d, random_state=300 * n + seed)
            y = np.maximum(X, 0.0).sum(axis=1, keepdims=True)
            empirical = sample_objective("G", RowBlocks.from_arrays(X, y), degree=0, mu=mu, lam=lam)
            difference = _Difference(empirical, exact)
            slopes = [np.linalg.norm(difference(B, a)[1]) for B in points]
            bends = [smallest_curvature(difference, B, a) for B in points]
            sizes_of_bends = [max(abs(bend.smallest), abs(bend.largest)) for bend in bends]
            worst[:, at] += np.log([max(slopes), max(sizes_of_bends)])
    # the log of such a maximum scatters by about 0.4: the rate by 0.4 √(2/4) / log 16 = 0.1
    rates = (worst[:, 1] - worst[:, 0]) / worlds / np.log(sizes[1] / sizes[0])
    assert (np.abs(rates + 0.5) < 0.25).all(), rates


class _Difference:
    """Empirical minus population objective: its Hessian is the difference of theirs."""

    has_unit_rows, trains_outputs, name = False, False, "difference"

    def __init__(self, one, other) -> None:
        self.one, self.other = one, other

    def __call__(self, W: np.ndarray, a: np.ndarray) -> tuple:
        (value, dW, da), (less, lower, _) = self.one(W, a), self.other(W, a)
        return value - less, dW - lower, da


@pytest.mark.parametrize(("d", "kappa"), [(3, 1.0), (4, 2.0)])
def test_bullet_3_of_theorem_b_1_away_from_minima(d: int, kappa: float) -> None:
    """Along descents from random points: wherever the curvature is at least -τ₀, |E| is within 3ε/(μ β_min)."""
    a = np.linspace(1.0, kappa, d)
    fourth = float(hermite_coefficients("relu", 4)[4])
    mu, lam = theorem_weights("G", fourth, largest=kappa, smallest=1.0)
    alpha = np.sqrt(6.0) * abs(fourth) * a
    beta = alpha / 12
    tau = THEOREM_C * min(mu * beta.min() / (kappa * d), mu * beta.min() ** 2 / beta.max(), lam)
    objective = population_objective("G", np.eye(d), a, mu=mu, lam=lam)
    seen = 0
    for start in range(6):
        B = random_rows(d, d, np.random.default_rng([d, start]))
        for steps in (1, 3, 10, 30, 100, 300):
            point = descend(objective, B, a, max_iter=steps).W
            if smallest_curvature(objective, point, a).smallest < -tau:
                continue
            R = np.abs(point)
            rows, columns = optimize.linear_sum_assignment(-R)
            R[rows, columns] = 0.0
            epsilon = float(np.linalg.norm(objective(point, a)[1]))
            assert R.max() <= 3 * epsilon / (mu * beta.min()) + 1e-7
            seen += 1
    assert seen >= 6
