r"""Tests of the noise's second moments: does its variance depend on x, on the network's slope, on the order of rows?

Problem     Standard errors assume independent noise of one variance. If the variance depends on x, or the noise of
            neighbouring rows is correlated, other standard errors are right. If the *inputs* are noisy, no standard
            error is: the estimate itself is biased, because the mean of y given the measured x is not the network.
Idea        *Variance* (Breusch–Pagan, White, with Koenker's studentising). The squared residual of each output is
            regressed on x, on the squares of x, on the prediction, its square, and on the squared gradient of the
            prediction; n R² is a χ² if the variance is constant.

            *Noisy inputs.* Noise η on x moves an output by :math:`\nabla f^\top \eta`, so that the variance rises
            with the squared gradient, which jumps where units switch. Of the same regression the coefficient of the
            squared gradient is tested: noise that depends on x or on the prediction smoothly is explained by the
            other terms. The same η moves all outputs. So the product of the residuals of two outputs rises with the
            product :math:`\nabla f_o^\top \nabla f_p` of their gradients, while noise of the labels themselves
            leaves it alone, however its variance depends on x. One output has no pairs: there the squared slope along each
            input is tested alone as well. The sum over all pairs of outputs, with the mean of every
            pair and what the product of the two predictions explains taken out, is the stronger test of the two. It is
            made for noise on all inputs alike, and on each alone.

            *Order.* With u the whitened residual, :math:`\sum_i u_i^\top u_{i-h}` over the root of its sum of squares
            is standard normal for every lag h if rows are independent, whatever their variances; the sum of squares
            over lags up to `LAGS` is a χ² (Box–Pierce). Correlated noise is answered with standard errors for it. An offset
            that drifts, or jumps at some row, is no noise: rows far apart then agree as much as neighbours do, while the
            correlation of noise falls geometrically. That is tested, and speaks against a claim.
Guarantee   Asymptotic levels. Correlation is looked for between consecutive rows only; rows in random order show none.
Cost        Regressions of 2 d + 4 columns on the rows in memory; lags on the rows in memory if these are all rows, in
            one pass otherwise. Pairs of outputs are summed by row, none is formed.
References  Breusch and Pagan (1979); Koenker (1981), J. Econometrics 17; White (1980); Box and Pierce (1970).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, special, stats

from planted._typing import Array, IntArray, as_array
from planted.certificates._parts import model_uncertainty, with_curvature
from planted.certificates._residual import inverse_root
from planted.certificates.noise._fitted_rows import FittedRows
from planted.checks import Check
from planted.fitting._jacobian import Information
from planted.fitting._refine import Refinement
from planted.fitting._run import Problem
from planted.fitting._sandwich import sandwich_errors
from planted.linalg.symmetric import symmetric_pairs
from planted.networks import TwoLayerNetwork
from planted.results import Evidence, Unavailable, Uncertainty
from planted.rows import RowWeights, Sums, accumulate

__all__ = ["NoiseLaw", "independence", "noise_law", "spread_evidence", "standard_errors_under"]

LEVEL = 0.01  # of the tests that choose the standard errors
SPREAD_LEVEL = 1e-3  # of the test that a robust loss needs
FAR = 3.0  # scales of the residual at which it is clipped
# Levels of the tests for noise on the inputs. One output has one test, of little power: noise of 20 per cent left scores of
# 2.0 to 2.9, where the limit is 2.33. Several outputs have d + 2 tests, at this level together.
NOISY_INPUTS_OF_ONE, NOISY_INPUTS = 0.01, 0.002
PRODUCTS = 50_000  # of slopes of two units that are held at a time
PAIR_PRODUCTS = 2e8  # of two outputs, with gradients for one input: rows are left out beyond
DEPENDENT = 1e-8  # part of a column outside the others below which it is one of their combinations
MUCH_OUTSIDE = 0.1  # the same: above, rounding leaves nothing that has to be taken out again
FAR_FROM_DEPENDENT = 1e-3  # the same: above, products of the columns lose no digits that matter
LAGS = 10
FAR_LAGS = (6, 7, 8, 9, 10)
DRIFT = 3.5  # standard errors; noise of correlation 0 to 0.9 gave at most 2.7 in 240 draws
LARGEST_CORRELATION = 0.97
MIN_ROWS = 60


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """What the residual says about the law of the noise."""

    variance_p_value: float  # of constant variance
    gradient_score: float  # rise of the variance with the gradients, in standard errors
    order_p_value: float  # of independent rows
    correlation: float  # of neighbouring rows
    gradient_limit: float  # the largest score without noise on the inputs
    drift_score: float = (
        0.0  # correlation of rows far apart beyond what that of neighbours explains, in standard errors
    )

    @property
    def is_unequal(self) -> bool:
        """Whether the variance depends on x."""
        return self.variance_p_value < LEVEL

    @property
    def is_ordered(self) -> bool:
        """Whether neighbouring rows are correlated."""
        return self.order_p_value < LEVEL

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The lines of a certificate: two that choose the standard errors, and two that must hold."""
        return (
            Evidence(
                "p-value of the test that the noise's variance ignores x",
                self.variance_p_value,
                equation="Breusch-Pagan",
                key=Check.NOISE_VARIANCE,
            ),
            Evidence(
                "p-value of the test that the noise ignores the order of rows",
                self.order_p_value,
                equation="Box-Pierce",
                key=Check.NOISE_ORDER,
            ),
            Evidence(
                f"agreement of rows {FAR_LAGS[0]} to {LAGS} apart beyond that of neighbours, in standard errors",
                self.drift_score,
                DRIFT,
                "<=",
                "drift",
                key=Check.NOISE_ORDER,
            ),
            Evidence(
                "rise of the noise's variance with the squared slope of the network, in standard errors",
                self.gradient_score,
                self.gradient_limit,
                "<=",
                "noise on the inputs",
                key=Check.NOISY_INPUTS,
            ),
        )


def noise_law(
    problem: Problem,
    network: TwoLayerNetwork,
    *,
    weights: RowWeights | None = None,
    at: FittedRows | None = None,
) -> NoiseLaw:
    """Test the residual of a network; `at`: the network at the rows in memory, if that was computed already."""
    at = at or FittedRows(problem, network, weights)
    X, F, residual = at.X.T, at.F.T, at.weighted_residual.T
    variance, gradient = _variance_tests(X, F, residual, network)
    gradient = max(gradient, _pair_score(X, F, residual, network))
    level = NOISY_INPUTS_OF_ONE if network.n_outputs == 1 else NOISY_INPUTS / (network.n_features + 2)
    order, correlation, drift = _order_test(problem, network, residual, weights)
    return NoiseLaw(variance, gradient, order, correlation, float(-special.ndtri(level)), drift)


def standard_errors_under(
    law: NoiseLaw,
    problem: Problem,
    fit: Refinement,
    *,
    offset: bool,
    biases: bool = True,
    weights: RowWeights | None = None,
    known: Information | None = None,
) -> Uncertainty | Unavailable:
    """Return the standard errors that are right under a law of noise: those of the model, unless it was rejected.

    `known`: what the rows say about the parameters in other units.
    """
    network = problem.scaling.restore(fit.network)
    if not (law.is_unequal or law.is_ordered):
        return with_curvature(model_uncertainty(problem, fit, offset, biases, known), network)
    correlation = law.correlation if law.is_ordered else 0.0
    errors = sandwich_errors(
        problem, fit, offset=offset, biases=biases, weights=weights, correlation=correlation
    )
    return with_curvature(errors, network)


def spread_evidence(X: Array, F: Array, residual: Array) -> Evidence:
    """Test whether the spread of the noise ignores x, from clipped absolute residuals: outliers do not decide.

    The standard errors of a robust loss rest on the density of the noise at zero, one for all samples.
    Shapes: X (n, d), F (n, m), residual (n, m).
    """
    sizes = np.minimum(np.abs(residual), FAR * 1.4826 * np.median(np.abs(residual), axis=0))
    return Evidence(
        "p-value of the test that the spread of the noise ignores x, for a robust loss",
        independence(X, F, sizes),
        SPREAD_LEVEL,
        ">=",
        "Koenker",
        key=Check.NOISE_SPREAD,
    )


def independence(X: Array, F: Array, sizes: Array) -> float:
    """Return the p-value of the test that sizes ignore x, of all outputs together.

    Those of each output are regressed on the inputs, its prediction and their squares: n R² is a χ². Shapes: X (n, d),
    F, the predictions, and sizes, (n, m).
    """
    p_values = [_size_p_value(X, F[:, [output]], column) for output, column in enumerate(sizes.T)]
    return min(1.0, min(p_values) * len(p_values))


def _size_p_value(X: Array, F: Array, sizes: Array) -> float:
    """Return the p-value for one output. Shapes: F (n, 1), sizes (n,)."""
    columns = np.hstack([X, X**2, F, F**2])
    n, width = columns.shape
    centred = sizes - sizes.mean()
    total = float(centred @ centred)
    if n < max(MIN_ROWS, 5 * width) or total <= 0:
        return 1.0
    Q = linalg.orth(columns - columns.mean(axis=0))
    return float(stats.chi2.sf(n * float(((Q.T @ centred) ** 2).sum()) / total, Q.shape[1]))


def _variance_tests(X: Array, F: Array, residual: Array, network: TwoLayerNetwork) -> tuple[float, float]:
    """Return the p-value of constant variance, and the score of the squared gradient, over all outputs."""
    n, d = X.shape
    width = 2 * d + 4
    if n < max(MIN_ROWS, 5 * width):
        return 1.0, 0.0
    squares = np.ascontiguousarray(residual.T) ** 2  # rows come last here: sums over them are fast
    squares -= squares.mean(axis=1)[:, None]
    totals = np.einsum("mn,mn->m", squares, squares)
    tested = totals > 0
    if not tested.any():
        return 1.0, 0.0
    squares, totals, F = squares[tested], totals[tested], F.T[tested]
    turned = np.empty((2 * d + 1, n))
    turned[0], turned[1 : d + 1] = 1.0, X.T
    np.square(turned[1 : d + 1], out=turned[d + 1 :])
    base = _orthonormal_rows(turned)
    in_base = squares @ base.T
    own = np.empty((len(F), 3, n))
    own[:, 0], own[:, 2] = F, _squared_gradients(X, network)[tested]
    np.square(own[:, 0], out=own[:, 1])
    lengths = _lengths(own)
    Q, outside = own, _make_orthonormal(own, base)
    kept = outside > DEPENDENT * lengths
    parts = np.where(kept, (Q @ squares[:, :, None])[:, :, 0], 0.0)  # (outputs, 3)
    explained = (in_base[:, 1:] ** 2).sum(axis=1) + (parts**2).sum(axis=1)
    p_values = special.chdtrc(len(base) - 1 + kept.sum(axis=1), n * explained / totals)
    squares -= in_base @ base
    squares -= (parts[:, None] @ Q)[:, 0]
    # White's standard error: squared residuals are themselves of unequal variance.
    squares *= Q[:, -1]
    errors = _lengths(squares)
    scores = (parts[:, -1] / np.maximum(errors, np.finfo(float).tiny))[kept[:, -1]]
    pooled = float(scores.sum() / np.sqrt(len(scores))) if len(scores) else 0.0
    if network.n_outputs == 1:  # several have pairs of outputs
        pooled = max(pooled, _single_input_score(X, network, residual[:, 0], np.vstack([base, Q[0, :2]])))
    return min(1.0, float(p_values.min()) * len(p_values)), max(pooled, 0.0)


def _single_input_score(X: Array, network: TwoLayerNetwork, residual: Array, base: Array) -> float:
    """Return how squared residuals of one output rise with its squared slope along one input, in standard errors.

    The largest of d scores, less what the largest of so many is by chance. `base`: orthonormal rows that explain the
    variance otherwise, (p, n). Where units share an input with opposite signs, noise on it shows where one of them is on,
    and hardly where both are: the slope along all inputs does not follow that.
    """
    slopes = _Gradients.of(X, network).along(np.ones((1, len(X)))) ** 2  # (d, n)
    lengths, squares = _lengths(slopes), residual**2
    squares = squares - (base @ squares) @ base
    outside = slopes - (slopes @ base.T) @ base
    kept = _lengths(outside) > DEPENDENT * np.maximum(lengths, np.finfo(float).tiny)
    scores = [_standardised(row * squares) for row in outside[kept]]
    if not scores:
        return 0.0
    return float(max(special.ndtri(1 - min(0.5, len(scores) * special.ndtr(-max(scores)))), 0.0))


def _lengths(rows: Array) -> Array:
    """Return Euclidean lengths along the last axis, without an array of squares."""
    return as_array(np.sqrt(np.einsum("...n,...n->...", rows, rows)))


def _orthonormal_rows(rows: Array) -> Array:
    """Return an orthonormal basis of some long rows, the first along the first.

    Cholesky's factor of their products gives it in a fifth of the time of Householder's way, again for what rounding left
    if little was left outside the others, unless they are close to dependent. Shapes: rows (p, n), result (rank, n).
    """
    turned = rows / np.maximum(_lengths(rows), np.finfo(float).tiny)[:, None]
    least = 0.0
    while least < MUCH_OUTSIDE:
        factor, is_singular = linalg.lapack.dpotrf(turned @ turned.T)
        if is_singular or np.diag(factor).min() < FAR_FROM_DEPENDENT:
            Q, R = linalg.qr(rows.T, mode="economic", check_finite=False)
            kept = np.abs(np.diag(R)) > DEPENDENT * np.linalg.norm(R, axis=0)
            return np.ascontiguousarray(Q[:, kept].T)
        turned, least = linalg.lapack.dtrtri(factor)[0].T @ turned, float(np.diag(factor).min())
    return as_array(turned)


def _make_orthonormal(Q: Array, base: Array) -> Array:
    """Make each set of columns orthonormal, outside an orthonormal base, where they are; return what of each was outside.

    Gram and Schmidt's way, all sets at once, twice for what rounding left if little was left. Shapes: Q (m, c, n), base
    (p, n), result (m, c).
    """
    outside = np.empty(Q.shape[:2])
    long = Q.reshape(-1, Q.shape[2])
    before = _lengths(long)
    long -= (long @ base.T) @ base
    if (_lengths(long) < MUCH_OUTSIDE * before).any():
        long -= (long @ base.T) @ base
    for place in range(Q.shape[1]):
        column = Q[:, place]
        for _ in range(2):
            before = _lengths(column)
            for earlier in range(place):
                q = Q[:, earlier]
                column -= np.einsum("mn,mn->m", q, column)[:, None] * q
            outside[:, place] = _lengths(column)
            if (outside[:, place] >= MUCH_OUTSIDE * before).all():
                break
        column /= np.maximum(outside[:, place], np.finfo(float).tiny)[:, None]
    return outside


@dataclass(frozen=True, slots=True)
class _Gradients:
    """Gradients of the outputs at some rows: that of output o for input i is the sum of A_oj W_ji L_j over units j.

    A linear part is that of further units, one for each output, whose slope is one. Sums of products of two gradients are
    then sums over pairs of units, of products of their slopes; rows come last here, so that these are long vectors.
    """

    L: Array  # (k, n): slopes of the units
    W: Array  # (k, d): their weights
    A: Array  # (m, k): their output weights

    @classmethod
    def of(cls, X: Array, network: TwoLayerNetwork) -> _Gradients:
        """Take the slopes at these rows."""
        slopes = network.activation.derivative(network.W @ X.T + network.b[:, None])
        if network.B is None:
            return cls(slopes, network.W, network.A)
        m = network.n_outputs
        L = np.vstack([slopes, np.ones((m, len(X)))])
        return cls(L, np.vstack([network.W, network.B]), np.hstack([network.A, np.eye(m)]))

    @property
    def pairs(self) -> tuple[IntArray, IntArray, Array]:
        """Pairs of units j <= l, and how often each occurs in a sum over all of them."""
        first, second = symmetric_pairs(len(self.L))
        return first, second, np.where(first == second, 1.0, 2.0)

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Give the products of the slopes of pairs for some rows at a time, (pairs, rows): in memory that the next take."""
        first, n = self.pairs[0], self.L.shape[1]
        rows = min(max(PRODUCTS // max(len(first), 1), 1), n)
        memory = np.empty((len(first), rows))  # one for all blocks: fresh memory takes longer
        places = np.searchsorted(first, np.arange(len(self.L) + 1))
        for start in range(0, n, rows):
            here = slice(start, start + rows)
            L = np.ascontiguousarray(self.L[:, here])
            products = memory.ravel()[: len(first) * L.shape[1]].reshape(-1, L.shape[1])
            for unit, row in enumerate(L):
                np.multiply(row, L[unit:], out=products[places[unit] : places[unit + 1]])
            yield here, products

    def along(self, U: Array) -> Array:
        """Return the slope along each input of a combination of the outputs at each row.

        Shapes: U (m, n), result (d, n).
        """
        return as_array(self.W.T @ (self.L * (self.A.T @ U)))

    def moments(self) -> Array:
        """Return the mean products of the gradients of two outputs, for each input; (d, m, m)."""
        C = self.W.T[:, None, :] * self.A
        return as_array(C @ (self.L @ self.L.T / self.L.shape[1]) @ C.transpose(0, 2, 1))


def _squared_gradients(X: Array, network: TwoLayerNetwork) -> Array:
    """Return the squared norm of the gradient of each output at each row, (m, n)."""
    gradients = _Gradients.of(X, network)
    first, second, times = gradients.pairs
    W, A = gradients.W, gradients.A
    weights = A[:, first] * A[:, second] * (times * (W @ W.T)[first, second])
    squares = np.empty((network.n_outputs, len(X)))
    for here, products in gradients.blocks():
        np.matmul(weights, products, out=squares[:, here])
    return squares


def _pair_score(X: Array, F: Array, residual: Array, network: TwoLayerNetwork) -> float:
    """Return how products of the residuals of two outputs rise with products of their gradients, in standard errors.

    The largest of d + 1 scores: for noise on all inputs alike, and on each of them alone.
    """
    m, d = network.n_outputs, network.n_features
    scales = _lengths(residual.T) / np.sqrt(max(len(X), 1))
    noisy = scales > 0
    if len(X) < MIN_ROWS or noisy.sum() < 2:
        return 0.0
    rows = int(np.clip(PAIR_PRODUCTS / (m**2 * (d + 1)), MIN_ROWS, len(X)))
    if rows < len(X):
        some = np.linspace(0, len(X) - 1, rows).astype(np.int64)
        X, F, residual = X[some], F[some], residual[some]
    over = scales[noisy, None]
    U, P = (np.ascontiguousarray(values.T)[noisy] / over for values in (residual, F))
    gradients = _Gradients.of(X, network)
    gradients = replace(gradients, A=gradients.A[noisy] / over)
    terms, with_predictions = _gradient_pairs(gradients, U, P)
    explained = max(_squares_of_pairs(P), np.finfo(float).tiny)
    terms -= (with_predictions / explained)[:, None] * _pairs(P, U)
    # The products of gradients are sums over inputs.
    return max(_standardised(column) for column in (*terms, terms.sum(axis=0)))


def _standardised(terms: Array) -> float:
    return float(terms.sum() / max(np.linalg.norm(terms), np.finfo(float).tiny))


def _gradient_pairs(gradients: _Gradients, U: Array, P: Array) -> tuple[Array, Array]:
    r"""Return `_pairs` of the gradients for each input with U, and with P, there summed over rows.

    With v a row of gradients, V the mean of v vᵀ, and u, U likewise, `_pairs` is half of

    .. math:: (v^\top u)^2 - v^\top U v - \sum_o v_o^2 (u_o^2 - U_{oo}) + \sum_{o \ne p} V_{op} (U_{op} - u_o u_p).

    The second and the third term are sums over pairs of units j and l: of :math:`W_{ji} W_{li} L_j L_l` times
    :math:`\sum_{op} A_{oj} A_{pl} U_{op} + \sum_o A_{oj} A_{ol} (u_o^2 - U_{oo})`.
    Shapes: U, P (q, n), results (d, n) and (d,).
    """
    q, n = U.shape
    W, A = gradients.W, gradients.A
    of_u, of_p = U @ U.T / n, P @ P.T / n
    across = gradients.moments() * (1 - np.eye(q))  # products of two outputs
    with_p = (gradients.along(P) ** 2).sum(axis=1) - n * (across * of_p).sum(axis=(1, 2))
    terms = gradients.along(U)
    terms *= terms
    terms += (across * of_u).sum(axis=(1, 2))[:, None]
    one, other = np.triu_indices(q, 1)
    twice = 2 * across[:, one, other]
    first, second, times = gradients.pairs
    inputs, outputs = (W[first] * W[second] * times[:, None]).T, (A[:, first] * A[:, second]).T
    level = (A.T @ of_u @ A)[first, second] - outputs @ np.diag(of_u)
    with_squares = np.zeros_like(outputs)
    for here, products in gradients.blocks():
        u = np.ascontiguousarray(U[:, here])
        with_squares += products @ (P[:, here] ** 2).T
        weights = outputs @ u**2
        weights += level[:, None]
        weights *= products
        terms[:, here] -= inputs @ weights + twice @ (u[one] * u[other])
    with_p -= inputs @ (with_squares * outputs).sum(axis=1)
    return terms / 2, with_p / 2


def _pairs(V: Array, U: Array) -> Array:
    """Sum (vvᵀ - mean)ₒₚ (uuᵀ - mean)ₒₚ over the pairs o < p of each row, without forming them.

    Shapes: V (q, n), U (q, n), result (n,).
    """
    of_v, of_u = V @ V.T / V.shape[1], U @ U.T / U.shape[1]
    squares = V * U
    total = squares.sum(axis=0) ** 2 + (of_v * of_u).sum()
    total -= ((of_u @ V) * V).sum(axis=0)
    total -= ((of_v @ U) * U).sum(axis=0)
    total -= ((V**2 - np.diag(of_v)[:, None]) * (U**2 - np.diag(of_u)[:, None])).sum(axis=0)
    return as_array(total / 2)


def _squares_of_pairs(V: Array) -> float:
    """Return the sum over rows of `_pairs` of V with itself: what is linear in V Vᵀ - mean sums to zero."""
    of_v, squares = V @ V.T / V.shape[1], V**2
    total = float((squares.sum(axis=0) ** 2).sum()) - V.shape[1] * float((of_v**2).sum())
    return float(total - ((squares - np.diag(of_v)[:, None]) ** 2).sum()) / 2


def _order_test(
    problem: Problem, network: TwoLayerNetwork, residual: Array, weights: RowWeights | None
) -> tuple[float, float, float]:
    """Return the p-value of independent rows, the correlation of neighbouring ones, and the score of a drift."""
    if problem.n_samples < MIN_ROWS:
        return 1.0, 0.0, 0.0
    products = residual.T @ residual
    whiten = inverse_root(products, np.diag(products)) * np.sqrt(len(residual))
    if problem.holds_all_rows:
        sums = _lag_sums(residual @ whiten)
    else:
        sums = accumulate(problem.blocks, _LagSummand(network, whiten, weights))
    scores = sums.products[1:] / np.sqrt(np.maximum(sums.squares[1:], np.finfo(float).tiny))
    correlation = float(sums.products[1] / max(sums.products[0], np.finfo(float).tiny))
    return float(special.chdtrc(LAGS, (scores**2).sum())), correlation, _drift_score(sums, correlation)


def _drift_score(sums: LagSums, correlation: float) -> float:
    """Return how far rows at the largest lags agree beyond a geometric fall from that of neighbours.

    Correlations of noise that falls so vary by (1 + r²) / (1 - r²) more than those of independent rows (Bartlett), and
    those of several lags by (1 + r) / (1 - r) together.
    """
    near = float(np.clip(correlation, 0.0, LARGEST_CORRELATION))
    expected = sums.products[0] * near ** np.array(FAR_LAGS)
    enlarged = (1 + near**2) / (1 - near) ** 2
    error = np.sqrt(enlarged * sums.squares[list(FAR_LAGS)].sum())
    return float((sums.products[list(FAR_LAGS)] - expected).sum() / max(error, np.finfo(float).tiny))


@dataclass(frozen=True, slots=True)
class LagSums(Sums):
    """Products of the whitened residuals of rows at lags 0 to `LAGS`, summed over pairs, and their squares."""

    products: Array  # (LAGS + 1,)
    squares: Array  # (LAGS + 1,)


@dataclass(frozen=True, slots=True)
class _LagSummand:
    """The lagged products within a block."""

    network: TwoLayerNetwork
    whiten: Array
    weights: RowWeights | None

    def __call__(self, first_row: int, X: Array, Y: Array) -> LagSums:
        root = 1.0 if self.weights is None else np.sqrt(self.weights(first_row, X, Y))[:, None]
        return _lag_sums(root * (Y - self.network(X)) @ self.whiten)


def _lag_sums(u: Array) -> LagSums:
    products, squares = np.zeros(LAGS + 1), np.zeros(LAGS + 1)
    for lag in range(min(LAGS + 1, len(u))):
        pairs = np.einsum("no,no->n", u[lag:], u[: len(u) - lag])
        products[lag], squares[lag] = pairs.sum(), pairs @ pairs
    return LagSums(products, squares)
