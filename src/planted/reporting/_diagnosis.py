"""From a diagnosis to the content of its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planted.reporting._outline import Report, Section, Table, Verdict, format_number, requirement, to_plain

if TYPE_CHECKING:
    from planted.recovery import Diagnosis

__all__ = ["summarise_diagnosis"]


def summarise_diagnosis(diagnosis: Diagnosis) -> Report:
    """Make a report of a diagnosis; it shows what the diagnosis holds and computes nothing new.

    Returns the content, with the renderings ``text()``, ``html()`` and ``json()``.

    Examples
    --------
    >>> import planted
    >>> data = planted.simulate.dataset(200, n_features=3, n_hidden=2, n_outputs=3, random_state=0)
    >>> summarise_diagnosis(planted.diagnose(data.X, data.Y, random_state=0)).verdict.outcome
    'complementarity'
    """
    n, d, m = diagnosis.shape
    return Report(
        title="Diagnosis",
        lead=f"Which methods do these {n:,} samples of {d} inputs and {m} outputs allow?",
        verdict=_verdict(diagnosis),
        facts=(
            ("samples", f"{n:,}"),
            ("inputs", f"{d:,}"),
            ("outputs", f"{m:,}"),
            ("hidden units", _widths(diagnosis)),
            ("predicted", diagnosis.prediction),
        ),
        sections=(_methods_section(diagnosis), _findings_section(diagnosis)),
        record=to_plain(diagnosis.to_dict()),
    )


def _verdict(diagnosis: Diagnosis) -> Verdict:
    allowed = [check.method for check in diagnosis.methods if check.applies]
    first = allowed[0] if allowed else "no method"
    noise = diagnosis.noise
    level = f"{'at most ' if noise.is_bound else ''}{format_number(noise.relative_std, digits=2)}"
    return Verdict(
        outcome=first,
        tone="good" if allowed else "bad",
        sentence=f"{len(allowed)} of {len(diagnosis.methods)} methods apply to these data.",
        detail=f"Noise: {level} of the outputs' spread, judged from {noise.kind}.",
        advice="planted recover tries them in this order and returns the first certified answer.",
        guarantee="none: a diagnosis promises nothing",
    )


def _widths(diagnosis: Diagnosis) -> str:
    low, high = diagnosis.n_hidden
    if low == high:
        return str(low)
    return f"{low} to {high}" if high else f"at least {low}"


def _methods_section(diagnosis: Diagnosis) -> Section:
    table = Table(
        title="Which method for these data",
        columns=("Method", "Applies", "Why", "Samples needed"),
        rows=tuple(
            (check.method, "yes" if check.applies else "no", check.reason, f"{check.samples_needed:,}")
            for check in diagnosis.methods
        ),
        marks=tuple("pass" if check.applies else "fail" for check in diagnosis.methods),
    )
    return Section("methods", "The methods", (), (table,))


def _findings_section(diagnosis: Diagnosis) -> Section:
    rows = tuple(
        (item.name, "for information" if item.comparison == "info" else requirement(item.comparison, item.required),
         format_number(item.measured))
        for item in diagnosis.findings
    )  # fmt: skip
    marks = tuple(
        "info" if item.comparison == "info" else "pass" if item.passed else "fail"
        for item in diagnosis.findings
    )
    table = Table("What was measured", ("What", "Expected", "Measured"), rows, marks=marks)
    text = "A failed line is no fault of the data: it closes the methods that need it and leaves the others."
    return Section("findings", "The data", (text,), (table,))
