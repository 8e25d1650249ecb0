r"""Hermite coefficients of a ReLU network under standard normal inputs, in closed form.

By Lemma 3.5 of [ATV21]_ a unit with output weights a, direction w of unit norm and bias b has the order-j coefficient
:math:`a\,\eta_j(b)\,w^{\otimes j}`, with the numbers η of `planted.moments._hermite_tensors`. Contractions and values
along directions are sums over units of powers of inner products. These moments feed the same algebra as sums over
rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array, as_array
from planted.linalg import svec_outer, symmetric_powers
from planted.moments._hermite import Contractions, Draws
from planted.moments._hermite_tensors import HermiteTensors, relu_coefficients
from planted.networks import TwoLayerNetwork

__all__ = ["PopulationHermite", "relu_tensors"]


@dataclass(frozen=True, slots=True)
class PopulationHermite:
    """`HermiteMoments` of a ReLU network under x ~ N(0, I); noise of mean zero changes nothing."""

    network: TwoLayerNetwork  # the network, rows of W of unit norm

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of inputs and outputs."""
        return self.network.n_features, self.network.n_outputs

    def tensors(self) -> HermiteTensors:
        """Return the orders 0 to 4."""
        net = self.network
        known = relu_tensors(net.W, net.b, net.A)
        return HermiteTensors(known.zeroth + net.c, known.first, known.second, known.third, known.fourth)

    def contract(self, order: int, draws: Draws) -> Contractions:
        """Return orders 2l, 2l+1, 2l+2 as matrices, without sampling error."""
        net = self.network
        units = symmetric_powers(net.W, order)
        eta = relu_coefficients(net.b, 2 * order + 2)
        strengths = draws.outputs @ net.A
        s, t = draws.theta @ net.W.T, draws.eta @ net.W.T
        scales = (eta[2 * order], eta[2 * order + 1] * s, eta[2 * order + 2] * s * t)
        base, odd, even = (np.einsum("rk,ka,kb->rab", strengths * scale, units, units) for scale in scales)
        return Contractions(base, odd, even, np.zeros(3))

    def along(self, W: Array, top: int) -> Array:
        """Return E[y He_j(w_i'x)].

        Shapes: W (k, d), result (top + 1, m, k).
        """
        net, orders = self.network, np.arange(top + 1)
        powers = (net.W @ W.T)[None] ** orders[:, None, None]
        values = np.einsum("ml,jl,jlk->jmk", net.A, relu_coefficients(net.b, max(top, 1))[: top + 1], powers)
        values[0] += net.c[:, None]
        return as_array(values)


def relu_tensors(W: Array, b: Array, A: Array) -> HermiteTensors:
    """Return the orders 0 to 4 of a sum of ReLU units.

    Shapes: W (k, d), b (k,), A (m, k).
    """
    eta, squares = relu_coefficients(b, 4), svec_outer(W)
    weights = [A * row for row in eta]
    return HermiteTensors(
        weights[0].sum(axis=1),
        weights[1] @ W,
        np.stack([(W.T * row) @ W for row in weights[2]]),
        np.stack([(squares.T * row) @ W for row in weights[3]]),
        np.stack([(squares.T * row) @ squares for row in weights[4]]),
    )
