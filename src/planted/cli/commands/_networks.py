"""`planted predict` and `planted compare`: what to do with a network that was saved."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from planted.cli._console import out_console, print_note
from planted.cli._files import read_inputs
from planted.cli._options import DataArgument, FeaturesOption, check_folder, check_tolerance
from planted.cli.commands._queries import compare_models, print_comparison

__all__ = ["compare", "predict"]

NetworkArgument = Annotated[
    Path, typer.Argument(metavar="NET", help="A network written by planted (.safetensors).")
]


def predict(
    network: NetworkArgument,
    data: DataArgument,
    features: FeaturesOption = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write here instead of printing CSV: .csv, .npz, .parquet."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: columns by name.")] = False,
) -> None:
    """Evaluate a saved network on the inputs of a table.

    A network that knows the names of its inputs takes the columns of these names, in any order; the others are left out.
    """
    check_folder(out)
    from planted.io import load_with_columns, write_table

    saved = load_with_columns(network)
    net = saved.network
    if features is None and saved.features is not None and not all(map(str.isdigit, saved.features)):
        features = list(saved.features)
    predicted = net(read_inputs(data, features=features, n_features=net.n_features))
    names = saved.targets or [f"y{j + 1}" for j in range(net.n_outputs)]
    columns = {name: predicted[:, j] for j, name in enumerate(names)}
    if as_json:
        answer = {name: column.tolist() for name, column in columns.items()}
        print(json.dumps(answer if out is None else {"out": str(out), "rows": len(predicted)}))
    elif out is None:
        print(",".join(columns))
        sys.stdout.writelines(",".join(map(repr, row)) + "\n" for row in predicted.tolist())
    if out is not None:
        write_table(out, columns)
        print_note(f"{len(predicted):,} predictions of {net.n_outputs} outputs are in {out}.")


def compare(
    first: NetworkArgument,
    second: NetworkArgument,
    tol: Annotated[
        float, typer.Option(help="Differences up to this size, relative to the networks, are none.")
    ] = 1e-9,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Decide whether two networks are the same function. Exit code 0: equal; 1: different.

    Networks are compared on their parameters; where one is an .onnx file, both are asked random questions.
    """
    from planted.io import load_two_layers
    from planted.networks import parameter_error
    from planted.reporting import to_plain

    check_tolerance(tol)
    if ".onnx" in (first.suffix.lower(), second.suffix.lower()):
        _compare_answers(first, second, tol=tol, as_json=as_json)
        return
    one, other = load_two_layers(first), load_two_layers(second)
    is_same_shape = (one.n_features, one.n_outputs) == (other.n_features, other.n_outputs)
    is_equal = is_same_shape and one.is_equivalent(other, tol=tol)
    difference = parameter_error(one, other) if is_same_shape else float("inf")
    if as_json:
        print(json.dumps(to_plain({"equal": is_equal, "parameter_error": difference, "tol": tol})))
    else:
        word = Text("EQUAL", "bold green") if is_equal else Text("DIFFERENT", "bold red")
        line = f"  largest parameter difference {difference:.3g} (tolerance {tol:g})"
        if not is_same_shape:
            shapes = [f"{net.n_features} inputs and {net.n_outputs} outputs" for net in (one, other)]
            line = f"  one has {shapes[0]}, the other {shapes[1]}"
        out_console().print(Text.assemble(word, line))
        if is_same_shape and not is_equal:
            print_comparison(compare_models(first, second, tol=tol))
    if not is_equal:
        raise typer.Exit(1)


def _compare_answers(first: Path, second: Path, *, tol: float, as_json: bool) -> None:
    """Ask both models and print what came of it."""
    answer = compare_models(first, second, tol=tol)
    if as_json:
        witness = None if answer.witness is None else answer.witness.tolist()
        facts = {"equal": answer.is_equal, "difference": answer.difference, "witness": witness, "tol": tol}
        print(json.dumps({**facts, "fraction": answer.fraction, "confidence": answer.confidence}))
    else:
        word = Text("EQUAL", "bold green") if answer.is_equal else Text("DIFFERENT", "bold red")
        out_console().print(word)
        print_comparison(answer)
    if not answer.is_equal:
        raise typer.Exit(1)
