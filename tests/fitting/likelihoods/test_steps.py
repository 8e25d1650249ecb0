"""Laws of labels and the fit to them: derivatives, covariances, separated labels, gauges."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, ndtri

from planted import TwoLayerNetwork
from planted.certificates._likelihood import label_errors
from planted.fitting._jacobian import identity_scaling
from planted.fitting.likelihoods._families import find_likelihood
from planted.fitting.likelihoods._fit import (
    LabelFit,
    LabelRows,
    fit_labels,
    parameters_of,
    sum_labels,
    with_parameters,
)
from planted.fitting.likelihoods._path import fit_from, oriented
from planted.fitting.likelihoods._ridge import choose_ridge
from planted.fitting.likelihoods._smoothed import _curvature, _MeanScore, smoothed_maximum
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


def _kinked(seed: int, n: int = 1000) -> tuple[LabelRows, TwoLayerNetwork]:
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((2, 3))
    W /= np.linalg.norm(W, axis=1)[:, None]
    net = TwoLayerNetwork(W, 0.3 * rng.standard_normal(2), [[3.0, -2.5]], [0.2])
    X = rng.standard_normal((n, 3))
    Y = (rng.random((n, 1)) < expit(net(X))).astype(float)
    return LabelRows(RowBlocks.from_arrays(X, Y), n, find_likelihood("logistic")), net


def _in_unit_rows(rows: LabelRows, fit: LabelFit) -> LabelFit:
    net, sizes = fit.network, np.linalg.norm(fit.network.W, axis=1)
    net = replace(net, W=net.W / sizes[:, None], b=net.b / sizes, A=net.A * sizes)
    return replace(fit, network=net, sums=sum_labels(rows, net))


def test_small_maxima_lead_to_one_smoothed_maximum() -> None:
    """Ends of fits from places within the errors differ; the averaged likelihood has one maximum among them."""
    before, after = [], []
    for seed in range(3):
        rows, net = _kinked(seed, n=4000)
        ends = []
        for start in range(2):
            noise = 0.1 * np.random.default_rng([seed, start]).standard_normal(len(parameters_of(net)))
            fit = fit_from(rows, with_parameters(net, parameters_of(net) + noise))
            ends.append(_in_unit_rows(rows, fit))
        found = [smoothed_maximum(rows, end, np.random.default_rng(7)) for end in ends]
        assert all(each.curvature is not None for each in found)
        inner = ends[0].sums.information
        for gaps, pair in ((before, ends), (after, found)):
            gap = parameters_of(pair[0].network) - parameters_of(pair[1].network)
            gaps.append(gap @ inner @ gap)
    assert max(after) < 0.3 * max(before)


def test_the_curvature_of_the_average_is_the_derivative_of_its_score() -> None:
    """Errors in one bias only, at the quantiles of their normal law: no chance is left in the average."""
    rows, net = _kinked(3, n=2000)
    X, Y = next(iter(rows.blocks))
    bias = np.zeros(len(parameters_of(net)))
    bias[3] = 0.01
    draws = ndtri((np.arange(500) + 0.5) / 500)[:, None] * bias
    ends = [
        _MeanScore(with_parameters(net, parameters_of(net) + step * bias), rows.likelihood, None, draws)
        for step in (0.1, -0.1)
    ]
    slope = -5 * (ends[0](0, X, Y).score - ends[1](0, X, Y).score)
    np.testing.assert_allclose(_curvature(rows, net, bias[:, None]) @ bias, slope, atol=0.03 * slope.max())
    pointwise = sum_labels(rows, net).information @ bias
    assert np.abs(pointwise - slope).max() > 0.1 * slope.max()  # it sees no kink


def test_a_steeper_curvature_makes_smaller_errors() -> None:
    """Covariance H⁻¹ I H⁻¹: with H = 2 I errors are half those of the information; without a maximum there are none."""
    rows, net = _kinked(4, n=300)
    sums = sum_labels(rows, net)
    plain, steep, bent = (
        label_errors(LabelFit(net, sums, 0.0, 0, H), identity_scaling(3, 1))[0]
        for H in (None, 2 * sums.information, -sums.information)
    )
    for part, errors in plain.standard_errors.items():
        np.testing.assert_allclose(steep.standard_errors[part], errors / 2, rtol=1e-8)
    assert "no maximum" in bent.reason
