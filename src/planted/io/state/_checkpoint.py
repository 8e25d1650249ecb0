"""Checkpoints: what was summed is never summed again.

A run is a sequence of passes over the rows with small deterministic algebra between them. The checkpoint is a folder with
the sums of every complete pass and the open nodes of the one under way. To resume is to run again: passes that are complete
are read from the folder, the open one goes on at the part where it stopped, and since sums are merged in a fixed tree the
result is that of the uninterrupted run, bit by bit.

Every file carries the identity of the rows it was summed over (`planted.io.state._identity`), and a resumed run compares it
with the rows at hand before it uses anything: a checkpoint of other rows, parameters or versions is refused. One run at a
time writes in a folder (`planted.io.state._lock`). Every file is written whole or not at all and begins with a line that
names planted and the hash of the rest; what does not begin so is never deleted or overwritten.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, TypeVar, cast

import numpy as np

from planted._typing import Json
from planted._version import __version__
from planted.io._memory import Budget, current_budget
from planted.io.state._archive import DAMAGES, read_archive, read_head, write_archive
from planted.io.state._atomic import atomic_write, remove_strays
from planted.io.state._functions import digest_of
from planted.io.state._identity import HashingEngine, RowIdentity, views_above
from planted.io.state._lock import Lease, lock_folder
from planted.io.tables._source import reason_of
from planted.outcomes import BadInputError, DataWarning, FileFormatError
from planted.rows import (
    FAN_IN,
    Engine,
    RowBlocks,
    RowSource,
    Summand,
    Sums,
    SumTree,
    kind_of,
    pack_sums,
    unpack_sums,
)

__all__ = ["Checkpoint", "checkpointed"]

S = TypeVar("S", bound=Sums)

FORMAT, SCHEMA = "planted.checkpoint", 3
MANIFEST, OPEN_PASS = "planted-manifest.json", "planted-open-pass.npz"
SAVE_SECONDS = 10.0
LARGEST_MANIFEST = 1 << 22  # bytes; ours have less than a thousand and what the caller's parameters take
_WHAT_DEFINES_A_RUN = {"versions": "version", "identity": "data", "parameters": "parameters"}
_PASSES = re.compile(r"planted-(open-pass|pass-\d{5,})\.npz")
_STEMS = re.compile(r"planted-(manifest|open-pass|pass-\d{5,})")
_FIRST_LINE = re.compile(rb"planted checkpoint 3 sha256 ([0-9a-f]{64})\n")
_LINE_BYTES = len("planted checkpoint 3 sha256 \n") + 64
_OLD_MANIFEST = "manifest.json"  # of planted 0.1.0, whose checkpoints did not say which rows they belong to


def checkpointed(
    blocks: RowBlocks,
    folder: str | os.PathLike[str],
    *,
    resume: bool = False,
    parameters: Mapping[str, Any] | None = None,
    save_seconds: float = SAVE_SECONDS,
    identity: str | None = None,
    wait_seconds: float = 0.0,
) -> RowBlocks:
    """Return the same rows with every pass over them remembered in a folder.

    A process has a folder for itself until these blocks are deleted or it ends; files in the folder that planted did not
    write are left alone. On a cluster call `planted.on_cluster` first, so that the workers hash the rows.

    Parameters
    ----------
    blocks : RowBlocks
        The rows.
    folder : path-like
        Where the checkpoint is kept; created if it is not there.
    resume : bool
        Go on with the checkpoint that is there; without, it is replaced. Before the first pass all rows are read once
        and compared with those that the checkpoint was made of.
    parameters : mapping, optional
        What else defines the run, such as the method and the seed; a checkpoint of other parameters is refused. Functions
        that are applied to the returned rows (`RowBlocks.map`) are compared by their code and the values they use.
    save_seconds : float
        Seconds between two writings of an open pass.
    identity : str, optional
        A name for the rows, such as the version of a database, where reading them once more is too dear. Rows are then
        not hashed: a checkpoint with the same name is taken for one of the same rows, at the caller's word.
    wait_seconds : float
        How long to wait for another process that uses the folder before refusing.

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
    engine = blocks.passes.engine
    given = replace(blocks, entry=blocks.source)
    manifest = {
        "format": FORMAT,
        "schema": SCHEMA,
        "versions": {"planted": __version__, "numpy": np.__version__, "python": platform.python_version()},
        "identity": identity,
        "parameters": json.loads(json.dumps(dict(parameters or {}), default=str)),
    }
    checkpoint = Checkpoint(Path(folder), save_seconds)
    checkpoint.rows = RowIdentity(given.source, identity)
    checkpoint.engine = engine
    checkpoint.begin(manifest, resume=resume, wait_seconds=wait_seconds)
    return given.executed(engine=engine or HashingEngine(checkpoint.rows), journal=checkpoint)


@dataclass(slots=True)
class Checkpoint:
    """The journal of a run in a folder."""

    folder: Path  # where it is kept
    save_seconds: float = SAVE_SECONDS  # seconds between two writings of an open pass
    rows: RowIdentity | None = field(default=None, init=False)  # which rows are summed
    engine: Engine | None = field(default=None, init=False)  # what hashes them; None for the first pass
    _lease: Lease | None = field(default=None, init=False)
    _digests: dict[int, str] = field(default_factory=dict, init=False)
    _saved_at: float = field(default_factory=monotonic, init=False)
    _is_off: bool = field(default=False, init=False)
    _resumes: bool = field(default=False, init=False)
    # Of files whose rows are not yet compared:
    _marks: dict[str, Any] = field(default_factory=dict, init=False)

    def begin(self, manifest: Json, *, resume: bool, wait_seconds: float = 0.0) -> None:
        """Start anew, or check that what is there belongs to this run."""
        if self.folder.exists() and not self.folder.is_dir():
            raise BadInputError(f"{self.folder} is a file; expected a folder for the checkpoint.")
        is_new = not self.folder.exists()
        self._lease = lock_folder(self.folder, wait_seconds=wait_seconds)
        remove_strays(self.folder, _STEMS)
        found = self.manifest()
        if resume and found is not None:
            self._resumes = True
            self._compare(found, manifest)
            return
        if resume:
            self._refuse_old()
        is_ours = is_new or bool(found and found.get("made_folder"))
        self._delete_passes()
        text = json.dumps({**manifest, "made_folder": is_ours}, indent=1)
        atomic_write(self.folder / MANIFEST, lambda file: file.write_text(text, encoding="utf-8"))

    def manifest(self) -> Json | None:
        """Return what the checkpoint in the folder says of itself."""
        path = self.folder / MANIFEST
        if not path.exists() and not path.is_symlink():
            return None
        if path.is_symlink() or not path.is_file():
            raise FileFormatError(f"{path} was not written by planted; choose another folder.")
        try:
            found = _read_record(path)
        except (OSError, ValueError, RecursionError) as error:
            raise FileFormatError(
                f"{path} is damaged or not of planted ({reason_of(error)}); delete it and run anew, or choose another "
                "folder."
            ) from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise FileFormatError(f"{path} is not the manifest of a checkpoint; choose another folder.")
        return found

    def open_pass(self, number: int, summand: Summand[S], source: RowSource) -> SumTree[S] | S:
        """Return the sums of a complete pass, else the tree to go on with.

        `summand`, `source`: what is summed, of which functions of the rows; a pass that summed something else is refused.
        """
        self._require_lease()
        self._compare_rows()
        views = [] if self.rows is None else views_above(source, self.rows.source)
        self._digests[number] = digest_of((summand, views) if views else summand)
        self._saved_at = monotonic()
        nodes = self._read(self._path(number), number)
        if nodes is not None:
            if nodes.counts != [1] or nodes.nodes[0] is None:
                raise FileFormatError(f"{self._path(number)} is damaged: it does not hold one complete pass.")
            return cast(S, nodes.nodes[0])
        return cast("SumTree[S]", self._read(self.folder / OPEN_PASS, number) or SumTree())

    def note(self, number: int, tree: SumTree[Any]) -> None:
        """Write the open pass if the last writing is long ago."""
        if monotonic() - self._saved_at >= self.save_seconds:
            self.save(number, tree)

    def save(self, number: int, tree: SumTree[Any]) -> None:
        """Write the open pass, unless it is not known which rows were summed."""
        mark = self.rows.mark(tree.n_parts) if self.rows is not None else None
        if mark is not None:
            self._write(self.folder / OPEN_PASS, number, tree, mark)
        self._saved_at = monotonic()

    def close_pass(self, number: int, total: Sums) -> None:
        """Write the sums of a complete pass."""
        assert self.rows is not None
        self.rows.read()  # only if the pass did not hash them: they are read again then
        self._write(self._path(number), number, SumTree([1], [total]), self.rows.mark())

    def remove(self) -> None:
        """Delete the checkpoint, and nothing else that may be in the folder."""
        if not self.folder.is_dir():
            return
        if self._lease is None or not self._lease.is_current:
            self._lease = lock_folder(self.folder)
        found = self.manifest()
        self._delete_passes()
        (self.folder / MANIFEST).unlink(missing_ok=True)
        self._lease.release()
        if found and found.get("made_folder") and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _compare(self, found: Json, manifest: Json) -> None:
        """Refuse a checkpoint of other versions or parameters, and one that is damaged."""
        if found.get("schema") != SCHEMA:
            raise BadInputError(
                f"the checkpoint in {self.folder} is of other version (schema {found.get('schema')!r}; this planted writes "
                f"{SCHEMA}). Run without resuming."
            )
        for name, what in _WHAT_DEFINES_A_RUN.items():
            if found.get(name) != manifest[name]:
                difference = _difference(found.get(name), manifest[name])
                raise BadInputError(
                    f"the checkpoint in {self.folder} is of other {what} ({difference}). "
                    "Run with what it was made with, or without resuming."
                )
        self._marks = {path.name: self._load(path, read_head).get("rows") for path in self._passes()}

    def _compare_rows(self) -> None:
        """Before the first pass, and within its time budget: hash the rows if need be, and refuse a checkpoint of others."""
        if self.rows is None:
            return
        if self._marks or self.engine is not None:
            self.rows.read(self.engine)
        for name, mark in self._marks.items():
            if not self.rows.agrees_with(mark):
                raise BadInputError(
                    f"the checkpoint in {self.folder} is of other data: the rows are not those that {name} was summed "
                    "over. Run on the same rows, or without resuming."
                )
        self._marks = {}
        self.rows.check_files()

    def _refuse_old(self) -> None:
        """Refuse to resume from a checkpoint of planted 0.1.0, which does not say which rows it belongs to."""
        try:
            found = _read_record(self.folder / _OLD_MANIFEST)
        except (OSError, ValueError, RecursionError):
            return
        if isinstance(found, dict) and found.get("format") == FORMAT:
            raise BadInputError(
                f"the checkpoint in {self.folder} is of other version: planted 0.1.0 wrote it, and it does not say "
                "which rows it belongs to. Run without resuming, in another folder."
            )

    def _require_lease(self) -> None:
        if self._lease is None or not self._lease.is_current:
            raise BadInputError(f"another run of this process has begun a checkpoint in {self.folder}.")

    def _passes(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if _PASSES.fullmatch(path.name))

    def _delete_passes(self) -> None:
        """Delete the files of passes; if one of these names is of a file that is not planted's, delete none."""
        found = self._passes()
        for path in found:
            if not _is_ours(path):
                raise BadInputError(
                    f"{path} was not written by planted and is not deleted; choose another folder for the checkpoint."
                )
        for path in found:
            path.unlink()

    def _path(self, number: int) -> Path:
        return self.folder / f"planted-pass-{number:05d}.npz"

    def _write(self, path: Path, number: int, tree: SumTree[Any], mark: Json | None) -> None:
        """Write a tree; a full disk ends the checkpoint, not the run."""
        if self._is_off:
            return
        self._require_lease()
        arrays = {
            f"{level}.{name}": array
            for level, node in enumerate(tree.nodes)
            if node is not None
            for name, array in pack_sums(node).items()
        }
        kinds = [None if node is None else kind_of(type(node)) for node in tree.nodes]
        head = {"number": number, "digest": self._digests[number], "rows": mark}
        try:
            atomic_write(path, partial(_save, {**head, "counts": tree.counts, "kinds": kinds}, arrays))
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
        assert self.rows is not None
        tree: SumTree[Any]
        tree, head = self._load(path, _load_tree)
        if head["number"] != number:
            return None
        if not self.rows.agrees_with(head["rows"]):
            raise BadInputError(
                f"the checkpoint in {self.folder} is of other data: {path.name} was replaced."
            )
        if head["digest"] != self._digests[number]:
            raise BadInputError(
                f"the checkpoint in {self.folder} is of other parameters: its pass {number} summed something else. "
                "Give the same options and the same seed, or run without resuming."
            )
        return tree

    def _load(self, path: Path, load: Callable[..., Any]) -> Any:
        """Check that a file is whole and read it."""
        try:
            if path.is_symlink() or not path.is_file():
                raise FileFormatError("it is not a file of planted")
            with path.open("rb") as file:
                _check_hash(file)
                return load(file, budget=current_budget())
        except DAMAGES as error:
            raise FileFormatError(
                f"{path} is damaged ({reason_of(error)}); delete {self.folder} and run anew."
            ) from error


def _read_record(path: Path) -> Any:
    """Read a small JSON file; one that is larger than any manifest, or no file, is a ValueError."""
    if not path.is_file() or path.stat().st_size > LARGEST_MANIFEST:
        raise ValueError(f"no file of at most {LARGEST_MANIFEST:,} bytes")
    return json.loads(path.read_text(encoding="utf-8"))


def _save(head: Json, arrays: Mapping[str, Any], path: Path) -> None:
    """Write the arrays, then the hash of what was written into the first line."""
    with path.open("w+b") as file:
        file.write(b" " * _LINE_BYTES)
        write_archive(file, head, arrays)
        digest = _hash_after_line(file)
        file.seek(0)
        file.write(f"planted checkpoint {SCHEMA} sha256 {digest}\n".encode())


def _check_hash(file: BinaryIO) -> None:
    found = _FIRST_LINE.fullmatch(file.read(_LINE_BYTES))
    if found is None:
        raise FileFormatError("it does not begin as planted's files do")
    if found[1].decode() != _hash_after_line(file):
        raise FileFormatError("its contents do not have the hash that its first line says")


def _hash_after_line(file: BinaryIO) -> str:
    file.seek(_LINE_BYTES)
    digest = hashlib.sha256()
    while piece := file.read(1 << 20):
        digest.update(piece)
    file.seek(0)
    return digest.hexdigest()


def _is_ours(path: Path) -> bool:
    """Return whether a file begins with planted's line, be the rest damaged or not."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return _FIRST_LINE.fullmatch(file.read(_LINE_BYTES)) is not None


def _load_tree(file: BinaryIO, *, budget: Budget) -> tuple[SumTree[Any], Json]:
    """Read the head and the nodes of a tree."""
    head, arrays = read_archive(file, budget=budget)
    missing = {"number", "digest", "rows", "counts", "kinds"} - set(head)
    if missing:
        raise FileFormatError(f"its head does not say its {min(missing)}")
    counts, kinds = head["counts"], head["kinds"]
    is_tree = isinstance(counts, list) and isinstance(kinds, list) and len(counts) == len(kinds)
    if not is_tree or not all(type(count) is int and 0 <= count < FAN_IN for count in counts):
        raise FileFormatError(f"its tree has the counts {counts!r:.60}")
    levels: dict[str, dict[str, Any]] = {str(level): {} for level in range(len(kinds))}
    for name, array in arrays.items():
        level, _, field_name = name.partition(".")
        levels.get(level, {})[field_name] = array
    nodes = [kind and unpack_sums(kind, levels[str(level)]) for level, kind in enumerate(kinds)]
    return SumTree(list(counts), nodes), head


def _difference(found: Any, expected: Any) -> str:
    """Name the first thing that differs."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for name in sorted({*found, *expected}):
            if found.get(name) != expected.get(name):
                return f"{name} was {found.get(name)!r} and is {expected.get(name)!r}"
    return f"{str(found)[:12]} against {str(expected)[:12]}"
