r"""The efficient way from Hermite tensors to units: one eigenproblem, then least squares on the moments.

Problem     Given tensors T_1, ..., T_4 of k units in r coordinates, estimated with errors of about equal size in every
            orthonormal coefficient, find the units: k ≤ r by one eigenproblem, any k from a given start.
Idea        1. For k ≤ r restrict to the k leading eigenvectors of T_2. There, with random θ and symmetric Θ,

               .. math:: (T_3[\theta] + T_4[\Theta])\, T_2^{-1} = W^\top D\, W^{-\top}, \qquad
                         D_{ii} = -b_i\, w_i^\top\theta + (b_i^2 - 1)\, w_i^\top\Theta w_i, \quad (1)

               whose eigenvectors are the directions: units with b = 0, which order 3 does not show, and with b = ±1,
               which order 4 does not show, are found alike, and there is nothing to merge.
            2. Moment matching: with :math:`T_j(\vartheta) = \sum_i a_i \eta_j(b_i) w_i^{\otimes j}` minimise

               .. math:: \sum_j \tfrac{1}{j!} \| \hat T_j - T_j(\vartheta) \|_F^2 \quad (2)

               by Levenberg–Marquardt. 1/j! makes (2) the sum of squares over orthonormal coefficients. Inner products
               of derivatives are powers of w_i'w_n, since ⟨∂_v w^{⊗j}, ∂_u z^{⊗j}⟩ = j c^{j-1} v'u + j(j-1) c^{j-2}
               (v'z)(u'w) with c = w'z: the Gauss–Newton matrix costs O(k² r²), whatever the size of the tensors.
Guarantee   (1) is exact for exact tensors when the w_i are independent; (2) ends at a stationary point. Kind:
            asymptotic.
Departures  Ours: [ATV21]_ decomposes two orders separately and merges. Orders 2 to 4 do not depend on signs of units;
            order 1 enters (2) only when the signs are known.
Cost        O(k³) for (1); O(k D² + (k r)³) for a step of (2), D = r(r+1)/2.
References  [ATV21]_
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np

from planted._clock import check_time
from planted._typing import Array
from planted.fitting._refine import Damping
from planted.linalg import smat, svec_outer, unit_rows
from planted.moments import HermiteTensors, relu_coefficients
from planted.moments.population_hermite import relu_tensors

__all__ = ["MatchedUnits", "match_moments", "misfit", "solve_eigenproblem"]

INITIAL_DAMPING = Damping(1e-3, down=0.2, up=6.0, after_rejection=0.2)
MAX_ITER = 60
DECREASE_TOL = 1e-6  # relative fall of (2) at which it has settled
ROUNDING = 1e-28  # part of the tensors' energy that rounding leaves
BIAS_BOUND = 6.0  # φ(6) = 6e-9: beyond, a unit has no trace in any order


@dataclass(frozen=True, slots=True)
class MatchedUnits:
    """Units fitted to moments."""

    W: Array  # (k, r): unit rows
    b: Array  # (k,): biases
    A: Array  # (m, k): output weights
    cost: float  # the sum of squares (2)
    iterations: int  # accepted steps


def solve_eigenproblem(tensors: HermiteTensors, rng: np.random.Generator) -> Array:
    """Return the unit directions by (1), for as many units as there are coordinates; shape (k, k)."""
    m, k = tensors.first.shape
    mix, theta = rng.standard_normal((1, m))[0], rng.standard_normal((1, k))[0]
    Theta = rng.standard_normal((k, k))
    P = tensors.contract_third(theta) + tensors.contract_fourth((Theta + Theta.T) / 2)
    P, Q = (np.tensordot(mix, part, axes=1) for part in (P, tensors.second))
    values, vectors = np.linalg.eig(P @ np.linalg.pinv(Q))
    # Noise makes complex pairs; their real and imaginary parts span the same plane.
    return unit_rows(np.where(values.imag < 0, vectors.imag, vectors.real).T)[0]


def match_moments(
    tensors: HermiteTensors, start: tuple[Array, Array, Array], *, lowest: int, max_iter: int = MAX_ITER
) -> MatchedUnits:
    """Minimise (2) from given units.

    `lowest`: the lowest order that is matched, 1 if the signs of the start are right, 2 otherwise.
    """
    orders = range(lowest, 5)
    here, damping, iterations = _evaluate(tensors, start, orders), INITIAL_DAMPING, 0
    floor = ROUNDING * _energy(tensors, orders)

    def try_step(step: Array) -> _Point:
        return _evaluate(tensors, _move(*here.units, step), orders)

    while iterations < max_iter and here.cost > floor:
        check_time()
        N, gradient = _normal_equations(*here.units, here.left, orders)
        scales = np.maximum(np.diag(N), 1e-12 * np.diag(N).max())
        trial, damping, _ = damping.descend((N, gradient, scales), try_step, here.cost)
        if trial is None:
            break
        gained, here, iterations = here.cost - trial.cost, trial, iterations + 1
        if gained <= DECREASE_TOL * here.cost:
            break
    return MatchedUnits(*here.units, here.cost, iterations)


def misfit(tensors: HermiteTensors, units: tuple[Array, Array, Array], *, lowest: int) -> float:
    """Return the sum of squares (2) at given units."""
    return _evaluate(tensors, units, range(lowest, 5)).cost


@dataclass(frozen=True, slots=True)
class _Point:
    """Units, what they leave of the tensors, and its energy."""

    units: tuple[Array, Array, Array]
    left: HermiteTensors
    cost: float


def _evaluate(tensors: HermiteTensors, units: tuple[Array, Array, Array], orders: range) -> _Point:
    """Evaluate (2) at given units."""
    left = tensors.minus(relu_tensors(*units))
    return _Point(units, left, _energy(left, orders))


def _energy(left: HermiteTensors, orders: range) -> float:
    """Return the sum of squares over orthonormal coefficients, as in (2)."""
    return sum(float((left.orders[j] ** 2).sum()) / factorial(j) for j in orders)


def _normal_equations(
    W: Array, b: Array, A: Array, left: HermiteTensors, orders: range
) -> tuple[Array, Array]:
    """Return the Gauss–Newton matrix and the right-hand side in (w, b, a) of every unit, lengths of w pinned."""
    k, r = W.shape
    m = len(A)
    eta, gram, strength = relu_coefficients(b, 5), W @ W.T, A.T @ A
    size = r + 1 + m
    N, gradient = np.zeros((k, size, k, size)), np.zeros((k, size))
    slopes = _contract_residuals(W, left)
    for j in orders:
        weight, h, up = 1.0 / factorial(j), eta[j], eta[j + 1]
        same, lower = gram**j, j * gram ** (j - 1)
        lowest = j * (j - 1) * gram ** max(j - 2, 0)
        hh = weight * np.outer(h, h)
        N[:, :r, :, :r] += np.einsum("in,ab->ianb", hh * strength * lower, np.eye(r))
        N[:, :r, :, :r] += np.einsum("in,na,ib->ianb", hh * strength * lowest, W, W)
        cross = np.einsum("in,na->ian", weight * np.outer(h, up) * strength * lower, W)
        N[:, :r, :, r] += cross
        N[:, r, :, :r] += cross.transpose(2, 0, 1)
        N[:, r, :, r] += weight * np.outer(up, up) * strength * same
        for output in range(m):
            place = r + 1 + output
            turn = np.einsum("in,na->ian", hh * A[output][:, None] * lower, W)
            N[:, :r, :, place] += turn
            N[:, place, :, :r] += turn.transpose(2, 0, 1)
            bias = weight * np.outer(up * A[output], h) * same
            N[:, r, :, place] += bias
            N[:, place, :, r] += bias.T
            N[:, place, :, place] += hh * same
        slope = slopes[j - 1]  # (m, k, r): residual contracted with w in all slots but one
        along = np.einsum("mkr,kr->mk", slope, W)
        gradient[:, :r] += weight * j * np.einsum("mk,mkr->kr", A * h, slope)
        gradient[:, r] += weight * (A * along * up).sum(axis=0)
        gradient[:, r + 1 :] += weight * (along * h).T
    _pin_lengths(N, gradient, W)
    return N.reshape(k * size, k * size), gradient.ravel()


def _contract_residuals(W: Array, left: HermiteTensors) -> list[Array]:
    """Return the residual of each order 1 to 4 contracted with w_i in all slots but one, shape (m, k, r)."""
    k = len(W)
    squares = svec_outer(W)
    first = np.repeat(left.first[:, None, :], k, axis=1)
    second = np.einsum("mab,kb->mka", left.second, W)
    third = squares @ left.third
    fourth = np.einsum("mkab,kb->mka", smat(squares @ left.fourth), W)
    return [first, second, third, fourth]


def _pin_lengths(N: Array, gradient: Array, W: Array) -> None:
    """Let w move at right angles to itself only."""
    r = W.shape[1]
    for i, w in enumerate(W):
        gradient[i, :r] -= (gradient[i, :r] @ w) * w
        N[i, :r] -= np.multiply.outer(w, np.tensordot(w, N[i, :r], axes=1))
        N[:, :, i, :r] -= np.multiply.outer(N[:, :, i, :r] @ w, w)
    for i, w in enumerate(W):
        scale = max(float(np.trace(N[i, :r, i, :r])) / max(r - 1, 1), np.finfo(float).tiny)
        N[i, :r, i, :r] += scale * np.outer(w, w)


def _move(W: Array, b: Array, A: Array, step: Array) -> tuple[Array, Array, Array]:
    """Take a step; rows keep unit norm, biases their bound."""
    k, r = W.shape
    moves = step.reshape(k, -1)
    moved = W + moves[:, :r]
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    biases = np.clip(b + moves[:, r], -BIAS_BOUND, BIAS_BOUND)
    return moved, biases, A + moves[:, r + 1 :].T
