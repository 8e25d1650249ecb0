"""Pairs of units that noise hides: chances against counting, the refusal."""

import numpy as np
import pytest
from scipy import stats

import planted
from planted import RowBlocks, TwoLayerNetwork, simulate
from planted.certificates._resolution import KEPT, MORE_NEAR, _chances, _sizes
from planted.certificates.noise._fitted_rows import FittedRows
from planted.fitting._run import prepare_problem


def problem_of(X, Y):
    return prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)


def excess(V, A, X):
    """Mean square by which a pair of hyperplanes differs from one unit with the sum of their output weights."""
    rows = np.column_stack([X, np.ones(len(X))])
    middle = V.mean(axis=0)
    pair = np.maximum(rows @ V.T, 0) @ A.T
    return ((pair - np.outer(np.maximum(rows @ middle, 0), A.sum(axis=1))) ** 2).sum(axis=1).mean()


def pair_at(standard, u, angle, across=0.0):
    """Two hyperplanes at an angle in place of the first unit's, and output weights that differ by so much across."""
    v, a = np.append(standard.W[0], standard.b[0]), standard.A[:, 0]
    ends = [np.cos(angle / 2) * v + sign * np.sin(angle / 2) * np.linalg.norm(v) * u for sign in (-1, 1)]
    e = np.linalg.svd(a[None])[2][1] * np.linalg.norm(a) if len(a) > 1 else 0.0 * a
    return np.array(ends), np.column_stack([a / 2 + across * e, a / 2 - across * e])


@pytest.mark.parametrize("n_outputs", [1, 2, 4])
def test_chances_of_hidden_pairs_are_those_of_random_ones(n_outputs):
    """Random hyperplanes and output weights beside one unit, with the excess of each measured: to a third."""
    rng = np.random.default_rng([n_outputs, 7])
    d, n = 3, 400
    X = rng.standard_normal((n, d))
    net = TwoLayerNetwork(np.eye(d)[:1], None, rng.standard_normal((n_outputs, 1)))
    problem, noise = problem_of(X, net(X)), 1.0
    standard = problem.scaling.standardise(net)
    (chance,) = _chances(problem, *_sizes(FittedRows(problem, standard), noise), biases=True)
    v, limit = np.append(standard.W[0], standard.b[0]), stats.chi2.ppf(0.99, 2 * (d + n_outputs))
    hidden = 0.0
    for _ in range(800):
        other, a = rng.standard_normal(d + 1), rng.standard_normal((2, n_outputs))
        cosine, like = (
            v @ other / np.linalg.norm(v) / np.linalg.norm(other),
            a[0] @ a[1] / np.prod(np.linalg.norm(a, axis=1)),
        )
        if cosine < 0 or like < -0.999:
            continue
        u = other / np.linalg.norm(other) - cosine * v / np.linalg.norm(v)
        across = np.tan(np.arccos(min(like, 1.0)) / 2) / 2
        ends, A = pair_at(standard, u / np.linalg.norm(u), np.arccos(cosine), across)
        raised = KEPT * n * excess(ends, A, problem.X) / noise**2
        hidden += stats.norm.cdf((limit - d - n_outputs - raised) / np.sqrt(4 * raised + 2 * (d + n_outputs)))
    assert chance == pytest.approx(MORE_NEAR * hidden / 800, rel=0.4)


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
    assert "may look like one. More samples or less noise tell them apart." in answer.detail
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
        if seed < 3:
            Y = two(X) + 0.1 * two(X).std() * rng.standard_normal((600, 1))
            assert planted.recover(X, Y, random_state=seed).outcome is planted.Outcome.FITTED
        if answer.outcome is planted.Outcome.RECOVERED:
            claims += 1
            assert "radians may look like this one" in answer.detail
            assert abs(answer.network.b[0] - one.b[0]) < 5 * answer.uncertainty.standard_errors["b"][0]
    assert claims >= 7  # a kink in twenty is one of noise, and in ten another power explains some of it
