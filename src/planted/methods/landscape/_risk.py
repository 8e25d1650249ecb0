r"""The plain squared risk, whose landscape has bad minima: exact under a Gaussian, and over samples.

Problem     f(W, a) = E (y - Σ a_i σ(w_i'x))² for y of a network of the same width, x ~ N(0, I): equation (2.2) of
            [GLM18]_.
Idea        With K(w, u) = E σ(w'x) σ(u'x) the risk is a'K(W,W)a - 2 a'K(W,W*)a* + const. For the ReLU K is the
            arc-cosine kernel (`planted.moments.population`). For other activations Theorem 2.1 is extended to rows of
            any norm,

            .. math:: K(w, u) = \sum_j c_j(|w|)\, c_j(|u|)\, \cos^j\angle(w, u), \quad c_j(s) = E[\sigma(st) h_j(t)]
                      \quad (1)

            with c_j by quadrature and j up to `ORDER`.
Guarantee   Exact for the ReLU; for smooth activations up to the tail of (1), below 1e-9 for sigmoid, tanh and softplus
            of rows of norm up to two.
Cost        Population O(k² d), or O(k nodes + k² ORDER); samples one pass of O(n d k).
References  [GLM18]_
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np
from scipy.spatial.distance import cdist

from planted._typing import Array
from planted.linalg import unit_rows
from planted.methods.landscape._coefficients import hermite_polynomials, quadrature_nodes
from planted.networks import Activation, is_rectifier
from planted.rows import RowBlocks, Sums, accumulate

__all__ = ["PopulationRisk", "SampleRisk", "risk_sums"]

ORDER = 100
NEGLIGIBLE = 1e-13


@dataclass(frozen=True, slots=True)
class PopulationRisk:
    """The expected squared error against a known network."""

    W: Array  # (k, d): hidden weights of the truth
    a: Array  # (k,): output weights of the truth
    activation: Activation  # activation of both
    name, trains_outputs = "l2", True
    target: _Rows = field(init=False, repr=False, compare=False)
    energy: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        target = _rows_of(self.W, self.activation)
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "energy", float(self.a @ target.kernel(target) @ self.a))

    @property
    def has_unit_rows(self) -> bool:
        """Whether the norm of a row is fixed: it is a gauge for the ReLU."""
        return self.activation.is_piecewise_linear

    def __call__(self, W: Array, a: Array) -> tuple[float, Array, Array]:
        """Return the value and the gradients; see `Objective`."""
        own, target = _rows_of(W, self.activation), self.target
        inner, across = own.kernel(own), own.kernel(target)
        value = a @ inner @ a - 2 * a @ across @ self.a + self.energy
        slope = 2 * (inner @ a - across @ self.a)
        gradient = 2 * (own.pull(own, a) - own.pull(target, self.a)) * a[:, None]
        return float(value), gradient, slope


@dataclass(frozen=True, slots=True)
class SampleRisk:
    """The mean squared error over samples; every call is a pass over the rows."""

    rows: RowBlocks  # inputs and one output
    activation: Activation  # the activation
    name, trains_outputs = "l2", True

    @property
    def has_unit_rows(self) -> bool:
        """Whether the norm of a row is fixed: it is a gauge for the ReLU."""
        return self.activation.is_piecewise_linear

    def __call__(self, W: Array, a: Array) -> tuple[float, Array, Array]:
        """Return the value and the gradients; see `Objective`."""
        sums = accumulate(self.rows, partial(_risk_of_block, self.activation, W, a))
        return sums.squares / sums.count, sums.dW / sums.count, sums.da / sums.count


@dataclass(frozen=True, slots=True)
class RiskSums(Sums):
    """Squared errors and their gradients, summed over rows."""

    count: int  # number of rows
    squares: float  # sum of squared errors
    dW: Array  # (k, d): its gradient in the hidden weights
    da: Array  # (k,): its gradient in the output weights


def _risk_of_block(
    activation: Activation, W: Array, a: Array, first_row: int, X: Array, Y: Array
) -> RiskSums:
    """Return `risk_sums` of a block."""
    T = X @ W.T
    H, slopes = activation(T), activation.derivative(T)
    squares, dW, da = risk_sums(X, Y[:, 0], H, slopes, a)
    return RiskSums(len(X), float(squares), dW, da)


def risk_sums(X: Any, y: Any, H: Any, slopes: Any, a: Any) -> tuple[Any, Any, Any]:
    """Return sums over samples of the squared error and its gradients.

    Written in operators that NumPy arrays and PyTorch tensors share.

    Shapes: X (n, d), y (n,), H, slopes (n, k), a (k,).
    """
    error = H @ a - y
    return error @ error, 2 * (slopes * error[:, None] * a).T @ X, 2 * error @ H


class _Rows(Protocol):
    """Rows that know the kernel of an activation."""

    def kernel(self, other: Any) -> Array: ...
    def pull(self, other: Any, a: Array) -> Array: ...


def _rows_of(W: Array, activation: Activation) -> _Rows:
    return _RectifiedRows(W) if is_rectifier(activation) else _SeriesRows(W, activation)


class _RectifiedRows:
    """Rows with the arc-cosine kernel: `planted.moments.population.relu_products`, contracted before it is stored."""

    def __init__(self, W: Array) -> None:
        self.W = W
        self.norms = np.linalg.norm(W, axis=1)
        self.directions = unit_rows(W)[0]

    def kernel(self, other: _RectifiedRows) -> Array:
        """Return K for all pairs of rows."""
        angles = self._angles(other)
        shape = (np.sin(angles) + (np.pi - angles) * np.cos(angles)) / (2 * np.pi)
        return np.asarray(np.outer(self.norms, other.norms) * shape)

    def pull(self, other: _RectifiedRows, a: Array) -> Array:
        """Return the gradient in each own row of Σ_l a_l K(w, u_l)."""
        angles = self._angles(other)
        grow = (np.sin(angles) * (other.norms * a)).sum(axis=1)
        return np.asarray((grow[:, None] * self.directions + ((np.pi - angles) * a) @ other.W) / (2 * np.pi))

    def _angles(self, other: _RectifiedRows) -> Array:
        """Return the angles, accurate for nearly parallel rows too."""
        apart, together = (cdist(self.directions, sign * other.directions) for sign in (1.0, -1.0))
        return np.asarray(2 * np.arctan2(apart, together))


class _SeriesRows:
    """Rows with their coefficients c_j and the derivatives of these in the norm."""

    def __init__(self, W: Array, activation: Activation) -> None:
        t, polynomials = _weighted_polynomials()
        self.norms = np.linalg.norm(W, axis=1)
        self.directions = unit_rows(W)[0]
        at = self.norms[:, None] * t
        self.c = activation(at) @ polynomials
        self.dc = (activation.derivative(at) * t) @ polynomials
        sizes = np.maximum(np.abs(self.c), np.abs(self.dc)).max(axis=0)
        self.order = int(np.flatnonzero(sizes > NEGLIGIBLE).max(initial=0))

    def kernel(self, other: _SeriesRows) -> Array:
        """Return K of (1) for all pairs of rows."""
        cosines = self.directions @ other.directions.T
        total = np.zeros_like(cosines)
        for j in range(min(self.order, other.order), -1, -1):  # Horner
            total = total * cosines + np.outer(self.c[:, j], other.c[:, j])
        return total

    def pull(self, other: _SeriesRows, a: Array) -> Array:
        """Return the gradient in each own row of Σ_l a_l K(w, u_l)."""
        cosines = self.directions @ other.directions.T
        turn, grow = np.zeros_like(cosines), np.zeros_like(cosines)
        for j in range(min(self.order, other.order), -1, -1):
            if j:
                turn = turn * cosines + j * np.outer(self.c[:, j], other.c[:, j])
            grow = grow * cosines + np.outer(self.dc[:, j], other.c[:, j])
        turn, grow = turn * a, (grow * a).sum(axis=1)
        along = (turn @ other.directions) - (turn * cosines).sum(axis=1)[:, None] * self.directions
        safe = np.where(self.norms > 0, self.norms, 1.0)[:, None]
        return np.asarray(along / safe + grow[:, None] * self.directions)


@lru_cache(maxsize=1)
def _weighted_polynomials() -> tuple[Array, Array]:
    """Return the nodes, and Hermite polynomials times the weights of the quadrature."""
    t, weights = quadrature_nodes()
    return t, np.ascontiguousarray((hermite_polynomials(t, ORDER) * weights).T)
