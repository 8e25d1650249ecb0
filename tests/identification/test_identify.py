"""Identification by queries as a theorem: exact on ReLU networks, equivariant, refusing what is none, frugal."""

from __future__ import annotations

import numpy as np
import pytest

import planted
from planted import Outcome, TwoLayerNetwork, identify, parameter_error, simulate
from planted.checks import Check

# Rounding of double precision, 1e-16, over steps of about a tenth of the inputs' size, and over output weights down to
# a hundredth: 1e-12 would be typical, the weakest of many units costs two digits more.
EXACT = 1e-10
MOST_QUESTIONS = 20  # times the number of parameters


def secret(d: int, k: int, m: int = 1, *, seed: int = 0) -> TwoLayerNetwork:
    return simulate.teacher(d, k, m, bias=(-0.5, 0.5), random_state=seed)


@pytest.mark.parametrize(
    ("d", "k", "m"),
    [(10, 5, 1), (20, 10, 1), (30, 30, 1), (20, 10, 5), (16, 8, 10), (1, 3, 1), (2, 4, 1), (12, 20, 1)],
)
def test_population_exact_with_few_questions(d: int, k: int, m: int) -> None:
    truth = secret(d, k, m, seed=d + k)
    found = identify(truth, d, random_state=1)
    assert found.outcome is Outcome.RECOVERED
    assert found.network is not None and found.network.n_hidden == k
    assert parameter_error(found.network, truth) <= EXACT
    if d > 2:  # the fixed cost of calibration and checks exceeds 20 times a dozen parameters
        assert found.stats["queries"] <= MOST_QUESTIONS * truth.n_parameters


def test_zero_biases_and_large_biases() -> None:
    for bias in ((0.0, 0.0), (-30.0, 30.0)):
        truth = simulate.teacher(8, 5, 1, bias=bias, random_state=2)
        found = identify(truth, 8, random_state=3)
        assert found.outcome is Outcome.RECOVERED and found.network is not None
        assert parameter_error(found.network, truth) <= EXACT * 30  # offsets are up to thirty times larger


def test_symmetry_under_scales_rotations_and_offsets() -> None:
    truth = secret(8, 4, 2)
    rotation = np.linalg.qr(np.random.default_rng(7).standard_normal((8, 8)))[0]
    turned = TwoLayerNetwork(truth.W @ rotation, truth.b, 1e6 * truth.A, truth.c + 5.0)
    one, other = identify(truth, 8, random_state=1), identify(turned, 8, random_state=1)
    assert one.network is not None and other.network is not None
    back = TwoLayerNetwork(
        other.network.W @ rotation.T, other.network.b, other.network.A / 1e6, (other.network.c - 5.0) / 1e6
    )
    assert parameter_error(back, one.network) <= EXACT


def test_inputs_of_another_size() -> None:
    truth = TwoLayerNetwork(secret(6, 4).W / 1e4, secret(6, 4).b, secret(6, 4).A)
    found = identify(truth, 6, scale=1e4, random_state=0)
    assert found.outcome is Outcome.RECOVERED and found.network is not None
    assert found.network.is_equivalent(truth)


def test_same_seed_same_questions_same_bits() -> None:
    truth = secret(8, 4)
    asked: list[list[bytes]] = [[], []]
    results = []
    for record in asked:

        def oracle(X: np.ndarray, record: list[bytes] = record) -> np.ndarray:
            record.append(X.tobytes())
            return truth(X)

        results.append(identify(oracle, 8, random_state=5).network)
    assert asked[0] == asked[1]
    assert results[0] is not None and results[1] is not None
    assert (
        results[0].W.tobytes() == results[1].W.tobytes() and results[0].A.tobytes() == results[1].A.tobytes()
    )


def test_dead_and_duplicate_units_are_found_as_what_they_do() -> None:
    base = secret(8, 4)
    truth = TwoLayerNetwork(
        W=np.vstack([base.W, 2 * base.W[:1], -base.W[1:2], np.zeros((2, 8)), base.W[2:3]]),
        b=np.concatenate([base.b, 2 * base.b[:1], -base.b[1:2], [1.0, -1.0], base.b[2:3]]),
        A=np.hstack([base.A, [[0.3, 0.7, 2.0, 5.0, 0.0]]]),
    )
    found = identify(truth, 8, random_state=0)
    assert found.outcome is Outcome.RECOVERED and found.network is not None
    assert found.network.n_hidden == 5  # four hyperplanes, one of them with units on both sides
    assert found.network.is_equivalent(truth)
    (two_sided,) = found.find(Check.DOUBLED_UNITS)
    assert two_sided.measured == 1


def test_close_hyperplanes_are_told_apart() -> None:
    base = secret(10, 4)
    nudge = 1e-4 * np.random.default_rng(3).standard_normal(10)
    truth = TwoLayerNetwork(
        np.vstack([base.W, base.W[0] + nudge]), np.append(base.b, base.b[0]), np.hstack([base.A, [[1.0]]])
    )
    found = identify(truth, 10, random_state=0)
    assert found.outcome is Outcome.RECOVERED and found.network is not None
    # Steps between two planes 1e-4 apart lose four digits against those of other units.
    assert parameter_error(found.network, truth) <= 1e-8


def test_within_a_box() -> None:
    truth = secret(6, 4)
    low, high = np.full(6, -2.0), np.full(6, 3.0)
    seen: list[np.ndarray] = []

    def oracle(X: np.ndarray) -> np.ndarray:
        seen.append(X)
        return truth(X)

    found = identify(oracle, 6, box=(low, high), random_state=0)
    rows = np.concatenate(seen)
    assert (rows >= low).all() and (rows <= high).all()
    assert found.outcome is Outcome.RECOVERED and found.network is not None
    assert parameter_error(found.network, truth) <= EXACT


def test_a_unit_outside_the_box_is_not_claimed() -> None:
    base = secret(4, 3)
    truth = TwoLayerNetwork(
        np.vstack([base.W, [[1.0, 0, 0, 0]]]), np.append(base.b, 50.0), np.hstack([base.A, [[2.0]]])
    )
    found = identify(truth, 4, box=(-1.0, 1.0), random_state=0)
    assert found.outcome is Outcome.FITTED and found.network is not None
    rows = np.random.default_rng(1).uniform(-1, 1, (200, 4))
    np.testing.assert_allclose(found.network(rows), truth(rows), atol=1e-9)


def test_single_precision_with_its_bound() -> None:
    truth = secret(20, 10, 3)
    weights = [getattr(truth, name).astype(np.float32) for name in "WbAc"]

    def oracle(X: np.ndarray) -> np.ndarray:
        W, b, A, c = weights
        return np.maximum(X.astype(np.float32) @ W.T + b, 0) @ A.T + c

    found = identify(oracle, 20, random_state=0)
    assert found.outcome is Outcome.RECOVERED and found.network is not None
    error = parameter_error(found.network, truth)
    (bound,) = found.find(Check.ERROR_BOUND)
    assert error <= 1e-4 and error <= bound.measured <= 0.1


@pytest.mark.parametrize(
    ("name", "reason", "most"),
    [
        ("three layers", "more than two layers", 10_000),
        ("tanh", "bends between breakpoints", 100),
        ("squared", "bends between breakpoints", 100),
        ("steps", "jumps", 2_000),
    ],
)
def test_refusals_name_the_reason_within_bounded_questions(name: str, reason: str, most: int) -> None:
    net = secret(10, 6, 8)
    last = secret(8, 6)
    oracles = {
        "three layers": lambda X: last(np.maximum(net(X), 0)),
        "tanh": lambda X: np.tanh(net.preactivations(X)) @ net.A.T,
        "squared": TwoLayerNetwork(net.W, net.b, net.A, activation="power:2"),
        "steps": lambda X: np.sign(net.preactivations(X)) @ net.A.T,
    }
    depth = 1 if name == "three layers" else "auto"
    found = identify(oracles[name], 10, depth=depth, random_state=0)
    assert found.outcome is Outcome.ASSUMPTION_FAILED and found.network is None
    assert reason in found.detail
    assert found.stats["queries"] <= most


SHAPES = [(10, 6, 8), (5, 3, 1), (4, 4, 2), (8, 1, 1)]


@pytest.mark.parametrize(("d", "k", "m"), SHAPES)
def test_a_connection_that_skips_the_hidden_layer_is_read(d: int, k: int, m: int) -> None:
    rng, net = np.random.default_rng([31, d, k]), secret(d, k, m)
    truth = TwoLayerNetwork(net.W, net.b, net.A, net.c, B=rng.standard_normal((m, d)))
    found = identify(lambda X: truth(X), d, random_state=k)
    assert found.outcome is Outcome.RECOVERED and found.network is not None
    assert parameter_error(found.network, truth) <= 1e-10
    (part,) = found.find(Check.LINEAR_PART)
    assert part.measured > 0 and "skips the hidden layer" in found.detail


@pytest.mark.parametrize("slope", [0.01, 0.1, 0.5, -0.3, 0.123456789012, -1.0])
@pytest.mark.parametrize(("d", "k", "m"), SHAPES[:3])
def test_leaky_units_and_absolute_values_are_read(d: int, k: int, m: int, slope: float) -> None:
    net = secret(d, k, m)
    name = "absolute" if slope == -1 else f"leaky-relu:{slope!r}"
    truth = TwoLayerNetwork(net.W, net.b, net.A, net.c, activation=name)
    found = identify(lambda X: truth(X), d, random_state=k)
    assert found.outcome is Outcome.RECOVERED and found.network is not None
    kind = found.network.activation
    assert abs(-kind.left - slope) <= 1e-10 and found.network.n_hidden == k
    same = TwoLayerNetwork(net.W, net.b, net.A, net.c, activation=kind)
    assert parameter_error(found.network, same) <= 1e-10
    (leak,) = found.find(Check.LEAK)
    assert leak.measured == pytest.approx(slope, abs=1e-9)


def test_a_slope_of_its_own_for_every_unit() -> None:
    net = secret(6, 4, 1)
    slopes = np.array([0.1, 0.2, 0.3, 0.4])
    A = net.A * slopes
    truth = TwoLayerNetwork(net.W, net.b, net.A - A, net.c + A @ net.b, B=A @ net.W)

    def prelu(X: np.ndarray) -> np.ndarray:
        t = net.preactivations(X)
        return np.where(t > 0, t, slopes * t) @ net.A.T + net.c

    found = identify(prelu, 6, random_state=1)
    assert found.outcome is Outcome.RECOVERED and found.network is not None
    assert found.network.is_equivalent(truth, tol=1e-10)
    (spread,) = found.find(Check.LEAK_SPREAD)
    assert spread.measured == pytest.approx(0.3, abs=1e-9)


def test_linear_and_constant_functions() -> None:
    slope = np.arange(1.0, 6.0)[:, None]
    linear = identify(lambda X: X @ slope, 5, random_state=0)
    assert linear.outcome is Outcome.NOT_IDENTIFIABLE and linear.network is not None
    rows = np.random.default_rng(2).standard_normal((50, 5))
    np.testing.assert_allclose(linear.network(rows), rows @ slope, atol=1e-12)
    constant = identify(lambda X: np.full((len(X), 1), 2.5), 5, random_state=0)
    assert constant.network is not None and constant.network.n_hidden == 0
    np.testing.assert_allclose(constant.network.c, [2.5])


def test_units_too_close_are_never_a_confident_wrong_network() -> None:
    base = secret(8, 4)
    truth = TwoLayerNetwork(
        np.vstack([base.W, base.W[0] + 1e-9]),
        np.append(base.b, base.b[0] + 1e-9),
        np.hstack([base.A, [[-1.0]]]),
    )
    found = identify(truth, 8, random_state=0)
    if found.outcome is Outcome.RECOVERED:
        assert found.network is not None and found.network.is_equivalent(truth, tol=1e-6)
    else:
        assert found.network is None or found.outcome is Outcome.FITTED


def test_noisy_answers_go_to_the_sample_methods() -> None:
    truth = simulate.teacher(6, 3, 4, activity=(0.3, 0.7), random_state=4)
    noise = np.random.default_rng(11)
    level = 0.01
    found = identify(
        lambda X: truth(X) + level * noise.standard_normal((len(X), 4)),
        6,
        repeats=4,
        budget=16_000,
        random_state=0,
    )
    assert found.stats["queries"] == 16_000
    assert found.outcome is Outcome.RECOVERED and found.network is not None
    assert isinstance(found.uncertainty, planted.Uncertainty)
    error = parameter_error(found.network, truth)
    worst = max(float(errors.max()) for errors in found.uncertainty.standard_errors.values())
    assert error <= 5 * worst  # five standard errors of the least certain of some forty parameters


@pytest.mark.parametrize("d", [2, 3, 4])
def test_pairs_of_units_do_not_explain_what_lies_outside_the_box(d: int) -> None:
    """As many units as inputs, and one that is on in the whole box: pairs of the others could make its linear part."""
    rng = np.random.default_rng([d, 9])
    W = rng.standard_normal((d + 1, d))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    b = np.append(rng.uniform(-0.6, 0.6, d), 3 * np.abs(W[-1]).sum())
    truth = TwoLayerNetwork(W, b, np.append(rng.choice([-1.0, 1.0], d) * rng.uniform(0.5, 1.5, d), 1.0)[None])
    found = planted.identify(truth, d, box=(-np.ones(d), np.ones(d)), random_state=d)
    assert found.outcome is Outcome.FITTED
