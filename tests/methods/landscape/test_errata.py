"""Statements of GLM18 that do not hold as they are printed, each with a number that shows it and the form that holds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from planted.methods.landscape._descent import descend, smallest_curvature
from planted.methods.landscape.objectives import (
    THEOREM_C,
    hermite_coefficients,
    population_objective,
    theorem_weights,
)


def expectation(function, d: int) -> float:
    """E f(x) for x ~ N(0, I), exact for polynomials of degree up to 15."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    weights = weights / weights.sum()
    grid = np.array(list(product(nodes, repeat=d)))
    masses = np.array([np.prod(mass) for mass in product(weights, repeat=d)])
    return float(masses @ function(grid))


def phi(X: np.ndarray, v: np.ndarray, w: np.ndarray, sign: float) -> np.ndarray:
    """φ(v, w, x) of (2.9), with either sign before 2 (v'x)(w'x) v'w."""
    s, r = X @ v, X @ w
    lower = (v @ v) * (w @ w) / 2 + (v @ w) ** 2 - (w @ w) * s**2 / 2 - (v @ v) * r**2 / 2
    return np.asarray(lower + sign * 2 * s * r * (v @ w) + s**2 * r**2 / 2)


@pytest.mark.parametrize("seed", range(3))
def test_the_sign_in_2_9_is_minus(seed: int) -> None:
    """φ must be orthogonal to every quadratic function, and see quartic ones as ⟨u,v⟩²⟨u,w⟩²; printed is plus."""
    rng = np.random.default_rng(seed)
    u, v, w = rng.standard_normal((3, 2))
    for name, sign, right in (("corrected", -1.0, True), ("printed", 1.0, False)):
        quadratic = expectation(lambda X, sign=sign: (X @ u) ** 2 * phi(X, v, w, sign), 2)
        quartic = expectation(lambda X, sign=sign: (X @ u) ** 4 * phi(X, v, w, sign), 2)
        holds = abs(quadratic) < 1e-9 and quartic == pytest.approx(12 * (u @ v) ** 2 * (u @ w) ** 2, rel=1e-9)
        assert bool(holds) == right, name


@pytest.mark.parametrize("seed", range(3))
def test_the_penalty_in_c_1_lacks_a_minus_one(seed: int) -> None:
    """The term in λ is Σ (q_j - 1)² with q_j = Σ_i a_i ⟨b_j, b*_i⟩²; the printed expectation is Σ q_j²."""
    rng = np.random.default_rng(seed)
    W, a, B = rng.standard_normal((4, 4)), rng.uniform(1, 3, 4), rng.standard_normal((4, 4))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    with_two, with_one = (population_objective("F", W, a, lam=lam)(B, a)[0] for lam in (2.0, 1.0))
    q = (B @ W.T) ** 2 @ a
    assert with_two - with_one == pytest.approx(((q - 1) ** 2).sum(), rel=1e-9)
    assert with_two - with_one != pytest.approx((q**2).sum(), rel=1e-3)


def world(d: int, kappa: float) -> tuple:
    """G for the truth I, with Theorem B.1's β_min and τ₀."""
    a = np.linspace(1.0, kappa, d)
    fourth = float(hermite_coefficients("relu", 4)[4])
    mu, lam = theorem_weights("G", fourth, largest=kappa, smallest=1.0)
    alpha = np.sqrt(6.0) * abs(fourth) * a
    beta = alpha / 12
    tau = THEOREM_C * min(mu * beta.min() / (kappa * d), mu * beta.min() ** 2 / beta.max(), lam)
    return population_objective("G", np.eye(d), a, mu=mu, lam=lam), a, mu, float(beta.min()), tau


@pytest.mark.parametrize(("d", "kappa"), [(3, 1.0), (4, 1.0), (4, 2.0)])
def test_bullet_2_of_theorem_2_3_has_the_wrong_direction(d: int, kappa: float) -> None:
    """At a saddle the smallest eigenvalue is at most -τ₀; "≥ -τ₀" is printed, with which no saddle would be left."""
    objective, a, _, _, tau = world(d, kappa)
    rows = np.eye(d)
    rows[0] = rows[1]  # two rows on one unit: stationary after a descent within such matrices
    shared = descend(_Tied(objective), rows[1:], a).W
    point = np.vstack([shared[:1], shared])
    assert np.linalg.norm(objective(point, a)[1]) < 1e-6
    assert smallest_curvature(objective, point, a).smallest < -tau


class _Tied:
    """G of matrices whose first two rows are the same, as a function of the others."""

    has_unit_rows, trains_outputs, name = False, False, "tied"

    def __init__(self, objective) -> None:
        self.objective = objective

    def __call__(self, W: np.ndarray, a: np.ndarray) -> tuple:
        value, dW, da = self.objective(np.vstack([W[:1], W]), a)
        slope = dW[1:].copy()
        slope[0] += dW[0]
        return value, slope, da


@pytest.mark.parametrize(("d", "kappa"), [(3, 1.0), (4, 2.0)])
def test_bullet_3_of_theorem_b_1_with_and_without_mu(d: int, kappa: float) -> None:
    """The proof gives |E| ≤ 3ε/(μ β_min), a hundred times the printed 3ε/β_min; beside minima both hold."""
    objective, a, mu, beta, tau = world(d, kappa)
    minimum = descend(objective, np.eye(d), a, max_iter=5000).W
    flattest = smallest_curvature(objective, minimum, a).W
    rng = np.random.default_rng(d)
    for direction in (flattest, *rng.standard_normal((5, d, d))):
        W = minimum + 1e-4 * direction / np.linalg.norm(direction)
        assert smallest_curvature(objective, W, a).smallest >= -tau, (
            "an approximate minimum in the theorem's sense"
        )
        epsilon = float(np.linalg.norm(objective(W, a)[1]))
        error = float(np.abs(W - np.diag(np.diag(W))).max())
        assert error <= 3 * epsilon / beta < 3 * epsilon / (mu * beta)
