r"""Tests whether the outputs jump at some row: an offset, or their size, that is another one before it.

Problem     An instrument that was moved, or warmed up, adds an offset from some row on, or multiplies what follows. Least
            squares takes the mean of both parts, and the standard errors do not know. A drift over all rows is looked for
            among the models beside the network, and by the agreement of rows far apart; a jump early or late in the rows
            has little in common with a straight line, and few rows on its shorter side.
Idea        With u the residual, or the residual times the prediction, whitened over outputs, and without its mean, a jump at
            row r leaves the partial sum :math:`S_r = \sum_{i \le r} u_i`, which is zero on average otherwise. The statistic

            .. math:: x = \max_r \frac{\|S_r\|^2}{r (1 - r/n)}                                                  \quad (1)

            over rows that leave a part `END` of all on either side takes outputs together. Were r known it would be a χ²
            with m degrees of freedom. For the largest one, the sum over r is a squared Bessel process, and

            .. math:: p = \frac{(x/2)^{m/2} e^{-x/2}}{\Gamma(m/2)} \left[(1 - m/x) \log \lambda + 2/x\right],   \quad (2)

            with λ the square of the ratio of the longest part to the shortest. Noise of correlated rows has larger partial
            sums, by the root of (1 + ρ)/(1 − ρ) for the correlation ρ of neighbours.
Guarantee   The level, asymptotically: (2) is above the frequency in 4,000 draws of 300 rows, by a fifth at most.
Cost        Partial sums of the rows in memory.
References  DeLong (1981), Comm. Statist. A 10; Andrews (1993), Econometrica 61.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from planted._typing import Array
from planted.certificates._residual import inverse_root
from planted.checks import Check
from planted.results import Evidence

__all__ = ["jump_evidence"]

LEVEL = 1e-3  # of both tests together
END = 0.05  # part of the rows on the shorter side
MIN_ROWS = 60


def jump_evidence(F: Array, residual: Array, correlation: float = 0.0) -> tuple[Evidence, ...]:
    """Return the line on a jump of the outputs; nothing for few rows.

    `correlation`: of the noise of neighbouring rows, zero where rows are independent. Shapes: F, the predictions, and
    residual, (n, m).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> F, noise = rng.standard_normal((400, 2)), rng.standard_normal((400, 2))
    >>> [line.passed for line in jump_evidence(F, noise)]
    [True]
    >>> late = np.arange(400)[:, None] > 360
    >>> [line.passed for line in jump_evidence(F, noise + late)]
    [False]
    >>> [line.passed for line in jump_evidence(F, noise + F * late)]
    [False]
    """
    if len(residual) < MIN_ROWS:
        return ()
    p_values = {
        "an offset": _jump_p_value(residual, correlation),
        "a change of size": _jump_p_value(residual * F, correlation),
    }
    name = min(p_values, key=lambda key: p_values[key])
    return (
        Evidence(
            f"p-value of the test for {name} from some row on",
            min(1.0, 2 * p_values[name]),
            LEVEL,
            ">=",
            "the rows are of one kind",
            key=Check.JUMP,
        ),
    )


def _jump_p_value(terms: Array, correlation: float) -> float:
    """Return (2) for the largest of (1). Shapes: terms (n, m)."""
    n = len(terms)
    turned = np.ascontiguousarray(terms.T)  # rows come last: sums over them are fast
    turned = turned - turned.mean(axis=1)[:, None]
    products = turned @ turned.T
    u = inverse_root(products, np.diag(products)).T @ turned * np.sqrt(n)
    m, shortest = len(u), max(int(END * n), 1)
    sums = np.cumsum(u, axis=1)[:, shortest - 1 : n - shortest]
    rows = np.arange(shortest, n - shortest + 1)
    spread = rows * (1 - rows / n) * (1 + correlation) / (1 - correlation)
    x = float((np.einsum("mn,mn->n", sums, sums) / spread).max(initial=0.0))
    if not m or x <= m + 2:  # about the middle of (1): (2) is for large values
        return 1.0
    log_tail = m / 2 * np.log(x / 2) - x / 2 - special.gammaln(m / 2)
    return float(min(1.0, np.exp(log_tail) * ((1 - m / x) * 2 * np.log((n - shortest) / shortest) + 2 / x)))
