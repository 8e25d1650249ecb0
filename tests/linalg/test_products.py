"""Symmetric matrices as vectors keep inner products; unit rows and their lengths give the rows back."""

import numpy as np
import pytest

from planted.linalg import smat, svec, svec_outer, unit_rows


@pytest.mark.parametrize("k", [1, 2, 3, 7, 40])
def test_inner_products_are_kept_and_smat_inverts(k):
    rng = np.random.default_rng(k)
    S, T = (M + M.transpose(0, 2, 1) for M in rng.standard_normal((2, 4, k, k)))
    assert svec(S).shape == (4, k * (k + 1) // 2)
    np.testing.assert_allclose(
        (svec(S) * svec(T)).sum(axis=-1), (S * T).sum(axis=(1, 2)), rtol=0, atol=1e-13 * k**2
    )
    np.testing.assert_allclose(smat(svec(S)), S, rtol=1e-15)


def test_quadratic_features_evaluate_quadratic_forms():
    rng = np.random.default_rng(0)
    Y, S = rng.standard_normal((6, 4)), rng.standard_normal((4, 4))
    S = S + S.T
    np.testing.assert_allclose(svec_outer(Y) @ svec(S), np.einsum("ni,ij,nj->n", Y, S, Y), rtol=0, atol=1e-13)
    np.testing.assert_allclose(svec_outer(Y), svec(Y[:, :, None] * Y[:, None, :]), rtol=1e-15)


def test_hand_numbers():
    root = np.sqrt(2.0)
    np.testing.assert_allclose(svec(np.array([[1.0, 2.0], [2.0, 3.0]])), [1.0, 2 * root, 3.0], rtol=1e-15)
    np.testing.assert_allclose(svec_outer(np.array([[2.0, -1.0]])), [[4.0, -2 * root, 1.0]], rtol=1e-15)
    np.testing.assert_allclose(smat(np.array([1.0, root, 3.0])), [[1.0, 1.0], [1.0, 3.0]], rtol=1e-15)


def test_unit_rows_are_the_quotients_to_the_bit_and_zero_rows_stay_zero():
    rows = np.random.default_rng(0).standard_normal((40, 7)) * 10.0 ** np.arange(-20, 20)[:, None]
    unit, lengths = unit_rows(rows)
    np.testing.assert_array_equal(unit, rows / np.linalg.norm(rows, axis=1, keepdims=True))
    np.testing.assert_array_equal(lengths, np.linalg.norm(rows, axis=1))
    # Columns are rows of the transpose, in whichever order they lie in memory.
    np.testing.assert_array_equal(unit_rows(rows.T)[0].T, rows / np.linalg.norm(rows, axis=0))
    rows[3] = 0.0
    unit, lengths = unit_rows(rows)
    assert not unit[3].any() and lengths[3] == 1.0
    np.testing.assert_allclose(unit * lengths[:, None], rows, rtol=1e-15)


def test_unit_rows_of_no_rows():
    unit, lengths = unit_rows(np.zeros((0, 3)))
    assert unit.shape == (0, 3) and lengths.shape == (0,)
