r"""Tests whether rows were chosen by their labels: the efficient score of a power of the label.

Problem     Rows may be missing because of what was measured: large values are discarded, small ones not reported. If a row
            is kept with a chance s(y), labels at x have the density :math:`\phi(y - f(x))\, s(y)` up to a factor: their
            mean leaves the network, by more where s is steep. The weights follow most of it, up to many standard errors,
            and what is left in the mean, in the variance and in the skewness of the residual is too little for tests of
            each of them.
Idea        All three belong together. For :math:`\log s = -\theta g(y)` the derivative of the log-likelihood at θ = 0 is
            :math:`-\sum_i (g(y_i) - E[g \mid x_i])`. With a and e the prediction and the residual of an output, over the
            size of the former, :math:`g = (a + e)^3` and :math:`(a + e)^4` give

            .. math:: T_3 = \sum 3 a^2 e + 3 \tilde a\, \varepsilon_2, \qquad
                      T_4 = \sum 4 a^3 e + 6 \widetilde{a^2}\, \varepsilon_2 + 4 \tilde a\, \varepsilon_3,      \quad (1)

            where a tilde takes the mean out, and :math:`\varepsilon_q` is :math:`e^q` without its mean and its regression
            on e: functions of e alone belong to the law of the noise, which nobody knows. Terms a e are inside the Jacobian.
            What the Jacobian takes of :math:`a^2 e` and :math:`a^3 e` is taken out, as for the departures beside a network;
            the other terms are uncorrelated with these. So the covariance of (1) is the sum of both parts', and

            .. math:: \chi^2 = T^\top V^{-1} T                                                                  \quad (2)

            has two degrees of freedom in each output. Lower powers of g leave nothing outside the Jacobian.
Guarantee   Asymptotic level, whatever the law of the noise, if it is the same for all rows. Noise whose variance follows the
            prediction is refused too. A choice by s(y) with a quadratic logarithm cannot be seen: it is another network with
            other noise.
Cost        A few sums over the rows in memory for each output.
References  Rao (1948) for the score; Heckman (1979), Econometrica 47, for what such a choice does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special

from planted._typing import Array
from planted.checks import Check
from planted.results import Evidence

__all__ = ["chosen_rows_evidence"]

LEVEL = 0.01  # of all outputs together
DEPENDENT = (
    1e-10  # smaller over larger eigenvalue of the correlations of (1) at which one of the two says nothing
)


def chosen_rows_evidence(
    added: Array, residual: Array, along: Array, covariances: Sequence[Array]
) -> tuple[Evidence, ...]:
    """Return the line on rows that were chosen by the label of some output.

    `added`: what the units and the linear part add up to; `along`: products of the residual with what the Jacobian leaves
    of its squares and cubes over its size and its square; `covariances`: of these two, for each output.
    Shapes: added and residual (m, n), along (m, 2), covariances (2, 2) each.
    """
    p_values = [_chosen_p_value(*output) for output in zip(added, residual, along, covariances, strict=True)]
    output = int(np.argmin(p_values))
    return (
        Evidence(
            f"p-value of the test whether rows were chosen by the label of output {output + 1}",
            min(1.0, len(p_values) * p_values[output]),
            LEVEL,
            ">=",
            "third and fourth powers",
            key=Check.CHOSEN_ROWS,
        ),
    )


def _chosen_p_value(added: Array, residual: Array, along: Array, covariance: Array) -> float:
    """Return the p-value of (2) for one output. Shapes: added and residual (n,), along (2,), covariance (2, 2)."""
    size = float(np.sqrt(added @ added / len(added)))
    square = float(residual @ residual)
    if size == 0 or square == 0:
        return 1.0
    a, e = added / size, residual / size
    second = e**2
    third = second * e
    for power in (second, third):
        power -= power.mean()
        power -= (power @ e) / (e @ e) * e
    centred, squares = a - a.mean(), a**2
    squares -= squares.mean()
    rest = np.empty((2, len(a)))
    np.multiply(3 * centred, second, out=rest[0])
    np.multiply(6 * squares, second, out=rest[1])
    rest[1] += 4 * centred * third
    factors = np.array([3.0, 4.0]) / size**2
    T = factors * along + rest.sum(axis=1)
    V = np.outer(factors, factors) * covariance + rest @ rest.T
    scales = np.sqrt(np.diag(V))
    if not scales.all():
        return 1.0
    values, vectors = np.linalg.eigh(V / np.outer(scales, scales))
    kept = values > DEPENDENT * values[-1]
    scores = (vectors.T @ (T / scales))[kept] / np.sqrt(values[kept])
    return float(special.chdtrc(kept.sum(), scores @ scores))
