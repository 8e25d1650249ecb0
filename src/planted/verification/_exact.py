"""Evaluate networks in exact arithmetic: floating-point numbers are fractions, and so are all values."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm, nextafter
from typing import Any

import numpy as np

from planted._typing import Array
from planted.verification._stages import Plain

__all__ = ["exact_differences", "exact_outputs", "rounded_down"]


def exact_outputs(net: Plain, x: Array | Sequence[Fraction]) -> list[Fraction]:
    """Return the outputs at one input, exactly; inputs may be fractions.

    Examples
    --------
    >>> from planted.networks import TwoLayerNetwork
    >>> from planted.verification._stages import as_plain
    >>> exact_outputs(as_plain(TwoLayerNetwork(W=[[0.5]], A=[[3.0]])), np.array([0.5]))
    [Fraction(3, 4)]
    """
    hidden, below = _whole([Fraction(value) for value in x])
    for place, (W, b) in enumerate(net.layers):
        (weights, scale), (biases, other) = _whole(W.ravel()), _whole(b)
        # Whole numbers over one denominator: W h over scale * below, b over other.
        hidden = weights.reshape(W.shape) @ hidden * other + biases * (scale * below)
        below = below * scale * other
        if place < len(net.slopes):
            slopes, steps = _whole(net.slopes[place])
            hidden = hidden * np.where(hidden > 0, steps, slopes)
            below *= steps
    return [Fraction(value, below) for value in hidden]


def exact_differences(f: Plain, g: Plain, x: Array | Sequence[Fraction]) -> list[Fraction]:
    """Return how far apart the two are at one input, for every output, exactly."""
    return [abs(a - b) for a, b in zip(exact_outputs(f, x), exact_outputs(g, x), strict=True)]


def rounded_down(number: Fraction) -> float:
    """Return the largest floating-point number that is not above a number that is not negative.

    Examples
    --------
    >>> rounded_down(Fraction(1, 4)), rounded_down(Fraction(1, 10)) < Fraction(1, 10)
    (0.25, True)
    """
    try:
        found = float(number)
    except OverflowError:
        return float(np.finfo(np.float64).max)
    return found if Fraction(found) <= number else nextafter(found, 0.0)


def _whole(values: Array | Sequence[Fraction]) -> tuple[Any, int]:
    """Numbers as whole numbers over a common denominator."""
    ratios = [
        value.as_integer_ratio() for value in (values.tolist() if isinstance(values, np.ndarray) else values)
    ]
    below = lcm(*{ratio[1] for ratio in ratios})
    return np.array([number * (below // part) for number, part in ratios], dtype=object), below
