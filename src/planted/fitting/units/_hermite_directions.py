r"""Directions of hidden units from Hermite moments of normal inputs across outputs (Stein's identity).

Problem     y = A f(W x) with x normal of any covariance and k ≤ d. Find the rows of W up to sign and scale.
Idea        For whitened x the moment of order q of output l is a sum of :math:`A_{li} w_i^{\otimes q}`. The matrices
            of order two, one for each output, are diagonalised together by one congruence; tensors of order three and
            four are first contracted with random vectors. If there are enough rows, order two is read from a
            regression on 1, x and its products, which removes the sampling error of the linear part.
References  [BJW18]_
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from planted._typing import Array, as_array
from planted.linalg import diagonalise_by_congruence, smat, svec_outer, unit_rows
from planted.moments import augment

__all__ = ["directions_of_matrices", "hermite_directions"]

MAX_REGRESSION = 1500  # features of the quadratic regression
ROWS_PER_FEATURE = 1.5  # below, raw moments are used
CONTRACTIONS = 4  # times k random contractions of the tensors of order three and four


def hermite_directions(
    X: Array, Y: Array, n_hidden: int, *, order: int = 2, rng: np.random.Generator
) -> Array:
    """Estimate the hidden directions, up to sign, from moments of the given order across outputs.

    Shapes: X (n, d), Y (n, m), result (k, d).
    """
    centred = X - X.mean(axis=0)
    root = linalg.cholesky(centred.T @ centred / len(X), lower=True, check_finite=False)
    white = linalg.solve_triangular(root, centred.T, lower=True, check_finite=False).T
    matrices = (
        _second_order(white, Y) if order == 2 else _contracted(white, Y, n_hidden, order=order, rng=rng)
    )
    white_rows = directions_of_matrices(matrices, n_hidden, rng)
    W = linalg.solve_triangular(root, white_rows.T, lower=True, trans=1, check_finite=False).T
    return unit_rows(W)[0]


def directions_of_matrices(matrices: Array, n_hidden: int, rng: np.random.Generator) -> Array:
    """Find w_1, ..., w_k from matrices W' D W with diagonal D.

    The result has unit rows, in any order and with any sign. Shapes: matrices (T, d, d), result (k, d).
    """
    basis = linalg.eigh(np.einsum("tij,tkj->ik", matrices, matrices), check_finite=False)[1][:, -n_hidden:]
    factor = diagonalise_by_congruence(basis.T @ matrices @ basis, rng)
    return as_array((basis @ factor.Z).T)


def _second_order(X: Array, Y: Array) -> Array:
    """Return the m matrices of order two, from a regression where there are rows enough."""
    n, d = X.shape
    products = d * (d + 1) // 2
    if 1 + d + products <= min(MAX_REGRESSION, n / ROWS_PER_FEATURE):
        features = np.hstack([augment(X), svec_outer(X)])
        coefficients = linalg.lstsq(features, Y, check_finite=False)[0][d + 1 :]
        return smat(coefficients.T)
    residual = _without_linear_part(X, Y)
    moments = np.einsum("nl,ni,nj->lij", residual, X, X, optimize=True) / n
    return as_array(moments - residual.mean(axis=0)[:, None, None] * np.eye(d))


def _contracted(X: Array, Y: Array, k: int, *, order: int, rng: np.random.Generator) -> Array:
    """Return contractions of one mixed output's tensor of order three or four with random vectors."""
    n, d = X.shape
    r = _without_linear_part(X, Y) @ rng.standard_normal(Y.shape[1])
    matrices = []
    for u in rng.standard_normal((CONTRACTIONS * k, d)):
        u = u / np.linalg.norm(u)
        s = X @ u
        weight = r * s if order == 3 else r * s**2
        matrix = (X * weight[:, None]).T @ X / n
        # The other terms of He_3 and He_4 are averages of r, or of r x, and vanish; that of r x x' does not.
        if order == 4:
            edge = 2 * X.T @ (r * s) / n
            matrix -= np.outer(edge, u) + np.outer(u, edge) + weight.mean() * np.eye(d)
            matrix -= (X * r[:, None]).T @ X / n
        matrices.append(matrix)
    return np.array(matrices)


def _without_linear_part(X: Array, Y: Array) -> Array:
    """Subtract what 1 and x explain: it has no moment of order two or more, but much of the sampling error."""
    rows = augment(X)
    return as_array(Y - rows @ linalg.lstsq(rows, Y, check_finite=False)[0])
