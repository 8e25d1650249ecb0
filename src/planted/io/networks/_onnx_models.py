"""Reading ONNX files that may come from anywhere.

A model is refused if it is larger than `LARGEST_FILE`, has more than `LARGEST_COUNT` parts, is damaged, or could make the
program that runs it open another file. Numbers may be kept elsewhere by any tensor of a model: weights, values of
attributes, sparse tensors, tensors in the bodies of functions and in graphs within graphs. So every part of the model is
visited. Sparse tensors, functions, training graphs, graphs within graphs (If, Loop, Scan) and operators of foreign domains
are refused altogether, and fields that are not part of the ONNX standard are dropped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from os import PathLike
from typing import Any

from planted.io.networks._files import read_regular
from planted.io.networks._onnx_sizes import check_answers, rows_at_once
from planted.outcomes import FileFormatError

__all__ = ["check_answers", "read_onnx_model", "rows_at_once"]

LARGEST_FILE = 512 * 1024**2
# Fields of the whole model; each may take two bytes in the file and a hundred in memory.
LARGEST_COUNT = 500_000
MEMORY_PER_BYTE = 10
DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
REFUSED_PARTS = {
    "SparseTensorProto": "a sparse tensor",
    "FunctionProto": "a function of its own",
    "TrainingInfoProto": "a graph for training",
}
GRAPH_WITHIN = "a graph within the graph (If, Loop or Scan)"


def read_onnx_model(path: str | PathLike[str]) -> Any:
    """Parse an ONNX file after checking that it is complete and refers to no other file.

    The nodes of the returned model are in an order in which they can be run. Raises `FileFormatError` if the file is too
    large, damaged, no ONNX model, or holds a part that is refused.
    """
    import onnx

    contents = read_regular(path, largest=LARGEST_FILE, growth=MEMORY_PER_BYTE)
    try:
        _check_count(contents, onnx.ModelProto.DESCRIPTOR)
        model = onnx.ModelProto()
        model.ParseFromString(contents)
        _check_parts(model)
        model.DiscardUnknownFields()
        _sort_nodes(model.graph)
        onnx.checker.check_model(model)
    except Exception as error:  # protobuf and the checker raise a dozen classes without a common base
        first = (str(error).strip().splitlines() or ["it cannot be parsed"])[0]
        raise FileFormatError(f"{os.fspath(path)}: not an ONNX model that is read here: {first}") from error
    return model


def _check_count(contents: bytes, kind: Any) -> None:
    """Count the fields of a message and of the messages in it, before anything is built from them."""
    count = 0
    open_parts = [(0, len(contents), kind)]
    while open_parts:
        place, end, part = open_parts.pop()
        while place < end:
            count += 1
            if count > LARGEST_COUNT:
                raise FileFormatError(f"more than {LARGEST_COUNT} fields")
            tag, place = _read_varint(contents, place)
            wire = tag & 7
            if wire == 0:
                _, place = _read_varint(contents, place)
            elif wire == 2:
                length, place = _read_varint(contents, place)
                field = part.fields_by_number.get(tag >> 3)
                if field is not None and field.message_type is not None:
                    open_parts.append((place, min(place + length, end), field.message_type))
                place += length
            elif wire in (1, 5):
                place += 8 if wire == 1 else 4
            else:
                raise FileFormatError("damaged: a field of unknown kind")
        if place > end:
            raise FileFormatError("damaged: a field ends after the part it belongs to")


def _read_varint(contents: bytes, place: int) -> tuple[int, int]:
    """Read an integer of variable length; return it with the place after it."""
    value = shift = 0
    while True:
        if place >= len(contents) or shift > 63:
            raise FileFormatError("damaged: an integer has no end")
        byte = contents[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


def _check_parts(model: Any) -> None:
    """Refuse a model with a part that could lead to another file."""
    from onnx import TensorProto

    n_graphs = 0
    for part in _messages(model):
        kind = part.DESCRIPTOR.name
        if kind == "TensorProto" and (part.data_location != TensorProto.DEFAULT or part.external_data):
            raise FileFormatError(
                f"tensor {part.name!r} is kept in another file; only models in one file are read"
            )
        n_graphs += kind == "GraphProto"
        if (kind == "GraphProto" and n_graphs > 1) or kind in REFUSED_PARTS:
            raise FileFormatError(f"it holds {REFUSED_PARTS.get(kind, GRAPH_WITHIN)}, which is not read")
        if kind == "NodeProto" and part.domain not in DOMAINS:
            raise FileFormatError(f"operator {part.op_type!r} is of the foreign domain {part.domain!r}")
    if not model.graph.output:
        raise FileFormatError("its graph has no output")


def _messages(message: Any) -> Iterator[Any]:
    """Yield a message and every part of it, at every depth; text that is no UTF-8 is refused."""
    yield message
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            # Protobuf hands out what it cannot decode as bytes.
            texts = [value] if isinstance(value, str | bytes) else value
            if not all(isinstance(text, str) for text in texts):
                raise FileFormatError(f"the field {field.name!r} is no UTF-8")
        elif field.message_type is not None:
            for part in [value] if hasattr(value, "ListFields") else value:
                yield from _messages(part)


def _sort_nodes(graph: Any) -> None:
    """Put each node after those whose results it uses; nodes in a circle keep their place and the checker refuses them."""
    makers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    waiting = [
        {makers[name] for name in node.input if makers.get(name, i) != i} for i, node in enumerate(graph.node)
    ]
    users: dict[int, list[int]] = {}
    for i, needed in enumerate(waiting):
        for j in needed:
            users.setdefault(j, []).append(i)
    order = [i for i, needed in enumerate(waiting) if not needed]
    for i in order:
        for user in users.get(i, []):
            waiting[user].discard(i)
            if not waiting[user]:
                order.append(user)
    if len(order) == len(graph.node) and order != sorted(order):
        nodes = [graph.node[i] for i in order]
        copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)
