"""Foreign ONNX models are run within the memory budget: what would take more is refused before it is loaded."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from planted import TwoLayerNetwork, export_network
from planted.identification import as_oracle
from planted.io import memory_budget
from planted.io.networks import _onnx_sizes
from planted.outcomes import BadInputError, PlantedError

WIDTH = 4


def save(path: Any, nodes: list[Any], constants: dict[str, Any] | None = None, *, opset: int = 13) -> str:
    """Write a model from x (rows, 4) to y with whole numbers as constants."""
    tensors = [
        numpy_helper.from_array(np.array(v, dtype=np.int64), name) for name, v in (constants or {}).items()
    ]
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", None]) for name in "xy"]
    sides[0].type.tensor_type.shape.dim[1].dim_value = WIDTH
    graph = helper.make_graph(nodes, "g", sides[:1], sides[1:], initializer=tensors)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    path.write_bytes(helper.make_model(graph, ir_version=8, opset_imports=opsets).SerializeToString())
    return str(path)


def node(kind: str, inputs: str, output: str, **options: Any) -> Any:
    return helper.make_node(kind, inputs.split(), [output], **options)


def bomb(kind: str, rng: np.random.Generator) -> tuple[list[Any], dict[str, Any]]:
    """Return a model that makes a huge value of drawn size and then a small answer."""
    big = [int(side) for side in rng.integers(10**5, 10**9, 2)]
    end = [node("ReduceSum", "z", "r", keepdims=0), node("Add", "x r", "y")]
    if kind == "Range":
        makes = [node("Range", "zero big one", "i"), node("Cast", "i", "z", to=1)]
        return makes + end, {"zero": 0, "one": 1, "big": big[0] * big[1]}
    if kind == "Pad":
        return [node("Pad", "x by", "z"), *end], {"by": [0, 0, *big]}
    if kind == "declared":  # the file itself says that the value is small
        return [node("Expand", "x by", "y")], {"by": [big[0], big[1], 1, WIDTH]}
    if kind == "Expand":
        return [node("Expand", "x by", "z"), *end], {"by": [big[0], big[1], 1, WIDTH]}
    if kind == "Tile":
        return [node("Tile", "x by", "z"), *end], {"by": big}
    return [node("ConstantOfShape", "by", "z"), *end], {"by": big}


@pytest.mark.parametrize("kind", ["Range", "Pad", "Expand", "Tile", "ConstantOfShape", "declared"])
@pytest.mark.parametrize("seed", range(3))
def test_values_of_any_size_are_refused_before_the_model_is_loaded(tmp_path, kind, seed) -> None:
    began = time.process_time()
    path = save(tmp_path / "bomb.onnx", *bomb(kind, np.random.default_rng(seed)))
    with pytest.raises(
        BadInputError, match=r"bomb\.onnx: running it with 1 row .* needs .* but the budget is"
    ):
        as_oracle(path)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("kind", ["NonZero", "Range", "ConstantOfShape"])
def test_sizes_that_are_decided_by_values_are_refused_by_name(tmp_path, kind) -> None:
    whole = [node("ReduceMax", "x", "m", keepdims=0), node("Cast", "m", "i", to=7)]
    makes = {
        "NonZero": [node("NonZero", "x", "z")],
        "Range": [*whole, node("Range", "zero i one", "z")],
        "ConstantOfShape": [*whole, node("Reshape", "i shape", "s"), node("ConstantOfShape", "s", "z")],
    }[kind]
    path = save(
        tmp_path / "net.onnx", [*makes, node("Cast", "z", "y", to=1)], {"zero": 0, "one": 1, "shape": [1]}
    )
    with pytest.raises(PlantedError, match=rf"net\.onnx: how much '{kind}' makes is decided while it runs"):
        as_oracle(path)


def unfolding(kind: str, rng: np.random.Generator) -> tuple[list[Any], dict[str, np.ndarray], int]:
    """Return a small model that unfolds what it takes into a drawn number of gigabytes while it runs."""
    side = int(rng.integers(40_000, 60_000))
    if kind == "Einsum":
        long = np.ones((side, 1), np.float32)
        makes = node("Einsum", "p p q q", "z", equation="ax,bx,a,b->x")
        return [makes, node("Add", "x z", "y")], {"p": long, "q": long[:, 0]}, WIDTH
    if kind == "SVMRegressor":
        learned = {
            "coefficients": [1.0] * side,
            "support_vectors": [0.5] * (WIDTH * side),
            "n_supports": side,
        }
        options = {
            "kernel_type": "RBF",
            "kernel_params": [1.0, 0.0, 3.0],
            "rho": [0.0],
            "domain": "ai.onnx.ml",
        }
        return [node("SVMRegressor", "x", "y", **learned, **options)], {}, WIDTH
    directions = 4 if kind == "Conv" else 2
    k = round(side ** (1 / directions))
    weights = np.ones((1, 1, *[k] * directions), np.float32)
    pads = [k // 2] * (2 * directions)
    shape = np.array([-1, 1, *[k] * directions])
    end = node("ReduceMean", "z", "y", axes=list(range(2, 2 + directions)), keepdims=0)
    return (
        [node("Reshape", "x s", "t"), node(kind, "t w", "z", pads=pads), end],
        {"s": shape, "w": weights},
        k**directions,
    )


@pytest.mark.parametrize("kind", ["Einsum", "SVMRegressor", "Conv", "ConvTranspose"])
@pytest.mark.parametrize("seed", range(2))
def test_operators_that_take_room_of_their_own_are_refused_by_name(tmp_path, kind, seed) -> None:
    nodes, constants, width = unfolding(kind, np.random.default_rng((seed, 7)))
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", None]) for name in "xy"]
    sides[0].type.tensor_type.shape.dim[1].dim_value = width
    tensors = [numpy_helper.from_array(values, name) for name, values in constants.items()]
    graph = helper.make_graph(nodes, "g", sides[:1], sides[1:], initializer=tensors)
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 3)]
    path = tmp_path / "net.onnx"
    path.write_bytes(helper.make_model(graph, ir_version=8, opset_imports=opsets).SerializeToString())
    assert path.stat().st_size < 2_000_000
    with pytest.raises(PlantedError, match=rf"net\.onnx: how much '{kind}' makes is decided while it runs"):
        as_oracle(str(path))


def test_a_convolution_over_three_directions_or_fewer_is_run(tmp_path) -> None:
    for directions in (1, 2, 3):
        weights = np.ones((1, 1, *[2] * directions), np.float32)
        nodes = [node("Reshape", "x s", "t"), node("Conv", "t w", "z"), node("Flatten", "z", "y")]
        sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", None]) for name in "xy"]
        sides[0].type.tensor_type.shape.dim[1].dim_value = 3**directions
        constants = {"s": np.array([-1, 1, *[3] * directions]), "w": weights}
        tensors = [numpy_helper.from_array(values, name) for name, values in constants.items()]
        graph = helper.make_graph(nodes, "g", sides[:1], sides[1:], initializer=tensors)
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
        (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
        answers = as_oracle(str(tmp_path / "net.onnx")).call(np.ones((5, 3**directions)))
        np.testing.assert_array_equal(answers, np.full((5, 2**directions), 2.0**directions))


def linear(scaled: bool) -> list[Any]:
    last = {"coefficients": [1.0, 2.0, 3.0, 4.0], "intercepts": [0.5], "targets": 1, "domain": "ai.onnx.ml"}
    scale = {"offset": [0.0] * 4, "scale": [1.0] * 4, "domain": "ai.onnx.ml"}
    return [
        *([node("Scaler", "x", "s", **scale)] if scaled else []),
        node("LinearRegressor", "s" if scaled else "x", "y", **last),
    ]


def flattened() -> list[Any]:
    """What exporters make of ``x.view(x.shape[0], -1)``."""
    shape = [node("Shape", "x", "s"), node("Gather", "s first", "n"), node("Concat", "n rest", "t", axis=0)]
    return [*shape, node("Reshape", "x t", "v"), node("Mul", "v v", "w"), node("Add", "w v", "y")]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (linear(False), lambda X: X @ [[1.0], [2.0], [3.0], [4.0]] + 0.5),
        (linear(True), lambda X: X @ [[1.0], [2.0], [3.0], [4.0]] + 0.5),
        (flattened(), lambda X: X * X + X),
    ],
)
@pytest.mark.parametrize("n_rows", [1, 5, 9000])
def test_models_whose_shapes_are_found_by_rules_answer_as_before(tmp_path, nodes, expected, n_rows) -> None:
    path = save(tmp_path / "net.onnx", nodes, {"first": [0], "rest": [-1]})
    X = np.random.default_rng(n_rows).integers(-4, 4, (n_rows, WIDTH)) / 2.0
    np.testing.assert_array_equal(as_oracle(path).call(X), expected(X))


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_asked_in_portions_that_fit(tmp_path, monkeypatch, seed) -> None:
    """A wide hidden layer gets fewer rows at once; the answers are the same, in the same order."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(20, 60))
    net = TwoLayerNetwork(rng.integers(-3, 3, (k, 2)), A=rng.integers(-3, 3, (1, k)))
    export_network(net, tmp_path / "net.onnx")
    monkeypatch.setattr(_onnx_sizes, "WORKING_BYTES", 40 * (8 * (2 * k + 1 + 4) + _onnx_sizes.ANSWER_BYTES))
    model = onnx.load(str(tmp_path / "net.onnx"))
    assert _onnx_sizes.rows_at_once(model, "net.onnx") == 16
    X = rng.integers(-5, 5, (1000, 2)).astype(float)
    np.testing.assert_array_equal(as_oracle(str(tmp_path / "net.onnx")).call(X), net(X))
    with memory_budget(16 * k), pytest.raises(BadInputError, match="running it with 16 rows"):
        _onnx_sizes.rows_at_once(model, "net.onnx")


def test_a_chain_of_unknown_sizes_costs_no_time(tmp_path) -> None:
    """Bounds multiply from node to node; as numbers of endless digits they would themselves take all memory."""
    chain = [node("MatMul", f"v{i} v{i}", f"v{i + 1}") for i in range(200)]
    start = [node("Shape", "x", "s"), node("Reshape", "x s", "v0")]
    path = save(tmp_path / "net.onnx", [*start, *chain, node("Identity", "v200", "y")])
    with pytest.raises(BadInputError, match=r"more than|GB of memory"):
        as_oracle(path)


@pytest.mark.parametrize("rows", [2, 20])
def test_wide_answers_are_refused_before_they_are_collected(tmp_path, rows) -> None:
    """Each row fits, all of them together do not."""
    path = save(tmp_path / "wide.onnx", [node("Tile", "x by", "y")], {"by": [1, 1_000_000]})
    with memory_budget(300_000_000):
        oracle = as_oracle(path)
        assert oracle.call(np.ones((1, WIDTH))).shape == (1, WIDTH * 1_000_000)
        with pytest.raises(BadInputError, match=r"wide\.onnx: collecting its [\d,]+ answers needs"):
            oracle.call(np.ones((rows, WIDTH)))


def test_a_number_of_rows_that_the_file_asks_for_is_checked(tmp_path) -> None:
    path = save(tmp_path / "tall.onnx", [node("Relu", "x", "y")])
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 10**11
    (tmp_path / "tall.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(BadInputError, match="of inputs needs"):
        as_oracle(path)
