r"""Refine a network by variable-projection Levenberg–Marquardt on sums over rows.

Problem     From a nearby network find the minimiser of :math:`\sum_s \|y_s - A f(W x_s + b) - c\|^2` over W, b, A, c.
Idea        For fixed hidden parameters :math:`V = (W, b)` the best (A, c) is a linear least-squares problem, and
            eliminating it leaves a problem in V alone [Golub2003]_. With the sums of `planted.moments._normal`
            (masked inputs Z, and G = [H, 1]) the Gauss–Newton matrix of the reduced problem is

            .. math:: N = (A^\top A \otimes 1_{p \times p}) \circ (Z^\top Z - Z^\top G (G^\top G)^{-1} G^\top Z) \quad (1)

            and its gradient is :math:`g_j = Z_j^\top R\, a_j` (2), both from one pass over the rows. The damping
            multiplies the diagonal of N, and a step is accepted when the sum of squares really falls. The scale of a
            unit is a gauge: N is singular along :math:`(w_j, b_j)`, so that this direction is pinned by a rank-one
            term, and the rows of W are renormalised after each step.
Guarantee   A stationary point; the global minimum when the start is in its basin. For ReLU the problem is piecewise
            quadratic, so that noiseless data end at rounding error in finitely many steps. Kind: local.
Departures  Kaufman's simplification of the Jacobian is used: the derivative of the projector is dropped, which is
            exact at zero residual and of second order otherwise. The residual is computed again from the rows at
            every step (see `planted.moments._normal`).
Cost        One pass per trial step, O(n (k p)²) time for p = d + 1, O((k p)²) memory, O((k p)³) algebra.
References  [Golub2003]_
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planted._typing import Array
from planted.fitting._damping import Damping, weigh_blocks
from planted.linalg.products import unit_rows
from planted.linalg.symmetric import solve_symmetric
from planted.moments import NormalSums, accumulate_normal
from planted.networks import TwoLayerNetwork
from planted.rows import RowBlocks, RowWeights

__all__ = ["Refinement", "reduced_normal_matrix", "refine"]

INITIAL_DAMPING = Damping(1e-3)
CANCELLATION = 1e-6  # a cost below this part of what was subtracted to get it has lost six digits or more
# Decrease of the sum of squares, in units of the noise variance, below which a step has no statistical meaning:
# 78 against 4-9 iterations for the same answer at 0.01-0.1, because steps dither on kinks.
DECREASE_TOL = 0.01


@dataclass(frozen=True, slots=True)
class Refinement:
    """Where the refinement ended."""

    network: TwoLayerNetwork  # the refined network, rows of W of unit norm
    sums: NormalSums  # the normal equations there, with (A, c) optimal
    cost: float  # sum of squared residuals
    iterations: int  # accepted steps
    passes: int  # passes over the rows
    converged: bool  # whether it stopped because nothing was left to gain, not because of ``max_iter``
    costs: tuple[float, ...]  # the cost after every accepted step


def refine(
    blocks: RowBlocks,
    network: TwoLayerNetwork,
    *,
    offset: bool = True,
    biases: bool = True,
    max_iter: int = 100,
    decrease_tol: float = DECREASE_TOL,
    weights: RowWeights | None = None,
    ridge: float = 0.0,
) -> Refinement:
    """Minimise the sum of squares from a given network.

    If `biases` is false, the start must have b = 0, and b stays zero. The refinement stops when a step lowers the
    cost by less than `decrease_tol` residual variances. `ridge` times the squared output weights of units of unit
    rows is added to the sum of squares; it is for data that are not planted, and a recovery uses none.
    """
    state, passes = _evaluate_start(blocks, _unit_rows(network), offset, weights, ridge)
    costs, damping = [state.cost], INITIAL_DAMPING

    def try_step(step: Array) -> _State:
        return _evaluate(blocks, _move(state, step, offset, ridge), offset, weights, ridge)

    for iteration in range(max_iter):
        system = _reduced_system(state, offset, biases, ridge)
        trial, damping, tried = damping.descend(system, try_step, state.cost)
        passes += tried
        if trial is None:
            return state.ended(iteration, passes, True, costs)
        gained, state = state.cost - trial.cost, trial
        costs.append(state.cost)
        if state.cost <= state.rounding_floor:
            return state.ended(iteration + 1, passes, True, costs)
        if gained <= decrease_tol * state.residual_variance:
            return state.ended(iteration + 1, passes, True, costs)
    return state.ended(max_iter, passes, False, costs)


def reduced_normal_matrix(
    sums: NormalSums, network: TwoLayerNetwork, *, offset: bool, ridge: float = 0.0
) -> Array:
    """Return the Gauss–Newton matrix N of (1), singular along the scale of each unit.

    Shapes: result (k*p, k*p).
    """
    GG, GZ = _outer_products(sums, offset, ridge)
    inner = sums.ZZ - GZ.T @ solve_symmetric(GG, GZ)
    return weigh_blocks(inner, network.A)


@dataclass(frozen=True, slots=True)
class _State:
    network: TwoLayerNetwork
    sums: NormalSums
    cost: float

    @property
    def residual_variance(self) -> float:
        return self.cost / max(self.sums.count * self.network.n_outputs, 1.0)

    @property
    def rounding_floor(self) -> float:
        """The sum of squares that rounding alone leaves: (8 eps)² times the outputs' energy."""
        B = np.hstack([self.network.A, self.network.c[:, None]])
        return float((8 * np.finfo(float).eps) ** 2 * np.einsum("lg,gh,lh->", B, self.sums.GG, B))

    def ended(self, iterations: int, passes: int, converged: bool, costs: list[float]) -> Refinement:
        return Refinement(self.network, self.sums, self.cost, iterations, passes, converged, tuple(costs))


def _evaluate_start(
    blocks: RowBlocks, network: TwoLayerNetwork, offset: bool, weights: RowWeights | None, ridge: float
) -> tuple[_State, int]:
    """Evaluate the start, twice if its (A, c) was so far off that the cost is a difference of large sums."""
    state = _evaluate(blocks, network, offset, weights, ridge)
    change = np.hstack([state.network.A - network.A, (state.network.c - network.c)[:, None]])
    removed = float(np.einsum("lg,gh,lh->", change, state.sums.GG, change))
    if state.cost >= CANCELLATION * removed:
        return state, 1
    return _evaluate(blocks, state.network, offset, weights, ridge), 2


def _evaluate(
    blocks: RowBlocks, network: TwoLayerNetwork, offset: bool, weights: RowWeights | None, ridge: float
) -> _State:
    """Take the sums at a network, then move (A, c) to its optimum and correct the sums accordingly."""
    sums = accumulate_normal(blocks, network, weights=weights)
    size = network.n_hidden + int(offset)
    change = np.zeros_like(sums.GR)
    pull = sums.GR.copy()
    pull[:-1] -= ridge * network.A.T
    change[:size] = solve_symmetric(_outer_products(sums, offset, ridge)[0], pull[:size])
    moved = sums.GG @ change
    corrected = replace(
        sums,
        ZR=sums.ZR - sums.GZ.T @ change,
        GR=sums.GR - moved,
        RR=sums.RR - change.T @ sums.GR - sums.GR.T @ change + change.T @ moved,
    )
    better = TwoLayerNetwork(
        network.W, network.b, network.A + change[:-1].T, network.c + change[-1], network.activation
    )
    penalty = ridge * float((better.A**2).sum())
    return _State(better, corrected, max(float(np.trace(corrected.RR)), 0.0) + penalty)


def _reduced_system(state: _State, offset: bool, biases: bool, ridge: float) -> tuple[Array, Array, Array]:
    """Return the pinned matrix N, the gradient (2) and the diagonal that damping multiplies; known biases stay."""
    net, p = state.network, state.network.n_features + 1
    N = reduced_normal_matrix(state.sums, net, offset=offset, ridge=ridge)
    gradient = np.einsum("jpl,lj->jp", state.sums.ZR.reshape(net.n_hidden, p, net.n_outputs), net.A).ravel()
    scales = np.diag(weigh_blocks(state.sums.ZZ, net.A)).copy()
    scales = np.maximum(scales, 1e-12 * scales.max(initial=0.0))
    for j, row in enumerate(np.hstack([net.W, net.b[:, None]])):
        block = slice(j * p, (j + 1) * p)
        N[block, block] += np.outer(row, row) * (scales[block].mean() / (row @ row))
    if not biases:
        known = np.arange(p - 1, len(N), p)
        N[known, :] = N[:, known] = 0.0
        N[known, known] = scales[known]
        gradient[known] = 0.0
    return N, gradient, scales


def _move(state: _State, step: Array, offset: bool, ridge: float) -> TwoLayerNetwork:
    """Move V by the step and (A, c) by its linear prediction, then renormalise the rows of W."""
    net, k = state.network, state.network.n_hidden
    moved = step.reshape(k, -1)
    GG, GZ = _outer_products(state.sums, offset, ridge)
    effect = np.einsum("gjp,jp->gj", GZ.reshape(len(GZ), k, -1), moved) @ net.A.T
    change = -solve_symmetric(GG, effect)
    A = net.A + change[:k].T
    c = net.c + change[k] if offset else net.c
    return _unit_rows(TwoLayerNetwork(net.W + moved[:, :-1], net.b + moved[:, -1], A, c, net.activation))


def _unit_rows(network: TwoLayerNetwork) -> TwoLayerNetwork:
    W, norms = unit_rows(network.W)
    return TwoLayerNetwork(
        W,
        network.b / norms,
        network.A * norms**network.activation.degree,
        network.c,
        network.activation,
    )


def _outer_products(sums: NormalSums, offset: bool, ridge: float) -> tuple[Array, Array]:
    """Return the products of (A, c)'s columns, the ridge added to those of units, and their products with Z."""
    units = len(sums.GG) - 1
    size = units + int(offset)
    penalty = np.diag(np.where(np.arange(size) < units, ridge, 0.0))
    return sums.GG[:size, :size] + penalty, sums.GZ[:size]
