r"""Algorithms 1 to 4 and 6 of [ATV21]_: from Hermite tensors to units, order by order.

Problem     Given moments (`planted.moments.HermiteMoments`) of a network of k ReLU units with unit rows w_i under standard
            normal inputs, find the units. Order l = 1 asks for linearly independent w_i (k ≤ d), order l = 2 for linearly
            independent w_i ⊗ w_i (k up to about d(d+1)/2).
Idea        1. Contracted along random directions, T_{2l+1} and T_{2l+2} are matrices between products of l inputs that all
               have the form Σ_i c_i z_i z_i', z_i = w_i^{⊗l}. Their number of singular values above η₁ is the number of
               visible units; Jennrich's algorithm gives the z_i, hence w_i up to sign.
            2. He_j and He_{j+1} have no common root (Lemma 4.3), so each unit shows in one of the two orders. Terms weaker
               than η₂ are dropped, duplicates within η₃ up to sign merged.
            3. RecoverScalars: T_j = Σ ζ_j(i) w_i^{⊗j} by least squares, j = l..l+3. Only the numbers
               T_j[w_i, ..., w_i] = E[y He_j(w_i'x)] and the Gram matrix (w_i'w_n)^j are needed. With γ_{j-2} = ζ_j and
               q ∈ {l-1, l} of larger |γ_q| the recurrence He_{q+1}(z) = z He_q(z) - q He_{q-1}(z) gives

               .. math:: \epsilon b = -(\gamma_{q+1} + q \gamma_{q-1}) / \gamma_q, \qquad
                         a = (-1)^q \gamma_q / (\varphi(b) He_q(\epsilon b)).                                       \quad (1)

            4. FixSigns (k ≤ d): T_1 = Σ x_i a_i w_i has x_i = ε_i Φ(b_i).
Departures  The rank is that of random contractions, which have the rank of the tensor with probability one, instead of its
            full flattening. For l = 2 matrices act on symmetric products, of dimension d(d+1)/2 instead of d². Several
            outputs share q and b in (1), by least squares over outputs. η₁ and η₂ are multiples of the measured sampling
            error (the paper's are unspecified polynomials), η₃ = 0.1.
Cost        One pass for the contractions, one for the scalars; O(R q³) algebra, q = d or d(d+1)/2.
References  [ATV21]_
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import linalg

from planted._typing import Array
from planted.linalg import decompose_shared_terms, smat
from planted.moments import Contractions, Draws, HermiteMoments, hermite_values

__all__ = [
    "Thresholds",
    "Units",
    "fix_signs",
    "flip_units",
    "recover_scalars",
    "recover_units",
    "rows_of_terms",
]

EXACT_FLOOR = 1e-9  # threshold of exact moments, relative to the largest singular value
PAPER_DRAWS, EFFICIENT_DRAWS = 2, 6
LARGEST_BIAS = 12.0  # He_q overflows nothing, but φ(b) underflows near 38; no unit beyond 12 leaves a trace


class _AlongUnits(Protocol):
    """What RecoverScalars asks of moments."""

    def along(self, W: Array, top: int) -> Array:
        """Return E[y He_j(w_i'x)] for j = 0..top, shape (top + 1, m, k)."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The η of Algorithm 4."""

    rank: float = 1.1  # η₁ over the largest singular value that sampling error alone would have
    weight: float = 1.0  # η₂ in units of the measured sampling error of the matrices
    angle: float = 0.1  # η₃, distance of unit vectors that count as the same


@dataclass(frozen=True, slots=True)
class Units:
    """Units known up to the sign of (w, b)."""

    W: Array  # (k, d): unit rows
    b: Array  # (k,): biases, each with the sign that goes with its row
    A: Array  # (m, k): output weights
    values: Array  # singular values from which the number of visible units was read
    noise: float  # sampling error of the matrices behind them; 0 for exact moments


def recover_units(
    moments: HermiteMoments,
    order: int,
    *,
    rng: np.random.Generator,
    n_hidden: int | None = None,
    thresholds: Thresholds | None = None,
    together: bool = False,
) -> Units:
    """Run Algorithm 4: directions from two orders, then scalars; signs stay unknown.

    `n_hidden`: at most so many units; what the thresholds leave if omitted. `together`: whether orders 2l, 2l+1 and
    2l+2 are diagonalised together, with `EFFICIENT_DRAWS` directions; otherwise each of the two orders by one pair
    and merged, as printed. Returns the units that were seen.
    """
    eta = thresholds or Thresholds()
    d, m = moments.shape
    draws = Draws.random(EFFICIENT_DRAWS if together else PAPER_DRAWS, d, m, rng=rng)
    found = moments.contract(order, draws)  # step 1
    if together:
        W, values, noise = _decompose_together(found, order, rng, n_hidden, eta)
    else:
        odd = _decompose(found.odd, found.noise[1], order, rng, n_hidden, eta)  # step 2
        even = _decompose(found.even, found.noise[2], order, rng, n_hidden, eta)  # step 3
        kept = [  # step 4
            _drop_weak(moments, odd[0], 2 * order + 1, found.noise[1], eta),
            _drop_weak(moments, even[0], 2 * order + 2, found.noise[2], eta),
        ]
        rows, strengths = (np.concatenate(part) for part in zip(*kept, strict=True))
        W = _merge_duplicates(rows[np.argsort(-strengths, kind="stable")], eta.angle)[:n_hidden]
        values, noise = even[1], float(found.noise[2])
    b, A = recover_scalars(order, W, moments)  # step 5
    return Units(W, b, A, values, noise)


def recover_scalars(order: int, W: Array, moments: _AlongUnits) -> tuple[Array, Array]:
    """Run Algorithm 2: biases and output weights of units with known directions, by (1).

    `W`: unit rows, linearly independent for l = 1, their l-th powers for l ≥ 2. Returns b: biases, with the sign of
    the rows; A: output weights. Shapes: W (k, d).
    """
    values = moments.along(W, order + 3)
    b, A = np.zeros(len(W)), np.zeros(values.shape[1:])
    if not len(W):
        return b, A
    gram = W @ W.T
    gamma = {j - 2: _solve(gram**j, values[j].T).T for j in range(max(order, 2), order + 4)}
    candidates = (0,) if order == 1 else (order - 1, order)
    sizes = np.stack([np.linalg.norm(gamma[q], axis=0) for q in candidates])
    for unit, choice in enumerate(np.argmax(sizes, axis=0)):
        q = candidates[choice]
        here, above = gamma[q][:, unit], gamma[q + 1][:, unit]
        below = q * gamma[q - 1][:, unit] if q else 0.0
        energy = float(here @ here)
        ratio = -float(here @ (above + below)) / energy if energy > 0 else 0.0
        b[unit] = np.clip(ratio, -LARGEST_BIAS, LARGEST_BIAS)
        density = np.exp(-(b[unit] ** 2) / 2) / np.sqrt(2 * np.pi)
        scale = (-1) ** q * density * float(hermite_values(b[unit : unit + 1], q)[q, 0])
        A[:, unit] = here / scale if scale != 0 else 0.0
    return b, A


def fix_signs(W: Array, A: Array, first: Array) -> tuple[Array, float]:
    """Run Algorithm 3: which way each unit looks, from the order-1 coefficient.

    `W`: rows up to sign, A's columns times them linearly independent. Returns signs: +1 or -1 for each unit; margin:
    the smallest |x_i| = Φ(b_i); signs of units near zero are uncertain. Shapes: W (k, d), A (m, k), first (m, d).
    """
    columns = np.einsum("mk,kd->mdk", A, W).reshape(first.size, len(W))
    x = linalg.lstsq(columns, first.ravel(), check_finite=False)[0]
    return np.where(x < 0, -1.0, 1.0), float(np.abs(x).min(initial=np.inf))


def flip_units(units: Units, signs: Array) -> Units:
    """Turn units round.

    Returns the units with (w, b) multiplied by the signs. Shapes: signs (k,).
    """
    return Units(units.W * signs[:, None], units.b * signs, units.A, units.values, units.noise)


def rows_of_terms(Z: Array, order: int) -> Array:
    """Turn columns w^{⊗l} into unit rows w, up to sign.

    `Z`: columns: w itself for l = 1, multiples of svec(ww') for l = 2. Shapes: Z (q, k), result (k, d).
    """
    if order == 1:
        return np.asarray(Z.T / np.linalg.norm(Z.T, axis=1, keepdims=True))
    values, vectors = np.linalg.eigh(smat(Z.T))
    return np.stack([v[:, np.argmax(np.abs(u))] for u, v in zip(values, vectors, strict=True)])


def _decompose(
    matrices: Array, noise: float, order: int, rng: np.random.Generator, n_hidden: int | None, eta: Thresholds
) -> tuple[Array, Array]:
    """Return the directions seen in one order, and the singular values of its matrices."""
    scale = float(np.linalg.norm(matrices, 2, axis=(1, 2)).max())
    threshold = max(eta.rank * noise * _noise_edge(len(matrices)), EXACT_FLOOR * scale)
    largest = len(matrices[0]) if n_hidden is None else n_hidden
    terms = decompose_shared_terms(matrices, rng, threshold=threshold, largest_rank=largest, max_sweeps=0)
    d = matrices.shape[1] if order == 1 else int((np.sqrt(8 * matrices.shape[1] + 1) - 1) / 2)
    rows = rows_of_terms(terms.Z, order) if terms.Z.shape[1] else np.zeros((0, d))
    return rows, terms.values


def _decompose_together(
    found: Contractions, order: int, rng: np.random.Generator, n_hidden: int | None, eta: Thresholds
) -> tuple[Array, Array, float]:
    """Diagonalise three orders at once, each weighed by its sampling error."""
    stacks = (found.base, found.odd, found.even)
    sizes = np.array([np.linalg.norm(stack, 2, axis=(1, 2)).max() for stack in stacks])
    errors = np.maximum(found.noise, EXACT_FLOOR * sizes)
    weighed = np.concatenate([stack / error for stack, error in zip(stacks, errors, strict=True)])
    threshold = eta.rank * _noise_edge(len(weighed))
    largest = weighed.shape[1] if n_hidden is None else n_hidden
    terms = decompose_shared_terms(weighed, rng, threshold=threshold, largest_rank=largest)
    return rows_of_terms(terms.Z, order), terms.values / np.sqrt(len(weighed)), 1.0


def _noise_edge(count: int) -> float:
    """Largest singular value of a row of symmetric noise matrices of spectral norm one, for independent entries.

    Entries of such a q × q matrix have standard deviation 1/(2√q); a q × (count q) matrix of them has norm (1 + √count)/2.
    """
    return float(1.0 + np.sqrt(count)) / 2


def _drop_weak(
    moments: HermiteMoments, rows: Array, order: int, noise: float, eta: Thresholds
) -> tuple[Array, Array]:
    """Drop terms of an order whose Frobenius norm |ζ| is below η₂; return the others, and |ζ| over the noise."""
    if not len(rows):
        return rows, np.zeros(0)
    zeta = _solve((rows @ rows.T) ** order, moments.along(rows, order)[order].T)
    sizes = np.linalg.norm(zeta, axis=1)
    floor = EXACT_FLOOR * float(sizes.max())
    kept = sizes > max(eta.weight * noise, floor)
    return rows[kept], sizes[kept] / max(noise, floor)


def _merge_duplicates(rows: Array, angle: float) -> Array:
    """Keep the first, strongest, of rows that agree up to sign."""
    kept: list[Array] = []
    for row in rows:
        if all(min(np.linalg.norm(row - other), np.linalg.norm(row + other)) > angle for other in kept):
            kept.append(row)
    return np.stack(kept) if kept else rows[:0]


def _solve(gram: Array, right: Array) -> Array:
    return np.asarray(linalg.lstsq(gram, right, check_finite=False)[0])
