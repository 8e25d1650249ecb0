r"""Khatri–Rao powers: their singular values, which say how well tensor methods can tell rows apart, and their entries.

The l-th Khatri–Rao power of a matrix with rows w_1, ..., w_k has the columns :math:`w_i^{\otimes l}`. Decompositions
of order-l flattenings need it to have full column rank, and their errors grow with one over its smallest singular
value. By smoothed analysis that value is polynomially large in τ and 1/d after a random perturbation of the rows of
size τ, as long as k is at most 0.99 C(d + l - 1, l) (Corollary 3.3 of [ATV21]_).

Symmetric tensors of order l are written in C(d + l - 1, l) coordinates, one for each product of l inputs, times the root
of the number of its arrangements, so that inner products are kept: :math:`\langle u^{\otimes l}, v^{\otimes l}\rangle =
\langle u, v\rangle^l`. For l = 2 these are the coordinates of ``svec``.
"""

from __future__ import annotations

from itertools import combinations_with_replacement, count
from math import comb, factorial

import numpy as np
from scipy import linalg

from planted._typing import Array, IntArray, as_array
from planted.linalg.symmetric import smat, svec_outer, unit_rows

__all__ = ["exponents_of_products", "khatri_rao_values", "roots_of_powers", "symmetric_powers"]


def khatri_rao_values(W: Array, order: int) -> Array:
    """Return the singular values of the matrix with columns w_i ⊗ ... ⊗ w_i.

    They are in descending order, with zeros where there are more rows than dimensions. Shapes: W (k, d), result (k,).
    """
    if order <= 2:
        rows = W if order == 1 else svec_outer(W)
        values = linalg.svdvals(rows, check_finite=False)
        return np.concatenate([values, np.zeros(len(W) - len(values))])
    gram = (W @ W.T) ** order  # the power itself would have d^l rows; this costs half the digits
    return as_array(np.sqrt(np.maximum(linalg.eigvalsh(gram, check_finite=False)[::-1], 0.0)))


def exponents_of_products(d: int, order: int) -> tuple[IntArray, Array]:
    """Return the exponents of every product of `order` inputs, and the root of the number of its arrangements.

    Shapes: (q, d) and (q,), q = C(d + l - 1, l).

    Examples
    --------
    >>> exponents, weights = exponents_of_products(2, 3)
    >>> exponents.tolist(), (weights**2).round().tolist()
    ([[3, 0], [2, 1], [1, 2], [0, 3]], [1.0, 3.0, 3.0, 1.0])
    """
    slots = np.array(list(combinations_with_replacement(range(d), order)), dtype=np.intp).reshape(-1, order)
    exponents = (slots[:, :, None] == np.arange(d)).sum(axis=1)
    factorials = np.array([factorial(j) for j in range(order + 1)], dtype=np.float64)
    return exponents, np.sqrt(factorials[order] / factorials[exponents].prod(axis=1))


def symmetric_powers(W: Array, order: int) -> Array:
    """Return the l-th tensor power of every row.

    Shapes: W (k, d), result (k, C(d + l - 1, l)).
    """
    if order <= 2:
        return W if order == 1 else svec_outer(W)
    exponents, weights = exponents_of_products(W.shape[1], order)
    return as_array((W[:, None, :] ** exponents).prod(axis=2) * weights)


def roots_of_powers(Z: Array, order: int) -> Array:
    """Return the unit rows w, up to sign, of which the rows of Z are nearly multiples of l-th powers.

    Each row of Z is unfolded to a matrix between one input and products of the others, whose leading singular vector is w.
    Shapes: Z (k, C(d + l - 1, l)), result (k, d).
    """
    if order == 1:
        return unit_rows(Z)[0]
    if order == 2:
        values, vectors = np.linalg.eigh(smat(Z))
        largest = np.abs(values).argmax(axis=1)
        return np.asarray(vectors[np.arange(len(vectors)), :, largest])
    d = next(d for d in count(1) if comb(d + order - 1, order) >= Z.shape[1])
    exponents, weights = exponents_of_products(d, order)
    lower, lower_weights = exponents_of_products(d, order - 1)
    place = {tuple(row): at for at, row in enumerate(exponents.tolist())}
    index = np.array([[place[tuple(row)] for row in (lower + one).tolist()] for one in np.eye(d, dtype=int)])
    unfolded = (Z / weights)[:, index] * lower_weights
    return np.asarray(np.linalg.svd(unfolded, full_matrices=False)[0][:, :, 0])
