"""Kinks along single columns of several inputs: their number, columns, places, and what is none of them."""

from __future__ import annotations

import numpy as np
import pytest

import planted
from planted import Outcome
from planted.checks import Check
from planted.fitting.segments._axes import find_axis_kinks, hyperplane_p_values

LEVEL_OF_RIGHT = 0.75  # of the numbers below; 95 % are measured (benchmarks/kinks.py)


def samples(kinks, seed: int, n: int = 160, d: int = 3, noise: float = 0.05):
    rng = np.random.default_rng([seed, n, d])
    X = rng.random((n, d))
    y = X @ rng.standard_normal(d) + sum(a * np.maximum(X[:, j] - place, 0) for j, place, a in kinks)
    return X, y + noise * rng.standard_normal(n)


@pytest.mark.parametrize(
    "kinks",
    [
        [(0, 0.5, 1.0)],
        [(0, 0.4, 1.0), (2, 0.6, -1.0)],
        [(1, 0.33, 1.0), (1, 0.66, -1.0)],
        [(0, 0.3, 1.0), (0, 0.7, -1.0), (1, 0.5, 1.0)],
    ],
    ids=lambda kinks: "-".join(f"{j}at{place}" for j, place, _ in kinks),
)
def test_columns_and_places(kinks) -> None:
    right = []
    for seed in range(4):
        found = find_axis_kinks(*samples(kinks, seed), np.random.default_rng(100 + seed))
        is_right = found is not None and sorted(found.inputs) == [j for j, _, _ in kinks]
        right.append(is_right)
        if is_right:
            for kink, (_, place, change) in zip(found.kinks, kinks, strict=True):
                assert abs(kink.place - place) < 0.1
                assert abs(kink.change - change) < 6 * kink.change_error
                assert kink.low < kink.place < kink.high and kink.p_value < 0.05
            assert found.oblique_p_value > 0.001
    assert np.mean(right) >= LEVEL_OF_RIGHT


def test_a_plane_has_no_kink() -> None:
    found = [find_axis_kinks(*samples([], seed), np.random.default_rng(seed + 50)) for seed in range(20)]
    assert sum(bool(axes.kinks) for axes in found) <= 4  # 5 % of twenty, and three standard errors
    X, y = samples([], 3)
    answer = planted.recover(X, y, random_state=0)
    assert answer.network.n_hidden == 0 and "No kink" in answer.detail
    slopes = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), y, rcond=None)[0]
    np.testing.assert_allclose([*answer.network.B[0], *answer.network.c], slopes, rtol=1e-9)


def test_a_kink_across_columns_is_noticed() -> None:
    noticed = []
    for seed in range(2):
        X, y = samples([], seed, n=300)
        y = y + 3 * np.maximum(X.sum(axis=1) - 1.5, 0)
        found = find_axis_kinks(X, y, np.random.default_rng(seed))
        noticed.append(found.oblique_p_value < 0.01)
    assert all(noticed)


def test_order_and_errors_belong_together() -> None:
    found = find_axis_kinks(*samples([(0, 0.4, 1.0), (2, 0.6, -1.0)], 0), np.random.default_rng(0))
    turned = found.in_order(np.array([1, 0]))
    errors = np.sqrt(np.diag(turned.covariance))
    assert turned.inputs.tolist() == [2, 0]
    assert [kink.change for kink in turned.kinks] == turned.weights[-2:].tolist()
    assert [kink.change_error for kink in turned.kinks] == pytest.approx(errors[4:6].tolist())


@pytest.fixture(scope="module")
def trial():
    rng = np.random.default_rng([3, 5])
    age, dose, weight = rng.uniform(20, 80, 200), rng.uniform(0, 10, 200), rng.normal(70, 10, 200)
    y = 0.02 * age + 1.5 * np.maximum(dose - 6, 0) + 0.4 * rng.standard_normal(200)
    return np.column_stack([age, dose, weight]), y


def test_the_answer_is_the_network_of_single_columns(trial) -> None:
    answer = planted.recover(*trial, method="restarts", random_state=0)
    (kink,) = planted.kinks(answer, features=["age", "dose", "weight"])
    assert kink.column == "dose" and kink.low - 0.2 < 6 < kink.high + 0.2 and kink.p_value < 0.01
    assert kink.change_low[0] - 0.1 < 1.5 < kink.change_high[0] + 0.1
    assert answer.network.W.tolist() == [[0.0, 1.0, 0.0]]
    assert answer.outcome is Outcome.FITTED  # nobody has said that there is a linear part
    assert all(line.passed for key in (Check.ONE_COLUMN, Check.OBLIQUE_KINKS) for line in answer.find(key))
    slopes, errors = answer.network.B[0], answer.uncertainty.standard_errors["B"][0]
    np.testing.assert_array_less(np.abs(slopes - [0.02, 0, 0]), 5 * errors)
    again = planted.Recovery.from_dict(answer.to_dict())
    assert planted.kinks(again) == planted.kinks(answer)


def test_units_do_not_matter(trial) -> None:
    X, y = trial
    answer = planted.recover(X, y, method="restarts", random_state=0)
    moved = planted.recover(
        X * [10.0, 0.01, 1.0] + [500.0, 3.0, 0.0], 1e3 * y, method="restarts", random_state=0
    )
    (one,), (other,) = planted.kinks(answer), planted.kinks(moved)
    assert other.place == pytest.approx(0.01 * one.place + 3, rel=1e-6)
    assert other.change == pytest.approx([1e5 * value for value in one.change], rel=1e-5)
    errors = (answer.uncertainty.standard_errors, moved.uncertainty.standard_errors)
    np.testing.assert_allclose(errors[1]["c"] / 1e3, _error_of_offset(answer, X, y), rtol=1e-4)


def _error_of_offset(answer, X, y):
    """The error of the offset at the shifted origin, from the covariance in the shifted units themselves."""
    moved = X * [10.0, 0.01, 1.0] + [500.0, 3.0, 0.0]
    place = 0.01 * planted.kinks(answer).rows[0].place + 3
    change = 100 * planted.kinks(answer).rows[0].change[0]
    hinge, step = np.maximum(moved[:, 1] - place, 0), (moved[:, 1] > place) * -change
    J = np.column_stack([np.ones(len(y)), moved, hinge, step])
    inverse = np.linalg.pinv(J, rcond=1e-14)
    residual = y - J @ (inverse @ y)
    leverage = np.einsum("ij,ji->i", J, inverse)
    return np.sqrt(((inverse * (residual / (1 - leverage))) ** 2).sum(axis=1))[:1]


def test_p_values_of_kinks_across_columns() -> None:
    real, chance = [], []
    for seed in range(20):
        rng = np.random.default_rng([seed, 9])
        X = rng.standard_normal((120, 3))
        y = X @ [1.0, 0.5, -1.0] + 1.5 * np.maximum(X @ [0.7, 0.7, 0.1], 0) + 0.5 * rng.standard_normal(120)
        V = np.array([[0.7, 0.7, 0.1, 0.0], [0.1, -0.7, 0.7, 0.3]])
        first, second = hyperplane_p_values(X, y, V, np.random.default_rng(1000 + seed))
        real.append(first)
        chance.append(second)
    assert sum(p < 0.05 for p in real) >= 18
    assert sum(p < 0.05 for p in chance) <= 4  # 5 % of twenty, and three standard errors


def test_kinks_across_columns_have_p_values_in_the_table() -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((200, 3))
    y = X @ [1.0, 0.5, -1.0] + 1.5 * np.maximum(X @ [0.7, 0.7, 0.1], 0) + 0.5 * rng.standard_normal(200)
    table = planted.kinks(planted.recover(X, y, random_state=0))
    assert len(table) == 1
    assert table.rows[0].column is None and table.rows[0].p_value == 1 / 200
