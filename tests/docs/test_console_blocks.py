"""Console blocks of pages that tell a story are run, and show what the commands print.

A line `$ planted …` is run in the order of the page, between its Python blocks; `# exit code N` after it is the code that
is expected, 0 if there is none. The lines below it, up to the next command, are found in what was printed.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from planted.cli import app

ROOT = Path(__file__).resolve().parents[2]
STORIES = [f"docs/{name}.md" for name in ("first-hour", "table", "simulator", "model", "paper")]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
EXIT = re.compile(r"\s+# exit code (\d+)$")


def commands_of(block: str) -> list[tuple[str, int, list[str]]]:
    """Return the commands of a console block: the line, its exit code and what it shows."""
    found: list[tuple[str, int, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            code = EXIT.search(line)
            found.append((EXIT.sub("", line[2:]), int(code[1]) if code else 0, []))
        elif line.strip():
            found[-1][2].append(line.strip())
    return found


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def run_command(line: str, code: int, shown: list[str]) -> None:
    program, *words = shlex.split(line)
    assert program == "planted", line
    words = [sys.executable if word == "python" else word for word in words]
    answer = CliRunner().invoke(app, words)
    printed = flat(answer.stdout + " " + answer.stderr)
    assert answer.exit_code == code, f"{line}: {printed}"
    for text in shown:
        assert flat(text) in printed, f"{line} does not print {text!r} but {printed}"


def test_commands_and_what_they_show() -> None:
    block = "$ planted a --x 1   # exit code 2\nno\n$ planted b\n"
    assert commands_of(block) == [("planted a --x 1", 2, ["no"]), ("planted b", 0, [])]


@pytest.mark.parametrize("page", STORIES)
def test_the_story_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    namespace: dict[str, Any] = {"__name__": "page"}
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert any(kind == "console" for kind, _ in blocks)
    for number, (kind, text) in enumerate(blocks, start=1):
        if kind == "python":
            exec(compile(text, f"{page}, block {number}", "exec"), namespace)
            continue
        for line, code, shown in commands_of(text):
            run_command(line, code, shown)
