r"""Algorithm 7 of BJW18: units from samples on which a single unit is active.

Problem     Noiseless Y = f(X W') A' with f rectified; m may be smaller than k, but no two columns of A are parallel.
Idea        Where unit i alone is active, y = f(w_i'x) a_i. Such outputs are positive multiples of each other; outputs of
            samples with several active units are so with probability zero.
Guarantee   Theorem 11 of [BJW18]_, for normal x and n > κ(W)^{O(k)} poly(d, k, m).
Notation    paper: A (ours Y'), S_i (a group), U_i (the direction of its outputs), c_ij (|y_j|), w_i (w), V (W).
Departures  Steps 1 and 2 sort the directions y/|y| by random projections and cut where these jump, instead of comparing
            all pairs. Step 2 prints multiples by any c ≠ 0, which would put the columns u and -u into one group; c > 0 as
            in step 1 is meant. A representative column is replaced by the unit vector of its direction, so that
            c_ij = |y_j|. Groups without more samples than inputs, or whose inputs do not span, cannot be solved for w and
            are only counted: repeated and proportional inputs form such groups. The solution of step 4 is used if it
            solves all equations of its group; the largest group that does not is reported. f⁻¹(|y|) stands for |y|, for
            powers of the ReLU (Appendix 9.1).
Cost        O(n log n) for the groups, O(n d²) for the linear systems.
References  [BJW18]_
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._clock import check_time
from planted._typing import Array, IntArray
from planted.networks import Activation

__all__ = ["LINEAR_TOL", "PARALLEL_TOL", "LoneUnits", "algorithm_7", "parallel_groups"]

PARALLEL_TOL = 1e-9  # distance of directions that are the same; rounding leaves 1e-15
LINEAR_TOL = 1e-8  # relative residual of a group's linear system
TINY_OUTPUT = 1e-12  # relative; the direction of smaller outputs is not known


@dataclass(frozen=True, slots=True)
class LoneUnits:
    """What the groups of parallel outputs say."""

    W: Array  # (found, d): unit hidden weights, one row for each group that fits one unit
    directions: Array  # (found, m): unit vectors along the outputs of these groups
    sizes: IntArray  # (found,): their numbers of samples
    small: IntArray  # sizes of the groups that are too small to be solved, largest first
    misfit_size: int  # size of the largest group that does not fit one unit; 0 if there is none
    misfit: float  # relative residual of that group


def algorithm_7(X: Array, Y: Array, *, activation: Activation, rng: np.random.Generator) -> LoneUnits:
    """Return the units that are alone on more samples than there are inputs.

    The linear system of step 5 for the output weights is left to the caller. Shapes: X (n, d), Y (n, m).

    Examples
    --------
    >>> from planted.networks import parse_activation
    >>> X = np.array([[1.0, 0.0], [2.0, -1.0], [1.0, -3.0], [-1.0, -1.0]])  # w = (1, 0) alone is active, thrice
    >>> Y = np.maximum(X[:, :1], 0.0) * [[3.0, 4.0]]
    >>> algorithm_7(X, Y, activation=parse_activation("relu"), rng=np.random.default_rng(0)).W.round(12) + 0.0
    array([[1., 0.]])
    """
    d = X.shape[1]
    rows, directions, sizes, small = [], [], [], []
    worst = (0, 0.0)
    for group in parallel_groups(Y, rng):  # 1 and 2
        kept = group[np.unique(X[group], axis=0, return_index=True)[1]]
        if len(kept) <= d or np.linalg.matrix_rank(X[kept]) < d:
            small.append(len(kept))
            continue
        lengths = np.linalg.norm(Y[kept], axis=1)  # 3
        t = lengths ** (1.0 / activation.degree)
        w = linalg.lstsq(X[kept], t, check_finite=False)[0]  # 4
        misfit = float(np.linalg.norm(X[kept] @ w - t) / np.linalg.norm(t))
        if misfit > LINEAR_TOL:
            worst = max(worst, (len(kept), misfit))
            continue
        rows.append(w / np.linalg.norm(w))  # 5
        directions.append((Y[kept] / lengths[:, None]).mean(axis=0))
        sizes.append(len(kept))
    return LoneUnits(
        np.array(rows).reshape(len(rows), d),
        np.array(directions).reshape(len(rows), Y.shape[1]),
        np.array(sizes, dtype=np.intp),
        np.array(sorted(small, reverse=True), dtype=np.intp),
        *worst,
    )


def parallel_groups(Y: Array, rng: np.random.Generator) -> list[IntArray]:
    """Group the rows that are positive multiples of each other; return the row numbers of every group, largest first.

    Rows of zeros and rows without a partner are in no group. Shapes: Y (n, m).
    """
    lengths = np.linalg.norm(Y, axis=1)
    usable = np.flatnonzero(lengths > TINY_OUTPUT * lengths.max(initial=0.0))
    directions = Y[usable] / lengths[usable, None]
    pending = [np.arange(len(usable))]
    for projection in rng.standard_normal((2 * Y.shape[1], Y.shape[1])):
        check_time()
        pending = [part for group in pending for part in _split(group, directions @ projection)]
    groups = [usable[np.sort(group)] for group in pending]
    return sorted(groups, key=lambda group: (-len(group), int(group[0])))


def _split(group: IntArray, values: Array) -> list[IntArray]:
    """Cut a group where sorted projections jump."""
    order = group[np.argsort(values[group], kind="stable")]
    jumps = np.flatnonzero(np.diff(values[order]) > PARALLEL_TOL) + 1
    return [part for part in np.split(order, jumps) if len(part) > 1]
