"""The answer of the spectral step, and the two conventions that all its forms share: signs and scale of units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array
from planted.linalg import unit_rows
from planted.networks import TwoLayerNetwork

__all__ = ["Spectral", "positive_rows", "with_unit_rows"]


@dataclass(frozen=True, slots=True)
class Spectral:
    """A network read from moments or from few rows."""

    network: TwoLayerNetwork  # rows of W of unit norm
    # (k(k+1)/2,): singular values of T, descending; the last k belong to the null space.
    detector_values: Array
    residual: float  # relative energy that the joint diagonalisation left over

    @property
    def gap(self) -> float:
        """Smallest singular value of T outside the null space over the largest inside; infinite if none is outside."""
        k = self.network.n_hidden
        if len(self.detector_values) == k:
            return float("inf")
        above, below = self.detector_values[-k - 1], self.detector_values[-k]
        return float(above / below) if below > 0 else float("inf")


def positive_rows(Z: Array, mean: Array) -> Array:
    """Turn the rows z with E[z'y] < 0 round: an activation is never negative (step 9 of Algorithms 2 and 3).

    Shapes: Z (k, m), mean (m,), result (k, m).
    """
    return np.asarray(Z * np.where(Z @ mean < 0, -1.0, 1.0)[:, None])


def with_unit_rows(W: Array, A: Array) -> TwoLayerNetwork:
    """Return the network without biases whose rows of W have unit norm; their lengths move to the columns of A."""
    W, lengths = unit_rows(W)
    return TwoLayerNetwork(W, None, A * lengths, None)
