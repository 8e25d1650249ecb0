"""Statements of the papers that stand beside the algorithms, as numbers: identities, perturbation bounds, rates."""

from math import factorial, sqrt

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermeval

from planted import simulate
from planted.fitting.units._hermite_directions import hermite_directions
from planted.linalg import unit_rows
from planted.methods.joint_diagonalisation.printed import algorithm_6
from planted.methods.landscape.objectives import hermite_coefficients, population_objective
from planted.methods.symmetric_inputs import printed
from planted.moments import SampleMoments
from planted.networks import parse_activation
from planted.rows import RowBlocks


def symmetric_rows(n, d, seed):
    rows = np.random.default_rng(seed).standard_normal((n, d)) ** 3
    return np.vstack([rows, -rows])


def test_gklw19_lemmas_2_6_and_7():
    """On rows that are exactly symmetric: half the moments of a linear function, and what a pair of units leaves."""
    X = symmetric_rows(50, 3, 0)
    a, b = np.random.default_rng(1).standard_normal((2, 3))
    s, t = np.maximum(X @ a, 0), np.maximum(X @ b, 0)
    for p, q in ((1, 1), (2, 0), (1, 3), (3, 1), (2, 2)):
        left = np.mean(s**p * (X @ b) ** q)
        np.testing.assert_allclose(left, np.mean((X @ a) ** p * (X @ b) ** q) / 2, rtol=1e-12)
    slope, C = np.mean(s[:, None] * X, axis=0), X.T @ X / len(X)
    np.testing.assert_allclose(np.mean(s**2), 2 * slope @ np.linalg.solve(C, slope), rtol=1e-12)  # Lemma 2
    product, apart = (X @ a) * (X @ b), (X @ a) * (X @ b) <= 0
    for weight in (np.ones(len(X)), X[:, 0] * X[:, 1]):  # Lemma 7
        left = np.mean(product * weight) / 2 - np.mean(s * t * weight)
        np.testing.assert_allclose(left, np.mean(product * apart * weight) / 2, rtol=1e-10)


def test_gklw19_theorem_8_one_unit_at_the_root_of_n():
    w, sizes = np.array([0.6, -0.5, 0.3]), (500, 4000, 32_000)
    errors = []
    for n in sizes:
        found = []
        for seed in range(20):
            rng = np.random.default_rng([seed, n])
            X = rng.standard_normal((n, 3))
            Y = np.maximum(X @ w, 0)[:, None] + 0.3 * rng.standard_normal((n, 1))
            moments = SampleMoments(RowBlocks.from_arrays(X, Y))
            found.append(np.linalg.norm(printed.algorithm_1(printed.Samples.of(moments))[0] - w))
        errors.append(np.mean(found))
    assert abs(np.polyfit(np.log(sizes), np.log(errors), 1)[0] + 0.5) < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_glm18_theorem_2_2(seed):
    """f' is the squared distance of the tensors of orders two and four, with the squared coefficients of the ReLU."""
    rng = np.random.default_rng(seed)
    B_true, B = unit_rows(rng.standard_normal((3, 4)))[0], unit_rows(rng.standard_normal((3, 4)))[0]
    a_true, a = rng.uniform(0.5, 2, 3), rng.uniform(0.5, 2, 3)
    sigma = hermite_coefficients("relu", 4)
    expected = 0.0
    for order in (2, 4):
        rows, weights = np.vstack([B_true, B]), np.concatenate([a_true, -a])
        expected += sigma[order] ** 2 * float(weights @ (rows @ rows.T) ** order @ weights)
    target = population_objective("f'", B_true, a_true)
    here, there = target(B, a)[0], target(B_true, a_true)[0]
    np.testing.assert_allclose(here - there, expected, rtol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_glm18_theorem_c_1_under_a_linear_map(seed):
    """g(x) = f(W x): its gradient and its negative curvature are those of f up to the singular values of W."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((4, 4))
    S = rng.standard_normal((4, 4))
    gradient, hessian = rng.standard_normal(4), S + S.T  # of f at W x
    largest, smallest = np.linalg.svd(W, compute_uv=False)[[0, -1]]
    size = np.linalg.norm(W.T @ gradient)
    assert smallest * np.linalg.norm(gradient) <= size <= largest * np.linalg.norm(gradient)
    of_f, of_g = np.linalg.eigvalsh(hessian)[0], np.linalg.eigvalsh(W.T @ hessian @ W)[0]
    assert of_f < 0 and largest**2 * of_f <= of_g <= smallest**2 * of_f


@pytest.mark.parametrize("seed", range(5))
def test_pseudo_inverses_move_with_the_matrix(seed):
    """Theorem C.9 of GLM18 (Stewart and Sun) with its constant, and Corollary 3 of BJW18 with a constant of three."""
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((7, 4))
    B /= np.linalg.svd(B, compute_uv=False)[0]
    noise = rng.standard_normal(B.shape)
    kappa, eps = np.linalg.cond(B), 0.2
    E = noise * (eps / kappa**2 / np.linalg.norm(noise))
    inverse, moved = np.linalg.pinv(B), np.linalg.pinv(B + E)
    bound = sqrt(2) * np.linalg.norm(inverse, 2) * np.linalg.norm(moved, 2) * np.linalg.norm(E, 2)
    assert np.linalg.norm(moved - inverse, 2) <= bound
    assert np.linalg.norm(moved - inverse) <= 3 * eps
    assert np.linalg.norm(moved @ B - np.eye(4)) <= 3 * eps


def test_atv21_claim_d_8_hermite_polynomials_under_the_bell():
    z = np.linspace(-12, 12, 4001)
    for k in range(13):
        values = np.abs(hermeval(z, [0.0] * k + [1.0])) * np.exp(-(z**2) / 2)
        assert values.max() <= sqrt(factorial(k)) * (1 + 1e-12)


def test_bjw18_theorem_10_noise_and_signs():
    """Directions of second order, signs by Algorithm 6, outputs by least squares: both layers converge under noise."""
    truth = simulate.teacher(4, 3, 4, random_state=0)
    errors = []
    for n in (2000, 32_000):
        rng = np.random.default_rng(n)
        X = rng.standard_normal((n, 4))
        Y = truth(X) + 0.3 * rng.standard_normal((n, 4))
        V = unit_rows(hermite_directions(X, Y, 3, rng=rng))[0]
        W = algorithm_6(X, Y, V, activation=parse_activation("relu"))
        order = (W @ truth.W.T).argmax(axis=0)
        A = np.linalg.lstsq(np.maximum(X @ W.T, 0), Y, rcond=None)[0].T
        errors.append((np.abs(W[order] - truth.W).max(), np.abs(A[:, order] - truth.A).max()))
    assert max(errors[1]) < 0.1 and max(errors[1]) < max(errors[0]) / 2
