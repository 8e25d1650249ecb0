r"""Losses that forgive outliers: M-estimates by least squares on pseudo-outputs.

Problem     Minimise :math:`\sum_{i,l} \rho(r_{il} / s_l)` instead of a sum of squares, where r is the residual of one
            output of one sample and s the scale of that output's inliers. Rows may carry weights ω.
Idea        With ψ = ρ' the minimum is where :math:`J^\top \psi(r/s) = 0`. Replace the outputs by

            .. math:: \tilde y = f(x) + s\, \psi(r / s) / q, \qquad q = \mathrm{mean}\ \psi'(r / s) .    \quad (1)

            A least-squares step towards these pseudo-outputs is Newton's step for the M-estimate [Huber1981]_. At the
            end the residual of (1) has the variance :math:`s^2 E \psi^2 / (E \psi')^2` of the M-estimate's influence.
            The standard errors, the test for traces of x and the search for a missing unit are therefore those of
            least squares on the pseudo-outputs. Weights belong to entries rather than rows, so that one wild output
            of a sample does not cost the others. A missing label (NaN) has ψ = ψ' = 0. The scale is the median
            absolute residual over 0.6745.

            | loss | ψ(u) | tuned to 95 % efficiency on normal noise |
            | huber | max(-τ, min(u, τ)) | τ = 1.345 |
            | cauchy | u / (1 + (u/τ)²) | τ = 2.385 |
            | sharp-cauchy | the same | τ = 1: 76 % there, but 96 % on Cauchy noise, where τ = 2.385 has 68 % |
            | l1 | u / sqrt(u² + τ²), smoothed | τ = 0.1, by reweighting 1/sqrt(u² + τ²) |

            The loss "auto" fits with huber and then takes the loss with the smallest :math:`E \psi^2 / (E \psi')^2`,
            which is the squared one unless another is better by `MARGIN`.
Guarantee   A stationary point of the loss, for noise independent of x. The offset c is the centre of the noise in the
            sense of ψ, which is its mean only if the noise is symmetric (`planted.certificates._robust` tests it).
            Kind: local, asymptotic.
Cost        Some ten to thirty refinements of one to three passes.
References  [Huber1981]_
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planted._typing import Array
from planted.fitting._refine import DECREASE_TOL, Refinement, refine
from planted.fitting._run import Problem
from planted.fitting.multistart._absolute_form import Reweigh
from planted.fitting.multistart._candidates import refine_on_all_rows
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError
from planted.rows import RowWeights

__all__ = [
    "LOSSES",
    "RobustFit",
    "check_loss",
    "choose_loss",
    "entry_weights",
    "fit_with_loss",
    "output_scales",
    "refine_with_loss",
    "search_weights",
]

LOSSES = ("squared", "huber", "cauchy", "sharp-cauchy", "l1")
HUBER, SMOOTH = 1.345, 0.1
CAUCHY = {"cauchy": 2.385, "sharp-cauchy": 1.0}
MEDIAN_TO_STD = 1.4826
SMALLEST_SCALE = 1e-12  # of residuals in output standard deviations: rounding
SMALLEST_SLOPE = 0.05  # of (1): the step is then at most twenty times the influence
ROUNDS = 60
STEPS = 3
MARGIN = 0.05  # estimated gain of variance below which the squared loss is kept


@dataclass(frozen=True, slots=True)
class RobustFit:
    """Where the fit under a loss ended."""

    fit: Refinement  # the least-squares fit to the pseudo-outputs (1), which is the M-estimate
    has_offset: bool  # whether c was kept free
    problem: Problem  # the problem with pseudo-outputs in place of outputs: what certificates are to look at
    weights: RowWeights | None  # the user's weights of rows, for sums
    loss: str  # the loss, never "auto"
    scales: Array  # (m,): scale of each output's inliers
    converged: bool  # whether nothing was left to gain
    # Estimated variance of each loss relative to the best; empty unless it was chosen here.
    efficiencies: dict[str, float]


def check_loss(loss: str) -> str:
    """Refuse unknown losses."""
    if loss != "auto" and loss not in LOSSES:
        raise BadInputError(f"unknown loss {loss!r}; known are 'auto', {', '.join(map(repr, LOSSES))}")
    return loss


def search_weights(loss: str, omega: Array | None) -> Reweigh | None:
    """Return how to weigh the rows of a search from their residual.

    Shapes: omega (n,).
    """
    if loss == "squared" and omega is None:
        return None
    name = "huber" if loss == "auto" else loss

    def reweigh(residual: Array) -> Array:
        sizes = np.sqrt((residual**2).mean(axis=1))
        scale = max(MEDIAN_TO_STD * float(np.median(sizes)), SMALLEST_SCALE)
        weights = entry_weights(name, sizes / scale)
        return weights if omega is None else weights * omega

    return reweigh


def refine_with_loss(
    problem: Problem,
    network: TwoLayerNetwork,
    offset: bool | str,
    *,
    loss: str,
    weights: RowWeights | None = None,
) -> RobustFit:
    """Refine on all rows under a loss and weights.

    The fit comes with the problem on which it is a least-squares fit.
    """
    network = problem.scaling.in_order(network)
    if loss == "auto":
        rough = fit_with_loss(problem, network, offset=offset is not False, loss="huber", weights=weights)[0]
        start = rough.network
        loss, efficiencies = choose_loss(problem.Y - start(problem.X))
        return replace(
            refine_with_loss(problem, start, offset, loss=loss, weights=weights), efficiencies=efficiencies
        )
    if loss == "squared" and not np.isnan(problem.Y).any():
        fit, has_offset = refine_on_all_rows(problem, network, offset, weights=weights)
        scales = output_scales(problem.Y - fit.network(problem.X))
        return RobustFit(fit, has_offset, problem, weights, loss, scales, fit.converged, {})
    fit, converged, influenced = fit_with_loss(
        problem, network, offset=offset is not False, loss=loss, weights=weights
    )
    final, has_offset = refine_on_all_rows(influenced, fit.network, offset, weights=weights)
    if has_offset != (offset is not False):
        final, converged, influenced = fit_with_loss(
            problem, final.network, offset=False, loss=loss, weights=weights
        )
    scales = output_scales(problem.Y - final.network(problem.X))
    return RobustFit(final, has_offset, influenced, weights, loss, scales, converged, {})


def fit_with_loss(
    problem: Problem, network: TwoLayerNetwork, *, offset: bool, loss: str, weights: RowWeights | None = None
) -> tuple[Refinement, bool, Problem]:
    """Take Newton steps (1) until they gain nothing; units keep their order.

    Returns the last least-squares fit, whether nothing was left to gain, and the problem with the pseudo-outputs of
    that fit.
    """
    for index in range(ROUNDS):
        problem.progress(f"fitting with the {loss} loss", float("nan"))
        influenced = _pseudo_problem(problem, network, loss, weights)
        fit = refine(influenced.blocks, network, offset=offset, max_iter=STEPS, weights=weights)
        gain = fit.costs[0] - fit.cost
        network = fit.network
        variance = fit.cost / (problem.n_samples * problem.n_outputs)
        if index and gain <= DECREASE_TOL * variance:
            return fit, True, influenced
    return fit, False, influenced


def choose_loss(residual: Array) -> tuple[str, dict[str, float]]:
    """Choose the loss under which the estimate has the smallest variance, judged by the residual's tails.

    Returns its name, the squared loss unless another is better by five per cent, and the estimated variance of every
    loss relative to the smallest. Shapes: residual (n, m).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> choose_loss(rng.standard_normal((2000, 2)))[0], choose_loss(rng.standard_cauchy((2000, 2)))[0]
    ('squared', 'sharp-cauchy')
    """
    u = residual / output_scales(residual)
    u = u[np.isfinite(u)]
    variances = {"squared": float((u**2).mean())}
    for name in LOSSES[1:]:
        psi, slope = _influence(name, u)
        variances[name] = float((psi**2).mean()) / max(float(slope.mean()), SMALLEST_SLOPE) ** 2
    best = min(variances, key=lambda name: variances[name])
    least = max(variances[best], np.finfo(float).tiny)
    relative = {name: value / least for name, value in variances.items()}
    return ("squared" if relative["squared"] <= 1 + MARGIN else best), relative


def output_scales(residual: Array) -> Array:
    """Estimate the scale of each output's inliers by the median absolute residual.

    For normal noise it is the standard deviation. Shapes: residual (n, m), result (m,).
    """
    medians = np.nanmedian(np.abs(residual), axis=0)
    return np.maximum(MEDIAN_TO_STD * medians, SMALLEST_SCALE)


def entry_weights(loss: str, relative: Array) -> Array:
    """Return the weight ψ(u)/u of residuals in units of their scale."""
    sizes = np.abs(relative)
    if loss == "huber":
        return HUBER / np.maximum(sizes, HUBER)
    if loss in CAUCHY:
        return 1.0 / (1.0 + (sizes / CAUCHY[loss]) ** 2)
    if loss == "l1":
        return SMOOTH / np.hypot(sizes, SMOOTH)
    return np.ones_like(sizes)


def _influence(loss: str, u: Array) -> tuple[Array, Array]:
    """Return ψ(u) and ψ'(u); both are zero where a label is missing."""
    is_missing = np.isnan(u)
    if is_missing.any():
        psi, slope = _influence(loss, np.where(is_missing, 0.0, u))
        return psi, np.where(is_missing, 0.0, slope)
    weights = entry_weights(loss, u)
    if loss == "squared":
        return u, weights
    if loss == "huber":
        slope = (np.abs(u) <= HUBER).astype(np.float64)
    elif loss in CAUCHY:
        slope = weights * (2 * weights - 1)
    else:
        slope = weights**3
    return u * weights, slope


def _pseudo_problem(
    problem: Problem, network: TwoLayerNetwork, loss: str, weights: RowWeights | None
) -> Problem:
    """Return the problem whose outputs are (1) at a network."""
    fitted = network(problem.X)
    residual = problem.Y - fitted
    scales = output_scales(residual)
    psi, slope = _influence(loss, residual / scales)
    factor = scales / max(float(slope.mean()), SMALLEST_SLOPE)

    influenced = _Influenced(network, loss, scales, factor, weights)
    return replace(problem, blocks=problem.blocks.map_numbered(influenced), Y=fitted + psi * factor)


@dataclass(frozen=True, slots=True)
class _Influenced:
    """The pseudo-outputs (1) at a network."""

    network: TwoLayerNetwork
    loss: str
    scales: Array
    factor: Array
    weights: RowWeights | None

    def __call__(self, first_row: int, X: Array, Y: Array) -> tuple[Array, Array]:
        predicted = self.network(X)
        root = 1.0 if self.weights is None else np.sqrt(self.weights(first_row, X, Y))[:, None]
        psi = _influence(self.loss, root * (Y - predicted) / self.scales)[0]
        return X, predicted + psi * self.factor / root
