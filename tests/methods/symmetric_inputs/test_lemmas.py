"""The perturbation lemmas behind Theorem 7 of [GKLW19], each as a number beside its bound, and the theorem's rates.

The exact moments are those of a normal law in closed form; samples are drawn from it. α, β, γ, Γ, P₁ and P₂ are measured.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import linalg

from gaussian_moments import GaussianMoments
from planted import TwoLayerNetwork, simulate
from planted.diagnostics import augmented_matrix
from planted.linalg import unit_rows
from planted.methods.symmetric_inputs import printed
from planted.methods.symmetric_inputs.printed import Samples
from planted.moments import SampleMoments
from planted.rows import RowBlocks

D, K, NOISE = 5, 3, 0.2


@cache
def world(seed: int) -> tuple[TwoLayerNetwork, Any, Any]:
    """Return a network, the exact detector T, and S, its k least right singular vectors."""
    truth = simulate.teacher(D, K, K, random_state=seed)
    T = printed.corrected_detector(Samples.of(GaussianMoments(truth, np.eye(D), NOISE**2 * np.eye(K))))
    return truth, T, linalg.svd(T)[2][-K:].T


def samples_of(truth: TwoLayerNetwork, n: int, seed: int, scales: Any = 1.0) -> Samples:
    rng = np.random.default_rng([seed, n])
    X = rng.standard_normal((n, truth.n_features)) * scales
    Y = truth(X) + NOISE * rng.standard_normal((n, truth.n_outputs))
    return Samples.of(SampleMoments(RowBlocks.from_arrays(X, Y)))


def matched_distance(Z: Any, truth: TwoLayerNetwork) -> float:
    """Return the largest distance of a row of Z from the nearest ± normalised row of A⁻¹."""
    right = unit_rows(np.linalg.inv(truth.A))[0]
    apart = np.linalg.norm(Z[:, None] - right, axis=2), np.linalg.norm(Z[:, None] + right, axis=2)
    return float(np.minimum(*apart).min(axis=0).max())


def test_lemma_15_the_detector_converges_like_the_root_of_n() -> None:
    sizes = (1000, 4000, 16_000)
    errors = [
        np.mean(
            [
                np.linalg.norm(printed.corrected_detector(samples_of(world(s)[0], n, s)) - world(s)[1])
                for s in range(6)
            ]
        )
        for n in sizes
    ]
    assert abs(np.polyfit(np.log(sizes), np.log(errors), 1)[0] + 0.5) < 0.12


@pytest.mark.parametrize("seed", range(3))
def test_lemmas_11_and_16_the_span_of_the_least_singular_vectors(seed: int) -> None:
    """|SS' - ŜŜ'| ≤ √2 |T̂ - T| / (α β²), and a rotation takes S to Ŝ within 2 |SS' - ŜŜ'|."""
    truth, T, S = world(seed)
    alpha = np.linalg.svd(augmented_matrix(truth.W, simulate.Gaussian(D)), compute_uv=False)[-1]
    beta = np.linalg.svd(truth.A, compute_uv=False)[-1]
    assert np.linalg.svd(T, compute_uv=False)[-K - 1] >= alpha * beta**2 > 0  # Lemma 14
    for n in (4000, 64_000):
        found = printed.corrected_detector(samples_of(truth, n, seed))
        S_hat = linalg.svd(found)[2][-K:].T
        apart = np.linalg.norm(S @ S.T - S_hat @ S_hat.T)
        assert apart <= np.sqrt(2) * np.linalg.norm(found - T) / (alpha * beta**2)
        assert np.linalg.norm(S_hat - S @ linalg.orthogonal_procrustes(S, S_hat)[0]) <= 2 * apart


def test_lemma_12_the_eigenvectors_move_in_proportion_to_the_span() -> None:
    """Spans off by ε give rows z off by a number times ε, the same number over five orders of magnitude."""
    for seed in range(3):
        truth, T, _ = world(seed)
        exact = printed.least_singular_matrices(T, K)[0]
        E = np.random.default_rng(seed).standard_normal(exact.shape)
        E = E + E.transpose(0, 2, 1)
        ratios = []
        for epsilon in (1e-3, 1e-5, 1e-7):
            Z = printed.eigenvectors_of_random_pair(exact + epsilon * E, np.random.default_rng([seed, 5]))
            ratios.append(matched_distance(Z, truth) / epsilon)
        assert max(ratios) < 3 * min(ratios)


def test_lemma_13_the_first_layer_from_rows_that_are_off_by_tau() -> None:
    """|v̂ - v| ≤ 2 τ (Γ P₁ √k + P₂) Γ / γ, on a law of finitely many points, where moments have no error."""
    for seed in range(3):
        truth = world(seed)[0]
        rng = np.random.default_rng([seed, 7])
        half = rng.standard_normal((40, D))
        X = np.vstack([half, -half])
        samples = Samples.of(SampleMoments(RowBlocks.from_arrays(X, truth(X))))
        Z = unit_rows(np.linalg.inv(truth.A))[0]
        gamma = np.linalg.eigvalsh(X.T @ X / len(X))[0]
        reach, size = np.linalg.norm(X, axis=1).max(), np.linalg.norm(truth.A, 2)
        for tau in (1e-4, 1e-1):
            moved = Z + tau * unit_rows(rng.standard_normal(Z.shape))[0]
            error = printed.algorithm_1(samples.mapped(moved)) - printed.algorithm_1(samples.mapped(Z))
            bound = 2 * tau * reach**2 * size * np.sqrt(K) / gamma
            assert 0 < np.linalg.norm(error, axis=1).max() <= bound


def test_lemma_17_the_quotients_of_a_random_pair_are_apart() -> None:
    """With probability 1 - δ the smallest gap is at least a constant times δ: polynomial, of degree one."""
    for seed in range(2):
        truth, T, _ = world(seed)
        S = printed.least_singular_matrices(T, K)[0]
        diagonals = np.einsum("ai,sab,bi->si", truth.A, S, truth.A)  # A'U A = D
        drawn = np.random.default_rng(seed).standard_normal((4000, 2, K)) @ diagonals
        quotients = np.sort(drawn[:, 0] / drawn[:, 1], axis=1)
        gaps = np.diff(quotients, axis=1).min(axis=1)
        shares = [np.quantile(gaps, delta) / delta for delta in (0.02, 0.1, 0.4)]
        assert min(shares) > 0.2 and max(shares) < 5 * min(shares)


def test_lemma_18_signs_survive_small_errors() -> None:
    """|E[z'y]| ≥ β γ / (2 Γ), so that errors below that over Γ P₁ √k turn no sign."""
    for seed in range(3):
        truth = world(seed)[0]
        rng = np.random.default_rng([seed, 9])
        half = rng.standard_normal((60, D))
        X = np.vstack([half, -half])
        mean, Z = truth(X).mean(axis=0), unit_rows(np.linalg.inv(truth.A))[0]
        beta, size = np.linalg.svd(truth.A, compute_uv=False)[[-1, 0]]
        gamma, reach = np.linalg.eigvalsh(X.T @ X / len(X))[0], np.linalg.norm(X, axis=1).max()
        assert np.abs(Z @ mean).min() >= beta * gamma / (2 * reach) > 0
        epsilon = beta * gamma / (2 * reach * reach * size * np.sqrt(K))
        moved = Z + epsilon * unit_rows(rng.standard_normal((200, *Z.shape)).reshape(-1, K))[0].reshape(
            200, K, K
        )
        assert (np.sign(moved @ mean) == np.sign(Z @ mean)).all()


def median_error(make: Any, n: int, scales: Any = 1.0) -> float:
    """Return the median over worlds of the error of Algorithm 3's function, relative to the outputs."""
    errors = []
    for seed in range(9):
        truth = make(seed)
        found = printed.algorithm_3(samples_of(truth, n, seed, scales), np.random.default_rng([seed, 11]))
        X = np.random.default_rng([seed, 13]).standard_normal((2000, truth.n_features)) * scales
        Y = truth(X)
        ours = np.maximum(X @ found.V.T, 0.0) @ found.A.T
        errors.append(np.sqrt(((ours - Y) ** 2).mean() / (Y**2).mean()))
    return float(np.median(errors))


def layers(beta: float = 1.0, angle: float = 90.0) -> Any:
    """Return a maker of networks: A of smallest singular value β, the first two rows of W at an angle."""

    def make(seed: int) -> TwoLayerNetwork:
        rng = np.random.default_rng([seed, 17])
        W = np.linalg.qr(rng.standard_normal((D, D)))[0][:K]
        t = np.radians(angle)
        W[1] = np.cos(t) * W[0] + np.sin(t) * W[1]
        left, right = (np.linalg.qr(rng.standard_normal((K, K)))[0] for _ in range(2))
        return TwoLayerNetwork(W, None, left @ np.diag(np.geomspace(1.0, beta, K)) @ right)

    return make


def smallest_of_m(angle: float) -> float:
    """Return α = σ_min(M) of a network with two rows at an angle."""
    M = augmented_matrix(layers(angle=angle)(0).W, simulate.Gaussian(D))
    return float(np.linalg.svd(M, compute_uv=False)[-1])


def test_theorem_7_rates_in_alpha_beta_and_gamma() -> None:
    """The error grows with 1/α, 1/β and 1/γ, each by a power below one: 0.5, 0.4 and 0.2 were measured."""
    n = 8000
    base = median_error(layers(), n)
    steps = {
        "alpha": (smallest_of_m(30.0) / smallest_of_m(90.0), median_error(layers(angle=30.0), n)),
        "beta": (0.125, median_error(layers(beta=0.125), n)),
        "gamma": (0.3**2, median_error(layers(), n, np.linspace(1.0, 0.3, D))),
    }
    for name, (factor, error) in steps.items():
        assert factor < 0.2 and 0.05 < np.log(error / base) / np.log(1 / factor) < 1.0, (name, base, error)
