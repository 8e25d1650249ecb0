"""Section 8 of BJW18: the convex program with its weight, what it is without, and the exact method behind it."""

import numpy as np
import pytest

from planted.linalg.low_rank_sparse import LowRankSparse, principal_component_pursuit
from planted.methods.gross_errors.printed import corollary_8, theorem_14


def corrupted(share, *, shape=(150, 100), size=10.0):
    """A matrix of rank two with gross errors of one sign, and its clean form."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    return M + (rng.random(M.shape) < share) * size, M


@pytest.mark.parametrize("shape", [(150, 100), (100, 150)])
def test_the_program_finds_the_low_rank_part(shape):
    Y, M = corrupted(0.05, shape=shape)
    L = theorem_14(Y, known=np.isfinite(Y))
    assert np.abs(L - M).max() < 1e-4  # the program is solved to 1e-7 of |Y|, about 1e-5
    assert np.abs(L - principal_component_pursuit(Y, weight=150**-0.5)[0]).max() == 0


def test_missing_labels_are_filled():
    Y, M = corrupted(0.0)
    known = np.random.default_rng(1).random(Y.shape) > 0.1
    L = theorem_14(np.where(known, Y, 1e6), known=known)
    assert np.abs(L - M).max() < 1e-3


def test_without_the_weight_the_errors_stay():
    """λ = 1, as printed: L = Y is the minimiser, because no entry of PQ' exceeds one."""
    Y, _ = corrupted(0.05)
    assert np.abs(principal_component_pursuit(Y, weight=1.0)[0] - Y).max() < 1e-4


def test_the_best_approximation_of_rank_k_is_not_the_truth():
    Y, M = corrupted(0.05)
    left, values, right = np.linalg.svd(Y, full_matrices=False)
    assert np.abs((left[:, :2] * values[:2]) @ right[:2] - M).max() > 0.5


def test_the_exact_method_sees_the_decided_rows_of_the_low_rank_part():
    X, L = np.arange(6.0).reshape(3, 2), np.arange(9.0).reshape(3, 3)
    decided = np.array([True, False, True])
    split = LowRankSparse(L, np.eye(3)[:, :1], np.ones((3, 3), dtype=bool), decided, 0)
    seen = []
    answer = corollary_8(X, split, lambda *arrays: seen.append(arrays) or "the answer")
    assert answer == "the answer"
    np.testing.assert_array_equal(seen[0][0], X[[0, 2]])
    np.testing.assert_array_equal(seen[0][1], L[[0, 2]])
