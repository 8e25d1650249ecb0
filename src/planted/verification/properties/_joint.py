r"""Write a case of a property as the largest outputs of a network on a box of inputs.

Inputs of two networks that are equal become one: f and g are then functions of common inputs u. Bounds of single inputs
make the box, other linear constraints the polytope. All are rounded outwards, so that the set contains every input that
the property speaks of.

A case asks for outputs with t_i = c_i'y + e_i ≤ 0 for all i: the largest value of

.. math:: F = \min_i (-c_i'y - e_i)                                                                       \quad (1)

decides. The minimum of several numbers is a network, min(p, q) = p - max(p - q, 0), so that F is one too. Coefficients are
made whole numbers first; constants are rounded so that F becomes larger. Where a single constraint speaks of differences
of outputs of the two networks, c'(y_f - y_g), F is a difference of networks and is bounded as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, lcm, nextafter

import numpy as np

from planted._typing import Array
from planted.outcomes import BadInputError
from planted.verification._search import InputSet
from planted.verification._stages import Plain
from planted.verification.properties._vnnlib import ONE, Case, Constraint, Linear

__all__ = ["Joint", "is_about_differences", "is_outside", "join_inputs", "objective"]

N_ROUNDS = 10  # of bounds that follow from other bounds
LARGEST = 2**53  # whole numbers up to this are floating-point numbers
Key = tuple[int, str, int]


@dataclass(frozen=True, slots=True)
class Joint:
    """The inputs of a case: a set of common inputs u, and where each network finds its own among them."""

    inputs: InputSet
    places: tuple[tuple[int, ...], ...]  # for every network, input i is u[places[i]]
    ends: tuple[tuple[Fraction, Fraction], ...]  # the box, not rounded

    def exact(self, u: Array) -> list[list[Fraction]]:
        """The inputs of every network nearest to u in the box that is not rounded."""
        inside = [
            min(max(Fraction(float(x)), low), high) for x, (low, high) in zip(u, self.ends, strict=True)
        ]
        return [[inside[place] for place in places] for places in self.places]

    def network(self, net: Plain, number: int) -> Plain:
        """A network as a function of the common inputs; its weights are the same numbers."""
        (W, b), *rest = net.layers
        wide = np.zeros((len(b), len(self.inputs.low)))
        wide[:, list(self.places[number])] = W
        return Plain(((wide, b), *rest), net.slopes)


def join_inputs(case: Case, sizes: Sequence[dict[str, int]]) -> Joint | None:
    """Return the set of inputs of a case; None if two bounds contradict each other."""
    owner = _merged(case, sizes)
    names = sorted(set(owner.values()))
    low: dict[Key, Fraction | None] = dict.fromkeys(names)
    high: dict[Key, Fraction | None] = dict.fromkeys(names)
    rows: list[tuple[dict[Key, Fraction], Fraction]] = []
    for constraint in case:
        terms: dict[Key, Fraction] = {}
        for key, value in constraint.terms.items():
            if key != ONE:
                terms[owner[key]] = terms.get(owner[key], Fraction(0)) + value
        terms = {key: value for key, value in terms.items() if value}
        if terms:
            rows.append((terms, -constraint.terms.get(ONE, Fraction(0))))  # terms <= limit
    for _ in range(N_ROUNDS):
        for terms, limit in rows:
            _tighten(terms, limit, low, high)
    ends: list[tuple[Fraction, Fraction]] = []
    for name in names:
        least, most = low[name], high[name]
        if least is None or most is None:
            raise BadInputError(f"VNN-LIB: input {name[2]} of network {name[0]} has no bounds")
        if least > most:
            return None
        ends.append((least, most))
    several = [(terms, limit) for terms, limit in rows if len(terms) > 1]
    G = np.zeros((len(several), len(names)))
    g = np.zeros(len(several))
    for row, (terms, limit) in enumerate(several):
        whole, limit = _whole(terms, limit)
        for key, value in whole.items():
            G[row, names.index(key)] = float(value)
        g[row] = _above(limit)
    inputs = InputSet(
        np.array([-_above(-least) for least, _ in ends]),
        np.array([_above(most) for _, most in ends]),
        G,
        g,
    )
    places = tuple(
        tuple(names.index(owner[number, "X", i]) for i in range(size["X"]))
        for number, size in enumerate(sizes)
    )
    return Joint(inputs, places, tuple(ends))


def _merged(case: Case, sizes: Sequence[dict[str, int]]) -> dict[Key, Key]:
    """The input that stands for each: equal inputs of two networks are one."""
    owner = {(n, "X", i): (n, "X", i) for n, size in enumerate(sizes) for i in range(size["X"])}
    seen = {tuple(sorted(c.terms.items())) for c in case if not c.is_strict and ONE not in c.terms}
    for terms in seen:
        if len(terms) != 2 or tuple((key, -value) for key, value in terms) not in seen:
            continue
        (one, p), (other, q) = terms
        # Inputs of one network stay apart: adding their weights would round.
        if p == -q and one[0] != other[0] and owner[other] == other and owner[one] == one:
            owner[other] = one
    return owner


def _tighten(
    terms: dict[Key, Fraction],
    limit: Fraction,
    low: dict[Key, Fraction | None],
    high: dict[Key, Fraction | None],
) -> None:
    """Bounds of every input that follow from one inequality and the bounds of the others."""
    for key, value in terms.items():
        rest = limit
        for other, weight in terms.items():
            end = low[other] if weight > 0 else high[other]
            if other != key:
                if end is None:
                    break
                rest -= weight * end
        else:
            end = rest / value
            known = high[key] if value > 0 else low[key]
            if value > 0 and (known is None or end < known):
                high[key] = end
            elif value < 0 and (known is None or end > known):
                low[key] = end


def objective(outputs: Sequence[Constraint], net: Plain, columns: dict[Key, int]) -> Plain:
    """The network (1) from a network whose outputs are the numbers of `columns`."""
    rows, constants = [], []
    for constraint in outputs:
        terms = {key: value for key, value in constraint.terms.items() if key != ONE}
        whole, limit = _whole(terms, -constraint.terms.get(ONE, Fraction(0)))
        row = np.zeros(net.widths[-1])
        for key, value in whole.items():
            row[columns[key]] = -float(value)
        rows.append(row)
        constants.append(_above(limit))
    layers = [*net.layers, (np.array(rows), np.array(constants))]
    slopes = [*net.slopes, np.ones(net.widths[-1])]
    # `state` times the units is (p, t_j, ..., t_last), with p the minimum so far; the next units are p, max(p - t_j, 0)
    # and the numbers after t_j.
    state, slope = np.eye(len(rows)), np.ones(len(rows))
    while len(state) > 1:
        p, t, rest = state[0], state[1], state[2:]
        layers.append((np.vstack([p, p - t, rest]), np.zeros(len(rest) + 2)))
        slopes.append(slope)
        slope = np.append([1.0, 0.0], np.ones(len(rest)))
        state = np.zeros((len(rest) + 1, len(rest) + 2))
        state[0, :2] = 1.0, -1.0
        state[1:, 2:] = np.eye(len(rest))
    if len(rows) > 1:
        layers.append((state, np.zeros(1)))
        slopes.append(slope)
    return Plain(tuple(layers), tuple(slopes))


def is_about_differences(outputs: Sequence[Constraint]) -> bool:
    """Whether the only constraint is one on differences of outputs of the two networks."""
    if len(outputs) != 1:
        return False
    terms = {key: value for key, value in outputs[0].terms.items() if key != ONE}
    return bool(terms) and all(
        terms.get((1 - net, kind, place)) == -value for (net, kind, place), value in terms.items()
    )


def _whole(terms: Linear, limit: Fraction) -> tuple[Linear, Fraction]:
    """The same inequality with whole coefficients, which are floating-point numbers."""
    factor = lcm(*(value.denominator for value in terms.values()))
    whole = {key: value * factor for key, value in terms.items()}
    if any(abs(value) > LARGEST for value in whole.values()):
        raise BadInputError("VNN-LIB: coefficients with more than 15 digits in one constraint")
    return whole, limit * factor


def _above(number: Fraction) -> float:
    """The smallest floating-point number that is not below."""
    try:
        found = float(number)
    except OverflowError:
        raise BadInputError("VNN-LIB: a bound or a constant is beyond the floating-point numbers") from None
    return found if Fraction(found) >= number else nextafter(found, inf)


def is_outside(case: Case, values: dict[Key, Fraction]) -> bool:
    """Whether numbers break a constraint of a case, decided exactly."""
    for constraint in case:
        total = sum(
            (value * (Fraction(1) if key == ONE else values[key]) for key, value in constraint.terms.items()),
            Fraction(0),
        )
        if total > 0 or (total == 0 and constraint.is_strict):
            return True
    return False
