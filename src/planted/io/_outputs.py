"""May a result be written there? One place that says no before the work begins.

An output is refused if it is also an input or another output (by whatever name, link or hard link), if it is a folder, a
pipe or a device, if its folder is missing or cannot be written to, and if its suffix is that of another format. A file that
exists is replaced if planted wrote it, which its contents say: saved networks, exports to ONNX, PyTorch and JSON, reports
and sums bear planted's mark. Pictures and claims of a reproduced figure end with a seal, the hash of what is above it and
of the numbers beside it: they are replaced if nobody has changed them. Anything else, and tables and source code, which
people edit, are replaced only if that was asked for. The writing itself is `atomic_write`: whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from planted.io._memory import Budget
from planted.io.state._archive import DAMAGES, read_head
from planted.outcomes import BadInputError, shown

__all__ = ["Output", "check_outputs", "check_suffix", "refuse_other_suffix", "sealed"]

HEAD_BYTES = 1 << 16
SEALED_BYTES = 1 << 26  # of a picture; longer ones are not planted's


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a file of some format is called, and how one of planted's is known."""

    noun: str
    suffixes: tuple[str, ...]  # empty if any name will do
    is_ours: Callable[[Path], bool]


@dataclass(frozen=True, slots=True)
class Output:
    """A file that is to be written."""

    option: str  # what the user typed before its name
    path: Path
    kind: str  # one of `KINDS`


def check_outputs(
    outputs: Iterable[Output],
    *,
    inputs: Sequence[str | PathLike[str]] = (),
    force: bool = False,
) -> None:
    """Refuse outputs that would destroy something, before the work begins.

    `inputs`: files that are read, or folders of such; `force`: replace files that planted did not write.

    Examples
    --------
    >>> check_outputs([Output("--report", Path("page.pdf"), "report")])
    Traceback (most recent call last):
    ...
    planted.outcomes.BadInputError: --report page.pdf: a report is written to a file named .html or .htm.
    """
    taken: list[Output] = []
    files = _files_of(inputs)
    for output in outputs:
        name = f"{output.option} {shown(output.path)}"
        _check_place(output.path, name)
        check_suffix(output.path, output.kind, name=name)
        for path in files:
            if _is_same(output.path, path):
                raise BadInputError(
                    f"{name}: this file is read ({shown(path)}); choose another name for what is written."
                )
        for other in taken:
            if _is_same(output.path, other.path):
                raise BadInputError(
                    f"{name}: {other.option} names the same file; choose another name for one of them."
                )
        taken.append(output)
        if not force and output.path.exists() and not KINDS[output.kind].is_ours(output.path):
            raise BadInputError(
                f"{name}: the file exists, and it is not known to be planted's own {KINDS[output.kind].noun}. "
                "Choose another name, or replace it with --force."
            )


def check_suffix(path: str | PathLike[str], kind: str, *, name: str | None = None) -> None:
    """Refuse a file name whose suffix is not that of its format."""
    known = KINDS[kind].suffixes
    if known and Path(path).suffix.lower() not in known:
        raise BadInputError(
            f"{name or shown(os.fspath(path))}: a {KINDS[kind].noun} is written to a file named {' or '.join(known)}."
        )


def refuse_other_suffix(path: str | PathLike[str], kind: str) -> None:
    """Refuse a file name whose suffix is that of another format; names that say nothing are fine."""
    suffix = Path(path).suffix.lower()
    others = {item for found in KINDS.values() for item in found.suffixes} - set(KINDS[kind].suffixes)
    if suffix in others:
        check_suffix(path, kind)


def sealed(text: str, numbers: bytes) -> str:
    """Put a seal below the picture or the claims of a figure, by which they and the numbers beside them are known again.

    Examples
    --------
    >>> print(sealed("| 1 |", b"1")[:60])
    | 1 |
    <!-- written by planted reproduce; sha256 of the above
    """
    body = text.rstrip("\n") + "\n"
    marks = hashlib.sha256(body.encode()).hexdigest(), hashlib.sha256(numbers).hexdigest()
    return f"{body}<!-- written by planted reproduce; sha256 of the above {marks[0]}, of the numbers {marks[1]} -->\n"


def _check_place(path: Path, name: str) -> None:
    """Refuse a place where no file can be put."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    except OSError as error:
        raise BadInputError(f"{name}: {error.strerror or error}.") from error
    except ValueError as error:  # a null byte in the name
        raise BadInputError(f"{name}: {error}.") from error
    if stat.S_ISDIR(mode):
        raise BadInputError(f"{name} is a folder; expected the name of a file to write.")
    if not stat.S_ISREG(mode):
        raise BadInputError(f"{name} is a pipe or a device; expected the name of a file to write.")
    if path.exists() and not os.access(path, os.W_OK):
        raise BadInputError(f"{name}: the file is read-only.")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise BadInputError(
            f"there is no folder {shown(folder)} to write {shown(path.name)} into. Create it first."
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInputError(f"{name}: the folder {shown(folder)} may not be written to by this user.")


def _files_of(inputs: Sequence[str | PathLike[str]]) -> list[Path]:
    """Return the files that are read: those that are named, and those of a folder."""
    found: list[Path] = []
    for path in map(Path, inputs):
        try:
            found += [file for file in path.iterdir() if file.is_file()] if path.is_dir() else [path]
        except (OSError, ValueError):  # what cannot be read is refused by its reader
            found.append(path)
    return found


def _is_same(one: Path, other: Path) -> bool:
    """Return whether two names are those of one file, by links and hard links too."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return os.path.realpath(one) == os.path.realpath(other)


def _begins_with(pattern: bytes) -> Callable[[Path], bool]:
    """Return a test of the first bytes of a file."""

    def is_ours(path: Path) -> bool:
        with path.open("rb") as file:
            return re.match(pattern, file.read(HEAD_BYTES), re.DOTALL) is not None

    return is_ours


def _is_sums(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return read_head(file, budget=Budget(None)).get("format") == "planted.sums"
    except DAMAGES:
        return False


def _seal_of(path: Path) -> str | None:
    """Return the hash of the numbers that the seal of a file names; None if there is none or the file was changed."""
    if not path.is_file() or path.stat().st_size > SEALED_BYTES:
        return None
    body, _, seal = path.read_bytes().rpartition(b"<!-- ")
    found = _SEAL.fullmatch(seal)
    is_whole = found is not None and hashlib.sha256(body).hexdigest().encode() == found[1]
    return found[2].decode() if found is not None and is_whole else None


def _is_sealed(path: Path) -> bool:
    return _seal_of(path) is not None


def _is_numbers(path: Path) -> bool:
    """Return whether the picture or the claims beside a file were made with exactly these numbers."""
    if path.stat().st_size > SEALED_BYTES:
        return False
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return any(_seal_of(path.with_suffix(suffix)) == digest for suffix in (".svg", ".md"))


def _never(path: Path) -> bool:
    return path.stat().st_size == 0


_NETWORK = _begins_with(rb'.{8}\{.*"__metadata__":\{[^}]*"planted":"\{')
_JSON = _begins_with(rb'\{\s*"format": "planted\.network"')
_ONNX = _begins_with(rb"\x08.\x12\x07planted")  # the version of the format, then the producer
_TORCH = _begins_with(rb'.{8}\{.*"__metadata__":\{[^}]*"generator":"planted"')
_SEAL = re.compile(
    rb"written by planted reproduce; sha256 of the above ([0-9a-f]{64}), of the numbers ([0-9a-f]{64}) -->\n"
)
_REPORT = _begins_with(rb'<!doctype html>.{0,400}<meta name="generator" content="planted">')

KINDS: dict[str, _Kind] = {
    "network": _Kind("network", (".safetensors",), _NETWORK),
    "planted": _Kind("network", (".safetensors",), _NETWORK),
    "onnx": _Kind("network for ONNX", (".onnx",), _ONNX),
    "torch": _Kind("state for PyTorch", (".safetensors",), _TORCH),
    "json": _Kind("network in JSON", (".json",), _JSON),
    "numpy": _Kind("NumPy module", (".py",), _never),
    "c": _Kind("C header", (".h",), _never),
    "report": _Kind("report", (".html", ".htm"), _REPORT),
    "sums": _Kind("file of sums", (".sums",), _is_sums),
    "table": _Kind("table", (".csv", ".feather", ".npz", ".parquet"), _never),
    "picture": _Kind("picture", (".svg",), _is_sealed),
    "numbers": _Kind("table of numbers", (".csv",), _is_numbers),
    "claims": _Kind("table of claims", (".md",), _is_sealed),
    "log": _Kind("log of questions", (), lambda path: True),  # its own reader refuses what is no log
}
