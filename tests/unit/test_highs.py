"""The wrapper of HiGHS: statuses, the check of its answers, the second attempt."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize

from planted.programs import LinearProgram, ProgramStatus, solve_program
from planted.programs._highs import KKT_TOL, translate_status

NONE = np.zeros((0, 2)), np.zeros(0)


def program(c=(1.0, 2.0), G=((-1.0, -1.0),), g=(-1.0,), lower=0.0, upper=np.inf, integer=None):
    """By default min x + 2y, x + y >= 1, x, y >= 0, with the solution (1, 0)."""
    return LinearProgram(
        np.array(c), np.array(G), np.array(g), *NONE, np.full(2, lower), np.full(2, upper), integer
    )


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, "OPTIMAL"),
        (1, "OUT_OF_LIMITS"),
        (2, "INFEASIBLE"),
        (3, "UNBOUNDED"),
        (4, "UNRELIABLE"),
        (9, "UNRELIABLE"),
    ],
)
def test_every_status_has_one_translation(code, status):
    assert translate_status(code).name == status


def test_a_vertex_is_found_and_checked():
    answer = solve_program(program())
    assert answer.status is ProgramStatus.OPTIMAL
    np.testing.assert_allclose(answer.x, [1.0, 0.0], rtol=0, atol=1e-9)
    assert answer.violation < KKT_TOL
    assert not answer.retried


def test_equations_and_upper_bounds_enter_the_check():
    """max x + y on x = 2y, x <= 3: the dual variables of the equation and of the upper bound both count."""
    asked = LinearProgram(
        -np.ones(2),
        np.zeros((0, 2)),
        np.zeros(0),
        np.array([[1.0, -2.0]]),
        np.zeros(1),
        np.zeros(2),
        np.array([3.0, 9.0]),
    )
    answer = solve_program(asked)
    np.testing.assert_allclose(answer.x, [3.0, 1.5], rtol=0, atol=1e-9)


def test_infeasible_and_unbounded_are_told_apart_after_two_attempts():
    infeasible = solve_program(program(G=((-1.0, -1.0), (1.0, 1.0)), g=(-1.0, 0.5)))
    assert (infeasible.status, infeasible.x, infeasible.retried) == (ProgramStatus.INFEASIBLE, None, True)
    unbounded = solve_program(program(c=(-1.0, 0.0)))
    assert (unbounded.status, unbounded.x) == (ProgramStatus.UNBOUNDED, None)


def test_integers_are_whole():
    relaxed = program(c=(-1.0, -1.0), G=((2.0, 2.0),), g=(3.0,))
    whole = program(c=(-1.0, -1.0), G=((2.0, 2.0),), g=(3.0,), integer=np.array([True, True]))
    assert solve_program(relaxed).x.sum() == pytest.approx(1.5)
    answer = solve_program(whole)
    assert answer.x.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(answer.x, np.round(answer.x), rtol=0, atol=1e-9)


def test_presolve_that_cries_infeasible_is_not_believed(monkeypatch):
    real, seen = optimize.linprog, []

    def linprog(*args, options, **kwargs):
        seen.append(options["presolve"])
        if options["presolve"]:
            return SimpleNamespace(status=2, message="presolve says infeasible", x=None)
        return real(*args, options=options, **kwargs)

    monkeypatch.setattr(optimize, "linprog", linprog)
    answer = solve_program(program())
    assert seen == [True, False]
    assert (answer.status, answer.retried) == (ProgramStatus.OPTIMAL, True)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"x": np.array([0.5, 0.0])}, "infeasible point"),
        ({"x": np.array([0.0, 1.0])}, "feasible, but not optimal"),
        ({"ineqlin": SimpleNamespace(marginals=np.array([1.0]))}, "dual variable of the wrong sign"),
        ({"lower": SimpleNamespace(marginals=np.array([0.0, 0.0]))}, "gradient not balanced"),
    ],
)
def test_an_answer_that_is_not_optimal_is_called_unreliable(monkeypatch, change, what):
    real = optimize.linprog

    def linprog(*args, **kwargs):
        answer = real(*args, **kwargs)
        for name, value in change.items():
            answer[name] = value
        return answer

    monkeypatch.setattr(optimize, "linprog", linprog)
    answer = solve_program(program())
    assert answer.status is ProgramStatus.UNRELIABLE, what
    assert answer.x is None
    assert answer.violation > KKT_TOL


def test_a_time_limit_is_passed_on(monkeypatch):
    seen = []

    def linprog(*args, options, **kwargs):
        seen.append(options["time_limit"])
        return SimpleNamespace(status=1, message="limit", x=None)

    monkeypatch.setattr(optimize, "linprog", linprog)
    answer = solve_program(program(), time_limit=2.5)
    assert seen == [2.5], "a program out of time is not tried again"
    assert answer.status is ProgramStatus.OUT_OF_LIMITS
