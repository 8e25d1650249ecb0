"""Set several answers beside a known truth, as the demonstration does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planted.reporting._outline import Figure, Section, Table, format_number

__all__ = ["Contender", "compare_section"]


@dataclass(frozen=True, slots=True)
class Contender:
    """One answer and how it did."""

    name: str  # who answered
    # Largest difference to the true parameters after matching units, for each run; one run per seed.
    parameter_errors: tuple[float, ...]
    # Mean squared error on fresh inputs, relative to the spread of the outputs, for each run.
    test_errors: tuple[float, ...]
    seconds: float  # time of all runs together
    claim: str  # what the answer claims for itself
    # For some runs, by name, the true and the found hidden weights of matched units in the same order.
    weights: Mapping[str, tuple[Sequence[float], Sequence[float]]]


def compare_section(contenders: tuple[Contender, ...], *, title: str, story: tuple[str, ...]) -> Section:
    """Describe several answers to one planted problem.

    Returns a table and one scatter plot of true against found weights per answer.
    """
    table = Table(
        title="The same data, several answers",
        columns=(
            "Who",
            "Runs",
            "Error, best",
            "Error, worst",
            "Fresh, best",
            "Fresh, worst",
            "Seconds",
            "Claim",
        ),
        rows=tuple(
            (
                item.name,
                str(len(item.parameter_errors)),
                *(format_number(pick(item.parameter_errors), digits=2) for pick in (min, max)),
                *(format_number(pick(item.test_errors), digits=2) for pick in (min, max)),
                format_number(item.seconds, digits=2),
                item.claim,
            )
            for item in contenders
        ),
        note="Error: the largest difference to a planted weight, bias or offset after matching units. "
        "Fresh: squared error on inputs nobody was shown, relative to the spread of the outputs. "
        "Each run has its own seed.",
    )
    figures = tuple(_weights_figure(item) for item in contenders if item.weights)
    return Section("comparison", title, story, (table, *figures))


def _weights_figure(item: Contender) -> Figure:
    """Found against true hidden weights."""
    gaps = {
        name: float(np.abs(np.subtract(true, found)).max(initial=0.0))
        for name, (true, found) in item.weights.items()
    }
    distances = ", ".join(f"{format_number(gap, digits=2)} in the {name}" for name, gap in gaps.items())
    data = {
        "series": [
            {"name": name, "x": list(true), "y": list(found)} for name, (true, found) in item.weights.items()
        ],
        "x_title": "planted weight",
        "y_title": "found weight",
        "diagonal": True,
    }
    alt = f"Hidden weights found against planted ones; on the diagonal they agree. Largest difference: {distances}."
    return Figure("scatter", f"Weights found by {item.name}", alt, data)
