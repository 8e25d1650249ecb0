"""Draw a figure's data as an inline SVG that follows the page's colours.

Matplotlib draws with seven stand-in colours, which are then replaced by CSS variables of the page: the same
drawing is right in the light, in the dark and on paper. Text stays text, names are never read as mathematics,
and the same data give the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from typing import Any
from xml.etree import ElementTree

import numpy as np

from planted.reporting._outline import MAX_HALF_COLUMNS, Figure, format_number

__all__ = ["draw_svg"]

_COLOURS = {
    "#010101": "var(--fig-ink)",
    "#020202": "var(--fig-muted)",
    "#030303": "var(--fig-grid)",
    "#040404": "var(--fig-accent)",
    "#050505": "var(--fig-plus)",
    "#060606": "var(--fig-minus)",
    "#070707": "var(--fig-second)",
}
_INK, _MUTED, _GRID, _ACCENT, _PLUS, _MINUS, _SECOND = _COLOURS
_STYLE = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "axes.unicode_minus": True,
    "axes.formatter.use_mathtext": False,
    "font.size": 9.0,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.5,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": _MUTED,
    "ytick.labelcolor": _MUTED,
}
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_MAX_LABEL = 18
_LABEL_ROOM = 10  # characters of a column label to the inch, at 7 points


def draw_svg(figure: Figure, name: str) -> str:
    """Draw a figure.

    `name`: prefix of every identifier inside the drawing; unique on its page. Returns an ``<svg>`` element with a
    title for those who cannot see it.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context(_STYLE | {"svg.hashsalt": name}):
        canvas = Canvas(figsize=_size(figure), layout="constrained")
        FigureCanvasSVG(canvas)
        canvas.patch.set_alpha(0.0)
        axes = canvas.add_subplot()
        axes.patch.set_alpha(0.0)
        _PAINTERS[figure.kind](axes, figure.data)
        buffer = io.StringIO()
        canvas.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _adopt(buffer.getvalue(), name, figure.alt)


def _size(figure: Figure) -> tuple[float, float]:
    """Width and height in inches; heat maps grow with their rows and columns."""
    if figure.kind == "heatmap":
        rows, columns = len(figure.data["rows"]), len(figure.data["columns"])
        return (4.6 if columns <= MAX_HALF_COLUMNS else 9.4), min(max(1.6, 0.9 + 0.2 * rows), 9.5)
    if figure.kind == "intervals":
        return 4.6, min(max(1.6, 0.8 + 0.2 * len(figure.data["labels"])), 9.5)
    return 4.6, 3.3


def _paint_heatmap(axes: Any, data: Mapping[str, Any]) -> None:
    """Cells whose hue is the sign and whose strength is the size."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba

    values = np.asarray(data["values"], dtype=np.float64)
    top = float(np.abs(values).max()) or 1.0
    cells, colours = [], []
    for i, j in np.ndindex(values.shape):
        cells.append([(j, i), (j + 1, i), (j + 1, i + 1), (j, i + 1)])
        colours.append(to_rgba(_PLUS if values[i, j] > 0 else _MINUS, alpha=float(abs(values[i, j])) / top))
    axes.add_collection(PolyCollection(cells, facecolors=colours, edgecolors=_GRID, linewidths=0.25))
    axes.set_xlim(0, values.shape[1])
    axes.set_ylim(values.shape[0], 0)
    axes.grid(visible=False)
    axes.tick_params(length=0)
    labels = [_shorten(label) for label in data["columns"]]
    is_tight = (
        max(len(label) for label in labels) * len(labels) > _LABEL_ROOM * axes.figure.get_size_inches()[0]
    )
    axes.set_xticks(np.arange(values.shape[1]) + 0.5, labels, rotation=90 if is_tight else 0, fontsize=7)
    axes.set_yticks(np.arange(values.shape[0]) + 0.5, [_shorten(label) for label in data["rows"]], fontsize=7)


def _paint_scatter(axes: Any, data: Mapping[str, Any]) -> None:
    """Points, with the diagonal or the zero line on which they would lie if the fit were perfect."""
    series = data["series"]
    colours, markers = ((_SECOND, _ACCENT, _MINUS), "^os") if len(series) > 1 else ((_ACCENT,), "o")
    for colour, marker, item in zip(colours, markers, series, strict=False):
        alpha = 0.9 if len(item["x"]) < 500 else 0.45
        style = {"marker": marker, "linestyle": "none", "markersize": 3.8, "markeredgewidth": 0.0}
        axes.plot(item["x"], item["y"], color=colour, alpha=alpha, label=item["name"], **style)
    if data.get("log_y"):
        axes.set_yscale("log")
        axes.xaxis.get_major_locator().set_params(integer=True)
        low, high = axes.get_ylim()
        is_narrow = high < 30 * low  # too few powers of ten to read from: label the ticks between them
        axes.yaxis.set_major_formatter(lambda value, _: format_number(value, digits=4 if is_narrow else 1))
        axes.yaxis.set_minor_formatter(lambda value, _: format_number(value, digits=2) if is_narrow else "")
    else:
        _tame_ticks(axes)
    if data.get("diagonal"):
        reach = [value for item in series for key in "xy" for value in item[key]]
        if reach:
            ends = [min(reach), max(reach)]
            axes.plot(ends, ends, color=_MUTED, linewidth=0.9, zorder=1)
    if data.get("zero"):
        axes.axhline(0.0, color=_MUTED, linewidth=0.9, zorder=1)
    axes.set_xlabel(data["x_title"])
    axes.set_ylabel(data["y_title"])
    if len(series) > 1:
        legend = axes.legend(loc="best", fontsize=8, framealpha=0.0)
        legend.get_frame().set_linewidth(0.0)


def _paint_curves(axes: Any, data: Mapping[str, Any]) -> None:
    """Falling curves on a logarithmic axis, the last one on top."""
    *others, best = data["curves"]
    for curve in others:
        axes.plot(range(1, len(curve) + 1), curve, color=_MUTED, linewidth=0.8, alpha=0.7)
    axes.plot(range(1, len(best) + 1), best, color=_ACCENT, linewidth=1.6)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: format_number(value, digits=1))
    axes.yaxis.set_minor_formatter(lambda value, _: "")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel(data["x_title"])
    axes.set_ylabel(data["y_title"])


def _paint_lines(axes: Any, data: Mapping[str, Any]) -> None:
    """One line for each series; two points are drawn as points too."""
    series = data["series"]
    for colour, style, item in zip((_ACCENT, _SECOND, _PLUS), ("-", "--", ":"), series, strict=False):
        marker = "o" if len(item["x"]) == 2 else ""
        axes.plot(
            item["x"],
            item["y"],
            style,
            color=colour,
            linewidth=1.6,
            marker=marker,
            markersize=4,
            label=_one_line(item["name"]),
        )
    _tame_ticks(axes)
    axes.set_xlabel(_one_line(data["x_title"]))
    axes.set_ylabel(_one_line(data["y_title"]))
    if len(series) > 1:
        axes.legend(loc="best", fontsize=8, framealpha=0.0)


def _one_line(label: str) -> str:
    """A name of a column as a label of one short line, whatever it holds."""
    return _shorten(" ".join(label.split()) or "?")


def _paint_histogram(axes: Any, data: Mapping[str, Any]) -> None:
    """Bars between given edges."""
    edges = np.asarray(data["edges"])
    axes.bar(edges[:-1], data["counts"], width=np.diff(edges), align="edge", color=_ACCENT, linewidth=0.0)
    _tame_ticks(axes)
    axes.set_xlabel(data["x_title"])
    axes.set_ylabel(data["y_title"])


def _paint_intervals(axes: Any, data: Mapping[str, Any]) -> None:
    """Estimates with whiskers, one per line."""
    place = np.arange(len(data["labels"]))
    axes.hlines(place, data["low"], data["high"], color=_ACCENT, linewidth=1.4)
    axes.plot(data["values"], place, "o", color=_ACCENT, markersize=3.6)
    axes.axvline(0.0, color=_MUTED, linewidth=0.8, zorder=1)
    axes.set_ylim(len(place) - 0.4, -0.6)
    axes.set_yticks(place, [_shorten(label) for label in data["labels"]], fontsize=7)
    axes.set_xlabel(data["x_title"])


def _paint_bends(axes: Any, data: Mapping[str, Any]) -> None:
    """Samples, the fit through them, and the kinks with bands for the intervals of their places."""
    many = len(data["x"]) > 500
    style = {"marker": "o", "linestyle": "none", "markersize": 3.0, "markeredgewidth": 0.0}
    axes.plot(data["x"], data["y"], color=_ACCENT, alpha=0.35 if many else 0.6, **style)
    axes.plot(data["line_x"], data["line_y"], color=_INK, linewidth=1.4)
    ends = min(data["line_x"]), max(data["line_x"])
    for kink in data["kinks"]:
        axes.axvline(kink["place"], color=_SECOND, linewidth=1.0, linestyle="--")
        if kink["low"] is not None or kink["high"] is not None:
            low = ends[0] if kink["low"] is None else kink["low"]
            high = ends[1] if kink["high"] is None else kink["high"]
            axes.axvspan(low, high, color=_SECOND, alpha=0.18, linewidth=0.0)
    _tame_ticks(axes)
    axes.set_xlabel(data["x_title"])
    axes.set_ylabel(data["y_title"])


_PAINTERS: dict[str, Callable[[Any, Mapping[str, Any]], None]] = {
    "heatmap": _paint_heatmap,
    "scatter": _paint_scatter,
    "curves": _paint_curves,
    "lines": _paint_lines,
    "histogram": _paint_histogram,
    "intervals": _paint_intervals,
    "bends": _paint_bends,
}


def _tame_ticks(axes: Any) -> None:
    """Few tick labels, each complete in itself (no offset in a corner that a reader would miss)."""
    from matplotlib.ticker import MaxNLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=5))
        axis.set_major_formatter(lambda value, _: format_number(value, digits=3))


def _shorten(label: str) -> str:
    """A label that fits beside a cell; the table has it in full."""
    flat = re.sub(r"[\x00-\x1f\x7f]", " ", label)
    return flat if len(flat) <= _MAX_LABEL else flat[: _MAX_LABEL - 1] + "…"


def _adopt(markup: str, name: str, alt: str) -> str:
    """Make the drawing part of the page: fluid size, own identifiers, page colours, an accessible name."""
    for prefix, address in (("", _SVG), ("xlink", _XLINK)):
        ElementTree.register_namespace(prefix, address)
    root = ElementTree.fromstring(markup)
    for child in list(root):
        if child.tag == f"{{{_SVG}}}metadata":
            root.remove(child)
    for element in root.iter():
        for key, value in list(element.attrib.items()):
            if key == "id":
                element.set(key, f"{name}-{value}")
            elif key == "style" or key in ("fill", "stroke"):
                element.set(key, _recolour(value))
            elif "url(#" in value:
                element.set(key, value.replace("url(#", f"url(#{name}-"))
            elif key.endswith("href") and value.startswith("#"):
                element.set(key, f"#{name}-{value[1:]}")
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    title = ElementTree.Element(f"{{{_SVG}}}title", {"id": f"{name}-title"})
    title.text = alt
    root.insert(0, title)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title")
    return ElementTree.tostring(root, encoding="unicode")


def _recolour(style: str) -> str:
    """Replace stand-in colours by variables of the page, and matplotlib's fonts by the page's font."""
    for stand_in, variable in _COLOURS.items():
        style = style.replace(stand_in, variable)
    return re.sub(r"font: ([\d.]+px)[^;]*", r"font-size: \1", style)
