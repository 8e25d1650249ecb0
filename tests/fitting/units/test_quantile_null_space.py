"""The quantile null space: from a rough direction to a unit, for every rectified power."""

import numpy as np
import pytest

from planted.fitting.units._quantile_null_space import exact_unit, pursue_rectified_units, units_from_scores
from planted.linalg import column_space
from planted.networks import parse_activation
from planted.simulate import dataset

POWERS = ["relu", "power:2", "power:3"]


def world(activation, n=300, seed=0):
    data = dataset(n, n_features=6, n_hidden=4, n_outputs=4, activation=activation, random_state=seed)
    return data, column_space(data.Y)[0], parse_activation(activation)


@pytest.mark.parametrize("name", POWERS)
def test_rows_that_are_off_give_the_unit_exactly(name):
    data, Q, activation = world(name)
    for w in data.network.W:
        found, sine = exact_unit(data.X, Q, data.X @ w < 0, activation=activation)
        # f is inverted, so that the p-th root of rounding at small activations remains: 1e-15 to 1e-11.
        np.testing.assert_allclose(found, w / np.linalg.norm(w), rtol=0, atol=1e-10)
        assert sine < 1e-10


def test_one_row_that_is_on_spoils_the_null_space():
    data, Q, activation = world("relu")
    w = data.network.W[0]
    off = data.X @ w < 0
    off[np.argmax(data.X @ w)] = True
    assert exact_unit(data.X, Q, off, activation=activation)[1] > 1e-3


@pytest.mark.parametrize("name", POWERS)
def test_rough_directions_become_exact_and_wrong_signs_lead_nowhere_else(name):
    data, Q, activation = world(name)
    rng = np.random.default_rng(11)
    rough = data.network.W + 0.1 * rng.standard_normal(data.network.W.shape)
    forward = data.X @ rough.T
    units = units_from_scores(data.X, Q, np.hstack([forward, -forward]), activation)
    truth = data.network.W / np.linalg.norm(data.network.W, axis=1, keepdims=True)
    cosines = units.W @ truth.T
    assert units.starts == 8
    assert len(units.W) == 4, "no unit twice, and nothing that is not one"
    np.testing.assert_allclose(cosines.max(axis=0), 1.0, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", POWERS)
def test_random_directions_find_all_units(name):
    data, Q, activation = world(name)
    found = pursue_rectified_units(
        data.X, Q, 5, activation=activation, rng=np.random.default_rng(2), max_starts=96
    )
    assert len(found.W) == 4, "a fifth unit does not exist"
    assert found.starts == 96
    truth = data.network.W / np.linalg.norm(data.network.W, axis=1, keepdims=True)
    np.testing.assert_allclose((found.W @ truth.T).max(axis=0), 1.0, rtol=0, atol=1e-10)


def test_units_of_another_activation_are_not_accepted():
    data, Q, _ = world("relu")
    found = pursue_rectified_units(
        data.X, Q, 4, activation=parse_activation("power:2"), rng=np.random.default_rng(2), max_starts=64
    )
    assert len(found.W) == 0
