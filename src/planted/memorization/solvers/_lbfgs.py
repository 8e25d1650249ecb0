"""Memorise by L-BFGS on the weights.

Problem     Minimise the loss of `planted.memorization.solvers._weights` with all rows at once.
Idea        Run a quasi-Newton method from a Gaussian start. A start with small weights prefers matrices M of low
            rank.
Guarantee   None; the result is judged by its loss. Kind: heuristic.
Notation    As in `planted.memorization.solvers._weights`.
Departures  [GWZ20]_ does not use L-BFGS; it is here for comparison.
Cost        2nq² + 2kq² flops per step.
References  [GWZ20]_
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from planted._typing import Array
from planted.memorization._task import MemoryFit, MemoryTask
from planted.memorization.solvers._weights import check_width, half_signs, loss_and_gradient, trained_fit
from planted.outcomes import BadInputError

__all__ = ["solve_lbfgs"]


def solve_lbfgs(
    task: MemoryTask, *, width: int | str = "auto", max_iter: int = 5000, scale: float = 1.0
) -> MemoryFit:
    """Memorise by L-BFGS on the weights.

    The start has entries of standard deviation `scale` over √width; a small one prefers low rank.
    """
    if not scale > 0:
        raise BadInputError(
            f"scale={scale}; expected a positive number, since zero weights are a saddle point"
        )
    a = half_signs(check_width(width, task.Z.shape[1]))
    runs = [_minimise_lbfgs(task, y, a, scale, max_iter) for y in task.Y.T]
    return trained_fit(runs, a)


def _minimise_lbfgs(
    task: MemoryTask, y: Array, a: Array, scale: float, max_iter: int
) -> tuple[Array, list[float]]:
    """Run SciPy's L-BFGS from a random start until the tolerance; return the last weights and the losses."""
    start = scale / np.sqrt(len(a)) * task.rng.standard_normal((len(a), task.Z.shape[1]))
    goal = task.tol / task.Y.shape[1]
    reached = start.ravel()
    losses = [loss_and_gradient(task.Z, y, start, a)[0]]

    def objective(flat: Array) -> tuple[float, Array]:
        task.check()
        loss, gradient = loss_and_gradient(task.Z, y, flat.reshape(start.shape), a)
        return loss, gradient.ravel()

    def watch(intermediate_result: OptimizeResult) -> None:  # SciPy goes by the parameter's name
        nonlocal reached
        reached = np.array(intermediate_result.x)
        losses.append(float(intermediate_result.fun))
        task.progress(f"L-BFGS, loss {losses[-1]:.1e}", len(losses) / max_iter)
        if losses[-1] <= goal:
            raise StopIteration

    options = {"maxiter": max_iter, "maxfun": 2 * max_iter, "maxcor": 20, "ftol": 0.0, "gtol": 0.0}
    with task.stoppable():
        minimize(objective, reached, jac=True, method="L-BFGS-B", callback=watch, options=options)
    return reached.reshape(start.shape), losses
