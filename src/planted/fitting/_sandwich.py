r"""Standard errors for noise of any variance: the sandwich estimate and the bootstrap.

Problem     The standard errors of `_standard_errors` assume noise of one variance. If the noise grows with x, or
            differs between outputs, they are too small or too large.
Idea        *Sandwich.* The estimate is a sum of influences of rows. With the projected masked inputs
            :math:`\tilde Z = Z - G (G^\top G)^{-1} G^\top Z` and the score
            :math:`s_i = \sum_l r_{il} (a_l \otimes 1) \circ \tilde z_i`, row i moves V by
            :math:`\psi_i = T (T^\top N T)^{-1} T^\top s_i` and the output weights by :math:`(G^\top G)^{-1} (g_i
            r_{il} - G^\top Z (a_l \otimes 1) \circ \psi_i)`. The squares of these influences, summed over rows and
            expressed in the user's units, are variances for any noise, as long as the rows are independent. A row
            that pulls the fit towards itself has too small a residual, which is divided by one minus its leverage,
            the mean over outputs (HC3).

            *Correlated rows.* If the noise of neighbouring rows is correlated, products of the influences of rows at
            lags up to L are added, with weights that fall linearly to zero (Newey and West). L is twice that of
            Andrews for noise whose correlation falls geometrically. Such sums are too small and vary; standard errors are
            enlarged by the ratio of the 97.5 % quantile of the t-statistic at b = (L + 1) / n, after Kiefer and
            Vogelsang, to that of the normal law. The quantile is that of the sums as they are: if those below zero were
            left out as well, intervals of inputs that are independent from row to row would cover 97 %.

            *Bootstrap.* Refit on rows drawn with replacement; the spread of the fits is the standard error.
Guarantee   All are asymptotic; sandwich without lags and bootstrap are for independent rows. Products across the
            boundary of two blocks of rows are left out.
Cost        Sandwich: one pass, O(n (k p)²). Bootstrap: n_boot refinements on the rows in memory.
References  Newey and West (1987), Econometrica 55; MacKinnon and White (1985), J. Econometrics 29; Andrews (1991),
            Econometrica 59; Kiefer and Vogelsang (2005), Econometric Theory 21.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array, as_array
from planted.fitting._jacobian import degrees_of_freedom, hidden_changes, tangent_basis
from planted.fitting._refine import Refinement, reduced_normal_matrix, refine
from planted.fitting._run import Problem, Scaling
from planted.moments import augment, n_output_columns, output_columns
from planted.results import Unavailable, Uncertainty
from planted.rows import RowBlocks, RowWeights, Sums, accumulate

__all__ = ["bootstrap_errors", "long_run_deviation", "sandwich_errors"]

SLICE = 1024
SMALLEST_REST = 0.1  # one minus the leverage of a row: a row that determines a parameter alone has none
LARGEST_CORRELATION = 0.97
QUANTILE_OF_LAGS = (-0.5324, 0.4160, 2.9694, 1.9600)  # in powers of b, for weights that fall linearly


def sandwich_errors(
    problem: Problem,
    fit: Refinement,
    *,
    offset: bool,
    biases: bool = True,
    weights: RowWeights | None = None,
    mixing: Array | None = None,
    correlation: float = 0.0,
) -> Uncertainty | Unavailable:
    """Return standard errors that hold for noise of any shape.

    `weights`: those of the fit. `mixing`: maps the fit's outputs to those of the user, where they were whitened; the
    identity if omitted. `correlation`: of the noise of neighbouring rows; zero for independent rows. Shapes: mixing
    (m, m).
    """
    net = fit.network
    freedom = problem.n_samples * net.n_outputs - degrees_of_freedom(net, offset=offset, biases=biases)
    T = tangent_basis(net, biases=biases)
    N = T.T @ reduced_normal_matrix(fit.sums, net, offset=offset) @ T
    if freedom <= 0 or (N.size and np.linalg.cond(N) > 1 / np.finfo(float).eps):
        return Unavailable("The samples do not determine the network even locally.")
    spread = T @ linalg.solve(N, T.T, assume_a="pos", check_finite=False)
    mixing = np.eye(net.n_outputs) if mixing is None else mixing
    lags = _lags(correlation, problem.n_samples)
    summand = _InfluenceSummand(fit, spread, problem.scaling, offset, mixing, lags, weights)
    totals = accumulate(problem.blocks, summand)
    # With weights that fall linearly the sum is that of a square: below zero is rounding alone.
    variances = {name: np.maximum(squares + lagged, 0.0) for name, (squares, lagged) in totals.parts()}
    enlarged = _enlarged(lags, problem.n_samples)
    errors = {name: enlarged * np.sqrt(value) for name, value in variances.items()}
    noise = float(np.sqrt(fit.cost / freedom)) * problem.scaling.y_scale
    return Uncertainty(errors, noise, kind="newey-west" if lags else "sandwich")


def long_run_deviation(terms: Array, correlation: float) -> float:
    """Return the standard deviation of a sum of terms of mean zero, one for each row.

    `correlation`: of neighbouring rows; zero for independent ones. Shapes: terms (n,).
    """
    lags = _lags(correlation, len(terms))
    squares, lagged = _lagged_squares(terms, 0, lags)
    return float(_enlarged(lags, len(terms)) * np.sqrt(np.maximum(squares + lagged, 0.0)))


def _enlarged(lags: int, n_rows: int) -> float:
    """Return by how much standard errors with lags are enlarged."""
    return float(np.polyval(QUANTILE_OF_LAGS, (lags + 1) / n_rows) / QUANTILE_OF_LAGS[-1]) if lags else 1.0


def _lags(correlation: float, n_rows: int) -> int:
    """Return the largest lag: Andrews' bandwidth for noise of a given correlation of neighbouring rows."""
    if not correlation:
        return 0
    rho = min(abs(correlation), LARGEST_CORRELATION)
    alpha = 4 * rho**2 / (1 - rho**2) ** 2
    return int(np.clip(np.ceil(2 * 1.1447 * np.cbrt(alpha * n_rows)), 1, min(SLICE // 4, n_rows // 4)))


@dataclass(frozen=True, slots=True)
class InfluenceSums(Sums):
    """Squared influences of rows on every parameter, and their products at lags, in the user's units."""

    W: Array  # (2, k, d)
    b: Array  # (2, k)
    A: Array  # (2, m, k)
    c: Array  # (2, m)
    B: Array  # (2, m, d), or (2, m, 0) if there is no linear part

    def parts(self) -> Iterator[tuple[str, Array]]:
        """Yield the sums of each parameter by its name."""
        for name in "WbAcB" if self.B.size else "WbAc":
            yield name, getattr(self, name)


@dataclass(frozen=True, slots=True)
class _InfluenceSummand:
    """The squared influences at a fit."""

    fit: Refinement
    spread: Array
    units: Scaling
    offset: bool
    mixing: Array
    lags: int
    weights: RowWeights | None

    def __call__(self, first_row: int, X: Array, Y: Array) -> InfluenceSums:
        w = np.ones(len(X)) if self.weights is None else self.weights(first_row, X, Y)
        parts = []
        for start in range(0, len(X), SLICE):
            begin = max(start - self.lags, 0)  # rows before the slice are the partners of its first rows
            rows = slice(begin, start + SLICE)
            parts.append(_influence_squares(X[rows], Y[rows], w[rows], start - begin, self))
        total = parts[0]
        for part in parts[1:]:
            total = total.merge(part)
        return total


def _influence_squares(X: Array, Y: Array, w: Array, before: int, at: _InfluenceSummand) -> InfluenceSums:
    """Return the squared influences of some rows, with the products at lags; the first `before` rows are partners only."""
    fit, spread, units, offset = at.fit, at.spread, at.units, at.offset
    net, k, p = fit.network, fit.network.n_hidden, fit.network.n_features + 1
    size = n_output_columns(net, offset=offset)
    t = net.preactivations(X)
    Z = (net.activation.derivative(t)[:, :, None] * augment(X)[:, None, :]).reshape(len(X), k * p)
    G = output_columns(net, net.activation(t), X, offset=offset)
    inverse = linalg.pinvh(fit.sums.GG[:size, :size])
    projected = Z - G @ (inverse @ fit.sums.GZ[:size])
    turning = projected @ (np.kron(net.A.T @ net.A, np.ones((p, p))) * spread)
    leverage = w * ((turning * projected).sum(axis=1) / net.n_outputs + ((G @ inverse) * G).sum(axis=1))
    residual = (w / np.maximum(1.0 - leverage, SMALLEST_REST))[:, None] * (Y - net(X))
    score = projected * np.repeat(residual @ net.A, p, axis=1)
    psi = score @ spread
    hidden = hidden_changes(psi.T.reshape(k, p, len(X)), net, units)
    changes = np.zeros((net.n_outputs, size, len(X)))
    for index, row in enumerate(net.A):
        own = (G * residual[:, [index]]).T - (fit.sums.GZ[:size] * np.repeat(row, p)) @ psi.T
        changes[index] = hidden.output_changes(inverse @ own, row, net)
    changes = np.tensordot(at.mixing, changes, axes=1) * units.y_scale
    outputs = np.zeros((2, net.n_outputs, n_output_columns(net, offset=True)))
    outputs[:, :, :size] = _lagged_squares(changes, before, at.lags)
    return InfluenceSums(
        _lagged_squares(hidden.dW, before, at.lags),
        _lagged_squares(hidden.db, before, at.lags),
        outputs[:, :, :k],
        outputs[:, :, -1],
        outputs[:, :, k:-1],
    )


def _lagged_squares(influence: Array, before: int, lags: int) -> Array:
    """Sum squares over rows, the last axis, and beside them the products at lags, with weights that fall linearly.

    Shapes: influence (..., rows), result (2, ...).
    """
    squares = as_array((influence[..., before:] ** 2).sum(axis=-1))
    lagged = np.zeros_like(squares)
    for lag in range(1, lags + 1):
        start = max(before, lag)
        products = influence[..., start:] * influence[..., start - lag : influence.shape[-1] - lag]
        lagged = lagged + 2 * (1 - lag / (lags + 1)) * products.sum(axis=-1)
    return np.stack([squares, lagged])


def bootstrap_errors(
    problem: Problem, fit: Refinement, *, offset: bool, n_boot: int = 200
) -> Uncertainty | Unavailable:
    """Return standard errors from refits on rows drawn with replacement.

    `problem`: the standardised problem; its rows in memory are drawn from.
    """
    if not problem.holds_all_rows:
        return Unavailable(
            f"The bootstrap needs all rows in memory; {len(problem.X)} of {problem.n_samples} are."
        )
    found: dict[str, list[Array]] = {name: [] for name in fit.network.parts}
    for index in range(n_boot):
        problem.progress(f"bootstrap refit {index + 1} of {n_boot}", index / n_boot)
        rows = problem.rng.integers(0, len(problem.X), len(problem.X))
        refit = refine(
            RowBlocks.from_arrays(problem.X[rows], problem.Y[rows]), fit.network, offset=offset, max_iter=30
        )
        network = problem.scaling.restore(refit.network)
        for name, values in found.items():
            values.append(getattr(network, name))
    errors = {name: np.std(np.array(values), axis=0, ddof=1) for name, values in found.items()}
    freedom = problem.n_samples * problem.n_outputs - degrees_of_freedom(fit.network, offset=offset)
    noise = float(np.sqrt(fit.cost / max(freedom, 1))) * problem.scaling.y_scale
    return Uncertainty(errors, noise, kind="bootstrap")
