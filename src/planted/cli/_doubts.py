"""Columns of numbers that may mean something else than their numbers: they are used, and a sentence says so.

A column that rises by one from row to row may only number them. 20260131 may be a date. -999 far below everything else may
stand for a missing value. And a first line of numbers may be names, years for example.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from planted._typing import Array
from planted.outcomes import shown

__all__ = ["doubts_about"]

FEWEST_ROWS = 5
CODES = (-1.0, -9.0, -88.0, *(sign * float("9" * digits) for digits in range(2, 7) for sign in (-1, 1)))
FAR = 1.0  # ranges of the other values between them and a code
SHOWN_DATES = 1000  # rows that are looked at for dates


def doubts_about(X: Array, names: Sequence[str], path: Path | None) -> list[str]:
    """Return a sentence for every doubt about a table in memory."""
    notes = []
    is_text = path is not None and path.suffix.lower() not in (".npy", ".npz", ".parquet", ".feather")
    if is_text and all(map(str.isdecimal, names)):
        notes.append(
            f"{shown(path)} has no names of columns: its first line is read as a row, and columns are called 0, 1, … Give "
            "it a first line of names if that is wrong."
        )
    for name, column in zip(names, X.T, strict=True):
        if len(column) >= FEWEST_ROWS and (doubt := _doubt(column)):
            notes.append(f"Input {shown(name)!r} {doubt} --exclude {shown(name)!r}.")
    return notes


def _doubt(column: Array) -> str:
    """Return what speaks against taking the numbers of a column as they are, ending in what to do."""
    values = np.unique(column)
    is_whole = bool((values == np.floor(values)).all())
    if is_whole and (np.diff(column) == 1).all():
        return "rises by one from row to row. If it only numbers the rows, leave it out:"
    if is_whole and len(values) > 1 and all(map(_is_day, values[:SHOWN_DATES])):
        example = f"{values[0]:.0f}"
        return (
            f"looks like dates written as {example}, and is used as a number. Write dates as in "
            f"{example[:4]}-{example[4:6]}-{example[6:]}, or leave it out:"
        )
    for code in (values[0], values[-1]):
        others = values[values != code]
        times = int((column == code).sum())
        if code in CODES and len(others) > 2 and times > 1:
            gap = min(abs(code - others[0]), abs(code - others[-1]))
            if gap > FAR * (others[-1] - others[0]):
                return (
                    f"holds {code:g} in {times:,} rows, far from all others ({others[0]:g} to {others[-1]:g}). If that "
                    "means a missing value, empty those cells and choose --missing drop or mean, or leave the column out:"
                )
    return ""


def _is_day(value: float) -> bool:
    """Return whether a number can be read as a day of 1900 to 2100, as in 20260131."""
    if not 19000101 <= value <= 21001231:
        return False
    try:
        datetime.strptime(f"{value:.0f}", "%Y%m%d")
    except ValueError:
        return False
    return True
