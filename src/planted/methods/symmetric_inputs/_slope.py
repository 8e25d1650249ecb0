r"""The slope B = A W of symmetric inputs: its estimate, its rank, and its error.

By symmetry E[y x'] = ½ A W C with C = E[x x'] (Lemma 6 of [GKLW19]_), so that twice the regression of y on x is B = A
W; for one unit and one output that is Algorithm 1. The number of units is the rank of B C^½: the number of its singular
values above the edge that noise alone would reach, 2 √(s²/n) (√d + √m) with residual variance s². The regression holds
even functions of x fixed, a constant and the products of x projected to the row space of the last estimate of B, so
that of the even part A |W x| / 2 of the outputs only what is not quadratic in x counts towards s².
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array
from planted.linalg.symmetric import spectrum_of
from planted.moments import SampleMoments, second_moments

__all__ = ["Slope", "controlled_slope", "inverse_roots", "learn_single_unit", "regression", "slope_of"]

RANK_TOL = 1e-7  # of a singular value of B C^½, relative: noiseless rounding leaves 1e-15
NOISE_EDGE = 2.2  # factor on √(s²/n) (√d + √m), whose mean is 2, since B is twice a slope
COLLINEAR = 1e-10  # relative eigenvalue of C below which inputs are collinear
ROWS_PER_CONTROL = 2  # samples for every control variable below which the plain regression is used


@dataclass(frozen=True, slots=True)
class Slope:
    """B = A W with the decomposition that shows its rank."""

    B: Array  # (m, d): twice the regression of y on x
    left: Array  # (m, r): left singular vectors of B C^½
    values: Array  # (r,): its singular values
    right: Array  # (r, d): right singular vectors times C^-½: B is ``left @ diag(values) @ right``
    edge: float  # limit of the largest singular value that noise alone would give

    @property
    def rank(self) -> int:
        """Number of singular values above the edge."""
        return int((self.values > self.edge).sum())

    def is_of_rank(self, k: int) -> bool:
        """Return whether k singular values are above rounding; noise counts as signal here."""
        return k <= len(self.values) and bool(self.values[k - 1] > RANK_TOL * self.values[0])

    def input_directions(self, k: int) -> Array:
        """Return an orthonormal basis of the row space of the best rank-k B.

        Shapes: result (d, k).
        """
        return np.asarray(linalg.qr(self.right[:k].T, mode="economic", check_finite=False)[0])

    def output_map(self, k: int) -> Array:
        """Return the map that projects y to the column space of the best rank-k B and whitens B C B'.

        Shapes: result (k, m).
        """
        return np.asarray(self.left[:, :k].T / self.values[:k, None])

    def truncated(self, k: int) -> Array:
        """Return the best rank-k B.

        Shapes: result (m, d).
        """
        return np.asarray(self.left[:, :k] * self.values[:k] @ self.right[:k])


def learn_single_unit(C: Array, v: Array) -> Array:
    """Return w = 2 C⁻¹ v for y = σ(w'x), C = E[x x'], v = E[y x] (Algorithm 1, step 3); rows of v give rows.

    Shapes: C (d, d), v (d,) or (m, d), result as v.
    """
    return 2.0 * regression(C, v)


def regression(C: Array, R: Array) -> Array:
    """Return the coefficients R C⁻¹ of the regression of y on x, C = E[x x'], R = E[y x'].

    Shapes: C (d, d), R (d,) or (m, d), result as R.
    """
    inverse = inverse_roots(C)[1]
    return np.asarray(R @ inverse @ inverse)


def slope_of(B: Array, C: Array, *, residual_variance: float, count: float) -> Slope:
    """Decompose a slope in the metric C of the inputs.

    Shapes: B (m, d), C (d, d).
    """
    root, inverse = inverse_roots(C)
    left, values, right = linalg.svd(B @ root, full_matrices=False, check_finite=False)
    edge = RANK_TOL * values[0] + NOISE_EDGE * np.sqrt(residual_variance / count) * sum(np.sqrt(B.shape))
    return Slope(B, left, values, right @ inverse, float(edge))


def controlled_slope(moments: SampleMoments, n_hidden: int | None) -> Slope:
    """Estimate B with even functions of x held fixed, as far as the number of samples allows."""
    joint = moments.joint()
    slope = _plain_slope(moments)
    d = slope.B.shape[1]
    C, _ = second_moments(joint, d)
    for _ in range(2):
        k = min(n_hidden or max(slope.rank, 1), d, len(slope.values))
        controls = d + 1 + k * (k + 1) // 2
        if 1 < joint.count < ROWS_PER_CONTROL * controls:
            break
        estimate = moments.slope(slope.input_directions(k))
        slope = slope_of(estimate.B, C, residual_variance=estimate.residual_variance, count=joint.count)
        if k == d:  # the products span all of x ⊗ x already
            break
    return slope


def _plain_slope(moments: SampleMoments) -> Slope:
    """Return twice the plain regression of y on x; its residual variance is E|y|²/m less what x explains."""
    joint = moments.joint()
    d = moments.n_features
    C, R = second_moments(joint, d)
    B = learn_single_unit(C, R)
    m = len(R)
    total = float(np.trace(joint.covariance[d:, d:]) + (joint.mean[d:] ** 2).sum())
    residual = 0.0 if joint.count == 1 else max(total - float((B * R).sum()) / 2, 0.0) / m
    return slope_of(B, C, residual_variance=residual, count=joint.count)


def inverse_roots(C: Array) -> tuple[Array, Array]:
    """Return C^½ and its pseudo-inverse, both zero along directions without variance.

    Shapes: C (d, d).
    """
    spectrum = spectrum_of(C).regular(COLLINEAR)
    return spectrum.root(), spectrum.inverse_root()
