r"""Canonical polyadic decomposition of a stack of symmetric matrices by alternating least squares.

Problem     Given symmetric :math:`S_t = \sum_r d_{tr} z_r z_r^\top`, find the :math:`z_r`. This is the same problem
            as joint diagonalisation by congruence, in the form in which Section 4 of [GKLW19]_ solves it.
Idea        Fit the three-way tensor :math:`S_{tab} \approx \sum_r d_{tr} u_{ar} v_{br}` by least squares in one
            factor at a time [Comon2009]_; each is a linear problem with the matrix
            :math:`(U^\top U) \circ (V^\top V)`. After sweep s the step is tried again at s^(1/3) times its length and
            kept if the residual is smaller. Several runs from random orthonormal factors are carried to their end, and
            the one with the smallest residual is taken. At the end u and v agree up to scale; their normalised mean is
            returned.
Guarantee   None. Alternating least squares may stall for thousands of sweeps with two columns on one component
            ("swamps"), which is why restarts are needed and why joint diagonalisation is the default of this package.
            The relative residual is returned.
Departures  The stack is first rotated to its min(T, k²) principal matrices. Orthogonal rotations of the first mode
            commute with every least-squares step, so the iterates in u and v are those of the full stack at a k-th of
            the cost. The papers leave the start open: of ten runs at k = 16 seven ended right from orthonormal factors,
            two from normal ones; at k = 32 one in five or ten.
Cost        O(T k³) per sweep.
References  [GKLW19]_, [Comon2009]_
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._clock import check_time
from planted._typing import Array, as_array
from planted.linalg.symmetric import unit_rows

__all__ = ["SymmetricCP", "decompose_symmetric"]

_Factors = tuple[Array, Array, Array]  # D (T, rank), U and V (k, rank)

STALL = 1e-12  # relative fall of the residual's energy at which a run ends
RIDGE = 1e-13  # relative; keeps the normal equations of nearly parallel factors solvable


@dataclass(frozen=True, slots=True)
class SymmetricCP:
    """The symmetric factor of a stack of matrices."""

    Z: Array  # (k, rank): columns of unit norm
    residual: float  # energy left over, divided by the total
    sweeps: int  # sweeps that led to it
    restarts: int  # runs made


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

    `tol`: end as soon as the residual's energy is below this fraction of the total. Shapes: matrices (T, k, k).
    """
    core = _principal_matrices(matrices)
    best, least, sweeps, attempts = None, np.inf, 0, 0
    while attempts < n_restarts and least > tol:
        check_time()
        attempts += 1
        factors, residual, made = _alternate(core, _random_factors(core, rank, rng), max_sweeps, tol)
        if residual < least:
            best, least, sweeps = factors, residual, made
    assert best is not None
    return SymmetricCP(_common_factor(*best[1:]), least, sweeps, attempts)


def _principal_matrices(matrices: Array) -> Array:
    """Rotate the stack so that only its independent matrices remain."""
    stack = matrices.reshape(len(matrices), -1)
    _, values, right = linalg.svd(stack, full_matrices=False, check_finite=False)
    keep = values > 1e-14 * values[0]
    return as_array((values[keep, None] * right[keep]).reshape(-1, *matrices.shape[1:]))


def _random_factors(core: Array, rank: int, rng: np.random.Generator) -> _Factors:
    """Draw U = V with orthonormal columns; orthonormal rows where there are more columns than rows."""
    size = core.shape[1]
    basis = np.linalg.qr(rng.standard_normal((max(size, rank), min(size, rank))))[0]
    U = basis if rank <= size else basis.T
    return np.zeros((len(core), rank)), U, U


def _alternate(core: Array, start: _Factors, max_sweeps: int, tol: float) -> tuple[_Factors, float, int]:
    """Sweep from a start; return the factors, the relative residual energy and the sweeps made."""
    total = float((core**2).sum())
    factors, residual = start, np.inf
    for sweep in range(1, max_sweeps + 1):
        swept = _sweep(core, factors)
        left = _residual_energy(core, swept) / total
        if left <= tol or residual - left <= STALL * left:
            return swept, left, sweep
        ahead = _extrapolated(factors, swept, sweep ** (1 / 3))
        left_ahead = _residual_energy(core, ahead) / total
        factors, residual = (ahead, left_ahead) if left_ahead < left else (swept, left)
    return factors, residual, max_sweeps


def _sweep(core: Array, factors: _Factors) -> _Factors:
    """Solve for each factor in turn."""
    _, U, V = factors
    D = _solve_mode(((core @ V) * U).sum(axis=1), U, V)
    weighed = np.tensordot(D, core, axes=(0, 0))
    U = _unit_columns(_solve_mode(np.einsum("rab,br->ar", weighed, V), D, V))
    V = _unit_columns(_solve_mode(np.einsum("rab,ar->br", weighed, U), D, U))
    return _solve_mode(((core @ V) * U).sum(axis=1), U, V), U, V


def _extrapolated(old: _Factors, new: _Factors, length: float) -> _Factors:
    D, U, V = (after + length * (after - before) for before, after in zip(old, new, strict=True))
    return D, U, V


def _residual_energy(core: Array, factors: _Factors) -> float:
    D, U, V = factors
    model = (D[:, None, :] * U) @ V.T
    return float(((core - model) ** 2).sum())


def _solve_mode(products: Array, left: Array, right: Array) -> Array:
    """Solve one linear least-squares step with the matrix (left'left) ∘ (right'right)."""
    gram = (left.T @ left) * (right.T @ right)
    gram.flat[:: len(gram) + 1] *= 1 + RIDGE
    return as_array(np.linalg.solve(gram, products.T).T)


def _unit_columns(factor: Array) -> Array:
    return unit_rows(factor.T)[0].T


def _common_factor(U: Array, V: Array) -> Array:
    signs = np.where((U * V).sum(axis=0) < 0, -1.0, 1.0)
    return _unit_columns(U + V * signs)
