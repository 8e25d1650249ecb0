"""What Theorem 4 gives to perturbed gradient descent, and the number of iterations it predicts.

Problem     [GWZ20]_ proves that Algorithm 1 memorises when its input is made from the data in a certain way. What are
            these numbers for given data?
Idea        Theorem 4 turns B = max‖x‖, Y = max|y|, f(0), σ = σ_min([x_j⊗x_j]) and the wanted loss ε into the penalty
            γ = √(σ²ε/(nd)), a bound ℓ of the gradient's Lipschitz constant and a bound ρ of the Hessian's. Line 1 of
            Algorithm 1 makes step, radius and thresholds from these.
Guarantee   These are the paper's own statements with its own constants; an O(1) factor that it does not give is set
            to 1, and the docstring of the function says so.
Notation    All in the solver's units: rows of root-mean-square norm 1, labels of root mean square 1.
Departures  Theorem 4's text passes ε to Algorithm 1, its proof passes ε' = (σ²ε/(nd))^{5/4} / (6B⁴√(2(f(0)+1))). The
            proof's is used, because the bound on the final loss needs it.
Cost        A few operations on numbers.
References  [GWZ20]_
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import e, log, sqrt

from planted.memorization.printed import DescentConstants, DescentInput, descent_constants
from planted.outcomes import BadInputError

__all__ = ["TheoremConstants", "predicted_iterations", "theorem_constants", "theorem_input"]


@dataclass(frozen=True, slots=True)
class TheoremConstants(DescentConstants):
    """The constants of Algorithm 1 under Theorem 4, with the penalty of the function it runs on."""

    penalty: float  # γ, the weight of ‖W‖²/2 in g


def theorem_input(
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
) -> tuple[float, DescentInput]:
    """Return the penalty γ of Theorem 4 and the input that it gives to Algorithm 1.

    `c` is the theorem's absolute constant, at most an unknown c_max; 1 is the largest that the proof allows.
    """
    if not sigma > 0:
        raise BadInputError(
            f"the smallest singular value of [x⊗x] is {sigma}; Theorem 4 needs it positive. "
            "Add a small noise to the inputs or use constants='practical'."
        )
    share = sigma**2 * epsilon / (n * d)
    bound = 6 * largest_norm**4 * sqrt(2 * (initial_loss + 1))
    penalty = sqrt(share)
    given = DescentInput(
        ell=_gradient_lipschitz(penalty, largest_norm, largest_label, initial_loss),
        rho=bound * share**-0.25,
        epsilon=share**1.25 / bound,  # ε' of the proof
        c=c,
        delta=delta,
        gap=initial_loss + 1.0,
    )
    return penalty, given


def theorem_constants(n: int, d: int, **facts: float) -> TheoremConstants:
    """Return the constants that Algorithm 1 uses under Theorem 4; the facts are those of `theorem_input`.

    Examples
    --------
    >>> constants = theorem_constants(300, 100, sigma=0.8, largest_norm=1.0, largest_label=1.0,
    ...                               initial_loss=1 / 12, epsilon=1e-2)
    >>> constants.step < 1e-4, constants.wait > 1e9
    (True, True)
    """
    penalty, given = theorem_input(n, d, **facts)
    return TheoremConstants(**asdict(descent_constants(d, given)), penalty=penalty)


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
    """Return Theorem 4's number of iterations, with its hidden factor set to 1.

    This is B⁸ ℓ (nd)^{5/2} (f(0)+1)² / (σ⁵ ε^{5/2}) times the fourth power of a logarithm.
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
