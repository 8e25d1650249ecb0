"""Activations, each with the few facts the algorithms need.

An activation is given by name, with its parameter after a colon: ``"relu"``, ``"leaky-relu:0.1"``, ``"power:2"`` (the
rectified power ``max(t, 0)**2``), ``"absolute"``, ``"quadratic"``. All of them are positively homogeneous: ``f(s t) =
s**degree f(t)`` for ``s > 0``. Hence a positive scale can move between the layers, and the rows of ``W`` can be given
unit norm without changing the function.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array
from planted.outcomes import BadInputError

__all__ = ["Activation", "parse_activation"]

LARGEST_DEGREE = 100  # of "power:P"; in double precision 1300 to this power is out of range
LONGEST_NAME = 100  # characters; a slope takes 24 at most


@dataclass(frozen=True, slots=True)
class Activation:
    """A positively homogeneous activation ``f(t) = right * t**p`` for t > 0, ``left * |t|**p`` for t < 0."""

    name: str  # the text from which `parse_activation` makes this object
    degree: int  # the power ``p``
    right: float  # coefficient for t > 0
    left: float  # coefficient for t < 0

    def __call__(self, t: Array) -> Array:
        """Return the activation of ``t``, elementwise."""
        if self.left == 0.0:  # zero times an overflowing power would be NaN
            return np.asarray(np.maximum(t, 0.0) ** self.degree) if self.degree > 1 else np.maximum(t, 0.0)
        magnitude = np.abs(t) ** self.degree
        return np.asarray(np.where(t > 0, self.right, self.left) * magnitude)

    def derivative(self, t: Array) -> Array:
        """Return the derivative; at a kink the left one."""
        if self.degree == 1:
            return np.where(t > 0, self.right, -self.left)
        if self.left == 0.0:
            return np.asarray(self.degree * np.maximum(t, 0.0) ** (self.degree - 1))
        slope = self.degree * np.abs(t) ** (self.degree - 1)
        return np.asarray(np.where(t > 0, self.right, -self.left) * slope)

    @property
    def is_piecewise_linear(self) -> bool:
        """Whether the activation has degree one."""
        return self.degree == 1

    @property
    def kink(self) -> float:
        """The even part's coefficient for degree one: f(t) = kink |t| + slope t."""
        return (self.right + self.left) / 2

    @property
    def slope(self) -> float:
        """The odd part's coefficient for degree one: f(t) = kink |t| + slope t."""
        return (self.right - self.left) / 2


def parse_activation(text: str | Activation) -> Activation:
    """Make an `Activation` from its name.

    Names are ``"relu"``, ``"leaky-relu:SLOPE"``, ``"power:P"``, ``"absolute"`` and ``"quadratic"``.

    Examples
    --------
    >>> parse_activation("leaky-relu:0.1")(np.array([-2.0, 3.0]))
    array([-0.2,  3. ])
    """
    if isinstance(text, Activation):
        return text
    text = str(text)
    name, _, argument = text[: LONGEST_NAME + 1].partition(":")
    plain = {"relu": (1, 1.0, 0.0), "absolute": (1, 1.0, 1.0), "quadratic": (2, 1.0, 1.0)}
    if name in plain and not argument:
        return Activation(name, *plain[name])
    is_short = len(text) <= LONGEST_NAME
    if name == "leaky-relu" and is_short and _is_number(argument) and abs(float(argument)) != 1:
        return Activation(f"leaky-relu:{float(argument)!r}", 1, 1.0, -float(argument))
    if name == "power" and is_short and argument.isdecimal() and int(argument) >= 1:
        degree = int(argument)
        if degree > LARGEST_DEGREE:
            raise BadInputError(f"activation {text!r}; powers up to {LARGEST_DEGREE} are known")
        return Activation("relu" if degree == 1 else f"power:{degree}", degree, 1.0, 0.0)
    shown = repr(text) if is_short else f"{text[:LONGEST_NAME]!r}... ({len(text)} characters)"
    raise BadInputError(
        f"unknown activation {shown}; known are 'relu', 'leaky-relu:SLOPE' (SLOPE not 1 or -1), 'power:P' "
        "(P a positive integer), 'absolute' and 'quadratic'"
    )


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False
