"""Laws of labels and the fit to them: derivatives, covariances, separated labels, gauges."""

import numpy as np
import pytest
from scipy.special import expit

from planted import TwoLayerNetwork
from planted.fitting.likelihoods._families import find_likelihood
from planted.fitting.likelihoods._fit import LabelRows, fit_labels, parameters_of, sum_labels, with_parameters
from planted.fitting.likelihoods._path import best_nearby, fit_from, oriented
from planted.fitting.likelihoods._ridge import choose_ridge
from planted.outcomes import BadInputError
from planted.rows import RowBlocks, StoredWeights

OUTPUTS = {"logistic": 1, "multinomial": 2, "poisson": 2}


def _rows(name: str, n: int = 200, seed: int = 0) -> tuple[LabelRows, TwoLayerNetwork]:
    rng = np.random.default_rng(seed)
    m = OUTPUTS[name]
    B = 0.2 * rng.standard_normal((m, 3))
    A = 0.5 * rng.standard_normal((m, 2))
    net = TwoLayerNetwork(rng.standard_normal((2, 3)), [0.1, -0.4], A, 0.1 * np.ones(m), "tanh", B)
    X = rng.standard_normal((n, 3))
    classes = np.eye(m + 1)[rng.integers(0, m + 1, n)][:, 1:]
    Y = rng.poisson(np.exp(net(X))).astype(float) if name == "poisson" else classes
    return LabelRows(RowBlocks.from_arrays(X, Y), n, find_likelihood(name)), net


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_score_is_the_derivative_of_the_loss(name: str) -> None:
    rows, net = _rows(name)
    theta, step = parameters_of(net), 1e-5
    ends = [
        [sum_labels(rows, with_parameters(net, theta + sign * step * unit)).loss for sign in (1, -1)]
        for unit in np.eye(len(theta))
    ]
    slopes = -np.diff(ends, axis=1)[:, 0] / (2 * step)
    np.testing.assert_allclose(-sum_labels(rows, net).score, slopes, atol=1e-5)  # differences of step 1e-5


@pytest.mark.parametrize("name", OUTPUTS)
def test_roots_are_those_of_the_covariance(name: str) -> None:
    rows, net = _rows(name)
    eta = 3 * net(np.random.default_rng(1).standard_normal((20, 3)))
    law = rows.likelihood
    means = law.means(eta)
    expected = [np.diag(mean) - (0 if name == "poisson" else np.outer(mean, mean)) for mean in means]
    R = law.roots(eta)
    np.testing.assert_allclose(R.transpose(0, 2, 1) @ R, expected, atol=1e-14, rtol=1e-12)


def test_the_information_is_the_mean_square_of_the_score() -> None:
    """Labels drawn again and again: the covariance of the score is the information."""
    rows, net = _rows("logistic", n=30)
    X = np.vstack([block for block, _ in rows.blocks])
    rng, chance = np.random.default_rng(2), expit(net(X))
    scores = []
    for _ in range(1000):
        labels = (rng.random(chance.shape) < chance).astype(float)
        drawn = LabelRows(RowBlocks.from_arrays(X, labels), len(X), rows.likelihood)
        scores.append(sum_labels(drawn, net).score)
    information = sum_labels(rows, net).information
    measured = np.diag(np.cov(np.array(scores).T))
    # A variance from 1000 draws has a relative standard error of sqrt(2 / 1000), times four.
    np.testing.assert_allclose(measured, np.diag(information), rtol=4 * np.sqrt(2 / 1000))


def test_whole_weights_count_rows() -> None:
    rows, net = _rows("multinomial", n=40)
    X, Y = next(iter(rows.blocks))
    counts = np.arange(40) % 3 + 1
    weighted = LabelRows(
        RowBlocks.from_arrays(X, Y, weights=counts.astype(float)), 40, rows.likelihood, StoredWeights()
    )
    repeated = LabelRows(RowBlocks.from_arrays(X.repeat(counts, 0), Y.repeat(counts, 0)), 80, rows.likelihood)
    one, other = sum_labels(weighted, net), sum_labels(repeated, net)
    np.testing.assert_allclose(one.information, other.information, rtol=1e-10)
    np.testing.assert_allclose(np.append(one.score, one.loss), np.append(other.score, other.loss), rtol=1e-9)


def test_probabilities_far_out_stay_probabilities() -> None:
    eta = np.array([[800.0, -800.0], [-800.0, 0.0], [900.0, 900.0]])
    law = find_likelihood("multinomial")
    assert np.isfinite(law.losses(np.zeros((3, 2)), eta)).all() and np.isfinite(law.roots(eta)).all()
    np.testing.assert_allclose(law.probabilities(eta).sum(axis=1), 1.0)
    np.testing.assert_allclose(law.means(eta), law.probabilities(eta)[:, 1:])


def test_a_separating_network_ends_the_fit() -> None:
    X = np.linspace(-2, 2, 40)[:, None]
    rows = LabelRows(RowBlocks.from_arrays(X, (X > 0.05).astype(float)), 40, find_likelihood("logistic"))
    start = TwoLayerNetwork([[1.0]], [0.0], [[1.0]], activation="tanh")
    fit = fit_labels(rows, start, max_iter=50, tol=1e-9)
    assert fit.sums.misplaced == 0 and np.abs(fit.network.A).max() < 100
    choice = choose_ridge(rows, fit.network, can_narrow=False, is_brief=False, rng=np.random.default_rng(0))
    assert choice.fit.sums.misplaced == 0 and choice.held_out < 0.3  # log 2 is guessing


def test_units_are_turned_until_no_linear_part_is_left() -> None:
    rng = np.random.default_rng(3)
    truth = TwoLayerNetwork([[1.0, 0.0], [0.6, 0.8]], [0.2, -0.3], [[2.0, -2.0]])
    X = rng.standard_normal((3000, 2))
    Y = (rng.random((3000, 1)) < expit(truth(X))).astype(float)
    rows = LabelRows(RowBlocks.from_arrays(X, Y), 3000, find_likelihood("logistic"))
    # max(t, 0) = max(-t, 0) + t: the second unit turned round, its line in the linear part.
    turned = TwoLayerNetwork(truth.W * [[1.0], [-1.0]], truth.b * [1, -1], truth.A, [0.6], B=[[-1.2, -1.6]])
    np.testing.assert_allclose(turned(X), truth(X), atol=1e-12)
    fit = oriented(rows, fit_labels(rows, turned, max_iter=0, tol=1.0))
    assert fit.network.B is None and fit.sums.loss <= sum_labels(rows, truth).loss
    assert (fit.network.W[1] @ truth.W[1]) > 0


def test_an_unknown_law_is_refused() -> None:
    with pytest.raises(BadInputError, match="'gamma'; expected one of 'gaussian', 'logistic'"):
        find_likelihood("gamma")


def test_jumps_leave_the_small_maxima_of_kinked_units() -> None:
    """Of drawn networks fitted from the truth, some stop at a small maximum; jumps raise these and lower none."""
    gains = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        net = TwoLayerNetwork(
            rng.standard_normal((3, 4)), 0.5 * rng.standard_normal(3), [[2.0, -2.0, 3.0]], [0.0]
        )
        X = rng.standard_normal((1000, 4))
        Y = (rng.random((1000, 1)) < expit(net(X))).astype(float)
        rows = LabelRows(RowBlocks.from_arrays(X, Y), 1000, find_likelihood("logistic"))
        fit = fit_from(rows, net)
        gains.append(fit.cost - best_nearby(rows, fit, np.random.default_rng(100 + seed)).cost)
    assert min(gains) >= 0
    assert max(gains) > 0.05  # nats
