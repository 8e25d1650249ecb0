"""How often each test of `docs/safety.md` tries to break its promise, counted while the tests run.

A test that tries several things calls `tried`; any other one tries once in each of its cases. ``python
tests/pathology/tries.py`` runs the tests of the table and compares the numbers with those of the page; with ``--write`` it
puts them there, and with names of tests it runs only these.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

__all__ = ["COUNTS", "LINE", "PAGE", "tried"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "safety.md"
LINE = re.compile(r"^\| ([^|`]+) \| `(tests/[\w/]+\.py)::(\w+)` \| ([\d,]+) \|$", re.MULTILINE)
COUNTS: Counter[str] = Counter()  # by the name of the test


def tried(count: int = 1) -> None:
    """Count tries of the test that is running."""
    COUNTS[_name(os.environ["PYTEST_CURRENT_TEST"])] += count


def _name(node: str) -> str:
    return re.split(r"\[| \(", node, maxsplit=1)[0]


class _Cases:
    """Counts the cases of each test that passed, and those that did not."""

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()
        self.others: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of the end of a case."""
        if report.when == "call" and report.passed:
            self.passed[_name(report.nodeid)] += 1
        elif not report.passed:
            self.others.append(report.nodeid)


def main() -> int:
    """Run the tests of the table; compare or write the numbers."""
    from pathology.tries import COUNTS as counts  # of the module that the tests import

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the numbers into the page")
    parser.add_argument("names", nargs="*", help="names of tests; all of the table if none is given")
    options = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    tests = {f"{file}::{test}" for _, file, test, _ in LINE.findall(page)}
    chosen = sorted(test for test in tests if not options.names or test.split("::")[1] in options.names)
    os.chdir(PAGE.parents[1])
    cases = _Cases()
    if pytest.main(["-q", "-p", "no:cacheprovider", "-n", "0", *chosen], plugins=[cases]) or cases.others:
        print("not counted: a test failed or was skipped", *cases.others, sep="\n")
        return 1
    found = {test: counts.get(test, cases.passed[test]) for test in chosen}
    stale = []

    def renewed(line: re.Match[str]) -> str:
        promise, file, test, said = line.groups()
        tries = f"{found.get(f'{file}::{test}', int(said.replace(',', ''))):,}"
        if tries != said:
            stale.append(f"{test}: the page says {said}, it is {tries}")
        return f"| {promise} | `{file}::{test}` | {tries} |"

    page = LINE.sub(renewed, page)
    print(*(stale or ["The numbers of the page are right."]), sep="\n")
    if options.write:
        PAGE.write_text(page, encoding="utf-8")
    return int(bool(stale) and not options.write)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main())
