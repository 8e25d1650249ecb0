r"""Refine a network on the answers of a black box by least squares, without forming a matrix.

Problem     A network is known well enough that its units are active on the right rows, with few exceptions. The answers
            carry rounding errors of known, unequal sizes. Minimise the weighted sum of squares over all parameters at
            once.
Idea        While the pattern M of active units is fixed, the network is linear in each layer. A Gauss–Newton step solves

            .. math:: \min \sum_s \omega_s^2 \| r_s - A (M_s \circ (\delta W x_s + \delta b)) - \delta A h_s - \delta c \|^2
                      \quad (1)

            by LSMR, which needs only products with the Jacobian and its transpose. Both are passes through the network.
            The scale of each unit is not determined by (1); LSMR takes the shortest step and so leaves it unchanged.
Guarantee   The sum of squares never rises: a step that does not lower it is not taken. Kind: local.
Departures  `planted.fitting._refine` solves the normal equations exactly and refines the networks of all sample methods.
            It needs memory (k (d + 1))², which is too much for the networks read from black boxes.
Cost        O(n k (d + m)) for an iteration, `ITERATIONS` of them in each of `STEPS` steps.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr

from planted._typing import Array
from planted.networks import TwoLayerNetwork

__all__ = ["refine_on_answers"]

STEPS = 3
ITERATIONS = 80


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

    def forward(step: Array) -> Array:
        dW, db, dA, dc = np.split(np.asarray(step).ravel(), cuts)
        inner = on * (X @ dW.reshape(k, d).T + db)
        return np.asarray((weights * (inner @ network.A.T + H @ dA.reshape(m, k).T + dc)).ravel())

    def backward(residual: Array) -> Array:
        R = weights * np.asarray(residual).reshape(len(X), m)
        G = on * (R @ network.A)
        return np.concatenate([(G.T @ X).ravel(), G.sum(axis=0), (R.T @ H).ravel(), R.sum(axis=0)])

    shape = (len(X) * m, int(cuts[-1]) + m)
    jacobian = LinearOperator(shape, matvec=forward, rmatvec=backward, dtype=np.float64)
    target = (weights * (Y - network(X))).ravel()
    step = lsmr(jacobian, target, atol=1e-14, btol=1e-14, maxiter=ITERATIONS)[0]
    dW, db, dA, dc = np.split(step, cuts)
    return TwoLayerNetwork(
        network.W + dW.reshape(k, d), network.b + db, network.A + dA.reshape(m, k), network.c + dc
    )
