"""What is no deep ReLU network is refused by name; a network that cannot be read keeps its certain layers."""

from itertools import pairwise

import numpy as np
import pytest

import planted
from planted import DeepNetwork, Outcome
from planted.identification import OracleError
from planted.identification.deep._planes import count_copies
from planted.identification.deep.stages._found import LayerFound


def draw(seed, widths, activation="relu"):
    rng = np.random.default_rng(seed)
    layers = [
        (rng.normal(size=(out, into)) * np.sqrt(2 / into), 0.5 * rng.normal(size=out))
        for into, out in pairwise(widths)
    ]
    return DeepNetwork(layers, activation)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("skip", "a connection skips the hidden layers"),
        ("tanh", "bends between breakpoints"),
        ("coarse", "too coarse to read those"),
        ("residual", "connections skip the layer"),
        ("convolution", "windows of a convolution"),
    ],
)
def test_other_kinds_are_refused_by_name_within_2000_questions(kind, reason, seed):
    net, rng = draw(seed, (12, 6, 5, 1)), np.random.default_rng(1000 + seed)
    skip, out = rng.normal(size=(12, 1)), rng.normal(size=(12, 1))
    block, back = rng.normal(size=(2, 10, 10)) / 3
    kernels, top = rng.normal(size=(2, 3)), rng.normal(size=(20, 6)) / 4

    def convolve(X):
        windows = np.lib.stride_tricks.sliding_window_view(X, 3, axis=1)
        return np.maximum(windows @ kernels.T + 0.3, 0).reshape(len(X), -1)

    oracles = {
        "residual": lambda X: np.maximum(X + np.maximum(X @ block + 0.3, 0) @ back - 0.2, 0) @ out[:10],
        "convolution": lambda X: np.maximum(convolve(X) @ top - 0.1, 0) @ out[:6],
        "skip": lambda X: net(X) + X @ skip,
        "tanh": lambda X: np.tanh(net(X)),
        "coarse": lambda X: net(X) + 1e-9 * rng.normal(size=(len(X), 1)),
    }
    found = planted.identify(oracles[kind], 10 if kind == "residual" else 12, random_state=seed)
    assert found.outcome is Outcome.ASSUMPTION_FAILED and found.network is None
    assert reason in found.detail
    assert found.stats["queries"] <= 2_000


@pytest.mark.parametrize("seed", [5, 7])
@pytest.mark.parametrize(("slope", "name"), [(-1.0, "absolute"), (-0.5, "leaky-relu:-0.5")])
def test_units_that_turn_back_below_zero_are_named_with_their_sign(slope, name, seed):
    net = draw(seed, (12, 6, 5, 1))

    def oracle(X):
        T = X @ net.layers[0][0].T + net.layers[0][1]
        return DeepNetwork(net.layers[1:])(np.where(T > 0, T, slope * T))

    found = planted.identify(oracle, 12, random_state=seed + 1)
    assert found.outcome is Outcome.ASSUMPTION_FAILED and found.network is None
    assert f"as {name} does" in found.detail


def test_a_count_of_dependent_units_is_said_to_be_a_bound():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(7, 2))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    layer = LayerFound((rows, rng.normal(size=7)), np.ones(7), np.ones(7), has_higher=True)
    assert "up to 7 units on 2 inputs" in layer.problem(1)


def test_statistics_of_the_batch_and_noise_are_told():
    net, rng = draw(3, (12, 6, 5, 1)), np.random.default_rng(0)

    def batch_statistics(X):
        return net((X - X.mean(axis=0)) / X.std(axis=0))

    for oracle in (batch_statistics, lambda X: net(X) + 1e-3 * rng.normal(size=(len(X), 1))):
        with pytest.raises(OracleError, match="depends on the others"):
            planted.identify(oracle, 12, random_state=0)


@pytest.mark.parametrize("seed", range(2))
def test_three_hidden_layers_are_read_or_the_first_are_certain(seed):
    net = draw(seed + 4, (12, 7, 5, 4, 1))
    found = planted.identify(net, random_state=seed)
    if found.outcome is Outcome.RECOVERED:
        assert planted.parameter_error(found.network, net) < 1e-8
        return
    assert found.outcome in (Outcome.STOPPED_EARLY, Outcome.FITTED, Outcome.NOT_IDENTIFIABLE), found.detail
    for layer, (W, b) in zip(found.stats.get("certain_layers", [])[:1], net.layers, strict=False):
        truth = np.column_stack([W, b]) / np.linalg.norm(W, axis=1)[:, None]
        rows = np.column_stack([layer["W"], layer["b"]])
        rows /= np.linalg.norm(rows[:, :-1], axis=1)[:, None]
        assert np.abs(truth[:, None] - rows[None]).max(axis=2).min(axis=0).max() < 1e-6


def test_a_convolution_is_read_as_a_dense_layer_if_the_depth_is_given():
    rng = np.random.default_rng(5)
    kernels, top, out = rng.normal(size=(1, 3)), rng.normal(size=(4, 6)) / 2, rng.normal(size=(4, 1))
    W = np.array([np.roll(np.append(kernels[0], np.zeros(5)), place) for place in range(6)])
    net = DeepNetwork([(W, np.full(6, 0.3)), (top, rng.normal(size=4) / 2), (out.T, np.zeros(1))])
    refused = planted.identify(net, random_state=0)
    assert refused.outcome is Outcome.ASSUMPTION_FAILED and "convolution" in refused.detail
    found = planted.identify(net, depth=2, random_state=0)
    assert found.outcome is Outcome.RECOVERED, found.detail
    assert planted.parameter_error(found.network, net) < 1e-9


def test_shifted_copies_are_counted():
    window = np.array([0.6, -0.8])
    rows = np.zeros((5, 6))
    rows[0, :2], rows[1, 3:5], rows[2, 2:4] = window, -window, window
    rows[3, 1:3] = window[::-1]  # another kernel
    rows[4, 4] = 1.0  # one weight only
    assert count_copies(rows) == 3
    assert count_copies(rows[[0, 0, 3]]) == 0  # the same place is no shift
    assert count_copies(np.random.default_rng(0).normal(size=(9, 6))) == 0
