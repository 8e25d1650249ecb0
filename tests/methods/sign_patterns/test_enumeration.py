"""Lemma 1 of BJW18: the sign patterns of a subspace, complete and without duplicates, and the units among them."""

import numpy as np
import pytest
from scipy import linalg

from planted.linalg import column_space
from planted.methods.sign_patterns._enumeration import count_patterns, enumerate_patterns
from planted.methods.sign_patterns.printed import algorithm_2
from planted.simulate import dataset


def world(n=60, d=5, k=3, m=3, seed=0, **options):
    return dataset(n, n_features=d, n_hidden=k, n_outputs=m, random_state=seed, **options)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 1), (7, 2), (30, 3), (15, 4), (9, 5), (3, 5)])
def test_the_number_of_patterns_in_general_position_is_the_formula(n, k):
    Q = np.random.default_rng(n).standard_normal((n, k))
    patterns = enumerate_patterns(Q)
    assert len(np.unique(patterns, axis=0)) == len(patterns) == count_patterns(n, k)


def test_every_pattern_is_realised_and_none_is_missing():
    """Random vectors of the space hit every cell of a small arrangement sooner or later, and no other pattern."""
    rng = np.random.default_rng(3)
    Q = rng.standard_normal((8, 3))
    listed = {row.tobytes() for row in enumerate_patterns(Q)}
    seen = {row.tobytes() for row in rng.standard_normal((200_000, 3)) @ Q.T > 0}
    assert seen == listed


def test_coinciding_hyperplanes_and_zero_rows_add_no_patterns():
    rng = np.random.default_rng(4)
    Q = rng.standard_normal((6, 3))
    doubled = np.vstack([Q, -2.0 * Q, np.zeros((1, 3))])
    patterns = enumerate_patterns(doubled)
    assert len(patterns) == count_patterns(6, 3)
    assert not patterns[:, -1].any()
    np.testing.assert_array_equal(patterns[:, 6:12], ~patterns[:, :6])


def test_hyperplanes_through_a_common_line_have_fewer_cells():
    """Six hyperplanes that contain one line are six lines in the plane across it: twelve cells, not 32."""
    rng = np.random.default_rng(5)
    Q = np.hstack([rng.standard_normal((6, 2)), np.zeros((6, 1))]) @ linalg.qr(rng.standard_normal((3, 3)))[0]
    assert len(enumerate_patterns(Q)) == 12


@pytest.mark.parametrize("seed", range(3))
def test_the_units_among_the_patterns_are_the_planted_ones(seed):
    data = world(n=40, seed=seed)
    Q = column_space(data.Y)[0]
    units = algorithm_2(data.X, Q, enumerate_patterns(Q))
    assert units.W.shape == (3, 5)
    assert units.undetermined == 0
    cosines = units.W @ (data.network.W / np.linalg.norm(data.network.W, axis=1, keepdims=True)).T
    np.testing.assert_allclose(np.sort(cosines.max(axis=0)), 1.0, rtol=0, atol=1e-12)


def test_a_random_space_holds_no_units():
    rng = np.random.default_rng(1)
    X, Q = rng.standard_normal((40, 5)), linalg.orth(rng.standard_normal((40, 3)))
    units = algorithm_2(X, Q, enumerate_patterns(Q))
    assert units.W.shape == (0, 5)


def test_weights_that_the_samples_leave_open_are_counted():
    """Two active samples cannot determine four weights: the pattern holds a family of units."""
    rng = np.random.default_rng(2)
    X = np.vstack([rng.standard_normal((2, 4)), -np.abs(rng.standard_normal((6, 4))) - 5.0])
    X[:2] = np.abs(X[:2])
    Q = np.zeros((8, 1))
    Q[:2, 0] = np.maximum(X[:2] @ np.ones(4), 0.0)
    Q /= np.linalg.norm(Q)
    units = algorithm_2(X, Q, enumerate_patterns(Q))
    assert units.undetermined == 1
    y = X @ units.W[0]
    assert (y[:2] > 0).all()
    assert (y[2:] <= 1e-9).all()
