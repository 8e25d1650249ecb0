r"""Hermite coefficients of the outputs as sums over rows: tensors up to order 4, contractions of any order.

Every sum is a weighted Gram matrix :math:`E[u\, F F^\top]` of the features F = (1, x) or F = (1, x, h), where h =
svec(xx' - I), for weights u made of outputs and of s = θ'x, t = η'x. This takes one matrix product for each weight
and block, and no array of size d⁴. With S_v the sum over slots of v ⊗ (·), the recursion of Hermite tensors gives for
j = 2, 4

.. math::
    T_{j+1}[\theta] &= E[y s\, He_j] - S_\theta(E[y\, He_{j-1}])                                       \quad (1) \\
    T_{j+2}[\theta, \eta] &= E[y s t\, He_j] - S_\theta(E[y t\, He_{j-1}]) - (\theta^\top\eta)\, T_j
                             - S_\eta(T_j[\theta])                                                    \quad (2)

The outputs may be replaced by the residual of a polynomial (`PolynomialFit`). Orders above its degree stay the same,
at a fraction of the variance, and lower orders are added back. Rows are summed in two halves, taken alternately; half
the difference of their estimates measures the sampling error, from which thresholds for ranks follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from planted._typing import Array
from planted.linalg.symmetric import spectrum_of, unit_rows
from planted.moments._hermite_fit import PolynomialFit
from planted.moments._hermite_products import contract_products
from planted.moments._hermite_sums import RowFunction, WeightedGrams, accumulate_grams
from planted.moments._hermite_tensors import HermiteTensors, add_slot, contract_slot, hermite_values
from planted.rows._blocks import RowBlocks
from planted.rows._passes import Sums, accumulate

__all__ = ["Contractions", "Draws", "HermiteMoments", "Residual", "SampleHermite", "whitening_map"]

SINGULAR = 1e-10  # eigenvalues of the inputs' covariance below this part of the largest are none


@dataclass(frozen=True, slots=True)
class Draws:
    """Random directions along which high orders are contracted."""

    theta: Array  # (R, d): unit vectors θ of (1) and (2)
    eta: Array  # (R, d): unit vectors η of (2)
    outputs: Array  # (R, m): combinations of the outputs, of unit norm

    @classmethod
    def random(cls, count: int, d: int, m: int, *, rng: np.random.Generator) -> Draws:
        """Draw directions uniformly."""
        drawn = [rng.standard_normal((count, size)) for size in (d, d, m)]
        theta, eta, outputs = (unit_rows(rows)[0] for rows in drawn)
        return cls(theta, eta, outputs if m > 1 else np.ones((count, 1)))

    @property
    def n_plain(self) -> int:
        """Number of different combinations of outputs: one if there is one output."""
        return len(self.outputs) if self.outputs.shape[1] > 1 else 1


@dataclass(frozen=True, slots=True)
class Contractions:
    """Two consecutive orders contracted to matrices, one pair for each draw."""

    base: Array  # (R, q, q): T_j, for j = 2 (q = d) or j = 4 (q = d(d+1)/2)
    odd: Array  # (R, q, q): T_{j+1}[θ]
    even: Array  # (R, q, q): T_{j+2}[θ, η]
    # (3,): sampling error of the three as spectral norms, root mean square over draws; zero for exact moments.
    noise: Array


class HermiteMoments(Protocol):
    """What the algorithms ask of moments, of samples or of a law."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of inputs and outputs."""

    def tensors(self) -> HermiteTensors:
        """Return the orders 0 to 4."""

    def contract(self, order: int, draws: Draws) -> Contractions:
        """Return orders 2l, 2l+1, 2l+2 as matrices between products of l inputs."""

    def along(self, W: Array, top: int) -> Array:
        """Return E[y He_j(w_i'x)] for j = 0..top.

        Shapes: W (k, d), result (top + 1, m, k).
        """


def whitening_map(covariance: Array) -> Array:
    """Return K with K'ΣK = I, without the directions in which the inputs do not vary.

    Shapes: covariance (d, d), result (d, r).
    """
    spectrum = spectrum_of(covariance).regular(SINGULAR)
    return spectrum.inverse_root() if len(spectrum.values) == len(covariance) else spectrum.whitening()


@dataclass(frozen=True, slots=True)
class SampleHermite:
    """`HermiteMoments` of rows with standard normal inputs."""

    blocks: RowBlocks  # the rows, inputs whitened
    shape: tuple[int, int]  # numbers of inputs and outputs
    fit: PolynomialFit | None = None  # what is regressed out first; the plain averages of the paper if None

    def tensors(self) -> HermiteTensors:
        """Return the orders 0 to 4: those of the fit as far as it reaches, averages over the residual elsewhere."""
        if self.fit is not None and self.fit.degree >= 4 and self.fit.span is None:
            return self.fit.tensors()
        m = self.shape[1]
        total = accumulate_grams(self.blocks, Residual(self.fit), quadratic=True)
        orders = [np.stack([total.moment(output, j) for output in range(m)]) for j in range(5)]
        left = HermiteTensors(*orders)
        if self.fit is None:
            return left
        return left.plus(self.fit.tensors())

    def contract(self, order: int, draws: Draws) -> Contractions:
        """Return orders 2l, 2l+1, 2l+2 as matrices, by (1) and (2), or for l ≥ 3 from the sums of all products."""
        if order > 2:  # a fit of degree four has no coefficients there
            weights, (d, _) = Residual(self.fit), self.shape
            return Contractions(*contract_products(self.blocks, weights, d, order, draws))
        sums = accumulate_grams(self.blocks, partial(_draw_weights, self.fit, draws), quadratic=order == 2)
        total = _contract_grams(sums, order, draws) + _fitted_contractions(self.fit, order, draws)
        first, second = (_contract_grams(sums, order, draws, half=half) for half in (0, 1))
        spread = np.linalg.norm(first - second, 2, axis=(2, 3)) / 2
        return Contractions(total[0], total[1], total[2], np.sqrt((spread**2).mean(axis=1)))

    def along(self, W: Array, top: int) -> Array:
        """Return E[y He_j(w_i'x)], one pass.

        Shapes: W (k, d), result (top + 1, m, k).
        """
        sums = accumulate(self.blocks, partial(_sum_along, Residual(self.fit), W, top))
        return sums.values / sums.count + (0.0 if self.fit is None else self.fit.tensors().along(W, top))


@dataclass(frozen=True, slots=True)
class Residual:
    """What a polynomial leaves over of the outputs."""

    fit: PolynomialFit | None  # the polynomial; the outputs themselves without one

    def __call__(self, X: Array, Y: Array) -> Array:
        """Return the residual of rows, shape (n, m)."""
        return Y if self.fit is None else Y - self.fit(X)


def _draw_weights(fit: PolynomialFit | None, draws: Draws, X: Array, Y: Array) -> Array:
    """Return the weights g of every draw (of the first alone if there is one output), then g s, g t, g s t of every draw."""
    g = Residual(fit)(X, Y) @ draws.outputs.T
    s, t = X @ draws.theta.T, X @ draws.eta.T
    return np.hstack([g[:, : draws.n_plain], g * s, g * t, g * s * t])


@dataclass(frozen=True, slots=True)
class _AlongSums(Sums):
    count: int
    values: Array


def _sum_along(outputs: RowFunction, W: Array, top: int, first_row: int, X: Array, Y: Array) -> _AlongSums:
    """Sum the products of outputs with Hermite polynomials of w_i'x over a block."""
    return _AlongSums(len(X), outputs(X, Y).T @ hermite_values(X @ W.T, top))


def _contract_grams(sums: WeightedGrams, order: int, draws: Draws, half: int | None = None) -> Array:
    """Return T_j, T_{j+1}[θ] and T_{j+2}[θ, η], j = 2l, for every draw: shape (3, R, q, q)."""
    j = 2 * order
    matrices = []
    for draw, (theta, eta) in enumerate(zip(draws.theta, draws.eta, strict=True)):
        plain = draw if draws.n_plain > 1 else 0
        s, t, st = (draws.n_plain + len(draws.theta) * part + draw for part in range(3))
        base = sums.moment(plain, j, half)
        odd = sums.moment(s, j, half) - add_slot(theta, sums.moment(plain, j - 1, half))  # (1)
        even = sums.moment(st, j, half) - add_slot(theta, sums.moment(t, j - 1, half))  # (2)
        even = even - (theta @ eta) * base - add_slot(eta, contract_slot(base, theta, j))
        matrices.append((base, odd, even))
    return np.stack([np.stack(part) for part in zip(*matrices, strict=True)])


def _fitted_contractions(fit: PolynomialFit | None, order: int, draws: Draws) -> Array | float:
    """Return what the regressed-out polynomial contributes to (1) and (2)."""
    if fit is None or fit.degree < 2 * order:
        return 0.0
    known = fit.tensors()
    parts = []
    for theta, eta, mix in zip(draws.theta, draws.eta, draws.outputs, strict=True):
        base = np.tensordot(mix, known.second if order == 1 else known.fourth, axes=1)
        higher = np.zeros((2, *base.shape))
        if order == 1:
            mixed = (np.outer(theta, eta) + np.outer(eta, theta)) / 2
            higher[0] = np.tensordot(mix, known.contract_third(theta), axes=1)
            higher[1] = np.tensordot(mix, known.contract_fourth(mixed), axes=1)
        parts.append((base, *higher))
    return np.stack([np.stack(part) for part in zip(*parts, strict=True)])
