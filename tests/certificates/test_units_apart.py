"""Two units whose kinks lie in one gap of the inputs: hardly a sample says which is which."""

from __future__ import annotations

import numpy as np
import pytest

from planted import Outcome, TwoLayerNetwork, recover
from planted.checks import Check


def in_one_gap(seed: int, tilt: float) -> tuple[np.ndarray, np.ndarray, int]:
    """Inputs with a gap, labels of two units that switch in it, and the samples on which one of the two is on."""
    rng = np.random.default_rng(seed)
    d, m, n = int(rng.integers(3, 6)), int(rng.integers(2, 4)), int(rng.integers(250, 500))
    w = rng.standard_normal(d)
    w /= np.linalg.norm(w)
    gap = rng.uniform(0.3, 0.8)
    X = rng.standard_normal((n, d))
    X += np.where(X @ w > 0, gap, -gap)[:, None] * w
    W = w + tilt * rng.standard_normal((2, d))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    net = TwoLayerNetwork(W, rng.uniform(-0.3, 0.3, 2) * gap, rng.standard_normal((m, 2)), np.zeros(m))
    Y = net(X)
    on = net.preactivations(X) > 0
    apart = int((on[:, 0] != on[:, 1]).sum())
    return X, Y + 0.002 * Y.std(axis=0) * rng.standard_normal(Y.shape), apart


@pytest.mark.parametrize("seed", range(8))
def test_units_that_few_samples_tell_apart_are_not_claimed(seed: int) -> None:
    tilt = 0.15
    X, Y, apart = in_one_gap(seed, tilt)
    while apart >= X.shape[1] + 2:
        tilt /= 1.5
        X, Y, apart = in_one_gap(seed, tilt)
    found = recover(X, Y, 2, method="restarts", random_state=100 + seed)
    assert found.outcome is not Outcome.RECOVERED
    lines = found.find(Check.UNITS_APART)
    if lines:  # other lines may refuse before
        assert not lines[0].passed and lines[0].required == X.shape[1] + 2


def test_units_that_differ_on_many_samples_are_claimed() -> None:
    claims = 0
    for seed in range(6):
        X, Y, apart = in_one_gap(seed, 1.0)
        assert apart > 50
        found = recover(X, Y, 2, method="restarts", random_state=100 + seed)
        assert found.find(Check.UNITS_APART)[0].measured == apart
        claims += found.outcome is Outcome.RECOVERED
    assert claims >= 4  # tests at a level refuse some, and in a wide gap a unit may be two that are close


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("has_gap", [False, True])
def test_a_kink_in_a_gap_of_the_inputs_is_not_claimed(seed: int, has_gap: bool) -> None:
    # Within the gap the unit may be three, of weights that sum to its own: no sample says.
    rng = np.random.default_rng([seed, 8])
    d, m, n = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(400, 900))
    W = rng.standard_normal((2, d))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    while abs(W[0] @ W[1]) > 0.7:
        W[1] = rng.standard_normal(d)
        W[1] /= np.linalg.norm(W[1])
    X = rng.standard_normal((n, d))
    if has_gap:
        X += np.where(X @ W[0] > 0, 0.15, -0.15)[:, None] * W[0]
    A = rng.choice([-1.0, 1.0], (m, 2)) * rng.uniform(0.8, 1.5, (m, 2))
    net = TwoLayerNetwork(W, [0.0, 0.2], A, np.zeros(m))
    if has_gap:  # a tent that no sample sees
        tent = TwoLayerNetwork(
            np.repeat(W[:1], 3, axis=0), [0.1, 0.0, -0.1], np.outer(np.ones(m), [1.0, -2.0, 1.0]), np.zeros(m)
        )
        assert np.abs(tent(X)).max() < 1e-12
    Y = net(X)
    Y += 0.01 * Y.std(axis=0) * rng.standard_normal(Y.shape)
    found = recover(X, Y, 2, random_state=100 + seed)
    assert (found.outcome is Outcome.RECOVERED) != has_gap
    assert found.find(Check.GAP)[0].passed != has_gap
