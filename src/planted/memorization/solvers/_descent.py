"""Memorise by perturbed gradient descent on the weights.

Problem     Minimise f(W) = 1/(4n) Σ_j (Σ_i a_i (w_i'x_j)² - y_j)² over W, with a_i = +1 for the first half of the
            units and a_i = -1 for the rest.
Idea        Every approximate second-order stationary point has a small loss (Lemma 1 of [GWZ20]_), so that any method
            which leaves saddle points will do. ``constants="theorem"`` runs `algorithm_1` as it is printed, on
            g = f + (γ/2)‖W‖² from W = 0, with what Theorem 4 gives to it. ``constants="practical"`` runs the same
            scheme with constants that can be waited for.
Guarantee   With the theorem's constants f ≤ ε with probability 1 - δ (Theorem 4), in a number of steps that nobody
            can run; it is in the notes. With practical constants the result is judged by its loss. Kind: asymptotic |
            heuristic.
Notation    paper: r units, W is d × r;  here: k units, W is k × q, and Z holds the rows. With M = W'diag(a)W and
            δ = output - label the gradient of f is diag(a) W (1/n) Σ δ_j z_j z_j'.
Departures  Practical constants alone: there is no penalty; the start is Gaussian with standard deviation 1/√k instead
            of zero, which is a saddle and would cost the first t_thres steps; the step is halved where the loss would
            rise; and the descent ends when the loss reaches the tolerance. For n = 300, d = 100 a loss of 1e-10 takes
            some tens of steps, where the theorem's step is 6e-5 and its t_thres 7e9.
Cost        2nq² + 2kq² flops per step.
References  [GWZ20]_
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from planted._typing import Array
from planted.memorization._task import MemoryFit, MemoryTask, kernel_product
from planted.memorization._theory import TheoremFacts
from planted.memorization.printed import DescentConstants, algorithm_1, descent_constants, draw_from_ball
from planted.memorization.solvers._kernel import form_kernel
from planted.memorization.solvers._weights import check_width, half_signs, loss_and_gradient, trained_fit
from planted.outcomes import BadInputError

__all__ = ["solve_pgd"]

POWER_STEPS = 10
PRACTICAL_WAIT = 50
PRACTICAL_RADIUS = 1e-3
PRACTICAL_GRADIENT = 1e-6
SMALLEST_STEP = 1e-12  # of the first step: below, rounding alone decides whether the loss falls
REPORT_EVERY = 50  # steps between two calls of the progress callback


@dataclass(frozen=True, slots=True)
class _Descent:
    """Where the descent on one output ended, and what the record says of it."""

    W: Array
    losses: list[float]
    n_perturbations: int
    notes: dict[str, Any]
    ended: bool = False  # whether Algorithm 1 came to its line 9


def solve_pgd(
    task: MemoryTask,
    *,
    width: int | str = "auto",
    constants: str = "practical",
    epsilon: float = 1e-2,
    delta: float = 0.1,
    max_iter: int = 20_000,
) -> MemoryFit:
    """Memorise by perturbed gradient descent.

    `epsilon` and `delta` are the loss wanted and the probability of failure, for the theorem's constants. The notes
    have the ``constants`` used, the number of ``perturbations`` and the theorem's ``predicted_iterations``.
    """
    if constants not in ("practical", "theorem"):
        raise BadInputError(f"constants={constants!r}; expected 'practical' or 'theorem'")
    if not (epsilon > 0 and 0 < delta < 1):
        raise BadInputError(f"epsilon={epsilon}, delta={delta}; expected a positive loss and a probability")
    a = half_signs(check_width(width, task.Z.shape[1]))
    if constants == "theorem":
        goal = {"sigma": _smallest_singular_value(task), "epsilon": epsilon, "delta": delta}
        descents = [_theorem_descent(task, y, a, goal, max_iter) for y in task.Y.T]
    else:
        descents = [_practical_descent(task, y, a, max_iter) for y in task.Y.T]
    notes: dict[str, Any] = {"perturbations": sum(descent.n_perturbations for descent in descents)}
    for descent in descents:
        notes |= descent.notes
    promised = epsilon if all(descent.ended for descent in descents) else None
    runs = [(descent.W, descent.losses) for descent in descents]
    return trained_fit(runs, a, promised_loss=promised, notes=notes)


def _smallest_singular_value(task: MemoryTask) -> float:
    """Return σ_min([x⊗x]), from the kernel's smallest eigenvalue."""
    task.check()
    is_possible = len(task.Z) <= task.capacity
    smallest = float(np.linalg.eigvalsh(form_kernel(task.Z))[0]) if is_possible else 0.0
    return float(np.sqrt(max(smallest, 0.0)))


def _theorem_descent(task: MemoryTask, y: Array, a: Array, goal: dict[str, float], max_iter: int) -> _Descent:
    """Run Algorithm 1 on g from W = 0 with what Theorem 4 gives to it."""
    n, q = task.Z.shape
    facts = TheoremFacts(
        n,
        q,
        largest_norm=float(np.sqrt(np.einsum("ij,ij->i", task.Z, task.Z).max())),
        largest_label=float(np.abs(y).max()),
        initial_loss=float(y @ y) / (4 * n),
        **goal,
    )
    given, penalty = facts.descent_input(), facts.penalty
    constants = asdict(descent_constants(q, given)) | {"penalty": penalty}
    notes = {"constants": constants, "predicted_iterations": facts.predicted_iterations()}
    W, loss = np.zeros((len(a), q)), facts.initial_loss
    losses, noise_times = [loss], list[int]()

    def g(x: Array) -> tuple[float, Array]:
        nonlocal loss
        loss, gradient = loss_and_gradient(task.Z, y, x, a)
        return loss + penalty / 2 * float(np.sum(x * x)), gradient + penalty * x

    def watch(t: int, x: Array) -> None:
        nonlocal W
        W = x
        losses.append(loss)
        _report(task, loss, t, max_iter)
        task.check()

    with task.stoppable():
        task.check()
        W = algorithm_1(g, W, given, rng=task.rng, max_iter=max_iter, watch=watch, noise_times=noise_times)
    ended = len(losses) <= max_iter and not task.interruptions
    return _Descent(W, losses, len(noise_times), notes, ended)


def _practical_descent(task: MemoryTask, y: Array, a: Array, max_iter: int) -> _Descent:
    """Run the scheme of Algorithm 1 with practical constants, a step that is halved, and an end at the tolerance."""
    W = task.rng.standard_normal((len(a), task.Z.shape[1])) / np.sqrt(len(a))
    loss, gradient = loss_and_gradient(task.Z, y, W, a)
    losses, noise_times, notes = [loss], list[int](), dict[str, Any]()
    with task.stoppable():
        constants = _practical_constants(task, W)
        notes["constants"] = {"penalty": 0.0, **asdict(constants)}
        step, goal = constants.step, task.tol / task.Y.shape[1]
        t_noise, W_noise, loss_noise = -constants.wait - 1.0, W, np.inf
        for t in range(max_iter):
            task.check()
            if np.linalg.norm(gradient) <= constants.gradient_threshold and t - t_noise > constants.wait:
                t_noise, W_noise, loss_noise = t, W, loss
                W = W_noise + draw_from_ball(W.shape, constants.radius, task.rng)
                loss, gradient = loss_and_gradient(task.Z, y, W, a)
                noise_times.append(t)
            if t - t_noise == constants.wait and loss - loss_noise > -constants.decrease_threshold:
                W = W_noise
                break
            moved = W - step * gradient
            moved_loss, moved_gradient = loss_and_gradient(task.Z, y, moved, a)
            if moved_loss > loss and step > SMALLEST_STEP * constants.step:
                step /= 2
                continue
            W, loss, gradient = moved, moved_loss, moved_gradient
            losses.append(loss)
            _report(task, loss, t, max_iter)
            if loss <= goal:
                break
    return _Descent(W, losses, len(noise_times), notes)


def _practical_constants(task: MemoryTask, W: Array) -> DescentConstants:
    """Return constants from the curvature at the start: 2‖W‖² λ_max(K)/n bounds the Gauss-Newton part."""
    v = task.rng.standard_normal(len(task.Z))
    norm = float(np.linalg.norm(v))
    for _ in range(POWER_STEPS):
        task.check()
        v = kernel_product(task.Z, v / norm)
        norm = float(np.linalg.norm(v)) or 1.0  # rows that are all zero make no difference to any step
    ell = 2 * float(np.linalg.norm(W, 2)) ** 2 * norm / len(task.Z)
    return DescentConstants(2.0 / ell, PRACTICAL_RADIUS, PRACTICAL_GRADIENT, task.tol, PRACTICAL_WAIT)


def _report(task: MemoryTask, loss: float, t: int, max_iter: int) -> None:
    """Call the progress callback once in a while."""
    if t % REPORT_EVERY == 0:
        task.progress(f"perturbed gradient descent, loss {loss:.1e}", t / max_iter)
