"""Tables and long runs as the commands need them: what is read, in memory or in blocks, and where it is written.

Files in blocks may be read on a cluster and leave a checkpoint behind when Ctrl-C stops the run.
"""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from planted._typing import Array
from planted.cli._console import print_note
from planted.cli._options import split_names
from planted.outcomes import BadInputError

__all__ = [
    "Columns",
    "LongRun",
    "default_folder",
    "is_too_large",
    "noticed_interrupts",
    "open_run",
    "read_blocks",
    "read_inputs",
    "read_samples",
    "save_with_columns",
    "write_page",
]

if TYPE_CHECKING:
    from planted.io import Table
    from planted.rows import RowBlocks

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of columns as they were typed."""

    targets: list[str] | None
    features: list[str] | None
    weights: str | None = None


@dataclass(slots=True)
class LongRun:
    """Rows in blocks, the seed of the solver, and the folder of the checkpoint."""

    blocks: RowBlocks
    seed: int | None
    folder: Path | None

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
    blocks = read_blocks(data, columns)
    if cluster is not None:
        from planted.distributed import on_cluster

        blocks = on_cluster(blocks, cluster)
    if folder is None:
        folder = default_folder(data)
        if not os.access(Path.cwd(), os.W_OK):
            print_note(
                f"{Path.cwd()} is read-only: there will be no checkpoint unless --checkpoint names a folder."
            )
            return LongRun(blocks, seed, None)
    from planted.io import Checkpoint, checkpointed

    found = Checkpoint(folder).manifest() if resume else None
    if resume and found is None:
        print_note(f"There is no checkpoint in {folder}; the run starts from the beginning.")
    if seed is None:
        seed = _seed_of(found)
    blocks = checkpointed(
        blocks, folder, resume=resume, parameters={**parameters, "seed": seed}, wait_seconds=wait_seconds
    )
    return LongRun(blocks, seed, folder)


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


def read_samples(path: Path, *, targets: list[str] | None, features: list[str] | None) -> Table:
    """Read inputs and targets; ``a,b`` means two columns unless one is called that."""
    from planted.io import read_table

    return _by_names(read_table, path, targets, features)


def read_blocks(path: Path, columns: Columns) -> RowBlocks:
    """Open a file or a folder as blocks; names mean what they mean in `read_samples`."""
    from planted.io import open_blocks

    return _by_names(partial(open_blocks, weights=columns.weights), path, columns.targets, columns.features)


def _by_names(read: Callable[..., T], path: Path, targets: list[str] | None, features: list[str] | None) -> T:
    given = targets or None, features or None
    try:
        return read(path, targets=given[0], features=given[1])
    except BadInputError:
        split = split_names(targets), split_names(features)
        if split == given:
            raise
        return read(path, targets=split[0], features=split[1])


def is_too_large(path: Path) -> bool:
    """Return whether a file takes more than half of the memory budget, which is a quarter of what is free."""
    from planted.io._memory import current_budget

    budget = current_budget().n_bytes
    return budget is not None and path.is_file() and path.stat().st_size > budget / 2


def read_inputs(path: Path, *, features: list[str] | None, n_features: int) -> Array:
    """Read the inputs of a network from a table that may or may not hold targets too."""
    from planted.io import read_table

    table = read_table(path, targets=() if _has_one_column(path) else None)
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


def _has_one_column(path: Path) -> bool:
    """Return whether a table has one column, which cannot be its target if inputs are looked for."""
    from planted.io._memory import current_budget
    from planted.io.tables._tables import open_source

    return len(open_source(path, current_budget()).names) == 1


def write_page(path: Path, page: str) -> None:
    """Write a text file as a whole or not at all."""
    from planted.io.state._atomic import atomic_write

    atomic_write(path, lambda partial: partial.write_text(page, encoding="utf-8"))


def save_with_columns(
    network: Any, out: Path, names: Mapping[str, Any], *, noise: tuple[float, float] | None = None
) -> list[str]:
    """Write a network with the names of its columns, so that `predict` finds them again; without, if they cannot be kept.

    `names`: ``feature_names`` and ``target_names``, or nothing. `noise`: that of predictions, if it is known. Returns what
    is to be said about it.
    """
    from planted.io import check_columns

    columns = {"features": names.get("feature_names"), "targets": names.get("target_names")}
    try:
        check_columns(network, **columns)
    except BadInputError as error:
        network.save(out, noise=noise)
        return [f"The network is in {out}.", f"The names of the columns are not kept: {error}"]
    network.save(out, **columns, noise=noise)
    return [f"The network is in {out}."]
