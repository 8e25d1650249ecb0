r"""Algorithms 1-4 of [GKLW19]_: from moments of (x, y) to the network, for symmetric x.

Problem     y = A σ(W x) + ξ, no biases, x and -x equally likely, A and W of full rank, k ≤ min(d, m). Given the moments that
            `planted.moments.PairMoments` names, find W and A.
Idea        1. Symmetry removes the ReLU from odd moments (Lemma 6): E[y x'] = ½ A W C with C = E[x x'], so that twice the
               regression of y on x is B = A W. For a single unit this is the whole answer (Algorithm 1).
            2. Let :math:`q = \tfrac12 B x` and, for symmetric U, :math:`h_U = 2 y^\top U q - y^\top U y`. The detector

               .. math:: T(U) = \mathrm{Cov}(h_U, x \otimes x) \quad\text{(noiseless: } E[h_U\, x \otimes x]) \quad (1)

               vanishes for U = z z' whenever z'y is one unit, a "pure neuron": A'z has one entry. If the augmented
               distinguishing matrix M has full rank, its null space is spanned by the k matrices z_i z_i'. (1) equals
               the corrected formula of Algorithm 3, step 3, because E[y'U q] = tr(U R C⁻¹ R').
            3. Joint diagonalisation by congruence of a basis of the null space gives the z_i; E[z_i'y] > 0 fixes their
               signs.
            4. W = Z B (Algorithm 1 for each z_i'y) and A = Z⁻¹. With m > k the outputs are first projected to the k left
               singular vectors of E[y x'] (Algorithm 4).
Guarantee   Theorems 4-6: exact moments give the exact network when C, A, W and M (N without noise) have full rank.
            Theorem 7: polynomially many samples suffice, in 1/σ_min(C), 1/σ_min(A), 1/σ_min(M). Not promised: k > d, m <
            k, biases.
Notation    paper X, Y -> P, Q matrices of step 3 | paper l -> m | paper N, M -> `distinguishing_sums` | paper V, Z -> W,
            rows of Z
Departures  `paper`: none, except that complex eigenvectors give their real and imaginary parts. `practical` (Section 4):
            10 k random matrices of the null space, alternating least squares, best of 10, then W by accelerated gradient
            steps with A fixed.
            `efficient`: B from a regression with even controls [x, 1, products of V'x], since with exact B and no noise
            h_U vanishes on every *sample* and all error comes from B; x projected to the row space of B, y whitened by B
            C B'; T weighted by Cov(x ⊗ x)^-½; UWEDGE instead of one pair; no sample splitting. Mean squared
            error of W and A over Cramér-Rao, unrefined, d = k = m = 10, n = 10,000, noise 0.1, median of 6: 1030
            (paper), 31 (practical), 3.8 (efficient); `benchmarks/symmetric.py`.
Cost        O(n p (p + q)) for the sums, p = r(r+1)/2, q = k(k+1)/2, r = d (paper) or k (efficient); O(p q²) algebra.
References  [GKLW19]_, [Tichavsky2009]_, [Comon2009]_
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array
from planted.linalg import decompose_symmetric, diagonalise_by_congruence, smat
from planted.methods.symmetric_inputs._slope import Slope, controlled_slope, inverse_roots, learn_single_unit
from planted.moments import PairMaps, PairMoments, second_moments, triangle_weights
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError

__all__ = ["VARIANTS", "Spectral", "null_matrices", "recover_from_moments", "separate_outputs"]

VARIANTS = ("efficient", "practical", "paper")
PRACTICAL_MATRICES = 10  # times k random matrices of the null space, Section 4
PRACTICAL_RESTARTS = 10
GRADIENT_STEPS = 200


@dataclass(frozen=True, slots=True)
class Spectral:
    """A network read from moments."""

    network: TwoLayerNetwork  # the network, rows of W of unit norm
    # (k(k+1): singular values of the detector T, descending; the last k belong to the null space.
    detector_values: Array
    residual: float  # what the joint diagonalisation left over, relative

    @property
    def gap(self) -> float:
        """Smallest singular value outside the null space over the largest inside; infinite when there is none outside."""
        k = self.network.n_hidden
        if len(self.detector_values) == k:
            return float("inf")
        above, below = self.detector_values[-k - 1], self.detector_values[-k]
        return float(above / below) if below > 0 else float("inf")


def recover_from_moments(
    moments: PairMoments,
    n_hidden: int,
    *,
    variant: str = "efficient",
    noisy: bool = True,
    rng: np.random.Generator,
    slope: Slope | None = None,
) -> Spectral:
    """Read the network from moments of samples or of a law.

    `noisy`: whether the detector is the covariance (Algorithm 3) or the plain moment (Algorithm 2). `slope`: an
    estimate of B for the efficient variant, which makes its own if there is none.
    """
    if variant == "efficient":
        slope = slope or controlled_slope(moments, n_hidden)
        return _recover_efficiently(moments, slope, n_hidden, noisy, rng)
    if variant in VARIANTS:
        return _recover_as_printed(moments, n_hidden, noisy, rng, practical=variant == "practical")
    raise BadInputError(f"unknown variant {variant!r}; known are {', '.join(map(repr, VARIANTS))}")


def null_matrices(T: Array, n_hidden: int) -> tuple[Array, Array]:
    """Return the k symmetric matrices on which the detector is smallest (step 5 of Algorithms 2 and 3).

    Returns matrices: the matrices; values: all singular values, descending. Shapes: T (p, k(k+1).
    """
    columns = T.shape[1]
    triangle = linalg.qr(T, mode="r", check_finite=False)[0][:columns] if len(T) > columns else T
    _, values, right = linalg.svd(triangle, full_matrices=True, check_finite=False)
    return smat(right[-n_hidden:]), np.concatenate([values, np.zeros(columns - len(values))])


def separate_outputs(matrices: Array, mean: Array, *, rng: np.random.Generator) -> tuple[Array, float]:
    """Return rows z_i with z_i'y a pure neuron, from a basis of the null space, by UWEDGE.

    Returns Z: unit rows; residual: relative energy left over. Shapes: matrices (k, k, k), mean (k,).
    """
    found = diagonalise_by_congruence(matrices, rng)
    return _positive_rows(found.Z.T, mean), found.residual


def _recover_efficiently(
    moments: PairMoments, slope: Slope, k: int, noisy: bool, rng: np.random.Generator
) -> Spectral:
    """Run our pipeline on moments."""
    joint = moments.joint()
    P, B = slope.output_map(k), slope.truncated(k)
    sums = moments.pairs(PairMaps(slope.input_directions(k), P, P @ B / 2))
    cross, spread = (sums.covariance, sums.spread) if noisy else (sums.moment, sums.gg / sums.count)
    matrices, values = null_matrices(inverse_roots(spread)[1] @ cross, k)
    Z, residual = separate_outputs(matrices, P @ joint.mean[B.shape[1] :], rng=rng)
    W = Z @ P @ B
    A = slope.left[:, :k] * slope.values[:k] @ linalg.inv(Z)
    return Spectral(_with_unit_rows(W, A), values, residual)


def _recover_as_printed(
    moments: PairMoments, k: int, noisy: bool, rng: np.random.Generator, *, practical: bool
) -> Spectral:
    """Run Algorithm 2 (noiseless) or 3 (noisy), within Algorithm 4 when there are more outputs than units."""
    joint = moments.joint()
    d = moments.n_features
    P = np.eye(len(joint.mean) - d)
    if len(P) > k:  # Algorithm 4
        first, moments = moments.halves() if noisy else (moments, moments)
        P = linalg.svd(second_moments(first.joint(), d)[1], full_matrices=False)[0][:, :k].T
    first, second = moments.halves() if noisy else (moments, moments)
    C, R = second_moments(first.joint(), d)  # step 2
    Q = learn_single_unit(C, P @ R) / 2
    sums = first.pairs(PairMaps(np.eye(d), P, Q), spread=False)
    weights = triangle_weights(k)  # the paper's vec* has no factor √2 off the diagonal
    T = (sums.covariance if noisy else sums.moment) * weights  # steps 3 and 4
    _, values, right = linalg.svd(T, full_matrices=len(T) < T.shape[1], check_finite=False)
    matrices = smat(right[-k:] * weights)  # step 5
    found = _separate_practically(matrices, rng) if practical else _separate_by_pair(matrices, rng)
    C, R = second_moments(second.joint(), d)
    Z = _positive_rows(found[0].T, P @ second.joint().mean[d:])  # step 9
    W, A = learn_single_unit(C, Z @ P @ R), P.T @ linalg.pinv(Z)  # steps 11-13
    if practical:
        W = _descend(second, W, A)
    return Spectral(_with_unit_rows(W, A), values, found[1])


def _separate_by_pair(matrices: Array, rng: np.random.Generator) -> tuple[Array, float]:
    """Take the eigenvectors of one random pair (steps 7 and 8)."""
    found = diagonalise_by_congruence(matrices, rng, n_restarts=1, max_sweeps=0)
    return found.Z, found.residual


def _separate_practically(matrices: Array, rng: np.random.Generator) -> tuple[Array, float]:
    """Decompose 10 k random matrices of the null space by alternating least squares, best of 10 (Section 4)."""
    k = len(matrices)
    drawn = np.tensordot(rng.standard_normal((PRACTICAL_MATRICES * k, k)), matrices, axes=1)
    found = decompose_symmetric(drawn, k, rng=rng, n_restarts=PRACTICAL_RESTARTS)
    return found.Z, found.residual


def _descend(moments: PairMoments, W: Array, A: Array) -> Array:
    """Improve W with A fixed by accelerated gradient steps of the length that the curvature allows."""
    C, _ = second_moments(moments.joint(), W.shape[1])
    step = 1.0 / (np.linalg.norm(A, 2) ** 2 * np.linalg.norm(C, 2))
    ahead = W
    for index in range(GRADIENT_STEPS):
        moved = ahead - step * moments.hidden_gradient(ahead, A)
        ahead = moved + (index / (index + 3)) * (moved - W)
        W = moved
    return W


def _positive_rows(Z: Array, mean: Array) -> Array:
    return np.asarray(Z * np.where(Z @ mean < 0, -1.0, 1.0)[:, None])


def _with_unit_rows(W: Array, A: Array) -> TwoLayerNetwork:
    norms = np.linalg.norm(W, axis=1)
    norms = np.where(norms > 0, norms, 1.0)
    return TwoLayerNetwork(W / norms[:, None], None, A * norms, None)
