"""Half-spaces as they were drawn: networks of which only the output weights are fitted, by ridge regression.

A unit rises from its start along its direction and stops at the outermost row in that direction, which takes two units of
the network, σ(w·x - start) - σ(w·x - end). A change of slope is seen only where rows lie; beyond them the linear part goes
on by itself. (With units that rise for ever one input far outside decided a table's error: 0.31 of the variance instead of
0.18.) Without any half-space the regression is a straight line.

All ridges of a fold come from one decomposition of its columns, and the fit to all rows from one pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array, BoolArray
from planted.linalg import unit_rows
from planted.moments import RowMoments
from planted.networks import TwoLayerNetwork
from planted.rows import RowBlocks, accumulate

__all__ = ["RIDGES", "HalfSpaces"]

RIDGES = 10.0 ** np.arange(-5, 1.5, 0.5)  # per row of standardised data


@dataclass(frozen=True, slots=True)
class HalfSpaces:
    """Directions (k, d), where their units begin to rise and where they stop."""

    directions: Array
    starts: Array
    ends: Array

    @classmethod
    def drawn(cls, X: Array, count: int, rng: np.random.Generator) -> HalfSpaces:
        """Draw directions at random, and starts between the rows."""
        directions = unit_rows(rng.standard_normal((count, X.shape[1])))[0]
        along = np.sort(X @ directions.T, axis=0)
        places = (rng.uniform(0.02, 0.98, count) * (len(X) - 1)).astype(np.intp)
        return cls(directions, np.take_along_axis(along, places[None], axis=0)[0], along[-1])

    def columns(self, X: Array) -> Array:
        """Return the inputs and the units. Shapes: X (n, d), result (n, d + k)."""
        return np.hstack([X, np.clip(X @ self.directions.T, self.starts, self.ends) - self.starts])

    def held_out(self, X: Array, Y: Array, inside: BoolArray) -> Array:
        """Return for every ridge what is missed on the rows that are not `inside`, fitted to those that are.

        Shapes: X (n, d), Y (n, m), result (ridges, rows that are not inside, m).
        """
        columns = self.columns(X)
        centre, mean = columns[inside].mean(axis=0), Y[inside].mean(axis=0)
        left, lengths, right = linalg.svd(columns[inside] - centre, full_matrices=False, check_finite=False)
        shrunk = lengths / (lengths**2 + RIDGES[:, None] * inside.sum())  # (ridges, rank)
        weights = right.T @ (shrunk[:, :, None] * (left.T @ (Y[inside] - mean)))
        return np.asarray(Y[~inside] - mean - (columns[~inside] - centre) @ weights)

    def fitted(
        self, blocks: RowBlocks, ridge: float, line: Callable[[Array, Array], TwoLayerNetwork]
    ) -> TwoLayerNetwork:
        """Fit the output weights to all rows; `line` makes a network of a slope and a constant."""
        moments = accumulate(blocks, _Columns(self))
        k, d = self.directions.shape
        q = d + k
        gram = moments.covariance[:q, :q] + ridge * np.eye(q)
        weights = linalg.solve(gram, moments.covariance[:q, q:], assume_a="pos", check_finite=False).T
        constant = moments.mean[q:] - weights @ moments.mean[:q]
        straight = line(weights[:, :d], constant)
        return TwoLayerNetwork(
            np.vstack([straight.W, self.directions, self.directions]),
            np.concatenate([straight.b, -self.starts, -self.ends]),
            np.hstack([straight.A, weights[:, d:], -weights[:, d:]]),
            straight.c,
            B=straight.B,
        )


@dataclass(frozen=True, slots=True)
class _Columns:
    """The sums over rows that a regression on the units needs."""

    half_spaces: HalfSpaces

    def __call__(self, first_row: int, X: Array, Y: Array) -> RowMoments:
        return RowMoments.of(np.hstack([self.half_spaces.columns(X), Y]))
