"""What each random stream of a planted world is for, and the checks every part of it shares.

The streams are addressed by role, not by the order of calls. So ``inputs(..., random_state=0)`` and
``teacher(..., random_state=0)`` draw unrelated numbers, and ``dataset(..., random_state=0)`` holds exactly
the inputs and the teacher that these two return.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from typing import Any, NamedTuple

import numpy as np

from planted._streams import data_streams
from planted._typing import Seed
from planted.outcomes import BadInputError, BadInputTypeError

__all__ = ["Checked", "WorldStreams", "bounded", "build_named", "check_number", "check_size", "world_streams"]


class WorldStreams(NamedTuple):
    """One generator for each role; a new role goes last, or every stored world changes."""

    law: np.random.Generator
    inputs: np.random.Generator
    hidden: np.random.Generator
    outputs: np.random.Generator
    biases: np.random.Generator
    pool: np.random.Generator
    noise: np.random.Generator
    perturbation: np.random.Generator
    linear: np.random.Generator


def world_streams(random_state: Seed) -> WorldStreams:
    """Return the streams of the world that ``random_state`` stands for."""
    return WorldStreams(*data_streams(random_state, len(WorldStreams._fields)))


def build_named(
    kind: str, name: object, table: Mapping[str, type], *, options: Mapping[str, Any], **given: Any
) -> Any:
    """Build the dataclass ``name`` of ``table`` from the user's ``options`` and what is ``given`` anyway."""
    if not isinstance(name, str):
        raise BadInputTypeError(
            f"{kind} is of type {type(name).__name__}; expected a name or an object made for it"
        )
    if name not in table:
        raise BadInputError(f"unknown {kind} {name!r}; known are {_quoted(table)}")
    known = [item.name for item in fields(table[name]) if item.name not in given]
    for option in options:
        if option not in known:
            expected = f"it takes {_quoted(known)}" if known else "it takes none"
            raise BadInputError(f"unknown option {option!r} of {kind} {name!r}; {expected}")
    return table[name](**given, **options)


def bounded(default: Any, *, least: float = 0.0, most: float = np.inf, is_open: bool = False) -> Any:
    """Declare a number of a record: `Checked` refuses others by `check_number`, and None unless it is the default."""
    return field(default=default, metadata={"least": least, "most": most, "is_open": is_open})


class Checked:
    """Base of the records that users make: checks ``n_features``, and every number declared with `bounded`."""

    def __post_init__(self) -> None:
        for item in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, item.name)
            if item.name == "n_features":
                check_size("n_features", value)
            elif item.metadata and not value is item.default is None:
                check_number(item.name, value, **item.metadata)


def check_size(name: str, value: object, *, least: int = 1) -> int:
    """Return ``value`` as an integer of at least ``least``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise BadInputTypeError(f"{name} is of type {type(value).__name__}; expected an integer")
    if value < least:
        raise BadInputError(f"{name}={value}; expected at least {least}")
    return int(value)


def check_number(
    name: str, value: object, *, least: float = 0.0, most: float = np.inf, is_open: bool = False
) -> float:
    """Return ``value`` as a finite float in ``[least, most]``, or in ``(least, most]`` if ``is_open``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise BadInputTypeError(f"{name} is of type {type(value).__name__}; expected a number")
    number = float(value)
    if not np.isfinite(number) or number < least or number > most or (is_open and number == least):
        lower = f" {'above' if is_open else 'of at least'} {least:g}" if np.isfinite(least) else ""
        upper = f" and at most {most:g}" if np.isfinite(most) else ""
        raise BadInputError(f"{name}={number:g}; expected a finite number{lower}{upper}")
    return number


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(repr(word) for word in words)
