r"""Joint diagonalisation of symmetric matrices by congruence.

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

import numpy as np

from planted._typing import Array, as_array
from planted.linalg.products import unit_rows

__all__ = ["JointDiagonalisation", "diagonalise_by_congruence"]

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

    Examples
    --------
    >>> Z = np.array([[1.0, 1.0], [0.0, 1.0]])
    >>> stack = np.stack([Z @ np.diag(d) @ Z.T for d in ([1.0, 2.0], [3.0, -1.0])])
    >>> diagonalise_by_congruence(stack, np.random.default_rng(0)).residual < 1e-20
    True
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
