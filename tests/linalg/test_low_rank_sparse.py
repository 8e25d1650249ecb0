"""Low rank and sparse, each step against numbers that are known."""

import numpy as np
import pytest

from planted.linalg.low_rank_sparse import (
    EXACT,
    PURSUIT_STEPS,
    LowRankSparse,
    _leading,
    _masked_solve,
    _robust_sizes,
    alternating_projections,
    polish_low_rank,
    principal_component_pursuit,
    regress_despite_errors,
    tuned_weight,
)


def planted_split(n=120, m=14, rank=2, share=0.15, size=20.0, seed=0):
    """Return a low-rank matrix with columns of very different size, the same with wrong entries, and where they are."""
    rng = np.random.default_rng(seed)
    columns = np.logspace(-2, 2, m)
    L = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, m)) * columns
    wrong = rng.random((n, m)) < share
    return L, np.where(wrong, L + size * columns * rng.standard_normal((n, m)), L), wrong


def relative(found, L):
    return np.abs(found - L).max(axis=0) / np.abs(L).max(axis=0)


def test_projections_are_exact_and_mark_the_wrong_entries():
    L, Y, wrong = planted_split()
    split = alternating_projections(Y, 2)
    assert relative(split.L, L).max() < 1e-11  # rounding of well-conditioned solves
    np.testing.assert_array_equal(split.is_clean, ~wrong)
    assert split.is_decided.all() and split.clean_share == pytest.approx(1 - wrong.mean(), abs=1e-15)
    # An orthonormal basis of the row space in the data's own units.
    np.testing.assert_allclose(split.basis.T @ split.basis, np.eye(2), atol=1e-13)
    outside = L - L @ split.basis @ split.basis.T
    assert np.linalg.norm(outside) < 1e-11 * np.linalg.norm(L)
    assert (
        split.steps > 100
    )  # the threshold falls from 4 to 0.01 by 5 % at a time: 117 steps, then the polish


def test_unknown_entries_never_count_as_clean():
    L, Y, wrong = planted_split(seed=3)
    known = np.random.default_rng(8).random(L.shape) < 0.85
    spoiled = np.where(known, Y, 1e6)  # values that are unknown may be anything finite
    split = alternating_projections(spoiled, 2, known=known)
    assert relative(split.L, L).max() < 1e-11
    np.testing.assert_array_equal(split.is_clean, known & ~wrong)


def test_a_row_needs_more_clean_entries_than_the_rank():
    L, Y, _ = planted_split(share=0.0)
    known = np.ones(L.shape, dtype=bool)
    known[0, 2:] = False  # two entries for two unknowns: no redundancy
    known[1, 3:] = False
    split = alternating_projections(Y, 2, known=known)
    assert not split.is_decided[0] and split.is_decided[1:].all()
    assert split.clean_share == pytest.approx((known.sum() - 2) / known.size, abs=1e-15)


def test_pursuit_ends_near_the_low_rank_part_and_the_polish_makes_it_exact():
    rng = np.random.default_rng(0)
    L = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 30))
    wrong = rng.random(L.shape) < 0.05
    Y = np.where(wrong, L + 10 * rng.standard_normal(L.shape), L)
    weight = tuned_weight(Y.shape)
    near, steps = principal_component_pursuit(Y, weight=weight)
    assert steps < 100 and 1e-9 < np.abs(near - L).max() < 1e-4
    split = polish_low_rank(Y, near, 2)
    assert np.abs(split.L - L).max() < 1e-12
    np.testing.assert_array_equal(split.is_clean, ~wrong)
    assert principal_component_pursuit(Y, weight=weight, tol=np.inf)[1] == 1
    assert principal_component_pursuit(Y, weight=weight, tol=0.0)[1] == PURSUIT_STEPS
    loose, fewer = principal_component_pursuit(Y, weight=weight, tol=1e-3)
    assert fewer < steps and np.abs(loose - L).max() > np.abs(near - L).max()


def test_pursuit_minimises_the_convex_objective():
    """No small move of L towards the planted part or elsewhere lowers |L|_* + weight |Y - L|_1."""
    rng = np.random.default_rng(4)
    Y = rng.standard_normal((12, 2)) @ rng.standard_normal((2, 6)) + 3 * (rng.random((12, 6)) < 0.1)
    weight = 1 / np.sqrt(12)
    L, _ = principal_component_pursuit(Y, weight=weight, tol=1e-9)

    def objective(M):
        return np.linalg.svd(M, compute_uv=False).sum() + weight * np.abs(Y - M).sum()

    least = objective(L)
    for _ in range(50):
        move = rng.standard_normal(L.shape)
        assert objective(L + 1e-3 * move) >= least - 1e-6
    assert objective(0.99 * L) > least and objective(Y) > least


def test_pursuit_with_unknown_entries_ignores_their_values():
    rng = np.random.default_rng(1)
    L = rng.standard_normal((150, 2)) @ rng.standard_normal((2, 25))
    known = rng.random(L.shape) < 0.9
    weight = tuned_weight(L.shape)
    one, _ = principal_component_pursuit(np.where(known, L, 7.0), weight=weight, known=known)
    other, _ = principal_component_pursuit(np.where(known, L, -9.0), weight=weight, known=known)
    np.testing.assert_array_equal(one, other)
    assert np.abs(one - L).max() < 1e-3
    split = polish_low_rank(np.where(known, L, 7.0), one, 2, known=known)
    assert np.abs(split.L - L).max() < 1e-12 and (split.is_clean == known).all()


def test_weights_by_hand():
    assert tuned_weight((100, 25)) == tuned_weight((25, 100)) == pytest.approx(0.25)


def test_regression_is_exact_with_a_third_of_the_entries_wrong():
    rng = np.random.default_rng(2)
    H, B = rng.standard_normal((90, 3)), rng.standard_normal((3, 4)) * [1e-3, 1.0, 1.0, 1e3]
    Y = H @ B
    wrong = rng.random(Y.shape) < 0.3
    spoiled = np.where(wrong, Y + 40 * np.abs(Y).max(axis=0), Y)
    np.testing.assert_allclose(regress_despite_errors(H, spoiled), B, rtol=1e-10)
    # The same when the wrong entries are told: only the others count.
    np.testing.assert_allclose(
        regress_despite_errors(H, np.where(wrong, 1e9, Y), known=~wrong), B, rtol=1e-10
    )


def test_a_constant_column_is_scaled_by_the_others():
    """A column without spread has no size of its own; it must not be divided by zero."""
    _, Y, wrong = planted_split(share=0.05)
    Y, wrong = np.column_stack([Y, np.zeros(len(Y))]), np.column_stack([wrong, np.zeros(len(Y), dtype=bool)])
    split = alternating_projections(Y, 2)
    assert np.isfinite(split.L).all() and np.abs(split.L[:, -1]).max() < 1e-9
    np.testing.assert_array_equal(split.is_clean, ~wrong)


def test_the_clean_share_counts_decided_rows_only():
    clean = np.array([[True, True], [True, False]])
    split = LowRankSparse(np.zeros((2, 2)), np.zeros((2, 1)), clean, np.array([True, False]), 1)
    assert split.clean_share == 0.5 and EXACT == 1e-10


# --- the steps


def test_the_polish_counts_its_steps():
    L, _, _ = planted_split(share=0.0)
    assert polish_low_rank(L, L, 2).steps == 1  # exact at once
    split = polish_low_rank(L, L * (1 + 1e-5 * np.random.default_rng(0).standard_normal(L.shape)), 2)
    assert 1 <= split.steps <= 3 and split.is_clean.all()


def test_noise_has_no_clean_entries():
    Y = np.random.default_rng(1).standard_normal((40, 8))  # no rank two in sight
    split = polish_low_rank(Y, Y, 2)
    assert not split.is_decided.any() and split.clean_share == 0.0


def test_robust_sizes_by_hand():
    Y = np.array([[0.0, 5.0, 1.0], [1.0, 5.0, 1.0], [2.0, 5.0, 1.0], [10.0, 9.0, 1.0]])
    known = np.ones(Y.shape, dtype=bool)
    centres, sizes = _robust_sizes(Y, known)
    np.testing.assert_array_equal(centres, [1.5, 5.0, 1.0])
    # Distances 1.5 0.5 0.5 8.5, then 0 0 0 4, then zeros: the median of all twelve is 0, their mean 15 / 12.
    np.testing.assert_allclose(sizes, [1.4826, 15 / 12, 15 / 12], rtol=1e-14)
    known[3, 0] = False
    centres, sizes = _robust_sizes(Y, known)
    assert centres[0] == 1.0 and sizes[0] == pytest.approx(1.4826)
    known[:, 2] = False  # a column without known entries is taken as it stands
    assert _robust_sizes(Y, known)[0][2] == 1.0
    np.testing.assert_array_equal(_robust_sizes(np.ones((3, 2)), np.ones((3, 2), dtype=bool))[1], [1.0, 1.0])


def test_the_common_size_is_the_median_distance_where_there_is_one():
    Y = np.column_stack([np.arange(5.0), np.arange(5.0), [0.0, 0.0, 0.0, 0.0, 7.0]])
    # Distances 2 1 0 1 2 twice and 0 0 0 0 7: the median of fifteen is 1.
    assert _robust_sizes(Y, np.ones(Y.shape, dtype=bool))[1][2] == pytest.approx(1.4826)


def test_masked_least_squares_row_by_row():
    rng = np.random.default_rng(2)
    factor, Y = rng.standard_normal((7, 2)), rng.standard_normal((4, 7))
    weights = rng.uniform(0.5, 2.0, (4, 7))
    mask = rng.random((4, 7)) < 0.7
    mask[3] = False
    for given in (mask, weights):
        found = _masked_solve(Y, given, factor)
        for row, solution in enumerate(found):
            root = np.sqrt(given[row].astype(float))
            if not root.any():
                assert not solution.any()  # a row without marks stays at zero
                continue
            expected = np.linalg.lstsq(factor * root[:, None], Y[row] * root, rcond=None)[0]
            np.testing.assert_allclose(solution, expected, rtol=1e-10)


def test_the_leading_space_is_that_of_the_largest_singular_values():
    M = np.diag([3.0, 1.0, 2.0])[:, :3]
    P = _leading(M, 2)
    np.testing.assert_allclose(P @ P.T, np.diag([1.0, 0.0, 1.0]), atol=1e-14)


def test_more_errors_than_can_be_told_apart_are_not_called_clean():
    _, Y, _ = planted_split(share=0.75, size=3.0)
    split = alternating_projections(Y, 2)
    assert split.clean_share < 0.5
