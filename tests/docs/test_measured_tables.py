"""Numbers that the pages show are those that are stored."""

from __future__ import annotations

import json
import re
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


def test_quick_tables() -> None:
    record = json.loads((ROOT / "benchmarks" / "results" / "quick_tables.json").read_text(encoding="utf-8"))
    lines = {
        word: [line["passed"] for line in record["targets"] if word in line["target"]]
        for word in ("error no worse", "CPU at most")
    }
    page = " ".join((ROOT / "docs" / "table.md").read_text(encoding="utf-8").split())
    errors, times = lines["error no worse"], lines["CPU at most"]
    assert f"on {sum(errors)} of {len(errors)} tables the error is no worse" in page
    assert f"on {sum(times)} of {len(times)} it takes at most three times" in page


def test_kinks() -> None:
    page = (ROOT / "docs" / "segmented.md").read_text(encoding="utf-8")
    lines = [line for part in stored("kinks") for line in part["targets"]]
    assert rows_after("How often it is right", page) == {
        f"| {line['target']} | {line['measured']} |" for line in lines
    }


def test_how_exact_deep_networks_are_read() -> None:
    path = ROOT / "benchmarks" / "results" / "deep.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    expected = set()
    for line in record["targets"]:
        numbers = re.match(r"(\d+/\d+) exact.*?([\d.]+) questions per parameter", line["measured"])
        if numbers is not None:
            expected.add(f"| {line['target'].partition(':')[0]} | {numbers[1]} | {numbers[2]} |")
    page = (ROOT / "docs" / "deep.md").read_text(encoding="utf-8")
    section = page.partition("## How exact, with how many questions\n")[2].partition("\n## ")[0]
    shown = {line for line in section.splitlines() if line.startswith("| ")} - {
        "| network | exact | questions per parameter |"
    }
    assert shown == expected and len(shown) >= 12
    assert not any(row.get("is_false", False) for row in record["rows"])  # "No network was claimed wrongly."


def test_few_samples() -> None:
    """The table has every stored case closer to the limit, with its number of seeds."""
    page = (ROOT / "docs" / "theory" / "complementarity.md").read_text(encoding="utf-8")
    section = page.partition("## Few samples\n")[2].partition("\n## ")[0]
    shown = {line for line in section.splitlines() if line.startswith(("| biases", "| no biases"))}
    rows = stored("limits_closer")
    assert shown == {f"| {row['case']} | {row['hits']} of {row['seeds']} |" for row in rows}
    assert not any(row["false"] for row in rows)


def test_what_effort_costs() -> None:
    (part,) = (part for part in stored("speed") if part["section"] == "no")
    page = " ".join(FRONT_DOOR.split())
    for effort in ("quick", "normal"):
        shares = [row[effort] / row["peer"] for row in part["rows"]]
        assert f'`"{effort}"` ' in page and f"between {min(shares):.2f} and {max(shares):.2f}" in page
    peers = [row["peer"] for row in part["rows"]]
    assert len(peers) == 8 and f"the search took {min(peers):.0f} to {max(peers):.0f} s" in page
