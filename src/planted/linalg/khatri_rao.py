r"""Singular values of Khatri–Rao powers: how well tensor methods can tell a set of rows apart.

The l-th Khatri–Rao power of a matrix with rows w_1, ..., w_k has the columns :math:`w_i^{\otimes l}`. Decompositions
of order-l flattenings need it to have full column rank, and their errors grow with one over its smallest singular
value. By smoothed analysis that value is polynomially large in τ and 1/d after a random perturbation of the rows of
size τ, as long as k is at most 0.99 C(d + l - 1, l) (Corollary 3.3 of [ATV21]_).
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from planted._typing import Array, as_array
from planted.linalg.products import svec

__all__ = ["khatri_rao_values"]


def khatri_rao_values(W: Array, order: int) -> Array:
    """Return the singular values of the matrix with columns w_i ⊗ ... ⊗ w_i.

    They are in descending order, with zeros where there are more rows than dimensions. Shapes: W (k, d), result (k,).

    Examples
    --------
    >>> khatri_rao_values(np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), 1).round(3)
    array([1.414, 1.   , 0.   ])
    >>> khatri_rao_values(np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), 2).round(3)
    array([1.317, 1.   , 0.515])
    """
    if order <= 2:
        rows = W if order == 1 else svec(W[:, :, None] * W[:, None, :])
        values = linalg.svdvals(rows, check_finite=False)
        return np.concatenate([values, np.zeros(len(W) - len(values))])
    gram = (W @ W.T) ** order  # the power itself would have d^l rows; this costs half the digits
    return as_array(np.sqrt(np.maximum(linalg.eigvalsh(gram, check_finite=False)[::-1], 0.0)))
