"""Designs of weight matrices: how the two layers of a teacher are drawn.

A design is a frozen object with a method ``draw(shape, rng)``. Hidden weights have a unit per row, shape
(k, d); output weights a unit per column, shape (m, k).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from planted._typing import Array
from planted.linalg.symmetric import unit_rows
from planted.outcomes import BadInputError
from planted.simulate._roles import Checked, bounded, check_number

__all__ = [
    "Conditioned",
    "GaussianEntries",
    "Magnitudes",
    "NearParallel",
    "Orthonormal",
    "UnitRows",
    "WeightDesign",
    "random_orthonormal",
]


@runtime_checkable
class WeightDesign(Protocol):
    """Anything with a method ``draw(shape, rng)`` that returns a matrix of that shape."""

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return a matrix of that shape.

        Parameters
        ----------
        shape : tuple of int
            Rows and columns.
        rng : numpy.random.Generator
            Where the randomness comes from.

        Returns
        -------
        ndarray
            The matrix.
        """


@dataclass(frozen=True)
class UnitRows:
    """Rows drawn uniformly from the unit sphere."""

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return a matrix of that shape."""
        return unit_rows(rng.standard_normal(shape))[0]


@dataclass(frozen=True)
class GaussianEntries:
    """Independent standard normal entries."""

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return a matrix of that shape."""
        return rng.standard_normal(shape)


@dataclass(frozen=True)
class Magnitudes:
    """Independent entries with magnitudes uniform in an interval and fair random signs.

    Parameters
    ----------
    low, high : float
        Ends of the interval of magnitudes.
    """

    low: float = 0.5
    high: float = 1.5

    def __post_init__(self) -> None:
        check_number("low", self.low)
        check_number("high", self.high, least=self.low)

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return a matrix of that shape."""
        signs = 2.0 * rng.integers(0, 2, size=shape) - 1.0
        return signs * rng.uniform(self.low, self.high, shape)


@dataclass(frozen=True)
class Orthonormal:
    """Orthonormal rows, or orthonormal columns when there are more rows than columns."""

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return a matrix of that shape."""
        return random_orthonormal(*shape, rng)


@dataclass(frozen=True)
class Conditioned(Checked):
    """Random singular vectors, and singular values that fall geometrically from 1 to 1/condition.

    Parameters
    ----------
    condition : float, default=10
        Largest over smallest singular value, of the min(rows, columns) there are.
    """

    condition: float = bounded(10.0, least=1.0)

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return a matrix of that shape."""
        rows, columns = shape
        rank = min(shape)
        if rank == 1 and self.condition != 1.0:
            raise BadInputError(
                f"condition={self.condition:g} of a {rows} x {columns} matrix; a vector has only 1"
            )
        left = random_orthonormal(rows, rank, rng)
        right = random_orthonormal(columns, rank, rng)
        return (left * np.geomspace(1.0, 1.0 / self.condition, rank)) @ right.T


@dataclass(frozen=True)
class NearParallel(Checked):
    """Unit rows in pairs (first and second, third and fourth, ...) that enclose a given angle.

    Parameters
    ----------
    angle : float, default=5
        Angle in degrees, at most 180. With an odd number of rows the last one has no partner.
    """

    angle: float = bounded(5.0, most=180.0, is_open=True)

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return a matrix of that shape."""
        if min(shape) < 2:
            raise BadInputError(
                f"near-parallel units need two units and two inputs at least; the shape is {shape}"
            )
        rows = unit_rows(rng.standard_normal(shape))[0]
        first, second = rows[0 : 2 * (shape[0] // 2) : 2], rows[1::2]
        sideways = second - (second * first).sum(axis=1, keepdims=True) * first
        radians = np.deg2rad(self.angle)
        rows[1::2] = np.cos(radians) * first + np.sin(radians) * unit_rows(sideways)[0]
        return rows


def random_orthonormal(n_rows: int, n_columns: int, rng: np.random.Generator) -> Array:
    """Return a uniformly random matrix with orthonormal columns, or rows if there are fewer rows."""
    if n_rows < n_columns:
        return random_orthonormal(n_columns, n_rows, rng).T
    basis, triangle = np.linalg.qr(rng.standard_normal((n_rows, n_columns)))
    # Without these signs the law of the matrix depends on the convention of the QR routine.
    return np.asarray(basis * np.where(np.diag(triangle) < 0, -1.0, 1.0), dtype=np.float64)
