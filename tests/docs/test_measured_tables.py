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
    rows = [row for part in record["rows"] for row in part.get("rows", [part])]
    wrong = sum(row.get("is_false", False) for row in rows)
    assert rows and f"Claims that lack a unit: {wrong} of all of these" in page


def test_rounded_answers() -> None:
    cells: dict[str, list[str]] = {}
    for line in [line for part in stored("rounded") for line in part["targets"]]:
        kind = re.match(r"\S+, (.*): at least 95 % recovered", line["target"])
        if kind is not None:
            found, tries, error = re.match(r"(\d+)/(\d+), error up to (\S+),", line["measured"]).groups()  # type: ignore[union-attr]
            cells.setdefault(kind[1], []).append(f"{found} of {tries} | {float(error):.0e}")
    page = (ROOT / "docs" / "queries.md").read_text(encoding="utf-8")
    assert len(cells) == 7
    for kind, both in cells.items():
        assert f"| {kind} | {' | '.join(both)} |" in page


KINDS = {
    "exact": "exact, as many outputs as units",
    "exact_scalar": "exact, one output",
    "noisy": "noisy (0.01 to 0.5)",
    "below_limit": "fewer than 1.5 times the information limit",
    "always_on": "a unit always on",
    "rarely_on": "a unit on for at most d samples",
    "discrete": "inputs of -1 and 1",
    "parallel": "two units on one hyperplane",
    "repeated_rows": "repeated rows",
    "wrong_activation": "another activation",
    "three_layers": "three layers",
    "interactions": "interactions and sines",
}


def calibration_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the lines of the table of claims: kinds of the mixture, then the families by how they are judged."""
    groups: dict[str, list[dict[str, Any]]] = {name: [] for name in KINDS.values()}
    for row in rows:
        name = KINDS.get(row["kind"], f"families, {row['family']}")
        groups.setdefault(name, []).append(row)
    lines = []
    for name, mine in groups.items():
        outcomes = [row["outcome"] for row in mine]
        refused = sum(name not in ("RECOVERED", "FITTED", "STOPPED_EARLY") for name in outcomes)
        rest = len(mine) - refused - outcomes.count("RECOVERED")
        false = sum(row["false"] for row in mine)
        lines.append(
            f"| {name} | {len(mine)} | {outcomes.count('RECOVERED')} | {refused} | {rest} | {false} |"
        )
    return [line for line in lines if not re.search(r"\| 0 \| 0 \| 0 \| 0 \| 0 \|", line)]


def test_how_often_the_claim_is_wrong() -> None:
    record = json.loads((ROOT / "benchmarks" / "results" / "calibration.json").read_text(encoding="utf-8"))
    rows = record["rows"]
    section = FRONT_DOOR.partition("## How often is the claim wrong?\n")[2].partition("\n## ")[0]
    shown = [line for line in section.splitlines() if line.startswith("| ")]
    laws = json.loads((ROOT / "benchmarks" / "results" / "intervals.json").read_text(encoding="utf-8"))
    intervals, levels = (
        [line for line in laws["targets"] if (": intervals" in line["target"]) is is_interval]
        for is_interval in (True, False)
    )
    assert [line for line in shown if not line.startswith(("| kind", "| law"))] == [
        *calibration_table(rows),
        *(f"| {line['target'].partition(':')[0]} | {line['measured']} |" for line in intervals),
    ]
    mine = [row for row in rows if row["family"] == "noisy" and row["claimed"]]
    covered, count = (sum(row[key] for row in mine) for key in ("covered", "parameters"))
    words = " ".join(section.split())
    false = sum(row["false"] for row in rows)
    assert {0: "No claim is wrong", 1: "1 claim is wrong"}.get(false, f"{false} claims are wrong") in words
    close = [row for row in rows if row["kind"] == "close_units"]
    claims = sum(row["claimed"] for row in close)
    assert f"{claims} of the {len(close)} problems of the family `close_units`" in words
    assert f"{100 * covered / count:.1f} % of {count:,} parameters of noisy recoveries lie in" in words
    assert f"the {len(rows):,} problems from seed {record['seed']}" in words
    for line in levels:
        assert f"{line['target'].partition(':')[0]} {line['measured'].partition(' ')[0]}" in words


def test_what_is_no_longer_refused() -> None:
    lines = [line for part in stored("refusals") for line in part["targets"]]
    assert rows_after("What was once refused") == {
        f"| {line['target'].partition(': at least')[0]} | {line['measured']} |" for line in lines
    }


def test_few_samples() -> None:
    """The table has every stored case closer to the limit, with its number of seeds."""
    page = (ROOT / "docs" / "theory" / "complementarity.md").read_text(encoding="utf-8")
    section = page.partition("## Few samples\n")[2].partition("\n## ")[0]
    shown = {line for line in section.splitlines() if line.startswith(("| biases", "| no biases"))}
    rows = stored("limits_closer")
    apart = {
        row["case"]: f", {row['determined_hits']} of the {row['determined']} identifiable"
        for row in rows
        if "determined" in row
    }
    assert shown == {
        f"| {row['case']} | {row['hits']} of {row['seeds']}{apart.get(row['case'], '')} |" for row in rows
    }
    assert not any(row["false"] for row in rows)


def test_what_effort_costs() -> None:
    (part,) = (part for part in stored("speed") if part["section"] == "no")
    page = " ".join(FRONT_DOOR.split())
    for effort in ("quick", "normal"):
        shares = [row[effort] / row["peer"] for row in part["rows"]]
        assert f'`"{effort}"` ' in page and f"between {min(shares):.2f} and {max(shares):.2f}" in page
    peers = [row["peer"] for row in part["rows"]]
    assert len({row["table"] for row in part["rows"]}) == 8
    assert f"the search took {min(peers):.0f} to {max(peers):.0f} s" in page


def test_the_share_of_the_statements_that_tests_run() -> None:
    rows = stored("tested_lines")
    run, lines = (sum(row[key] for row in rows) for key in ("run", "lines"))
    for page in ("CONTRIBUTING.md", "docs/release.md"):
        assert f"{100 * run / lines:.1f} %" in (ROOT / page).read_text(encoding="utf-8")
