r"""Linear and mixed-integer programs solved by HiGHS, with its statuses translated and its answers checked again.

Problem     min c'x  subject to  G x ≤ g,  E x = e,  l ≤ x ≤ u,  some x integer.
Idea        `scipy.optimize.linprog` and `milp` do the work. Two things are added. First, an answer called optimal is
            checked against the Karush–Kuhn–Tucker conditions, in the data's own numbers:

            .. math:: c = G^\top \lambda + E^\top \mu + \rho, \quad \lambda \le 0, \quad
                      c^\top x = g^\top \lambda + e^\top \mu + (l, u)^\top \rho ,                           \quad (1)

            beside feasibility (in SciPy's sign convention marginals are derivatives of the optimal value). Second, an
            answer that is not optimal, or fails the check, is asked for once more without presolve, which has been
            seen to call feasible programs infeasible.
Guarantee   ``OPTIMAL`` means that x is feasible and, for linear programs, that (1) holds, both to `KKT_TOL` relative
            to the data.
Cost        That of HiGHS, twice when the first answer is not accepted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from scipy import optimize

from planted._typing import Array, BoolArray, as_array

__all__ = ["LinearProgram", "ProgramSolution", "ProgramStatus", "solve_program", "translate_status"]

KKT_TOL = 1e-6  # HiGHS stops at 1e-7 in its own scaling; ten times that in the data's


class ProgramStatus(Enum):
    """How a program ended; the value says it in words."""

    OPTIMAL = "solved, and the conditions of optimality were checked"
    INFEASIBLE = "no point satisfies the constraints, with and without presolve"
    UNBOUNDED = "the objective has no lower bound"
    OUT_OF_LIMITS = "the time or iteration limit was reached"
    UNRELIABLE = "the solver failed or its answer violates the conditions of optimality"


@dataclass(frozen=True, slots=True)
class LinearProgram:
    """A linear program, mixed-integer if some variables must be whole numbers."""

    c: Array  # (q,): objective
    G: Array  # (r, q): left sides of the inequalities ``G x <= g``
    g: Array  # (r,): their right sides
    E: Array  # (s, q): left sides of the equations ``E x = e``
    e: Array  # (s,): their right sides
    lower: Array  # (q,): lower bounds, infinite where there are none
    upper: Array  # (q,): upper bounds, infinite where there are none
    is_integer: BoolArray | None = None  # (q,): variables that must be whole numbers


@dataclass(frozen=True, slots=True)
class ProgramSolution:
    """The answer to a program."""

    status: ProgramStatus  # how it ended
    x: Array | None = None  # (q,): the solution, only if optimal
    # Largest violation of feasibility and of (1), relative to the data; infinite if there is no solution.
    violation: float = float("inf")
    message: str = field(default="", compare=False)  # what HiGHS said, verbatim
    retried: bool = False  # whether the answer came without presolve


def solve_program(program: LinearProgram, *, time_limit: float | None = None) -> ProgramSolution:
    """Solve a program; retry without presolve unless the first answer is optimal and passes the check."""
    first = _attempt(program, time_limit, presolve=True)
    if first.status in (ProgramStatus.OPTIMAL, ProgramStatus.OUT_OF_LIMITS):
        return first
    second = _attempt(program, time_limit, presolve=False)
    return ProgramSolution(second.status, second.x, second.violation, second.message, retried=True)


def translate_status(code: int) -> ProgramStatus:
    """Translate the status of `scipy.optimize.linprog` and `milp`; no other place knows their numbers.

    Unknown numbers are unreliable.
    """
    return {
        0: ProgramStatus.OPTIMAL,
        1: ProgramStatus.OUT_OF_LIMITS,
        2: ProgramStatus.INFEASIBLE,
        3: ProgramStatus.UNBOUNDED,
    }.get(code, ProgramStatus.UNRELIABLE)


def _attempt(program: LinearProgram, time_limit: float | None, *, presolve: bool) -> ProgramSolution:
    options: dict[str, Any] = {"presolve": presolve}
    if time_limit is not None:
        options["time_limit"] = time_limit
    answer = _run_linear(program, options) if program.is_integer is None else _run_integer(program, options)
    status = translate_status(answer.status)
    if status is not ProgramStatus.OPTIMAL:
        return ProgramSolution(status, message=str(answer.message))
    x = as_array(answer.x)
    violation = _infeasibility(program, x)
    if program.is_integer is None:
        violation = max(violation, _dual_violation(program, x, answer))
    if violation > KKT_TOL:
        return ProgramSolution(ProgramStatus.UNRELIABLE, None, violation, str(answer.message))
    return ProgramSolution(status, x, violation, str(answer.message))


def _run_linear(program: LinearProgram, options: dict[str, Any]) -> Any:
    bounds = np.column_stack([program.lower, program.upper])
    return optimize.linprog(
        program.c,
        A_ub=program.G,
        b_ub=program.g,
        A_eq=program.E,
        b_eq=program.e,
        bounds=bounds,
        method="highs",
        options=options,
    )


def _run_integer(program: LinearProgram, options: dict[str, Any]) -> Any:
    assert program.is_integer is not None
    constraints = [
        optimize.LinearConstraint(program.G, -np.inf, program.g),
        optimize.LinearConstraint(program.E, program.e, program.e),
    ]
    return optimize.milp(
        program.c,
        constraints=[item for item in constraints if item.A.shape[0]],
        bounds=optimize.Bounds(program.lower, program.upper),
        integrality=program.is_integer.astype(int),
        options=options,
    )


def _infeasibility(program: LinearProgram, x: Array) -> float:
    """Return the largest violation of a constraint, relative to the size of its own terms."""
    size = 1.0 + np.abs(x).max(initial=0.0)
    bounds = max((program.lower - x).max(initial=0.0), (x - program.upper).max(initial=0.0)) / size
    over = program.G @ x - program.g
    over = over / (1.0 + np.abs(program.g) + np.abs(program.G) @ np.abs(x))
    off = np.abs(program.E @ x - program.e) / (1.0 + np.abs(program.e) + np.abs(program.E) @ np.abs(x))
    whole = 0.0
    if program.is_integer is not None:
        values = x[program.is_integer]
        whole = float(np.abs(values - np.round(values)).max(initial=0.0))
    return float(max(bounds, over.max(initial=0.0), off.max(initial=0.0), whole))


def _dual_violation(program: LinearProgram, x: Array, answer: Any) -> float:
    """Return the largest violation of (1): stationarity, signs, and the gap between the two objectives."""
    lam, mu = as_array(answer.ineqlin.marginals), as_array(answer.eqlin.marginals)
    low, high = as_array(answer.lower.marginals), as_array(answer.upper.marginals)
    terms = np.abs(program.G).T @ np.abs(lam) + np.abs(program.E).T @ np.abs(mu) + np.abs(program.c)
    stationarity = program.c - program.G.T @ lam - program.E.T @ mu - low - high
    size = 1.0 + np.abs(lam).max(initial=0.0)
    signs = max(lam.max(initial=0.0), (-low).max(initial=0.0), high.max(initial=0.0)) / size
    primal = float(program.c @ x)
    active_low, active_high = low != 0, high != 0
    dual = float(program.g @ lam + program.e @ mu)
    dual += float(
        program.lower[active_low] @ low[active_low] + program.upper[active_high] @ high[active_high]
    )
    gap = abs(primal - dual) / (1.0 + abs(primal) + abs(dual))
    return float(max((np.abs(stationarity) / (1.0 + terms)).max(initial=0.0), signs, gap))
