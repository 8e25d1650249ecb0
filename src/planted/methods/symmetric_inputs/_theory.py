r"""The numbers in the theorems of [GKLW19]_, measured: is x symmetric, and how well conditioned is the problem?

If x and -x are equally likely, odd functions of x have mean zero. Hotelling's test looks at [x, x |x|²/d]: with mean μ
and covariance S of these r features, :math:`T^2 = n \mu^\top S^{-1} \mu` and :math:`T^2 (n-r) / (r(n-1))` follows F(r,
n-r). T²/r is near 1 for symmetric inputs; exponential inputs gave 7 and more, a shift by half a standard deviation 37.

Theorem 7 names γ = σ_min(C), β = σ_min(A), α = σ_min(M), Γ = max |x|, P₁ = |A| and P₂ = max |ξ|. Lemma 14 bounds the
gap of the detector: its k(k-1)/2-th singular value is at least α β². All are taken in standardised units, on rows in
memory, with M by averages over those rows; when d exceeds `MAX_INPUTS`, inputs are projected to the span of W, which
lowers α.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, stats

from planted._typing import Array
from planted.checks import Check
from planted.fitting._run import Problem
from planted.linalg.symmetric import triangle_weights
from planted.methods.symmetric_inputs._slope import slope_of
from planted.moments import (
    PairMaps,
    RowMoments,
    SampleMoments,
    accumulate_pairs,
    distinguishing_sums,
    second_moments,
)
from planted.networks import TwoLayerNetwork
from planted.results import Evidence
from planted.rows import RowBlocks, accumulate

__all__ = ["SymmetryTest", "rank_evidence", "symmetry_test", "theorem_evidence"]

MAX_INPUTS = 40
THEORY_ROWS = 4000
COLLINEAR = 1e-10


@dataclass(frozen=True, slots=True)
class SymmetryTest:
    """Whether odd functions of the inputs have mean zero.

    Parameters
    ----------
    statistic : float
        Hotelling's T² over the number of features; about 1 for symmetric inputs.
    p_value : float
        Chance of a larger one for symmetric inputs; NaN when there are too few samples to test.
    n_features : int
        Number of odd functions tested.
    """

    statistic: float
    p_value: float
    n_features: int


def symmetry_test(blocks: RowBlocks, *, distinct: float = 1.0) -> SymmetryTest:
    """Test whether x and -x are equally likely, one pass.

    `distinct`: share of distinct rows, which alone count: a repeated row is no further evidence.
    """
    total = accumulate(blocks, _odd_moments)
    d = len(total.mean) // 2
    used = 2 * d if total.count > 4 * d else d
    return _hotelling(total.mean[:used], total.covariance[:used, :used], round(distinct * total.count))


def _odd_moments(first_row: int, X: Array, Y: Array) -> RowMoments:
    """Return the moments of x and x |x|²/d over a block."""
    cubes = X * ((X**2).sum(axis=1, keepdims=True) / X.shape[1])
    return RowMoments.of(np.hstack([X, cubes]))


def rank_evidence(moments: SampleMoments, network: TwoLayerNetwork) -> tuple[Evidence, Evidence]:
    """Return the rank of A W above noise, with |W x| of a network as controls, and the angle that noise hides.

    Units that fit noise leave no part of A W above it. Two units at a small angle look like one when the second singular
    value of their part, about the angle times half their output weights, drowns in noise.
    """
    C, _ = second_moments(moments.joint(), network.n_features)
    estimate = moments.slope_beside(network.W)
    slope = slope_of(estimate.B, C, residual_variance=estimate.residual_variance, count=moments.joint().count)
    angle = float(np.degrees(2 * slope.edge / np.linalg.norm(network.A, axis=0).min()))
    name, k = "rank of A W above noise", network.n_hidden
    rank = Evidence(name, slope.rank, k, ">=", "A and W of full rank", key=Check.SIGNAL_RANK)
    name = "angle below which two units with different outputs look like one (degrees)"
    return rank, Evidence(name, angle, key=Check.HIDDEN_ANGLE)


def theorem_evidence(problem: Problem, network: TwoLayerNetwork, *, gap: float) -> tuple[Evidence, ...]:
    """Measure the quantities of Theorem 7 and Lemma 14 at a network."""
    X, Y = problem.X[:THEORY_ROWS], problem.Y[:THEORY_ROWS]
    W, A = network.W, network.A
    rows = RowBlocks.from_arrays(X, Y)
    V = np.eye(problem.n_features) if problem.n_features <= MAX_INPUTS else linalg.orth(W.T)
    N, second = distinguishing_sums(rows, W, V)
    value = _detector_value(rows, V, network)
    alpha, beta = _smallest(np.column_stack([N, second])), _smallest(A)
    residual = np.linalg.norm(Y - network(X), axis=1).max()
    measured = [
        ("gap of the detector T in the span step", gap, "Lemma 11", Check.DETECTOR_GAP),
        ("σ_min of E[x x']", _smallest(X.T @ X / len(X)), "Theorem 7, γ", Check.INPUT_RANK),
        ("σ_min of A", beta, "Theorem 7, β", Check.CONDITION_OF_A),
        ("σ_min of the augmented matrix M", alpha, "Theorem 7, α", Check.AUGMENTED_MATRIX),
        ("largest |x|", np.linalg.norm(X, axis=1).max(), "Theorem 7, Γ", Check.INPUT_BOUND),
        ("norm of A", np.linalg.norm(A, 2), "Theorem 7, P₁", Check.NORM_OF_A),
        ("largest |residual|", residual, "Theorem 7, P₂", Check.RESIDUAL_BOUND),
    ]
    if value is not None:
        name = "σ_min of the distinguishing matrix N"
        measured.insert(3, (name, _smallest(N), "Theorem 4", Check.DISTINGUISHING_MATRIX))
    lines = [Evidence(name, float(value), equation=source, key=key) for name, value, source, key in measured]
    if value is not None:
        name = "k(k-1)/2-th singular value of T, against σ_min(M) σ_min(A)²"
        lines.append(Evidence(name, value, alpha * beta**2, ">=", "Lemma 14", key=Check.DETECTOR_BOUND))
    return tuple(lines)


def _detector_value(rows: RowBlocks, V: Array, network: TwoLayerNetwork) -> float | None:
    """Return the k(k-1)/2-th singular value of T at a network (Lemma 14); None where there is none."""
    P = linalg.orth(network.A).T
    if not len(P):  # outputs without units
        return None
    sums = accumulate_pairs(rows, PairMaps(V, P, P @ network.A @ network.W / 2), spread=False)
    values = linalg.svdvals(sums.covariance * triangle_weights(len(P)), check_finite=False)
    rank = network.n_hidden * (network.n_hidden - 1) // 2
    return float(values[rank - 1]) if 1 <= rank <= len(values) else None


def _hotelling(mean: Array, covariance: Array, count: int) -> SymmetryTest:
    """Return T² of the hypothesis that the mean is zero; collinear features count once."""
    scale = np.sqrt(np.diag(covariance))
    live = scale > 0
    if not live.any():
        return SymmetryTest(float("nan"), float("nan"), 0)
    values, vectors = linalg.eigh(covariance[np.ix_(live, live)] / np.outer(scale[live], scale[live]))
    keep = values > COLLINEAR * values[-1]
    r = int(keep.sum())
    if count <= r + 1:
        return SymmetryTest(float("nan"), float("nan"), r)
    projected = vectors[:, keep].T @ (mean[live] / scale[live])
    squared = float((count - 1) * (projected**2 / values[keep]).sum())
    p_value = float(stats.f.sf(squared * (count - r) / (r * (count - 1)), r, count - r))
    return SymmetryTest(squared / r, p_value, r)


def _smallest(M: Array) -> float:
    """Smallest singular value; zero when there are more columns than rows."""
    return float(linalg.svdvals(M, check_finite=False)[-1]) if M.shape[0] >= M.shape[1] else 0.0
