r"""Bound a two-layer difference by a semidefinite relaxation of its on/off pattern.

Problem     max over a box of h(x) = l'x + v + Σ_j [κ_j (z_j)₊ - κ'_j (u_j)₊]: one output of a network with one hidden
            layer, or of the difference of two with matched units.
Idea        Let s_j be 1 where z_j > 0 and 0 elsewhere. Then (z_j)₊ = s_j z_j, and (u_j)₊ ≥ s_j u_j whatever s_j is. So for
            κ_j, κ'_j ≥ 0 a pair adds at most s_j (κ_j z_j - κ'_j u_j); for κ_j, κ'_j ≤ 0 the same holds with the sign of
            u_j; in the other cases the two units are taken apart. In x = mid + rad ξ and s = (1 + σ) / 2 this is bilinear,

            .. math:: h \le \sigma' K \xi + p'\sigma + q'\xi + r, \qquad \sigma \in \{-1, 1\}^k,\; |\xi| \le 1 . \quad (1)

            The sign of the unit that defines s_j says σ_j y_j(x) ≥ 0, which with any multiplier β_j ≥ 0 may be added to
            (1) and is bilinear again. The maximum of (1) is that of v'Mv over vectors of signs, at most Σ λ_i for every
            diagonal λ with diag(λ) - M positive semidefinite. Where the copies are close, interval and linear relaxations
            lose a factor of four because every unit may choose its sign alone; (1) keeps the choice of all units together.
Method      λ comes from the vectors of the relaxation: rows of S (signs) and X (inputs) on a sphere, each in turn the
            normalised gradient (Wang et al. 2017), and β from a subgradient method: its derivative is σ_j y_j in these
            vectors.
Proof       Only λ and β matter. That diag(λ) - M + shift is positive semidefinite is proved by a Cholesky factorisation in
            floating point of a matrix whose diagonal is smaller by more than the error of that factorisation (Rump 2006);
            the shift is paid for. Rounding of the coefficients enters by their sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array
from planted.verification._backward import UNIT
from planted.verification._stages import Stage

__all__ = ["Items", "Relaxed", "bilinear_bounds", "split_into_items"]

RANK = 16
N_SWEEPS = 5  # of vectors between two steps of the multipliers
STEP, DECAY = 0.3, 0.93


@dataclass(slots=True)
class Items:
    """The terms of one output direction: h(x) ≤ l'x + v + Σ_j s_j (Q x + p)_j with s_j = 1 where (Y x + y)_j > 0."""

    line: Array  # (d,)
    constant: float
    Q: Array  # (k, d)
    p: Array  # (k,)
    Y: Array  # (k, d)
    y: Array  # (k,)
    # Pairs of rows and coefficients of which Q consists: κ z - κ' u, for rounding and for leaves.
    rows: Array  # (k, d + 1): rows z
    others: Array  # (k, d + 1): rows u
    coefficient: Array  # (k,): κ
    other: Array  # (k,): κ'
    size: Array  # (d + 1,): sizes of what l and v were summed from


def split_into_items(stages: tuple[Stage, ...], direction: Array) -> Items:
    """Return the terms of ``direction`` (m,) times the output, or the difference of outputs."""
    first, last = stages
    k = len(first.b)
    slope = first.slopes
    z = np.column_stack([first.W, first.b])
    a_z = direction @ last.W
    if first.other is not None and last.other is not None:
        u = np.column_stack(first.other)
        a_u = direction @ last.other[0]
        constant = float(direction @ last.e)
    else:
        u, a_u, constant = 0 * z, np.zeros(k), float(direction @ last.b)
    # φ(t) = slope t + (1 - slope) t₊.
    line = (a_z * slope) @ z - (a_u * slope) @ u
    size = (np.abs(a_z * slope)) @ np.abs(z) + np.abs(a_u * slope) @ np.abs(u)
    a_z, a_u = (1 - slope) * a_z, (1 - slope) * a_u
    apart = a_z * a_u < 0
    zero, nothing = np.zeros(k), np.zeros_like(z)
    parts = [(~apart, z, u, a_z, a_u), (apart, z, nothing, a_z, zero), (apart, nothing, u, zero, a_u)]
    rows, others, coefficient, other = (
        np.concatenate([part[number][part[0]] for part in parts]) for number in range(1, 5)
    )
    used = (coefficient != 0) | (other != 0)
    rows, others, coefficient, other = rows[used], others[used], coefficient[used], other[used]
    Q = coefficient[:, None] * rows - other[:, None] * others
    # The sign of z where κ > 0 or κ' = 0, else that of u.
    Y = np.where(((coefficient > 0) | (other == 0))[:, None], rows, others)
    return Items(
        line[:-1],
        float(line[-1]) + constant,
        Q[:, :-1],
        Q[:, -1],
        Y[:, :-1],
        Y[:, -1],
        rows,
        others,
        coefficient,
        other,
        size + np.append(np.zeros(len(size) - 1), abs(constant)),
    )


@dataclass(slots=True)
class Relaxed:
    """Bounds of a batch of nodes, with the numbers that give them and vectors from which to go on."""

    bounds: Array  # (B,)
    multipliers: Array  # (B, k)
    X: Array  # (B, d, RANK)
    inputs: Array  # (B, d): mean inputs of the relaxation
    score: Array  # (B, k): how far the relaxation is from deciding each sign


def bilinear_bounds(
    items: Items,
    low: Array,
    high: Array,
    signs: Array,
    *,
    n_steps: int,
    start: tuple[Array, Array] | None = None,
    rng: np.random.Generator,
) -> Relaxed:
    """Bound h on a box where some signs are given; signs (B, k) in {-1, 0, 1}.

    `start`: multipliers (B, k) and vectors (B, d, RANK) of the parents.
    """
    count, k = signs.shape
    d = len(low)
    mid = 0.5 * low + 0.5 * high
    rad = np.maximum(high - mid, mid - low) * (1 + 4 * UNIT)
    Q, p = items.Q * rad, items.p + items.Q @ mid
    Y, y = items.Y * rad, items.y + items.Y @ mid
    line, constant = items.line * rad, items.constant + items.line @ mid
    free = signs == 0
    if start is None:
        X = rng.standard_normal((count, d, RANK))
        X /= np.linalg.norm(X, axis=2, keepdims=True)
        beta = np.zeros((count, k))
    else:
        beta, X = start
    unit = (np.abs(Q).sum(axis=1) + np.abs(p)) / (np.abs(Y).sum(axis=1) + 1e-300)
    unit = np.maximum(unit, unit.mean() if k else 0.0)
    mean, square = np.zeros_like(beta), np.zeros_like(beta)
    best = np.full(count, np.inf)
    best_beta = beta
    for step in range(n_steps + 1):
        K = 0.5 * Q + beta[:, :, None] * Y
        of_s = 0.5 * p + beta * y
        of_x, rest, K, of_s = _fix(K, of_s, signs, line + 0.5 * Q.sum(axis=0), constant + 0.5 * p.sum())
        for _ in range(N_SWEEPS * (8 if step == 0 and start is None else 1)):
            S = _normalised(K @ X, of_s)[0]
            X, x_norm = _normalised(K.transpose(0, 2, 1) @ S, of_x)
        if step in (n_steps // 2, n_steps):
            bounds = _proved(K, of_s, of_x, rest, S, X, x_norm)
            bounds = bounds + _rounding(items, low, high, beta)
            best_beta = np.where((bounds < best)[:, None], beta, best_beta)
            best = np.minimum(best, bounds)
        if step == n_steps:
            break
        full = np.where(free[:, :, None], S, 0.0)
        full[:, :, 0] = np.where(free, full[:, :, 0], signs)
        gradient = (Y * (full @ X.transpose(0, 2, 1))).sum(axis=2) + y * full[:, :, 0]
        mean, square = 0.8 * mean + 0.2 * gradient, 0.95 * square + 0.05 * gradient**2
        away = mean / (1 - 0.8 ** (step + 1)) / (np.sqrt(square / (1 - 0.95 ** (step + 1))) + 1e-300)
        beta = np.maximum(beta - STEP * DECAY**step * unit * away, 0.0)
    reach = np.abs(Q).sum(axis=1) + np.abs(p)
    score = np.where(free, (1 - np.abs(S[:, :, 0])) * reach, -1.0)
    return Relaxed(best, best_beta, X, np.clip(mid + rad * X[:, :, 0], low, high), score)


def _fix(
    K: Array, of_s: Array, signs: Array, line: Array, constant: float
) -> tuple[Array, Array, Array, Array]:
    """Move the terms of given signs into the linear part."""
    of_x = line + np.einsum("bk,bkd->bd", signs, K)
    rest = constant + (signs * of_s).sum(axis=1)
    free = signs == 0
    return of_x, rest, np.where(free[:, :, None], K, 0.0), np.where(free, of_s, 0.0)


def _normalised(vectors: Array, first: Array) -> tuple[Array, Array]:
    """Add a multiple of the first axis and normalise; vectors (B, n, RANK)."""
    vectors[:, :, 0] += first
    norms = np.linalg.norm(vectors, axis=2)
    vectors /= np.where(norms > 0, norms, 1.0)[:, :, None]
    vectors[norms == 0, 0] = 1.0
    return vectors, norms


def _proved(K: Array, of_s: Array, of_x: Array, rest: Array, S: Array, X: Array, x_norm: Array) -> Array:
    """Bounds of (1) that hold: diagonal λ from the norms, raised until the matrix is proved to be semidefinite."""
    count, k, d = K.shape
    n = 1 + k + d
    s_norm = _normalised(K @ X, of_s)[1]
    M = np.zeros((count, n, n))
    M[:, 1 : k + 1, k + 1 :] = 0.5 * K
    M[:, 1 : k + 1, 0] = 0.5 * of_s
    M[:, k + 1 :, 0] = 0.5 * of_x
    M = M + M.transpose(0, 2, 1)
    first = 0.5 * ((of_s * S[:, :, 0]).sum(axis=1) + (of_x * X[:, :, 0]).sum(axis=1))
    diagonal = np.concatenate([first[:, None], 0.5 * s_norm, 0.5 * x_norm], axis=1)
    bounds = np.empty(count)
    for number in range(count):
        bounds[number] = rest[number] + _raised(diagonal[number], M[number])
    return bounds


def _raised(diagonal: Array, M: Array) -> float:
    """Σ λ for λ = diagonal + shift such that diag(λ) - M is proved to be positive semidefinite; infinite if not."""
    n = len(diagonal)
    A = np.diag(diagonal) - M
    if not np.isfinite(A).all():
        return float("inf")
    size = float(np.abs(diagonal).sum() + np.abs(M).sum(axis=1).max())
    shift = max(0.0, -float(np.linalg.eigvalsh(A)[0])) + 1e-13 * size
    for _ in range(6):
        shifted = diagonal + shift
        # Rump 2006, Theorem 2.3: if the factorisation of A - c I succeeds with c ≥ γ_{n+1} / (1 - γ_{n+1}) tr(A), A is
        # positive semidefinite. Entries of A are exact but for the diagonal, whose rounding is in the last term.
        margin = (2 * n + 8) * UNIT * float(np.abs(shifted).sum()) + 4 * UNIT * float(np.abs(shifted).max())
        try:
            np.linalg.cholesky(np.diag(shifted - margin) - M)
        except np.linalg.LinAlgError:
            shift = 4 * shift + 1e-13 * size
            continue
        total = float(shifted.sum())
        return total + (n + 8) * UNIT * float(np.abs(shifted).sum())
    return float("inf")


def _rounding(items: Items, low: Array, high: Array, beta: Array) -> Array:
    """A bound of the errors in the coefficients of (1), for each node."""
    x = np.append(np.maximum(np.abs(low), np.abs(high)), 1.0)
    terms = np.abs(items.coefficient) * (np.abs(items.rows) @ x) + np.abs(items.other) * (
        np.abs(items.others) @ x
    )
    signs = np.abs(items.Y) @ x[:-1] + np.abs(items.y)
    total = terms.sum() + items.size @ x + np.abs(items.line) @ x[:-1] + abs(items.constant)
    return np.asarray((8 * (len(x) + len(terms)) + 64) * UNIT * (total + beta @ signs))
