"""Long runs from the command line: files in blocks, on a cluster, with a checkpoint that Ctrl-C leaves behind."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from planted.cli._console import print_note
from planted.cli._options import split_names

if TYPE_CHECKING:
    from planted.rows import RowBlocks

__all__ = ["Columns", "LongRun", "default_folder", "noticed_interrupts", "open_run"]


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
    from planted.io import open_blocks

    targets, features = split_names(columns.targets), split_names(columns.features)
    blocks = open_blocks(data, targets=targets, features=features, weights=columns.weights)
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
    import numpy as np

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
