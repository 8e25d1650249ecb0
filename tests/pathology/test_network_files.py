"""Damaged and hostile files of networks: a network that runs as the file says, or a `FileFormatError`, within seconds.

`planted` writes a network in every format, a few bytes are changed, and the file is read. The seeds are the numbers of the
tests, so a failure can be repeated from its name.
"""

from __future__ import annotations

import json
import os
import sys
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
from planted.io import load_network, load_with_columns, memory_budget
from planted.networks import parse_activation
from planted.outcomes import BadInputError, FileFormatError

if sys.platform != "win32":
    import resource

ACTIVATIONS = ["relu", "leaky-relu:0.1", "absolute", "quadratic", "power:3"]
N_SEEDS, N_PER_SEED = 10, 120
MOST_MEMORY = 300 * 2**20  # added to the peak of the process by one test; the files have a few kilobytes
WIDEST_SINGLE = 1e25  # answers of single precision are compared below this; intermediate sums may be larger


def save_planted(net: TwoLayerNetwork, path: Path) -> None:
    net.save(
        path,
        features=[f"in {j}" for j in range(net.n_features)],
        targets=[f"out {j}" for j in range(net.n_outputs)],
    )


def save_json(net: TwoLayerNetwork, path: Path) -> None:
    export_network(net, path, features=[f"in {j}" for j in range(net.n_features)])


def save_torch(net: TwoLayerNetwork, path: Path) -> None:
    export_network(TwoLayerNetwork(net.W, net.b, net.A, net.c), path, precision="float32")


def save_onnx(net: TwoLayerNetwork, path: Path) -> None:
    export_network(net, path, precision="float64" if net.n_hidden % 2 else "float32")


FORMATS: dict[str, tuple[str, Callable[[TwoLayerNetwork, Path], None], Callable[[Path], Any]]] = {
    "planted": ("net.safetensors", save_planted, load_with_columns),
    "planted by suffix": ("net.safetensors", save_planted, import_network),
    "torch": ("net.safetensors", save_torch, import_network),
    "json": ("net.json", save_json, load_with_columns),
    "onnx": ("net.onnx", save_onnx, import_network),
}


def random_net(rng: np.random.Generator) -> TwoLayerNetwork:
    d, k, m = (int(size) for size in rng.integers(1, 5, 3))
    W, b, A, c = (rng.standard_normal(shape) for shape in ((k, d), k, (m, k), m))
    return TwoLayerNetwork(W, b, A, c, ACTIVATIONS[int(rng.integers(len(ACTIVATIONS)))])


def mutate(rng: np.random.Generator, contents: bytes) -> bytes:
    """Change a few bytes: flip, replace, delete, insert, copy from elsewhere, or cut the end."""
    data = bytearray(contents)
    for _ in range(int(rng.integers(1, 4))):
        place, length = int(rng.integers(len(data) + 1)), int(rng.integers(1, 17))
        change = int(rng.integers(6))
        if change == 0 and place < len(data):
            data[place] ^= 1 << int(rng.integers(8))
        elif change == 1:
            data[place : place + 1] = bytes([int(rng.integers(256))])
        elif change == 2:
            del data[place : place + length]
        elif change == 3:
            data[place:place] = bytes(rng.integers(0, 256, length, dtype=np.uint8))
        elif change == 4:
            source = int(rng.integers(len(data) + 1))
            data[place : place + length] = data[source : source + length]
        elif rng.random() < 0.1:
            del data[place:]
    return bytes(data)


def peak_memory() -> int:
    if sys.platform == "win32":
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@pytest.mark.parametrize("seed", range(N_SEEDS))
@pytest.mark.parametrize("form", FORMATS)
def test_changed_bytes_give_a_network_or_a_file_format_error(form: str, seed: int, tmp_path: Path) -> None:
    name, save, read = FORMATS[form]
    rng = np.random.default_rng([seed, list(FORMATS).index(form)])
    path, before, n_read = tmp_path / name, peak_memory(), 0
    for _ in range(4):
        save(random_net(rng), path)
        contents = path.read_bytes()
        for _ in range(N_PER_SEED // 4):
            path.write_bytes(mutate(rng, contents))
            try:
                found = read(path)
            except FileFormatError as error:
                assert str(path) in str(error)
            else:
                net = getattr(found, "network", found)
                assert isinstance(net, TwoLayerNetwork) and np.isfinite(net.W).all()
                n_read += 1
    assert n_read < N_PER_SEED / 2
    assert peak_memory() - before < MOST_MEMORY


@pytest.mark.parametrize("seed", range(N_SEEDS))
def test_a_changed_onnx_file_that_is_read_runs_the_same(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, 77])
    path, n_compared = tmp_path / "net.onnx", 0
    for _ in range(N_PER_SEED):
        save_onnx(random_net(rng), path)
        path.write_bytes(mutate(rng, path.read_bytes()))
        try:
            oracle = as_oracle(str(path))
        except FileFormatError as error:
            assert str(path) in str(error)
            continue
        try:
            net = import_network(path)
        except FileFormatError:
            continue  # a model that runs, but is no two-layer network
        rows = np.random.default_rng(seed).standard_normal((5, net.n_features))
        with np.errstate(all="ignore"):
            expected, answers = net(rows), oracle.call(rows)
        scale = float(np.abs(expected).max(initial=0.0))
        if np.isfinite(scale) and not (oracle.is_single and scale > WIDEST_SINGLE):
            tol = 1e-3 if oracle.is_single else 1e-9
            np.testing.assert_allclose(answers, expected, rtol=tol, atol=tol * max(1.0, scale))
            n_compared += 1
    assert n_compared > 0


# --- hostile contents, one by one


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
