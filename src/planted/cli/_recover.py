"""`planted recover`: samples in, the network and the evidence out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from planted.cli._console import out_console, print_note, print_table, progress_bar, spoken_warnings
from planted.cli._files import read_samples, write_page
from planted.cli._options import (
    ActivationOption,
    DataArgument,
    FeaturesOption,
    SeedOption,
    TargetsOption,
    check_folder,
    parse_hidden,
)
from planted.outcomes import Outcome

if TYPE_CHECKING:
    from planted.reporting import Report
    from planted.results import Recovery

__all__ = ["print_verdict", "recover"]

TONES = {"good": "bold green", "caution": "bold yellow", "bad": "bold red"}


def recover(
    data: DataArgument,
    targets: TargetsOption = None,
    features: FeaturesOption = None,
    hidden: Annotated[str, typer.Option(metavar="auto|N", help="Number of hidden units.")] = "auto",
    method: Annotated[str, typer.Option(help="Name of a method, or auto.")] = "auto",
    activation: ActivationOption = "relu",
    seed: SeedOption = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the network (.safetensors).")
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report (.html).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Find the two-layer network that made the targets from the inputs.

    Exit code 0: this is the network. 1: it could not be recovered, and the reason is printed.
    """
    check_folder(out)
    check_folder(report)
    n_hidden = parse_hidden(hidden)
    table = read_samples(data, targets=targets, features=features)

    import planted
    from planted.reporting import summarise

    with progress_bar(f"reading {len(table.X):,} samples") as progress, spoken_warnings():
        record = planted.recover(
            table.X,
            table.Y,
            n_hidden,
            method=method,
            activation=activation,
            random_state=seed,
            progress=progress,
        )
    names = {"feature_names": table.feature_names, "target_names": table.target_names}
    summary = summarise(record, data=(table.X, table.Y) if report is not None else None, **names)
    if as_json:
        print(json.dumps(summary.record, allow_nan=False))
    else:
        print_verdict(out_console(), summary)
    _write_results(record, summary, out=out, report=report)
    if record.outcome is not Outcome.RECOVERED:
        raise typer.Exit(1)


def print_verdict(console: Console, summary: Report) -> None:
    """Print the verdict, the facts and the evidence."""
    verdict = summary.verdict
    console.print(
        Text.assemble((verdict.outcome.replace("_", " "), TONES[verdict.tone]), "  ", verdict.sentence)
    )
    if verdict.detail:
        console.print(Text(verdict.detail))
    console.print(Text(" · ".join(f"{label} {value}" for label, value in summary.facts), style="dim"))
    for block in summary.sections[0].blocks:
        print_table(console, block)  # type: ignore[arg-type]  # the evidence section holds tables only
    console.print(Text.assemble(("Guarantee  ", "bold"), verdict.guarantee))
    console.print(Text.assemble(("What to do ", "bold"), verdict.advice))


def _write_results(record: Recovery, summary: Report, *, out: Path | None, report: Path | None) -> None:
    """Write the files that were asked for, and say so."""
    if out is not None and record.network is None:
        print_note(f"There is no network to write; {out} was not touched.")
    elif out is not None and record.network is not None:
        record.network.save(out)
        print_note(f"The network is in {out}.")
    if report is not None:
        write_page(report, summary.html())
        print_note(f"The report is in {report}.")
