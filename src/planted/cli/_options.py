"""Options that several commands share, and the reading of `--targets a b`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from planted.outcomes import BadInputError

__all__ = [
    "ActivationOption",
    "AffineOption",
    "CategoriesOption",
    "DataArgument",
    "DecimalOption",
    "EffortOption",
    "ExcludeOption",
    "FeaturesOption",
    "ForceOption",
    "LikelihoodOption",
    "MethodOption",
    "MethodOptions",
    "MissingOption",
    "NoiseOption",
    "ObjectiveOption",
    "RuleOption",
    "SeedOption",
    "TargetsOption",
    "VariadicCommand",
    "VariantOption",
    "WarmStartOption",
    "check_tolerance",
    "check_written",
    "parse_hidden",
    "read_method_options",
    "split_names",
    "within_memory",
]

VARIADIC = ("--targets", "--features", "--exclude", "--categories", "--sums")


def complete_method(incomplete: str) -> list[str]:
    """Offer the names of methods to the shell."""
    from planted.recovery import methods

    return [name for name in ("auto", *methods()) if name.startswith(incomplete)]


DataArgument = Annotated[
    Path,
    typer.Argument(metavar="DATA", help="A .csv, .tsv (or .csv.gz), .parquet, .feather, .npy or .npz file."),
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
ExcludeOption = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="NAME...", help="Columns to leave out."),
]
CategoriesOption = Annotated[
    list[str] | None,
    typer.Option("--categories", metavar="NAME...", help="Columns of numbers that are names of categories."),
]
MissingOption = Annotated[
    str,
    typer.Option(
        metavar="refuse|drop|mean",
        help="Rows with missing inputs: refuse them, leave them out, or fill in the mean and say where.",
    ),
]
DecimalOption = Annotated[
    str, typer.Option(metavar="point|comma", help="The decimal mark of a text file: 1.5 or 1,5.")
]
ActivationOption = Annotated[
    str,
    typer.Option(
        help="relu, leaky-relu[:SLOPE], absolute, power:P, quadratic, tanh, sigmoid, softplus, gelu, silu, elu, or auto."
    ),
]
LikelihoodOption = Annotated[
    str,
    typer.Option(
        metavar="gaussian|logistic|multinomial|poisson",
        help="Law of the target: numbers; two classes; several classes; counts.",
    ),
]
MethodOption = Annotated[str, typer.Option(help="Name of a method, or auto.", autocompletion=complete_method)]
SeedOption = Annotated[
    int | None, typer.Option(metavar="N", help="Seed; the same seed gives the same result.")
]
EffortOption = Annotated[
    str, typer.Option(metavar="quick|normal|thorough", help="How long to look before the answer is no.")
]
AffineOption = Annotated[
    str,
    typer.Option(
        metavar="auto|yes|no", help="Whether there is a linear part beside the units: slopes that bend."
    ),
]
VariantOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Variant of the method, such as paper for the printed one.")
]
NoiseOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="What the method is told about noise: auto, none, ...")
]
ObjectiveOption = Annotated[str | None, typer.Option(metavar="NAME", help="Objective of landscape.")]
RuleOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Rule by which joint-diagonalisation finds rows.")
]
WarmStartOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A saved network: a rough answer from which to start.")
]
MethodOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="Any option of the method; `planted methods NAME` lists them. May be given several times.",
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace files that planted did not write.")]


MemoryOption = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="What reading may take, such as 4GB (if not given, half of what is free).",
    ),
]


def within_memory(command: Callable[..., None]) -> Callable[..., None]:
    """Return the same command with an option `--memory`, which limits everything that it reads."""

    @wraps(command)
    def run(*args: Any, memory: str | None = None, **options: Any) -> None:
        if memory is None:
            command(*args, **options)
            return
        from planted.io import memory_budget

        with memory_budget(memory):
            command(*args, **options)

    known = signature(command, eval_str=True)
    limit = Parameter("memory", Parameter.KEYWORD_ONLY, default=None, annotation=MemoryOption)
    run.__signature__ = known.replace(parameters=[*known.parameters.values(), limit])  # type: ignore[attr-defined]
    run.__annotations__ = {name: item.annotation for name, item in signature(run).parameters.items()}
    return run


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


def check_written(
    *outputs: tuple[str, Path | None, str], inputs: Iterable[str | Path | None] = (), force: bool = False
) -> None:
    """Refuse outputs that would destroy something, before the work and not after it.

    `outputs`: option, path (None if not asked for) and kind of each, as in `planted.io._outputs`; `inputs`: what is read.
    """
    asked = [(option, path, kind) for option, path, kind in outputs if path is not None]
    if asked:
        from planted.io._outputs import Output, check_outputs

        check_outputs(
            [Output(*item) for item in asked],
            inputs=[path for path in inputs if path is not None],
            force=force,
        )


def read_method_options(
    method: str, pairs: list[str] | None, named: dict[str, str | None], warm_start: Path | None
) -> dict[str, Any]:
    """Return the options of a method as they were typed, as values.

    `pairs`: ``name=value``; `named`: those with an option of the command of their own, None where it was not given.
    """
    texts = {name: value for name, value in named.items() if value is not None}
    for pair in pairs or ():
        name, sign, value = pair.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or not name:
            raise BadInputError(f"--option {pair!r}; expected NAME=VALUE, such as variant=paper.")
        if texts.get(name, value) != value:
            raise BadInputError(f"{name} is given twice, as {texts[name]!r} and as {value!r}.")
        texts[name] = value
    if not texts and warm_start is None:
        return {}
    if method == "auto":
        asked = ", ".join(
            f"--{name.replace('_', '-')}" for name in (*texts, *(["warm_start"] if warm_start else []))
        )
        raise BadInputError(f"{asked}: options belong to a method; name it with --method.")
    from planted.recovery import find_method

    chosen = find_method(method)
    options: dict[str, Any] = chosen.read_options(texts)
    if warm_start is not None:
        from planted.io import load_with_columns

        chosen.check_options({"warm_start": None})
        options["warm_start"] = load_with_columns(warm_start).network
    return options


def check_tolerance(tol: float) -> None:
    """Refuse a tolerance that is negative or not finite."""
    if not 0 <= tol < float("inf"):
        raise BadInputError(f"--tol is {tol}; expected a number that is not negative.")
