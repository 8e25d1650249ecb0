"""Algorithm 1 of the paper, as it is printed: perturbed gradient descent.

Problem     Find a second-order stationary point of a smooth function f: a point where the gradient is small and the
            Hessian has no eigenvalue far below zero. For the loss of a wide quadratic network every such point has a
            small loss (Lemma 1 of [GWZ20]_), so that finding one memorises the labels.
Idea        Take gradient steps. Where the gradient is small, remember the point and move by a uniform draw from a
            small ball: if the point is a saddle, f falls by at least f_thres within t_thres steps. If it does not,
            the remembered point is returned.
Guarantee   Theorem 3, which is due to Jin et al. (2017): if f is ℓ-smooth with a ρ-Lipschitz Hessian, c is below an
            absolute constant and Δ ≥ f(x₀) - min f, the result is an ε-second-order stationary point with probability
            1 - δ. Kind: asymptotic.
Notation    paper: x, ℓ, ρ, ε, c, δ, Δ_f, η, r, g_thres, f_thres, t_thres;  here: ``x`` (the weights W), ``ell``,
            ``rho``, ``epsilon``, ``c``, ``delta``, ``gap`` and the fields of `DescentConstants`.
Departures  None in the arithmetic. The loop of the box has no end; here it ends after ``max_iter`` steps with the
            last point. t_thres is no integer, and line 8 compares with its integer part. The d of line 1 is the
            number of inputs, as the paper writes; Jin et al. have the number of unknowns there, which would add
            3 log(2d + 2) to χ. Constants for practice are in `planted.memorization.solvers._descent`, which solves with
            both.
Cost        One evaluation of f and its gradient per step.
References  [GWZ20]_
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor, inf, log, sqrt

import numpy as np

from planted._typing import Array

__all__ = ["DescentConstants", "DescentInput", "algorithm_1", "descent_constants", "draw_from_ball"]


@dataclass(frozen=True, slots=True)
class DescentInput:
    """The input of Algorithm 1 beside the function and its starting point."""

    ell: float  # ℓ, a Lipschitz constant of the gradient
    rho: float  # ρ, a Lipschitz constant of the Hessian
    epsilon: float  # ε, the accuracy of the stationary point
    c: float  # the absolute constant of Theorem 3
    delta: float  # δ, the probability of failure
    gap: float  # Δ_f, a bound on how far f can fall from its start


@dataclass(frozen=True, slots=True)
class DescentConstants:
    """The constants that line 1 of Algorithm 1 makes from its input."""

    step: float  # η, the step size
    radius: float  # r, of the ball from which a perturbation is drawn
    gradient_threshold: float  # g_thres, the gradient norm below which a perturbation is due
    decrease_threshold: float  # f_thres, the decrease that shows that a saddle was left
    wait: float  # t_thres, the number of steps given to leave it


def algorithm_1(
    f: Callable[[Array], tuple[float, Array]],
    x: Array,
    given: DescentInput,
    *,
    rng: np.random.Generator,
    max_iter: int,
    watch: Callable[[int, Array], None],
    noise_times: list[int],
) -> Array:
    """Run Algorithm 1 and return its point; the comments are the numbers of its lines.

    `f` returns a value and a gradient. `watch(t, x)` is called after each step and may end the run by raising;
    `noise_times` receives the t of every perturbation. Shapes: x (k, d), result (k, d).
    """
    constants = descent_constants(x.shape[1], given)  # 1
    t_noise = -constants.wait - 1.0  # 2
    x_noise, value_noise = x, inf
    value, gradient = f(x)
    for t in range(max_iter):  # 3
        if np.linalg.norm(gradient) <= constants.gradient_threshold and t - t_noise > constants.wait:  # 4
            x_noise, value_noise, t_noise = x, value, float(t)  # 5
            x = x_noise + draw_from_ball(x.shape, constants.radius, rng)  # 6
            value, gradient = f(x)
            noise_times.append(t)
        has_waited = t - t_noise == floor(constants.wait)
        if has_waited and value - value_noise > -constants.decrease_threshold:  # 8
            return x_noise  # 9
        x = x - constants.step * gradient  # 11
        value, gradient = f(x)
        watch(t, x)
    return x


def descent_constants(d: int, given: DescentInput) -> DescentConstants:
    """Return the constants of line 1: χ, and from it η, r, g_thres, f_thres and t_thres."""
    ell, rho, epsilon, c = given.ell, given.rho, given.epsilon, given.c
    chi = 3 * max(log(d * ell * given.gap / (c * epsilon**2 * given.delta)), 4.0)
    return DescentConstants(
        step=c / ell,
        radius=sqrt(c) / chi**2 * epsilon / ell,
        gradient_threshold=sqrt(c) / chi**2 * epsilon,
        decrease_threshold=c / chi**3 * sqrt(epsilon**3 / rho),
        wait=chi / c**2 * ell / sqrt(rho * epsilon),
    )


def draw_from_ball(shape: tuple[int, ...], radius: float, rng: np.random.Generator) -> Array:
    """Draw uniformly from the ball around zero."""
    direction = rng.standard_normal(shape)
    size = direction.size
    return np.asarray(radius * rng.random() ** (1 / size) * direction / np.linalg.norm(direction))
