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

from dataclasses import dataclass
from math import e, log, sqrt

from planted.memorization.printed import DescentInput
from planted.outcomes import BadInputError

__all__ = ["TheoremFacts"]


@dataclass(frozen=True, slots=True)
class TheoremFacts:
    """What Theorem 4 is told of the data and of what is wanted; the constants of Algorithm 1 follow from it."""

    n: int
    d: int
    sigma: float  # σ_min([x_j⊗x_j])
    largest_norm: float  # B
    largest_label: float  # Y
    initial_loss: float  # f(0)
    epsilon: float  # the loss that is wanted
    delta: float = 0.1  # the probability of failure

    @property
    def penalty(self) -> float:
        """γ, the weight of ‖W‖²/2 in g."""
        return sqrt(self.sigma**2 * self.epsilon / (self.n * self.d))

    @property
    def gradient_lipschitz(self) -> float:
        """ℓ, at least 1: the gradient's Lipschitz constant on the level set (proof of Theorem 4)."""
        quartic = 3 * self.largest_norm**4 * 2 * (self.initial_loss + 1) / self.penalty
        return max(quartic + self.largest_label * self.largest_norm**2 + self.penalty, 1.0)

    def descent_input(self) -> DescentInput:
        """Return the input that Theorem 4 gives to Algorithm 1.

        The theorem's absolute constant c is at most an unknown c_max; 1 is the largest that the proof allows.
        """
        if not self.sigma > 0:
            raise BadInputError(
                f"the smallest singular value of [x⊗x] is {self.sigma}; Theorem 4 needs it positive. "
                "Add a small noise to the inputs or use constants='practical'."
            )
        share = self.sigma**2 * self.epsilon / (self.n * self.d)
        bound = 6 * self.largest_norm**4 * sqrt(2 * (self.initial_loss + 1))
        return DescentInput(
            ell=self.gradient_lipschitz,
            rho=bound * share**-0.25,
            epsilon=share**1.25 / bound,  # ε' of the proof
            c=1.0,
            delta=self.delta,
            gap=self.initial_loss + 1.0,
        )

    def predicted_iterations(self) -> float:
        """Return Theorem 4's number of iterations, with its hidden factor set to 1.

        This is B⁸ ℓ (nd)^{5/2} (f(0)+1)² / (σ⁵ ε^{5/2}) times the fourth power of a logarithm.
        """
        n, d, B, ell, rise = self.n, self.d, self.largest_norm, self.gradient_lipschitz, self.initial_loss + 1
        main = B**8 * ell * (n * d) ** 2.5 * rise**2 / (self.sigma**5 * self.epsilon**2.5)
        inside = B * n * (2 * d + 2) * d * ell * rise**2 / (self.epsilon**2 * self.delta * self.sigma)
        return float(main * log(max(inside, e)) ** 4)
