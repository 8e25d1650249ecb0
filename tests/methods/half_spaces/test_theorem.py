"""BJW18 §7: noise of any law. The printed algorithm for tiny k; the practical form against its own standard errors."""

import numpy as np
import pytest

import planted
from planted import Check, Outcome, simulate
from planted.certificates.noise._labels import label_fault_evidence
from planted.methods.half_spaces.printed import (
    GuessGrid,
    algorithm_8,
    half_spaces_of_labels,
    predict_guesses,
)
from planted.outcomes import BadInputError
from planted.simulate import CauchyNoise, GaussianNoise, StudentTNoise
from planted.simulate import HeteroscedasticNoise as GrowingNoise


def problem(noise, seed, *, n=2500, d=6, k=3, m=5):
    return simulate.dataset(
        n, n_features=d, n_hidden=k, n_outputs=m, noise=noise, random_state=seed, activity=(0.3, 0.7)
    )


def in_standard_errors(recovery, truth):
    """Largest error of W and A in standard errors, units matched."""
    found, true = recovery.network.canonical(), truth.canonical()
    order = [int(np.argmin(np.linalg.norm(recovery.network.W - w, axis=1))) for w in found.W]
    errors = recovery.uncertainty.standard_errors
    z = [np.abs(found.W - true.W) / errors["W"][order], np.abs(found.A - true.A) / errors["A"][:, order]]
    return max(float(part.max()) for part in z)


@pytest.mark.parametrize(
    ("noise", "loss"),
    [
        (GaussianNoise(0.3), "squared"),
        (CauchyNoise(0.05), "sharp-cauchy"),
        (StudentTNoise(2, 0.1), "sharp-cauchy"),
    ],
)
def test_recovered_within_standard_errors_and_the_loss_is_named(noise, loss):
    data = problem(noise, 3)
    recovery = planted.recover(data.X, data.Y, method="half-spaces", random_state=1)
    assert recovery.outcome is Outcome.RECOVERED
    assert recovery.network.n_hidden == 3
    assert recovery.stats["loss"] == loss
    assert f"Fitted with the {loss} loss, chosen by the tails" in recovery.detail
    assert in_standard_errors(recovery, data.network) < 4.5  # 33 parameters; 4.5 has probability 2e-4


def test_least_squares_is_ruined_where_half_spaces_is_not():
    data = problem(CauchyNoise(0.2), 5)
    robust = planted.recover(data.X, data.Y, 3, method="half-spaces", random_state=1)
    plain = planted.recover(data.X, data.Y, 3, method="complementarity", noise="present", random_state=1)
    assert plain.outcome is not Outcome.RECOVERED
    errors = [planted.parameter_error(item.network, data.network) for item in (robust, plain)]
    assert errors[0] < errors[1] / 5


def test_the_answer_follows_scaled_outputs_and_inputs():
    data = problem(CauchyNoise(0.2), 7, n=1200)
    plain = planted.recover(data.X, data.Y, 3, method="half-spaces", random_state=1)
    scaled = planted.recover(data.X * 10, data.Y * 1e3, 3, method="half-spaces", random_state=1)
    back = planted.TwoLayerNetwork(
        scaled.network.W * 10, scaled.network.b, scaled.network.A / 1e3, scaled.network.c / 1e3
    )
    assert planted.parameter_error(plain.network, back) < 1e-3 * plain.uncertainty.standard_errors["W"].max()


def test_one_sided_errors_make_a_fit_not_a_claim():
    data = problem(GaussianNoise(0.2), 2)
    Y = data.Y.copy()
    Y[::8] += 15.0
    recovery = planted.recover(data.X, Y, 3, method="half-spaces", loss="cauchy", random_state=1)
    assert recovery.outcome is Outcome.FITTED
    assert "not symmetric" in recovery.detail


def test_a_unit_that_noise_could_have_made_is_not_claimed():
    data = problem(GaussianNoise(0.3), 4)
    recovery = planted.recover(data.X, data.Y, 4, method="half-spaces", random_state=1)
    assert recovery.outcome is not Outcome.RECOVERED
    need = next(item for item in recovery.evidence if "rise of the sum of squares without" in item.name)
    assert not need.passed


def test_fewer_outputs_than_units_and_few_samples_are_refused_by_name():
    data = problem(CauchyNoise(0.2), 1, m=2)
    recovery = planted.recover(data.X, data.Y, 3, method="half-spaces", random_state=1)
    assert (recovery.outcome, recovery.network) == (Outcome.ASSUMPTION_FAILED, None)
    assert "m >= k" in recovery.detail
    few = planted.recover(data.X[:6], data.Y[:6], 2, method="half-spaces", random_state=1)
    assert few.outcome is Outcome.TOO_FEW_SAMPLES


def test_outliers_are_counted_and_listed():
    data = problem(GaussianNoise(0.1), 6)
    Y = data.Y.copy()
    Y[11, 2] += 40.0
    Y[12, 0] -= 30.0
    recovery = planted.recover(data.X, Y, 3, method="half-spaces", random_state=1)
    listed = recovery.stats["outliers"]
    assert [(item["row"], item["output"]) for item in listed["largest"][:2]] == [(11, 2), (12, 0)]
    assert listed["largest"][0]["residual"] == pytest.approx(40.0, abs=1.0)
    assert listed["entries"] < 10  # beyond four scales: one of 16,000 normal entries, and the two


def test_correlated_noise_is_weighed_and_its_standard_errors_hold():
    rng = np.random.default_rng(8)
    data = problem(0.0, 8)
    mix = np.linalg.cholesky(0.8 * np.ones((5, 5)) + 0.2 * np.eye(5)) * np.linspace(0.1, 0.5, 5)[:, None]
    Y = data.Y + rng.standard_normal(data.Y.shape) @ mix.T
    weighed, equal = (
        planted.recover(data.X, Y, 3, method="half-spaces", covariance=how, random_state=1)
        for how in ("auto", "equal")
    )
    assert weighed.outcome is Outcome.RECOVERED
    assert weighed.uncertainty.kind == "generalised"
    assert in_standard_errors(weighed, data.network) < 4.5
    assert (
        weighed.uncertainty.standard_errors["W"].mean() < 0.8 * equal.uncertainty.standard_errors["W"].mean()
    )


def test_sandwich_errors_follow_noise_that_grows_with_x():
    """Model errors assume one variance; where it grows with |x_1| they are too small for what x_1 carries."""
    data = problem(GrowingNoise(0.1, 3.0), 9)
    net = planted.recover(data.X, data.Y, 3, method="complementarity", random_state=1).network
    sandwich, model = (
        planted.standard_errors(net, data.X, data.Y, kind=kind).standard_errors["W"][:, 0].mean()
        for kind in ("sandwich", "model")
    )
    assert sandwich > 1.1 * model


def test_the_printed_algorithm_finds_one_unit_and_says_how_many_guesses_it_would_need():
    data = simulate.dataset(
        4000, n_features=5, n_hidden=1, n_outputs=3, noise=StudentTNoise(2, 0.3), random_state=0
    )
    recovery = planted.recover(data.X, data.Y, 1, method="half-spaces", variant="paper", random_state=1)
    assert recovery.outcome is Outcome.FITTED
    cosine = float(recovery.network.W[0] @ data.network.W[0])
    assert cosine > 0.97  # labels of 4,000 samples in 5 dimensions: an angle of about 0.1
    lines = {item.name: item.measured for item in recovery.evidence}
    assert lines["guesses on the grid used"] == 6
    assert lines["log10 of the guesses on the printed grid"] == pytest.approx(predict_guesses(1))


def test_the_printed_algorithm_with_two_units():
    data = simulate.dataset(3000, n_features=4, n_hidden=2, n_outputs=3, hidden="orthonormal", random_state=2)
    network, residual = algorithm_8(data.X, data.Y, 2, grid=GuessGrid(2, 3), rng=np.random.default_rng(0))
    cosines = np.abs(network.W @ data.network.W.T).max(axis=0)
    assert cosines.min() > 0.8
    assert residual < 0.6 * data.Y.std()


def test_three_units_are_beyond_the_printed_algorithm():
    data = problem(CauchyNoise(0.2), 1)
    recovery = planted.recover(data.X, data.Y, 3, method="half-spaces", variant="paper", random_state=1)
    assert (recovery.outcome, recovery.network) == (Outcome.ASSUMPTION_FAILED, None)


def test_the_half_space_of_labels_maximises_the_sum():
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((500, 4)), np.array([1.0, -2.0, 0.0, 0.5])
    labels = np.sign(X @ w)
    best = half_spaces_of_labels(X, labels[:, None])[0]
    for other in rng.standard_normal((50, 4)):
        assert labels @ (X @ best) >= labels @ (X @ other) / np.linalg.norm(other)


def test_the_number_of_guesses_grows_like_the_square_of_k():
    assert GuessGrid(2, 3).count(2) == 6**4
    assert predict_guesses(2) / predict_guesses(1) > 4  # k² entries, and more values of each


def test_the_grid_is_an_option():
    data = problem(0.1, 3, n=400, d=3, k=1, m=2)
    answer = planted.recover(
        data.X, data.Y, 1, method="half-spaces", variant="paper", n_levels=2, sketch_rows=3, random_state=1
    )
    assert answer.stats["guesses"] == 4**3
    for bad in ({"n_levels": 0}, {"sketch_rows": 0}, {"sketch_rows": 1.5}):
        with pytest.raises(BadInputError, match=next(iter(bad))):
            planted.recover(data.X, data.Y, 1, method="half-spaces", variant="paper", **bad)


@pytest.mark.parametrize("seed", range(2))
def test_the_labels_are_tested_where_outputs_are_weighed(seed):
    """Influences are no labels: what was cut off, lost or written off is looked for in the labels, after whitening too."""
    rng = np.random.default_rng(seed)
    net = simulate.teacher(4, 2, 3, activity=(0.3, 0.7), random_state=seed)
    X = rng.standard_normal((400, 4))
    noise = rng.standard_t(1.5, (400, 3)) * [0.02, 0.2, 0.05] * net(X).std()
    Y = net(X) + noise
    found = planted.recover(X, Y, 2, method="half-spaces", random_state=seed + 100)
    keys = [line.key for line in found.evidence]
    assert Check.NOISE_ACROSS_OUTPUTS in keys
    expected = label_fault_evidence(Y, found.network(X))
    for line in expected:
        (own,) = found.find(line.key)
        assert own.measured == pytest.approx(line.measured, rel=1e-6, abs=1e-9)
    assert (Check.UNIT_AMONG_OUTLIERS in keys) or found.outcome is not Outcome.RECOVERED


@pytest.mark.parametrize("seed", range(3, 6))
def test_a_rare_unit_is_not_claimed_away_where_outputs_are_weighed(seed):
    """A unit that is on in a dozen samples, ten times as strong, under noise of heavy tails."""
    rng = np.random.default_rng(seed)
    base = simulate.teacher(4, 2, 3, activity=(0.3, 0.7), random_state=seed)
    X = rng.standard_normal((400, 4))
    w = rng.standard_normal(4)
    w /= np.linalg.norm(w)
    a = rng.standard_normal((3, 1))
    rare = planted.TwoLayerNetwork([w], [-np.sort(X @ w)[-13]], 10 * a / np.linalg.norm(a))
    Y = base(X) + rare(X) + rng.standard_t(1.5, (400, 3)) * [0.05, 0.1, 0.05]
    found = planted.recover(X, Y, 2, method="half-spaces", random_state=seed + 100)
    assert found.outcome is not Outcome.RECOVERED
