"""`planted reproduce`: a paper's figure made again, with its numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from planted.cli._console import out_console, print_note, progress_bar
from planted.cli._options import ForceOption, SeedOption

if TYPE_CHECKING:
    from planted.reproduce import Study

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
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the claims as JSON.")] = False,
) -> None:
    """Make a figure of one of the papers again: picture, numbers and a table of claims."""
    from planted.reproduce import StudyOptions, check_places, find_study, studies, write_study

    figure = "text" if text else figure
    if not paper:
        _list_papers({name: list(figures) for name, figures in studies().items()}, as_json=as_json)
        return
    made: list[dict[str, Any]] = []
    results: dict[str, Study] = {}
    wanted = [figure] if figure else list(studies().get(paper, ("",)))
    stems = [f"{paper}-{kind}{name}" for name in wanted for kind in ("", "figure-")]
    check_places(out, stems if paper in studies() else [], force=force)
    for name in wanted:
        study_of = find_study(paper, name)
        with progress_bar(f"{paper}, figure {name}") as progress:
            extra = {"rows": rows, "out": out} | ({} if data is None else {"data": data})
            study = study_of(StudyOptions(quick=quick, seed=seed or 0, progress=progress, extra=extra))
        results[name] = study
        files = write_study(study, out, force=force)
        if not as_json:
            _print_claims(study.title, {name: study})
        for path in files:
            print_note(f"wrote {path}")
        claims = [
            {"paper": claim.paper, "measured": claim.ours, "verdict": claim.verdict.value}
            for claim in study.claims
        ]
        made.append({"figure": name, "title": study.title, "claims": claims, "files": list(map(str, files))})
    if as_json:
        print(json.dumps({"paper": paper, "figures": made}))
    elif len(results) > 1:
        _print_claims(f"{paper}: all figures", results)


def _list_papers(papers: dict[str, list[str]], *, as_json: bool) -> None:
    """Print which papers there are, and their figures."""
    if as_json:
        print(json.dumps(papers))
        return
    table = Table("paper", "figures", header_style="dim")
    for name, figures in papers.items():
        table.add_row(name, ", ".join(figures))
    out_console().print(table)


def _print_claims(title: str, results: dict[str, Study]) -> None:
    """Print what the paper says beside what was measured, and whether they agree; one line for each claim."""
    table = Table(title=Text(title), title_justify="left", header_style="dim")
    for heading in (["figure"] if len(results) > 1 else []) + ["the paper says", "we measured", "verdict"]:
        table.add_column(heading)
    for name, study in results.items():
        for claim in study.claims:
            cells = [Text(claim.paper), Text(claim.ours), Text(claim.verdict.value)]
            table.add_row(*([Text(name)] if len(results) > 1 else []), *cells)
    out_console().print(table)
