"""Rank-one terms of symmetric matrices: the columns that were put in come out, and the rank that the threshold says."""

import numpy as np
import pytest

from planted.linalg.jennrich import decompose_shared_terms
from planted.linalg.khatri_rao import khatri_rao_values
from planted.linalg.symmetric_cp import decompose_symmetric


def columns_and_stack(q, rank, count, seed):
    """Return unit columns and symmetric matrices made of them."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((q, rank))
    Z /= np.linalg.norm(Z, axis=0)
    return Z, np.einsum("ar,tr,br->tab", Z, rng.standard_normal((count, rank)), Z)


def worst_angle(found, Z):
    """Return 1 - |cosine| of the worst column after matching."""
    cosines = np.abs(found.T @ Z)
    assert sorted(cosines.argmax(axis=1)) == list(range(Z.shape[1])), "each column once"
    return 1 - cosines.max(axis=1).min()


@pytest.mark.parametrize("max_sweeps", [0, 100])
def test_shared_terms_of_a_larger_space_are_found(max_sweeps):
    Z, stack = columns_and_stack(9, 4, 6, seed=0)
    found = decompose_shared_terms(
        stack, np.random.default_rng(1), threshold=1e-9, largest_rank=9, max_sweeps=max_sweeps
    )
    assert found.Z.shape == (9, 4) and worst_angle(found.Z, Z) < 1e-10
    np.testing.assert_allclose(np.linalg.norm(found.Z, axis=0), 1.0, rtol=1e-12)
    values = np.linalg.svd(np.hstack(list(stack)), compute_uv=False)
    np.testing.assert_allclose(found.values, values, atol=1e-12)
    assert found.residual < 1e-10


def test_the_rank_is_what_exceeds_the_threshold_and_no_more_than_allowed():
    _, stack = columns_and_stack(6, 3, 4, seed=2)
    values = np.linalg.svd(np.hstack(list(stack)), compute_uv=False)
    rng = np.random.default_rng(3)

    def rank(**options):
        return decompose_shared_terms(stack, rng, **options).Z.shape[1]

    assert rank(threshold=1e-9, largest_rank=6) == 3
    assert rank(threshold=1e-9, largest_rank=2) == 2
    assert rank(threshold=values[1], largest_rank=6) == 1  # at the threshold counts as zero
    nothing = decompose_shared_terms(stack, rng, threshold=2 * values[0], largest_rank=6)
    assert nothing.Z.shape == (6, 0) and nothing.residual == 0.0


@pytest.mark.parametrize("rank", [2, 3])
def test_terms_that_are_not_orthogonal_are_told_apart_within_their_span(rank):
    Z, stack = columns_and_stack(5, rank, 4, seed=20 + rank)
    assert np.abs(Z.T @ Z - np.eye(rank)).max() > 0.2, "singular vectors would be wrong"
    found = decompose_shared_terms(stack, np.random.default_rng(1), threshold=1e-9, largest_rank=5)
    assert worst_angle(found.Z, Z) < 1e-10


def test_noise_above_the_threshold_is_left_in_the_residual():
    Z, stack = columns_and_stack(4, 2, 6, seed=30)
    noise = np.random.default_rng(31).standard_normal(stack.shape)
    noisy = stack + 1e-3 * (noise + noise.transpose(0, 2, 1))
    found = decompose_shared_terms(noisy, np.random.default_rng(1), threshold=0.1, largest_rank=4)
    assert found.Z.shape == (4, 2) and 1e-9 < found.residual < 1e-3 and worst_angle(found.Z, Z) < 1e-4
    capped = decompose_shared_terms(noisy, np.random.default_rng(1), threshold=0.0, largest_rank=3)
    assert capped.Z.shape == (4, 3)


def test_one_pair_alone_is_worse_than_all_matrices_under_noise():
    _, stack = columns_and_stack(4, 3, 8, seed=32)
    noise = np.random.default_rng(33).standard_normal(stack.shape)
    noisy = stack + 0.02 * (noise + noise.transpose(0, 2, 1))
    options = {"threshold": 0.3, "largest_rank": 3}
    alone, together = (
        decompose_shared_terms(noisy, np.random.default_rng(1), **options, **more)
        for more in ({"max_sweeps": 0}, {})
    )
    assert together.residual < alone.residual


def test_one_term_is_its_own_span():
    z = np.array([0.6, 0.0, -0.8])
    stack = np.stack([2.0 * np.outer(z, z), -np.outer(z, z)])
    found = decompose_shared_terms(stack, np.random.default_rng(0), threshold=1e-9, largest_rank=3)
    np.testing.assert_allclose(np.abs(found.Z[:, 0] @ z), 1.0, rtol=1e-14)
    assert found.residual == 0.0


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_singular_values_of_khatri_rao_powers(order):
    W = np.random.default_rng(order).standard_normal((3, 4))
    power = W
    for _ in range(order - 1):
        power = np.einsum("ka,kb->kab", power, W).reshape(3, -1)
    expected = np.linalg.svd(power, compute_uv=False)
    np.testing.assert_allclose(
        khatri_rao_values(W, order), expected, rtol=1e-7
    )  # half the digits from order 3


def test_more_rows_than_dimensions_have_values_zero():
    W = np.random.default_rng(5).standard_normal((5, 2))
    values = khatri_rao_values(W, 2)  # symmetric matrices of size 2 have three dimensions
    assert values.shape == (5,) and (values[:3] > 0.01).all() and not values[3:].any()
    assert (np.diff(values) <= 0).all()


def test_a_symmetric_stack_is_decomposed_to_rounding():
    Z, stack = columns_and_stack(4, 4, 7, seed=6)
    found = decompose_symmetric(stack, 4, rng=np.random.default_rng(7), max_sweeps=4000)
    assert found.residual < 1e-18 and worst_angle(found.Z, Z) < 1e-8
    np.testing.assert_allclose(np.linalg.norm(found.Z, axis=0), 1.0, rtol=1e-12)
    assert 1 <= found.restarts <= 10 and found.sweeps >= 1


def test_restarts_end_at_the_first_exact_one_and_are_counted():
    _, stack = columns_and_stack(3, 1, 4, seed=8)
    easy = decompose_symmetric(stack, 1, rng=np.random.default_rng(0))
    assert easy.restarts == 1 and easy.residual < 1e-26
    noisy = stack + 0.1 * np.random.default_rng(1).standard_normal(stack.shape)
    noisy = noisy + noisy.transpose(0, 2, 1)
    hard = decompose_symmetric(noisy, 1, rng=np.random.default_rng(0), n_restarts=4, max_sweeps=50)
    assert hard.restarts == 4 and 0 < hard.residual < 1
    # What is left over is what one term cannot explain: no random term does better.
    z = hard.Z[:, 0]
    weights = np.einsum("a,tab,b->t", z, noisy, z)
    left = ((noisy - weights[:, None, None] * np.outer(z, z)) ** 2).sum() / (noisy**2).sum()
    assert hard.residual == pytest.approx(left, rel=1e-6)
    for direction in np.random.default_rng(2).standard_normal((200, 3)):
        other = direction / np.linalg.norm(direction)
        gain = (np.einsum("a,tab,b->t", other, noisy, other) ** 2).sum() / (noisy**2).sum()
        assert 1 - gain >= hard.residual - 1e-9
