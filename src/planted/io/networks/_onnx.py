"""Networks as ONNX graphs: Gemm, activation, Gemm and so on, a Gemm for the linear part; and reading such graphs back.

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
from planted.networks import Activation, DeepNetwork, TwoLayerNetwork
from planted.outcomes import BadInputError, FileFormatError

__all__ = ["format_onnx", "parse_onnx"]

OPSET = 13
IR_VERSION = 8


def format_onnx(net: TwoLayerNetwork | DeepNetwork, precision: str) -> bytes:
    """Return a network as the bytes of an ONNX file."""
    import onnx
    from onnx import helper

    kind = onnx.TensorProto.DOUBLE if precision == "float64" else onnx.TensorProto.FLOAT
    made = _deep_nodes(net, precision) if isinstance(net, DeepNetwork) else _two_layer_nodes(net, precision)
    nodes, tensors = made
    graph = helper.make_graph(
        nodes,
        "deep_network" if isinstance(net, DeepNetwork) else "two_layer_network",
        [helper.make_tensor_value_info("x", kind, ["rows", net.n_features])],
        [helper.make_tensor_value_info("y", kind, ["rows", net.n_outputs])],
        initializer=tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="planted")
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _two_layer_nodes(net: TwoLayerNetwork, precision: str) -> tuple[list[Any], list[Any]]:
    """The nodes of a two-layer network, and its tensors."""
    from onnx import helper

    tensors = [_tensor(getattr(net, name), name, precision) for name in net.parts]
    last = "y" if net.B is None else "bent"
    nodes = [
        helper.make_node("Gemm", ["x", "W", "b"], ["t"], transB=1),
        *_activation_nodes(net.activation, precision, tensors),
        helper.make_node("Gemm", ["h", "A", "c"], [last], transB=1),
    ]
    if net.B is not None:
        nodes.append(helper.make_node("Gemm", ["x", "B"], ["straight"], transB=1))
        nodes.append(helper.make_node("Add", [last, "straight"], ["y"]))
    return nodes, tensors


def _deep_nodes(net: DeepNetwork, precision: str) -> tuple[list[Any], list[Any]]:
    """The nodes of a deep network, a Gemm and an activation for each hidden layer, and its tensors."""
    from onnx import helper

    nodes: list[Any] = []
    tensors: list[Any] = []
    before = "x"
    for place, (W, b) in enumerate(net.layers):
        names = f"W{place}", f"b{place}"
        tensors += [_tensor(part, name, precision) for part, name in zip((W, b), names, strict=True)]
        is_last = place == net.n_hidden_layers
        nodes.append(helper.make_node("Gemm", [before, *names], ["y" if is_last else f"t{place}"], transB=1))
        if not is_last:
            constants: list[Any] = []
            nodes += _activation_nodes(net.activation, precision, constants, str(place))
            tensors += constants if place == 0 else []
        before = f"h{place}"
    return nodes, tensors


def _tensor(values: Any, name: str, precision: str) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(np.ascontiguousarray(values.astype(precision)), name)


def _activation_nodes(
    activation: Activation, precision: str, tensors: list[Any], place: str = ""
) -> list[Any]:
    """Nodes from ``t`` to ``h``, of some layer, as the activation spells them; constants are added to the tensors."""
    from onnx import helper, numpy_helper

    if activation.spelling.onnx is None:
        raise BadInputError(f"activation {activation.name!r} cannot be written in ONNX")
    nodes: list[Any] = []
    constants: dict[float, str] = {}

    def make(tree: Any, result: str) -> str:
        """Append the nodes that make a tree, and return the name of its value."""
        if tree == "t":
            return f"t{place}"
        if isinstance(tree, float):
            if tree not in constants:
                constants[tree] = f"constant{len(constants)}"
                value = np.array(tree, dtype=precision)
                tensors.append(numpy_helper.from_array(value, constants[tree]))
            return constants[tree]
        parts = [make(part, f"{result}_{number}") for number, part in enumerate(tree[1:])]
        nodes.append(helper.make_node(tree[0], parts, [result]))
        return result

    make(activation.spelling.onnx, f"h{place}")
    return nodes


def parse_onnx(path: str | PathLike[str]) -> TwoLayerNetwork | DeepNetwork:
    """Read a network from an ONNX file by following its wires; see `planted.io.networks._onnx_wires`.

    Raises `FileFormatError` if the file is no such network.
    """
    model = read_onnx_model(path)
    try:
        return read_network(model)
    except (ValueError, TypeError, LookupError, ArithmeticError, RuntimeError, AttributeError) as error:
        raise FileFormatError(f"{os.fspath(path)}: not a network of layers: {error}") from error
