"""Lines and wide networks: ridge regressions on half-spaces as they were drawn."""

from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import planted
from planted.checks import Check
from planted.methods.small_network import FAR_WORSE, LEAST_RIDGE, WIDE, _best, _Choice, _line, _mixed
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
    misses = units.held_out(X, Y, inside)
    for place in (0, 6, len(RIDGES) - 1):
        rival = Ridge(RIDGES[place] * inside.sum()).fit(units.columns(X[inside]), Y[inside])
        expected = Y[~inside] - rival.predict(units.columns(X[~inside]))
        np.testing.assert_allclose(misses[place], expected, rtol=1e-8, atol=1e-10)
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


def test_a_wide_network_stands_beside_the_small_one_unless_it_is_far_worse():
    missed = np.random.default_rng(5).standard_normal((2, WIDE, 1))
    small, wide = _Choice(3, 0.1, missed[0]), _Choice(150, 0.1, missed[1], is_refined=False)
    both = _best([small, wide], WIDE)
    assert (both.width, both.ridge, both.beside is wide) == (3, 0.1, True)
    assert both.error == pytest.approx(((missed[0] + missed[1]) ** 2).mean() / 4)
    few = _best([small, wide], WIDE // 3)  # fewer rows than half-spaces
    assert few.error == pytest.approx(((5 * missed[0] + missed[1]) ** 2).mean() / 36)
    worse = _Choice(150, 0.1, 1.7 * missed[1], is_refined=False)
    assert worse.error > FAR_WORSE * small.error
    assert _best([small, worse], WIDE) is small
    assert _best([small], WIDE) is small


def test_the_mixed_a_small_and_a_wide_network_predicts_better_than_either():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((300, 3))
    answer = quick(X, np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.3 * rng.standard_normal(300))
    assert answer.outcome is planted.Outcome.FITTED
    assert "150 random half-spaces" in answer.detail and answer.network.n_hidden > 150
    assert answer.held_out_mse < 0.95 * min(row["score"] for row in answer.trace)


def test_the_mixed_two_networks():
    X, Y = rows()
    first, second = (HalfSpaces.drawn(X, k, np.random.default_rng(k)) for k in (4, 9))
    blocks = RowBlocks.from_arrays(X, Y)
    for shape in (line, partial(_line, affine=True, most=2)):
        one, other = first.fitted(blocks, 0.01, shape), second.fitted(blocks, 0.1, shape)
        np.testing.assert_allclose(
            _mixed(one, other, 0.25)(X), 0.75 * one(X) + 0.25 * other(X), rtol=1e-12, atol=1e-12
        )


def test_a_wide_network_does_not_go_through_few_rows():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((30, 4))
    y = X[:, 0] + 0.1 * rng.standard_normal(30)
    answer = quick(X, y)
    wide = [row for row in answer.trace if row["k"] == WIDE]
    assert len(wide) == 1 and wide[0]["ridge"] >= LEAST_RIDGE
    fresh = 3 * rng.standard_normal((200, 4))
    assert ((answer.network(fresh)[:, 0] - fresh[:, 0]) ** 2).mean() < 0.2
