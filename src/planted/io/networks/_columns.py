"""The names of a saved network's columns: which input is which, and what the outputs are called.

Names are text as a table has it. They are kept in the file beside the numbers, so that the columns of another table can be
matched by name. Refused is a name that is empty or very long, that occurs twice (among the inputs, among the outputs, or
once in each), or that holds control characters or marks for the direction of text, which a terminal would obey.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from planted._typing import Json
from planted.io.tables._recipe import Recipe
from planted.networks import DeepNetwork, ThreeLayerNetwork, TwoLayerNetwork
from planted.outcomes import BadInputError, BadInputTypeError, shown

__all__ = ["Labels", "SavedNetwork", "check_columns", "check_labels", "check_names", "check_noise"]

LARGEST_COUNT = 100_000  # names of one network
LONGEST_NAME = 1_000  # characters


@dataclass(frozen=True, slots=True)
class Labels:
    """The law of labels of which a network gives the predictors, and the classes where they have names."""

    likelihood: str
    classes: tuple[str | int | float | bool, ...] | None = None


@dataclass(frozen=True, slots=True)
class SavedNetwork:
    """A network from a file, with the names of its columns where the file has them."""

    network: TwoLayerNetwork | ThreeLayerNetwork | DeepNetwork  # the network itself
    features: tuple[str, ...] | None = None  # names of the inputs, in the order of the network's columns
    targets: tuple[str, ...] | None = None  # names of the outputs
    # Standard deviation of a new output about its prediction, and the degrees of freedom with which it is known.
    noise: tuple[float, float] | None = None
    # How the columns of a table become the inputs, where they are not numbers as they stand.
    recipe: Recipe | None = None
    labels: Labels | None = None  # what the outputs mean, where they are log-odds or logarithms of means


def check_columns(
    net: TwoLayerNetwork | ThreeLayerNetwork | DeepNetwork,
    features: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
) -> Json:
    """Return the names as a file keeps them, under ``features`` and ``targets``; omitted ones are left out.

    Raises `BadInputError` or `BadInputTypeError` if there are more or fewer names than columns, or a name is refused.
    """
    kept: Json = {}
    for role, names, count in (("features", features, net.n_features), ("targets", targets, net.n_outputs)):
        if names is not None:
            kept[role] = check_names(role, names, count)
    both = set(kept.get("features", ())) & set(kept.get("targets", ()))
    if both:
        raise BadInputError(f"the name {min(both)!r} is given to a feature and to a target")
    return kept


def check_noise(noise: Any) -> Json:
    """Return the noise of predictions as a file keeps it, a standard deviation and its degrees of freedom, or nothing."""
    if noise is None:
        return {}
    is_pair = isinstance(noise, Sequence) and len(noise) == 2 and all(type(x) in (int, float) for x in noise)
    if not is_pair or not all(isfinite(x) for x in noise) or noise[0] < 0 or noise[1] <= 0:
        raise BadInputError(f"noise={noise!r}; expected a standard deviation and degrees of freedom")
    return {"noise": [float(x) for x in noise]}


def check_labels(labels: Labels | None, n_outputs: int) -> Json:
    """Return the meaning of the outputs as a file keeps it, under ``labels``, or nothing."""
    if labels is None:
        return {}
    if labels.likelihood not in ("logistic", "multinomial", "poisson"):
        raise BadInputError(
            f"likelihood={labels.likelihood!r}; expected 'logistic', 'multinomial' or 'poisson'"
        )
    if labels.classes is None:
        return {"labels": {"likelihood": labels.likelihood, "classes": None}}
    known = labels.likelihood != "poisson" and len(labels.classes) == n_outputs + 1
    plain = all(
        isinstance(name, str | int | float) and shown(str(name)) == str(name) for name in labels.classes
    )
    if not known or not plain or len({str(name) for name in labels.classes}) < len(labels.classes):
        raise BadInputError(
            f"{len(labels.classes)} classes that do not fit {n_outputs} outputs, or cannot be kept"
        )
    return {"labels": {"likelihood": labels.likelihood, "classes": list(labels.classes)}}


def check_names(role: str, names: Any, count: int) -> list[str]:
    """Return one list of names if each of them can be kept."""
    names = names.tolist() if hasattr(names, "tolist") else names
    if isinstance(names, str | bytes) or not isinstance(names, Sequence):
        raise BadInputTypeError(f"{role} is of type {type(names).__name__}; expected a sequence of names")
    if len(names) != count or count > LARGEST_COUNT:
        raise BadInputError(
            f"{role} has {len(names)} names for {count} columns; expected one each, {LARGEST_COUNT} at most"
        )
    seen: set[str] = set()
    for place, name in enumerate(names):
        if not isinstance(name, str):
            raise BadInputTypeError(f"{role}[{place}] is of type {type(name).__name__}; expected text")
        if not 0 < len(name) <= LONGEST_NAME:
            raise BadInputError(f"{role}[{place}] has {len(name)} characters; expected 1 to {LONGEST_NAME}")
        if not name.isprintable() and shown(name) != name:
            raise BadInputError(f"{role}[{place}], {name!a}, holds a character that cannot be shown")
        if name in seen:
            raise BadInputError(f"{role}[{place}], {name!r}, occurs twice")
        seen.add(name)
    return [str(name) for name in names]
