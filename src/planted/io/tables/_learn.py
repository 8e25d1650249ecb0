"""Learn from a table how its columns become inputs: one pass, which keeps the levels of each category and no rows.

The head of a file tells which columns hold text. A pass over all rows then finds the levels of categories, the earliest day
of dates, means, and where cells are missing. A table of numbers without gaps needs no pass.

A column that numbers the rows is left out unless it is chosen by name: one without a name, or called as such columns are,
that counts up from 0 or 1, or holds texts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from planted._typing import Array
from planted._validation import check_choice
from planted.io._memory import Budget, current_budget
from planted.io.tables._csv import MISSING_TEXTS, OTHER_DATE
from planted.io.tables._recipe import (
    LONGEST_LEVEL,
    MISSING,
    MOST_LEVELS,
    SECONDS_PER_DAY,
    PreparedColumn,
    Recipe,
    describe,
    has_zone,
    truth_of,
    when,
)
from planted.io.tables._source import Reading, Source
from planted.io.tables._tables import (
    BLOCK_ROWS,
    Column,
    choose_columns,
    find_columns,
    is_index_name,
    open_source,
    table_files,
)
from planted.outcomes import BadInputError, shown

__all__ = ["learn_recipe"]

EPOCH = datetime(1970, 1, 1)


def learn_recipe(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    targets: Column | Sequence[Column] | None = None,
    features: Column | Sequence[Column] | None = None,
    exclude: Column | Sequence[Column] | None = None,
    categories: Column | Sequence[Column] | None = None,
    weights: Column | None = None,
    missing: str = "refuse",
    decimal: str = ".",
    classes: bool = False,
    memory: int | str | None = None,
) -> Recipe:
    r"""Find out how the columns of a table become the inputs of a network.

    `path`: a file, a folder or several files, as in `open_blocks`. `targets`, `features`, `weights`: the columns, as in
    `read_table`; `exclude`: columns to leave out. `categories`: columns of numbers or mixed texts that are categories.
    `missing`: "refuse" rows with missing cells, "drop" them, or put the "mean" of the column there and say so in a further
    input. `decimal`: the decimal mark of a text file, "." or ",". `classes`: whether texts of the target are classes, which
    are then read as 0, 1, ... in the order of ``recipe.classes``. Returns the recipe for `read_table` and `open_blocks`.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = Path(folder.name) / "data.csv"
    >>> _ = file.write_text("size,region,sold,y\n1,north,True,3\n4,south,False,6\n,north,True,2\n")
    >>> recipe = learn_recipe(file, targets="y", missing="mean")
    >>> recipe.inputs
    ('size', 'size missing', 'region=south', 'sold')
    >>> from planted.io import read_table
    >>> read_table(file, recipe=recipe).X
    array([[1. , 0. , 0. , 1. ],
           [4. , 0. , 1. , 0. ],
           [2.5, 1. , 0. , 1. ]])
    >>> folder.cleanup()
    """
    check_choice("missing", missing, MISSING)
    check_choice("decimal", decimal, (".", ","))
    files, budget = table_files(path), current_budget(memory)
    head = open_source(files[0], budget, Reading(decimal))
    inputs, outputs, _ = choose_columns(head, targets, features, weights=weights, exclude=exclude)
    chosen = [] if categories is None else find_columns(head, categories, "categories")
    _refuse_categories(head, chosen, {*inputs, *outputs})
    notes = []
    is_free = features is None and not head.groups
    counting = [j for j in inputs if is_free and is_index_name(head.names[j], j)]
    row_names = [j for j in counting if j in head.texts]
    if len(row_names) < len(inputs):
        inputs = [j for j in inputs if j not in row_names]
        notes += [_left_out(head, j, "names the rows") for j in row_names]
    texts = {j for j in (*inputs, *outputs) if j in head.texts or j in chosen}
    pass_needed = texts or missing != "refuse" or any(j in inputs for j in counting)
    columns = [PreparedColumn(head.names[j]) for j in inputs]
    recipe = Recipe(tuple(columns), tuple(head.names[j] for j in outputs), missing, decimal)
    if not pass_needed:
        return replace(recipe, notes=tuple(notes))
    learners = {head.names[j]: _Learner(head.names[j], files[0], j in chosen) for j in texts}
    seen = _read_once(files, [*inputs, *outputs], Reading(decimal, learners), budget, head)
    numbering = [j for i, j in enumerate(inputs) if j in counting and seen.counts_up[i]]
    if len(numbering) < len(inputs):
        notes += [_left_out(head, j, "counts the rows") for j in numbering]
    else:
        numbering = []
    kept = [j for j in inputs if j not in numbering]
    places = {head.names[j]: i for i, j in enumerate((*inputs, *outputs))}
    learned = tuple(_learned(files[0], head.names[j], learners, seen, places, missing) for j in kept)
    spoken = [learners[head.names[j]] for j in outputs if j in texts]
    names_of_classes: tuple[str, ...] = ()
    if classes and len(outputs) == 1 and spoken and not (spoken[0].is_boolean or spoken[0].is_date):
        names_of_classes = tuple(sorted(spoken.pop().levels, key=_in_order))
    flags = tuple(_flag(learner, files[0]) for learner in spoken)
    recipe = replace(recipe, columns=learned, flags=flags, classes=names_of_classes)
    if not recipe.inputs:
        raise BadInputError(
            f"{shown(files[0])} leaves 0 inputs: every column holds the same text in all rows."
        )
    names = [column.name for column in learned] + list(recipe.targets)
    missed = {name: int(seen.missing[places[name]]) for name in names}
    return replace(recipe, notes=(*notes, *describe(recipe, missed, seen.n_incomplete)))


def _refuse_categories(head: Source, chosen: list[int], used: set[int]) -> None:
    """Refuse categories in files of plain numbers, and of columns that are not used."""
    unused = [head.names[j] for j in chosen if j not in used]
    if chosen and head.path.suffix.lower() in (".npy", ".npz"):
        raise BadInputError(
            f"{shown(head.path)} holds arrays of numbers: categories are for tables with text."
        )
    if unused:
        raise BadInputError(
            f"{shown(head.path)}: the column {unused[0]!r} (categories) is not among the inputs."
        )


def _left_out(head: Source, column: int, what: str) -> str:
    """Say that a column was left out, and how to use it all the same."""
    name = head.names[column]
    which = f"Column {shown(name)!r}" if name else f"Column {column} (without a name)"
    return f"{which} {what} and was left out; choose the inputs with --features to use it."


class _Learner:
    """A coder that remembers what it saw: levels, or the earliest day."""

    expected = "a date as in 2026-01-31, like the cells above it"

    def __init__(self, name: str, path: Path, is_category: bool) -> None:
        self.name, self.path = name, path
        self.is_date: bool | None = False if is_category else None
        self.is_category = is_category
        self.levels: dict[str, int] = {}
        self.first_day = math.inf
        self.first_date = ""

    def code(self, text: str) -> float | None:
        """Return the place of a level, or the days since 1970."""
        if text in MISSING_TEXTS:
            return math.nan
        if self.is_date is None:
            self.is_date = when(text) is not None
        if self.is_date:
            then = when(text)
            if then is None:
                return None
            self.first_date = self.first_date or text
            if has_zone(text) != has_zone(self.first_date):
                raise BadInputError(
                    f"{shown(self.path)}: column {shown(self.name)!r} holds {self.first_date!r} and {text!r}, of which only "
                    "one has a zone: the time between them is not known. Write all dates of a column with a zone, or none."
                )
            days = (then - EPOCH).total_seconds() / SECONDS_PER_DAY
            self.first_day = min(self.first_day, math.floor(days))
            return days
        if text not in self.levels:
            self._keep(text)
        return float(self.levels[text])

    @property
    def is_boolean(self) -> bool:
        """Whether every text says true or false."""
        return (
            not self.is_category
            and bool(self.levels)
            and all(truth_of(text) is not None for text in self.levels)
        )

    @property
    def origin(self) -> str:
        """The earliest day."""
        day = str(np.datetime64(int(self.first_day), "D")) if math.isfinite(self.first_day) else "1970-01-01"
        return f"{day}T00:00Z" if has_zone(self.first_date) else day

    def _keep(self, text: str) -> None:
        """Keep a level, unless there are too many or it is no category."""
        label = f"{shown(self.path)}: column {shown(self.name)!r}"
        leave = f"leave the column out with --exclude {shown(self.name)!r} (`exclude=` in Python)"
        if OTHER_DATE.fullmatch(text) and not self.is_category:
            why = "whose day and month cannot be told apart"
            if when(text) is not None:
                why = f"a date, and {shown(next(iter(self.levels)), longest=40)!r}, which is none"
            elif text[4:5] == "-":
                why = "which is no moment of the calendar"
            raise BadInputError(
                f"{label} holds {text[:40]!r}, {why}. Write dates as in 2026-01-31, or {leave}."
            )
        if len(self.levels) == MOST_LEVELS or len(text) > LONGEST_LEVEL:
            known = ", ".join(repr(shown(level, longest=30)) for level in list(self.levels)[:3])
            what = f"more than {MOST_LEVELS} different texts ({known}, …), too many for categories"
            if len(text) > LONGEST_LEVEL:
                what = f"a text of {len(text):,} characters ({shown(text, longest=30)!r}), too long for a category"
            alone = (
                " If these are numbers with a unit, write the numbers alone." if text[:1].isdecimal() else ""
            )
            raise BadInputError(f"{label} holds {what}; {leave}.{alone}")
        self.levels[text] = len(self.levels)


@dataclass(slots=True)
class _Seen:
    """What a pass over the rows found of each column."""

    n_rows: int
    n_incomplete: int  # rows with a missing cell
    missing: Array  # missing cells of each column
    sums: Array  # sums of the others
    levels: list[dict[int, int]]  # rows of each code, of columns that have a coder
    counts_up: list[bool]  # whether it counts the rows from 0 or 1


def _read_once(
    files: Sequence[Path], columns: list[int], reading: Reading, budget: Budget, head: Source
) -> _Seen:
    """Read all rows once; nothing is kept but sums and counts."""
    width = len(columns)
    coded = [i for i, j in enumerate(columns) if head.names[j] in reading.coders]
    seen = _Seen(0, 0, np.zeros(width), np.zeros(width), [{} for _ in columns], [True] * width)
    first: Array | None = None
    for block in _all_blocks(files, columns, reading, budget):
        gaps = np.isnan(block)
        first = block[0].copy() if first is None else first
        for i in range(width):
            if seen.counts_up[i]:
                expected = first[i] + np.arange(seen.n_rows, seen.n_rows + len(block))
                seen.counts_up[i] = first[i] in (0.0, 1.0) and bool((block[:, i] == expected).all())
        for i in coded:
            codes, counts = np.unique(block[~gaps[:, i], i], return_counts=True)
            if len(codes) <= MOST_LEVELS:  # dates need no counts
                for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
                    seen.levels[i][int(code)] = seen.levels[i].get(int(code), 0) + count
        seen.n_rows += len(block)
        seen.n_incomplete += int(gaps.any(axis=1).sum())
        seen.missing += gaps.sum(axis=0)
        seen.sums += np.where(gaps, 0.0, block).sum(axis=0)
    if seen.n_rows == 0:
        raise BadInputError(f"{shown(files[0])} has 0 sample(s): there is a header, but no row of data.")
    return seen


def _all_blocks(
    files: Sequence[Path], columns: list[int], reading: Reading, budget: Budget
) -> Iterator[Array]:
    for file in files:
        yield from open_source(file, budget, reading).stream(columns, BLOCK_ROWS)


def _learned(
    path: Path,
    name: str,
    learners: Mapping[str, _Learner],
    seen: _Seen,
    places: Mapping[str, int],
    missing: str,
) -> PreparedColumn:
    """Return how a column becomes inputs, with the means that fill its gaps."""
    place, learner = places[name], learners.get(name)
    n_known = seen.n_rows - int(seen.missing[place])
    has_gaps = missing == "mean" and seen.missing[place] > 0
    if has_gaps and n_known == 0:
        raise BadInputError(
            f"{shown(path)}: column {shown(name)!r} has no value at all; leave it out with --exclude {shown(name)!r}."
        )
    mean = float(seen.sums[place]) / max(n_known, 1)
    if has_gaps and not np.isfinite(mean):
        raise BadInputError(
            f"{shown(path)}: column {shown(name)!r} has no finite mean that could fill its gaps; mend its infinite or huge "
            f"values, or leave it out with --exclude {shown(name)!r}."
        )
    if learner is None:
        return PreparedColumn(name, fill=(mean,) if has_gaps else ())
    if learner.is_date:
        fill = (mean - learner.first_day,) if has_gaps else ()
        return PreparedColumn(name, "date", origin=learner.origin, fill=fill)
    counts = seen.levels[place]
    if learner.is_boolean:
        true = sum(counts[code] for text, code in learner.levels.items() if truth_of(text) == 1.0)
        return PreparedColumn(name, "boolean", fill=(true / n_known,) if has_gaps else ())
    levels = sorted(learner.levels, key=_in_order)
    if len(levels) == 1 and seen.missing[place] and missing != "drop":
        raise BadInputError(
            f"{shown(path)}: column {shown(name)!r} holds {shown(levels[0])!r} or nothing. If nothing means no, write "
            f"yes and no; else leave it out with --exclude {shown(name)!r}, or its rows with --missing drop."
        )
    shares = tuple(counts[learner.levels[level]] / max(n_known, 1) for level in levels[1:])
    return PreparedColumn(name, "category", tuple(levels), fill=shares if has_gaps else ())


def _in_order(level: str) -> tuple[bool, Any, str]:
    """Sort numbers by size, before words in the order of the alphabet."""
    try:
        return False, float(level), level
    except ValueError:
        return True, 0.0, level


def _flag(learner: _Learner, path: Path) -> str:
    """Return the name of a target of true and false; another text cannot be a target."""
    if not learner.is_boolean:
        kind = "dates" if learner.is_date else f"texts such as {next(iter(learner.levels), '')!r}"
        raise BadInputError(
            f"{shown(path)}: the target {shown(learner.name)!r} holds {kind}, expected numbers, or true and false. "
            "Name another target with --targets; classes need --likelihood logistic or multinomial, and no --stream."
        )
    return learner.name
