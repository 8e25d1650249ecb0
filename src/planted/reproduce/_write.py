"""Write a study to a folder: picture, numbers, and the table of claims."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

from planted.io import atomic_write
from planted.reporting import draw_panels
from planted.reproduce._study import Study

__all__ = ["write_study"]


def write_study(study: Study, folder: str | Path) -> list[Path]:
    """Write ``NAME.svg``, ``NAME.csv`` and ``NAME.md``."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    picture = draw_panels(study.rows, study.panels, title=study.title)
    texts = {"svg": picture, "csv": _as_csv(study), "md": _as_markdown(study)}
    paths = []
    for suffix, text in texts.items():
        path = target / f"{study.name}.{suffix}"
        atomic_write(path, _writer_of(text))
        paths.append(path)
    return paths


def _writer_of(text: str) -> Callable[[Path], object]:
    return lambda partial: partial.write_text(text, encoding="utf-8")


def _as_csv(study: Study) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(study.rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(study.rows)
    return buffer.getvalue()


def _as_markdown(study: Study) -> str:
    lines = [f"# {study.title}", "", "| the paper | measured here |", "|---|---|"]
    lines += [f"| {claim.paper} | {claim.ours} |" for claim in study.claims]
    return "\n".join(lines) + "\n"
