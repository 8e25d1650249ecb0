"""Tables in and pages out, as the commands need them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from planted._typing import Array
from planted.cli._console import print_note
from planted.cli._options import split_names
from planted.outcomes import BadInputError

if TYPE_CHECKING:
    from planted.io import Table

__all__ = ["is_too_large", "read_inputs", "read_samples", "save_with_columns", "write_page"]


def read_samples(path: Path, *, targets: list[str] | None, features: list[str] | None) -> Table:
    """Read inputs and targets; ``a,b`` means two columns unless one is called that."""
    from planted.io import read_table

    given = targets or None, features or None
    try:
        return read_table(path, targets=given[0], features=given[1])
    except BadInputError:
        split = split_names(targets), split_names(features)
        if split == given:
            raise
        return read_table(path, targets=split[0], features=split[1])


def is_too_large(path: Path) -> bool:
    """Return whether a file takes more than a quarter of the memory that is free."""
    from planted._conversion import available_memory

    free = available_memory()
    return free is not None and path.is_file() and path.stat().st_size > free / 4


def read_inputs(path: Path, *, features: list[str] | None, n_features: int) -> Array:
    """Read the inputs of a network from a table that may or may not hold targets too."""
    from planted.io import read_table

    table = read_table(path)
    names = (*table.feature_names, *table.target_names)
    columns = np.hstack([table.X, table.Y])
    if features:
        chosen = split_names(features, known=names) or []
        unknown = [name for name in chosen if name not in names]
        if unknown:
            raise BadInputError(f"{path} has no column {unknown[0]!r}. It has: {', '.join(names[:10])}.")
        columns = columns[:, [names.index(name) for name in chosen]]
    elif table.X.shape[1] == n_features:
        columns = table.X
    if columns.shape[1] != n_features:
        raise BadInputError(
            f"the network has {n_features} inputs, but {columns.shape[1]} columns of {path} were chosen. "
            "Name the inputs with --features."
        )
    return columns


def write_page(path: Path, page: str) -> None:
    """Write a text file as a whole or not at all."""
    from planted.io.state._atomic import atomic_write

    atomic_write(path, lambda partial: partial.write_text(page, encoding="utf-8"))


def save_with_columns(network: Any, out: Path, names: Mapping[str, Any]) -> None:
    """Write a network with the names of its columns, so that `predict` finds them again; without, if they cannot be kept.

    `names`: ``feature_names`` and ``target_names``, or nothing.
    """
    from planted.io import check_columns

    columns = {"features": names.get("feature_names"), "targets": names.get("target_names")}
    try:
        check_columns(network, **columns)
    except BadInputError as error:
        print_note(f"The names of the columns are not kept: {error}")
        columns = {}
    network.save(out, **columns)
    print_note(f"The network is in {out}.")
