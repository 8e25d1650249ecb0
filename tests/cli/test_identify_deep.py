"""The command line reads deep networks: the network, the layers that are certain, simplify and export."""

import numpy as np
import pytest
from typer.testing import CliRunner

from planted import DeepNetwork, export_network, load_network, parameter_error
from planted.cli import app


@pytest.fixture
def model(tmp_path):
    rng = np.random.default_rng(1)
    widths = (8, 5, 4, 1)
    layers = [
        (rng.normal(size=(o, i)) * np.sqrt(2 / i), 0.5 * rng.normal(size=o))
        for i, o in zip(widths[:-1], widths[1:], strict=True)  # noqa: RUF007
    ]
    net = DeepNetwork(layers)
    export_network(net, tmp_path / "model.onnx")
    return net, tmp_path


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_deep_network_is_written_simplified_and_exported(model):
    net, folder = model
    out = folder / "net.safetensors"
    done = run(
        "identify",
        folder / "model.onnx",
        "--seed",
        1,
        "--depth",
        2,
        "--out",
        out,
        "--report",
        folder / "r.html",
    )
    assert done.exit_code == 0, done.output
    assert parameter_error(load_network(out), net) < 1e-10
    assert "hidden 2" in (folder / "r.html").read_text("utf-8")
    assert run("simplify", out).exit_code == 0
    assert run("export", out, "--to", "c").exit_code == 0 and (folder / "net.h").exists()


def test_layers_that_are_certain_are_written(model):
    net, folder = model
    part = folder / "part.safetensors"
    words = ("identify", folder / "model.onnx", "--seed", 0, "--out-partial", part)
    assert run(*words, "--budget", 100).exit_code == 1 and not part.exists()
    assert run(*words, "--budget", 850).exit_code == 1
    prefix = load_network(part)
    assert prefix.widths == (8, 5, 5)
    X = np.random.default_rng(0).normal(size=(50, 8))
    W, b = net.layers[0]
    hidden = np.maximum(X @ W.T + b, 0) / np.linalg.norm(W, axis=1)
    scaled = prefix(X) / np.linalg.norm(prefix.layers[0][0], axis=1)
    np.testing.assert_allclose(np.sort(scaled), np.sort(hidden), atol=1e-6)


def test_a_depth_that_is_no_number_is_refused(model):
    done = run("identify", model[1] / "model.onnx", "--depth", "two")
    assert done.exit_code == 2 or "depth='two'" in done.output + str(done.exception)
