"""Set several answers beside a known truth, as the demonstration does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted.reporting._content import Figure, Section, Table, format_number

__all__ = ["Contender", "compare_section"]


@dataclass(frozen=True, slots=True)
class Contender:
    """One answer and how it did.

    Parameters
    ----------
    name : str
        Who answered.
    parameter_error : float
        Largest difference to the true parameters after matching units.
    test_error : float
        Mean squared error on fresh inputs, relative to the spread of the outputs.
    seconds : float
        Time taken.
    claim : str
        What the answer claims for itself.
    true_weights, found_weights : tuple of float
        Hidden weights of matched units, in the same order; empty if the units cannot be matched.
    """

    name: str
    parameter_error: float
    test_error: float
    seconds: float
    claim: str
    true_weights: tuple[float, ...]
    found_weights: tuple[float, ...]


def compare_section(contenders: tuple[Contender, ...], *, title: str, story: tuple[str, ...]) -> Section:
    """Describe several answers to one planted problem.

    Parameters
    ----------
    contenders : tuple of Contender
        The answers.
    title : str
        Heading.
    story : tuple of str
        Paragraphs above the table.

    Returns
    -------
    Section
        A table and one scatter plot of true against found weights per answer.
    """
    table = Table(
        title="The same data, several answers",
        columns=(
            "Who",
            "Largest parameter error",
            "Relative error on fresh inputs",
            "Seconds",
            "What it claims",
        ),
        rows=tuple(
            (
                item.name,
                format_number(item.parameter_error, digits=2),
                format_number(item.test_error, digits=2),
                format_number(item.seconds, digits=2),
                item.claim,
            )
            for item in contenders
        ),
    )
    figures = tuple(_weights_figure(item) for item in contenders if item.true_weights)
    return Section("comparison", title, story, (table, *figures))


def _weights_figure(item: Contender) -> Figure:
    """Found against true hidden weights."""
    true, found = np.asarray(item.true_weights), np.asarray(item.found_weights)
    worst = float(np.abs(true - found).max(initial=0.0))
    alt = (
        f"{len(true)} hidden weights found by {item.name} against the planted ones; on the diagonal they "
        "agree. "
        f"The largest difference is {format_number(worst, digits=2)}."
    )
    data = {
        "series": [{"name": item.name, "x": list(item.true_weights), "y": list(item.found_weights)}],
        "x_title": "planted weight",
        "y_title": "found weight",
        "diagonal": True,
    }
    return Figure("scatter", f"Weights found by {item.name}", alt, data)
