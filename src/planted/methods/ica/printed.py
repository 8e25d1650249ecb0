r"""Algorithm 3 of BJW18: exact recovery of a network with orthonormal hidden weights.

Problem     Noiseless Y = f(X W') A' with f rectified, x standard normal, orthonormal rows of W, A of full column rank k.
Idea        Steps 1 to 3 estimate the activations by independent components of the sketched outputs. Step 4 sets their
            small entries to zero. From step 5 on the estimate matters only through the places of these zeros: where unit
            j is off its activation vanishes, and the vector of the column space of Y that vanishes there is the
            activation, exactly. §4.3 enters at step 4, with an estimate of A from elsewhere.
Guarantee   Theorem 4 of [BJW18]_: exact with high probability from polynomially many samples. The proof needs the zeros of
            step 4 in the right places, all of them, and nothing else.
Notation    paper: A (ours Y'), U (A), V (W), T (sketch), X̄ and Ā (the first ℓ rows of X and Y), τ (`TAU` times the spread
            of a score), S_j (the complement of ``off``), x_j (the null vector u), W (h').
Departures  The paper's component analysis is replaced by `separate`. Steps 5 and 6 solve k linear systems for each unit,
            with one coordinate fixed at one, and take the first that has a solution; the last singular vector of the rows
            off S_j is that solution up to scale, without a case distinction. Step 8 is solved where h > 0, which is S_j
            whenever step 4 was right. A unit is kept if f(X w) = h on all ℓ rows, which the paper proves and does not
            test. ℓ and τ are polynomials without constants in the paper, which asks for an error of the estimate far
            below 1/poly(ℓ): ℓ is up to the caller, and matters. Every row near the hyperplane of a unit may be put on
            its wrong side. With rows of W disturbed by normal noise of size 0.02 (d = 6, k = 4), ℓ = 24 led to 32 of 40
            units, ℓ = 3,000 to none.
Cost        O(n k²) for each step of the component analysis; one decomposition of ℓ × k for each unit.
References  [BJW18]_
"""

from __future__ import annotations

import numpy as np

from planted._clock import check_time
from planted._typing import Array
from planted.fitting.units._quantile_null_space import EXACT_SINE, SAME_UNIT_COSINE, exact_unit
from planted.methods.ica._components import IndependentComponents, separate
from planted.networks import Activation

__all__ = ["TAU", "algorithm_3", "steps_1_to_3", "steps_4_to_8"]

TAU = 1e-3  # "1/poly(ℓ)" in step 4, as a part of the spread of a score


def algorithm_3(
    X: Array, Y: Array, Q: Array, *, activation: Activation, rng: np.random.Generator
) -> tuple[Array, IndependentComponents]:
    """Return the units that Algorithm 3 finds, and the component analysis behind them.

    `recover` calls the two parts of this box one after the other, since the second also starts from an approximate answer
    (§4.3). X and Q, a basis of the column space of Y, hold the first ℓ rows. The last line of step 8, the linear system for
    the output weights, is left to the caller. Shapes: X (ℓ, d), Y (n, m), Q (ℓ, k), result (found, d).
    """
    scores, components = steps_1_to_3(Y, Q.shape[1], rng)
    return steps_4_to_8(X, Q, scores[: len(X)], activation), components


def steps_1_to_3(Y: Array, k: int, rng: np.random.Generator) -> tuple[Array, IndependentComponents]:
    """Estimate the activations up to order, shift and positive scale: (T A)⁻¹ T y.

    Shapes: Y (n, m), result (n, k).
    """
    T = rng.standard_normal((k, Y.shape[1]))  # 1
    sketch = Y @ T.T  # 2: T y = (T A) f(W x)
    components = separate(sketch, rng)  # 3
    return sketch @ components.unmixing.T, components


def steps_4_to_8(X: Array, Q: Array, scores: Array, activation: Activation, tau: float = TAU) -> Array:
    """Return the exact unit of every score whose small entries are where a unit is off.

    `tau`: the threshold of step 4, as a part of the spread of a score.
    Shapes: X (ℓ, d), Q (ℓ, k), scores (ℓ, s), result (found, d).
    """
    found: list[Array] = []
    for score in scores.T:
        check_time()
        off = score <= tau * score.std()  # 4
        if not off.any():
            continue
        # 5 to 8: the null vector of the rows off S_j, its sign, and w.
        w, sine = exact_unit(X, Q, off, activation=activation)
        if sine < EXACT_SINE and not any(float(w @ other) > SAME_UNIT_COSINE for other in found):
            found.append(w)
    return np.array(found).reshape(len(found), X.shape[1])
