"""Networks in JSON files: the parameters as lists of numbers, the activation, and names of the columns where given."""

from __future__ import annotations

import json
import os
from pathlib import Path

from planted._typing import Json
from planted.io.networks._columns import SavedNetwork, check_columns
from planted.io.networks._files import read_regular
from planted.networks import DeepNetwork, TwoLayerNetwork, plain_parameters
from planted.outcomes import FileFormatError

__all__ = ["format_json", "parse_json"]

JSON_FORMAT, JSON_SCHEMA = "planted.network", 1
DEEP_FORMAT = "planted.deep-network"  # the parameters are under "layers", pairs of weights and biases
LARGEST_JSON = 512 * 1024**2
MEMORY_PER_BYTE = 25  # an empty list takes three bytes of text and over sixty of memory


def format_json(net: TwoLayerNetwork | DeepNetwork, columns: Json) -> bytes:
    """Return a network as the bytes of a JSON file; ``columns`` as `check_columns` returns them."""
    kind = DEEP_FORMAT if isinstance(net, DeepNetwork) else JSON_FORMAT
    record = {"format": kind, "schema": JSON_SCHEMA, "activation": net.activation.name, **columns}
    return (json.dumps(record | plain_parameters(net), indent=1) + "\n").encode()


def parse_json(path: Path) -> SavedNetwork:
    """Read a network with the names of its columns; `FileFormatError` if the file is no such record."""
    contents = read_regular(path, largest=LARGEST_JSON, growth=MEMORY_PER_BYTE)
    try:
        record = json.loads(contents)
        if not isinstance(record, dict):
            raise FileFormatError("it is no JSON object")
        is_deep = record.get("format") == DEEP_FORMAT
        if not (is_deep or record.get("format") == JSON_FORMAT) or record.get("schema") != JSON_SCHEMA:
            raise FileFormatError(f"the record is not of the format {JSON_FORMAT!r}, schema {JSON_SCHEMA}")
        net: TwoLayerNetwork | DeepNetwork
        if is_deep:
            net = DeepNetwork(record["layers"], record["activation"])
        else:
            numbers = {name: record[name] for name in "WbAc"} | {"B": record.get("B")}
            net = TwoLayerNetwork(**numbers, activation=record["activation"])
        names = {role: record[role] for role in ("features", "targets") if record.get(role) is not None}
        kept = {role: tuple(items) for role, items in check_columns(net, **names).items()}
        return SavedNetwork(net, kept.get("features"), kept.get("targets"))
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise FileFormatError(f"{os.fspath(path)}: not a network in JSON: {error}") from error
