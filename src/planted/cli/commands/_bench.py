"""`planted bench`: the claims measured again, from the sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from planted.outcomes import BadInputError

__all__ = ["bench", "find_benchmarks"]


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="The cheap ones, with a tenth of the seeds.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="One benchmark; may be repeated.")
    ] = None,
    collect: Annotated[bool, typer.Option("--collect", help="Run nothing; show the stored results.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Store the results beside the benchmarks.")] = False,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="First seed.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Measure every target and set it beside the stored results: target, measured, peer, verdict.

    The benchmarks are part of the sources, not of the installed package; in full they take hours.
    Exit code 0: what was measured is met. 1: a target is missed, or something became worse.
    """
    flags = {"--quick": quick, "--collect": collect, "--write": write, "--json": as_json}
    words = [name for name, is_set in flags.items() if is_set]
    words += [word for name in only or () for word in ("--only", name)]
    command = [sys.executable, str(find_benchmarks() / "run.py"), "--seed", str(seed), *words]
    code = subprocess.run(command, check=False).returncode
    if code:
        raise typer.Exit(code if code in (1, 2) else 3)


def find_benchmarks() -> Path:
    """Return the folder of the benchmarks beside the sources that are running."""
    folder = Path(__file__).resolve().parents[4] / "benchmarks"
    if not (folder / "run.py").is_file():
        raise BadInputError(
            "the benchmarks are not part of the installed package. Get the sources of planted and use "
            "`make bench` there, or `pip install -e .` and `planted bench`."
        )
    return folder
