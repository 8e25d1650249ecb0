"""The Python blocks of the README and of every page run, in order, as a reader would run them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from docs.test_console_blocks import STORIES

ROOT = Path(__file__).resolve().parents[2]


def python_blocks(text: str) -> list[str]:
    """Return the fenced Python blocks of a Markdown text."""
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_blocks_are_found() -> None:
    assert python_blocks("a\n```python\nx = 1\n```\nb\n```console\n$ y\n```\n```python\nz\n```\n") == [
        "x = 1\n",
        "z\n",
    ]


# Every page of the documentation that shows Python, and the README. Pages that tell a story in Python and commands are run
# as a whole by test_console_blocks.
PAGES = ["README.md"] + [
    str(path.relative_to(ROOT))
    for folder in ("docs", "docs/theory")
    for path in sorted((ROOT / folder).glob("*.md"))
    if python_blocks(path.read_text("utf-8")) and str(path.relative_to(ROOT)) not in STORIES
]


def test_the_pages_with_code_are_found() -> None:
    assert {"docs/start.md", "docs/faq.md", "docs/errors.md", "docs/cite.md", "docs/queries.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = python_blocks((ROOT / page).read_text(encoding="utf-8"))
    assert blocks, f"{page} has no Python block"
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "page"}
    for number, block in enumerate(blocks, start=1):
        exec(compile(block, f"{page}, block {number}", "exec"), namespace)
