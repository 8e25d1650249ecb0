"""Small dense algebra shared by the Levenberg–Marquardt steps of `refine` and of the absolute-value form."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from planted._typing import Array

__all__ = ["damped_step", "solve_symmetric", "weigh_blocks"]


def damped_step(N: Array, gradient: Array, damping: Array) -> Array | None:
    """Solve (N + diag(damping)) step = gradient; None if the matrix is not positive definite to rounding.

    Parameters
    ----------
    N : ndarray of shape (q, q)
        Gauss–Newton matrix.
    gradient : ndarray of shape (q,)
        Right-hand side.
    damping : ndarray of shape (q,)
        What is added to the diagonal.

    Returns
    -------
    ndarray of shape (q,) or None
        The step.
    """
    try:
        factor = linalg.cho_factor(N + np.diag(damping), lower=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    return np.asarray(linalg.cho_solve(factor, gradient, check_finite=False))


def weigh_blocks(inner: Array, A: Array) -> Array:
    """Multiply the p × p block (i, j) by a_i'a_j.

    Parameters
    ----------
    inner : ndarray of shape (k*p, k*p)
        Products of masked inputs.
    A : ndarray of shape (m, k)
        Output weights.

    Returns
    -------
    ndarray of shape (k*p, k*p)
        The weighted products.
    """
    k = A.shape[1]
    p = len(inner) // k
    weighed = inner.reshape(k, p, k, p) * (A.T @ A)[:, None, :, None]
    return np.asarray(weighed.reshape(k * p, k * p))


def solve_symmetric(M: Array, right: Array) -> Array:
    """Solve with a positive semi-definite matrix, directions below rounding left at zero.

    Parameters
    ----------
    M : ndarray of shape (q, q)
        The matrix.
    right : ndarray of shape (q, r)
        Right-hand sides.

    Returns
    -------
    ndarray of shape (q, r)
        The shortest solution in units of the diagonal.
    """
    scale = np.sqrt(np.maximum(np.diag(M), 0.0))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = linalg.eigh(M / np.outer(scale, scale), check_finite=False)
    keep = values > len(M) * np.finfo(float).eps * max(values[-1], 0.0)
    solution = vectors[:, keep] @ ((vectors[:, keep].T @ (right / scale[:, None])) / values[keep, None])
    return np.asarray(solution / scale[:, None])
