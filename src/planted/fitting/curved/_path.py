"""Find the number of units of any activation by a path of widths: expand, fit, and take units away one by one.

Problem     Choose k for the form of `_units`, and find a network of that width, from the rows in memory.
Idea        *Up.* With k given the fit begins with twice as many units. Otherwise widths are 8, 16, 32 and so on, each with
            the units of the one before, until the rows are reproduced or one more doubling does not lower the criterion.
            *Down.* The unit that is missed least is taken away and the others are fitted again, and so on. Without noise
            the answer is the smallest width whose fit is at rounding. With noise it is the width with the smallest

                n m log(cost) + log(n m) unknowns                                                         (1)

            (Schwarz 1978) on the rows used. Superfluous units make fits near rounding slow: those of a path end at
            `NEAR`, and only the smallest width that gets there is fitted to rounding. If it does not reach it, the rows
            have noise of that size, and the path goes on with fits to the end. A path ends where the fit has clearly left
            the best one. Paths that are compared by (1) go down on the same rows: on others it differs by more than a unit
            is worth.
Guarantee   None. A path may lose a unit it needs; several paths from other starts are compared by who calls this.
Cost        Some tens of steps at the largest width on about six equations per unknown, and ten at each smaller one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from planted._typing import Array, IntArray
from planted.fitting._run import Problem
from planted.fitting.curved._units import UnitFit, UnitRows, fit_units, random_units, without_unit
from planted.fitting.multistart._rows import EXACT_RMS, SearchRows
from planted.networks import Activation

__all__ = ["FIRST_WIDTH", "UnitPath", "follow_units", "unit_rows_of", "width_criterion"]

FIRST_WIDTH = 8
WIDEST = 64  # beyond, an expanded fit costs minutes
EQUATIONS_PER_UNKNOWN = 6
NARROW_ROWS = 4000  # at least, for the fits on the way down, where there are so many
FULLEST = 0.7  # largest number of unknowns per equation
WIDE_ITER, WIDE_TOL = 60, 1e-3
STEP_ITER, STEP_TOL = 40, 1e-4
POLISH_ITER, POLISH_TOL = 200, 1e-7
NEAR = 1e-6  # residual in output standard deviations at which superfluous units need no better fit
LEFT = 3.0  # penalties of one unit by which (1) must exceed its least value before the path ends


@dataclass(frozen=True, slots=True)
class UnitPath:
    """A width, its fit, and the path that led to it."""

    fit: UnitFit  # of the chosen width
    data: UnitRows  # the rows it was fitted to
    criteria: dict[int, float]  # (1) by width, minus infinity at rounding
    is_exact: bool  # whether the rows used are reproduced to rounding
    score: float  # held-out mean square
    records: list[dict[str, Any]]  # lines for the trace

    @property
    def n_hidden(self) -> int:
        """The chosen width."""
        return self.fit.n_units

    @property
    def criterion(self) -> float:
        """The criterion (1) at the chosen width."""
        return self.criteria[self.n_hidden]


def unit_rows_of(search: SearchRows, chosen: IntArray, activation: Activation, linear: bool) -> UnitRows:
    """Return some of the rows in memory with the form to be fitted."""
    root = None if search.omega is None else np.sqrt(search.omega[chosen])[:, None]
    return UnitRows(search.rows[chosen], search.Y[chosen], activation, linear, root)


def follow_units(
    problem: Problem,
    search: SearchRows,
    activation: Activation,
    *,
    linear: bool,
    n_hidden: int | None = None,
    extra: int | None = None,
    known: Array | None = None,
    n_rows: int | None = None,
    is_brief: bool = False,
) -> UnitPath:
    """Follow the widths up and down once.

    `n_hidden`: the width to end at; chosen if omitted. `extra`: units beyond it at the start. `known`: units to begin with.
    `n_rows`: for the way down, those of the path that this one is compared with; by the width if omitted. `is_brief`: widths
    up to twice the first one only, to compare activations.
    """
    records: list[dict[str, Any]] = []
    widest = 2 * FIRST_WIDTH if is_brief else WIDEST
    form = activation, linear
    for enough in (NEAR, EXACT_RMS):
        wide = _widen(problem, search, form, (n_hidden, extra, known), widest, enough, records)
        count = max(NARROW_ROWS, _rows_wanted(search, wide.n_units)) if n_rows is None else n_rows
        data = unit_rows_of(search, search.first(count), *form)
        fits = _narrow(problem, data, wide, n_hidden, enough, records)
        criteria = {fit.n_units: _criterion(data, fit, enough) for fit in fits}
        reached = [fit for fit in fits if _is_within(data, fit, enough)]
        if n_hidden is not None:
            chosen = next(fit for fit in fits if fit.n_units == n_hidden)
        elif reached:
            chosen = min(reached, key=lambda fit: fit.n_units)
        else:
            chosen = min(fits, key=lambda fit: criteria[fit.n_units])
        chosen = fit_units(data, chosen.V, max_iter=POLISH_ITER, decrease_tol=POLISH_TOL)
        is_exact = _is_within(data, chosen, EXACT_RMS)
        if is_exact or not reached:
            break
        known = wide.V
    return UnitPath(chosen, data, criteria, is_exact, _score(search, chosen, activation), records)


def _widen(
    problem: Problem,
    search: SearchRows,
    form: tuple[Activation, bool],
    asked: tuple[int | None, int | None, Array | None],
    widest: int,
    enough: float,
    records: list[dict[str, Any]],
) -> UnitFit:
    """Fit twice the units asked for, or double the width until (1) stops falling."""
    n_hidden, extra, known = asked
    p = search.rows.shape[1]
    units = np.zeros((0, p)) if known is None else known
    width = FIRST_WIDTH if n_hidden is None else n_hidden + (max(n_hidden, 4) if extra is None else extra)
    best: tuple[float, UnitFit] | None = None
    while True:
        count = _rows_wanted(search, max(width, len(units)))
        data = unit_rows_of(search, search.draw(count, problem.rng), *form)
        affordable = _affordable(data)
        width = max(min(width, affordable), n_hidden or 1)
        fresh = random_units(max(width - len(units), 0), p - 1, problem.rng) * search.varies
        V = np.vstack([units[:width], fresh])
        fit = fit_units(data, V, max_iter=WIDE_ITER, decrease_tol=WIDE_TOL, enough=_enough(data, enough))
        criterion = _criterion(data, fit, enough) / data.Y.size  # rows differ between widths
        records.append(_record("expand", fit, data))
        problem.progress(f"{width} units, residual {np.sqrt(fit.cost / data.Y.size):.1e}", float("nan"))
        is_worse = best is not None and criterion >= best[0]
        if best is None or not is_worse:
            best = criterion, fit
        is_last = n_hidden is not None or width >= min(affordable, widest)
        if is_last or is_worse or _is_within(data, fit, enough):
            return best[1]
        width, units = 2 * width, fit.V


def _rows_wanted(search: SearchRows, width: int) -> int:
    p, m = search.rows.shape[1], search.Y.shape[1]
    return int(EQUATIONS_PER_UNKNOWN * (width * (p + m) // m + p))


def _affordable(data: UnitRows) -> int:
    """The largest width whose unknowns leave equations to spare."""
    p, m = data.rows.shape[1], data.Y.shape[1]
    return max(int((FULLEST * data.Y.size - m * data.n_beside) / (p + m)), 1)


def _narrow(
    problem: Problem,
    data: UnitRows,
    wide: UnitFit,
    n_hidden: int | None,
    enough: float,
    records: list[dict[str, Any]],
) -> list[UnitFit]:
    """Take units away one by one and fit the others again, until the fit has left the best one or k are left."""
    fitted = partial(fit_units, data, max_iter=STEP_ITER, decrease_tol=STEP_TOL, enough=_enough(data, enough))
    fit = fitted(wide.V)
    fits = [fit]
    penalty = np.log(data.Y.size) * (data.rows.shape[1] + data.Y.shape[1])
    while fit.n_units > (n_hidden or 1):
        fit = fitted(without_unit(data, fit))
        fits.append(fit)
        records.append(_record("narrow", fit, data))
        size = np.sqrt(fit.cost / data.Y.size)
        problem.progress(f"{fit.n_units} units, residual {size:.1e}", float("nan"))
        criteria = [_criterion(data, each, enough) for each in fits]
        if n_hidden is None and criteria[-1] > min(criteria) + LEFT * penalty:
            break
    return fits


def _is_within(data: UnitRows, fit: UnitFit, size: float) -> bool:
    """Whether the residual has at most this size, in output standard deviations."""
    return fit.cost <= size**2 * data.Y.size


def _enough(data: UnitRows, size: float) -> float:
    """The cost at which a fit may end: at rounding if residuals above it tell widths apart."""
    return size**2 * data.Y.size if size > EXACT_RMS else 0.0


def _criterion(data: UnitRows, fit: UnitFit, enough: float) -> float:
    """The criterion (1); minus infinity where no better fit is needed."""
    return -np.inf if _is_within(data, fit, enough) else width_criterion(data, fit)


def width_criterion(data: UnitRows, fit: UnitFit, further_unknowns: int = 0) -> float:
    """Return the criterion (1) of a fit, of more unknowns than its form has if there are any."""
    p, m = data.rows.shape[1], data.Y.shape[1]
    unknowns = fit.n_units * (p + m) + m * data.n_beside + further_unknowns
    return float(data.Y.size * np.log(fit.cost / data.Y.size) + np.log(data.Y.size) * unknowns)


def _score(search: SearchRows, fit: UnitFit, activation: Activation) -> float:
    """Mean squared residual on the rows held out, weighted as they are."""
    net = fit.network(activation)
    squares = ((search.Y[search.held_out] - net(search.rows[search.held_out, :-1])) ** 2).mean(axis=1)
    omega = None if search.omega is None else search.omega[search.held_out]
    return float(np.average(squares, weights=omega))


def _record(start: str, fit: UnitFit, data: UnitRows) -> dict[str, Any]:
    residual = float(np.sqrt(fit.cost / data.Y.size))
    return {
        "start": start,
        "k": fit.n_units,
        "residual": residual,
        "rows": len(data.Y),
        "costs": list(fit.costs),
    }
