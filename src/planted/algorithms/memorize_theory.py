"""The numbers of the theorems on memorising, computed for the data at hand.

Problem     [GWZ20]_ proves that perturbed gradient descent memorises under conditions on the inputs, with constants
            that follow from them. What do these conditions and constants amount to on given data?
Idea        Lemma 1 bounds the loss by the most negative curvature: if the smallest Hessian eigenvalue is -ε, the
            loss is at most ndε²/(4σ²) with σ = σ_min([x_j⊗x_j]). Lemma 3 says that this eigenvalue is -max|λ(M)|
            with M = (1/n) Σ δ_j x_j x_j' as soon as there are 2d+2 units. Theorem 4 turns B = max‖x‖, Y = max|y|,
            f(0), σ and the wanted loss ε into the constants of Algorithm 1. Lemma 13 bounds σ_min for random
            features of perturbed inputs from below.
Guarantee   These are the paper's own statements with its own constants; O(1) factors it does not give are set to 1
            and said so.
Notation    paper: r units, d inputs, X = [x^{⊗2}];  here: k units, q columns of Z, σ² = smallest eigenvalue of K.
            All in the solver's units: rows of root-mean-square norm 1, labels of root mean square 1.
Departures  Theorem 4's text passes ε to Algorithm 1, its proof passes ε' = (σ²ε/(nd))^{5/4} / (6B⁴√(2(f(0)+1)));
            the proof's is used, because the bound on the final loss needs it.
Cost        One Hessian product is one kernel product, 2nq² flops; Lanczos needs some tens of them.
References  [GWZ20]_
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, factorial, log, sqrt

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from planted._typing import Array
from planted.algorithms.memorize_task import quadratic_forms, weighted_gram
from planted.outcomes import BadInputError

__all__ = [
    "DescentConstants",
    "curvature_matrix",
    "hessian_product",
    "landscape_bound",
    "predicted_iterations",
    "smallest_hessian_eigenvalue",
    "smoothed_singular_value_bound",
    "theorem_constants",
]


@dataclass(frozen=True, slots=True)
class DescentConstants:
    """The constants of perturbed gradient descent, Algorithm 1.

    Parameters
    ----------
    penalty : float
        γ, the weight of ‖W‖²/2 in the objective.
    step : float
        η, the step size.
    radius : float
        r, of the ball from which a perturbation is drawn.
    gradient_threshold : float
        g_thres, below which a perturbation is due.
    decrease_threshold : float
        f_thres, the decrease that shows that a saddle was left.
    wait : float
        t_thres, the iterations given to leave it.
    """

    penalty: float
    step: float
    radius: float
    gradient_threshold: float
    decrease_threshold: float
    wait: float


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

    Parameters
    ----------
    n, d : int
        Samples and inputs.
    sigma : float
        Smallest singular value of [x⊗x].
    largest_norm, largest_label, initial_loss : float
        The theorem's B, Y and f(0).
    epsilon : float
        The loss wanted.
    delta : float
        Probability of failure.
    c : float
        The theorem's absolute constant, at most an unknown c_max; 1 is the largest the proof allows.

    Returns
    -------
    DescentConstants
        Step, radius and thresholds.

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
    ell = max(
        3 * largest_norm**4 * 2 * (initial_loss + 1) / penalty + largest_label * largest_norm**2 + penalty,
        1.0,
    )
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

    Parameters
    ----------
    n, d : int
        Samples and inputs.
    sigma : float
        Smallest singular value of [x⊗x].
    largest_norm, largest_label, initial_loss : float
        The theorem's B, Y and f(0).
    epsilon : float
        The loss wanted.
    delta : float
        Probability of failure.

    Returns
    -------
    float
        B⁸ ℓ (nd)^{5/2} (f(0)+1)² / (σ⁵ ε^{5/2}) times the fourth power of the logarithm.
    """
    penalty = sqrt(sigma**2 * epsilon / (n * d))
    ell = max(
        3 * largest_norm**4 * 2 * (initial_loss + 1) / penalty + largest_label * largest_norm**2 + penalty,
        1.0,
    )
    main = largest_norm**8 * ell * (n * d) ** 2.5 * (initial_loss + 1) ** 2 / (sigma**5 * epsilon**2.5)
    inside = largest_norm * n * (2 * d + 2) * d * ell * (initial_loss + 1) ** 2 / (epsilon**2 * delta * sigma)
    return float(main * log(max(inside, np.e)) ** 4)


def curvature_matrix(Z: Array, residual: Array) -> Array:
    """Return M = (1/n) Σ δ_j z_j z_j' of Lemmas 3 and 4.

    Parameters
    ----------
    Z : ndarray of shape (n, q)
        Rows.
    residual : ndarray of shape (n,)
        δ, output minus label.

    Returns
    -------
    ndarray of shape (q, q)
        The matrix; its spectral norm is minus the smallest Hessian eigenvalue for 2q+2 or more units.
    """
    return weighted_gram(Z, residual / len(Z))


def landscape_bound(n: int, d: int, *, curvature: float, sigma: float) -> float:
    """Return Lemma 1's bound on the loss.

    Parameters
    ----------
    n, d : int
        Samples and inputs.
    curvature : float
        Minus the smallest eigenvalue of the Hessian.
    sigma : float
        Smallest singular value of [x⊗x].

    Returns
    -------
    float
        n d curvature² / (4 σ²); infinite if σ is zero.
    """
    return n * d * curvature**2 / (4 * sigma**2) if sigma > 0 else float("inf")


def hessian_product(Z: Array, curvature: Array, *, W: Array, a: Array, direction: Array) -> Array:
    """Return the Hessian of the loss at W times a direction.

    Parameters
    ----------
    Z : ndarray of shape (n, q)
        Rows.
    curvature : ndarray of shape (q, q)
        (1/n) Σ δ_j z_j z_j' at W, of `curvature_matrix`.
    W : ndarray of shape (k, q)
        Units.
    a : ndarray of shape (k,)
        Their signs.
    direction : ndarray of shape (k, q)
        The direction V.

    Returns
    -------
    ndarray of shape (k, q)
        ``a ∘ (V M_δ) + 2 a ∘ (W M_g)`` with g_j = z_j'(W'diag(a)V)z_j (appendix C).
    """
    mixed = W.T @ (a[:, None] * direction)
    response = quadratic_forms(Z, (mixed + mixed.T) / 2)
    return np.asarray(a[:, None] * (direction @ curvature + 2 * W @ weighted_gram(Z, response / len(Z))))


def smallest_hessian_eigenvalue(
    Z: Array, y: Array, *, W: Array, a: Array, start: Array, max_restarts: int = 20
) -> float:
    """Return the smallest Hessian eigenvalue by Lanczos iterations.

    Parameters
    ----------
    Z : ndarray of shape (n, q)
        Rows.
    y : ndarray of shape (n,)
        Labels.
    W : ndarray of shape (k, q)
        Units.
    a : ndarray of shape (k,)
        Their signs.
    start : ndarray of shape (k, q)
        First direction. Near a memorising network the eigenvalue is tiny beside the largest one, and only a start
        that lives on zero units, which the Hessian maps to themselves, finds it.
    max_restarts : int
        Largest number of restarts.

    Returns
    -------
    float
        The eigenvalue; NaN if the iteration did not converge.
    """
    curvature = curvature_matrix(Z, quadratic_forms(Z, W.T @ (a[:, None] * W)) - y)

    def multiply(v: Array) -> Array:
        return hessian_product(Z, curvature, W=W, a=a, direction=v.reshape(W.shape)).ravel()

    operator = LinearOperator((W.size, W.size), matvec=multiply, dtype=float)
    settings = {"ncv": min(W.size, 40), "maxiter": max_restarts, "tol": 1e-8}
    try:
        (value,) = eigsh(operator, k=1, which="SA", v0=start.ravel(), return_eigenvectors=False, **settings)
    except ArpackError:
        return float("nan")
    return float(value)


def smoothed_singular_value_bound(
    n: int, d: int, *, n_random: int, power: int, variance: float, delta: float = 0.1
) -> float:
    """Return Lemma 13's lower bound on σ_min([z⊗z]) for features of perturbed inputs.

    Parameters
    ----------
    n, d : int
        Samples and inputs.
    n_random : int
        Number of random features.
    power : int
        Their power p.
    variance : float
        Variance of the Gaussian perturbation of each input.
    delta : float
        Probability of failure, up to the factor the lemma hides.

    Returns
    -------
    float
        The bound of equation (4); 0 where its conditions fail.

    Examples
    --------
    >>> 0 < smoothed_singular_value_bound(50, 40, n_random=15, power=2, variance=0.01) < 1e-10
    True
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
