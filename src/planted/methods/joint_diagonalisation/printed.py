r"""Algorithms 4, 5 and 6 of BJW18: directions from a tensor, exact units from directions, and signs under noise.

Problem     Y = f(X W') A' + E with f rectified, x normal, W and A of full rank k ≤ d, m. Sought: W and A, signs included.
Idea        Algorithm 4 finds the rows of W up to sign as the components of a tensor of order three,

            .. math:: E[\langle\theta, y\rangle\, He_3(x)]
                      = \sum_i E[f'''(w_i^\top x)]\, \langle\theta, a_i\rangle\, w_i^{\otimes 3} .             \quad (1)

            Algorithm 5, without noise, tells the sign and makes the direction exact: the zeros of f(v'x), with the right
            sign of v, are the samples on which a unit is off, and some vector of the column space of Y vanishes on all
            of them; it is the unit. For the wrong sign there is no such vector. Algorithm 6, with noise, tells the signs
            alone: the outputs are projected off both f(v_j'x) and f(-v_j'x) of the other directions and one of
            f(±v_i'x); the sign that leaves less is right.
            Appendix 9.1 replaces the ReLU by any f that is zero for t ≤ 0 and an injective φ beyond. Only step 5 of
            Algorithm 5 changes: a positive multiple s of the null vector h is φ(w'x) on the samples where the unit is on,
            so that w solves X w = φ⁻¹(s h) there. Where φ is not multiplicative, s matters; it is the one at which w has
            unit norm.
Guarantee   Theorems 6 and 7 of [BJW18]_ for Algorithms 4 and 5, Theorem 9 for Algorithm 6: right with high probability
            from polynomially many samples.
Notation    paper: A (ours Y'), U (A), V (W), v_i (a row of ``V``), ξ_i (its sign), X̄ and Ā (the first ℓ rows), τ (`TAU`
            times the spread of v_i'x), S_i^± (the complement of ``off``), z_i (w).
Departures  Algorithm 4: (1) vanishes for the ReLU, whose third derivative is that of Dirac's function; the method refuses
            it then. No noise is added to the outputs (step 2), which would only enlarge the sampling error. The tensor is
            contracted with random vectors and diagonalised jointly instead of by the power method (step 4). `MIXTURES`
            vectors θ are tried instead of one, since a unit with ⟨θ, a_i⟩ near zero is lost. x is whitened, and the part
            of y that is linear in x is removed first: it has no moment of order three.
            Algorithm 5: a singular vector takes the place of k linear systems with one coordinate fixed at one, of which
            the first solution is taken (step 3). The box ends with FAIL if both signs of a direction have a solution;
            here a solution counts if it is a unit on all ℓ rows, f(X w) = Q u, and each that does is returned.
            Appendix 9.1: the samples on which a unit is off are the `SURELY_OFF` share with the smallest scores, since for
            n samples in place of ℓ no threshold is small enough. Rows of W have unit norm, as everywhere in the paper.
            Algorithm 6: none. The same decision from one regression is in `fitting.units`; a test compares them.
Cost        Algorithm 4: `MIXTURES` · 4k contractions of O(n d²). Algorithm 5: 2k decompositions of ℓ × k. Algorithm 6: 2k
            projections, O(ℓ k³).
References  [BJW18]_
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg, optimize

from planted._clock import check_time
from planted._typing import Array
from planted.fitting.units._hermite_directions import hermite_directions
from planted.fitting.units._quantile_null_space import EXACT_SINE, SAME_UNIT_COSINE, exact_unit
from planted.linalg import column_space
from planted.networks import Activation

__all__ = ["MIXTURES", "TAU", "algorithm_4", "algorithm_5", "algorithm_6", "appendix_9_1"]

MIXTURES = 5
TAU = 1e-3  # "Θ(1/poly(ℓ))" in step 2 of Algorithm 5, as a part of the spread of a score

SURELY_OFF = 0.25  # share of the samples, those with the smallest scores
ON = 1e-9  # part of the largest value of a unit above which it is on
WIDEST = 30.0  # |log s| up to which the multiple of a null vector of unit size is sought
LARGEST = 1e100  # in place of a length that is out of range


def algorithm_4(X: Array, Y: Array, k: int, *, rng: np.random.Generator) -> Array:
    """Return directions of the hidden units, up to sign: steps 1 to 4.

    Step 5 is `algorithm_5`; steps 6 and 7, the linear system for the output weights, are left to the caller. Shapes:
    X (n, d), Y (n, m), result (`MIXTURES` k, d).
    """
    # 1: S_3 = He_3. 2: no noise is added. 3: collapse with a random θ. 4: decompose.
    return np.vstack([hermite_directions(X, Y, k, order=3, rng=rng) for _ in range(MIXTURES)])


def algorithm_5(X: Array, Q: Array, scores: Array, *, activation: Activation, tau: float = TAU) -> Array:
    """Return the exact units of directions that are known approximately and up to sign.

    X and Q, a basis of the column space of Y, hold the first ℓ rows (step 1); the columns of `scores` are v_i'x and
    -v_i'x for every direction. `tau`: the threshold of step 2, as a part of the spread
    of a score. Shapes: X (ℓ, d), Q (ℓ, k), scores (ℓ, 2k), result (found, d).
    """
    found: list[Array] = []
    for score in scores.T:
        check_time()
        off = score <= tau * score.std()  # 2
        if not off.any():
            continue
        w, sine = exact_unit(X, Q, off, activation=activation)  # 3: the null vector off S_i^q; 5: z_i
        is_solution = sine < EXACT_SINE  # 4
        if is_solution and not any(float(w @ other) > SAME_UNIT_COSINE for other in found):
            found.append(w)
    return np.array(found).reshape(len(found), X.shape[1])


def algorithm_6(X: Array, Y: Array, V: Array, *, activation: Activation) -> Array:
    """Return directions with their signs, from noisy outputs.

    X and Y hold the first ℓ rows (step 1). Shapes: X (ℓ, d), Y (ℓ, m), V (k, d), result (k, d).
    """
    plus, minus = activation(X @ V.T), activation(-X @ V.T)
    W = V.copy()
    for i in range(len(V)):
        others = np.hstack([np.delete(plus, i, axis=1), np.delete(minus, i, axis=1)])
        residuals = []
        for own in (plus[:, i], minus[:, i]):  # 2: S_{i,+} and S_{i,-}
            basis = linalg.orth(np.column_stack([others, own]))
            residual = Y - basis @ (basis.T @ Y)  # 3: a_{ij} is the sum of squares of column j
            residuals.append(float((residual**2).sum()))  # 4: a_i
        if not residuals[0] < residuals[1]:
            W[i] = -V[i]
    return W


def appendix_9_1(
    X: Array,
    Y: Array,
    k: int,
    *,
    phi: Callable[[Array], Array],
    inverse: Callable[[Array], Array],
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Return the exact units, rows of unit norm, and the output weights of Y = f(X W') A', f(t) = φ(t) for t > 0, else 0.

    Units that are not reproduced to rounding are left out. Shapes: X (n, d), Y (n, m), results (found, d) and (m, found).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, A = rng.standard_normal((4000, 2)), np.array([[1.0, 2.0], [3.0, -1.0]])
    >>> Y = np.expm1(np.maximum(X, 0.0)) @ A.T  # φ(t) = e^t - 1 and W the identity
    >>> W, _ = appendix_9_1(X, Y, 2, phi=np.expm1, inverse=np.log1p, rng=rng)
    >>> np.abs(W).round(9)[np.argsort(W[:, 0])]
    array([[0., 1.],
           [1., 0.]])
    """
    Q = column_space(Y)[0][:, :k]
    V = hermite_directions(X, Y, k, rng=rng)
    found: list[Array] = []
    for v in np.vstack([V, -V]):
        check_time()
        score = X @ v
        off = score <= np.quantile(score, SURELY_OFF)
        h = Q @ linalg.svd(Q[off], full_matrices=True, check_finite=False)[2][-1]
        w, sine = _unit_of_values(X, h if h.sum() >= 0 else -h, phi, inverse)
        if sine < EXACT_SINE and not any(float(w @ other) > SAME_UNIT_COSINE for other in found):
            found.append(w)
    W = np.array(found).reshape(len(found), X.shape[1])
    H = _rectified(X @ W.T, phi)
    return W, np.asarray(linalg.lstsq(H, Y, check_finite=False)[0].T) if found else np.zeros((Y.shape[1], 0))


def _unit_of_values(
    X: Array, h: Array, phi: Callable[[Array], Array], inverse: Callable[[Array], Array]
) -> tuple[Array, float]:
    """Return w of unit norm with φ(X w) = s h where h is positive, and the sine between the two sides on all samples."""
    h = h / np.abs(h).max()
    on = h > ON

    def solve(log_scale: float) -> Array:
        with np.errstate(over="ignore"):
            values = inverse(np.exp(log_scale) * h[on])
        if not np.isfinite(values).all():
            return np.full(X.shape[1], LARGEST)
        return np.asarray(linalg.lstsq(X[on], values, check_finite=False)[0])

    def excess(log_scale: float) -> float:
        return float(np.log(np.clip(np.linalg.norm(solve(log_scale)), 1 / LARGEST, LARGEST)))

    step = -np.sign(excess(0.0)) or 1.0  # towards the scale at which |w| is one
    scales = step * np.arange(WIDEST)
    beyond = next((t for t in scales if excess(t) * step > 0), None) if on.sum() >= X.shape[1] else None
    if beyond is None:
        return np.zeros(X.shape[1]), 1.0
    scale = float(optimize.brentq(excess, beyond - step, beyond, xtol=1e-15, rtol=1e-14))
    w, values = solve(scale), np.exp(scale) * h
    sine = float(np.linalg.norm(_rectified(X @ w, phi) - values) / np.linalg.norm(values))
    return w / np.linalg.norm(w), sine


def _rectified(t: Array, phi: Callable[[Array], Array]) -> Array:
    """Return f(t): φ for t > 0, else zero."""
    return np.where(t > 0, phi(np.maximum(t, 0.0)), 0.0)
