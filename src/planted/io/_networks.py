"""Networks in safetensors files.

A file holds the float64 tensors ``W``, ``b``, ``A``, ``c`` and, in the metadata under ``planted``, a JSON
record: format name, schema version, activation, shapes, and a SHA-256 digest over all of these and the
numbers. So a changed byte is an error, not a slightly different network. Nothing in the file is executed.

Departures from a plain call of safetensors: arrays are made C-contiguous first, because release 0.8.0 writes
others with their elements in the wrong order, and the file is read back and compared before it takes its
name.
"""

from __future__ import annotations

import hashlib
import json
import os
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as format_tensors

from planted._typing import Array, Json
from planted.io._atomic import atomic_write
from planted.networks import TwoLayerNetwork
from planted.outcomes import FileFormatError

__all__ = ["load_network", "save_network"]

FORMAT = "planted.network"
SCHEMA = 1
TENSORS = ("W", "b", "A", "c")
LENGTH_FIELD = 8  # bytes of the little-endian header length that opens a safetensors file
LARGEST_HEADER = 1 << 20  # ours take less than a kilobyte


def save_network(net: TwoLayerNetwork, path: str | PathLike[str]) -> None:
    """Write a network to a safetensors file.

    Parameters
    ----------
    net : TwoLayerNetwork
        The network.
    path : path-like
        Where to write. An existing file is replaced only when the new one is complete.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "net.safetensors"
    >>> save_network(TwoLayerNetwork(W=[[1.0, 2.0]], A=[[3.0]]), path)
    >>> load_network(path)
    TwoLayerNetwork(n_features=2, n_hidden=1, n_outputs=1, activation='relu')
    """
    arrays = {name: np.ascontiguousarray(getattr(net, name)) for name in TENSORS}
    record = _record(arrays, net.activation.name)
    contents = format_tensors(arrays, metadata={"planted": json.dumps(record, sort_keys=True)})

    def write_and_verify(partial: Path) -> None:
        partial.write_bytes(contents)
        written = load_network(partial)
        if any(arrays[name].tobytes() != getattr(written, name).tobytes() for name in TENSORS):
            raise FileFormatError(f"{os.fspath(path)}: the numbers read back differ from those written")

    atomic_write(path, write_and_verify)


def load_network(path: str | PathLike[str]) -> TwoLayerNetwork:
    """Read a network that `save_network` wrote.

    Parameters
    ----------
    path : path-like
        A safetensors file.

    Returns
    -------
    TwoLayerNetwork
        The network, equal bit by bit to the one that was saved.

    Raises
    ------
    FileFormatError
        If the file is truncated, damaged, of another kind or of a newer schema.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "net.safetensors"
    >>> TwoLayerNetwork(W=[[1.0, 2.0]], A=[[3.0]], activation="power:2").save(path)
    >>> load_network(path).A
    array([[3.]])
    """
    try:
        contents, record = _read_checked(Path(path))
        arrays = parse_tensors(contents)
        if record != _record(arrays, record["activation"]):
            raise FileFormatError("the contents do not match their checksum; the file is damaged")
        return TwoLayerNetwork(**arrays, activation=record["activation"])
    except (ValueError, SafetensorError) as error:
        raise FileFormatError(f"{os.fspath(path)}: {error}") from error


def _record(arrays: dict[str, Array], activation: str) -> Json:
    """The JSON record of a network; its digest covers every other field and the numbers."""
    record: Json = {
        "format": FORMAT,
        "schema": SCHEMA,
        "activation": activation,
        "shapes": {name: list(arrays[name].shape) for name in TENSORS},
    }
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode())
    for name in TENSORS:
        digest.update(arrays[name].astype("<f8").tobytes())
    return {**record, "sha256": digest.hexdigest()}


def _read_checked(path: Path) -> tuple[bytes, Json]:
    """Read a file after its header and size have been found in order."""
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        header = _read_header(stream.read(LENGTH_FIELD), stream, size)
        record = _read_record(header)
        data_size = _check_tensors(header, record)
        expected = stream.tell() + data_size
        if size != expected:
            raise FileFormatError(
                f"the file has {size} bytes but its header announces {expected}; it is damaged"
            )
        stream.seek(0)
        return stream.read(expected), record


def _read_header(prefix: bytes, stream: Any, size: int) -> Json:
    length = int.from_bytes(prefix, "little")
    if len(prefix) < LENGTH_FIELD or length > size - LENGTH_FIELD:
        raise FileFormatError(f"not a whole safetensors file: {size} bytes, no complete header")
    if length > LARGEST_HEADER:
        raise FileFormatError(
            f"its header has {length} bytes, more than the {LARGEST_HEADER} a network can need"
        )
    try:
        header = json.loads(stream.read(length))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise FileFormatError(f"not a safetensors file, its header is no JSON: {error}") from error
    if not isinstance(header, dict):
        raise FileFormatError("not a safetensors file, its header is no JSON object")
    return header


def _read_record(header: Json) -> Json:
    metadata = header.get("__metadata__")
    text = metadata.get("planted") if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise FileFormatError("a safetensors file, but not a network saved by planted")
    try:
        record = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise FileFormatError(f"the network's record is damaged: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise FileFormatError(f"the record does not name the format {FORMAT!r}")
    if record.get("schema") != SCHEMA:
        raise FileFormatError(
            f"schema {record.get('schema')!r}; this version reads {SCHEMA}, please upgrade planted"
        )
    if not isinstance(record.get("activation"), str) or not isinstance(record.get("shapes"), dict):
        raise FileFormatError("the record names no activation or no shapes")
    return record


def _check_tensors(header: Json, record: Json) -> int:
    """Check names, types and shapes of the tensors against the record; return the bytes they need."""
    tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
    if set(tensors) != set(TENSORS):
        raise FileFormatError(f"tensors {sorted(tensors)}; expected {sorted(TENSORS)}")
    total = 0
    for name, entry in tensors.items():
        shape = entry.get("shape") if isinstance(entry, dict) else None
        is_shape = isinstance(shape, list) and all(type(side) is int and side >= 0 for side in shape)
        if not is_shape or entry.get("dtype") != "F64":
            raise FileFormatError(f"tensor {name} is not float64 of a known shape")
        if record["shapes"].get(name) != shape:
            raise FileFormatError(f"tensor {name} has shape {shape}, which the record contradicts")
        total += 8 * int(np.prod(shape, dtype=object))
    return total
