"""Read tables: `.npy`, `.npz`, `.csv`, `.tsv` (both also compressed, `.csv.gz`), `.parquet` and `.feather`.

`read_table` loads a table, `iter_table` streams it in blocks of rows for data larger than memory; both go
through the same readers and give the same bits. Files are not trusted: claims of a header are compared with the bytes
that are there and with the memory budget before anything is allocated, and pickled objects are never loaded.
"""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from planted._typing import Array
from planted._validation import check_finite
from planted.io._memory import Budget, current_budget
from planted.io.tables._arrays import open_npy, open_npz
from planted.io.tables._arrow import open_feather, open_parquet
from planted.io.tables._csv import open_csv
from planted.io.tables._source import PLAIN, Reading, Source, format_of, typed_errors
from planted.outcomes import BadInputError, BadInputTypeError, FileFormatError, shown

if TYPE_CHECKING:
    from planted.io.tables._recipe import Recipe

__all__ = [
    "BLOCK_ROWS",
    "SUFFIXES",
    "Column",
    "Table",
    "choose_columns",
    "cut_evenly",
    "find_columns",
    "is_index_name",
    "is_plain",
    "iter_table",
    "open_source",
    "prepared",
    "read_columns",
    "read_table",
    "table_files",
]

BLOCK_ROWS = 65_536
"""Rows read together unless the caller says otherwise."""

Column = str | int
"""A column by its name or by its number, counted from 0 (from -1 at the end)."""

_OPENERS: dict[str, Callable[[Path, Budget, Reading], Source]] = {
    ".csv": open_csv,
    ".csv.gz": open_csv,
    ".feather": open_feather,
    ".npy": open_npy,
    ".npz": open_npz,
    ".parquet": open_parquet,
    ".tsv": open_csv,
    ".tsv.gz": open_csv,
}
SUFFIXES = tuple(_OPENERS)
_INDEX_NAMES = ("unnamed: 0", "index", "id", "row", "row_id", "rowid", "rownames", "row_names", "row number")
_MISSING_INSTEAD = (
    "Leave those rows out with --missing drop, or put the mean of the column there with --missing mean (in Python: "
    "`planted.io.learn_recipe`)."
)
_SHEETS = (".xlsx", ".xls", ".ods", ".xlsm")
_TARGET_INSTEAD = (
    "A missing target or weight has no stand-in: leave those rows out with --missing drop (in Python: "
    "`planted.io.learn_recipe`)."
)
# For a network that is there already.
_INPUT_INSTEAD = "Leave those rows out of the table, or fill the values in."
HEAD_ROWS, FEWEST_COUNTED = 1000, 5  # rows that tell whether a column counts them, and how many at least


@dataclass(frozen=True, slots=True)
class Table:
    """Inputs and targets read from a file."""

    X: Array  # (n, d): inputs
    Y: Array  # (n, m): targets
    feature_names: tuple[str, ...]  # column names; numbers as text where the file has no names
    target_names: tuple[str, ...]


def read_table(
    path: str | os.PathLike[str],
    *,
    targets: Column | Sequence[Column] | None = None,
    features: Column | Sequence[Column] | None = None,
    recipe: Recipe | None = None,
    memory: int | str | None = None,
) -> Table:
    r"""Load inputs and targets from a file.

    `path`: a `.npy` (2-d array), `.npz`, `.csv` or `.tsv` (also `.csv.gz`), `.parquet` or `.feather` file. `targets`: the
    target columns. By default the array ``Y`` (or ``y``) of an `.npz` archive, else the last column. `features`: the input
    columns. By default the array ``X`` of an `.npz` archive, else all that are not targets. `recipe`: how columns of text,
    dates and gaps become numbers, from `learn_recipe`; it names the columns too. `memory`: how much may be allocated, in
    bytes or as in "4GB"; by default half of what is free. Returns the values as float64, all finite.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = Path(folder.name) / "data.csv"
    >>> _ = file.write_text("a,b,y\n1,2,3\n4,5,6\n")
    >>> table = read_table(file, targets="y")
    >>> table.feature_names, table.X
    (('a', 'b'), array([[1., 2.],
           [4., 5.]]))
    >>> folder.cleanup()
    """
    budget = current_budget(memory)
    if recipe is None:
        source = open_source(path, budget)
        inputs, outputs, _ = choose_columns(source, targets, features)
        X, Y = _read_arrays(source, inputs, outputs, budget)
        return Table(X, Y, tuple(source.names[j] for j in inputs), tuple(source.names[j] for j in outputs))
    source = open_source(path, budget, recipe.reading)
    inputs, outputs = (
        find_columns(source, recipe.names, "features"),
        find_columns(source, recipe.targets, "targets"),
    )
    X, Y = _read_arrays(source, inputs, outputs, budget, recipe)
    return Table(X, Y, recipe.inputs, recipe.targets)


def read_columns(
    path: str | os.PathLike[str], features: Sequence[str] | None = None, recipe: Recipe | None = None
) -> tuple[Array, tuple[str, ...]]:
    """Load inputs alone, of a table that may or may not hold targets: those named, those of a recipe, or all columns.

    With a recipe that leaves rows out, the rows stay and hold NaN: who predicts needs one answer for each row. Returns the
    inputs and the names of the columns of the table. Shapes: result (n, d).
    """
    budget = current_budget()
    source = open_source(path, budget) if recipe is None else open_source(path, budget, recipe.reading)
    chosen: Column | Sequence[Column] | None = features if recipe is None else recipe.names
    if chosen is None and "X" in source.groups:
        chosen = "X"
    inputs = list(range(len(source.names))) if chosen is None else find_columns(source, chosen, "features")
    return _read_arrays(source, inputs, [], budget, recipe)[0], source.names


def is_plain(path: str | os.PathLike[str]) -> bool:
    """Return whether the head of a file shows numbers only, and no column that could count the rows."""
    source = open_source(path)
    return not source.texts and not any(is_index_name(name, j) for j, name in enumerate(source.names))


def is_index_name(name: str, column: int) -> bool:
    """Return whether a column is called as those are that number the rows of a table.

    Examples
    --------
    >>> is_index_name("", 0), is_index_name("Unnamed: 0", 0), is_index_name("ID", 3), is_index_name("age", 0)
    (True, True, True, False)
    """
    return (not name and column == 0) or name.strip().lower() in _INDEX_NAMES


def iter_table(
    path: str | os.PathLike[str],
    *,
    targets: Column | Sequence[Column] | None = None,
    features: Column | Sequence[Column] | None = None,
    block_rows: int = BLOCK_ROWS,
    memory: int | str | None = None,
) -> Iterator[tuple[Array, Array]]:
    """Stream inputs and targets from a file in blocks of rows, without loading it.

    `memory`: how much may be allocated, in bytes or as in "4GB"; by default half of what is free. Returns blocks of shapes
    (block_rows, d) and (block_rows, m), the same bits that `read_table` gives.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.save(Path(folder.name) / "data.npy", np.arange(12.0).reshape(4, 3))
    >>> [X.shape for X, Y in iter_table(Path(folder.name) / "data.npy", block_rows=3)]
    [(3, 2), (1, 2)]
    >>> folder.cleanup()
    """
    if isinstance(block_rows, bool) or not isinstance(block_rows, int) or block_rows < 1:
        raise BadInputError(f"block_rows={block_rows!r}, expected an integer of at least 1.")
    budget = current_budget(memory)
    source = open_source(path, budget)
    inputs, outputs, _ = choose_columns(source, targets, features)
    return _checked_blocks(source, inputs, outputs, block_rows=block_rows, budget=budget)


def open_source(
    path: str | os.PathLike[str], budget: Budget | None = None, reading: Reading = PLAIN
) -> Source:
    """Refuse what is not a readable, non-empty file of a known format; open the rest.

    Returns the table, its head read.
    """
    if not isinstance(path, str | os.PathLike):
        raise BadInputTypeError(
            f"the path {path!r} is of type {type(path).__name__}, expected a text or a path."
        )
    file = Path(path)
    opener = _OPENERS.get(format_of(file))
    with typed_errors(file):
        _refuse_places(file, is_known=opener is not None)
        assert opener is not None
        source = opener(file, budget or current_budget(), reading)
    if not source.names:
        raise FileFormatError(f"{shown(file)} has 0 columns, expected inputs and targets.")
    repeated = sorted(name for name, times in Counter(source.names).items() if times > 1)
    if repeated:
        raise BadInputError(
            f"{shown(file)} gives several columns "
            + (f"the same name: {repeated[:10]}. Rename them." if any(repeated) else "no name. Name them.")
            + " If the names stand farther down, delete the lines above them."
        )
    return source


def _refuse_places(file: Path, *, is_known: bool) -> None:
    """Refuse folders, pipes and devices, which have no size that could be checked, and files without contents."""
    label = shown(file)
    if file.is_dir():
        raise BadInputError(f"{label} is a folder, expected a file.")
    if not file.exists():
        raise BadInputError(
            f"there is no file {label}. Check the path; it is relative to {shown(Path.cwd())}."
        )
    if not is_known:
        raise FileFormatError(
            f"{label}: the format {shown(format_of(file))!r} is unknown, expected one of {', '.join(_OPENERS)}."
            + (" Save the sheet as .csv." if format_of(file) in _SHEETS else "")
        )
    if not file.is_file():
        raise BadInputError(
            f"{label} is not a regular file but a pipe, a socket or a device, which may never end. "
            "Save its contents to a file first."
        )
    if file.stat().st_size == 0:
        raise FileFormatError(f"{label} is empty (0 bytes, so 0 sample(s)).")


def table_files(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the files that a path stands for: itself, the tables of a folder, or several."""
    if not isinstance(path, str | os.PathLike):
        if not path:
            raise BadInputError("no file was given, expected at least one.")
        return [file for each in path for file in table_files(each)]
    if not Path(path).is_dir():
        return [Path(path)]
    files = sorted(
        file for file in Path(path).iterdir() if format_of(file) in SUFFIXES and file.name[0] not in "._"
    )
    kinds = sorted({format_of(file) for file in files})
    if len(kinds) != 1:
        found = f"files of several formats ({', '.join(kinds)})" if kinds else "no table"
        raise BadInputError(
            f"the folder {shown(path)} holds {found}, expected files of one format: {', '.join(SUFFIXES)}."
        )
    return files


def choose_columns(
    source: Source,
    targets: Column | Sequence[Column] | None,
    features: Column | Sequence[Column] | None,
    *,
    weights: Column | None = None,
    exclude: Column | Sequence[Column] | None = None,
) -> tuple[list[int], list[int], int | None]:
    """Resolve names and numbers to the columns of the inputs, of the targets and of the weights.

    `weights`: the column of weights, which is neither a feature nor a target unless it is named as one; `exclude`: columns
    that are neither. Returns inputs, outputs: columns of the inputs and of the targets; weight: column of the weights.
    """
    weight = None if weights is None else _resolve_one(source, weights)
    left_out = set() if exclude is None else set(find_columns(source, exclude, "exclude"))
    free = [j for j in range(len(source.names)) if j != weight and j not in left_out]
    if targets is None:
        if source.groups:
            targets = next((name for name in ("Y", "y") if name in source.groups), None)
            if targets is None:
                raise BadInputError(
                    f"{shown(source.path)} holds the arrays {sorted(source.groups)}, expected Y (or y) and X. "
                    "Name them with --targets and --features (`targets` and `features` in Python)."
                )
        else:
            targets = free[-1:]
            _refuse_counted(source, targets)
    outputs = find_columns(source, targets, "targets")
    if features is None and "X" in source.groups:
        features = "X"
    others = [j for j in free if j not in set(outputs)]
    inputs = others if features is None else find_columns(source, features, "features")
    both = [source.names[j] for j in inputs if j in set(outputs)]
    if both:
        raise BadInputError(f"{shown(source.path)}: the columns {both} are both features and targets.")
    unwanted = [source.names[j] for j in (*inputs, *outputs) if j in left_out]
    if unwanted:
        raise BadInputError(f"{shown(source.path)}: the column {unwanted[0]!r} is excluded and chosen too.")
    if not inputs:
        raise BadInputError(
            f"{shown(source.path)} leaves 0 columns for the inputs: it has {len(source.names)} column(s) "
            f"{source.names[:5]}, and {len(outputs)} of them are targets. Check the separator."
        )
    if weight in {*inputs, *outputs}:
        raise BadInputError(
            f"{shown(source.path)}: the column {source.names[weight or 0]!r} of the weights is a feature or target too."
        )
    return inputs, outputs, weight


def _refuse_counted(source: Source, last: list[int]) -> None:
    """Refuse the last column as the target, which nobody has named, if it counts the rows."""
    if not last or last[0] in source.texts:
        return
    head = next(source.stream(last, HEAD_ROWS), np.empty((0, 1)))[:HEAD_ROWS, 0]
    name = source.names[last[0]]
    if len(head) >= FEWEST_COUNTED and not name and np.isnan(head).all():
        raise BadInputError(
            f"{shown(source.path)}: the last column has no name and no values, as if every line ended with a separator. "
            f"Leave it out with --exclude {last[0]} (`exclude={last[0]}` in Python), or delete the separators."
        )
    is_whole = np.isfinite(head).all() and (head == np.floor(head)).all()
    steps = np.diff(head) if is_whole else np.zeros(1)
    if len(head) >= FEWEST_COUNTED and ((steps == 1).all() or (is_index_name(name, 0) and (steps > 0).all())):
        raise BadInputError(
            f"{shown(source.path)}: the last column, {shown(name)!r}, counts the rows ({head[0]:g}, {head[1]:g}, "
            f"{head[2]:g}, …) and is hardly the target. Name the target with --targets (`targets` in Python); this one "
            "too, if it is meant."
        )


def _resolve_one(source: Source, chosen: Column) -> int:
    """Turn the name or number of the weights into a column number."""
    columns = find_columns(source, chosen, "weights")
    if len(columns) != 1:
        raise BadInputError(f"weights={chosen!r} stands for {len(columns)} columns, expected one.")
    return columns[0]


def find_columns(source: Source, chosen: Column | Sequence[Column], role: str) -> list[int]:
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
                f"{shown(source.path)} has {len(source.names)} columns, so there is no column {item} ({role}, --{role})."
            )
    if len(set(columns)) < len(columns) or not columns:
        raise BadInputError(f"{role}={chosen!r} chooses {'a column twice' if columns else 'no column'}.")
    return columns


def _find_name(source: Source, name: str, role: str) -> Sequence[int]:
    if name in source.groups:
        return source.groups[name]
    if name in source.names:
        return (source.names.index(name),)
    if name.isdecimal() and int(name) < len(source.names) and not source.names[int(name)]:
        return (int(name),)  # a column without a name, by its number
    known = [*source.groups, *source.names]
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else f"It has: {', '.join(known[:10])}."
    raise BadInputError(f"{shown(source.path)} has no column {name!r} ({role}, --{role}). {hint}")


def _checked_blocks(
    source: Source,
    inputs: list[int],
    outputs: list[int],
    *,
    block_rows: int,
    budget: Budget,
    recipe: Recipe | None = None,
) -> Iterator[tuple[Array, Array]]:
    """Stream blocks of exactly `block_rows` rows; what is not finite is named by file, row, column."""
    columns = [*inputs, *outputs]
    names = [source.names[j] for j in columns]
    label, first_row = shown(source.path), 0
    for block in cut_evenly(source.stream(columns, block_rows), block_rows, label=label, budget=budget):
        n_rows = len(block)
        rows = prepared(block, recipe, label=label, names=names, first_row=first_row, n_behind=len(outputs))
        first_row += n_rows
        end = rows.shape[1] - len(outputs)
        if len(rows):
            yield np.ascontiguousarray(rows[:, :end]), np.ascontiguousarray(rows[:, end:])
    if first_row == 0:
        raise BadInputError(f"{label} has 0 sample(s): there is a header, but no row of data.")


def prepared(
    block: Array,
    recipe: Recipe | None,
    *,
    label: str,
    names: Sequence[str],
    first_row: int,
    n_behind: int,
) -> Array:
    """Refuse what is not finite, by row and column, and turn columns into inputs as the recipe says.

    `n_behind`: columns behind the inputs. If there are none, the inputs are those of a network that is there already, and
    rows that the recipe leaves out stay and hold NaN. Shapes: block (rows, columns), result (rows, inputs).
    """
    instead = _MISSING_INSTEAD if n_behind else _INPUT_INSTEAD
    if n_behind and np.isnan(block[:, -n_behind:]).any():
        instead = _TARGET_INSTEAD
    if len(block) > 1 and n_behind and (empty := np.flatnonzero(np.isnan(block).all(axis=0))).size:
        name = shown(names[empty[0]])
        instead = f"Column {name!r} is empty: leave it out with --exclude {name!r}."
    if recipe is None:
        check_finite(block, label, names=names, first_row=first_row, if_missing=instead)
        return block
    may_miss = recipe.missing != "refuse"
    check_finite(block, label, names=names, first_row=first_row, may_miss=may_miss, if_missing=instead)
    if recipe.missing == "drop":
        return recipe.prepare(block, keep_rows=not n_behind)
    rows = recipe.prepare(block)
    if may_miss:  # of a column that had no gap when the recipe was learned, or a target
        more = names[len(recipe.columns) :]
        check_finite(rows, label, names=(*recipe.inputs, *more), first_row=first_row, if_missing=instead)
    return rows


def cut_evenly(blocks: Iterator[Array], block_rows: int, *, label: str, budget: Budget) -> Iterator[Array]:
    """Cut blocks of any length into blocks of one length, so that results do not depend on the file's own.

    Shapes: blocks (rows, columns), result (block_rows, columns).
    """
    waiting: list[Array] = []
    n_waiting = 0
    for block in blocks:
        waiting.append(block)
        n_waiting += len(block)
        if n_waiting < block_rows:
            # Twice, since parts are joined by copying them.
            needed = 16 * n_waiting * block.shape[1]
            budget.require(
                needed, f"a block of {block_rows:,} rows of {label}", instead="Give a smaller block_rows."
            )
            continue
        rows = np.concatenate(waiting) if len(waiting) > 1 else block
        n_whole = n_waiting // block_rows * block_rows
        for start in range(0, n_whole, block_rows):
            yield rows[start : start + block_rows]
        n_waiting -= n_whole
        # A whole block next time is not copied to join nothing.
        waiting = [rows[n_whole:].copy()] if n_waiting else []
    if n_waiting:
        yield np.concatenate(waiting)


def _read_arrays(
    source: Source, inputs: list[int], outputs: list[int], budget: Budget, recipe: Recipe | None = None
) -> tuple[Array, Array]:
    """Read a table into arrays: made for it where its length is known, else joined from blocks."""
    width = len(inputs) if recipe is None else len(recipe.inputs)
    n_rows = source.n_rows if recipe is None or recipe.missing != "drop" else None
    if n_rows is not None:
        return _fill_arrays(source, inputs, outputs, budget, recipe=recipe, widths=(width, len(outputs)))
    return _collect_arrays(source, inputs, outputs, budget, recipe=recipe, width=width + len(outputs))


def _fill_arrays(
    source: Source,
    inputs: list[int],
    outputs: list[int],
    budget: Budget,
    *,
    recipe: Recipe | None,
    widths: tuple[int, int],
) -> tuple[Array, Array]:
    """Read a table whose length is known into arrays made for it."""
    n_rows, width, label = source.n_rows or 0, sum(widths), shown(source.path)
    budget.hold(8 * n_rows * width, f"{label} ({n_rows:,} rows, {width:,} columns)", instead=_STREAM_INSTEAD)
    X, Y = np.empty((n_rows, widths[0])), np.empty((n_rows, widths[1]))
    filled = 0
    block_rows = budget.rows(8 * width, BLOCK_ROWS)
    working = Budget(budget.n_bytes)  # a block is a small part of the budget
    for X_block, Y_block in _checked_blocks(
        source, inputs, outputs, block_rows=block_rows, budget=working, recipe=recipe
    ):
        if filled + len(X_block) > n_rows:
            raise FileFormatError(f"{label} holds more rows than the {n_rows} its header claims.")
        X[filled : filled + len(X_block)] = X_block
        Y[filled : filled + len(X_block)] = Y_block
        filled += len(X_block)
    if filled < n_rows:
        raise FileFormatError(f"{label} holds {filled} rows, but its header claims {n_rows}.")
    return X, Y


def _collect_arrays(
    source: Source,
    inputs: list[int],
    outputs: list[int],
    budget: Budget,
    *,
    recipe: Recipe | None,
    width: int,
) -> tuple[Array, Array]:
    """Read a table of unknown length, and stop before the rows read so far cannot be joined."""
    parts: list[tuple[Array, Array]] = []
    n_rows, label = 0, shown(source.path)
    block_rows = budget.rows(8 * width, BLOCK_ROWS)
    for pair in _checked_blocks(source, inputs, outputs, block_rows=block_rows, budget=budget, recipe=recipe):
        parts.append(pair)
        n_rows += len(pair[0])
        # Twice, since the parts are joined by copying them.
        budget.require(16 * n_rows * width, f"{label} (its first {n_rows:,} rows)", instead=_STREAM_INSTEAD)
    if not parts:
        raise BadInputError(f"{label} has 0 sample(s) without missing cells.")
    return np.concatenate([X for X, _ in parts]), np.concatenate([Y for _, Y in parts])


_STREAM_INSTEAD = (
    "Stream it (planted.io.iter_table, or --stream on the command line), choose fewer columns, "
    "or raise the budget (`--memory`, or `memory=` in Python)."
)
