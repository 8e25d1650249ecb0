"""`planted sums`: the rows of one machine as sums, to be merged with those of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planted._threads import one_thread
from planted.cli._console import print_note, progress_bar, spoken_warnings
from planted.cli._data import Columns, read_blocks
from planted.cli._options import (
    DataArgument,
    FeaturesOption,
    ForceOption,
    TargetsOption,
    check_written,
)
from planted.outcomes import BadInputError

if TYPE_CHECKING:
    from planted.moments import RowSummary

__all__ = ["sums"]

KEPT_ROWS = 20_000


def sums(
    data: DataArgument,
    targets: TargetsOption = None,
    features: FeaturesOption = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where to write (.sums).")] = Path(
        "part.sums"
    ),
    rows: Annotated[int, typer.Option(metavar="N", help="Rows to keep, at most.")] = KEPT_ROWS,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Sum on the Dask cluster at tcp://HOST:PORT.")
    ] = None,
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Sum the rows of a file or folder: their moments, and a uniform sample that is the same in any order.

    Sums of several machines are merged by: planted recover --sums a.sums b.sums
    """
    check_written(("--out", out, "sums"), inputs=[data], force=force)
    if rows < 1:
        raise BadInputError(f"--rows is {rows}; expected at least 1.")
    from planted.io.tables._blocks import columns_of
    from planted.moments import summarise_rows

    with progress_bar(f"summing {data}"), spoken_warnings(), one_thread():
        blocks, recipe = read_blocks(data, Columns(targets, features))
        if recipe is not None and not recipe.is_plain:
            raise BadInputError(f"{data}: sums are of numbers; leave out columns of text with --features.")
        if cluster is not None:
            from planted.distributed import on_cluster

            blocks = on_cluster(blocks, cluster)
        summary = summarise_rows(blocks, rows)
    notes = _write(out, summary, columns_of(blocks))
    if as_json:
        shape = {"inputs": summary.X.shape[1], "outputs": summary.Y.shape[1]}
        print(json.dumps({"out": str(out), "rows": summary.count, "kept": len(summary.keys), **shape}))
    print_note(f"The sums of {summary.count:,} rows, {len(summary.keys):,} of them kept, are in {out}.")
    for note in notes:
        print_note(note)


def _write(out: Path, summary: RowSummary, names: dict[str, tuple[str, ...]]) -> list[str]:
    """Write sums with the names of their columns, or without if they cannot be kept; return what is to be said of it."""
    from planted.io import write_sums

    try:
        write_sums(out, summary, features=names["feature_names"], targets=names["target_names"])
    except BadInputError as error:
        write_sums(out, summary)
        return [f"The names of the columns are not kept: {error}"]
    return []
