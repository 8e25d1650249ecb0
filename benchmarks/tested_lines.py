"""How many lines of the package do its tests run?

    python benchmarks/tested_lines.py [--tests tests/linalg ...] [--workers 2] [--write]

The tests run under coverage.py, their worker processes and the commands that they start included. A line that was run is not
a line that was checked: benchmarks/mutation.py measures that on a sample. The number is stored when every test was run and
none failed; with --tests or --quick it is only printed. Docstrings, comments and blank lines do not count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from _table import Line, Rows, parse_options, report

ROOT = Path(__file__).resolve().parent.parent
SHARE = 0.95
QUICK = ["tests/networks"]


def main() -> None:
    options = parse_options(
        __doc__ or "",
        tests={
            "nargs": "+",
            "default": [],
            "metavar": "PATH",
            "help": "run these tests alone; nothing is stored",
        },
        workers={"type": int, "default": 2, "help": "processes that run tests"},
    )
    tests = options.tests or (QUICK if options.quick else [])
    if options.tests:
        options.write, options.out = False, None
    with tempfile.TemporaryDirectory() as scratch:
        measured = measure(tests, options.workers, Path(scratch))
    rows = by_room(measured)
    for row in rows:
        print(f"  {row['room']:<16} {_share(row['run'], row['lines'])}")
    report("tested_lines", lines(rows), rows, options)


def measure(tests: list[str], workers: int, folder: Path) -> dict[str, Any]:
    """Run the tests and return what coverage.py says of every file; end here if a test fails."""
    settings = os.environ | {
        "COVERAGE_FILE": str(folder / "data"),
        "COVERAGE_RCFILE": str(ROOT / ".coveragerc"),
    }
    page = folder / "coverage.json"
    pytest = ["run", "-m", "pytest", "-q", "-n", str(workers), *tests]
    # A test copies the package, adds a method to the copy and removes it: of that there is no source any more.
    for command in (pytest, ["combine", "--quiet"], ["json", "--quiet", "--ignore-errors", "-o", str(page)]):
        done = subprocess.run(
            [sys.executable, "-m", "coverage", *command], cwd=ROOT, env=settings, check=False
        )
        if done.returncode != 0:
            raise SystemExit(
                f"`coverage {command[0]}` ended with exit code {done.returncode}: nothing was measured."
            )
    found: dict[str, Any] = json.loads(page.read_text(encoding="utf-8"))["files"]
    return found


def by_room(files: dict[str, Any]) -> Rows:
    """Return the numbers of each room: what lies in one folder of ``src/planted``, and the modules beside them."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, record in files.items():
        inner = name.replace("\\", "/").partition("src/planted/")[2]
        room = inner.partition("/")[0] if "/" in inner else "(small modules)"
        counts[room][0] += record["summary"]["covered_lines"]
        counts[room][1] += record["summary"]["num_statements"]
    return [
        {"room": room, "run": run, "lines": total} for room, (run, total) in sorted(counts.items()) if total
    ]


def lines(rows: Rows) -> list[Line]:
    """Return the line of the whole, and that of the room with the smallest share."""
    run, total = sum(row["run"] for row in rows), sum(row["lines"] for row in rows)
    least = min(rows, key=lambda row: row["run"] / row["lines"])
    return [
        Line(
            f"statements of planted that the tests run, at least {SHARE:.0%}",
            _share(run, total),
            run >= SHARE * total,
        ),
        Line(
            "the least in one room (for information)",
            f"{least['room']}: {_share(least['run'], least['lines'])}",
            True,
        ),
    ]


def _share(run: int, total: int) -> str:
    return f"{run / total:.1%} of {total:,}"


if __name__ == "__main__":
    main()
