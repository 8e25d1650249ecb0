"""Methods for networks without biases: a claim needs samples that tell a bias from a weight."""

import numpy as np
import pytest

import planted
from planted import Outcome, TwoLayerNetwork


def foldable(seed: int) -> tuple[np.ndarray, TwoLayerNetwork]:
    """Inputs of values ±1, and units that one input switches: their biases may as well be part of its weight."""
    rng = np.random.default_rng([seed, 31])
    d, k = int(rng.integers(3, 7)), int(rng.integers(1, 4))
    W = rng.standard_normal((k, d))
    W *= 0.5 / np.abs(W).sum(axis=1, keepdims=True)
    W[np.arange(k), rng.permutation(d)[:k]] = rng.choice([-1.0, 1.0], k)
    net = TwoLayerNetwork(W, rng.uniform(-0.4, 0.4, k), rng.standard_normal((k + int(rng.integers(1, 4)), k)))
    return rng.choice([-1.0, 1.0], (int(rng.integers(80, 400)), d)), net


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("seed", range(12))
def test_a_bias_that_may_be_part_of_a_weight_is_not_claimed_away(seed: int, noise: float) -> None:
    X, net = foldable(seed)
    Y = net(X) + noise * net(X).std(axis=0) * np.random.default_rng([seed, 32]).standard_normal(net(X).shape)
    answer = planted.recover(X, Y, net.n_hidden, method="symmetric-inputs", random_state=seed)
    assert answer.outcome is not Outcome.RECOVERED, answer.detail


def test_networks_without_biases_are_still_claimed_from_inputs_of_a_density() -> None:
    for seed in range(6):
        rng = np.random.default_rng([seed, 33])
        net = TwoLayerNetwork(rng.standard_normal((3, 5)), None, rng.standard_normal((4, 3)))
        X = rng.standard_normal((150, 5))
        answer = planted.recover(X, net(X), method="symmetric-inputs", random_state=seed)
        assert answer.outcome is Outcome.RECOVERED and planted.parameter_error(answer.network, net) < 1e-8
