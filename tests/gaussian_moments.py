r"""The moments of a ReLU network under normal inputs in closed form, in the place of `planted.moments.SampleMoments`.

"Exact moments give the exact network" is a test with them. With the notation of `planted.moments.population` the gradient of
its (1) is

.. math:: E[\nabla_{w_i} \sigma(t_i)\sigma(t_j)] = \tfrac{1}{2\pi} L (|u_j| \sin\theta\, \hat u_i + (\pi-\theta) u_j).\ (1)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array, as_array
from planted.linalg import svec
from planted.moments import PairedSums, PairMaps, RowMoments, second_moments
from planted.moments._pair_moments import ControlledSlope
from planted.moments.population import (
    _norms,
    _sizes_and_angles,
    fourth_moments,
    relu_products,
    relu_products_with_inputs,
)
from planted.networks import TwoLayerNetwork

__all__ = ["GaussianMoments", "relu_slopes_with_inputs"]


def relu_slopes_with_inputs(W: Array, U: Array, covariance: Array) -> Array:
    """Return E[1{w_i'x > 0} σ(u_j'x) x] for x ~ N(0, Σ), equation (1).

    Shapes: W (k, d), U (l, d), covariance (d, d), result (k, l, d).
    """
    _, angles = _sizes_and_angles(W, U, covariance)
    sines = np.sin(angles)
    own, other = _norms(W, covariance), _norms(U, covariance)
    along_own = (sines * other / own[:, None])[:, :, None] * (W @ covariance)[:, None, :]
    along_other = (np.pi - angles)[:, :, None] * (U @ covariance)[None, :, :]
    return (along_own + along_other) / (2 * np.pi)


@dataclass(frozen=True, slots=True)
class GaussianMoments:
    """What `SampleMoments` answers, for a network without biases under x ~ N(0, Σ) and noise independent of x."""

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
        """Return the gradient in W of half the expected squared residual, by (1).

        Shapes: W (k, d), A (m, k), result (k, d).
        """
        own = np.einsum("ij,ijd->id", A.T @ A, relu_slopes_with_inputs(W, W, self.covariance))
        target = relu_slopes_with_inputs(W, self.network.W, self.covariance)
        return as_array(own - np.einsum("ij,ijd->id", A.T @ self.network.A, target))

    def halves(self) -> tuple[GaussianMoments, GaussianMoments]:
        """Return twice the same law."""
        return self, self
