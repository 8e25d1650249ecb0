"""Null spaces with their gap, on matrices worked by hand."""

import numpy as np
import pytest
from scipy import linalg

from planted.linalg import column_space, null_space, numerical_rank


def test_hand_matrix():
    space = null_space(np.array([[1.0, -1.0, 0.0], [2.0, -2.0, 0.0], [0.0, 0.0, 3.0]]))
    assert space.dimension == 1
    np.testing.assert_allclose(np.abs(space.basis[:, 0]), [2**-0.5, 2**-0.5, 0.0], rtol=0, atol=1e-15)
    # Singular values are sqrt(10), 3 and 0.
    np.testing.assert_allclose(space.singular_values, [1.0, 3 / np.sqrt(10), 0.0], rtol=0, atol=1e-15)
    assert space.smallest_kept == pytest.approx(3 / np.sqrt(10), rel=1e-14)
    assert space.largest_dropped < 1e-15


@pytest.mark.parametrize(("n", "q", "rank"), [(3, 7, 3), (7, 7, 4), (50, 7, 5), (50, 7, 7), (5, 5, 5)])
def test_the_basis_is_orthonormal_annihilated_and_complete(n, q, rank):
    rng = np.random.default_rng(n + q + rank)
    M = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, q))
    space = null_space(M)
    assert space.dimension == q - rank
    assert space.singular_values.shape == (q,)
    np.testing.assert_allclose(space.basis.T @ space.basis, np.eye(q - rank), rtol=0, atol=1e-14)
    assert np.abs(M @ space.basis).max(initial=0.0) < 1e-13 * np.abs(M).max() * q
    values = linalg.svdvals(M)
    np.testing.assert_allclose(space.singular_values[: len(values)], values / values[0], rtol=0, atol=1e-14)
    assert (np.diff(space.singular_values) <= 0).all()


def test_the_gap_reports_the_two_values_around_the_cut():
    rng = np.random.default_rng(0)
    left, right = (linalg.qr(rng.standard_normal((size, size)))[0] for size in (9, 4))
    M = left[:, :4] * [2.0, 1.0, 2e-4, 2e-13] @ right
    space = null_space(M)
    assert space.dimension == 1
    assert space.smallest_kept == pytest.approx(1e-4, rel=1e-9)
    assert space.largest_dropped == pytest.approx(1e-13, rel=0.05)
    assert null_space(M, tol=1e-3).dimension == 2
    assert null_space(M, tol=1e-3).largest_dropped == pytest.approx(1e-4, rel=1e-9)
    assert null_space(M, tol=1e-14).dimension == 0
    assert null_space(M, tol=1e-14).largest_dropped == 0.0


def test_the_zero_matrix_has_everything_in_its_null_space():
    space = null_space(np.zeros((4, 3)))
    assert space.dimension == 3
    assert space.smallest_kept == 1.0
    assert space.largest_dropped == 0.0


def test_column_space_and_rank():
    M = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    basis, values = column_space(M)
    assert basis.shape == (3, 2)
    np.testing.assert_allclose(basis @ basis.T, np.diag([1.0, 1.0, 0.0]), rtol=0, atol=1e-15)
    np.testing.assert_allclose(values, [1.0, 5**-0.5, 0.0], rtol=0, atol=1e-15)
    assert numerical_rank(values) == 2
    assert numerical_rank(values, tol=0.9) == 1
    assert column_space(np.zeros((3, 2)))[0].shape == (3, 0)


@pytest.mark.parametrize("smallest", [0.3, 1e-5, 1e-12])
def test_a_product_and_a_decomposition_agree_on_full_rank(smallest):
    """Well above the limit the product answers, near it and below the decomposition; the numbers are the same."""
    rng = np.random.default_rng(6)
    left, right = (np.linalg.qr(rng.standard_normal((n, 5)))[0] for n in (40, 5))
    M = left * np.array([1.0, 0.8, 0.6, 0.4, smallest]) @ right.T
    space = null_space(M, tol=1e-9)
    assert space.dimension == (smallest < 1e-9)
    assert space.basis.shape == (5, space.dimension)
    np.testing.assert_allclose(space.singular_values, [1.0, 0.8, 0.6, 0.4, smallest], rtol=1e-9, atol=1e-14)
