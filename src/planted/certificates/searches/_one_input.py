"""Read the kinks of a function of one input off its samples.

Problem     With one input a network is piecewise linear along a line. Noiseless samples show its pieces directly, however
            many units there are; a search from random hyperplanes finds few of twenty.
Idea        The samples are sorted. From the left, the longest run of samples on one line is taken, then the next one from
            there on. Two neighbouring lines meet at a kink. Every run needs three samples, since two are always on a
            line; otherwise nothing is returned, and noisy samples end the attempt at once. Labels that were rounded are
            on lines up to their rounding, so that a few tolerances are tried.
Guarantee   If every piece holds three samples and no sample of a piece lies on the line of the one before, these are the
            kinks. The certificate decides.
Cost        O(n log n).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planted._typing import Array
from planted.certificates.searches._kink_search import KinkSearch
from planted.fitting.multistart._attempts import POLISH_ITER, POLISH_TOL, Attempt
from planted.fitting.multistart._rows import EXACT_RMS

__all__ = ["read_kinks", "start_from_lines"]

# Distance from the line of a piece, in output standard deviations: double precision, single, and labels of few decimals.
TOLERANCES = (1e-11, 1e-8, 1e-6, 1e-4)
SHORTEST = 3


def start_from_lines(search: KinkSearch) -> Attempt | None:
    """Return an attempt from the kinks between the lines on which all samples lie, and let it use every row.

    None where the samples lie on no such lines.
    """
    rows = search.rows
    for tol in TOLERANCES:
        kinks = read_kinks(rows.rows[:, 0], rows.Y, tol=tol)
        if kinks is None or not len(kinks):
            continue
        everything = np.arange(len(rows.rows))
        V = np.column_stack([np.ones(len(kinks)), -kinks])
        fit = rows.fit(everything, V, max_iter=POLISH_ITER, decrease_tol=POLISH_TOL)
        variance = fit.cost / rows.Y.size
        if variance > tol**2:
            continue
        search.rows = replace(rows, pool=everything)
        is_exact = variance <= EXACT_RMS**2
        record = {
            "start": "lines",
            "k": len(kinks),
            "residual": float(np.sqrt(variance)),
            "costs": list(fit.costs),
        }
        return Attempt(fit, variance, is_exact, 0, True, variance, record)
    return None


def read_kinks(x: Array, Y: Array, *, tol: float) -> Array | None:
    """Return where neighbouring lines meet, in order; None where fewer than three samples are on one, or values jump.

    Shapes: x (n,), Y (n, m), result (kinks,).

    Examples
    --------
    >>> x = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0])
    >>> read_kinks(x, np.maximum(x, 0.0)[:, None], tol=1e-12)
    array([0.])
    """
    places, first = np.unique(x, return_index=True)
    values = Y[first]
    lines, start = [], 0
    while start < len(places):
        end = _end_of_run(places, values, start, tol)
        if end - start < SHORTEST:
            return None
        lines.append(_line(places[start:end], values[start:end]))
        start = end
    level, slope = np.stack([line[0] for line in lines]), np.stack([line[1] for line in lines])
    bend, jump = np.diff(slope, axis=0), np.diff(level, axis=0)
    if not bend.any(axis=1).all():
        return None  # neighbouring lines are parallel: a jump
    # The x at which the lines of all outputs come nearest to each other.
    return np.asarray(0.0 - (bend * jump).sum(axis=1) / (bend**2).sum(axis=1))


def _end_of_run(x: Array, Y: Array, start: int, tol: float) -> int:
    """Return the end of the longest run of samples from a start on that lie on a line: doubling, then halving."""
    good, length = min(start + 2, len(x)), 2
    while good < len(x):
        length *= 2
        trial = min(start + length, len(x))
        if not _is_line(x[start:trial], Y[start:trial], tol):
            break
        good = trial
    else:
        return good
    bad = min(start + length, len(x))
    while bad - good > 1:
        middle = (good + bad) // 2
        if _is_line(x[start:middle], Y[start:middle], tol):
            good = middle
        else:
            bad = middle
    return good


def _is_line(x: Array, Y: Array, tol: float) -> bool:
    level, slope = _line(x, Y)
    return bool(np.abs(Y - level - x[:, None] * slope).max() <= tol)


def _line(x: Array, Y: Array) -> tuple[Array, Array]:
    """Return the level at zero and the slope of the least-squares line of each output."""
    middle, mean = x.mean(), Y.mean(axis=0)
    slope = (x - middle) @ (Y - mean) / ((x - middle) ** 2).sum()
    return mean - middle * slope, slope
