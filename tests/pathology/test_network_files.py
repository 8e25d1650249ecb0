"""Hostile files of networks: a `FileFormatError` within seconds. Mutated ones are read by `test_fuzz.py`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from planted import TwoLayerNetwork, export_network, import_network
from planted.identification import as_oracle
from planted.io import load_network, memory_budget
from planted.networks import parse_activation
from planted.outcomes import BadInputError, FileFormatError


def change_model(path: Path, change: Callable[[Any], None]) -> None:
    model = onnx.load(str(path))
    change(model)
    path.write_bytes(model.SerializeToString())


def claim_terabytes(model: Any) -> None:
    model.graph.initializer[0].dims[0] = 10**12


def negative_side(model: Any) -> None:
    model.graph.initializer[0].dims[0] = -1


def huge_strings(model: Any) -> None:
    model.graph.initializer[0].data_type = onnx.TensorProto.STRING
    model.graph.initializer[0].ClearField("raw_data")


def missing_input(model: Any) -> None:
    del model.graph.node[0].input[:]


def no_output(model: Any) -> None:
    del model.graph.output[:]


def not_a_number(model: Any) -> None:
    tensor = model.graph.initializer[0]
    tensor.CopyFrom(numpy_helper.from_array(np.full(tuple(tensor.dims), np.nan), tensor.name))


def overflowing_alpha(model: Any) -> None:
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("alpha", 3e38))
    tensor = model.graph.initializer[0]
    tensor.CopyFrom(numpy_helper.from_array(np.full(tuple(tensor.dims), 1e300), tensor.name))


def newer_opset(model: Any) -> None:
    model.opset_import[0].version = 10**6


def older_opset(model: Any) -> None:
    model.opset_import[0].version = 6


def degree_of_a_billion(model: Any) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.array(1e9), "degree"))
    model.graph.node.append(onnx.helper.make_node("Pow", ["h", "degree"], ["q"]))
    model.graph.node[2].input[0] = "q"


HOSTILE = [
    claim_terabytes,
    negative_side,
    huge_strings,
    missing_input,
    no_output,
    not_a_number,
    overflowing_alpha,
    newer_opset,
    older_opset,
    degree_of_a_billion,
]


@pytest.mark.parametrize("change", HOSTILE, ids=lambda change: change.__name__)
def test_hostile_onnx_is_a_file_format_error(change: Callable[[Any], None], tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    export_network(TwoLayerNetwork(np.ones((3, 2)), A=np.ones((1, 3))), path)
    change_model(path, change)
    with pytest.raises(FileFormatError, match=r"net\.onnx: not a"):
        import_network(path)


@pytest.mark.parametrize("text", [b"\xff\xfe", b"\xc3("], ids=["no start byte", "half a character"])
@pytest.mark.parametrize("place", [b"Relu", b"Gemm", b"rows", b"planted", b"two_layer_network", b"transB"])
def test_text_that_is_no_utf8_is_a_file_format_error(place: bytes, text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    export_network(TwoLayerNetwork(np.ones((3, 2)), A=np.ones((1, 3))), path)
    path.write_bytes(path.read_bytes().replace(place, text + place[len(text) :]))
    for read in (import_network, lambda name: as_oracle(str(name))):
        with pytest.raises(FileFormatError, match=r"net\.onnx"):
            read(path)


ABSURD = [
    "power:1000000000",
    "power:101",
    "power:" + "9" * 5000,
    "power:0",
    "power:٣٣٣٣",
    "leaky-relu:nan",
    "leaky-relu:inf",
    "leaky-relu:1e400",
    "leaky-relu:" + "1" * 10**6,
    "x" * 10**6,
    "relu\x00",
    "",
]


@pytest.mark.parametrize("name", ABSURD, ids=lambda name: name[:20].encode("unicode_escape").decode())
def test_absurd_activations_are_refused_at_once(name: str, tmp_path: Path) -> None:
    start = time.perf_counter()
    with pytest.raises(BadInputError, match="activation") as caught:
        parse_activation(name)
    assert len(str(caught.value)) < 1000
    net = TwoLayerNetwork([[1.0]], A=[[1.0]])
    export_network(net, tmp_path / "net.json")
    record = json.loads((tmp_path / "net.json").read_text())
    (tmp_path / "net.json").write_text(json.dumps(record | {"activation": name}))
    with pytest.raises(FileFormatError, match=r"net\.json"):
        import_network(tmp_path / "net.json")
    forge_activation(net, tmp_path / "net.safetensors", name)
    with pytest.raises(FileFormatError, match=r"net\.safetensors"):
        load_network(tmp_path / "net.safetensors")
    assert time.perf_counter() - start < 5


def forge_activation(net: TwoLayerNetwork, path: Path, name: str) -> None:
    """Write a file whose digest fits, with another activation."""
    from planted.io.networks import _safetensors as room

    arrays, fields = room._take_apart(net)
    record = room._record(arrays, fields | {"activation": name})
    path.write_bytes(room.format_tensors(arrays, metadata={"planted": json.dumps(record, sort_keys=True)}))


@pytest.mark.parametrize("name", ["net.onnx", "net.json", "net.safetensors"])
def test_pipes_devices_and_folders_are_refused_at_once(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(FileFormatError, match="not a regular file"):
        import_network(tmp_path / name)
    (tmp_path / name).rmdir()
    if os.name != "posix":
        pytest.skip("pipes and devices are found on POSIX systems")
    os.mkfifo(tmp_path / name)
    with pytest.raises(FileFormatError, match="not a regular file"):
        import_network(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(FileFormatError, match="not a regular file"):
        import_network(tmp_path / name)
    with pytest.raises(FileFormatError, match="not a regular file"):
        load_network(tmp_path / name)


@pytest.mark.parametrize("name", ["net.onnx", "net.json"])
def test_files_that_would_not_fit_are_refused_before_they_are_read(name: str, tmp_path: Path) -> None:
    export_network(TwoLayerNetwork(np.ones((3, 2)), A=np.ones((1, 3))), tmp_path / name)
    with (
        memory_budget(1000),
        pytest.raises(BadInputError, match=rf"{name} needs .* but the budget is 1\.00 kB"),
    ):
        import_network(tmp_path / name)
    with (tmp_path / name).open("r+b") as stream:
        stream.truncate(2**40)
    with pytest.raises(FileFormatError, match="files up to 536870912 bytes are read"):
        import_network(tmp_path / name)


@pytest.mark.parametrize("tensor", ["0.weight", "0.bias", "2.weight", "2.bias"])
@pytest.mark.parametrize("kind", ["complex64", "bool", "int8", "uint64", "float16", "no numbers"])
def test_states_of_other_types_are_a_network_or_a_file_format_error(
    kind: str, tensor: str, tmp_path: Path
) -> None:
    from safetensors.numpy import save

    arrays = {
        "0.weight": np.ones((2, 3)),
        "0.bias": np.ones(2),
        "2.weight": np.ones((1, 2)),
        "2.bias": np.ones(1),
    }
    shape = arrays[tensor].shape
    arrays[tensor] = np.full(shape, np.nan) if kind == "no numbers" else np.ones(shape, dtype=kind)
    path = tmp_path / "net.safetensors"
    path.write_bytes(save(arrays))
    if kind in ("complex64", "no numbers"):
        with pytest.raises(FileFormatError, match=r"net\.safetensors"):
            import_network(path)
    else:
        np.testing.assert_array_equal(import_network(path).W, np.ones((2, 3)))
