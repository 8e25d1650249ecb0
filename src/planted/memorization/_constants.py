"""What Theorem 4 gives to perturbed gradient descent: step, thresholds and the number of iterations.

Problem     [GWZ20]_ proves that Algorithm 1 memorises, with constants that follow from the data. What do they amount
            to?
Idea        Theorem 4 turns B = max‖x‖, Y = max|y|, f(0), σ = σ_min([x_j⊗x_j]) and the wanted loss ε into the penalty
            γ = √(σ²ε/(nd)), a bound ℓ of the gradient's Lipschitz constant, a bound ρ of the Hessian's, and from
            these step, radius and thresholds.
Guarantee   These are the paper's own statements with its own constants; O(1) factors it does not give are set to 1
            and said so.
Notation    All in the solver's units: rows of root-mean-square norm 1, labels of root mean square 1.
Departures  Theorem 4's text passes ε to Algorithm 1, its proof passes ε' = (σ²ε/(nd))^{5/4} / (6B⁴√(2(f(0)+1)));
            the proof's is used, because the bound on the final loss needs it.
Cost        None.
References  [GWZ20]_
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e, log, sqrt

from planted.outcomes import BadInputError

__all__ = ["DescentConstants", "predicted_iterations", "theorem_constants"]


@dataclass(frozen=True, slots=True)
class DescentConstants:
    """The constants of perturbed gradient descent, Algorithm 1."""

    penalty: float  # γ, the weight of ‖W‖²/2 in the objective
    step: float  # η, the step size
    radius: float  # r, of the ball from which a perturbation is drawn
    gradient_threshold: float  # g_thres, below which a perturbation is due
    decrease_threshold: float  # f_thres, the decrease that shows that a saddle was left
    wait: float  # t_thres, the iterations given to leave it


def theorem_constants(
    n: int,
    d: int,
    *,
    sigma: float,
    largest_norm: float,
    largest_label: float,
    initial_loss: float,
    epsilon: float,
    delta: float = 0.1,
    c: float = 1.0,
) -> DescentConstants:
    """Return the constants that Theorem 4 gives to Algorithm 1.

    `c`: the theorem's absolute constant, at most an unknown c_max; 1 is the largest the proof allows.

    Examples
    --------
    >>> constants = theorem_constants(300, 100, sigma=0.8, largest_norm=1.0, largest_label=1.0,
    ...                               initial_loss=1 / 12, epsilon=1e-2)
    >>> constants.step < 1e-4, constants.wait > 1e9
    (True, True)
    """
    if not sigma > 0:
        raise BadInputError(
            f"the smallest singular value of [x⊗x] is {sigma}; Theorem 4 needs it positive. "
            "Add a small noise to the inputs or use constants='practical'."
        )
    share = sigma**2 * epsilon / (n * d)
    bound = 6 * largest_norm**4 * sqrt(2 * (initial_loss + 1))
    penalty = sqrt(share)
    rho = bound * share**-0.25
    ell = _gradient_lipschitz(penalty, largest_norm, largest_label, initial_loss)
    stationarity = share**1.25 / bound  # ε' of the proof
    gap = initial_loss + 1.0
    chi = 3 * max(log(d * ell * gap / (c * stationarity**2 * delta)), 4.0)
    return DescentConstants(
        penalty=penalty,
        step=c / ell,
        radius=sqrt(c) / chi**2 * stationarity / ell,
        gradient_threshold=sqrt(c) / chi**2 * stationarity,
        decrease_threshold=c / chi**3 * sqrt(stationarity**3 / rho),
        wait=chi / c**2 * ell / sqrt(rho * stationarity),
    )


def predicted_iterations(
    n: int,
    d: int,
    *,
    sigma: float,
    largest_norm: float,
    largest_label: float,
    initial_loss: float,
    epsilon: float,
    delta: float = 0.1,
) -> float:
    """Return Theorem 4's number of iterations with its hidden factor set to 1.

    The result: B⁸ ℓ (nd)^{5/2} (f(0)+1)² / (σ⁵ ε^{5/2}) times the fourth power of the logarithm.
    """
    penalty = sqrt(sigma**2 * epsilon / (n * d))
    ell = _gradient_lipschitz(penalty, largest_norm, largest_label, initial_loss)
    main = largest_norm**8 * ell * (n * d) ** 2.5 * (initial_loss + 1) ** 2 / (sigma**5 * epsilon**2.5)
    inside = largest_norm * n * (2 * d + 2) * d * ell * (initial_loss + 1) ** 2 / (epsilon**2 * delta * sigma)
    return float(main * log(max(inside, e)) ** 4)


def _gradient_lipschitz(
    penalty: float, largest_norm: float, largest_label: float, initial_loss: float
) -> float:
    """Return ℓ, at least 1: the gradient's Lipschitz constant on the level set (proof of Theorem 4)."""
    quartic = 3 * largest_norm**4 * 2 * (initial_loss + 1) / penalty
    return max(quartic + largest_label * largest_norm**2 + penalty, 1.0)
