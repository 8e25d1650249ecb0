"""What every benchmark shares: options, a table of targets, results with their circumstances as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import planted

RESULTS = Path(__file__).parent / "results"
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Line:
    """A target, what was measured, and whether it holds."""

    target: str
    measured: str
    passed: bool


def parse_options(description: str, **extra: dict[str, Any]) -> argparse.Namespace:
    """Read the common options and those of one benchmark: name to argparse's keywords."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a tenth of the seeds")
    parser.add_argument("--seed", type=int, default=0, help="first seed; try others")
    parser.add_argument("--write", action="store_true", help="store the results beside the benchmarks")
    parser.add_argument("--out", type=Path, metavar="DIR", help="store the results in this folder")
    for name, keywords in extra.items():
        parser.add_argument(f"--{name}", **keywords)
    return parser.parse_args()


def report(name: str, lines: list[Line], rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print the table; with --write or --out store it with seeds, versions and machine."""
    width = max(len(line.target) for line in lines)
    print(f"\n{name}")
    for line in lines:
        print(f"  {'ok ' if line.passed else 'RED'}  {line.target:<{width}}  {line.measured}")
    folder = RESULTS if options.write else options.out
    if folder is None:
        return
    folder.mkdir(exist_ok=True)
    record = {
        "benchmark": name,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": options.quick,
        "seed": options.seed,
        "versions": {"planted": planted.__version__, "numpy": np.__version__, "scipy": scipy.__version__},
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "arch": platform.machine()},
        "targets": [asdict(line) for line in lines],
        "rows": rows,
    }
    # Numbers and truth values of NumPy are written as those of Python.
    text = json.dumps(record, indent=1, default=lambda value: value.item())
    (folder / f"{name}.json").write_text(text + "\n")


def at_least(target: str, hits: int, total: int, share: float, note: str = "") -> Line:
    return Line(target, f"{hits}/{total}{note}", hits >= share * total)


Section = Callable[[argparse.Namespace], tuple[list[Line], Rows]]
Measure = Callable[[Callable[[int], range]], tuple[Line | list[Line], Rows]]


def gather(*measures: Measure) -> Section:
    """Make a section of measurements, each given a function from a number of seeds to the seeds; --quick takes a tenth."""

    def section(options: argparse.Namespace) -> tuple[list[Line], Rows]:
        def seeds(count: int) -> range:
            return range(options.seed, options.seed + max(count // (10 if options.quick else 1), 1))

        lines: list[Line] = []
        rows: Rows = []
        for measure in measures:
            new, more = measure(seeds)
            lines.extend(new if isinstance(new, list) else [new])
            rows.extend(more)
        return lines, rows

    return section


def run_sections(name: str, description: str, sections: dict[str, Section], **extra: dict[str, Any]) -> None:
    """Run the sections of a long benchmark, all or those named by --only; each is stored as soon as it is measured.

    What is not run keeps the result that is stored, with the time at which it was made. A section "exact tanh" is named
    by its first word too, with the others of that word. `extra`: further options.
    """
    names = [*sections, *dict.fromkeys(key.split()[0] for key in sections if " " in key)]
    only: dict[str, Any] = {"choices": names, "nargs": "+", "metavar": "SECTION"}
    only["help"] = f"only {', '.join(sections)}; the others keep what is stored"
    options = parse_options(description, only=only, **extra)
    kept: dict[str, Any] = {}
    for section in sections:
        if options.only and not {section, section.split()[0]} & set(options.only):
            continue
        lines, rows = sections[section](options)
        kept |= _stored_sections(name, options) | {
            section: {
                "section": section,
                "made": datetime.now(UTC).isoformat(timespec="seconds"),
                "load": os.getloadavg()[0],
                "targets": [asdict(line) for line in lines],
                "rows": rows,
            }
        }
        parts = [kept[key] for key in sections if key in kept]
        report(name, [Line(**line) for part in parts for line in part["targets"]], parts, options)


def _stored_sections(name: str, options: argparse.Namespace) -> dict[str, Any]:
    folder = RESULTS if options.write else options.out
    path = folder / f"{name}.json" if folder is not None else None
    if path is None or not path.exists():
        return {}
    return {part["section"]: part for part in json.loads(path.read_text())["rows"] if "section" in part}


def wilson(hits: int, tries: int) -> tuple[float, float]:
    """Return the 95 % interval of a share."""
    z, share = 1.96, hits / tries
    middle = (share + z * z / (2 * tries)) / (1 + z * z / tries)
    half = z * sqrt(share * (1 - share) / tries + z * z / (4 * tries**2)) / (1 + z * z / tries)
    return max(middle - half, 0.0), min(middle + half, 1.0)
