r"""Does x still show in the residual of a fitted network?

Problem     A least-squares network leaves a residual. Decide whether it is noise that ignores x, or the trace of a unit
            that is missing, misplaced or of another kind.
Idea        Let every output have, beside the network, a linear part in some functions Φ of x, and ask how much the sum
            of squares falls, to first order in the network's parameters, whose Jacobian is J:

            .. math:: F = \frac{(Q_{J,\Phi} - Q_J) / \nu}{(Q - Q_{J,\Phi}) / (n m - \nu_{J,\Phi})},         \quad (1)

            Q the sum of squares of the residual, :math:`Q_M` what the columns M explain of it, ν the dimensions added.
            J and Φ are removed *together*: taking every column of J out of every output would be simpler, but it hides
            most of what a wrong network leaves, since J has k(d+1) + mk directions and not m times k(d+1).
            Adding Φ to every output is adding columns to G = [H, 1], so (1) needs only the sums and the elimination of
            `refine`. Φ holds, for every unit, its pre-activation and the squares on both sides of its kink (a unit of
            another kind shows there first) and ReLU random features (anything else). Outputs are whitened by the
            residual's covariance, so that noise may differ and correlate between outputs.
Guarantee   Under the truth F has an F distribution: exactly for Gaussian noise of known covariance and a linear model,
            else as n grows. At most half of the degrees of freedom go to Φ.
Cost        One pass; O((k p)³) algebra.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, stats

from planted._typing import Array
from planted.algorithms._normal_algebra import weigh_blocks
from planted.algorithms._problem import Problem
from planted.moments import RowWeights, augment
from planted.networks import TwoLayerNetwork

__all__ = ["lack_of_fit"]

N_RANDOM_FEATURES = 40
RANK_TOL = 1e-11  # of normal matrices with unit diagonal: a relative singular value of 3e-6


def lack_of_fit(
    problem: Problem,
    network: TwoLayerNetwork,
    *,
    offset: bool,
    biases: bool = True,
    weights: RowWeights | None = None,
) -> tuple[float, int]:
    """Test whether functions of x explain more of the residual than noise would.

    Parameters
    ----------
    problem : Problem
        The standardised problem.
    network : TwoLayerNetwork
        Its least-squares network.
    offset : bool
        Whether c was fitted.
    biases : bool
        Whether b was fitted.
    weights : callable, optional
        Weights of the rows in the fit.

    Returns
    -------
    p_value : float
        Probability of an F as large as (1) under the truth; NaN when nothing could be tested.
    tested : int
        Dimensions added by Φ.
    """
    k, m = network.n_hidden, network.n_outputs
    hidden = k * (network.n_features + int(biases))
    unknowns = hidden - k + m * (k + int(offset))
    budget = max(int((problem.n_samples - unknowns / m) / 2), 0)
    products, cross, noise = _sums_with_instruments(problem, network, budget, offset, biases, weights)
    whiten = _inverse_root(noise, np.diag(noise))  # a combination of outputs without residual is left out
    A, cross = whiten.T @ network.A, cross @ whiten
    plain, dimension = _explained(products, cross, A, hidden=hidden, end=hidden + k + int(offset))
    full, full_dimension = _explained(products, cross, A, hidden=hidden, end=len(products))
    outputs, tested = whiten.shape[1], full_dimension - dimension
    freedom = problem.n_samples * outputs - full_dimension
    if tested <= 0 or freedom <= 0:
        return float("nan"), 0
    rest = max(outputs - full, np.finfo(float).tiny)  # each whitened output has a sum of squares of one
    ratio = (full - plain) / tested / (rest / freedom)
    return float(stats.f.sf(ratio, tested, freedom)), tested


def _sums_with_instruments(
    problem: Problem,
    network: TwoLayerNetwork,
    budget: int,
    offset: bool,
    biases: bool,
    weights: RowWeights | None,
) -> tuple[Array, Array, Array]:
    """Return the products of the rows [Z, G, Φ], with the residual, and of the residual."""
    k, m, d = network.n_hidden, network.n_outputs, network.n_features
    directions = problem.rng.standard_normal((N_RANDOM_FEATURES, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    thresholds = problem.rng.standard_normal(N_RANDOM_FEATURES)
    hidden = k * (d + int(biases))
    width = hidden + k + int(offset) + min(3 * k + N_RANDOM_FEATURES, budget)
    products, cross, noise = np.zeros((width, width)), np.zeros((width, m)), np.zeros((m, m))
    done = 0
    for X, Y in problem.blocks:
        t = network.preactivations(X)
        inputs = augment(X) if biases else X
        Z = (network.activation.derivative(t)[:, :, None] * inputs[:, None, :]).reshape(len(X), hidden)
        H = network.activation(t)
        random = np.maximum(X @ directions.T - thresholds, 0.0)
        instruments = np.hstack([t, random, np.maximum(t, 0.0) ** 2, np.minimum(t, 0.0) ** 2])[:, :budget]
        rows = np.hstack([Z, augment(H) if offset else H, instruments])
        residual = Y - H @ network.A.T - network.c
        if weights is not None:
            root = np.sqrt(weights(done, X, Y))[:, None]
            rows, residual = rows * root, residual * root
        done += len(X)
        products += rows.T @ rows
        cross += rows.T @ residual
        noise += residual.T @ residual
    return products, cross, noise


def _explained(products: Array, cross: Array, A: Array, *, hidden: int, end: int) -> tuple[float, int]:
    """Return the sum of squares explained by the hidden Jacobian with the columns up to ``end`` free in every output."""
    free = slice(hidden, end)
    root = _inverse_root(products[free, free], np.diag(products)[free])
    own, mixed = root.T @ cross[free], root.T @ products[free, :hidden]
    N = weigh_blocks(products[:hidden, :hidden] - mixed.T @ mixed, A)
    remaining = (cross[:hidden] - mixed.T @ own).reshape(A.shape[1], -1, len(A))
    gradient = np.einsum("jpl,lj->jp", remaining, A).ravel()
    root_N = _inverse_root(N, np.diag(weigh_blocks(products[:hidden, :hidden], A)))
    total = float((own**2).sum() + ((root_N.T @ gradient) ** 2).sum())
    return total, root.shape[1] * len(A) + root_N.shape[1]


def _inverse_root(M: Array, squares: Array) -> Array:
    """Return R with R'MR = 1 on the directions in which M, scaled to unit ``squares``, is not zero to rounding."""
    scale = np.sqrt(np.where(squares > 0, squares, 1.0))
    values, vectors = linalg.eigh(M / np.outer(scale, scale), check_finite=False)
    keep = values > RANK_TOL
    return np.asarray(vectors[:, keep] / np.sqrt(values[keep]) / scale[:, None])
