"""Evaluate networks in exact arithmetic: floating-point numbers are fractions, and so are all values."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from planted._typing import Array
from planted.verification._stages import Plain

__all__ = ["exact_difference", "exact_outputs", "is_beyond"]


def exact_outputs(net: Plain, x: Array | Sequence[Fraction]) -> list[Fraction]:
    """Return the outputs at one input, exactly; inputs may be fractions.

    Examples
    --------
    >>> from planted.networks import TwoLayerNetwork
    >>> from planted.verification._stages import as_plain
    >>> exact_outputs(as_plain(TwoLayerNetwork(W=[[0.5]], A=[[3.0]])), np.array([0.5]))
    [Fraction(3, 4)]
    """
    hidden = [Fraction(value) for value in x]
    for place, (W, b) in enumerate(net.layers):
        values = []
        for row, bias in zip(W, b, strict=True):
            total = Fraction(float(bias))
            for j in np.flatnonzero(row):
                if hidden[j]:
                    total += Fraction(float(row[j])) * hidden[j]
            values.append(total)
        if place < len(net.slopes):
            slopes = net.slopes[place]
            values = [
                value if value > 0 else Fraction(float(slope)) * value
                for value, slope in zip(values, slopes, strict=True)
            ]
        hidden = values
    return hidden


def exact_difference(f: Plain, g: Plain, x: Array) -> float:
    """Return the largest difference of an output at x: computed exactly, then rounded once."""
    return float(max(abs(a - b) for a, b in zip(exact_outputs(f, x), exact_outputs(g, x), strict=True)))


def is_beyond(f: Plain, g: Plain, x: Array, tol: float) -> bool:
    """Decide in exact arithmetic whether some output of the two differs by more than ``tol`` at x."""
    limit = Fraction(float(tol))
    return any(abs(a - b) > limit for a, b in zip(exact_outputs(f, x), exact_outputs(g, x), strict=True))
