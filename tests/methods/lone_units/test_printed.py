"""Algorithm 7 of BJW18 on eight samples that can be followed by hand."""

import numpy as np
import pytest

from planted.methods.lone_units.printed import algorithm_7, parallel_groups
from planted.networks import parse_activation

RELU = parse_activation("relu")
# w = (1, 0) is alone on samples 0 to 2, w = (0, 1) on 3 to 6, both are on for sample 7 and none for 8.
X = np.array(
    [[1.0, -1], [2.0, 0], [3.0, -2], [-1.0, 1], [-2.0, 2.5], [-1.0, 3], [0.0, 4], [2.0, 1], [-1.0, -1]]
)
A = np.array([[3.0, 5.0], [4.0, -12.0]])


def units(X=X, A=A, f=RELU):
    return algorithm_7(X, f(X[:, : A.shape[1]]) @ A.T, activation=f, rng=np.random.default_rng(0))


@pytest.mark.parametrize("name", ["relu", "power:2"])
def test_the_units_the_directions_and_the_sizes(name):
    found = units(f=parse_activation(name))
    np.testing.assert_allclose(found.W, [[0.0, 1.0], [1.0, 0.0]], atol=1e-14)  # largest group first
    np.testing.assert_allclose(found.directions, [[5 / 13, -12 / 13], [0.6, 0.8]], atol=1e-14)
    assert (found.sizes.tolist(), found.small.tolist()) == ([4, 3], [])
    assert found.small.dtype == np.intp == units(X[8:]).sizes.dtype  # also where there is none
    assert (found.misfit_size, found.misfit) == (0, 0.0)


def test_two_samples_for_two_inputs_are_too_few():
    found = units(X[[0, 2, 3, 4, 5, 6]])
    np.testing.assert_allclose(found.W, [[0.0, 1.0]], atol=1e-14)
    assert (found.sizes.tolist(), found.small.tolist()) == ([4], [2])


def test_repeated_samples_count_once_and_proportional_ones_do_not_span():
    repeated = units(X[[0, 0, 0, 2, 3, 4, 5, 6]])
    assert (repeated.sizes.tolist(), repeated.small.tolist()) == ([4], [2])
    proportional = units(np.outer([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, -1.0]))
    assert (len(proportional.W), proportional.small.tolist()) == (0, [5])


def test_sizes_count_distinct_inputs_and_small_groups_come_largest_first():
    assert units(X[[8, 0, 0, 0, 1, 2]]).sizes.tolist() == [3]
    assert units(X[[0, 0, 0, 3, 4]]).small.tolist() == [2, 1]


def test_samples_without_output_are_in_no_group():
    """The zero rows stand first: the numbers of the others must not move up."""
    found = units(X[[8, 8, 0, 1, 2, 3, 4, 5, 6]])
    np.testing.assert_allclose(found.W, [[0.0, 1.0], [1.0, 0.0]], atol=1e-14)


def test_columns_that_are_positive_multiples_make_a_group_that_is_no_unit():
    """Nine samples but one are along one direction; eight of them are not linear in x."""
    found = units(A=np.array([[3.0, 6.0], [4.0, 8.0]]))
    assert len(found.W) == 0
    assert found.misfit_size == 8
    assert found.misfit > 0.01


def test_opposite_columns_make_two_groups():
    """c > 0 in step 1: outputs along u and -u are apart, whatever step 2 prints."""
    found = units(X[[0, 1, 2, 3, 4, 5, 6]], A=np.array([[3.0, -3.0], [4.0, -4.0]]))
    np.testing.assert_allclose(found.directions, [[-0.6, -0.8], [0.6, 0.8]], atol=1e-14)


def test_the_largest_group_that_does_not_fit_is_reported():
    """Three groups: three units (1, 0) whose outputs were doubled on one sample, and seven of (0, 1) likewise."""
    Y = RELU(X) @ A.T
    Y[0] *= 2
    Y[3] *= 2
    found = algorithm_7(X, Y, activation=RELU, rng=np.random.default_rng(0))
    assert (len(found.W), found.misfit_size) == (0, 4)


def test_no_samples_make_no_groups_and_neither_does_one():
    for rows in (
        np.zeros((0, 2)),
        np.zeros((3, 2)),
        np.array([[1.0, 2.0]]),
        np.array([[1.0, 2.0], [2.0, 1.0]]),
    ):
        assert parallel_groups(rows, np.random.default_rng(0)) == []
