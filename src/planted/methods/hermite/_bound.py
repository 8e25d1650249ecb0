r"""How far a function is from the one behind the data, with a limit that holds when units are rarely on.

Problem     The mean squared error s̄ on a quarter of the rows, and a one-sided 95 % limit of its expectation. A rare
            unit leaves zeros on most rows: squares are skewed, and a unit that was on in none of them leaves no trace
            at all.
Idea        1. The limit of the mean, corrected for skewness (Johnson 1978), at level 2.5 %:

               .. math:: \bar s + z \hat\sigma / \sqrt n + \hat\mu_3 (1 + 2 z^2) / (6 \hat\sigma^2 n). \quad (1)

            2. With probability 97.5 % a unit that was on (or off) in none of n rows is so with probability at most
               :math:`\log 40 / n = \Phi(-\beta)`. What a linear part leaves of a unit of output weight a with such a
               bias is

               .. math:: a^2 \kappa(\beta), \quad
                         \kappa(\beta) = E\sigma(g - \beta)^2 - \eta_0(-\beta)^2 - \eta_1(-\beta)^2, \quad (2)

               which falls with β. The limit is (1) and this number for each unit that was asked for and not seen.
Departures  [ATV21]_ bounds the second part by its promise |a| ≤ B (Lemma D.13); the promise here is that no unseen unit
            has more output weight than the heaviest unit seen.
Cost        One pass.
References  [ATV21]_
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import stats

from planted._typing import Array
from planted.checks import Check
from planted.moments import relu_coefficients
from planted.networks import TwoLayerNetwork
from planted.results import Evidence
from planted.rows import RowBlocks, Sums, accumulate

__all__ = ["ErrorBound", "bound_error", "unseen_error"]

LEVEL = 0.025  # of each of the two parts


@dataclass(frozen=True, slots=True)
class ErrorBound:
    """Squared error of a function, in output variances; noise of the outputs counts as error."""

    error: float  # mean on the rows it was judged on
    bound: float  # one-sided 95 % limit, unseen units included
    unseen: float  # what one unseen unit of the largest output weight may add

    def evidence(self, function: str = "the network") -> tuple[Evidence, ...]:
        """Return the numbers as lines of evidence."""
        mean = f"mean squared error of {function} on a quarter of the rows, in output variances"
        limit = f"95 % upper bound on the squared L2 error of {function}, in output variances"
        source = "skewness corrected, noise included; unseen units weigh no more than those seen"
        hidden = "squared L2 error that a unit on in none of these rows may hide, in output variances"
        return (
            Evidence(mean, self.error, key=Check.HELD_OUT_ERROR),
            Evidence(limit, self.bound, equation=source, key=Check.ERROR_BOUND),
            Evidence(hidden, self.unseen, equation="Lemma D.13", key=Check.HIDDEN_ERROR),
        )


def bound_error(network: TwoLayerNetwork, judged: RowBlocks, weights: Array, n_unseen: int) -> ErrorBound:
    """Measure a function on rows and bound its error, by (1) and (2).

    `judged`: rows that took no part in a least-squares fit of the function; they may have had one in moments of all rows.
    `weights`: output weights (m, k) of the units seen; an unseen one is taken to have no more.
    """
    sums = accumulate(judged, partial(_sum_squares, network))
    n = sums.count
    mean, second, third = sums.first / n, sums.second / n, sums.third / n
    variance = max(second - mean**2, 0.0)
    skewed = third - 3 * mean * second + 2 * mean**3
    z = float(stats.norm.isf(LEVEL))
    limit = mean + z * np.sqrt(variance / n)
    if variance > 0:
        limit += max(skewed, 0.0) * (1 + 2 * z**2) / (6 * variance * n)
    heaviest = float(np.linalg.norm(weights, axis=0).max(initial=0.0))
    unseen = unseen_error(n, heaviest / np.sqrt(max(len(weights), 1)))
    return ErrorBound(float(mean), float(limit + n_unseen * unseen), unseen)


def unseen_error(n_rows: int, weight: float) -> float:
    """Return what a linear part leaves, by (2), of a unit of some output weight that was on in none of the rows."""
    b = -float(stats.norm.isf(min(-np.log(LEVEL) / n_rows, 0.5)))
    square = (1 + b**2) * stats.norm.cdf(b) + b * stats.norm.pdf(b)
    mean, slope = relu_coefficients(np.array([b]), 1)[:, 0]
    return float(weight**2 * max(square - mean**2 - slope**2, 0.0))


@dataclass(frozen=True, slots=True)
class _SquareSums(Sums):
    count: int
    first: float
    second: float
    third: float


def _sum_squares(network: TwoLayerNetwork, first_row: int, X: Array, Y: Array) -> _SquareSums:
    """Sum the squared residuals of rows, mean over outputs, and their powers."""
    squares = ((Y - network(X)) ** 2).mean(axis=1)
    powers = (float((squares**power).sum()) for power in (1, 2, 3))
    return _SquareSums(len(X), *powers)
