"""Data sets and noises: what was asked for, from separate streams."""

from __future__ import annotations

import numpy as np
import pytest

from planted import simulate
from planted._streams import solver_streams
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError, BadInputTypeError

N = 40_000
SHAPE = {"n_features": 4, "n_hidden": 3, "n_outputs": 2}


def noise_of(noise, **options):
    data = simulate.dataset(N, noise=noise, random_state=1, **SHAPE, **options)
    return data.X, data.Y - data.Y_clean


def assert_mean(values, expected):
    error = np.std(values, axis=0) / np.sqrt(len(values))
    assert np.all(np.abs(np.mean(values, axis=0) - expected) <= 4 * error)


def test_gaussian_noise_moments():
    _, noise = noise_of(0.5)
    assert_mean(noise, 0.0)
    assert_mean(noise**2, 0.25)
    assert_mean(noise**4, 3 / 16)
    assert_mean(noise[:, 0] * noise[:, 1], 0.0)


def test_student_t_noise_moments():
    _, noise = noise_of(simulate.StudentTNoise(df=9.0, scale=0.5))
    assert_mean(noise, 0.0)
    assert_mean(noise**2, 0.25 * 9 / 7)
    assert_mean(noise**4, 3 * 81 / 35 / 16)


def test_cauchy_noise_quartiles():
    _, noise = noise_of(simulate.CauchyNoise(scale=2.0))
    # P(|noise| < t) = 2 arctan(t / scale) / pi.
    assert_mean((np.abs(noise) < 2.0).astype(float), 0.5)
    assert_mean((np.abs(noise) < 20.0).astype(float), 2 * np.arctan(10.0) / np.pi)
    assert_mean(np.sign(noise), 0.0)


def test_sparse_noise_hits_a_fraction_of_the_entries():
    data = simulate.dataset(
        N, noise=simulate.SparseNoise(fraction=0.2, amplitude=100.0), random_state=1, **SHAPE
    )
    is_hit = (data.Y - data.Y_clean) != 0.0
    assert_mean(is_hit.astype(float), 0.2)
    assert_mean((is_hit[:, 0] & is_hit[:, 1]).astype(float), 0.04)
    assert_mean(((data.Y - data.Y_clean)[is_hit] / 100.0) ** 2, 1.0)


def test_heteroscedastic_noise_grows_with_the_first_input():
    X, noise = noise_of(simulate.HeteroscedasticNoise(std=0.5, growth=2.0))
    standardised = noise / (0.5 * (1 + 2 * np.abs(X[:, :1])))
    assert_mean(standardised, 0.0)
    assert_mean(standardised**2, 1.0)
    assert_mean(standardised**4, 3.0)
    assert_mean(standardised[:, 0] * standardised[:, 1], 0.0)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gaussian", simulate.GaussianNoise),
        ("student-t", simulate.StudentTNoise),
        ("cauchy", simulate.CauchyNoise),
        ("sparse", simulate.SparseNoise),
        ("heteroscedastic", simulate.HeteroscedasticNoise),
    ],
)
def test_noises_by_name_have_their_defaults(name, kind):
    by_name = simulate.dataset(50, noise=name, random_state=0, **SHAPE)
    assert by_name.noise == kind()
    np.testing.assert_array_equal(by_name.Y, simulate.dataset(50, noise=kind(), random_state=0, **SHAPE).Y)


def test_outputs_are_the_networks_plus_the_noise():
    class Steps:
        def sample(self, X, shape, rng):
            return np.arange(float(shape[0] * shape[1])).reshape(shape)

    data = simulate.dataset(20, noise=Steps(), random_state=0, **SHAPE)
    np.testing.assert_array_equal(data.Y_clean, data.network(data.X))
    np.testing.assert_array_equal(data.Y, data.Y_clean + np.arange(40.0).reshape(20, 2))


def test_no_noise_is_exact():
    data = simulate.dataset(20, random_state=0, **SHAPE)
    np.testing.assert_array_equal(data.Y, data.network(data.X))


def test_a_dataset_holds_the_inputs_and_the_teacher_of_its_seed():
    options = {"hidden": "conditioned", "condition": 5.0, "activity": (0.3, 0.7)}
    data = simulate.dataset(20, law="correlated", noise=0.1, random_state=3, **SHAPE, **options)
    net = simulate.teacher(4, 3, 2, law="correlated", random_state=3, **options)
    for name in ("W", "b", "A", "c"):
        np.testing.assert_array_equal(getattr(data.network, name), getattr(net, name))
    np.testing.assert_array_equal(data.X, simulate.inputs(20, 4, law="correlated", random_state=3))


@pytest.mark.parametrize("noise", [0.0, 1.0, "cauchy", "sparse", "heteroscedastic"])
def test_noise_changes_neither_inputs_nor_network(noise):
    base = simulate.dataset(30, noise=0.3, random_state=5, **SHAPE)
    other = simulate.dataset(30, noise=noise, random_state=5, **SHAPE)
    np.testing.assert_array_equal(base.X, other.X)
    np.testing.assert_array_equal(base.Y_clean, other.Y_clean)
    np.testing.assert_array_equal(base.network.W, other.network.W)
    assert not np.array_equal(base.Y, other.Y)


def test_law_changes_neither_weights_nor_noise():
    base = simulate.dataset(30, noise=0.3, random_state=5, **SHAPE)
    other = simulate.dataset(30, noise=0.3, law="student-t", random_state=5, **SHAPE)
    np.testing.assert_array_equal(base.network.W, other.network.W)
    # Adding and subtracting outputs of size 10 leaves rounding of 1e-15.
    np.testing.assert_allclose(base.Y - base.Y_clean, other.Y - other.Y_clean, atol=1e-13)


def test_data_and_solver_of_one_integer_share_no_number():
    data = simulate.dataset(100, noise=1.0, random_state=0, **SHAPE)
    noise = data.Y - data.Y_clean
    for stream in solver_streams(0, 10):
        drawn = stream.standard_normal(1000)
        assert not np.intersect1d(drawn, data.X).size
        assert np.abs(drawn[:, None] - noise.ravel()[None, :]).min() > 1e-13


def test_a_given_network_is_used():
    net = TwoLayerNetwork(W=[[1.0, 0.0]], b=[0.5], A=[[2.0]])
    data = simulate.dataset(10, net, law="uniform", random_state=0)
    assert data.network is net
    assert isinstance(data.law, simulate.Uniform)
    np.testing.assert_array_equal(data.Y[:, 0], 2.0 * np.maximum(data.X[:, 0] + 0.5, 0.0))
    assert simulate.dataset(10, net, n_features=2, n_hidden=1, n_outputs=1).X.shape == (10, 2)


def test_a_generator_moves_on_and_repeats():
    rng, again = np.random.default_rng(2), np.random.default_rng(2)
    first = simulate.dataset(10, random_state=rng, **SHAPE)
    second = simulate.dataset(10, random_state=rng, **SHAPE)
    np.testing.assert_array_equal(first.Y, simulate.dataset(10, random_state=again, **SHAPE).Y)
    assert not np.intersect1d(first.X, second.X).size


def test_one_output_by_default():
    assert simulate.dataset(10, n_features=4, n_hidden=2, random_state=0).Y.shape == (10, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"n_features is missing; give a network"),
        ({"n_features": 3}, r"n_hidden is missing; give a network"),
        ({**SHAPE, "noise": -0.1}, r"noise=-0.1; expected a finite number of at least 0"),
        ({**SHAPE, "noise": "gauss"}, r"unknown noise 'gauss'; known are 'gaussian', 'student-t'"),
        ({**SHAPE, "busyness": (0.1, 0.2)}, r"unknown option 'busyness' of a teacher"),
        ({**SHAPE, "law": simulate.Uniform(7)}, r"the law has n_features=7, but n_features=4"),
        (
            {"network": TwoLayerNetwork(W=[[1.0]], A=[1.0]), "n_hidden": 2},
            r"n_hidden=2 but the network has n_hidden=1",
        ),
        (
            {"network": TwoLayerNetwork(W=[[1.0]], A=[1.0]), "signs": "same"},
            r"option 'signs' is for drawing a network",
        ),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(BadInputError, match=message):
        simulate.dataset(10, **options)


def test_bad_types_are_named():
    with pytest.raises(BadInputTypeError, match=r"noise is of type NoneType"):
        simulate.dataset(10, noise=None, **SHAPE)
    with pytest.raises(BadInputTypeError, match=r"n_samples is of type str"):
        simulate.dataset("10", **SHAPE)
    with pytest.raises(
        BadInputError, match=r"fraction=2; expected a finite number of at least 0 and at most 1"
    ):
        simulate.SparseNoise(fraction=2)


@pytest.mark.parametrize(
    ("sizes", "limit"), [((10, 5, 5), 15.0), ((10, 5, 1), 55.0), ((20, 10, 15), 350 / 15)]
)
def test_information_limit(sizes, limit):
    assert simulate.information_limit(*sizes) == limit
    # The network counts its offset c too, which a planted teacher does not have.
    net = simulate.teacher(*sizes, random_state=0)
    assert simulate.information_limit(*sizes) == pytest.approx(
        (net.n_parameters - sizes[2]) / sizes[2], rel=1e-15
    )
