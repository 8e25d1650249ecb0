"""Tables in `.csv` files: comma, semicolon or tab separated, with or without a header line.

Lines are read up to a limit, so that a file without newlines, or with gigabytes in one line, is refused and not loaded.

Arrow parses them where it is installed; Python's own `csv` module does otherwise, more slowly and to the same
bits, since both round decimal numbers correctly. Whatever Arrow refuses is parsed again by the
plain parser, which knows the row and column to name.
"""

from __future__ import annotations

import csv
import importlib.util
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from planted._typing import Array
from planted.io._memory import Budget, show_bytes
from planted.io.tables._source import Source, arrow_file, damaged, refuse_width
from planted.outcomes import BadInputTypeError, FileFormatError, shown

__all__ = ["MISSING_TEXTS", "open_csv"]

MISSING_TEXTS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "#N/A")
"""Cells read as missing values; a row that has one in a chosen column is refused by name later on."""

MAX_LINE_BYTES = 16 * 2**20
"""A line longer than this is not a row of a table: 100 000 columns of 160 characters."""

MAX_HEADER_LINES = 10_000
"""Lines, empty or of one quoted name, before the first row of a table must be whole."""

BYTES_PER_BYTE = 16
"""Memory for one byte of text while it is parsed: an empty cell takes one byte and becomes a float64 twice."""

BYTES_PER_COLUMN = 8000
"""Memory that Arrow takes for each column, however short (measured: 580 MB for 78,523); the plain parser takes none."""

READ_AHEAD = 34
"""Blocks of text that Arrow 26 holds before they are parsed (measured: 35 MB with blocks of 1 MB)."""

_TEXT_ERRORS = (UnicodeDecodeError, csv.Error)


def open_csv(path: Path, budget: Budget) -> Source:
    """Open a text table.

    Returns the table; its columns are called 0, 1, ... if the first line holds numbers only.
    """
    layout = _read_layout(path)
    budget.require(
        BYTES_PER_BYTE * layout.block_bytes + min(READ_AHEAD * layout.block_bytes, path.stat().st_size),
        f"{shown(path)} has lines of {show_bytes(layout.line_bytes)}; parsing them",
        instead="Raise the budget (`--memory`, or `memory=` in Python), or write fewer columns.",
    )

    def blocks(columns: Sequence[int], block_rows: int) -> Iterator[Array]:
        rows = budget.rows(8 * len(layout.names), block_rows)
        is_wide = budget.n_bytes is not None and BYTES_PER_COLUMN * len(layout.names) > budget.n_bytes // 2
        if is_wide or importlib.util.find_spec("pyarrow") is None:
            return _plain_blocks(path, layout, columns, rows)
        return _arrow_blocks(path, layout, columns, rows)

    return Source(path, layout.names, None, blocks)


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the first line tells."""

    names: tuple[str, ...]
    delimiter: str
    header_lines: int
    line_bytes: int

    @property
    def block_bytes(self) -> int:
        """Bytes that Arrow parses together; a row must fit in: several times the first two lines, and 1 MB at least."""
        return max(1 << 20, 8 * self.line_bytes)


def _read_layout(path: Path) -> _Layout:
    """Find the separator and the header from the first line that is not empty."""
    with path.open("rb") as file:
        lines = file.readline(MAX_LINE_BYTES + 1), file.readline(MAX_LINE_BYTES + 1)
    if max(map(len, lines)) > MAX_LINE_BYTES:
        raise _long_line(path, "one of its first lines")
    line_bytes = len(lines[0]) + len(lines[1])
    with path.open(encoding="utf-8-sig", newline="") as file:
        delimiter = _find_delimiter(file.readline(MAX_LINE_BYTES))
        file.seek(0)
        rows = csv.reader(
            _bounded_lines(file, path, at_most=MAX_HEADER_LINES), delimiter=delimiter, strict=True
        )
        first = next((row for row in rows if row), None)
        header_lines = rows.line_num
    if first is None:
        raise damaged(path, "there is no line of text in it")
    if any("\0" in cell for cell in first):
        raise damaged(path, "it holds zero bytes, which text does not")
    refuse_width(len(first), shown(path))
    cells = [cell.strip() for cell in first]
    if all(_as_number(cell) is not None for cell in cells):
        return _Layout(tuple(str(j) for j in range(len(cells))), delimiter, 0, line_bytes)
    return _Layout(tuple(cells), delimiter, header_lines, line_bytes)


def _bounded_lines(file: TextIO, path: Path, *, at_most: int | None = None) -> Iterator[str]:
    """Yield lines; refuse one that is too long, and more than so many before the first row ends."""
    for number in count():
        line = file.readline(MAX_LINE_BYTES + 1)
        if len(line) > MAX_LINE_BYTES:
            raise _long_line(path, f"line {number}")
        if number == at_most:
            raise damaged(path, f"its first {number:,} lines hold no row of text")
        if not line:
            return
        yield line


def _long_line(path: Path, which: str) -> FileFormatError:
    return damaged(path, f"{which} is longer than {MAX_LINE_BYTES >> 20} MB")


def _find_delimiter(line: str) -> str:
    """Prefer the comma; take the semicolon or tab where it cuts the first line into more pieces."""
    unquoted = re.sub(r'"[^"]*"?', "", line)
    return max((",", ";", "\t"), key=unquoted.count)  # the first of equals, hence the comma


def _as_number(cell: str) -> float | None:
    """Read a cell; None if it is neither a number nor a mark of a missing value."""
    if cell in MISSING_TEXTS:
        return np.nan
    if "_" in cell:  # Python's digit grouping is not a number in a file
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _plain_blocks(path: Path, layout: _Layout, columns: Sequence[int], block_rows: int) -> Iterator[Array]:
    """Parse with the `csv` module, naming the row and column of whatever is not a number."""
    block: list[list[float]] = []
    number = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(_bounded_lines(file, path), delimiter=layout.delimiter, strict=True)
            for row in rows:
                if not row or rows.line_num <= layout.header_lines:
                    continue
                block.append(_parse_row(row, number, columns, layout=layout, path=path))
                number += 1
                if len(block) == block_rows:
                    yield np.array(block)
                    block = []
    except _TEXT_ERRORS as error:
        raise damaged(path, f"row {number}: {error}") from error
    if block:
        yield np.array(block)


def _parse_row(
    row: list[str], number: int, columns: Sequence[int], *, layout: _Layout, path: Path
) -> list[float]:
    """Turn the chosen cells of a row into numbers."""
    if len(row) != len(layout.names):
        raise FileFormatError(
            f"{shown(path)}: row {number} has {len(row)} cells, expected {len(layout.names)} as in the first line. "
            "Quote cells that contain the separator, or complete the row."
        )
    values = []
    for j in columns:
        value = _as_number(row[j])
        if value is None:
            comma = " Write decimal numbers with a point, not a comma." if "," in row[j] else ""
            raise BadInputTypeError(
                f"{shown(path)}: row {number}, column {layout.names[j]!r} holds {row[j][:40]!r}, expected a number."
                f"{comma} Choose other columns with `features`, or encode the text as numbers yourself."
            )
        values.append(value)
    return values


def _arrow_blocks(path: Path, layout: _Layout, columns: Sequence[int], block_rows: int) -> Iterator[Array]:
    """Parse with Arrow, in blocks of bytes; ask the plain parser to explain a refusal."""
    import pyarrow as pa

    try:
        with arrow_file(path) as file:
            for batch in _open_arrow(file, layout, columns):
                yield from _batch_blocks(batch, columns, block_rows)
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        for _ in _plain_blocks(path, layout, columns, block_rows):
            pass  # raises at the cell in question
        raise damaged(path, error) from error


def _batch_blocks(batch: Any, columns: Sequence[int], block_rows: int) -> Iterator[Array]:
    """Turn a record batch into arrays of limited length."""
    for start in range(0, batch.num_rows, block_rows):
        part = batch.slice(start, block_rows)
        yield np.column_stack([part.column(f"c{j}").to_numpy(zero_copy_only=False) for j in columns])


def _open_arrow(file: Any, layout: _Layout, columns: Sequence[int]) -> Any:
    """Open Arrow's streaming reader with every choice made here, none guessed from the data."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names = [f"c{j}" for j in range(len(layout.names))]
    read = arrow_csv.ReadOptions(
        use_threads=False,
        block_size=layout.block_bytes,
        column_names=names,
        skip_rows=layout.header_lines,
    )
    parse = arrow_csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True)
    convert = arrow_csv.ConvertOptions(
        column_types={name: pa.float64() for name in names},
        include_columns=[f"c{j}" for j in columns],
        null_values=list(MISSING_TEXTS),
        strings_can_be_null=True,
    )
    return arrow_csv.open_csv(file, read_options=read, parse_options=parse, convert_options=convert)
