"""Algorithm 3 of BJW18, line by line: a grid on which the components are exactly independent, and hand numbers."""

import itertools

import numpy as np
import pytest

from planted.linalg import column_space
from planted.methods.ica.printed import TAU, algorithm_3, steps_1_to_3, steps_4_to_8
from planted.networks import parse_activation
from planted.simulate import dataset

RELU = parse_activation("relu")
# All combinations of seven values: every moment of the sample factorises, so that W = I has independent activations.
GRID = np.array(list(itertools.product([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0], repeat=3)))
A = np.array([[1.0, 2.0, 0.5], [-1.0, 1.0, 0.0], [0.3, 0.2, 2.0], [1.0, 1.0, 1.0]])


def matched(W, truth):
    """The rows of W in the order of the truth's, which must be one to one."""
    order = np.argmax(truth @ W.T, axis=1)
    assert sorted(order) == list(range(len(truth)))
    return W[order]


@pytest.mark.parametrize("name", ["relu", "power:2"])
def test_independent_activations_are_recovered_exactly(name):
    f = parse_activation(name)
    Y = f(GRID) @ A.T
    rng = np.random.default_rng(0)
    rows = rng.permutation(343)  # the first rows of the grid are all alike
    X, Y = GRID[rows], Y[rows]
    W, components = algorithm_3(X[:200], Y, column_space(Y[:200])[0][:, :3], activation=f, rng=rng)
    assert components.converged
    np.testing.assert_allclose(matched(W, np.eye(3)), np.eye(3), atol=1e-12)


def test_steps_1_to_3_give_the_activations_up_to_order_and_positive_scale():
    H = np.maximum(GRID, 0.0)
    scores, components = steps_1_to_3(H @ A.T, 3, np.random.default_rng(0))
    assert components.unmixing.shape == (3, 3)
    # A stop at 1 - cosine = 1e-6 would leave an angle of 1e-3; the iteration is of third order and ends far below.
    gains = np.linalg.lstsq(H, scores, rcond=None)[0]
    assert np.abs(H @ gains - scores).max() < 1e-12
    order = gains.argmax(axis=0)
    assert sorted(order) == [0, 1, 2]
    np.testing.assert_allclose(gains[order, range(3)] * H.std(axis=0), 1.0, atol=1e-6)


def test_the_sketch_is_square_whatever_the_number_of_outputs():
    """With T of k rows the components are those of k mixtures: the rank of many outputs does not matter."""
    H = np.maximum(GRID, 0.0)
    many = np.hstack([H @ A.T, H @ A.T])
    assert steps_1_to_3(many, 3, np.random.default_rng(0))[0].shape == (343, 3)


# Six samples of two inputs with w = (1, 0) and (0, 1).
X = np.array([[1.0, 2.0], [2.0, -1.0], [-1.0, 1.0], [-2.0, -3.0], [3.0, 1.0], [-1.0, 3.0]])
H = np.maximum(X, 0.0)


def test_steps_4_to_8_turn_rough_scores_into_exact_units():
    """The places of the zeros are right, the values wrong by a tenth: the units are exact."""
    rough = H * (1 + 0.1 * np.cos(np.arange(12.0)).reshape(6, 2)) - 1e-5
    W = steps_4_to_8(X, np.linalg.qr(H)[0], rough, RELU)
    np.testing.assert_allclose(W, np.eye(2), atol=1e-14)


def test_scores_up_to_the_threshold_are_zero_and_those_above_are_not():
    """Sample 1 is on for unit 0. A score at the threshold loses it, and with it the unit; one above keeps it."""
    Q = np.linalg.qr(H)[0]
    for factor, found in ((1.5, 1), (0.5, 0)):
        score = H[:, 0].copy()
        for _ in range(50):  # a fixed point: the threshold is a part of the spread of the same score
            score[1] = factor * TAU * score.std()
        assert len(steps_4_to_8(X, Q, score[:, None], RELU)) == found


def test_a_unit_that_two_scores_lead_to_is_kept_once():
    W = steps_4_to_8(X, np.linalg.qr(H)[0], H[:, [0, 0, 1]], RELU)
    np.testing.assert_allclose(W, np.eye(2), atol=1e-14)


def test_scores_that_are_never_low_lead_nowhere():
    """Without rows that are off there is no equation; any vector would do, here even that of a unit."""
    assert steps_4_to_8(X, H[:, :1] / np.linalg.norm(H[:, 0]), 5.0 + H[:, :1], RELU).shape == (0, 2)


def test_more_rows_are_worse():
    """W disturbed by 0.02: of 40 units 32 were found from 24 rows, none from 3,000."""
    found = {24: 0, 3000: 0}
    for seed in range(10):
        data = dataset(3000, n_features=6, n_hidden=4, n_outputs=4, random_state=seed)
        rough = data.network.W + 0.02 * np.random.default_rng([9, seed]).standard_normal((4, 6))
        for n_rows in found:
            X, Q = data.X[:n_rows], column_space(data.Y[:n_rows])[0]
            found[n_rows] += len(steps_4_to_8(X, Q, X @ rough.T, RELU))
    assert found[24] > 25 > 5 > found[3000], found


def test_a_score_that_is_never_low_does_not_end_the_search():
    scores = np.hstack([H + 1.0, H])
    assert len(steps_4_to_8(X, np.linalg.qr(H)[0], scores, RELU)) == 2


@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_the_threshold_is_a_part_of_the_spread_of_a_score(scale):
    rough = H + 0.5 * TAU * (H == 0)
    assert len(steps_4_to_8(X, np.linalg.qr(H)[0], scale * rough, RELU)) == 2
