r"""Hermite coefficients of activations: all that normal inputs show of them.

Problem     σ̂_j = E[σ(t) h_j(t)] for standard normal t and the *normalised* Hermite polynomials h_j = He_j/√j!.
Idea        ReLU, |t| and leaky ReLUs are κ|t| + ςt with |t| = 2t₊ - t, so that their coefficients are those of the ReLU,
            η_j(0) of (1) in `planted.moments.relu_coefficients`:

            .. math:: \hat\sigma_j = 2\kappa\, \eta_j(0) / \sqrt{j!}\ (j \ne 1), \qquad \hat\sigma_1 = \varsigma . \quad (1)

            Other activations by Gauss–Legendre panels on [-14, 14] that end at zero, so that a kink there costs no digits.
Guarantee   Quadrature to 1e-13 for functions that are smooth off zero and grow no faster than a power.
Notation    paper: σ̂_k; ours ``coefficients[k]``.
Cost        O(nodes · order).
References  [GLM18]_
"""

from __future__ import annotations

from functools import lru_cache
from math import factorial

import numpy as np

from planted._typing import Array
from planted.moments import hermite_values, relu_coefficients
from planted.networks import Activation, parse_activation
from planted.outcomes import BadInputError

__all__ = ["hermite_coefficients", "hermite_polynomials", "quadrature_nodes"]

REACH, PANELS, NODES = 14.0, 56, 20  # φ(14) = 1e-43; panels of width 1/2
VANISHING = 1e-12  # a coefficient below is rounding error of the quadrature


def hermite_coefficients(activation: str | Activation, order: int) -> Array:
    """Return the coefficients of an activation on normalised Hermite polynomials, of orders 0 to ``order``.

    Those below the accuracy of the quadrature are zero. Shapes: result (order + 1,).
    """
    if order < 0:
        raise BadInputError(f"order={order}; expected zero or more")
    parsed = parse_activation(activation)
    if parsed.is_piecewise_linear:
        eta = relu_coefficients(np.zeros(1), max(order, 1))[: order + 1, 0]
        values = 2 * parsed.kink * eta / _root_factorials(order) + 0.0  # (1)
        values[1:2] = parsed.slope
        return np.asarray(values)
    t, weights = quadrature_nodes()
    values = hermite_polynomials(t, order) @ (weights * parsed(t))
    return np.where(np.abs(values) < VANISHING, 0.0, values)


def hermite_polynomials(t: Array, order: int) -> Array:
    """Return the normalised Hermite polynomials h_0 … h_order.

    Shapes: t (n,), result (order + 1, n).
    """
    return np.asarray(hermite_values(t, order) / _root_factorials(order)[:, None])


@lru_cache(maxsize=1)
def quadrature_nodes() -> tuple[Array, Array]:
    """Return nodes and weights for expectations of a standard normal variable, split at zero."""
    x, w = np.polynomial.legendre.leggauss(NODES)
    edges = np.linspace(-REACH, REACH, PANELS + 1)
    half = REACH / PANELS
    t = ((edges[:-1] + edges[1:])[:, None] / 2 + half * x).ravel()
    weights = np.tile(half * w, PANELS) * np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)
    return t, weights


def _root_factorials(order: int) -> Array:
    return np.sqrt([float(factorial(j)) for j in range(order + 1)])
