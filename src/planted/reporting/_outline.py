"""What a report says, as plain data, and its short form: the verdict, the facts and the evidence, which a terminal shows.

The model is small on purpose: a report is a verdict, a strip of facts and a list of sections; a section is
paragraphs followed by tables, figures and code. Figures hold numbers, not drawings, so that every rendering
(text, HTML, JSON) says the same thing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from planted._typing import Json
from planted.moments._gram import say_beside_a_line
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery

__all__ = [
    "MAX_HALF_COLUMNS",
    "Code",
    "Figure",
    "Report",
    "Section",
    "Table",
    "Verdict",
    "advice_of",
    "beside_a_line",
    "counted",
    "format_number",
    "outline",
    "requirement",
    "to_plain",
]

REPORT_SCHEMA_VERSION = 1
MAX_HALF_COLUMNS = 26
"""Columns of a heat map that fit in half the width of the page."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer in one sentence."""

    outcome: str  # name of the outcome, such as ``RECOVERED``
    tone: str  # ``"good"``, ``"caution"`` or ``"bad"``: how the verdict is coloured (never by colour alone)
    sentence: str  # the meaning of the outcome
    detail: str  # the measured reason
    advice: str  # what to do next
    guarantee: str  # what was proved


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under named columns."""

    title: str  # caption
    columns: tuple[str, ...]  # column heads
    rows: tuple[tuple[str, ...], ...]  # cells; the first cell of a row is its header
    marks: tuple[str, ...] = ()  # one of ``"pass"``, ``"fail"``, ``"info"`` per row, or empty
    note: str = ""  # shown under the table
    is_folded: bool = False  # whether the page shows it only on request
    is_numeric: bool = False  # whether cells after the first are numbers to be aligned


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as data; the HTML rendering draws it."""

    # ``"heatmap"``, ``"scatter"``, ``"curves"``, ``"lines"``, ``"histogram"``, ``"intervals"`` or ``"bends"``
    kind: str
    title: str  # caption
    alt: str  # the message of the figure in words, for those who cannot see it
    data: Mapping[str, Any]  # the numbers and labels to draw


@dataclass(frozen=True, slots=True)
class Code:
    """A few lines to copy."""

    title: str  # what the lines do
    language: str  # ``"python"`` or ``"shell"``
    text: str  # the lines


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report with a heading."""

    name: str  # identifier used in links
    title: str  # heading
    paragraphs: tuple[str, ...] = ()  # text above the blocks
    blocks: tuple[Table | Figure | Code, ...] = ()  # tables, figures and code, in order


@dataclass(frozen=True, slots=True)
class Report:
    """A report with several renderings."""

    title: str  # title of the page
    lead: str  # one sentence under the title
    verdict: Verdict  # the answer
    facts: tuple[tuple[str, str], ...]  # label and value of the strip of facts
    sections: tuple[Section, ...]  # the rest
    record: Json = field(default_factory=dict)  # the result as plain data

    def with_sections(self, *sections: Section, title: str = "", lead: str = "") -> Report:
        """Return the report with further sections put before its own."""
        return replace(
            self, title=title or self.title, lead=lead or self.lead, sections=(*sections, *self.sections)
        )

    def text(self) -> str:
        """Render for a terminal or a log: plain text without colour."""
        from planted.reporting._text import render_text

        return render_text(self)

    def html(self) -> str:
        """Render as one self-contained page.

        Returns a complete HTML document that needs no other file and no network.
        """
        from planted.reporting._html import render_html

        return render_html(self)

    def json(self) -> str:
        """Render as strict JSON (numbers that are not finite become null).

        Returns the report and the record it was made from.
        """
        content = {"schema": REPORT_SCHEMA_VERSION} | to_plain(self)
        return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """Show the page inside a notebook, isolated from the notebook's own styles."""
        from planted.reporting._html import render_frame

        return render_frame(self)


def format_number(value: Any, *, digits: int = 4) -> str:
    """Return a number as people read it: few digits, a true minus sign, a dash for nothing.

    Examples
    --------
    >>> format_number(-1234567), format_number(2.5e-14), format_number(float("nan")), format_number(-131.4, digits=2)
    ('−1,234,567', '2.5e-14', '—', '−131')
    """
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if not isinstance(value, int | float | np.integer | np.floating):
        return str(value)
    number = float(value)
    if math.isnan(number):
        return "—"
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    is_whole = number == int(number) and abs(number) < 1e9
    is_middling = 10**digits <= abs(number) < 1e6  # not 1.3e+02
    text = f"{round(number):,}" if is_whole or is_middling else f"{number:.{digits}g}"
    return ("−" + text[1:] if text.startswith("-") else text).replace("e+0", "e").replace("e+", "e")


def to_plain(value: Any) -> Any:
    """Return ``value`` as data that strict JSON can hold.

    `value`: dataclasses, mappings, sequences, arrays and numbers, nested. The result: dictionaries, lists, strings,
    finite numbers, booleans and None.

    Examples
    --------
    >>> to_plain({"gap": float("inf"), "shape": (2, np.int64(3))})
    {'gap': None, 'shape': [2, 3]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: to_plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return to_plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(item) for item in value]
    if isinstance(value, np.generic):
        return to_plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return value.name if isinstance(value, Enum) else str(value)


_TONES = {Outcome.RECOVERED: "good", Outcome.FITTED: "caution"}
_SIGNS = {">=": "≥", "<=": "≤", ">": ">", "<": "<", "==": "="}


def outline(recovery: Recovery) -> Report:
    """Make a report of one section, the evidence; `summarise` adds the others.

    Examples
    --------
    >>> import planted
    >>> data = planted.simulate.dataset(40, n_features=3, n_hidden=2, n_outputs=3, random_state=0)
    >>> [section.name for section in outline(planted.recover(data.X, data.Y, random_state=0)).sections]
    ['evidence']
    """
    n, d, m = recovery.provenance.shape
    return Report(
        title="Recovery report",
        lead=(
            f"Is there one two-layer network behind these {counted(n, 'sample')} of {counted(d, 'input')} and "
            f"{counted(m, 'output')}?"
        ),
        verdict=_verdict(recovery),
        facts=_facts(recovery),
        sections=(_evidence_section(recovery), *_context_section(recovery)),
        record=to_plain(recovery.to_dict()),
    )


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it is one.

    Examples
    --------
    >>> counted(1, "input"), counted(1200, "row")
    ('1 input', '1,200 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def requirement(comparison: str, required: float) -> str:
    """Return what is required of a number.

    Examples
    --------
    >>> requirement(">=", 60)
    '≥ 60'
    """
    return f"{_SIGNS[comparison]} {format_number(required)}"


def _verdict(recovery: Recovery) -> Verdict:
    """The outcome in words."""
    outcome = recovery.outcome
    return Verdict(
        outcome=outcome.name,
        tone=_TONES.get(outcome, "bad"),
        sentence=outcome.meaning,
        detail=recovery.detail,
        advice=advice_of(recovery),
        guarantee=recovery.guarantee.value,
    )


def advice_of(recovery: Recovery) -> str:
    """Return what to do next, in the words of the entry that was used: never an option that it does not have."""
    outcome, method = recovery.outcome, recovery.provenance.algorithm
    if outcome is Outcome.STOPPED_EARLY and method == "identify":
        return (
            "Allow more questions with --budget N (`budget=` in Python), or more time with --budget-seconds "
            "(`budget_seconds=`)."
        )
    if outcome is Outcome.STOPPED_EARLY:
        return (
            "Look longer with --effort thorough (`effort=` in Python), or give the number of hidden units with --hidden "
            "(`n_hidden=`) if you know it."
        )
    comparison = beside_a_line(recovery)
    if outcome is Outcome.FITTED and comparison:
        more = "" if method == "small-network" else f" {outcome.advice.partition('. ')[2]}"
        return f"{comparison}{more}"
    if method == "small-network" and recovery.network is not None and recovery.held_out_mse is None:
        return "Collect more samples: nothing says how well this predicts others."
    return outcome.advice


def beside_a_line(recovery: Recovery) -> str:
    """Return whether the network predicts better than a straight line, in one sentence; nothing if that is not known."""
    context = recovery.stats.get("context", ())
    return say_beside_a_line(context) if recovery.network is not None and context else ""


def _context_section(recovery: Recovery) -> tuple[Section, ...]:
    """The network beside the mean and a straight line."""
    models = recovery.stats.get("context", ())
    if not models:
        return ()
    names = {"mean": "the mean", "line": "a straight line", "network": "this network"}
    rows = tuple(
        (
            names[item["model"]],
            format_number(item["parameters"]),
            format_number(item["r2"], digits=3),
            format_number(item["error"], digits=3),
        )
        for item in models
    )
    how = (
        "from the residuals and the number of parameters"
        if recovery.held_out_mse is None
        else "by cross-validation"
    )
    table = Table(
        title="Beside simpler models",
        columns=("Model", "Parameters", "R²", "Error on new samples"),
        rows=rows,
        note=f"Root mean square error on new samples, {how}.",
        is_numeric=True,
    )
    sentence = "" if recovery.outcome is Outcome.RECOVERED else beside_a_line(recovery)
    return (Section("context", "Beside simpler models", (sentence,) if sentence else (), (table,)),)


def _facts(recovery: Recovery) -> tuple[tuple[str, str], ...]:
    """The strip of numbers under the verdict."""
    n, d, m = recovery.provenance.shape
    facts = [("samples", f"{n:,}"), ("inputs", f"{d:,}"), ("outputs", f"{m:,}")]
    if recovery.network is not None:
        facts.append(("hidden units", f"{recovery.network.n_hidden:,}"))
        facts.append(("free parameters", f"{recovery.network.n_parameters:,}"))
    facts.append(("method", recovery.provenance.algorithm))
    if isinstance(recovery.stats.get("seconds"), int | float):
        facts.append(("seconds", format_number(recovery.stats["seconds"], digits=2)))
    return tuple(facts)


def _evidence_section(recovery: Recovery) -> Section:
    """The certificate: what is needed, what the data gave, and whether it holds."""
    notices = tuple(str(notice) for notice in recovery.stats.get("notices", ()))
    if not recovery.evidence:
        text = "The method recorded no measurements behind this outcome."
        return Section("evidence", "The evidence", (text, *notices))
    judged = [item for item in recovery.evidence if item.comparison != "info"]
    measured = [item for item in recovery.evidence if item.comparison == "info"]
    passed = sum(item.passed for item in judged)
    is_by_fit = recovery.guarantee is Guarantee.HEURISTIC  # judged by its fit and local checks alone
    has_theorem = not is_by_fit and _has_theorem(recovery.provenance.algorithm)
    needs = "The theorem needs" if has_theorem else "Needed"
    tables = []
    if judged:
        title = "What the theorem needs, and what your data gave" if has_theorem else "What was checked"
        tables.append(
            Table(
                title=title,
                columns=("What is checked", needs, "Your data gave", "Verdict"),
                rows=tuple(_evidence_row(item) for item in judged),
                marks=tuple("pass" if item.passed else "fail" for item in judged),
            )
        )
        verb = "holds" if len(judged) == 1 else "hold"
        lead = f"{passed} of {counted(len(judged), 'requirement')} {verb}; each was checked on these samples."
    else:
        lead = "No requirement was tested; what was measured is below."
    if measured:
        rows = tuple((_name(item), format_number(item.measured)) for item in measured)
        tables.append(
            Table(
                "What was measured besides" if judged else "What was measured",
                ("What", "Measured"),
                rows,
                is_numeric=True,
            )
        )
    return Section("evidence", "The evidence", (lead, *notices), tuple(tables))


def _has_theorem(method: str) -> bool:
    """Return whether a theorem stands behind a method: its card promises more than a fit."""
    from planted.recovery._registry import methods

    card = methods().get(method)
    return card is None or card.guarantee in (Guarantee.EXACT, Guarantee.ASYMPTOTIC)


def _name(item: Evidence) -> str:
    """What a line is about, with the place where the requirement comes from."""
    return f"{item.name} — {item.equation}" if item.equation else item.name


def _evidence_row(item: Evidence) -> tuple[str, str, str, str]:
    """One line of the certificate as text."""
    need = requirement(item.comparison, item.required)
    return _name(item), need, format_number(item.measured), "holds" if item.passed else "fails"
