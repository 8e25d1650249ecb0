"""Files as row blocks: larger than memory, from any row on, the same bits as the table in memory.

One file, several, or a folder of them are one table, their rows one after the other in the order of their names. Rows are
cut into blocks across files and row groups, so that results do not depend on how the table was split. Parquet is entered at
its row groups and `.npy` at any row: workers read their own parts. `.csv`, `.feather` and `.npz` are read from their start,
by one reader.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from planted._typing import Array
from planted.io._memory import Budget, chosen_bytes, current_budget
from planted.io.tables._recipe import Recipe
from planted.io.tables._source import PLAIN, Source, format_of
from planted.io.tables._tables import (
    BLOCK_ROWS,
    Column,
    choose_columns,
    cut_evenly,
    find_columns,
    open_source,
    prepared,
    table_files,
)
from planted.outcomes import BadInputError, shown
from planted.rows import (
    DEFAULT_BLOCK_ROWS,
    PART_BLOCKS,
    Block,
    RowBlocks,
    RowSource,
    outline_rows,
    root_of,
    weighed_block,
)

__all__ = ["TableSource", "columns_of", "open_blocks", "watched_rows"]

# Called as watcher(first row, rows, rows in all or None) for each block that is read in this thread.
_watcher: ContextVar[Callable[[int, int, int | None], None] | None] = ContextVar("planted_rows", default=None)


@contextmanager
def watched_rows(watcher: Callable[[int, int, int | None], None]) -> Iterator[None]:
    """Tell a function of every block of files that is read inside this block of code, in this process."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def open_blocks(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    targets: Column | Sequence[Column] | None = None,
    features: Column | Sequence[Column] | None = None,
    weights: Column | None = None,
    recipe: Recipe | None = None,
    block_rows: int = DEFAULT_BLOCK_ROWS,
    memory: int | str | None = None,
) -> RowBlocks:
    """Open files as row blocks for `planted.recover`; nothing is loaded but their heads.

    Parameters
    ----------
    path : path-like or sequence of path-like
        A `.parquet`, `.npy`, `.csv`, `.tsv` (also `.csv.gz`), `.feather` or `.npz` file, a folder of such files, or several.
    targets, features : str, int or sequence of them, optional
        The columns, as in `planted.io.read_table`.
    weights : str or int, optional
        A column of weights of the rows, which is then neither a feature nor a target by default. Negative and missing
        weights are refused by row; rows of weight zero are left out. Of the methods of `planted.recover`, "restarts"
        takes weights, and "auto" then stands for it.
    recipe : Recipe, optional
        How columns of text, dates and gaps become numbers, from `planted.io.learn_recipe`; it names the columns too.
    block_rows : int
        Rows in each block; the last one may be shorter. Results depend on it by rounding only.
    memory : int or str, optional
        How much reading may allocate, in bytes or as in "4GB"; by default half of what is free when it begins. Workers of a
        cluster keep to it too, each for itself.

    Returns
    -------
    RowBlocks
        The rows.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> for name in "ab":
    ...     np.save(Path(folder.name) / f"{name}.npy", np.arange(12.0).reshape(4, 3))
    >>> [X.shape for X, Y in open_blocks(folder.name, block_rows=3)]
    [(3, 2), (3, 2), (2, 2)]
    >>> folder.cleanup()
    """
    if isinstance(block_rows, bool) or not isinstance(block_rows, int) or block_rows < 1:
        raise BadInputError(f"block_rows={block_rows!r}, expected an integer of at least 1.")
    files = table_files(path)
    budget = current_budget(memory)
    first = open_source(files[0], budget, PLAIN if recipe is None else recipe.reading)
    if recipe is None:
        inputs, outputs, weight = choose_columns(first, targets, features, weights=weights)
    else:
        inputs, outputs = (
            find_columns(first, recipe.names, "features"),
            find_columns(first, recipe.targets, "targets"),
        )
        weight = None if weights is None else find_columns(first, weights, "weights")[0]
    lengths = [_length(first)]
    for file in files[1:]:  # their heads are not kept: a thousand wide files have a thousand times the names
        other = open_source(file, budget, PLAIN if recipe is None else recipe.reading)
        if other.names != first.names:
            raise BadInputError(
                f"{shown(file)} has the columns {other.names[:10]}, but {shown(files[0])} has {first.names[:10]}."
            )
        lengths.append(_length(other))
    rows = tuple(n_rows for n_rows in lengths if n_rows is not None)
    source = TableSource(
        paths=tuple(map(str, files)),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        weight=weight,
        # Rows that are left out move those behind them: such files are read from their start.
        rows=rows if len(rows) == len(files) and (recipe is None or recipe.missing != "drop") else None,
        block_rows=block_rows,
        memory=chosen_bytes(memory),
        recipe=recipe,
    )
    return RowBlocks.from_source(source)


def columns_of(blocks: RowBlocks) -> dict[str, tuple[str, ...]]:
    """Return the names of the features and of the targets of blocks of files; nothing if they are not of files.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.save(Path(folder.name) / "a.npy", np.ones((4, 3)))
    >>> columns_of(open_blocks(folder.name))
    {'feature_names': ('0', '1'), 'target_names': ('2',)}
    >>> folder.cleanup()
    """
    source = root_of(blocks.source)
    if not isinstance(source, TableSource):
        return {}
    if source.recipe is not None:
        return {"feature_names": source.recipe.inputs, "target_names": source.recipe.targets}
    names = open_source(source.paths[0], current_budget(source.memory)).names
    chosen = {"feature_names": source.inputs, "target_names": source.outputs}
    return {role: tuple(names[j] for j in places) for role, places in chosen.items()}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableSource(RowSource):
    """Rows of files; small, so that it can be sent to workers, which open the files themselves."""

    paths: tuple[str, ...]  # the files
    inputs: tuple[int, ...]  # their columns
    outputs: tuple[int, ...]
    weight: int | None  # the column of weights
    rows: tuple[int, ...] | None  # rows of each file; None if a file can only be read from its beginning
    block_rows: int  # rows in a block
    memory: int | None = None  # the budget in bytes, where the caller gave one
    recipe: Recipe | None = None  # how columns become inputs, where they are not numbers as they stand

    @property
    def n_parts(self) -> int | None:
        """Number of parts, where files can be entered anywhere."""
        return None if self.rows is None else -(-sum(self.rows) // (PART_BLOCKS * self.block_rows))

    @property
    def is_weighted(self) -> bool:
        """Whether there is a column of weights."""
        return self.weight is not None

    @property
    def columns(self) -> tuple[int, ...]:
        """All columns that are read: inputs, outputs, weights."""
        return (*self.inputs, *self.outputs, *(() if self.weight is None else (self.weight,)))

    def blocks(self, first: int, last: int | None) -> Iterator[Block]:
        """Yield the blocks of some parts."""
        number, step = first * PART_BLOCKS, self.block_rows
        d = len(self.inputs) if self.recipe is None else len(self.recipe.inputs)
        end = d + len(self.outputs)
        budget = current_budget(self.memory)
        all_names = self._open(self.paths[0], budget).names
        names = [all_names[j] for j in self.columns]
        label = shown(self.paths[0] if len(self.paths) == 1 else Path(self.paths[0]).parent)
        n_behind = len(self.columns) - len(self.inputs)
        may_drop = self.recipe is not None and self.recipe.missing == "drop"
        streamed = self._values(0 if may_drop else number * step, budget)
        if may_drop:  # before rows are counted
            streamed = _dropping(self._prepared(streamed, label, names, n_behind), number * step)
        for values in cut_evenly(streamed, step, label=label, budget=budget):
            if last is not None and number >= last * PART_BLOCKS:
                return
            if not may_drop:
                where = f"block {number} of {label}"
                values = prepared(
                    values, self.recipe, label=where, names=names, first_row=number * step, n_behind=n_behind
                )
            X, Y = np.ascontiguousarray(values[:, :d]), np.ascontiguousarray(values[:, d:end])
            block = Block(number // PART_BLOCKS, number, number * step, X, Y)
            watcher = _watcher.get()
            if watcher is not None:
                watcher(number * step, len(X), None if self.rows is None else sum(self.rows))
            yield block if self.weight is None else weighed_block(block, values[:, end])
            number += 1
        if number == 0:
            raise BadInputError(f"{label} has 0 sample(s): there is a header, but no row of data.")

    def _open(self, path: str, budget: Budget) -> Source:
        """Open a file, its cells read as the recipe says."""
        return open_source(path, budget, PLAIN if self.recipe is None else self.recipe.reading)

    def _prepared(
        self, blocks: Iterator[Array], label: str, names: Sequence[str], n_behind: int
    ) -> Iterator[Array]:
        """Turn columns into inputs, block by block."""
        first_row = 0
        for block in blocks:
            yield prepared(
                block, self.recipe, label=label, names=names, first_row=first_row, n_behind=n_behind
            )
            first_row += len(block)

    def _values(self, row: int, budget: Budget) -> Iterator[Array]:
        """Stream inputs and outputs side by side from a row on, file after file."""
        columns = self.columns
        if self.rows is None:
            streams = (self._open(path, budget).stream(columns, BLOCK_ROWS) for path in self.paths)
            return _dropping(chain.from_iterable(streams), row)
        begins = np.cumsum([0, *self.rows])
        return chain.from_iterable(
            self._open(path, budget).stream(columns, BLOCK_ROWS, max(row - int(begin), 0))
            for path, begin, n_rows in zip(self.paths, begins[:-1], self.rows, strict=True)
            if row < begin + n_rows
        )

    def __repr__(self) -> str:
        files = "a file" if len(self.paths) == 1 else f"{len(self.paths)} files"
        kind = f"{files} ({format_of(Path(self.paths[0]))})"
        n_rows = None if self.rows is None else sum(self.rows)
        columns = [len(self.inputs), len(self.outputs)]
        return outline_rows(kind, n_rows, columns, block_rows=self.block_rows, weighted=self.is_weighted)


def _length(source: Source) -> int | None:
    """Return the number of rows of a file that can be entered anywhere."""
    return source.n_rows if source.blocks_from is not None else None


def _dropping(blocks: Iterator[Array], rows: int) -> Iterator[Array]:
    for block in blocks:
        kept = block[min(rows, len(block)) :]
        rows = max(rows - len(block), 0)
        if len(kept):
            yield kept
