"""The numbers of the theorems on memorising, computed for the data at hand.

Problem     [GWZ20]_ proves that perturbed gradient descent memorises under conditions on the inputs. How far are
            these conditions met by given data, and what does the landscape look like where a solver ended?
Idea        Lemma 1 bounds the loss by the most negative curvature: if the smallest Hessian eigenvalue is -ε, the loss
            is at most ndε²/(4σ²) with σ = σ_min([x_j⊗x_j]). Lemma 3 says that this eigenvalue is -max|λ(M)| with
            M = (1/n) Σ δ_j x_j x_j' as soon as there are 2d+2 units. Lemma 13 bounds σ_min for random features of
            perturbed inputs from below. Theorem 4 turns B = max‖x‖, Y = max|y|, f(0), σ and the wanted loss ε into the
            penalty γ = √(σ²ε/(nd)), a bound ℓ of the gradient's Lipschitz constant and a bound ρ of the Hessian's, from
            which line 1 of Algorithm 1 makes step, radius and thresholds (`TheoremFacts`).
Guarantee   These are the paper's own statements with its own constants; an O(1) factor that it does not give is set
            to 1, and the docstring of the function says so.
Notation    paper: r units, d inputs, X = [x^{⊗2}];  here: k units, q columns of Z, σ² = smallest eigenvalue of K. All
            in the solver's units: rows of root-mean-square norm 1, labels of root mean square 1.
Departures  The bound of Lemma 13 is used with the hidden factor of its probability set to 1. Theorem 4's text passes ε
            to Algorithm 1, its proof passes ε' = (σ²ε/(nd))^{5/4} / (6B⁴√(2(f(0)+1))). The proof's is used, because the
            bound on the final loss needs it.
Cost        One Hessian product is one kernel product, 2nq² flops; Lanczos needs some tens of them.
References  [GWZ20]_
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from math import comb, e, factorial, log, sqrt
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from planted._typing import Array
from planted.memorization._task import quadratic_forms, weighted_gram
from planted.memorization.printed import DescentInput
from planted.outcomes import BadInputError

__all__ = [
    "TheoremFacts",
    "curvature_matrix",
    "extreme_eigenvalue",
    "hessian_product",
    "landscape_bound",
    "smallest_hessian_eigenvalue",
    "smoothed_singular_value_bound",
]


def curvature_matrix(Z: Array, residual: Array) -> Array:
    """Return M = (1/n) Σ δ_j z_j z_j' of Lemmas 3 and 4.

    With 2q+2 or more units its spectral norm is minus the smallest Hessian eigenvalue. Shapes: Z (n, q),
    residual (n,), result (q, q).
    """
    return weighted_gram(Z, residual / len(Z))


def landscape_bound(n: int, d: int, *, curvature: float, sigma: float) -> float:
    """Return Lemma 1's bound on the loss."""
    return n * d * curvature**2 / (4 * sigma**2) if sigma > 0 else float("inf")


def hessian_product(Z: Array, curvature: Array, *, W: Array, a: Array, direction: Array) -> Array:
    """Return the Hessian of the loss at W times a direction V.

    This is ``a ∘ (V M_δ) + 2 a ∘ (W M_g)`` with g_j = z_j'(W'diag(a)V)z_j (appendix C). Shapes: Z (n, q),
    curvature (q, q), W (k, q), a (k,), direction (k, q), result (k, q).
    """
    mixed = W.T @ (a[:, None] * direction)
    response = quadratic_forms(Z, (mixed + mixed.T) / 2)
    return np.asarray(a[:, None] * (direction @ curvature + 2 * W @ weighted_gram(Z, response / len(Z))))


def smallest_hessian_eigenvalue(
    Z: Array,
    y: Array,
    *,
    W: Array,
    a: Array,
    start: Array,
    max_restarts: int = 20,
    rng: np.random.Generator | None = None,
) -> float:
    """Return the smallest Hessian eigenvalue by Lanczos iterations, or NaN if they do not converge.

    Near a memorising network the eigenvalue is tiny beside the largest one, and only a `start` that lives on zero
    units, which the Hessian maps to themselves, finds it. Shapes: Z (n, q), y (n,), W (k, q), a (k,), start (k, q).
    """
    curvature = curvature_matrix(Z, quadratic_forms(Z, W.T @ (a[:, None] * W)) - y)

    def multiply(v: Array) -> Array:
        return hessian_product(Z, curvature, W=W, a=a, direction=v.reshape(W.shape)).ravel()

    settings = {"ncv": min(W.size, 40), "maxiter": max_restarts, "tol": 1e-8}
    try:
        return extreme_eigenvalue(multiply, start.ravel(), which="SA", rng=rng, **settings)
    except ArpackError:
        return float("nan")


def extreme_eigenvalue(
    multiply: Callable[[Array], Array],
    start: Array,
    *,
    which: str,
    rng: np.random.Generator | None,
    **settings: Any,
) -> float:
    """Return the largest (`which` "LA") or smallest ("SA") eigenvalue of a symmetric operator.

    The iterations are those of ARPACK. Where they find an invariant subspace they go on in a random direction, which
    SciPy draws from `rng` since version 1.17 and from a fixed seed before.
    """
    operator = LinearOperator((start.size, start.size), matvec=multiply, dtype=float)
    if "rng" in signature(eigsh).parameters:
        settings["rng"] = rng
    (value,) = eigsh(operator, k=1, which=which, v0=start, return_eigenvectors=False, **settings)
    return float(value)


def smoothed_singular_value_bound(
    n: int, d: int, *, n_random: int, power: int, variance: float, delta: float = 0.1
) -> float:
    """Return Lemma 13's lower bound on σ_min([z⊗z]) for features of perturbed inputs, or 0 where it says nothing.

    The factor that the paper hides in the probability is set to 1.
    """
    symmetric = comb(d + power - 1, power)
    room = comb(d + 2 * power - 1, 2 * power) - n_random * symmetric * comb(2 * power, power)
    spare = comb(n_random + 1, 2) - n
    if room <= 0 or spare <= 0:
        return 0.0
    front = (room * spare / factorial(4 * power) ** 3) ** 0.25
    return float(
        front * variance**power * delta ** (4 * power) / (n ** (2 * power + 0.5) * n_random ** (4.0 * power))
    )


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
