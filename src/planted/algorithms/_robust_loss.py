r"""Losses that forgive outliers, by reweighting rows.

Problem     Minimise :math:`\sum_s \omega_s\, \rho(r_s / s)` instead of a sum of squares, r the root mean square
            residual of a row, ω the user's weights and s the scale of the inliers.
Idea        ρ is concave in r², so the sum of squares with weights ω ρ'(r)/r taken at the present residual lies above
            the loss and touches it: lowering the one lowers the other [Huber1981]_. The scale is the median absolute
            residual over
            0.6745, the standard deviation of a normal law.

            | loss | weight of u = r/s | tuned to 95 % efficiency on normal noise |
            | huber | min(1, 1.345/u) | 1.345 |
            | cauchy | 1/(1 + (u/2.385)²) | 2.385 |
Guarantee   The loss never rises for a fixed scale. Kind: local.
References  [Huber1981]_
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array
from planted.algorithms._absolute_form import Reweigh
from planted.algorithms._problem import Problem
from planted.algorithms.noisy import refine_on_all_rows
from planted.algorithms.refine import Refinement
from planted.moments import RowWeights
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError

__all__ = ["LOSSES", "check_loss", "refine_with_loss", "search_weights"]

LOSSES = ("squared", "huber", "cauchy")
HUBER, CAUCHY = 1.345, 2.385
MEDIAN_TO_STD = 1.4826
SMALLEST_SCALE = 1e-12  # of residuals in output standard deviations: rounding
ROUNDS = 12
SAME_COST = 1e-4


def check_loss(loss: str) -> str:
    """Refuse unknown losses.

    Parameters
    ----------
    loss : str
        Name of a loss.

    Returns
    -------
    str
        The name.
    """
    if loss not in LOSSES:
        raise BadInputError(f"unknown loss {loss!r}; known are {', '.join(map(repr, LOSSES))}")
    return loss


def search_weights(loss: str, omega: Array | None) -> Reweigh | None:
    """Return how to weigh the rows of a search from their residual.

    Parameters
    ----------
    loss : str
        Name of the loss.
    omega : ndarray of shape (n,) or None
        The user's weights of these rows.

    Returns
    -------
    callable or None
        None when all rows weigh the same.
    """
    if loss == "squared" and omega is None:
        return None

    def reweigh(residual: Array) -> Array:
        sizes = _row_sizes(residual)
        weights = _weights(loss, sizes, _scale(sizes))
        return weights if omega is None else weights * omega

    return reweigh


def refine_with_loss(
    problem: Problem, network: TwoLayerNetwork, offset: bool | str, *, loss: str, omega: Array | None
) -> tuple[Refinement, bool, RowWeights | None]:
    """Refine on all rows under a loss and weights.

    Parameters
    ----------
    problem : Problem
        The standardised problem.
    network : TwoLayerNetwork
        The start.
    offset : bool or "auto"
        Whether c is free.
    loss : str
        Name of the loss.
    omega : ndarray of shape (n,) or None
        The user's weights of all rows.

    Returns
    -------
    fit : Refinement
        The refined network.
    has_offset : bool
        Whether c was kept free.
    weights : callable or None
        The weights of the last round.
    """
    if loss == "squared":
        weights = None if omega is None else _fixed_weights(omega)
        return *refine_on_all_rows(problem, network, offset, weights=weights), weights
    previous = np.inf
    for _ in range(ROUNDS):
        scale = _scale(_row_sizes(problem.Y - network(problem.X)))
        weights = _loss_weights(loss, network, scale, omega)
        fit, has_offset = refine_on_all_rows(problem, network, offset, weights=weights)
        network = fit.network
        if abs(previous - fit.cost) <= SAME_COST * fit.cost:
            break
        previous = fit.cost
    return fit, has_offset, weights


def _row_sizes(residual: Array) -> Array:
    return np.asarray(np.sqrt((residual**2).mean(axis=1)))


def _scale(sizes: Array) -> float:
    return max(MEDIAN_TO_STD * float(np.median(sizes)), SMALLEST_SCALE)


def _weights(loss: str, sizes: Array, scale: float) -> Array:
    relative = sizes / scale
    if loss == "huber":
        return np.asarray(HUBER / np.maximum(relative, HUBER))
    if loss == "cauchy":
        return np.asarray(1.0 / (1.0 + (relative / CAUCHY) ** 2))
    return np.ones_like(relative)


def _fixed_weights(omega: Array) -> RowWeights:
    def weights(start: int, X: Array, Y: Array) -> Array:
        return omega[start : start + len(X)]

    return weights


def _loss_weights(loss: str, network: TwoLayerNetwork, scale: float, omega: Array | None) -> RowWeights:
    def weights(start: int, X: Array, Y: Array) -> Array:
        w = _weights(loss, _row_sizes(Y - network(X)), scale)
        return w if omega is None else w * omega[start : start + len(X)]

    return weights
