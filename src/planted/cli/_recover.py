"""`planted recover`: samples in, the network and the evidence out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from planted.cli._console import (
    few_threads,
    out_console,
    print_note,
    print_table,
    progress_bar,
    spoken_warnings,
)
from planted.cli._files import is_too_large, read_samples, stream_samples, write_page
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

PREVIEW_ROWS = 2000
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
    budget: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Time limit; the best so far is then printed.")
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Read the file in blocks, never whole (large files always are).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Find the two-layer network that made the targets from the inputs.

    Exit code 0: this is the network. 1: it could not be recovered, and the reason is printed.
    """
    check_folder(out)
    check_folder(report)
    n_hidden = parse_hidden(hidden)
    with progress_bar(f"reading {data}") as progress, spoken_warnings():
        samples = _open_samples(data, targets, features, stream=stream or is_too_large(data))
        options: dict[str, Any] = {"method": method, "activation": activation, "random_state": seed}
        options |= {"n_hidden": n_hidden, "progress": progress, "budget_seconds": budget}
        with few_threads(samples.n_values):
            import planted

            record = planted.recover(*samples.data, **options)
    from planted.reporting import summarise

    preview = samples.preview() if report is not None else None
    summary = summarise(record, data=preview, **samples.names)
    if as_json:
        print(json.dumps(summary.record, allow_nan=False))
    else:
        print_verdict(out_console(), summary)
    _write_results(record, summary, out=out, report=report)
    if record.outcome is not Outcome.RECOVERED:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Samples:
    """Samples in memory or in blocks, with what the report needs of them."""

    data: tuple[Any, ...]
    names: dict[str, Any]
    n_values: int

    def preview(self) -> tuple[Any, Any]:
        """Rows to draw: all that are in memory, or a sample of the blocks."""
        if len(self.data) == 2:
            return self.data[0], self.data[1]
        import numpy as np

        from planted.moments import sample_rows

        return sample_rows(self.data[0], PREVIEW_ROWS, np.random.default_rng(0))


def _open_samples(
    path: Path, targets: list[str] | None, features: list[str] | None, *, stream: bool
) -> _Samples:
    if stream:
        return _Samples((stream_samples(path, targets=targets, features=features),), {}, path.stat().st_size)
    table = read_samples(path, targets=targets, features=features)
    names = {"feature_names": table.feature_names, "target_names": table.target_names}
    return _Samples((table.X, table.Y), names, table.X.size + table.Y.size)


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
