"""The HTML rendering: one page that needs no other file."""

from __future__ import annotations

import html
import re

from planted.outcomes import PlantedError
from planted.reporting._outline import MAX_HALF_COLUMNS, Code, Figure, Report, Table
from planted.reporting._text import escaped

__all__ = ["render_frame", "render_html"]


def render_html(report: Report) -> str:
    """Render a report as one self-contained page.

    Returns a complete HTML document. Every text is escaped; the page holds no script.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined

        from planted.reporting._figures import draw_svg
    except ModuleNotFoundError as error:
        raise PlantedError(
            f"the HTML report needs {error.name}, which is not installed. "
            "Run `pip install 'planted[report]'`."
        ) from error
    environment = Environment(
        loader=PackageLoader("planted.reporting", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests |= {
        "table": lambda block: isinstance(block, Table),
        "figure": lambda block: isinstance(block, Figure),
        "code": lambda block: isinstance(block, Code),
    }
    environment.filters["numbers"] = _keep_numbers_whole
    environment.globals |= {"draw_svg": draw_svg, "figure_class": _figure_class}
    return environment.get_template("report.html.j2").render(report=escaped(report))


def _keep_numbers_whole(text: str) -> str:
    """Escape a text and keep numbers such as ≥ 1e-15 and 29 % from being broken at the end of a line."""
    from markupsafe import Markup, escape

    return Markup(
        re.sub(
            r"([≤≥=] [\d.,]+(?:e[-+]\d+)?|\d[\d.]*e-\d+|\d %)",
            r'<span class="nb">\1</span>',
            str(escape(text)),
        )
    )


def _figure_class(blocks: tuple[Table | Figure | Code, ...], place: int) -> str:
    """Two figures to a row; one left over, or a broad one, has a row of its own."""
    narrow = [
        isinstance(block, Figure) and len(block.data.get("columns", ())) <= MAX_HALF_COLUMNS
        for block in blocks
    ]
    if not narrow[place]:
        return "full"
    first = last = place
    while first > 0 and narrow[first - 1]:
        first -= 1
    while last + 1 < len(blocks) and narrow[last + 1]:
        last += 1
    is_left_over = place == last and (last - first) % 2 == 0
    return "wide" if is_left_over else "half"


def render_frame(report: Report) -> str:
    """Render a report for a notebook cell: the page in a sandboxed frame."""
    page = html.escape(render_html(report), quote=True)
    title = html.escape(escaped(report.title), quote=True)
    return (
        f'<iframe title="{title}" srcdoc="{page}" sandbox="" '
        'style="width:100%;height:720px;border:1px solid #8884;border-radius:8px"></iframe>'
    )
