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
    "MethodOption",
    "SeedOption",
    "TargetsOption",
    "VariadicCommand",
    "check_folder",
    "check_tolerance",
    "parse_hidden",
    "split_names",
]

VARIADIC = ("--targets", "--features", "--sums")


def complete_method(incomplete: str) -> list[str]:
    """Offer the names of methods to the shell."""
    from planted.recovery import methods

    return [name for name in ("auto", *methods()) if name.startswith(incomplete)]


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
MethodOption = Annotated[str, typer.Option(help="Name of a method, or auto.", autocompletion=complete_method)]
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
        # Sums stand in the place of DATA: no value of a variadic option is meant as an argument.
        n_arguments = sum(option.param_type_name == "argument" for option in self.params) - ("--sums" in args)
        return list(super().parse_args(ctx, _expand(args, takes_value, n_arguments)))


def _is_flag(option: Any) -> bool:
    """Whether an option stands alone."""
    return bool(getattr(option, "is_flag", False) or getattr(option, "count", False))


def _expand(args: list[str], takes_value: set[str], n_arguments: int) -> list[str]:
    """Repeat the name of a variadic option before each of its values.

    Values end at the next option. Arguments that come after the values, as in ``--targets a b data.csv``,
    are found by counting: the last values are arguments, as many as the command still lacks.
    """
    pieces, n_found = _cut(args, takes_value)
    n_missing = n_arguments - n_found
    expanded: list[str] = []
    for name, words in reversed(pieces):
        if not name:
            expanded = words + expanded
            continue
        if not words:
            raise BadInputError(f"{name} needs at least one name after it.")
        n_swallowed = max(min(n_missing, len(words) - 1), 0)
        n_missing -= n_swallowed
        values, swallowed = words[: len(words) - n_swallowed], words[len(words) - n_swallowed :]
        expanded = [part for value in values for part in (name, value)] + swallowed + expanded
    return expanded


def _cut(args: list[str], takes_value: set[str]) -> tuple[list[tuple[str, list[str]]], int]:
    """Cut into variadic options, each with its words, and other pieces, without a name; count the arguments in these."""
    pieces: list[tuple[str, list[str]]] = []
    n_found, place = 0, 0
    while place < len(args):
        token, place = args[place], place + 1
        if token in VARIADIC:
            end = next((i for i in range(place, len(args)) if args[i].startswith("-")), len(args))
            pieces.append((token, args[place:end]))
        elif token == "--":
            end = len(args)
            pieces.append(("", args[place - 1 :]))
            n_found += end - place
        else:
            end = min(place + (token in takes_value), len(args))
            pieces.append(("", args[place - 1 : end]))
            n_found += not token.startswith("-")
        place = end
    return pieces, n_found


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
    """Refuse a tolerance that is negative or not finite."""
    if not 0 <= tol < float("inf"):
        raise BadInputError(f"--tol is {tol}; expected a number that is not negative.")
