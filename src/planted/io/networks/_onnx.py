"""Networks as ONNX graphs: Gemm, activation, Gemm; and reading such graphs back.

The graph uses opset 13 and takes any number of rows. In double precision its parameters are those of the network, bit
by bit.
"""

from __future__ import annotations

import os
from os import PathLike
from typing import Any

import numpy as np

from planted.io.networks._onnx_models import read_onnx_model
from planted.io.networks._onnx_wires import read_network
from planted.networks import TwoLayerNetwork
from planted.outcomes import FileFormatError

__all__ = ["format_onnx", "parse_onnx"]

OPSET = 13
IR_VERSION = 8


def format_onnx(net: TwoLayerNetwork, precision: str) -> bytes:
    """Return a network as the bytes of an ONNX file."""
    import onnx
    from onnx import helper, numpy_helper

    kind = onnx.TensorProto.DOUBLE if precision == "float64" else onnx.TensorProto.FLOAT
    tensors = [
        numpy_helper.from_array(np.ascontiguousarray(getattr(net, name).astype(precision)), name)
        for name in "WbAc"
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "W", "b"], ["t"], transB=1),
        *_activation_nodes(net, precision, tensors),
        helper.make_node("Gemm", ["h", "A", "c"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "two_layer_network",
        [helper.make_tensor_value_info("x", kind, ["rows", net.n_features])],
        [helper.make_tensor_value_info("y", kind, ["rows", net.n_outputs])],
        initializer=tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="planted")
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _activation_nodes(net: TwoLayerNetwork, precision: str, tensors: list[Any]) -> list[Any]:
    """Nodes from ``t`` to ``h``; constants they need are added to the tensors."""
    from onnx import helper, numpy_helper

    name, _, argument = net.activation.name.partition(":")
    if name == "relu":
        return [helper.make_node("Relu", ["t"], ["h"])]
    if name == "absolute":
        return [helper.make_node("Abs", ["t"], ["h"])]
    if name == "quadratic":
        return [helper.make_node("Mul", ["t", "t"], ["h"])]
    if name == "power":
        tensors.append(numpy_helper.from_array(np.array(float(argument), dtype=precision), "degree"))
        return [helper.make_node("Relu", ["t"], ["r"]), helper.make_node("Pow", ["r", "degree"], ["h"])]
    if float(argument) == 0:  # zero times minus infinity would be NaN
        return [helper.make_node("Relu", ["t"], ["h"])]
    # LeakyRelu keeps its slope in single precision, and onnxruntime has none for doubles; a stored slope is exact.
    for label, value in (("slope", float(argument)), ("zero", 0.0)):
        tensors.append(numpy_helper.from_array(np.array(value, dtype=precision), label))
    return [
        helper.make_node("Greater", ["t", "zero"], ["is_above"]),
        helper.make_node("Mul", ["t", "slope"], ["below"]),
        helper.make_node("Where", ["is_above", "t", "below"], ["h"]),
    ]


def parse_onnx(path: str | PathLike[str]) -> TwoLayerNetwork:
    """Read a two-layer network from an ONNX file by following its wires; see `planted.io.networks._onnx_wires`.

    Raises `FileFormatError` if the file is no such network.
    """
    model = read_onnx_model(path)
    try:
        return read_network(model)
    except (ValueError, TypeError, LookupError, ArithmeticError, RuntimeError, AttributeError) as error:
        raise FileFormatError(f"{os.fspath(path)}: not a two-layer network: {error}") from error
