r"""Fit a network to labels: damped Fisher scoring on sums over rows.

Problem     Maximise the likelihood of labels (`_families`) over all parameters θ of a network, perhaps with a ridge:
            minimise :math:`\sum_s \ell(y_s, f_\theta(x_s)) + \tfrac{\lambda}{2} |\theta|^2`, biases and offsets left out of
            the ridge.
Idea        Gauss–Newton with the Fisher information in place of J'J, which for canonical links is iteratively reweighted
            least squares on the Jacobian of the network,

            .. math:: \Big(\sum_s J_s^\top V_s J_s + \lambda D + \text{damping}\Big)\, \delta
                      = \sum_s J_s^\top (y_s - \mu_s) - \lambda D \theta. \quad (1)

            The output layer cannot be eliminated in closed form, as it can in least squares, so all parameters move
            together. From fresh units the output layer alone is fitted first: that problem is convex. The scale of a unit of
            a homogeneous activation is a gauge, along which the score vanishes; damping keeps it.
            Losses are in nats, in which a difference of one means the same whatever the data: tolerances are absolute.
Guarantee   A stationary point. Kind: local.
Cost        O(n m q²) per step for q parameters, one pass over the rows per trial; memory of one slice and O(q²).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from planted._clock import check_time
from planted._typing import Array, as_array
from planted.fitting._refine import Damping
from planted.fitting.likelihoods._families import Likelihood
from planted.moments import (
    augment,
    hidden_rows,
    output_columns,
    output_weights,
    with_output_weights,
)
from planted.networks import TwoLayerNetwork
from planted.rows import RowBlocks, RowWeights, Sums, accumulate

__all__ = [
    "FisherSums",
    "LabelFit",
    "LabelRows",
    "Linearised",
    "SoftScore",
    "fit_labels",
    "parameters_of",
    "rows_in_slices",
    "sum_labels",
    "with_parameters",
]

Summed = TypeVar("Summed", bound=Sums)
LIGHT_DAMPING = Damping(1e-2, down=0.1, up=6.0, after_rejection=0.3)
SLICE_VALUES = 1_000_000  # of a Jacobian that is written out


@dataclass(frozen=True, slots=True)
class LabelRows:
    """Rows with encoded labels, and their law."""

    blocks: RowBlocks
    n_samples: int
    likelihood: Likelihood
    weights: RowWeights | None = None


@dataclass(frozen=True, slots=True)
class FisherSums(Sums):
    """Loss, score and information of a network, summed over rows."""

    loss: float  # half the deviance
    score: Array  # (q,)
    information: Array  # (q, q)
    misplaced: int  # rows whose own class is not the most probable one


@dataclass(frozen=True, slots=True)
class SoftScore(Sums):
    """Score of units whose kinks are averaged over their errors (`_smoothed`), summed over rows."""

    score: Array  # (q,)
    variance: Array  # (q, q): its covariance
    curvature: Array  # (q, q): minus its derivative


@dataclass(frozen=True, slots=True)
class LabelFit:
    """A network with the sums at it."""

    network: TwoLayerNetwork
    sums: FisherSums
    cost: float  # the loss with the ridge
    n_steps: int
    soft: SoftScore | None = None  # of kinked units


def fit_labels(
    rows: LabelRows,
    network: TwoLayerNetwork,
    *,
    ridge: float = 0.0,
    outputs_only: bool = False,
    max_iter: int,
    tol: float,
) -> LabelFit:
    """Fit by (1) until a step gains less than `tol` nats; `outputs_only` holds the units where they are."""
    free = np.ones(_n_parameters(network), dtype=bool)
    if outputs_only:
        free[: network.W.size + network.n_hidden] = False
    held = ridge * _is_weight(network)
    state = _evaluate(rows, network, held)
    damping = LIGHT_DAMPING
    for step in range(max_iter):
        check_time()
        if not ridge and state.sums.misplaced == 0:  # separated: larger weights fit better without end
            break
        theta = parameters_of(state.network)
        N = state.sums.information + np.diag(held)
        score = state.sums.score - held * theta
        diagonal = np.diag(N)[free]
        scales = np.maximum(diagonal, 1e-10 * diagonal.max(initial=0.0))

        def try_step(change: Array, theta: Array = theta, here: LabelFit = state) -> LabelFit:
            moved = theta.copy()
            moved[free] += change
            return _evaluate(rows, with_parameters(here.network, moved), held)

        system = N[np.ix_(free, free)], score[free], scales
        trial, damping, _ = damping.descend(system, try_step, state.cost, close=tol)
        if trial is None:
            break
        gained, state = state.cost - trial.cost, replace(trial, n_steps=step + 1)
        if gained <= tol:
            break
    return state


def sum_labels(rows: LabelRows, network: TwoLayerNetwork) -> FisherSums:
    """Sum loss, score and information at a network over all rows, one pass."""
    return accumulate(rows.blocks, _FisherSummand(network, rows.likelihood, rows.weights))


def _evaluate(rows: LabelRows, network: TwoLayerNetwork, held: Array) -> LabelFit:
    with np.errstate(over="ignore", invalid="ignore"):  # a step that overflows is rejected by its cost
        sums = sum_labels(rows, network)
        cost = sums.loss + 0.5 * float(held @ parameters_of(network) ** 2)
    return LabelFit(network, sums, cost if np.isfinite(cost) else np.inf, 0)


@dataclass(frozen=True, slots=True)
class Linearised:
    """A network at some rows: its outputs, and what its Jacobian is made of."""

    network: TwoLayerNetwork
    rows: Array  # (p, n): inputs and ones; transposed, since long rows are faster
    slopes: Array  # (k, n): derivatives of the activations
    columns: Array  # (g, n): what the output layer multiplies, and further functions of x
    eta: Array  # (n, m)

    @classmethod
    def at(cls, network: TwoLayerNetwork, X: Array) -> Linearised:
        """Evaluate a network."""
        rows = augment(X)
        t = rows @ hidden_rows(network).T
        G = output_columns(network, network.activation(t), X)
        slopes = np.ascontiguousarray(network.activation.derivative(t).T)
        eta = G @ output_weights(network).T
        return cls(network, np.ascontiguousarray(rows.T), slopes, np.ascontiguousarray(G.T), eta)

    def score(self, rest: Array) -> Array:
        """Return the sum of J'(y - μ) over rows, all parameters in the order of (W, b) by unit, then by output; (q,)."""
        hidden = (self.slopes * (self.network.A.T @ rest.T)) @ self.rows.T
        return np.concatenate([hidden.ravel(), (rest.T @ self.columns.T).ravel()])

    def information(self, roots: Array, other: Linearised | None = None) -> Array:
        """Return the sum of J'R'R J over rows; with another network's Jacobian on the right if there is one.

        Shapes: roots (n, m, m), result (q, q).
        """
        total: Array | float = 0.0
        for root in np.ascontiguousarray(roots.transpose(1, 2, 0)):  # (m, n): one row of R
            J = self._weighted(root)
            total = total + J @ (J if other is None else other._weighted(root)).T
        return as_array(total)

    def _weighted(self, root: Array) -> Array:
        """The derivatives of a weighted sum of the outputs; (q, n)."""
        bent = self.slopes * (self.network.A.T @ root)
        hidden = (bent[:, None, :] * self.rows).reshape(-1, self.rows.shape[1])
        return np.vstack([hidden, *(weight * self.columns for weight in root)])


@dataclass(frozen=True, slots=True)
class _FisherSummand:
    """Loss, score and information at a network."""

    network: TwoLayerNetwork
    likelihood: Likelihood
    weights: RowWeights | None

    def __call__(self, first_row: int, X: Array, Y: Array) -> FisherSums:
        return rows_in_slices(self._of_slice, self.network, self.weights, first_row, X, Y)

    def _of_slice(self, X: Array, Y: Array, w: Array | None) -> FisherSums:
        law, here = self.likelihood, Linearised.at(self.network, X)
        losses, rest, roots = law.losses(Y, here.eta), Y - law.means(here.eta), law.roots(here.eta)
        if w is not None:
            losses, rest, roots = w * losses, w[:, None] * rest, np.sqrt(w)[:, None, None] * roots
        misplaced = int(rows_misplaced(law, Y, here.eta).sum())
        return FisherSums(float(losses.sum()), here.score(rest), here.information(roots), misplaced)


def rows_in_slices(
    of_slice: Callable[[Array, Array, Array | None], Summed],
    network: TwoLayerNetwork,
    weights: RowWeights | None,
    first_row: int,
    X: Array,
    Y: Array,
) -> Summed:
    """Sum over the rows of a block, so many at a time that a Jacobian of them fits in memory."""
    rows = max(SLICE_VALUES // (_n_parameters(network) * Y.shape[1]), 64)
    total: Summed | None = None
    for start in range(0, len(X), rows):
        inputs, labels = X[start : start + rows], Y[start : start + rows]
        w = None if weights is None else weights(first_row + start, inputs, labels)
        part = of_slice(inputs, labels, w)
        total = part if total is None else total.merge(part)
    assert total is not None, "a block has at least one row"
    return total


def rows_misplaced(law: Likelihood, Y: Array, eta: Array) -> Array:
    """Return one for each row of classes that the outputs do not put strictly above all others, zero else; (n,)."""
    if not law.is_of_classes:
        return np.ones(len(Y))
    if Y.shape[1] == 1:
        return as_array((2 * Y - 1) * eta <= 0)[:, 0]
    scores = np.hstack([np.zeros((len(eta), 1)), eta])
    own = np.hstack([1 - Y.sum(axis=1, keepdims=True), Y]) > 0
    others = np.where(own, -np.inf, scores).max(axis=1)
    return as_array(~(scores[own] > others))


def _n_parameters(network: TwoLayerNetwork) -> int:
    return int(network.W.size + network.n_hidden + output_weights(network).size)


def parameters_of(network: TwoLayerNetwork) -> Array:
    """Return all parameters, in the order of `whitened_jacobian`; (q,)."""
    hidden = hidden_rows(network)
    return np.concatenate([hidden.ravel(), output_weights(network).ravel()])


def with_parameters(network: TwoLayerNetwork, theta: Array) -> TwoLayerNetwork:
    """Put parameters in the order of `parameters_of` into a network."""
    k, p = network.n_hidden, network.n_features + 1
    V = theta[: k * p].reshape(k, p)
    weights = theta[k * p :].reshape(network.n_outputs, -1)
    return with_output_weights(replace(network, W=V[:, :-1], b=V[:, -1]), weights)


def _is_weight(network: TwoLayerNetwork) -> Array:
    """One for weights, zero for biases and offsets; (q,)."""
    hidden = np.hstack([np.ones(network.W.shape), np.zeros((network.n_hidden, 1))])
    outer = np.ones(output_weights(network).shape)
    outer[:, -1] = 0.0
    return np.concatenate([hidden.ravel(), outer.ravel()])
