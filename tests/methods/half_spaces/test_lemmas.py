"""Statements of BJW18 with constants that it does not print, in numbers: Lemmas 6, 19 and 24, Theorems 12 and 13."""

import numpy as np
import pytest

from planted import TwoLayerNetwork
from planted.linalg import unit_rows
from planted.methods.half_spaces.printed import GuessGrid, algorithm_8, half_spaces_of_labels


def rows_of_condition(k, d, kappa, rng):
    """Return unit rows, the first two at such an angle that the condition number of V is near κ."""
    V = np.linalg.qr(rng.standard_normal((d, d)))[0][:k]
    if kappa > 1:
        half = np.arctan(1 / kappa)
        first, second = V[0].copy(), V[1].copy()
        V[0], V[1] = (np.cos(half) * first + sign * np.sin(half) * second for sign in (1, -1))
    return V, float(np.linalg.cond(V))


@pytest.mark.parametrize(("m", "k"), [(6, 3), (30, 5)])
def test_lemma_6_a_random_sketch_keeps_rank_and_condition(m, k):
    """κ(TU) ≤ (k² m / δ) κ(U) with probability at least 1 - δ: here for δ = 0.1, and never at rank below k."""
    rng = np.random.default_rng(m)
    U = rng.standard_normal((m, k)) * np.geomspace(1, 0.05, k)
    bound = k**2 * m / 0.1 * np.linalg.cond(U)
    conditions = np.array([np.linalg.cond(rng.standard_normal((k, m)) @ U) for _ in range(2000)])
    assert np.isfinite(conditions).all() and conditions.max() < 1e12
    assert (conditions > bound).mean() <= 0.1
    assert np.quantile(conditions, 0.9) > np.linalg.cond(U)  # a sketch costs something


@pytest.mark.parametrize("kappa", [1.0, 4.0, 16.0])
def test_lemma_19_values_of_units_are_independent(kappa):
    """|Q|² ≤ 10 r ℓ and σ_min(Q) ≥ c √ℓ / κ² for all 2k rows f(±Vx); one power of κ is enough, with c = 0.3."""
    rng = np.random.default_rng(int(kappa))
    V, condition = rows_of_condition(4, 6, kappa, rng)
    smallest = []
    for ell in (500, 8000):
        T = V @ rng.standard_normal((6, ell))
        Q = np.maximum(np.vstack([T, -T]), 0.0)
        assert (Q**2).sum() <= 10 * len(Q) * ell
        smallest.append(np.linalg.svd(Q, compute_uv=False)[-1] / np.sqrt(ell))
        assert 1.2 / condition >= smallest[-1] >= 0.3 / condition >= 0.3 / condition**2
    assert smallest[1] == pytest.approx(smallest[0], rel=0.5)


@pytest.mark.parametrize("kappa", [1.0, 4.0])
def test_lemma_24_labels_are_incoherent(kappa):
    """Leverages of samples times n/k are at most κ⁴ log n, and those of outputs at most μ, which is U's own."""
    rng = np.random.default_rng(24)
    n, m, k = 4000, 40, 4
    V, condition = rows_of_condition(k, 6, kappa, rng)
    U = np.linalg.qr(rng.standard_normal((m, k)))[0]
    M = np.maximum(rng.standard_normal((n, 6)) @ V.T, 0.0) @ U.T
    left, values, right = np.linalg.svd(M, full_matrices=False)
    assert values[k] < 1e-9 * values[0]
    assert (left[:, :k] ** 2).sum(axis=1).max() * n / k <= condition**4 * np.log(n) * 2
    mu = (U**2).sum(axis=1).max() * m / k
    assert (right[:k] ** 2).sum(axis=0).max() * m / k == pytest.approx(mu, rel=1e-9)


def error_of_half_space(n, d, omega, noise, seed):
    """Return |v̂ - v|² for labels sign(f(v'x) + G + B), G fixed and of size `noise`, |B| = √n / ω, smoothed as in step 3a."""
    rng = np.random.default_rng([seed, n])
    v = unit_rows(rng.standard_normal((1, d)))[0][0]
    X = rng.standard_normal((n, d))
    G = noise * np.where(np.arange(n) % 2, 1.0, -1.0)
    B = -np.sign(X @ v) / omega  # as harmful as its size allows
    eta = np.sqrt(omega) * noise  # the proof's 100 √ω |G| / √n, with constant one
    labels = np.where(np.maximum(X @ v, 0.0) + G + B + eta * rng.standard_normal(n) > 0, 1.0, -1.0)
    found = half_spaces_of_labels(X, labels[:, None])[0]
    return float(((found - v) ** 2).sum())


def test_theorem_12_half_spaces_from_noisy_labels():
    """|v̂ - v|² ≤ C √ω |G|/√n (√d/√n + n^{-1/4} + log ω/ω), C = 0.5 is enough here; it falls with n."""
    d, noise = 6, 1.0
    errors = {}
    for n in (1000, 4000, 16_000):
        omega = n**0.4
        errors[n] = np.mean([error_of_half_space(n, d, omega, noise, seed) for seed in range(6)])
        bound = np.sqrt(omega) * noise * (np.sqrt(d / n) + n**-0.25 + np.log(omega) / omega)
        assert errors[n] <= 0.5 * bound
    assert errors[16_000] < errors[4000] < errors[1000]


def test_theorem_13_the_residual_is_little_above_the_noise():
    """|Y - f(XW')A'| ≤ |E| + C [ε √(nm) |E|₂]^{1/2}, C = 0.1 and ε = 1/2: the grid of one unit, noise of several sizes."""
    for seed, noise in ((0, 0.05), (1, 0.2), (2, 0.5)):
        rng = np.random.default_rng([seed, 13])
        n, d, m = 1500, 4, 3
        truth = TwoLayerNetwork(unit_rows(rng.standard_normal((1, d)))[0], None, rng.standard_normal((m, 1)))
        X = rng.standard_normal((n, d))
        E = noise * rng.standard_normal((n, m))
        Y = truth(X) + E
        _, residual = algorithm_8(X, Y, 1, grid=GuessGrid(sketch_rows=2, n_levels=3), rng=rng)
        excess = residual * np.sqrt(n * m) - np.linalg.norm(E)
        smallest = np.linalg.svd(truth.A, compute_uv=False)[-1]
        bound = np.sqrt(smallest * 0.5 * np.sqrt(n * m) * np.linalg.norm(E, 2))
        assert excess <= 0.1 * bound
