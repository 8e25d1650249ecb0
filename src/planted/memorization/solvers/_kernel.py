"""Memorise by one linear solve: with the kernel's Cholesky factor, its eigenvectors where it is singular, or a ridge.

Problem     Find a symmetric M with x_j'M x_j = y_j for j = 1, ..., n, and of all solutions the one of least Frobenius
            norm.
Idea        The least-norm solution is M = Σ_j α_j x_j x_j' with Kα = y, where K_ij = (x_i'x_j)². K is positive
            definite exactly when the x_j⊗x_j are linearly independent, which is the condition of Theorem 4 of
            [GWZ20]_: one Cholesky factorisation memorises. K squares the condition number of [x⊗x], so that where it
            looks singular, or n > d(d+1)/2, the matrix of monomials itself is decomposed, and singular values that
            are rounding are dropped. Only where it is too large (`LARGEST_MONOMIALS`) the smaller of two Gram
            matrices is diagonalised instead. If the rank is below n, the answer is the least-squares solution of
            least norm, and the record says so. The ridge adds a penalty μ to the diagonal of K; it does not memorise
            but may predict better.
Guarantee   Exact up to rounding: the residual is corrected once in float64. Kind: exact.
Notation    K, α as above;  Φ = monomials z_a z_b (√2 z_a z_b off the diagonal), n × q(q+1)/2, K = ΦΦ'.
Departures  [GWZ20]_ trains by perturbed gradient descent and does not use that the problem is linear in M.
Cost        O(n²q + n³/3) time and 8n² bytes; the fallback takes about ten times as long.
References  [GWZ20]_
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from planted._clock import StopRequested
from planted._conversion import require_memory
from planted._typing import Array
from planted.memorization._task import MemoryFit, MemoryTask, quadratic_forms, signed_units, weighted_gram
from planted.memorization._theory import extreme_eigenvalue
from planted.outcomes import BadInputError

__all__ = [
    "form_kernel",
    "monomials",
    "rounding_of_products",
    "solve_direct",
    "solve_ridge",
    "spectrum_of_products",
]

RANK_TOL = 1e-13
"""Eigenvalues of a Gram matrix below this times the largest, times its size, are rounding."""

PRODUCT_TOL = 1e-14
"""Singular values of the monomials below this times their Frobenius norm are rounding."""

LARGEST_MONOMIALS = 4_000_000
"""Entries of the matrix of monomials up to which it is decomposed itself; 32 MB, some seconds."""

TOO_MANY_ROWS = "{} rows exceed the {} dimensions of the quadratic forms; least squares was used"

PENALTIES = tuple(10.0**power for power in range(-10, 3))
"""Tried by the ridge, as multiples of the kernel's mean diagonal."""


@dataclass(frozen=True, slots=True)
class _Solution:
    """The matrices M of all outputs, and what the factorisation showed of the kernel."""

    matrices: Array  # (m, q, q)
    rank: int
    smallest: float  # eigenvalue of the kernel
    fallback: str  # why eigenvectors were used; empty for Cholesky


def solve_direct(task: MemoryTask) -> MemoryFit:
    """Memorise with one factorisation of the kernel; ``fallback`` tells when it was singular."""
    solution = _solve_by_cholesky(task) if len(task.Z) <= task.capacity else None
    if solution is None:
        fits = len(task.Z) * task.capacity <= LARGEST_MONOMIALS
        solution = _solve_by_monomials(task) if fits else _solve_by_eigenvectors(task)
    spectrum = (solution.rank, solution.smallest)
    return _solved_fit(task, solution.matrices, spectrum=spectrum, fallback=solution.fallback)


def solve_ridge(
    task: MemoryTask, *, penalty: float | str = "validate", validation_fraction: float = 0.2
) -> MemoryFit:
    """Fit with a penalty on the norm of M, chosen on rows held out.

    `penalty` is added to the diagonal of the kernel, as a multiple of its mean diagonal; "validate" tries a grid of
    them on a `validation_fraction` of the rows, and then uses all rows. The notes have the ``penalty`` used.
    """
    _check_penalty(penalty, validation_fraction, len(task.Z))
    task.check()
    K = form_kernel(task.Z)
    notes: dict[str, object] = {}
    on_part = None
    if isinstance(penalty, str):
        penalty, notes["validation_errors"], on_part = _choose_penalty(task, K, validation_fraction)
    try:
        task.check()
        coefficients = _ridge_coefficients(K, task.Y, penalty)
    except StopRequested as stop:
        if on_part is None:
            raise
        task.note_stop(stop)
        coefficients = on_part
    return _solved_fit(task, _matrices_of(task.Z, coefficients), notes=notes | {"penalty": penalty})


def form_kernel(Z: Array) -> Array:
    """Return the matrix of squared inner products.

    Shapes: Z (n, q), result (n, n).
    """
    require_memory((len(Z), len(Z)), "the kernel", remedy="Use solver='cg', which does not form it.")
    K = np.asarray(Z @ Z.T)
    return np.multiply(K, K, out=K)


def monomials(Z: Array) -> Array:
    """Return the products z_a z_b, off the diagonal times √2, whose inner products are the kernel.

    Shapes: Z (n, q), result (n, q(q+1)/2).
    """
    rows, columns = np.triu_indices(Z.shape[1])
    require_memory((len(Z), len(rows)), "the monomials", remedy="Use fewer columns.")
    return np.asarray(Z[:, rows] * Z[:, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0)))


def rounding_of_products(Z: Array) -> float:
    """Return the size below which a singular value of [z⊗z] is rounding; their Frobenius norm is the root of Σ |z|⁴."""
    return PRODUCT_TOL * float(np.sqrt((np.einsum("ij,ij->i", Z, Z) ** 2).sum()))


def spectrum_of_products(Z: Array) -> tuple[int, float]:
    """Return the rank of [z⊗z] and the smallest eigenvalue of its kernel, zero if the rows are dependent.

    Examples
    --------
    >>> spectrum_of_products(np.array([[1.0, 0.0], [1.0, 1e-6]]))[0], spectrum_of_products(np.ones((2, 2)))
    (2, (1, 0.0))
    """
    n, q = Z.shape
    if n * q * (q + 1) // 2 <= LARGEST_MONOMIALS:
        values = linalg.svdvals(monomials(Z), check_finite=False)
        rank = int((values > rounding_of_products(Z)).sum())
        return rank, float(values[-1]) ** 2 if rank == n else 0.0
    values = np.linalg.eigvalsh(form_kernel(Z))
    rank = int((values > RANK_TOL * n * values[-1]).sum())
    return rank, float(values[0]) if rank == n else 0.0


def _check_penalty(penalty: float | str, validation_fraction: float, n: int) -> None:
    """Refuse a penalty that is none, and rows that cannot be split to choose one."""
    if isinstance(penalty, str) and penalty != "validate":
        raise BadInputError(f"penalty={penalty!r}; expected 'validate' or a number of zero or more")
    if not 0 < validation_fraction < 1:
        raise BadInputError(f"validation_fraction={validation_fraction}; expected a number between 0 and 1")
    if isinstance(penalty, str):
        if n < 2:
            raise BadInputError(f"{n} row(s) cannot be split to choose a penalty; give penalty=...")
    elif not penalty >= 0:
        raise BadInputError(f"penalty={penalty}; expected zero or more")


def _solve_by_cholesky(task: MemoryTask) -> _Solution | None:
    """Solve Kα = y with one step of refinement; None if K is singular up to rounding."""
    n = len(task.Z)
    task.check()
    K = form_kernel(task.Z)
    largest = float(np.abs(K).sum(axis=1).max())  # a bound of the largest eigenvalue (Gershgorin)
    task.progress(f"factorising a kernel of {n:,} rows", float("nan"))
    task.check()
    try:
        factor = linalg.cho_factor(K, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    smallest = _smallest_eigenvalue(factor, n, task.rng)
    if smallest < RANK_TOL * largest:
        return None
    coefficients = linalg.cho_solve(factor, task.Y, check_finite=False)
    matrices = _matrices_of(task.Z, coefficients)
    residual = task.Y - _outputs(task.Z, matrices)
    coefficients += linalg.cho_solve(factor, residual, check_finite=False)
    return _Solution(_matrices_of(task.Z, coefficients), n, smallest, "")


def _smallest_eigenvalue(factor: tuple[Array, bool], n: int, rng: np.random.Generator) -> float:
    """Return the smallest eigenvalue of K by Lanczos iterations with its inverse."""
    if n < 3:  # the Lanczos routine needs room for one vector beside the wanted one
        inverse = linalg.cho_solve(factor, np.eye(n))
        return float(1.0 / np.linalg.eigvalsh(inverse)[-1])

    def multiply(v: Array) -> Array:
        return np.asarray(linalg.cho_solve(factor, v, check_finite=False))

    return 1.0 / extreme_eigenvalue(multiply, rng.standard_normal(n), which="LA", rng=rng, tol=1e-3)


def _solve_by_monomials(task: MemoryTask) -> _Solution:
    """Return the least-squares solution of least norm from the singular value decomposition of the monomials."""
    n, q = task.Z.shape
    task.check()
    task.progress(f"decomposing the {task.capacity:,} monomials of {n:,} rows", float("nan"))
    Phi = monomials(task.Z)
    left, values, right = linalg.svd(Phi, full_matrices=False, check_finite=False)
    kept = values > rounding_of_products(task.Z)
    left, inverse, right = left[:, kept], 1.0 / values[kept][:, None], right[kept]
    solution = right.T @ (inverse * (left.T @ task.Y))
    solution += right.T @ (inverse * (left.T @ (task.Y - Phi @ solution)))
    rank = int(kept.sum())
    smallest = float(values[-1]) ** 2 if rank == n else 0.0
    reason = (
        "" if rank == n else f"the products of {n} rows have numerical rank {rank}; least squares was used"
    )
    if n > task.capacity:
        reason = TOO_MANY_ROWS.format(n, task.capacity)
    return _Solution(_matrices_of_monomials(solution, q), rank, smallest, reason)


def _solve_by_eigenvectors(task: MemoryTask) -> _Solution:
    """Return the least-squares solution of least norm from the smaller Gram matrix."""
    n, q = task.Z.shape
    task.check()
    if n <= task.capacity:
        task.progress(f"the kernel is singular: its {n:,} eigenvectors", float("nan"))
        invert, rank, smallest = _pseudo_inverse(form_kernel(task.Z))
        reason = f"the kernel of {n} rows has numerical rank {rank}; its eigenvectors were used"
        coefficients = invert(task.Y)
        coefficients += invert(task.Y - _outputs(task.Z, _matrices_of(task.Z, coefficients)))
        return _Solution(_matrices_of(task.Z, coefficients), rank, smallest, reason)
    Phi = monomials(task.Z)
    invert, rank, smallest = _pseudo_inverse(Phi.T @ Phi)
    solution = invert(Phi.T @ task.Y)
    solution += invert(Phi.T @ (task.Y - Phi @ solution))
    reason = TOO_MANY_ROWS.format(n, task.capacity)
    return _Solution(_matrices_of_monomials(solution, q), rank, 0.0, reason)


def _pseudo_inverse(gram: Array) -> tuple[Callable[[Array], Array], int, float]:
    """Return the pseudo-inverse of a Gram matrix as a function, its rank, and its smallest eigenvalue."""
    values, vectors = linalg.eigh(gram, overwrite_a=True, check_finite=False)
    kept = values > RANK_TOL * len(values) * max(float(values[-1]), np.finfo(float).tiny)
    basis, weights = vectors[:, kept], values[kept][:, None]

    def invert(columns: Array) -> Array:
        return np.asarray(basis @ ((basis.T @ columns) / weights))

    return invert, int(kept.sum()), max(float(values[0]), 0.0)


def _matrices_of(Z: Array, coefficients: Array) -> Array:
    """Return M = Σ_j α_j z_j z_j' for each output."""
    return np.stack([weighted_gram(Z, column) for column in coefficients.T])


def _matrices_of_monomials(solution: Array, q: int) -> Array:
    """Return the symmetric matrices whose coefficients on the monomials are given."""
    rows, columns = np.triu_indices(q)
    matrices = np.zeros((solution.shape[1], q, q))
    halves = solution.T / np.where(rows == columns, 1.0, np.sqrt(2.0))
    matrices[:, rows, columns] = halves
    matrices[:, columns, rows] = halves
    return matrices


def _outputs(Z: Array, matrices: Array) -> Array:
    """Return z'M z for each row and output."""
    return np.column_stack([quadratic_forms(Z, matrix) for matrix in matrices])


def _solved_fit(task: MemoryTask, matrices: Array, **facts: Any) -> MemoryFit:
    """Return the units of the matrices, with the losses 1/(4n) Σ δ² of zero and of the solution."""
    fitted = (np.zeros_like(task.Y), _outputs(task.Z, matrices))
    losses = [float(np.sum((outputs - task.Y) ** 2) / (4 * len(task.Z))) for outputs in fitted]
    return MemoryFit(*signed_units(matrices), tuple(enumerate(losses)), **facts)


def _mean_diagonal(K: Array) -> float:
    """Return the mean diagonal of the kernel, the unit of penalties; 1 if every row is zero."""
    return float(np.trace(K)) / len(K) or 1.0


def _ridge_coefficients(K: Array, Y: Array, penalty: float) -> Array:
    """Solve with the penalty on the diagonal of K, which is overwritten."""
    K[np.diag_indices(len(K))] += penalty * _mean_diagonal(K)
    try:
        factor = linalg.cho_factor(K, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError as error:
        raise BadInputError(
            f"penalty={penalty} leaves the kernel singular; expected more, or use solver='direct'"
        ) from error
    return np.asarray(linalg.cho_solve(factor, Y, check_finite=False))


def _choose_penalty(task: MemoryTask, K: Array, fraction: float) -> tuple[float, list[float], Array]:
    """Return the penalty with the smallest error on rows held out, all errors, and its solution without those rows."""
    n = len(K)
    order = task.rng.permutation(n)
    n_held = min(max(1, round(fraction * n)), n - 1)
    held, used = order[:n_held], order[n_held:]
    values, vectors = linalg.eigh(K[np.ix_(used, used)])
    rotated, cross = vectors.T @ task.Y[used], K[np.ix_(held, used)] @ vectors
    scale = _mean_diagonal(K)
    solutions = [rotated / (np.maximum(values, 0.0) + penalty * scale)[:, None] for penalty in PENALTIES]
    errors = [float(np.mean((cross @ solution - task.Y[held]) ** 2)) for solution in solutions]
    best = int(np.argmin(errors))
    coefficients = np.zeros_like(task.Y)
    coefficients[used] = vectors @ solutions[best]
    return PENALTIES[best], errors, coefficients
