"""Proved ranges of outputs and derivatives: every value and every slope that is met lies between them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import planted
from planted import DeepNetwork
from planted.outcomes import BadInputError


def random_net(rng: np.random.Generator, n_layers: int, n_outputs: int = 2) -> DeepNetwork:
    widths = [int(rng.integers(1, 4)), *(int(k) for k in rng.integers(2, 6, n_layers)), n_outputs]
    layers = [(rng.standard_normal((k, p)), rng.standard_normal(k)) for p, k in pairwise(widths)]
    return DeepNetwork(layers, str(rng.choice(["relu", "leaky-relu:0.1", "absolute"])))


@pytest.mark.parametrize("seed", range(6))
def test_outputs_and_slopes_stay_in_their_ranges(seed: int) -> None:
    rng = np.random.default_rng([11, seed])
    net = random_net(rng, 1 + seed % 3)
    low, high = -rng.random(net.n_features), rng.random(net.n_features)
    outputs = planted.bounds(net, (low, high), budget_seconds=0.4, random_state=0)
    found = planted.slopes(net, (low, high), budget_seconds=0.4)
    X = low + rng.random((5000, net.n_features)) * (high - low)
    Y = net(X)
    size = 1e-12 * np.abs(Y).max()
    assert (outputs.high + size >= Y).all() and (outputs.low - size <= Y).all()
    assert (outputs.seen_high <= outputs.high).all() and (outputs.seen_low >= outputs.low).all()
    for feature in range(net.n_features):
        ahead = X.copy()
        ahead[:, feature] = np.minimum(X[:, feature] + 0.1, high[feature])
        step = ahead[:, feature] - X[:, feature]
        rise = net(ahead) - Y
        limits = found.low[:, feature] * step[:, None], found.high[:, feature] * step[:, None]
        assert (rise >= limits[0] - size).all() and (rise <= limits[1] + size).all()
    pairs = np.abs(Y[1:] - Y[:-1]).max(axis=1) / np.abs(X[1:] - X[:-1]).max(axis=1)
    assert pairs.max() <= found.lipschitz[1] * (1 + 1e-9)
    assert found.lipschitz[0] <= found.lipschitz[1]


@pytest.mark.parametrize("seed", range(4))
def test_the_lipschitz_constant_of_a_small_network_is_exact(seed: int) -> None:
    """Against the pieces that a fine grid meets."""
    rng = np.random.default_rng([12, seed])
    net = DeepNetwork(
        [(rng.standard_normal((3, 2)), 0.3 * rng.standard_normal(3)), (rng.standard_normal((1, 3)), None)]
    )
    (W, b), (A, _) = net.layers
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 201)] * 2), axis=-1).reshape(-1, 2)
    rates = np.unique(grid @ W.T + b > 0, axis=0)
    largest = max(np.abs((A * rate) @ W).sum() for rate in rates)
    found = planted.slopes(net, (-1, 1), budget_seconds=60)
    assert found.lipschitz == pytest.approx((largest, largest), rel=1e-9) and not found.reason


def test_monotone_networks_and_others() -> None:
    rng = np.random.default_rng(0)
    W, A = np.abs(rng.standard_normal((4, 2))), np.abs(rng.standard_normal((1, 4)))
    rising = DeepNetwork([(W, rng.standard_normal(4)), (A, None)])
    assert planted.slopes(rising, (-1, 1), budget_seconds=2).is_monotone(0) is True
    falling = DeepNetwork([(W, np.ones(4)), (-A, None)])
    assert planted.slopes(falling, (0, 1), budget_seconds=2).is_monotone(1) is False


def test_a_derivative_that_is_rounding_refutes_nothing() -> None:
    """Units that are all on: the derivative is A W = 8.3e-18, which floating point makes -2.8e-17."""
    W, A = np.array([[0.9], [-0.5], [0.6], [0.3]]), np.array([[-0.3, 0.6, 0.9, 0.1]])
    assert (A @ W)[0, 0] < 0
    net = DeepNetwork([(W, np.full(4, 5.0)), (A, None)])
    assert planted.slopes(net, (-1, 1), budget_seconds=0.1).is_monotone(0) is not False


def test_derivatives_beside_a_unit_that_is_zero() -> None:
    net = DeepNetwork([(np.array([[1.0], [0.0]]), [2.0, 0.0]), (np.array([[3.0, 1.0]]), None)])
    found = planted.slopes(net, (-1, 1))
    assert found.lipschitz == pytest.approx((3.0, 3.0)) and found.seen_low[0, 0] == 3.0


def test_derivatives_are_not_bounded_on_a_set_that_is_cut() -> None:
    net = DeepNetwork([(np.eye(2), None), (np.ones((1, 2)), None)])
    with pytest.raises(BadInputError, match="without inequalities"):
        planted.slopes(net, (0, 1, np.ones((1, 2)), np.ones(1)))
