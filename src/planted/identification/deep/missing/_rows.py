"""Rows of a missing unit: one that explains what is left at most places, and its weights that were not seen there."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from planted._typing import Array, BoolArray, IntArray

__all__ = ["GAP_ALIKE", "MOSTLY", "ROUGHLY", "SURE", "absolute_regression", "common_row", "solve_gaps"]

ROUGHLY = 1e-5  # of the largest answer: what is explained before the known units are refined
MOSTLY = 0.55  # of the answers must be explained
SURE = 0.9  # of the places around must be as a unit foretells
CONFIRMED = 2  # places, at least, at which a weight explains what is left
GAP_ALIKE = 1e-4  # difference of what two places say of a weight, relative to the largest weight


def common_row(H: Array, R: Array, kept: BoolArray) -> tuple[Array, BoolArray] | None:
    """The row (w, b) with unit w of a unit that explains what is left at most places, and which weights were seen; or None.

    What is left must be a multiple of w h + b on one side of the unit, where it does not vanish (`kept`), and vanish on the
    other side. A weight that has an effect at one of these places alone would explain it whatever it is: that place is left
    out, and the weight is not seen. Shapes: H (n, k), R (n, m), kept (n,).
    """
    on = H > 0
    seen = np.append(on[kept].any(axis=0), True)
    design = np.column_stack([H, np.ones(len(H))])[:, seen]
    if kept.sum() < design.shape[1] + 3:
        return None
    lengths = np.linalg.norm(design[kept], axis=0)
    place = int(np.abs(R).max(axis=0).argmax())
    size = float(np.abs(R[:, place]).max())
    found = absolute_regression(design[kept] / lengths, R[kept, place] / size)
    if found is None:
        return None
    near = np.flatnonzero(kept)[np.abs(design[kept] / lengths @ found - R[kept, place] / size) <= 1e-6]
    if near.size < max(MOSTLY * kept.sum(), design.shape[1] + 3):
        return None
    hardly = seen[:-1] & (on[near].sum(axis=0) < CONFIRMED)
    if hardly.any():
        return common_row(H, R, kept & ~on[:, hardly].any(axis=1))
    rows, _, rank, _ = np.linalg.lstsq(design[near] / lengths, R[near], rcond=1e-10)
    if rank < design.shape[1]:
        return None
    left, sizes, _ = np.linalg.svd(rows / lengths[:, None], full_matrices=False)
    if (sizes[1:] > 1e-5 * sizes[0]).any():
        return None
    values = (design / lengths) @ rows[:, place]
    side = np.sign(np.median(values[near]))
    foretold = side * np.maximum(side * values, 0.0)
    covered = ~(H[:, ~seen[:-1]] > 0).any(axis=1)
    if (np.abs(foretold - R[:, place])[covered] <= 1e-5 * size).mean() < SURE:
        return None
    row = np.zeros(seen.size)
    row[seen] = left[:, 0]
    norm = float(np.linalg.norm(row[:-1]))
    return (row / norm, seen[:-1]) if norm > 0 else None


def absolute_regression(features: Array, y: Array) -> Array | None:
    """Minimise the sum of absolute residuals: the multipliers of ``max y λ, features' λ = 0, |λ| <= 1``."""
    found = linprog(-y, A_eq=features.T, b_eq=np.zeros(features.shape[1]), bounds=[(-1.0, 1.0)] * len(y))
    return -np.asarray(found.eqlin.marginals) if found.status == 0 else None


def solve_gaps(A: Array, y: Array, whole: Array, known: BoolArray, gaps: IntArray) -> BoolArray:
    """Solve ``A w = y`` for the weights of gaps and write those that are determined into a row; which are known then."""
    known = known.copy()
    used, telling = (A > 0).any(axis=0), (A > 0).any(axis=1)
    A, y, gaps = A[telling][:, used], y[telling], gaps[used]
    if not gaps.size or len(y) < gaps.size + 1:
        return known
    lengths = np.linalg.norm(A, axis=0)
    values, rows = np.linalg.svd(A / lengths, full_matrices=False)[1:]
    rank = int((values > 1e-6 * values[0]).sum())
    settled = np.linalg.norm(rows[:rank], axis=0) > 1 - 1e-9
    found = np.linalg.lstsq(A / lengths, y, rcond=1e-6)[0] / lengths
    largest = max(float(np.abs(whole[:-1]).max()), float(np.abs(found).max()))
    off = np.abs(A @ found - y) / A.max(axis=1)
    if (off > GAP_ALIKE * largest).any():
        return known
    whole[gaps[settled]] = found[settled]
    known[gaps[settled]] = True
    return known
