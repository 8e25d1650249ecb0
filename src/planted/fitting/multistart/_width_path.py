"""Choose the number of units by following the held-out error along a path of widths.

Problem     Choose k for the absolute-value form from the rows alone.
Idea        *Up.* Widths are 8, 16, 32, and so on; each keeps the units of the one before and adds fresh ones, until
            the held-out error is at rounding or no longer falls by `PLATEAU`. A fit that reproduces its rows but not
            those held out has bent where it saw hardly a row, and begins again with fresh units. *Down.* From there
            the least missed unit is taken away, the rest is polished and scored, and so on until the error has clearly
            left the plateau. Of more than `MANY` units in fits that are not exact, an eighth is taken away at once, and
            where that leaves the plateau, one by one from the width before. The answer is the smallest k whose error on
            unseen rows is within `PLATEAU`, or two standard errors of the paired difference, of the best, and
            not above it `MUCH` times; for exact fits it must be at rounding. Spectral gaps of moment matrices do not show
            k here.
Guarantee   None; the path is part of the record.
Cost        About as much as two attempts at the largest width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from planted._typing import Array, IntArray
from planted.fitting._run import Problem
from planted.fitting.multistart._absolute_form import KinkFit, prune_units, random_hyperplanes
from planted.fitting.multistart._attempts import (
    EQUATIONS_PER_UNKNOWN,
    FULLEST,
    POLISH_ITER,
    POLISH_TOL,
    WIDE_ITER,
    WIDE_TOL,
)
from planted.fitting.multistart._rows import EXACT_RMS, SearchRows

__all__ = ["WidthPath", "follow_widths"]

FIRST_WIDTH = 8
PLATEAU = 0.01
STANDARD_ERRORS = 2.0
MUCH = 10.0  # times the best held-out mean square: a rise that is never chance
LEFT_PLATEAU = 1.5  # times the best held-out mean square: no smaller width can come back below
MANY = 16  # units beyond which an eighth of them may go at once
STEP_ITER, STEP_TOL = 25, 1e-4
FRESH_STARTS = 3  # after fits that reproduce their own rows only


@dataclass(frozen=True, slots=True)
class WidthPath:
    """The chosen width and the path that led to it."""

    n_hidden: int  # the chosen width
    fit: KinkFit  # a fit of that width
    scores: dict[int, float]  # held-out mean square of every width on the way down
    records: list[dict[str, Any]]  # lines for the trace

    @property
    def is_exact(self) -> bool:
        """Whether the chosen width reproduces held-out rows to rounding."""
        return self.scores[self.n_hidden] <= EXACT_RMS**2


def follow_widths(
    problem: Problem, search: SearchRows, *, keep: Callable[[KinkFit, float], None] | None = None
) -> WidthPath:
    """Choose the number of units.

    `keep`: given every expanded fit and its held-out mean square, so that an interruption does not lose them. Returns
    the choice and the path.
    """
    records: list[dict[str, Any]] = []
    wide, chosen = _widen(problem, search, records, keep or (lambda fit, score: None))
    squares, fits = _narrow(problem, search, wide, chosen, records)
    scores = {width: float(values.mean()) for width, values in squares.items()}
    best = min(scores, key=lambda width: scores[width])
    k = min(width for width in scores if _is_on_plateau(squares[width], squares[best]))
    return WidthPath(k, fits[k], scores, records)


def _is_on_plateau(squares: Array, best: Array) -> bool:
    """Whether a width is as good as the best, up to `PLATEAU` or twice the standard error of the difference."""
    difference = squares - best
    error = float(difference.std() / np.sqrt(difference.size))
    # Few rows, of which few miss a unit, have a large standard error.
    allowed = max(
        PLATEAU * float(best.mean()), min(STANDARD_ERRORS * error, MUCH * float(best.mean())), EXACT_RMS**2
    )
    # Exact fits leave no error to speak of: a missing unit then stands out whatever its standard error.
    if best.mean() <= EXACT_RMS**2:
        allowed = EXACT_RMS**2
    return bool(difference.mean() <= allowed)


def _widen(
    problem: Problem,
    search: SearchRows,
    records: list[dict[str, Any]],
    keep: Callable[[KinkFit, float], None],
) -> tuple[KinkFit, IntArray]:
    """Double the width until the held-out error stops falling."""
    p, m = search.rows.shape[1], search.Y.shape[1]
    best: tuple[float, KinkFit, IntArray] | None = None
    width, known, fresh_starts = FIRST_WIDTH, np.zeros((0, p)), FRESH_STARTS
    while True:
        wanted = 2 * EQUATIONS_PER_UNKNOWN * (width * p // m + width + p)
        chosen = search.draw(wanted, problem.rng)
        affordable = max(int(FULLEST * len(chosen) * m / (p + m)), 1)
        width = min(width, affordable)
        fresh = random_hyperplanes(max(width - len(known), 0), p - 1, problem.rng)
        fit = search.fit(chosen, np.vstack([known[:width], fresh]), max_iter=WIDE_ITER, decrease_tol=WIDE_TOL)
        score = search.judge(fit)[0]
        keep(fit, score)
        records.append(_record("widen", fit, score, chosen))
        problem.progress(f"{width} units, held-out residual {np.sqrt(score):.1e}", float("nan"))
        is_better = best is None or score < (1 - PLATEAU) * best[0]
        if best is None or score < best[0]:
            best = (score, fit, chosen)
        if fit.cost <= EXACT_RMS**2 * len(chosen) * m and score > EXACT_RMS**2 and fresh_starts:
            known, fresh_starts = known[:0], fresh_starts - 1
            continue
        if score <= EXACT_RMS**2 or not is_better or width == affordable:
            return best[1], best[2]
        width, known = 2 * width, fit.V


def _narrow(
    problem: Problem, search: SearchRows, wide: KinkFit, chosen: IntArray, records: list[dict[str, Any]]
) -> tuple[dict[int, Array], dict[int, KinkFit]]:
    """Take units away one by one, polish and score on unseen rows, until the error has left the plateau."""
    cells = len(chosen) * search.Y.shape[1]
    kept, _ = prune_units(wide, 1, tol=1e-3 * EXACT_RMS**2 * cells)  # dead or coincident: no need to polish
    fit = search.fit(chosen, wide.V[kept], max_iter=STEP_ITER, decrease_tol=STEP_TOL)
    unseen = search.unseen(chosen)
    squares: dict[int, Array] = {}
    fits: dict[int, KinkFit] = {}
    before, step, is_hasty = fit, 1, True
    while True:
        squares[fit.n_units], fits[fit.n_units] = search.squares(fit, unseen), fit
        score = float(squares[fit.n_units].mean())
        records.append(_record("narrow", fit, score, chosen))
        problem.progress(f"{fit.n_units} units, held-out residual {np.sqrt(score):.1e}", float("nan"))
        best = min(float(values.mean()) for values in squares.values())
        is_exact = best <= EXACT_RMS**2
        has_left = score > max(LEFT_PLATEAU * best, EXACT_RMS**2)
        if fit.n_units == 1 or (has_left and step == 1):
            return squares, fits
        before = before if has_left else fit
        is_hasty = is_hasty and not has_left
        step = before.n_units // 8 if is_hasty and before.n_units > MANY and not is_exact else 1
        kept, _ = prune_units(before, before.n_units - step)
        fit = search.fit(
            chosen,
            before.V[kept],
            max_iter=POLISH_ITER if is_exact else STEP_ITER,
            decrease_tol=POLISH_TOL if is_exact else STEP_TOL,
        )


def _record(start: str, fit: KinkFit, score: float, chosen: IntArray) -> dict[str, Any]:
    return {
        "start": start,
        "k": fit.n_units,
        "residual": float(np.sqrt(score)),
        "rows": len(chosen),
        "costs": list(fit.costs),
    }
