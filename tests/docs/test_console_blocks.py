"""Console blocks of the README and of every page are run; in pages that tell a story they show what is printed.

Stories: a line `$ planted …` is run in the order of the page, between its Python blocks; `# exit code N` after it is the
code that is expected, 0 if there is none. The lines below it, up to the next command, are found in what was printed.

Other pages name files that a reader has: these are made first, small. A comment `exit code 0: …, 1: …` names the codes
that are allowed. A command of another program is in `OTHERS`, with the place where it is checked.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import planted
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


# Commands that are not run here, by how they begin, and what checks them instead.
OTHERS = {
    "pip install": "the released package: .ci/release_check.py",
    "planted demo": "tests/cli/test_demo.py",
    "dask ": "a cluster of its own: tests/rows",
    "planted recover folder_of_parquet --targets y1 y2 --cluster": "tests/rows",
    "git tag": "a release",
    "rm -rf dist": "a release: .ci/release_check.py",
    "python3 -m venv": "a release: .ci/release_check.py",
    "/tmp/fresh": "a release: .ci/release_check.py",
    ".venv/bin/python .ci/release_check.py": "tests/docs/test_release_check.py",
}
NETWORK = planted.TwoLayerNetwork(
    W=[[1.0, 0.5, -0.2], [-0.4, 0.8, 0.3]], b=[0.1, -0.2], A=[[1.0, -0.5], [0.6, 1.5]], c=[0.0, 0.3]
)
PROPERTY = "".join(f"(declare-const X_{i} Real)" for i in range(3)) + "".join(
    f"(declare-const Y_{i} Real)" for i in range(2)
)
PROPERTY += "".join(f"(assert (>= X_{i} 0))(assert (<= X_{i} 1))" for i in range(3)) + "(assert (>= Y_0 100))"
CONTROLLER = """import sys
for line in sys.stdin:
    a, b, c = map(float, line.split(","))
    print(max(a - 2 * b + 0.5, 0.0) - max(c - a, 0.0))
"""


def make_files(page: str) -> None:
    """The files that the commands of a page read."""
    rng = np.random.default_rng(5)
    X = rng.exponential(size=(300, 3)) - 0.7
    rows = pd.DataFrame(np.hstack([X, NETWORK(X)]), columns=["x1", "x2", "x3", "y1", "y2"])
    rows.to_csv("samples.csv", index=False)
    rows[["x1", "x2", "x3"]].iloc[:20].to_csv("new.csv", index=False)
    rows.rename(columns={"y1": "a", "y2": "b"}).to_csv("data.csv", index=False)
    rows[["x1", "x2", "x3"]].to_parquet("inputs.parquet")
    flats = pd.DataFrame({"rooms": rng.integers(1, 6, 60), "area": rng.uniform(20, 120, 60)})
    flats["price"] = 2000 * flats.area + 10_000 * flats.rooms + rng.normal(0, 5000, 60)
    flats.loc[3, "area"] = np.nan
    flats.to_csv("flats.csv.gz", index=False)
    ages = pd.DataFrame({"age": rng.uniform(20, 80, 150), "dose": rng.uniform(0, 1, 150)})
    ages.iloc[:10].to_csv("others.csv", index=False)
    ages["ill"] = (rng.random(150) < 1 / (1 + np.exp(4 * ages.dose - 2))).astype(int)
    ages.to_csv("patients.csv", index=False)
    rows["w"] = rng.uniform(0.5, 2, len(rows))
    Path("folder_of_parquet").mkdir()
    for part in range(2):
        rows.iloc[part * 150 : part * 150 + 150].to_parquet(f"folder_of_parquet/{part}.parquet")
    for name in ("rows", "here", "there"):
        rows.drop(columns="w").to_parquet(f"{name}.parquet")
    for name in ("reference", "a", "b"):
        NETWORK.save(f"{name}.safetensors")
    deep = planted.DeepNetwork(
        [
            (np.array([[1.0, 0.3], [-0.4, 1.0]]), [0.2, -0.1]),
            (np.array([[0.7, -0.5]]), [0.1]),
            ([[1.0]], None),
        ]
    )
    planted.export_network(deep if page == "docs/deep.md" else NETWORK, "model.onnx")
    planted.export_network(NETWORK, "reference.onnx")
    step = np.abs(NETWORK.W).max() / 127
    rounded = planted.TwoLayerNetwork(np.round(NETWORK.W / step) * step, NETWORK.b, NETWORK.A, NETWORK.c)
    planted.export_network(rounded, "int8.onnx")
    Path("property.vnnlib").write_text(PROPERTY)
    Path("controller.py").write_text(CONTROLLER)


def plain_commands(text: str) -> list[str]:
    """All lines of console blocks that begin with `$`, without it."""
    return [
        line[2:]
        for kind, block in BLOCK.findall(text)
        if kind == "console"
        for line in block.splitlines()
        if line.startswith("$ ")
    ]


PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
WITH_COMMANDS = [
    page
    for page in PAGES
    if page not in STORIES and plain_commands((ROOT / page).read_text(encoding="utf-8"))
]


def test_the_pages_with_commands_are_found() -> None:
    assert {"README.md", "docs/command-line.md", "docs/equivalence.md", "docs/scale.md"} <= set(WITH_COMMANDS)


@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_the_commands_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_files(page)
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    for line in plain_commands((ROOT / page).read_text(encoding="utf-8")):
        words = shlex.split(line, comments=True)
        if any(line.startswith(other) for other in OTHERS):
            continue
        if words[0] == "make":
            assert words[1] in targets, line
            continue
        assert words[0] == "planted", f"{line}: run it, or say in OTHERS what checks it"
        words = [sys.executable if word == "python" else word for word in words[1:]]
        allowed = {int(code) for code in re.findall(r"(\d): ", line.partition("exit code ")[2])} or {0}
        answer = CliRunner().invoke(app, words)
        assert answer.exit_code in allowed, f"{line}: {answer.stdout} {answer.stderr} {answer.exception!r}"
