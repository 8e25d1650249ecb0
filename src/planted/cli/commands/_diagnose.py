"""`planted diagnose`: which methods the data allow, and why not the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from planted.cli._console import out_console, print_note, print_table, progress_bar, spoken_warnings
from planted.cli._data import Columns, is_too_large, notes_on, read_blocks, read_samples, write_page
from planted.cli._options import (
    CategoriesOption,
    DataArgument,
    DecimalOption,
    ExcludeOption,
    FeaturesOption,
    ForceOption,
    MissingOption,
    SeedOption,
    TargetsOption,
    check_written,
    parse_hidden,
)
from planted.outcomes import shown

__all__ = ["diagnose"]


def diagnose(
    data: DataArgument,
    targets: TargetsOption = None,
    features: FeaturesOption = None,
    exclude: ExcludeOption = None,
    categories: CategoriesOption = None,
    missing: MissingOption = "refuse",
    decimal: DecimalOption = "point",
    hidden: Annotated[str, typer.Option(metavar="auto|N", help="Number of hidden units.")] = "auto",
    seed: SeedOption = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report (.html).")] = None,
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the diagnosis as JSON.")] = False,
) -> None:
    """Look at the data before anything is fitted.

    Exit code 0: at least one method applies. 1: none does.
    """
    check_written(("--report", report, "report"), inputs=[data], force=force)
    columns = Columns(targets, features, None, exclude, categories, missing, decimal)
    samples: Any
    notes: list[str] = []
    if data.is_dir() or is_too_large(data):
        blocks, recipe = read_blocks(data, columns)
        samples, notes = (blocks, None), list(recipe.notes) if recipe else []
    else:
        table, recipe = read_samples(data, columns)
        samples, notes = (table.X, table.Y), notes_on(table, recipe, data)

    import planted
    from planted.reporting import summarise_diagnosis

    with progress_bar(f"diagnosing {data}"), spoken_warnings():
        diagnosis = planted.diagnose(samples[0], samples[1], parse_hidden(hidden), random_state=seed)
    summary = summarise_diagnosis(diagnosis)
    if report is not None:
        write_page(report, summary.html())
    if as_json:
        print(json.dumps(summary.record, allow_nan=False))
    else:
        console = out_console()
        console.print(Text(shown(f"{summary.verdict.sentence} {summary.verdict.detail}"), style="bold"))
        console.print(Text(f"Predicted cost of a recovery: {diagnosis.prediction}", style="dim"))
        for section in summary.sections:
            for block in section.blocks:
                print_table(console, block)  # type: ignore[arg-type]  # both sections hold tables only
    for note in notes:
        print_note(note)
    if report is not None:
        print_note(f"The report is in {report}.")
    if not any(check.applies for check in diagnosis.methods):
        raise typer.Exit(1)
