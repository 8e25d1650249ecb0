"""Find the grid on which the answers of a black box lie: single or half precision, or a number of decimals.

Rounded answers carry errors of known size. Those of single precision grow with the answer, and nothing can be done about
them. Those of decimals do not: farther out the answers are larger and the same error matters less, so a black box without
bounds is asked at a larger scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array

__all__ = ["DOUBLE", "DOUBLES", "Grid", "find_grid"]

PRECISIONS = ((np.float16, "half precision", 2.0**-11), (np.float32, "single precision", 2.0**-24))
DOUBLE = 2.0**-53
DECIMALS = range(-3, 13)
COARSER = 64.0  # a grid of decimals must be this many times coarser than the precision of the numbers
FEWEST_VALUES = 6  # different answers that show a grid


@dataclass(frozen=True, slots=True)
class Grid:
    """How answers are rounded."""

    step: float  # distance of neighbouring answers with so many decimals; 0 if there is no such grid
    relative: float  # largest rounding error relative to the answer: 2**-53 in double precision
    words: str  # "4 decimals", "single precision"; empty in double precision without decimals

    def steps(self, sizes: Array) -> Array:
        """Distance of neighbouring answers for answers of given sizes."""
        return np.maximum(self.step, 2 * self.relative * sizes)


DOUBLES = Grid(0.0, DOUBLE, "")


def find_grid(answers: Array) -> Grid:
    """Return the coarsest grid on which all answers lie.

    Shapes: answers (n, m).

    Examples
    --------
    >>> find_grid(np.round(np.linspace(0.0, 1.0, 30)[:, None] ** 2, 3)).words
    '3 decimals'
    >>> find_grid(np.linspace(0.0, 1.0, 30)[:, None] ** 2).words
    ''
    """
    values = np.unique(answers[answers != 0])
    if values.size < FEWEST_VALUES:
        return DOUBLES
    grid = _find_decimals(values, DOUBLE)
    if grid is not None:
        return grid
    with np.errstate(over="ignore"):
        for kind, words, relative in PRECISIONS:
            if (values.astype(kind).astype(np.float64) == values).all():
                return _find_decimals(values, relative) or Grid(0.0, relative, words)
    return DOUBLES


def _find_decimals(values: Array, relative: float) -> Grid | None:
    """The fewest decimals with which all values can be written, in numbers of a given precision; None if too many."""
    largest = np.abs(values).max()
    for decimals in DECIMALS:
        step = 10.0**-decimals
        if step < COARSER * relative * largest:
            break
        if (np.abs(values - np.round(values, decimals)) <= 4 * relative * np.abs(values)).all():
            return Grid(step, relative, f"{decimals} decimals" if decimals else "whole numbers")
    return None
