r"""Algorithm 5 of [ATV21]_: from units of unknown sign to a function with small squared error.

Problem     Directions and biases of the visible units are known up to a common sign of (w, b); units with |b| beyond about
            √log(1/ε) are not visible, and for k > d the moments do not determine the signs. Find a function close to the
            network in L2, with a bound that holds.
Idea        1. On rows that were not used for the units regress y on σ(t_i), σ(-t_i), x and 1, t_i = w_i'x + b_i, rows with
               features longer than τ left out and coefficients within a ball (the truncated loss of step 4). Invisible
               units are nearly linear or nearly zero under a normal law, so x and 1 absorb them (Lemma D.13).
            2. v₊σ(t) + v₋σ(-t) = (v₊ + v₋) σ(t) - v₋ t: each pair becomes one unit, the linear rest β₀(w₀'x + b₀) two more
               (Claim D.14), k + 2 in all.
            3. The mean squared error on further rows, with its one-sided 95 % limit (`_hermite_bound`).
Departures  The convex problem of step 4 is solved exactly, by an eigendecomposition of the normal equations and a search for
            the multiplier of the ball, instead of by projected gradient steps. τ and the ball's radius are the paper's,
            with its bound B measured on the units. With several outputs the linear rest takes two units for each of its
            singular directions.
Cost        Two passes; O((2k + d)³) algebra.
References  [ATV21]_
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize

from planted._typing import Array
from planted.checks import Check
from planted.methods.hermite._bound import ErrorBound, bound_error
from planted.methods.hermite._units import Units
from planted.networks import TwoLayerNetwork
from planted.results import Evidence
from planted.rows import RowBlocks, Sums, accumulate

__all__ = ["Approximation", "approximate_function", "consolidate"]

EPSILON = 0.01  # the accuracy ε in τ, in output standard deviations
NO_REST = 1e-10  # size of the linear rest, in output standard deviations, that is none
SINGULAR = 1e-12  # eigenvalues of the normal equations below this part of the largest are exact dependencies


@dataclass(frozen=True, slots=True)
class Approximation:
    """A network close to the target in L2."""

    network: TwoLayerNetwork  # at most two units more than were given, for one output
    error: ErrorBound  # its squared error on rows that were not fitted
    linear_rest: float  # standard deviation of the linear rest
    truncated: float  # share of the fitted rows that the truncation left out

    def evidence(self, function: str = "the network") -> tuple[Evidence, ...]:
        """Return the numbers as lines of evidence."""
        return (
            *self.error.evidence(function),
            Evidence(
                "standard deviation of the linear part beside the units, in output standard deviations",
                self.linear_rest,
                equation="Claim D.14",
                key=Check.LINEAR_REST,
            ),
            Evidence(
                "share of rows that the truncated loss leaves out",
                self.truncated,
                equation="step 4",
                key=Check.TRUNCATED_ROWS,
            ),
        )


def approximate_function(
    fitted: RowBlocks, judged: RowBlocks, units: Units, n_unseen: int = 0
) -> Approximation:
    """Run steps 3 and 4 of Algorithm 5 and consolidate.

    Returns the function and its error.
    """
    k, d = units.W.shape
    tau, radius = _paper_bounds(units, d)
    features = _Features(units.W, units.b)
    sums = accumulate(fitted, _RegressionSummand(features, tau))
    coefficients = _solve_in_ball(sums.GG / sums.used, sums.GY / sums.used, radius)
    network = consolidate(units.W, units.b, coefficients.T)
    rest = coefficients[2 * k : -1].T - coefficients[k : 2 * k].T @ units.W
    return Approximation(
        network,
        bound_error(network, judged, units, n_unseen),
        float(np.linalg.norm(rest)),
        float(1 - sums.used / sums.count),
    )


def consolidate(W: Array, b: Array, coefficients: Array) -> TwoLayerNetwork:
    """Merge pairs of opposite units and turn the linear rest into units (Claim D.14).

    Returns k units and those of the linear rest: two for one output, none if the rest vanishes. Shapes: W (k, d), b
    (k,), coefficients (m, 2 k + d + 1).

    Examples
    --------
    >>> net = consolidate(np.array([[1.0]]), np.zeros(1), np.array([[1.0, 3.0, 0.5, 0.25]]))
    >>> net.n_hidden, net(np.array([[-2.0], [1.0]])).ravel()
    (3, array([5.25, 1.75]))
    """
    k = len(W)
    plus, minus = coefficients[:, :k], coefficients[:, k : 2 * k]
    linear = coefficients[:, 2 * k : -1] - minus @ W
    constant = coefficients[:, -1] - minus @ b
    left, values, right = linalg.svd(linear, full_matrices=False, check_finite=False)
    kept = values > NO_REST
    rows, outputs = right[kept], left[:, kept] * values[kept]
    biases = np.zeros(len(rows))
    if len(constant) == 1 and len(rows) == 1:  # the paper's w_0, b_0 carries the constant
        biases, constant = constant / outputs[0], np.zeros(1)
    return TwoLayerNetwork(
        np.vstack([W, rows, -rows]),
        np.concatenate([b, biases, -biases]),
        np.hstack([plus + minus, outputs, -outputs]),
        constant,
    )


@dataclass(frozen=True, slots=True)
class _Features:
    """The feature map φ(x) = (σ(t), σ(-t), x, 1)."""

    W: Array
    b: Array

    def __call__(self, X: Array) -> Array:
        t = X @ self.W.T + self.b
        return np.hstack([np.maximum(t, 0.0), np.maximum(-t, 0.0), X, np.ones((len(X), 1))])


@dataclass(frozen=True, slots=True)
class _RegressionSums(Sums):
    count: int
    used: int
    GG: Array
    GY: Array


@dataclass(frozen=True, slots=True)
class _RegressionSummand:
    """Normal equations of the truncated loss."""

    features: Callable[[Array], Array]
    tau: float

    def __call__(self, first_row: int, X: Array, Y: Array) -> _RegressionSums:
        G = self.features(X)
        used = (G**2).sum(axis=1) <= self.tau**2
        G = G[used]
        return _RegressionSums(len(X), int(used.sum()), G.T @ G, G.T @ Y[used])


def _paper_bounds(units: Units, d: int) -> tuple[float, float]:
    """Return τ and the radius of the ball of step 4, with the bound B of the units that were found."""
    k = max(len(units.W), 1)
    sizes = np.linalg.norm(units.A, axis=0)
    bounds = [1.0, *sizes, *(1 / sizes[sizes > 0]), *np.abs(units.b)]
    B = float(max(bounds))
    tau = 20 * k * (8 * k + d) * B * np.sqrt(np.log(k * d * B * k / EPSILON))
    return float(tau), float(np.sqrt(8 * k) + k * (1 + B))


def _solve_in_ball(gram: Array, right: Array, radius: float) -> Array:
    """Return the least-squares coefficients of every output, no longer than the radius."""
    values, vectors = linalg.eigh(gram, check_finite=False)
    kept = values > SINGULAR * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    turned = vectors.T @ right

    def excess(multiplier: float, column: Array) -> float:
        return float(np.linalg.norm(column / (values + multiplier))) - radius

    columns = []
    for column in turned.T:
        multiplier = 0.0
        if excess(0.0, column) > 0:
            highest = float(np.linalg.norm(column)) / radius
            multiplier = float(optimize.brentq(excess, 0.0, highest, args=(column,)))
        columns.append(vectors @ (column / (values + multiplier)))
    return np.stack(columns, axis=1)
