"""`planted simulate`: a planted world in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planted.cli._console import out_console, print_note
from planted.cli._options import ActivationOption, SeedOption, check_folder
from planted.outcomes import BadInputError

if TYPE_CHECKING:
    from planted.simulate import Dataset

__all__ = ["simulate"]


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
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Draw a network and samples of it; columns are x1, x2, … and y1, y2, …"""
    check_folder(out)
    check_folder(truth)
    if truth is not None and truth.resolve() == out.resolve():
        raise BadInputError(f"the samples and the network cannot both be written to {out}.")
    from planted.simulate import dataset

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
    if truth is not None:
        world.network.save(truth)
        print_note(f"The network is in {truth}.")
    if as_json:
        sizes = {"samples": samples, "features": features, "outputs": outputs, "hidden": hidden}
        print(json.dumps({"out": str(out), "truth": None if truth is None else str(truth), **sizes}))
        return
    shape = f"{samples:,} samples, {features} inputs, {outputs} outputs, {hidden} hidden units"
    out_console().print(f"{out}: {shape}", markup=False)


def _write_samples(out: Path, world: Dataset) -> None:
    """Write X and Y: as two arrays in an archive, as named columns otherwise."""
    from planted.io import write_table

    if out.suffix.lower() == ".npz":
        import numpy as np

        from planted.io.state._atomic import atomic_write

        atomic_write(out, lambda partial: np.savez(partial, X=world.X, Y=world.Y))
        return
    columns = {f"x{j + 1}": world.X[:, j] for j in range(world.X.shape[1])}
    write_table(out, columns | {f"y{j + 1}": world.Y[:, j] for j in range(world.Y.shape[1])})
