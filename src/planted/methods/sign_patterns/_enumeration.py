r"""All sign patterns of a subspace, and the units hidden in them (Algorithms 1 and 2 of BJW18).

Problem     Q (n × k) spans the column space of noiseless Y = f(X W') A', f the ReLU, rank Y = k. Nothing is assumed
            of X. Find k linearly independent ReLU columns in the span.
Idea        The sign patterns of vectors Q u are the cells of an arrangement of n hyperplanes {u : q_i'u = 0} through
            the origin of R^k. In general position there are exactly

            .. math:: C(n, k) = 2 \sum_{i=0}^{k-1} \binom{n-1}{i}                                     \quad (1)

            of them [Cover1965]_, fewer otherwise. They are enumerated sample by sample, with one point inside each:
            the cells that hyperplane i splits are the cells of the earlier hyperplanes restricted to it, an
            arrangement in k - 1 dimensions, whose points move off the hyperplane to both sides. In the plane cells
            are arcs. A pattern S can belong to a unit only if some y = X w satisfies (Algorithm 1)

            .. math:: y_i > 0 \ (i \in S), \quad y_i \le 0 \ (i \notin S), \quad y \circ 1_S = Q u .          \quad (2)

Guarantee   Theorem 1 of [BJW18]_: if there are k independent units they are found, in time n^{O(k)}. All patterns are
            examined, so that more is known than the theorem says: every ReLU unit without bias in the span is in the
            list.
Departures  The paper proposes k of 2n constraints to be made tight; restriction gives the same cells without
            duplicates, also when hyperplanes coincide, which the zeros of H make the rule. The equations of (2) are
            solved before the inequalities: first the null space of Q off S, for all patterns in one batch, which
            leaves a handful, then that of [X_S, -Q_S]. Dimension one needs no linear program; for a larger one a
            linear program decides whether a unit exists, and its weights are then not determined by the samples. The
            2n programs of Remark 1, which keep units independent of those found before, are not needed when all
            patterns are examined, nor is the projector, which should read P = Q'(QQ')⁻¹Q.
Cost        C(n, k) patterns of n signs each, O(n^{k-2}) vectorised steps. k = 3, n = 100: at most 9,902 patterns; k =
            4, n = 60: at most 68,560.
References  [BJW18]_, [Cover1965]_
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from scipy import linalg

from planted._clock import check_time
from planted._typing import Array, BoolArray, Progress
from planted.linalg import LinearProgram, ProgramStatus, null_space, solve_program

__all__ = ["PatternUnits", "count_patterns", "enumerate_patterns", "units_of_patterns"]

SAME_LINE = 1e-9  # sine of the angle between hyperplanes that are one
NULL_TOL = 1e-10  # squared, relative: eigenvalue of the rows that are off
UNIT_TOL = 1e-8  # relative singular value of the equations of (2)
SAME_UNIT_COSINE = 1 - 1e-9
BATCH = 4096


@dataclass(frozen=True, slots=True)
class PatternUnits:
    """Units found among sign patterns."""

    W: Array  # (found, d): hidden weights, one unit per row, distinct
    candidates: int  # patterns whose rows off S leave a vector of the span
    undetermined: int  # patterns that hold more than one unit: the samples do not determine its weights


def count_patterns(n: int, k: int) -> int:
    """Return (1), the number of sign patterns of a k-dimensional subspace of R^n in general position.

    Examples
    --------
    >>> count_patterns(3, 2), count_patterns(100, 3)
    (6, 9902)
    """
    return 2 * sum(comb(n - 1, i) for i in range(k)) if n else 1


def enumerate_patterns(Q: Array, *, progress: Progress | None = None) -> BoolArray:
    """List the sign patterns of the vectors Q u (Lemma 1).

    Returns distinct patterns, true where Q u is positive; rows of zeros are never positive. Shapes: Q (n, k), result
    (count, n).

    Examples
    --------
    >>> enumerate_patterns(np.array([[1.0, 0.0], [0.0, 1.0]])).shape
    (4, 2)
    """
    lengths = np.linalg.norm(Q, axis=1)
    is_zero = lengths <= SAME_LINE * lengths.max(initial=0.0)
    rows = Q / np.where(is_zero, 1.0, lengths)[:, None]
    rows[is_zero] = 0.0
    points = _cell_points(rows, progress)
    return np.asarray(points @ rows.T > 0)


def units_of_patterns(
    X: Array, Q: Array, patterns: BoolArray, *, progress: Progress | None = None
) -> PatternUnits:
    """Find every ReLU unit that lies in the span, pattern by pattern (Algorithms 1 and 2).

    Shapes: X (n, d), Q (n, k), patterns (count, n).
    """
    k = Q.shape[1]
    products = (Q[:, :, None] * Q[:, None, :]).reshape(len(Q), -1)
    found: list[Array] = []
    candidates = undetermined = 0
    for start in range(0, len(patterns), BATCH):
        check_time()
        batch = patterns[start : start + BATCH]
        smallest = np.linalg.eigvalsh(((~batch).astype(float) @ products).reshape(-1, k, k))[:, 0]
        for pattern in batch[smallest < NULL_TOL]:
            candidates += 1
            w, is_unique = _unit_of_pattern(X, Q, pattern)
            undetermined += w is not None and not is_unique
            if w is not None and all(w @ other < SAME_UNIT_COSINE for other in found):
                found.append(w)
        if progress is not None:
            examined = min(start + BATCH, len(patterns))
            progress(f"{examined} of {len(patterns)} patterns, {len(found)} units", examined / len(patterns))
    return PatternUnits(np.array(found).reshape(len(found), X.shape[1]), candidates, undetermined)


def _cell_points(rows: Array, progress: Progress | None = None) -> Array:
    """Return one point inside each cell of the arrangement with unit (or zero) normals ``rows``."""
    n, k = rows.shape
    if k == 1:
        return np.array([[1.0], [-1.0]]) if rows.any() else np.ones((1, 1))
    if k == 2:
        return _arc_points(rows)
    points = np.cos(np.arange(1.0, k + 1))[
        None, :
    ]  # a direction that no hyperplane of rational normals contains
    predicted = count_patterns(n, k)
    for i, normal in enumerate(rows):
        earlier = rows[:i]
        if not normal.any() or (np.abs(earlier @ normal) > 1 - SAME_LINE**2 / 2 - 1e-15).any():
            continue
        check_time()
        basis = linalg.qr(normal[:, None], mode="full", check_finite=False)[0][:, 1:]
        inside = _cell_points(_unit_rows(earlier @ basis)) @ basis.T
        points = _distinct(np.vstack([points, *_both_sides(inside, earlier, normal)]), rows[: i + 1])
        if progress is not None:
            progress(f"{len(points)} patterns found, at most {predicted} predicted", len(points) / predicted)
    return points


def _arc_points(rows: Array) -> Array:
    """In the plane the cells are the arcs between the directions of the lines."""
    kept = rows[rows.any(axis=1)]
    if not len(kept):
        return np.array([[1.0, 0.0]])
    angles = np.sort(np.mod(np.arctan2(kept[:, 0], -kept[:, 1]), np.pi))
    angles = angles[np.concatenate([[True], np.diff(angles) > SAME_LINE])]
    if len(angles) > 1 and np.pi - angles[-1] + angles[0] < SAME_LINE:
        angles = angles[:-1]
    middle = (angles + np.append(angles[1:], angles[0] + np.pi)) / 2
    half = np.column_stack([np.cos(middle), np.sin(middle)])
    return np.vstack([half, -half])


def _unit_rows(rows: Array) -> Array:
    lengths = np.linalg.norm(rows, axis=1)
    is_zero = lengths < SAME_LINE
    return np.asarray(np.where(is_zero[:, None], 0.0, rows / np.where(is_zero, 1.0, lengths)[:, None]))


def _both_sides(inside: Array, earlier: Array, normal: Array) -> tuple[Array, Array]:
    """Move points of a hyperplane half way to the next one, to both sides."""
    margins, slopes = np.abs(inside @ earlier.T), np.abs(earlier @ normal)
    crosses = margins > SAME_LINE * slopes
    reach = np.where(crosses, margins / np.where(slopes > 0, slopes, 1.0), 1.0)
    reach = np.where(slopes > 0, reach, 1.0)
    step = 0.5 * np.minimum(reach.min(axis=1, initial=1.0), 1.0)[:, None] * normal
    return inside + step, inside - step


def _distinct(points: Array, rows: Array) -> Array:
    """Keep one point for each sign pattern."""
    packed = np.packbits(points @ rows.T > 0, axis=1)
    kept = np.sort(np.unique(packed, axis=0, return_index=True)[1])
    chosen = points[kept]
    return np.asarray(chosen / np.linalg.norm(chosen, axis=1, keepdims=True))


def _unit_of_pattern(X: Array, Q: Array, pattern: BoolArray) -> tuple[Array | None, bool]:
    """Solve (2) for one pattern; return w of unit norm (None if there is none) and whether it is the only one."""
    d = X.shape[1]
    off = null_space(Q[~pattern], tol=np.sqrt(NULL_TOL)).basis if (~pattern).any() else np.eye(Q.shape[1])
    if not off.shape[1] or not pattern.any():
        return None, True
    space = null_space(np.hstack([X[pattern], -Q[pattern] @ off]), tol=UNIT_TOL).basis
    directions = X @ space[:d]
    if not directions.size or not np.abs(directions).max() > 0:
        return None, True
    z = _signed(directions, pattern) if space.shape[1] == 1 else _inside(directions, pattern)
    if z is None:
        return None, True
    w = space[:d] @ z
    return np.asarray(w / np.linalg.norm(w)), space.shape[1] == 1


def _signed(direction: Array, pattern: BoolArray) -> Array | None:
    """Choose the sign of the only solution of the equations, if its signs are those of the pattern."""
    y = direction[:, 0] / np.abs(direction).max()
    for sign in (1.0, -1.0):
        if (sign * y[pattern] > 0).all() and (sign * y[~pattern] <= UNIT_TOL).all():
            return np.array([sign])
    return None


def _inside(directions: Array, pattern: BoolArray) -> Array | None:
    """Find a solution with the signs of the pattern in a space of several dimensions: the one that clears them most."""
    size = directions.shape[1]
    rows = directions / np.abs(directions).max()
    G = np.vstack(
        [
            np.hstack([-rows[pattern], np.ones((int(pattern.sum()), 1))]),
            np.hstack([rows[~pattern], np.zeros((int((~pattern).sum()), 1))]),
        ]
    )
    none = np.zeros((0, size + 1)), np.zeros(0)
    objective = np.append(np.zeros(size), -1.0)
    box = np.ones(size + 1)
    answer = solve_program(LinearProgram(objective, G, np.zeros(len(G)), *none, -box, box))
    if answer.status is not ProgramStatus.OPTIMAL or answer.x is None or answer.x[-1] <= UNIT_TOL:
        return None
    return answer.x[:-1]
