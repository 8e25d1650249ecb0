r"""The boxes of [ATV21]_, one function each: Algorithms 1 to 6.

Problem     y = Σ_i a_i σ(w_i'x + b_i) + ξ with x ~ N(0, I), rows w_i of unit norm, |a_i| and |b_i| bounded, k possibly
            above d. Given the Hermite coefficients T_j = E[y He_j(x)], find the units. Order l = 1 asks for linearly
            independent w_i (k ≤ d), order l = 2 for linearly independent w_i ⊗ w_i (k up to about d(d+1)/2), and order l
            in general for independent w_i^{⊗l} (k up to about C(d+l-1, l)).
Idea        The coefficients are tensors of the rows (Lemma 3.5), with φ the normal density:

            .. math:: T_j = \sum_i (-1)^j a_i\, He_{j-2}(b_i)\, \varphi(b_i)\, w_i^{\otimes j} \quad (j \ge 2). \quad (1)

            Flattened between products of l inputs, T_{2l+1} and T_{2l+2} have the rank-one terms of w_i^{⊗l}, which
            Jennrich's algorithm finds. He_{2l-1} and He_{2l} have no common root (Lemma 4.3), so that each unit shows
            in one of the two orders (Algorithm 1; with errors in the T_j Algorithm 4). For known rows T_j = Σ ζ_j(i)
            w_i^{⊗j} is linear. With γ_{j-2} = ζ_j and the recurrence He_{q+1}(z) = z He_q(z) - q He_{q-1}(z) a unit
            known up to its sign ε has (RecoverScalars, Algorithm 2)

            .. math:: \epsilon b = -(\gamma_{q+1} + q \gamma_{q-1}) / \gamma_q, \qquad
                      a = (-1)^q \gamma_q / (\varphi(b) He_q(\epsilon b)). \quad (2)

            For independent rows T_1 = Σ x_i a_i w_i has the solution x_i = ε_i Φ(b_i), which tells the signs (FixSigns,
            Algorithm 3; Algorithm 6 is 4 and 3 together). For dependent rows moments do not determine the signs (Claim
            4.8); Algorithm 5 regresses y on σ(±(w_i'x + b_i)), x and 1, of which the last two also absorb units whose
            |b| is too large to be seen (Lemma D.13).
Guarantee   Theorem 4.2: Algorithm 1 is exact for exact coefficients. Theorem D.1: with polynomially many samples
            Algorithm 4 finds the units with |b| up to about √log(1/ε), up to signs. Theorem 3.1: for k ≤ d Algorithm 6
            finds all parameters to ε. Theorem 3.2: the function of Algorithm 5 is ε-close in L2.
Notation    ================  ===========================================  ==================
            paper             here                                         shape
            ================  ===========================================  ==================
            m                 k, number of units
            w_i, W'           rows of ``W``                                (k, d)
            a                 ``A``, one row for each output               (m, k)
            f̂_j, T_j          what `HermiteMoments` answers
            T', T''           ``Contractions.odd``, ``even``               (R, q, q)
            ξ_i               ``signs``                                    (k,)
            z_i (Alg. 3)      ``x``                                        (k,)
            η₁, η₂, η₃        `Thresholds`
            S (Alg. 5)        `Units`
            φ(x), β (Alg. 5)  features, ``coefficients``                   (m, 2k + d + 1)
            ================  ===========================================  ==================
Departures  The boxes of Algorithms 1, 2 and 3 are not in the scan, which holds the appendix only; they are put together
            from Claims 4.4 to 4.6, Lemmas 4.5 and D.9 to D.11 and the proof of Theorem 3.1. Everywhere: (a) Tensors are
            contracted along a few random directions, never formed; the rank is that of these contractions, which is the
            rank of the flattening with probability one. (b) Matrices act on symmetric products, of dimension
            C(d+l-1, l) instead of d^l. (c) Several outputs share directions, signs and biases: q and b in (2) by least
            squares over outputs. (d) Of complex pairs of eigenvectors the real and the imaginary part are taken.
            Algorithm 4: η₁ and η₂ are multiples of the measured sampling error (the paper's are unspecified
            polynomials) and η₃ = 0.1; a known k bounds the number of units. Algorithm 5: the features are σ(±t_i)
            without the factor a_i, which spans the same functions, two for each unit instead of eight, as the end of
            the proof of Lemma D.12 allows; the convex problem of step 4 is solved to the end by the multiplier of the
            ball instead of by projected gradient steps; B is measured on the units found; the ball bounds the coefficients
            of the units alone, for the reason given next.

            Two statements of the paper do not hold as printed (checked numerically). Lemma 4.3 says max(|He_k|,
            |He_{k+1}|) ≥ √(k!/2). The least maximum is 0.618, 0.903, 1.43, 2.78 for k = 1, 2, 3, 4, against 0.707, 1,
            1.73, 3.46. The proof is about the degrees k + 1 and k + 2 and right for k ≥ 1; for k = 0, the case l = 1 of
            Algorithm 4, the least maximum is (√5 - 1)/2 = 0.618 and not 0.707. That no root is common, which is all
            that the algorithms need, holds. In step 4 of Algorithm 5 the ball of radius √(8|S|) + k(1 + B) does not
            contain the constant k B² that Lemma D.13 allows: with one bias of 20 the printed ball left 105 output
            variances, the ball without the linear part and the constant 2e-4.
Cost        One pass for the contractions, one for the scalars, one for the regression; O(q³) algebra,
            q = C(d+l-1, l). Contractions of l ≥ 3 are sums over all C(d+2l+1, 2l+2) products.
References  [ATV21]_
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import linalg, optimize

from planted._typing import Array
from planted.linalg import roots_of_powers, unit_rows
from planted.moments import Draws, HermiteMoments, RegressionSums, hermite_values
from planted.outcomes import BadInputError
from planted.rows import RowBlocks, accumulate

__all__ = [
    "EXACT_FLOOR",
    "Regression",
    "Thresholds",
    "Units",
    "algorithm_1",
    "algorithm_2",
    "algorithm_3",
    "algorithm_4",
    "algorithm_5",
    "algorithm_6",
    "flip_units",
    "merge_duplicates",
    "noise_edge",
    "regress_on_both_signs",
    "solve_in_ball",
]

DRAWS = 2  # contractions of each order, of which Jennrich's pair are random combinations
EXACT_FLOOR = 1e-9  # threshold of exact moments, relative to the largest singular value
EXACT_ANGLE = 1e-6  # distance of unit vectors that count as the same for exact moments
LARGEST_BIAS = 12.0  # He_q overflows nothing, but φ(b) underflows near 38; no unit beyond 12 leaves a trace
EPSILON = 0.01  # the accuracy ε in τ, in output standard deviations
SINGULAR = 1e-12  # eigenvalues of the normal equations below this part of the largest are exact dependencies


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


@dataclass(frozen=True, slots=True)
class Regression:
    """The function g(x) = β'φ(x) of Algorithm 5, φ(x) = (σ(t), σ(-t), x, 1)."""

    units: Units
    coefficients: Array  # (m, 2k + d + 1): β for each output
    truncated: float  # share of the rows that the truncated loss left out

    def __call__(self, X: Array) -> Array:
        """Return g(x), shape (n, m)."""
        return np.asarray(_Features(self.units.W, self.units.b)(X) @ self.coefficients.T)


def algorithm_1(moments: HermiteMoments, order: int, *, rng: np.random.Generator) -> Units:
    """Recover a_i, and b_i and w_i up to a common sign, from exact coefficients (Theorem 4.2)."""
    found = moments.contract(order, Draws.random(DRAWS, *moments.shape, rng=rng))  # 1
    k = len(found.odd[0])  # the rank alone bounds the number of units
    U, _ = _rank_one_rows(found.odd, order, EXACT_FLOOR * _size(found.odd), k, rng)  # 2
    V, values = _rank_one_rows(found.even, order, EXACT_FLOOR * _size(found.even), k, rng)  # 3
    W = merge_duplicates(np.concatenate([U, V]), EXACT_ANGLE)  # 4
    b, A = algorithm_2(order, W, moments)  # 5
    return Units(W, b, A, values, 0.0)


def algorithm_2(order: int, W: Array, moments: _AlongUnits) -> tuple[Array, Array]:
    """RecoverScalars: biases and output weights of units with known rows (Claim 4.6, Lemma 4.5).

    `W`: unit rows up to sign, linearly independent for l = 1, their l-th powers for l ≥ 2. The biases come with the signs of
    the rows. Shapes: W (k, d), b (k,), A (m, k).
    """
    values = moments.along(W, order + 3)
    b, A = np.zeros(len(W)), np.zeros(values.shape[1:])
    if not len(W):
        return b, A
    gram = W @ W.T
    # 1: T_j = Σ ζ_j(i) w_i^{⊗j} for j = l, ..., l+3 (and j ≥ 2), by normal equations; γ_{j-2} = ζ_j
    gamma = {j - 2: _solve(gram**j, values[j].T).T for j in range(max(order, 2), order + 4)}
    candidates = (0,) if order == 1 else (order - 1, order)
    sizes = np.stack([np.linalg.norm(gamma[q], axis=0) for q in candidates])
    for unit, choice in enumerate(np.argmax(sizes, axis=0)):
        q = candidates[choice]  # 2: q = argmax |γ_q|
        here, above = gamma[q][:, unit], gamma[q + 1][:, unit]
        below = q * gamma[q - 1][:, unit] if q else 0.0
        energy = float(here @ here)
        ratio = -float(here @ (above + below)) / energy if energy > 0 else 0.0
        b[unit] = np.clip(ratio, -LARGEST_BIAS, LARGEST_BIAS)  # 3: (2), left
        density = np.exp(-(b[unit] ** 2) / 2) / np.sqrt(2 * np.pi)
        scale = (-1) ** q * density * float(hermite_values(b[unit : unit + 1], q)[q, 0])
        A[:, unit] = here / scale if scale != 0 else 0.0  # 4: (2), right
    return b, A


def algorithm_3(W: Array, A: Array, first: Array) -> tuple[Array, float]:
    """FixSigns: which way each unit looks, from T_1 (proof of Theorem 3.1).

    `W`: rows up to sign, with a_i w_i linearly independent. Returned with the signs is their margin, the smallest |x_i| =
    Φ(b_i): signs of units near zero are uncertain. Shapes: W (k, d), A (m, k), first (m, d), signs (k,).
    """
    columns = np.einsum("mk,kd->mdk", A, W).reshape(first.size, len(W))
    x = linalg.lstsq(columns, first.ravel(), check_finite=False)[0]  # 1: T_1 = Σ x_i a_i w_i
    return np.where(x < 0, -1.0, 1.0), float(np.abs(x).min(initial=np.inf))  # 2: ξ_i = sign x_i


def algorithm_4(
    moments: HermiteMoments,
    order: int,
    *,
    rng: np.random.Generator,
    n_hidden: int | None = None,
    thresholds: Thresholds | None = None,
) -> Units:
    """Recover a_i, and b_i and w_i up to a common sign, of the visible units from estimated coefficients (Theorem D.1).

    `n_hidden`: at most so many units; what the thresholds leave if omitted.
    """
    eta = thresholds or Thresholds()
    found = moments.contract(order, Draws.random(DRAWS, *moments.shape, rng=rng))  # 1
    largest = len(found.odd[0]) if n_hidden is None else n_hidden
    _, odd_noise, even_noise = map(float, found.noise)
    U, _ = _rank_one_rows(found.odd, order, _rank_limit(found.odd, odd_noise, eta), largest, rng)  # 2
    V, values = _rank_one_rows(found.even, order, _rank_limit(found.even, even_noise, eta), largest, rng)  # 3
    U, u_sizes = _drop_weak(moments, U, 2 * order + 1, odd_noise, eta)  # 4: Frobenius norms below η₂
    V, v_sizes = _drop_weak(moments, V, 2 * order + 2, even_noise, eta)
    strongest = np.argsort(-np.concatenate([u_sizes, v_sizes]), kind="stable")
    W = merge_duplicates(np.concatenate([U, V])[strongest], eta.angle)[:n_hidden]  # 4: duplicates within η₃
    b, A = algorithm_2(order, W, moments)  # 5
    return Units(W, b, A, values, even_noise)


def algorithm_5(
    moments: HermiteMoments,
    rows: RowBlocks,
    order: int,
    *,
    rng: np.random.Generator,
    n_hidden: int | None = None,
    thresholds: Thresholds | None = None,
) -> Regression:
    """Return a function g close to the network in mean squared error (Theorem 3.2).

    `moments`: the coefficients of the first half of the samples; `rows`: the second half. `recover` calls the two parts of
    this box one after the other, since it judges the units between them.
    """
    units = algorithm_4(moments, order, rng=rng, n_hidden=n_hidden, thresholds=thresholds)  # 1, 2
    return regress_on_both_signs(units, rows)  # 3, 4


def algorithm_6(
    moments: HermiteMoments,
    *,
    rng: np.random.Generator,
    n_hidden: int | None = None,
    thresholds: Thresholds | None = None,
) -> tuple[Units, float]:
    """Recover all parameters of units with independent rows (Theorem 3.1); returned with the margin of their signs."""
    units = algorithm_4(moments, 1, rng=rng, n_hidden=n_hidden, thresholds=thresholds)  # 1
    if not len(units.W):
        return units, float("nan")
    first = moments.along(np.eye(moments.shape[0]), 1)[1]  # T_1
    signs, margin = algorithm_3(units.W, units.A, first)  # 2
    return flip_units(units, signs), margin


def regress_on_both_signs(
    units: Units, rows: RowBlocks, *, tau: float | None = None, radius: float | None = None
) -> Regression:
    """Minimise the truncated squared loss over the ball of coefficients (steps 3 and 4 of Algorithm 5).

    `tau`, `radius`: the length of features beyond which a row is left out, and of the ball; as printed if None.
    """
    printed_tau, printed_radius = _paper_bounds(units)
    tau = printed_tau if tau is None else tau
    radius = printed_radius if radius is None else radius
    sums = accumulate(rows, _RegressionSummand(_Features(units.W, units.b), tau))  # 3
    used = float(sums.GG[-1, -1])  # the last feature is one
    if used == 0:
        raise BadInputError(
            f"tau={tau:.3g} leaves out every row; expected the length of usual features or more"
        )
    coefficients = solve_in_ball(sums.GG / used, sums.GY / used, radius, n_bounded=2 * len(units.W))  # 4
    return Regression(units, coefficients.T, 1 - used / sums.count)


def flip_units(units: Units, signs: Array) -> Units:
    """Multiply (w, b) of each unit by its sign.

    Shapes: signs (k,).
    """
    return Units(units.W * signs[:, None], units.b * signs, units.A, units.values, units.noise)


def merge_duplicates(rows: Array, angle: float) -> Array:
    """Keep the first of rows that are within a distance of each other, up to sign (step 4)."""
    kept: list[Array] = []
    for row in rows:
        if all(min(np.linalg.norm(row - other), np.linalg.norm(row + other)) > angle for other in kept):
            kept.append(row)
    return np.stack(kept) if kept else rows[:0]


def noise_edge(count: int) -> float:
    """Return the largest singular value of a row of symmetric noise matrices of spectral norm one, entries independent.

    Entries of such a q × q matrix have standard deviation 1/(2√q); a q × (count q) matrix of them has norm (1 + √count)/2.
    """
    return float(1.0 + np.sqrt(count)) / 2


def solve_in_ball(gram: Array, right: Array, radius: float, *, n_bounded: int) -> Array:
    """Return least-squares coefficients of every output, the first no longer than the radius (step 4 of Algorithm 5).

    The free coefficients are eliminated: G and r become Schur complements. With the multiplier μ of the ball the others are
    (G + μ)⁻¹ r, μ = 0 if that is short enough. Shapes: gram (p, p), right (p, m), result (p, m).
    """
    ball, free = slice(None, n_bounded), slice(n_bounded, None)
    eliminated = _solve(gram[free, free], np.hstack([gram[free, ball], right[free]]))
    bounded = _solve_bounded(
        gram[ball, ball] - gram[ball, free] @ eliminated[:, ball],
        right[ball] - gram[ball, free] @ eliminated[:, free],
        radius,
    )
    return np.vstack([bounded, eliminated[:, free] - eliminated[:, ball] @ bounded])


def _solve_bounded(gram: Array, right: Array, radius: float) -> Array:
    """Return the coefficients of every output that fit best in the ball; dependent columns share theirs."""
    if not len(gram):
        return right
    values, vectors = linalg.eigh(gram, check_finite=False)
    kept = values > SINGULAR * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    turned = vectors.T @ right

    def excess(multiplier: float, column: Array) -> float:
        return float(np.linalg.norm(column / (values + multiplier))) - radius

    columns = []
    for column in turned.T:
        multiplier = 0.0
        if excess(0.0, column) > 0:
            highest = float(np.linalg.norm(column)) / radius
            multiplier = float(optimize.brentq(excess, 0.0, highest, args=(column,)))
        columns.append(vectors @ (column / (values + multiplier)))
    return np.stack(columns, axis=1)


def _rank_one_rows(
    matrices: Array, order: int, limit: float, largest: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return the rows w of the rank-one terms shared by contractions of one order, and the singular values (steps 2, 3).

    A row is the leading singular vector of its flattened term, up to sign (Claim 4.4).

    The rank is the number of singular values above the limit. Shapes: matrices (R, q, q), rows (k', d), values (q,).
    """
    flat = matrices.transpose(1, 0, 2).reshape(matrices.shape[1], -1)
    vectors, values, _ = linalg.svd(flat, full_matrices=False, check_finite=False)
    rank = min(int((values > limit).sum()), largest)
    span = vectors[:, :rank]
    terms = span @ _jennrich(span.T @ matrices @ span, rng)
    return roots_of_powers(terms.T, order), values


def _jennrich(matrices: Array, rng: np.random.Generator) -> Array:
    """Return the columns z_i of matrices Σ_i c_i z_i z_i': eigenvectors of X Y⁻¹ for two random combinations (Theorem A.5).

    Shapes: matrices (R, k, k), result (k, k).
    """
    if matrices.shape[1] <= 1:
        return np.eye(matrices.shape[1])
    X, Y = np.tensordot(rng.standard_normal((2, len(matrices))), matrices, axes=1)
    values, vectors = np.linalg.eig(X @ np.linalg.pinv(Y))
    return unit_rows(np.where(values.imag < 0, vectors.imag, vectors.real).T)[0].T


def _rank_limit(matrices: Array, noise: float, eta: Thresholds) -> float:
    """Return η₁: a multiple of what sampling error alone would reach, and of rounding for exact moments."""
    return max(eta.rank * noise * noise_edge(len(matrices)), EXACT_FLOOR * _size(matrices))


def _size(matrices: Array) -> float:
    """Return the largest spectral norm."""
    return float(np.linalg.norm(matrices, 2, axis=(1, 2)).max())


def _drop_weak(
    moments: HermiteMoments, rows: Array, order: int, noise: float, eta: Thresholds
) -> tuple[Array, Array]:
    """Drop terms of an order whose Frobenius norm |ζ| is below η₂ (step 4); return the others, and |ζ| over the noise."""
    if not len(rows):
        return rows, np.zeros(0)
    zeta = _solve((rows @ rows.T) ** order, moments.along(rows, order)[order].T)
    sizes = np.linalg.norm(zeta, axis=1)
    floor = EXACT_FLOOR * float(sizes.max())
    kept = sizes > max(eta.weight * noise, floor)
    return rows[kept], sizes[kept] / max(noise, floor)


def _solve(gram: Array, right: Array) -> Array:
    return np.asarray(linalg.lstsq(gram, right, check_finite=False)[0])


def _paper_bounds(units: Units) -> tuple[float, float]:
    """Return τ and the radius of the ball of step 4, with the bound B of the units that were found."""
    k, d = max(len(units.W), 1), units.W.shape[1]
    sizes = np.linalg.norm(units.A, axis=0)
    bounds = [1.0, *sizes, *(1 / sizes[sizes > 0]), *np.abs(units.b)]
    B = float(max(bounds))
    tau = 20 * k * (8 * k + d) * B * np.sqrt(np.log(k * d * B * k / EPSILON))
    return float(tau), float(np.sqrt(8 * k) + k * (1 + B))


@dataclass(frozen=True, slots=True)
class _Features:
    """The feature map φ(x) = (σ(t), σ(-t), x, 1) of step 3, t = W x + b."""

    W: Array
    b: Array

    def __call__(self, X: Array) -> Array:
        t = X @ self.W.T + self.b
        return np.hstack([np.maximum(t, 0.0), np.maximum(-t, 0.0), X, np.ones((len(X), 1))])


@dataclass(frozen=True, slots=True)
class _RegressionSummand:
    """Normal equations of the truncated loss: rows with |φ(x)| > τ are left out."""

    features: Callable[[Array], Array]
    tau: float

    def __call__(self, first_row: int, X: Array, Y: Array) -> RegressionSums:
        G = self.features(X)
        return RegressionSums.of(G, Y, weights=((G**2).sum(axis=1) <= self.tau**2).astype(np.float64))
