"""Networks as ONNX graphs: Gemm, activation, Gemm and so on, a Gemm for the linear part; and reading such graphs back.

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
from planted.io.networks._onnx_wires import read_network
from planted.networks import Activation, DeepNetwork, TwoLayerNetwork
from planted.outcomes import FileFormatError

__all__ = ["format_onnx", "parameters_by_name", "parse_onnx"]

OPSET = 13
IR_VERSION = 8


def format_onnx(net: TwoLayerNetwork | DeepNetwork, precision: str) -> bytes:
    """Return a network as the bytes of an ONNX file."""
    import onnx
    from onnx import helper

    kind = onnx.TensorProto.DOUBLE if precision == "float64" else onnx.TensorProto.FLOAT
    nodes, tensors = _nodes(net, precision)
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


def _nodes(net: TwoLayerNetwork | DeepNetwork, precision: str) -> tuple[list[Any], list[Any]]:
    """The nodes of a network, a Gemm for each layer with an activation behind all but the last, and its tensors."""
    from onnx import helper

    parts = parameters_by_name(net)
    names, n_layers = list(parts), len(parts) // 2
    last = "bent" if "B" in parts else "y"
    nodes: list[Any] = []
    constants: list[Any] = []
    before = "x"
    for place in range(n_layers):
        mark = str(place) if isinstance(net, DeepNetwork) else ""
        is_last = place == n_layers - 1
        result = last if is_last else f"t{mark}"
        nodes.append(
            helper.make_node("Gemm", [before, *names[2 * place : 2 * place + 2]], [result], transB=1)
        )
        if not is_last:
            made: list[Any] = []
            nodes += _activation_nodes(net.activation, precision, made, mark)
            constants = constants or made  # the same for every layer
        before = f"h{mark}"
    if "B" in parts:
        nodes.append(helper.make_node("Gemm", ["x", "B"], ["straight"], transB=1))
        nodes.append(helper.make_node("Add", [last, "straight"], ["y"]))
    return nodes, [*(_tensor(part, name, precision) for name, part in parts.items()), *constants]


def parameters_by_name(net: TwoLayerNetwork | DeepNetwork) -> dict[str, Array]:
    """Return the parameters by name: W, b, A, c and B of two layers, W0, b0, W1, b1, ... of a deep network."""
    if not isinstance(net, DeepNetwork):
        return {name: getattr(net, name) for name in net.parts}
    parts = [
        (f"{kind}{place}", layer[at])
        for place, layer in enumerate(net.layers)
        for at, kind in enumerate("Wb")
    ]
    return dict(parts)


def _tensor(values: Any, name: str, precision: str) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(np.ascontiguousarray(values.astype(precision)), name)


def _activation_nodes(
    activation: Activation, precision: str, tensors: list[Any], place: str = ""
) -> list[Any]:
    """Nodes from ``t`` to ``h``, of some layer, as the activation spells them; constants are added to the tensors."""
    from onnx import helper, numpy_helper

    if activation.spelling.onnx is None:
        raise activation.not_written("in ONNX")
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
