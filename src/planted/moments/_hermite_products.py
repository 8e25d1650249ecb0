r"""Hermite coefficients of any order as sums over all products of inputs, contracted to matrices.

The coefficient of order j at the exponents α, |α| = j, is E[y Π_s He_{α_s}(x_s)]. There are C(d + j - 1, j) of them, so that
orders 2l, 2l + 1 and 2l + 2 can be summed as they are where d and l are small; for l ≤ 2 the Gram matrices of
`_hermite_sums` are cheaper. With the coordinates of `linalg.khatri_rao` the matrix between products of l inputs has the
entries

.. math:: T_{2l+1}[\theta]_{\alpha\beta} = \sqrt{c_\alpha c_\beta} \sum_s \theta_s T_{\alpha + \beta + e_s}, \quad (1)

:math:`c_\alpha` the number of arrangements of α, and two sums for order 2l + 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from planted._typing import Array, IntArray
from planted.linalg import exponents_of_products
from planted.moments._hermite_tensors import hermite_values
from planted.outcomes import BadInputError
from planted.rows import RowBlocks, Sums, accumulate

if TYPE_CHECKING:
    from planted.moments._hermite import Draws

__all__ = ["contract_products"]

MOST_PRODUCTS = 20_000  # of order 2l + 2: 1.3 GB for a block of 8,192 rows


def contract_products(
    blocks: RowBlocks, outputs: Callable[[Array, Array], Array], d: int, order: int, draws: Draws
) -> tuple[Array, Array, Array, Array]:
    """Return T_{2l}, T_{2l+1}[θ], T_{2l+2}[θ, η] for every draw, and their sampling errors as spectral norms.

    `outputs` turns rows into what is averaged. Shapes: (R, q, q) three times, and (3,).
    """
    count = comb(d + 2 * order + 1, 2 * order + 2)
    if count > MOST_PRODUCTS:
        raise BadInputError(
            f"order={order} with {d} inputs sums {count:,} products, more than {MOST_PRODUCTS:,}; use a lower order"
        )
    degrees = range(2 * order, 2 * order + 3)
    exponents = [exponents_of_products(d, degree)[0] for degree in degrees]
    sums = accumulate(blocks, partial(_sum_products, outputs, np.vstack(exponents)))
    splits = np.cumsum([len(part) for part in exponents])[:-1]
    matrices = _Matrices(d, order, exponents)
    first, second = (
        matrices.contract(np.split(values / max(n, 1), splits, axis=1), draws)
        for values, n in zip(sums.values, sums.counts, strict=True)
    )
    share = sums.counts / sums.counts.sum()
    spread = np.linalg.norm(first - second, 2, axis=(2, 3)) / 2
    base, odd, even = share[0] * first + share[1] * second
    return base, odd, even, np.sqrt((spread**2).mean(axis=1))


@dataclass(frozen=True, slots=True)
class _ProductSums(Sums):
    """Sums over either half of the rows, taken alternately."""

    counts: Array  # (2,)
    values: Array  # (2, m, p): outputs times products


def _sum_products(
    outputs: Callable[[Array, Array], Array], exponents: IntArray, first_row: int, X: Array, Y: Array
) -> _ProductSums:
    """Sum outputs times products of Hermite polynomials over a block."""
    values = hermite_values(X, int(exponents.max()))
    products = np.ones((len(X), len(exponents)))
    for s in range(X.shape[1]):
        products *= values[exponents[:, s], :, s].T
    half = (first_row + np.arange(len(X))) % 2 == 1
    g = outputs(X, Y)
    parts = [(g[rows].T @ products[rows], float(rows.sum())) for rows in (~half, half)]
    return _ProductSums(np.array([n for _, n in parts]), np.stack([total for total, _ in parts]))


class _Matrices:
    """Where the entries of (1) are found among the coefficients."""

    def __init__(self, d: int, order: int, exponents: list[IntArray]) -> None:
        own, self.weights = exponents_of_products(d, order)
        places = [{tuple(row): at for at, row in enumerate(part.tolist())} for part in exponents]
        pairs = own[:, None, :] + own[None, :, :]
        one = np.eye(d, dtype=np.intp)
        self.base = _find(places[0], pairs)
        self.odd = np.stack([_find(places[1], pairs + one[s]) for s in range(d)])
        self.even = np.stack(
            [np.stack([_find(places[2], pairs + one[s] + one[t]) for t in range(d)]) for s in range(d)]
        )

    def contract(self, orders: list[Array], draws: Draws) -> Array:
        """Return the matrices of every draw, shape (3, R, q, q)."""
        scale = self.weights[:, None] * self.weights
        found = []
        for theta, eta, mix in zip(draws.theta, draws.eta, draws.outputs, strict=True):
            g = [mix @ part for part in orders]
            odd = np.tensordot(theta, g[1][self.odd], axes=1)
            even = np.einsum("s,t,stab->ab", theta, eta, g[2][self.even])
            found.append(np.stack([g[0][self.base], odd, even]) * scale)
        return np.stack(found, axis=1)


def _find(places: dict[tuple[int, ...], int], exponents: IntArray) -> IntArray:
    flat = [places[tuple(row)] for row in exponents.reshape(-1, exponents.shape[-1]).tolist()]
    return np.array(flat, dtype=np.intp).reshape(exponents.shape[:-1])
