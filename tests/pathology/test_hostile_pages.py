"""Pages about tables with hostile names, made by the command and opened in a real browser: all of it stays text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from pathology.tries import tried
from planted import TwoLayerNetwork
from planted.cli import app

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
    "--no-first-run",
]
WIDTHS = (390, 1200)
N_TABLES = 2
PIECES = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "'onmouseover='alert(3)", "]]><!--", "$\\frac{$",
    "</style><style>*{display:none}", "</svg></table></div><h1>taken over</h1>", "<iframe src=//example.org>", "\ufeff",
    "{{ 7 * 7 }}{% raw %}", "&lt;b&gt;", "javascript:alert(4)", "\x1b[31m", "a\x00b", "\u202egnp.exe", "\U0001f600",
    "x" * 900, "Ω" * 300, " " * 50 + ".", "line\nbreak\rreturn", "<base href=//example.org>", "'" * 40,
    "<meta http-equiv=refresh content=0;url=//example.org>",
)  # fmt: skip


def hostile_names(count: int, rng: np.random.Generator) -> list[str]:
    """Draw different names of one to three pieces."""
    names: list[str] = []
    while len(names) < count:
        pieces = rng.choice(PIECES, size=int(rng.integers(1, 4)))
        name = "".join(pieces)[:1000]
        if name not in names:
            names.append(name)
    return names


def write_hostile(path: Path, seed: int, d: int, m: int) -> list[str]:
    rng = np.random.default_rng(seed)
    names = hostile_names(d + m, rng)
    X = rng.exponential(size=(400, d)) - 1.0
    W = rng.standard_normal((3, d))
    Y = TwoLayerNetwork(W, rng.standard_normal(3) / 3, rng.standard_normal((m, 3)))(X)
    if seed % 2:
        Y += 0.1 * rng.standard_normal(Y.shape)
    columns = np.hstack([X, Y]).T
    parquet.write_table(pa.table(dict(zip(names, columns, strict=True))), path)
    return names


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield chromium
        chromium.close()


@pytest.mark.browser
@pytest.mark.parametrize(
    ("command", "seed", "d", "m"),
    [
        (command, seed, 4, 4)
        for command in ("recover", "diagnose", "recover --stream")
        for seed in range(N_TABLES)
    ]
    + [("recover", seed, 1, 1) for seed in range(2, 2 + N_TABLES)],  # with a table of kinks
)
def test_nothing_runs_and_nothing_moves(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, seed: int, d: int, m: int
) -> None:
    monkeypatch.chdir(tmp_path)
    names = write_hostile(tmp_path / "rows.parquet", seed, d, m)
    page_file = tmp_path / "page.html"
    words = [*command.split(), str(tmp_path / "rows.parquet"), "--seed", "1", "--report", str(page_file)]
    words += [word for name in names[d:] for word in ("--targets", name)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code in (0, 1), result.output
    assert not [char for char in result.output if not char.isprintable() and char not in "\n\xa0\u2009\u202f"]
    text = page_file.read_text(encoding="utf-8")
    assert not [char for char in text if ord(char) < 32 and char not in "\n\t"]
    faults: list[str] = []
    for width in WIDTHS:
        tried()
        context = browser.new_context(viewport={"width": width, "height": 800})
        page = context.new_page()
        page.on("console", lambda message: faults.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on(
            "request",
            lambda request: request.url != page_file.as_uri() and faults.append(f"request: {request.url}"),
        )
        page.goto(page_file.as_uri(), wait_until="load")
        page.evaluate("document.querySelectorAll('details').forEach(item => item.open = true)")
        assert (
            page.evaluate("document.querySelectorAll('script, img, iframe, object, embed, base').length") == 0
        )
        assert page.evaluate("document.querySelectorAll('h1').length") == 1
        assert (
            page.evaluate(
                "document.querySelectorAll('style').length - document.querySelectorAll('svg style').length"
            )
            == 1
        )
        assert page.evaluate(
            "[...document.querySelectorAll('*')].every(e => [...e.attributes].every(a => !/^on/.test(a.name)))"
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        outside = page.evaluate(
            """width => [...document.querySelectorAll('p, h1, h2, figure, svg, pre, dl, .table')]
            .filter(item => item.getBoundingClientRect().right > width + 0.5).map(item => item.outerHTML.slice(0, 80))""",
            width,
        )
        assert outside == []
        context.close()
    assert faults == []
