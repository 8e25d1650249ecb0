"""`planted sums`: the rows of one machine as sums, to be merged with those of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from planted._threads import one_thread
from planted.cli._console import print_note, progress_bar, spoken_warnings
from planted.cli._options import DataArgument, FeaturesOption, TargetsOption, check_folder, split_names
from planted.outcomes import BadInputError

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
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Sum the rows of a file or folder: their moments, and a uniform sample that is the same in any order.

    Sums of several machines are merged by: planted recover --sums a.sums b.sums
    """
    check_folder(out)
    if rows < 1:
        raise BadInputError(f"--rows is {rows}; expected at least 1.")
    from planted.io import open_blocks, write_sums
    from planted.moments import summarise_rows

    with progress_bar(f"summing {data}"), spoken_warnings(), one_thread():
        blocks = open_blocks(data, targets=split_names(targets), features=split_names(features))
        if cluster is not None:
            from planted.distributed import on_cluster

            blocks = on_cluster(blocks, cluster)
        summary = summarise_rows(blocks, rows)
    write_sums(out, summary)
    if as_json:
        shape = {"inputs": summary.X.shape[1], "outputs": summary.Y.shape[1]}
        print(json.dumps({"out": str(out), "rows": summary.count, "kept": len(summary.keys), **shape}))
    print_note(f"The sums of {summary.count:,} rows, {len(summary.keys):,} of them kept, are in {out}.")
