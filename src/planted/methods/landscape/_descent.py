r"""Descend an objective, and look at the point where the descent ends.

Problem     From a start (W, a) find a local minimum of an `Objective`; tell minima from saddles.
Idea        Rows on the unit sphere are written as V/|V|, which leaves an unconstrained problem. It is solved by L-BFGS, or
            by Newton's method in a trust region, whose Hessian-vector products are differences of closed-form gradients
            and which leaves saddles along their negative curvature; by stochastic gradient steps on batches of the
            samples, of a length that falls at `STAGES` and is told by the curvature at the start; or not at all ("none"),
            which shows what the objective is worth. The smallest eigenvalue of the Hessian at the end comes from
            fourth-order differences of the gradient, without the directions along unit rows.
Guarantee   L-BFGS: a stationary point. Newton: a stationary point of second order, up to its tolerance. Stochastic steps:
            near a minimum, at a distance of the root of their length (Corollary 2.4 of [GLM18]_ for G). Differences of the
            gradient have a relative error of about 1e-11.
Cost        A few hundred gradients; the Hessian 4(kd + k) gradients and O((kd + k)³).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg, optimize

from planted._clock import check_time
from planted._typing import Array
from planted._validation import check_choice
from planted.linalg import unit_rows
from planted.methods.landscape._targets import SampleTarget
from planted.methods.landscape.objectives import Objective

__all__ = [
    "OPTIMISERS",
    "Curvature",
    "Descent",
    "descend",
    "random_rows",
    "smallest_curvature",
    "tangent_gradient",
]

OPTIMISERS = ("lbfgs", "newton", "sgd", "none")
BATCH = 2048  # samples of a stochastic step
STAGES = ((2500, 1.5), (400, 0.3), (100, 0.05))  # stochastic steps, and their length in inverse curvatures
POWER_STEPS = 8  # that find the largest curvature
MEMORY = 30  # pairs kept by L-BFGS: the problems are ill-conditioned and a pair costs little
HESSIAN_STEP = 1e-3  # fourth-order differences: error h⁴ ~ 1e-12 beside rounding eps/h ~ 1e-13
PRODUCT_STEP = 1e-5


@dataclass(frozen=True, slots=True)
class Descent:
    """Where a descent ended."""

    W: Array  # (k, d): hidden rows
    a: Array  # (k,): output weights
    value: float  # the objective there
    gradient_norm: float  # norm of the gradient, along the sphere where rows live on it
    iterations: int  # steps, and values with gradients
    evaluations: int
    converged: bool  # whether it ended because of its tolerance


@dataclass(frozen=True, slots=True)
class Curvature:
    """The smallest eigenvalue of the Hessian and its direction."""

    smallest: float  # extreme eigenvalues
    largest: float
    W: Array  # (k, d): the direction of the smallest in W
    a: Array  # (k,): the direction in a, zero where a is not trained


def random_rows(n_hidden: int, n_features: int, rng: np.random.Generator) -> Array:
    """Return random unit rows.

    Shapes: result (k, d).
    """
    return unit_rows(rng.standard_normal((n_hidden, n_features)))[0]


def descend(
    objective: Objective,
    W: Array,
    a: Array,
    *,
    optimiser: str = "lbfgs",
    max_iter: int = 2000,
    gradient_tol: float = 1e-9,
    rng: np.random.Generator | None = None,
) -> Descent:
    """Descend from a point to a local minimum; output weights are kept where the objective does not train them.

    `gradient_tol`: norm of the gradient at which to stop. `rng`: of stochastic steps. Shapes: W (k, d), a (k,).
    """
    check_choice("optimiser", optimiser, OPTIMISERS)
    flat = _Flat(objective, W.shape, a)
    if optimiser == "sgd":
        return _descend_stochastically(flat, W, a, rng or np.random.default_rng(0))
    start = flat.join(W, a)
    max_iter = 0 if optimiser == "none" else max_iter
    with np.errstate(over="ignore", invalid="ignore"):  # an objective without a lower bound: the end says so
        end = _minimise(flat, start, optimiser, max_iter, gradient_tol)
    return _ended(flat, *flat.split(end.x), int(end.nit), bool(end.success))


def _ended(flat: _Flat, W: Array, a: Array, iterations: int, converged: bool) -> Descent:
    value, dW, da = tangent_gradient(flat.objective, W, a)
    norm = float(np.sqrt((dW**2).sum() + (da**2).sum()))
    return Descent(W, a, value, norm, iterations, flat.evaluations, converged)


def _descend_stochastically(flat: _Flat, W: Array, a: Array, rng: np.random.Generator) -> Descent:
    """Take gradient steps, each on a batch of the samples; on exact tensors every batch is the whole."""
    objective: Any = flat.objective  # all of them are records with a target, but for the squared risk
    curvature, theta, steps = _largest_curvature(flat, flat.join(W, a), rng), flat.join(W, a), 0
    target = getattr(objective, "target", None)
    batches = target.batches(BATCH, rng) if isinstance(target, SampleTarget) else None
    for count, length in STAGES:
        for _ in range(count):
            part = objective if batches is None else replace(objective, target=next(batches))
            theta = theta - length / curvature * _Flat(part, flat.shape, flat.fixed)(theta)[1]
            theta = flat.join(*flat.split(theta))  # rows back to the sphere
            steps += 1
    flat.evaluations += steps
    return _ended(flat, *flat.split(theta), steps, True)


def _largest_curvature(flat: _Flat, theta: Array, rng: np.random.Generator) -> float:
    """Return the largest modulus of an eigenvalue of the Hessian, by the power method."""
    direction, size = rng.standard_normal(theta.size), 1.0
    for _ in range(POWER_STEPS):
        direction = flat.hessian_product(theta, direction / np.linalg.norm(direction))
        size = float(np.linalg.norm(direction))
        if size == 0.0:
            return 1.0
    return size


def _minimise(flat: _Flat, start: Array, optimiser: str, max_iter: int, gradient_tol: float) -> Any:
    """Run one of SciPy's optimisers."""
    if optimiser != "newton":
        limits: dict[str, Any] = {"maxiter": max_iter, "maxcor": MEMORY, "maxfun": 10 * max_iter, "ftol": 0.0}
        limits["gtol"] = gradient_tol / np.sqrt(start.size)
        return optimize.minimize(flat, start, jac=True, method="L-BFGS-B", options=limits)
    limits = {"maxiter": max_iter, "gtol": gradient_tol}
    return optimize.minimize(
        flat, start, jac=True, hessp=flat.hessian_product, method="trust-krylov", options=limits
    )


def tangent_gradient(objective: Objective, W: Array, a: Array) -> tuple[float, Array, Array]:
    """Return the value, the gradient in W and the gradient in a, which is zero where a is not trained.

    Where rows live on the sphere the part of the gradient along them is left out. Shapes: W (k, d), a (k,).
    """
    value, dW, da = objective(W, a)
    if objective.has_unit_rows:
        dW = dW - (dW * W).sum(axis=1, keepdims=True) * W
    return value, dW, da if objective.trains_outputs else np.zeros_like(da)


def smallest_curvature(objective: Objective, W: Array, a: Array) -> Curvature:
    """Return the smallest eigenvalue of the Hessian at a point, along the sphere where rows live on it.

    Shapes: W (k, d), a (k,).
    """
    flat = _Flat(objective, W.shape, a)
    H = flat.hessian(flat.join(W, a))
    size = float(np.abs(H).sum(axis=1).max())
    if objective.has_unit_rows:
        k, d = W.shape
        radial = np.zeros((k, len(H)))
        for j, row in enumerate(unit_rows(W)[0]):
            radial[j, j * d : (j + 1) * d] = row
        H = H - radial.T @ (radial @ H)
        H = H - (H @ radial.T) @ radial + 2 * size * radial.T @ radial  # never the smallest
    values, vectors = linalg.eigh(H, check_finite=False)
    shown = values[values < 1.5 * size] if objective.has_unit_rows else values
    dW, da = vectors[: W.size, 0].reshape(W.shape), np.zeros_like(a)
    if objective.trains_outputs:
        da = vectors[W.size :, 0]
    return Curvature(float(values[0]), float(shown[-1]), dW, da)


class _Flat:
    """An objective as a function of one vector, rows on the sphere written as V/|V|."""

    def __init__(self, objective: Objective, shape: tuple[int, ...], a: Array) -> None:
        self.objective, self.shape, self.fixed = objective, shape, a
        self.evaluations = 0

    def join(self, W: Array, a: Array) -> Array:
        return np.concatenate([W.ravel(), a]) if self.objective.trains_outputs else W.ravel().copy()

    def split(self, theta: Array) -> tuple[Array, Array]:
        size = int(np.prod(self.shape))
        V = theta[:size].reshape(self.shape)
        if self.objective.has_unit_rows:
            V = unit_rows(V)[0]
        return V, theta[size:] if self.objective.trains_outputs else self.fixed

    def __call__(self, theta: Array) -> tuple[float, Array]:
        check_time()
        self.evaluations += 1
        W, a = self.split(theta)
        value, dW, da = tangent_gradient(self.objective, W, a)
        if self.objective.has_unit_rows:
            dW = dW / unit_rows(theta[: W.size].reshape(W.shape))[1][:, None]
        return value, self.join(dW, da)

    def hessian_product(self, theta: Array, direction: Array) -> Array:
        norm = float(np.linalg.norm(direction))
        if norm == 0.0:
            return np.zeros_like(direction)
        step = PRODUCT_STEP / norm
        return (self(theta + step * direction)[1] - self(theta - step * direction)[1]) / (2 * step)

    def hessian(self, theta: Array) -> Array:
        """Return the Hessian by fourth-order differences of the gradient."""
        h = HESSIAN_STEP
        columns = np.empty((theta.size, theta.size))
        for i in range(theta.size):
            unit = np.zeros_like(theta)
            unit[i] = h
            near = self(theta + unit)[1] - self(theta - unit)[1]
            far = self(theta + 2 * unit)[1] - self(theta - 2 * unit)[1]
            columns[i] = (8 * near - far) / (12 * h)
        return (columns + columns.T) / 2
