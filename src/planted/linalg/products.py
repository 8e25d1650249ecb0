r"""Symmetric matrices as vectors, and rows of unit length.

``svec`` stacks the upper triangle of a symmetric matrix with off-diagonal entries times √2, so that inner products
are kept: :math:`\langle S, T\rangle = \mathrm{svec}(S)^\top \mathrm{svec}(T)`. ``svec_outer`` builds ``svec(y y')``
for all rows of a matrix at once, the feature map of every quadratic method in the package. ``unit_rows`` divides the
rows of a matrix by their lengths and returns both, so that the scale can be moved elsewhere.
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array, IntArray, as_array

__all__ = ["smat", "svec", "svec_outer", "symmetric_pairs", "triangle_weights", "unit_rows"]


def svec(S: Array) -> Array:
    """Vectorise symmetric matrices: their upper triangles, off-diagonal entries times √2.

    Shapes: S (..., k, k), result (..., k(k+1)/2).

    Examples
    --------
    >>> svec(np.array([[1.0, 2.0], [2.0, 3.0]])).round(3)
    array([1.   , 2.828, 3.   ])
    """
    rows, columns = symmetric_pairs(S.shape[-1])
    return as_array(S[..., rows, columns] * triangle_weights(S.shape[-1]))


def smat(vector: Array) -> Array:
    """Invert `svec`.

    Shapes: vector (..., k(k+1)/2), result (..., k, k).
    """
    k = int((np.sqrt(8 * vector.shape[-1] + 1) - 1) / 2)
    rows, columns = symmetric_pairs(k)
    S = np.empty((*vector.shape[:-1], k, k))
    S[..., rows, columns] = S[..., columns, rows] = vector / triangle_weights(k)
    return S


def svec_outer(Y: Array) -> Array:
    """Return ``svec(y y')`` for every row y.

    Shapes: Y (n, k), result (n, k(k+1)/2).
    """
    rows, columns = symmetric_pairs(Y.shape[1])
    return as_array(Y[:, rows] * Y[:, columns] * triangle_weights(Y.shape[1]))


def unit_rows(rows: Array) -> tuple[Array, Array]:
    """Divide every row by its Euclidean length; return the unit rows and the lengths.

    A row of zeros stays zero, and 1 is returned as its length: ``unit * lengths[:, None]`` gives the rows back.
    Shapes: rows (r, p), results (r, p) and (r,).

    Examples
    --------
    >>> unit, lengths = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    >>> unit.tolist(), lengths.tolist()
    ([[0.6, 0.8], [0.0, 0.0]], [5.0, 1.0])
    """
    norms = np.linalg.norm(rows, axis=1)
    lengths = np.where(norms > 0, norms, 1.0)
    return rows / lengths[:, None], lengths


def symmetric_pairs(k: int) -> tuple[IntArray, IntArray]:
    """Return the places (i, j), i ≤ j, behind the entries of a vectorised symmetric matrix.

    Shapes: results (k(k+1)/2,).
    """
    rows, columns = np.triu_indices(k)
    return rows.astype(np.intp), columns.astype(np.intp)


def triangle_weights(k: int) -> Array:
    """Return the weights of `svec`: 1 on the diagonal, √2 off it.

    Shapes: result (k(k+1)/2,).
    """
    rows, columns = symmetric_pairs(k)
    return np.where(rows == columns, 1.0, np.sqrt(2.0))
