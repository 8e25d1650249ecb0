"""Activations, each with the few facts the algorithms need.

An activation is given by name, with its parameter after a colon: ``"relu"``, ``"leaky-relu:0.1"``,
``"power:2"`` (the rectified power ``max(t, 0)**2``), ``"absolute"``, ``"quadratic"``. All of them are
positively homogeneous: ``f(s t) = s**degree f(t)`` for ``s > 0``, which is what lets a positive scale move
between the layers and makes unit rows of ``W`` a gauge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array
from planted.outcomes import BadInputError

__all__ = ["Activation", "parse_activation"]


@dataclass(frozen=True, slots=True)
class Activation:
    """A positively homogeneous activation ``f(t) = right * t**p`` for t > 0, ``left * |t|**p`` for t < 0."""

    name: str  # the text from which `parse_activation` makes this object
    degree: int  # the power ``p``
    right: float  # coefficient for t > 0
    left: float  # coefficient for t < 0

    def __call__(self, t: Array) -> Array:
        """Return the activation of ``t``, elementwise."""
        if self.left == 0.0 and self.degree == 1:
            return np.maximum(t, 0.0)
        magnitude = np.abs(t) ** self.degree
        return np.asarray(np.where(t > 0, self.right, self.left) * magnitude)

    def derivative(self, t: Array) -> Array:
        """Return the derivative; at a kink the left one."""
        if self.degree == 1:
            return np.where(t > 0, self.right, -self.left)
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
    name, _, argument = str(text).partition(":")
    plain = {"relu": (1, 1.0, 0.0), "absolute": (1, 1.0, 1.0), "quadratic": (2, 1.0, 1.0)}
    if name in plain and not argument:
        return Activation(name, *plain[name])
    if name == "leaky-relu" and _is_number(argument) and abs(float(argument)) != 1:
        return Activation(f"leaky-relu:{float(argument)!r}", 1, 1.0, -float(argument))
    if name == "power" and argument.isdecimal() and int(argument) >= 1:
        return Activation("relu" if int(argument) == 1 else name + ":" + argument, int(argument), 1.0, 0.0)
    raise BadInputError(
        f"unknown activation {text!r}; known are 'relu', 'leaky-relu:SLOPE' (SLOPE not 1 or -1), 'power:P' "
        "(P a positive integer), 'absolute' and 'quadratic'"
    )


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False
