"""Joint diagonalisation by congruence, judged on the factor it returns."""

import numpy as np
import pytest
from scipy import linalg
from scipy.optimize import linear_sum_assignment

from planted.linalg import diagonalise_by_congruence
from planted.linalg import symmetric as module


def stack_of(Z, D):
    return np.einsum("it,st,jt->sij", Z, D, Z)


def largest_angle(Z, truth):
    """Largest sine between matched columns, whatever their order, sign and scale."""
    one, other = Z / np.linalg.norm(Z, axis=0), truth / np.linalg.norm(truth, axis=0)
    cosines = other.T @ one
    rows, columns = linear_sum_assignment(-np.abs(cosines))
    residual = other[:, rows] * np.sign(cosines[rows, columns]) - one[:, columns]
    return float(np.linalg.norm(residual, axis=0).max())


@pytest.mark.parametrize(("k", "n_matrices"), [(1, 1), (2, 2), (3, 2), (6, 6), (12, 12)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_exact_matrices_give_the_exact_factor(k, n_matrices, seed):
    """The D are indefinite, as null-space vectors are, and Z is far from orthogonal."""
    rng = np.random.default_rng(seed)
    Z, D = rng.standard_normal((k, k)), rng.standard_normal((n_matrices, k))
    result = diagonalise_by_congruence(stack_of(Z, D), np.random.default_rng(100 + seed))
    # Rounding times the condition of Z and the inverse gap of D.
    assert largest_angle(result.Z, Z) < 1e-14 * np.linalg.cond(Z) ** 2 * 100
    assert result.residual < 1e-20
    np.testing.assert_allclose(np.linalg.norm(result.Z, axis=0), 1.0, rtol=1e-14)


def test_two_matrices_in_closed_form():
    """Z = [[1, 1], [0, 1]]: the eigenvectors of P inv(Q) by hand are (1, 0) and (1, 1)."""
    stack = np.array([[[3.0, 2.0], [2.0, 2.0]], [[2.0, -1.0], [-1.0, -1.0]]])
    result = diagonalise_by_congruence(stack, np.random.default_rng(0))
    assert largest_angle(result.Z, np.array([[1.0, 1.0], [0.0, 1.0]])) < 1e-14


def test_a_start_with_complex_pairs_still_ends_at_the_best_factor():
    """No real Z diagonalises a rotation-like pencil, so the start is complex; the answer must be real and finite.

    For S1 = diag(1, -1), S2 = [[0, 1], [1, 0]] every real congruence leaves energy; the closed-form optimum over
    rotations is 1/2 at any angle, so no method can do better with orthogonal factors.
    """
    stack = np.array([[[1.0, 0.0], [0.0, -1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    values = np.linalg.eigvals(stack[0] @ np.linalg.inv(stack[1]))
    assert np.abs(values.imag).max() > 0.5
    result = diagonalise_by_congruence(stack, np.random.default_rng(0))
    assert np.isfinite(result.Z).all()
    assert 0.0 < result.residual < 1.0
    assert result.restarts == 5


def test_complex_starts_caused_by_noise_are_repaired():
    """The first two matrices see two units alike, so noise makes their pair complex; the other matrices separate it."""
    repaired = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        Z, D = linalg.qr(rng.standard_normal((5, 5)))[0], rng.standard_normal((10, 5))
        D[:2, 1] = -D[:2, 0]  # the same eigenvalue twice, on an indefinite plane
        noise = rng.standard_normal((10, 5, 5)) * 1e-4
        stack = stack_of(Z, D) + noise + noise.transpose(0, 2, 1)
        is_complex = np.abs(np.linalg.eigvals(stack[0] @ np.linalg.inv(stack[1])).imag).max() > 0
        start = module._jennrich_start(stack[:2], np.random.default_rng(1000 + seed))
        assert start.dtype == np.float64
        V, _ = module._uwedge(stack, start, module.MAX_SWEEPS)
        # Entries of the noise are 1e-4 and 2e-4, gaps of D of order one: a hundredth leaves room for a small gap.
        assert largest_angle(np.linalg.inv(V), Z) < 1e-2
        repaired += is_complex
    assert repaired >= 3, "the example must produce complex pairs"


def test_all_matrices_beat_a_single_random_pair():
    """Jennrich uses two combinations of twelve noisy matrices; UWEDGE uses all of them."""
    joint, pair = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        Z, D = rng.standard_normal((4, 4)), rng.standard_normal((12, 4))
        noise = 1e-3 * rng.standard_normal((12, 4, 4))
        stack = stack_of(Z, D) + noise + noise.transpose(0, 2, 1)
        start = module._jennrich_start(stack, np.random.default_rng(1000 + seed))
        pair.append(largest_angle(np.linalg.inv(start), Z))
        joint.append(largest_angle(diagonalise_by_congruence(stack, np.random.default_rng(1000 + seed)).Z, Z))
    assert np.median(joint) < 0.4 * np.median(pair)
    assert sum(a < b for a, b in zip(joint, pair, strict=True)) >= 18


def test_noise_enters_linearly():
    rng = np.random.default_rng(5)
    Z, D = rng.standard_normal((4, 4)), rng.standard_normal((8, 4))
    noise = rng.standard_normal((8, 4, 4))
    noise = noise + noise.transpose(0, 2, 1)
    angles = [
        largest_angle(diagonalise_by_congruence(stack_of(Z, D) + size * noise, np.random.default_rng(1)).Z, Z)
        for size in (1e-4, 1e-6, 1e-8)
    ]
    assert angles[0] / angles[1] == pytest.approx(100, rel=0.05)
    assert angles[1] / angles[2] == pytest.approx(100, rel=0.05)


def test_permutation_and_congruence_equivariance():
    rng = np.random.default_rng(2)
    Z, D, M = rng.standard_normal((4, 4)), rng.standard_normal((5, 4)), rng.standard_normal((4, 4))
    stack = stack_of(Z, D)
    moved = diagonalise_by_congruence(M @ stack @ M.T, np.random.default_rng(1)).Z
    assert largest_angle(moved, M @ Z) < 1e-10
    again = diagonalise_by_congruence(stack[::-1], np.random.default_rng(9)).Z
    assert largest_angle(again, Z) < 1e-10


def test_parallel_columns_of_d_cannot_be_separated_but_the_rest_can():
    """Columns 0 and 1 of D are equal: outside the guarantee, but the third column is found and the doubt is visible."""
    rng = np.random.default_rng(3)
    Z, D = rng.standard_normal((3, 3)), rng.standard_normal((4, 3))
    D[:, 1] = D[:, 0]
    result = diagonalise_by_congruence(stack_of(Z, D), np.random.default_rng(0))
    assert np.isfinite(result.Z).all()
    third = Z[:, 2] / np.linalg.norm(Z[:, 2])
    assert np.abs(third @ result.Z).max() == pytest.approx(1.0, abs=1e-12)


def test_same_stream_same_bits():
    rng = np.random.default_rng(2)
    stack = stack_of(rng.standard_normal((5, 5)), rng.standard_normal((5, 5)))
    one, two = (diagonalise_by_congruence(stack, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(one.Z, two.Z)
