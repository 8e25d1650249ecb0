"""`planted simulate`: a planted world in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planted.cli._console import out_console, print_note
from planted.cli._data import save_with_columns
from planted.cli._options import ActivationOption, ForceOption, SeedOption, check_written
from planted.outcomes import shown

if TYPE_CHECKING:
    from planted.simulate import Dataset

__all__ = ["simulate"]

BYTES_FACTOR = 3  # samples, what they are drawn from, and the file in memory


def simulate(
    out: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to write: .csv, .npz, .parquet or .feather.")
    ],
    samples: Annotated[int, typer.Option(help="Number of samples.")] = 1000,
    features: Annotated[int, typer.Option(help="Number of inputs.")] = 10,
    hidden: Annotated[int, typer.Option(help="Number of hidden units.")] = 5,
    outputs: Annotated[int, typer.Option(help="Number of outputs.")] = 5,
    law: Annotated[
        str, typer.Option(help="Law of the inputs, such as gaussian, exponential, uniform.")
    ] = "gaussian",
    noise: Annotated[float, typer.Option(help="Standard deviation of the noise.")] = 0.0,
    active: Annotated[
        tuple[float, float], typer.Option(metavar="LOW HIGH", help="Share of samples each unit is on.")
    ] = (0.3, 0.7),
    activation: ActivationOption = "relu",
    seed: SeedOption = None,
    truth: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the network (.safetensors).")
    ] = None,
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Draw a network and samples of it; columns are x1, x2, … and y1, y2, …"""
    check_written(("FILE", out, "table"), ("--truth", truth, "network"), force=force)
    from planted.io._memory import require
    from planted.simulate import dataset

    if samples > 0 and features > 0 and outputs > 0:  # what else is wrong with them is said by `dataset`
        n_bytes = 8 * BYTES_FACTOR * samples * (features + outputs + max(hidden, 0))
        require(
            n_bytes, "drawing so many samples", instead="Draw fewer, or several files with different seeds."
        )
    world = dataset(
        samples,
        law=law,
        noise=noise,
        random_state=seed,
        n_features=features,
        n_hidden=hidden,
        n_outputs=outputs,
        activity=active,
        activation=activation,
    )
    _write_samples(out, world)
    notes: list[str] = []
    if truth is not None:
        names = {} if out.suffix.lower() == ".npz" else _names(world)
        notes = save_with_columns(world.network, truth, names)
    for note in notes:
        print_note(note)
    if as_json:
        sizes = {"samples": samples, "features": features, "outputs": outputs, "hidden": hidden}
        print(json.dumps({"out": str(out), "truth": None if truth is None else str(truth), **sizes}))
        return
    shape = f"{samples:,} samples, {features} inputs, {outputs} outputs, {hidden} hidden units"
    out_console().print(shown(f"{out}: {shape}"), markup=False)


def _names(world: Dataset) -> dict[str, list[str]]:
    """Return the names of the columns: x1, x2, … and y1, y2, …"""
    sizes = {"feature_names": ("x", world.X.shape[1]), "target_names": ("y", world.Y.shape[1])}
    return {role: [f"{letter}{j + 1}" for j in range(count)] for role, (letter, count) in sizes.items()}


def _write_samples(out: Path, world: Dataset) -> None:
    """Write X and Y: as two arrays in an archive, as named columns otherwise."""
    from planted.io import write_table

    if out.suffix.lower() == ".npz":
        import numpy as np

        from planted.io.state._atomic import atomic_write

        atomic_write(out, lambda partial: np.savez(partial, X=world.X, Y=world.Y))
        return
    names = _names(world)
    columns = dict(zip(names["feature_names"], world.X.T, strict=True))
    write_table(out, columns | dict(zip(names["target_names"], world.Y.T, strict=True)))
