"""The angle at which two units look like one: the wedge against a simulation, the cap against counting, the refusal."""

import numpy as np
import pytest
from scipy import stats

import planted
from planted import RowBlocks, TwoLayerNetwork, simulate
from planted.certificates._resolution import _chance_within, hidden_angles
from planted.fitting._run import prepare_problem


def problem_of(X, Y):
    return prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)


def excess(V, A, X):
    """Mean square by which a pair of hyperplanes differs from one unit with the sum of their output weights."""
    rows = np.column_stack([X, np.ones(len(X))])
    middle = V.mean(axis=0)
    pair = np.maximum(rows @ V.T, 0) @ A.T
    return ((pair - np.outer(np.maximum(rows @ middle, 0), A.sum(axis=1))) ** 2).sum(axis=1).mean()


@pytest.mark.parametrize("n_outputs", [1, 4])
def test_a_pair_at_the_angle_is_as_large_as_the_limit(n_outputs):
    """At the reported angle n times the excess is L noise variances: to a third, as x is normal but the scales are not."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((200_000, 5))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    w = np.linalg.qr(rng.standard_normal((5, 5)))[0][:2]
    net = TwoLayerNetwork(w[:1], None, rng.standard_normal((n_outputs, 1)) if n_outputs > 1 else [[1.0]])
    problem = problem_of(X, net(X))
    standard = problem.scaling.standardise(net)
    noise = 3.0
    (angle,) = hidden_angles(problem, standard, noise=noise)
    assert 0.02 < angle < 0.6
    size = np.linalg.norm(standard.W[0])
    ends = [np.append(size * (w[0] + sign * np.tan(angle / 2) * w[1]), 0.0) for sign in (-1, 1)]
    if n_outputs == 1:
        A = np.full((1, 2), standard.A[0, 0] / 2)
    else:  # output weights of the two at a right angle, their sum that of the unit
        a = standard.A[:, 0]
        across = np.linalg.svd(a[None])[2][1] * np.linalg.norm(a)
        A = np.column_stack([(a + across) / 2, (a - across) / 2])
    limit = stats.chi2.ppf(0.99, 2 * (5 + n_outputs))
    measured = len(X) * excess(np.array(ends), A, problem.X) / noise**2
    assert measured == pytest.approx(limit, rel=0.35)


@pytest.mark.parametrize("dimension", [2, 3, 6])
def test_the_cap_is_the_part_of_directions_within_the_angle(dimension):
    rng = np.random.default_rng(dimension)
    U = rng.standard_normal((200_000, dimension))
    cosines = U[:, 0] / np.linalg.norm(U, axis=1)
    angles = np.array([0.4, 1.0, np.pi / 2])
    counted = [(np.arccos(cosines) < angle).mean() for angle in angles]
    errors = np.sqrt(np.array(counted) / 200_000) + 1e-5
    assert (np.abs(_chance_within(angles, dimension) - counted) < 5 * errors).all()


def test_units_that_noise_hides_are_named_and_more_samples_tell_them_apart():
    """Three inputs, noise of half an output weight: two units 30 degrees apart could be one."""
    world = {
        "n_features": 3,
        "n_hidden": 3,
        "activity": (0.4, 0.6),
        "outputs": "magnitudes",
        "random_state": 6,
    }
    few = simulate.dataset(600, noise=0.5, **world)
    answer = planted.recover(few.X, few.Y, 3, method="restarts", random_state=1)
    assert answer.outcome is planted.Outcome.FITTED
    assert "look like one. More samples tell them apart." in answer.detail
    many = simulate.dataset(20_000, noise=0.05, **world)
    assert (
        planted.recover(many.X, many.Y, 3, method="restarts", random_state=1).outcome
        is planted.Outcome.RECOVERED
    )


def test_one_noisy_kink_is_claimed_with_the_angle_that_noise_hides():
    """A single unit has no other that noise could hide; two kinks of one input that it could hide are not claimed."""
    claims = 0
    for seed in range(10):
        rng = np.random.default_rng([seed, 8])
        X = rng.standard_normal((600, 1))
        one = TwoLayerNetwork([[rng.choice([-1.0, 1.0])]], [rng.uniform(-0.7, 0.7)], [[rng.uniform(0.5, 2)]])
        two = TwoLayerNetwork([[1.0], [1.0]], [0.6, -0.6], rng.uniform(0.8, 1.2, (1, 2)))
        Y = one(X) + 0.1 * one(X).std() * rng.standard_normal((600, 1))
        answer = planted.recover(X, Y, random_state=seed)
        if seed < 6:
            Y = two(X) + 0.1 * two(X).std() * rng.standard_normal((600, 1))
            assert planted.recover(X, Y, random_state=seed).outcome is planted.Outcome.FITTED
        if answer.outcome is planted.Outcome.RECOVERED:
            claims += 1
            assert "radians would look like this one" in answer.detail
            assert abs(answer.network.b[0] - one.b[0]) < 5 * answer.uncertainty.standard_errors["b"][0]
    assert claims >= 7  # a kink in twenty is one of noise, and in ten another power explains some of it
