"""A network with smooth units is not claimed as one of ReLU units; kinks are told from bends where noise allows it."""

import numpy as np
import pytest
from scipy import special

import planted
from planted import Outcome, RowBlocks, TwoLayerNetwork, simulate
from planted.certificates._noisy import certify_noisy
from planted.certificates._smooth_rivals import SoftActivation, smooth_rival_evidence
from planted.checks import Check
from planted.fitting._refine import refine
from planted.fitting._run import prepare_problem

SMOOTH = {
    "tanh": np.tanh,
    "softplus": lambda t: np.logaddexp(0.0, t),
    "gelu": lambda t: t * special.ndtr(t),
    "silu": lambda t: t * special.expit(t),
    "elu": lambda t: np.where(t > 0, t, np.expm1(np.minimum(t, 0.0))),
}


def evidence_at(X, Y, net):
    problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)
    fit = refine(problem.blocks, problem.scaling.standardise(net), offset=True)
    noise = (fit.cost / (Y.size - net.n_parameters)) ** 0.5
    return smooth_rival_evidence(problem, fit.network, offset=True, noise=noise)


@pytest.mark.parametrize("name", SMOOTH)
def test_a_smooth_unit_in_place_of_a_kink_is_seen(name: str) -> None:
    """The ReLU network is the best fit of as many kinks; the noise is a tenth of the outputs."""
    for seed in range(4):
        rng = np.random.default_rng([seed, len(name)])
        d, k, m = 3, int(rng.integers(1, 3)), int(rng.integers(1, 5))
        net = simulate.teacher(d, k, m, activity=(0.4, 0.6), random_state=seed)
        X = rng.standard_normal((600, d))
        F = SMOOTH[name](net.preactivations(X) * rng.uniform(0.8, 1.8)) @ net.A.T
        Y = F + 0.1 * F.std() * rng.standard_normal(F.shape)
        wide, rounded = evidence_at(X, Y, net)
        assert not (wide.passed and rounded.passed), (name, seed)


@pytest.mark.parametrize("activation", ["relu", "leaky-relu:0.2", "absolute"])
def test_kinks_that_are_there_are_believed(activation: str) -> None:
    for seed in range(6):
        rng = np.random.default_rng([seed, 1])
        net = simulate.teacher(
            int(rng.integers(2, 6)), int(rng.integers(1, 4)), 3, activity=(0.3, 0.7), random_state=seed
        )
        net = TwoLayerNetwork(net.W, net.b, net.A, net.c, activation)
        X = rng.standard_normal((800, net.n_features))
        F = net(X)
        wide, rounded = evidence_at(X, F + 0.1 * F.std() * rng.standard_normal(F.shape), net)
        assert wide.passed and rounded.passed, (activation, seed, wide, rounded)


def test_the_certificate_names_bends_that_noise_hides() -> None:
    """Two hundred samples with noise as large as the signal show that something bends, but not how sharply."""
    net = TwoLayerNetwork(np.eye(4)[:1], [0.0], [[1.0], [0.6]])
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 4))
    Y = net(X) + 0.6 * rng.standard_normal((400, 2))
    problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)
    fit = refine(problem.blocks, problem.scaling.standardise(net), offset=False)
    verdict = certify_noisy(problem, fit, offset=False)
    assert verdict.outcome is Outcome.FITTED
    failed = [item.key for item in verdict.evidence if not item.passed]
    assert failed == [Check.HIDDEN_UNITS, Check.UNCERTAIN_SIDES, Check.SMOOTH_BENDS]
    assert "in place of kinks" in verdict.detail


def test_powers_have_no_kink_to_look_for() -> None:
    net = TwoLayerNetwork(np.eye(2), None, np.eye(2), activation="power:2")
    problem = prepare_problem(RowBlocks.from_arrays(np.eye(2), np.eye(2)), random_state=0)
    assert smooth_rival_evidence(problem, net, offset=False, noise=1.0) == ()


@pytest.mark.parametrize("bend", ["softplus", "GELU"])
def test_soft_activations_end_at_the_kinked_one_and_have_its_derivative(bend: str) -> None:
    t, step = np.linspace(-3, 3, 61)[:, None] + 0.01, 1e-6
    for left in (0.0, -0.2, 1.0):
        soft = SoftActivation("relu", 1, 1.0, left, np.array([0.7]), bend)
        slope = (soft(t + step) - soft(t - step)) / (2 * step)
        assert np.allclose(soft.derivative(t), slope, atol=1e-8)
        sharp = SoftActivation("relu", 1, 1.0, left, np.array([1e-4]), bend)
        assert np.allclose(sharp(t), planted.networks.Activation("relu", 1, 1.0, left)(t), atol=1e-12)


@pytest.mark.parametrize("seed", [30, 83, 117, 197])
def test_a_single_kink_that_noise_on_the_inputs_rounds_is_not_claimed(seed: int) -> None:
    """Draws that passed every other test: one output, one unit, noise of 20 to 35 per cent on the inputs."""
    rng = np.random.default_rng([seed, 55])
    d, n = int(rng.integers(1, 4)), int(rng.choice([300, 500, 1500]))
    w = rng.standard_normal((1, d))
    net = TwoLayerNetwork(w / np.linalg.norm(w), [rng.uniform(-0.7, 0.7)], [[rng.normal()]])
    X = rng.standard_normal((n, d))
    Y = net(X) + float(rng.choice([0.01, 0.1])) * rng.standard_normal((n, 1))
    X = X + float(rng.uniform(0.2, 0.35)) * rng.standard_normal(X.shape)
    problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)
    fit = refine(problem.blocks, problem.scaling.standardise(net), offset=False)
    verdict = certify_noisy(problem, fit, offset=False)
    assert verdict.outcome is Outcome.FITTED
    assert Check.SMOOTH_BENDS in [item.key for item in verdict.evidence if not item.passed]


def beside_a_pair(seed: int, curve) -> tuple:
    """A drawn network with a curve of one direction beside it, and the network with two opposite units in its place."""
    rng = np.random.default_rng([seed, 21])
    d, m = int(rng.integers(3, 6)), int(rng.integers(2, 5))
    net = simulate.teacher(d, 2, m, activity=(0.3, 0.7), random_state=seed)
    X = rng.standard_normal((700, d))
    w, a = rng.standard_normal(d), rng.standard_normal(m)
    w, a = w / np.linalg.norm(w), a * np.sqrt(m) / np.linalg.norm(a)
    place, noise = float(rng.uniform(0.5, 0.8)), float(rng.uniform(0.15, 0.3))
    pair = TwoLayerNetwork(
        np.vstack([net.W, w, -w]), np.append(net.b, [-place, -place]), np.column_stack([net.A, a, a]), net.c
    )
    F = net(X) + np.outer(curve(rng, X @ w, place, noise), a)
    return X, F + noise * rng.standard_normal(F.shape), pair


def power_of_one_direction(rng: np.random.Generator, t: np.ndarray, place: float, noise: float) -> np.ndarray:
    return noise * float(rng.uniform(0.3, 0.6)) * np.abs(t) ** rng.uniform(2.0, 3.0)


def two_kinks(rng: np.random.Generator, t: np.ndarray, place: float, noise: float) -> np.ndarray:
    return np.maximum(t - place, 0.0) + np.maximum(-t - place, 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_two_opposite_units_in_place_of_a_power_are_no_kinks(seed: int) -> None:
    """The kinks of the other units are sharp, so that bends of all units together say nothing."""
    wide, _ = evidence_at(*beside_a_pair(seed, power_of_one_direction))
    assert not wide.passed and "kinks of units 3 and 4" in wide.name, wide
    wide, _ = evidence_at(*beside_a_pair(seed, two_kinks))
    assert wide.passed, wide
