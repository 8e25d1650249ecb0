"""Sums of rows in files, to be merged on another machine: what `planted sums` writes and `planted recover --sums` reads."""

from __future__ import annotations

import json
import os
import zipfile
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from planted._version import __version__
from planted.io.state._atomic import atomic_write
from planted.moments import RowSummary
from planted.outcomes import BadInputError, FileFormatError
from planted.rows import kind_of, pack_sums, unpack_sums

__all__ = ["read_sums", "write_sums"]

FORMAT, SCHEMA = "planted.sums", 1


def write_sums(path: str | os.PathLike[str], summary: RowSummary) -> None:
    """Write a summary of rows, whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from planted.moments import RowBlocks, summarise_rows
    >>> path = Path(tempfile.mkdtemp()) / "part.sums"
    >>> write_sums(path, summarise_rows(RowBlocks.from_arrays(np.eye(3), np.ones((3, 1))), 10))
    >>> read_sums([path, path]).count
    6
    """
    head = json.dumps({"format": FORMAT, "schema": SCHEMA, "planted": __version__})

    def write(partial: Path) -> None:
        with partial.open("wb") as file:
            arrays: dict[str, Any] = pack_sums(summary)
            np.savez(file, allow_pickle=False, head=np.array(head), **arrays)

    atomic_write(path, write)


def read_sums(paths: list[str | os.PathLike[str]] | list[Path]) -> RowSummary:
    """Read summaries and merge them.

    Returns the summary of all rows.
    """
    if not paths:
        raise BadInputError("no file of sums was given, expected at least one.")
    return reduce(RowSummary.merge, [_read(Path(path)) for path in paths])


def _read(path: Path) -> RowSummary:
    if not path.is_file():
        raise BadInputError(f"there is no file {path}. Check the path; it is relative to {Path.cwd()}.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            head = json.loads(str(archive["head"]))
            arrays = {name: archive[name] for name in archive.files if name != "head"}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise FileFormatError(
            f"{path} is not a file of sums ({error}); write it again with: planted sums"
        ) from error
    if head.get("format") != FORMAT or head.get("schema") != SCHEMA:
        raise FileFormatError(
            f"{path} is of format {head.get('format')!r}, schema {head.get('schema')!r}; expected {FORMAT} {SCHEMA}."
        )
    found = unpack_sums(kind_of(RowSummary), arrays)
    assert isinstance(found, RowSummary)
    return found
