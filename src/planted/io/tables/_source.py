"""What every table format offers to the readers, and the checks they share.

A format module looks at a file's head only and returns a `Source`: the column names, the number of rows
where the head tells it, and a function that streams chosen columns in blocks of rows. All values travel
as float64; missing ones as NaN, so that one place words the refusal. Errors of the libraries that parse a
format are translated here, in one place, into typed errors that name the file.
"""

from __future__ import annotations

import csv
import errno
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from planted._typing import Array
from planted.outcomes import BadInputError, FileFormatError, PlantedError, shown

__all__ = [
    "MAX_COLUMNS",
    "PLAIN",
    "Coder",
    "Reading",
    "Source",
    "arrow_file",
    "damaged",
    "format_of",
    "reason_of",
    "refuse_width",
    "require_arrow",
    "typed_errors",
]

MAX_COLUMNS = 100_000
"""More columns than a recovery can use: already the products of all pairs of so many take 80 GB."""

LONGEST_REASON = 300  # characters of a library's own words that are passed on

_FOREIGN = (
    OSError,
    ValueError,  # also UnicodeError and most of Arrow's errors
    OverflowError,
    EOFError,
    RuntimeError,  # zipfile: a compression or an encryption that it does not know
    csv.Error,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


class Coder(Protocol):
    """Turn the text of a cell into a number; see `planted.io.tables._recipe`."""

    @property
    def expected(self) -> str:
        """What a cell should hold, for messages."""
        ...

    def code(self, text: str) -> float | None:
        """Return the number that stands for a text, or None for a text that is none of those expected."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """How cells are read: the decimal mark of a text file, and columns of text that are coded as numbers."""

    decimal: str = "."
    coders: Mapping[str, Coder] = field(default_factory=dict)  # by the name of the column

    def of(self, names: Sequence[str], columns: Sequence[int]) -> dict[int, Coder]:
        """Return the coders of chosen columns by the number of the column."""
        return {j: self.coders[names[j]] for j in columns if names[j] in self.coders} if self.coders else {}


PLAIN = Reading()


@dataclass(frozen=True, slots=True)
class Source:
    """A table on disk, opened but not loaded."""

    path: Path  # the file
    names: tuple[str, ...]  # column names; the column numbers as text where the file has no names
    n_rows: int | None  # number of rows, where the head of the file tells it
    # ``blocks(columns, block_rows)`` yields arrays of shape (at most `block_rows`, ``len(columns)``).
    blocks: Callable[[Sequence[int], int], Iterator[Array]]
    # Names that stand for several columns: the arrays of an `.npz` archive.
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    # ``blocks_from(columns, block_rows, row)`` begins at a row without reading those before, where the format allows
    # it.
    blocks_from: Callable[[Sequence[int], int, int], Iterator[Array]] | None = None
    # Columns of text, dates or categories, as far as the head of the file tells; they need a coder to be read.
    texts: tuple[int, ...] = ()

    def stream(self, columns: Sequence[int], block_rows: int, row: int = 0) -> Iterator[Array]:
        """Stream chosen columns from a row on; earlier rows are read and dropped where the format knows no better.

        Shapes: result (rows, columns).
        """
        with typed_errors(self.path):
            if self.blocks_from is not None:
                yield from self.blocks_from(columns, block_rows, row)
                return
            skipped = 0
            for block in self.blocks(columns, block_rows):
                kept = block[min(max(row - skipped, 0), len(block)) :]
                skipped += len(block)
                if len(kept):
                    yield kept


@contextmanager
def typed_errors(path: Path) -> Iterator[None]:
    """Translate the errors of the libraries that read a file into typed ones that name it."""
    try:
        yield
    except PlantedError:
        raise
    except PermissionError as error:
        raise BadInputError(f"{shown(path)} may not be read by this user: {error.strerror}.") from error
    except Exception as error:
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            raise BadInputError(
                f"{shown(path)} needs more memory than there is ({reason_of(error) or 'an allocation failed'}). "
                "Choose fewer columns, or stream it (--stream on the command line)."
            ) from error
        if isinstance(error, _FOREIGN) or type(error).__module__.partition(".")[0] == "pyarrow":
            raise damaged(path, error) from error
        raise


def damaged(path: Path, reason: object) -> FileFormatError:
    """Word the refusal of a file that is truncated, corrupted or of another format than its name says.

    Examples
    --------
    >>> print(damaged(Path("a.npy"), "40 bytes missing"))
    a.npy cannot be read as .npy: 40 bytes missing. The file is damaged or of another format; write it again.
    """
    what = f"{shown(path)} cannot be read as {format_of(path)}: {reason_of(reason)}."
    if isinstance(reason, UnicodeDecodeError):
        return FileFormatError(
            f"{what} It is no text in UTF-8. Save it again as UTF-8 (in spreadsheets: CSV UTF-8), or convert it: iconv -f "
            "LATIN1 -t UTF-8."
        )
    return FileFormatError(f"{what} The file is damaged or of another format; write it again.")


def format_of(path: Path) -> str:
    """Return the suffix that names the format of a file; a compressed file has two.

    Examples
    --------
    >>> format_of(Path("a.npy")), format_of(Path("2026.05.CSV.gz"))
    ('.npy', '.csv.gz')
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:]) if suffixes[-1:] == [".gz"] else "".join(suffixes[-1:])


def refuse_width(n_columns: int, label: str) -> None:
    """Refuse tables with more columns than can be meant, before a name or a parser is made for each."""
    if n_columns > MAX_COLUMNS:
        raise BadInputError(
            f"{label} has {n_columns:,} columns, expected at most {MAX_COLUMNS:,}. Samples are rows: transpose the "
            "table if yours are columns, or write the columns that matter to a smaller file."
        )


def reason_of(error: object) -> str:
    """Return a library's own words for what is wrong, not too many of them."""
    return shown(str(error).strip(), longest=LONGEST_REASON).rstrip(".")


def require_arrow(path: Path) -> Any:
    """Import Arrow, or say how to install it."""
    try:
        import pyarrow
    except ImportError as error:
        raise BadInputError(
            f"{shown(path)}: {path.suffix.lower()} files need pyarrow, which is not installed. "
            "Install it with: pip install 'planted[files]'"
        ) from error
    return pyarrow


def arrow_file(path: Path) -> Any:
    """Open a file for Arrow; a path that is not UTF-8, which Arrow cannot name, is opened by Python."""
    pa = require_arrow(path)
    try:
        return pa.OSFile(str(path))
    except UnicodeEncodeError:
        return pa.PythonFile(path.open("rb"), mode="r")
