"""From the columns of a table to the inputs of a network: a recipe that is stored with the network.

A recipe says which columns of a table are read and how each becomes numbers. It is data, never code, so a saved network can
keep it in its header and `planted predict` can apply it to another table:

    number     the number itself
    boolean    1 for true, yes, t and y, 0 for false, no, f and n, in upper or lower case
    category   one column of 0 and 1 for each level but the first in the alphabet, the reference: ``region=south``
    date       days since the origin, which is the earliest day of the table that the recipe was learned from; all with a
               zone, as in 2026-01-31T12:30+01:00, or all without

Cells may be missing. Then rows are refused, or left out ("drop"), or the mean of the column takes the place of the missing
cell and a further column says where that was done ("mean"): ``age missing``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from planted._typing import Array, Json
from planted.io.tables._csv import MISSING_TEXTS
from planted.io.tables._source import Reading
from planted.outcomes import BadInputError, shown

__all__ = ["KINDS", "MISSING", "PreparedColumn", "Recipe", "has_zone", "truth_of", "when"]

KINDS = ("number", "boolean", "category", "date")
MISSING = ("refuse", "drop", "mean")
MOST_LEVELS = 50
LONGEST_LEVEL = 200  # characters
MOST_COLUMNS = 10_000
SECONDS_PER_DAY = 86_400.0
_TRUTHS = {
    **dict.fromkeys(("true", "yes", "t", "y"), 1.0),
    **dict.fromkeys(("false", "no", "f", "n"), 0.0),
}


@dataclass(frozen=True, slots=True)
class PreparedColumn:
    """How one column of a table becomes one or more inputs."""

    name: str
    kind: str = "number"  # one of `KINDS`
    levels: tuple[str, ...] = ()  # of a category, the reference first
    origin: str = ""  # of a date, as 2026-01-31; of moments with a zone, as 2026-01-31T00:00Z
    fill: tuple[float, ...] = ()  # means of its inputs, where missing cells were met and are to be filled

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs that it becomes."""
        names: tuple[str, ...] = (self.name,)
        if self.kind == "category":
            names = tuple(f"{self.name}={level}" for level in self.levels[1:])
        elif self.kind == "date":
            names = (f"{self.name} (days since {self.origin})",)
        return (*names, f"{self.name} missing") if self.fill else names

    @property
    def expected(self) -> str:
        """What a cell should hold, for messages."""
        if self.kind == "category":
            known = ", ".join(map(repr, self.levels[:10])) + (", …" if len(self.levels) > 10 else "")
            return f"one of the {len(self.levels)} levels that were known when the network was made: {known}"
        date = "a date as in 2026-01-31, without a zone"
        if has_zone(self.origin):
            date = "a date with its zone, as in 2026-01-31T12:30Z"
        return {"boolean": "true or false", "date": date}.get(self.kind, "a number")

    def code(self, text: str) -> float | None:
        """Return the number of a text: of a category the place of its level."""
        if text in MISSING_TEXTS:
            return math.nan
        if self.kind == "boolean":
            return truth_of(text)
        if self.kind == "date":
            then = when(text)
            if then is None or has_zone(text) != has_zone(self.origin):
                return None
            return (then - when_of(self.origin)).total_seconds() / SECONDS_PER_DAY
        return float(self.levels.index(text)) if text in self.levels else None

    def expand(self, codes: Array) -> list[Array]:
        """Return the inputs of a column of codes. Shapes: codes (n,), each input (n,)."""
        parts = [codes]
        if self.kind == "category":
            gaps = np.isnan(codes)
            parts = [np.where(gaps, np.nan, codes == place) for place in range(1, len(self.levels))]
        if not self.fill:
            return parts
        gaps = np.isnan(codes)
        filled = [np.where(gaps, mean, part) for mean, part in zip(self.fill, parts, strict=True)]
        return [*filled, gaps.astype(np.float64)]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the columns of a table become the inputs of a network.

    Examples
    --------
    >>> region = PreparedColumn("region", "category", levels=("north", "south", "west"))
    >>> recipe = Recipe((PreparedColumn("age"), region), targets=("y",))
    >>> recipe.inputs
    ('age', 'region=south', 'region=west')
    >>> recipe.prepare(np.array([[31.0, 2.0]]))
    array([[31.,  0.,  1.]])
    >>> Recipe.from_dict(recipe.to_dict()) == recipe
    True
    """

    columns: tuple[PreparedColumn, ...]
    targets: tuple[str, ...] = ()
    missing: str = "refuse"  # one of `MISSING`
    decimal: str = "."
    flags: tuple[str, ...] = ()  # targets of true and false
    # Names of the classes of the target, in order, where it holds texts. A file keeps them with the meaning of the outputs.
    classes: tuple[str, ...] = field(default=(), compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)  # what a reader should know about the table

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs of the network."""
        return tuple(name for column in self.columns for name in column.inputs)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of the table that become inputs."""
        return tuple(column.name for column in self.columns)

    @property
    def is_plain(self) -> bool:
        """Whether every input is a column of numbers as it stands, so that the names alone say everything."""
        kinds = {column.kind for column in self.columns}
        coded = self.flags or self.classes
        return kinds <= {"number"} and self.missing == "refuse" and self.decimal == "." and not coded

    @property
    def reading(self) -> Reading:
        """How the cells of the table are to be read."""
        coders = {column.name: column for column in self.columns if column.kind != "number"}
        coders |= {name: PreparedColumn(name, "boolean") for name in self.flags}
        if self.classes:
            coders[self.targets[0]] = PreparedColumn(self.targets[0], "category", self.classes)
        return Reading(self.decimal, coders)

    def prepare(self, codes: Array, *, keep_rows: bool = False) -> Array:
        """Turn rows as they are read into rows of inputs, targets and what else stands behind the inputs.

        Shapes: codes (n, columns and more), result (rows kept, inputs and more).
        """
        if self.missing == "drop" and not keep_rows:
            codes = codes[~np.isnan(codes).any(axis=1)]
        n_columns = len(self.columns)
        inputs = [
            part
            for column, values in zip(self.columns, codes.T, strict=False)
            for part in column.expand(values)
        ]
        return np.column_stack([*inputs, codes[:, n_columns:]])

    def to_dict(self) -> Json:
        """Return the recipe as a file keeps it."""
        columns = [
            {"name": column.name, "kind": column.kind}
            | {key: list(values) for key in ("levels", "fill") if (values := getattr(column, key))}
            | ({"origin": column.origin} if column.origin else {})
            for column in self.columns
        ]
        kept: Json = {"columns": columns, "missing": self.missing, "decimal": self.decimal}
        return {**kept, "targets": list(self.targets), "flags": list(self.flags)}

    @classmethod
    def from_dict(cls, kept: Any) -> Recipe:
        """Read a recipe from a file; anything but the few words and numbers it may hold is refused."""
        _demand(isinstance(kept, dict) and set(kept) == {"columns", "missing", "decimal", "targets", "flags"})
        _demand(isinstance(kept["columns"], list) and 0 < len(kept["columns"]) <= MOST_COLUMNS)
        _demand(kept["missing"] in MISSING and kept["decimal"] in (".", ","))
        columns = tuple(_column_of(item) for item in kept["columns"])
        targets, flags = (_texts(kept[role], MOST_COLUMNS) for role in ("targets", "flags"))
        _demand(set(flags) <= set(targets) and len({column.name for column in columns}) == len(columns))
        return cls(columns, targets, kept["missing"], kept["decimal"], flags)


def truth_of(text: str) -> float | None:
    """Return 1 for true, 0 for false, None for another text."""
    return _TRUTHS.get(text.lower())


def when(text: str) -> datetime | None:
    """Return the moment that a text names as in 2026-01-31 or 2026-01-31T12:30:00, in universal time where it has a zone."""
    if not (text[:4].isdecimal() and text[4:5] == "-"):
        return None
    try:
        then = datetime.fromisoformat(text)
        return then if then.tzinfo is None else then.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):  # no date, or one that its zone moves out of the calendar
        return None


def has_zone(text: str) -> bool:
    """Return whether a moment says how far it is from universal time.

    Examples
    --------
    >>> has_zone("2026-01-31T12:30Z"), has_zone("2026-01-31 12:30+01:00"), has_zone("2026-01-31")
    (True, True, False)
    """
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def when_of(origin: str) -> datetime:
    """Return the moment at which a recipe starts counting days."""
    then = when(origin)
    _demand(then is not None)
    assert then is not None
    return then


def _column_of(item: Any) -> PreparedColumn:
    """Read one column of a recipe from a file."""
    _demand(
        isinstance(item, dict)
        and {"name", "kind"} <= set(item) <= {"name", "kind", "levels", "origin", "fill"}
    )
    name, kind, origin = item["name"], item["kind"], item.get("origin", "")
    _demand(isinstance(name, str) and kind in KINDS and isinstance(origin, str))
    levels = _texts(item.get("levels", []), MOST_LEVELS)
    _demand((kind == "category") == bool(levels) and (kind == "date") == bool(origin))
    _demand(all(len(level) <= LONGEST_LEVEL for level in levels) and len(set(levels)) == len(levels))
    if origin:
        when_of(origin)
    fill = item.get("fill", [])
    _demand(isinstance(fill, list) and all(type(mean) is float and math.isfinite(mean) for mean in fill))
    column = PreparedColumn(name, kind, levels, origin)
    _demand(len(fill) in (0, len(column.inputs)))
    return PreparedColumn(name, kind, levels, origin, tuple(fill))


def _texts(items: Any, at_most: int) -> tuple[str, ...]:
    """Read a list of texts from a file."""
    _demand(
        isinstance(items, list) and len(items) <= at_most and all(isinstance(item, str) for item in items)
    )
    return tuple(items)


def _demand(is_so: bool) -> None:
    """Refuse a recipe that this release did not write."""
    if not is_so:
        raise BadInputError("the preparation of the columns that is stored with the network is damaged")


def levels_note(column: PreparedColumn) -> str:
    """Say in one sentence what becomes of a column; nothing for numbers."""
    name = shown(column.name)
    if column.kind == "boolean":
        return f"Column {name!r}: true is 1, false is 0."
    if column.kind == "date":
        return f"Column {name!r} holds dates: the input is the number of days since {column.origin}."
    if column.kind == "category" and len(column.levels) == 1:
        return f"Column {name!r} holds {shown(column.levels[0])!r} in every row and becomes no input."
    if column.kind == "category":
        levels = [repr(shown(f"{column.name}={level}")) for level in column.levels[1:6]]
        inputs = ", ".join(levels) + (", …" if len(column.levels) > 6 else "")
        reference = shown(column.levels[0])
        become = f"input {inputs} is" if len(column.levels) == 2 else f"inputs {inputs} are"
        return f"Column {name!r} holds {len(column.levels)} categories: {become} 1 or 0, beside the reference {reference!r}."
    return ""


def describe(recipe: Recipe, counts: Mapping[str, int], n_dropped: int) -> Sequence[str]:
    """Return a sentence for each thing that was done to a table; `counts`: missing cells by column."""
    notes = [note for column in recipe.columns if (note := levels_note(column))]
    filled = [
        f"{shown(column.name)!r} ({counts.get(column.name, 0):,})" for column in recipe.columns if column.fill
    ]
    if filled:
        notes.append(
            f"Missing cells of {', '.join(filled)} were replaced by the mean of the column; an input beside it is 1 there."
        )
    if recipe.missing == "drop" and n_dropped:
        where = ", ".join(f"{shown(name)!r} ({count:,})" for name, count in counts.items() if count)
        notes.append(f"{n_dropped:,} rows with missing cells were left out: {where}.")
    return notes
