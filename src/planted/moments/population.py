r"""Moments of normal inputs in closed form: the limits of the sums of this package as n grows.

For x ~ N(0, Σ) the expectations behind the moment methods are elementary. They give the conditions of theorems without
sampling error; in the tests they feed the *same* algebra as sums over rows: exact moments give the exact network.
With z standard normal, x = L z for Σ = L L', :math:`u_i = L^\top w_i` and :math:`\theta_{ij}` the angle between
:math:`u_i` and :math:`u_j`:

.. math::
    E[\sigma(t_i)\sigma(t_j)] &= \tfrac{|u_i||u_j|}{2\pi} (\sin\theta + (\pi - \theta)\cos\theta)        \quad (1) \\
    E[f(z)\, z z^\top] &= E[f]\, I + E[\nabla^2 f]                                                \quad (2)

(1) is the arc-cosine kernel [Cho2009]_, (2) Stein's identity.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from planted._typing import Array, as_array
from planted.linalg.symmetric import svec, unit_rows

__all__ = ["fourth_moments", "gaussian_distinguishing_matrix", "relu_products", "relu_products_with_inputs"]


def relu_products(W: Array, U: Array, covariance: Array) -> Array:
    """Return E[σ(w_i'x) σ(u_j'x)] for x ~ N(0, Σ), equation (1).

    Shapes: W (k, d), U (l, d), covariance (d, d), result (k, l).
    """
    sizes, angles = _sizes_and_angles(W, U, covariance)
    return sizes * (np.sin(angles) + (np.pi - angles) * np.cos(angles)) / (2 * np.pi)


def relu_products_with_inputs(W: Array, covariance: Array) -> Array:
    """Return E[σ(w_i'x) σ(w_j'x) x x'] for x ~ N(0, Σ), by Stein's identity (2).

    Shapes: W (k, d), covariance (d, d), result (k, k, d, d).
    """
    _, angles = _sizes_and_angles(W, W, covariance)
    rows, norms = W @ covariance, _norms(W, covariance)
    mean = relu_products(W, W, covariance)
    on_kink = np.sin(angles) * norms[None, :] / norms[:, None] / (2 * np.pi)  # E[δ(t_i) σ(t_j)]
    both_on = (np.pi - angles) / (2 * np.pi)
    own = np.einsum("ia,ib->iab", rows, rows)
    mixed = np.einsum("ia,jb->ijab", rows, rows)
    result = mean[:, :, None, None] * covariance
    result += on_kink[:, :, None, None] * own[:, None] + on_kink.T[:, :, None, None] * own[None, :]
    return as_array(result + both_on[:, :, None, None] * (mixed + mixed.transpose(0, 1, 3, 2)))


def fourth_moments(left: Array, right: Array, covariance: Array) -> Array:
    """Return E[(a_i'x)(b_j'x) x x'] for x ~ N(0, Σ) (Isserlis).

    Shapes: left (k, d), right (l, d), covariance (d, d), result (k, l, d, d).
    """
    rows, columns = left @ covariance, right @ covariance
    mixed = np.einsum("ia,jb->ijab", rows, columns)
    return as_array((rows @ right.T)[:, :, None, None] * covariance + mixed + mixed.transpose(0, 1, 3, 2))


def gaussian_distinguishing_matrix(W: Array, covariance: Array) -> Array:
    """Return the distinguishing matrix of [GKLW19]_ for x ~ N(0, Σ).

    By Lemma 7 of the paper E[t_i t_j xx' 1{t_i t_j <= 0}] = E[t_i t_j xx'] - 2 E[σ(t_i) σ(t_j) xx']. The columns are
    svec(N_ij), i < j; svec keeps the singular values of the paper's d² rows. Shapes: W (k, d), covariance (d, d),
    result (d(d+1)/2, k(k-1)/2).
    """
    opposite = fourth_moments(W, W, covariance) - 2 * relu_products_with_inputs(W, covariance)
    return svec(opposite[np.triu_indices(len(W), 1)]).T


def _norms(W: Array, covariance: Array) -> Array:
    return as_array(np.sqrt(np.einsum("ia,ab,ib->i", W, covariance, W)))


def _sizes_and_angles(W: Array, U: Array, covariance: Array) -> tuple[Array, Array]:
    """Return |u_i||u_j| and the angles, accurate for nearly parallel rows too."""
    sizes = np.outer(_norms(W, covariance), _norms(U, covariance))
    root = linalg.cholesky(covariance, lower=True)
    left, right = unit_rows(W @ root)[0], unit_rows(U @ root)[0]
    difference = np.linalg.norm(left[:, None] - right[None], axis=2)
    total = np.linalg.norm(left[:, None] + right[None], axis=2)
    return sizes, 2 * np.arctan2(difference, total)
