"""Algorithm 8 of BJW18 by hand: draws that are all alike take the chance out of every step."""

import numpy as np
import pytest

from planted.methods.half_spaces.printed import (
    SMOOTHINGS,
    GuessGrid,
    _best_set,
    _directions,
    _grid_rows,
    algorithm_8,
    half_spaces_of_labels,
    predict_guesses,
)

# Four samples on the axes; y = 3 f(x_1) is positive on the first alone.
X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])


class Constant:
    """A stream whose sketch is one everywhere and whose smoothing noise is one number."""

    def __init__(self, noise):
        self.noise, self.drawn = noise, []

    def standard_normal(self, size):
        self.drawn.append(size)
        return np.full(size, self.noise if isinstance(size, int) else 1.0)


def test_one_unit_without_noise_is_found_exactly():
    """Labels (1, -1, -1, -1) sum to w = (2, 0); the guess of the wrong sign labels all samples -1, which sums to zero."""
    Y = 3.0 * np.maximum(X[:, :1], 0.0)
    stream = Constant(0.0)
    network, residual = algorithm_8(X, Y, 1, grid=GuessGrid(1, 1), rng=stream)
    np.testing.assert_allclose(network.W, [[1.0, 0.0]], atol=1e-15)
    np.testing.assert_allclose(network.A, [[3.0]], atol=1e-15)
    assert residual < 1e-15
    # Step 1 draws S; step 3a draws noise for every guess and every size of it.
    assert stream.drawn == [(1, 1)] + [4] * 2 * len(SMOOTHINGS)


def test_the_sketch_mixes_the_outputs():
    """A sketch of equal entries sees the sum of the outputs: nothing where they are opposite."""
    Y = np.maximum(X[:, :1], 0.0) * [[2.0, -1.0]]
    network, _ = algorithm_8(X, Y, 1, grid=GuessGrid(1, 1), rng=Constant(0.0))
    np.testing.assert_allclose(network.A, [[2.0], [-1.0]], atol=1e-15)
    blind, _ = algorithm_8(X, Y * [[0.5, 1.0]], 1, grid=GuessGrid(1, 1), rng=Constant(0.0))
    np.testing.assert_array_equal(blind.W, [[0.0, 0.0]])


def test_the_inputs_are_whitened():
    """Samples on skewed axes: the labels are the same, and w follows the inverse of the map."""
    skew = np.array([[2.0, 0.0], [1.0, 3.0]])
    Y = 3.0 * np.maximum(X[:, :1], 0.0)
    network, _ = algorithm_8(X @ skew.T, Y, 1, grid=GuessGrid(1, 1), rng=Constant(0.0))
    np.testing.assert_allclose(network.W, [[1.0, 0.0]], atol=1e-14)  # (1, 0) skew⁻¹ = (1/2, 0)


def test_the_grid_has_every_sign_and_size_of_every_entry():
    rows = {tuple(row) for row in _grid_rows(GuessGrid(2, 2))}
    values = (1.0, 0.5, -1.0, -0.5)
    assert rows == {(a, b) for a in values for b in values}


@pytest.mark.parametrize(("smoothing", "second"), [(0.5, 1.0), (0.25, -1.0)])
def test_smoothing_is_relative_to_what_is_smoothed(smoothing, second):
    """M S y = (3, -1) has root mean square √5: noise of half of it turns the second label, of a quarter it does not."""
    found = _directions(np.eye(2), np.array([[3.0], [-1.0]]), np.ones((1, 1)), smoothing, Constant(1.0))
    np.testing.assert_allclose(found, np.array([[1.0, second]]) / np.sqrt(2), atol=1e-15)


def test_labels_without_a_preference_have_no_half_space():
    found = half_spaces_of_labels(X, np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 1.0], [1.0, 1.0]]))
    np.testing.assert_array_equal(found, [[0.0, 0.0], [1.0, 0.0]])


def test_the_best_set_explains_most_together():
    """Units 0 and 1 are alike; 2 explains less than either, but more beside one of them."""
    directions = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    Y = np.maximum(X[:, :1], 0.0) * 5 + np.maximum(X[:, 1:], 0.0)
    assert _best_set(X, Y, directions, 1) == [0]
    assert _best_set(X, Y, directions, 2) == [0, 2]
    assert _best_set(X, np.maximum(-X[:, :1], 0.0), directions, 1) == [3]


def test_the_number_of_guesses_by_hand():
    """k · 100 k entries of the sketch, each with (k κ / ε)⁸ + 1 values; ε is 1/(k + 1) and κ one unless given."""
    assert predict_guesses(2, epsilon=0.5, kappa=3.0) == pytest.approx(400 * np.log10(12.0**8 + 1), rel=1e-12)
    assert predict_guesses(3) == pytest.approx(900 * np.log10(12.0**8 + 1), rel=1e-12)


def test_the_residual_is_a_root_mean_square():
    Y = np.array([[3.0, 0.1], [0.0, 0.0], [0.2, -0.5], [-0.1, 0.4]])
    network, residual = algorithm_8(X, Y, 1, grid=GuessGrid(1, 1), rng=Constant(0.0))
    assert residual == pytest.approx(np.sqrt(((Y - network(X)) ** 2).mean()), rel=1e-12)
    assert residual > 0.1
