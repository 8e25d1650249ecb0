"""The rows that attempts at hyperplanes are fitted to and judged on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array, IntArray
from planted.fitting._losses import search_weights
from planted.fitting._problem import Problem
from planted.fitting.multistart._absolute_form import KinkFit, fit_kinks
from planted.moments import augment

__all__ = ["EXACT_RMS", "SearchRows", "split_rows"]

HELD_OUT = 0.1
MAX_HELD_OUT = 4000
EXACT_RMS = 1e-9  # residuals in output standard deviations; noiseless fits end near 1e-15


@dataclass(frozen=True, slots=True)
class SearchRows:
    """Rows in memory, split into those attempts may use and those that judge them.

    Parameters
    ----------
    rows, Y : ndarray of shapes (n, p) and (n, m)
        Standardised inputs with a column of ones, and outputs.
    pool, held_out : ndarray of int
        Numbers of the rows for fitting and for judging.
    varies : ndarray of shape (p,)
        One for inputs that vary (and for the constant), zero for constant inputs.
    loss : str
        Loss of the fit.
    omega : ndarray of shape (n,) or None
        Weights of the rows.
    """

    rows: Array
    Y: Array
    pool: IntArray
    held_out: IntArray
    varies: Array
    loss: str
    omega: Array | None

    def fit(self, chosen: IntArray, V: Array, *, max_iter: int, decrease_tol: float) -> KinkFit:
        """Fit hyperplanes to some of the rows.

        Parameters
        ----------
        chosen : ndarray of int
            Numbers of the rows.
        V : ndarray of shape (k, p)
            Start.
        max_iter : int
            Largest number of steps.
        decrease_tol : float
            Relative decrease at which to stop.

        Returns
        -------
        KinkFit
            The fit.
        """
        reweigh = search_weights(self.loss, None if self.omega is None else self.omega[chosen])
        return fit_kinks(
            self.rows[chosen],
            self.Y[chosen],
            V * self.varies,
            max_iter=max_iter,
            decrease_tol=decrease_tol,
            reweigh=reweigh,
        )

    def judge(self, fit: KinkFit) -> tuple[float, int]:
        """Return the mean squared residual on the rows held out, and how many of them are missed.

        Parameters
        ----------
        fit : KinkFit
            The fit.

        Returns
        -------
        score : float
            Weighted mean squared residual (for robust losses the median of the squares).
        missed : int
            Rows with a residual above rounding.
        """
        squares = self.squares(fit, self.held_out)
        omega = None if self.omega is None else self.omega[self.held_out]
        centre = np.average(squares, weights=omega) if self.loss == "squared" else np.median(squares)
        return float(centre), int((squares > EXACT_RMS**2).sum())

    def squares(self, fit: KinkFit, chosen: IntArray) -> Array:
        """Return the mean squared residual of each of some rows.

        Parameters
        ----------
        fit : KinkFit
            The fit.
        chosen : ndarray of int
            Numbers of the rows.

        Returns
        -------
        ndarray of shape (rows,)
            Mean over outputs.
        """
        residual = self.Y[chosen] - fit(self.rows[chosen])
        return np.asarray((residual**2).mean(axis=1))

    def unseen(self, chosen: IntArray) -> IntArray:
        """Return the rows held out and those that a fit did not use.

        Parameters
        ----------
        chosen : ndarray of int
            Rows that it used.

        Returns
        -------
        ndarray of int
            The others, at most `MAX_HELD_OUT`.
        """
        others = np.setdiff1d(self.pool, chosen, assume_unique=True)
        return np.concatenate([self.held_out, others])[:MAX_HELD_OUT]

    def draw(self, count: int, rng: np.random.Generator) -> IntArray:
        """Draw rows for fitting.

        Parameters
        ----------
        count : int
            How many, if there are as many.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray of int
            Their numbers, ascending.
        """
        return np.sort(rng.permutation(self.pool)[:count])


def split_rows(problem: Problem, *, loss: str, omega: Array | None) -> SearchRows:
    """Set rows aside for judging.

    Parameters
    ----------
    problem : Problem
        The standardised problem.
    loss : str
        Loss of the fit.
    omega : ndarray of shape (rows,) or None
        Weights of the rows in memory.

    Returns
    -------
    SearchRows
        The rows, split.
    """
    n = len(problem.X)
    order = problem.rng.permutation(n)
    cut = min(max(int(HELD_OUT * n), 1), MAX_HELD_OUT)
    varies = np.append((np.abs(problem.X).max(axis=0) > 0).astype(np.float64), 1.0)
    return SearchRows(
        augment(problem.X), problem.Y, np.sort(order[cut:]), np.sort(order[:cut]), varies, loss, omega
    )
