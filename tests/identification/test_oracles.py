"""Oracles: which output of an ONNX file is asked, and whose answers a log holds."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from planted import TwoLayerNetwork, compare, export_network, identify, simulate
from planted.identification import as_oracle
from planted.identification._oracles import live_command
from planted.outcomes import BadInputError

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
ROWS = np.random.default_rng(0).standard_normal((5, 4))


def teacher(seed: int) -> TwoLayerNetwork:
    return simulate.teacher(4, 3, 2, bias=(-0.5, 0.5), random_state=seed)


def two_outputs(path: Path, net: TwoLayerNetwork) -> Path:
    """Write a file whose second output is the negative of the first."""
    export_network(net, path)
    model = onnx.load(path)
    first = model.graph.output[0]
    model.graph.node.append(onnx.helper.make_node("Neg", [first.name], ["opposite"]))
    second = model.graph.output.add()
    second.CopyFrom(first)
    second.name = "opposite"
    onnx.save(model, path)
    return path


def test_one_of_several_outputs_is_named_by_the_user(tmp_path: Path) -> None:
    net = teacher(0)
    path = two_outputs(tmp_path / "net.onnx", net)
    names = [item.name for item in onnx.load(path).graph.output]
    with pytest.raises(BadInputError, match="2 outputs") as refused:
        identify(path, random_state=0)
    assert all(repr(name) in str(refused.value) for name in names)
    with pytest.raises(BadInputError, match="no output 'third'"):
        as_oracle(path, outputs="third")
    for name, sign in zip(names, (1, -1), strict=True):
        np.testing.assert_allclose(as_oracle(path, outputs=name).call(ROWS), sign * net(ROWS), atol=1e-12)
    opposite = as_oracle(path, outputs="opposite")
    assert compare(opposite, lambda X: -net(X), random_state=0, n_queries=200).is_equal is True
    with pytest.raises(BadInputError, match="names an output of an ONNX file"):
        as_oracle(net, outputs="opposite")


def test_a_log_belongs_to_one_file(tmp_path: Path) -> None:
    log, one, other = (tmp_path / name for name in ("queries.log", "one.onnx", "other.onnx"))
    export_network(teacher(0), one)
    export_network(teacher(1), other)
    whole = identify(one, log=log, random_state=0)
    with pytest.raises(BadInputError, match="name another log"):
        identify(other, log=log, random_state=0)
    other.write_bytes(one.read_bytes())  # the same bytes are the same oracle, whatever the name
    again = identify(other, log=log, random_state=0)
    assert again.stats["reused"] > 0.9 * whole.stats["queries"]
    path = two_outputs(tmp_path / "two.onnx", teacher(0))
    identify(path, outputs="opposite", log=tmp_path / "two.log", random_state=0)
    with pytest.raises(BadInputError, match="opposite"):
        first = onnx.load(path).graph.output[0].name
        identify(path, outputs=first, log=tmp_path / "two.log", random_state=0)


@pytest.mark.parametrize(
    "code",
    [
        "while True: print('1.0')",
        "import sys\nwhile True: sys.stderr.write('no ' * 1000)",
        "import sys\nwhile True: sys.stdout.write('1,' * 10**5)",
        "import sys\nsys.stdout.buffer.write(bytes(10**8))",
    ],
)
def test_a_command_that_never_stops_talking_is_ended(code: str) -> None:
    oracle = as_oracle([sys.executable, "-c", code])
    tracemalloc.start()
    try:
        with pytest.raises(RuntimeError, match=r"did not answer: it wrote more than 1,\d00,000 bytes"):
            oracle.call(np.ones((3, 2)))
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_a_log_belongs_to_one_command_line(tmp_path: Path) -> None:
    script, log = tmp_path / "model.py", tmp_path / "queries.log"
    script.write_text("import sys\nfor line in sys.stdin:\n    print(max(float(line), float(sys.argv[1])))\n")
    command = [sys.executable, str(script), "0.25"]
    identify(command, 1, log=log, random_state=0)
    with pytest.raises(BadInputError, match="holds answers of the oracle"):
        identify([*command[:2], "0.5"], 1, log=log, random_state=0)
    assert identify(command, 1, log=log, random_state=0).stats["reused"] > 0
    long = as_oracle([*command, "x" * 10_000]).identity
    assert long is not None and len(long) < 2000 and long != as_oracle([*command, "x" * 10_001]).identity


@pytest.mark.parametrize(
    "command", [["yes", "3"], [sys.executable, "-c", "print('1' * 200_000, flush=True); input()"]]
)
def test_a_command_that_does_not_read_its_questions_is_ended(command):
    """More questions than a pipe holds: whoever writes them must not wait for ever."""
    with live_command(command) as oracle, pytest.raises(RuntimeError, match="more"):
        oracle.call(np.random.default_rng(0).standard_normal((20_000, 2)))
