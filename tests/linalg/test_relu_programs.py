"""Mixed-integer programs for ReLU units: what they find is a unit, and what they refuse has none."""

import numpy as np
import pytest

from planted.linalg import ProgramStatus
from planted.linalg.relu_programs import fit_units_exactly, unit_in_subspace

TOL = 1e-5  # HiGHS stops at 1e-7 in its own scaling; bounds of some tens multiply it


def relu(t):
    return np.maximum(t, 0.0)


def rows(n, d, seed):
    return np.column_stack([np.random.default_rng(seed).standard_normal((n, d - 1)), np.ones(n)])


@pytest.mark.parametrize("n_units", [1, 2, 3])
def test_units_that_are_found_take_the_values(n_units):
    X = rows(7, 3, seed=n_units)
    V = np.random.default_rng(50 + n_units).standard_normal((n_units, 3))
    y = relu(X @ V.T).sum(axis=1)
    found = fit_units_exactly(X, y, n_units)
    assert found.status is ProgramStatus.OPTIMAL
    units = found.x[: n_units * 3].reshape(n_units, 3)
    np.testing.assert_allclose(relu(X @ units.T).sum(axis=1), y, atol=TOL)


def test_values_that_no_such_network_takes_are_infeasible():
    X = rows(7, 3, seed=9)
    y = relu(X @ [1.0, -0.5, 0.2])
    assert fit_units_exactly(X, y, 1).status is ProgramStatus.OPTIMAL
    negative = y.copy()
    negative[0] = -1.0  # output weights are one: no sum of units is negative
    assert fit_units_exactly(X, negative, 2).status is ProgramStatus.INFEASIBLE
    bent = np.array([0.0, 1.0, 0.0, 1.0, 0.0])  # three kinks on a line at least
    line = np.column_stack([np.arange(5.0), np.ones(5)])
    assert fit_units_exactly(line, bent).status is ProgramStatus.INFEASIBLE  # two units if not said otherwise
    assert fit_units_exactly(line, bent, 2).status is ProgramStatus.INFEASIBLE
    two = np.abs(np.arange(5.0) - 2)
    assert fit_units_exactly(line, two).status is ProgramStatus.OPTIMAL
    kinks = relu(np.arange(5.0) - 1) + relu(np.arange(5.0) - 3) + relu(1 - np.arange(5.0))
    assert fit_units_exactly(line, kinks).status is ProgramStatus.INFEASIBLE
    assert fit_units_exactly(line, kinks, 3).status is ProgramStatus.OPTIMAL


def test_the_bound_limits_the_pre_activations():
    X, y = np.array([[1.0], [-1.0]]), np.array([30.0, 0.0])
    assert fit_units_exactly(X, y, 1, bound=31.0).status is ProgramStatus.OPTIMAL
    assert fit_units_exactly(X, y, 1, bound=29.0).status is ProgramStatus.INFEASIBLE


def test_a_unit_in_a_subspace_is_found_and_another_one_than_the_known():
    X = rows(18, 3, seed=1)
    V = np.random.default_rng(7).standard_normal((2, 3))
    Q = np.linalg.qr(relu(X @ V.T))[0] * np.sqrt(len(X))
    known = np.linalg.lstsq(Q, relu(X @ V[0]), rcond=None)[0]
    functional = np.array([-known[1], known[0]]) / (known @ known)
    found = unit_in_subspace(X, Q, functional)
    assert found.status is ProgramStatus.OPTIMAL
    v, w = found.x[:3], found.x[3:5]
    np.testing.assert_allclose(relu(X @ v), Q @ w, atol=TOL)
    assert functional @ w == pytest.approx(1.0, abs=TOL)
    # It is the second unit up to scale.
    h = relu(X @ V[1])
    np.testing.assert_allclose(Q @ w / np.linalg.norm(Q @ w), h / np.linalg.norm(h), atol=TOL)


def test_a_subspace_without_units_is_infeasible_and_the_bound_counts():
    X = rows(18, 3, seed=2)
    Q = np.linalg.qr(np.random.default_rng(3).standard_normal((18, 2)))[0] * np.sqrt(18)
    assert unit_in_subspace(X, Q, np.array([1.0, 0.0])).status is ProgramStatus.INFEASIBLE
    h = relu(X @ [1.0, 0.5, 0.1])[:, None]
    assert unit_in_subspace(X, h, np.array([1.0])).status is ProgramStatus.OPTIMAL
    small = 0.1 * h.max()
    assert unit_in_subspace(X, h, np.array([1.0]), bound=small).status is ProgramStatus.INFEASIBLE


@pytest.mark.parametrize("solve", [fit_units_exactly, unit_in_subspace])
def test_the_time_limit_reaches_the_solver(solve, monkeypatch):
    from planted.linalg import relu_programs

    asked = []
    monkeypatch.setattr(
        relu_programs, "solve_program", lambda program, *, time_limit: asked.append(time_limit)
    )
    X = rows(4, 2, seed=0)
    arguments = (X, X[:, 0]) if solve is fit_units_exactly else (X, X, np.ones(2))
    solve(*arguments)
    solve(*arguments, time_limit=3.5)
    assert asked == [60.0 if solve is fit_units_exactly else 10.0, 3.5]
