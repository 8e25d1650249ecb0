"""What must not matter does not: order of units and rows, rotation, scale and shift of inputs, scale of outputs, rows added.

A planted problem and its transform are both recovered; the two answers must be transforms of each other. Hypothesis chooses
the problem and the transform; the solver's seed is the same and never that of the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import planted
from planted import TwoLayerNetwork

# Rounding of both recoveries, times the condition of transforms (at most 20) and a margin.
TOL = 1e-9
FEW = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SEEDS = st.integers(0, 50)


@dataclass(frozen=True)
class World:
    X: Any
    network: TwoLayerNetwork
    rng: np.random.Generator

    def answer(self, X: Any, Y: Any) -> TwoLayerNetwork:
        recovery = planted.recover(X, Y, method="complementarity", random_state=77)
        assert recovery.outcome is planted.Outcome.RECOVERED, recovery.detail
        return recovery.network


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Noiseless problems of three or four inputs, two or three units, each on for 30 to 70 % of the rows."""
    d, k = draw(st.integers(3, 4)), draw(st.integers(2, 3))
    law = draw(st.sampled_from(["gaussian", "exponential", "uniform"]))
    seed = draw(SEEDS)
    data = planted.simulate.dataset(
        150, n_features=d, n_hidden=k, n_outputs=k, law=law, activity=(0.3, 0.7), random_state=seed
    )
    return World(data.X, data.network, np.random.default_rng(seed + 1000))


def assert_same(found: TwoLayerNetwork, expected: TwoLayerNetwork) -> None:
    assert planted.parameter_error(found, expected) < TOL


@FEW
@given(worlds())
def test_the_order_of_units_and_rows_does_not_matter(world: World) -> None:
    net, order = world.network, world.rng.permutation(world.network.n_hidden)
    shuffled = TwoLayerNetwork(net.W[order], net.b[order], net.A[:, order], net.c)
    np.testing.assert_allclose(shuffled(world.X), net(world.X), rtol=1e-12, atol=1e-12)
    rows = world.rng.permutation(len(world.X))
    assert_same(world.answer(world.X[rows], net(world.X)[rows]), shuffled)


@FEW
@given(worlds())
def test_rotated_inputs_rotate_the_weights(world: World) -> None:
    rotation = np.linalg.qr(world.rng.standard_normal((world.X.shape[1],) * 2))[0]
    found = world.answer(world.X @ rotation, world.network(world.X))
    net = world.network
    assert_same(found, TwoLayerNetwork(net.W @ rotation, net.b, net.A, net.c))


@FEW
@given(worlds(), st.floats(-3, 3))
def test_scaled_and_shifted_inputs(world: World, exponent: float) -> None:
    net, d = world.network, world.X.shape[1]
    scales = 10.0**exponent * world.rng.uniform(0.5, 2.0, d)
    shift = scales * world.rng.standard_normal(d)
    found = world.answer(world.X * scales + shift, net(world.X))
    W = net.W / scales
    norms = np.linalg.norm(W, axis=1)  # canonical rows have unit norm; errors are judged in that gauge
    expected = TwoLayerNetwork(W / norms[:, None], (net.b - W @ shift) / norms, net.A * norms, net.c)
    size = max(1.0, float(np.abs(expected.A).max()), float(np.abs(expected.b).max()))
    assert planted.parameter_error(found, expected) < TOL * size


@FEW
@given(worlds(), st.floats(-6, 6))
def test_scaled_and_mixed_outputs(world: World, exponent: float) -> None:
    net, m = world.network, world.network.n_outputs
    mixing = 10.0**exponent * np.linalg.qr(world.rng.standard_normal((m, m)))[0]
    found = world.answer(world.X, net(world.X) @ mixing.T)
    expected = TwoLayerNetwork(net.W, net.b, mixing @ net.A, mixing @ net.c)
    size = max(1.0, float(np.abs(expected.A).max()))
    assert planted.parameter_error(found, expected) < TOL * size


@FEW
@given(worlds(), st.integers(1, 40))
def test_more_rows_of_the_same_network_change_nothing(world: World, n_more: int) -> None:
    more = world.rng.permutation(world.X)[:n_more] + 0.1 * world.rng.standard_normal(
        (n_more, world.X.shape[1])
    )
    rows = np.vstack([world.X, more])
    assert_same(world.answer(rows, world.network(rows)), world.answer(world.X, world.network(world.X)))


@FEW
@given(worlds(), st.floats(-3, 3))
def test_predictions_of_the_memory_do_not_feel_the_scale_of_labels(world: World, exponent: float) -> None:
    rows, labels = world.X[:10], world.network(world.X[:10])
    factor = 10.0**exponent
    plain = planted.memorize(rows, labels, bias=True, random_state=3).network(rows)
    scaled = planted.memorize(rows, factor * labels, bias=True, random_state=3).network(rows)
    spread = float(np.abs(labels).max())
    # The labels are reproduced to a relative loss of 1e-12, an error of 1e-6 of their size.
    np.testing.assert_allclose(scaled / factor, plain, atol=1e-5 * spread)
