"""Memorise by perturbed gradient descent on the weights: Algorithm 1 of the paper.

Problem     Minimise f(W) = 1/(4n) Σ_j (Σ_i a_i (w_i'x_j)² - y_j)² over W, with a_i = +1 for the first half of the
            units and -1 for the rest.
Idea        Every approximate second-order stationary point has a small loss (Lemma 1), so any method that leaves
            saddle points will do. Algorithm 1 takes gradient steps on g = f + (γ/2)‖W‖² and, where the gradient is
            small, adds a uniform draw from a small ball; it returns the point before the draw if the loss does not
            fall within t_thres steps.
Guarantee   ``constants="theorem"``: Theorem 4, f ≤ ε with probability 1 - δ, in a number of steps that nobody can
            run (it is in the notes). ``constants="practical"``: the same algorithm with a step found by
            backtracking; judged by the loss. Kind: asymptotic | heuristic.
Notation    paper: r units, W is d × r;  here: k units, W is k × q, Z holds the rows. M = W'diag(a)W, δ = output -
            label; gradient = diag(a) W (1/n) Σ δ_j z_j z_j'.
Departures  Practical constants: no penalty, a Gaussian start of standard deviation 1/√k instead of zero (a saddle,
            which costs the first t_thres steps), and an end when the loss reaches the tolerance. n = 300, d = 100:
            1e-10 in some tens of steps, where the theorem's step is 6e-5 and its t_thres 7e9.
Cost        2nq² + 2kq² flops per step.
References  [GWZ20]_
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from planted._typing import Array
from planted.memorization._cg import merge_curves
from planted.memorization._constants import DescentConstants, predicted_iterations, theorem_constants
from planted.memorization._kernel import form_kernel
from planted.memorization._task import MemoryFit, MemoryTask, kernel_product
from planted.memorization._weights import check_width, half_signs, loss_and_gradient, stack_outputs
from planted.outcomes import BadInputError

__all__ = ["solve_pgd"]

POWER_STEPS = 10
PRACTICAL_WAIT = 50
PRACTICAL_RADIUS = 1e-3
PRACTICAL_GRADIENT = 1e-6
SMALLEST_STEP = 1e-12  # of the first step: below, rounding alone decides whether the loss falls


@dataclass(frozen=True, slots=True)
class _Descent:
    """Where a descent on one output ended."""

    W: Array
    losses: list[float]
    n_perturbations: int


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

    `epsilon, delta`: loss wanted and probability of failure, for the theorem's constants. Returns the units;
    ``notes["constants"]`` are the constants used, ``notes["predicted_iterations"]`` the theorem's count.
    """
    if constants not in ("practical", "theorem"):
        raise BadInputError(f"constants={constants!r}; expected 'practical' or 'theorem'")
    if not (epsilon > 0 and 0 < delta < 1):
        raise BadInputError(f"epsilon={epsilon}, delta={delta}; expected a positive loss and a probability")
    a = half_signs(check_width(width, task.Z.shape[1]))
    weights, curves = [], []
    notes: dict[str, Any] = {}
    for y in task.Y.T:
        if constants == "theorem":
            numbers, notes["predicted_iterations"] = _theorem_numbers(task, y, epsilon, delta)
            start = np.zeros((len(a), task.Z.shape[1]))
            descent = _perturbed_descent(task, y, a, start, numbers, max_iter=max_iter)
        else:
            start = task.rng.standard_normal((len(a), task.Z.shape[1])) / np.sqrt(len(a))
            numbers = _practical_numbers(task, start)
            descent = _perturbed_descent(task, y, a, start, numbers, max_iter=max_iter, is_practical=True)
        notes["constants"] = {name: getattr(numbers, name) for name in DescentConstants.__slots__}
        notes["perturbations"] = notes.get("perturbations", 0) + descent.n_perturbations
        weights.append(descent.W)
        curves.append(descent.losses)
    W, A = stack_outputs(weights, a)
    return MemoryFit(W, A, merge_curves(curves), {"width": float(len(a))}, notes)


def _theorem_numbers(
    task: MemoryTask, y: Array, epsilon: float, delta: float
) -> tuple[DescentConstants, float]:
    """Return Theorem 4's constants and number of iterations for one output."""
    n, q = task.Z.shape
    smallest = float(np.linalg.eigvalsh(form_kernel(task.Z))[0]) if n <= task.capacity else 0.0
    facts = {
        "sigma": float(np.sqrt(max(smallest, 0.0))),
        "largest_norm": float(np.sqrt(np.einsum("ij,ij->i", task.Z, task.Z).max())),
        "largest_label": float(np.abs(y).max()),
        "initial_loss": float(y @ y) / (4 * n),
        "epsilon": epsilon,
        "delta": delta,
    }
    return theorem_constants(n, q, **facts), predicted_iterations(n, q, **facts)


def _practical_numbers(task: MemoryTask, W: Array) -> DescentConstants:
    """Return constants from the curvature at the start: 2‖W‖² λ_max(K)/n bounds the Gauss-Newton part."""
    v = task.rng.standard_normal(len(task.Z))
    norm = float(np.linalg.norm(v))
    for _ in range(POWER_STEPS):
        v = kernel_product(task.Z, v / norm)
        norm = float(np.linalg.norm(v)) or 1.0  # rows that are all zero make no difference to any step
    ell = 2 * float(np.linalg.norm(W, 2)) ** 2 * norm / len(task.Z)
    return DescentConstants(0.0, 2.0 / ell, PRACTICAL_RADIUS, PRACTICAL_GRADIENT, task.tol, PRACTICAL_WAIT)


def _perturbed_descent(
    task: MemoryTask,
    y: Array,
    a: Array,
    W: Array,
    numbers: DescentConstants,
    *,
    max_iter: int,
    is_practical: bool = False,
) -> _Descent:
    """Algorithm 1, line by line; practical constants add backtracking and an end at the tolerance."""
    goal, step = task.tol / task.Y.shape[1], numbers.step
    noise_at, n_perturbations = -numbers.wait - 1.0, 0
    before, before_value = W, np.inf
    loss, gradient = loss_and_gradient(task.Z, y, W, a)
    losses = [loss]
    with task.stoppable():
        for t in range(max_iter):
            task.check()
            slope = gradient + numbers.penalty * W
            if np.linalg.norm(slope) <= numbers.gradient_threshold and t - noise_at > numbers.wait:  # line 4
                before, noise_at, n_perturbations = W, float(t), n_perturbations + 1
                before_value = _objective(loss, W, numbers)
                W = W + _uniform_in_ball(W.shape, numbers.radius, task.rng)
                loss, gradient = loss_and_gradient(task.Z, y, W, a)
                slope = gradient + numbers.penalty * W
            fell = before_value - _objective(loss, W, numbers)
            if t - noise_at == np.floor(numbers.wait) and fell < numbers.decrease_threshold:  # line 8
                return _Descent(before, losses, n_perturbations)
            moved = W - step * slope  # line 11
            moved_loss, moved_gradient = loss_and_gradient(task.Z, y, moved, a)
            if is_practical and moved_loss > loss and step > SMALLEST_STEP * numbers.step:
                step /= 2
                continue
            W, loss, gradient = moved, moved_loss, moved_gradient
            losses.append(loss)
            if t % 50 == 0:
                task.progress(f"perturbed gradient descent, loss {loss:.1e}", t / max_iter)
            if is_practical and loss <= goal:
                break
    return _Descent(W, losses, n_perturbations)


def _objective(loss: float, W: Array, numbers: DescentConstants) -> float:
    """Return g = f + (γ/2)‖W‖²."""
    return loss + numbers.penalty / 2 * float(np.sum(W * W))


def _uniform_in_ball(shape: tuple[int, ...], radius: float, rng: np.random.Generator) -> Array:
    """Draw uniformly from a ball."""
    direction = rng.standard_normal(shape)
    size = direction.size
    return np.asarray(radius * rng.random() ** (1 / size) * direction / np.linalg.norm(direction))
