"""A network at the rows in memory: what several tests of a certificate need of it, each computed once.

The tests of a certificate ask different questions of the same numbers: pre-activations, activations, slopes, predictions,
residuals. `FittedRows` computes each when it is first asked for. Rows come last here: sums over units, inputs and outputs
are then sums of long vectors, and products of two such arrays need no copy. A transposed array has the shape that
functions of (n, m) expect.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planted._typing import Array, IntArray, as_array
from planted.fitting._run import Problem
from planted.moments import check_rows_against
from planted.networks import TwoLayerNetwork
from planted.rows import RowWeights
from planted.rows._sources import bind_weights

__all__ = ["FittedRows", "UnitActivity"]


@dataclass(frozen=True, slots=True)
class UnitActivity:
    """On how many samples each unit is on."""

    n_samples: int
    active: IntArray  # (k,)


@dataclass(frozen=True)
class FittedRows:
    """A network at the rows in memory, rows last."""

    problem: Problem
    network: TwoLayerNetwork
    weights: RowWeights | None = None  # those with which the network was fitted

    @cached_property
    def X(self) -> Array:
        """Inputs, (d, n)."""
        return np.ascontiguousarray(self.problem.X.T)

    @cached_property
    def inputs(self) -> Array:
        """Inputs and one, (d + 1, n)."""
        return np.vstack([self.X, np.ones(self.X.shape[1])])

    @cached_property
    def Y(self) -> Array:
        """Labels, (m, n)."""
        return np.ascontiguousarray(self.problem.Y.T)

    @cached_property
    def ordered_labels(self) -> Array:
        """The labels of every output in order, (m, n)."""
        return np.sort(self.Y, axis=1)

    @cached_property
    def t(self) -> Array:
        """Pre-activations, (k, n)."""
        t = self.network.W @ self.X
        t += self.network.b[:, None]
        return as_array(t)

    @cached_property
    def H(self) -> Array:
        """Activations, (k, n)."""
        return self.network.activation(self.t)

    @cached_property
    def slopes(self) -> Array:
        """Derivatives of the activations, (k, n)."""
        return self.network.activation.derivative(self.t)

    @cached_property
    def F(self) -> Array:
        """Predictions, (m, n)."""
        net = self.network
        F = net.A @ self.H
        if net.B is not None:
            F += net.B @ self.X
        F += net.c[:, None]
        return as_array(F)

    @cached_property
    def residual(self) -> Array:
        """Labels less predictions, (m, n)."""
        return self.Y - self.F

    @cached_property
    def root(self) -> Array | None:
        """Roots of the rows' weights, (n,); None where there are no weights."""
        if self.weights is None:
            return None
        problem = self.problem
        return np.sqrt(self.weights(0, problem.X, problem.Y) if problem.w is None else problem.w)

    @cached_property
    def w(self) -> Array | None:
        """The rows' weights as sums over rows have them, (n,); None where there are no weights."""
        if self.weights is None:
            return None
        bound = bind_weights(self, 0, self.problem.w).weights
        assert bound is not None
        return bound(0, self.problem.X, self.problem.Y)

    @cached_property
    def weighted_residual(self) -> Array:
        """The residual times the roots of the weights, (m, n)."""
        return self.residual if self.root is None else self.root * self.residual

    @cached_property
    def activity(self) -> UnitActivity:
        """On how many of all samples each unit is on: one pass, unless these rows are all."""
        if not self.problem.holds_all_rows or self.problem.w is not None:
            rows = check_rows_against(self.problem.all_rows, self.network)
            return UnitActivity(rows.n_samples, rows.active)
        return UnitActivity(self.t.shape[1], np.count_nonzero(self.t > 0, axis=1))
