"""Networks for other programs: round trips to equality, foreign files refused, C compiled and run."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planted import (
    TwoLayerNetwork,
    compare,
    export_network,
    identify,
    import_network,
    parameter_error,
    simulate,
    to_sklearn,
    to_torch,
)
from planted.identification import OracleError, as_oracle, simplify
from planted.outcomes import BadInputError, BadInputTypeError, FileFormatError

NET = simulate.teacher(6, 4, 3, bias=(-0.5, 0.5), random_state=2)
ROWS = np.random.default_rng(5).standard_normal((40, 6))
ACTIVATIONS = ["relu", "leaky-relu:0.1", "absolute", "quadratic", "power:3"]
CURVED = ["tanh", "sigmoid", "softplus", "gelu", "silu", "elu"]


def bits(net: TwoLayerNetwork) -> list[bytes]:
    return [getattr(net, name).tobytes() for name in "WbAc"]


def with_activation(name: str) -> TwoLayerNetwork:
    return TwoLayerNetwork(NET.W, NET.b, NET.A, NET.c + 1.0, name)


@pytest.mark.parametrize("suffix", [".onnx", ".json", ".safetensors"])
def test_round_trip_in_double_precision_keeps_every_bit(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"net{suffix}"
    written = export_network(NET, path)
    assert written.largest_difference == 0.0
    assert bits(import_network(path)) == bits(NET)


@pytest.mark.parametrize("suffix", [".onnx", ".safetensors"])
def test_single_precision_states_its_error(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"net{suffix}"
    written = export_network(NET, path, precision="float32")
    back = import_network(path)
    assert bits(back) == [getattr(NET, name).astype(np.float32).astype(float).tobytes() for name in "WbAc"]
    assert 0 < written.largest_difference < 1e-5
    rows = np.random.default_rng(9).standard_normal((500, 6))
    gap = (np.abs(back(rows) - NET(rows)) / NET(rows).std(axis=0)).max()
    assert gap < 4 * written.largest_difference  # other inputs, the same law


@pytest.mark.parametrize("activation", CURVED)
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_onnx_files_of_curved_activations_are_read_back_and_run(
    activation: str, precision: str, tmp_path: Path
) -> None:
    net = with_activation(activation)
    path = tmp_path / "net.onnx"
    export_network(net, path, precision=precision)
    back = import_network(path)
    assert back.activation == net.activation
    if precision == "float64":
        assert bits(back) == bits(net)
    else:  # onnxruntime has Softplus, Erf and Elu in single precision only
        np.testing.assert_allclose(as_oracle(str(path)).call(ROWS), net(ROWS), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_onnx_runs_as_the_network(activation: str, tmp_path: Path) -> None:
    net = with_activation(activation)
    path = tmp_path / "net.onnx"
    export_network(net, path)
    np.testing.assert_allclose(as_oracle(str(path)).call(ROWS), net(ROWS), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("activation", ["relu", "leaky-relu:0.1", *CURVED])
def test_torch_module_runs_as_the_network(activation: str) -> None:
    import torch

    net = with_activation(activation)
    module = to_torch(net)
    with torch.no_grad():
        np.testing.assert_allclose(module(torch.as_tensor(ROWS)).numpy(), net(ROWS), rtol=1e-12, atol=1e-12)
    assert bits(import_network(module)) == bits(net)
    assert import_network(module).activation == net.activation


def test_torch_state_loads_into_a_sequential(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    path = tmp_path / "net.safetensors"
    export_network(NET, path, to="torch")
    module = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).double()
    module.load_state_dict(load_file(path))
    with torch.no_grad():
        np.testing.assert_allclose(module(torch.as_tensor(ROWS)).numpy(), NET(ROWS), rtol=1e-12, atol=1e-12)


def test_sklearn_both_ways() -> None:
    model = to_sklearn(NET)
    np.testing.assert_allclose(model.predict(ROWS), NET(ROWS), rtol=1e-12, atol=1e-12)
    assert bits(import_network(model)) == bits(NET)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_sklearn_both_ways_with_smooth_units(activation: str) -> None:
    net = with_activation(activation)
    model = to_sklearn(net)
    np.testing.assert_allclose(model.predict(ROWS), net(ROWS), rtol=1e-12, atol=1e-12)
    assert import_network(model).activation == net.activation
    assert bits(import_network(model)) == bits(net)


@pytest.mark.parametrize("activation", [*ACTIVATIONS, *CURVED])
def test_numpy_code_runs_alone(activation: str, tmp_path: Path) -> None:
    net = with_activation(activation)
    path = tmp_path / "net_code.py"
    export_network(net, path)
    spec = importlib.util.spec_from_file_location("net_code", path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    np.testing.assert_allclose(module.network(ROWS), net(ROWS), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("activation", [*ACTIVATIONS, "tanh", "softplus", "gelu"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_c_header_compiles_without_warnings_and_agrees(
    activation: str, precision: str, tmp_path: Path
) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler is not None, "a C compiler is part of the test environment"
    net = with_activation(activation)
    export_network(net, tmp_path / "my-net.h", precision=precision)
    real, scan = ("double", "%lf") if precision == "float64" else ("float", "%f")
    (tmp_path / "main.c").write_text(
        f'#include <stdio.h>\n#include "my-net.h"\nint main(void) {{\n  {real} x[MY_NET_INPUTS], y[MY_NET_OUTPUTS];\n'
        f'  for (;;) {{\n    for (int j = 0; j < MY_NET_INPUTS; ++j) if (scanf("{scan}", &x[j]) != 1) return 0;\n'
        '    my_net_eval(x, y);\n    for (int l = 0; l < MY_NET_OUTPUTS; ++l) printf("%.17g ", (double)y[l]);\n'
        '    printf("\\n");\n  }\n}\n'
    )
    flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2"]
    subprocess.run(
        [compiler, *flags, str(tmp_path / "main.c"), "-o", str(tmp_path / "main"), "-lm"], check=True
    )
    text = "\n".join(" ".join(map(repr, row)) for row in ROWS.tolist())
    done = subprocess.run([str(tmp_path / "main")], input=text, capture_output=True, text=True, check=True)
    answers = np.array([[float(cell) for cell in line.split()] for line in done.stdout.splitlines()])
    tol = 1e-12 if precision == "float64" else 1e-4  # six digits of float, cubed inputs of a few units
    np.testing.assert_allclose(answers, net(ROWS), rtol=tol, atol=tol)


def test_formats_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="format 'net' is not known"):
        export_network(NET, tmp_path / "a.onnx", to="net")
    with pytest.raises(BadInputError, match="double precision"):
        export_network(NET, tmp_path / "a.json", precision="float32")
    with pytest.raises(BadInputError, match="cannot be written as a module of PyTorch"):
        to_torch(with_activation("quadratic"))
    with pytest.raises(BadInputError, match="knows relu, tanh and sigmoid"):
        to_sklearn(with_activation("absolute"))
    assert list(tmp_path.iterdir()) == []


def test_objects_that_are_no_two_layer_network() -> None:
    import torch

    deep = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Hardtanh(), torch.nn.Linear(2, 1))
    with pytest.raises(BadInputError, match="Linear, Hardtanh, Linear"):
        import_network(deep)
    with pytest.raises(BadInputTypeError, match="a dict is no network"):
        import_network({})


def external(path: Path) -> None:
    import onnx

    model = onnx.load(str(path))
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../outside.bin"
    path.write_bytes(model.SerializeToString())


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def garbage(path: Path) -> None:
    path.write_bytes(b"\x08\x07PK" + bytes(range(256)))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def forged_size(path: Path) -> None:
    import onnx

    model = onnx.load(str(path))
    model.graph.initializer[0].dims[0] = 10**12
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize("damage", [external, truncated, garbage, empty, forged_size])
def test_broken_and_malicious_onnx_is_a_file_format_error(damage: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    export_network(NET, path)
    damage(path)
    with pytest.raises(FileFormatError, match=r"net\.onnx"):
        identify(str(path), 6)
    with pytest.raises(FileFormatError, match=r"net\.onnx"):
        import_network(path)


def test_numbers_in_another_file_are_named_and_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    export_network(NET, path)
    external(path)
    (tmp_path / "outside.bin").write_bytes(NET.W.tobytes())
    with pytest.raises(FileFormatError, match="tensor 'W' is kept in another file"):
        identify(str(path), 6)


def test_onnx_of_another_kind_is_refused_by_import_but_can_be_asked(tmp_path: Path) -> None:
    import onnx

    path = tmp_path / "net.onnx"
    export_network(with_activation("quadratic"), path)
    model = onnx.load(str(path))
    model.graph.node[1].op_type = "Add"  # twice the value: a linear model
    path.write_bytes(model.SerializeToString())
    with pytest.raises(
        FileFormatError, match=r"net\.onnx: not a network of layers: .* made by Add; expected Relu or"
    ):
        import_network(path)
    np.testing.assert_allclose(
        as_oracle(str(path)).call(ROWS), 2 * (ROWS @ NET.W.T + NET.b) @ NET.A.T + NET.c + 1
    )


def test_onnx_with_a_fixed_number_of_rows(tmp_path: Path) -> None:
    import onnx

    path = tmp_path / "net.onnx"
    export_network(NET, path)
    model = onnx.load(str(path))
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_value = 16
    path.write_bytes(model.SerializeToString())
    np.testing.assert_allclose(as_oracle(str(path)).call(ROWS), NET(ROWS), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": "planted.network", "schema": 1}',
        '{"format": "planted.network", "schema": 99}',
    ],
)
def test_broken_json(text: str, tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=r"net\.json"):
        import_network(path)


def test_json_holds_plain_numbers(tmp_path: Path) -> None:
    export_network(NET, tmp_path / "net.json")
    record = json.loads((tmp_path / "net.json").read_text())
    assert record["activation"] == "relu" and record["W"] == NET.W.tolist()


@pytest.mark.parametrize("suffix", ["json", "onnx", "safetensors"])
def test_a_network_without_units_keeps_its_line(suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    line = TwoLayerNetwork(
        np.zeros((0, 3)), A=np.zeros((2, 0)), c=rng.standard_normal(2), B=rng.standard_normal((2, 3))
    )
    export_network(line, tmp_path / f"net.{suffix}")
    back = import_network(tmp_path / f"net.{suffix}")
    assert back.W.shape == (0, 3)
    np.testing.assert_array_equal(back.B, line.B)
    np.testing.assert_array_equal(back.c, line.c)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_identify_reads_foreign_models_back(precision: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    export_network(NET, path, precision=precision)
    allowed = 1e-11 if precision == "float64" else 1e-4
    for source in (str(path), to_torch(NET, precision=precision)):
        found = identify(source, random_state=0)
        assert found.network is not None
        assert parameter_error(found.network, NET) < allowed


def test_a_torch_module_keeps_its_mode() -> None:
    module = to_torch(NET).train()
    as_oracle(module).call(ROWS)
    assert module.training


def test_compare_names_the_witness_and_the_unit() -> None:
    A = NET.A.copy()
    A[1, 2] += 0.25
    other = TwoLayerNetwork(NET.W, NET.b, A, NET.c)
    answer = compare(NET, other, random_state=0)
    assert not answer.is_equal and answer.is_exact and answer.units == ((2, 2),)
    assert answer.witness is not None
    gap = np.abs(NET(answer.witness[None]) - other(answer.witness[None])).max()
    assert gap == pytest.approx(answer.difference) and gap > 0
    extra = TwoLayerNetwork(
        np.vstack([NET.W, np.eye(6)[:1]]), np.append(NET.b, 9.0), np.hstack([NET.A, np.ones((3, 1))]), NET.c
    )
    assert compare(NET, extra, random_state=0).units == ((-1, 4),)


def test_compare_is_exact_for_equal_networks_and_honest_for_black_boxes() -> None:
    shuffled = TwoLayerNetwork(NET.W[::-1] * 2, NET.b[::-1] * 2, NET.A[:, ::-1] / 2, NET.c)
    exact = compare(NET, shuffled)
    assert exact.is_equal and exact.is_exact and exact.fraction == 0 and exact.confidence == 1
    asked = compare(NET, shuffled.__call__, random_state=0, n_queries=1000)
    assert asked.is_equal and not asked.is_exact
    assert asked.fraction == pytest.approx(np.log(100) / 1000) and asked.confidence == 0.99
    other = compare(lambda X: NET(X) + 1e-3 * (X[:, :1] > 1), NET, random_state=0)
    assert not other.is_equal and other.witness is not None and other.witness[0] > 1
    with pytest.raises(BadInputError, match="n_features"):
        compare(lambda X: X, lambda X: X)
    with pytest.raises(OracleError, match="raised"):
        compare(NET, lambda X: 1 / 0)


def test_simplify_accounts_for_every_unit() -> None:
    net = TwoLayerNetwork(
        W=[[1.0, 0], [2.0, 0], [0, 0], [0, 1.0], [1.0, 1.0], [1.0, 1.0]],
        b=[0.0, 0.0, 3.0, 0.0, 0.5, 0.5],
        A=[[1.0, 1.0, 2.0, 0.0, 1.0, -1.0]],
    )
    found = simplify(net)
    assert found.network.n_hidden == 1 and found.is_equal
    assert (found.dropped, found.merged, found.cancelled) == ((2, 3), ((0, 1),), ((4, 5),))
