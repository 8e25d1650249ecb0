"""Sums of rows in files, to be merged on another machine: what `planted sums` writes and `planted recover --sums` reads.

A file knows the names of its columns, where they were given, so that a network that is recovered from sums knows them too.
Files whose names differ are not merged.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from planted._version import __version__
from planted.io._memory import Budget, current_budget
from planted.io.networks._columns import check_names
from planted.io.state._archive import DAMAGES, read_archive, write_archive
from planted.io.state._atomic import atomic_write
from planted.io.tables._source import reason_of
from planted.moments import RowSummary
from planted.outcomes import BadInputError, FileFormatError, shown
from planted.rows import kind_of, pack_sums, unpack_sums

__all__ = ["read_sums_with_names", "write_sums"]

FORMAT, SCHEMA = "planted.sums", 1


def write_sums(
    path: str | os.PathLike[str],
    summary: RowSummary,
    *,
    features: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
) -> None:
    """Write a summary of rows, whole or not at all, with the names of its inputs and outputs where they are given."""
    names = {"features": features, "targets": targets}
    given = {role: list(each) for role, each in names.items() if each is not None}
    _check_names(given, summary)
    head = {"format": FORMAT, "schema": SCHEMA, "planted": __version__, **given}

    def write(partial: Path) -> None:
        with partial.open("wb") as file:
            write_archive(file, head, pack_sums(summary))

    atomic_write(path, write)


def read_sums_with_names(
    paths: Sequence[str | os.PathLike[str]], *, memory: int | str | None = None
) -> tuple[RowSummary, dict[str, tuple[str, ...]]]:
    """Read summaries and merge them; return also the names of their columns, as ``features`` and ``targets``.

    Where a file has no names there are none; files of different names are refused. `memory`: how much the numbers of one
    file may take, in bytes or as ``"4GB"``; half of what is free if omitted. A file that claims more is refused before any
    memory is taken.
    """
    if not paths:
        raise BadInputError("no file of sums was given, expected at least one.")
    budget = current_budget(memory)
    total, known = _read(Path(paths[0]), budget)
    for path in paths[1:]:
        found, names = _read(Path(path), budget)
        for role in set(known) & set(names):
            if known[role] != names[role]:
                raise BadInputError(
                    f"{shown(path)} has the {role} {shown(', '.join(names[role][:10]))}; {shown(paths[0])} has "
                    f"{shown(', '.join(known[role][:10]))}. Sums of different columns are not merged."
                )
        known = {role: names[role] for role in known if role in names}
        total = total.merge(found)
    return total, known


def _read(path: Path, budget: Budget) -> tuple[RowSummary, dict[str, tuple[str, ...]]]:
    if not path.exists():
        raise BadInputError(f"there is no file {path}. Check the path; it is relative to {Path.cwd()}.")
    if not path.is_file():
        raise BadInputError(f"{path} is not a file, expected one that planted sums wrote.")
    try:
        with path.open("rb") as file:
            head, arrays = read_archive(file, budget=budget)
        if head.get("format") != FORMAT or head.get("schema") != SCHEMA:
            raise FileFormatError(
                f"format {head.get('format')!r:.60}, schema {head.get('schema')!r:.60}; expected {FORMAT} {SCHEMA}"
            )
        found = unpack_sums(kind_of(RowSummary), arrays)
        assert isinstance(found, RowSummary)
        _check_summary(found)
        names: dict[str, Any] = {role: head[role] for role in ("features", "targets") if role in head}
        _check_names(names, found)
    except DAMAGES as error:
        raise FileFormatError(
            f"{path} is not a file of sums ({reason_of(error)}); write it again with: planted sums"
        ) from error
    return found, {role: tuple(each) for role, each in names.items()}


def _check_names(names: Mapping[str, list[str]], summary: RowSummary) -> None:
    """Refuse names that are not one for each column."""
    for role, each in names.items():
        check_names(role, each, (summary.X if role == "features" else summary.Y).shape[1])


def _check_summary(summary: RowSummary) -> None:
    """Refuse numbers that no rows have: every shape, kind and sign that the sums of some rows must have."""
    for name in ("size", "count"):
        value = getattr(summary, name)
        if type(value) is not int or value < 1:
            raise FileFormatError(f"its {name} is {value!r:.60}")
    n_kept, width = min(summary.size, summary.count), np.shape(summary.mean)[0]
    ranks = {"mean": 1, "scatter": 2, "keys": 1, "X": 2, "Y": 2}
    for name, rank in ranks.items():
        array = getattr(summary, name)
        if not isinstance(array, np.ndarray) or array.ndim != rank:
            raise FileFormatError(f"its {name} has the shape {np.shape(array)}")
        expected = np.uint64 if name == "keys" else np.float64
        if array.dtype != expected or not np.isfinite(array).all():
            raise FileFormatError(f"its {name} are not finite numbers of the kind {np.dtype(expected)}")
    shapes = {name: getattr(summary, name).shape for name in ranks}
    is_square = shapes["scatter"] == (width, width)
    is_table = shapes["X"][0] == shapes["Y"][0] == shapes["keys"][0] == n_kept
    if not (is_square and is_table and shapes["X"][1] + shapes["Y"][1] == width and min(shapes["Y"] + (1,))):
        raise FileFormatError(f"its shapes do not agree: {n_kept} rows kept, {shapes}")
    if (np.diag(summary.scatter) < 0).any() or (summary.keys[1:] < summary.keys[:-1]).any():
        raise FileFormatError("its numbers are not the sums of any rows")
