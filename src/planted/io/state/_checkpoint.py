"""Checkpoints: what was summed is never summed again.

A run is a sequence of passes over the rows with small deterministic algebra between them. The checkpoint is a folder with
the sums of every complete pass and the open nodes of the one under way. To resume is to run again: passes that are complete
are read from the folder, the open one goes on at the part where it stopped, and since sums are merged in a fixed tree the
result is that of the uninterrupted run, bit by bit. Every file is written whole or not at all. A checkpoint of other data,
parameters or versions is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from planted._typing import Json
from planted._version import __version__
from planted.io.state._atomic import atomic_write
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError, DataWarning, FileFormatError
from planted.rows import RowBlocks, Summand, Sums, SumTree, kind_of, pack_sums, root_of, unpack_sums

__all__ = ["Checkpoint", "checkpointed", "fingerprint_of"]

S = TypeVar("S", bound=Sums)

FORMAT, SCHEMA = "planted.checkpoint", 2
MANIFEST, OPEN_PASS = "manifest.json", "open-pass.npz"
SAVE_SECONDS = 10.0
_WHAT_DEFINES_A_RUN = {
    "schema": "version",
    "versions": "version",
    "data": "data",
    "parameters": "parameters",
}


def checkpointed(
    blocks: RowBlocks,
    folder: str | os.PathLike[str],
    *,
    resume: bool = False,
    parameters: Mapping[str, Any] | None = None,
    save_seconds: float = SAVE_SECONDS,
) -> RowBlocks:
    """Return the same rows with every pass over them remembered in a folder.

    Parameters
    ----------
    blocks : RowBlocks
        The rows.
    folder : path-like
        Where the checkpoint is kept; created if it is not there.
    resume : bool
        Go on with the checkpoint that is there; without, it is replaced.
    parameters : mapping, optional
        What else defines the run, such as the method and the seed; a checkpoint of other parameters is refused.
    save_seconds : float
        Seconds between two writings of an open pass.

    Returns
    -------
    RowBlocks
        The rows, to be passed to `planted.recover` with a fixed ``random_state``.

    Examples
    --------
    >>> import tempfile
    >>> from planted.moments import joint_moments
    >>> folder = tempfile.TemporaryDirectory()
    >>> blocks = RowBlocks.from_arrays(np.eye(3), np.ones((3, 1)))
    >>> first = joint_moments(checkpointed(blocks, folder.name))
    >>> again = joint_moments(checkpointed(blocks, folder.name, resume=True))
    >>> bool((first.scatter == again.scatter).all())
    True
    >>> folder.cleanup()
    """
    manifest = {
        "format": FORMAT,
        "schema": SCHEMA,
        "versions": {"planted": __version__, "numpy": np.__version__},
        "data": fingerprint_of(blocks),
        "parameters": json.loads(json.dumps(dict(parameters or {}), default=str)),
    }
    checkpoint = Checkpoint(Path(folder), save_seconds)
    checkpoint.begin(manifest, resume=resume)
    return blocks.executed(journal=checkpoint)


@dataclass(slots=True)
class Checkpoint:
    """The journal of a run in a folder."""

    folder: Path  # where it is kept
    save_seconds: float = SAVE_SECONDS  # seconds between two writings of an open pass
    _digests: dict[int, str] = field(default_factory=dict, init=False)
    _saved_at: float = field(default_factory=monotonic, init=False)
    _is_off: bool = field(default=False, init=False)
    _resumes: bool = field(default=False, init=False)

    def begin(self, manifest: Json, *, resume: bool) -> None:
        """Start anew, or check that what is there belongs to this run."""
        found = self.manifest() if resume else None
        self._resumes = found is not None
        if found is not None:
            for name, what in _WHAT_DEFINES_A_RUN.items():
                if found.get(name) != manifest[name]:
                    difference = _difference(found.get(name), manifest[name])
                    raise BadInputError(
                        f"the checkpoint in {self.folder} is of other {what} ({difference}). "
                        "Run with what it was made with, or without resuming."
                    )
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self.remove(keep_folder=True)
        text = json.dumps(manifest, indent=1)
        atomic_write(self.folder / MANIFEST, lambda file: file.write_text(text, encoding="utf-8"))

    def manifest(self) -> Json | None:
        """Return what the checkpoint in the folder says of itself."""
        path = self.folder / MANIFEST
        if not path.exists():
            return None
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FileFormatError(f"{path} is damaged ({error}); delete the folder and run anew.") from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise FileFormatError(f"{path} is not the manifest of a checkpoint; choose another folder.")
        return found

    def open_pass(self, number: int, summand: Summand[S]) -> SumTree[S] | S:
        """Return the sums of a complete pass, else the tree to go on with.

        `summand`: what is summed; a pass that summed something else is refused.
        """
        self._digests[number] = _digest(summand)
        self._saved_at = monotonic()
        nodes = self._read(self._path(number), number)
        if nodes is not None:
            return cast(S, nodes.nodes[0])
        return cast("SumTree[S]", self._read(self.folder / OPEN_PASS, number) or SumTree())

    def note(self, number: int, tree: SumTree[Any]) -> None:
        """Write the open pass if the last writing is long ago."""
        if monotonic() - self._saved_at >= self.save_seconds:
            self.save(number, tree)

    def save(self, number: int, tree: SumTree[Any]) -> None:
        """Write the open pass."""
        self._write(self.folder / OPEN_PASS, number, tree)
        self._saved_at = monotonic()

    def close_pass(self, number: int, total: Sums) -> None:
        """Write the sums of a complete pass."""
        self._write(self._path(number), number, SumTree([1], [total]))

    def remove(self, *, keep_folder: bool = False) -> None:
        """Delete the checkpoint, and nothing else that may be in the folder."""
        for pattern in (MANIFEST, OPEN_PASS, "pass-*.npz"):
            for file in self.folder.glob(pattern):
                file.unlink()
        if not keep_folder and self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _path(self, number: int) -> Path:
        return self.folder / f"pass-{number:05d}.npz"

    def _write(self, path: Path, number: int, tree: SumTree[Any]) -> None:
        """Write a tree; a full disk ends the checkpoint, not the run."""
        if self._is_off:
            return
        arrays = {
            f"{level}.{name}": array
            for level, node in enumerate(tree.nodes)
            if node is not None
            for name, array in pack_sums(node).items()
        }
        kinds = [None if node is None else kind_of(type(node)) for node in tree.nodes]
        head = {"number": number, "digest": self._digests[number], "counts": tree.counts, "kinds": kinds}
        try:
            atomic_write(path, partial(_save_arrays, head, arrays))
        except OSError as error:
            self._is_off = True
            warnings.warn(
                f"the checkpoint in {self.folder} could not be written ({error.strerror or error}): the run goes on, "
                "what was written before is intact, and nothing more will be.",
                DataWarning,
                stacklevel=2,
            )

    def _read(self, path: Path, number: int) -> SumTree[Any] | None:
        """Read a tree of this pass; None if the file is not there or of another pass."""
        if not self._resumes or not path.exists():
            return None
        try:
            with np.load(path, allow_pickle=False) as archive:
                head = json.loads(str(archive["head"]))
                if head["number"] != number:
                    return None
                arrays = {name: archive[name] for name in archive.files if name != "head"}
                nodes = [
                    kind and unpack_sums(kind, _of_level(arrays, level))
                    for level, kind in enumerate(head["kinds"])
                ]
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise FileFormatError(
                f"{path} is damaged ({error}); delete {self.folder} and run anew."
            ) from error
        if head["digest"] != self._digests[number]:
            raise BadInputError(
                f"the checkpoint in {self.folder} is of other parameters: its pass {number} summed something else. "
                "Give the same options and the same seed, or run without resuming."
            )
        return SumTree(list(head["counts"]), nodes)


def fingerprint_of(blocks: RowBlocks) -> str:
    """Return a hash that tells data apart: of files' names, sizes, times and ends; of all numbers of arrays.

    `blocks`: the rows; of a plain stream only the first block is looked at.
    """
    root: Any = root_of(blocks.source)
    if hasattr(root, "fingerprint"):
        return str(root.fingerprint())
    digest = hashlib.sha256()
    for block in root.blocks(0, None):
        arrays = (block.X, block.Y) if block.w is None else (block.X, block.Y, block.w)
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
        if root.n_parts is None:
            break
    return digest.hexdigest()


def _save_arrays(head: Json, arrays: Mapping[str, Any], path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, head=np.array(json.dumps(head)), **arrays)


def _of_level(arrays: Mapping[str, Any], level: int) -> dict[str, Any]:
    start = f"{level}."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def _difference(found: Any, expected: Any) -> str:
    """Name the first thing that differs."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for name in sorted({*found, *expected}):
            if found.get(name) != expected.get(name):
                return f"{name} was {found.get(name)!r} and is {expected.get(name)!r}"
    return f"{str(found)[:12]} against {str(expected)[:12]}"


def _digest(summand: object) -> str:
    """Return a hash of what is summed: the kind of sums and every number they depend on."""
    digest = hashlib.sha256()
    _feed(summand, digest.update)
    return digest.hexdigest()


def _feed(value: Any, update: Callable[[bytes], object]) -> None:
    if isinstance(value, TwoLayerNetwork):
        _feed((value.W, value.b, value.A, value.c, value.activation.name), update)
    elif isinstance(value, np.ndarray):
        update(repr((value.dtype.str, value.shape)).encode() + np.ascontiguousarray(value).tobytes())
    elif is_dataclass(value) and not isinstance(value, type):
        update(kind_of(type(value)).encode())
        for item in fields(value):
            _feed(getattr(value, item.name), update)
    elif isinstance(value, partial):
        _feed((value.func, value.args, sorted(value.keywords.items())), update)
    elif isinstance(value, FunctionType):
        update(f"{value.__module__}.{value.__qualname__}".encode())
        _feed([cell.cell_contents for cell in value.__closure__ or ()], update)
    elif isinstance(value, list | tuple):
        for item in value:
            _feed(item, update)
    elif isinstance(value, dict):
        _feed(sorted(value.items()), update)
    else:
        update(repr(value).encode())
