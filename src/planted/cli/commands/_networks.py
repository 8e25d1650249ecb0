"""`planted predict`, `planted compare` and `planted verify`: what to do with a network that was saved."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from planted.cli._console import out_console, print_note
from planted.cli._data import read_inputs
from planted.cli._options import (
    DataArgument,
    FeaturesOption,
    ForceOption,
    check_tolerance,
    check_written,
    split_names,
)
from planted.cli.commands._queries import (
    UNDECIDED,
    compare_models,
    print_comparison,
    read_any_network,
    read_with_columns,
)
from planted.outcomes import BadInputError

if TYPE_CHECKING:
    from planted.networks import TwoLayerNetwork

__all__ = ["compare", "predict", "verify"]

FLOAT32_DIFFERENCE = 1e-4  # single precision keeps seven digits, of which sums lose some
FLOAT64_DIFFERENCE = 1e-12  # and below it what solving in double precision leaves

NetworkArgument = Annotated[
    Path, typer.Argument(metavar="NET", help="A network written by planted: .safetensors or .json.")
]


def predict(
    network: NetworkArgument,
    data: DataArgument,
    features: FeaturesOption = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write here instead of printing CSV: .csv, .npz, .parquet."),
    ] = None,
    force: ForceOption = False,
    interval: Annotated[
        float | None,
        typer.Option(metavar="P", help="Add bounds between which a new output lies with this probability."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: columns by name.")] = False,
) -> None:
    """Evaluate a saved network on the inputs of a table.

    A network that knows the names of its inputs takes the columns of these names, in any order; the others are left out.
    A network of class labels gives the probability of every class, one of counts their means. With --interval each output
    is followed by NAME_low and NAME_high, for noise that is normal and of one variance.
    """
    check_written(("--out", out, "table"), inputs=[network, data], force=force)
    from planted.io import load_with_columns, write_table

    saved = load_with_columns(network)
    net = saved.network
    if features and saved.recipe is not None:
        _refuse_other_columns(features, saved.recipe.names, network)
        features = None
    rows = read_inputs(
        data, features=features, known=saved.features, n_features=net.n_features, recipe=saved.recipe
    )
    predicted = _answers(net, rows)
    names = saved.targets or [f"y{j + 1}" for j in range(net.n_outputs)]
    columns = {name: predicted[:, j] for j, name in enumerate(names)}
    if saved.labels is not None:
        columns = _of_labels(predicted, saved.labels, names)
        if interval is not None:
            raise BadInputError(
                "--interval is for numbers; this network gives probabilities or means of labels."
            )
    if interval is not None:
        columns = _with_bounds(columns, saved.noise, interval)
    if out is not None:
        write_table(out, columns)
    if as_json:
        answer = {
            name: [None if value != value else value for value in column.tolist()]
            for name, column in columns.items()
        }
        print(json.dumps(answer if out is None else {"out": str(out), "rows": len(predicted)}))
    elif out is None:
        csv.writer(sys.stdout, lineterminator="\n").writerow(columns)
        cells = zip(*(column.tolist() for column in columns.values()), strict=True)
        sys.stdout.writelines(",".join(map(repr, row)) + "\n" for row in cells)
    if out is not None:
        outputs = f"{net.n_outputs} output{'' if net.n_outputs == 1 else 's'}"
        print_note(f"{len(predicted):,} predictions of {outputs} are in {out}.")


def _of_labels(predicted: Any, labels: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return probabilities of all classes, or means of counts."""
    from planted.fitting.likelihoods._families import find_likelihood

    law = find_likelihood(labels.likelihood)
    if not law.is_of_classes:
        return {name: column for name, column in zip(names, law.means(predicted).T, strict=True)}
    classes = labels.classes or tuple(range(predicted.shape[1] + 1))
    return {
        f"P({name})": column for name, column in zip(classes, law.probabilities(predicted).T, strict=True)
    }


def _refuse_other_columns(chosen: list[str], known: tuple[str, ...], network: Path) -> None:
    """Refuse columns other than those whose preparation the network keeps: it would not be repeated for them."""
    if set(split_names(chosen, known=known) or ()) != set(known):
        raise BadInputError(
            f"--features names other columns than {network} was made from, {', '.join(map(repr, known[:10]))}, and it keeps "
            "how these become its inputs. Call the columns of the table so, and leave --features out."
        )


def _with_bounds(
    columns: dict[str, Any], noise: tuple[float, float] | None, probability: float
) -> dict[str, Any]:
    """Add the bounds of each output behind it."""
    from planted.recovery._intervals import half_width

    if noise is None:
        raise BadInputError(
            "The file does not say how far outputs lie from their predictions: the network was not written by "
            "`planted recover`, or its samples had no noise, or too few of them were left to estimate it."
        )
    half = half_width(noise, probability)
    bounds: dict[str, Any] = {}
    for name, column in columns.items():
        bounds |= {name: column, f"{name}_low": column - half, f"{name}_high": column + half}
    if len(bounds) < 3 * len(columns):
        raise BadInputError("An output is called like the bound of another; rename it.")
    return bounds


def _answers(net: Any, rows: Any) -> Any:
    """Evaluate a network; rows with missing inputs have no answer."""
    import numpy as np

    gaps = np.isnan(rows).any(axis=1)
    if not gaps.any():
        return net(rows)
    print_note(
        f"{int(gaps.sum()):,} rows with missing inputs have no prediction (nan), as they had no part in the fit."
    )
    predicted = np.full((len(rows), net.n_outputs), np.nan)
    predicted[~gaps] = net(rows[~gaps])
    return predicted


def compare(
    first: NetworkArgument,
    second: NetworkArgument,
    tol: Annotated[
        float | None,
        typer.Option(
            help="Differences up to this part of an output's scale are none; if not given, only rounding (for an .onnx file "
            "1e-9). With a box: the absolute difference that is allowed."
        ),
    ] = None,
    box: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="LOW HIGH", help="Find and prove the largest difference for inputs in these bounds."
        ),
    ] = None,
    box_from: Annotated[
        Path | None,
        typer.Option(metavar="DATA", help="The same, in the ranges of the columns of a table of inputs."),
    ] = None,
    certified: Annotated[
        bool, typer.Option("--certified", help="Read the weights, also of .onnx files, and demand a proof.")
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Time for the bracket on a box (if not given, 60)."),
    ] = None,
    match: Annotated[
        bool,
        typer.Option("--match", help="Match the units: is one a rearranged or changed copy of the other?"),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Decide whether two networks are the same function. Exit code 0: equal; 1: different; 4: not decided.

    Networks are compared on their parameters; where one is an .onnx file, both are asked random questions. With a box the
    largest difference on it is found and proved, for ReLU networks of any depth.
    """
    from planted.networks import parameter_error
    from planted.reporting import to_plain

    if tol is not None:
        check_tolerance(tol)
    if match:
        _trace(first, second, as_json=as_json)
        return
    if certified or box is not None or box_from is not None:
        _compare_proved(first, second, box=box, box_from=box_from, tol=tol, budget=budget, as_json=as_json)
        return
    if budget is not None:
        raise BadInputError("--budget is for a box; give --box LOW HIGH or --box-from DATA.")
    if ".onnx" in (first.suffix.lower(), second.suffix.lower()):
        _compare_answers(first, second, tol=tol, as_json=as_json)
        return
    one, other = _two_layers(first), _two_layers(second)
    is_same_shape = (one.n_features, one.n_outputs) == (other.n_features, other.n_outputs)
    answer = compare_models(first, second, tol=tol)
    difference = parameter_error(one, other) if is_same_shape else float("inf")
    if as_json:
        facts = {"equal": answer.is_equal, "parameter_error": difference, "tol": tol}
        print(json.dumps(to_plain({**facts, "bound": answer.bound})))
    elif is_same_shape:
        line = f"  largest parameter difference {difference:.3g}"
        out_console().print(Text.assemble(_word(answer.is_equal), line))
        print_comparison(answer)
        print_tolerance(answer, tol, default="only rounding of 64-bit numbers")
    else:
        shapes = [f"{net.n_features} inputs and {net.n_outputs} outputs" for net in (one, other)]
        out_console().print(Text.assemble(_word(False), f"  one has {shapes[0]}, the other {shapes[1]}"))
    _exit(answer.is_equal)


def _two_layers(path: Path) -> TwoLayerNetwork:
    """Read a two-layer network from any file that holds its parameters."""
    from planted.networks import TwoLayerNetwork

    net = read_any_network(path)
    if not isinstance(net, TwoLayerNetwork):
        raise BadInputError(
            f"{path}: a network of {len(net.layers)} layers; without a box two-layer networks are compared. "
            "Give --box LOW HIGH."
        )
    return net


def verify(
    statement: Annotated[
        Path, typer.Argument(metavar="PROPERTY", help="A property in VNN-LIB (.vnnlib, .vnnlib.gz).")
    ],
    network: NetworkArgument,
    other: Annotated[
        Path | None, typer.Argument(metavar="NET", help="The second network, if the property has two.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Time limit (if not given, 60).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Decide a property of ReLU networks. Exit code 0: proved; 1: refuted by a counterexample; 4: not decided.

    The file describes a counterexample: bounds and linear constraints of inputs, linear constraints of outputs.
    """
    import planted

    nets = [read_any_network(path) for path in (network, other) if path is not None]
    answer = planted.verify(statement, *nets, budget_seconds=budget, random_state=0)
    if as_json:
        print(json.dumps(answer.to_dict()))
    else:
        words = {
            True: ("PROVED", "bold green"),
            False: ("REFUTED", "bold red"),
            None: ("NOT DECIDED", "bold yellow"),
        }
        console = out_console()
        console.print(Text(*words[answer.holds]))
        console.print(Text(answer.detail))
        for name, rows in (("inputs", answer.witness), ("outputs", answer.outputs)):
            for row in rows:
                console.print(Text(f"{name}: " + ", ".join(map(repr, row.tolist()))))
    _exit(answer.holds)


def _trace(first: Path, second: Path, *, as_json: bool) -> None:
    """Match the units of two networks and print how they are related; exit code 0 if one is a copy of the other."""
    from dataclasses import asdict

    from planted.verification import as_plain, trace_copy

    one, other = (as_plain(read_any_network(path)) for path in (first, second))
    found = trace_copy(one, other)
    if as_json:
        print(json.dumps({"relation": "other shape"} if found is None else asdict(found)))
    elif found is None:
        out_console().print(Text("OTHER SHAPE", "bold red"))
        out_console().print(
            Text(f"widths {one.widths} and {other.widths}, or other activations: not matched")
        )
    else:
        console = out_console()
        how = [
            word
            for word, is_so in (("permuted", found.is_permuted), ("rescaled", found.is_rescaled))
            if is_so
        ]
        console.print(Text(found.relation.upper(), "bold"), Text(", ".join(how)))
        console.print(
            Text(f"{found.share:.1%} of the hidden units are versions of a unit of the first network")
        )
        for place, (units, same, versions, distance) in enumerate(found.layers, start=1):
            counts = f"{units} units, {same} the same, {versions} versions of one"
            console.print(Text(f"layer {place}: {counts}, median distance {distance:.2g}"))
        console.print(Text(f"last layer: changed by {found.last_change:.2g} of its size"))
    if found is None or found.relation in ("partly related", "unrelated"):
        raise typer.Exit(1)


def _compare_proved(
    first: Path,
    second: Path,
    *,
    box: tuple[float, float] | None,
    box_from: Path | None,
    tol: float | None,
    budget: float | None,
    as_json: bool,
) -> None:
    """Bracket the largest difference and print it; without a box, two-layer networks are compared on their parameters."""
    import planted

    if box is not None and box_from is not None:
        raise BadInputError("--box and --box-from are two boxes; give one.")
    (one, columns), other = read_with_columns(first), read_any_network(second)
    limits: Any = box
    if box_from is not None:
        import numpy as np

        known, recipe = columns.get("features"), columns.get("recipe")
        rows = read_inputs(box_from, known=known, n_features=one.n_features, recipe=recipe)
        limits = (
            np.nanmin(rows, axis=0),
            np.nanmax(rows, axis=0),
        )  # rows with gaps that a recipe leaves out are NaN
    answer = planted.compare(
        one, other, tol=tol, random_state=0, budget_seconds=budget, box=limits, certified=True
    )
    if as_json:
        print(json.dumps({**answer.to_dict(), "equal": answer.is_equal, "tol": tol}))
    else:
        out_console().print(_word(answer.is_equal))
        print_comparison(answer)
    _exit(answer.is_equal)


def _compare_answers(first: Path, second: Path, *, tol: float | None, as_json: bool) -> None:
    """Ask both models and print what came of it."""
    from planted.identification._compare import ASKED_TOL

    answer = compare_models(first, second, tol=tol)
    if as_json:
        witness = None if answer.witness is None else answer.witness.tolist()
        facts = {"equal": answer.is_equal, "difference": answer.difference, "witness": witness, "tol": tol}
        print(json.dumps({**facts, "fraction": answer.fraction, "confidence": answer.confidence}))
    else:
        out_console().print(_word(answer.is_equal))
        print_comparison(answer)
        print_tolerance(answer, tol, default=f"{ASKED_TOL:g} of the scale of an output")
    _exit(answer.is_equal)


def print_tolerance(answer: Any, tol: float | None, *, default: str) -> None:
    """Print which differences count, and name the option if the two differ as rounding makes them."""
    said = default if tol is None else f"{tol:g} of the scale of an output"
    console = out_console()
    console.print(Text(f"tolerance: {said}", style="dim"))
    if answer.is_equal is False and tol is None and 0 < answer.difference < FLOAT32_DIFFERENCE:
        is_double = answer.difference < FLOAT64_DIFFERENCE
        bits, advice = (
            ("64-bit numbers in a computation", "for a network that was recovered give --tol 1e-9")
            if is_double
            else ("32-bit numbers", "for copies in single precision give --tol 1e-5")
        )
        console.print(
            Text(f"A difference of {answer.difference:.1g} is what rounding to {bits} makes; {advice}.")
        )


def _word(is_equal: bool | None) -> Text:
    """The answer in one word or two."""
    if is_equal is None:
        return Text("NOT DECIDED", "bold yellow")
    return Text("EQUAL", "bold green") if is_equal else Text("DIFFERENT", "bold red")


def _exit(is_equal: bool | None) -> None:
    """End with the exit code of the answer."""
    if not is_equal:
        raise typer.Exit(UNDECIDED if is_equal is None else 1)
