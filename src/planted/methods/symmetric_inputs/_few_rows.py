r"""Symmetric inputs with few rows: the same equations on the samples themselves.

With exact B = A W and no noise the detector's h_U vanishes on *every* sample for a pure neuron, so that all error comes
from B. The even part A |W x| / 2 of y is a nuisance that a regression on x should hold fixed. With few rows it is
modelled as a random even function with the covariance of random |w'x|,

.. math:: K_{st} = |x_s| |x_t| \tfrac{2}{\pi} (\sqrt{1 - \rho^2} + \rho \arcsin \rho), \quad
          \rho = \cos\angle(x_s, x_t), \quad (1)

and B is the generalised least-squares slope

.. math:: B^\top = 2 (X^\top K^{-1} X)^{-1} X^\top K^{-1} Y. \quad (2)

The rows of the detector are the h of the samples, uncentred, instead of their averages against x ⊗ x. The approximate
units then give approximate activation patterns, and exact units follow from linear systems on them (Corollary 5 of
[BJW18]_); its threshold rule is replaced by row-space pursuit started from these patterns, which corrects patterns that
are wrong. The kernel costs O(n³), hence at most `KERNEL_ROWS` rows.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from planted._typing import Array
from planted.fitting.units._pursuit import pursue_units
from planted.linalg import column_space, svec_outer, unit_rows
from planted.methods.symmetric_inputs._moments import null_matrices, separate_outputs
from planted.methods.symmetric_inputs._slope import Slope, slope_of
from planted.methods.symmetric_inputs._spectral import Spectral
from planted.networks import TwoLayerNetwork

__all__ = ["KERNEL_ROWS", "bootstrap_exactly", "kernel_slope", "network_of_rows", "recover_from_rows"]

KERNEL_ROWS = 2500
RIDGE = 1e-6  # of the kernel's mean diagonal
HOPELESS = 128  # starts without a single unit after which the pursuit ends: the data are not noiseless
BIAS_TOL = 1e-6  # a unit of unit-norm w whose bias is larger does not belong to a network without biases


def kernel_slope(X: Array, Y: Array) -> Slope:
    """Estimate B with the even part of y as a random function, by (1) and (2); the edge is that of noiseless data.

    Shapes: X (n, d), Y (n, m).
    """
    n = len(X)
    norms = np.linalg.norm(X, axis=1)
    sizes = np.outer(norms, norms)
    rho = np.clip(np.divide(X @ X.T, sizes, out=np.zeros_like(sizes), where=sizes > 0), -1.0, 1.0)
    K = sizes * (2 / np.pi) * (np.sqrt(1 - rho**2) + rho * np.arcsin(rho))
    K[np.diag_indices(n)] += RIDGE * np.trace(K) / n
    whitened = linalg.cho_solve(linalg.cho_factor(K, check_finite=False), X, check_finite=False)
    B = 2.0 * linalg.lstsq(whitened.T @ X, whitened.T @ Y, check_finite=False)[0].T
    return slope_of(B, X.T @ X / n, residual_variance=0.0, count=n)


def recover_from_rows(
    X: Array, Y: Array, n_hidden: int, *, slope: Slope, rng: np.random.Generator
) -> Spectral:
    """Read the network from the samples' own detector rows, 2 y'U q - y'U y with q = B x / 2.

    Shapes: X (n, d), Y (n, m).
    """
    P, B = slope.output_map(n_hidden), slope.truncated(n_hidden)
    y, q = Y @ P.T, X @ (P @ B).T / 2
    matrices, values = null_matrices(svec_outer(q) - svec_outer(q - y), n_hidden)
    Z, residual = separate_outputs(matrices, y.mean(axis=0), rng=rng)
    return Spectral(network_of_rows(X, Y, Z @ P @ B), values, residual)


def network_of_rows(X: Array, Y: Array, W: Array) -> TwoLayerNetwork:
    """Return the network of hidden rows, scaled to unit norm, with least-squares output weights.

    Shapes: X (n, d), Y (n, m), W (k, d).
    """
    W, _ = unit_rows(W)
    A = linalg.lstsq(np.maximum(X @ W.T, 0.0), Y, check_finite=False)[0].T
    return TwoLayerNetwork(W, None, A, None)


def bootstrap_exactly(
    X: Array, Y: Array, network: TwoLayerNetwork, *, rng: np.random.Generator, max_starts: int
) -> TwoLayerNetwork | None:
    """Make an approximate network exact on noiseless rows (Corollary 5 of [BJW18]_); None if not all units are found.

    `rng` draws further starts where the approximation leads to no unit. Shapes: X (n, d), Y (n, m).
    """
    k = network.n_hidden
    Q, _ = column_space(Y)
    if Q.shape[1] < k:
        return None
    starts = np.hstack([network.W, np.zeros((k, 1))])
    found = pursue_units(X, Q, k, rng=rng, max_starts=max_starts, hopeless_after=HOPELESS, starts=starts)
    if len(found.V) < k:
        return None
    W, b = found.V[:, :-1], found.V[:, -1]
    if (np.abs(b) > BIAS_TOL * np.linalg.norm(W, axis=1)).any():
        return None
    return network_of_rows(X, Y, W)
