"""`planted.kinks`: the table of slopes and kinks that users of segmented regression read.

The table is made from the record of a recovery. With one input a kink is a place; its interval, its p-value and the
slopes between kinks come from the tests that found it (`planted.fitting.segments`), where noisy samples of one input were
tested, and are missing elsewhere: intervals of places by the delta method are too short. With several inputs a kink is a
hyperplane, written in the words of the columns. A kink whose other weights are zero within two standard errors, or to
rounding, concerns one column, and has a place there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np

from planted._threads import one_thread_inside
from planted._typing import Array, Json
from planted.checks import Check
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError, BadInputTypeError, Outcome
from planted.results import Recovery, Uncertainty

__all__ = ["Kink", "KinkTable", "kinks"]

Z_95 = 1.959963984540054  # two-sided 95 % point of the normal law
ROUNDING = 1e-9  # weight that is zero
NO_EFFECT = 1e-14  # part of the largest change of slope that is none
SHOWN = 0.05  # part of the largest weight below which an input is left out of the words


@dataclass(frozen=True, slots=True)
class Kink:
    """One kink: where the slope changes, by how much, and how sure that is.

    Parameters
    ----------
    unit : int
        The unit of the network.
    where : str
        The place in the words of the columns.
    column : str or None
        The only column that it concerns, if there is one.
    place : float or None
        The value of that column.
    low, high : float or None
        95 % interval of the place; None where it is open or unknown.
    normal : tuple of float
        Weights of the inputs, of unit length, the largest positive.
    change : tuple of float
        Change of the slope of each output across the kink, along the normal.
    change_low, change_high : tuple of float or None
        95 % interval of the change.
    below, above : int or None
        Samples on either side.
    p_value : float or None
        Of the test that there is no kink here at all, the others kept.
    """

    unit: int
    where: str
    column: str | None
    place: float | None
    low: float | None
    high: float | None
    normal: tuple[float, ...]
    change: tuple[float, ...]
    change_low: tuple[float, ...] | None
    change_high: tuple[float, ...] | None
    below: int | None
    above: int | None
    p_value: float | None


# Start and end of a segment, the slopes of the outputs, and the interval of the slope of one output.
Segment = tuple[float | None, float | None, tuple[float, ...], tuple[float, float] | None]


@dataclass(frozen=True, slots=True)
class KinkTable:
    """The kinks of a recovery, in order.

    Parameters
    ----------
    rows : tuple of Kink
        The kinks; with one input from left to right.
    slopes : tuple of tuple
        With one input: start and end of each segment (None at the ends), the slopes of the outputs, and the ends of the
        95 % interval of the slope where there is one output and noise; else None.
    features, targets : tuple of str
        Names of the inputs and outputs.
    verdict : str
        "kink", "undecided" or "smooth" where noisy samples of one input were tested; else empty.
    notes : tuple of str
        What is worth knowing about the numbers.
    """

    rows: tuple[Kink, ...]
    slopes: tuple[Segment, ...]
    features: tuple[str, ...]
    targets: tuple[str, ...]
    verdict: str = ""
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Any:
        return iter(self.rows)

    def __str__(self) -> str:
        """The table as text."""
        parts = [_aligned([HEADS, *self.cells()])] if self.rows else ["No kink."]
        if self.slopes:
            parts.append(_aligned([SEGMENT_HEADS, *self.segments()]))
        return "\n".join([*parts, *self.notes])

    def cells(self) -> list[tuple[str, ...]]:
        """Return the rows as text, for tables that are printed.

        Returns
        -------
        list of tuple of str
            One tuple for each kink.
        """
        return [_cells(row) for row in self.rows]

    def segments(self) -> list[tuple[str, str, str]]:
        """Return the segments of a function of one input as text, with their slopes.

        Returns
        -------
        list of tuple of str
            Where each segment lies, its slope, and the interval of the slope.
        """
        return [self._segment(one) for one in self.slopes]

    def to_dict(self) -> Json:
        """Return the table as plain data.

        Returns
        -------
        dict
            Rows, slopes, names, verdict and notes; what is unknown is None.
        """
        rows = [{name: getattr(row, name) for name in Kink.__slots__} for row in self.rows]
        slopes = [dict(zip(("start", "end", "slope", "interval"), item, strict=True)) for item in self.slopes]
        return {
            "rows": rows,
            "slopes": slopes,
            "features": self.features,
            "targets": self.targets,
            "verdict": self.verdict,
            "notes": self.notes,
        }

    def json(self) -> str:
        """Return the table as strict JSON.

        Returns
        -------
        str
            The text of `to_dict`.
        """
        return json.dumps(self.to_dict(), allow_nan=False)

    def to_frame(self) -> Any:
        """Return the rows as a DataFrame; needs pandas.

        Returns
        -------
        pandas.DataFrame
            One row for each kink; changes of several outputs are in columns of their own.
        """
        import pandas

        records = []
        for row in self.rows:
            record = {
                name: getattr(row, name)
                for name in ("where", "column", "place", "low", "high", "below", "above", "p_value")
            }
            for place, target in enumerate(self.targets):
                suffix = "" if len(self.targets) == 1 else f"_{target}"
                record[f"change{suffix}"] = row.change[place]
                record[f"change_low{suffix}"] = None if row.change_low is None else row.change_low[place]
                record[f"change_high{suffix}"] = None if row.change_high is None else row.change_high[place]
            records.append(record)
        return pandas.DataFrame.from_records(records)

    def _repr_html_(self) -> str:
        """Show the table in a notebook; every text is escaped."""
        parts = [_as_html([HEADS, *self.cells()])] if self.rows else ["<p>No kink.</p>"]
        if self.slopes:
            parts.append(_as_html([SEGMENT_HEADS, *self.segments()]))
        return "".join([*parts, *(f"<p>{escape(note)}</p>" for note in self.notes)])

    def _segment(self, item: Segment) -> tuple[str, str, str]:
        start, end, slopes, interval = item
        name = self.features[0]
        where = f"{name} > {_number(start)}" if end is None else f"{name} < {_number(end)}"
        if start is not None and end is not None:
            where = f"{_number(start)} < {name} < {_number(end)}"
        text = ", ".join(map(_number, slopes))
        around = "—" if interval is None else " … ".join(map(_number, interval))
        return (where if self.rows else "everywhere"), text, around


HEADS = ("kink", "95 % interval", "change of slope", "95 % interval", "below", "above", "p")
SEGMENT_HEADS = ("segment", "slope", "95 % interval")


@one_thread_inside
def kinks(
    recovery: Recovery, *, features: Sequence[str] | None = None, targets: Sequence[str] | None = None
) -> KinkTable:
    """Return the table of kinks of a recovery.

    Parameters
    ----------
    recovery : Recovery
        The result of `planted.recover` or `planted.identify`.
    features, targets : sequence of str, optional
        Names of the inputs and outputs; numbered ones if omitted.

    Returns
    -------
    KinkTable
        Places, changes of slope, samples on either side, p-values and slopes, as far as they are known.

    Examples
    --------
    >>> import numpy as np
    >>> import planted
    >>> x = np.linspace(0, 10, 60)[:, None]
    >>> table = planted.kinks(planted.recover(x, 2 * x + 3 * np.maximum(x - 4, 0), random_state=0))
    >>> [(round(kink.place, 9), round(kink.change[0], 9)) for kink in table]
    [(4.0, 3.0)]
    """
    if not isinstance(recovery, Recovery):
        raise BadInputTypeError(f"kinks takes a Recovery; a {type(recovery).__name__} was given")
    net = recovery.network
    _, d, m = recovery.provenance.shape
    if net is None:
        return KinkTable((), (), _names(features, d, "x"), _names(targets, m, "y"), notes=(recovery.detail,))
    if not isinstance(net, TwoLayerNetwork) or not net.activation.is_piecewise_linear:
        raise BadInputError(
            "the network is no two-layer network with kinks: its activation is not piecewise linear"
        )
    inputs, outputs = _names(features, net.n_features, "x"), _names(targets, net.n_outputs, "y")
    bands = recovery.uncertainty if isinstance(recovery.uncertainty, Uncertainty) else None
    reader = _Reader(net, bands, recovery.stats.get("samples_on"), recovery.provenance.shape[0], inputs)
    rows = reader.kinks()
    notes = _far_samples(recovery)
    tested = recovery.stats.get("kinks")
    if net.n_features > 1:
        if tested and len(tested["rows"]) == len(rows):
            rows = [_with_tests(row, item) for row, item in zip(rows, tested["rows"], strict=True)]
        notes += _doubt(recovery, rows)
        return KinkTable(tuple(rows), (), inputs, outputs, notes=tuple(notes))
    rows.sort(key=lambda row: row.place if row.place is not None else np.inf)
    every, rows = rows, [row for row in rows if row.below != 0 and row.above != 0]
    if len(rows) < len(every):
        notes.append(_one_sided(len(every) - len(rows)))
    if tested and len(tested["rows"]) == len(rows):
        rows = [_with_tests(row, item) for row, item in zip(rows, tested["rows"], strict=True)]
        intervals: list[tuple[float, float] | None] = [(low, high) for _, low, high in tested["slopes"]]
        notes += _notes(tested) + _overlaps(rows, inputs[0])
    else:
        tested, intervals = None, [None] * (len(rows) + 1)
        if not rows and net.B is not None and bands is not None and net.n_outputs == 1:
            slope, half = float(net.B[0, 0]), Z_95 * float(bands.standard_errors["B"][0, 0])
            intervals = [(slope - half, slope + half)]
        notes += _doubt(recovery, rows)
    slopes = _slopes(net, rows, intervals)
    verdict = tested["verdict"] if tested else ""
    return KinkTable(tuple(rows), slopes, inputs, outputs, verdict, tuple(notes))


def _far_samples(recovery: Recovery) -> list[str]:
    """Return what to say of samples far from all others."""
    lines = [line for line in recovery.find(Check.FAR_SAMPLES) if line.measured]
    if not lines:
        return []
    from planted.certificates.searches._far_samples import far_sentence  # only such answers need it

    return [far_sentence(line) for line in lines]


def _one_sided(count: int) -> str:
    units = "1 unit switches" if count == 1 else f"{count} units switch"
    return f"{units} beyond all samples: part of the slope or of nothing, and no kink."


def _overlaps(rows: list[Kink], name: str) -> list[str]:
    """Return what to say of neighbouring kinks whose intervals overlap."""
    notes = []
    for left, right in pairwise(rows):
        is_apart = left.high is not None and right.low is not None and left.high < right.low
        if is_apart or left.place is None or right.place is None:
            continue
        kind = "kink" if left.change[0] * right.change[0] > 0 else "jump"
        notes.append(
            f"The intervals of {name} = {_number(left.place)} and {name} = {_number(right.place)} overlap: both may be one "
            f"{kind}."
        )
    return notes


def _doubt(recovery: Recovery, rows: list[Kink]) -> list[str]:
    """Return what to say of bends that no test and no certificate shows to be kinks."""
    if not rows or recovery.outcome is Outcome.RECOVERED or any(row.p_value is not None for row in rows):
        return []
    return ["These are the bends of a fitted network: no test shows that the slope changes there."]


@dataclass(frozen=True, slots=True)
class _Reader:
    """A network read unit by unit."""

    net: TwoLayerNetwork
    bands: Uncertainty | None
    on: list[int] | None  # samples on which each unit is on
    n_samples: int
    inputs: tuple[str, ...]

    def bends(self, unit: int) -> bool:
        """Whether a unit has a hyperplane and an effect, beyond the rounding of the others'."""
        jumps = np.linalg.norm(self.net.W, axis=1) * np.linalg.norm(self.net.A, axis=0)
        return bool(jumps[unit] > NO_EFFECT * jumps.max() and self.net.activation.kink)

    def kinks(self) -> list[Kink]:
        """Describe all units; two on one hyperplane, as a unit with a slope of its own on either side, are one kink.

        Two whose changes cancel are part of the slope.
        """
        found: dict[int, Kink] = {}
        merged = set()
        for unit in filter(self.bends, range(self.net.n_hidden)):
            same = [i for i in found if self.bands is None and self._is_same(unit, i)]
            if same:
                change = tuple(map(sum, zip(found[same[0]].change, self.kink(unit).change, strict=True)))
                found[same[0]] = replace(found[same[0]], change=change)
                merged.add(same[0])
            else:
                found[unit] = self.kink(unit)
        least = ROUNDING * max((abs(value) for kink in found.values() for value in kink.change), default=0.0)
        return [kink for i, kink in found.items() if i not in merged or max(map(abs, kink.change)) > least]

    def _is_same(self, one: int, other: int) -> bool:
        """Whether two units switch at the same hyperplane, to rounding."""
        planes = [np.append(w, b) for w, b, _, _ in map(self._hyperplane, (one, other))]
        return bool(np.abs(planes[0] - planes[1]).max() <= ROUNDING * np.abs(planes).max())

    def _hyperplane(self, unit: int) -> tuple[Array, float, float, float]:
        """Return weights of unit length, the largest positive, and the bias with them; the sign and the length."""
        length = float(np.linalg.norm(self.net.W[unit]))
        w, b = self.net.W[unit] / length, float(self.net.b[unit]) / length
        sign = 1.0 if w[np.abs(w).argmax()] > 0 else -1.0
        return sign * w, sign * b, sign, length

    def kink(self, unit: int) -> Kink:
        """Describe one unit."""
        net = self.net
        w, b, sign, length = self._hyperplane(unit)
        change = 2 * net.activation.kink * net.A[:, unit] * length
        column = self._only_column(unit, w)
        place = None if column is None else -b / float(w[column])
        error = (
            None if self.bands is None else 2 * net.activation.kink * self.bands.standard_errors["A"][:, unit]
        )
        on = None if self.on is None else int(self.on[unit])
        below, above = (None, None) if on is None else (self.n_samples - on, on)
        if sign < 0:
            below, above = above, below
        return Kink(
            unit,
            self._words(w, b, column, place),
            None if column is None else self.inputs[column],
            place,
            None,
            None,
            tuple(map(float, w)),
            tuple(map(float, change)),
            None if error is None else tuple(map(float, change - Z_95 * error)),
            None if error is None else tuple(map(float, change + Z_95 * error)),
            below,
            above,
            None,
        )

    def _only_column(self, unit: int, w: Array) -> int | None:
        """Return the only input with a weight that is not zero within its error, or None."""
        limit = np.full(w.size, ROUNDING)
        if self.bands is not None:
            limit = np.maximum(limit, 2 * np.nan_to_num(self.bands.standard_errors["W"][unit]))
        largest = int(np.abs(w).argmax())
        others = np.arange(w.size) != largest
        return largest if (np.abs(w) <= limit)[others].all() else None

    def _words(self, w: Array, b: float, column: int | None, place: float | None) -> str:
        if column is not None and place is not None:
            return f"{self.inputs[column]} = {_number(place)}"
        order = np.argsort(-np.abs(w), kind="stable")
        shown = [j for j in order if abs(w[j]) >= SHOWN * np.abs(w).max()]
        text = ""
        for j in shown:
            sign = ("−" if w[j] < 0 else "") if not text else (" − " if w[j] < 0 else " + ")
            text += f"{sign}{_number(abs(w[j]))} {self.inputs[j]}"
        more = "" if len(shown) == len(w) else " + …"
        return f"{text}{more} = {_number(-b)}"


def _with_tests(row: Kink, item: dict[str, Any]) -> Kink:
    """Add the p-value that the tests for kinks have found; for a kink of one input also its interval and its sides."""
    row = replace(row, p_value=item["p_value"])
    if "place" not in item:
        return row
    return replace(
        row,
        low=item["low"],
        high=item["high"],
        change_low=(min(item["change_low"], row.change[0]),),
        change_high=(max(item["change_high"], row.change[0]),),
        below=item["below"],
        above=item["above"],
    )


def _notes(tested: dict[str, Any]) -> list[str]:
    """Return what the tests say about all kinks."""
    notes = {
        "kink": "A smooth curve explains the samples less well than these kinks.",
        "undecided": "Whether these are kinks or the bends of a smooth curve is undecided.",
        "smooth": "A smooth curve explains the samples better: the kinks only approximate it.",
    }
    found = [notes[tested["verdict"]]] if tested["verdict"] in notes else []
    if tested["is_correlated"]:
        found.append(
            "Neighbouring residuals are correlated: kinks may be chance, intervals and p-values too small."
        )
    return found


def _slopes(
    net: TwoLayerNetwork, rows: list[Kink], intervals: Sequence[tuple[float, float] | None]
) -> tuple[Segment, ...]:
    """Return the slopes of a function of one input between its kinks."""
    places = [float(row.place) for row in rows if row.place is not None]
    if len(places) < len(rows):
        return ()
    edges = [None, *places, None]
    if places:
        inner = [(low + high) / 2 for low, high in pairwise(places)]
        centres = [places[0] - 1.0 - abs(places[0]), *inner, places[-1] + 1.0 + abs(places[-1])]
    else:
        centres = [0.0]
    found = []
    for i, centre in enumerate(centres):
        derivative = net.activation.derivative(net.preactivations(np.array([[centre]])))[0]
        slope = net.A @ (derivative * net.W[:, 0])
        slope = slope if net.B is None else slope + net.B[:, 0]
        found.append((edges[i], edges[i + 1], tuple(map(float, slope)), intervals[i]))
    return tuple(found)


def _names(names: Sequence[str] | None, count: int, letter: str) -> tuple[str, ...]:
    if names is None:
        return (letter,) if count == 1 else tuple(f"{letter}{i + 1}" for i in range(count))
    if len(names) != count:
        raise BadInputError(f"{len(names)} names for {count} columns")
    return tuple(str(name) for name in names)


def _cells(row: Kink) -> tuple[str, ...]:
    """Return a row of the table as text."""
    is_known = row.low is not None or row.high is not None
    interval = f"{_number(row.low)} … {_number(row.high)}" if is_known else "—"
    change = ", ".join(map(_number, row.change))
    if row.change_low is None or row.change_high is None:
        around = "—"
    else:
        pairs = zip(row.change_low, row.change_high, strict=True)
        around = ", ".join(f"{_number(low)} … {_number(high)}" for low, high in pairs)
    p_value = "—" if row.p_value is None else f"{row.p_value:.3f}"
    sides = ("—" if count is None else f"{count:,}" for count in (row.below, row.above))
    return (row.where, interval, change, around, *sides, p_value)


def _number(value: float | None) -> str:
    """Return a number with few digits; an open end is left open."""
    return "?" if value is None else f"{value:.5g}".replace("-", "−")


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _as_html(lines: Sequence[Sequence[str]]) -> str:
    head, *rows = lines
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
