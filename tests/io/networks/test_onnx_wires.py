"""ONNX graphs drawn at random: those that are a two-layer network are read as onnxruntime runs them, others are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from planted import DeepNetwork, TwoLayerNetwork, import_network
from planted.identification import as_oracle
from planted.io.networks import _onnx_models
from planted.outcomes import FileFormatError

ACTIVATIONS = ["relu", "leaky", "leaky exact", "absolute", "square", "square by power", "power"]
N_VALID, N_PER_BREAK = 200, 10


@dataclass
class Draft:
    """A graph under construction: nodes in a runnable order, tensors by name."""

    rng: np.random.Generator
    precision: str
    sizes: tuple[int, int, int]
    nodes: list[Any] = field(default_factory=list)
    tensors: dict[str, Any] = field(default_factory=dict)
    input_sides: list[Any] = field(default_factory=list)
    t: str = ""  # the values before and after the activation
    h: str = ""
    y: str = ""
    n_names: int = 0

    def name(self) -> str:
        self.n_names += 1
        return f"{self.rng.choice(['v', 'onnx::', 'W', 'ü', ' '])}{self.n_names}"

    def constant(self, values: Any, *, precision: str | None = None) -> str:
        name = self.name()
        array = np.ascontiguousarray(values, dtype=precision or self.precision).reshape(np.shape(values))
        self.tensors[name] = numpy_helper.from_array(array, name)
        return name

    def node(self, kind: str, *inputs: str, **options: Any) -> str:
        name = self.name()
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **options))
        return name

    @property
    def kind(self) -> int:
        return TensorProto.DOUBLE if self.precision == "float64" else TensorProto.FLOAT


def draw(rng: np.random.Generator, activation: str) -> Draft:
    """Draw a graph that is a two-layer network, in one of the many ways to write one."""
    # onnxruntime has no LeakyRelu for doubles
    precision = "float32" if activation == "leaky" or rng.random() < 0.3 else "float64"
    d, k, m = (int(size) for size in rng.integers(1, 5, 3))
    draft = Draft(rng, precision, (d, k, m), input_sides=["rows", d])
    value = "x"
    if rng.random() < 0.2:
        draft.input_sides = ["rows", 1, d, 1]
        value = draft.node("Flatten", value, **({"axis": 1} if rng.random() < 0.5 else {}))
    draft.t = draw_layer(draft, draw_detour(draft, value), d, k)
    draft.h = draw_activation(draft, draw_detour(draft, draft.t), activation)
    draft.y = draw_detour(draft, draw_layer(draft, draw_detour(draft, draft.h), k, m))
    return draft


def draw_detour(draft: Draft, value: str) -> str:
    while draft.rng.random() < 0.2:
        value = draft.node(str(draft.rng.choice(["Identity", "Flatten"])), value)
    return value


def draw_layer(draft: Draft, value: str, n_in: int, n_out: int) -> str:
    rng = draft.rng
    weights = rng.standard_normal((n_in, n_out))
    if rng.random() < 0.5:
        value = draft.node("MatMul", value, draft.constant(weights))
    else:
        options: dict[str, Any] = {}
        if rng.random() < 0.5:
            options["transB"] = int(rng.integers(2))
        for name in ("alpha", "beta"):
            if rng.random() < 0.4:
                options[name] = float(rng.normal())
        inputs = [value, draft.constant(weights.T if options.get("transB") else weights)]
        if rng.random() < 0.7:
            inputs.append(draw_bias(draft, n_out))
        elif rng.random() < 0.5:
            inputs.append("")
        value = draft.node("Gemm", *inputs, **options)
    while rng.random() < 0.4:
        both = [value, draw_bias(draft, n_out)]
        value = draft.node("Add", *(both if rng.random() < 0.5 else both[::-1]))
    return value


def draw_bias(draft: Draft, length: int) -> str:
    shapes = [(length,), (1, length), (), (1,), (1, 1)]
    known = [name for name, item in draft.tensors.items() if tuple(item.dims) == (length,)]
    if known and draft.rng.random() < 0.2:  # one tensor for two biases, as exporters do
        return known[0]
    return draft.constant(draft.rng.standard_normal(shapes[int(draft.rng.integers(len(shapes)))]))


def draw_activation(draft: Draft, t: str, activation: str) -> str:
    rng = draft.rng
    if activation in ("relu", "absolute"):
        return draft.node({"relu": "Relu", "absolute": "Abs"}[activation], t)
    if activation == "leaky":
        return draft.node("LeakyRelu", t, **({"alpha": float(rng.random())} if rng.random() < 0.7 else {}))
    if activation == "square":
        return draft.node("Mul", t, t)
    if activation == "square by power":
        return draft.node("Pow", t, draft.constant(2.0))
    if activation == "power":
        return draft.node("Pow", draft.node("Relu", t), draft.constant(float(rng.integers(1, 5))))
    both = [t, draft.constant(rng.random())]
    below = draft.node("Mul", *(both if rng.random() < 0.5 else both[::-1]))
    return draft.node("Where", draft.node("Greater", t, draft.constant(0.0)), t, below)


def build(draft: Draft, *, is_shuffled: bool = True) -> Any:
    """Make the model of a draft, with nodes in any order or in the order of the draft."""
    rng = draft.rng
    order = rng.permutation(len(draft.nodes))
    nodes = [draft.nodes[i] for i in (order if is_shuffled else range(len(order)))]
    tensors = list(draft.tensors.values())
    inputs = [helper.make_tensor_value_info("x", draft.kind, draft.input_sides)]
    if rng.random() < 0.3:  # constants as inputs with a default, as older programs write them
        inputs += [
            helper.make_tensor_value_info(item.name, item.data_type, list(item.dims)) for item in tensors
        ]
    outputs = [helper.make_tensor_value_info(draft.y, draft.kind, ["rows", draft.sizes[2]])]
    graph = helper.make_graph(nodes, "drawn", inputs, outputs, initializer=tensors)
    opset = helper.make_opsetid("", int(rng.integers(13, 19)))
    model = helper.make_model(graph, opset_imports=[opset])
    model.ir_version = 8
    return model


def run(model: Any, rows: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": rows})[0])


@pytest.mark.parametrize("seed", range(N_VALID))
def test_every_way_to_write_a_network_is_read_as_it_runs(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, 1])
    draft = draw(rng, ACTIVATIONS[seed % len(ACTIVATIONS)])
    model = build(draft)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    net = import_network(tmp_path / "net.onnx")
    assert (net.n_features, net.n_hidden, net.n_outputs) == draft.sizes
    rows = np.random.default_rng([seed, 2]).standard_normal((7, draft.sizes[0])).astype(draft.precision)
    answers = run(model, rows.reshape(7, *draft.input_sides[1:]))
    # Sums of a few terms, to the fourth power at most: some dozen roundings, and cancellation against the largest answer.
    allowed = 100 * np.finfo(draft.precision).eps * max(1.0, float(np.abs(answers).max()))
    np.testing.assert_allclose(
        net(rows.astype(float)), answers, rtol=100 * np.finfo(draft.precision).eps, atol=allowed
    )


# --- graphs that are something else


def tail(draft: Draft) -> int:
    """Index of the first node after the activation."""
    return next(i for i, node in enumerate(draft.nodes) if draft.h in node.output) + 1


def rewire(draft: Draft, old: str, new: str, *, start: int = 0, stop: int | None = None) -> None:
    """Let the nodes in a range take another value instead of the old one."""
    for node in draft.nodes[start:stop]:
        for i, name in enumerate(node.input):
            if name == old:
                node.input[i] = new


def skip(draft: Draft) -> None:  # the second layer takes what goes into the activation
    rewire(draft, draft.h, draft.t, start=tail(draft))


def dead_branch(draft: Draft) -> None:
    draft.node(
        str(draft.rng.choice(["Relu", "Abs", "Identity", "Neg"])),
        str(draft.rng.choice([draft.t, draft.h, "x"])),
    )


def dead_tensor(draft: Draft) -> None:
    draft.constant(draft.rng.standard_normal(3))


def doubled_activation(draft: Draft) -> None:
    place = tail(draft)
    new = draft.node("Relu", draft.h)
    draft.nodes.insert(place, draft.nodes.pop())
    rewire(draft, draft.h, new, start=place + 1)


def third_layer(draft: Draft) -> None:
    m = draft.sizes[2]
    draft.y = draw_layer(draft, draft.node("Relu", draft.y), m, m)


def no_activation(draft: Draft) -> None:
    node = draft.nodes[tail(draft) - 1]
    first = next(i for i, item in enumerate(draft.nodes) if draft.t in item.output) + 1
    del draft.nodes[first : tail(draft)]
    draft.nodes.insert(first, helper.make_node("Neg", [draft.t], [node.output[0]]))


def foreign_activation(draft: Draft) -> None:
    new = str(draft.rng.choice(["HardSigmoid", "Celu", "Exp", "Sin", "Selu"]))
    end = draft.nodes[tail(draft) - 1]
    end.CopyFrom(
        helper.make_node(new, [end.input[1] if end.op_type == "Where" else end.input[0]], list(end.output))
    )


def layers_before_activation(draft: Draft) -> None:
    d, k, m = draft.sizes
    draft.nodes, draft.tensors = [], {}
    value = draw_layer(draft, draw_layer(draft, "x", d, k), k, m)
    draft.input_sides = ["rows", d]
    draft.y = draft.node("Relu", value)


def residual(draft: Draft) -> None:
    inner = draw_layer(draft, draft.h, draft.sizes[1], draft.sizes[2])
    draft.y = draft.node("Add", draft.y, inner)


def two_activations(draft: Draft) -> None:
    place = tail(draft)
    other = draft.node("Abs", draft.t)
    both = draft.node("Add", draft.h, other)
    moved = [draft.nodes.pop() for _ in range(2)][::-1]
    draft.nodes[place:place] = moved
    rewire(draft, draft.h, both, start=place + 2)


def product_with_another(draft: Draft) -> None:
    place = tail(draft)
    product = draft.node("Mul", draft.h, draft.t)
    draft.nodes.insert(place, draft.nodes.pop())
    rewire(draft, draft.h, product, start=place + 1)


def shared_first_layer(draft: Draft) -> None:  # the input itself is added to the answer
    m = draft.sizes[2]
    draft.y = draft.node(
        "Add", draft.y, draft.node("MatMul", draft.t, draft.constant(np.ones((draft.sizes[1], m))))
    )


def bias_per_row(draft: Draft) -> None:
    draft.y = draft.node("Add", draft.y, draft.constant(np.ones((7, 1))))


def bias_of_rank_three(draft: Draft) -> None:
    draft.y = draft.node("Add", draft.y, draft.constant(np.ones((1, 1, draft.sizes[2]))))


def bias_that_widens(draft: Draft) -> None:
    draft.y = draft.node("Add", draft.y, draft.constant(np.ones(draft.sizes[2] + 1)))


def flatten_from_elsewhere(draft: Draft) -> None:
    draft.y = draft.node("Flatten", draft.y, axis=int(draft.rng.choice([0, 2, -2])))


def transposed_input(draft: Draft) -> None:
    d = draft.sizes[2]
    draft.y = draft.node("Gemm", draft.y, draft.constant(np.eye(d)), transA=1)


def weights_that_are_computed(draft: Draft) -> None:
    for node in draft.nodes:
        if node.op_type in ("Gemm", "MatMul"):
            name = draft.node("Relu", node.input[1])
            node.input[1] = name
            draft.nodes.insert(0, draft.nodes.pop())
            return


def weights_on_the_left(draft: Draft) -> None:
    for node in draft.nodes:
        if node.op_type in ("Gemm", "MatMul"):
            node.input[0], node.input[1] = node.input[1], node.input[0]
            return


def precision_of_a_tensor(draft: Draft) -> None:
    name = next(node.input[1] for node in draft.nodes if node.op_type in ("Gemm", "MatMul"))
    other = "float32" if draft.precision == "float64" else "float64"
    array = numpy_helper.to_array(draft.tensors[name]).astype(other)
    draft.tensors[name].CopyFrom(numpy_helper.from_array(array, name))


def domain_of_a_node(draft: Draft) -> None:
    node = draft.nodes[int(draft.rng.integers(len(draft.nodes)))]
    node.domain = str(draft.rng.choice(["com.microsoft", "ai.onnx.training", "own.example"]))


def wrong_width(draft: Draft) -> None:
    draft.input_sides[-1 if len(draft.input_sides) == 2 else 2] += 1


def a_circle(draft: Draft) -> None:
    draft.nodes[0].input[0] = draft.h


DRAFT_BREAKS: list[Callable[[Draft], None]] = [
    skip,
    dead_branch,
    dead_tensor,
    doubled_activation,
    no_activation,
    foreign_activation,
    layers_before_activation,
    residual,
    two_activations,
    product_with_another,
    shared_first_layer,
    bias_per_row,
    bias_of_rank_three,
    bias_that_widens,
    flatten_from_elsewhere,
    transposed_input,
    weights_that_are_computed,
    weights_on_the_left,
    precision_of_a_tensor,
    domain_of_a_node,
    wrong_width,
    a_circle,
]


@pytest.mark.parametrize("seed", range(N_PER_BREAK))
def test_a_chain_of_several_hidden_layers_is_a_deep_network(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, 7])
    draft = draw(rng, "relu")
    third_layer(draft)
    path = tmp_path / "net.onnx"
    model = build(draft, is_shuffled=seed % 2 == 1)
    path.write_bytes(model.SerializeToString())
    net = import_network(path)
    assert isinstance(net, DeepNetwork) and net.n_hidden_layers == 2
    rows = rng.standard_normal((20, net.n_features)).astype(draft.precision)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    sides = [20, *draft.input_sides[1:]]
    answers = session.run(None, {session.get_inputs()[0].name: rows.reshape(sides)})[0]
    tol = 1e-4 if draft.precision == "float32" else 1e-10
    np.testing.assert_allclose(net(rows), answers, rtol=tol, atol=tol * (1 + np.abs(answers).max()))


@pytest.mark.parametrize("seed", range(N_PER_BREAK))
@pytest.mark.parametrize("change", DRAFT_BREAKS, ids=lambda change: change.__name__)
def test_graphs_that_are_no_plain_chain_are_refused(
    change: Callable[[Draft], None], seed: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng([seed, DRAFT_BREAKS.index(change), 3])
    draft = draw(rng, "relu" if seed < 5 else ACTIVATIONS[int(rng.integers(len(ACTIVATIONS)))])
    change(draft)
    (tmp_path / "net.onnx").write_bytes(build(draft, is_shuffled=seed % 2 == 1).SerializeToString())
    with pytest.raises(FileFormatError, match=r"net\.onnx: not a"):
        import_network(tmp_path / "net.onnx")


def test_a_skip_around_the_activation_is_no_relu_network(tmp_path: Path) -> None:
    draft = Draft(np.random.default_rng(0), "float64", (2, 2, 2), input_sides=["rows", 2])
    t = draft.node("Gemm", "x", draft.constant(np.eye(2)))
    draft.node("Relu", t)
    draft.y = draft.node("Gemm", t, draft.constant(np.eye(2)))
    (tmp_path / "net.onnx").write_bytes(build(draft, is_shuffled=False).SerializeToString())
    with pytest.raises(FileFormatError, match="is made by Gemm; expected Relu or"):
        import_network(tmp_path / "net.onnx")


# --- models that reach beyond their graph


def outside(tensor: Any) -> Any:
    """Let a tensor be kept in another file."""
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "outside.bin"), ("offset", "0")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return tensor


def vector(name: str = "") -> Any:
    return numpy_helper.from_array(np.ones(2), name)


def sparse(*, is_outside: bool) -> Any:
    item = onnx.SparseTensorProto()
    item.values.CopyFrom(outside(vector("s")) if is_outside else vector("s"))
    item.indices.CopyFrom(numpy_helper.from_array(np.array([0, 1]), "places"))
    item.dims.append(2)
    return item


def external_weights(model: Any, is_outside: bool) -> None:
    outside(model.graph.initializer[0])


def external_entries_alone(model: Any, is_outside: bool) -> None:
    tensor = model.graph.initializer[0]
    outside(tensor).data_location = TensorProto.DEFAULT


def external_constant(model: Any, is_outside: bool) -> None:
    model.graph.node.append(helper.make_node("Constant", [], ["extra"], value=outside(vector())))


def sparse_initializer(model: Any, is_outside: bool) -> None:
    model.graph.sparse_initializer.append(sparse(is_outside=is_outside))


def sparse_constant(model: Any, is_outside: bool) -> None:
    model.graph.node.append(
        helper.make_node("Constant", [], ["extra"], sparse_value=sparse(is_outside=is_outside))
    )


def constant_in(is_outside: bool) -> list[Any]:
    return [helper.make_node("Constant", [], ["made"], value=outside(vector()) if is_outside else vector())]


def function(model: Any, is_outside: bool) -> None:
    body = [*constant_in(is_outside), helper.make_node("Add", ["a", "made"], ["b"])]
    opsets = [helper.make_opsetid("", 13)]
    model.functions.append(helper.make_function("own", "Shift", ["a"], ["b"], body, opsets))
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.node.append(helper.make_node("Shift", ["x"], ["extra"], domain="own"))


def branch(model: Any, is_outside: bool) -> None:
    made = [helper.make_tensor_value_info("made", TensorProto.DOUBLE, [2])]
    graphs = [helper.make_graph(constant_in(is_outside), name, [], made) for name in ("one", "other")]
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "always"))
    model.graph.node.append(
        helper.make_node("If", ["always"], ["extra"], then_branch=graphs[0], else_branch=graphs[1])
    )


def training(model: Any, is_outside: bool) -> None:
    info = model.training_info.add()
    info.algorithm.CopyFrom(helper.make_graph(constant_in(is_outside), "steps", [], []))


MODEL_BREAKS = [
    external_weights,
    external_entries_alone,
    external_constant,
    sparse_initializer,
    sparse_constant,
    function,
    branch,
    training,
]


@pytest.mark.parametrize("is_outside", [True, False])
@pytest.mark.parametrize("change", MODEL_BREAKS, ids=lambda change: change.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_models_that_reach_beyond_their_graph_are_neither_read_nor_run(
    change: Callable[[Any, bool], None],
    is_outside: bool,
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng([seed, MODEL_BREAKS.index(change), 4])
    model = build(draw(rng, "relu"), is_shuffled=False)
    change(model, is_outside)
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    (tmp_path / "outside.bin").write_bytes(np.ones(100).tobytes())

    def never(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("onnxruntime was given the model")

    monkeypatch.setattr(onnxruntime, "InferenceSession", never)
    for read in (import_network, lambda name: as_oracle(str(name))):
        with pytest.raises(FileFormatError, match=r"net\.onnx: .*(another file|it holds a|foreign domain)"):
            read(path)


def test_fields_that_the_standard_does_not_have_are_not_handed_on(tmp_path: Path) -> None:
    model = build(draw(np.random.default_rng(5), "relu"))
    strange = b"\xfa\x3e\x05hello"  # field 1007, five bytes
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString() + strange)
    read = _onnx_models.read_onnx_model(tmp_path / "net.onnx")
    assert b"hello" not in read.SerializeToString()
    assert isinstance(import_network(tmp_path / "net.onnx"), TwoLayerNetwork)


def test_a_file_of_countless_parts_is_refused_before_they_are_built(tmp_path: Path) -> None:
    nodes = b"\x0a\x00" * 2_000_000  # empty nodes: two bytes each in the file, a hundred in memory
    graph = b"\x3a" + onnx_varint(len(nodes)) + nodes
    (tmp_path / "net.onnx").write_bytes(graph)
    with pytest.raises(FileFormatError, match=r"net\.onnx: .*more than 500000 fields"):
        import_network(tmp_path / "net.onnx")


def onnx_varint(value: int) -> bytes:
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


@pytest.mark.parametrize("side", [10**7, 10**12, 2**62])
@pytest.mark.parametrize("form", ["Gemm", "MatMul"])
def test_empty_weights_of_endless_sides_take_no_memory(form: str, side: int, tmp_path: Path) -> None:
    draft = Draft(np.random.default_rng(0), "float64", (0, side, 0), input_sides=["rows", 0])
    t = draft.node(form, "x", draft.constant(np.empty((0, 1))))
    draft.tensors[draft.nodes[0].input[1]].dims[1] = side
    draft.y = draft.node("MatMul", draft.node("Relu", t), draft.constant(np.empty((1, 0))))
    draft.tensors[draft.nodes[-1].input[1]].dims[0] = side
    (tmp_path / "net.onnx").write_bytes(build(draft).SerializeToString())
    with pytest.raises(FileFormatError, match=r"net\.onnx"):
        import_network(tmp_path / "net.onnx")
