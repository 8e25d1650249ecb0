"""Networks in JSON files: the parameters as lists of numbers, the activation, and names of the columns where given."""

from __future__ import annotations

import json
import os
from pathlib import Path

from planted._typing import Json
from planted.io.networks._columns import SavedNetwork, check_columns
from planted.io.networks._files import read_regular
from planted.networks import TwoLayerNetwork
from planted.outcomes import FileFormatError

__all__ = ["format_json", "parse_json"]

JSON_FORMAT, JSON_SCHEMA = "planted.network", 1
LARGEST_JSON = 512 * 1024**2
MEMORY_PER_BYTE = 25  # an empty list takes three bytes of text and over sixty of memory


def format_json(net: TwoLayerNetwork, columns: Json) -> bytes:
    """Return a network as the bytes of a JSON file; ``columns`` as `check_columns` returns them."""
    record = {"format": JSON_FORMAT, "schema": JSON_SCHEMA, "activation": net.activation.name, **columns}
    numbers = {name: getattr(net, name).tolist() for name in "WbAc"}
    return (json.dumps(record | numbers, indent=1) + "\n").encode()


def parse_json(path: Path) -> SavedNetwork:
    """Read a network with the names of its columns; `FileFormatError` if the file is no such record."""
    contents = read_regular(path, largest=LARGEST_JSON, growth=MEMORY_PER_BYTE)
    try:
        record = json.loads(contents)
        if not isinstance(record, dict):
            raise FileFormatError("it is no JSON object")
        if (record.get("format"), record.get("schema")) != (JSON_FORMAT, JSON_SCHEMA):
            raise FileFormatError(f"the record is not of the format {JSON_FORMAT!r}, schema {JSON_SCHEMA}")
        net = TwoLayerNetwork(**{name: record[name] for name in "WbAc"}, activation=record["activation"])
        names = {role: record[role] for role in ("features", "targets") if record.get(role) is not None}
        kept = {role: tuple(items) for role, items in check_columns(net, **names).items()}
        return SavedNetwork(net, **kept)
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise FileFormatError(f"{os.fspath(path)}: not a network in JSON: {error}") from error
