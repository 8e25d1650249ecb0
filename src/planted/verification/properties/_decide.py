"""`planted.verify`: decide a VNN-LIB property of one or two networks.

A property is refuted by a counterexample, which is checked in exact arithmetic on the weights, and proved if the largest
value of (1) in `planted.verification.properties._joint` is below zero for every case. Cases that no outputs at all satisfy,
because two constraints contradict each other, are settled without the networks. That an output never falls as an input
rises, which is a property of two copies of one network, is proved by bounds of the derivative.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from planted._clock import StopRequested, check_time, seconds_left, time_budget
from planted._streams import solver_streams
from planted._threads import one_thread_inside
from planted._typing import Array, Json, Seed
from planted.outcomes import BadInputError
from planted.verification._bracket import bracket
from planted.verification._exact import exact_outputs
from planted.verification._ranges import slopes
from planted.verification._stages import Plain, as_plain, side_by_side
from planted.verification.properties._joint import (
    Joint,
    is_about_differences,
    is_outside,
    join_inputs,
    objective,
)
from planted.verification.properties._vnnlib import ONE, Case, Constraint, Property, read_vnnlib

__all__ = ["Verdict", "verify"]

SECONDS = 60.0  # unless a budget is given
MARGIN = 1e-11  # part of an output: smaller excesses are rounding


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of `verify`.

    Parameters
    ----------
    holds : bool or None
        True if it is proved that there is no counterexample, False if one was found, None if it is not decided.
    witness : tuple of ndarray
        The counterexample: the inputs of every network; empty if there is none. It is checked in exact arithmetic, and
        then rounded to floating-point numbers: an input that the property fixes at 0.1 is 0.1 in the check.
    outputs : tuple of ndarray
        What the networks make of it.
    detail : str
        The answer in a sentence.
    bounds : tuple of float
        For every case that needed the networks: no input satisfies its constraints with a margin above this.
    """

    holds: bool | None
    witness: tuple[Array, ...]
    outputs: tuple[Array, ...]
    detail: str
    bounds: tuple[float, ...] = ()

    def to_dict(self) -> Json:
        """Return the answer as plain numbers, lists and text, ready for JSON.

        Returns
        -------
        dict
            All fields by name.
        """
        return {
            "holds": self.holds,
            "witness": [part.tolist() for part in self.witness],
            "outputs": [part.tolist() for part in self.outputs],
            "detail": self.detail,
            "bounds": [value if np.isfinite(value) else None for value in self.bounds],
        }

    def __str__(self) -> str:
        return self.detail


@one_thread_inside
def verify(
    statement: str | PathLike[str],
    network: Any,
    other: Any = None,
    *,
    budget_seconds: float | None = None,
    random_state: Seed = None,
) -> Verdict:
    """Decide a property that is written in VNN-LIB: proved, refuted by a counterexample, or not decided.

    Parameters
    ----------
    statement : str or path
        The property: a path of a file, also compressed with gzip, or its text. It describes a counterexample.
    network, other : TwoLayerNetwork or DeepNetwork
        The networks with ReLU or leaky ReLU units that the property speaks of. The second may be omitted where the
        property says that it equals the first.
    budget_seconds : float, optional
        Time limit, 60 seconds if not given.
    random_state : int, Generator, SeedSequence or None
        Seed of the search for a counterexample.

    Returns
    -------
    Verdict
        The answer, with the counterexample if there is one.

    Examples
    --------
    >>> import planted
    >>> net = planted.TwoLayerNetwork(W=[[1.0]], A=[[2.0]])
    >>> box = "(declare-const X_0 Real) (declare-const Y_0 Real) (assert (>= X_0 -1)) (assert (<= X_0 1)) "
    >>> planted.verify(box + "(assert (> Y_0 2.5))", net, random_state=0).holds
    True
    >>> planted.verify(box + "(assert (> Y_0 1.5))", net, random_state=0).witness[0].tolist()
    [1.0]
    """
    known = read_vnnlib(_text(statement))
    nets = _networks(known, network, other)
    (rng,) = solver_streams(random_state, 1)
    bounds: list[float] = []
    open_cases, reason = 0, ""
    with time_budget(SECONDS if budget_seconds is None else budget_seconds):
        for cases in _grouped([case for case in known.cases if not _is_empty(case)]):
            try:
                check_time()
                decided = _Group(cases, known, nets).decide(rng)
            except StopRequested as stop:
                reason = str(stop)
                decided = _Decided(0, np.inf)
            if decided.values is not None:
                return _refuted(nets, decided.values, bounds)
            bounds.append(decided.bound)
            open_cases += len(cases) - decided.n_proved
    count = f"{len(known.cases)} case{'s' if len(known.cases) > 1 else ''}"
    if open_cases:
        detail = f"Not decided: {open_cases} of {count} left open{', ' + reason if reason else ''}."
        return Verdict(None, (), (), detail, tuple(bounds))
    how = "" if bounds else ": the constraints contradict each other, whatever the networks are"
    return Verdict(True, (), (), f"Proved: no counterexample in {count}{how}.", tuple(bounds))


def _text(statement: str | PathLike[str]) -> str:
    """The text of a property; a text has brackets, a path has none."""
    if isinstance(statement, str) and "(" in statement:
        return statement
    if isinstance(statement, str) and (not statement.strip() or "\n" in statement):
        raise BadInputError(
            "VNN-LIB: the text has no brackets; expected declarations and assertions, or a path"
        )
    path = Path(statement)
    data = path.read_bytes()
    if path.suffix == ".gz":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as error:
            raise BadInputError(f"{path}: {error}") from error
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadInputError(f"{path}: this is not a text file") from None


def _networks(known: Property, network: Any, other: Any) -> tuple[Plain, ...]:
    """The networks of a property, with the sizes that it declares."""
    if len(known.sizes) == 1 and other is not None:
        raise BadInputError("the property speaks of one network; two were given")
    if len(known.sizes) == 2 and other is None:
        if not known.is_same:
            raise BadInputError("the property speaks of two networks; one was given")
        other = network
    nets = tuple(as_plain(net) for net in (network, other)[: len(known.sizes)])
    if known.is_same and len(nets) == 2 and not _are_same(*nets):
        raise BadInputError(
            "the property says that the second network equals the first; the two that were given differ"
        )
    for net, size in zip(nets, known.sizes, strict=True):
        if (net.widths[0], net.widths[-1]) != (size["X"], size["Y"]):
            raise BadInputError(
                f"the property has {size['X']} inputs and {size['Y']} outputs, the network {net.widths[0]} and "
                f"{net.widths[-1]}"
            )
    return nets


def _are_same(f: Plain, g: Plain) -> bool:
    """Whether two networks have the same weights and slopes."""
    parts = [[*(part for layer in net.layers for part in layer), *net.slopes] for net in (f, g)]
    return f.widths == g.widths and all(np.array_equal(one, other) for one, other in zip(*parts, strict=True))


def _is_empty(case: Case) -> bool:
    """Whether a constraint without variables is false, or two constraints contradict each other, exactly."""
    totals: dict[tuple[Any, ...], list[Constraint]] = {}
    for constraint in case:
        terms = tuple(sorted((key, value) for key, value in constraint.terms.items() if key != ONE))
        constant = _constant(constraint)
        if not terms and (constant > 0 or (constant == 0 and constraint.is_strict)):
            return True
        opposite = tuple((key, -value) for key, value in terms)
        for mate in totals.get(opposite, []) if terms else []:
            gap = _constant(constraint) + _constant(mate)
            if gap > 0 or (gap == 0 and (constraint.is_strict or mate.is_strict)):
                return True
        totals.setdefault(terms, []).append(constraint)
    return False


def _constant(constraint: Constraint) -> Fraction:
    return constraint.terms.get(ONE, Fraction(0))


def _grouped(cases: list[Case]) -> list[list[Case]]:
    """Cases that can be decided at once: of the same inputs, and each with one constraint on differences of outputs."""
    groups: dict[Any, list[Case]] = {}
    for number, case in enumerate(cases):
        inputs, outputs = _parts(case)
        key: Any = number
        if is_about_differences(outputs) and len(outputs) == 1:
            key = frozenset((one.is_strict, tuple(sorted(one.terms.items(), key=str))) for one in inputs)
        groups.setdefault(key, []).append(case)
    return list(groups.values())


def _parts(case: Case) -> tuple[list[Constraint], list[Constraint]]:
    """The constraints on inputs and those on outputs."""
    kinds = [{key[1] for key in constraint.terms if key != ONE} for constraint in case]
    if any(len(kind) > 1 for kind in kinds):
        raise BadInputError("VNN-LIB: a constraint mixes inputs and outputs; that is not supported")
    outputs = [one for one, kind in zip(case, kinds, strict=True) if kind == {"Y"}]
    if not outputs:
        raise BadInputError("VNN-LIB: a case has no constraint on outputs")
    return [one for one, kind in zip(case, kinds, strict=True) if kind == {"X"}], outputs


@dataclass(frozen=True, slots=True)
class _Decided:
    """What became of some cases: how many are proved empty, the bound of (1), and the inputs of a counterexample."""

    n_proved: int
    bound: float
    values: list[Array] | None = None


class _Group:
    """Cases of the same inputs with their networks: a single one, or several about differences."""

    def __init__(self, cases: list[Case], known: Property, nets: tuple[Plain, ...]) -> None:
        self.cases, self.known, self.nets = cases, known, nets
        self.of_inputs = _parts(cases[0])[0]
        self.outputs = [_parts(case)[1] for case in cases]

    def decide(self, rng: np.random.Generator) -> _Decided:
        """Look for a counterexample and bound (1)."""
        joint = join_inputs(self.of_inputs, self.known.sizes)
        if joint is None:
            return _Decided(len(self.cases), -np.inf)
        parts = [joint.network(net, number) for number, net in enumerate(self.nets)]
        f, g = self._objectives(parts)
        is_twin = self._is_twin()
        middle = 0.5 * joint.inputs.low + 0.5 * joint.inputs.high
        margin = MARGIN * float(np.abs(f(middle[None])).max())
        with time_budget(seconds_left() / 4 if is_twin else None):
            known = bracket(f, g, joint.inputs, tol=0.0, only_upwards=True, margin=margin, rng=rng)
        for place in np.argsort(-known.found):
            found = (
                self._confirmed(self.cases[place], known.inputs[place], joint)
                if known.found[place] >= -2 * margin  # what is met with equality may be exact
                else None
            )
            if found is not None:
                return _Decided(0, known.largest_proved, found)
        if is_twin and self._is_monotone(joint):
            return _Decided(1, 0.0)
        # Where the maximum is zero, one constraint is met with equality, and which one is not known.
        is_strict = [all(constraint.is_strict for constraint in outputs) for outputs in self.outputs]
        is_proved = (known.proved < 0) | ((known.proved == 0) & is_strict)
        return _Decided(int(is_proved.sum()), known.largest_proved)

    def _objectives(self, parts: list[Plain]) -> tuple[Plain, Plain | None]:
        """The network (1) with one output for each case, or the two networks whose difference it is."""
        sizes = [net.widths[-1] for net in parts]
        if len(parts) == 1 or not is_about_differences(self.outputs[0]):
            net = parts[0] if len(parts) == 1 else side_by_side(*parts)
            starts = np.cumsum([0, *sizes])
            columns = {(n, "Y", i): int(starts[n]) + i for n, size in enumerate(sizes) for i in range(size)}
            return objective(self.outputs[0], net, columns), None
        columns = {(n, "Y", i): i for n in (0, 1) for i in range(sizes[0])}
        ours, theirs = [], []
        for (constraint,) in self.outputs:
            mine = {key: value for key, value in constraint.terms.items() if key == ONE or key[0] == 0}
            ours.append(objective([Constraint(mine, True)], parts[0], columns))
            mine.pop(ONE, None)
            theirs.append(objective([Constraint(mine, True)], parts[1], columns))
        return _stacked(ours), _stacked(theirs)

    def _is_monotone(self, joint: Joint) -> bool:
        """Whether the case says that an output falls while one input rises, and the derivative excludes it."""
        apart = [i for i, (p, q) in enumerate(zip(*joint.places, strict=True)) if p != q]
        if len(apart) != 1 or len(joint.inputs.g) != 1:
            return False
        ((key, value),) = (
            item for item in self.outputs[0][0].terms.items() if item[0] != ONE and item[0][0] == 0
        )
        p, q = joint.places[0][apart[0]], joint.places[1][apart[0]]
        G, g = joint.inputs.G[0], joint.inputs.g[0]
        others = np.delete(np.arange(len(G)), [p, q])
        if _constant(self.outputs[0][0]) < 0 or g != 0 or G[others].any() or G[p] != -G[q]:
            return False
        low, high = joint.inputs.low, joint.inputs.high
        places = list(joint.places[0])
        least, most = low[places], high[places]
        least[apart[0]], most[apart[0]] = min(low[p], low[q]), max(high[p], high[q])
        found = slopes(self.nets[0], (least, most), budget_seconds=seconds_left())
        # G[p] < 0: the input of the first network is the larger one. value > 0: its output is the smaller one.
        rises = bool(found.low[key[2], apart[0]] >= 0)
        falls = bool(found.high[key[2], apart[0]] <= 0)
        return rises if (G[p] < 0) == (value > 0) else falls

    def _is_twin(self) -> bool:
        """Whether the case is about one output of two copies of one network, strictly."""
        if len(self.nets) != 2 or len(self.cases) != 1 or not is_about_differences(self.outputs[0]):
            return False
        (constraint,) = self.outputs[0]
        return (
            _are_same(*self.nets)
            and constraint.is_strict
            and len([key for key in constraint.terms if key != ONE]) == 2
        )

    def _confirmed(self, case: Case, u: Array, joint: Joint) -> list[Array] | None:
        """The inputs of every network, if exact arithmetic confirms that they are a counterexample."""
        rows = joint.exact(u)
        values: dict[Any, Fraction] = {}
        for number, (net, row) in enumerate(zip(self.nets, rows, strict=True)):
            values |= {(number, "X", i): value for i, value in enumerate(row)}
            values |= {(number, "Y", i): value for i, value in enumerate(exact_outputs(net, row))}
        return None if is_outside(case, values) else [np.array(row, dtype=np.float64) for row in rows]


def _stacked(nets: list[Plain]) -> Plain:
    """Networks that differ in the last layer only, as one with all their outputs."""
    last = [net.layers[-1] for net in nets]
    both = np.vstack([W for W, _ in last]), np.concatenate([b for _, b in last])
    return Plain((*nets[0].layers[:-1], both), nets[0].slopes)


def _refuted(nets: tuple[Plain, ...], rows: list[Array], bounds: list[float]) -> Verdict:
    outputs = tuple(net(row[None])[0] for net, row in zip(nets, rows, strict=True))
    detail = "Refuted: the witness satisfies every constraint of a case, in exact arithmetic."
    return Verdict(False, tuple(rows), outputs, detail, tuple(bounds))
