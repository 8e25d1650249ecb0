r"""Symmetric matrices: solving and roots where they may be singular, their entries as vectors, joint diagonalisation.

A positive semi-definite matrix M is written in its eigenvectors after its rows and columns have been divided by given
lengths,

.. math:: M = D\, U \Lambda U^\top D, \qquad D = \mathrm{diag}(\text{lengths}). \quad (1)

For the products of some columns the lengths are those of the columns, so that :math:`U \Lambda U^\top` has a unit
diagonal and its eigenvalues say how dependent the columns are, whatever their units. `Spectrum` holds (1).
Eigenvalues that are zero to rounding are first left out (`regular` relative to the largest, `above` relative to the
lengths) or raised (`lifted`); what is then computed belongs to the directions that remain. The cut-off of `regular`
is p times the rounding error unless the caller states another, with its reason.

Leaving a column out of a regression raises the sum of squares by the squared length of that part of it which the
other columns do not explain, times its squared coefficient. With :math:`\beta = (F^\top F)^{-1} F^\top Y` the rise is

.. math:: |\beta_r|^2 / ((F^\top F)^{-1})_{rr} = |\beta_r|^2\, |F_r|^2 \sin^2 \theta_r \quad (2)

where :math:`\theta_r` is the angle between column r and the span of the others. Products of columns are known to
about 1e-14 of the squared lengths, some digits less after a million rows, and so are the squared sines: below
`DEPENDENT` a column counts as a combination of the others, and its rise is zero.

``svec`` stacks the upper triangle of a symmetric matrix with off-diagonal entries times √2, so that inner products
are kept: :math:`\langle S, T\rangle = \mathrm{svec}(S)^\top \mathrm{svec}(T)`. ``svec_outer`` builds ``svec(y y')``
for all rows of a matrix at once, the feature map of every quadratic method in the package. ``unit_rows`` divides the
rows of a matrix by their lengths and returns both, so that the scale can be moved elsewhere.

*Joint diagonalisation* by congruence.

Problem     Given symmetric :math:`S_1, \dots, S_T` (k × k) with :math:`S_t = Z D_t Z^\top` and :math:`D_t` diagonal,
            find Z up to order and scale of its columns. Z need not be orthogonal, and the :math:`D_t` may be
            indefinite.
Idea        1. Jennrich: for two random combinations P, Q of the matrices the eigenvectors of
               :math:`P Q^{-1} = Z D_P D_Q^{-1} Z^{-1}` are the columns of Z. This is exact without noise, but a
               single pair uses only two numbers per column.
            2. UWEDGE [Tichavsky2009]_: improve :math:`V = Z^{-1}` with all matrices. With :math:`P_t = V S_t V^\top`
               and :math:`d_{tj} = (P_t)_{jj}`, the off-diagonal entries are modelled as
               :math:`(P_t)_{ij} \approx E_{ij} d_{tj} + E_{ji} d_{ti}`, a 2 × 2 least-squares problem for each pair
               (i, j); then :math:`V \leftarrow E^{-1} V` with unit diagonal of E.
            3. Several random pairs are tried, and the one with the smallest off-diagonal energy wins.
Guarantee   Exact for exact inputs when no two columns of the k × T matrix :math:`(d_{tj})` are parallel. With noise
            there is none; the off-diagonal residual is returned and must be looked at.
Departures  Noise produces complex eigenvectors in pairs. They are replaced by their real and imaginary parts, which
            span the same plane, and UWEDGE separates it.
Cost        O(T k³) per sweep and restart; a handful of sweeps.
References  [Tichavsky2009]_
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import linalg

from planted._typing import Array, IntArray, as_array

__all__ = [
    "DEPENDENT",
    "JointDiagonalisation",
    "Spectrum",
    "column_spectrum",
    "diagonalise_by_congruence",
    "inverse_of",
    "rises_of_columns",
    "smat",
    "solve_symmetric",
    "spectrum_of",
    "svec",
    "svec_outer",
    "symmetric_pairs",
    "triangle_weights",
    "unit_rows",
]

FAR_FROM_SINGULAR = 1e-9  # reciprocal condition, estimated
DEPENDENT = 1e-11  # squared sine of (2) below which a column is a combination of the others


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The factors of (1), or those of them that are not zero to rounding."""

    values: Array  # (r,): eigenvalues, ascending
    vectors: Array  # (p, r): their eigenvectors
    lengths: Array  # (p,): what rows and columns were divided by

    @property
    def largest(self) -> float:
        """The largest eigenvalue; zero rather than a negative rounding error."""
        return max(float(self.values[-1]), 0.0)

    def above(self, cut: float) -> Spectrum:
        """Leave out the eigenvalues at or below a cut-off."""
        kept = self.values > cut
        return Spectrum(self.values[kept], self.vectors[:, kept], self.lengths)

    def regular(self, tol: float | None = None) -> Spectrum:
        """Leave out the eigenvalues at or below a part of the largest: p times the rounding error if omitted."""
        share = len(self.lengths) * np.finfo(float).eps if tol is None else tol
        return self.above(share * self.largest)

    def lifted(self, floor: float) -> Spectrum:
        """Raise the eigenvalues below a floor to it."""
        return Spectrum(np.maximum(self.values, floor), self.vectors, self.lengths)

    def solve(self, right: Array) -> Array:
        """Return the solution of ``M x = right`` that is shortest in units of the lengths.

        Shapes: right (p, q), result (p, q).
        """
        inner = (self.vectors.T @ (right / self.lengths[:, None])) / self.values[:, None]
        return as_array((self.vectors @ inner) / self.lengths[:, None])

    def whitening(self) -> Array:
        """Return R with ``R' M R = 1``, one column for each eigenvalue.

        Shapes: result (p, r).
        """
        return as_array(self.vectors / np.sqrt(self.values) / self.lengths[:, None])

    def mapped(self, weights: Array) -> Array:
        """Return the symmetric matrix with the same eigenvectors and other eigenvalues, in units of the lengths.

        Shapes: weights (r,), result (p, p).
        """
        return as_array(self.vectors * weights @ self.vectors.T)

    def root(self) -> Array:
        """Return the symmetric square root of ``U Λ U'``.

        Shapes: result (p, p).
        """
        return self.mapped(np.sqrt(self.values))

    def inverse_root(self) -> Array:
        """Return the symmetric square root of the (pseudo-)inverse of ``U Λ U'``.

        Shapes: result (p, p).
        """
        return as_array(self.vectors / np.sqrt(self.values) @ self.vectors.T)


def spectrum_of(M: Array, lengths: Array | None = None) -> Spectrum:
    """Decompose a symmetric matrix as in (1); all lengths are one if omitted.

    Shapes: M (p, p), lengths (p,).
    """
    scaled = M if lengths is None else M / np.outer(lengths, lengths)
    values, vectors = _eigenvectors(scaled)
    return Spectrum(values, vectors, np.ones(len(M)) if lengths is None else lengths)


def _eigenvectors(M: Array) -> tuple[Array, Array]:
    """Return what SciPy's ``eigh`` returns, to the bit; for ten columns its checks take as long as the work."""
    if not len(M):
        return np.zeros(0), np.zeros((0, 0))
    lwork, liwork = _work_space(len(M))
    values, vectors, _, _, info = linalg.lapack.dsyevr(M, lower=1, lwork=lwork, liwork=liwork)
    if info:
        raise linalg.LinAlgError(f"LAPACK's dsyevr failed with code {info}")
    return values, vectors


@cache
def _work_space(size: int) -> tuple[int, int]:
    """Return how much memory LAPACK wants to find eigenvectors of a matrix of some size."""
    lwork, liwork, _ = linalg.lapack.dsyevr_lwork(size, lower=1)
    return int(lwork), int(liwork)


def column_spectrum(products: Array) -> Spectrum:
    """Decompose the products of some columns in units of the columns' lengths; a column of zeros has length one.

    Shapes: products (p, p).
    """
    lengths = np.sqrt(np.maximum(np.diag(products), 0.0))
    return spectrum_of(products, np.where(lengths > 0, lengths, 1.0))


def solve_symmetric(M: Array, right: Array, *, tol: float | None = None) -> Array:
    """Solve with the products of some columns; dependent columns share their coefficients.

    `tol`: eigenvalues at or below this part of the largest, in units of the columns' lengths, count as zero; p times
    the rounding error if omitted. Shapes: M (p, p), right (p, q), result (p, q).
    """
    return column_spectrum(M).regular(tol).solve(right)


def inverse_of(M: Array) -> Array:
    """Return the inverse of a positive semi-definite matrix, or its pseudo-inverse if it is singular to rounding.

    Cholesky's factor gives it in a tenth of the time where the matrix is far from singular. Shapes: M and result (p, p).

    Examples
    --------
    >>> inverse_of(np.diag([4.0, 16.0])).tolist(), inverse_of(np.diag([4.0, 0.0])).tolist()
    ([[0.25, 0.0], [0.0, 0.0625]], [[0.25, 0.0], [0.0, 0.0]])
    """
    factor, is_singular = linalg.lapack.dpotrf(M) if len(M) else (M, True)
    if not is_singular:
        size = np.abs(M).sum(axis=0).max()
        if linalg.lapack.dpocon(factor, size)[0] > FAR_FROM_SINGULAR:
            inverse = np.triu(linalg.lapack.dpotri(factor)[0])
            return as_array(inverse + np.triu(inverse, 1).T)
    return as_array(linalg.pinvh(M, check_finite=False))


def rises_of_columns(columns: Spectrum, coefficients: Array) -> Array:
    """Return the rise (2) of the sum of squares for every column that is left out of a regression.

    `columns`: their `column_spectrum`, all of it. `coefficients`: those of the regression on all columns. The result
    is zero for a column that is a combination of the others. Shapes: coefficients (p, m), result (p,).
    """
    values = columns.lifted(np.finfo(float).eps * (columns.largest or 1.0)).values
    squared_sines = 1 / (columns.vectors**2 / values).sum(axis=1)
    sizes = (coefficients**2).sum(axis=1) * columns.lengths**2
    return as_array(np.where(squared_sines > DEPENDENT, sizes * squared_sines, 0.0))


def svec(S: Array) -> Array:
    """Vectorise symmetric matrices: their upper triangles, off-diagonal entries times √2.

    Shapes: S (..., k, k), result (..., k(k+1)/2).
    """
    rows, columns = symmetric_pairs(S.shape[-1])
    return as_array(S[..., rows, columns] * triangle_weights(S.shape[-1]))


def smat(vector: Array) -> Array:
    """Invert `svec`.

    Shapes: vector (..., k(k+1)/2), result (..., k, k).
    """
    k = int((np.sqrt(8 * vector.shape[-1] + 1) - 1) / 2)
    rows, columns = symmetric_pairs(k)
    S = np.empty((*vector.shape[:-1], k, k))
    S[..., rows, columns] = S[..., columns, rows] = vector / triangle_weights(k)
    return S


def svec_outer(Y: Array) -> Array:
    """Return ``svec(y y')`` for every row y.

    Shapes: Y (n, k), result (n, k(k+1)/2).
    """
    rows, columns = symmetric_pairs(Y.shape[1])
    return as_array(Y[:, rows] * Y[:, columns] * triangle_weights(Y.shape[1]))


def unit_rows(rows: Array) -> tuple[Array, Array]:
    """Divide every row by its Euclidean length; return the unit rows and the lengths.

    A row of zeros stays zero, and 1 is returned as its length: ``unit * lengths[:, None]`` gives the rows back.
    Shapes: rows (r, p), results (r, p) and (r,).
    """
    norms = np.linalg.norm(rows, axis=1)
    lengths = np.where(norms > 0, norms, 1.0)
    return rows / lengths[:, None], lengths


def symmetric_pairs(k: int) -> tuple[IntArray, IntArray]:
    """Return the places (i, j), i ≤ j, behind the entries of a vectorised symmetric matrix.

    Shapes: results (k(k+1)/2,).
    """
    rows, columns = np.triu_indices(k)
    return rows.astype(np.intp), columns.astype(np.intp)


def triangle_weights(k: int) -> Array:
    """Return the weights of `svec`: 1 on the diagonal, √2 off it.

    Shapes: result (k(k+1)/2,).
    """
    rows, columns = symmetric_pairs(k)
    return np.where(rows == columns, 1.0, np.sqrt(2.0))


MAX_SWEEPS = 200
STEP_TOL = 1e-13  # relative change of V at which a sweep has nothing left to improve


@dataclass(frozen=True, slots=True)
class JointDiagonalisation:
    """The common factor of a set of symmetric matrices."""

    Z: Array  # (k, k): columns of unit norm with ``S_t ≈ Z diag(d_t) Z'``
    residual: float  # off-diagonal energy of ``inv(Z) S_t inv(Z)'`` divided by the total; 0 is exact
    sweeps: int  # UWEDGE sweeps of the winning start
    restarts: int  # random pairs tried


def diagonalise_by_congruence(
    matrices: Array,
    rng: np.random.Generator,
    *,
    n_restarts: int = 5,
    tol: float = 1e-20,
    max_sweeps: int = MAX_SWEEPS,
) -> JointDiagonalisation:
    """Find Z with ``S_t = Z diag(d_t) Z'`` for all t.

    `tol`: stop as soon as the off-diagonal energy is below this fraction of the total. `max_sweeps`: largest number
    of UWEDGE sweeps for each pair; with 0 the eigenvectors of the pair (step 1) are the answer. Shapes: matrices
    (T, k, k).
    """
    best: JointDiagonalisation | None = None
    for attempt in range(1, n_restarts + 1):
        V, sweeps = _uwedge(matrices, _jennrich_start(matrices, rng), max_sweeps)
        residual = _off_diagonal_energy(matrices, V)
        if best is None or residual < best.residual:
            Z = unit_rows(as_array(np.linalg.inv(V)).T)[0].T
            best = JointDiagonalisation(Z, residual, sweeps, attempt)
        if residual <= tol:
            break
    assert best is not None
    return JointDiagonalisation(best.Z, best.residual, best.sweeps, attempt)


def _jennrich_start(matrices: Array, rng: np.random.Generator) -> Array:
    """Return ``inv(Z)`` from the eigenvectors of ``P inv(Q)``, P and Q random combinations (step 1)."""
    P, Q = np.tensordot(rng.standard_normal((2, len(matrices))), matrices, axes=1)
    values, vectors = np.linalg.eig(P @ np.linalg.pinv(Q))
    second_of_pair = values.imag < 0
    Z = np.where(second_of_pair, vectors.imag, vectors.real)
    # A defective pencil has no basis of eigenvectors.
    if np.linalg.cond(Z) > 1 / np.sqrt(np.finfo(float).eps):
        Z = rng.standard_normal(Z.shape)
    return np.linalg.inv(Z)


def _uwedge(matrices: Array, V: Array, max_sweeps: int) -> tuple[Array, int]:
    """Sweep until V stops moving or its energy stops falling (step 2); returns V and the number of sweeps."""
    V = unit_rows(V)[0]
    energy = _off_diagonal_energy(matrices, V)
    sweep = 0
    for sweep in range(1, max_sweeps + 1):
        candidate = unit_rows(as_array(np.linalg.solve(_mixing_of_residual(V @ matrices @ V.T), V)))[0]
        new_energy = _off_diagonal_energy(matrices, candidate)
        if not np.isfinite(new_energy) or (new_energy >= energy and sweep > 3):
            return V, sweep
        moved = np.abs(candidate - V).max()
        V, energy = candidate, new_energy
        if moved < STEP_TOL:
            break
    return V, sweep


def _mixing_of_residual(P: Array) -> Array:
    """Solve the 2 × 2 problems for E, given ``P_t = V S_t V'`` of shape (T, k, k)."""
    D = np.einsum("tjj->tj", P)
    beta = D.T @ D
    c = np.einsum("tij,tj->ij", P, D)
    squares = np.diag(beta)
    determinant = np.outer(squares, squares) - beta**2
    numerator = c * squares[:, None] - beta * c.T
    # Where the columns of D are equal the pair cannot be separated.
    safe = determinant > 1e-14 * np.outer(squares, squares)
    E = np.divide(numerator, determinant, out=np.zeros_like(c), where=safe)
    np.fill_diagonal(E, 1.0)
    return as_array(E)


def _off_diagonal_energy(matrices: Array, V: Array) -> float:
    P = V @ matrices @ V.T
    total = float((P**2).sum())
    off_diagonal = P * (1.0 - np.eye(len(V)))
    return float((off_diagonal**2).sum()) / total if total > 0 else 0.0
