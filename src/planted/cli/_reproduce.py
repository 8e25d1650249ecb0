"""`planted reproduce`: a paper's figure made again, with its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from planted.cli._console import out_console, print_note, progress_bar
from planted.cli._options import SeedOption

__all__ = ["reproduce"]


def reproduce(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="Which paper; omit to list them.")] = "",
    figure: Annotated[str, typer.Option(metavar="N", help="Which figure; omit to make all.")] = "",
    text: Annotated[
        bool, typer.Option("--text", help="The numbers in the paper's text: --figure text.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, under a minute.")] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results.")] = Path("reproduced"),
    seed: SeedOption = None,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder with data a study needs.")] = None,
    rows: Annotated[int, typer.Option(min=0, help="Use the first rows of that data only; 0 for all.")] = 0,
) -> None:
    """Make a figure of one of the papers again: picture, numbers and a table of claims."""
    from planted.reproduce import StudyOptions, find_study, studies, write_study

    figure = "text" if text else figure
    console = out_console()
    if not paper:
        table = Table("paper", "figures", header_style="dim")
        for name, figures in studies().items():
            table.add_row(name, ", ".join(figures))
        console.print(table)
        return
    for name in [figure] if figure else list(studies().get(paper, ("",))):
        study_of = find_study(paper, name)
        with progress_bar(f"{paper}, figure {name}") as progress:
            extra = {"rows": rows} | ({} if data is None else {"data": data})
            study = study_of(StudyOptions(quick=quick, seed=seed or 0, progress=progress, extra=extra))
        claims = Table(
            "the paper", "measured here", title=Text(study.title), title_justify="left", header_style="dim"
        )
        for claim in study.claims:
            claims.add_row(Text(claim.paper), Text(claim.ours))
        console.print(claims)
        for path in write_study(study, out):
            print_note(f"wrote {path}")
