"""Units and bends that noise could have made: the rise without them against explicit fits, and with weights."""

import numpy as np
import pytest

import planted
from planted import RowBlocks, simulate
from planted.certificates._unit_count import bend_evidence, needless_unit_evidence
from planted.fitting._refine import refine
from planted.fitting._run import prepare_problem


def fitted(data: simulate.Dataset, k: int):
    problem = prepare_problem(RowBlocks.from_arrays(data.X, data.Y), random_state=0)
    found = planted.recover(data.X, data.Y, k, method="complementarity", random_state=1).network
    start = problem.scaling.standardise(found)
    return problem, refine(problem.blocks, start, offset=False)


@pytest.fixture(scope="module")
def noisy():
    data = simulate.dataset(
        400, n_features=3, n_hidden=2, n_outputs=3, noise=0.2, activity=(0.3, 0.7), random_state=3
    )
    return fitted(data, 2)


def squares(G: np.ndarray, Y: np.ndarray) -> float:
    return float(((Y - G @ np.linalg.lstsq(G, Y, rcond=None)[0]) ** 2).sum())


def test_a_bend_is_what_a_regression_loses_without_it(noisy):
    problem, fit = noisy
    H = np.maximum(fit.network.preactivations(problem.X), 0)
    affine = np.column_stack([problem.X, np.ones(len(H))])
    whole = squares(np.hstack([H, affine]), problem.Y)
    lost = [squares(np.hstack([np.delete(H, j, axis=1), affine]), problem.Y) - whole for j in range(2)]
    line = bend_evidence(problem, fit.network, noise=0.5)
    assert line.measured == pytest.approx(min(lost) / 0.25, rel=1e-8)
    assert f"unit {int(np.argmin(lost)) + 1} " in line.name
    assert line.passed


def test_weights_count_rows(noisy):
    problem, fit = noisy
    line = bend_evidence(problem, fit.network, noise=0.5, weights=lambda first, X, Y: np.full(len(X), 2.0))
    same = bend_evidence(problem, fit.network, noise=0.5)
    assert line.measured == pytest.approx(2 * same.measured, rel=1e-8)


@pytest.mark.parametrize("offset", [False, True])
def test_without_its_only_unit_the_outputs_are_left(offset):
    data = simulate.dataset(
        300, n_features=3, n_hidden=1, n_outputs=2, noise=0.2, activity=(0.3, 0.7), random_state=4
    )
    problem, fit = fitted(data, 1)
    line = needless_unit_evidence(problem, fit, np.ones(1), offset=offset, noise=0.5)
    left = ((problem.Y - problem.Y.mean(axis=0) * offset) ** 2).sum()
    assert line.measured == pytest.approx((left - fit.cost) / 0.25)


@pytest.mark.parametrize("seed", range(3))
def test_a_table_that_is_nearly_linear_is_not_a_unit(seed):
    """A unit that is on for nearly all samples fits a line; nothing shows that it bends."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 3))
    y = X @ [1.0, 0.5, -0.5] + 0.3 * rng.standard_normal(200)
    recovery = planted.recover(X, y, 1, method="restarts", random_state=1)
    assert recovery.outcome is not planted.Outcome.RECOVERED
