"""Numbers that the pages show are those that are stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FRONT_DOOR = (ROOT / "docs" / "front-door.md").read_text(encoding="utf-8")


def stored(name: str) -> list[dict[str, Any]]:
    """Return the sections of a stored result."""
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    return list(json.loads(path.read_text(encoding="utf-8"))["rows"])


def rows_after(heading: str, page: str = FRONT_DOOR) -> set[str]:
    """Return the body of the first table below a heading."""
    section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return {line for line in section.splitlines() if line.startswith("| ")} - {
        line for line in section.splitlines() if line.startswith(("| class", "| table", "| what"))
    }


def test_what_choosing_costs() -> None:
    expected, seconds = set(), []
    for part in stored("automatic"):
        totals = {row["method"]: row for row in part["rows"] if "method" in row}
        seconds += [row["seconds"] for row in part["rows"] if "seconds" in row]
        if totals:
            auto = totals.pop("auto")
            best = max(totals.values(), key=lambda row: (row["hits"], -row["cpu"]))
            shares = f"{auto['hits']} of {auto['tries']} | `{best['method']}`, {best['hits']}"
            expected.add(f"| {part['section']} | {shares} | {auto['cpu'] / best['cpu']:.2f} |")
    assert rows_after("What choosing costs") == expected
    assert f"the longest took {max(seconds):.1f} s" in FRONT_DOOR


def test_real_tables() -> None:
    rows = [part["rows"][0] for part in stored("tables")]
    assert rows_after("Real tables") == {
        f"| {row['table']} | {row['planted']:.3f} | {row['MLPRegressor']:.3f} | {row['gradient boosting']:.3f} |"
        for row in rows
    }
    assert len(rows) >= 8


def test_kinks() -> None:
    page = (ROOT / "docs" / "segmented.md").read_text(encoding="utf-8")
    lines = [line for part in stored("kinks") for line in part["targets"]]
    assert rows_after("How often it is right", page) == {
        f"| {line['target']} | {line['measured']} |" for line in lines
    }
