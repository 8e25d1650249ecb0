"""The units of networks in exact arithmetic.

Floating-point numbers are whole numbers times powers of two. So a row ``(w, b)`` is a positive factor times a vector of
whole numbers without common divisor, and two units share a hyperplane if and only if these vectors agree up to sign:
they are found by looking them up, without a tolerance. Each activation is written with rectified powers,

    f(t) = right t₊^p + left (-t)₊^p,                                                                  (1)

and the coefficients on either side of each hyperplane are added up as fractions. Because

    (-t)₊^p = (-1)^p (t^p - t₊^p),                                                                     (2)

the sum is zero everywhere if and only if on every hyperplane the coefficients of t₊^p cancel, and the polynomial that is
left is zero. For degree one this polynomial is ``V x + v``, which is computed. For higher degrees it is evaluated
at random whole numbers, three times: a polynomial of degree p that is not zero vanishes at a random one of N³ points with
a probability of at most (p / N)³, here 1e-25.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from planted._streams import solver_streams
from planted._typing import Array

if TYPE_CHECKING:
    from planted.networks._network import TwoLayerNetwork

__all__ = ["ExactSum", "Plane", "exact_sum", "to_float"]

MANTISSA = 53
N_POINTS = 3  # at which a polynomial of higher degree is evaluated
LARGEST_COORDINATE = 1 << 31

Numbers = list[Fraction]  # one for each output


@dataclass(slots=True)
class Plane:
    """A hyperplane ``row · (x, 1) = 0`` and what is added up on it; coefficients are in units of ``row``."""

    row: Array  # (d + 1,): weights and bias of the first unit on it
    factor: Fraction  # row = factor * the vector of whole numbers
    ahead: Numbers  # coefficients of t₊^p
    behind: Numbers  # coefficients of (-t)₊^p
    size: Array  # (m,): sum of the sizes of all that was added

    def breaks(self, degree: int) -> Numbers:
        """Coefficients of t₊^p after (2)."""
        sign = (-1) ** degree
        return [one - sign * other for one, other in zip(self.ahead, self.behind, strict=True)]


@dataclass(frozen=True, slots=True)
class ExactSum:
    """Networks added up with signs: hyperplanes by degree, and the constant."""

    planes: dict[int, list[Plane]]  # those on which not everything cancels, by degree
    constant: Numbers
    constant_size: Array  # (m,)
    linear: list[Numbers] | None  # (m, d): the linear parts added up; None if no network has one
    linear_size: Array  # (m, d)

    def is_zero(self) -> bool:
        """Whether the sum vanishes everywhere."""
        if any(any(plane.breaks(p)) for p, planes in self.planes.items() for plane in planes):
            return False
        if set(self.planes) <= {1}:
            return not any(any(row) for row in self.affine(self.planes.get(1, [])))
        n_features = self.linear_size.shape[1]
        (rng,) = solver_streams(0, 1)
        points = rng.integers(-LARGEST_COORDINATE, LARGEST_COORDINATE, (N_POINTS, n_features))
        return not any(any(self(point.astype(np.float64))) for point in points)

    def affine(self, planes: Sequence[Plane]) -> list[Numbers]:
        """The exact ``(V, v)`` of degree-one planes whose breaks cancel, with the constant; (m, d + 1)."""
        width = planes[0].row.size if planes else 1
        if self.linear is None:
            columns = [[Fraction(0)] * len(self.constant) for _ in range(width)]
        else:
            columns = [list(column) for column in zip(*self.linear, strict=True)]
            columns.append([])
        columns[-1] = list(self.constant)
        for plane in planes:
            for j, entry in enumerate(plane.row):
                if entry:
                    exact = Fraction(float(entry))
                    columns[j] = [
                        total - part * exact for total, part in zip(columns[j], plane.behind, strict=True)
                    ]
        return [list(row) for row in zip(*columns, strict=True)]

    def __call__(self, x: Array) -> Numbers:
        """The exact value at one point, output by output."""
        point = [Fraction(float(entry)) for entry in x] + [Fraction(1)]
        total = list(self.constant)
        for row, slopes in enumerate(self.linear or []):
            total[row] += sum((a * b for a, b in zip(slopes, point[:-1], strict=True)), Fraction(0))
        for p, planes in self.planes.items():
            for plane in planes:
                t = sum(
                    (Fraction(float(a)) * b for a, b in zip(plane.row, point, strict=True) if a and b),
                    Fraction(0),
                )
                if t:
                    power = abs(t) ** p
                    parts = plane.ahead if t > 0 else plane.behind
                    total = [one + part * power for one, part in zip(total, parts, strict=True)]
        return total


def exact_sum(terms: Sequence[tuple[TwoLayerNetwork, int]]) -> ExactSum:
    """Add up networks with signs, exactly; hyperplanes on which everything cancels are left out."""
    m = terms[0][0].n_outputs
    found: dict[int, dict[tuple[int, ...], Plane]] = defaultdict(dict)
    constant, constant_size = [Fraction(0)] * m, np.zeros(m)
    linear: list[Numbers] | None = None
    linear_size = np.zeros((m, terms[0][0].n_features))
    for net, sign in terms:
        activation, p = net.activation, int(net.activation.degree)
        right, left = Fraction(activation.right), Fraction(activation.left)
        constant = [one + sign * Fraction(float(c)) for one, c in zip(constant, net.c, strict=True)]
        constant_size = constant_size + np.abs(net.c)
        if net.B is not None:
            linear = linear or [[Fraction(0)] * net.n_features for _ in range(m)]
            for row, slopes in zip(linear, net.B, strict=True):
                row[:] = [one + sign * Fraction(float(slope)) for one, slope in zip(row, slopes, strict=True)]
            linear_size = linear_size + np.abs(net.B)
        rows = np.column_stack([net.W, net.b])
        for i in np.flatnonzero((net.A != 0).any(axis=0) & (rows != 0).any(axis=1)):
            outputs = [sign * Fraction(float(a)) for a in net.A[:, i]]
            sizes = np.abs(net.A[:, i]) * max(abs(activation.right), abs(activation.left))
            if not rows[i, :-1].any():  # a constant unit
                b = Fraction(float(rows[i, -1]))
                value = (right if b > 0 else left) * abs(b) ** p
                constant = [one + a * value for one, a in zip(constant, outputs, strict=True)]
                constant_size = constant_size + sizes * float(abs(b)) ** p
                continue
            vector, factor, facing = _whole_numbers(rows[i])
            plane = found[p].get(vector)
            if plane is None:
                plane = Plane(facing * rows[i], factor, [Fraction(0)] * m, [Fraction(0)] * m, np.zeros(m))
                found[p][vector] = plane
            ratio = (factor / plane.factor) ** p
            ahead, behind = (right, left) if facing > 0 else (left, right)
            plane.ahead = [one + a * ahead * ratio for one, a in zip(plane.ahead, outputs, strict=True)]
            plane.behind = [one + a * behind * ratio for one, a in zip(plane.behind, outputs, strict=True)]
            plane.size = plane.size + sizes * to_float(ratio)
    planes = {
        p: kept
        for p, group in found.items()
        if (kept := [one for one in group.values() if any(one.ahead + one.behind)])
    }
    return ExactSum(planes, constant, constant_size, linear, linear_size)


def _whole_numbers(row: Array) -> tuple[tuple[int, ...], Fraction, int]:
    """A row as sign * factor * whole numbers without common divisor, the first of them that is not zero positive."""
    mantissas, exponents = np.frexp(row)
    whole = np.ldexp(mantissas, MANTISSA).astype(np.int64)
    lowest = int(exponents[row != 0].min())
    numbers = [int(n) << (int(e) - lowest) if n else 0 for n, e in zip(whole, exponents, strict=True)]
    divisor = gcd(*numbers)
    facing = 1 if next(n for n in numbers if n) > 0 else -1
    shift = lowest - MANTISSA
    factor = Fraction(divisor << shift) if shift >= 0 else Fraction(divisor, 1 << -shift)
    return tuple(facing * n // divisor for n in numbers), factor, facing


def to_float(number: Fraction) -> float:
    """The nearest float; infinite if there is none."""
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
