"""One search along the damping: which step it takes, and where it goes on."""

from dataclasses import dataclass

import numpy as np
import pytest

from planted.fitting._refine import MIN_DAMPING, Damping, damped_step


@dataclass(frozen=True)
class Point:
    step: np.ndarray
    cost: float


SYSTEM = (np.diag([2.0, 4.0]), np.array([2.0, 4.0]), np.array([2.0, 4.0]))


def shorter_than(limit):
    """The cost falls only by steps shorter than the limit."""
    return lambda step: Point(step, 0.5 if np.linalg.norm(step) < limit else 2.0)


def test_first_step_that_lowers_the_cost_is_taken():
    found = Damping(0.5, down=0.25).descend(SYSTEM, shorter_than(np.inf), 1.0)
    np.testing.assert_allclose(found.trial.step, damped_step(*SYSTEM[:2], 0.5 * SYSTEM[2]))
    assert (found.damping.value, found.tried) == (0.125, 1)


def test_damping_rises_until_a_step_lowers_the_cost():
    rule = Damping(0.5, down=0.25, up=8.0, after_rejection=0.5)
    found = rule.descend(SYSTEM, shorter_than(0.1), 1.0)
    # Steps are (1, 1) / (1 + damping): of length 0.94, 0.28 and 0.043 at 0.5, 4 and 32.
    np.testing.assert_allclose(found.trial.step, np.full(2, 1 / 33))
    assert (found.damping.value, found.tried) == (16.0, 3)


def test_an_equal_cost_is_no_descent():
    found = Damping(0.5).descend(SYSTEM, lambda step: Point(step, 1.0), 1.0)
    assert found.trial is None
    assert found.tried == 14
    assert found.damping.value == pytest.approx(0.5 * 8.0**14)


def test_indefinite_matrices_are_damped_without_a_trial():
    N = np.diag([-1.0, 1.0])
    found = Damping(0.5).descend((N, np.ones(2), np.ones(2)), shorter_than(np.inf), 1.0)
    assert found.tried == 1  # -1 + 0.5 < 0 is not tried, -1 + 4 is
    np.testing.assert_allclose(found.trial.step, [1 / 3, 1 / 5])


def test_damping_never_vanishes():
    found = Damping(1e-14).descend(SYSTEM, shorter_than(np.inf), 1.0)
    assert found.damping.value == MIN_DAMPING


def test_a_direction_that_was_stiff_stays_damped():
    first = Damping(0.5, down=1.0).descend(SYSTEM, shorter_than(np.inf), 1.0)
    softer = (SYSTEM[0], SYSTEM[1], np.array([8.0, 1.0]))
    found = first.damping.descend(softer, shorter_than(np.inf), 1.0)
    np.testing.assert_allclose(found.trial.step, damped_step(*SYSTEM[:2], 0.5 * np.array([8.0, 4.0])))
    np.testing.assert_array_equal(found.damping.scales, [8.0, 4.0])


@pytest.mark.parametrize("close", [0.0, 0.1])
def test_a_step_that_hardly_raises_the_cost_ends_the_descent(close):
    found = Damping(0.5).descend(SYSTEM, lambda step: Point(step, 1.05), 1.0, close=close)
    assert found.trial is None
    assert found.tried == (1 if close else 14)
