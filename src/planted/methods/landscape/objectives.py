r"""Objectives for one-hidden-layer networks whose landscapes can be compared: ℓ2, f′, P′, G, F and F_δ.

Problem     y = Σ a*_i σ(b*_i'x) + noise, x ~ N(0, I), unit rows b*_i. Each objective is a function of hidden rows W
            (and, for ℓ2 and f′, of output weights a) whose minimum shows the truth; they differ in what else they have.
Idea        With T_j = Σ a*_i b*_i^{⊗j} and f_j = ‖T_j - Σ a_i w_i^{⊗j}‖²:

            .. math::
                \ell_2 &= E(y - \sum a_i \sigma(w_i'x))^2 = \sum_j \hat\sigma_j^2 f_j + const             \quad (2.3) \\
                f'     &= \omega_2 f_2 + \omega_4 f_4, \quad \omega_j = \hat\sigma_j^2 \text{ unless given} \quad (2.6) \\
                P'     &= \sum_i a^*_i \sum_{j<l} \langle b^*_i, w_j\rangle^2 \langle b^*_i, w_l\rangle^2 \quad (3.4) \\
                G      &= \sqrt{24}|\hat\sigma_4| \big( \tfrac12 \sum_{j \ne l} T_4(w_j^2 w_l^2)
                          - \tfrac{\mu}{24} \sum_j T_4(w_j^4) \big) + \lambda \sum_j (|w_j|^2 - 1)^2        \quad (2.7) \\
                F      &= \text{the same with } \lambda \sum_j (w_j'T_2w_j - 1)^2                          \quad (C.1) \\
                F_\delta &= F + \tfrac{\delta}{2} |W|^2                                                    \quad (C.5)

            Population and samples differ in the tensors alone (`_targets`). ℓ2 and f′ have rows of unit norm.
Guarantee   Theorem 2.3 (G, orthonormal b*, a* > 0): local minima are signed permutations of the truth. Theorem C.4
            (F): any full-rank b* with k = d. ℓ2: none, it has bad minima. f′: conjectured none.
Notation    paper: B, a, μ, λ, δ; ours ``W``, ``a``, ``mu``, ``lam``, ``delta``.
Departures  The constants of G are those that (2) of `_targets` implies: half of the printed ones. In F the square is a
            product of two independent estimates, as printed; in the population they are equal. P′ counts each pair once.
Cost        O(k² d) in the population; one pass over the samples, O(n d k), for a value with its gradient.
References  [GLM18]_
"""

from __future__ import annotations

from typing import Any

import numpy as np

from planted._typing import Array
from planted._validation import check_choice
from planted.methods.landscape._coefficients import hermite_coefficients
from planted.methods.landscape._designs import (
    ConstrainedDesign,
    GeneralDesign,
    Objective,
    OrthogonalDesign,
    PairPotential,
    TensorFit,
)
from planted.methods.landscape._risk import PopulationRisk, SampleRisk
from planted.methods.landscape._targets import PopulationTarget, Target, sample_target
from planted.networks import Activation, parse_activation
from planted.outcomes import BadInputError
from planted.rows import RowBlocks

__all__ = [
    "OBJECTIVES",
    "THEOREM_C",
    "ConstrainedDesign",
    "GeneralDesign",
    "Objective",
    "OrthogonalDesign",
    "PairPotential",
    "TensorFit",
    "designed_objective",
    "hermite_coefficients",
    "population_objective",
    "sample_objective",
    "theorem_weights",
]

OBJECTIVES = ("l2", "f'", "P'", "G", "F")
THEOREM_C = 0.01  # the constant c of Theorems 2.3, B.1 and C.4


def population_objective(
    name: str, W_true: Array, a_true: Array, *, activation: str | Activation = "relu", **options: Any
) -> Objective:
    """Return an objective in its population form for a known truth and standard normal inputs.

    Options are ``weights`` of f′, ``mu`` and ``lam`` of G and F, ``delta`` of F, and ``has_unit_rows`` of G. Shapes:
    W_true (k, d), a_true (k,).
    """
    sigma = parse_activation(activation)
    W, a = np.asarray(W_true, dtype=np.float64), np.asarray(a_true, dtype=np.float64)
    if name == "l2":
        return PopulationRisk(W, a, sigma)
    if np.abs(np.linalg.norm(W, axis=1) - 1.0).max(initial=0.0) > 1e-9:
        raise BadInputError(f"objective {name!r} needs unit rows of the truth; normalise them and scale a")
    coefficients = hermite_coefficients(sigma, 4)
    target = PopulationTarget(W, a, (float(coefficients[2]), float(coefficients[4])))
    sizes = np.abs(a)
    return designed_objective(
        name, target, largest=float(sizes.max()), smallest=float(sizes.min()), **options
    )


def sample_objective(
    name: str,
    rows: RowBlocks,
    *,
    activation: str | Activation = "relu",
    degree: int = 2,
    scale: float = 1.0,
    **options: Any,
) -> Objective:
    """Return an objective over whitened samples; its values lack a constant for f′.

    `degree` is that of the least-squares fit that is subtracted from y first, `scale` about the size of an output weight,
    for the default of ``lam``.
    """
    sigma = parse_activation(activation)
    if name == "l2":
        return SampleRisk(rows, sigma)
    if degree not in (0, 1, 2):
        raise BadInputError(f"degree={degree}; expected 0, 1 or 2")
    target = sample_target(rows, sigma, degree=degree)
    return designed_objective(name, target, largest=scale, smallest=scale, **options)


def theorem_weights(name: str, fourth: float, *, largest: float, smallest: float) -> tuple[float, float]:
    """Return the largest μ and the smallest λ for which Theorem B.1 holds, with the corrected constants.

    With α = √6 |σ̂_4| a* and β = α/12 the theorem needs μ ≤ c α_min/β_max and λ ≥ 4 max(μ β_max, α_max). For F the output
    weights are replaced by their inverses (Theorem C.2).
    """
    alpha = np.sqrt(6.0) * abs(fourth) * (largest if name == "G" else 1.0 / smallest)
    mu = THEOREM_C * 12.0 * smallest / largest
    return mu, 4.0 * float(max(mu * alpha / 12.0, alpha))


def designed_objective(
    name: str, target: Target, *, largest: float = 1.0, smallest: float = 1.0, **options: Any
) -> Objective:
    """Return one of the designed objectives for given tensors; activations that do not show in them are refused."""
    check_choice("objective", name, OBJECTIVES)
    second, fourth = target.hermite
    needed = {"order 4": fourth} | ({"order 2": second} if name in ("F", "f'") else {})
    for order, value in needed.items():
        if value == 0.0:
            raise BadInputError(
                f"the Hermite coefficient of {order} of the activation is zero, so objective {name!r} sees nothing of the "
                "network; use objective='l2', or an activation with an even part"
            )
    try:
        if name == "f'":
            return TensorFit(target, tuple(options.pop("weights", (second**2, fourth**2))), **options)
        if name == "P'":
            return PairPotential(target, **options)
        mu, lam = theorem_weights(name, fourth, largest=largest, smallest=smallest)
        mu, lam = options.pop("mu", mu), options.pop("lam", lam)
        if name == "G":
            return OrthogonalDesign(target, mu, lam, **options)
        return GeneralDesign(target, mu, lam, options.pop("delta", 0.0), **options)
    except TypeError as error:
        raise BadInputError(f"objective {name!r} does not know the options {sorted(options)}") from error
