"""The `planted` command and what its exit codes mean.

0: the network was recovered (or the question was answered with yes); 1: it was not, and the reason was
printed; 2: bad input; 3: a fault of planted itself; 130: interrupted.
"""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from planted._version import __version__
from planted.cli._console import print_error
from planted.cli._demo import demo
from planted.cli._diagnose import diagnose
from planted.cli._memorize import fetch_mnist, memorize
from planted.cli._networks import compare, predict
from planted.cli._options import VariadicCommand
from planted.cli._queries import export, identify, simplify
from planted.cli._recover import recover
from planted.cli._reproduce import reproduce
from planted.cli._simulate import simulate
from planted.outcomes import PlantedError, RecoveryError

__all__ = ["app", "main"]

EXIT_NOT_RECOVERED, EXIT_BAD_INPUT, EXIT_FAULT, EXIT_INTERRUPTED = 1, 2, 3, 130


class _Planted(TyperGroup):
    """A command group that turns exceptions into one clear line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; tracebacks are shown only with PLANTED_DEBUG=1."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, PlantedError, OSError, MemoryError) as error:
            if os.environ.get("PLANTED_DEBUG") == "1" or isinstance(error, BrokenPipeError):
                raise
            raise typer.Exit(_explain(error)) from error
        except Exception as error:
            if os.environ.get("PLANTED_DEBUG") == "1" or type(error).__module__.startswith(
                ("typer", "click")
            ):
                raise
            print_error(
                f"this is a fault of planted, not of your data: {type(error).__name__}: {error}",
                hint="Set PLANTED_DEBUG=1 to see where it happened, and please report it.",
            )
            raise typer.Exit(EXIT_FAULT) from error


app = typer.Typer(
    name="planted",
    cls=_Planted,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find the network that made your data: not a network that fits it, the network, with the evidence.",
    epilog="Exit codes: 0 recovered, 1 not recovered (the reason is printed), 2 bad input, 130 interrupted.",
)
app.command()(demo)
app.command(cls=VariadicCommand)(recover)
app.command(cls=VariadicCommand)(diagnose)
app.command()(simulate)
app.command(cls=VariadicCommand)(predict)
app.command()(compare)
app.command()(identify)
app.command()(export)
app.command()(simplify)
app.command(cls=VariadicCommand)(memorize)
app.command()(fetch_mnist)
app.command()(reproduce)


def main() -> None:
    """Run the command line; the entry point of the `planted` script."""
    app(prog_name="planted")


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


def _explain(error: BaseException) -> int:
    """Print what went wrong in one line and return the exit code for it."""
    if isinstance(error, KeyboardInterrupt):
        print_error("interrupted; nothing was written that is not complete.")
        return EXIT_INTERRUPTED
    if isinstance(error, MemoryError):
        print_error(f"not enough memory. {error}".strip(), hint="Use fewer rows or columns.")
        return EXIT_BAD_INPUT
    if isinstance(error, OSError):
        print_error(f"{error.strerror or error}{'' if error.filename is None else f': {error.filename}'}")
        return EXIT_BAD_INPUT
    print_error(str(error))
    return EXIT_NOT_RECOVERED if isinstance(error, RecoveryError) else EXIT_BAD_INPUT
