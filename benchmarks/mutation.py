"""Mutation testing of networks, tensors, programs and moments, on a random sample of mutants.

mutmut changes one operator, constant or argument at a time; a mutant is killed when a unit test fails or hangs. There
are thousands of mutants, so a sample drawn with --seed is run, against the unit tests of these packages alone: what only a
theorem or contract test would notice counts as surviving, and so does a mutant that changes nothing. Survivors are listed
in the results.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _table import Line, parse_options, report

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("networks", "tensors", "programs", "moments")
SCORE = 0.85
TESTS = ("networks", "tensors", "programs", "moments", "cone", "highs", "hermite", "sums", "streams")
KILLED = {"killed", "timeout", "segfault"}
TABLE = """
[tool.mutmut]
paths_to_mutate = [{paths}]
tests_dir = [{tests}]
also_copy = ["src", "tests", "README.md", "LICENSE"]
"""


def prepare(folder: Path) -> None:
    """Copy what is mutated and its tests."""
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    tests = sorted(
        p for p in (ROOT / "tests/unit").glob("test_*.py") if any(word in p.stem for word in TESTS)
    )
    paths = ", ".join(f'"src/planted/{name}"' for name in PACKAGES)
    listed = ", ".join(f'"{path.relative_to(ROOT)}"' for path in tests)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8").replace("--doctest-modules ", "")
    (folder / "pyproject.toml").write_text(
        project + TABLE.format(paths=paths, tests=listed), encoding="utf-8"
    )


def run(folder: Path, names: list[str]) -> None:
    """Let mutmut make all mutants, if there are none yet, and run those that are named."""
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(os.cpu_count() or 1), *names]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=folder, env=environment, check=False, stdout=subprocess.DEVNULL)


def statuses(folder: Path) -> dict[str, str]:
    """Return how every mutant ended, in mutmut's words."""
    from mutmut.stats import status_by_exit_code

    found: dict[str, str] = {}
    for path in sorted((folder / "mutants").rglob("*.py.meta")):
        codes = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
        found |= {key: status_by_exit_code[code] for key, code in codes.items()}
    return found


def main() -> None:
    options = parse_options(
        __doc__ or "", sample={"type": int, "default": 60, "help": "mutants of each package"}
    )
    size = 5 if options.quick else options.sample
    lines: list[Line] = []
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder)
        run(folder, ["no-such-mutant"])  # makes the mutants
        rng = np.random.default_rng(options.seed)
        mutants = {name: [key for key in statuses(folder) if f"planted.{name}." in key] for name in PACKAGES}
        chosen = {name: rng.permutation(keys)[:size].tolist() for name, keys in mutants.items()}
        run(folder, [key for keys in chosen.values() for key in keys])
        results = statuses(folder)
    for name, keys in chosen.items():
        killed = [key for key in keys if results[key] in KILLED]
        survivors = sorted(set(keys) - set(killed))
        untested = [key for key in survivors if results[key] == "no tests"]
        score = len(killed) / max(len(keys), 1)
        text = f"{len(killed)}/{len(keys)} killed ({score:.0%}) of {len(mutants[name])} mutants, {len(untested)} untested"
        lines.append(Line(f"{name}: mutants killed >= {SCORE:.0%}", text, score >= SCORE))
        rows.append({"package": name, "tried": keys, "survivors": survivors, "untested": untested})
    report("mutation", lines, rows, options)


if __name__ == "__main__":
    main()
