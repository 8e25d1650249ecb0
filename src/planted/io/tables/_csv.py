"""Tables in `.csv` and `.tsv` files: comma, semicolon or tab separated, with or without a header line, or compressed.

Lines are read up to a limit, so that a file without newlines, or with gigabytes in one line, is refused and not loaded.
A compressed file (`.csv.gz`) is expanded piece by piece (`planted.io.tables._gzip`).

Arrow parses them where it is installed; Python's own `csv` module does otherwise, more slowly and to the same
bits, since both round decimal numbers correctly. Whatever Arrow refuses is parsed again by the
plain parser, which knows the row and column to name.

The first rows tell which columns hold text. These are read through a coder (`planted.io.tables._recipe`) or not at all.
"""

from __future__ import annotations

import csv
import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np

from planted._typing import Array
from planted.io._memory import Budget, show_bytes
from planted.io.tables._source import (
    PLAIN,
    Coder,
    Reading,
    Source,
    arrow_file,
    damaged,
    format_of,
    refuse_width,
)
from planted.outcomes import BadInputTypeError, FileFormatError, shown

__all__ = ["MISSING_TEXTS", "OTHER_DATE", "open_csv"]

MISSING_TEXTS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "#N/A", "?", ".", "-")
"""Cells read as missing values; a row that has one in a chosen column is refused by name later on."""

MAX_LINE_BYTES = 16 * 2**20
"""A line longer than this is not a row of a table: 100 000 columns of 160 characters."""

WIDE_HEAD = 200
"""Bytes of the first line that tell whether characters take several bytes each."""

MAX_HEADER_LINES = 10_000
"""Lines, empty or of one quoted name, before the first row of a table must be whole."""

HEAD_ROWS, HEAD_CELLS = 500, 100_000
"""Rows, and cells of them at most, that tell which columns hold text."""

BYTES_PER_BYTE = 16
"""Memory for one byte of text while it is parsed: an empty cell takes one byte and becomes a float64 twice."""

BYTES_PER_COLUMN = 8000
"""Memory that Arrow takes for each column, however short (measured: 580 MB for 78,523); the plain parser takes none."""

READ_AHEAD = 34
"""Blocks of text that Arrow 26 holds before they are parsed (measured: 35 MB with blocks of 1 MB)."""

_TEXT_ERRORS = (UnicodeDecodeError, csv.Error)

# Dates in another order than year, month, day: 31/12/2025, 31.12.25.
OTHER_DATE = re.compile(r"[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]{1,4}([ T].*)?")

# Cells that were meant as numbers: 1,5 or 1_000 or 12% or $3. A column of these is no column of categories.
_NUMBER_LIKE = re.compile(r"[$€£]?\s*[+-]?[0-9][0-9.,_' ]*(?:[eE][+-]?[0-9]+)?\s*[%$€£]?")


def open_csv(path: Path, budget: Budget, reading: Reading = PLAIN) -> Source:
    """Open a text table.

    Returns the table; its columns are called 0, 1, ... if the first line holds numbers only.
    """
    layout = _read_layout(path, reading)
    n_ahead = READ_AHEAD * layout.block_bytes
    if not _is_compressed(path):
        n_ahead = min(n_ahead, path.stat().st_size)
    budget.require(
        BYTES_PER_BYTE * layout.block_bytes + n_ahead,
        f"{shown(path)} has lines of {show_bytes(layout.line_bytes)}; parsing them",
        instead="Raise the budget (`--memory`, or `memory=` in Python), or write fewer columns.",
    )

    def blocks(columns: Sequence[int], block_rows: int) -> Iterator[Array]:
        rows = budget.rows(8 * len(layout.names), block_rows)
        is_wide = budget.n_bytes is not None and BYTES_PER_COLUMN * len(layout.names) > budget.n_bytes // 2
        coders = reading.of(layout.names, columns)
        if is_wide or importlib.util.find_spec("pyarrow") is None:
            return _plain_blocks(path, layout, columns, rows, coders=coders)
        return _arrow_blocks(path, layout, columns, rows, coders=coders)

    return Source(path, layout.names, None, blocks, texts=layout.texts)


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the first line tells."""

    names: tuple[str, ...]
    delimiter: str
    header_lines: int
    line_bytes: int
    texts: tuple[int, ...] = ()  # columns of text, as far as the first rows tell
    decimal: str = "."

    @property
    def block_bytes(self) -> int:
        """Bytes that Arrow parses together; a row must fit in: several times the first two lines, and 1 MB at least."""
        return max(1 << 20, 8 * self.line_bytes)


def _is_compressed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _open_bytes(path: Path) -> BinaryIO:
    """Open the bytes of a text file, expanded if it is compressed."""
    if not _is_compressed(path):
        return path.open("rb")
    from planted.io.tables._gzip import open_expanded

    return open_expanded(path)


@contextmanager
def _open_text(path: Path) -> Iterator[TextIO]:
    """Open a text file; a mark of the byte order before the first line is dropped."""
    with _open_bytes(path) as raw, TextIOWrapper(raw, encoding="utf-8-sig", newline="") as file:
        yield file


def _read_layout(path: Path, reading: Reading) -> _Layout:
    """Find the separator and the header from the first line that is not empty."""
    with _open_bytes(path) as file:
        lines = file.readline(MAX_LINE_BYTES + 1), file.readline(MAX_LINE_BYTES + 1)
    _refuse_wide_text(path, lines[0][:WIDE_HEAD])
    if max(map(len, lines)) > MAX_LINE_BYTES:
        raise _long_line(path, "one of its first lines")
    line_bytes = len(lines[0]) + len(lines[1])
    with _open_text(path) as text:
        delimiter = _find_delimiter(text.readline(MAX_LINE_BYTES), path, reading.decimal)
    with _open_text(path) as text:
        rows = csv.reader(
            _bounded_lines(text, path, at_most=MAX_HEADER_LINES), delimiter=delimiter, strict=True
        )
        first = next((row for row in rows if row), None)
        header_lines = rows.line_num
        if first is None:
            raise damaged(path, "there is no line of text in it")
        if any("\0" in cell for cell in first):
            raise damaged(path, "it holds zero bytes, which text does not")
        refuse_width(len(first), shown(path))
        cells = [cell.strip() for cell in first]
        if all(_as_number(cell, reading.decimal) is not None for cell in cells):
            names = tuple(str(j) for j in range(len(cells)))
            return _Layout(names, delimiter, 0, line_bytes, decimal=reading.decimal)
        texts = _text_columns(rows, len(cells), reading.decimal)
    return _Layout(tuple(cells), delimiter, header_lines, line_bytes, texts, reading.decimal)


def _refuse_wide_text(path: Path, head: bytes) -> None:
    """Name the encoding of a text whose characters take two or four bytes, as spreadsheets write "Unicode text"."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        is_wide = True
    else:  # without a mark of the byte order: every second byte of plain letters and digits is zero
        halves = head[: len(head) // 2 * 2][::2], head[1::2]
        is_wide = len(head) >= 8 and any(
            half.count(0) > 0.9 * len(half) and other.count(0) < 0.6 * len(other)
            for half, other in (halves, halves[::-1])
        )
    if is_wide:
        kind = "UTF-32" if b"\0\0" in head[2:8] else "UTF-16"
        raise FileFormatError(
            f"{shown(path)} is text in {kind}, expected UTF-8. Save it again as UTF-8 (in spreadsheets: CSV UTF-8), or "
            f"convert it: iconv -f {kind} -t UTF-8."
        )


def _text_columns(rows: Iterator[list[str]], n_columns: int, decimal: str) -> tuple[int, ...]:
    """Return the columns of which the first rows hold words and no number."""
    words: set[int] = set()
    numbers: set[int] = set()
    for row in islice(_whole_rows(rows), min(HEAD_ROWS, 1 + HEAD_CELLS // n_columns)):
        for j, cell in enumerate(row[:n_columns]):
            number = None if j in words else _as_number(cell, decimal)
            if number is None:
                (numbers if _NUMBER_LIKE.fullmatch(cell.strip()) else words).add(j)
            elif number == number:  # not missing
                numbers.add(j)
    return tuple(sorted(words - numbers))


def _whole_rows(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """Yield rows up to the first that cannot be read: who reads all rows refuses the file there, and names the place."""
    while True:
        try:
            row = next(rows)
        except (StopIteration, FileFormatError, *_TEXT_ERRORS):
            return
        yield row


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


def _find_delimiter(line: str, path: Path, decimal: str) -> str:
    """Prefer the comma; take the semicolon, tab or bar where it cuts the first line into more pieces."""
    if format_of(path).startswith(".tsv"):
        return "\t"
    unquoted = re.sub(r'"[^"]*"?', "", line)
    known = (",", ";", "\t", "|") if decimal == "." else (";", "\t", "|")
    return max(known, key=unquoted.count)  # the first of equals, hence the comma


def _as_number(cell: str, decimal: str = ".") -> float | None:
    """Read a cell; None if it is neither a number nor a mark of a missing value."""
    if cell in MISSING_TEXTS:
        return np.nan
    if (
        "_" in cell or not cell.isascii()
    ):  # digits that Python takes, grouped or of another script, and Arrow does not
        return None
    if decimal == ",":
        if "." in cell:
            return None
        cell = cell.replace(",", ".")
    try:
        return float(cell)
    except ValueError:
        return None


def _plain_blocks(
    path: Path, layout: _Layout, columns: Sequence[int], block_rows: int, *, coders: Mapping[int, Coder]
) -> Iterator[Array]:
    """Parse with the `csv` module, naming the row and column of whatever is not a number."""
    block: list[list[float]] = []
    number = 0
    try:
        with _open_text(path) as file:
            rows = csv.reader(_bounded_lines(file, path), delimiter=layout.delimiter, strict=True)
            for row in rows:
                if not row or rows.line_num <= layout.header_lines:
                    continue
                block.append(_parse_row(row, number, columns, layout=layout, path=path, coders=coders))
                number += 1
                if len(block) == block_rows:
                    yield np.array(block)
                    block = []
    except _TEXT_ERRORS as error:
        raise damaged(path, f"row {number}: {error}") from error
    if block:
        yield np.array(block)


def _parse_row(
    row: list[str],
    number: int,
    columns: Sequence[int],
    *,
    layout: _Layout,
    path: Path,
    coders: Mapping[int, Coder],
) -> list[float]:
    """Turn the chosen cells of a row into numbers."""
    if len(row) != len(layout.names):
        raise FileFormatError(
            f"{shown(path)}: row {number} has {len(row)} cells, expected {len(layout.names)} as in the first line. "
            f"{_how_to_mend(row, number, layout)}"
        )
    values = []
    for j in columns:
        coder = coders.get(j)
        value = _as_number(row[j], layout.decimal) if coder is None else coder.code(row[j].strip())
        if value is None:
            raise _not_expected(
                row[j], number, layout.names[j], path=path, coder=coder, decimal=layout.decimal
            )
        values.append(value)
    return values


def _how_to_mend(row: list[str], number: int, layout: _Layout) -> str:
    """Say what to do about a row with too few or too many cells."""
    if len(row) == len(layout.names) + 1 and not row[-1].strip():
        return "It ends with a separator: delete that of every row, or give the first line one too."
    if number == 0 and len(row) > len(layout.names):
        return "If the names of the columns stand farther down, delete the lines above them."
    return "Quote cells that contain the separator, or complete the row."


def _not_expected(
    cell: str, number: int, name: str, *, path: Path, coder: Coder | None, decimal: str
) -> BadInputTypeError:
    """Word the refusal of a cell."""
    place = f"{shown(path)}: row {number}, column {name!r} holds {cell[:40]!r}, expected"
    if coder is not None:
        return BadInputTypeError(f"{place} {coder.expected}.")
    hint = _how_to_write(cell.strip(), name, decimal)
    return BadInputTypeError(
        f"{place} a number.{hint} Correct the cell, leave the column out (--exclude), or treat its texts as categories "
        "(--categories)."
    )


def _how_to_write(cell: str, name: str, decimal: str) -> str:
    """Say how a cell that looks like a number, a date or a remark should be written."""
    if cell.startswith("#") or name.startswith("#"):
        return " Lines that begin with # are no rows of a table: delete them."
    if OTHER_DATE.fullmatch(cell):
        return " Write dates as in 2026-01-31."
    if re.fullmatch(r"[+-]?[0-9]{1,3}([., '][0-9]{3})+[.,][0-9]+|[+-]?[0-9]{1,3}([ '][0-9]{3})+", cell):
        return " Write numbers without marks between the thousands."
    if len(cell.split()) > 1 and len(cell.split()) == len(name.split()):
        return " Separate the columns by commas, semicolons, bars or tabs, not by spaces."
    if name.count(",") and name.count(",") == cell.count(","):
        return " The whole line was read as one cell: commas separate the columns of a .csv, tabs those of a .tsv."
    if re.fullmatch(r"[+-]?[0-9]{1,3}(,[0-9]{3})+", cell) and decimal == ".":
        return (
            " If the comma stands between thousands, write the numbers without it; if it is a decimal comma, use --decimal "
            'comma (`decimal=","` in Python).'
        )
    if re.fullmatch(r"\([0-9.,]+\)", cell):
        return " Write negative numbers with a minus sign."
    if "," in cell and decimal == ".":
        return (
            " Write decimal numbers with a point, not a comma, or read them as they are with --decimal comma "
            '(`decimal=","` in Python).'
        )
    has_mark = _NUMBER_LIKE.fullmatch(cell) and (cell[-1] in "%$€£" or cell[0] in "$€£")
    return " Write the numbers alone, without a mark." if has_mark else ""


def _arrow_blocks(
    path: Path, layout: _Layout, columns: Sequence[int], block_rows: int, *, coders: Mapping[int, Coder]
) -> Iterator[Array]:
    """Parse with Arrow, in blocks of bytes; ask the plain parser to explain a refusal."""
    import pyarrow as pa

    try:
        with _open_for_arrow(path) as file:
            for batch in _open_arrow(file, layout, columns, coders):
                yield from _batch_blocks(batch, columns, block_rows, coders)
    except (pa.ArrowException, BadInputTypeError, UnicodeDecodeError, OSError) as error:
        rows = map(len, _plain_blocks(path, layout, columns, block_rows, coders=coders))
        if sum(rows) == 0:  # reading raises at the cell in question; a header without a newline is no fault
            return
        raise damaged(path, error) from error


def _open_for_arrow(path: Path) -> Any:
    """Open a file for Arrow, expanded by Python if it is compressed."""
    if not _is_compressed(path):
        return arrow_file(path)
    import pyarrow as pa

    return pa.PythonFile(_open_bytes(path), mode="r")


def _batch_blocks(
    batch: Any, columns: Sequence[int], block_rows: int, coders: Mapping[int, Coder]
) -> Iterator[Array]:
    """Turn a record batch into arrays of limited length."""
    if coders:
        from planted.io.tables._arrow import coded
    for start in range(0, batch.num_rows, block_rows):
        part = batch.slice(start, block_rows)
        yield np.column_stack(
            [
                coded(part.column(f"c{j}"), coders[j], "a column")
                if j in coders
                else part.column(f"c{j}").to_numpy(zero_copy_only=False)
                for j in columns
            ]
        )


def _open_arrow(file: Any, layout: _Layout, columns: Sequence[int], coders: Mapping[int, Coder]) -> Any:
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
        column_types={name: pa.string() if j in coders else pa.float64() for j, name in enumerate(names)},
        include_columns=[f"c{j}" for j in columns],
        null_values=list(MISSING_TEXTS),
        strings_can_be_null=True,
        decimal_point=layout.decimal,
    )
    return arrow_csv.open_csv(file, read_options=read, parse_options=parse, convert_options=convert)
