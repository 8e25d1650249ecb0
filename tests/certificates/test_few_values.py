"""Inputs of few values without noise: a network may leave nothing, and then no noise measures it."""

import numpy as np
import pytest

import planted
from planted.certificates._exact import certify_noiseless
from planted.certificates.noise._covariance import _excess_kurtosis
from planted.fitting._refine import refine
from planted.fitting._run import prepare_problem


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("method", ["auto", "half-spaces"])
def test_nothing_left_is_no_fault_and_no_claim(method: str, seed: int) -> None:
    """Three values of one input: each output is given by three numbers, and no kink by any."""
    rng = np.random.default_rng([seed, 77])
    X = rng.integers(0, 3, (int(rng.integers(60, 400)), 1)).astype(float)
    Y = np.maximum(X - rng.uniform(1.1, 1.9), 0) * rng.uniform(0.3, 3, (1, int(rng.integers(1, 4))))
    answer = planted.recover(X, Y, method=method, random_state=seed, budget_seconds=5)
    assert answer.outcome is not planted.Outcome.RECOVERED
    assert answer.detail


def test_where_every_sample_lies_on_a_kink_nothing_is_claimed() -> None:
    """Corners of a square that the kinks of two units go through: none is evidence, and none is an error."""
    X = np.tile([[-1.0, -1.0], [1.0, 1.0], [-1.0, 1.0], [1.0, -1.0]], (10, 1))
    net = planted.TwoLayerNetwork([[1.0, 1.0], [1.0, -1.0]], [0.0, 0.0], np.eye(2))
    problem = prepare_problem(planted.RowBlocks.from_arrays(X, net(X)), random_state=0)
    fit = refine(problem.blocks, problem.scaling.standardise(net), max_iter=0)
    verdict = certify_noiseless(problem, fit, offset=True)
    assert verdict.outcome is planted.Outcome.NOT_IDENTIFIABLE
    assert "Every sample lies on the kink" in verdict.detail


def test_outputs_without_spread_have_no_kurtosis() -> None:
    heavy = np.random.default_rng(0).standard_t(3, 200)
    alone = _excess_kurtosis(heavy[:, None])
    assert alone > 0
    assert _excess_kurtosis(np.column_stack([heavy, np.zeros(200)])) == pytest.approx(
        alone
    )  # another order of sums
    assert _excess_kurtosis(np.zeros((50, 2))) == 0.0
