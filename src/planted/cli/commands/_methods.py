"""`planted methods`: the table of methods and what each needs of the data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from planted.cli._console import out_console

if TYPE_CHECKING:
    from planted.results import Requirements

__all__ = ["methods"]

COLUMNS = ("method", "what it does", "inputs", "outputs", "noise")


def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="METHOD", help="Show one method with its options.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the cards as JSON, by name.")] = False,
) -> None:
    """List the methods and what each needs, in the order in which `--method auto` considers them.

    d, k and m are the numbers of inputs, hidden units and outputs.
    """
    from planted.recovery import methods as cards

    if name is not None:
        _show_method(name, as_json)
        return
    if as_json:
        print(json.dumps({name: _plain_card(card) for name, card in cards().items()}))
        return
    table = Table(*COLUMNS, header_style="dim")
    for card in cards().values():
        cells = (card.method, card.summary, card.input_law, card.n_outputs, card.noise)
        table.add_row(*map(Text, cells))
    out_console().print(table)
    for line in _beyond_the_table(cards().values()):
        out_console().print(Text(line))


def _beyond_the_table(cards: Iterable[Requirements]) -> Iterator[str]:
    """Say which methods take more than ReLU units and numbers."""
    for card in cards:
        units = [name for name in card.activations if name != "relu"]
        targets = [name for name in card.likelihoods if name != "gaussian"]
        if units or targets:
            beside = f"; targets {', '.join(targets)}" if targets else ""
            yield f"{card.method}: also units {', '.join(units)}{beside}"


def _show_method(name: str, as_json: bool) -> None:
    """Print the card of one method and its options, which `planted recover --option` takes."""
    from planted.recovery import find_method

    method = find_method(name)
    card = _plain_card(method.requires)
    options = {option: repr(value) for option, value in method.defaults.items()}
    if as_json:
        print(json.dumps({name: {**card, "options": options}}))
        return
    table = Table(show_header=False)
    for label, value in card.items():
        shown = ", ".join(value) if isinstance(value, list) else str(value)
        table.add_row(Text(label.replace("_", " "), style="dim"), Text(shown))
    for option, value in options.items():
        table.add_row(Text("option", style="dim"), Text(f"{option}={value}"))
    out_console().print(table)


def _plain_card(card: Requirements) -> dict[str, Any]:
    """Return what a card says in words and numbers."""
    return {
        "summary": card.summary,
        "inputs": card.input_law,
        "outputs": card.n_outputs,
        "activations": list(card.activations),
        "likelihoods": list(card.likelihoods),
        "biases": card.biases,
        "noise": card.noise,
        "samples": card.samples,
        "guarantee": card.guarantee.name,
        "reference": card.reference,
        "takes_weights": card.takes_weights,
    }
