"""`planted identify`, `export` and `simplify`: read a model by asking it, and write networks for other programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from planted.cli._console import out_console, print_note, progress_bar, spoken_warnings
from planted.cli._options import ForceOption, SeedOption, check_tolerance, check_written
from planted.cli.commands._recover import print_verdict, write_results
from planted.outcomes import BadInputError, FileFormatError, Outcome, shown

if TYPE_CHECKING:
    from planted.identification import Comparison
    from planted.networks import DeepNetwork, TwoLayerNetwork
    from planted.results import Recovery

__all__ = ["compare_models", "export", "identify", "print_comparison", "read_any_network", "simplify"]

UNDECIDED = 4  # exit code if neither "equal" nor "different" is proved
SUFFIXES = {
    "onnx": ".onnx",
    "torch": ".torch.safetensors",
    "json": ".json",
    "numpy": ".py",
    "c": ".h",
    "planted": ".planted.safetensors",
}
FORMATS = "|".join(SUFFIXES)


def complete_format(incomplete: str) -> list[str]:
    """Offer the formats to the shell."""
    return [name for name in FORMATS.split("|") if name.startswith(incomplete)]


def identify(
    model: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="An .onnx file; or, after --, a command that reads CSV rows and writes CSV answers.",
        ),
    ],
    inputs: Annotated[
        int | None, typer.Option(metavar="N", help="Number of inputs, where the model does not tell.")
    ] = None,
    alive: Annotated[
        bool,
        typer.Option(
            "--alive",
            help="Start the command once and ask it line by line; it must answer each line at once.",
        ),
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="How long a command may take for a batch, or be silent."),
    ] = 60.0,
    depth: Annotated[
        str, typer.Option(metavar="N|auto", help="Number of hidden layers, where it is known.")
    ] = "auto",
    budget: Annotated[int | None, typer.Option(metavar="N", help="Most questions to ask.")] = None,
    budget_seconds: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Time limit; what is certain by then is printed."),
    ] = None,
    box: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="LOW HIGH", help="Bounds that every input must keep."),
    ] = None,
    scale: Annotated[float, typer.Option(help="Size of typical inputs, if there are no bounds.")] = 1.0,
    repeats: Annotated[int, typer.Option(help="Above 1: noisy answers, each question asked so often.")] = 1,
    outputs: Annotated[
        str, typer.Option(metavar="NAME", help="Output of the .onnx file to ask, where it has several.")
    ] = "auto",
    activation: Annotated[
        str, typer.Option(help="relu (leaky units are found too), or a curved one: tanh, sigmoid, gelu, ...")
    ] = "relu",
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep questions and answers here; resume from it.")
    ] = None,
    seed: SeedOption = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the network (.safetensors).")
    ] = None,
    out_partial: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the layers that are certain (.safetensors), if it ends early."
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report (.html).")] = None,
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Read the network behind a model back by asking it.

    Exit code 0: this is the network. 1: the model is something else or could not be read, and the reason is printed.
    """
    files = (
        ("--out", out, "network"),
        ("--out-partial", out_partial, "network"),
        ("--report", report, "report"),
        ("--log", log, "log"),
    )
    check_written(*files, inputs=model, force=force)
    import planted
    from planted.reporting import outline, summarise

    is_file = len(model) == 1 and model[0].lower().endswith(".onnx")
    if len(model) == 1 and model[0].lower().endswith((".safetensors", ".json")):
        raise BadInputError(
            f"{model[0]} holds the weights already; `planted export` and `planted simplify` read them."
        )
    if alive and is_file:
        raise BadInputError("--alive is for a command, after --; an .onnx file is loaded once anyway.")
    with (
        progress_bar("asking") as progress,
        spoken_warnings(),
        _opened(model, is_file, alive, timeout, budget_seconds) as oracle,
    ):
        record = planted.identify(
            oracle,
            inputs,
            depth=int(depth) if depth.isdecimal() else depth,
            budget=budget,
            box=box,
            scale=scale,
            repeats=repeats,
            outputs=outputs,
            activation=activation,
            log=log,
            random_state=seed,
            progress=progress,
            budget_seconds=budget_seconds,
        )
    summary = outline(record) if report is None else summarise(record)
    notes = write_results(record, summary, {}, out=out, report=report) + _write_partial(record, out_partial)
    if as_json:
        print(json.dumps(summary.record, allow_nan=False))
    else:
        print_verdict(out_console(), summary)
    for note in notes:
        print_note(note)
    if record.outcome is not Outcome.RECOVERED:
        raise typer.Exit(1)


@contextmanager
def _opened(
    model: list[str], is_file: bool, alive: bool, timeout: float, seconds: float | None
) -> Iterator[Any]:
    """Give what is to be asked: a file, a command that is started for each batch, or one that is kept running."""
    if is_file:
        yield model[0]
        return
    from planted.identification._oracles import as_oracle, live_command

    limit = timeout if seconds is None else min(timeout, max(seconds, 1.0))
    if not alive:
        yield as_oracle(model, timeout=limit)
        return
    with live_command(model, timeout=limit) as oracle:
        yield oracle


def _write_partial(record: Recovery, path: Path | None) -> list[str]:
    """Write the certain layers of a reading that ended early; its outputs are the units of the last of them."""
    if path is None:
        return []
    import numpy as np

    from planted.networks import DeepNetwork

    layers = [
        (np.array(layer["W"]), np.array(layer["b"])) for layer in record.stats.get("certain_layers", [])
    ]
    if not layers:
        return [f"There is no part of a network to write; {path} was not touched."]
    width = len(layers[-1][1])
    DeepNetwork([*layers, (np.eye(width), np.zeros(width))]).save(path)
    return [
        f"The {len(layers)} hidden layer(s) that are certain are in {path}; the outputs are the {width} units."
    ]


def export(
    network: Annotated[Path, typer.Argument(metavar="NET", help="A network: .safetensors, .onnx or .json.")],
    to: Annotated[
        str | None,
        typer.Option(
            metavar=FORMATS,
            help="Format to write (if not given, that of the name of --out).",
            autocompletion=complete_format,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write (if not given, beside NET).")
    ] = None,
    precision: Annotated[
        str, typer.Option(metavar="float64|float32", help="Precision, for onnx, torch and c.")
    ] = "float64",
    check: Annotated[
        float | None,
        typer.Option(metavar="TOL", help="Prove whether rounded copies differ by at most TOL; needs --box."),
    ] = None,
    box: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="LOW HIGH", help="Bounds of the inputs, for --check."),
    ] = None,
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write a network for another program: ONNX, PyTorch state, JSON, NumPy code or a C99 header.

    With --check, copies in float32, float16 and int8 are compared with the network, with proof; exit code 1 if the precision
    that was written is proved to differ by more, 4 if that is not decided.
    """
    to = _format_named(out) if to is None else to
    if to not in SUFFIXES:
        raise BadInputError(f"--to is {to!r}; expected one of {', '.join(SUFFIXES)}.")
    if (check is None) != (box is None):
        raise BadInputError("--check TOL and --box LOW HIGH go together.")
    if check is not None:
        check_tolerance(check)
    target = out or network.with_suffix(SUFFIXES[to])
    check_written(("--out", target, to), inputs=[network], force=force)
    import planted

    net, columns = read_with_columns(network)
    recipe = columns.get("recipe")
    if recipe is not None and to != "planted":
        columns = {"features": recipe.inputs, "targets": recipe.targets}
        print_note(
            f"The preparation of the columns is not part of {to}: its inputs are {', '.join(recipe.inputs[:8])}."
        )
    names = columns if to in ("json", "planted") else {}
    written = planted.export_network(net, target, to=to, precision=precision, **names)
    copies = {} if check is None else _check_copies(net, check, box)
    if as_json:
        facts = {"out": str(target), "format": to, "precision": precision}
        checked = {"copies": {kind: answer.to_dict() for kind, answer in copies.items()}} if copies else {}
        print(json.dumps({**facts, "largest_difference": written.largest_difference, **checked}))
        _exit_with(copies.get(precision))
        return
    print(shown(target))
    for kind, answer in copies.items():
        word = {True: "yes", False: "NO", None: "not decided"}[answer.is_equal]
        ends = f"found {answer.difference:.3g}, proved {answer.bound:.3g}"
        out_console().print(Text(f"{kind:<17} within {check:g}: {word}  ({ends})"))
    if written.largest_difference:
        print_note(
            f"Rounding to {precision} changes outputs by up to {written.largest_difference:.2g} of their spread on standard "
            "normal inputs."
        )
    _exit_with(copies.get(precision))


def _format_named(out: Path | None) -> str:
    """Return the format that the name of a file stands for."""
    if out is None:
        raise BadInputError(f"give --to FORMAT or --out FILE; formats are {', '.join(SUFFIXES)}.")
    for name, suffix in SUFFIXES.items():
        if out.name.lower().endswith(suffix):
            return name
    if out.suffix.lower() == ".safetensors":
        raise BadInputError(f"--out {shown(out)}: say what it holds with --to torch or --to planted.")
    raise BadInputError(
        f"--out {shown(out)}: the name stands for no format; give --to, or a name that ends with "
        f"{', '.join(SUFFIXES.values())}."
    )


def _check_copies(net: Any, tol: float, box: tuple[float, float] | None) -> dict[str, Comparison]:
    """Compare a network with rounded copies of itself on a box, with proof."""
    import planted
    from planted.verification import KINDS, as_plain, rounded_copy

    plain = as_plain(net)
    return {
        kind: planted.compare(plain, rounded_copy(plain, kind), box=box, tol=tol, random_state=0)
        for kind in KINDS
    }


def _exit_with(answer: Comparison | None) -> None:
    """End with the exit code of a comparison, if there is one."""
    if answer is not None and not answer.is_equal:
        raise typer.Exit(UNDECIDED if answer.is_equal is None else 1)


def simplify(
    network: Annotated[Path, typer.Argument(metavar="NET", help="A network: .safetensors, .onnx or .json.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the smaller network (.safetensors).")
    ] = None,
    tol: Annotated[float, typer.Option(help="Hyperplanes that differ by less are the same.")] = 1e-10,
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Reduce a network to its smallest equal and say what became of its units."""
    check_written(("--out", out, "network"), inputs=[network], force=force)
    check_tolerance(tol)
    from planted.identification import simplify as reduce_network
    from planted.io import save_network
    from planted.networks import DeepNetwork

    net, columns = read_with_columns(network)
    if isinstance(net, DeepNetwork):
        _simplify_deep(net, columns, out=out, tol=tol, as_json=as_json)
        return
    found = reduce_network(net, tol=tol)
    if out is not None:
        save_network(found.network, out, **columns)
    parts = {"dropped": found.dropped, "merged": found.merged, "cancelled": found.cancelled}
    counts = {"units_before": net.n_hidden, "units_after": found.network.n_hidden}
    if as_json:
        print(json.dumps({**counts, **parts, "equal": found.is_equal}))
    else:
        console = out_console()
        console.print(Text(f"{net.n_hidden} units before, {found.network.n_hidden} after.", style="bold"))
        for word, units in parts.items():
            if units:
                console.print(Text(f"{word}: {', '.join(map(str, units))}"))
        proof = "proved on the parameters" if found.is_equal else "NOT proved: try another --tol"
        console.print(Text(f"Equality of the two functions: {proof}."))
    if out is not None:
        print_note(f"The network is in {out}.")
    if not found.is_equal:
        raise typer.Exit(1)


def _simplify_deep(
    net: DeepNetwork, columns: dict[str, Any], *, out: Path | None, tol: float, as_json: bool
) -> None:
    """Reduce a network of several hidden layers; every step keeps the function, layer by layer."""
    from planted.io import save_network

    found = net.simplify(tol=tol)
    if out is not None:
        save_network(found, out, **columns)
    before, after = ("-".join(map(str, each.widths)) for each in (net, found))
    if as_json:
        counts = {"units_before": net.n_hidden, "units_after": found.n_hidden}
        print(json.dumps({**counts, "widths_before": net.widths, "widths_after": found.widths}))
    else:
        text = f"{net.n_hidden} units before ({before}), {found.n_hidden} after ({after})."
        out_console().print(Text(text, style="bold"))
    if out is not None:
        print_note(f"The network is in {out}.")


def compare_models(first: Path, second: Path, *, tol: float | None) -> Comparison:
    """Compare two models; an .onnx file is only asked."""
    import planted

    one, other = (
        str(path) if path.suffix.lower() == ".onnx" else read_any_network(path) for path in (first, second)
    )
    return planted.compare(one, other, tol=tol, random_state=0)


def print_comparison(answer: Comparison) -> None:
    """Print where two models differ: the witness and the units."""
    console = out_console()
    console.print(Text(str(answer)))
    if answer.witness is not None:
        console.print(Text("witness: " + ", ".join(map(repr, answer.witness.tolist()))))
    for one, other in answer.units[:10]:
        names = ["no unit" if index < 0 else f"unit {index + 1}" for index in (one, other)]
        console.print(Text(f"{names[0]} of the first against {names[1]} of the second"))
    if len(answer.units) > 10:
        console.print(Text(f"… and {len(answer.units) - 10} more"))


def read_any_network(path: Path) -> TwoLayerNetwork | DeepNetwork:
    """Read a network from any file that holds its parameters."""
    from planted.io import import_network

    return import_network(path)


def read_with_columns(path: Path) -> tuple[TwoLayerNetwork | DeepNetwork, dict[str, Any]]:
    """Read a network from any file that holds its parameters, with the names of its columns where the file has them."""
    from planted.io import load_with_columns

    net = read_any_network(path)
    try:
        saved = load_with_columns(path)
    except FileFormatError:  # of another program, which keeps no names
        return net, {}
    if saved.recipe is not None:
        return net, {"recipe": saved.recipe}
    return net, {"features": saved.features, "targets": saved.targets}
