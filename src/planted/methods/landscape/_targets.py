r"""What the designed objectives know of the truth: its tensors of order two and four, exactly or from samples.

Problem     The objectives of `objectives` see a network y = Σ a*_i σ(b*_i'x) only through
            T₂ = Σ a*_i b*_i b*_i' and the form T₄(u,u,v,v) = Σ a*_i ⟨b*_i,u⟩²⟨b*_i,v⟩². Give values and gradients of

            .. math:: \Phi(W) = \sum_j u_j T_4(w_j^4) + c \sum_{j,l} T_4(w_j^2 w_l^2) \quad (1)

Idea        *Population*: from the rows of the truth. *Samples*: by Theorems A.5 and A.6 of [GLM18]_, with s = v'x and
            r = w'x,

            .. math::
                He_4(v,v,w,w) &= s^2r^2 - |w|^2s^2 - |v|^2r^2 - 4sr\langle v,w\rangle
                                 + |v|^2|w|^2 + 2\langle v,w\rangle^2, \\
                E[\sigma(u'x) He_4(v,v,w,w)] &= \sqrt{24}\,\hat\sigma_4
                                 \langle u,v\rangle^2\langle u,w\rangle^2 \quad (2)

            for unit u. Of the sum over samples only E[y s²r²] needs the rows; the rest is E[y] and E[y xx'].
Guarantee   Unbiased for standard normal x. (2) was checked by quadrature; the printed constants are twice as large.
Notation    paper: B*, a* (rows of ``W``, ``a``), φ = He₄/2, ϕ = He₄/24.
Departures  y is replaced by its residual after a least-squares fit of degree ≤ 2 in x (``degree``), whose coefficients
            are T₂ themselves. By orthogonality this loses nothing, and the sampling error falls. Measured in
            docs/theory/landscape.md: with y as it is, G fails where with the residual it succeeds.
Cost        One pass of O(n d k) per gradient; the fit O(n d²) per step of conjugate gradients.
References  [GLM18]_
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from planted._typing import Array
from planted.methods.landscape._coefficients import hermite_coefficients
from planted.methods.landscape._low_degree import fit_low_degree, rows_in_memory
from planted.moments import Residual, accumulate_grams
from planted.networks import Activation
from planted.rows import RowBlocks, Sums, accumulate

__all__ = [
    "PopulationTarget",
    "SampleTarget",
    "Target",
    "hermite_correction",
    "quartic_sums",
    "sample_target",
]


@dataclass(frozen=True, slots=True)
class PopulationTarget:
    """The tensors of a known network."""

    W: Array  # (k, d): hidden weights of the truth, unit rows
    a: Array  # (k,): output weights of the truth
    hermite: tuple[float, float]  # σ̂_2 and σ̂_4

    @property
    def second(self) -> Array:
        """T₂."""
        return np.asarray((self.W.T * self.a) @ self.W)

    @property
    def second_again(self) -> Array:
        """T₂ again: samples have an independent second estimate of it."""
        return self.second

    @property
    def energy(self) -> tuple[float, float]:
        """Squared norms of T₂ and T₄."""
        G = self.W @ self.W.T
        return float(self.a @ G**2 @ self.a), float(self.a @ G**4 @ self.a)

    def fourth(self, W: Array, u: Array, c: float) -> tuple[Array, float, Array]:
        """Return T₄(w_j⁴) for every row, the sum over pairs of rows, and the gradient of (1).

        Shapes: W (k, d), u (k,).
        """
        R = W @ self.W.T
        squares = R**2
        total = squares.sum(axis=0)
        single = squares**2 @ self.a
        slope = 4 * (u[:, None] * squares + c * total) * R * self.a
        return single, float(self.a @ total**2), slope @ self.W


@dataclass(frozen=True, slots=True)
class SampleTarget:
    """The tensors estimated from samples; every call is a pass over the rows."""

    rows: RowBlocks  # whitened inputs and the residual of the outputs
    second: Array  # (d, d): T₂ from either half of the samples
    second_again: Array
    count: int  # number of samples
    mean: float  # mean of the residual
    weighted: Array  # (d, d): mean of residual times xx'
    slope: Array  # (d,): mean of y x, for Appendix D
    hermite: tuple[float, float]  # σ̂_2 and σ̂_4

    @property
    def energy(self) -> tuple[float, float]:
        """Not known: zero, which shifts an objective by a constant."""
        return 0.0, 0.0

    def batches(self, size: int, rng: np.random.Generator) -> Iterator[SampleTarget]:
        """Yield estimates of T₄ from a few samples each, with T₂ from all, pass after pass without end."""
        while True:
            for X, residual in self.rows:
                order = rng.permutation(len(X))
                for chosen in np.array_split(order, max(1, round(len(order) / size))):
                    Z, r = X[chosen], residual[chosen]
                    weighted, mean = Z.T @ (r * Z) / len(r), float(r.mean())
                    rows = RowBlocks.from_arrays(Z, r)
                    yield replace(self, rows=rows, count=len(r), mean=mean, weighted=weighted)

    def fourth(self, W: Array, u: Array, c: float) -> tuple[Array, float, Array]:
        """Return T₄(w_j⁴) for every row, the sum over pairs of rows, and the gradient of (1); one pass.

        Shapes: W (k, d), u (k,).
        """
        sums, n = accumulate(self.rows, partial(_quartic_of_block, W, u, c)), self.count
        lower = hermite_correction(W, self.weighted, self.mean, u, c)
        scale = np.sqrt(24.0) * self.hermite[1]
        return (
            (sums.single / n + lower[0]) / scale,
            float(sums.pairs / n + lower[1]) / scale,
            (sums.gradient / n + lower[2]) / scale,
        )


Target = PopulationTarget | SampleTarget
"""What an objective may ask of the truth."""


@dataclass(frozen=True, slots=True)
class QuarticSums(Sums):
    """What T₄ needs of all rows; see `quartic_sums`."""

    single: Array  # (k,): sums of r s_j⁴
    pairs: float  # sum of r (Σ s_j²)²
    gradient: Array  # (k, d): sum of the gradients


def _quartic_of_block(W: Array, u: Array, c: float, first_row: int, X: Array, Y: Array) -> QuarticSums:
    """Return `quartic_sums` of a block."""
    single, pairs, gradient = quartic_sums(X, Y[:, 0], W, u, c)
    return QuarticSums(single, float(pairs), gradient)


def hermite_correction(W: Any, M: Any, mean: Any, u: Any, c: Any) -> tuple[Any, Any, Any]:
    """Return what turns means of r s²r² into means of r He₄ by (2): for single rows, all pairs, and the gradient.

    Written in operators that NumPy arrays and PyTorch tensors share.

    Shapes: W (k, d), M (d, d), u (k,).
    """
    norms, G, WM = (W * W).sum(1), W @ W.T, W @ M
    Q, own = WM @ W.T, (WM * W).sum(1)  # E[r s_j s_l]
    size, trace = norms.sum(), own.sum()
    single = -6 * norms * own + 3 * mean * norms * norms
    pairs = -2 * size * trace - 4 * (Q * G).sum() + mean * (size * size + 2 * (G * G).sum())
    one = -12 * (own[:, None] * W + norms[:, None] * WM) + 12 * mean * norms[:, None] * W
    both = -4 * (trace * W + size * WM) - 8 * (G @ WM + Q @ W) + mean * (4 * size * W + 8 * (G @ W))
    return single, pairs, u[:, None] * one + c * both


def quartic_sums(X: Any, r: Any, W: Any, u: Any, c: Any) -> tuple[Any, Any, Any]:
    """Return sums over samples of r s_j⁴, of r (Σ s_j²)², and the gradient of u's and c's combination.

    Written in operators that NumPy arrays and PyTorch tensors share.

    Shapes: X (n, d), r (n,), W (k, d), u (k,).
    """
    S = X @ W.T
    squares = S * S
    total = squares.sum(1)
    single = r @ (squares * squares)
    pairs = r @ (total * total)
    slope = (squares * u + (c * total)[:, None]) * S
    return single, pairs, 4 * (slope * r[:, None]).T @ X


def sample_target(rows: RowBlocks, activation: Activation, *, degree: int = 2) -> SampleTarget:
    """Estimate the tensors from whitened samples.

    `degree`: degree of the fit whose residual takes the place of y; 0 for y itself.
    """
    rows = rows_in_memory(rows)
    slope = accumulate_grams(rows, Residual(None), quadratic=False).moment(0, 1)  # E[y x]
    polynomial = fit_low_degree(rows, degree)
    residual = rows if degree == 0 else rows_in_memory(rows.map(polynomial.subtract))
    sums = accumulate_grams(residual, Residual(None), quadratic=False)
    second, fourth = (float(value) for value in hermite_coefficients(activation, 4)[[2, 4]])
    scale = np.sqrt(2.0) * second if second else np.inf  # an odd activation shows nothing in T₂
    T2, again = ((2 * polynomial.quadratic + sums.moment(0, 2, half)) / scale for half in (0, 1))
    mean = float(sums.moment(0, 0))
    weighted = sums.moment(0, 2) + mean * np.eye(len(T2))
    count = int(sums.counts.sum())
    return SampleTarget(residual, T2, again, count, mean, weighted, slope, (second, fourth))
