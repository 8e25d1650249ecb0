"""Black boxes that are odd in one way: outputs without spread, units far out, uneven bounds, units that hide another."""

from __future__ import annotations

import numpy as np
import pytest

from planted import DeepNetwork, Outcome, TwoLayerNetwork, identify, parameter_error, simulate
from planted.checks import Check


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [0.0, 1e-13, 1e-5, 1e8])
def test_one_output_is_constant_or_of_another_size(seed: int, size: float) -> None:
    net = simulate.teacher(6, 5, 3, bias=(-0.5, 0.5), random_state=seed)
    sizes = np.array([1.0, 1.0, size])
    net = TwoLayerNetwork(net.W, net.b, net.A * sizes[:, None], np.array([0.3, -0.2, 0.7 * (size or 1.0)]))
    found = identify(net, random_state=100 + seed)
    assert found.outcome is Outcome.RECOVERED and found.network is not None
    X = np.random.default_rng(seed).standard_normal((500, 6))
    assert (np.abs(found.network(X) - net(X)) <= 1e-9 * np.maximum(sizes, 1e-6)).all()


@pytest.mark.parametrize("distance", [5.0, 30.0, 1e4])
@pytest.mark.parametrize("seed", range(3))
def test_the_only_unit_switches_beyond_typical_inputs(seed: int, distance: float) -> None:
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((1, 1 + seed))
    net = TwoLayerNetwork(w, [-distance * np.linalg.norm(w)], rng.standard_normal((1, 1)), [0.4])
    found = identify(net, random_state=seed)
    assert found.outcome is Outcome.RECOVERED and found.network is not None
    assert parameter_error(found.network, net) < 1e-9 * distance


@pytest.mark.parametrize("seed", range(8))
def test_no_question_leaves_an_uneven_box(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 6))
    low, width = rng.uniform(-3, 1, d), 10.0 ** rng.uniform(-1, 1, d)
    high, outside = low + width, []
    net = simulate.teacher(d, 4, bias=(-0.5, 0.5), random_state=seed)

    def oracle(X: np.ndarray) -> np.ndarray:
        outside.append(np.count_nonzero(np.clip(X, low, high) != X))
        return net(X)

    identify(oracle, d, box=(low, high), budget=4000, random_state=seed)
    assert sum(outside) == 0


@pytest.mark.parametrize("seed", range(8))
def test_a_unit_whose_switch_another_hides_is_not_claimed(seed: int) -> None:
    # relu(a relu(u) - c relu(v) - b): where u switches the unit above is off, so that only a (bias of u) - b shows.
    rng = np.random.default_rng([seed, 5])
    d = int(rng.integers(2, 6))
    layers = [
        (rng.standard_normal((2, d)), rng.uniform(-0.3, 0.3, 2)),
        (np.abs(rng.standard_normal((1, 2))) * [1.0, -1.0], -np.abs(rng.uniform(0.1, 0.5, 1))),
        (rng.standard_normal((1, 1)), rng.standard_normal(1)),
    ]
    found = identify(DeepNetwork(layers), d, budget=6000, random_state=seed)
    assert found.outcome is not Outcome.RECOVERED


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_of_rounded_answers_holds(seed: int) -> None:
    rng = np.random.default_rng([seed, 6])
    d, k, decimals = int(rng.integers(2, 9)), int(rng.integers(2, 6)), int(rng.integers(4, 9))
    net = simulate.teacher(d, k, bias=(-0.5, 0.5), random_state=300 + seed)
    found = identify(lambda X: np.round(net(X), decimals), d, random_state=seed)
    if found.outcome is Outcome.RECOVERED:
        assert found.network is not None
        assert parameter_error(found.network, net) <= found.find(Check.ERROR_BOUND)[0].measured


@pytest.mark.parametrize("seed", range(4))
def test_pairs_along_one_hyperplane_below_others_are_named_among_the_reasons(seed: int) -> None:
    rng = np.random.default_rng([seed, 7])
    W = rng.standard_normal((2, 4))
    layers = [
        (np.vstack([W, -W]), np.concatenate([[0.2, -0.1], [-0.2, 0.1]])),
        (rng.standard_normal((3, 4)), rng.uniform(-0.3, 0.3, 3)),
        (rng.standard_normal((1, 3)), np.zeros(1)),
    ]
    found = identify(DeepNetwork(layers), 4, budget=8000, random_state=seed)
    if "not ReLU" in found.detail or "skip" in found.detail:
        assert "opposite ways" in found.detail or "were not found" in found.detail


def test_far_units_take_no_digits_from_the_level_of_the_answers() -> None:
    """A unit that is on for all typical inputs adds a large constant; the checks show what of it is left over."""
    largest = 0.0
    for seed in range(4):
        rng = np.random.default_rng([seed, 5])
        W, b = rng.standard_normal((4, 5)), rng.standard_normal(4)
        b[0] = rng.uniform(200, 400)
        net = TwoLayerNetwork(W, b, rng.standard_normal((2, 4)), rng.standard_normal(2))
        found = identify(net, random_state=seed)
        X = rng.standard_normal((100, 5))
        assert found.outcome is Outcome.RECOVERED
        largest = max(largest, float(np.abs(found.network(X) - net(X)).max() / np.abs(net(X)).max()))
    assert largest <= 20 * np.finfo(float).eps
