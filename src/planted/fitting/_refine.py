r"""Refine a network by variable-projection Levenberg–Marquardt on sums over rows.

Problem     From a nearby network find the minimiser of :math:`\sum_s \|y_s - A f(W x_s + b) - c\|^2` over W, b, A, c.
Idea        For fixed hidden parameters :math:`V = (W, b)` the best (A, c) is a linear least-squares problem, and
            eliminating it leaves a problem in V alone [Golub2003]_. With the sums of `planted.moments._gram`
            (masked inputs Z, and G = [H, 1]) the Gauss–Newton matrix of the reduced problem is

            .. math:: N = (A^\top A \otimes 1_{p \times p}) \circ (Z^\top Z - Z^\top G (G^\top G)^{-1} G^\top Z) \quad (1)

            and its gradient is :math:`g_j = Z_j^\top R\, a_j` (2), both from one pass over the rows. The damping
            multiplies the diagonal of N, and a step is accepted when the sum of squares really falls. The scale of a
            unit is a gauge: N is singular along :math:`(w_j, b_j)`, so that this direction is pinned by a rank-one
            term, and the rows of W are renormalised after each step; a curved activation needs neither. A network
            with a linear part B has it fitted too: G = [H, X, 1], and (A, B, c) is eliminated.
Guarantee   A stationary point; the global minimum when the start is in its basin. For ReLU the problem is piecewise
            quadratic, so that noiseless data end at rounding error in finitely many steps. Kind: local.
Departures  Kaufman's simplification of the Jacobian is used: the derivative of the projector is dropped, which is
            exact at zero residual and of second order otherwise. The residual is computed again from the rows at
            every step (see `planted.moments._gram`).
Cost        One pass per trial step, O(n (k p)²) time for p = d + 1, O((k p)²) memory, O((k p)³) algebra.
References  [Golub2003]_

The step rule is shared with the absolute-value form and moment matching. A step solves (N + λ diag(scales)) step =
gradient with the Gauss–Newton matrix N. The damping λ is raised until a step lowers the cost, and lowered after a step
that did so at once. `Damping` holds λ and the rule by which it changes; the fits that use it say how their matrix is
formed and what a trial costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from scipy import linalg

from planted._typing import Array, as_array
from planted.linalg.symmetric import Spectrum, column_spectrum
from planted.moments import (
    NormalSums,
    accumulate_normal,
    hidden_rows,
    output_weights,
    with_output_weights,
)
from planted.networks import TwoLayerNetwork
from planted.rows import RowBlocks, RowWeights

__all__ = [
    "Damping",
    "Descent",
    "Refinement",
    "damped_step",
    "reduced_normal_matrix",
    "refine",
    "weigh_blocks",
]

MAX_RAISE = 4e12  # times the damping: the step is then below rounding
MIN_DAMPING = 1e-14


class _HasCost(Protocol):
    @property
    def cost(self) -> float: ...


Trial = TypeVar("Trial", bound=_HasCost)


class Descent(NamedTuple, Generic[Trial]):
    """The trial that lowered the cost or None, the damping to go on with, and the number of trials."""

    trial: Trial | None
    damping: Damping
    tried: int


@dataclass(frozen=True, slots=True)
class Damping:
    """How strongly steps are damped, in units of the diagonal, and the rule by which that changes."""

    value: float  # the damping
    down: float = 0.1  # factor after a step that succeeded at once
    up: float = 8.0  # factor after a step that did not lower the cost
    after_rejection: float = 0.1  # factor after a step that succeeded at a raised damping
    least: float = MIN_DAMPING
    # The largest diagonal so far: a direction that was once stiff stays damped (Moré 1978).
    scales: Array | None = None

    def descend(
        self,
        system: tuple[Any, Array, Array],
        try_step: Callable[[Array], Trial],
        cost: float,
        *,
        close: float = 0.0,
        solve: Callable[[Any, Array, Array], Array | None] | None = None,
    ) -> Descent[Trial]:
        """Raise the damping until a step lowers the cost.

        `system`: the Gauss–Newton matrix, the descent direction and the diagonal that damping multiplies. `close`: a
        step that raises the cost by less ends the descent, and so does one that fails and promised little more.
        `solve`: called as `damped_step` for a matrix of another kind. The trial of the result is None if no step lowers
        the cost: the fit is then at a minimum to rounding, or close to one.
        """
        N, gradient, scales = system
        scales = scales if self.scales is None else np.maximum(self.scales, scales)
        value, tried = self.value, 0
        while value <= self.value * MAX_RAISE:
            step = (solve or damped_step)(N, gradient, value * scales)
            if step is not None:
                tried += 1
                trial = try_step(step)
                if trial.cost < cost:
                    factor = self.down if value == self.value else self.after_rejection
                    return Descent(
                        trial, replace(self, value=max(value * factor, self.least), scales=scales), tried
                    )
                promised = float(step @ (2 * gradient - N @ step)) if close else np.inf
                if trial.cost < cost + close or promised < HARDLY * close:
                    break
            value *= self.up
        return Descent(None, replace(self, value=value), tried)


def damped_step(N: Array, gradient: Array, damping: Array) -> Array | None:
    """Solve (N + diag(damping)) step = gradient; None if the matrix is not positive definite to rounding, or overflows.

    Shapes: N (q, q), gradient (q,), damping (q,), result (q,).
    """
    damped = N.copy()
    damped.flat[:: len(N) + 1] += damping
    factor, is_singular = linalg.lapack.dpotrf(damped, lower=1, clean=0)
    if is_singular:
        return None
    step = as_array(linalg.lapack.dpotrs(factor, gradient, lower=1)[0])
    return step if np.isfinite(step).all() else None


def weigh_blocks(inner: Array, A: Array) -> Array:
    """Multiply the p × p block (i, j) by a_i'a_j.

    Shapes: inner (k*p, k*p), A (m, k), result (k*p, k*p).
    """
    k = A.shape[1]
    p = len(inner) // max(k, 1)
    weighed = inner.reshape(k, p, k, p) * (A.T @ A)[:, None, :, None]
    return weighed.reshape(k * p, k * p)


INITIAL_DAMPING = Damping(1e-3)
CANCELLATION = 1e-6  # a cost below this part of what was subtracted to get it has lost six digits or more
# Decrease of the sum of squares, in units of the noise variance, below which a step has no statistical meaning:
# 78 against 4-9 iterations for the same answer at 0.01-0.1, because steps dither on kinks.
DECREASE_TOL = 0.01
HARDLY = 10.0  # times that: a step that promised less and failed jumped between kinks


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
    goal: float = -np.inf,
) -> Refinement:
    """Minimise the sum of squares from a given network.

    If `biases` is false, the start must have b = 0, and b stays zero. The refinement stops when a step changes the
    cost by less than `decrease_tol` residual variances: near a minimum steps jump between kinks. `ridge`
    times the squared output weights of units of unit rows is added to the sum of squares; it is for data that are not
    planted, and a recovery uses none. `goal`: a cost that decides something; the refinement ends where gains as large as
    the last one in all steps that are left would not reach it.
    """
    state, passes = _evaluate_start(blocks, _unit_rows(network), offset, weights, ridge)
    costs, damping = [state.cost], INITIAL_DAMPING
    if not network.n_hidden:  # nothing but a linear part, which is at its optimum
        return state.ended(0, passes, True, costs)

    def try_step(step: Array) -> _State:
        return _evaluate(blocks, _move(state, step), offset, weights, ridge)

    for iteration in range(max_iter):
        system = _reduced_system(state, biases)
        enough = decrease_tol * state.residual_variance
        trial, damping, tried = damping.descend(system, try_step, state.cost, close=enough)
        passes += tried
        if trial is None:
            return state.ended(iteration, passes, True, costs)
        gained, state = state.cost - trial.cost, trial
        costs.append(state.cost)
        if state.cost <= state.rounding_floor:
            return state.ended(iteration + 1, passes, True, costs)
        if gained <= decrease_tol * state.residual_variance:
            return state.ended(iteration + 1, passes, True, costs)
        if state.cost - (max_iter - iteration - 1) * gained > goal > -np.inf:
            return state.ended(iteration + 1, passes, False, costs)
    return state.ended(max_iter, passes, False, costs)


def reduced_normal_matrix(
    sums: NormalSums, network: TwoLayerNetwork, *, offset: bool, ridge: float = 0.0
) -> Array:
    """Return the Gauss–Newton matrix N of (1), singular along the scale of each unit.

    Shapes: result (k*p, k*p).
    """
    return _eliminated(sums, network, _outer_spectrum(sums, network, offset, ridge))


@dataclass(frozen=True, slots=True)
class _State:
    network: TwoLayerNetwork
    sums: NormalSums
    outer: Spectrum  # of G'G, which every solve at this network needs
    cost: float

    @property
    def residual_variance(self) -> float:
        return self.cost / max(self.sums.count * self.network.n_outputs, 1.0)

    @property
    def rounding_floor(self) -> float:
        """The sum of squares that rounding alone leaves: (8 eps)² times the outputs' energy."""
        B = output_weights(self.network)
        return float((8 * np.finfo(float).eps) ** 2 * np.einsum("lg,gh,lh->", B, self.sums.GG, B))

    def ended(self, iterations: int, passes: int, converged: bool, costs: list[float]) -> Refinement:
        return Refinement(self.network, self.sums, self.cost, iterations, passes, converged, tuple(costs))


def _evaluate_start(
    blocks: RowBlocks, network: TwoLayerNetwork, offset: bool, weights: RowWeights | None, ridge: float
) -> tuple[_State, int]:
    """Evaluate the start, twice if its (A, c) was so far off that the cost is a difference of large sums."""
    state = _evaluate(blocks, network, offset, weights, ridge)
    change = output_weights(state.network) - output_weights(network)
    removed = float(np.einsum("lg,gh,lh->", change, state.sums.GG, change))
    if state.cost >= CANCELLATION * removed:
        return state, 1
    return _evaluate(blocks, state.network, offset, weights, ridge), 2


def _evaluate(
    blocks: RowBlocks, network: TwoLayerNetwork, offset: bool, weights: RowWeights | None, ridge: float
) -> _State:
    """Take the sums at a network, then move (A, c) to its optimum and correct the sums accordingly."""
    sums = accumulate_normal(blocks, network, weights=weights)
    outer = _outer_spectrum(sums, network, offset, ridge)
    size = len(outer.lengths)
    change = np.zeros_like(sums.GR)
    pull = sums.GR.copy()
    pull[: network.n_hidden] -= ridge * network.A.T
    change[:size] = outer.solve(pull[:size])
    moved = sums.GG @ change
    corrected = replace(
        sums,
        ZR=sums.ZR - sums.GZ.T @ change,
        GR=sums.GR - moved,
        RR=sums.RR - change.T @ sums.GR - sums.GR.T @ change + change.T @ moved,
    )
    better = with_output_weights(network, output_weights(network) + change.T)
    penalty = ridge * float((better.A**2).sum())
    return _State(better, corrected, outer, max(float(np.trace(corrected.RR)), 0.0) + penalty)


def _reduced_system(state: _State, biases: bool) -> tuple[Array, Array, Array]:
    """Return the pinned matrix N, the gradient (2) and the diagonal that damping multiplies; known biases stay."""
    net, p = state.network, state.network.n_features + 1
    N = _eliminated(state.sums, net, state.outer)
    gradient = np.einsum("jpl,lj->jp", state.sums.ZR.reshape(net.n_hidden, p, net.n_outputs), net.A).ravel()
    scales = np.diag(state.sums.ZZ) * np.repeat((net.A**2).sum(axis=0), p)
    scales = np.maximum(scales, 1e-12 * scales.max(initial=0.0))
    if not net.activation.is_curved:
        rows, units = hidden_rows(net), np.arange(net.n_hidden)
        pins = scales.reshape(-1, p).mean(axis=1) / (rows**2).sum(axis=1)
        N.reshape(-1, p, net.n_hidden, p)[units, :, units] += (rows[:, :, None] * rows[:, None]) * pins[
            :, None, None
        ]
    if not biases:
        known = np.arange(p - 1, len(N), p)
        N[known, :] = N[:, known] = 0.0
        N[known, known] = scales[known]
        gradient[known] = 0.0
    return N, gradient, scales


def _eliminated(sums: NormalSums, network: TwoLayerNetwork, outer: Spectrum) -> Array:
    """Return the matrix (1)."""
    GZ = sums.GZ[: len(outer.lengths)]
    return weigh_blocks(sums.ZZ - GZ.T @ outer.solve(GZ), network.A)


def _move(state: _State, step: Array) -> TwoLayerNetwork:
    """Move V by the step and (A, c) by its linear prediction, then renormalise the rows of W."""
    net, k, size = state.network, state.network.n_hidden, len(state.outer.lengths)
    moved = step.reshape(k, -1)
    effect = np.einsum("gjp,jp->gj", state.sums.GZ[:size].reshape(size, k, -1), moved) @ net.A.T
    weights = output_weights(net)
    weights[:, :size] -= state.outer.solve(effect).T
    W, norms = net.activation.unit_scale(net.W + moved[:, :-1])
    weights[:, :k] *= norms**net.activation.degree
    linear = None if net.B is None else weights[:, k:-1]
    b = (net.b + moved[:, -1]) / norms
    return TwoLayerNetwork(W, b, weights[:, :k], weights[:, -1], net.activation, linear)


def _unit_rows(network: TwoLayerNetwork) -> TwoLayerNetwork:
    W, norms = network.activation.unit_scale(network.W)
    return replace(network, W=W, b=network.b / norms, A=network.A * norms**network.activation.degree)


def _outer_spectrum(sums: NormalSums, network: TwoLayerNetwork, offset: bool, ridge: float) -> Spectrum:
    """Return the spectrum of the products of the output layer's columns, the ridge added to those of units."""
    units = network.n_hidden
    size = len(sums.GG) - int(not offset)
    products = sums.GG[:size, :size]
    if ridge:
        products = products + np.diag(np.where(np.arange(size) < units, ridge, 0.0))
    return column_spectrum(products).regular()
