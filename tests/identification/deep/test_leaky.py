"""Deep networks of leaky units: every layer, and the slope, are read; other kinds are not taken for them."""

from itertools import pairwise

import numpy as np
import pytest

import planted
from planted import DeepNetwork, Outcome


def draw_layers(seed, widths):
    rng = np.random.default_rng([28, seed, *widths])
    return [
        (rng.normal(size=(out, into)) * np.sqrt(2 / into), 0.5 * rng.normal(size=out))
        for into, out in pairwise(widths)
    ]


@pytest.mark.parametrize(
    ("seed", "widths", "slope"),
    [(0, (12, 6, 5, 2), 0.1), (1, (10, 5, 4, 1), 0.3), (2, (10, 6, 5, 4, 2), 0.2), (3, (12, 5, 7, 2), 0.25)],
)
def test_leaky_layers_are_read(seed, widths, slope):
    net = DeepNetwork(draw_layers(seed, widths), f"leaky-relu:{slope}")
    found = planted.identify(net, random_state=seed)
    assert found.outcome is Outcome.RECOVERED, found.detail
    assert found.network.activation.name == f"leaky-relu:{slope}"
    assert planted.parameter_error(found.network, net) < 1e-10


def test_a_slope_of_many_digits_is_refined():
    slope = float(np.random.default_rng(9).uniform(0.05, 0.4))
    net = DeepNetwork(draw_layers(4, (10, 6, 5, 2)), f"leaky-relu:{slope!r}")
    found = planted.identify(net, random_state=1)
    assert found.outcome is Outcome.RECOVERED, found.detail
    assert abs(-found.network.activation.left - slope) < 1e-12


def test_two_slopes_are_not_taken_for_one():
    layers = draw_layers(5, (8, 5, 4, 1))

    def answer(X):
        for (W, b), slope in zip(layers[:-1], (0.1, 0.3), strict=True):
            T = X @ W.T + b
            X = np.where(T > 0, T, slope * T)
        return X @ layers[-1][0].T + layers[-1][1]

    found = planted.identify(answer, 8, random_state=0)
    assert found.outcome is not Outcome.RECOVERED and found.network is None
    assert "another slope below zero" in found.detail


def test_within_a_box_leaky_layers_are_refused_by_name():
    net = DeepNetwork(draw_layers(6, (8, 5, 4, 1)), "leaky-relu:0.1")
    found = planted.identify(net, box=(-3.0, 3.0), random_state=0)
    assert found.outcome is not Outcome.RECOVERED and found.network is None


def test_a_small_slope_is_refused_by_name():
    net = DeepNetwork(draw_layers(7, (10, 5, 4, 1)), "leaky-relu:0.01")
    found = planted.identify(net, random_state=0)
    assert found.outcome is Outcome.ASSUMPTION_FAILED and "leaky-relu:0.01" in found.detail
