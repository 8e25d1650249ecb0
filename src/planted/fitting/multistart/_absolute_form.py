r"""Fit a sum of absolute values and a linear part: the form of a ReLU network without orientations.

Problem     Since a ReLU is half an absolute value and half a linear function, a network with k units is

            .. math:: y = \sum_i \beta_i |v_i^\top \tilde x| + \Lambda \tilde x, \qquad \tilde x = (x, 1), \quad (1)

            where :math:`v_i = (w_i, b_i)`, :math:`\beta_i` is half the output weights, and Λ is a linear part.
            Replacing v by -v changes nothing, so that a start cannot have the wrong orientation, which is where fits
            in the ReLU form get stuck. Find v, β and Λ by least squares.
Idea        For fixed hyperplanes (β, Λ) is a linear least-squares problem. Eliminating it leaves the hyperplanes
            alone (variable projection, as in `refine`), with the sums of `planted.moments._kink_normal`.
            Levenberg–Marquardt steps are accepted when the sum of squares falls. A trial costs n (k + p)²; only
            accepted steps pay for the normal matrix, and with many unknowns it is not formed at all
            (`_conjugate_steps`). Then units are taken away one by one. Leaving out unit i raises
            the cost by

            .. math:: \delta_i = \|\beta_i\|^2 / [(G^\top G)^{-1}]_{ii}, \qquad G = [|t|, \tilde x], \quad (2)

            which is zero for a unit without effect and for one of two that coincide (`planted.linalg.symmetric`).
Guarantee   A stationary point of (1). Kind: local.
Departures  Steps are made in the hyperplanes alone instead of jointly in (v, β, Λ). With half as many extra units as
            units nearly every single start ends at rounding error (docs/theory/restarts.md).
Cost        O(n (k p)²/2) per accepted step, O((k p)³) algebra, O((k p)²) memory; with many unknowns O(n k p) for each
            of some 15 products in a step, O(n k) memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from planted._clock import check_time
from planted._typing import Array, IntArray, as_array
from planted.fitting._refine import Damping, Descent, weigh_blocks
from planted.linalg.symmetric import Spectrum, column_spectrum, rises_of_columns, solve_symmetric, unit_rows
from planted.moments import LinearSums, NormalSums, accumulate_kinks, accumulate_linear

if TYPE_CHECKING:
    from planted.fitting.multistart._conjugate_steps import KinkTangent

__all__ = ["KinkFit", "Reweigh", "fit_kinks", "prune_units", "random_hyperplanes"]

INITIAL_DAMPING = Damping(1e-2, up=4.0, after_rejection=0.5)
MANY_UNKNOWNS = 400  # hyperplanes times their length, from where steps by conjugate gradients are faster
LEAST_DAMPING = float(np.finfo(np.float32).eps)  # of those steps: their products are float32
BIAS_SPREAD = 0.5  # standard deviation of the biases of random hyperplanes on standardised inputs

Reweigh = Callable[[Array], Array]
"""Called with the residual (n, m); returns one weight per row. The weights are held fixed during a step."""


@dataclass(frozen=True, slots=True)
class KinkFit:
    """A fit of the absolute-value form (1)."""

    V: Array  # (k, p): hyperplanes (w, b), w of unit norm
    coefficients: Array  # (m, k + p): β and Λ
    cost: float  # weighted sum of squared residuals
    GG: Array  # (k + p, k + p): products of the regressors [|t|, x̃]
    costs: tuple[float, ...]  # the cost after every accepted step
    converged: bool  # whether nothing was left to gain, in contrast to ``max_iter``

    @property
    def n_units(self) -> int:
        """Number of hyperplanes."""
        return len(self.V)

    @property
    def kinks(self) -> Array:
        """The coefficients β, shape (m, k)."""
        return self.coefficients[:, : len(self.V)]

    @property
    def linear(self) -> Array:
        """The linear part Λ, shape (m, p)."""
        return self.coefficients[:, len(self.V) :]

    def __call__(self, rows: Array) -> Array:
        """Evaluate (1) on rows (x, 1)."""
        return np.abs(rows @ self.V.T) @ self.kinks.T + rows @ self.linear.T


def random_hyperplanes(count: int, n_features: int, rng: np.random.Generator) -> Array:
    """Draw hyperplanes (w, b) that cut standardised inputs near their middle, w of unit norm.

    Shapes: result (count, n_features + 1).
    """
    W = unit_rows(rng.standard_normal((count, n_features)))[0]
    return np.hstack([W, BIAS_SPREAD * rng.standard_normal((count, 1))])


def fit_kinks(
    rows: Array,
    Y: Array,
    V: Array,
    *,
    max_iter: int,
    decrease_tol: float,
    enough: float = 0.0,
    reweigh: Reweigh | None = None,
) -> KinkFit:
    """Fit (1) from given hyperplanes by variable-projection Levenberg–Marquardt.

    `decrease_tol`: stop when a step lowers the cost by less than this fraction of it. `enough`: stop when the cost is
    below this part of the sum of squares of Y; at rounding error if omitted. `reweigh`: weights of the rows given the
    residual; all one if omitted. Shapes: rows (n, p), Y (n, m), V (k, p).
    """
    data = _Rows(rows, Y, reweigh, rows.astype(np.float32) if V.size > MANY_UNKNOWNS else None)
    energy = float((Y**2).sum())
    floor = max((8 * np.finfo(float).eps) ** 2, enough) * energy
    state = data.start(_unit_normals(V))
    costs, damping = [state.cost], INITIAL_DAMPING
    if data.single is not None:
        damping = replace(damping, least=LEAST_DAMPING)

    def try_step(step: Array) -> _Trial:
        return data.try_out(*_move(state, step), state.weights)

    for _ in range(max_iter):
        check_time()
        if state.cost <= floor:
            return state.ended(costs, True)
        trial, damping, _ = state.tangent.descend(damping, try_step)
        if trial is None:
            return state.ended(costs, True)
        gained, state = state.cost - trial.cost, data.linearise(trial)
        costs.append(trial.cost)
        if gained <= decrease_tol * trial.cost:
            return state.ended(costs, True)
    return state.ended(costs, False)


def prune_units(fit: KinkFit, n_units: int, *, tol: float = 0.0) -> tuple[IntArray, Array]:
    """Take units away in the order in which they are missed least (2).

    Beyond `n_units`, units stay only if leaving them out raises the cost by more than `tol`. Returns the units that
    stay, in their order, and the rise of the cost with each unit taken away.
    """
    kept, losses = np.arange(fit.n_units), []
    target = fit.GG @ fit.coefficients.T  # what the regressors must explain; the fit is optimal
    linear = np.arange(fit.n_units, len(fit.GG))
    while len(kept) > n_units:
        used = np.concatenate([kept, linear])
        columns = column_spectrum(fit.GG[np.ix_(used, used)])
        rises = rises_of_columns(columns, columns.regular().solve(target[used]))[: len(kept)]
        least = int(np.argmin(rises))
        if tol and rises[least] > tol:
            break
        losses.append(float(rises[least]))
        kept = np.delete(kept, least)
    return kept, as_array(losses)


@dataclass(frozen=True, slots=True)
class _State:
    V: Array
    coefficients: Array
    weights: Array | None
    tangent: _NormalTangent | KinkTangent

    @property
    def cost(self) -> float:
        return self.tangent.cost

    def ended(self, costs: list[float], converged: bool) -> KinkFit:
        return KinkFit(self.V, self.coefficients, self.cost, self.tangent.GG, tuple(costs), converged)


@dataclass(frozen=True, slots=True)
class _Trial:
    V: Array
    coefficients: Array
    cost: float
    GG: Array


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows in memory, and how they are weighted."""

    rows: Array
    Y: Array
    reweigh: Reweigh | None
    single: npt.NDArray[np.float32] | None  # the rows in float32, where steps are by conjugate gradients

    def start(self, V: Array) -> _State:
        nothing = np.zeros((self.Y.shape[1], sum(V.shape)))
        trial = self.try_out(V, nothing, None)
        return self.linearise(self.try_out(V, trial.coefficients, None))

    def try_out(self, V: Array, coefficients: Array, weights: Array | None) -> _Trial:
        """Move (β, Λ) to its optimum for these hyperplanes; the cost is that of the move's end."""
        sums = accumulate_linear(self.rows, self.Y, V, coefficients=coefficients, weights=weights)
        change = solve_symmetric(sums.GG, sums.GR)
        return _Trial(V, coefficients + change.T, max(_cost_after(sums, change), 0.0), sums.GG)

    def linearise(self, trial: _Trial) -> _State:
        """Take the normal equations at a trial, with fresh weights."""
        weights = None
        if self.reweigh is not None:
            fitted = np.abs(self.rows @ trial.V.T)
            G = np.hstack([fitted, self.rows])
            weights = self.reweigh(self.Y - G @ trial.coefficients.T)
            trial = self.try_out(trial.V, trial.coefficients, weights)
        V, coefficients = trial.V, trial.coefficients
        tangent: _NormalTangent | KinkTangent
        if self.single is None:
            sums = accumulate_kinks(self.rows, self.Y, V, coefficients=coefficients, weights=weights)
            tangent = _NormalTangent(sums, column_spectrum(sums.GG).regular(), V, coefficients[:, : len(V)])
        else:
            from planted.fitting.multistart._conjugate_steps import linearise_kinks

            tangent = linearise_kinks(
                (self.rows, self.single), self.Y, V, coefficients=coefficients, GG=trial.GG, weights=weights
            )
        return _State(V, coefficients, weights, tangent)


def _cost_after(sums: LinearSums, change: Array) -> float:
    return sums.RR - 2 * float((change * sums.GR).sum()) + float((change * (sums.GG @ change)).sum())


@dataclass(frozen=True, slots=True)
class _NormalTangent:
    """The form linearised at some hyperplanes, by its normal equations."""

    sums: NormalSums
    regressors: Spectrum  # of G'G, which every step from here needs
    V: Array
    kinks: Array

    @property
    def GG(self) -> Array:
        return self.sums.GG

    @property
    def cost(self) -> float:
        return float(np.trace(self.sums.RR))

    def descend(self, damping: Damping, try_step: Callable[[Array], _Trial]) -> Descent[_Trial]:
        return damping.descend(self._reduced_system(), try_step, self.cost)

    def effect(self, moved: Array) -> Array:
        across = np.einsum("gjp,jp->gj", self.sums.GZ.reshape(-1, *moved.shape), moved)
        return as_array(across @ self.kinks.T)

    def _reduced_system(self) -> tuple[Array, Array, Array]:
        """Return the matrix, gradient and damping scales in the hyperplanes alone, scale of each unit pinned."""
        k, p = self.V.shape
        sums, kinks = self.sums, self.kinks
        N = weigh_blocks(sums.ZZ - sums.GZ.T @ self.regressors.solve(sums.GZ), kinks)
        gradient = np.einsum("jpl,lj->jp", sums.ZR.reshape(k, p, -1), kinks).ravel()
        scales = np.repeat((kinks**2).sum(axis=0), p) * np.diag(sums.ZZ)
        scales = np.maximum(scales, 1e-12 * scales.max(initial=0.0))
        for j, row in enumerate(self.V):
            block = slice(j * p, (j + 1) * p)
            N[block, block] += np.outer(row, row) * (scales[block].mean() / (row @ row))
        return N, gradient, scales


def _move(state: _State, step: Array) -> tuple[Array, Array]:
    """Move the hyperplanes by the step and (β, Λ) by its linear prediction, then renormalise."""
    k = len(state.V)
    moved = step.reshape(state.V.shape)
    predicted = state.coefficients - state.tangent.regressors.solve(state.tangent.effect(moved)).T
    V = state.V + moved
    norms = unit_rows(V[:, :-1])[1]
    predicted[:, :k] *= norms
    return V / norms[:, None], predicted


def _unit_normals(V: Array) -> Array:
    return V / unit_rows(V[:, :-1])[1][:, None]
