"""Compare a network with every row in one pass: residuals, missed rows, and how often each unit is on.

The certificates, the searches and the diagnosis of a fitted network ask different questions of the same pass, so it
answers all of them: the largest residual, the number of rows beyond a tolerance, the sum of squares, and the activity
of the units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array, IntArray
from planted.networks import TwoLayerNetwork
from planted.rows._blocks import RowBlocks
from planted.rows._passes import accumulate
from planted.rows._sums import Sums

__all__ = ["RowChecks", "check_rows_against"]


@dataclass(frozen=True, slots=True)
class RowChecks(Sums):
    """What one pass over all rows says about a network."""

    n_samples: int  # number of rows
    largest_residual: float  # largest absolute residual of one output of one row
    missed: int  # rows with a residual beyond the tolerance
    squares: float  # sum of squared residuals
    active: IntArray  # (k,): rows on which each unit is on

    def merge(self, other: RowChecks) -> RowChecks:
        """Return the checks of both sets of rows: the larger residual, the sums of the rest."""
        return RowChecks(
            self.n_samples + other.n_samples,
            max(self.largest_residual, other.largest_residual),
            self.missed + other.missed,
            self.squares + other.squares,
            self.active + other.active,
        )


def check_rows_against(blocks: RowBlocks, network: TwoLayerNetwork, *, tol: float = np.inf) -> RowChecks:
    """Compare a network with every row, one pass.

    `tol`: a row is missed if one of its residuals is larger; no row is if omitted.

    Examples
    --------
    >>> net = TwoLayerNetwork(W=[[1.0]], A=[[1.0]])
    >>> rows = RowBlocks.from_arrays(np.array([[-1.0], [2.0]]), np.array([[0.0], [2.5]]))
    >>> check_rows_against(rows, net, tol=0.1)
    RowChecks(n_samples=2, largest_residual=0.5, missed=1, squares=0.25, active=array([1]))
    """
    return accumulate(blocks, _RowCheckSummand(network, tol))


@dataclass(frozen=True, slots=True)
class _RowCheckSummand:
    """Residuals and activity at a network."""

    network: TwoLayerNetwork
    tol: float

    def __call__(self, first_row: int, X: Array, Y: Array) -> RowChecks:
        t = self.network.preactivations(X)
        residual = Y - self.network.activation(t) @ self.network.A.T - self.network.c
        sizes = np.abs(residual).max(axis=1, initial=0.0)
        return RowChecks(
            len(X),
            float(sizes.max(initial=0.0)),
            int((sizes > self.tol).sum()),
            float((residual**2).sum()),
            (t > 0).sum(axis=0),
        )
