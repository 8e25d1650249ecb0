"""Tables and long runs as the commands need them: what is read, in memory or in blocks, and where it is written.

Files in blocks may be read on a cluster and leave a checkpoint behind when Ctrl-C stops the run.

Numbers that may mean something else are used, and a sentence says so: a column that rises by one from row to row may only
number them, 20260131 may be a date, -999 far below everything else may stand for a missing value, and a first line of
numbers may be names, years for example. Whole numbers that differ in every row may be identity numbers, and an input that is
the target in other units may be known only with it.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from planted._typing import Array
from planted.cli._console import print_note
from planted.cli._options import split_names
from planted.outcomes import BadInputError, shown

__all__ = [
    "Columns",
    "LongRun",
    "default_folder",
    "doubts_about",
    "is_too_large",
    "notes_on",
    "noticed_interrupts",
    "open_run",
    "read_blocks",
    "read_inputs",
    "read_samples",
    "save_with_columns",
    "write_page",
]

if TYPE_CHECKING:
    from planted.io import Labels, Recipe, Table
    from planted.rows import RowBlocks

T = TypeVar("T")

FEWEST_ROWS = 5
CODES = (-1.0, -9.0, -88.0, *(sign * float("9" * digits) for digits in range(2, 7) for sign in (-1, 1)))
FAR = 1.0  # ranges of the other values between them and a code
SHOWN_DATES = 1000  # rows that are looked at for dates
EXACT = 2.0**53  # beyond it not every whole number is a number of 64 bits
IDENTITY = re.compile(r"(?i:(^|[^a-z])(id|no|nr|number|key|code|index)$)|[a-z](Id|ID|No|Nr)$")
SAME = 1e-12  # of a correlation of one


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of columns as they were typed."""

    targets: list[str] | None
    features: list[str] | None
    weights: str | None = None
    exclude: list[str] | None = None
    categories: list[str] | None = None
    missing: str = "refuse"
    decimal: str = "point"
    classes: bool = False  # whether texts of the target are classes

    def recipe_for(self, path: Path) -> Recipe | None:
        """Learn how the columns of a table become inputs; None if they are numbers as they stand."""
        if self.decimal not in (marks := {"point": ".", "comma": ",", ".": ".", ",": ","}):
            raise BadInputError(f"--decimal is {self.decimal!r}; expected point or comma.")
        is_simple = (
            not self.exclude
            and not self.categories
            and (self.missing, marks[self.decimal]) == ("refuse", ".")
        )
        if is_simple and self._is_plain(path):
            return None
        from planted.io import learn_recipe

        if self.missing not in ("refuse", "drop", "mean"):
            raise BadInputError(f"--missing is {self.missing!r}; expected refuse, drop or mean.")
        learn = partial(
            learn_recipe,
            weights=self.weights,
            missing=self.missing,
            decimal=marks[self.decimal],
            classes=self.classes,
        )
        recipe: Recipe = _by_names(learn, path, self._names)
        if not recipe.is_plain:
            _refuse_unkept_names(path, recipe)
        return recipe

    def _is_plain(self, path: Path) -> bool:
        """Whether the head of the table shows numbers, and no column that could count the rows."""
        from planted.io.tables._tables import is_plain, table_files

        return is_plain(table_files(path)[0])

    @property
    def _names(self) -> dict[str, list[str] | None]:
        """All names as they were typed."""
        roles = ("targets", "features", "exclude", "categories")
        return {role: getattr(self, role) for role in roles}


def _refuse_unkept_names(path: Path, recipe: Recipe) -> None:
    """Refuse names that the file of a network cannot keep: without them `predict` could not repeat the preparation."""
    from planted.io.networks._columns import check_names

    names = [*recipe.inputs, *recipe.targets]
    try:
        check_names("names of inputs and targets", names, len(names))
    except BadInputError as error:
        raise BadInputError(
            f"{shown(path)}: {error}, so a network could not keep how the columns become its inputs. Rename the column, or "
            "leave it out with --exclude."
        ) from error


@dataclass(slots=True)
class LongRun:
    """Rows in blocks, the seed of the solver, and the folder of the checkpoint."""

    blocks: RowBlocks
    seed: int | None
    folder: Path | None
    recipe: Recipe | None = None

    def finish(self) -> None:
        """Delete the checkpoint of a run that came to its end."""
        from planted.io import Checkpoint

        if self.folder is not None:
            Checkpoint(self.folder).remove()


@dataclass(slots=True)
class Interrupts:
    """Whether Ctrl-C was pressed."""

    seen: bool = field(default=False)


def open_run(
    data: Path,
    columns: Columns,
    *,
    cluster: str | None,
    folder: Path | None,
    resume: bool,
    seed: int | None,
    parameters: Mapping[str, Any],
    wait_seconds: float = 0.0,
) -> LongRun:
    """Open files as blocks, connect them to a cluster, and find or begin the checkpoint."""
    if folder is not None and folder.exists() and (not folder.is_dir() or _holds(folder, data)):
        what = "read as data" if folder.is_dir() else "a file"
        raise BadInputError(f"--checkpoint {folder} is {what}; choose another folder.")
    blocks, recipe = read_blocks(data, columns)
    if recipe is not None:
        parameters = {**parameters, "recipe": recipe.to_dict()}
    if cluster is not None:
        from planted.distributed import on_cluster

        blocks = on_cluster(blocks, cluster)
    if folder is None:
        folder = default_folder(data)
        if not os.access(Path.cwd(), os.W_OK):
            print_note(
                f"{Path.cwd()} is read-only: there will be no checkpoint unless --checkpoint names a folder."
            )
            return LongRun(blocks, seed, None, recipe)
    from planted.io import Checkpoint, checkpointed

    found = Checkpoint(folder).manifest() if resume else None
    if resume and found is None:
        print_note(f"There is no checkpoint in {folder}; the run starts from the beginning.")
    if seed is None:
        seed = _seed_of(found)
    blocks = checkpointed(
        blocks, folder, resume=resume, parameters={**parameters, "seed": seed}, wait_seconds=wait_seconds
    )
    return LongRun(blocks, seed, folder, recipe)


def _holds(folder: Path, data: Path) -> bool:
    """Return whether a folder is the one that the data are read from, where a checkpoint would be taken for a table."""
    return data.is_dir() and os.path.samefile(folder, data)


def default_folder(data: Path) -> Path:
    """Return the folder of the checkpoint of some data: in the current folder, named after their full path.

    Examples
    --------
    >>> default_folder(Path("/data/a/rows.npy")), default_folder(Path("/data/b/rows.npy"))
    (PosixPath('rows.npy.7d23cc38277e.checkpoint'), PosixPath('rows.npy.247efb90cf26.checkpoint'))
    """
    where = data.resolve()
    tag = hashlib.sha256(os.fsencode(where)).hexdigest()[:12]
    return Path(f"{where.name[:100]}.{tag}.checkpoint")


def _seed_of(manifest: Mapping[str, Any] | None) -> int:
    """Return the seed of the run that is resumed, or a fresh one."""
    parameters = (manifest or {}).get("parameters")
    seed = parameters.get("seed") if isinstance(parameters, dict) else None
    return seed if type(seed) is int and seed >= 0 else _fresh_seed()


def _fresh_seed() -> int:
    """Draw a seed that fits into a file: a resumed run must draw what the first one drew."""
    return int(np.random.SeedSequence().generate_state(1)[0])


@contextmanager
def noticed_interrupts() -> Iterator[Interrupts]:
    """Note the first Ctrl-C, after which a method may return the best so far; a second one ends the process."""
    noticed = Interrupts()

    def answer(number: int, frame: FrameType | None) -> None:
        if noticed.seen:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)
        noticed.seen = True
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGINT, answer)
    except ValueError:  # not the main thread: Ctrl-C is left to the caller
        yield noticed
        return
    try:
        yield noticed
    finally:
        signal.signal(signal.SIGINT, before)


def read_samples(path: Path, columns: Columns) -> tuple[Table, Recipe | None]:
    """Read inputs and targets, and the recipe they were made by; ``a,b`` means two columns unless one is called that."""
    from planted.io import read_table

    recipe = columns.recipe_for(path)
    if recipe is not None:
        return read_table(path, recipe=recipe), recipe
    return _by_names(read_table, path, {"targets": columns.targets, "features": columns.features}), None


def read_blocks(path: Path, columns: Columns) -> tuple[RowBlocks, Recipe | None]:
    """Open a file or a folder as blocks; names mean what they mean in `read_samples`."""
    from planted.io import open_blocks

    recipe = columns.recipe_for(path)
    open_file = partial(open_blocks, weights=columns.weights)
    if recipe is not None:
        return open_file(path, recipe=recipe), recipe
    return _by_names(open_file, path, {"targets": columns.targets, "features": columns.features}), None


def _by_names(read: Callable[..., T], path: Path, names: Mapping[str, list[str] | None]) -> T:
    """Read with names as they were typed; if there is no such column, with ``a,b`` as two names."""
    given = {role: chosen or None for role, chosen in names.items()}
    try:
        return read(path, **given)
    except BadInputError:
        split = {role: split_names(chosen) for role, chosen in names.items()}
        if split == given:
            raise
        return read(path, **split)


def notes_on(table: Table, recipe: Recipe | None, path: Path | None = None) -> list[str]:
    """Say what was done to the columns of a table, and which of its inputs are constant, the same, or doubtful."""
    notes = [] if recipe is None else list(recipe.notes)
    notes += doubts_about(table.X, table.feature_names, path)
    constant = [
        j
        for j, (low, high) in enumerate(zip(table.X.min(axis=0), table.X.max(axis=0), strict=True))
        if low == high
    ]
    if len(table.X) > 1 and constant:
        values = ", ".join(f"{table.feature_names[j]!r} ({table.X[0, j]:g})" for j in constant[:5])
        more = f" and {len(constant) - 5} more" if len(constant) > 5 else ""
        notes.append(
            f"Constant inputs, which explain nothing: {values}{more}. Leave them out with --exclude."
        )
    fixed = [name for j, name in enumerate(table.target_names) if (table.Y[:, j] == table.Y[0, j]).all()]
    if len(table.X) > 1 and fixed:
        notes.append(f"The target {fixed[0]!r} is constant: there is nothing to learn about it.")
    notes += copies_of_targets(table)
    seen: dict[bytes, int] = {}
    for j in range(table.X.shape[1]):
        first = seen.setdefault(hashlib.sha256(table.X[:, j].tobytes()).digest(), j)
        if first != j and j not in constant:
            one, other = table.feature_names[first], table.feature_names[j]
            notes.append(f"Inputs {one!r} and {other!r} are the same; leave one out: --exclude {other!r}.")
    return notes


def copies_of_targets(table: Table) -> list[str]:
    """Name the inputs beside others that are a target, in other units perhaps: they may be known only with it."""
    if len(table.X) < FEWEST_ROWS or table.X.shape[1] == 1:
        return []
    X, Y = table.X - table.X.mean(axis=0), table.Y - table.Y.mean(axis=0)
    lengths = np.linalg.norm(X, axis=0)[:, None] * np.linalg.norm(Y, axis=0)
    same = (lengths > 0) & (np.abs(X.T @ Y) >= (1 - SAME) * lengths)
    return [
        f"Input {shown(table.feature_names[i])!r} is the target {shown(table.target_names[j])!r}, up to units. If it is "
        f"known only together with the target, leave it out: --exclude {shown(table.feature_names[i])!r}."
        for i, j in np.argwhere(same)
    ]


def doubts_about(X: Array, names: Sequence[str], path: Path | None) -> list[str]:
    """Return a sentence for every doubt about a table in memory."""
    notes = []
    is_text = path is not None and path.suffix.lower() not in (".npy", ".npz", ".parquet", ".feather")
    if is_text and all(map(str.isdecimal, names)):
        notes.append(
            f"{shown(path)} has no names of columns: its first line is read as a row, and columns are called 0, 1, … Give "
            "it a first line of names if that is wrong."
        )
    for name, column in zip(names, X.T, strict=True):
        if len(column) >= FEWEST_ROWS and (doubt := _doubt(column) or _doubt_by_name(column, name)):
            notes.append(f"Input {shown(name)!r} {doubt} --exclude {shown(name)!r}.")
    return notes


def _doubt(column: Array) -> str:
    """Return what speaks against taking the numbers of a column as they are, ending in what to do."""
    values = np.unique(column)
    is_whole = bool((values == np.floor(values)).all())
    if is_whole and (np.diff(column) == 1).all():
        return "rises by one from row to row. If it only numbers the rows, leave it out:"
    if is_whole and len(values) > 1 and all(map(_is_day, values[:SHOWN_DATES])):
        example = f"{values[0]:.0f}"
        return (
            f"looks like dates written as {example}, and is used as a number. Write dates as in "
            f"{example[:4]}-{example[4:6]}-{example[6:]}, or leave it out:"
        )
    for code in (values[0], values[-1]):
        others = values[values != code]
        times = int((column == code).sum())
        if code in CODES and len(others) > 2 and times > 1:
            gap = min(abs(code - others[0]), abs(code - others[-1]))
            if gap > FAR * (others[-1] - others[0]):
                return (
                    f"holds {code:g} in {times:,} rows, far from all others ({others[0]:g} to {others[-1]:g}). If that "
                    "means a missing value, empty those cells and choose --missing drop or mean, or leave the column out:"
                )
    return ""


def _doubt_by_name(column: Array, name: str) -> str:
    """Return what speaks for identity numbers: whole, different in every row, and named or written like them."""
    is_different = len(np.unique(column)) == len(column) and bool((column == np.floor(column)).all())
    if is_different and np.abs(column).max() >= EXACT:
        return "holds whole numbers of more than 15 digits, as keys do. If they only name the rows, leave it out:"
    if is_different and IDENTITY.search(name):
        return "holds a different whole number in every row. If these only name the rows, leave it out:"
    return ""


def _is_day(value: float) -> bool:
    """Return whether a number can be read as a day of 1900 to 2100, as in 20260131."""
    if not 19000101 <= value <= 21001231:
        return False
    try:
        datetime.strptime(f"{value:.0f}", "%Y%m%d")
    except ValueError:
        return False
    return True


def is_too_large(path: Path) -> bool:
    """Return whether a file takes more than half of the memory budget, which is a quarter of what is free."""
    from planted.io._memory import current_budget

    budget = current_budget().n_bytes
    return budget is not None and path.is_file() and path.stat().st_size > budget / 2


def read_inputs(
    path: Path,
    *,
    features: Sequence[str] | None = None,
    known: Sequence[str] | None = None,
    n_features: int,
    recipe: Recipe | None = None,
) -> Array:
    """Read the inputs of a network from a table that may or may not hold targets too.

    `features`: columns as they were typed; `known`: names of the inputs in the network's file. Where there are none, or only
    numbers that the table does not have, the table must have as many columns as there are inputs. Rows hold NaN if the
    recipe leaves out rows like them.
    """
    from planted.io.tables._tables import open_source, read_columns

    if recipe is not None and not features:
        return read_columns(path, recipe=recipe)[0]
    if (
        not features
        and known
        and not (all(map(str.isdigit, known)) and set(known) - set(open_source(path).names))
    ):
        features = known
    if features:
        return _chosen_inputs(path, features, n_features)
    columns, names = read_columns(path)
    _refuse_count(columns.shape[1], n_features, path)
    if not all(map(str.isdigit, names)):
        taken = ", ".join(repr(shown(name)) for name in names[:10]) + (", …" if len(names) > 10 else "")
        print_note(
            f"The network does not know the names of its inputs; the columns are taken in their order: {taken}."
        )
    return columns


def _chosen_inputs(path: Path, features: Sequence[str], n_features: int) -> Array:
    """Read columns by name; ``a,b`` means two unless one is called that."""
    from planted.io.tables._tables import open_source, read_columns

    names = open_source(path).names
    chosen = split_names(list(features), known=names) or []
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise BadInputError(f"{path} has no column {unknown[0]!r}. It has: {', '.join(names[:10])}.")
    _refuse_count(len(chosen), n_features, path)
    return read_columns(path, chosen)[0]


def _refuse_count(n_columns: int, n_features: int, path: Path) -> None:
    if n_columns != n_features:
        raise BadInputError(
            f"the network has {n_features} inputs, but {n_columns} columns of {shown(path)} were chosen. "
            "Name the inputs with --features, in the order of the network."
        )


def write_page(path: Path, page: str) -> None:
    """Write a text file as a whole or not at all."""
    from planted.io.state._atomic import atomic_write

    atomic_write(path, lambda partial: partial.write_text(page, encoding="utf-8"))


def save_with_columns(
    network: Any,
    out: Path,
    names: Mapping[str, Any],
    recipe: Recipe | None = None,
    *,
    noise: tuple[float, float] | None = None,
    labels: Labels | None = None,
) -> list[str]:
    """Write a network with the names of its columns, so that `predict` finds them again; without, if they cannot be kept.

    `names`: ``feature_names`` and ``target_names``, or nothing; `recipe`: how columns become inputs. `noise`: that of
    predictions, if it is known. `labels`: what the outputs mean, if they are not the targets themselves. Returns
    what is to be said about it.
    """
    from planted.io import check_columns, save_network

    columns = {"features": names.get("feature_names"), "targets": names.get("target_names")}
    try:
        check_columns(network, **columns)
    except BadInputError as error:
        save_network(network, out, noise=noise, labels=labels)
        return [f"The network is in {out}.", f"The names of the columns are not kept: {error}"]
    if recipe is not None and labels is not None:  # one output for every class but the first
        recipe = replace(recipe, targets=tuple(columns["targets"] or ()), flags=(), classes=())
    if recipe is not None and not recipe.is_plain:
        save_network(network, out, recipe=recipe, noise=noise, labels=labels)
        return [
            f"The network is in {out}, with the preparation of the columns, which `planted predict` repeats."
        ]
    save_network(network, out, **columns, noise=noise, labels=labels)
    return [f"The network is in {out}."]
