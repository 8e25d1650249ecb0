"""Array aliases shared by every layer.

Shapes are written in docstrings with the letters of the glossary: ``n`` samples, ``d`` inputs,
``k`` hidden units, ``m`` outputs. Samples are always rows, neurons are rows of ``W``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "BoolArray", "IntArray", "Json", "Progress", "Seed", "as_array"]

Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.intp]
Json = dict[str, Any]
Seed = int | np.random.Generator | np.random.SeedSequence | None

Progress = Callable[[str, float], None]
"""Called as ``progress(what is being done, fraction done)``; the fraction is NaN when it is not known."""


def as_array(values: npt.ArrayLike) -> Array:
    """Return numbers as an `Array`; one that is of type float64 already is returned as it is."""
    return np.asarray(values, dtype=np.float64)
