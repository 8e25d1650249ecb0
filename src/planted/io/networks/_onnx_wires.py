"""Reading a network off the wires of an ONNX graph.

The graph is followed from its one output back to its one input: a layer, an activation, a layer, and so on. With one
activation it is a two-layer network, with several a deep one, whose activations must be the same. Every step takes the node
that makes the value in question, and a node can be taken once. Where the output is a sum of two layers, one of them must
take the input itself: it is the linear part B. What is left at the end, a node or a tensor, takes no part in the answer, and
the graph is refused: so a doubled branch or a second output is never read as the plain network.

===============  =====================================================================================================
step             nodes
===============  =====================================================================================================
layer            Gemm with constant weights (alpha, beta, transB as they are), or MatMul; then any number of Adds
activation       Relu; LeakyRelu; Abs; Mul(t, t) or Pow(t, 2); Pow(Relu(t), p); Where(t > 0, t, slope t); Tanh, Sigmoid,
                 Softplus, Elu, Gelu; t (1 + Erf(t / sqrt 2)) / 2; t Sigmoid(t)
in between       Identity; Flatten of everything but the rows
shift            Add or Sub of a constant to the input, taken into the first bias
linear part      Add of the last layer and of a layer of the input, or of the input itself
===============  =====================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from planted._typing import Array
from planted.networks import Activation, DeepNetwork, TwoLayerNetwork, activation_names, parse_activation
from planted.networks._activations import LARGEST_DEGREE
from planted.outcomes import FileFormatError

__all__ = ["network_of_layers", "read_network"]

OLDEST_OPSET = 7  # before it, Add and Gemm had attributes that changed their meaning
PRECISIONS = ("FLOAT16", "FLOAT", "DOUBLE")
LARGEST_EMPTY = 1_000_000  # longest side of a tensor without numbers: nothing in the file vouches for it
WIDEST_SKIP = 1024  # inputs that are added to the outputs as they are: the matrix is made here, not read
ATTRIBUTES = {
    "Gemm": {"alpha": "FLOAT", "beta": "FLOAT", "transA": "INT", "transB": "INT"},
    "LeakyRelu": {"alpha": "FLOAT"},
    "Flatten": {"axis": "INT"},
    "Elu": {"alpha": "FLOAT"},
    "Gelu": {"approximate": "STRING"},
}
ACTIVATIONS = (
    *("Relu", "LeakyRelu", "Abs", "Mul", "Pow", "Where"),
    *("Tanh", "Sigmoid", "Softplus", "Elu", "Gelu"),
)
CONSTANT_TOL = {"FLOAT16": 1e-3, "FLOAT": 1e-6, "DOUBLE": 1e-6}  # exporters round √2 to single precision
EITHER_WAY = ("Add", "Mul")  # operators whose two values may be exchanged
SPELLINGS = {
    ("Gelu", "t"): "gelu",
    **{each.spelling.onnx: each.name for each in map(parse_activation, activation_names(curved=True))},
}


def read_network(model: Any) -> TwoLayerNetwork | DeepNetwork:
    """Return the network that a checked model is; a model that is no such network raises a ValueError."""
    _check_opset(model)
    wires = _Wires(model.graph)
    bent, straight = wires.branches(wires.output.name)
    A, c, name = wires.layer(bent)
    B = None if straight is None else wires.linear_part(straight, len(c))
    activation, name = wires.activation(name)
    W, b, name = wires.layer(name)
    below = [(W, b)]
    while wires.is_made_by(wires.behind(name), *ACTIVATIONS):
        other, name = wires.activation(name)
        if other != activation or B is not None:
            raise FileFormatError(
                f"layers of {activation} and {other}, or a linear part beside several hidden layers"
            )
        W, b, name = wires.layer(name)
        below.insert(0, (W, b))
    wires.is_flattened = False
    shift, name = wires.shift(name, W.shape[1])
    if name != wires.input.name:
        raise FileFormatError(f"the first layer takes {name!r}, which is not the input")
    if shift is not None:
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused with the network
            b = b + W @ shift
        below[0] = (W, b)
    wires.check_all_taken()
    _check_shape(wires.input, W.shape[1], is_flattened=wires.is_flattened)
    _check_shape(wires.output, A.shape[0], is_flattened=False)
    if B is None:
        return network_of_layers([*below, (A, c)], activation)
    with np.errstate(over="ignore", invalid="ignore"):
        return network_of_layers([(W, b), (A, c + B[1])], activation, B[0])


def network_of_layers(
    layers: Sequence[tuple[Any, Any]], activation: str | Activation, B: Any = None
) -> TwoLayerNetwork | DeepNetwork:
    """Return the network of these weights and biases: a `DeepNetwork` if there are several hidden layers."""
    if len(layers) > 2:
        return DeepNetwork(layers, activation)
    (W, b), (A, c) = layers
    return TwoLayerNetwork(W, b, A, c, activation, B)


def _check_opset(model: Any) -> None:
    """Refuse operators of versions that may mean something else."""
    from onnx.defs import onnx_opset_version

    newest = int(onnx_opset_version())
    versions = [item.version for item in model.opset_import if item.domain in ("", "ai.onnx")]
    if not versions or not OLDEST_OPSET <= min(versions) <= max(versions) <= newest:
        raise FileFormatError(f"opset {versions}; models of opset {OLDEST_OPSET} to {newest} are read")


class _Wires:
    """The nodes of a graph by the value they make, and its tensors by name; each is taken as the walk meets it."""

    def __init__(self, graph: Any) -> None:
        self.tensors = {item.name: item for item in graph.initializer}
        self.makers = {node.output[0]: node for node in graph.node if len(node.output) == 1}
        self.unused = set(self.tensors)
        self.is_flattened = False  # whether the walk has met a Flatten
        inputs = [item for item in graph.input if item.name not in self.tensors]
        if len(inputs) != 1 or len(graph.output) != 1:
            raise FileFormatError(
                f"{len(inputs)} inputs and {len(graph.output)} outputs; expected one of each"
            )
        if len(self.makers) != len(graph.node) or len(self.tensors) != len(graph.initializer):
            raise FileFormatError("a node without exactly one result of its own, or two tensors of one name")
        self.input, self.output = inputs[0], graph.output[0]
        self.precision = _precision(self.input.type.tensor_type.elem_type)
        if _precision(self.output.type.tensor_type.elem_type) != self.precision:
            raise FileFormatError("its input and its output differ in precision")

    def take(self, name: str, *kinds: str) -> tuple[Any, dict[str, Any]]:
        """Return the node that makes a value, with its attributes; it can be taken once."""
        node = self.makers.pop(name, None)
        if node is None:
            raise FileFormatError(f"no node is left that makes {name!r}; expected {' or '.join(kinds)}")
        if node.op_type not in kinds or node.domain not in ("", "ai.onnx"):
            raise FileFormatError(f"{name!r} is made by {node.op_type}; expected {' or '.join(kinds)}")
        return node, _attributes(node)

    def is_made_by(self, name: str, *kinds: str) -> bool:
        """Whether a node of these kinds makes the value."""
        return name in self.makers and self.makers[name].op_type in kinds

    def through(self, name: str) -> str:
        """Follow a value back through nodes that leave matrices as they are."""
        while self.is_made_by(name, "Identity", "Flatten"):
            node, options = self.take(name, "Identity", "Flatten")
            if options.get("axis", 1) != 1:
                raise FileFormatError(f"a Flatten from axis {options['axis']}; expected 1")
            self.is_flattened |= node.op_type == "Flatten"
            name = node.input[0]
        return name

    def branches(self, name: str) -> tuple[str, str | None]:
        """Split a sum of two values into the one that is made by units and the other; None where it is no such sum."""
        if not self._is_sum(self.behind(name)):
            return name, None
        node, _ = self.take(self.through(name), "Add")
        one, other = node.input
        bent = [each for each in (one, other) if self._meets_activation(each)]
        if len(bent) != 1 or one == other:
            raise FileFormatError("a sum of two values of which not exactly one is made by units")
        return bent[0], other if bent[0] == one else one

    def behind(self, name: str) -> str:
        """Return the value before nodes that leave matrices as they are, without taking them."""
        for _ in range(len(self.makers)):  # a damaged file may have a cycle
            if not self.is_made_by(name, "Identity", "Flatten"):
                break
            name = self.makers[name].input[0]
        return name

    def _is_sum(self, name: str) -> bool:
        """Whether a value is a sum of two values of which none is a constant."""
        if not self.is_made_by(name, "Add") or len(self.makers[name].input) != 2:
            return False
        return not any(each in self.tensors for each in self.makers[name].input)

    def _meets_activation(self, name: str) -> bool:
        """Whether a value is made, through layers alone, from an activation."""
        for _ in range(len(self.makers)):
            if name not in self.makers or self.makers[name].op_type in ACTIVATIONS:
                break
            others = [each for each in self.makers[name].input if each and each not in self.tensors]
            if len(others) != 1:
                return False
            name = others[0]
        return self.is_made_by(name, *ACTIVATIONS)

    def linear_part(self, name: str, n_outputs: int) -> tuple[Array, Array]:
        """Return the weights and the bias of a layer that takes the input itself, or the input as it is."""
        name = self.through(name)
        if name == self.input.name:
            if n_outputs > WIDEST_SKIP:
                raise FileFormatError(f"a skip of {n_outputs} inputs; at most {WIDEST_SKIP} are read")
            return np.eye(n_outputs), np.zeros(n_outputs)
        B, bias, before = self.layer(name)
        if self.through(before) != self.input.name:
            raise FileFormatError(f"the linear part takes {before!r}, which is not the input")
        if len(B) != n_outputs:
            raise FileFormatError(f"the linear part has {len(B)} outputs; the units have {n_outputs}")
        return B, bias

    def shift(self, name: str, length: int) -> tuple[Array | None, str]:
        """Return the constant that is added to the inputs, None if there is none, and the value it is added to."""
        name = self.through(name)
        if not self.is_made_by(name, "Add", "Sub") or self.makers[name].input[1] not in self.tensors:
            return None, name
        node, _ = self.take(name, "Add", "Sub")
        values = self.tensor(node.input[1])
        if values.size != 1 and not (values.size == length == values.shape[-1]):
            raise FileFormatError(f"a constant of shape {values.shape} is added to {length} inputs")
        row = np.broadcast_to(values.ravel(), (length,)) * (1.0 if node.op_type == "Add" else -1.0)
        return row, self.through(node.input[0])

    def layer(self, name: str) -> tuple[Array, Array, str]:
        """Return the weights (out, in) and the bias of the layer that makes a value, and the value it takes."""
        added: list[Array] = []
        name = self.through(name)
        while self.is_made_by(name, "Add"):
            node, _ = self.take(name, "Add")
            one, other = node.input
            constant, name = (one, other) if one in self.tensors else (other, one)
            added.append(self.tensor(constant))
            name = self.through(name)
        node, options = self.take(name, "Gemm", "MatMul")
        weights = self.tensor(node.input[1])
        if weights.ndim != 2:
            raise FileFormatError(
                f"the weights {node.input[1]!r} have {weights.ndim} dimension(s); expected 2"
            )
        if weights.size == 0 and max(weights.shape) > LARGEST_EMPTY:
            raise FileFormatError(f"the weights {node.input[1]!r} of shape {weights.shape} hold no numbers")
        if options.get("transA", 0) != 0 or options.get("transB", 0) not in (0, 1):
            raise FileFormatError("a Gemm with transposed input, or with a transB other than 0 and 1")
        if not options.get("transB", 0):
            weights = weights.T
        if len(node.input) > 2 and node.input[2]:
            added.append(_scaled(self.tensor(node.input[2]), options.get("beta", 1.0)))
        rows = [_as_row(values, len(weights)) for values in reversed(added)]
        with np.errstate(over="ignore", invalid="ignore"):  # a lone bias keeps its bits
            bias = sum(rows[1:], start=rows[0]) if rows else np.zeros(len(weights))
        return _scaled(weights, options.get("alpha", 1.0)), bias, node.input[0]

    def activation(self, name: str) -> tuple[str, str]:
        """Return the activation that makes a value, and the value it takes."""
        name = self.through(name)
        for tree, known in SPELLINGS.items():
            for before, nodes in self.spelled(tree, name, None):
                self.take_all(nodes)
                return known, before
        node, options = self.take(self.through(name), *ACTIVATIONS)
        if node.op_type == "Where":
            return self.leaky(node)
        before = node.input[0]
        if node.op_type == "Mul" and node.input[1] != before:
            raise FileFormatError("a Mul of two different values")
        if node.op_type == "LeakyRelu":
            return f"leaky-relu:{options.get('alpha', float(np.float32(0.01)))!r}", before
        if node.op_type != "Pow":
            return {"Relu": "relu", "Abs": "absolute", "Mul": "quadratic"}[node.op_type], before
        degree = self.scalar(node.input[1])
        inner = self.through(before)
        if self.is_made_by(inner, "Relu") and 1 <= degree <= LARGEST_DEGREE:
            return f"power:{degree!r}", self.take(inner, "Relu")[0].input[0]
        if degree != 2:
            raise FileFormatError(f"a power of degree {degree!r}: known are 1 to {LARGEST_DEGREE}, of a Relu")
        return "quadratic", inner

    def spelled(self, tree: Any, name: str, before: str | None) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the ways to read a value as a tree of operators: the value ``t`` it is made from, and its nodes."""
        if not isinstance(tree, tuple):
            is_met = before in (None, name) if tree == "t" else self._is_constant(name, tree)
            if is_met:
                yield (name if tree == "t" else before or ""), ()
            return
        node = self.makers.get(name)
        if node is None or node.op_type != tree[0] or len(node.input) != len(tree) - 1:
            return
        orders = [list(node.input)]
        if tree[0] in EITHER_WAY:
            orders.append(orders[0][::-1])
        for inputs in orders:
            found: list[tuple[str | None, tuple[str, ...]]] = [(before, (name,))]
            for part, each in zip(tree[1:], inputs, strict=True):
                found = [
                    (origin or None, (*nodes, *more))
                    for start, nodes in found
                    for origin, more in self.spelled(part, each, start)
                ]
            yield from ((origin, nodes) for origin, nodes in found if origin)

    def _is_constant(self, name: str, value: float) -> bool:
        """Whether a value is a constant of this one number, in the precision of the graph; it is not used up."""
        from onnx import numpy_helper

        if name not in self.tensors:
            return False
        values = np.asarray(numpy_helper.to_array(self.tensors[name]))
        if values.size != 1 or values.ndim > 2 or values.dtype.kind != "f":
            return False
        return bool(abs(float(values.ravel()[0]) - value) <= CONSTANT_TOL[self.precision] * abs(value))

    def take_all(self, nodes: tuple[str, ...]) -> None:
        """Take the nodes of an activation with their constants."""
        for name in dict.fromkeys(nodes):
            kind = self.makers[name].op_type
            node, options = self.take(name, kind)
            if options.get("alpha", 1.0) != 1.0 or options.get("approximate", "none") != "none":
                raise FileFormatError(f"{kind} with {options}; only the plain one is known")
            for each in node.input:
                if each in self.tensors:
                    self.scalar(each)

    def leaky(self, node: Any) -> tuple[str, str]:
        """Read ``Where(t > 0, t, slope t)``, a leaky ReLU whose slope is kept in full precision."""
        condition, before, below = node.input
        test = self.take(condition, "Greater")[0].input
        leak = list(self.take(below, "Mul")[0].input)
        if test[0] != before or self.scalar(test[1]) != 0 or before not in leak:
            raise FileFormatError("a Where that is no leaky ReLU")
        leak.remove(before)
        return f"leaky-relu:{self.scalar(leak[0])!r}", before

    def tensor(self, name: str, *, is_any_type: bool = False) -> Array:
        """Return a constant in float64; several nodes may use one."""
        from onnx import numpy_helper

        if name not in self.tensors:
            raise FileFormatError(f"{name!r} is not a constant of the file")
        item = self.tensors[name]
        self.unused.discard(name)
        if not is_any_type and _precision(item.data_type) != self.precision:
            raise FileFormatError(f"tensor {name!r} and the input differ in precision")
        with np.errstate(invalid="ignore"):  # a NaN is refused with the network
            return np.asarray(numpy_helper.to_array(item), dtype=np.float64)

    def scalar(self, name: str) -> float:
        """Return a constant of one number."""
        values = self.tensor(name, is_any_type=True)
        if values.size != 1 or values.ndim > 2 or not np.isfinite(values).all():
            raise FileFormatError(f"tensor {name!r} of shape {values.shape} is not one finite number")
        return float(values.ravel()[0])

    def check_all_taken(self) -> None:
        """Refuse a graph with nodes or tensors that take no part in the answer."""
        if self.makers:
            name, node = next(iter(self.makers.items()))
            raise FileFormatError(f"the {node.op_type} that makes {name!r} takes no part in the answer")
        if self.unused:
            raise FileFormatError(f"tensor {min(self.unused)!r} takes no part in the answer")


def _attributes(node: Any) -> dict[str, Any]:
    """Return the attributes of a node; one that is unknown, of another type or given twice is refused."""
    from onnx import AttributeProto

    known = ATTRIBUTES.get(node.op_type, {})
    options: dict[str, Any] = {}
    for item in node.attribute:
        kind = AttributeProto.AttributeType.Name(item.type)
        if known.get(item.name) != kind or item.name in options:
            raise FileFormatError(f"{node.op_type} has an attribute {item.name!r} ({kind}) that is not known")
        if kind == "STRING":
            options[item.name] = item.s.decode(errors="replace")
        else:
            options[item.name] = float(item.f) if kind == "FLOAT" else int(item.i)
    return options


def _precision(number: int) -> str:
    from onnx import TensorProto

    name = str(TensorProto.DataType.Name(number))
    if name not in PRECISIONS:
        raise FileFormatError(f"numbers of type {name}; expected {', '.join(PRECISIONS)}")
    return name


def _scaled(values: Array, factor: float) -> Array:
    """Return a multiple of a tensor; what overflows is refused with the network."""
    with np.errstate(over="ignore", invalid="ignore"):
        return values * factor


def _as_row(values: Array, length: int) -> Array:
    """Return what is added to every row as a vector; what would differ between rows or add columns is refused."""
    if (
        values.ndim > 2
        or values.shape[-1:] not in ((), (1,), (length,))
        or values.shape[:-1] not in ((), (1,))
    ):
        raise FileFormatError(f"a bias of shape {values.shape} is added to {length} columns")
    return np.broadcast_to(values.ravel(), (length,)) if values.size != length else values.ravel()


def _check_shape(value: Any, length: int, *, is_flattened: bool) -> None:
    """Compare the declared shape of the input or output with the layers; only a flattened input may be no matrix."""
    if not value.type.tensor_type.HasField("shape"):
        return
    sides = value.type.tensor_type.shape.dim
    if len(sides) != 2 and not (is_flattened and len(sides) > 0):
        raise FileFormatError(f"{value.name!r} has {len(sides)} dimension(s); expected 2")
    fixed = [side.dim_value for side in sides[1:] if side.dim_value > 0]
    if len(fixed) == len(sides) - 1 and int(np.prod(fixed, dtype=object)) != length:
        raise FileFormatError(f"{value.name!r} is declared with {fixed} columns; the layers have {length}")
