r"""A start for noisy data by instrumental variables, for any input law.

Problem     y = A f(W x + b) + c + ξ, where ξ is independent of x with mean zero, and m ≥ k. Find approximate hidden
            weights.
Idea        For a unit with S = z z' and P = z (w, b)', complementarity, h (h - t) = 0, reads

            .. math:: \tilde y^\top S \tilde y - \tilde y^\top P (x, 1) = 0,                            \quad (1)

            which is linear in (S, P). With noise its left side has the conditional mean tr(S Σ_ξ) given x, a
            constant. Hence

            .. math:: \mathrm{Cov}\left(y^\top S y - y^\top P (x, 1),\ \phi(x)\right) = 0                \quad (2)

            for *every* function φ. This is a linear instrumental-variable system [Hansen1982]_, consistent whatever
            the law of x. Stack the quadratic features q = [svec(y y'), -y ⊗ (x, 1)] and take the k directions of q
            that the instruments explain least: the smallest generalised eigenvectors of (C' C, Cov q), where C is the
            covariance of q with whitened instruments. Joint diagonalisation of their S-parts gives Z. Then h = Z' y,
            and (w, b) follow by regression of h on (x, 1), whose slope is proportional to w for elliptic x and close
            to it otherwise.
Guarantee   Consistent for elliptically distributed x, a start otherwise; always followed by refinement. Kind:
            heuristic.
Departures  The instruments are x, its squares and products while these are few, ReLU random features, and, as in
            two-stage least squares, the same quadratic features of the first-stage fit ŷ(x).
Cost        O(n (q + r)²) for q = k(k+1)/2 + k(d+1) features and r instruments, in one Gram product; memory
            O((q + r)² + n r).
References  [Hansen1982]_
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._clock import check_time
from planted._typing import Array, IntArray, as_array
from planted.fitting.units._null_units import complementarity_features
from planted.linalg import diagonalise_by_congruence, smat, svec_outer, unit_rows
from planted.linalg.symmetric import solve_symmetric, spectrum_of
from planted.moments import augment

__all__ = ["FirstStage", "first_stage", "instrumental_start", "rank_of_signal"]

MAX_PRODUCTS = 300  # second-degree instruments beyond this number are replaced by random features
N_RANDOM_FEATURES = 100
BLOCK_ROWS = 2048
START_ROWS, ROWS_PER_FEATURE = 4000, 24  # rows that a start uses: so many, or so many for each feature
# Length of what the columns before leave of one, above which a Cholesky factor is orthonormal to 1e-10; a third of the
# time of Householder's.
CLEARLY_INDEPENDENT = 1e-3


@dataclass(frozen=True, slots=True)
class FirstStage:
    """Outputs regressed on functions of x."""

    columns: Array  # (n, r): independent functions of x, the first a constant
    root: (
        Array  # (r, r): upper triangular; columns times its inverse are orthonormal, and are the instruments
    )
    fitted: Array  # (n, m): the part of Y they explain
    # (min(m, r - 1),): singular values of the explained part in units of noise, descending; pure noise gives about
    # √r + √m.
    signal: Array

    def instruments(self, rows: IntArray) -> Array:
        """Return some rows of the orthonormal columns: a constant and functions of x."""
        return as_array(
            linalg.solve_triangular(self.root, self.columns[rows].T, trans="T", check_finite=False).T
        )


def first_stage(X: Array, Y: Array, rng: np.random.Generator) -> FirstStage:
    """Regress Y on x, its products and random ReLU features.

    Shapes: X (n, d), Y (n, m).
    """
    n, d = X.shape
    angles = unit_rows(rng.standard_normal((N_RANDOM_FEATURES, d)))[0]
    random = np.maximum(X @ angles.T + rng.standard_normal(N_RANDOM_FEATURES), 0.0)
    products = svec_outer(X) if d * (d + 1) // 2 <= MAX_PRODUCTS else X**2
    budget = max(n // 4, d + 1)
    columns, R = _independent(np.hstack([np.ones((n, 1)), X, products, random])[:, :budget])
    coordinates = linalg.solve_triangular(R, columns.T @ Y, trans="T", check_finite=False)
    fitted = columns @ linalg.solve_triangular(R, coordinates, check_finite=False)
    residual = Y - fitted
    noise = residual.T @ residual / max(n - len(R), 1)
    signal = linalg.svdvals(coordinates[1:] @ _inverse_root(noise), check_finite=False)
    return FirstStage(columns, R, fitted, signal)


def rank_of_signal(stage: FirstStage, *, slack: float = 1.15) -> int:
    """Count output directions in which x explains more than noise would: the number of units when m ≥ k."""
    edge = np.sqrt(len(stage.root)) + np.sqrt(len(stage.signal))
    return int((stage.signal > slack * edge).sum())


def instrumental_start(
    X: Array, Y: Array, n_hidden: int, *, stage: FirstStage, rng: np.random.Generator
) -> Array:
    """Estimate the hidden weights (w, b) by (2), w of unit norm.

    Shapes: X (n, d), Y (n, m), result (k, d + 1).
    """
    project = _signal_projection(stage, n_hidden)
    q = n_hidden * (n_hidden + 1) // 2 + n_hidden * (X.shape[1] + 1)
    rows = rng.permutation(len(X))[: max(START_ROWS, ROWS_PER_FEATURE * q)]
    X, y, fitted, instruments = X[rows], Y[rows] @ project, stage.fitted[rows], stage.instruments(rows)
    explained, total = _covariances(X, y, instruments, fitted @ project)
    _, vectors = linalg.eigh(explained, _lifted(total), subset_by_index=[0, n_hidden - 1], check_finite=False)
    quadratic = smat(vectors[: n_hidden * (n_hidden + 1) // 2].T)
    Z = diagonalise_by_congruence(quadratic, rng).Z
    h = y @ Z
    h = h * np.where((h**3).sum(axis=0) < 0, -1.0, 1.0)
    V = linalg.lstsq(augment(X), h, check_finite=False)[0].T
    return as_array(V / unit_rows(V[:, :-1])[1][:, None])


def _signal_projection(stage: FirstStage, n_hidden: int) -> Array:
    """Return an m × k map onto the leading directions of the explained part, scaled to unit variance."""
    centred = stage.fitted - stage.fitted.mean(axis=0)
    _, values, right = linalg.svd(centred, full_matrices=False, check_finite=False)
    values = np.maximum(values[:n_hidden], 1e-12 * values[0])
    return as_array(right[:n_hidden].T / values * np.sqrt(len(centred)))


def _covariances(X: Array, y: Array, instruments: Array, fitted: Array) -> tuple[Array, Array]:
    """Return C' C and Cov q of (2), summed over blocks of rows.

    One Gram matrix of [instruments, features of the first-stage fit, q] holds both; its first column is the constant,
    whose Schur complement centres the rest. The means of the first block are taken off before, so that this loses no
    digits.
    """
    gram: Array = np.zeros(())
    shift: Array = np.zeros(())
    n_features = 0
    for start in range(0, len(X), BLOCK_ROWS):
        check_time()
        rows = slice(start, start + BLOCK_ROWS)
        q = complementarity_features(X[rows], y[rows])
        both = np.hstack([instruments[rows], complementarity_features(X[rows], fitted[rows]), q])
        if start == 0:
            shift, n_features = np.append(0.0, both[:, 1:].mean(axis=0)), q.shape[1]
        both -= shift
        gram = gram + both.T @ both
    check_time()
    centred = gram[1:, 1:] - np.outer(gram[1:, 0], gram[0, 1:]) / gram[0, 0]
    products = centred[:-n_features, -n_features:]
    explained = products.T @ solve_symmetric(centred[:-n_features, :-n_features], products)
    return explained, centred[-n_features:, -n_features:]


def _independent(columns: Array) -> tuple[Array, Array]:
    """Return the columns that do not depend on those before, of unit length, and the root R of their products R'R."""
    check_time()
    lengths = np.linalg.norm(columns, axis=0)
    columns = columns[:, lengths > 0] / lengths[lengths > 0]
    try:
        R = linalg.cholesky(columns.T @ columns, check_finite=False)
    except linalg.LinAlgError:
        R = np.zeros((1, 1))
    if np.diag(R).min() > CLEARLY_INDEPENDENT:
        return columns, R
    Q, R = linalg.qr(columns, mode="economic", check_finite=False)
    Q = Q[:, np.abs(np.diag(R)) > 1e-8]
    return Q, np.eye(Q.shape[1])


def _inverse_root(M: Array) -> Array:
    """Return the inverse root of a covariance; directions without variance count as nearly without it."""
    spectrum = spectrum_of(M)
    return spectrum.lifted(1e-14 * max(spectrum.largest, np.finfo(float).tiny)).inverse_root()


def _lifted(M: Array) -> Array:
    """Keep a covariance positive definite to rounding."""
    return as_array(M + 1e-12 * np.trace(M) / len(M) * np.eye(len(M)))
