r"""All sign patterns of a subspace (Lemma 1 of BJW18).

Problem     Q (n × k) spans a subspace of R^n. List the sign patterns {i : (Q u)_i > 0} of its vectors.
Idea        They are the cells of the arrangement of the n hyperplanes {u : q_i'u = 0} through the origin of R^k. In
            general position there are exactly

            .. math:: C(n, k) = 2 \sum_{i=0}^{k-1} \binom{n-1}{i}                                     \quad (1)

            of them [Cover1965]_, fewer otherwise. Hyperplanes are added one after the other, and one point is kept
            inside each cell. The cells that hyperplane i splits are the cells of the earlier hyperplanes restricted to
            it, an arrangement in k - 1 dimensions; their points move off the hyperplane to both sides. In the plane the
            cells are arcs.
Guarantee   The list is complete and has no duplicates.
Departures  The proof of Lemma 1 makes k of 2n constraints tight, for all choices of k. Restriction gives the same cells
            without duplicates, also where hyperplanes coincide. In the column space of a network they do: samples on
            which the same single unit is active have parallel rows of Q.
Cost        C(n, k) patterns of n signs each, in O(n^{k-2}) vectorised steps. k = 3, n = 100: at most 9,902 patterns;
            k = 4, n = 60: at most 68,560.
References  [BJW18]_, [Cover1965]_
"""

from __future__ import annotations

from math import comb

import numpy as np
from scipy import linalg

from planted._clock import check_time
from planted._typing import Array, BoolArray, Progress
from planted.linalg import unit_rows

__all__ = ["count_patterns", "enumerate_patterns"]

SAME_LINE = 1e-9  # sine of the angle between hyperplanes that are one


def count_patterns(n: int, k: int) -> int:
    """Return (1), the number of sign patterns of a k-dimensional subspace of R^n in general position."""
    return 2 * sum(comb(n - 1, i) for i in range(k)) if n else 1


def enumerate_patterns(Q: Array, *, progress: Progress | None = None) -> BoolArray:
    """List the sign patterns of the vectors Q u, each once: true where Q u is positive, which a row of zeros never is.

    Shapes: Q (n, k), result (count, n).
    """
    rows = _unit_or_zero(Q, SAME_LINE * np.linalg.norm(Q, axis=1).max(initial=0.0))
    points = _cell_points(rows, progress)
    return np.asarray(points @ rows.T > 0)


def _cell_points(rows: Array, progress: Progress | None = None) -> Array:
    """Return one point inside each cell of the arrangement with unit (or zero) normals ``rows``."""
    n, k = rows.shape
    if k == 1:
        return np.array([[1.0], [-1.0]]) if rows.any() else np.ones((1, 1))
    if k == 2:
        return _arc_points(rows)
    # A direction that no hyperplane with rational normal contains.
    points = np.cos(np.arange(1.0, k + 1))[None, :]
    predicted = count_patterns(n, k)
    for i, normal in enumerate(rows):
        earlier = rows[:i]
        if not normal.any() or (np.abs(earlier @ normal) > 1 - SAME_LINE**2 / 2 - 1e-15).any():
            continue
        check_time()
        basis = linalg.qr(normal[:, None], mode="full", check_finite=False)[0][:, 1:]
        inside = _cell_points(_unit_or_zero(earlier @ basis, SAME_LINE)) @ basis.T
        points = _distinct(np.vstack([points, *_both_sides(inside, earlier, normal)]), rows[: i + 1])
        if progress is not None:
            progress(f"{len(points)} patterns found, at most {predicted} predicted", len(points) / predicted)
    return points


def _arc_points(rows: Array) -> Array:
    """Return one point for each cell in the plane: the arcs between the directions of the lines."""
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


def _unit_or_zero(rows: Array, smallest: float) -> Array:
    """Return rows of unit length; those no longer than ``smallest`` become zero."""
    lengths = np.linalg.norm(rows, axis=1)
    is_zero = lengths <= smallest
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
    return unit_rows(points[kept])[0]
