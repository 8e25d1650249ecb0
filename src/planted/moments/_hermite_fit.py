r"""Least squares on products of Hermite polynomials: the low degrees of a function of normal inputs.

For standard normal x the functions :math:`He_\alpha(x)/\sqrt{\alpha!} = \prod_i He_{\alpha_i}(x_i)/\sqrt{\alpha_i!}`
are orthonormal. Regressing y on all of them up to some degree estimates the Hermite coefficients up to that degree.
The variance of the estimate is that of the *residual*, instead of that of y times a heavy-tailed weight. The residual
then serves to estimate higher orders, which it has in common with y. Sample sizes gained against plain averages,
measured for d = 10: about 5 (degree 1), 27 (degree 2), 55 (degree 4); see `benchmarks/hermite.py`.

Cost: O(n p²/2) time for p = C(d + degree, degree) columns, one symmetric product per block; O(p²) memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from itertools import pairwise
from math import comb, factorial

import numpy as np
from scipy import linalg

from planted._typing import Array, IntArray
from planted.linalg.symmetric import symmetric_pairs, triangle_weights
from planted.moments._gram import RegressionSums
from planted.moments._hermite_tensors import HermiteTensors, hermite_values
from planted.moments._paired import row_slices
from planted.outcomes import BadInputError
from planted.rows._blocks import RowBlocks
from planted.rows._passes import accumulate

__all__ = [
    "PolynomialFit",
    "Project",
    "design_size",
    "fit_polynomial",
    "hermite_design",
    "hermite_exponents",
    "leading_span",
]

_SLICE_NUMBERS = 2_000_000  # entries of the design that are formed at a time


@dataclass(frozen=True, slots=True)
class PolynomialFit:
    """A polynomial in Hermite form, fitted by least squares."""

    degree: int  # its degree, at most 4
    # (p, m): coefficients of the orthonormal products, in the order of `hermite_exponents`.
    coefficients: Array
    residual_variance: Array  # (m,): variance of what is left over
    count: int  # rows it was fitted to
    n_features: int  # number of inputs of the polynomial: all, or as many as the subspace has directions
    # (d, n_features): orthonormal directions in which the polynomial lives; all inputs if None.
    span: Array | None = None

    def __call__(self, X: Array) -> Array:
        """Evaluate the polynomial on rows."""
        inner = X if self.span is None else X @ self.span
        return hermite_design(inner, self.degree).T @ self.coefficients

    def tensors(self) -> HermiteTensors:
        """Return its Hermite coefficients as tensors; orders above the degree are zero."""
        d, m = self.n_features, self.coefficients.shape[1]
        size = d * (d + 1) // 2
        sizes = ((), (d,), (d, d), (size, d), (size, size))
        parts = []
        for order, shape in enumerate(sizes):
            if order > self.degree:
                parts.append(np.zeros((m, *shape)))
                continue
            columns, scale = _tensor_entries(d, self.degree, order)
            parts.append((self.coefficients[columns] * scale[:, None]).T.reshape(m, *shape))
        tensors = HermiteTensors(*parts)
        return tensors if self.span is None else tensors.embed(self.span)


def design_size(d: int, degree: int) -> int:
    """Return the number of columns of the design, C(d + degree, degree)."""
    return comb(d + degree, degree)


def fit_polynomial(blocks: RowBlocks, degree: int, span: Array | None = None) -> PolynomialFit:
    """Regress the outputs on all Hermite products up to a degree, of the inputs or within a subspace; one pass.

    `span`: orthonormal directions; the outputs are regressed on products of these k numbers if given. Shapes: span
    (d, k).
    """
    inner = blocks if span is None else blocks.map(Project(span))
    total = accumulate(inner, partial(_sum_design, degree))
    d = inner.widths()[0]
    if total.count <= len(total.GG):
        raise BadInputError(
            f"{total.count} samples for {len(total.GG)} coefficients of degree up to {degree}; there must be more"
        )
    factor = linalg.cho_factor(total.GG, check_finite=False)
    coefficients = linalg.cho_solve(factor, total.GY, check_finite=False)
    left = np.maximum(np.diag(total.YY) - (coefficients * total.GY).sum(axis=0), 0.0)
    return PolynomialFit(degree, coefficients, left / (total.count - len(total.GG)), total.count, d, span)


def leading_span(second: Array, rank: int) -> tuple[Array, Array]:
    """Return the span of the units that order 2 shows, as orthonormal columns, and all singular values.

    The values are those of all outputs' T_2 side by side, descending. Shapes: second (m, d, d), span (d, rank).
    """
    stack = second.transpose(1, 0, 2).reshape(second.shape[1], -1)
    left, values, _ = linalg.svd(stack, full_matrices=False, check_finite=False)
    return left[:, :rank], values


@dataclass(frozen=True, slots=True)
class Project:
    """Inputs in the coordinates of a subspace, outputs as they are."""

    span: Array  # (d, k): the directions, one per column

    def __call__(self, X: Array, Y: Array) -> tuple[Array, Array]:
        """Return the coordinates and the outputs of rows."""
        return X @ self.span, Y


def _sum_design(degree: int, first_row: int, X: Array, Y: Array) -> RegressionSums:
    """Sum the products of the design's columns over a block."""
    rows = max(_SLICE_NUMBERS // design_size(X.shape[1], degree), 64)
    slices = row_slices(X, Y, rows)
    return reduce(
        RegressionSums.merge,
        (RegressionSums.of(hermite_design(part, degree).T, outputs) for part, outputs in slices),
    )


def hermite_design(X: Array, degree: int) -> Array:
    """Return all orthonormal Hermite products up to a degree, one row of the result for each.

    Shapes: X (n, d), result (p, n).
    """
    n, d = X.shape
    scales = np.sqrt([factorial(j) for j in range(degree + 1)])
    values = hermite_values(np.ascontiguousarray(X.T), degree) / scales[:, None, None]
    design = np.empty((design_size(d, degree), n))
    bounds = [0] + [design_size(d, total) for total in range(degree + 1)]
    levels = [design[low:high] for low, high in pairwise(bounds)]  # views of the rows of each total degree
    filled = [1] + [0] * degree
    levels[0][:] = 1.0
    for i in range(d):
        for total in range(degree, 0, -1):  # downwards: products of earlier inputs only
            for power in range(1, total + 1):
                count = filled[total - power]
                here = slice(filled[total], filled[total] + count)
                np.multiply(levels[total - power][:count], values[power, i], out=levels[total][here])
                filled[total] += count
    return design


@lru_cache(maxsize=32)
def hermite_exponents(d: int, degree: int) -> IntArray:
    """Return the exponents α behind the rows of `hermite_design`.

    Shapes: result (p, d).
    """
    levels: list[list[tuple[int, ...]]] = [[(0,) * d]] + [[] for _ in range(degree)]
    for i in range(d):
        for total in range(degree, 0, -1):
            for power in range(1, total + 1):
                known = [alpha for alpha in levels[total - power] if not any(alpha[i:])]
                levels[total] += [(*alpha[:i], power, *alpha[i + 1 :]) for alpha in known]
    return np.array([alpha for level in levels for alpha in level], dtype=np.intp)


@lru_cache(maxsize=64)
def _tensor_entries(d: int, degree: int, order: int) -> tuple[IntArray, Array]:
    """Return the row of the design behind every entry of an order's tensor, and its factor √α! (times √2 for pairs)."""
    exponents = hermite_exponents(d, degree)
    place = {alpha.tobytes(): row for row, alpha in enumerate(exponents)}
    slots, weights = _slots(d, order)
    counts = np.zeros((len(weights), d), dtype=np.intp)
    for slot in slots:
        counts[np.arange(len(weights)), slot] += 1
    rows = np.array([place[alpha.tobytes()] for alpha in counts], dtype=np.intp)
    factors = np.array([1.0, 1.0, 2.0, 6.0, 24.0])
    return rows, weights * np.sqrt(factors[counts].prod(axis=1))


def _slots(d: int, order: int) -> tuple[list[IntArray], Array]:
    """Return the indices of each slot of the flattened tensor's entries, and the weights of vectorised pairs."""
    single, pair = ([np.arange(d, dtype=np.intp)], np.ones(d)), (symmetric_pairs(d), triangle_weights(d))
    slots: list[IntArray] = []
    weights = np.ones(1)
    for indices, own in ((), (single,), (single, single), (pair, single), (pair, pair))[order]:
        slots = [np.repeat(slot, len(own)) for slot in slots]
        slots += [np.tile(index, len(weights)) for index in indices]
        weights = np.repeat(weights, len(own)) * np.tile(own, len(weights))
    return slots, weights
