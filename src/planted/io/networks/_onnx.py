"""Networks as ONNX graphs: Gemm, activation, Gemm; and reading such graphs back.

The graph uses opset 13 and takes any number of rows. In double precision its parameters are those of the network, bit
by bit.
"""

from __future__ import annotations

import os
from os import PathLike
from typing import Any

import numpy as np

from planted._typing import Array
from planted.io.networks._onnx_models import read_onnx_model
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
    # LeakyRelu keeps its slope in single precision; max and min of the input with a stored slope keep it exact.
    tensors.append(numpy_helper.from_array(np.array(float(argument), dtype=precision), "slope"))
    return [
        helper.make_node("Relu", ["t"], ["above"]),
        helper.make_node("Sub", ["t", "above"], ["below"]),
        helper.make_node("Mul", ["below", "slope"], ["leak"]),
        helper.make_node("Add", ["above", "leak"], ["h"]),
    ]


def parse_onnx(path: str | PathLike[str]) -> TwoLayerNetwork:
    """Read a ReLU network from an ONNX file: two layers (Gemm, or MatMul and Add) with a Relu between them.

    Raises `FileFormatError` if the file is no such network.
    """
    model = read_onnx_model(path)
    from onnx import numpy_helper

    try:
        tensors = {
            item.name: np.asarray(numpy_helper.to_array(item), dtype=np.float64)
            for item in model.graph.initializer
        }
        steps = _follow(model.graph, tensors)
        kinds = [kind for kind, _, _ in steps]
        if kinds != ["layer", "Relu", "layer"]:
            raise FileFormatError(f"its steps are {', '.join(kinds) or 'none'}; expected layer, Relu, layer")
        (_, W, b), _, (_, A, c) = steps
        return TwoLayerNetwork(W, b, A, c)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise FileFormatError(f"{os.fspath(path)}: not a two-layer ReLU network: {error}") from error


def _follow(graph: Any, tensors: dict[str, Array]) -> list[tuple[str, Any, Any]]:
    """Read the nodes as layers (weights of shape (out, in), bias) and activations, in their order."""
    steps: list[tuple[str, Any, Any]] = []
    for node in graph.node:
        options = {item.name: item for item in node.attribute}
        if node.op_type == "Gemm":
            scale = options["alpha"].f if "alpha" in options else 1.0
            weights = tensors[node.input[1]] * scale
            is_transposed = "transB" in options and options["transB"].i == 1
            bias = (
                tensors[node.input[2]].ravel()
                if len(node.input) > 2
                else np.zeros(weights.shape[0 if is_transposed else 1])
            )
            if "transA" in options and options["transA"].i:
                raise FileFormatError("a Gemm with transposed input")
            beta = options["beta"].f if "beta" in options else 1.0
            steps.append(("layer", weights if is_transposed else weights.T, bias * beta))
        elif node.op_type == "MatMul":
            steps.append(("layer", tensors[node.input[1]].T, np.zeros(tensors[node.input[1]].shape[1])))
        elif node.op_type == "Add" and steps and steps[-1][0] == "layer":
            name = node.input[1] if node.input[1] in tensors else node.input[0]
            steps[-1] = ("layer", steps[-1][1], steps[-1][2] + tensors[name].ravel())
        elif node.op_type not in ("Identity", "Flatten"):
            steps.append((node.op_type, None, None))
    return steps
