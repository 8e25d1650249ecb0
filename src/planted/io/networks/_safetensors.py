"""Networks in safetensors files.

A file holds the float64 tensors ``W``, ``b``, ``A``, ``c`` and, in the metadata under ``planted``, a JSON
record: format name, schema version, activation, shapes, and a SHA-256 digest over all of these and the
numbers. So a changed byte is an error, not a slightly different network. Nothing in the file is executed.
A three-layer network has a format name of its own, the tensors ``R`` and ``s`` besides, and its power in the
record; the other tensors are those of its head. A deep network has a format name of its own too, the number of
its layers in the record, and the tensors ``W0``, ``b0``, ``W1``, ``b1`` and so on. Names of the columns, where
given, are in the record under ``features`` and ``targets``; such a file has schema 2, so that an older release
asks for an upgrade. How the columns of a table become the inputs (`planted.io.Recipe`) is in the record under ``recipe``,
as data, and the noise of its predictions under ``noise``; a file with one of them has schema 3.

Departures from a plain call of safetensors: arrays are made C-contiguous first, because release 0.8.0 writes
others with their elements in the wrong order, and the file is read back and compared before it takes its
name.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as format_tensors

from planted._typing import Array, Json
from planted.io._memory import current_budget
from planted.io._outputs import refuse_other_suffix
from planted.io.networks._columns import Labels, SavedNetwork, check_columns, check_labels, check_noise
from planted.io.networks._files import open_regular
from planted.io.state._atomic import atomic_write
from planted.io.tables._recipe import Recipe
from planted.networks import DeepNetwork, ThreeLayerNetwork, TwoLayerNetwork
from planted.outcomes import BadInputError, FileFormatError

__all__ = ["load_layers", "load_network", "load_saved", "save_network"]

TWO_LAYERS, THREE_LAYERS = "planted.network", "planted.three-layer-network"
DEEP = "planted.deep-network"
LARGEST_DEPTH = 1_000  # layers
SCHEMA, SCHEMA_WITH_COLUMNS, SCHEMA_WITH_PREPARATION, SCHEMA_WITH_LABELS = 1, 2, 3, 4
COLUMNS = ("features", "targets")
NOISE = "noise"
TENSORS = {TWO_LAYERS: ("W", "b", "A", "c"), THREE_LAYERS: ("R", "s", "W", "b", "A", "c")}
MEMORY_PER_BYTE = 4  # the file, its tensors, the network's own copy, and the bytes that the digest covers
LENGTH_FIELD = 8  # bytes of the little-endian header length that opens a safetensors file
LARGEST_HEADER = 1 << 22  # ours take less than a kilobyte and the names of the columns


def save_network(
    net: TwoLayerNetwork | ThreeLayerNetwork | DeepNetwork,
    path: str | PathLike[str],
    *,
    features: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    noise: tuple[float, float] | None = None,
    recipe: Recipe | None = None,
    labels: Labels | None = None,
) -> None:
    """Write a network to a safetensors file.

    `path`: where to write. An existing file is replaced only when the new one is complete. `features`, `targets`: names of
    the inputs and of the outputs, kept with the network; `load_with_columns` returns them. `noise`: standard deviation of
    a new output about its prediction, with its degrees of freedom, for intervals. `recipe`: how the columns of a table
    become the inputs, kept too; it names the inputs and the targets. `labels`: what the outputs mean, where they are
    log-odds of classes or logarithms of means.
    """
    refuse_other_suffix(path, "network")
    arrays, settings = _take_apart(net)
    if recipe is not None:
        features, targets = recipe.inputs, recipe.targets
    kept = check_columns(net, features, targets) | check_noise(noise) | check_labels(labels, net.n_outputs)
    record = _record(arrays, settings | kept | ({} if recipe is None else {"recipe": recipe.to_dict()}))
    contents = format_tensors(arrays, metadata={"planted": json.dumps(record, sort_keys=True)})
    if int.from_bytes(contents[:LENGTH_FIELD], "little") > LARGEST_HEADER:
        raise BadInputError(f"the names of the columns take more than {LARGEST_HEADER} bytes; shorten them")

    def write_and_verify(partial: Path) -> None:
        partial.write_bytes(contents)
        read = load_saved(partial)
        written, _ = _take_apart(read.network)
        is_same = (read.features, read.targets, read.noise, read.recipe) == (*_kept(record), recipe)
        is_same = is_same and read.labels == labels
        if not is_same or {name: array.tobytes() for name, array in written.items()} != {
            name: array.tobytes() for name, array in arrays.items()
        }:
            raise FileFormatError(f"{os.fspath(path)}: the numbers read back differ from those written")

    atomic_write(path, write_and_verify)


def load_network(path: str | PathLike[str]) -> TwoLayerNetwork | ThreeLayerNetwork | DeepNetwork:
    """Read a network that `save_network` wrote.

    Parameters
    ----------
    path : path-like
        A safetensors file.

    Returns
    -------
    TwoLayerNetwork, ThreeLayerNetwork or DeepNetwork
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
    return load_saved(path).network


def load_saved(path: str | PathLike[str]) -> SavedNetwork:
    """Read a network that `save_network` wrote, with the names of its columns."""
    try:
        contents, record = _read_checked(path)
        arrays = parse_tensors(contents)
        settings = {name: record[name] for name in _settings_of(record)}
        if record != _record(arrays, settings):
            raise FileFormatError("the contents do not match their checksum; the file is damaged")
        net = _put_together(arrays, settings)
        check_columns(net, *(record.get(role) for role in COLUMNS))
        check_noise(record.get(NOISE))
        features, targets, noise = _kept(record)
        labels = _labels_of(record, net.n_outputs)
        return SavedNetwork(net, features, targets, noise, _recipe_of(record), labels)
    except (ValueError, TypeError, ArithmeticError, RecursionError, SafetensorError) as error:
        name = os.fspath(path)
        text = str(error) if str(error).startswith(name) else f"{name}: {error}"
        raise FileFormatError(text) from error


def load_layers(path: str | PathLike[str]) -> TwoLayerNetwork | DeepNetwork:
    """Read a two-layer or a deep network; one with powers as features is refused."""
    net = load_network(path)
    if isinstance(net, ThreeLayerNetwork):
        raise FileFormatError(
            f"{os.fspath(path)}: a network of three layers with powers as features; "
            "read it with planted.load_network"
        )
    return net


def _take_apart(net: TwoLayerNetwork | ThreeLayerNetwork | DeepNetwork) -> tuple[dict[str, Array], Json]:
    """Return the tensors of a network, C-contiguous, and what else makes it up."""
    if isinstance(net, DeepNetwork):
        settings: Json = {"format": DEEP, "activation": net.activation.name, "layers": len(net.layers)}
        parts = [part for layer in net.layers for part in layer]
        return dict(zip(_tensor_names(settings), map(np.ascontiguousarray, parts), strict=True)), settings
    if isinstance(net, ThreeLayerNetwork):
        tensors, settings = _take_apart(net.head)
        features = {"R": np.ascontiguousarray(net.R), "s": np.ascontiguousarray(net.s)}
        return features | tensors, settings | {"format": THREE_LAYERS, "power": net.power}
    tensors = {name: np.ascontiguousarray(getattr(net, name)) for name in net.parts}
    linear = {} if net.B is None else {"linear": True}
    return tensors, {"format": TWO_LAYERS, "activation": net.activation.name, **linear}


def _put_together(
    arrays: dict[str, Array], settings: Json
) -> TwoLayerNetwork | ThreeLayerNetwork | DeepNetwork:
    """Return the network that was taken apart."""
    if settings["format"] == DEEP:
        pairs = [(arrays[f"W{place}"], arrays[f"b{place}"]) for place in range(settings["layers"])]
        return DeepNetwork(pairs, settings["activation"])
    tensors = {name: arrays[name] for name in (*TENSORS[TWO_LAYERS], "B") if name in arrays}
    head = TwoLayerNetwork(**tensors, activation=settings["activation"])
    if settings["format"] == TWO_LAYERS:
        return head
    return ThreeLayerNetwork(arrays["R"], arrays["s"], settings["power"], head)


def _recipe_of(record: Json) -> Recipe | None:
    """Read the recipe of a record, which must name the inputs and targets as the record does."""
    if "recipe" not in record:
        return None
    recipe = Recipe.from_dict(record["recipe"])
    if (recipe.inputs, recipe.targets) != _kept(record)[:2]:
        raise FileFormatError("the preparation of the columns does not lead to the inputs of the network")
    return recipe


def _labels_of(record: Json, n_outputs: int) -> Labels | None:
    """Read what the outputs mean."""
    kept = record.get("labels")
    if kept is None:
        return None
    if not isinstance(kept, dict) or set(kept) != {"likelihood", "classes"}:
        raise FileFormatError("the record of the labels is damaged")
    classes = kept["classes"]
    if classes is not None and not isinstance(classes, list):
        raise FileFormatError("the record of the classes is damaged")
    labels = Labels(kept["likelihood"], None if classes is None else tuple(classes))
    check_labels(labels, n_outputs)
    return labels


def _settings_of(record: Json) -> tuple[str, ...]:
    """The fields of a record that make up the network, besides its tensors, and the names of its columns."""
    own: tuple[str, ...] = {THREE_LAYERS: ("power",), DEEP: ("layers",)}.get(record["format"], ())
    if record.get("linear") is not None:
        own = (*own, "linear")
    return (
        "format",
        "activation",
        *own,
        *(role for role in (*COLUMNS, NOISE, "recipe", "labels") if role in record),
    )


def _tensor_names(record: Json) -> tuple[str, ...]:
    """The tensors of the network that a record describes."""
    if record["format"] == DEEP:
        return tuple(f"{kind}{place}" for place in range(record["layers"]) for kind in "Wb")
    return (*TENSORS[record["format"]], "B") if record.get("linear") is True else TENSORS[record["format"]]


def _kept(record: Json) -> tuple[Any, ...]:
    """Names of the inputs and of the outputs, and the noise; None for what the record lacks."""
    return tuple(tuple(record[role]) if role in record else None for role in (*COLUMNS, NOISE))


def _record(arrays: dict[str, Array], settings: Json) -> Json:
    """The JSON record of a network; its digest covers every other field and the numbers."""
    names = _tensor_names(settings)
    shapes = {name: list(arrays[name].shape) for name in names}
    schema = SCHEMA_WITH_COLUMNS if any(role in settings for role in COLUMNS) else SCHEMA
    schema = SCHEMA_WITH_PREPARATION if {NOISE, "recipe"} & settings.keys() else schema
    schema = SCHEMA_WITH_LABELS if "labels" in settings else schema
    record: Json = {**settings, "schema": schema, "shapes": shapes}
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode())
    for name in names:
        digest.update(arrays[name].astype("<f8").tobytes())
    return {**record, "sha256": digest.hexdigest()}


def _read_checked(path: str | PathLike[str]) -> tuple[bytes, Json]:
    """Read a file after its header and size have been found in order."""
    with open_regular(path) as (stream, size):
        header = _read_header(stream.read(LENGTH_FIELD), stream, size)
        record = _read_record(header)
        data_size = _check_tensors(header, record)
        expected = stream.tell() + data_size
        if size != expected:
            raise FileFormatError(
                f"the file has {size} bytes but its header announces {expected}; it is damaged"
            )
        remedy = "Give a larger budget, or check where the file comes from."
        current_budget().require(MEMORY_PER_BYTE * size, os.fspath(path), instead=remedy)
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
    if not isinstance(record, dict) or record.get("format") not in [*TENSORS, DEEP]:
        known = f"{TWO_LAYERS!r}, {THREE_LAYERS!r} or {DEEP!r}"
        raise FileFormatError(f"the record does not name the format {known}")
    if record.get("schema") not in range(SCHEMA, SCHEMA_WITH_LABELS + 1):
        known = f"{SCHEMA} to {SCHEMA_WITH_LABELS}"
        raise FileFormatError(
            f"schema {record.get('schema')!r}; this version reads {known}, please upgrade planted"
        )
    if not isinstance(record.get("activation"), str) or not isinstance(record.get("shapes"), dict):
        raise FileFormatError("the record names no activation or no shapes")
    if record["format"] == THREE_LAYERS and type(record.get("power")) is not int:
        raise FileFormatError("the record names no power")
    depth = record.get("layers")
    if record["format"] == DEEP and not (type(depth) is int and 2 <= depth <= LARGEST_DEPTH):
        raise FileFormatError("the record names no number of layers")
    return record


def _check_tensors(header: Json, record: Json) -> int:
    """Check names, types and shapes of the tensors against the record; return the bytes they need."""
    tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
    expected = _tensor_names(record)
    if set(tensors) != set(expected):
        raise FileFormatError(f"tensors {sorted(tensors)}; expected {sorted(expected)}")
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
