"""Mutated files of everything that planted reads, 50,000 of each kind: right answers or typed errors only.

The files are those of `tests/pathology/mutations.py`, reproducible from the seed, the kind and a number. Each must give a
right answer or a typed error that names the file, in at most ten seconds of processor time and within the memory budget.
A row says how many were read and how many refused, the longest time, and how much the memory of the process grew over
all of them. A file that fails goes to `tests/pathology/fuzz_seeds.json`, and is read by every run of the tests from then on.

With --quick there are 5,000 of each kind.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from _table import Line, Rows, Section, at_least, run_sections

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from pathology.mutations import BUDGET, LONGEST_READ, READERS, _peak, read_mutants


@contextmanager
def watched(kind: str) -> Iterator[dict[str, Any]]:
    """Count the files of a kind that are read, and the longest processor time of one."""
    reader, seen = READERS[kind], {"read": 0, "slowest_seconds": 0.0}

    def judge(file: Path, number: int) -> str | None:
        began = time.process_time()
        try:
            reason = reader.judge(file, number)
            seen["read"] += reason is None
            return reason
        finally:
            seen["slowest_seconds"] = max(seen["slowest_seconds"], round(time.process_time() - began, 3))

    READERS[kind] = replace(reader, judge=judge)
    try:
        yield seen
    finally:
        READERS[kind] = reader


def read_all(kind: str) -> Section:
    def section(options: argparse.Namespace) -> tuple[list[Line], Rows]:
        count = options.files // (10 if options.quick else 1)
        folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        peak = _peak()
        with watched(kind) as seen:
            failures = list(filter(None, islice(read_mutants(kind, options.seed, folder), count)))
        shutil.rmtree(folder)
        row = {
            "kind": kind, "seed": options.seed, "files": count, "read": seen["read"],
            "refused": count - seen["read"] - len(failures), "slowest_seconds": seen["slowest_seconds"],
            "megabytes_grown": round((_peak() - peak) / 1e6, 1), "budget_megabytes": BUDGET / 1e6,
            "failures": [[failure.number, failure.reason[:300]] for failure in failures],
        }  # fmt: skip
        what = f"{kind}: right or refused, at most {LONGEST_READ:.0f} s each"
        return [
            at_least(what, count - len(failures), count, 1.0, f", slowest {seen['slowest_seconds']:.2f} s")
        ], [row]

    return section


if __name__ == "__main__":
    files = {"type": int, "default": 50_000, "help": "files of each kind"}
    run_sections("fuzz", __doc__ or "", {kind: read_all(kind) for kind in READERS}, files=files)
