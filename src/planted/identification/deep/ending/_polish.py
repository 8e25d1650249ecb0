r"""Refine all layers of a deep network at once on everything that was asked.

Layer by layer digits are lost; the answers still have them. While the patterns are fixed the network is linear in each
layer, and a Gauss–Newton step is a linear least-squares problem over all parameters,

.. math:: \min \sum_s \omega_s^2 \| y_s - f(x_s) - J_s \delta \|^2,                                        \quad (1)

with weights that fall with the distance, as rounding errors grow with it. Small problems are solved by a dense
factorisation, large ones by LSMR, which needs passes through the network only. The scales of the hidden units are not
determined by (1), and the shortest step leaves them alone. A step that does not lower the sum of squares is not taken.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, lsmr

from planted._typing import Array, BoolArray
from planted.identification.deep._top import Top, fit_top
from planted.networks import DeepNetwork
from planted.networks._deep import Layer

__all__ = ["jacobian", "moved", "polish", "refined_top"]

STEPS = 16  # at most: where weights were read from few answers, sides change for seven or eight
ITERATIONS = 150
DAMPING = 1e-12  # of a block of the preconditioner
LARGEST_DENSE = 12_000_000  # numbers in the Jacobian
NEARLY, FINELY = 1e-3, 1e-9  # residuals of the last layer, relative, between which all layers are refined


def polish(net: DeepNetwork, X: Array, Y: Array, weights: Array) -> DeepNetwork:
    """Return the network refined on weighted answers; the sum of squares does not rise.

    Shapes: X (n, d), Y (n, m), weights (n,).
    """
    cost = _cost(net, X, Y, weights)
    for _ in range(STEPS):
        moved = _step(net, X, Y, weights)
        trial = _cost(moved, X, Y, weights)
        if not trial < 0.9 * cost:
            return moved if trial < cost else net
        net, cost = moved, trial
    return net


def refined_top(
    answers: tuple[Array, Array],
    layers: list[Layer],
    planes: tuple[Array, Array],
    known: BoolArray | None = None,
) -> tuple[Top, list[Layer]] | None:
    """Return the last layers if the hyperplanes nearly explain all answers, and the layers below; None if they do not.

    Weights that were read from few answers have few digits. Unless some have no effect, all layers are refined on all
    answers.
    """
    top = fit_top(answers, layers, planes, known, explained=NEARLY)
    if top is None or top.residual <= FINELY or top.passing or top.unseen:
        return None if top is None else (top, layers)
    X, Y = answers
    net = polish(DeepNetwork([*layers, top.layer, top.output]), X, Y, 1 / (1 + np.linalg.norm(X, axis=1)))
    *refined, planes, _ = net.layers
    better = fit_top(answers, refined, planes)
    return (top, layers) if better is None or better.passing else (better, refined)


def _cost(net: DeepNetwork, X: Array, Y: Array, weights: Array) -> float:
    return float(((weights[:, None] * (Y - net(X))) ** 2).sum())


def _step(net: DeepNetwork, X: Array, Y: Array, weights: Array) -> DeepNetwork:
    """One Gauss–Newton step (1)."""
    hidden, slopes = _passes(net, X)
    target = (weights[:, None] * (Y - net(X))).ravel()
    count = sum(W.size + b.size for W, b in net.layers)
    if count * target.size <= LARGEST_DENSE:
        J = jacobian(net, X) * np.repeat(weights, Y.shape[1])[:, None]
        lengths = np.linalg.norm(J, axis=0)
        lengths[lengths == 0] = 1.0
        # A triangular factor first: the pivoted one is slow on many rows.
        R = np.asarray(np.linalg.qr(np.column_stack([J / lengths, target]), mode="r"))
        step = linalg.lstsq(R[:, :-1], R[:, -1], cond=1e-13, lapack_driver="gelsy")[0] / lengths
        return moved(net, step)

    roots = _block_roots(net, hidden, slopes, weights)

    def forward(vector: Array) -> Array:
        parts = _split(net, _solve(net, roots, np.asarray(vector).ravel()))
        change = np.zeros((len(X), X.shape[1]))
        for place, ((W, _), (dW, db)) in enumerate(zip(net.layers, parts, strict=True)):
            change = change @ W.T + hidden[place] @ dW.T + db if place else hidden[0] @ dW.T + db
            if place < net.n_hidden_layers:
                change *= slopes[place]
        return np.asarray((weights[:, None] * change).ravel())

    def backward(vector: Array) -> Array:
        G = weights[:, None] * np.asarray(vector).reshape(len(X), -1)
        parts: list[Layer] = []
        for place in reversed(range(len(net.layers))):
            parts.insert(0, (G.T @ hidden[place], G.sum(axis=0)))
            if place:
                G = (G @ net.layers[place][0]) * slopes[place - 1]
        flat = np.concatenate([part.ravel() for layer in parts for part in layer])
        return _solve(net, roots, flat, transposed=True)

    operator = LinearOperator((target.size, count), matvec=forward, rmatvec=backward, dtype=np.float64)
    found = lsmr(operator, target, atol=1e-15, btol=1e-15, conlim=0, maxiter=ITERATIONS)
    return moved(net, _solve(net, roots, found[0]))


def _block_roots(net: DeepNetwork, hidden: list[Array], slopes: list[Array], weights: Array) -> list[Array]:
    """Inverse triangular factors of the blocks of the normal matrix that belong to single units, layer by layer.

    With them as preconditioner the number of iterations does not grow with the correlation of the inputs.
    """
    n, m = len(weights), net.n_outputs
    G = np.broadcast_to(np.eye(m), (n, m, m)) * weights[:, None, None]
    found: list[Array] = []
    for place in reversed(range(len(net.layers))):
        strength = (G**2).sum(axis=1)
        rows = np.column_stack([hidden[place], np.ones(n)])
        roots = np.empty((strength.shape[1], rows.shape[1], rows.shape[1]))
        for unit, column in enumerate(strength.T):
            used = column > 0
            gram = (rows[used] * column[used, None]).T @ rows[used]
            sizes = np.sqrt(np.diag(gram))
            sizes[sizes == 0] = 1.0
            gram = gram / np.outer(sizes, sizes) + DAMPING * np.eye(len(sizes))
            factor = linalg.cholesky(gram)
            roots[unit] = linalg.solve_triangular(factor, np.eye(len(sizes))) / sizes[:, None]
        found.insert(0, roots)
        if place:
            G = (G @ net.layers[place][0]) * slopes[place - 1][:, None, :]
    return found


def _solve(net: DeepNetwork, roots: list[Array], vector: Array, *, transposed: bool = False) -> Array:
    """Apply the preconditioner to a step."""
    parts = []
    for (dW, db), root in zip(_split(net, vector), roots, strict=True):
        stacked = np.column_stack([dW, db])[:, :, None]
        solved = (np.swapaxes(root, 1, 2) if transposed else root) @ stacked
        parts += [solved[:, :-1, 0].ravel(), solved[:, -1, 0]]
    return np.concatenate(parts)


def _passes(net: DeepNetwork, X: Array) -> tuple[list[Array], list[Array]]:
    """Inputs of every layer, and derivatives of the activation in every hidden layer."""
    hidden, slopes = [X], []
    for W, b in net.layers[:-1]:
        T = hidden[-1] @ W.T + b
        slopes.append(net.activation.derivative(T))
        hidden.append(net.activation(T))
    return hidden, slopes


def jacobian(net: DeepNetwork, X: Array, *, at_break: float = 0.0) -> Array:
    """Derivatives of the answers by all weights and biases, layer after layer, shape (n m, parameters).

    `at_break`: a unit closer to its break than this, relative to its terms and those below, counts as off.
    """
    hidden, slopes = _passes(net, X)
    if at_break:
        slopes = _off_at_breaks(net, X, hidden, slopes, at_break)
    n, m = len(X), net.n_outputs
    G = np.broadcast_to(np.eye(m), (n, m, m))
    parts: list[Array] = []
    for place in reversed(range(len(net.layers))):
        block = np.einsum("nok,nj->nokj", G, hidden[place]).reshape(n * m, -1)
        parts[:0] = [block, G.reshape(n * m, -1)]
        if place:
            G = (G @ net.layers[place][0]) * slopes[place - 1][:, None, :]
    return np.concatenate(parts, axis=1)


def _off_at_breaks(
    net: DeepNetwork, X: Array, hidden: list[Array], slopes: list[Array], at_break: float
) -> list[Array]:
    """The slopes of the units, zero where a unit is at its break."""
    sizes, changed = np.abs(X), []
    for (W, b), below, slope in zip(net.layers[:-1], hidden, slopes, strict=False):
        sizes = sizes @ np.abs(W).T + np.abs(b)
        changed.append(np.where(np.abs(below @ W.T + b) > at_break * sizes, slope, 0.0))
    return changed


def _split(net: DeepNetwork, vector: Array) -> list[Layer]:
    parts, start = [], 0
    for W, b in net.layers:
        parts.append((vector[start : start + W.size].reshape(W.shape), vector[start + W.size :][: b.size]))
        start += W.size + b.size
    return parts


def moved(net: DeepNetwork, step: Array) -> DeepNetwork:
    """Return the network with a step added to all weights and biases, in the order of `jacobian`."""
    pairs = zip(net.layers, _split(net, step), strict=True)
    return DeepNetwork([(W + dW, b + db) for (W, b), (dW, db) in pairs], net.activation)
