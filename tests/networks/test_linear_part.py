"""Networks with a linear part: canonical form, equality, matching, simplification, files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import planted
from planted import TwoLayerNetwork
from planted.networks import linear_part_as_units
from planted.outcomes import BadInputError, FileFormatError

SEEDS = range(6)
ACTIVATIONS = ("relu", "leaky-relu:0.2")


def draw(seed: int, activation: str = "relu", *, linear: bool = True) -> TwoLayerNetwork:
    rng = np.random.default_rng(seed)
    d, k, m = rng.integers(1, 5), rng.integers(1, 6), rng.integers(1, 4)
    B = rng.standard_normal((m, d)) if linear else None
    W, A = rng.standard_normal((k, d)), rng.standard_normal((m, k))
    return TwoLayerNetwork(W, rng.standard_normal(k), A, rng.standard_normal(m), activation, B)


def turned(net: TwoLayerNetwork, seed: int) -> TwoLayerNetwork:
    """The same function with some units turned round: f(t) = f(-t) + 2 slope t."""
    flips = np.random.default_rng(seed + 99).random(net.n_hidden) < 0.5
    flips[0] = True
    signs = np.where(flips, -1.0, 1.0)
    change = 2 * net.activation.slope * net.A * flips
    B = np.zeros((net.n_outputs, net.n_features)) if net.B is None else net.B
    return replace(
        net,
        W=net.W * signs[:, None],
        b=net.b * signs,
        c=net.c + change @ net.b,
        B=B + change @ net.W,
    )


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("seed", SEEDS)
def test_orientation_is_a_gauge(seed: int, activation: str) -> None:
    net = draw(seed, activation)
    other = turned(net, seed)
    X = np.random.default_rng(seed).standard_normal((20, net.n_features))
    np.testing.assert_allclose(other(X), net(X), rtol=1e-12, atol=1e-12)
    assert other.is_equivalent(net)
    assert planted.parameter_error(other, net) < 1e-12
    one, two = net.canonical(), other.canonical()
    for name in one.parts:
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-10, atol=1e-10)
    leading = np.take_along_axis(one.W, np.abs(one.W).argmax(axis=1)[:, None], axis=1)
    assert (leading > 0).all()


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_linear_part_that_an_orientation_explains_is_none(seed: int, activation: str) -> None:
    net = draw(seed, activation, linear=False)
    other = turned(net, seed)
    assert other.B is not None
    assert other.canonical().B is None
    assert planted.parameter_error(other, net) < 1e-12


@pytest.mark.parametrize("seed", SEEDS)
def test_a_changed_linear_part_is_another_network(seed: int) -> None:
    net = draw(seed)
    other = replace(turned(net, seed), B=turned(net, seed).B * (1 + 1e-3))
    assert not other.is_equivalent(net)
    expected = 1e-3 * np.abs(turned(net, seed).B).max()
    assert planted.parameter_error(other, net) == pytest.approx(expected, rel=1e-6)
    assert planted.compare(other, net).is_equal is False


@pytest.mark.parametrize("seed", SEEDS)
def test_pairs_of_units_are_a_linear_part(seed: int) -> None:
    net = draw(seed)
    units = linear_part_as_units(net)
    assert units.B is None
    assert units.is_equivalent(net)
    short = units.simplify(affine=True)
    assert short.n_hidden == net.canonical().n_hidden
    assert short.is_equivalent(net)
    assert planted.parameter_error(units, net) < 1e-12


def test_units_without_a_linear_part_keep_their_simplification() -> None:
    pair = TwoLayerNetwork(W=[[1.0], [-1.0]], A=[[2.0, -2.0]])
    assert pair.simplify().n_hidden == 2
    assert pair.simplify(affine=True).n_hidden == 0
    with pytest.raises(BadInputError, match="linear part"):
        TwoLayerNetwork(W=[[1.0]], A=[[2.0]], B=[[1.0]]).simplify(affine=False)


@pytest.mark.parametrize("B", [[[1.0, 2.0]], [1.0, 2.0], [[1.0], [2.0]]])
def test_a_linear_part_of_another_shape_is_refused(B: list) -> None:
    with pytest.raises(BadInputError, match="B has shape"):
        TwoLayerNetwork(W=[[1.0]], A=[[2.0]], B=B)


@pytest.mark.parametrize("activation", [*ACTIVATIONS, "absolute", "power:2"])
@pytest.mark.parametrize("name", ["n.safetensors", "n.onnx", "n.json"])
def test_files_keep_the_linear_part(tmp_path, name: str, activation: str) -> None:
    net = draw(3, activation)
    if name.endswith("safetensors"):
        net.save(tmp_path / name)
        read = planted.load_network(tmp_path / name)
    else:
        planted.export_network(net, tmp_path / name)
        read = planted.import_network(tmp_path / name)
    assert read.parts == net.parts
    for part in net.parts:
        np.testing.assert_array_equal(getattr(read, part), getattr(net, part))


def test_programs_compute_the_linear_part(tmp_path) -> None:
    net = draw(5)
    X = np.random.default_rng(0).standard_normal((9, net.n_features))
    scope: dict = {}
    exec(planted.export_network(net, tmp_path / "n.py").path.read_text(), scope)
    np.testing.assert_allclose(scope["network"](X), net(X), rtol=1e-13)
    model = planted.to_sklearn(net)
    np.testing.assert_allclose(model.predict(X).reshape(net(X).shape), net(X), rtol=1e-12)
    torch = pytest.importorskip("torch")
    module = planted.to_torch(net)
    np.testing.assert_allclose(module(torch.as_tensor(X)).detach().numpy(), net(X), rtol=1e-12)
    assert planted.import_network(module).is_equivalent(net)
    planted.export_network(net, tmp_path / "t.safetensors")
    np.testing.assert_array_equal(planted.import_network(tmp_path / "t.safetensors").B, net.B)


@pytest.mark.parametrize("branch", ["skip", "doubled", "other"])
def test_onnx_sums_are_read_only_if_one_branch_is_linear(tmp_path, branch: str) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx import helper, numpy_helper

    tensors = [numpy_helper.from_array(np.eye(2), name) for name in ("W", "A")]
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["t"]),
        helper.make_node("Relu", ["t"], ["h"]),
        helper.make_node("MatMul", ["h", "A"], ["z"]),
        helper.make_node("Add", ["z", {"skip": "x", "doubled": "z", "other": "h"}[branch]], ["y"]),
    ]
    info = [helper.make_tensor_value_info(n, onnx.TensorProto.DOUBLE, ["n", 2]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], initializer=tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    (tmp_path / "n.onnx").write_bytes(model.SerializeToString())
    if branch == "skip":
        net = planted.import_network(tmp_path / "n.onnx")
        np.testing.assert_array_equal(net([[1.0, -2.0]]), [[2.0, -2.0]])
    else:
        with pytest.raises(FileFormatError):
            planted.import_network(tmp_path / "n.onnx")


@pytest.mark.parametrize("seed", range(3))
def test_a_teacher_with_a_linear_part_is_the_plain_one_and_more(seed: int) -> None:
    plain = planted.simulate.teacher(4, 3, 2, random_state=seed)
    bent = planted.simulate.teacher(4, 3, 2, affine=True, random_state=seed)
    half = planted.simulate.teacher(4, 3, 2, affine=0.5, random_state=seed)
    assert plain.B is None
    np.testing.assert_array_equal(bent.W, plain.W)
    np.testing.assert_array_equal(bent.A, plain.A)
    np.testing.assert_allclose(half.B, bent.B / 2)
    assert (bent.B != 0).all()
    data = planted.simulate.dataset(10, n_features=4, n_hidden=3, n_outputs=2, affine=True, random_state=seed)
    np.testing.assert_array_equal(data.network.B, bent.B)
