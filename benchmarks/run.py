"""Run the benchmarks and show every target: *target | measured | peer | verdict*.

    python benchmarks/run.py --quick            the short version: what is cheap, with a tenth of the seeds
    python benchmarks/run.py                    everything, in full
    python benchmarks/run.py --only queries     one benchmark; repeat --only for more
    python benchmarks/run.py --collect          nothing is run; the stored results are shown

Exit codes: 0 all targets that were measured are met; 1 one is not, or a line became worse than the stored results;
2 bad input.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from targets import RESULTS, Results, Row, changes, collect, load_results, row_cells

HERE = Path(__file__).parent
# Not benchmarks: what they share, and this program.
SHARED = {"run", "targets", "families_exact", "families_noisy"}
# The cheap ones, which the short version runs; the others take minutes even with a tenth of the seeds.
SHORT = ("start", "nist", "limits", "queries", "moments", "recovery")
# These need files that are not part of the repository.
NEEDS_DATA = {"memorize_mnist": "--data DIR with the MNIST files"}


def main() -> None:
    options = parse()
    known = sorted(p.stem for p in HERE.glob("*.py") if p.stem not in SHARED and not p.stem.startswith("_"))
    unknown = [name for name in options.only if name not in known]
    if unknown:
        print(f"error: there is no benchmark {unknown[0]!r}. There are: {', '.join(known)}.", file=sys.stderr)
        raise SystemExit(2)
    stored = load_results()
    fresh = {} if options.collect else run_all(choose(options, known), options)
    failed = [name for name, record in fresh.items() if not record]
    fresh = {name: record for name, record in fresh.items() if record}
    rows = collect(stored | {name: record for name, record in fresh.items() if not record["quick"]})
    moved = changes(stored, fresh)
    if options.json:
        fields = {"targets": [row_cells(row) for row in rows], "changes": moved, "failed": failed}
        print(json.dumps(fields))
    else:
        show(rows, moved, failed)
    is_red = any(row.verdict == "RED" for row in rows) or any(text.startswith("WORSE") for text in moved)
    raise SystemExit(1 if is_red or failed else 0)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the cheap benchmarks with a tenth of the seeds")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="run this benchmark alone"
    )
    parser.add_argument("--collect", action="store_true", help="run nothing; show the stored results")
    parser.add_argument("--write", action="store_true", help="store the results beside the benchmarks")
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    return parser.parse_args()


def choose(options: argparse.Namespace, known: list[str]) -> list[str]:
    """Return the benchmarks to run, in order."""
    if options.only:
        return list(dict.fromkeys(options.only))
    names = [name for name in SHORT if name in known] if options.quick else known
    for name in sorted(set(names) & set(NEEDS_DATA)):
        print(f"{name} is left out: it needs {NEEDS_DATA[name]}", file=sys.stderr)
    return [name for name in names if name not in NEEDS_DATA]


def run_all(names: list[str], options: argparse.Namespace) -> Results:
    """Run the benchmarks one after the other; a benchmark that broke down has an empty record."""
    records: Results = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = RESULTS if options.write else Path(scratch)
        for name in names:
            print(f"running {name} ...", file=sys.stderr, flush=True)
            command = [
                sys.executable,
                str(HERE / f"{name}.py"),
                "--seed",
                str(options.seed),
                "--out",
                str(folder),
            ]
            command += ["--quick"] * options.quick
            # Answers go to stdout; with --json only the table does.
            done = subprocess.run(command, stdout=sys.stderr if options.json else None, check=False)
            path = folder / f"{name}.json"
            ran = done.returncode == 0 and path.exists()
            records[name] = json.loads(path.read_text(encoding="utf-8")) if ran else {}
    return records


def show(rows: list[Row], moved: list[str], failed: list[str]) -> None:
    """Print the table, the changes and what broke down."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    table = Table("", "target", "measured (full runs)", "peer", "verdict", header_style="dim")
    colours = {"met": "green", "RED": "red", "in part": "yellow", "not measured": "yellow"}
    for row in rows:
        cells = [Text(text) for text in (row.name, row.what, row.measured, row.peer)]
        table.add_row(*cells, Text(row.verdict, colours[row.verdict]))
    console.print(table)
    for row in rows:
        if row.explanation:
            console.print(Text(f"{row.name}: {row.explanation}"))
    for text in moved or ["Nothing became better or worse than the stored results."]:
        console.print(Text(text))
    for name in failed:
        console.print(Text(f"{name} broke down; run `python benchmarks/{name}.py` to see why.", "red"))


if __name__ == "__main__":
    main()
