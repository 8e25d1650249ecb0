"""Options that several commands share, and the reading of `--targets a b`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from planted.outcomes import BadInputError

__all__ = [
    "ActivationOption",
    "DataArgument",
    "FeaturesOption",
    "SeedOption",
    "TargetsOption",
    "VariadicCommand",
    "check_folder",
    "check_tolerance",
    "parse_hidden",
    "split_names",
]

VARIADIC = ("--targets", "--features")

DataArgument = Annotated[
    Path, typer.Argument(metavar="DATA", help="A .csv, .parquet, .feather, .npy or .npz file.")
]
TargetsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--targets",
        metavar="NAME...",
        help="Target columns: a b, or a,b (if not given, the last column or the array Y).",
    ),
]
FeaturesOption = Annotated[
    list[str] | None,
    typer.Option("--features", metavar="NAME...", help="Input columns (if not given, all others)."),
]
ActivationOption = Annotated[
    str, typer.Option(help="relu, leaky-relu:SLOPE, power:P, absolute or quadratic.")
]
SeedOption = Annotated[
    int | None, typer.Option(metavar="N", help="Seed; the same seed gives the same result.")
]


class VariadicCommand(TyperCommand):
    """A command whose `--targets` and `--features` take one or more names each."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rewrite ``--targets a b`` as ``--targets a --targets b`` before parsing."""
        takes_value = {
            name for option in self.params for name in option.opts if name[:1] == "-" and not _is_flag(option)
        }
        n_arguments = sum(option.param_type_name == "argument" for option in self.params)
        return list(super().parse_args(ctx, _expand(args, takes_value, n_arguments)))


def _is_flag(option: Any) -> bool:
    """Whether an option stands alone."""
    return bool(getattr(option, "is_flag", False) or getattr(option, "count", False))


def _expand(args: list[str], takes_value: set[str], n_arguments: int) -> list[str]:
    """Repeat the name of a variadic option before each of its values.

    Values end at the next option. Arguments that come after the values, as in ``--targets a b data.csv``,
    are told by what is missing: as many trailing values as the command still lacks arguments are arguments.
    """
    fixed: list[str] = []
    groups: list[tuple[str, list[str]]] = []
    n_found, place = 0, 0
    while place < len(args):
        token = args[place]
        place += 1
        if token in VARIADIC:
            values: list[str] = []
            while place < len(args) and not args[place].startswith("-"):
                values.append(args[place])
                place += 1
            groups.append((token, values))
        elif token == "--":
            n_found += len(args) - place
            fixed += args[place - 1 :]
            break
        else:
            fixed.append(token)
            if token in takes_value and place < len(args):
                fixed.append(args[place])
                place += 1
            elif not token.startswith("-"):
                n_found += 1
    trailing = _trailing_arguments(groups, n_arguments - n_found)
    repeated = [part for name, values in groups for part in _repeat(name, values)]
    return repeated + trailing + fixed


def _trailing_arguments(groups: list[tuple[str, list[str]]], n_missing: int) -> list[str]:
    """Take the arguments that were swallowed by variadic options out of them, last group first."""
    taken: list[str] = []
    for _, values in reversed(groups):
        while n_missing > 0 and len(values) > 1:
            taken.insert(0, values.pop())
            n_missing -= 1
    return taken


def _repeat(name: str, values: list[str]) -> list[str]:
    """``name value`` for each value; the bare name when there is none, so that the parser can complain."""
    return [part for value in values for part in (name, value)] or [name]


def split_names(names: list[str] | None, *, known: tuple[str, ...] | None = None) -> list[str] | None:
    """Split ``a,b`` into two names, unless a column is really called that."""
    if not names:
        return None
    parts: list[str] = []
    for name in names:
        is_whole = "," not in name or (known is not None and name in known)
        parts += [name] if is_whole else [part.strip() for part in name.split(",") if part.strip()]
    return parts


def parse_hidden(text: str) -> int | str:
    """Return the number of hidden units, or ``"auto"``."""
    if text == "auto":
        return text
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise BadInputError(f"--hidden is {text!r}; expected 'auto' or a number of at least 1.")
    return count


def check_folder(path: Path | None) -> None:
    """Refuse an output path before the work, not after it."""
    if path is None:
        return
    if path.is_dir():
        raise BadInputError(f"{path} is a folder; expected the name of a file to write.")
    if not path.parent.is_dir():
        raise BadInputError(f"there is no folder {path.parent} to write {path.name} into. Create it first.")


def check_tolerance(tol: float) -> None:
    """Refuse a tolerance that decides nothing."""
    if not 0 <= tol < float("inf"):
        raise BadInputError(f"--tol is {tol}; expected a number that is not negative.")
