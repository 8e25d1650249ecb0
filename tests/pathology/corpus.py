"""Hostile files that once cost memory, time or truth, small enough to be made at every run: the corpus of the fuzzer."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
import onnx
import pyarrow as pa
from onnx import TensorProto, helper, numpy_helper
from pyarrow import feather, parquet

__all__ = ["corpus"]


def corpus() -> dict[str, list[bytes]]:
    """Return the contents of hostile files by the name of their reader in `mutations.READERS`."""
    return {
        ".npy": [_array(shape) for shape in ("(True, 3)", "(4611686018427387904, 2)", "(-1, 3)", "(0, 3)")]
        + [_array("(2, 3)", kind="|O"), _array("(2, 3)", kind="<U99999999")],
        ".npz": [
            _archive({f"X{i}": _array("(1, 1000000)", "|b1") for i in range(40)}),
            _deflated_bomb("Z.npy"),
        ],
        ".csv": [
            b"a,b\n" + bytes(1_000_000),
            b'a,b\n"' + b"1\n" * 1000,
            b",".join([b"0"] * 150_000),
            b"\n" * 100_000,
        ],
        ".parquet": [_rows_from_nothing("parquet")],
        ".feather": [_rows_from_nothing("feather"), _feather_of_forged_length()],
        "json": [_json(activation) for activation in ("power:1000000000", "leaky-relu:nan", "x" * 100_000)],
        "onnx": [_skip(), _with_tensor(_external), _with_tensor(_huge), _with_sparse(), _with_function()],
        "onnx run": [_with_tensor(_external), _with_sparse(), _with_function(), _skip()],
        "sums": [_deflated_bomb("X.npy"), _archive({"head": _array("()", "<U5")})],
        "query log": [
            b'{"format": "planted.identification", "schema": 2, "n_features": 2, "n_outputs": 1}\n' + tail
            for tail in (bytes(12), b"\x93PLQ\r\n\x1a\xf1" + bytes(12), b"\x93PLQ\r\n\x1a\xf1" + b"\xff" * 12)
        ],
    }


def _array(shape: str, kind: str = "<f8") -> bytes:
    """Return an array whose head claims a shape and a kind."""
    text = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(48)


def _archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def _deflated_bomb(name: str) -> bytes:
    """Return an archive of a few kilobytes that says it holds gigabytes, and holds megabytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr(name, _array("(400000000, 3)") + bytes(5_000_000))
    return buffer.getvalue()


def _rows_from_nothing(form: str) -> bytes:
    """Return a table of nulls and bits whose rows take a thousand times its size as numbers."""
    buffer, rows = io.BytesIO(), 20_000_000
    table = pa.table({"a": pa.nulls(rows), "b": pa.nulls(rows)})
    if form == "parquet":
        parquet.write_table(table, buffer, compression="zstd")
    else:
        feather.write_feather(table, buffer, compression="zstd", chunksize=rows)
    return buffer.getvalue()


def _feather_of_forged_length() -> bytes:
    buffer = io.BytesIO()
    feather.write_feather(pa.table({"a": np.zeros(1000)}), buffer, compression="lz4")
    return buffer.getvalue().replace((8000).to_bytes(8, "little"), (2**40).to_bytes(8, "little"))


def _json(activation: str) -> bytes:
    record = {"format": "planted.network", "schema": 1, "activation": activation}
    return json.dumps(record | {"W": [[1.0]], "b": [0.0], "A": [[1.0]], "c": [0.0]}).encode()


def _model(last: str = "h") -> Any:
    """Return a graph Gemm, Relu, Gemm whose last layer takes what is named."""
    nodes = [
        helper.make_node("Gemm", ["x", "W"], ["t"], transB=1),
        helper.make_node("Relu", ["t"], ["h"]),
        helper.make_node("Gemm", [last, "A"], ["y"], transB=1),
    ]
    tensors = [
        numpy_helper.from_array(np.ones(shape), name) for name, shape in (("W", (3, 2)), ("A", (1, 3)))
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["rows", n])
        for name, n in (("x", 2), ("y", 1))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], initializer=tensors)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])


def _skip() -> bytes:
    """Return the graph whose last layer goes round the activation."""
    return bytes(_model("t").SerializeToString())


def _with_tensor(change: Any) -> bytes:
    model = _model()
    change(model.graph.initializer[0])
    return bytes(model.SerializeToString())


def _external(tensor: Any) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")


def _huge(tensor: Any) -> None:
    tensor.dims[0] = 10**12


def _with_sparse() -> bytes:
    model = _model()
    values = numpy_helper.from_array(np.ones(1), "S")
    _external(values)
    indices = numpy_helper.from_array(np.zeros(1, dtype=np.int64), "S_indices")
    model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [3]))
    return bytes(model.SerializeToString())


def _with_function() -> bytes:
    model = _model()
    inner = helper.make_node("Constant", [], ["r"], value=numpy_helper.from_array(np.ones(1), "v"))
    _external(inner.attribute[0].t)
    opsets = [helper.make_opsetid("", 13)]
    model.functions.append(helper.make_function("mine", "Relu", ["a"], ["r"], [inner], opsets))
    model.opset_import.append(helper.make_opsetid("mine", 1))
    model.graph.node[1].domain = "mine"
    return bytes(model.SerializeToString())
