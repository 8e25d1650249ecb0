"""Curved units in noise: faults of labels and rows, and models beside the network, are held against a claim."""

import numpy as np
import pytest

from planted import Outcome, RowBlocks, simulate
from planted.certificates._curved import certify_curved_noisily
from planted.checks import Check
from planted.fitting._refine import refine
from planted.fitting._run import prepare_problem

FAULTS = {
    "cut": Check.CUT_LABELS,
    "copies": Check.COPIED_ROWS,
    "jump": Check.JUMP,
    "drift": Check.JUMP,
    "bent": Check.NEAR_MODELS,
    "one-sided": Check.ONE_SIDED,
}


def verdict_on(seed: int, fault: str, activation: str = "tanh"):
    rng = np.random.default_rng([seed, 11])
    net = simulate.teacher(3, 2, 2, activation=activation, random_state=seed)
    X = rng.standard_normal((1200, 3))
    F, place = net(X), np.linspace(0.0, 1.0, len(X))[:, None]
    size = F.std(axis=0)
    Y = F + 0.1 * size * rng.standard_normal(F.shape)
    Y = {
        "cut": lambda: np.minimum(Y, np.quantile(Y, 0.85, axis=0)),
        "copies": lambda: np.repeat(Y[:400], 3, axis=0),
        "jump": lambda: Y + 0.1 * size * (place > 0.92),
        "drift": lambda: Y + 0.06 * size * place,
        "bent": lambda: Y + 0.01 * (F - F.mean(axis=0)) ** 2 / size,
        "one-sided": lambda: Y + 0.8 * size * (rng.random(F.shape) < 0.04),
        "": lambda: Y,
    }[fault]()
    X = np.repeat(X[:400], 3, axis=0) if fault == "copies" else X
    problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=0)
    fit = refine(problem.blocks, problem.scaling.standardise(net), offset=True)
    return certify_curved_noisily(problem, fit, offset=True, weights=None, further=())


@pytest.mark.parametrize("activation", ["tanh", "softplus"])
def test_right_networks_are_claimed(activation: str) -> None:
    claimed = [verdict_on(seed, "", activation).outcome is Outcome.RECOVERED for seed in range(12)]
    assert sum(claimed) >= 10


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_held_against_a_claim(fault: str) -> None:
    verdicts = [verdict_on(seed, fault) for seed in range(4)]
    assert all(verdict.outcome is not Outcome.RECOVERED for verdict in verdicts)
    failed = [line.key for verdict in verdicts for line in verdict.evidence if not line.passed]
    assert failed.count(FAULTS[fault]) >= 2, failed  # a cheaper test may speak first
