r"""Symmetric tensors of orders 0 to 4 in the form in which they are summed, contracted and matched.

With He_j(x) the order-j Hermite tensor of the probabilists' convention, the Hermite coefficients of a function y of
normal inputs are :math:`T_j = E[y\, He_j(x)]`. Orders 3 and 4 are kept as D × d and D × D matrices, D = d(d+1)/2. Two
slots at a time are vectorised with factor √2 off the diagonal (`svec`), so that Frobenius norms are kept and no array
of d⁴ numbers is formed. For a unit :math:`a\,\sigma(w^\top x + b)` with unit w

.. math:: T_j = a\, \eta_j(b)\, w^{\otimes j}, \qquad \eta_0 = b\Phi + \varphi,\quad \eta_1 = \Phi,\quad
          \eta_j = (-1)^j He_{j-2}(b)\, \varphi(b)\ (j \ge 2), \qquad \eta_j' = \eta_{j+1}            \quad (1)

(Lemma 3.5 of [ATV21]_). The maps between products of inputs and Hermite tensors are those of the recursion

.. math:: He_{j+1}(x)[\theta] = (\theta^\top x)\, He_j(x) - \textstyle\sum_{slots} \theta \otimes He_{j-1}(x).\ (2)

The tests compare them with (1) and with simulation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from planted._typing import Array
from planted.linalg.symmetric import smat, svec, svec_outer, symmetric_pairs, triangle_weights

__all__ = [
    "HermiteTensors",
    "add_slot",
    "contract_slot",
    "hermite_values",
    "relu_coefficients",
    "to_fourth",
    "to_third",
]


@dataclass(frozen=True, slots=True)
class HermiteTensors:
    """Hermite coefficients of orders 0 to 4 of m outputs."""

    zeroth: Array  # (m,): T_0
    first: Array  # (m, d): T_1
    second: Array  # (m, d, d): T_2
    third: Array  # (m, D, d): T_3, two slots vectorised, D = d(d+1)/2
    fourth: Array  # (m, D, D): T_4, two and two slots vectorised

    def minus(self, other: HermiteTensors) -> HermiteTensors:
        """Return the difference of two sets of tensors."""
        return HermiteTensors(*(own - its for own, its in zip(self.orders, other.orders, strict=True)))

    def plus(self, other: HermiteTensors) -> HermiteTensors:
        """Return the sum of two sets of tensors."""
        return HermiteTensors(*(own + its for own, its in zip(self.orders, other.orders, strict=True)))

    @property
    def orders(self) -> tuple[Array, ...]:
        """The tensors by order, 0 to 4."""
        return self.zeroth, self.first, self.second, self.third, self.fourth

    def embed(self, span: Array) -> HermiteTensors:
        """Return the tensors of a function of V'x as tensors in x: V is put into every slot.

        Shapes: span (e, d).
        """
        pairs = _map_pairs(span)
        return HermiteTensors(
            self.zeroth,
            self.first @ span.T,
            span @ self.second @ span.T,
            pairs @ self.third @ span.T,
            pairs @ self.fourth @ pairs.T,
        )

    def along(self, W: Array, top: int) -> Array:
        """Contract every order with w in all its slots: E[y He_j(w'x)] for unit w.

        Shapes: W (k, d), result (top + 1, m, k).
        """
        squares = svec_outer(W)
        values = np.zeros((max(top, 4) + 1, len(self.first), len(W)))
        values[0] = self.zeroth[:, None]
        values[1] = self.first @ W.T
        values[2] = np.einsum("mab,ka,kb->mk", self.second, W, W)
        values[3] = np.einsum("mab,ka,kb->mk", self.third, squares, W)
        values[4] = np.einsum("mab,ka,kb->mk", self.fourth, squares, squares)
        return values[: top + 1]

    def contract_third(self, theta: Array) -> Array:
        """Contract T_3 once.

        Shapes: theta (d,), result (m, d, d).
        """
        return smat(self.third @ theta)

    def contract_fourth(self, Theta: Array) -> Array:
        """Contract T_4 with a symmetric matrix.

        Shapes: Theta (d, d), result (m, d, d).
        """
        return smat(self.fourth @ svec(Theta))


def hermite_values(t: Array, top: int) -> Array:
    r"""Return He_0(t), ..., He_top(t).

    Shapes: result (top + 1, \*t.shape).
    """
    values = np.empty((top + 1, *t.shape))
    values[0] = 1.0
    if top:
        values[1] = t
    for degree in range(1, top):
        values[degree + 1] = t * values[degree] - degree * values[degree - 1]
    return values


def relu_coefficients(b: Array, top: int) -> Array:
    """Return η_0(b), ..., η_top(b) of (1): the Hermite coefficients of σ(t + b) for standard normal t.

    Shapes: b (k,), result (top + 1, k).
    """
    density = np.exp(-(b**2) / 2) / np.sqrt(2 * np.pi)
    below = special.ndtr(b)
    signs = np.where(np.arange(top - 1) % 2 == 0, 1.0, -1.0)
    high = hermite_values(b, max(top - 2, 0))[: top - 1] * signs[:, None] * density
    return np.vstack([b * below + density, below, high])


def to_third(pairs: Array, first: Array) -> Array:
    """Return E[u He_3] from E[u h x'], h = svec(xx' - I), and E[u x].

    Shapes: pairs (..., D, d), first (..., d), result (..., D, d).
    """
    d = first.shape[-1]
    i, j = symmetric_pairs(d)
    entries, weights = np.arange(len(i)), triangle_weights(d)
    third = pairs.copy()
    third[..., entries, i] -= weights * first[..., j]
    third[..., entries, j] -= weights * first[..., i]
    return third


def to_fourth(squares: Array, second: Array, zeroth: Array) -> Array:
    """Return E[u He_4] from E[u h h'], E[u He_2] and E[u].

    Shapes: squares (D, D), second (d, d), zeroth (), result (D, D).
    """
    d = len(second)
    i, j = symmetric_pairs(d)
    identity = np.eye(d)
    mixed = np.zeros_like(squares)
    for left, other in ((i, j), (j, i)):
        for right, last in ((i, j), (j, i)):
            mixed += identity[np.ix_(left, right)] * second[np.ix_(other, last)]
    weights = triangle_weights(d)
    return squares - np.outer(weights, weights) * mixed - 2.0 * zeroth * np.eye(len(squares))


def add_slot(v: Array, tensor: Array) -> Array:
    """Return the sum over slots of v ⊗ T for T of order 1 (a vector) or 3 (D × d).

    Shapes: v (d,), tensor (d,), result (d, d).
    """
    if tensor.ndim == 1:
        return np.outer(v, tensor) + np.outer(tensor, v)
    i, j = symmetric_pairs(len(v))
    turned = tensor.T  # one slot first, two vectorised
    half = triangle_weights(len(v))[:, None] * (v[i][:, None] * turned[j] + v[j][:, None] * turned[i])
    return half + half.T


def contract_slot(tensor: Array, v: Array, order: int) -> Array:
    """Contract one slot of a tensor of order 2 (d × d) or 4 (D × D).

    Shapes: tensor (d, d), v (d,), result (d,).
    """
    return (tensor if order == 2 else smat(tensor)) @ v


def _map_pairs(V: Array) -> Array:
    """Return the matrix of svec(S) to svec(V S V')."""
    (i, j), (p, q) = symmetric_pairs(len(V)), symmetric_pairs(V.shape[1])
    both = (V[np.ix_(i, p)] * V[np.ix_(j, q)] + V[np.ix_(i, q)] * V[np.ix_(j, p)]) / 2
    return both * np.outer(triangle_weights(len(V)), triangle_weights(V.shape[1]))
