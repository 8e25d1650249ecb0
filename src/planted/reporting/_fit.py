"""The sections on fit and search: predictions, residuals, singular values, candidates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from planted._typing import Array
from planted.networks import TwoLayerNetwork
from planted.reporting._outline import Figure, Section, Table, format_number
from planted.results import Recovery

__all__ = ["fit_section", "search_section"]

MAX_POINTS = 1200
MAX_OUTPUTS = 24
MAX_TRACE = 40
SMALLEST_DRAWN = 1e-280  # eighteen decades below it are still positive numbers
MAX_TRACE_COLUMNS = 6
_SPECTRUM_WORDS = ("singular", "eigenvalue", "spectrum")
_SCORE_WORDS = ("held_out", "score", "residual", "loss", "cost", "rmse", "mse", "error")


def fit_section(
    net: TwoLayerNetwork, rows: tuple[Array, Array] | None, outputs: tuple[str, ...], *, n_samples: int
) -> Section:
    """Show predictions against observations, and what is left.

    Returns figures of predictions and residuals, a histogram and a table; or why they are missing.
    """
    title = "Predicted against observed"
    if rows is None:
        return Section("fit", title, ("No data were handed to the report, so predictions are not shown.",))
    X, observed = rows
    predicted = net(X)
    residual = observed - predicted
    scale = float(np.abs(observed).max(initial=0.0))
    worst = float(np.abs(residual).max(initial=0.0))
    part = "" if len(X) == n_samples else f" ({len(X):,} evenly spaced rows of {n_samples:,} are shown)"
    text = (
        f"The largest residual is {format_number(worst, digits=3)}; the largest observed value is "
        f"{format_number(scale, digits=3)}{part}."
    )
    blocks = (
        _prediction_figure(predicted, observed),
        _residual_figure(predicted, residual),
        _residual_histogram(residual),
        _residual_order(residual),
        _residual_table(observed, residual, outputs),
    )
    return Section("fit", title, (text,), blocks)


def search_section(recovery: Recovery) -> Section:
    """Show how the network was found, from whatever the record kept.

    Returns singular values, candidates and trace where the record has them.
    """
    blocks: list[Figure | Table] = []
    for name, value in recovery.stats.items():
        spectrum = _as_spectrum(name, value)
        if spectrum is not None:
            blocks.append(_spectrum_figure(name, spectrum))
    if recovery.trace:
        score = _score_figure(recovery.trace)
        curves = _curves_figure(recovery.trace)
        blocks += [figure for figure in (score, curves) if figure is not None]
        blocks.append(_trace_table(recovery.trace))
    if not blocks:
        return Section("search", "How it was found", ("The method kept no record of its search.",))
    text = f"Method {recovery.provenance.algorithm}; what it tried and what it measured on the way."
    return Section("search", "How it was found", (text,), tuple(blocks))


def _prediction_figure(predicted: Array, observed: Array) -> Figure:
    """Scatter of predicted against observed values."""
    x, y = _thin_points(predicted, observed)
    data = {
        "series": [{"name": "samples", "x": x, "y": y}],
        "x_title": "predicted by the network",
        "y_title": "observed",
        "diagonal": True,
    }
    spread = float(np.sqrt(np.mean((observed - predicted) ** 2)))
    alt = (
        "Scatter plot; a perfect network puts every point on the diagonal. "
        f"Root mean square distance: {format_number(spread, digits=3)}."
    )
    return Figure("scatter", "Observed values against predicted values", alt, data)


def _residual_figure(predicted: Array, residual: Array) -> Figure:
    """Scatter of residuals against predictions: structure here means something is missing."""
    x, y = _thin_points(predicted, residual)
    data = {
        "series": [{"name": "samples", "x": x, "y": y}],
        "x_title": "predicted by the network",
        "y_title": "residual",
        "zero": True,
    }
    alt = (
        "Scatter plot of residuals; a band of even width around zero is what is hoped for. "
        f"They range from {format_number(residual.min(), digits=2)} "
        f"to {format_number(residual.max(), digits=2)}."
    )
    return Figure("scatter", "Residuals against predicted values", alt, data)


def _thin_points(x: Array, y: Array) -> tuple[list[float], list[float]]:
    """At most ``MAX_POINTS`` evenly spaced pairs."""
    step = max(-(-x.size // MAX_POINTS), 1)
    return x.ravel()[::step].tolist(), y.ravel()[::step].tolist()


def _residual_histogram(residual: Array) -> Figure:
    """Histogram of all residuals."""
    low, high = float(residual.min()), float(residual.max())
    span = (low, high) if high > low else (low - 1.0, low + 1.0)
    counts, edges = np.histogram(residual, bins=41, range=span)
    data = {"counts": counts.tolist(), "edges": edges.tolist(), "x_title": "residual", "y_title": "count"}
    alt = f"Histogram of {residual.size:,} residuals with standard deviation {residual.std():.3g}."
    return Figure("histogram", "Distribution of the residuals", alt, data)


def _residual_order(residual: Array) -> Figure:
    """Residuals in the order of the rows: a drift or a jump here is something that the inputs do not tell."""
    place = np.broadcast_to(np.arange(1, len(residual) + 1, dtype=np.float64)[:, None], residual.shape)
    x, y = _thin_points(np.ascontiguousarray(place), residual)
    data = {
        "series": [{"name": "samples", "x": x, "y": y}],
        "x_title": "row, in the order of the table",
        "y_title": "residual",
        "zero": True,
    }
    half = max(len(residual) // 2, 1)
    first, second = residual[:half].mean(), residual[half:].mean() if len(residual) > 1 else 0.0
    alt = (
        "Residuals in the order of the rows; a drift or a jump is something that the inputs do not tell. Their mean is "
        f"{format_number(first, digits=2)} in the first half and {format_number(second, digits=2)} in the second."
    )
    return Figure("scatter", "Residuals in the order of the rows", alt, data)


def _residual_table(observed: Array, residual: Array, outputs: tuple[str, ...]) -> Table:
    """Spread of the residuals of each output beside the spread of the output itself."""
    rows = tuple(
        (
            outputs[j],
            format_number(observed[:, j].std(), digits=3),
            format_number(residual[:, j].mean(), digits=2),
            format_number(residual[:, j].std(), digits=3),
            format_number(np.abs(residual[:, j]).max(), digits=3),
        )
        for j in range(min(len(outputs), MAX_OUTPUTS))
    )
    return Table(
        title="Residuals of each output",
        columns=(
            "Output",
            "Spread of the output",
            "Mean residual",
            "Spread of residuals",
            "Largest residual",
        ),
        rows=rows,
        note="" if len(rows) == len(outputs) else f"The first {len(rows)} of {len(outputs):,} outputs.",
        is_folded=len(rows) > 6,
        is_numeric=True,
    )


def _as_spectrum(name: str, value: Any) -> Array | None:
    """The statistic as a list of singular values, if its name and shape say that it is one."""
    if not any(word in name.lower() for word in _SPECTRUM_WORDS) or isinstance(value, str):
        return None
    try:
        spectrum = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    is_list = spectrum.ndim == 1 and spectrum.size >= 2 and bool(np.isfinite(spectrum).all())
    return spectrum if is_list and float(np.abs(spectrum).max()) > SMALLEST_DRAWN else None


def _spectrum_figure(name: str, spectrum: Array) -> Figure:
    """Singular values on a logarithmic axis: the gap is the rank decision."""
    ordered = np.sort(np.abs(spectrum))[::-1]
    drawn = np.maximum(ordered, ordered[0] * 1e-18)  # exact zeros are put below rounding
    drop = int(np.argmax(drawn[:-1] / drawn[1:]))
    data = {
        "series": [{"name": "value", "x": list(range(1, len(drawn) + 1)), "y": drawn.tolist()}],
        "x_title": "position",
        "y_title": "value",
        "log_y": True,
    }
    alt = (
        f"{len(drawn)} values in decreasing order. The largest drop is after position {drop + 1}, from "
        f"{format_number(ordered[drop], digits=3)} to {format_number(ordered[drop + 1], digits=3)}."
    )
    return Figure("scatter", name.replace("_", " ").capitalize(), alt, data)


def _score_figure(trace: tuple[Mapping[str, Any], ...]) -> Figure | None:
    """The score of every candidate, if the trace has one."""
    keys = [key for word in _SCORE_WORDS for key in trace[0] if word in key.lower()]
    for key in keys:
        pairs = [(i + 1, float(item[key])) for i, item in enumerate(trace) if _is_positive(item.get(key))]
        if len(pairs) >= 2:
            best = min(score for _, score in pairs)
            data = {
                "series": [{"name": key, "x": [i for i, _ in pairs], "y": [score for _, score in pairs]}],
                "x_title": "candidate",
                "y_title": key.replace("_", " "),
                "log_y": True,
            }
            words = key.replace("_", " ")
            alt = f"{len(pairs)} candidates; the smallest {words} is {format_number(best, digits=3)}."
            return Figure("scatter", f"Candidates by {words}", alt, data)
    return None


def _curves_figure(trace: tuple[Mapping[str, Any], ...]) -> Figure | None:
    """How the sum of squares fell in every attempt, if the trace has the curves; the best is drawn on top."""
    curves = {
        i + 1: [float(value) for value in item["costs"] if _is_positive(value)]
        for i, item in enumerate(trace)
        if isinstance(item.get("costs"), list | tuple)
    }
    curves = {step: values for step, values in curves.items() if len(values) > 1}
    if not curves:
        return None
    best = min(curves, key=lambda step: curves[step][-1])
    dead = sum(int(item.get("dead_units", 0)) for item in trace)
    order = [step for step in curves if step != best] + [best]
    data = {
        "curves": [curves[step] for step in order],
        "x_title": "accepted step",
        "y_title": "sum of squares",
    }
    ends = f"from {format_number(curves[best][0], digits=2)} to {format_number(curves[best][-1], digits=2)}"
    alt = (
        f"{len(curves)} attempts; the best, step {best}, fell {ends} in {len(curves[best])} steps. "
        f"Units that died and were taken away in all attempts: {dead}."
    )
    return Figure("curves", "How the fits fell", alt, data)


def _is_positive(value: Any) -> bool:
    """Whether a value can be put on a logarithmic axis."""
    return isinstance(value, int | float | np.number) and bool(0 < float(value) < float("inf"))


def _trace_table(trace: tuple[Mapping[str, Any], ...]) -> Table:
    """What happened to each candidate, in order."""
    keys = list(dict.fromkeys(key for item in trace for key in item))[:MAX_TRACE_COLUMNS]
    rows = tuple(
        (str(i + 1), *(_cell(item[key]) if key in item else "—" for key in keys))
        for i, item in enumerate(trace[:MAX_TRACE])
    )
    return Table(
        title="What was tried",
        columns=("Step", *(key.replace("_", " ") for key in keys)),
        rows=rows,
        note="" if len(rows) == len(trace) else f"The first {len(rows)} of {len(trace):,} steps.",
        is_folded=len(rows) > 8,
    )


def _cell(value: Any) -> str:
    """A value of the trace as text; a list of numbers by its ends."""
    if isinstance(value, list | tuple | np.ndarray) and len(value) > 1:
        return f"{format_number(value[0])} → {format_number(value[-1])} in {len(value)}"
    return format_number(value)[:120]
