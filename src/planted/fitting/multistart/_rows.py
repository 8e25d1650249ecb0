"""The rows in memory, split into those that attempts are fitted to and those that judge them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array, IntArray, as_array
from planted.fitting._losses import search_weights
from planted.fitting._run import Problem
from planted.fitting.multistart._absolute_form import KinkFit, fit_kinks
from planted.moments import augment

__all__ = ["EXACT_RMS", "SearchRows", "split_rows"]

HELD_OUT = 0.1
MAX_HELD_OUT = 4000
EXACT_RMS = 1e-9  # residuals in output standard deviations; noiseless fits end near 1e-15


@dataclass(frozen=True, slots=True)
class SearchRows:
    """Rows in memory, split into those attempts may use and those that judge them."""

    rows: Array  # (n, p): standardised inputs with a column of ones
    Y: Array  # (n, m): standardised outputs
    pool: IntArray  # numbers of the rows for fitting
    held_out: IntArray  # numbers of the rows for judging
    varies: Array  # (p,): one for inputs that vary (and for the constant), zero for constant inputs
    loss: str  # loss of the fit
    omega: Array | None  # (n,): weights of the rows
    order: IntArray  # the pool in random order

    def fit(
        self, chosen: IntArray, V: Array, *, max_iter: int, decrease_tol: float, enough: float = 0.0
    ) -> KinkFit:
        """Fit hyperplanes to some of the rows, as `fit_kinks` does.

        Shapes: V (k, p).
        """
        reweigh = search_weights(self.loss, None if self.omega is None else self.omega[chosen])
        return fit_kinks(
            self.rows[chosen],
            self.Y[chosen],
            V * self.varies,
            max_iter=max_iter,
            decrease_tol=decrease_tol,
            enough=enough,
            reweigh=reweigh,
        )

    def judge(self, fit: KinkFit) -> tuple[float, int]:
        """Return the mean squared residual on the rows held out, and how many of them are missed.

        The mean is weighted; for robust losses it is the median of the squares. A row is missed if its residual is
        above rounding.
        """
        squares = self.squares(fit, self.held_out)
        omega = None if self.omega is None else self.omega[self.held_out]
        centre = np.average(squares, weights=omega) if self.loss == "squared" else np.median(squares)
        return float(centre), int((squares > EXACT_RMS**2).sum())

    def squares(self, fit: KinkFit, chosen: IntArray) -> Array:
        """Return the mean squared residual of each of some rows.

        Shapes: result (rows,).
        """
        residual = self.Y[chosen] - fit(self.rows[chosen])
        return as_array((residual**2).mean(axis=1))

    def unseen(self, chosen: IntArray) -> IntArray:
        """Return the rows held out and those that a fit did not use."""
        others = np.setdiff1d(self.pool, chosen, assume_unique=True)
        return np.concatenate([self.held_out, others])[:MAX_HELD_OUT]

    def draw(self, count: int, rng: np.random.Generator) -> IntArray:
        """Draw rows for fitting."""
        return np.sort(rng.permutation(self.pool)[:count])

    def first(self, count: int) -> IntArray:
        """Return rows for fitting, the same whenever as many are asked for: fits to them can be compared."""
        return np.sort(self.order[:count])


def split_rows(problem: Problem, *, loss: str, omega: Array | None) -> SearchRows:
    """Set rows aside for judging.

    Shapes: omega (rows,).
    """
    n = len(problem.X)
    order = problem.rng.permutation(n)
    cut = min(max(int(HELD_OUT * n), 1), MAX_HELD_OUT)
    varies = np.append((np.abs(problem.X).max(axis=0) > 0).astype(np.float64), 1.0)
    pool, held_out = order[cut:], order[:cut]
    return SearchRows(
        augment(problem.X), problem.Y, np.sort(pool), np.sort(held_out), varies, loss, omega, pool
    )
