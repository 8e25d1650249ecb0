"""The `planted` command and what its exit codes mean.

0: the network was recovered (or the question was answered with yes); 1: it was not, and the reason was
printed; 2: bad input; 3: a fault of planted itself; 130: interrupted.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from planted._version import __version__
from planted.cli._console import LastingStream, print_error
from planted.cli._options import VariadicCommand, within_memory
from planted.cli.commands._bench import bench
from planted.cli.commands._demo import demo
from planted.cli.commands._diagnose import diagnose
from planted.cli.commands._doctor import doctor
from planted.cli.commands._memorize import fetch_mnist, memorize
from planted.cli.commands._methods import methods
from planted.cli.commands._networks import compare, predict, verify
from planted.cli.commands._queries import export, identify, simplify
from planted.cli.commands._recover import recover
from planted.cli.commands._reproduce import reproduce
from planted.cli.commands._simulate import simulate
from planted.cli.commands._sums import sums
from planted.outcomes import PlantedError, RecoveryError, shown

__all__ = ["app", "main"]

EXIT_NOT_RECOVERED, EXIT_BAD_INPUT, EXIT_FAULT, EXIT_INTERRUPTED = 1, 2, 3, 130
# Optional libraries and the extra that brings them.
EXTRAS = {
    "dask": "dask",
    "distributed": "dask",
    "jinja2": "report",
    "matplotlib": "report",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "pyarrow": "files",
    "torch": "torch",
}


class _Planted(TyperGroup):
    """A command group that turns exceptions into one clear line and an exit code."""

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Read the words of the command line; those that cannot be shown are escaped in the error."""
        try:
            return super().make_context(*args, **settings)
        except Exception as error:
            raise _with_words_shown(error) from error.__cause__

    def invoke(self, ctx: Any) -> Any:
        """Run the command; tracebacks are shown only with PLANTED_DEBUG=1."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, PlantedError, OSError, MemoryError) as error:
            if os.environ.get("PLANTED_DEBUG") == "1":
                raise
            raise typer.Exit(_explain(error, self._options_of(ctx))) from error
        except ModuleNotFoundError as error:
            library = str(error.name).partition(".")[0]
            if library not in EXTRAS:
                raise _fault(error) from error
            print_error(
                f"this needs {library}, which is not installed.",
                hint=f"Install it with: pip install 'planted[{EXTRAS[library]}]'",
            )
            raise typer.Exit(EXIT_BAD_INPUT) from error
        except Exception as error:
            if type(error).__module__.startswith(("typer", "click")):
                raise _with_words_shown(error) from error.__cause__
            raise _fault(error) from error

    def _options_of(self, ctx: Any) -> set[str] | None:
        """Return the options of the command that runs."""
        command = self.get_command(ctx, ctx.invoked_subcommand or "")
        return None if command is None else {name for option in command.params for name in option.opts}


def _with_words_shown(error: Exception) -> Exception:
    """Escape what the user typed in the message of an error of the parser."""
    if isinstance(getattr(error, "message", None), str):
        error.message = shown(error.message, keep="\n")  # type: ignore[attr-defined]
    return error


def _fault(error: Exception) -> typer.Exit:
    """Print that the fault is planted's own, and return the exception with the exit code."""
    if os.environ.get("PLANTED_DEBUG") == "1":
        raise error
    print_error(
        f"this is a fault of planted, not of your data: {type(error).__name__}: {error}",
        hint="Set PLANTED_DEBUG=1 to see where it happened, and please report it.",
    )
    return typer.Exit(EXIT_FAULT)


app = typer.Typer(
    name="planted",
    cls=_Planted,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find the network that made your data: not a network that fits it, the network, with the evidence.",
    epilog="Exit codes: 0 recovered, 1 not recovered (the reason is printed), 2 bad input, 3 a fault of planted, "
    "130 interrupted.\n\nStart with `planted demo`; `planted --install-completion` teaches your shell the commands.",
)
# Each command with the examples that end its help.
EXAMPLES: dict[Callable[..., None], tuple[str, ...]] = {
    demo: ("planted demo", "planted demo --seed 7 --out story.html"),
    recover: (
        "planted recover samples.csv --targets y1 y2 --out net.safetensors --report report.html",
        "planted recover samples.parquet --targets y1 --hidden 5 --seed 1 --json",
        "planted recover prices.csv.gz --targets price --exclude name --missing mean --accept fitted",
        "planted recover folder_of_parquet --targets y1 y2 --cluster tcp://127.0.0.1:8786 --checkpoint run --resume",
        "planted recover --sums a.sums b.sums",
    ),
    sums: ("planted sums part1.parquet --targets y1 y2 --out a.sums",),
    diagnose: (
        "planted diagnose samples.csv --targets y1 y2",
        "planted diagnose samples.npz --report page.html",
    ),
    methods: ("planted methods", "planted methods --json"),
    simulate: (
        "planted simulate samples.csv --samples 500 --seed 1 --truth truth.safetensors",
        "planted simulate samples.parquet --law exponential --noise 0.1",
    ),
    predict: ("planted predict net.safetensors new.csv --out predictions.csv",),
    compare: (
        "planted compare net.safetensors truth.safetensors",
        "planted compare reference.onnx deployed.onnx --tol 1e-5",
        "planted compare net.safetensors int8.onnx --box 0 1 --tol 0.01",
    ),
    verify: (
        "planted verify property.vnnlib model.onnx",
        "planted verify equal.vnnlib model.onnx copy.onnx --budget 100 --json",
    ),
    identify: (
        "planted identify model.onnx --budget 20000 --out net.safetensors",
        "planted identify --inputs 3 -- python model.py",
        "planted identify --inputs 3 --alive -- python model.py",
    ),
    export: (
        "planted export net.safetensors --out net.onnx",
        "planted export net.safetensors --to c --out net.h",
        "planted export net.safetensors --to onnx --precision float32 --check 1e-3 --box 0 1",
    ),
    simplify: ("planted simplify net.safetensors --out small.safetensors",),
    memorize: (
        "planted memorize digits --rows 500 --seed 0",
        "planted memorize table.csv --targets label --layers 3 --out net.safetensors",
    ),
    fetch_mnist: ("planted fetch-mnist mnist", "planted memorize mnist --data mnist"),
    reproduce: ("planted reproduce", "planted reproduce symmetric-inputs --figure 2 --quick --out figures"),
    doctor: ("planted doctor", "planted doctor --json"),
    bench: ("planted bench --quick", "planted bench --only queries", "planted bench --collect --json"),
}
READING = {recover, sums, diagnose, predict, compare, verify, identify, export, simplify, memorize}
VARIADIC = {recover, sums, diagnose, predict, memorize}
for command, examples in EXAMPLES.items():
    kind = VariadicCommand if command in VARIADIC else TyperCommand
    lines = "\n\n".join(("Examples:", *(f"$ {line}" for line in examples)))
    app.command(cls=kind, epilog=lines)(within_memory(command) if command in READING else command)


def main() -> None:
    """Run the command line; the entry point of the `planted` script.

    Files are written before anything is printed, so a reader that goes away (``| head``) or a closed stream changes neither
    the files nor the exit code. Results that could not be printed for another reason, such as a full disk, are code 2.
    """
    sys.stdout, sys.stderr = LastingStream(_own_stdout()), LastingStream(sys.stderr)
    code: Any = 0
    try:
        app(prog_name="planted")
    except SystemExit as ended:
        code = ended.code
    except OSError as error:
        code = _explain(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        sys.stdout = LastingStream(None)
        code = _explain(error)
    sys.exit(code)


def _own_stdout() -> TextIO | None:
    """Return a stream to stdout for planted alone, and lead that of the process to nowhere.

    HiGHS prints a line of its own there at times ("HighsMipSolverData::transformNewIntegerFeasibleSolution"), whatever it
    is told, in the middle of an answer that another program may read.
    """
    stream = sys.__stdout__
    if stream is None or sys.stdout is not stream:
        return sys.stdout
    try:
        own = os.dup(stream.fileno())
    except (OSError, ValueError):  # closed
        return stream
    stream.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    return open(  # until the process ends
        own, "w", encoding=stream.encoding, errors=stream.errors, buffering=1 if stream.line_buffering else -1
    )


def _print_version(value: bool) -> None:
    """Print the version and end."""
    if value:
        print(f"planted {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Options that stand before a command."""


def _explain(error: BaseException, options: set[str] | None = None) -> int:
    """Print what went wrong in one line and return the exit code for it; `options`: those of the command."""
    if isinstance(error, KeyboardInterrupt):
        print_error("interrupted; nothing was written that is not complete.")
        return EXIT_INTERRUPTED
    if isinstance(error, MemoryError):
        print_error(f"not enough memory. {error}".strip(), hint="Use fewer rows or columns.")
        return EXIT_BAD_INPUT
    if isinstance(error, OSError):
        print_error(f"{error.strerror or error}{'' if error.filename is None else f': {error.filename}'}")
        return EXIT_BAD_INPUT
    print_error(str(error) if options is None else _with_known_advice(str(error), options))
    return EXIT_NOT_RECOVERED if isinstance(error, RecoveryError) else EXIT_BAD_INPUT


def _with_known_advice(message: str, options: set[str]) -> str:
    """Leave out sentences of advice that name an option which the command does not have; readers know all commands.

    Examples
    --------
    >>> _with_known_advice("a.csv holds 'x'. Leave it out (--exclude). Choose with --features.", {"--features"})
    "a.csv holds 'x'. Choose with --features."
    """
    what, *advice = re.split(r"(?<=[.?]) (?=[A-Z])", message)
    known = [
        sentence for sentence in advice if set(re.findall(r"(?<!\S)\(?(--[a-z][a-z-]+)", sentence)) <= options
    ]
    return " ".join([what, *known])
