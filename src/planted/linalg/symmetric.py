r"""Solve with Gram matrices and covariances, and take their roots, where they may be singular.

A positive semi-definite matrix M is written in its eigenvectors after its rows and columns have been divided by given
lengths,

.. math:: M = D\, U \Lambda U^\top D, \qquad D = \mathrm{diag}(\text{lengths}). \quad (1)

For the products of some columns the lengths are those of the columns, so that :math:`U \Lambda U^\top` has a unit
diagonal and its eigenvalues say how dependent the columns are, whatever their units. `Spectrum` holds (1).
Eigenvalues that are zero to rounding are first left out (`regular` relative to the largest, `above` relative to the
lengths) or raised (`lifted`); what is then computed belongs to the directions that remain. The cut-off of `regular`
is p times the rounding error unless the caller states another, with its reason.

Leaving a column out of a regression raises the sum of squares by the squared length of that part of it which the
other columns do not explain, times its squared coefficient. With :math:`\beta = (F^\top F)^{-1} F^\top Y` the rise is

.. math:: |\beta_r|^2 / ((F^\top F)^{-1})_{rr} = |\beta_r|^2\, |F_r|^2 \sin^2 \theta_r \quad (2)

where :math:`\theta_r` is the angle between column r and the span of the others. Products of columns are known to
about 1e-14 of the squared lengths, some digits less after a million rows, and so are the squared sines: below
`DEPENDENT` a column counts as a combination of the others, and its rise is zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array, as_array

__all__ = ["DEPENDENT", "Spectrum", "column_spectrum", "rises_of_columns", "solve_symmetric", "spectrum_of"]

DEPENDENT = 1e-11  # squared sine of (2) below which a column is a combination of the others


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The factors of (1), or those of them that are not zero to rounding."""

    values: Array  # (r,): eigenvalues, ascending
    vectors: Array  # (p, r): their eigenvectors
    lengths: Array  # (p,): what rows and columns were divided by

    @property
    def largest(self) -> float:
        """The largest eigenvalue; zero rather than a negative rounding error."""
        return max(float(self.values[-1]), 0.0)

    def above(self, cut: float) -> Spectrum:
        """Leave out the eigenvalues at or below a cut-off."""
        kept = self.values > cut
        return Spectrum(self.values[kept], self.vectors[:, kept], self.lengths)

    def regular(self, tol: float | None = None) -> Spectrum:
        """Leave out the eigenvalues at or below a part of the largest: p times the rounding error if omitted."""
        share = len(self.lengths) * np.finfo(float).eps if tol is None else tol
        return self.above(share * self.largest)

    def lifted(self, floor: float) -> Spectrum:
        """Raise the eigenvalues below a floor to it."""
        return Spectrum(np.maximum(self.values, floor), self.vectors, self.lengths)

    def solve(self, right: Array) -> Array:
        """Return the solution of ``M x = right`` that is shortest in units of the lengths.

        Shapes: right (p, q), result (p, q).
        """
        inner = (self.vectors.T @ (right / self.lengths[:, None])) / self.values[:, None]
        return as_array((self.vectors @ inner) / self.lengths[:, None])

    def whitening(self) -> Array:
        """Return R with ``R' M R = 1``, one column for each eigenvalue.

        Shapes: result (p, r).
        """
        return as_array(self.vectors / np.sqrt(self.values) / self.lengths[:, None])

    def mapped(self, weights: Array) -> Array:
        """Return the symmetric matrix with the same eigenvectors and other eigenvalues, in units of the lengths.

        Shapes: weights (r,), result (p, p).
        """
        return as_array(self.vectors * weights @ self.vectors.T)

    def root(self) -> Array:
        """Return the symmetric square root of ``U Λ U'``.

        Shapes: result (p, p).
        """
        return self.mapped(np.sqrt(self.values))

    def inverse_root(self) -> Array:
        """Return the symmetric square root of the (pseudo-)inverse of ``U Λ U'``.

        Shapes: result (p, p).
        """
        return as_array(self.vectors / np.sqrt(self.values) @ self.vectors.T)


def spectrum_of(M: Array, lengths: Array | None = None) -> Spectrum:
    """Decompose a symmetric matrix as in (1); all lengths are one if omitted.

    Shapes: M (p, p), lengths (p,).

    Examples
    --------
    >>> spectrum_of(np.diag([4.0, 1.0, 0.0])).above(1e-12).inverse_root()
    array([[0.5, 0. , 0. ],
           [0. , 1. , 0. ],
           [0. , 0. , 0. ]])
    """
    scaled = M if lengths is None else M / np.outer(lengths, lengths)
    values, vectors = linalg.eigh(scaled, check_finite=False)
    return Spectrum(values, vectors, np.ones(len(M)) if lengths is None else lengths)


def column_spectrum(products: Array) -> Spectrum:
    """Decompose the products of some columns in units of the columns' lengths; a column of zeros has length one.

    Shapes: products (p, p).
    """
    lengths = np.sqrt(np.maximum(np.diag(products), 0.0))
    return spectrum_of(products, np.where(lengths > 0, lengths, 1.0))


def solve_symmetric(M: Array, right: Array, *, tol: float | None = None) -> Array:
    """Solve with the products of some columns; dependent columns share their coefficients.

    `tol`: eigenvalues at or below this part of the largest, in units of the columns' lengths, count as zero; p times
    the rounding error if omitted. Shapes: M (p, p), right (p, q), result (p, q).

    Examples
    --------
    >>> solve_symmetric(np.ones((2, 2)), np.array([[4.0], [4.0]])).ravel().round(12)
    array([2., 2.])
    """
    return column_spectrum(M).regular(tol).solve(right)


def rises_of_columns(columns: Spectrum, coefficients: Array) -> Array:
    """Return the rise (2) of the sum of squares for every column that is left out of a regression.

    `columns`: their `column_spectrum`, all of it. `coefficients`: those of the regression on all columns. The result
    is zero for a column that is a combination of the others. Shapes: coefficients (p, m), result (p,).

    Examples
    --------
    >>> rises_of_columns(column_spectrum(np.diag([4.0, 1.0])), np.array([[1.0], [3.0]]))
    array([4., 9.])
    """
    values = columns.lifted(np.finfo(float).eps * (columns.largest or 1.0)).values
    squared_sines = 1 / (columns.vectors**2 / values).sum(axis=1)
    sizes = (coefficients**2).sum(axis=1) * columns.lengths**2
    return as_array(np.where(squared_sines > DEPENDENT, sizes * squared_sines, 0.0))
