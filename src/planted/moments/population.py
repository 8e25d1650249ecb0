r"""Moments of normal inputs in closed form: the limits of the sums of this package as n grows.

For x ~ N(0, Σ) the expectations behind the moment methods are elementary. They feed the *same* algebra as sums over
rows, so that "exact moments give the exact network" is a test, and they give the conditions of theorems without
sampling error. With z standard normal, x = L z for Σ = L L', :math:`u_i = L^\top w_i` and :math:`\theta_{ij}` the
angle between :math:`u_i` and :math:`u_j`:

.. math::
    E[\sigma(t_i)\sigma(t_j)] &= \tfrac{|u_i||u_j|}{2\pi} (\sin\theta + (\pi - \theta)\cos\theta)        \quad (1) \\
    E[\nabla_{w_i} \sigma(t_i)\sigma(t_j)] &= \tfrac{1}{2\pi} L (|u_j| \sin\theta\, \hat u_i + (\pi-\theta) u_j)\ (2) \\
    E[f(z)\, z z^\top] &= E[f]\, I + E[\nabla^2 f]                                                \quad (3)

(1) is the arc-cosine kernel [Cho2009]_, (2) its gradient, (3) Stein's identity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array, as_array
from planted.linalg.symmetric import svec, unit_rows
from planted.moments._gram import RowMoments
from planted.moments._pair_moments import ControlledSlope, PairMoments, second_moments
from planted.moments._paired import PairedSums, PairMaps
from planted.networks import TwoLayerNetwork

__all__ = [
    "GaussianMoments",
    "fourth_moments",
    "gaussian_distinguishing_matrix",
    "relu_products",
    "relu_products_with_inputs",
    "relu_slopes_with_inputs",
]


def relu_products(W: Array, U: Array, covariance: Array) -> Array:
    """Return E[σ(w_i'x) σ(u_j'x)] for x ~ N(0, Σ), equation (1).

    Shapes: W (k, d), U (l, d), covariance (d, d), result (k, l).

    Examples
    --------
    >>> relu_products(np.array([[2.0]]), np.array([[3.0], [-3.0]]), np.eye(1)).round(12)
    array([[3., 0.]])
    """
    sizes, angles = _sizes_and_angles(W, U, covariance)
    return sizes * (np.sin(angles) + (np.pi - angles) * np.cos(angles)) / (2 * np.pi)


def relu_slopes_with_inputs(W: Array, U: Array, covariance: Array) -> Array:
    """Return E[1{w_i'x > 0} σ(u_j'x) x] for x ~ N(0, Σ), equation (2).

    Shapes: W (k, d), U (l, d), covariance (d, d), result (k, l, d).
    """
    _, angles = _sizes_and_angles(W, U, covariance)
    sines = np.sin(angles)
    own, other = _norms(W, covariance), _norms(U, covariance)
    along_own = (sines * other / own[:, None])[:, :, None] * (W @ covariance)[:, None, :]
    along_other = (np.pi - angles)[:, :, None] * (U @ covariance)[None, :, :]
    return (along_own + along_other) / (2 * np.pi)


def relu_products_with_inputs(W: Array, covariance: Array) -> Array:
    """Return E[σ(w_i'x) σ(w_j'x) x x'] for x ~ N(0, Σ), by Stein's identity (3).

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


@dataclass(frozen=True, slots=True)
class GaussianMoments:
    """`PairMoments` of a network without biases under x ~ N(0, Σ) and noise independent of x."""

    network: TwoLayerNetwork  # the network; b = 0 and c = 0
    covariance: Array  # (d, d): covariance of the inputs
    noise: Array  # (m, m): covariance of the noise

    @property
    def n_features(self) -> int:
        """Number of inputs, d."""
        return self.network.n_features

    def joint(self) -> RowMoments:
        """Return mean and covariance of (x, y), with count 1."""
        W, A, S = self.network.W, self.network.A, self.covariance
        mean_y = A @ (_norms(W, S) / np.sqrt(2 * np.pi))
        R = A @ W @ S / 2  # Lemma 6 with p = q = 1
        yy = A @ relu_products(W, W, S) @ A.T + self.noise
        second = np.block([[S, R.T], [R, yy]])
        mean = np.concatenate([np.zeros(len(S)), mean_y])
        return RowMoments(1, mean, second - np.outer(mean, mean))

    def slope(self, V: Array) -> ControlledSlope:
        """Return the regression on x; even controls are uncorrelated with x and change nothing.

        The slope is A W exactly and has no residual, since the coefficients carry no sampling error. Shapes: V
        (d, r).
        """
        C, R = second_moments(self.joint(), len(V))
        return ControlledSlope(2.0 * linalg.solve(C, R.T, assume_a="pos").T, 0.0)

    def pairs(self, maps: PairMaps, *, spread: bool = True) -> PairedSums:
        """Return the expectations of g, h and their products."""
        V, S, W = maps.V, self.covariance, self.network.W
        A = maps.P @ self.network.A
        # h = q y' + y q' - y y' for q = Q x and mapped outputs y; Lemma 6 turns E[y q' xx'] into half that of A W x.
        cross = np.einsum("il,ljab->ijab", A, fourth_moments(W, maps.Q, S)) / 2
        outputs = np.einsum("il,lnab,jn->ijab", A, relu_products_with_inputs(W, S), A)
        noise = maps.P @ self.noise @ maps.P.T
        outputs += noise[:, :, None, None] * S
        both = cross + cross.transpose(1, 0, 2, 3) - outputs
        gh = svec(svec(np.einsum("ar,ijab,bs->ijrs", V, both, V)).transpose(2, 0, 1))
        plain = A @ W @ S @ maps.Q.T / 2
        h = svec(plain + plain.T - A @ relu_products(W, W, S) @ A.T - noise)
        inner = V.T @ S @ V
        gg = np.zeros((0, 0))
        if spread:
            identity = np.eye(len(inner))
            gg = svec(svec(fourth_moments(identity, identity, inner)).transpose(2, 0, 1))
        return PairedSums(1.0, svec(inner), h, gg, gh)

    def hidden_gradient(self, W: Array, A: Array) -> Array:
        """Return the gradient in W of half the expected squared residual, by (2).

        Shapes: W (k, d), A (m, k), result (k, d).
        """
        own = np.einsum("ij,ijd->id", A.T @ A, relu_slopes_with_inputs(W, W, self.covariance))
        target = relu_slopes_with_inputs(W, self.network.W, self.covariance)
        return as_array(own - np.einsum("ij,ijd->id", A.T @ self.network.A, target))

    def halves(self) -> tuple[PairMoments, PairMoments]:
        """Return twice the same law."""
        return self, self


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
