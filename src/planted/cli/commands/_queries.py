"""`planted identify`, `export` and `simplify`: read a model by asking it, and write networks for other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from planted.cli._console import out_console, print_note, progress_bar, spoken_warnings
from planted.cli._files import write_page
from planted.cli._options import SeedOption, check_folder, check_tolerance
from planted.cli.commands._recover import print_verdict
from planted.outcomes import BadInputError, Outcome

if TYPE_CHECKING:
    from planted.identification import Comparison
    from planted.networks import TwoLayerNetwork

__all__ = ["compare_models", "export", "identify", "print_comparison", "read_any_network", "simplify"]

FORMATS = "onnx|torch|json|numpy|c|planted"


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
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep questions and answers here; resume from it.")
    ] = None,
    seed: SeedOption = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the network (.safetensors).")
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report (.html).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Read the network behind a model back by asking it.

    Exit code 0: this is the network. 1: the model is something else or could not be read, and the reason is printed.
    """
    for path in (out, report, log):
        check_folder(path)
    import planted
    from planted.reporting import summarise

    oracle: Any = model[0] if len(model) == 1 and model[0].lower().endswith(".onnx") else model
    with progress_bar("asking") as progress, spoken_warnings():
        record = planted.identify(
            oracle,
            inputs,
            budget=budget,
            box=box,
            scale=scale,
            repeats=repeats,
            log=log,
            random_state=seed,
            progress=progress,
            budget_seconds=budget_seconds,
        )
    summary = summarise(record)
    if as_json:
        print(json.dumps(summary.record, allow_nan=False))
    else:
        print_verdict(out_console(), summary)
    if out is not None and record.network is not None:
        record.network.save(out)
        print_note(f"The network is in {out}.")
    elif out is not None:
        print_note(f"There is no network to write; {out} was not touched.")
    if report is not None:
        write_page(report, summary.html())
        print_note(f"The report is in {report}.")
    if record.outcome is not Outcome.RECOVERED:
        raise typer.Exit(1)


def export(
    network: Annotated[Path, typer.Argument(metavar="NET", help="A network: .safetensors, .onnx or .json.")],
    to: Annotated[
        str, typer.Option(metavar=FORMATS, help="Format to write.", autocompletion=complete_format)
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write (if not given, beside NET).")
    ] = None,
    precision: Annotated[
        str, typer.Option(metavar="float64|float32", help="Precision, for onnx, torch and c.")
    ] = "float64",
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write a network for another program: ONNX, PyTorch state, JSON, NumPy code or a C99 header."""
    suffixes = {"onnx": ".onnx", "torch": ".torch.safetensors", "json": ".json", "numpy": ".py", "c": ".h"}
    suffixes["planted"] = ".planted.safetensors"
    if to not in suffixes:
        raise BadInputError(f"--to is {to!r}; expected one of {', '.join(suffixes)}.")
    target = out or network.with_suffix(suffixes[to])
    check_folder(target)
    import planted

    written = planted.export_network(read_any_network(network), target, to=to, precision=precision)
    if as_json:
        facts = {"out": str(target), "format": to, "precision": precision}
        print(json.dumps({**facts, "largest_difference": written.largest_difference}))
        return
    print(target)
    if written.largest_difference:
        print_note(
            f"Rounding to {precision} changes outputs by up to {written.largest_difference:.2g} of their spread on standard "
            "normal inputs."
        )


def simplify(
    network: Annotated[Path, typer.Argument(metavar="NET", help="A network: .safetensors, .onnx or .json.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the smaller network (.safetensors).")
    ] = None,
    tol: Annotated[float, typer.Option(help="Hyperplanes that differ by less are the same.")] = 1e-10,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Reduce a network to its smallest equal and say what became of its units."""
    check_folder(out)
    check_tolerance(tol)
    from planted.identification import simplify as reduce_network

    net = read_any_network(network)
    found = reduce_network(net, tol=tol)
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
        found.network.save(out)
        print_note(f"The network is in {out}.")
    if not found.is_equal:
        raise typer.Exit(1)


def compare_models(first: Path, second: Path, *, tol: float) -> Comparison:
    """Compare two models of which one at least can only be asked."""
    import planted

    one, other = (
        str(path) if path.suffix.lower() == ".onnx" else read_any_network(path) for path in (first, second)
    )
    return planted.compare(one, other, tol=tol, random_state=0)


def print_comparison(answer: Comparison) -> None:
    """Print where two models differ: the witness and the units."""
    console = out_console()
    console.print(Text(answer.detail))
    if answer.witness is not None:
        console.print(Text("witness: " + ", ".join(map(repr, answer.witness.tolist()))))
    for one, other in answer.units[:10]:
        names = ["no unit" if index < 0 else f"unit {index}" for index in (one, other)]
        console.print(Text(f"{names[0]} of the first against {names[1]} of the second"))
    if len(answer.units) > 10:
        console.print(Text(f"… and {len(answer.units) - 10} more"))


def read_any_network(path: Path) -> TwoLayerNetwork:
    """Read a network from any file that holds its parameters."""
    from planted.io import import_network

    return import_network(path)
