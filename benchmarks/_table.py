"""What every benchmark shares: options, a table of targets, results with their circumstances as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import planted

RESULTS = Path(__file__).parent / "results"


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
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


def at_least(target: str, hits: int, total: int, share: float, note: str = "") -> Line:
    return Line(target, f"{hits}/{total}{note}", hits >= share * total)
