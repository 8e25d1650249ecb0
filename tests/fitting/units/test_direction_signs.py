"""Theorem 9 of BJW18: signs of directions from projection residuals, by one solve."""

import numpy as np
import pytest

from planted import TwoLayerNetwork, simulate
from planted.fitting.units._direction_signs import orient_directions
from planted.linalg.symmetric import column_spectrum, rises_of_columns
from planted.networks import parse_activation
from planted.outcomes import BadInputError


def noisy(seed, *, n=1500, d=8, k=4, m=5, level=0.5, **options):
    data = simulate.dataset(n, n_features=d, n_hidden=k, n_outputs=m, random_state=seed, **options)
    rng = np.random.default_rng([seed, 99])
    return data, data.Y + level * np.sqrt((data.Y**2).mean()) * rng.standard_normal(data.Y.shape), rng


def test_the_rise_is_the_residual_of_the_regression_without_the_column():
    rng = np.random.default_rng(0)
    F, Y = rng.standard_normal((50, 4)), rng.standard_normal((50, 2))
    beta = np.linalg.lstsq(F, Y, rcond=None)[0]
    full = ((Y - F @ beta) ** 2).sum()
    for column, rise in enumerate(rises_of_columns(column_spectrum(F.T @ F), beta)):
        rest = np.delete(F, column, axis=1)
        without = ((Y - rest @ np.linalg.lstsq(rest, Y, rcond=None)[0]) ** 2).sum()
        assert rise == pytest.approx(without - full, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_one_solve_gives_all_signs_under_noise(seed):
    data, Y, rng = noisy(seed)
    turned = rng.choice([-1.0, 1.0], (4, 1))
    signed = orient_directions(data.X, Y, turned * data.network.W)
    np.testing.assert_array_equal(signed.W, data.network.W)
    assert signed.margins.min() > 5
    # A by regression: 1,500 rows, noise about 0.8, so standard errors near 0.03; five of them.
    assert np.abs(signed.A - data.network.A).max() < 0.2


def test_biases_turn_with_their_directions():
    data, Y, _ = noisy(1, activity=(0.3, 0.7))
    signed = orient_directions(data.X, Y, -data.network.W, b=-data.network.b)
    np.testing.assert_array_equal(signed.b, data.network.b)


def test_powers_have_signs_too():
    net = simulate.teacher(5, 3, 3, activation="power:2", random_state=0)
    X = simulate.inputs(800, 5, random_state=1)
    signed = orient_directions(X, net(X), -net.W, activation=parse_activation("power:2"))
    np.testing.assert_array_equal(signed.W, net.W)


def test_the_margin_vanishes_where_nothing_tells_the_signs():
    """An output that is linear in x is fitted alike by both signs."""
    X = np.random.default_rng(0).standard_normal((4000, 3))
    W = np.eye(3)
    linear = X @ W.T @ np.ones((3, 1)) + np.random.default_rng(1).standard_normal((4000, 1))
    kinked = TwoLayerNetwork(W, None, np.ones((1, 3)))(X) + np.random.default_rng(1).standard_normal(
        (4000, 1)
    )
    doubt, sure = (orient_directions(X, Y, W).margins for Y in (linear, kinked))
    assert doubt.max() < 5 < 10 < sure.min()


def test_more_units_than_inputs_are_refused():
    data, Y, _ = noisy(0, d=3, k=5)
    with pytest.raises(BadInputError, match="k = 5, d = 3"):
        orient_directions(data.X, Y, data.network.W)
