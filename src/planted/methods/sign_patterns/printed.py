r"""Algorithms 1 and 2 of BJW18: the unit of a sign pattern, and all units of a list of patterns.

Problem     Q (n × k) spans the column space of noiseless Y = f(X W') A', f the ReLU, rank Y = k. Nothing is assumed of
            X. A list of sign patterns is given that holds the pattern of every vector Q u (Lemma 1, `_enumeration`).
            Find the ReLU columns in the span.
Idea        A pattern S belongs to a unit exactly if some y = X w satisfies the linear program of Algorithm 1,

            .. math:: y_i > 0 \ (i \in S), \quad y_i \le 0 \ (i \notin S), \quad f_S(y) = y \circ 1_S = Q z .      \quad (1)

            Algorithm 2 solves it for all patterns. Since all are examined, every ReLU unit without bias in the span is in
            the answer, which is more than Theorem 1 asks for.
Guarantee   Theorem 1 of [BJW18]_: if there are k independent units they are found, in time n^{O(k)}.
Notation    paper: A (ours Y'), V' (Q'), y^i (X w), z^i (z), S (``pattern``), 𝒮 (``patterns``), V (W), U (A).
Departures  The equations of (1) are solved before the inequalities: f_S(y) = Q z asks for Q z = 0 off S, then for
            X w = Q z on S, two null spaces. A solution that is unique up to scale needs no linear program. Where there
            are more, a program decides whether one of them has the signs of S; its weights are then not determined by
            the samples, and the pattern is counted. (1) has y > 0 in place of the printed y ≥ 1, the same up to scale.
            Algorithm 2 as printed goes through the list once for each i and adds the constraint that f_S(y) be
            independent of the units found before, by 2n programs for each pattern (Remark 1). A pattern that fails once
            fails again, so one pass is enough; and where the list is read to its end, the constraint is not needed, nor
            is its projector, printed as Q'(Q'Q)⁻¹Q, which should read Q'(QQ')⁻¹Q for a Q with the f(y^j) as rows. (The
            proof of Lemma 3 drops the constraint for i = 1. It must stay as f_S(y) ≠ 0: else y = 0 is feasible for the
            empty pattern, which is in the list whenever -h is in the span for a unit h.)
Cost        One k × k eigenvalue problem for each pattern, in batches; two null spaces for each that it leaves.
References  [BJW18]_
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._clock import check_time
from planted._typing import Array, BoolArray, Progress
from planted.linalg import LinearProgram, ProgramStatus, null_space, solve_program

__all__ = ["PatternUnits", "algorithm_1", "algorithm_2"]

NULL_TOL = 1e-10  # squared, relative: eigenvalue of the rows that are off
UNIT_TOL = 1e-8  # relative singular value of the equations of (1)
SAME_UNIT_COSINE = 1 - 1e-9
BATCH = 4096


@dataclass(frozen=True, slots=True)
class PatternUnits:
    """Units found among sign patterns."""

    W: Array  # (found, d): hidden weights, one unit per row, distinct
    candidates: int  # patterns whose rows off S leave a vector of the span
    undetermined: int  # patterns that hold more than one unit: the samples do not determine its weights


def algorithm_1(X: Array, Q: Array, pattern: BoolArray) -> tuple[Array | None, bool]:
    """Solve (1) for one sign pattern.

    Returns w of unit norm, or None if the program is infeasible, and whether w is the only solution up to scale. The
    comments are the steps of the box; step 2, the projector, is not needed. Shapes: X (n, d), Q (n, k), pattern (n,).

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 1.0], [-1.0, -3.0]])
    >>> Q = np.maximum(X @ [[1.0], [0.0]], 0.0)
    >>> algorithm_1(X, Q, np.array([True, True, False, False]))
    (array([1., 0.]), True)
    """
    d = X.shape[1]
    # 1. The unknowns are w, with y = X w, and z.
    # 3. f_S(y) = Q z off the pattern: Q z = 0 there, so z is in the span of `off` ...
    off = null_space(Q[~pattern], tol=np.sqrt(NULL_TOL)).basis if (~pattern).any() else np.eye(Q.shape[1])
    if not off.shape[1] or not pattern.any():
        return None, True
    # ... and on the pattern: X w = Q z.
    space = null_space(np.hstack([X[pattern], -Q[pattern] @ off]), tol=UNIT_TOL).basis
    directions = X @ space[:d]
    if not directions.size or not np.abs(directions).max() > 0:
        return None, True
    # Output: a y with the signs of the pattern.
    z = _signed(directions, pattern) if space.shape[1] == 1 else _inside(directions, pattern)
    if z is None:
        return None, True
    w = space[:d] @ z
    return np.asarray(w / np.linalg.norm(w)), space.shape[1] == 1


def algorithm_2(X: Array, Q: Array, patterns: BoolArray, *, progress: Progress | None = None) -> PatternUnits:
    """Find every ReLU unit that lies in the span, pattern by pattern.

    Steps 3 and 4, the linear systems for U and V, have nothing left to do for V; U is a regression on the units.
    Shapes: X (n, d), Q (n, k), patterns (count, n).
    """
    k = Q.shape[1]
    products = (Q[:, :, None] * Q[:, None, :]).reshape(len(Q), -1)
    found: list[Array] = []
    candidates = undetermined = 0
    for start in range(0, len(patterns), BATCH):  # 1, (a) and (b)
        check_time()
        batch = patterns[start : start + BATCH]
        smallest = np.linalg.eigvalsh(((~batch).astype(float) @ products).reshape(-1, k, k))[:, 0]
        for pattern in batch[smallest < NULL_TOL]:  # (b) ii. for the others: no z has Q z = 0 off the pattern
            candidates += 1
            w, is_unique = algorithm_1(X, Q, pattern)
            undetermined += w is not None and not is_unique
            if w is not None and all(w @ other < SAME_UNIT_COSINE for other in found):  # (b) i.
                found.append(w)
        if progress is not None:
            examined = min(start + BATCH, len(patterns))
            progress(f"{examined} of {len(patterns)} patterns, {len(found)} units", examined / len(patterns))
    return PatternUnits(np.array(found).reshape(len(found), X.shape[1]), candidates, undetermined)  # 2


def _signed(direction: Array, pattern: BoolArray) -> Array | None:
    """Choose the sign of the only solution of the equations, if its signs are those of the pattern."""
    y = direction[:, 0] / np.abs(direction).max()
    for sign in (1.0, -1.0):
        if (sign * y[pattern] > 0).all() and (sign * y[~pattern] <= UNIT_TOL).all():
            return np.array([sign])
    return None


def _inside(directions: Array, pattern: BoolArray) -> Array | None:
    """Find a solution with the signs of the pattern among several: the one whose smallest entry on it is largest."""
    size = directions.shape[1]
    rows = directions / np.abs(directions).max()
    on = np.hstack([-rows[pattern], np.ones((int(pattern.sum()), 1))])
    off = np.hstack([rows[~pattern], np.zeros((int((~pattern).sum()), 1))])
    G = np.vstack([on, off])
    none = np.zeros((0, size + 1)), np.zeros(0)
    objective = np.append(np.zeros(size), -1.0)
    box = np.ones(size + 1)
    answer = solve_program(LinearProgram(objective, G, np.zeros(len(G)), *none, -box, box))
    if answer.status is not ProgramStatus.OPTIMAL or answer.x is None or answer.x[-1] <= UNIT_TOL:
        return None
    return answer.x[:-1]
