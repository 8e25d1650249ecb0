"""Which columns of a table are inputs, targets and weights."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from planted.io.tables._source import Source
from planted.outcomes import BadInputError

__all__ = ["Column", "choose_columns"]

Column = str | int
"""A column by its name or by its number, counted from 0 (from -1 at the end)."""


def choose_columns(
    source: Source,
    targets: Column | Sequence[Column] | None,
    features: Column | Sequence[Column] | None,
    *,
    weights: Column | None = None,
) -> tuple[list[int], list[int], int | None]:
    """Resolve names and numbers to the columns of the inputs, of the targets and of the weights.

    `weights`: the column of weights, which is neither a feature nor a target unless it is named as one. Returns
    inputs, outputs: columns of the inputs and of the targets; weight: column of the weights.
    """
    weight = None if weights is None else _resolve_one(source, weights)
    free = [j for j in range(len(source.names)) if j != weight]
    if targets is None:
        if source.groups:
            targets = next((name for name in ("Y", "y") if name in source.groups), None)
            if targets is None:
                raise BadInputError(
                    f"{source.path} holds the arrays {sorted(source.groups)}, expected Y (or y) and X. "
                    "Name them with `targets` and `features`."
                )
        else:
            targets = free[-1:]
    outputs = _resolve(source, targets, "targets")
    if features is None and "X" in source.groups:
        features = "X"
    others = [j for j in free if j not in set(outputs)]
    inputs = others if features is None else _resolve(source, features, "features")
    both = [source.names[j] for j in inputs if j in set(outputs)]
    if both:
        raise BadInputError(f"{source.path}: the columns {both} are both features and targets.")
    if not inputs:
        raise BadInputError(
            f"{source.path} leaves 0 columns for the inputs: it has {len(source.names)} column(s) "
            f"{source.names[:5]}, and {len(outputs)} of them are targets. Check the separator."
        )
    if weight in {*inputs, *outputs}:
        raise BadInputError(
            f"{source.path}: the column {source.names[weight or 0]!r} of the weights is a feature or target too."
        )
    return inputs, outputs, weight


def _resolve_one(source: Source, chosen: Column) -> int:
    """Turn the name or number of the weights into a column number."""
    columns = _resolve(source, chosen, "weights")
    if len(columns) != 1:
        raise BadInputError(f"weights={chosen!r} stands for {len(columns)} columns, expected one.")
    return columns[0]


def _resolve(source: Source, chosen: Column | Sequence[Column], role: str) -> list[int]:
    """Turn column names and numbers into column numbers."""
    items = [chosen] if isinstance(chosen, str | int) else list(chosen)
    columns: list[int] = []
    for item in items:
        if isinstance(item, str):
            columns.extend(_find_name(source, item, role))
        elif -len(source.names) <= item < len(source.names):
            columns.append(int(item) % len(source.names))
        else:
            raise BadInputError(
                f"{source.path} has {len(source.names)} columns, so there is no column {item} ({role})."
            )
    if len(set(columns)) < len(columns) or not columns:
        raise BadInputError(f"{role}={chosen!r} chooses {'a column twice' if columns else 'no column'}.")
    return columns


def _find_name(source: Source, name: str, role: str) -> tuple[int, ...]:
    if name in source.groups:
        return source.groups[name]
    if name in source.names:
        return (source.names.index(name),)
    known = [*source.groups, *source.names]
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else f"It has: {', '.join(known[:10])}."
    raise BadInputError(f"{source.path} has no column {name!r} ({role}). {hint}")
