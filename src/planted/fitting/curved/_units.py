r"""Fit units of any activation to rows in memory: variable-projection Levenberg–Marquardt.

Problem     For an activation f with a derivative, given rows :math:`\tilde x = (x, 1)` and outputs y, find v and α, Λ in

            .. math:: y = \sum_i \alpha_i f(v_i^\top \tilde x) + \Lambda z, \qquad
                      z = 1 \text{ or } z = \tilde x. \quad (1)

Idea        For fixed v the rest is a linear least-squares problem. Eliminating it leaves the hidden parameters alone
            [Golub2003]_, with the exact Jacobian of the units and Kaufman's simplification, as in `refine`. The scale of a
            unit needs no care: where it is a gauge, the gradient along it vanishes and damping keeps it.

            Where f differs from its mirror image by a linear function (softplus, GELU, SiLU, leaky ReLU), z = x̃ makes
            orientation a gauge, and a start cannot have the wrong one: it is found afterwards (`_orientation`).
            Damping is strong at first. A start far from the solution has a nearly singular Jacobian, and with weak damping
            its first step throws units where they are constant or linear on all rows. Of twelve GELU networks with 10
            inputs and 5 units, ten units at the start, 3 were found with a damping of 0.01 and 12 with 1 or 10.
Guarantee   A stationary point of (1). Kind: local.
Cost        O(n (k p)²) per accepted step and O(n k²) per trial, O((k p)³) algebra; n (k p) numbers in memory.
References  [Golub2003]_
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._clock import check_time
from planted._typing import Array, as_array
from planted.fitting._refine import Damping, weigh_blocks
from planted.linalg.symmetric import unit_rows
from planted.networks import Activation, TwoLayerNetwork

__all__ = ["UnitFit", "UnitRows", "fit_units", "random_units", "without_unit"]

INITIAL_DAMPING = Damping(10.0, down=0.2, up=4.0, after_rejection=0.2)
DEPENDENT = 1e-13  # relative singular value of the output layer's columns, of unit length, that is dropped
FLOOR = 8 * np.finfo(np.float64).eps  # part of the outputs' size that rounding leaves
SCALE_SPREAD = 0.3  # of the logarithms of the norms of random units, on standardised inputs
BIAS_SPREAD = 0.5  # standard deviation of the biases of random units


@dataclass(frozen=True, slots=True)
class UnitRows:
    """Rows in memory and the form that is fitted to them."""

    rows: Array  # (n, p): standardised inputs with a column of ones
    Y: Array  # (n, m): standardised outputs
    activation: Activation
    linear: bool  # whether z = x̃ in (1)
    root: Array | None = None  # (n, 1): roots of the weights of the rows

    @property
    def n_beside(self) -> int:
        """Number of columns of z."""
        return int(self.rows.shape[1]) if self.linear else 1

    @property
    def outputs(self) -> Array:
        """The outputs, weighted."""
        return self.Y if self.root is None else self.root * self.Y

    def columns(self, T: Array) -> Array:
        """Return the columns [f(T), z] of the output layer, weighted."""
        G = np.hstack([self.activation(T), self.rows if self.linear else self.rows[:, -1:]])
        return G if self.root is None else self.root * G


@dataclass(frozen=True, slots=True)
class UnitFit:
    """A fit of (1)."""

    V: Array  # (k, p): units (w, b)
    coefficients: Array  # (m, k + columns of z): α and Λ
    cost: float  # weighted sum of squared residuals
    costs: tuple[float, ...]  # the cost after every accepted step

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.V)

    def network(self, activation: Activation) -> TwoLayerNetwork:
        """Return the fit as a network, with a linear part if it was fitted with one."""
        k = len(self.V)
        beside = self.coefficients[:, k:]
        B = beside[:, :-1] if beside.shape[1] > 1 else None
        return TwoLayerNetwork(
            self.V[:, :-1], self.V[:, -1], self.coefficients[:, :k], beside[:, -1], activation, B
        )


def random_units(count: int, n_features: int, rng: np.random.Generator) -> Array:
    """Draw units (w, b) that bend standardised inputs near their middle.

    Shapes: result (count, n_features + 1).
    """
    W = unit_rows(rng.standard_normal((count, n_features)))[0]
    sizes = np.exp(SCALE_SPREAD * rng.standard_normal((count, 1)))
    return np.hstack([sizes * W, BIAS_SPREAD * rng.standard_normal((count, 1))])


def fit_units(
    data: UnitRows,
    V: Array,
    *,
    max_iter: int,
    decrease_tol: float,
    enough: float = 0.0,
    damping: Damping = INITIAL_DAMPING,
) -> UnitFit:
    """Fit (1) from given units; stops when a step lowers the cost by less than `decrease_tol` of it, or at cost `enough`.

    Shapes: V (k, p).
    """
    floor = max(FLOOR**2 * float((data.outputs**2).sum()), enough)
    state = _evaluate(data, V)
    costs = [state.cost]

    def try_step(step: Array) -> _State:
        return _evaluate(data, state.V + step.reshape(state.V.shape))

    for _ in range(max_iter):
        check_time()
        if state.cost <= floor:
            break
        trial, damping, _ = damping.descend(_reduced_system(data, state), try_step, state.cost)
        if trial is None:
            break
        gained, state = state.cost - trial.cost, trial
        costs.append(state.cost)
        if gained <= decrease_tol * state.cost:
            break
    return UnitFit(state.V, state.coefficients, state.cost, tuple(costs))


def without_unit(data: UnitRows, fit: UnitFit) -> Array:
    """Return the units without the one whose removal raises the cost least.

    Leaving out unit i raises it by |α_i|² / [(G'G)⁻¹]_ii, which is zero for a unit without effect and for one of two that
    coincide on the rows. Shapes: result (k - 1, p).
    """
    G = data.columns(data.rows @ fit.V.T)
    lengths = np.linalg.norm(G, axis=0)
    lengths = np.where(lengths > 0, lengths, 1.0)
    R = linalg.qr(G / lengths, mode="r", check_finite=False)[0][: G.shape[1]]
    inverse = linalg.pinv(R, rtol=DEPENDENT, check_finite=False)
    spreads = (inverse**2).sum(axis=1)[: fit.n_units]
    sizes = ((fit.coefficients * lengths) ** 2).sum(axis=0)[: fit.n_units]
    rises = np.where(spreads > 0, sizes / np.where(spreads > 0, spreads, 1.0), 0.0)
    return as_array(np.delete(fit.V, int(np.argmin(rises)), axis=0))


@dataclass(frozen=True, slots=True)
class _State:
    V: Array
    coefficients: Array
    cost: float
    T: Array  # (n, k): pre-activations
    Q: Array  # (n, rank): orthonormal basis of the output layer's columns
    residual: Array  # (n, m)


def _evaluate(data: UnitRows, V: Array) -> _State:
    """Move (α, Λ) to its optimum for these units; the residual is computed from the rows."""
    T = data.rows @ V.T
    with np.errstate(over="ignore", invalid="ignore"):
        G = data.columns(T)
        lengths = np.linalg.norm(G, axis=0)
    if not np.isfinite(lengths).all():  # a step that overflows is rejected by its cost
        nothing = np.zeros((data.Y.shape[1], G.shape[1]))
        return _State(V, nothing, np.inf, T, np.zeros((len(T), 0)), data.outputs)
    lengths = np.where(lengths > 0, lengths, 1.0)
    Q, R = linalg.qr(G / lengths, mode="economic", check_finite=False)
    left, values, right = linalg.svd(R, full_matrices=False, check_finite=False)
    kept = values > DEPENDENT * values[0]
    Q = Q @ left[:, kept]
    outputs = data.outputs
    solution = (right[kept].T / values[kept]) @ (Q.T @ outputs) / lengths[:, None]
    residual = outputs - G @ solution
    residual -= Q @ (Q.T @ residual)
    return _State(V, solution.T, float((residual**2).sum()), T, Q, residual)


def _reduced_system(data: UnitRows, state: _State) -> tuple[Array, Array, Array]:
    """Return the matrix, gradient and damping scales in the hidden parameters alone."""
    k, p = state.V.shape
    slopes = data.activation.derivative(state.T)
    if data.root is not None:
        slopes = data.root * slopes
    Z = (slopes[:, :, None] * data.rows[:, None, :]).reshape(len(slopes), k * p)
    A = state.coefficients[:, :k]
    J = Z - state.Q @ (state.Q.T @ Z)
    N = weigh_blocks(J.T @ J, A)
    gradient = np.einsum("jpl,lj->jp", (Z.T @ state.residual).reshape(k, p, -1), A).ravel()
    scales = np.repeat((A**2).sum(axis=0), p) * np.einsum("ij,ij->j", Z, Z)
    return N, gradient, np.maximum(scales, 1e-12 * scales.max(initial=0.0))
