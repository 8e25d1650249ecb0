r"""Refine a network on the answers of a black box by least squares, without forming a matrix.

Problem     A network is known well enough that its units are active on the right rows, with few exceptions. The answers
            carry rounding errors of known, unequal sizes. Minimise the weighted sum of squares over all parameters at
            once.
Idea        While the pattern M of active units is fixed, the network is linear in each layer. A Gauss–Newton step solves

            .. math:: \min \sum_s \omega_s^2 \| r_s - A (M_s \circ (\delta W x_s + \delta b)) - \delta A h_s - \delta c \|^2
                      \quad (1)

            by LSMR, which needs only products with the Jacobian and its transpose. Both are passes through the network.
            Columns are scaled to unit length, because answers from far out determine the weights of a unit much better
            than its bias. The scale of each unit is not determined by (1); LSMR takes the shortest step.
Errors      With the rows of W held at unit norm, the inverse of the triangular factor of the Jacobian gives the covariance
            of the parameters for errors of the stated sizes, and the residuals say how large these errors are
            (`largest_standard_error`). Rounding errors of answers at random places behave as independent ones.
Guarantee   The sum of squares never rises: a step that does not lower it is not taken. Kind: local.
Departures  `planted.fitting._refine` solves the normal equations exactly and refines the networks of all sample methods.
            It needs memory (k (d + 1))², which is too much for the networks read from black boxes.
Cost        O(n k (d + m)) for an iteration, `ITERATIONS` of them in each of `STEPS` steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, lsmr

from planted._typing import Array
from planted.networks import TwoLayerNetwork

__all__ = ["Deviation", "largest_standard_error", "refine_on_answers"]

STEPS = 4
ITERATIONS = 200
LARGEST_JACOBIAN = 20_000_000  # numbers; beyond that no standard errors are computed


def refine_on_answers(X: Array, Y: Array, network: TwoLayerNetwork, *, errors: Array) -> TwoLayerNetwork:
    """Refine a ReLU network on rows whose errors differ; the weighted sum of squares does not rise.

    Shapes: X (n, d), Y (n, m), errors (n, m).

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 9)[:, None]
    >>> truth = TwoLayerNetwork(W=[[1.0]], b=[0.1], A=[[2.0]], c=[0.5])
    >>> near = TwoLayerNetwork(W=[[1.0]], b=[0.101], A=[[2.001]], c=[0.5])
    >>> refined = refine_on_answers(X, truth(X), near, errors=np.ones((9, 1)))
    >>> bool(np.abs(refined(X) - truth(X)).max() < 1e-9)
    True
    """
    weights = 1.0 / errors
    weights = weights / weights.max()
    cost = _cost(X, Y, network, weights)
    for _ in range(STEPS):
        moved = _step(X, Y, network, weights)
        trial = _cost(X, Y, moved, weights)
        if not trial < cost:
            break
        network, cost = moved, trial
    return network


def _cost(X: Array, Y: Array, network: TwoLayerNetwork, weights: Array) -> float:
    """The weighted sum of squares."""
    return float(((weights * (Y - network(X))) ** 2).sum())


def _step(X: Array, Y: Array, network: TwoLayerNetwork, weights: Array) -> TwoLayerNetwork:
    """One Gauss–Newton step (1)."""
    k, d, m = network.n_hidden, network.n_features, network.n_outputs
    cuts = np.cumsum([k * d, k, m * k])
    T = network.preactivations(X)
    on, H = T > 0, network.activation(T)

    weight = weights**2
    strength = on * (weight @ network.A**2)
    squares = np.concatenate(
        [(strength.T @ X**2).ravel(), strength.sum(axis=0), (weight.T @ H**2).ravel(), weight.sum(axis=0)]
    )
    shrink = 1.0 / np.sqrt(np.where(squares > 0, squares, 1.0))

    def forward(step: Array) -> Array:
        dW, db, dA, dc = np.split(shrink * np.asarray(step).ravel(), cuts)
        inner = on * (X @ dW.reshape(k, d).T + db)
        return np.asarray((weights * (inner @ network.A.T + H @ dA.reshape(m, k).T + dc)).ravel())

    def backward(residual: Array) -> Array:
        R = weights * np.asarray(residual).reshape(len(X), m)
        G = on * (R @ network.A)
        parts = [(G.T @ X).ravel(), G.sum(axis=0), (R.T @ H).ravel(), R.sum(axis=0)]
        return np.asarray(shrink * np.concatenate(parts))

    shape = (len(X) * m, int(cuts[-1]) + m)
    jacobian = LinearOperator(shape, matvec=forward, rmatvec=backward, dtype=np.float64)
    target = (weights * (Y - network(X))).ravel()
    step = shrink * lsmr(jacobian, target, atol=1e-14, btol=1e-14, maxiter=ITERATIONS)[0]
    dW, db, dA, dc = np.split(step, cuts)
    return TwoLayerNetwork(
        network.W + dW.reshape(k, d), network.b + db, network.A + dA.reshape(m, k), network.c + dc
    )


@dataclass(frozen=True, slots=True)
class Deviation:
    """Standard errors of a network with unit rows of W."""

    largest: float  # of all parameters
    of_directions: float  # of the weights of W: one would be a unit of unknown direction


def largest_standard_error(
    X: Array, Y: Array, network: TwoLayerNetwork, *, errors: Array
) -> Deviation | None:
    """Largest standard errors of a network with unit rows of W; None if the rows do not determine it.

    None also if there are too many rows and parameters. Shapes: X (n, d), Y (n, m), errors (n, m).

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 9)[:, None]
    >>> net = TwoLayerNetwork(W=[[1.0]], b=[0.1], A=[[2.0]], c=[0.5])
    >>> largest_standard_error(X, net(X), net, errors=np.ones((9, 1))).largest
    0.0
    """
    n, m = Y.shape
    k, d = network.W.shape
    count = k * d + m * k + m
    if n * m <= count or n * m * count > LARGEST_JACOBIAN:
        return None
    weights = 1.0 / errors
    bases = [linalg.qr(row[:, None])[0][:, 1:] for row in network.W]
    J = _tangent_jacobian(X, network, bases)
    J *= weights.T.reshape(n * m, 1)
    lengths = np.linalg.norm(J, axis=0)
    if not (lengths > 0).all():
        return None
    R = linalg.qr(J / lengths, mode="r")[0][:count]
    if np.abs(np.diag(R)).min() <= count * np.finfo(float).eps:
        return None
    root = linalg.solve_triangular(R, np.eye(count)) / lengths[:, None]
    parts = [base @ root[i * (d - 1) : (i + 1) * (d - 1)] for i, base in enumerate(bases)]
    deviations = [np.sqrt((part**2).sum(axis=1)) for part in (*parts, root[k * (d - 1) :])]
    scatter = np.sqrt(((weights * (Y - network(X))) ** 2).sum() / (n * m - count))
    directions = np.concatenate(deviations[:-1]) if k else np.zeros(1)
    return Deviation(
        float(scatter * np.concatenate(deviations).max()), float(scatter * directions.max(initial=0.0))
    )


def _tangent_jacobian(X: Array, network: TwoLayerNetwork, bases: list[Array]) -> Array:
    """Derivatives of the answers, output after output: w_i along its tangent basis, then b, A and c."""
    T = network.preactivations(X)
    on, H = (T > 0).astype(np.float64), network.activation(T)
    n, m, k = len(X), network.n_outputs, network.n_hidden
    blocks = []
    for output, row in enumerate(network.A):
        active = on * row
        tangents = [active[:, i, None] * (X @ base) for i, base in enumerate(bases)]
        outer = np.zeros((n, m * k + m))
        outer[:, output * k : (output + 1) * k] = H
        outer[:, m * k + output] = 1.0
        blocks.append(np.concatenate([*tangents, active, outer], axis=1))
    return np.concatenate(blocks)
