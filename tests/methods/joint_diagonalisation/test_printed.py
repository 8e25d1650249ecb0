"""Algorithms 4, 5 and 6 of BJW18: what order three sees, exact units from rough directions, signs by projection."""

import numpy as np
import pytest

from planted import simulate
from planted.fitting.units._direction_signs import orient_directions, signs_of_preactivations
from planted.linalg import column_space
from planted.methods.joint_diagonalisation.printed import (
    MIXTURES,
    TAU,
    algorithm_4,
    algorithm_5,
    algorithm_6,
    appendix_9_1,
)
from planted.networks import parse_activation

RELU = parse_activation("relu")
# Six samples of two inputs, with units w = (1, 0) and (0, 1).
X = np.array([[1.0, 2.0], [2.0, -1.0], [-1.0, 1.0], [-2.0, -3.0], [3.0, 1.0], [-1.0, 3.0]])
H = np.maximum(X, 0.0)
Q = np.linalg.qr(H)[0]


def both(forward):
    return np.hstack([forward, -forward])


def sines(found, W):
    """The angle between each planted direction and the nearest one found, whatever its sign."""
    return np.sqrt(np.maximum(1 - np.abs(found @ W.T).max(axis=0) ** 2, 0.0))


# --- Algorithm 4


def test_algorithm_4_sees_what_order_three_sees_and_nothing_else():
    """t|t| has no moment of order two, t₊ none of order three: the first is found, the second is not."""
    W, A = np.linalg.qr(np.random.default_rng(3).standard_normal((5, 3)))[0].T, np.ones((4, 3))
    A += 0.5 * np.random.default_rng(4).standard_normal((4, 3))
    X = np.random.default_rng(5).standard_normal((20_000, 5))
    T = X @ W.T
    odd, even = (algorithm_4(X, F @ A.T, 3, rng=np.random.default_rng(6)) for F in (T * np.abs(T), RELU(T)))
    assert odd.shape == even.shape == (3 * MIXTURES, 5)
    # Entries of the tensor have errors of order n^(-1/2) = 0.007 beside coefficients of order one.
    assert sines(odd, W).max() < 0.1 < 0.3 < sines(even, W).max()


# --- Algorithm 5


@pytest.mark.parametrize("noise", [0.001, 0.02])
def test_algorithm_5_is_about_the_first_rows(noise):
    """Rough directions, ℓ = 24 rows against ℓ = 3,000: the error must be far below 1/poly(ℓ), or wrong rows count as off."""
    few = many = 0
    for seed in range(6):
        data = simulate.dataset(3000, n_features=6, n_hidden=4, n_outputs=4, random_state=60 + seed)
        V = data.network.W + noise * np.random.default_rng([seed, 7]).standard_normal((4, 6))
        basis = column_space(data.Y)[0][:, :4]
        scores = both(data.X @ V.T)
        found = algorithm_5(data.X[:24], basis[:24], scores[:24], activation=RELU)
        few, many = few + len(found), many + len(algorithm_5(data.X, basis, scores, activation=RELU))
        assert np.abs((found @ data.network.W.T).max(axis=1, initial=0.0) - 1.0).max(initial=0.0) < 1e-9
    assert few >= (22 if noise < 0.01 else 15) and many <= 8


@pytest.mark.parametrize("signs", [(1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)])
def test_algorithm_5_finds_exact_units_and_their_signs(signs):
    V = np.array([[1.0, 0.05], [-0.04, 1.0]]) * np.array(signs)[:, None]
    W = algorithm_5(X, Q, both(X @ V.T), activation=RELU)
    order = np.argsort(-W[:, 0])
    np.testing.assert_allclose(W[order], np.eye(2), atol=1e-14)


def test_the_wrong_sign_has_no_solution():
    V = np.array([[-1.0, 0.0], [0.0, -1.0]])
    assert algorithm_5(X, Q, X @ V.T, activation=RELU).shape == (0, 2)


def test_both_directions_to_one_unit_give_it_once():
    V = np.array([[1.0, 0.05], [1.0, -0.05]])
    np.testing.assert_allclose(algorithm_5(X, Q, both(X @ V.T), activation=RELU), [[1.0, 0.0]], atol=1e-14)


def test_products_up_to_the_threshold_are_zero_and_those_above_are_not():
    """Sample 1 is on for unit 0. A product at the threshold loses it, and with it the unit; one above keeps it."""
    for factor, found in ((1.5, 1), (0.5, 0)):
        score = X[:, 0].copy()
        for _ in range(50):  # a fixed point: the threshold is a part of the spread of the same score
            score[1] = factor * TAU * score.std()
        assert len(algorithm_5(X, Q, score[:, None], activation=RELU)) == found


def test_without_rows_that_are_off_there_is_no_equation():
    assert algorithm_5(X, H[:, :1], 5.0 + H[:, :1], activation=RELU).shape == (0, 2)


def test_algorithm_5_inverts_a_power():
    f = parse_activation("power:2")
    data = simulate.dataset(60, n_features=4, n_hidden=2, n_outputs=3, activation="power:2", random_state=1)
    basis = column_space(data.Y)[0][:, :2]
    W = algorithm_5(data.X, basis, both(data.X @ data.network.W.T), activation=f)
    unit = data.network.W / np.linalg.norm(data.network.W, axis=1, keepdims=True)
    np.testing.assert_allclose(W[np.argmax(unit @ W.T, axis=1)], unit, atol=1e-12)


# --- Algorithm 6


def test_signs_by_hand():
    """y = f(x_1) - 2 f(-x_2) on eight sign patterns: directions (-1, 0) and (0, 1) must both be turned."""
    corners = np.array(
        [[s * a, t * b] for s in (1.0, -1.0) for t in (1.0, -1.0) for a, b in ((1, 2), (3, 1))]
    )
    y = RELU(corners[:, :1]) - 2 * RELU(-corners[:, 1:])
    W = algorithm_6(corners, y, np.array([[-1.0, 0.0], [0.0, 1.0]]), activation=RELU)
    np.testing.assert_array_equal(W, [[1.0, 0.0], [0.0, -1.0]])
    np.testing.assert_array_equal(algorithm_6(corners, y, W, activation=RELU), W)


def test_a_tie_turns_the_direction():
    """The box keeps v_i only if its residual is smaller; an output that is zero tells nothing."""
    np.testing.assert_array_equal(algorithm_6(X, np.zeros((6, 1)), np.eye(2), activation=RELU), -np.eye(2))


@pytest.mark.parametrize("name", ["relu", "power:2"])
@pytest.mark.parametrize("seed", range(3))
def test_algorithm_6_and_one_regression_decide_alike(seed, name):
    """Noise of the size of the signal, rough directions: the projections against the form that methods use."""
    f = parse_activation(name)
    rng = np.random.default_rng([seed, 99])
    data = simulate.dataset(800, n_features=8, n_hidden=4, n_outputs=5, activation=name, random_state=seed)
    Y = data.Y + np.sqrt((data.Y**2).mean()) * rng.standard_normal(data.Y.shape)
    V = (data.network.W + 0.05 * rng.standard_normal((4, 8))) * rng.choice([-1.0, 1.0], (4, 1))
    W = algorithm_6(data.X, Y, V, activation=f)
    np.testing.assert_array_equal(W, orient_directions(data.X, Y, V, activation=f).W)
    signs = signs_of_preactivations(data.X @ V.T, Y, activation=f)
    np.testing.assert_array_equal(W, V * signs[:, None])
    assert ((W * data.network.W).sum(axis=1) > 0).all(), "and the signs are right"


# --- Lemma 5


def test_lemma_5_lacks_a_square_root():
    """|Σ - Σ_N| is of order √(d/N); a bound c d/N, as printed, is passed by any c once N is large."""
    rng = np.random.default_rng(8)
    printed, corrected = [], []
    for n in (100, 1000, 10_000):
        rows = rng.standard_normal((20, n, 4))
        error = np.median([np.linalg.norm(part.T @ part / n - np.eye(4), 2) for part in rows])
        printed.append(error / (4 / n))
        corrected.append(error / np.sqrt(4 / n))
    assert printed[2] > 5 * printed[0] and max(corrected) < 1.5 * min(corrected)


MONOTONE = {
    "power 1.5": (lambda t: t**1.5, lambda y: y ** (2 / 3)),
    "exponential": (np.expm1, np.log1p),
    "logarithm": (np.log1p, np.expm1),
    "not multiplicative": (lambda t: t + t * t, lambda y: (np.sqrt(1 + 4 * y) - 1) / 2),
}


@pytest.mark.parametrize("name", MONOTONE)
@pytest.mark.parametrize("seed", range(2))
def test_appendix_9_1_for_any_monotone_function_with_its_inverse(name, seed):
    phi, inverse = MONOTONE[name]
    truth = simulate.teacher(5, 3, 4, random_state=seed)
    X = np.random.default_rng([seed, 3]).standard_normal((6000, 5))
    T = X @ truth.W.T
    Y = np.where(T > 0, phi(np.maximum(T, 0.0)), 0.0) @ truth.A.T
    W, A = appendix_9_1(X, Y, 3, phi=phi, inverse=inverse, rng=np.random.default_rng(seed))
    assert W.shape == (3, 5)
    order = (W @ truth.W.T).argmax(axis=0)
    np.testing.assert_allclose(W[order], truth.W, atol=1e-9)
    np.testing.assert_allclose(A[:, order], truth.A, atol=1e-9)


def test_appendix_9_1_with_the_wrong_function_returns_no_unit():
    truth = simulate.teacher(5, 3, 4, random_state=0)
    X = np.random.default_rng(4).standard_normal((4000, 5))
    Y = np.maximum(X @ truth.W.T, 0.0) ** 1.5 @ truth.A.T
    W, A = appendix_9_1(X, Y, 3, phi=np.expm1, inverse=np.log1p, rng=np.random.default_rng(0))
    assert W.shape == (0, 5) and A.shape == (4, 0)


def test_algorithm_5_goes_on_after_a_score_that_is_never_low():
    assert len(algorithm_5(X, Q, np.hstack([H + 1.0, X]), activation=RELU)) == 2
