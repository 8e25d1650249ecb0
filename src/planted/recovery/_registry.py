"""The table of methods, made from what lies in `planted.methods`.

A method is a package there, with the name it has on the command line, whose function ``recover(run, n_hidden, **options)``
is the whole algorithm; its card is the module of the same name in `planted.methods.cards`. Cards are data: listing methods
loads no algorithm, and a package is imported when its method runs.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from planted._typing import Progress, Seed
from planted.fitting._problem import Preparation
from planted.fitting._run import MethodRun
from planted.methods import cards
from planted.outcomes import BadInputError
from planted.results import Recovery, Requirements
from planted.rows import RowBlocks

__all__ = ["Method", "find_method", "methods", "weighing_method"]

_PLAIN = (str, int, float, bool, tuple, list, type(None))  # what a record can hold as it is


@dataclass(frozen=True, slots=True)
class Method:
    """A method, ready to run."""

    requires: Requirements  # its card
    recover: Callable[..., Recovery]  # recover(run, n_hidden, **options)

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options the method understands."""
        return tuple(name for name in self._parameters if name != "activation")

    @property
    def _parameters(self) -> dict[str, inspect.Parameter]:
        """The keyword parameters of the method: its options, and the activation where it handles several."""
        parameters = inspect.signature(self.recover).parameters
        return {name: value for name, value in parameters.items() if value.kind is value.KEYWORD_ONLY}

    def check_options(self, options: dict[str, object]) -> None:
        """Refuse options the method does not know."""
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            raise BadInputError(
                f"method {self.requires.method!r} has no option {', '.join(unknown)}; it knows {', '.join(self.options)}"
            )

    def run(
        self,
        data: Preparation,
        n_hidden: int | str = "auto",
        *,
        activation: str = "relu",
        **options: Any,
    ) -> Recovery:
        """Run the method on prepared data; every way in which it can end is a record."""
        if "activation" in self._parameters:
            options = {"activation": activation, **options}
        chosen = {name: options.get(name, value.default) for name, value in self._parameters.items()}
        recorded = {name: value if isinstance(value, _PLAIN) else "given" for name, value in chosen.items()}
        return MethodRun(self.requires, data, n_hidden, recorded, _solve).execute(self.recover, **options)


def _solve(
    method: str,
    blocks: RowBlocks,
    n_hidden: int | str,
    *,
    random_state: Seed,
    progress: Progress | None = None,
    **options: Any,
) -> Recovery:
    """Run a method by its name: how one method uses another without knowing it."""
    data = Preparation(blocks, random_state=random_state, progress=progress)
    return find_method(method).run(data, n_hidden, **options)


def methods() -> dict[str, Requirements]:
    """Return the table of methods with what each requires.

    Returns
    -------
    dict
        Method name to `Requirements`, in the order in which ``method="auto"`` considers them.

    Examples
    --------
    >>> import planted
    >>> planted.methods()["complementarity"].n_outputs
    'm >= k'
    """
    return {card.method: card for card in _cards()}


@cache
def _cards() -> tuple[Requirements, ...]:
    """Every card there is, in the order of "auto"."""
    names = [entry.name for entry in pkgutil.iter_modules(cards.__path__)]
    found = [import_module(f"{cards.__name__}.{name}").REQUIRES for name in names]
    return tuple(sorted(found, key=lambda card: (card.order, card.method)))


def find_method(name: str) -> Method:
    """Return the method of a name; its package is imported."""
    if name not in methods():
        raise BadInputError(f"unknown method {name!r}; known are 'auto', {', '.join(map(repr, methods()))}")
    package = import_module(f"planted.methods.{name.replace('-', '_')}")
    return Method(methods()[name], package.recover)


def weighing_method(name: str) -> str:
    """Return the method for rows that carry weights, or refuse one that cannot use them; "auto" is the first that can.

    Examples
    --------
    >>> weighing_method("auto")
    'restarts'
    """
    able = [each for each, card in methods().items() if card.takes_weights]
    if name == "auto":
        return able[0]
    if name in methods() and name not in able:
        raise BadInputError(
            f"method {name!r} cannot weigh rows; {', '.join(map(repr, able))} can. Name it with method=..., or leave the "
            "weights out."
        )
    return name
