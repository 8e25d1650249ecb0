"""Attempts at the hyperplanes of a network: expand, fit, prune and polish on samples of the rows in memory.

Problem     Find the hyperplanes of a k-unit network in the absolute-value form by attempts that cost little and are
            judged on rows that no attempt has seen.
Idea        An attempt (1) fits k + extra random hyperplanes until the cost stalls, (2) takes units away, least missed
            first, until k are left, (3) fits these to convergence, and (4) is scored on the rows held out. An attempt
            is *exact* when its rows are reproduced to rounding. It is *settled* when k units predict held-out rows as
            well as k + extra did: nothing was lost by pruning, and what is left is noise. Every attempt uses fresh
            rows. Every second one starts from the best units so far, with copies of them turned a little and fresh
            ones added.
Choices     There are k/2 extra units, at least 4; 4 equations for each unknown of the expanded network; and twice as
            many rows at each new attempt. These were measured on noiseless Gaussian inputs (docs/theory/restarts.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from planted._typing import Array, IntArray
from planted.fitting._run import Problem
from planted.fitting.multistart._absolute_form import KinkFit, prune_units, random_hyperplanes
from planted.fitting.multistart._rows import EXACT_RMS, SearchRows

__all__ = [
    "Attempt",
    "attempt_from",
    "attempts",
    "challenge",
    "explain_bulk",
    "extra_units",
]

EXTRA_FRACTION = 0.5
MIN_EXTRA = 4
EQUATIONS_PER_UNKNOWN = 4
WIDE_ITER, WIDE_TOL = 60, 1e-4
# Part of the outputs' sum of squares at which needed units stand out; those to be pruned make further steps slow.
WIDE_ENOUGH = 1e-12
POLISH_ITER, POLISH_TOL = 100, 1e-6
SETTLED = 1.03**2  # held-out mean square of k units over that of k + extra units
SPLIT_ANGLE = 0.1  # radians, and shift, by which copies of a unit are moved
BULK = 0.8  # part of the rows that must be reproduced before the rest is called exceptions
HEAVY_TAILED = 0.4  # median of the residuals over their root mean square; 0.67 for normal noise
FULLEST = 0.8  # largest number of unknowns of the expanded network per equation


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt and how it ended."""

    fit: KinkFit  # the polished fit with k units
    score: float  # held-out mean square
    is_exact: bool  # whether the rows used are reproduced to rounding
    missed: int  # held-out rows that are not
    is_settled: bool  # whether pruning lost nothing
    noise_variance: float  # mean square of the residual of one output on the rows used
    record: dict[str, Any] = field(default_factory=dict)  # its line of the trace


def extra_units(n_hidden: int, extra: int | str) -> int:
    """Return the number of units beyond the wanted ones."""
    if isinstance(extra, int):
        return extra
    return max(MIN_EXTRA, int(np.ceil(EXTRA_FRACTION * n_hidden)))


def attempts(
    problem: Problem, search: SearchRows, n_hidden: int, *, extra: int | str, n_restarts: int
) -> Iterator[Attempt]:
    """Make attempts, one by one, until the caller is content."""
    best: Attempt | None = None
    for number in range(n_restarts):
        width = n_hidden + extra_units(n_hidden, extra)
        chosen, width = _rows_and_width(search, n_hidden, width, 2 ** min(number, 3), problem.rng)
        is_warm = number % 2 == 1 and best is not None
        if best is not None and is_warm:
            V = _extend(best.fit.V, width, problem.rng)
        else:
            V = random_hyperplanes(width, problem.n_features, problem.rng)
        attempt = _attempt(search, chosen, V, n_hidden, "warm" if is_warm else "random")
        if best is None or attempt.score < best.score:
            best = attempt
        problem.progress(
            f"restart {number + 1}, best residual {np.sqrt(best.score):.1e}", (number + 1) / n_restarts
        )
        yield attempt


def attempt_from(
    problem: Problem, search: SearchRows, V: Array, *, n_hidden: int, start: str = "moments"
) -> Attempt:
    """Make one attempt from hyperplanes that another method found.

    `V`: hyperplanes (w, b); if there are fewer than wanted, others are drawn and the fit begins with extra units.
    Shapes: V (found, p).
    """
    extra = 0 if len(V) >= n_hidden else extra_units(n_hidden, "auto")
    chosen, width = _rows_and_width(search, n_hidden, max(n_hidden + extra, len(V)), 2, problem.rng)
    wide = V if len(V) >= width else _extend(V, width, problem.rng)
    return _attempt(search, chosen, wide, n_hidden, start)


def challenge(problem: Problem, search: SearchRows, fit: KinkFit) -> tuple[Attempt, float]:
    """Look for a better network beside a given one: every unit is split in two, fitted, pruned and polished.

    Two nearly parallel units that were fitted by one are found this way, which random starts find rarely. Returns the
    rival, and the part of the held-out error that it saves against the given hyperplanes fitted to the same rows.
    """
    chosen, width = _rows_and_width(search, fit.n_units, 2 * fit.n_units, 4, problem.rng)
    copies = fit.V[problem.rng.permutation(fit.n_units)[: width - fit.n_units]]
    V = np.vstack([fit.V, _shake(copies, problem.rng)])
    rival = _attempt(search, chosen, V, fit.n_units, "split")
    same = search.fit(chosen, fit.V, max_iter=POLISH_ITER, decrease_tol=POLISH_TOL)
    score = search.judge(same)[0]
    best = min(rival.score, rival.record["residual_before_pruning"] ** 2)
    return rival, 1.0 - best / max(score, np.finfo(float).tiny)


def explain_bulk(search: SearchRows, fit: KinkFit) -> Attempt | None:
    """Find out whether a fit fails on a few rows only, by a loss that forgives them.

    Returns a fit that reproduces at least `BULK` of the rows to rounding, if there is one.
    """
    residual = np.abs(search.Y[search.pool] - fit(search.rows[search.pool])).max(axis=1)
    if np.median(residual) > HEAVY_TAILED * np.sqrt((residual**2).mean()) or search.loss != "squared":
        return None
    forgiving = replace(search, loss="cauchy")
    bulk = forgiving.fit(search.pool, fit.V, max_iter=POLISH_ITER, decrease_tol=POLISH_TOL)
    residual = np.abs(search.Y[search.pool] - bulk(search.rows[search.pool])).max(axis=1)
    if (residual > EXACT_RMS).mean() > 1 - BULK:
        return None
    score, missed = search.judge(bulk)
    record = {"start": "bulk", "k": fit.n_units, "residual": float(np.sqrt(score)), "costs": list(bulk.costs)}
    return Attempt(bulk, score, True, missed, True, bulk.cost / residual.size, record)


def _rows_and_width(
    search: SearchRows, n_hidden: int, width: int, factor: int, rng: np.random.Generator
) -> tuple[IntArray, int]:
    """Draw rows for a fit of some width; narrow it if there are too few."""
    p, m = search.rows.shape[1], search.Y.shape[1]
    chosen = search.draw(EQUATIONS_PER_UNKNOWN * (width * p // m + width + p) * factor, rng)
    return chosen, max(min(width, int(FULLEST * len(chosen) * m / (p + m))), n_hidden)


def _extend(V: Array, width: int, rng: np.random.Generator) -> Array:
    """Add hyperplanes to known ones: half of them copies turned a little, half fresh."""
    n_copies = min((width - len(V)) // 2, len(V))
    copies = _shake(V[rng.permutation(len(V))[:n_copies]], rng)
    return np.vstack([V, copies, random_hyperplanes(width - len(V) - n_copies, V.shape[1] - 1, rng)])


def _shake(V: Array, rng: np.random.Generator) -> Array:
    """Turn hyperplanes by an angle of about `SPLIT_ANGLE` and shift them as much."""
    return V + SPLIT_ANGLE * random_hyperplanes(len(V), V.shape[1] - 1, rng)


def _attempt(search: SearchRows, chosen: IntArray, V: Array, n_hidden: int, start: str) -> Attempt:
    """Fit, prune, polish, score."""
    wide = search.fit(chosen, V, max_iter=WIDE_ITER, decrease_tol=WIDE_TOL, enough=WIDE_ENOUGH)
    kept, losses = prune_units(wide, n_hidden)
    fit = search.fit(chosen, wide.V[kept], max_iter=POLISH_ITER, decrease_tol=POLISH_TOL)
    score, missed = search.judge(fit)
    wide_score = search.judge(wide)[0]
    cells = len(chosen) * search.Y.shape[1]
    is_exact = search.loss == "squared" and fit.cost <= EXACT_RMS**2 * cells
    record = {
        "start": start,
        "k": n_hidden,
        "residual": float(np.sqrt(score)),
        "residual_before_pruning": float(np.sqrt(wide_score)),
        "rows": len(chosen),
        "units_dropped": len(losses),
        "dead_units": int((losses <= WIDE_ENOUGH * cells).sum()),
        "costs": [*wide.costs, *fit.costs],
    }
    is_settled = score <= SETTLED * wide_score
    return Attempt(fit, score, is_exact, missed, is_settled, fit.cost / cells, record)
