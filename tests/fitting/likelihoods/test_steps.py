"""Laws of labels and the fit to them: derivatives, covariances, separated labels, gauges."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, ndtri

from planted import TwoLayerNetwork
from planted.certificates._likelihood import label_errors
from planted.fitting._jacobian import identity_scaling
from planted.fitting.likelihoods import _smoothed
from planted.fitting.likelihoods._families import Likelihood, find_likelihood
from planted.fitting.likelihoods._fit import (
    LabelFit,
    LabelRows,
    Linearised,
    SoftScore,
    fit_labels,
    parameters_of,
    sum_labels,
    with_parameters,
)
from planted.fitting.likelihoods._path import fit_from, oriented
from planted.fitting.likelihoods._ridge import choose_ridge
from planted.fitting.likelihoods._smoothed import _soft_score, _SoftSummand, free_moves, smoothed_maximum
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
    fit = oriented(rows, fit_labels(rows, turned, max_iter=0, tol=1.0))[0]
    assert fit.network.B is None and fit.sums.loss <= sum_labels(rows, truth).loss
    assert (fit.network.W[1] @ truth.W[1]) > 0


def test_an_unknown_law_is_refused() -> None:
    with pytest.raises(BadInputError, match="'gamma'; expected one of 'gaussian', 'logistic'"):
        find_likelihood("gamma")


def _kinked(
    seed: int, n: int = 1000, name: str = "logistic", activation: str = "relu"
) -> tuple[LabelRows, TwoLayerNetwork]:
    rng, m = np.random.default_rng(seed), OUTPUTS[name]
    W = rng.standard_normal((2, 3))
    W /= np.linalg.norm(W, axis=1)[:, None]
    A = [[3.0, -2.5]] if m == 1 else 0.5 * rng.standard_normal((m, 2))
    net = TwoLayerNetwork(W, 0.3 * rng.standard_normal(2), A, np.full(m, 0.2), activation)
    X = rng.standard_normal((n, 3))
    law = find_likelihood(name)
    return LabelRows(RowBlocks.from_arrays(X, _labels(law, net(X), rng)), n, law), net


def _labels(law: Likelihood, eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if law.name == "poisson":
        return rng.poisson(np.exp(eta)).astype(float)
    ends = np.cumsum(law.probabilities(eta), axis=1)
    return np.eye(ends.shape[1])[(rng.random((len(eta), 1)) > ends[:, :-1]).sum(axis=1)][:, 1:]


def _in_unit_rows(rows: LabelRows, fit: LabelFit) -> LabelFit:
    net, sizes = fit.network, np.linalg.norm(fit.network.W, axis=1)
    net = replace(net, W=net.W / sizes[:, None], b=net.b / sizes, A=net.A * sizes)
    return replace(fit, network=net, sums=sum_labels(rows, net))


def _errors(net: TwoLayerNetwork, size: float = 0.1) -> np.ndarray:
    """A covariance of all parameters, not diagonal."""
    root = np.random.default_rng(8).standard_normal((len(parameters_of(net)),) * 2)
    return size**2 * (root @ root.T / len(root) + np.eye(len(root)))


def test_small_maxima_lead_to_one_smoothed_maximum() -> None:
    """Ends of fits from places within the errors differ; they lead to one solution, where the soft score vanishes."""
    before, after = [], []
    for seed in range(3):
        rows, net = _kinked(seed, n=4000)
        ends = []
        for start in range(2):
            noise = 0.1 * np.random.default_rng([seed, start]).standard_normal(len(parameters_of(net)))
            fit = fit_from(rows, with_parameters(net, parameters_of(net) + noise))
            ends.append(_in_unit_rows(rows, fit))
        found = [smoothed_maximum(rows, end) for end in ends]
        for each in found:
            assert each.soft is not None and (each.sums.score == each.soft.score).all()
            moves = free_moves(each.network)
            score, inner = moves.T @ each.sums.score, moves.T @ each.sums.information @ moves
            assert (
                0.5 * score @ np.linalg.solve(inner, score) <= 1.1 * _smoothed.SOLVED
            )  # of another fit's errors
            np.testing.assert_allclose(np.linalg.norm(each.network.W, axis=1), 1.0)
            assert each.sums.loss == each.cost == sum_labels(rows, each.network).loss
        inner = ends[0].sums.information
        for gaps, pair in ((before, ends), (after, found)):
            gap = parameters_of(pair[0].network) - parameters_of(pair[1].network)
            gaps.append(gap @ inner @ gap)
    assert max(after) < 0.05 * max(before)


@pytest.mark.parametrize("activation", ["relu", "leaky-relu:0.3", "absolute"])
@pytest.mark.parametrize("name", OUTPUTS)
def test_the_curvature_is_the_derivative_of_the_soft_score(name: str, activation: str) -> None:
    rows, net = _kinked(3, 300, name, activation)
    X, Y = next(iter(rows.blocks))
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    rows = replace(rows, blocks=RowBlocks.from_arrays(X, Y, weights=weights), weights=StoredWeights())
    errors, theta, step = _errors(net), parameters_of(net), 1e-6

    def score(place: np.ndarray) -> np.ndarray:
        return _soft_score(rows, with_parameters(net, place), errors).score

    slopes = [
        (score(theta + step * unit) - score(theta - step * unit)) / (2 * step) for unit in np.eye(len(theta))
    ]
    curvature = _soft_score(rows, net, errors).curvature
    np.testing.assert_allclose(curvature, -np.array(slopes).T, atol=1e-5 * np.abs(curvature).max())


def test_slices_of_rows_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, net = _kinked(5, 300)
    whole = _soft_score(rows, net, _errors(net))
    monkeypatch.setattr("planted.fitting.likelihoods._fit.SLICE_VALUES", 1000)
    sliced = _soft_score(rows, net, _errors(net))
    for one, other in (
        (whole.score, sliced.score),
        (whole.variance, sliced.variance),
        (whole.curvature, sliced.curvature),
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("activation", ["relu", "leaky-relu:0.3", "absolute"])
def test_soft_units_are_means_over_errors(activation: str) -> None:
    """Errors at the quantiles of their normal law: no chance is left in the mean."""
    rows, net = _kinked(6, 50, activation=activation)
    X, _ = next(iter(rows.blocks))
    p = net.n_features + 1
    errors = _errors(net)
    summand = _SoftSummand(
        net, rows.likelihood, None, [errors[i * p : (i + 1) * p, i * p : (i + 1) * p] for i in (0, 1)]
    )
    soft, bends = summand._softened(Linearised.at(net, X))
    steps = ndtri((np.arange(20_000) + 0.5) / 20_000)
    inputs = np.hstack([X, np.ones((50, 1))])
    for i, t in enumerate(net.preactivations(X).T):
        own = summand.covariances[i]
        spread = np.sqrt(np.einsum("na,ab,nb->n", inputs, own, inputs))
        moved = t[:, None] + spread[:, None] * steps
        np.testing.assert_allclose(soft.columns[i], net.activation(moved).mean(axis=1), atol=1e-4)
        np.testing.assert_allclose(soft.slopes[i], net.activation.derivative(moved).mean(axis=1), atol=1e-3)
        later = net.activation.derivative(moved + 1e-2).mean(axis=1) - net.activation.derivative(
            moved - 1e-2
        ).mean(axis=1)
        np.testing.assert_allclose(bends[i], later / 2e-2, atol=0.05 * bends.max())


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_soft_score_is_zero_on_average_with_its_covariance(name: str) -> None:
    rows, net = _kinked(7, 40, name)
    X, _ = next(iter(rows.blocks))
    rng, scores = np.random.default_rng(2), []
    for _ in range(300):
        drawn = RowBlocks.from_arrays(X, _labels(rows.likelihood, net(X), rng))
        scores.append(_soft_score(replace(rows, blocks=drawn), net, _errors(net)).score)
    variance = _soft_score(rows, net, _errors(net)).variance
    sizes = np.sqrt(np.diag(variance))
    assert np.abs(np.mean(scores, axis=0) / sizes).max() <= 4 / np.sqrt(300)
    # An entry of a correlation from 300 draws has a standard error of at most sqrt(2 / 300), times four.
    gap = np.cov(np.array(scores).T) - variance
    assert np.abs(gap / np.outer(sizes, sizes)).max() <= 4 * np.sqrt(2 / 300)


def test_rows_that_do_not_determine_the_network_have_no_soft_score() -> None:
    rows, net = _kinked(4, n=5)
    fit = LabelFit(net, sum_labels(rows, net), 0.0, 0)
    assert smoothed_maximum(rows, fit) is fit


def test_without_a_solution_the_fit_stays_with_its_own_soft_score(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, net = _kinked(4, n=300)
    fit = LabelFit(net, sum_labels(rows, net), 0.0, 0)
    monkeypatch.setattr(_smoothed, "MAX_STEPS", 1)  # the truth is several steps away
    found = smoothed_maximum(rows, fit)
    assert found.network is net and found.sums is fit.sums and found.soft is not None
    moves = free_moves(net)
    errors = moves @ np.linalg.inv(moves.T @ fit.sums.information @ moves) @ moves.T
    np.testing.assert_allclose(found.soft.score, _soft_score(rows, net, errors).score)


def test_the_smallest_scale_that_has_a_solution_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, net = _kinked(4, n=2000)
    fit = _in_unit_rows(rows, fit_from(rows, net))
    wide = _smoothed._solve(rows, fit, 16 * _smoothed._covariance(fit))
    assert wide is not None
    solve = _smoothed._solve

    def only_wide(rows: LabelRows, fit: LabelFit, errors: np.ndarray) -> LabelFit | None:
        return solve(rows, fit, errors) if fit.soft is None else None

    monkeypatch.setattr(_smoothed, "_solve", only_wide)
    found = smoothed_maximum(rows, fit)
    np.testing.assert_array_equal(parameters_of(found.network), parameters_of(wide.network))


def test_no_solution_where_the_soft_likelihood_bends_upwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A saddle has no score either."""
    rows, net = _kinked(4, n=300)
    fit = _in_unit_rows(rows, fit_from(rows, net))
    soft = SoftScore(np.zeros(len(parameters_of(net))), fit.sums.information, -fit.sums.information)
    monkeypatch.setattr(_smoothed, "_soft_score", lambda *_: soft)
    assert _smoothed._solve(rows, fit, _smoothed._covariance(fit)) is None


def test_errors_of_a_soft_score() -> None:
    """Covariance H⁻¹ B H⁻ᵀ: with H = 2 I and B = I errors are half those of the information; H need not be symmetric."""
    rows, net = _kinked(4, n=300)
    sums = sum_labels(rows, net)
    information = sums.information
    turn = np.random.default_rng(0).standard_normal(information.shape)
    turn = 0.3 * np.sqrt(np.outer(np.diag(information), np.diag(information))) * (turn - turn.T)
    plain, steep, turned, bent = (
        label_errors(LabelFit(net, sums, 0.0, 0, soft), identity_scaling(3, 1))[0]
        for soft in (
            None,
            SoftScore(sums.score, information, 2 * information),
            SoftScore(sums.score, information, information + turn),
            SoftScore(sums.score, information, -information),
        )
    )
    for part, errors in plain.standard_errors.items():
        np.testing.assert_allclose(steep.standard_errors[part], errors / 2, rtol=1e-8)
    moves = free_moves(net)
    inverse = np.linalg.inv(moves.T @ (information + turn) @ moves)
    covariance = moves @ inverse @ moves.T @ information @ moves @ inverse.T @ moves.T
    np.testing.assert_allclose(turned.standard_errors["c"] ** 2, covariance[-1, -1], rtol=1e-6)
    np.testing.assert_allclose(turned.standard_errors["b"] ** 2, np.diag(covariance)[[3, 7]], rtol=1e-6)
    assert "no maximum" in bent.reason


def test_score_and_covariance_are_those_of_soft_units() -> None:
    """The Jacobian of units averaged over errors at the quantiles of their normal law, each with its own."""
    rows, net = _kinked(9, 60)
    X, Y = next(iter(rows.blocks))
    errors, p = _errors(net, 0.3), net.n_features + 1
    errors[:p, :p] *= 4  # the first unit has larger errors
    steps = ndtri((np.arange(20_000) + 0.5) / 20_000)
    inputs = np.hstack([X, np.ones((60, 1))])
    hidden, outer = [], []
    for i, t in enumerate(net.preactivations(X).T):
        own = errors[i * p : (i + 1) * p, i * p : (i + 1) * p]
        moved = t[:, None] + np.sqrt(np.einsum("na,ab,nb->n", inputs, own, inputs))[:, None] * steps
        hidden.append(net.A[0, i] * (moved > 0).mean(axis=1)[:, None] * inputs)
        outer.append(np.maximum(moved, 0.0).mean(axis=1))
    J = np.column_stack([*hidden, *outer, np.ones(60)])
    chance, soft = expit(net(X)), _soft_score(rows, net, errors)
    np.testing.assert_allclose(soft.score, J.T @ (Y - chance)[:, 0], atol=1e-3 * np.abs(J).sum())
    variance = (J * chance * (1 - chance)).T @ J
    np.testing.assert_allclose(soft.variance, variance, atol=1e-3 * variance.max())


def test_steps_that_are_too_long_are_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, net = _kinked(4, n=2000)
    fit = _in_unit_rows(rows, fit_from(rows, net))
    errors = 16 * _smoothed._covariance(fit)
    expected = _smoothed._solve(rows, fit, errors)
    honest = _soft_score

    def flat(*given: object) -> SoftScore:
        soft = honest(*given)
        return replace(soft, curvature=soft.curvature / 2.5)

    monkeypatch.setattr(_smoothed, "_soft_score", flat)
    found = _smoothed._solve(rows, fit, errors)
    assert expected is not None and found is not None
    gap = parameters_of(found.network) - parameters_of(expected.network)
    assert gap @ fit.sums.information @ gap < 0.01  # squared standard errors
