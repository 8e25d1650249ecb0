"""Line charts of measured rows, for studies and benchmarks."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

__all__ = ["Panel", "draw_panels"]

ROUNDING = (
    1e-10  # part of the largest value of a panel below which values are exact to rounding, or as good as
)
WIDEST_LABEL = 20  # letters; two columns of longer names are wider than the panel


class Panel(Protocol):
    """What a panel must say: see `planted.reproduce.Axes`."""

    @property
    def title(self) -> str:
        """Heading of the panel."""
        ...

    @property
    def x(self) -> str:
        """Column on the horizontal axis."""
        ...

    @property
    def y(self) -> str:
        """Column on the vertical axis."""
        ...

    @property
    def series(self) -> str:
        """Column that tells the curves apart."""
        ...

    @property
    def log_x(self) -> bool:
        """Whether the horizontal axis is logarithmic."""
        ...

    @property
    def log_y(self) -> bool:
        """Whether the vertical axis is logarithmic."""
        ...

    @property
    def where(self) -> Mapping[str, Any]:
        """Values that select the panel's rows."""
        ...


def draw_panels(rows: Sequence[Mapping[str, Any]], panels: Sequence[Panel], *, title: str) -> str:
    """Draw rows as line charts side by side: mean over equal (x, series), every measurement as a dot.

    Logarithmic axes reach down to `ROUNDING` times the largest value: curves of interest are not flattened by others that
    are exact. Returns an SVG document; the same rows give the same text.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "planted", "svg.fonttype": "none", "font.size": 9.0}):
        figure = Figure(figsize=(4.6 * len(panels), 3.6), layout="constrained")
        for index, panel in enumerate(panels):
            _draw_panel(figure.add_subplot(1, len(panels), index + 1), rows, panel)
        figure.suptitle(title)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def _draw_panel(axes: Any, rows: Sequence[Mapping[str, Any]], panel: Panel) -> None:
    """Draw one panel. On a logarithmic axis what is exact to rounding is named below the curves instead of drawn."""
    chosen = [row for row in rows if all(row[key] == value for key, value in panel.where.items())]
    largest = max((abs(row[panel.y]) for row in chosen if np.isfinite(row[panel.y])), default=1.0)
    floor = ROUNDING * largest if panel.log_y else -np.inf
    exact = []
    for name in dict.fromkeys(row[panel.series] for row in chosen):
        points = [(row[panel.x], row[panel.y]) for row in chosen if row[panel.series] == name]
        highest = max((y for _, y in points if np.isfinite(y)), default=np.nan)
        if panel.log_y and highest < floor:
            exact.append(f"{name} ≤ {highest:.0e}")
            continue
        xs = sorted({x for x, _ in points})
        means = [max(float(np.mean([y for at, y in points if at == x])), floor) for x in xs]
        (line,) = axes.plot(xs, means, marker="o", markersize=3, label=str(name))
        dots = [(x, max(y, floor)) for x, y in points]
        axes.plot(*zip(*dots, strict=True), linestyle="", marker=".", alpha=0.35, color=line.get_color())
    axes.set(title=panel.title, xlabel="\n".join([panel.x, *exact]), ylabel=panel.y)
    axes.set_xscale("log" if panel.log_x else "linear")
    axes.set_yscale("log" if panel.log_y else "linear")
    axes.grid(True, alpha=0.3)
    labels = axes.get_legend_handles_labels()[1]
    is_narrow = max(map(len, labels), default=0) <= WIDEST_LABEL
    axes.legend(fontsize=7, ncols=2 if is_narrow else 1, framealpha=0.6)
