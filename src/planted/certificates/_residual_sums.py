"""The sums behind the tests of a residual, in one pass over the rows.

The tests ask how much of the residual is explained by the network's own derivatives and activations, and how much
more by other functions of x. `residual_sums` adds up the products of all of them; `_lack_of_fit` and `_split_units`
read their statistics from it without another pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array
from planted.fitting._problem import Problem
from planted.linalg.products import unit_rows
from planted.linalg.symmetric import spectrum_of
from planted.moments import RegressionSums, augment
from planted.networks import TwoLayerNetwork
from planted.rows import RowWeights, accumulate

__all__ = ["ResidualSums", "inverse_root", "residual_sums"]

N_RANDOM_FEATURES = 40
RANK_TOL = 1e-11  # of normal matrices with unit diagonal: a relative singular value of 3e-6


@dataclass(frozen=True, slots=True)
class ResidualSums:
    """Products of the rows [Z, G, Φ] with themselves and with the residual, outputs whitened.

    Z holds the inputs masked by the slope of every unit, G = [H, 1] the activations, Φ functions of x to test with.
    """

    products: Array  # (width, width): of the rows
    # (width, outputs): of the rows with the whitened residual; each output has a sum of squares of one.
    cross: Array
    A: Array  # (outputs, k): output weights, whitened like the residual
    hidden: int  # columns of Z
    own: int  # columns of Z and G
    n_samples: int  # number of rows


def residual_sums(
    problem: Problem,
    network: TwoLayerNetwork,
    *,
    offset: bool,
    biases: bool = True,
    weights: RowWeights | None = None,
) -> ResidualSums:
    """Accumulate the sums in one pass.

    Φ holds, for every unit, its pre-activation and the squares on both sides of its kink, and ReLU random features;
    at most half of the degrees of freedom go to it.
    """
    k, m, d = network.n_hidden, network.n_outputs, network.n_features
    hidden = k * (d + int(biases))
    unknowns = hidden - k + m * (k + int(offset))
    budget = max(int((problem.n_samples - unknowns / m) / 2), 0)
    directions = unit_rows(problem.rng.standard_normal((N_RANDOM_FEATURES, d)))[0]
    thresholds = problem.rng.standard_normal(N_RANDOM_FEATURES)
    own = hidden + k + int(offset)
    probes = np.hstack([directions, thresholds[:, None]])
    summand = _ProductSummand(
        network=network, offset=offset, biases=biases, probes=probes, budget=budget, weights=weights
    )
    sums = accumulate(problem.blocks, summand)
    # A combination of outputs without residual is left out.
    whiten = inverse_root(sums.YY, np.diag(sums.YY))
    return ResidualSums(sums.GG, sums.GY @ whiten, whiten.T @ network.A, hidden, own, n_samples=sums.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProductSummand:
    """The products at a network; Φ is made of the units and of the probes (direction, threshold)."""

    network: TwoLayerNetwork
    offset: bool
    biases: bool
    probes: Array
    budget: int
    weights: RowWeights | None

    def __call__(self, first_row: int, X: Array, Y: Array) -> RegressionSums:
        network = self.network
        t = network.preactivations(X)
        inputs = augment(X) if self.biases else X
        Z = (network.activation.derivative(t)[:, :, None] * inputs[:, None, :]).reshape(len(X), -1)
        H = network.activation(t)
        random = np.maximum(X @ self.probes[:, :-1].T - self.probes[:, -1], 0.0)
        squares = np.maximum(t, 0.0) ** 2, np.minimum(t, 0.0) ** 2
        rows = np.hstack(
            [Z, augment(H) if self.offset else H, np.hstack([t, random, *squares])[:, : self.budget]]
        )
        residual = Y - H @ network.A.T - network.c
        weights = None if self.weights is None else self.weights(first_row, X, Y)
        return RegressionSums.of(rows, residual, weights)


def inverse_root(M: Array, squares: Array) -> Array:
    """Return R with R'MR = 1 on the directions in which M, scaled to unit ``squares``, is not zero to rounding.

    Shapes: M (p, p), squares (p,), result (p, rank).
    """
    return spectrum_of(M, np.sqrt(np.where(squares > 0, squares, 1.0))).above(RANK_TOL).whitening()
