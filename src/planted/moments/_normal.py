r"""Normal equations of a two-layer network as sums over rows.

At parameters (W, b, A, c) one pass gives every product that Gauss–Newton needs. With the rows
:math:`\tilde x = (x, 1)`, the activations :math:`H = f(\tilde X V^\top)` and one, the slopes
:math:`S = f'(\tilde X V^\top)`, the masked inputs :math:`Z = [S_1 \circ \tilde X, \dots, S_k \circ \tilde X]` and the
residual :math:`R = Y - H B^\top`:

    ZZ = Z'Z (kp × kp),  GZ = G'Z ((k+1) × kp),  GG = G'G,  ZR = Z'R (kp × m),  GR = G'R,  RR = R'R,   G = [H, 1].

The residual is formed explicitly on every block, never as a difference of accumulated products. The gradient is then
accurate to rounding of the *residual*, which lets the refinement end at 1e-15 although the normal matrix squares the
condition number.

Memory: O((kp)²) plus one block; time: one symmetric product of width kp per block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array
from planted.networks import TwoLayerNetwork
from planted.rows._blocks import RowBlocks
from planted.rows._passes import accumulate
from planted.rows._sums import Sums
from planted.rows._weights import RowWeights

__all__ = ["NormalSums", "accumulate_normal", "augment"]

_BLOCK_BYTES = 16_000_000  # masked inputs of one slice stay in cache-friendly memory


@dataclass(frozen=True, slots=True)
class NormalSums(Sums):
    """The sums described in this module, for p = d + 1."""

    count: float  # number of rows (sum of weights)
    ZZ: Array  # (k*p, k*p): products of masked inputs
    GZ: Array  # (k + 1, k*p): products of activations (and one) with masked inputs
    GG: Array  # (k + 1, k + 1): products of activations (and one)
    ZR: Array  # (k*p, m): products of masked inputs with the residual
    GR: Array  # (k + 1, m): products of activations (and one) with the residual
    RR: Array  # (m, m): products of the residual with itself


def augment(X: Array) -> Array:
    """Append a column of ones: rows (x, 1).

    Shapes: X (n, d), result (n, d + 1).
    """
    return np.hstack([X, np.ones((len(X), 1))])


def accumulate_normal(
    blocks: RowBlocks, network: TwoLayerNetwork, *, weights: RowWeights | None = None
) -> NormalSums:
    """Sum the normal equations of a network over all rows, one pass."""
    return accumulate(blocks, NormalSummand(network, weights))


@dataclass(frozen=True, slots=True)
class NormalSummand:
    """The normal equations at a network."""

    network: TwoLayerNetwork  # the parameters at which to linearise
    weights: RowWeights | None = None  # weights of the rows

    def __call__(self, first_row: int, X: Array, Y: Array) -> NormalSums:
        """Sum a block, slice by slice."""
        rows = max(64, _BLOCK_BYTES // (8 * self.network.n_hidden * (self.network.n_features + 1)))
        total: NormalSums | None = None
        for start in range(0, len(X), rows):
            inputs, outputs = X[start : start + rows], Y[start : start + rows]
            w = None if self.weights is None else self.weights(first_row + start, inputs, outputs)
            part = _normal_of_slice(inputs, outputs, self.network, w)
            total = part if total is None else total.merge(part)
        assert total is not None, "a block has at least one row"
        return total


def _normal_of_slice(X: Array, Y: Array, network: TwoLayerNetwork, w: Array | None) -> NormalSums:
    n, k, p = len(X), network.n_hidden, network.n_features + 1
    rows = augment(X)
    t = rows @ np.hstack([network.W, network.b[:, None]]).T
    G = augment(network.activation(t))
    R = Y - G @ np.hstack([network.A, network.c[:, None]]).T
    Z = (network.activation.derivative(t)[:, :, None] * rows[:, None, :]).reshape(n, k * p)
    if w is None:
        return NormalSums(float(n), Z.T @ Z, G.T @ Z, G.T @ G, Z.T @ R, G.T @ R, R.T @ R)
    weighted, R_weighted = w[:, None] * Z, w[:, None] * R
    G_weighted = w[:, None] * G
    return NormalSums(
        float(w.sum()),
        weighted.T @ Z,
        G_weighted.T @ Z,
        G_weighted.T @ G,
        Z.T @ R_weighted,
        G.T @ R_weighted,
        R.T @ R_weighted,
    )
