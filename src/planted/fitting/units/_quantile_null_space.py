r"""Make approximate units exact by the null space on samples where a unit is surely off (Algorithm 5, robust).

Problem     Noiseless Y = f(X W') A' with f rectified (zero for t ≤ 0, injective beyond) and A of full column rank.
            Given something that tells roughly where a unit is off, an approximate w or an approximate column of A,
            find the unit to rounding.
Idea        Let Q (n × k) span the column space of Y. A unit's activations are h = Q u for one u. Where the unit is
            off, h = 0, while the k - 1 other units still vary, so that u is the null vector of those rows,

            .. math:: u = \arg\min_{\|u\| = 1} \| Q_N u \|, \qquad N \subset \{\text{rows that are off}\},   \quad (1)

            and w follows by least squares of f⁻¹(h) on X where h > 0. It is enough that N holds about k rows, *all*
            of them off. Scores (x'w, or the unit's coordinate of y) rank the rows, and N is the lowest 30 %. One wrong
            row spoils (1), so it is iterated: the new w gives a better ranking. A unit is accepted when f(X w) = Q u
            on every row. [BJW18]_ take N = {score ≤ τ} among a few rows (Algorithms 3 and 5, the `printed` modules of
            `ica` and `joint-diagonalisation`).
Guarantee   A unit that is returned is one: a vector of the column space that is f of a linear function of x, to
            `EXACT_SINE`. It is not promised that a start leads to a unit.
Notation    paper: A (ours Y'), V (W), U (A), S (complement of N), w (u).
Departures  The lowest 30 % of all rows, iterated, are ours. Both signs of an approximate w are tried, and the unit
            that verifies is taken, in place of "the first linear system which had a solution".
Cost        One singular value decomposition of |N| × k and one least-squares fit of n/2 × d for each iteration.
References  [BJW18]_
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._clock import check_time
from planted._typing import Array, BoolArray, Progress
from planted.networks import Activation

__all__ = ["ExactUnits", "exact_unit", "pursue_rectified_units", "units_from_scores", "units_in_blocks"]

# Of the rows; 0.25 to 0.35 behave alike, more are tried only where these do not separate units.
OFF_SHARES = (0.3, 0.4, 0.48)
NULL_TOL = 1e-9  # relative singular value that counts as zero
EXACT_SINE = 1e-8  # largest |f(X w) - Q u| over |Q u|; powers of f cost digits, rounding alone leaves 1e-15
ON_TOL = 1e-7  # activation, relative to the largest, above which f is inverted
SAME_UNIT_COSINE = 1 - 1e-9
SAME_UNIT = 4.5e-5  # relative distance of equal units: for rows of unit norm that cosine
# Of a curved activation whose scale is sought: largest preactivations tried, and how the scale is then refined.
LARGEST_ACTIVATION, SCALES = (0.05, 50.0), 41
STEP, SCALE_TOL = 1e-5, 1e-14
MAX_ITERATIONS = 25
BATCH = 32


@dataclass(frozen=True, slots=True)
class ExactUnits:
    """Units found in a column space."""

    W: Array  # (found, d): hidden weights, one unit per row
    starts: int  # starts used


def exact_unit(X: Array, Q: Array, off: BoolArray, *, activation: Activation) -> tuple[Array, float]:
    """Apply (1) once.

    Returns the hidden weights w, of unit norm where their scale is a gauge, zero if there is nothing to fit, and the sine
    ``|f(X w) - Q u| / |Q u|``, the distance from being a unit of this column space. Shapes: X (n, d), Q (n, k), off
    (n,).
    """
    u = linalg.svd(Q[off], full_matrices=True, check_finite=False)[2][-1]
    h = Q @ u
    h = h if h.sum() >= 0 else -h
    on = h > ON_TOL * np.abs(h).max()
    if activation.is_curved:
        w, scale = _fit_scale(X[on], h[on], activation)
    else:
        assert activation.inverse is not None
        w, scale = linalg.lstsq(X[on], activation.inverse(h[on]), check_finite=False)[0], 1.0
    size = float(np.linalg.norm(w))
    if size == 0.0 or not np.isfinite(size):
        return np.zeros(X.shape[1]), 1.0
    sine = float(np.linalg.norm(activation(X @ w) - scale * h) / np.linalg.norm(scale * h))
    return activation.unit_scale(w[None])[0][0], sine


def _fit_scale(X: Array, h: Array, activation: Activation) -> tuple[Array, float]:
    """Return w and s with φ(X w) = s h on samples where the unit is on: the scale at which φ⁻¹(s h) is linear in x.

    Gauss-Newton steps in log s, from the best of a range of scales; w is zero where there is none. Shapes:
    X (on, d), h (on,).
    """
    invert = activation.inverse
    assert invert is not None
    if len(h) <= X.shape[1]:
        return np.zeros(X.shape[1]), 1.0
    Q, R = linalg.qr(X, mode="economic", check_finite=False)

    def residual(log_scale: float) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            t = np.nan_to_num(np.asarray(invert(np.exp(log_scale) * h)), nan=0.0, posinf=0.0)
        size = float(np.linalg.norm(t))
        t = t / size if size > 0 else t
        return t - Q @ (Q.T @ t), t * size

    tops = activation(np.geomspace(*LARGEST_ACTIVATION, SCALES)) / h.max()
    logs = np.log(tops[np.isfinite(tops) & (tops > 0)])
    if not logs.size:
        return np.zeros(X.shape[1]), 1.0
    few = [float(np.linalg.norm(residual(log_scale)[0])) for log_scale in logs]
    best = float(logs[int(np.argmin(few))])
    for _ in range(MAX_ITERATIONS):
        here = residual(best)[0]
        slope = (residual(best + STEP)[0] - residual(best - STEP)[0]) / (2 * STEP)
        move = -float(slope @ here) / max(float(slope @ slope), np.finfo(float).tiny)
        best += float(np.clip(move, -0.5, 0.5))
        if abs(move) < SCALE_TOL:
            break
    t = residual(best)[1]
    w = linalg.solve_triangular(R, Q.T @ t, check_finite=False) if np.abs(np.diag(R)).min() > 0 else 0 * R[0]
    return np.asarray(w), float(np.exp(best))


def units_from_scores(X: Array, Q: Array, scores: Array, activation: Activation) -> ExactUnits:
    """Make every unit exact for which there is a usable score.

    Shapes: X (n, d), Q (n, k), scores (n, s).
    """
    found: list[Array] = []
    for score in scores.T:
        check_time()
        w = _run(X, Q, score, activation)
        if w is not None and not _is_known(w, found):
            found.append(w)
    return ExactUnits(np.array(found).reshape(len(found), X.shape[1]), scores.shape[1])


def units_in_blocks(
    box: Callable[[Array, Array, Array], Array],
    X: Array,
    Q: Array,
    scores: Array,
    *,
    n_rows: int,
    activation: Activation,
) -> Array:
    """Apply a paper's box to one block of rows after another, until it has shown as many units as the space has dimensions.

    `box` returns the units of X, Q and scores. What it shows on a block counts if it is a unit on all rows. Shapes: X
    (n, d), Q (n, k), scores (n, s), result (found, d).
    """
    found: list[Array] = []
    for start in range(0, len(X) - n_rows + 1, n_rows):
        rows = slice(start, start + n_rows)
        for w in box(X[rows], Q[rows], scores[rows]):
            if not _is_known(w, found) and _is_unit(w, X, Q, activation):
                found.append(w)
        if len(found) >= Q.shape[1]:
            break
    return np.array(found).reshape(len(found), X.shape[1])


def _is_unit(w: Array, X: Array, Q: Array, activation: Activation) -> bool:
    """Whether f(X w) lies in the column space of Q, which is orthonormal."""
    h = activation(X @ w)
    return float(np.linalg.norm(h - Q @ (Q.T @ h))) < EXACT_SINE * float(np.linalg.norm(h))


def pursue_rectified_units(
    X: Array,
    Q: Array,
    n_units: int,
    *,
    activation: Activation,
    rng: np.random.Generator,
    known: Array | None = None,
    max_starts: int = 1000,
    progress: Progress | None = None,
) -> ExactUnits:
    """Search for units from random directions, for any rectified activation without biases.

    Shapes: X (n, d), Q (n, k), known (units, d).
    """
    found = [] if known is None else list(activation.unit_scale(known)[0])
    starts = 0
    while len(found) < n_units and starts < max_starts:
        check_time()
        for score in (X @ rng.standard_normal((X.shape[1], BATCH))).T:
            w = _run(X, Q, score, activation)
            if w is not None and not _is_known(w, found):
                found.append(w)
        starts += BATCH
        if progress is not None:
            progress(f"null spaces: {len(found)} of {n_units} units, {starts} starts", len(found) / n_units)
    return ExactUnits(np.array(found).reshape(len(found), X.shape[1]), starts)


def _off_rows(score: Array, Q: Array) -> BoolArray:
    n, k = Q.shape
    order = np.argsort(score, kind="stable")
    off = np.zeros(n, dtype=bool)
    for share in OFF_SHARES:
        off[order[: min(max(int(share * n), k), n)]] = True
        values = linalg.svdvals(Q[off], check_finite=False)
        if k == 1 or values[k - 2] > NULL_TOL * values[0]:
            break  # else a second unit is off on all these rows, and more are needed to tell the two apart
    return off


def _run(X: Array, Q: Array, score: Array, activation: Activation) -> Array | None:
    """Iterate (1) until a unit is found or the rows repeat."""
    seen: set[bytes] = set()
    for _ in range(MAX_ITERATIONS):
        off = _off_rows(score, Q)
        if off.tobytes() in seen or not off.any():
            return None
        seen.add(off.tobytes())
        w, sine = exact_unit(X, Q, off, activation=activation)
        if sine < EXACT_SINE:
            return w
        score = X @ w
    return None


def _is_known(w: Array, found: list[Array]) -> bool:
    return any(float(np.linalg.norm(w - other)) < SAME_UNIT * float(np.linalg.norm(other)) for other in found)
