"""The plain-text rendering: no colour, no drawing, nothing that a log file could not hold."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from planted.outcomes import shown
from planted.reporting._outline import Code, Figure, Report, Section, Table

__all__ = ["escaped", "render_text"]

_WIDTH = 96
_FOLDED_ROWS = 6
_MARKS = {"pass": "+", "fail": "x", "info": " "}


def render_text(report: Report) -> str:
    """Render a report as plain text.

    Returns lines of at most about 96 characters (tables may be wider).
    """
    report = escaped(report)
    verdict = report.verdict
    lines = [report.title, "=" * len(report.title), "", *_wrap(report.lead), ""]
    lines += [verdict.outcome, *_wrap(verdict.sentence), *_wrap(verdict.detail)]
    lines += [*_wrap(f"Guarantee: {verdict.guarantee}."), *_wrap(f"What to do: {verdict.advice}"), ""]
    width = max((len(label) for label, _ in report.facts), default=0)
    lines += [f"  {label:<{width}}  {value}" for label, value in report.facts]
    for section in report.sections:
        lines += ["", *_section_lines(section)]
    return "\n".join(lines).rstrip() + "\n"


def escaped(content: Any) -> Any:
    """Return a part of a report with every text escaped that a terminal or a browser would obey instead of showing it."""
    if isinstance(content, str):
        return shown(content, keep="\n")
    if isinstance(content, tuple | list):
        return type(content)(map(escaped, content))
    if isinstance(content, Mapping):
        return {key: escaped(value) for key, value in content.items()}
    if is_dataclass(content) and not isinstance(content, type):
        parts = {
            item.name: escaped(getattr(content, item.name))
            for item in fields(content)
            if item.name != "record"
        }
        return replace(content, **parts)
    return content


def _section_lines(section: Section) -> list[str]:
    """Heading, paragraphs and blocks of one section."""
    lines = [section.title, "-" * len(section.title)]
    for paragraph in section.paragraphs:
        lines += _wrap(paragraph)
    for block in section.blocks:
        lines.append("")
        if isinstance(block, Table):
            lines += _table_lines(block)
        elif isinstance(block, Figure):
            lines += _wrap(f"[figure] {block.title}: {block.alt}")
        elif isinstance(block, Code):
            lines += [f"{block.title}:", *(f"    {line}" for line in block.text.splitlines())]
    return lines


def _table_lines(table: Table) -> list[str]:
    """A table with aligned columns and a mark in front of every judged row."""
    widths = [max(len(row[i]) for row in (table.columns, *table.rows)) for i in range(len(table.columns))]
    marks = [_MARKS[mark] for mark in table.marks] or [" "] * len(table.rows)
    head = "  ".join(cell.ljust(width) for cell, width in zip(table.columns, widths, strict=True))
    lines = [table.title, f"    {head}".rstrip()]
    limit = _FOLDED_ROWS if table.is_folded else len(table.rows)
    for mark, row in list(zip(marks, table.rows, strict=True))[:limit]:
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append(f"  {mark} {cells}".rstrip())
    if limit < len(table.rows):
        lines.append(f"    … and {len(table.rows) - limit} more")
    return lines + _wrap(table.note)


def _wrap(text: str) -> list[str]:
    """Break a paragraph into lines; an empty text gives none."""
    return textwrap.wrap(text, _WIDTH) if text else []
