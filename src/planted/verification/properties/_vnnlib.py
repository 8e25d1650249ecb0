"""Read VNN-LIB property files: what inputs and outputs a counterexample must have.

A file declares the numbers that go into one or two networks and come out of them, and asserts linear constraints on
them, joined by `and` and `or`. It is read as a list of cases (a disjunction); each case is a list of linear constraints
that all hold. A property is refuted by numbers that satisfy one case, and proved if there are none.

Version 1 declares ``(declare-const X_0 Real)`` and ``Y_0``; version 2 declares networks with inputs and outputs as arrays,
``X_f[3]``, and a second network that is `isomorphic-to` or `equal-to` the first. Numbers are read as exact decimal
fractions. What is not linear, and what has more than two networks, is refused with the expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from planted.outcomes import BadInputError

__all__ = ["Case", "Linear", "Property", "read_vnnlib"]

MOST_CASES = 10_000
MOST_NESTED = 300  # brackets; each level is a call or two
ONE = "1"  # the key of the constant of a linear expression
COMPARISONS = ("<=", ">=", "<", ">", "==", "=")
Linear = dict[Any, Fraction]  # (network, "X" or "Y", number) or ONE, to its coefficient


@dataclass(frozen=True, slots=True)
class Constraint:
    """A linear expression that is at most zero; below zero if strict."""

    terms: Linear
    is_strict: bool


Case = list[Constraint]


@dataclass(slots=True)
class Property:
    """What a file says: shapes of inputs and outputs network by network, relations of networks, and the cases."""

    sizes: list[dict[str, int]] = field(default_factory=list)  # {"X": d, "Y": m} of each network
    is_same: bool = False  # whether the second network is the first one
    cases: list[Case] = field(default_factory=list)


def read_vnnlib(text: str) -> Property:
    """Read the text of a property file.

    Examples
    --------
    >>> found = read_vnnlib("(declare-const X_0 Real) (declare-const Y_0 Real) (assert (<= X_0 0.5)) (assert (>= Y_0 1))")
    >>> found.sizes, len(found.cases), len(found.cases[0])
    ([{'X': 1, 'Y': 1}], 1, 2)
    """
    known = _Names()
    cases: list[Case] = [[]]
    for form in _forms(text):
        head = form[0] if isinstance(form, list) and form else form
        if head == "declare-const" and len(form) == 3:
            known.declare_number(str(form[1]))
        elif head == "declare-network":
            known.declare_network(form)
        elif head == "assert" and len(form) == 2:
            cases = [[*one, *other] for one, other in product(cases, _cases(form[1], known))]
            if len(cases) > MOST_CASES:
                raise BadInputError(f"VNN-LIB: more than {MOST_CASES} cases")
        elif head != "vnnlib-version":
            raise BadInputError(f"VNN-LIB: {_shown(form)} is not understood")
    if not known.found.sizes or not all(size["X"] and size["Y"] for size in known.found.sizes):
        raise BadInputError("VNN-LIB: no inputs X or no outputs Y are declared")
    known.found.cases = cases
    return known.found


class _Names:
    """The names that are declared."""

    def __init__(self) -> None:
        self.found = Property()
        self.shapes: dict[str, tuple[int, str, tuple[int, ...]]] = {}

    def declare_number(self, name: str) -> None:
        """A number of version 1: X_3 or Y_0."""
        match = re.fullmatch(r"([XY])_(\d+)", name)
        if match is None:
            raise BadInputError(f"VNN-LIB: the name {name!r} is not X_i or Y_j")
        if not self.found.sizes:
            self.found.sizes.append({"X": 0, "Y": 0})
        size = self.found.sizes[0]
        size[match[1]] = max(size[match[1]], int(match[2]) + 1)

    def declare_network(self, form: list[Any]) -> None:
        """A network of version 2 with one input array and one output array."""
        number = len(self.found.sizes)
        if number == 2:
            raise BadInputError("VNN-LIB: more than two networks are declared")
        self.found.sizes.append({"X": 0, "Y": 0})
        for part in form[2:]:
            if not isinstance(part, list) or len(part) < 2 or not isinstance(part[1], str):
                raise BadInputError(f"VNN-LIB: {_shown(part)} is not understood")
            if part[0] in ("declare-input", "declare-output"):
                kind = "X" if part[0] == "declare-input" else "Y"
                inside = re.findall(r"\[([^\]]*)\]", " ".join(map(str, part[2:])))
                shape = tuple(int(length) for text in inside for length in re.findall(r"\d+", text))
                if self.found.sizes[number][kind]:
                    raise BadInputError(f"VNN-LIB: {_shown(part)}: a second array of this kind")
                self.found.sizes[number][kind] = prod(shape)
                self.shapes[part[1]] = number, kind, shape
            elif part[0] == "equal-to":
                self.found.is_same = True
            elif part[0] != "isomorphic-to":
                raise BadInputError(f"VNN-LIB: {_shown(part)} is not understood")

    def key(self, name: str) -> tuple[int, str, int] | None:
        """The number that a name stands for."""
        match = re.fullmatch(r"([XY])_(\d+)", name)
        if match and not self.shapes:
            number = int(match[2])
            is_known = bool(self.found.sizes) and number < self.found.sizes[0][match[1]]
            return (0, match[1], number) if is_known else None
        match = re.fullmatch(r"(\w+)((?:\[[\d,\s]+\])*)", name)
        if match is None or match[1] not in self.shapes:
            return None
        network, kind, shape = self.shapes[match[1]]
        places = tuple(int(place) for place in re.findall(r"\d+", match[2]))
        if not places and prod(shape) == 1:
            places = (0,) * len(shape)
        if len(places) != len(shape) or any(a >= b for a, b in zip(places, shape, strict=True)):
            raise BadInputError(f"VNN-LIB: {name} does not fit the shape {list(shape)}")
        flat = 0
        for place, size in zip(places, shape, strict=True):
            flat = flat * size + place
        return network, kind, flat


def _forms(text: str) -> Iterator[Any]:
    """The expressions of a file as nested lists."""
    text = re.sub(r";[^\n]*", "", text)
    # An index may contain blanks; it stays with its name.
    tokens = re.findall(r"[()]|[^\s()\[\]]+(?:\s*\[[^\]]*\])*|\[[^\]]*\]", text)
    stack: list[list[Any]] = []
    for token in tokens:
        if token == "(":
            if len(stack) == MOST_NESTED:
                raise BadInputError(f"VNN-LIB: more than {MOST_NESTED} brackets in one another")
            stack.append([])
        elif token == ")":
            if not stack:
                raise BadInputError("VNN-LIB: a bracket is closed that was not opened")
            form = stack.pop()
            if stack:
                stack[-1].append(form)
            else:
                yield form
        elif not stack:
            raise BadInputError(f"VNN-LIB: {token!r} stands outside of brackets")
        else:
            stack[-1].append(token)
    if stack:
        raise BadInputError("VNN-LIB: a bracket is not closed")


def _cases(form: Any, known: _Names) -> list[Case]:
    """The cases of an assertion."""
    if not isinstance(form, list) or not form:
        raise BadInputError(f"VNN-LIB: {_shown(form)} is not an assertion")
    head = form[0]
    if head == "and":
        found: list[Case] = [[]]
        for part in form[1:]:
            found = [[*one, *other] for one, other in product(found, _cases(part, known))]
            if len(found) > MOST_CASES:
                raise BadInputError(f"VNN-LIB: more than {MOST_CASES} cases")
        return found
    if head == "or":
        return [case for part in form[1:] for case in _cases(part, known)]
    if len(form) == 3 and form[1] in COMPARISONS and head not in COMPARISONS:
        form = [form[1], form[0], form[2]]  # (a < b), as some files have it
        head = form[0]
    if head in COMPARISONS and len(form) == 3:
        one, other = (_linear(part, known) for part in form[1:])
        less, more = _sum(one, other, -1), _sum(other, one, -1)
        if head in ("==", "="):
            return [[Constraint(less, False), Constraint(more, False)]]
        return [[Constraint(less if head.startswith("<") else more, "=" not in head)]]
    raise BadInputError(f"VNN-LIB: {_shown(form)} is not understood")


def _linear(form: Any, known: _Names) -> Linear:
    """A linear expression."""
    if isinstance(form, str):
        key = known.key(form)
        if key is not None:
            return {key: Fraction(1)}
        if re.fullmatch(r"[^eE]*[eE][+-]?0*[1-9]\d{3,}", form):
            raise BadInputError(f"VNN-LIB: the exponent of {_shown(form)} is too large")
        try:
            return {ONE: Fraction(form)}
        except (ValueError, ZeroDivisionError):
            raise BadInputError(f"VNN-LIB: {form!r} is neither a number nor a declared name") from None
    if len(form) >= 2 and form[0] in ("+", "-", "*"):
        parts = [_linear(part, known) for part in form[1:]]
        if form[0] == "*":
            return _product(parts, form)
        if form[0] == "-" and len(parts) == 1:
            return _sum({}, parts[0], -1)
        total = parts[0]
        for part in parts[1:]:
            total = _sum(total, part, 1 if form[0] == "+" else -1)
        return total
    raise BadInputError(f"VNN-LIB: {_shown(form)} is not a linear expression")


def _product(parts: list[Linear], form: Any) -> Linear:
    """A product in which at most one factor is not a number."""
    total = {ONE: Fraction(1)}
    for part in parts:
        if set(part) - {ONE} and set(total) - {ONE}:
            raise BadInputError(f"VNN-LIB: {_shown(form)} is not linear")
        number, other = (total, part) if set(part) - {ONE} else (part, total)
        total = {key: value * number.get(ONE, Fraction(0)) for key, value in other.items()}
    return total


def _sum(one: Linear, other: Linear, sign: int) -> Linear:
    total = dict(one)
    for key, value in other.items():
        total[key] = total.get(key, Fraction(0)) + sign * value
    return {key: value for key, value in total.items() if value}


def _shown(form: Any) -> str:
    """An expression as text, shortened."""
    text = f"({' '.join(map(_shown, form))})" if isinstance(form, list) else str(form)
    return text if len(text) <= 80 else text[:77] + "..."
