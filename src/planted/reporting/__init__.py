"""Reports: one content model made from a result, rendered as text, HTML or JSON.

`summarise` reads a `planted.Recovery` and returns a `Report` of plain data: a verdict, facts and sections of
paragraphs, tables, figures and code; `outline` is its short form for a terminal. The renderers only draw what is
there. The HTML page is one file that asks for nothing from outside: no scripts, no fonts, no images by address.
"""

from __future__ import annotations

from planted.reporting._comparison import Contender, compare_section
from planted.reporting._diagnosis import summarise_diagnosis
from planted.reporting._outline import Code, Figure, Report, Section, Table, Verdict, outline, to_plain
from planted.reporting._panels import draw_panels
from planted.reporting._summary import summarise

__all__ = [
    "Code",
    "Contender",
    "Figure",
    "Report",
    "Section",
    "Table",
    "Verdict",
    "compare_section",
    "draw_panels",
    "outline",
    "summarise",
    "summarise_diagnosis",
    "to_plain",
]
