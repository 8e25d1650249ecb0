"""Deep networks for other programs: round trips to equality, answers of the exported programs, foreign files refused."""

import importlib.util
import itertools
import shutil
import subprocess

import numpy as np
import pytest

from planted import (
    DeepNetwork,
    TwoLayerNetwork,
    export_network,
    import_network,
    load_network,
    to_sklearn,
    to_torch,
)
from planted.identification import as_oracle
from planted.outcomes import BadInputError, FileFormatError

ROWS = np.random.default_rng(5).standard_normal((40, 6))
ACTIVATIONS = ["relu", "leaky-relu:0.1", "absolute", "quadratic", "power:3"]


def draw(seed, widths=(6, 5, 4, 3, 2), activation="relu"):
    rng = np.random.default_rng(seed)
    layers = [(rng.normal(size=(o, i)), rng.normal(size=o)) for i, o in itertools.pairwise(widths)]
    return DeepNetwork(layers, activation)


def bits(net):
    assert isinstance(net, DeepNetwork)
    return [part.tobytes() for layer in net.layers for part in layer] + [net.activation.name.encode()]


@pytest.mark.parametrize("suffix", [".onnx", ".json", ".safetensors", ".planted.safetensors"])
@pytest.mark.parametrize("seed", range(2))
def test_round_trip_in_double_precision_keeps_every_bit(suffix, seed, tmp_path):
    net, path = draw(seed), tmp_path / f"net{suffix}"
    to = "planted" if "planted" in suffix else None
    assert export_network(net, path, to=to).largest_difference == 0.0
    assert bits(import_network(path)) == bits(net)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_onnx_keeps_every_activation_and_answers_alike(activation, tmp_path):
    net, path = draw(3, activation=activation), tmp_path / "net.onnx"
    export_network(net, path)
    assert bits(import_network(path)) == bits(net)
    answers = as_oracle(path).call(ROWS)
    np.testing.assert_allclose(answers, net(ROWS), rtol=1e-10, atol=1e-10 * np.abs(net(ROWS)).max())


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_source_code_answers_alike(activation, tmp_path):
    net = draw(4, activation=activation)
    export_network(net, tmp_path / "net.py")
    spec = importlib.util.spec_from_file_location("net", tmp_path / "net.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    np.testing.assert_array_equal(module.network(ROWS), net(ROWS))
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    export_network(net, tmp_path / "net.h")
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "net.h"\nint main(void) { double x[6], y[2];\n'
        'while (scanf("%lf%lf%lf%lf%lf%lf", x, x+1, x+2, x+3, x+4, x+5) == 6) { net_eval(x, y);\n'
        'printf("%.17g %.17g\\n", y[0], y[1]); } return 0; }\n'
    )
    subprocess.run(
        ["cc", "-std=c99", "-Wall", "-Werror", "-o", tmp_path / "run", tmp_path / "main.c"], check=True
    )
    text = "\n".join(" ".join(map(repr, row)) for row in ROWS.tolist())
    done = subprocess.run([tmp_path / "run"], input=text, capture_output=True, text=True, check=True)
    answers = np.array([line.split() for line in done.stdout.splitlines()], dtype=float)
    np.testing.assert_allclose(answers, net(ROWS), rtol=1e-10, atol=1e-10 * np.abs(net(ROWS)).max())


def test_sklearn_and_torch_answer_alike_and_come_back():
    torch = pytest.importorskip("torch")
    net = draw(5)
    model, module = to_sklearn(net), to_torch(net)
    np.testing.assert_allclose(model.predict(ROWS), net(ROWS), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        module(torch.as_tensor(ROWS)).detach().numpy(), net(ROWS), rtol=1e-12, atol=1e-12
    )
    assert bits(import_network(model)) == bits(net) == bits(import_network(module))
    leaky = draw(6, activation="leaky-relu:0.25")
    assert bits(import_network(to_torch(leaky))) == bits(leaky)


def test_modules_that_are_no_chain_are_refused():
    torch = pytest.importorskip("torch")
    nn = torch.nn
    for module in (
        nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1)),
        nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 3), nn.LeakyReLU(0.1), nn.Linear(3, 1)),
        nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3), nn.Linear(3, 1)),
        nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 3), nn.ReLU()),
    ):
        with pytest.raises(BadInputError, match="expected Linear, ReLU"):
            import_network(module)


def test_single_precision_states_its_error(tmp_path):
    net = draw(7)
    written = export_network(net, tmp_path / "net.onnx", precision="float32")
    assert 0 < written.largest_difference < 1e-4


def test_one_hidden_layer_still_comes_back_as_two_layers(tmp_path):
    export_network(draw(8, (6, 5, 2)), tmp_path / "net.onnx")
    assert isinstance(import_network(tmp_path / "net.onnx"), TwoLayerNetwork)


def test_graphs_with_two_activations_are_refused(tmp_path):
    import onnx

    export_network(draw(9), tmp_path / "net.onnx")
    model = onnx.load(tmp_path / "net.onnx")
    next(node for node in model.graph.node if node.op_type == "Relu").op_type = "Abs"
    onnx.save(model, tmp_path / "mixed.onnx")
    with pytest.raises(FileFormatError, match="layers of relu and absolute"):
        import_network(tmp_path / "mixed.onnx")


def test_damaged_records_are_refused(tmp_path):
    net = draw(10)
    net.save(tmp_path / "net.safetensors")
    contents = (tmp_path / "net.safetensors").read_bytes()
    for depth in (b'\\"layers\\": 3', b'\\"layers\\": 9', b'\\"layers\\": 1'):
        changed = contents.replace(b'\\"layers\\": 4', depth)
        assert changed != contents
        (tmp_path / "bad.safetensors").write_bytes(changed)
        with pytest.raises(FileFormatError):
            load_network(tmp_path / "bad.safetensors")
