"""A unit that is on in a few samples is not written off as outliers; noise without a variance hides none."""

import numpy as np
import pytest

import planted
from planted import Outcome, TwoLayerNetwork, simulate
from planted.certificates._error_places import SCANNED_ROWS, unit_among_outliers
from planted.checks import Check


def with_rare_unit(
    rng: np.random.Generator, n_rows: int
) -> tuple[np.ndarray, TwoLayerNetwork, TwoLayerNetwork]:
    """Draw inputs, a network, and the same with a strong unit that is on in 6 to 14 samples."""
    d, k = int(rng.integers(3, 7)), int(rng.integers(2, 4))
    base = simulate.teacher(d, k, k + int(rng.integers(0, 3)), activity=(0.3, 0.7), random_state=rng)
    X = rng.standard_normal((n_rows, d))
    w = rng.standard_normal(d)
    w /= np.linalg.norm(w)
    t, count = np.sort(X @ w)[::-1], int(rng.integers(6, 15))
    a = rng.standard_normal(base.n_outputs)
    a *= rng.uniform(5, 20) / np.linalg.norm(a)
    bias = -(t[count - 1] + t[count]) / 2
    return (
        X,
        base,
        TwoLayerNetwork(np.vstack([base.W, w]), np.append(base.b, bias), np.column_stack([base.A, a])),
    )


def p_value(X: np.ndarray, residual: np.ndarray) -> float:
    scales = 1.4826 * np.median(np.abs(residual), axis=0)
    return unit_among_outliers(X, residual, scales).measured


def test_a_rare_unit_is_found_among_outliers_and_outliers_alone_are_none() -> None:
    for seed in range(6):
        rng = np.random.default_rng([seed, 21])
        X, base, net = with_rare_unit(rng, 450)
        noise = rng.uniform(0.02, 0.1) * rng.standard_t(1.5, (450, net.n_outputs))
        assert p_value(X, net(X) + noise - base(X)) < 1e-3
        assert p_value(X, noise) > 1e-3


def test_a_unit_that_one_output_sees_in_a_handful_of_samples_is_found_by_its_size() -> None:
    """On in five to seven rows of hundreds, 15 to 60 scales: as far as three scales there are dozens of other outliers."""
    found = 0
    for seed in range(10):
        rng = np.random.default_rng([seed, 23])
        X = rng.standard_normal((500, 5))
        noise = rng.standard_t(1.5, (500, 3))
        w = rng.standard_normal(5)
        t = X @ (w / np.linalg.norm(w))
        beyond = np.maximum(t - np.sort(t)[-int(rng.integers(6, 9))], 0.0)
        noise[:, 0] -= rng.uniform(60, 120) * beyond
        found += p_value(X, noise) < 0.05
    assert found >= 8


def test_the_p_value_does_not_fall_below_its_level_too_often() -> None:
    """Outliers that are larger in some region, of either sign, are no unit."""
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng([seed, 22])
        X = rng.standard_normal((200, 3))
        alarms += p_value(X, rng.standard_t(2, (200, 2)) * np.exp(0.3 * X[:, :1])) < 0.05
    assert alarms <= 5  # 5 % of 20, and four standard deviations


def test_many_rows_are_scanned_by_their_largest_residuals() -> None:
    rng = np.random.default_rng(5)
    X, base, net = with_rare_unit(rng, 2 * SCANNED_ROWS)
    noise = 0.05 * rng.standard_t(3, (len(X), net.n_outputs))
    assert p_value(X, net(X) + noise - base(X)) < 1e-3
    assert p_value(X, noise) > 1e-3


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_half_spaces_do_not_claim_a_network_without_the_rare_unit(seed: int) -> None:
    rng = np.random.default_rng([seed, 23])
    X, _, net = with_rare_unit(rng, 450)
    Y = net(X) + 0.05 * rng.standard_normal((450, net.n_outputs))
    Y += (rng.random(Y.shape) < 0.02) * rng.normal(0.0, 5.0, Y.shape)
    answer = planted.recover(X, Y, method="half-spaces", random_state=seed)
    assert answer.outcome is not Outcome.RECOVERED or answer.network.n_hidden == net.n_hidden


def test_a_claim_under_a_robust_loss_names_the_test() -> None:
    data = simulate.dataset(
        600, n_features=3, n_hidden=2, n_outputs=3, noise=simulate.StudentTNoise(2, 0.05), random_state=8
    )
    answer = planted.recover(data.X, data.Y, method="half-spaces", random_state=0)
    assert answer.outcome is Outcome.RECOVERED
    (line,) = answer.find(Check.UNIT_AMONG_OUTLIERS)
    assert line.passed
