"""Units whose weights are lost in the noise along one direction are not claimed; elsewhere first-order errors suffice."""

import numpy as np
import pytest

from planted import Outcome, RowBlocks, TwoLayerNetwork, Uncertainty
from planted.certificates._noisy import certify_noisy
from planted.certificates._parts import with_curvature
from planted.checks import Check
from planted.fitting._refine import refine
from planted.fitting._run import prepare_problem


def judged(X, Y, net):
    """Fit from the truth and judge: what is found is the least-squares network, and only the noise moves it."""
    problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)
    fit = refine(problem.blocks, problem.scaling.standardise(net), offset=True)
    return problem.scaling.restore(fit.network), certify_noisy(problem, fit, offset=True)


def drawn(rng, d, k):
    W = rng.standard_normal((k, d))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    return TwoLayerNetwork(
        W, rng.uniform(-0.8, 0.8, k), rng.uniform(0.5, 2, (3, k)) * rng.choice([-1.0, 1.0], (3, k))
    )


def line(verdict, key):
    (found,) = (item for item in verdict.evidence if item.key is key)
    return found


def test_nearly_collinear_inputs_turn_units_into_noise_and_nothing_is_claimed():
    """The direction that is found has a small error and is a radian off; the error of its size is as large as the size."""
    far_off = 0
    for seed in range(24):
        rng = np.random.default_rng([seed, 61])
        net = drawn(rng, d=2, k=1)
        X = rng.standard_normal((300, 2))
        X[:, 1] = X[:, 0] + 10 ** -rng.uniform(1.5, 2.5) * rng.standard_normal(300)
        F = net(X)
        found, verdict = judged(X, F + 0.2 * F.std() * rng.standard_normal(F.shape), net)
        error = float(np.abs(found.W - net.W).max())
        if error > 0.4:
            far_off += verdict.outcome is Outcome.FITTED
            assert verdict.outcome is not Outcome.RECOVERED, seed
        lines = [item for item in verdict.evidence if item.key in (Check.DIRECTION_ERROR, Check.SIZE_ERROR)]
        if len(lines) == 2 and all(item.passed for item in lines):
            assert error <= 0.4, seed
    assert far_off >= 5


@pytest.mark.parametrize("seed", range(4))
def test_an_input_of_small_spread_without_weight_is_named_in_the_units_of_the_inputs(seed):
    """Weights of unit rows: an input with a thousandth of the spread has a thousand times the error."""
    rng = np.random.default_rng([seed, 62])
    Z, A = rng.standard_normal((500, 2)), rng.uniform(0.5, 2, (2, 1))
    for spread, is_known in ((1.0, True), (1e-4, False)):
        X = Z * [1.0, spread]
        net = TwoLayerNetwork([[1.0, 0.0]], [0.2], A)
        F = net(X)
        _, verdict = judged(
            X, F + 0.1 * F.std() * np.random.default_rng([seed, 63]).standard_normal(F.shape), net
        )
        known = [line(verdict, key).passed for key in (Check.DIRECTION_ERROR, Check.SIZE_ERROR)]
        assert all(known) is is_known


def test_a_weight_found_at_one_has_an_error():
    doubt = Uncertainty({"W": np.array([[0.0, 0.1]]), "b": np.array([0.0]), "A": np.array([[0.001]])}, 1.0)
    errors = with_curvature(doubt, TwoLayerNetwork([[1.0, 0.0]], None, [[2.0]])).standard_errors
    second = np.sqrt(0.75) * 0.01
    np.testing.assert_allclose(errors["W"], [[second, 0.1]])
    np.testing.assert_allclose(errors["A"], [[np.hypot(0.001, 2 * second)]])
    assert errors["b"][0] == 0.0
