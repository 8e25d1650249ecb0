r"""The boxes of [GKLW19]_, one function each: Algorithms 1 to 4, and the procedure of Section 4.

Problem     Samples of y = A σ(W x) + ξ with x and -x equally likely, no biases, A and W of full rank, k ≤ d and k ≤ m,
            and noise ξ of mean zero that is independent of x. Sought: W and A, up to order and scale of units.
Idea        Symmetry removes the ReLU from moments of even total degree (Lemma 6), so that
            :math:`E[y x^\top] = \tfrac12 A W C` with C = E[x x']. For one unit that is the whole answer: w = 2 C⁻¹ E[y
            x] (Algorithm 1). For more units one looks for vectors u with u'y a *pure neuron*, the activation of a
            single unit. They are the roots of

            .. math:: f(u) = 2 E[(u^\top y)(u^\top q)\, x \otimes x] - E[(u^\top y)^2\, x \otimes x], \qquad
                      q = E[y x^\top]\, C^{-1} x, \quad (1)

            which is quadratic in u, hence linear in U = u u': f(u) = T vec*(u u'). The k vectors on which T is smallest
            span the matrices z_i z_i', z_i the rows of A⁻¹ (Lemma 4); two random members of the span have the z_i as
            their common eigenvectors (Lemma 5), and each z_i'y is a problem of one unit (Algorithm 2). Noise adds
            E[(u'ξ)²] E[x ⊗ x] to the second term of (1); Algorithm 3 takes it away again by adding

            .. math:: \left(E[(u^\top y)^2] - 2 E[(u^\top y)(u^\top q)]\right) E[x \otimes x]. \quad (2)

            Outputs that outnumber the units are first projected to the k left singular vectors of E[y x'] (Algorithm
            4).
Guarantee   Theorems 4, 5 and 6: from exact moments Algorithms 2, 3 and 4 return the network, if C, A, W and the
            distinguishing matrix N (Algorithm 2) or the augmented one M (3 and 4) have full rank. Theorem 7:
            polynomially many samples suffice for Algorithm 3. For Section 4 the paper promises nothing.
Notation    ==============  =============================  ======================
            paper           here                           shape
            ==============  =============================  ======================
            l               m, number of outputs
            E[x x'], C      ``C``                          (d, d)
            E[y x']         ``R``                          (m, d)
            E[y x'] C⁻¹     ``Q``, so that q = Q x         (m, d)
            vec*, T         columns of ``T``               (d(d+1)/2, k(k+1)/2)
            S               its columns, as matrices       (k, k, k)
            ζ₁, ζ₂, X, Y    as in the paper                (k, k)
            z_i, Z          rows of ``Z``                  (k, k)
            v_i, V          rows of ``V``                  (k, d)
            P               ``P``                          (m, k)
            ==============  =============================  ======================
Departures  In Algorithms 1 to 4: (a) x ⊗ x is taken as svec(x x'), d(d+1)/2 numbers with the same inner products as the
            paper's d², so that T has the same singular values and right singular vectors. (b) Inverses are
            pseudo-inverses, so that degenerate data give an answer that can be judged. (c) Of complex pairs of
            eigenvectors, which sampling errors produce, the real and the imaginary part are taken: they span the same
            plane. The last number in (2) is printed as E[(u'y) x'] C⁻¹ E[(u'y) x], which is the same; the sum of (1)
            and (2) is thus the covariance of 2 (u'y)(u'q) - (u'y)² with x ⊗ x. The scan of the paper garbles the range
            of samples in step 3 of Algorithm 4; it is read as the second half, since the first was used for P. Section
            4 repeats alternating least squares ten times; here ten starts run for a tenth of the sweeps and the best
            goes on (`planted.linalg.symmetric_cp`). It names neither the method of gradient descent nor its step; here
            are `GRADIENT_STEPS` accelerated steps of the length that the curvature allows.
Cost        O(n d² k²/4) for the sums of step 2, O(d² k⁴/8) for the singular vectors of T.
References  [GKLW19]_, [Comon2009]_
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from planted._typing import Array
from planted.linalg import decompose_symmetric, smat, unit_rows
from planted.linalg.symmetric import triangle_weights
from planted.methods.symmetric_inputs._slope import learn_single_unit, regression
from planted.methods.symmetric_inputs._spectral import positive_rows
from planted.moments import PairedSums, PairMaps, SampleMoments, second_moments

__all__ = [
    "Layers",
    "Samples",
    "algorithm_1",
    "algorithm_2",
    "algorithm_3",
    "algorithm_4",
    "corrected_detector",
    "eigenvectors_of_random_pair",
    "least_singular_matrices",
    "output_basis",
    "plain_detector",
    "section_4",
]

SECTION_4_MATRICES = 10  # times k random matrices of the null space
SECTION_4_RUNS = 10  # of alternating least squares, the best of which counts
GRADIENT_STEPS = 200


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples (x, U y), through the moments of (x, y): what the boxes are given."""

    moments: SampleMoments
    U: Array  # (l, m): map of the outputs; the identity for the samples themselves

    @classmethod
    def of(cls, moments: SampleMoments) -> Samples:
        """Return the samples (x, y) themselves."""
        return cls(moments, np.eye(len(moments.joint().mean) - moments.n_features))

    @property
    def n_outputs(self) -> int:
        """Number of outputs, l."""
        return len(self.U)

    def mapped(self, Z: Array) -> Samples:
        """Return the samples (x, Z y), y being the outputs of these."""
        return Samples(self.moments, Z @ self.U)

    def halves(self) -> tuple[Samples, Samples]:
        """Return the first and the second half of the samples."""
        first, second = self.moments.halves()
        return Samples(first, self.U), Samples(second, self.U)

    def mean(self) -> Array:
        """Return E[y]."""
        return np.asarray(self.U @ self.moments.joint().mean[self.moments.n_features :])

    def second_moments(self) -> tuple[Array, Array]:
        """Return C = E[x x'] and R = E[y x']."""
        C, R = second_moments(self.moments.joint(), self.moments.n_features)
        return C, self.U @ R

    def pairs(self, Q: Array) -> PairedSums:
        """Return the sums of g = svec(x x') and of h with u'h u = 2 (u'y)(u'Q x) - (u'y)², as svec."""
        return self.moments.pairs(PairMaps(np.eye(self.moments.n_features), self.U, Q), spread=False)

    def hidden_gradient(self, V: Array, A: Array) -> Array:
        """Return the gradient in V of E|A σ(V x) - y|²/2, where the rows of U are orthonormal."""
        return self.moments.hidden_gradient(V, self.U.T @ A)


@dataclass(frozen=True, slots=True)
class Layers:
    """What a box returns, V and Z⁻¹, and two numbers to judge it by."""

    V: Array  # (k, d): hidden weights, their scale as it came out
    A: Array  # (m, k): output weights, Z⁻¹ or P Z⁻¹
    detector_values: Array  # (k(k+1)/2,): singular values of T, descending
    residual: float  # relative energy that the z_i leave off the diagonal of the span's matrices


def algorithm_1(samples: Samples) -> Array:
    """Learn single-layer networks: w of y = σ(w'x) + ξ, one row for each output of the samples (Lemma 1)."""
    C, v = samples.second_moments()  # 1: v = E[y x]; 2: C = E[x x']
    return learn_single_unit(C, v)  # 3: 2 C⁻¹ v


def algorithm_2(samples: Samples, rng: np.random.Generator) -> Layers:
    """Learn a two-layer network with as many outputs as units, without noise (Theorem 4)."""
    T = plain_detector(samples)  # 2-4
    S, values = least_singular_matrices(T, samples.n_outputs)  # 5
    Z = eigenvectors_of_random_pair(S, rng)  # 7, 8
    Z = positive_rows(Z, samples.mean())  # 9
    V = algorithm_1(samples.mapped(Z))  # 11
    return Layers(V, linalg.pinv(Z), values, _energy_off_diagonal(S, Z))  # 12, 13


def algorithm_3(samples: Samples, rng: np.random.Generator) -> Layers:
    """Learn a two-layer network with as many outputs as units, with noise (Theorems 5 and 7)."""
    first, second = samples.halves()  # 2, 9, 11
    T = corrected_detector(first)  # 2-4
    S, values = least_singular_matrices(T, samples.n_outputs)  # 5
    Z = eigenvectors_of_random_pair(S, rng)  # 7, 8
    Z = positive_rows(Z, second.mean())  # 9
    V = algorithm_1(second.mapped(Z))  # 11
    return Layers(V, linalg.pinv(Z), values, _energy_off_diagonal(S, Z))  # 12, 13


def algorithm_4(samples: Samples, n_hidden: int, rng: np.random.Generator) -> Layers:
    """Learn a two-layer network with more outputs than units, with noise (Theorem 6)."""
    first, second = samples.halves()  # 1, 3
    P = output_basis(first, n_hidden)  # 1, 2
    found = algorithm_3(second.mapped(P.T), rng)  # 3
    return replace(found, A=P @ found.A)  # 4


def section_4(T: Array, samples: Samples, rng: np.random.Generator) -> Layers:
    """Learn a two-layer network from the detector of Algorithm 2 or 3, as in the paper's experiments.

    In place of one pair (steps 7 and 8), 10 k random matrices of the span are decomposed by alternating least squares, ten
    times, and the best run is taken; in place of step 11, A is fixed and W learnt by gradient descent. `T`: the detector of
    steps 2 to 4; `samples`: those of steps 9 and 11.
    """
    k = samples.n_outputs
    S, values = least_singular_matrices(T, k)  # 5
    drawn = np.tensordot(rng.standard_normal((SECTION_4_MATRICES * k, k)), S, axes=1)  # in place of 7
    found = decompose_symmetric(drawn, k, rng=rng, n_restarts=SECTION_4_RUNS)  # in place of 8
    Z = positive_rows(found.Z.T, samples.mean())  # 9
    A = linalg.pinv(Z)
    V = _descend(samples, algorithm_1(samples.mapped(Z)), A)  # in place of 11
    return Layers(V, A, values, found.residual)


def output_basis(samples: Samples, n_hidden: int) -> Array:
    """Return the k leading left singular vectors of E[y x'] (steps 1 and 2 of Algorithm 4).

    Shapes: result (m, k).
    """
    R = samples.second_moments()[1]
    return np.asarray(linalg.svd(R, full_matrices=False)[0][:, :n_hidden])


def plain_detector(samples: Samples) -> Array:
    """Return T with T vec*(u u') = f(u), by (1) (steps 2 to 4 of Algorithm 2).

    Shapes: result (d(d+1)/2, k(k+1)/2).
    """
    C, R = samples.second_moments()  # 2
    sums = samples.pairs(regression(C, R))  # 2, 3: q = R C⁻¹ x
    return sums.moment * triangle_weights(samples.n_outputs)  # 4: svec(U) is √2 vec*(U) off the diagonal


def corrected_detector(samples: Samples) -> Array:
    """Return T with T vec*(u u') = f(u), by (1) and (2) (steps 2 to 4 of Algorithm 3).

    Shapes: result (d(d+1)/2, k(k+1)/2).
    """
    C, R = samples.second_moments()  # 2
    sums = samples.pairs(regression(C, R))  # 2, 3: q = R C⁻¹ x
    second, noise = sums.g / sums.count, -sums.h / sums.count  # 2, 3: E[x ⊗ x] and E[(u'y)² - 2 (u'y)(u'q)]
    f = sums.moment + np.outer(second, noise)  # 3
    return f * triangle_weights(samples.n_outputs)  # 4: svec(U) is √2 vec*(U) off the diagonal


def least_singular_matrices(T: Array, n_hidden: int) -> tuple[Array, Array]:
    """Return mat* of the k least right singular vectors of T, and all its singular values (step 5).

    Shapes: T (d(d+1)/2, k(k+1)/2), matrices (k, k, k).
    """
    _, values, right = linalg.svd(T, full_matrices=False, check_finite=False)
    weights = triangle_weights(n_hidden)  # by which smat divides and mat* does not
    return smat(right[-n_hidden:] * weights), values


def eigenvectors_of_random_pair(S: Array, rng: np.random.Generator) -> Array:
    """Return the eigenvectors of X Y⁻¹ for two random members X, Y of a span of matrices, as unit rows (steps 7 and 8).

    All members are Z'D Z with D diagonal, hence X Y⁻¹ = Z' (D_X D_Y⁻¹) Z'⁻¹ (Lemma 5). Shapes: S (k, k, k).
    """
    X, Y = np.tensordot(rng.standard_normal((2, len(S))), S, axes=1)  # 7
    values, vectors = np.linalg.eig(X @ np.linalg.pinv(Y))  # 8
    return unit_rows(np.where(values.imag < 0, vectors.imag, vectors.real).T)[0]


def _energy_off_diagonal(S: Array, Z: Array) -> float:
    """Return the share of the energy of the matrices Z'⁻¹ S Z⁻¹, rows of the inverse of unit norm, off the diagonal."""
    inverse = unit_rows(linalg.pinv(Z.T))[0]
    energy = (inverse @ S @ inverse.T) ** 2
    total = float(energy.sum())
    return float((energy * (1.0 - np.eye(len(Z)))).sum()) / total if total > 0 else 0.0


def _descend(samples: Samples, V: Array, A: Array) -> Array:
    """Learn V with A fixed by accelerated gradient steps of the length that the curvature |A|² |C| allows."""
    C, _ = samples.second_moments()
    step = 1.0 / (np.linalg.norm(samples.U.T @ A, 2) ** 2 * np.linalg.norm(C, 2))
    ahead = V
    for index in range(GRADIENT_STEPS):
        moved = ahead - step * samples.hidden_gradient(ahead, A)
        ahead = moved + (index / (index + 3)) * (moved - V)
        V = moved
    return V
