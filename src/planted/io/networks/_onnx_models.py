"""Reading ONNX files that may come from anywhere.

A file is refused before anything is loaded from it if it is larger than `LARGEST_FILE`, if it is no ONNX model, or if it
keeps its numbers in other files: such a model would make the reader open paths that its author chose.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from planted.outcomes import FileFormatError

__all__ = ["read_onnx_model"]

LARGEST_FILE = 512 * 1024**2


def read_onnx_model(path: str | PathLike[str]) -> Any:
    """Parse an ONNX file after checking that it is complete and refers to no other file.

    Raises `FileFormatError` if it is too large, damaged, no ONNX model, or refers to other files.
    """
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    size = os.stat(path).st_size
    if size > LARGEST_FILE:
        raise FileFormatError(f"{os.fspath(path)}: {size} bytes; ONNX files up to {LARGEST_FILE} are read")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(Path(path).read_bytes())
        outside = [
            tensor.name
            for tensor in _tensors(model.graph)
            if tensor.data_location == onnx.TensorProto.EXTERNAL
        ]
        if outside:
            raise FileFormatError(
                f"{os.fspath(path)}: tensor {outside[0]!r} is kept in another file; only models in one file are read"
            )
        onnx.checker.check_model(model)
    except (DecodeError, onnx.checker.ValidationError, RecursionError) as error:
        first = (str(error).strip().splitlines() or ["it cannot be parsed"])[0]
        raise FileFormatError(f"{os.fspath(path)}: not a whole ONNX model: {first}") from error
    return model


def _tensors(graph: Any) -> Iterator[Any]:
    """Yield every stored tensor of a graph and of the graphs within it."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices
    for node in graph.node:
        for attribute in node.attribute:
            yield attribute.t
            yield from attribute.tensors
            for inner in (attribute.g, *attribute.graphs):
                if inner.node or inner.initializer:
                    yield from _tensors(inner)
