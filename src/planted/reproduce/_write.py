"""Write a study to a folder: picture, numbers, and the table of claims.

Picture and claims end with a seal that also covers the numbers, by which `planted.io` knows them again: files of these
names that people wrote or changed are replaced only if that was asked for. The picture comes first and the claims last, so
that after an interruption one of the two knows the numbers that are there.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from planted.io import atomic_write
from planted.io._outputs import Output, check_outputs, sealed
from planted.outcomes import BadInputError, shown
from planted.reporting import draw_panels
from planted.reproduce._study import Study

__all__ = ["check_places", "write_study"]

KINDS = {".svg": "picture", ".csv": "numbers", ".md": "claims"}


def check_places(folder: Path, names: Iterable[str], *, force: bool = False) -> None:
    """Refuse a folder where files of studies of these names would replace what planted did not write."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise BadInputError(f"--out {shown(folder)}: {shown(there)} is a file; expected a folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise BadInputError(f"--out {shown(folder)}: {shown(there)} may not be written to by this user.")
    if there is folder:
        paths = [(folder / f"{name}{suffix}", kind) for name in names for suffix, kind in KINDS.items()]
        check_outputs([Output("--out", path, kind) for path, kind in paths], force=force)


def write_study(study: Study, folder: str | Path, *, force: bool = False) -> list[Path]:
    """Write ``NAME.svg``, ``NAME.csv`` and ``NAME.md``."""
    target = Path(folder)
    check_places(target, [study.name], force=force)
    target.mkdir(parents=True, exist_ok=True)
    numbers = _as_csv(study).encode()
    picture = draw_panels(study.rows, study.panels, title=study.title)
    texts = (sealed(picture, numbers).encode(), numbers, sealed(_as_markdown(study), numbers).encode())
    paths = []
    for suffix, text in zip(KINDS, texts, strict=True):
        path = target / f"{study.name}{suffix}"
        atomic_write(path, partial(Path.write_bytes, data=text))
        paths.append(path)
    return paths


def _as_csv(study: Study) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(study.rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(study.rows)
    return buffer.getvalue()


def _as_markdown(study: Study) -> str:
    lines = [f"# {study.title}", "", "| the paper says | we measured | verdict |", "|---|---|---|"]
    lines += [f"| {claim.paper} | {claim.ours} | {claim.verdict.value} |" for claim in study.claims]
    return "\n".join(lines) + "\n"
