r"""Canonical polyadic decomposition of a stack of symmetric matrices by alternating least squares.

Problem     Given symmetric :math:`S_t = \sum_r d_{tr} z_r z_r^\top`, find the :math:`z_r`: the same problem as joint
            diagonalisation by congruence, in the form in which Section 4 of [GKLW19]_ solves it.
Idea        Fit the three-way tensor :math:`S_{tab} \approx \sum_r d_{tr} u_{ar} v_{br}` by least squares in one factor at a
            time [Comon2009]_; each is a linear problem with the matrix :math:`(U^\top U) \circ (V^\top V)`. Several random starts,
            the smallest residual wins. At the end u and v agree up to scale; their normalised mean is returned.
Guarantee   None: alternating least squares may stall ("swamps"), which is why restarts are needed and why
            `joint_diagonalisation` is the default of this package. The relative residual is returned.
Departures  The stack is first rotated to its min(T, k²) principal matrices. Orthogonal rotations of the first mode commute with every
            least-squares step, so the iterates in u and v are those of the full stack at a k-th of the cost.
Cost        O(T k³) per sweep.
References  [GKLW19]_, [Comon2009]_
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array

__all__ = ["SymmetricCP", "decompose_symmetric"]

STALL = 1e-15  # relative change of the residual's energy at which a run ends
RIDGE = 1e-14  # relative; keeps the normal equations of nearly parallel factors solvable


@dataclass(frozen=True, slots=True)
class SymmetricCP:
    """The symmetric factor of a stack of matrices.

    Parameters
    ----------
    Z : ndarray of shape (k, rank)
        Columns of unit norm.
    residual : float
        Energy left over, divided by the total.
    sweeps : int
        Sweeps of the winning start.
    restarts : int
        Starts made.
    """

    Z: Array
    residual: float
    sweeps: int
    restarts: int


def decompose_symmetric(
    matrices: Array,
    rank: int,
    *,
    rng: np.random.Generator,
    n_restarts: int = 10,
    max_sweeps: int = 1000,
    tol: float = 1e-26,
) -> SymmetricCP:
    """Write symmetric matrices as combinations of the same rank-one matrices.

    Parameters
    ----------
    matrices : ndarray of shape (T, k, k)
        Symmetric matrices.
    rank : int
        Number of rank-one terms.
    rng : numpy.random.Generator
        Draws the starts.
    n_restarts : int
        Number of starts; the best is kept.
    max_sweeps : int
        Largest number of sweeps of a start.
    tol : float
        End as soon as the residual's energy is below this fraction of the total.

    Returns
    -------
    SymmetricCP
        The best decomposition found.

    Examples
    --------
    >>> Z = np.array([[1.0, 1.0], [0.0, 1.0]])
    >>> stack = np.stack([Z @ np.diag(d) @ Z.T for d in ([1.0, 2.0], [3.0, -1.0])])
    >>> decompose_symmetric(stack, 2, rng=np.random.default_rng(0)).residual < 1e-20
    True
    """
    core = _principal_matrices(matrices)
    best: SymmetricCP | None = None
    for attempt in range(1, n_restarts + 1):
        U, V, residual, sweeps = _alternate(core, rank, rng, max_sweeps, tol)
        if best is None or residual < best.residual:
            best = SymmetricCP(_common_factor(U, V), residual, sweeps, attempt)
        if best.residual <= tol:
            break
    assert best is not None
    return SymmetricCP(best.Z, best.residual, best.sweeps, attempt)


def _principal_matrices(matrices: Array) -> Array:
    """Rotate the stack so that only its independent matrices remain."""
    stack = matrices.reshape(len(matrices), -1)
    _, values, right = linalg.svd(stack, full_matrices=False, check_finite=False)
    keep = values > 1e-14 * values[0]
    return np.asarray((values[keep, None] * right[keep]).reshape(-1, *matrices.shape[1:]))


def _alternate(
    core: Array, rank: int, rng: np.random.Generator, max_sweeps: int, tol: float
) -> tuple[Array, Array, float, int]:
    """Run one start; return both factors, the relative residual energy and the sweeps."""
    total = float((core**2).sum())
    U = rng.standard_normal((core.shape[1], rank))
    V = rng.standard_normal((core.shape[2], rank))
    previous, residual = np.inf, 1.0
    for sweep in range(1, max_sweeps + 1):
        D = _solve_mode(np.einsum("tab,ar,br->tr", core, U, V, optimize=True), U, V)
        U = _unit_columns(_solve_mode(np.einsum("tab,tr,br->ar", core, D, V, optimize=True), D, V))
        products = np.einsum("tab,tr,ar->br", core, D, U, optimize=True)
        V = _solve_mode(products, D, U)
        gram = (D.T @ D) * (U.T @ U)
        energy = total - 2 * float((products * V).sum()) + float(((V.T @ V) * gram).sum())
        residual = max(energy, 0.0) / total
        if residual <= tol or abs(previous - residual) <= STALL + 1e-9 * residual:
            break
        previous = residual
    return U, _unit_columns(V), residual, sweep


def _solve_mode(products: Array, left: Array, right: Array) -> Array:
    """Solve one linear least-squares step with the matrix (left'left) ∘ (right'right)."""
    gram = (left.T @ left) * (right.T @ right)
    gram[np.diag_indices_from(gram)] *= 1 + RIDGE
    return np.asarray(linalg.lstsq(gram, products.T, cond=1e-14, check_finite=False)[0].T)


def _unit_columns(factor: Array) -> Array:
    norms = np.linalg.norm(factor, axis=0)
    return np.asarray(factor / np.where(norms > 0, norms, 1.0))


def _common_factor(U: Array, V: Array) -> Array:
    signs = np.where((U * V).sum(axis=0) < 0, -1.0, 1.0)
    return _unit_columns(U + V * signs)
