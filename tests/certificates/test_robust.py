"""What a claim under a robust loss needs of the noise: symmetry for every prediction."""

import numpy as np
import pytest

from planted import Outcome, recover, simulate
from planted.certificates._robust import ASYMMETRY, asymmetry_evidence
from planted.checks import Check


def test_symmetric_noise_of_any_spread_passes():
    excess = []
    for seed in range(200):
        rng = np.random.default_rng([seed, 1])
        F = rng.standard_normal((300, 2))
        excess.append(asymmetry_evidence(rng.standard_t(1.5, (300, 2)) * (0.2 + F**2), F).measured)
    assert np.mean(np.array(excess) > 3) < 0.06 and np.mean(np.array(excess) > ASYMMETRY) <= 0.01


@pytest.mark.parametrize("seed", range(8))
def test_labels_that_are_lost_err_where_the_prediction_is_large(seed):
    """Lost labels are balanced over a prediction of both signs: only its product with the residual tells."""
    rng = np.random.default_rng([seed, 2])
    F = rng.standard_normal((500, 1))
    residual = np.where(rng.random(F.shape) < rng.uniform(0.08, 0.2), -F, 0.05 * rng.standard_normal(F.shape))
    assert not asymmetry_evidence(residual, F).passed
    assert asymmetry_evidence(residual, np.ones_like(F)).measured < ASYMMETRY + 1


@pytest.mark.parametrize("seed", range(4))
def test_a_robust_loss_claims_nothing_where_labels_are_lost(seed):
    rng = np.random.default_rng([seed, 3])
    net = simulate.teacher(3, 2, 3, activity=(0.4, 0.6), random_state=seed)
    X = rng.standard_normal((600, 3))
    F = net(X)
    lost = rng.random(F.shape) < 0.12
    noise = np.where(lost, -F, F * 0.12 / 0.88) + 0.1 * F.std() * rng.standard_normal(F.shape)
    answer = recover(X, F + 0.1 * noise, 2, method="half-spaces", loss="cauchy", random_state=0)
    assert answer.outcome is not Outcome.RECOVERED
    (line,) = answer.find(Check.LOSS)
    assert not line.passed
