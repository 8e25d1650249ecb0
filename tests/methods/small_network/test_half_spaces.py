"""Lines and wide networks: ridge regressions on half-spaces as they were drawn."""

from functools import partial

import numpy as np
from sklearn.linear_model import Ridge

import planted
from planted.checks import Check
from planted.methods.small_network import _best, _Choice, _line
from planted.methods.small_network._half_spaces import RIDGES, HalfSpaces
from planted.rows import RowBlocks

line = partial(_line, affine=False, most=2)
quick = partial(planted.recover, method="small-network", effort="quick", random_state=0)


def rows(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, np.column_stack([np.abs(X[:, 0]), X[:, 1] * X[:, 2]]) + 0.1 * rng.standard_normal((n, 2))


def test_a_unit_rises_from_its_start_and_stops_at_the_outermost_row():
    units = HalfSpaces(np.array([[2.0]]), np.array([1.0]), np.array([5.0]))
    np.testing.assert_array_equal(
        units.columns(np.array([[0.0], [1.0], [2.5], [9.0]])), [[0, 0], [1, 1], [2.5, 4], [9, 4]]
    )
    drawn = HalfSpaces.drawn(rows()[0], 20, np.random.default_rng(1))
    np.testing.assert_allclose(drawn.ends, (rows()[0] @ drawn.directions.T).max(axis=0))


def test_the_regression_is_that_of_scikit_learn_and_the_network_says_the_same():
    X, Y = rows()
    units, inside = HalfSpaces.drawn(X, 10, np.random.default_rng(1)), np.arange(len(X)) % 3 > 0
    errors = units.held_out(X, Y, inside)
    for place in (0, 6, len(RIDGES) - 1):
        rival = Ridge(RIDGES[place] * inside.sum()).fit(units.columns(X[inside]), Y[inside])
        missed = Y[~inside] - rival.predict(units.columns(X[~inside]))
        np.testing.assert_allclose(errors[place], (missed**2).mean(), rtol=1e-8)
    network = units.fitted(RowBlocks.from_arrays(X, Y), 0.01, line)
    rival = Ridge(0.01 * len(X)).fit(units.columns(X), Y)
    fresh = 3 * rows(seed=5)[0]  # beyond the rows too
    np.testing.assert_allclose(network(fresh), rival.predict(units.columns(fresh)), rtol=1e-8, atol=1e-10)


def test_a_line_of_many_inputs_is_as_good_as_ridge_regression():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 20))
    truth = rng.standard_normal(20)
    answer = quick(X, X @ truth + 0.02 * rng.standard_normal(60))
    assert answer.find(Check.WIDTH)[0].measured == 0
    fresh = rng.standard_normal((500, 20))
    # 21 parameters from 60 rows: 0.02² · 21 / (60 - 22) in the mean; a ridge of 1e-2 would leave about 1e-4 of 20.
    assert ((answer.network(fresh)[:, 0] - fresh @ truth) ** 2).mean() < 4 * 0.02**2 * 21 / 38


def test_a_wide_network_is_the_answer_only_where_it_is_clearly_better():
    small, wide = _Choice(3, 0.1, 1.0), _Choice(150, 0.1, 0.96, is_refined=False)
    assert _best([small, wide], 100) is small
    better = _Choice(150, 0.1, 0.94, is_refined=False)
    assert _best([small, better], 100) is better
    rng = np.random.default_rng(4)
    X = rng.standard_normal((500, 3))
    y = np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1])  # far more bends than a small network has
    answer = quick(X, y)
    assert answer.find(Check.WIDTH)[0].measured == 150
    assert answer.outcome is planted.Outcome.FITTED
    assert answer.held_out_mse < 0.95 * min(row["score"] for row in answer.trace if row["k"] < 150)
