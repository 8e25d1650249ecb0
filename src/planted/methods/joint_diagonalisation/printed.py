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
            Algorithm 6: none. The same decision from one regression is in `fitting.units`; a test compares them.
Cost        Algorithm 4: `MIXTURES` · 4k contractions of O(n d²). Algorithm 5: 2k decompositions of ℓ × k. Algorithm 6: 2k
            projections, O(ℓ k³).
References  [BJW18]_
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from planted._clock import check_time
from planted._typing import Array
from planted.fitting.units._hermite_directions import hermite_directions
from planted.fitting.units._quantile_null_space import EXACT_SINE, SAME_UNIT_COSINE, exact_unit
from planted.networks import Activation

__all__ = ["MIXTURES", "TAU", "algorithm_4", "algorithm_5", "algorithm_6"]

MIXTURES = 5
TAU = 1e-3  # "Θ(1/poly(ℓ))" in step 2 of Algorithm 5, as a part of the spread of a score


def algorithm_4(X: Array, Y: Array, k: int, *, rng: np.random.Generator) -> Array:
    """Return directions of the hidden units, up to sign: steps 1 to 4.

    Step 5 is `algorithm_5`; steps 6 and 7, the linear system for the output weights, are left to the caller. Shapes:
    X (n, d), Y (n, m), result (`MIXTURES` k, d).
    """
    # 1: S_3 = He_3. 2: no noise is added. 3: collapse with a random θ. 4: decompose.
    return np.vstack([hermite_directions(X, Y, k, order=3, rng=rng) for _ in range(MIXTURES)])


def algorithm_5(X: Array, Q: Array, scores: Array, *, activation: Activation) -> Array:
    """Return the exact units of directions that are known approximately and up to sign.

    X and Q, a basis of the column space of Y, hold the first ℓ rows (step 1); the columns of `scores` are v_i'x and
    -v_i'x for every direction. Shapes: X (ℓ, d), Q (ℓ, k), scores (ℓ, 2k), result (found, d).
    """
    found: list[Array] = []
    for score in scores.T:
        check_time()
        off = score <= TAU * score.std()  # 2
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
