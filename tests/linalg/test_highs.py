"""The wrapper of HiGHS: statuses, the check of its answers, the second attempt."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize

from planted.linalg import LinearProgram, ProgramStatus, solve_program
from planted.linalg._highs import KKT_TOL, translate_status

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


# --- the checks, one by one, on programs whose numbers are known


def changed(monkeypatch, name, change):
    """Let SciPy's solver answer, and change its answer."""
    real = getattr(optimize, name)

    def solve(*args, **kwargs):
        answer = real(*args, **kwargs)
        for key, value in change.items():
            answer[key] = value
        return answer

    monkeypatch.setattr(optimize, name, solve)


def marginals(*values):
    return SimpleNamespace(marginals=np.array(values))


def test_the_second_attempt_has_the_same_limit_and_its_own_message(monkeypatch):
    seen = []

    def linprog(*args, options, **kwargs):
        seen.append(options)
        return SimpleNamespace(status=2, message=f"presolve {options['presolve']}", x=None)

    monkeypatch.setattr(optimize, "linprog", linprog)
    answer = solve_program(program(), time_limit=2.5)
    assert seen == [{"presolve": True, "time_limit": 2.5}, {"presolve": False, "time_limit": 2.5}]
    assert answer.message == "presolve False" and answer.retried and answer.violation == np.inf
    seen.clear()
    solve_program(program())
    assert seen == [{"presolve": True}, {"presolve": False}]


def test_what_highs_said_is_kept(monkeypatch):
    assert "optimal" in solve_program(program()).message.lower()
    changed(monkeypatch, "linprog", {"x": np.array([0.0, 1.0]), "message": "all is well"})
    answer = solve_program(program())
    assert (answer.status, answer.message) == (ProgramStatus.UNRELIABLE, "all is well")


def test_violations_are_relative_to_the_data(monkeypatch):
    """At (1, 0) instead of (1000, 0) of x + y >= 1000: 999 too little, of terms that add up to 1 + 1000 + 1."""
    asked = program(g=(-1000.0,))
    changed(monkeypatch, "linprog", {"x": np.array([1.0, 0.0])})
    assert solve_program(asked).violation == pytest.approx(999 / 1002)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ((-3.0, 4.0), 3 / 5),  # below the lower bound, relative to 1 + largest entry
        ((8.0, 0.0), 1 / 9),  # above the upper bound
        ((2.5, 0.0), 0.5),  # not whole
        ((3.0, 0.0), 1 / (1 + 2 + 3)),  # 3 for 2: the equation
        ((2.0, 7.0), 7 / (1 + 2 + 9)),
    ],
)
def test_integer_programs_are_checked_for_bounds_equations_and_wholeness(x, expected, monkeypatch):
    """X + y = 2, x whole, both between 0 and 7; without constraints of another kind."""
    asked = LinearProgram(
        np.zeros(2), np.zeros((0, 2)), np.zeros(0), np.ones((1, 2)), np.array([2.0]), np.zeros(2), np.full(2, 7.0),
        np.array([True, False]),
    )  # fmt: skip
    assert solve_program(asked).x.sum() == pytest.approx(2.0)
    changed(monkeypatch, "milp", {"x": np.array(x)})
    answer = solve_program(asked)
    worst = max(expected, abs(sum(x) - 2) / (3 + np.abs(x).sum()))
    assert answer.status is ProgramStatus.UNRELIABLE and answer.violation == pytest.approx(worst)


def test_a_program_whose_variables_need_not_be_whole_after_all():
    answer = solve_program(program(integer=np.array([False, False])))
    assert answer.status is ProgramStatus.OPTIMAL
    np.testing.assert_allclose(answer.x, [1.0, 0.0], atol=1e-9)


def test_inequalities_of_integer_programs_are_checked(monkeypatch):
    """X + y <= 2 at (3, 0): one too many, of terms that add up to 1 + 2 + 3."""
    asked = program(G=((1.0, 1.0),), g=(2.0,), upper=9.0, integer=np.array([True, True]))
    changed(monkeypatch, "milp", {"x": np.array([3.0, 0.0])})
    assert solve_program(asked).violation == pytest.approx(1 / 6)


def test_equations_of_integer_programs_hold_from_both_sides():
    for sign in (1.0, -1.0):
        asked = LinearProgram(
            np.array([sign, 0.0]), np.array([[0.0, 1.0]]), np.array([5.0]), np.array([[1.0, 1.0]]), np.array([6.0]),
            np.zeros(2), np.full(2, 6.0), np.array([True, True]),
        )  # fmt: skip
        np.testing.assert_allclose(solve_program(asked).x, [1.0, 5.0] if sign > 0 else [6.0, 0.0], atol=1e-9)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        # min x + 2y, x + y >= 1: lam = -1, low = (0, 1), primal = dual = 1.
        (
            {"ineqlin": marginals(-1.5)},
            0.5 / (1 + 1.5 + 1),
        ),  # stationarity of x; the gap is 0.5 / (1 + 1 + 1.5)
        ({"lower": marginals(0.0, 0.5)}, 0.5 / (1 + 1 + 2)),  # stationarity of y
        ({"lower": marginals(0.0, -1.0), "ineqlin": marginals(-3.0)}, 2 / (1 + 3 + 1)),
        (
            {"upper": marginals(0.0, 1.0), "lower": marginals(0.0, 0.0)},
            1 / (1 + 1),
        ),  # an upper bound pushes down
        ({"ineqlin": marginals(1.0), "lower": marginals(2.0, 3.0)}, 2 / (1 + 1 + 1)),
    ],
)
def test_the_dual_check_by_hand(change, expected, monkeypatch):
    changed(monkeypatch, "linprog", change)
    answer = solve_program(program(upper=50.0))
    assert answer.status is ProgramStatus.UNRELIABLE
    assert answer.violation >= expected * (1 - 1e-12)


def test_signs_of_dual_variables_count_by_themselves():
    """A problem without objective: marginals of the wrong sign that balance each other are seen."""
    from planted.linalg._highs import _dual_violation

    no_equations = np.zeros((0, 1)), np.zeros(0)
    asked = LinearProgram(
        np.zeros(1), np.ones((1, 1)), np.ones(1), *no_equations, np.zeros(1), np.full(1, 2.0)
    )
    x = np.zeros(1)

    def violation(lam=0.0, low=0.0, high=0.0):
        answer = SimpleNamespace(
            ineqlin=marginals(lam), eqlin=marginals(), lower=marginals(low), upper=marginals(high)
        )
        return _dual_violation(asked, x, answer)

    assert violation() == 0.0
    # lam = 4 balanced by low = -4: signs 4 / 5, the gap is |4| / 5.
    assert violation(lam=4.0, low=-4.0) == pytest.approx(4 / 5)
    assert violation(lam=-4.0, low=4.0) == pytest.approx(4 / 5)  # signs are right, the gap is not: g lam = -4
    assert violation(low=3.0, high=-3.0) == pytest.approx(6 / 7)  # the upper bound's value 2 times 3
    assert violation(low=-3.0, high=3.0) == pytest.approx(3.0)  # both of the wrong sign, size 1 + 0


def test_equations_enter_the_dual_check():
    from planted.linalg._highs import _dual_violation

    asked = LinearProgram(
        np.array([2.0]), *(np.zeros((0, 1)), np.zeros(0)), np.array([[1.0]]), np.array([3.0]), np.full(1, -np.inf),
        np.full(1, np.inf),
    )  # fmt: skip
    sound = SimpleNamespace(
        ineqlin=marginals(), eqlin=marginals(2.0), lower=marginals(0.0), upper=marginals(0.0)
    )
    assert _dual_violation(asked, np.array([3.0]), sound) == 0.0
    sound.eqlin = marginals(1.0)
    # Stationarity is off by 1 of 1 + 1 + 2, the objectives by 3 of 1 + 6 + 3.
    assert _dual_violation(asked, np.array([3.0]), sound) == pytest.approx(3 / 10)
