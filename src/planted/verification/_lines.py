r"""Lines that bound an activation, and the difference of two, between given limits.

Idea        On [l, u] the convex function φ lies below its chord and above every line σ t with σ between the slope and one.
            For the difference D = φ(z) - φ(z - δ) of two matched units there are two kinds of bounds. The first uses only
            that φ changes by no more than its argument,

            .. math:: -\varphi(-\delta) \le D \le \varphi(\delta),                                            \quad (1)

            each side replaced by its chord. The second bounds the two activations apart,

            .. math:: D \le \text{chord}(z) - \sigma (z - \delta), \qquad
                      D \ge \sigma z - \text{chord}(z - \delta) .                                             \quad (2)

            (1) is good while the signs of z and u are open and δ is small, (2) is exact once they are known. Every mean of
            two bounds is a bound: the weights are left open, to be chosen by `planted.verification._backward`.
Rounding    Slopes are what floating point makes of them; the constant of a chord is then taken so large that the rounded
            line lies above φ at both ends, hence everywhere between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array, IntArray

__all__ = ["Limits", "Lines", "activate", "lines_between"]

SLACK = 2.0**-49  # sixteen roundings of the numbers that enter the constant of a chord


@dataclass(slots=True)
class Limits:
    """Sound limits of one hidden stage for a batch of B parts of the input set; the last four are empty without δ."""

    z_low: Array  # (B, k): pre-activations of f
    z_high: Array
    u_low: Array  # (B, r): pre-activations of g
    u_high: Array
    d_low: Array  # (B, r): their difference
    d_high: Array

    def parts(self) -> tuple[Array, ...]:
        """All six arrays."""
        return self.z_low, self.z_high, self.u_low, self.u_high, self.d_low, self.d_high

    def take(self, rows: IntArray) -> Limits:
        """The limits of some parts of the input set."""
        return Limits(*(part[rows] for part in self.parts()))

    def join(self, other: Limits) -> Limits:
        """The limits of the parts of both."""
        return Limits(*map(np.concatenate, zip(self.parts(), other.parts(), strict=True)))

    def tighten(self, other: Limits) -> None:
        """Take the tighter of two limits, in place."""
        for number, (mine, found) in enumerate(zip(self.parts(), other.parts(), strict=True)):
            (np.minimum if number % 2 else np.maximum)(mine, found, out=mine)


@dataclass(slots=True)
class Lines:
    """Slopes and constants of the chords of one stage; every array is (B, 1, k) and broadcasts over rows."""

    slope: Array  # of the activation left of zero
    z_slope: Array
    z_constant: Array
    u_slope: Array
    u_constant: Array
    up_slope: Array  # upper side of (1)
    up_constant: Array
    down_slope: Array  # lower side of (1)
    down_constant: Array
    z_size: Array  # largest absolute values
    d_size: Array
    h_size: Array
    D_size: Array


def activate(t: Array, slope: Array) -> Array:
    """Return φ(t)."""
    return np.where(t > 0, t, slope * t)


def lines_between(limits: Limits, slopes: Array) -> Lines:
    """Return the chords of a stage."""
    z_slope, z_constant = _chord(limits.z_low, limits.z_high, slopes)
    r = limits.d_low.shape[1]
    matched = slopes[:r]
    u_slope, u_constant = _chord(limits.u_low, limits.u_high, matched)
    up_slope, up_constant = _chord(limits.d_low, limits.d_high, matched)
    down_slope, down_constant = _chord(-limits.d_high, -limits.d_low, matched)
    z_size = np.maximum(np.abs(limits.z_low), np.abs(limits.z_high))
    d_size = np.maximum(np.abs(limits.d_low), np.abs(limits.d_high))
    steepest = np.maximum(1.0, np.abs(slopes))
    sizes = (z_size, d_size, steepest * z_size, steepest[:r] * d_size)
    chords = (z_slope, z_constant, u_slope, u_constant, up_slope, up_constant, down_slope, -down_constant)
    return Lines(slopes, *(part[:, None, :] for part in (*chords, *sizes)))


def _chord(low: Array, high: Array, slopes: Array) -> tuple[Array, Array]:
    """The chord of φ between limits: slope and constant, rounded so that it lies above φ."""
    bends = (low < 0) & (high > 0)
    width = np.where(bends, high - low, 1.0)
    slope = np.where(bends, (high - slopes * low) / width, np.where(low >= 0, 1.0, slopes))
    ends = np.maximum(slopes * low - slope * low, high - slope * high)
    slack = SLACK * (np.abs(low) + np.abs(high)) * (1.0 + np.abs(slopes))
    return slope, np.where(bends, ends + slack, 0.0)
