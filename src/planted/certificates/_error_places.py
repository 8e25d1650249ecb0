"""Test whether wrong labels are independent of x and of each other.

Problem     A network reproduces most labels of an output exactly and misses the others. The missed labels may be
            called gross errors only if their places have nothing to do with x: a wrong output weight, or a unit that
            few outputs see, also leaves most labels right and is wrong exactly where that unit is on.
Idea        The indicator of a wrong label is regressed on functions of x: the inputs, their squares and products
            while these are few, the patterns of the network's own units, and half-spaces drawn at random. If the
            places are random, the explained part follows an F distribution; the smallest p-value over outputs, times
            their number, must not be tiny.

            A unit that is on in only a few samples leaves too little for that test, but it makes most outputs of
            these samples wrong at once. If errors fall independently, the number of wrong labels in a sample is
            binomial. For every c the number of samples with at least c wrong labels is compared with that law.

            *A unit among the outliers.* A strong unit that is on in a few samples looks like outliers to a loss that
            forgives them, but its outliers lie in one half-space and point in one direction. Residuals are clipped, so that
            no sample decides alone: at a few scales, where a unit of moderate size shows, and farther out, where few others
            are as large as those of a strong one (`FAR`). One unit is fitted to them: from the inputs of the
            largest residuals and from random directions, the best cut along a direction is found by sorting (among all
            cuts with few samples beyond, and some with more), and the direction is turned to the samples beyond it whose
            residuals agree. If residuals ignore x, the largest part that a unit explains is as large when the inputs are
            permuted; its law is taken from `PERMUTATIONS` of them, by a Gumbel distribution of the same mean and variance,
            as for any maximum. All outputs are tested together and each by itself, since a unit may be seen by one.
Guarantee   Heuristic. Errors that do depend on x are refused as well, because counting cannot tell which labels to
            believe.
Cost        One regression with some hundred features on the rows in memory; for a unit among the outliers
            (1 + `PERMUTATIONS`) · `TURNS` sorts of at most `SCANNED_ROWS` rows along `STARTS` directions.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, stats

from planted._typing import Array, BoolArray, IntArray, as_array
from planted.checks import Check
from planted.linalg import svec_outer, unit_rows
from planted.moments import augment
from planted.networks import TwoLayerNetwork
from planted.results import Evidence

__all__ = ["errors_ignore_each_other", "errors_ignore_inputs", "unit_among_outliers"]

LEVEL = 1e-3
MAX_PRODUCTS = 150
N_HALF_SPACES = 40
ROWS_PER_FEATURE = 5
NAME = "p-value of the test that the places of wrong labels ignore x"
CROWDING = "p-value of the test that wrong labels do not crowd in the same samples"


def errors_ignore_inputs(X: Array, is_wrong: BoolArray, network: TwoLayerNetwork) -> Evidence:
    """Test whether the places of wrong labels depend on x.

    The evidence measures the smallest p-value over outputs times their number. Shapes: X (n, d), is_wrong (n, m).
    """
    counts = is_wrong.sum(axis=0)
    tested = is_wrong[:, (counts > 0) & (counts < len(X))].astype(np.float64)
    if not tested.shape[1]:
        return Evidence(NAME, 1.0, LEVEL, ">=", "no label is wrong", key=Check.WRONG_LABELS_IGNORE_INPUTS)
    Q = _features(X, network)
    freedom = len(X) - Q.shape[1]
    centred = tested - tested.mean(axis=0)
    explained = ((Q[:, 1:].T @ centred) ** 2).sum(axis=0)
    rest = (centred**2).sum(axis=0) - explained
    ratio = explained / (Q.shape[1] - 1) / np.maximum(rest / max(freedom, 1), np.finfo(float).tiny)
    p_values = stats.f.sf(ratio, Q.shape[1] - 1, max(freedom, 1))
    return Evidence(
        NAME,
        float(min(p_values.min() * len(p_values), 1.0)),
        LEVEL,
        ">=",
        "F test",
        key=Check.WRONG_LABELS_IGNORE_INPUTS,
    )


def errors_ignore_each_other(is_wrong: BoolArray) -> Evidence:
    """Test whether wrong labels crowd in the same samples.

    The evidence measures the smallest p-value over the numbers of wrong labels in a sample, times how many numbers
    were tried. Shapes: is_wrong (n, m).
    """
    n, m = is_wrong.shape
    in_sample = is_wrong.sum(axis=1)
    sizes = np.arange(2, m + 1)
    crowded = (in_sample[:, None] >= sizes).sum(axis=0)
    chances = stats.binom.sf(sizes - 1, m, is_wrong.mean())
    p_values = np.where(crowded > 0, stats.binom.sf(crowded - 1, n, chances), 1.0)
    smallest = float(p_values.min(initial=1.0))
    return Evidence(
        CROWDING,
        min(smallest * max(len(sizes), 1), 1.0),
        LEVEL,
        ">=",
        "binomial law",
        key=Check.WRONG_LABELS_APART,
    )


FAR = (3.0, 20.0)  # scales at which residuals are clipped
PERMUTATIONS = 20
STARTS = 30
TURNS = 3
SCANNED_ROWS = 3000
FEWEST = 3  # samples beyond a cut
DENSE, SPARSE = 60, 1.04  # up to how many each number is tried, and how far apart numbers are from there on
UNIT_LEVEL = 0.05  # a unit on in six samples was once missed at 0.01
UNIT = "p-value of the test that no half-space of x gathers outliers of one direction"


def unit_among_outliers(X: Array, residual: Array, scales: Array) -> Evidence:
    """Test whether one more unit explains residuals that a robust fit has written off.

    Shapes: X (n, d), residual (n, m), scales (m,): of the residuals that were not written off.
    """
    scaled = np.nan_to_num(residual / scales)
    if not scaled.any() or len(X) < 2 * STARTS:
        return Evidence(UNIT, 1.0, UNIT_LEVEL, ">=", "nothing to test", key=Check.UNIT_AMONG_OUTLIERS)
    p_values = [_unit_p_value(X, np.clip(scaled, -far, far)) for far in FAR]
    p_value = min(1.0, len(FAR) * min(p_values))
    return Evidence(UNIT, p_value, UNIT_LEVEL, ">=", "permuted inputs", key=Check.UNIT_AMONG_OUTLIERS)


def _unit_p_value(X: Array, U: Array) -> float:
    """Return the p-value of the test that one unit explains no more of clipped residuals than of permuted ones.

    Shapes: X (n, d), U (n, m).
    """
    # As in `_features`, the verdict on given labels does not depend on a seed.
    rng = np.random.default_rng(0)
    sizes = (U**2).sum(axis=1)
    weights = np.ones(len(X))
    if len(X) > SCANNED_ROWS:
        X, U, sizes, weights = _fewer_rows(X, U, sizes, rng)
    U = U - weights @ U / weights.sum()
    strongest = np.argsort(-sizes, kind="stable")[: STARTS - STARTS // 3]
    own = _best_unit(X, U, weights, strongest, rng)
    law = np.array(
        [_best_unit(X[rng.permutation(len(X))], U, weights, strongest, rng) for _ in range(PERMUTATIONS)]
    )
    scale = np.maximum(law.std(axis=0, ddof=1) * np.sqrt(6) / np.pi, np.finfo(float).tiny)
    p_values = stats.gumbel_r.sf(own, law.mean(axis=0) - np.euler_gamma * scale, scale)
    return min(1.0, len(p_values) * float(p_values.min()))


def _fewer_rows(
    X: Array, U: Array, sizes: Array, rng: np.random.Generator
) -> tuple[Array, Array, Array, Array]:
    """Keep the largest residuals and some of the others, which then count for those left out."""
    order = np.argsort(-sizes, kind="stable")
    half = SCANNED_ROWS // 2
    others = rng.choice(order[half:], SCANNED_ROWS - half, replace=False)
    chosen = np.concatenate([order[:half], others])
    weights = np.where(np.arange(SCANNED_ROWS) < half, 1.0, (len(X) - half) / len(others))
    return X[chosen], U[chosen], sizes[chosen], weights


def _best_unit(X: Array, U: Array, weights: Array, strongest: IntArray, rng: np.random.Generator) -> Array:
    """Return the largest part of the sum of squares of U that one ReLU unit was found to explain: of all, of one output.

    Shapes: result (2,).
    """
    W = unit_rows(np.vstack([X[strongest], rng.standard_normal((STARTS // 3, X.shape[1]))]))[0]
    best, columns = np.zeros(2), np.arange(len(W))
    weighted, cuts = weights[:, None] * U, _cuts(len(X) // 2)
    starts = np.append(0, cuts[:-1])

    def beyond(parts: Array) -> Array:  # sums over the samples beyond each cut
        return as_array(np.cumsum(np.add.reduceat(parts[: cuts[-1]], starts, axis=0), axis=0))

    for _ in range(TURNS):
        T = X @ W.T
        order = np.argsort(-T, axis=0)[: len(X) // 2]
        t, w, u = np.take_along_axis(T, order, axis=0), weights.take(order), weighted.take(order, axis=0)
        cut, square = t[cuts], beyond(w * t**2)
        energy = square - 2 * cut * beyond(w * t) + cut**2 * beyond(w)
        cross = beyond(t[:, :, None] * u) - cut[:, :, None] * beyond(u)
        is_cut = energy > 1e-12 * square[-1]  # samples of equal t on one side are none
        by_output = np.where(is_cut, 1 / np.where(is_cut, energy, 1.0), 0.0)[:, :, None] * cross**2
        gains = by_output.sum(axis=2)
        places = np.argmax(gains, axis=0)
        best = np.maximum(best, [gains.max(), by_output.max()])
        agreeing = np.maximum(np.einsum("csm,sm->cs", u, cross[places, columns]), 0.0)
        agreeing[np.arange(len(t))[:, None] >= 2 * (cuts[places] + 1)] = 0.0
        shares = np.zeros_like(T)
        np.put_along_axis(shares, order, agreeing, axis=0)
        W = unit_rows(shares.T @ X)[0]
    return best


def _cuts(most: int) -> IntArray:
    """How many samples lie beyond a cut: every number up to `DENSE`, then some that are `SPARSE` times one another."""
    steps = int(np.log(max(most / DENSE, 1.0)) / np.log(SPARSE)) + 1
    tried = np.append(np.arange(FEWEST, DENSE), np.rint(DENSE * SPARSE ** np.arange(steps)))
    return np.unique(tried[tried < most]).astype(np.intp)


def _features(X: Array, network: TwoLayerNetwork) -> Array:
    """Orthonormal functions of x, the constant first; at most one for every `ROWS_PER_FEATURE` rows."""
    n, d = X.shape
    # The features of the test are fixed, so that the verdict on given labels does not depend on a seed.
    rng = np.random.default_rng(0)
    W = rng.standard_normal((N_HALF_SPACES, d))
    half_spaces = rng.uniform(-1, 1, N_HALF_SPACES) < X @ unit_rows(W)[0].T
    products = svec_outer(X) if d * (d + 1) // 2 <= MAX_PRODUCTS else X**2
    patterns = network.preactivations(X) > 0
    columns = np.hstack([augment(X)[:, ::-1], patterns, half_spaces, products])
    columns = columns[:, : max(n // ROWS_PER_FEATURE, d + 1)]
    Q, R = linalg.qr(columns, mode="economic", check_finite=False)[:2]
    return as_array(Q[:, np.abs(np.diag(R)) > 1e-8 * np.abs(R[0, 0])])
