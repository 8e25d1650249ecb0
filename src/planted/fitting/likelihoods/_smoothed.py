r"""The maximum of a likelihood that kinked units leave rough.

Problem     Every label at which a kinked unit switches bends the likelihood a little. It has many small maxima within a
            standard error of each other, and the highest of them is where chance is, not where the network is; its second
            derivative sees no kink at all.
Idea        The likelihood is averaged over the ellipsoid of its own errors. With the information I at a fit and draws
            δ ~ N(0, I⁻¹), in pairs of opposite sign,

            .. math:: \bar s(\theta) = \frac1N \sum_r s(\theta + \delta_r) = 0                            \quad (1)

            has one solution where the score s has many. Averaging moves a quadratic likelihood down and not aside. Moves
            are tangent to unit rows of W, since the scale of a unit is a gauge.

            The curvature of the average is known without draws: in the observed information J'VJ - Σ (y - μ)'∂²f the
            second derivative of a unit is its change of slope times the normal density of its pre-activation t, whose
            variance is that of t under δ. Where this curvature H differs from I, so do the errors:

            .. math:: \mathrm{Cov}(\hat\theta) = H^{-1} I H^{-1}.                                            \quad (2)
Guarantee   None; asymptotically the solution is that of greatest likelihood, and (2) is the inverse information.
Cost        `N_DRAWS` scores per step and row, a few steps of Broyden's method from H.
References  Chernozhukov and Hong (2003), J. Econometrics 115 (means over a rough likelihood).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, optimize

from planted._clock import check_time
from planted._typing import Array, as_array
from planted.fitting._jacobian import tangent_basis
from planted.fitting.likelihoods._families import Likelihood
from planted.fitting.likelihoods._fit import (
    LabelFit,
    LabelRows,
    Linearised,
    parameters_of,
    sum_labels,
    with_parameters,
)
from planted.moments import augment, output_weights
from planted.networks import TwoLayerNetwork
from planted.rows import RowWeights, Sums, accumulate

__all__ = ["free_moves", "smoothed_maximum"]

N_DRAWS = 24
MAX_STEPS = 15
SOLVED = 1e-3  # nats that one more step would gain


def free_moves(network: TwoLayerNetwork) -> Array:
    """Return a basis of the directions in which all parameters can move at unit rows of W; (q, r)."""
    return as_array(linalg.block_diag(tangent_basis(network), np.eye(output_weights(network).size)))


def smoothed_maximum(rows: LabelRows, fit: LabelFit, rng: np.random.Generator) -> LabelFit:
    """Return the solution of (1) near a fit with unit rows of W, with the average's score and curvature.

    Where the average has no maximum near the fit, the fit itself with that curvature; where the rows do not determine it,
    without.
    """
    moves = free_moves(fit.network)
    inner = moves.T @ fit.sums.information @ moves
    values = linalg.eigvalsh(inner, check_finite=False)
    if values[0] <= len(values) * np.finfo(float).eps * values[-1]:
        return fit
    # A root of their covariance that changes little from one fit to the next, so that the draws do.
    errors = moves @ linalg.solve_triangular(linalg.cholesky(inner), np.eye(len(inner)))
    curvature = _curvature(rows, fit.network, errors)
    rough = replace(fit, curvature=curvature)
    bends, along = linalg.eigh(moves.T @ curvature @ moves, check_finite=False)
    if bends[0] <= 0:
        return rough
    half = rng.standard_normal((N_DRAWS // 2, len(values)))
    draws = np.vstack([half, -half]) @ errors.T
    steps, theta = moves @ (along / np.sqrt(bends)), parameters_of(fit.network)

    def mean_score(place: Array) -> Array:
        """The score in coordinates in which it falls by about the step."""
        check_time()
        network = with_parameters(fit.network, theta + steps @ place)
        summand = _MeanScore(network, rows.likelihood, rows.weights, draws)
        return as_array(steps.T @ accumulate(rows.blocks, summand).score)

    try:
        place = optimize.broyden1(
            mean_score,
            np.zeros(len(values)),
            alpha=1.0,
            maxiter=MAX_STEPS,
            f_tol=1.0,
            tol_norm=_in_tolerances,
        )
    except optimize.NoConvergence:
        return rough
    network = _scaled(with_parameters(fit.network, theta + steps @ place))
    sums = sum_labels(rows, network)
    mean = accumulate(rows.blocks, _MeanScore(network, rows.likelihood, rows.weights, draws))
    sums = replace(sums, score=mean.score)
    return LabelFit(network, sums, sums.loss, fit.n_steps, _curvature(rows, network, errors))


def _in_tolerances(score: Array) -> float:
    return float(np.sqrt(0.5 * score @ score / SOLVED))


def _scaled(network: TwoLayerNetwork) -> TwoLayerNetwork:
    W, norms = network.activation.unit_scale(network.W)
    return replace(network, W=W, b=network.b / norms, A=network.A * norms)


@dataclass(frozen=True, slots=True)
class _ScoreSum(Sums):
    score: Array


@dataclass(frozen=True, slots=True)
class _MeanScore:
    """The score (1) of a piecewise-linear network, averaged over draws."""

    network: TwoLayerNetwork
    likelihood: Likelihood
    weights: RowWeights | None
    draws: Array  # (N_DRAWS, q)

    def __call__(self, first_row: int, X: Array, Y: Array) -> _ScoreSum:
        w = None if self.weights is None else self.weights(first_row, X, Y)
        theta, total = parameters_of(self.network), np.zeros(self.draws.shape[1])
        for draw in self.draws:
            here = Linearised.at(with_parameters(self.network, theta + draw), X)
            rest = Y - self.likelihood.means(here.eta)
            total += here.score(rest if w is None else w[:, None] * rest)
        return _ScoreSum(total / len(self.draws))


def _curvature(rows: LabelRows, network: TwoLayerNetwork, root: Array) -> Array:
    """Return the observed information of the average over errors with this root of their covariance; (q, q)."""
    k, p = network.n_hidden, network.n_features + 1
    spread = root[: k * p].reshape(k, p, -1)
    summand = _Curvature(network, rows.likelihood, rows.weights, spread @ spread.transpose(0, 2, 1))
    return accumulate(rows.blocks, summand).curvature


@dataclass(frozen=True, slots=True)
class _CurvatureSum(Sums):
    curvature: Array


@dataclass(frozen=True, slots=True)
class _Curvature:
    """Minus the second derivative of the averaged likelihood."""

    network: TwoLayerNetwork
    likelihood: Likelihood
    weights: RowWeights | None
    covariances: Array  # (k, p, p): of the weights of each unit

    def __call__(self, first_row: int, X: Array, Y: Array) -> _CurvatureSum:
        net, law, here = self.network, self.likelihood, Linearised.at(self.network, X)
        k, p, m = net.n_hidden, net.n_features + 1, net.n_outputs
        roots, rest = law.roots(here.eta), Y - law.means(here.eta)
        if self.weights is not None:
            w = self.weights(first_row, X, Y)
            roots, rest = np.sqrt(w)[:, None, None] * roots, w[:, None] * rest
        inputs, pulls = augment(X), rest @ net.A  # (n, p), (n, k)
        t = net.preactivations(X)
        H = here.information(roots)
        n_columns = output_weights(net).shape[1]
        for i in range(k):
            own = slice(i * p, (i + 1) * p)
            spread = np.sqrt(np.maximum(((inputs @ self.covariances[i]) * inputs).sum(axis=1), 1e-300))
            density = np.exp(-0.5 * (t[:, i] / spread) ** 2) / (np.sqrt(2 * np.pi) * spread)
            bend = 2 * net.activation.kink * density
            H[own, own] -= inputs.T @ (inputs * (pulls[:, i] * bend)[:, None])
            mixed = inputs.T @ (rest * here.slopes[i][:, None])  # (p, m): hidden weights with output weights
            for output in range(m):
                column = k * p + output * n_columns + i
                H[own, column] -= mixed[:, output]
                H[column, own] -= mixed[:, output]
        return _CurvatureSum(H)
