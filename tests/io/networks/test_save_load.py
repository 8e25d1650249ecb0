"""Saved networks come back bit by bit, damaged files are refused, a failed write leaves the old file."""

import json
import os
import stat

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from planted.io import load_network, save_network
from planted.io.state._atomic import atomic_write
from planted.networks import TwoLayerNetwork
from planted.outcomes import FileFormatError

ACTIVATIONS = ["relu", "leaky-relu:0.1", "leaky-relu:1e-300", "absolute", "power:2", "power:7", "quadratic"]


def random_net(seed=0, d=3, k=4, m=2, activation="relu"):
    rng = np.random.default_rng(seed)
    return TwoLayerNetwork(
        W=np.asfortranarray(rng.standard_normal((k, d))),
        b=rng.standard_normal(2 * k)[::2],
        A=rng.standard_normal((k, m)).T,
        c=rng.standard_normal(m),
        activation=activation,
    )


def assert_identical(one, other):
    for name in ("W", "b", "A", "c"):
        assert getattr(one, name).shape == getattr(other, name).shape
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    assert one.activation == other.activation


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", [(3, 4, 2), (1, 1, 1), (5, 0, 2), (2, 300, 1)])
def test_round_trip_is_bitwise(tmp_path, activation, shape):
    net = random_net(1, *shape, activation=activation)
    net.save(tmp_path / "net.safetensors")
    assert_identical(load_network(tmp_path / "net.safetensors"), net)
    assert os.listdir(tmp_path) == ["net.safetensors"]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=4, max_size=4))
def test_every_number_survives(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("nets") / "net.safetensors"
    net = TwoLayerNetwork(W=[values[:2]], b=[values[2]], A=[[values[3]]])
    save_network(net, str(path))
    assert_identical(load_network(str(path)), net)


def test_arrays_that_are_not_contiguous_are_written_right(tmp_path):
    """A network holds C-ordered copies; should that ever change, the file must still be right."""
    net = random_net()
    object.__setattr__(net, "W", np.asfortranarray(net.W))
    save_network(net, tmp_path / "net")
    np.testing.assert_array_equal(load_network(tmp_path / "net").W, net.W)


def test_the_header_is_readable_json(tmp_path):
    save_network(random_net(), tmp_path / "net")
    contents = (tmp_path / "net").read_bytes()
    header = json.loads(contents[8 : 8 + int.from_bytes(contents[:8], "little")])
    record = json.loads(header["__metadata__"]["planted"])
    assert (record["format"], record["schema"], record["activation"]) == ("planted.network", 1, "relu")
    assert record["shapes"] == {"W": [4, 3], "b": [4], "A": [2, 4], "c": [2]}


def test_every_truncation_is_refused(tmp_path):
    save_network(random_net(), tmp_path / "net")
    contents = (tmp_path / "net").read_bytes()
    for length in range(len(contents)):
        (tmp_path / "cut").write_bytes(contents[:length])
        with pytest.raises(FileFormatError, match="cut: "):
            load_network(tmp_path / "cut")
    (tmp_path / "cut").write_bytes(contents + b"\0")
    with pytest.raises(FileFormatError, match="announces"):
        load_network(tmp_path / "cut")


@pytest.mark.parametrize("activation", ["leaky-relu:0.1", "power:2"])
def test_every_flipped_byte_is_refused_or_harmless(tmp_path, activation):
    net = random_net(activation=activation)
    save_network(net, tmp_path / "net")
    contents = (tmp_path / "net").read_bytes()
    rng = np.random.default_rng(4)
    harmless = 0
    for place in range(len(contents)):
        damaged = bytearray(contents)
        damaged[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "bad").write_bytes(damaged)
        try:
            loaded = load_network(tmp_path / "bad")
        except FileFormatError as error:
            assert str(tmp_path / "bad") in str(error)
        else:
            assert_identical(loaded, net)
            harmless += 1
    # Only white space may change without harm: a few padding bytes of the header.
    assert harmless <= 8


def test_foreign_files_are_named(tmp_path):
    path = tmp_path / "other"
    save_file({"x": np.zeros(3)}, path)
    with pytest.raises(FileFormatError, match="not a network saved by planted"):
        load_network(path)
    for contents in (
        b"",
        b"PK\x03\x04",
        b"\x80\x04\x95" + bytes(100),
        b"a,b\n1,2\n3,4\n",
        bytes(8),
        b"\2" + bytes(7) + b"[]",
    ):
        path.write_bytes(contents)
        with pytest.raises(FileFormatError, match="safetensors"):
            load_network(path)
    with pytest.raises(FileNotFoundError):
        load_network(tmp_path / "none")


def rewrite(path, change):
    """Change the header of a saved network with a function of (header, record)."""
    contents = path.read_bytes()
    end = 8 + int.from_bytes(contents[:8], "little")
    header = json.loads(contents[8:end])
    record = json.loads(header["__metadata__"]["planted"])
    change(header, record)
    header["__metadata__"]["planted"] = json.dumps(record)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + contents[end:])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header, record: record.update(schema=5), "schema 5"),
        (lambda header, record: record.update(format="other"), "format"),
        (lambda header, record: record.update(activation="absolute"), "checksum"),
        (lambda header, record: record.update(activation="tanh"), "activation 'tanh'|checksum"),
        (lambda header, record: record.pop("activation"), "activation"),
        (lambda header, record: record.update(shapes={"W": [4, 3]}), "shape"),
        (lambda header, record: record.update(shapes=[]), "shape"),
        (lambda header, record: header["W"].update(dtype="F32"), "float64"),
        (lambda header, record: header["W"].update(shape=[3, 4]), "shape"),
        (lambda header, record: header["W"].update(shape=[True, -1]), "shape"),
        (lambda header, record: header.pop("b"), "tensors"),
        (lambda header, record: header["b"].update(data_offsets=[0, 32]), "."),
    ],
)
def test_headers_that_contradict_themselves(tmp_path, change, message):
    save_network(random_net(), tmp_path / "net")
    rewrite(tmp_path / "net", change)
    with pytest.raises(FileFormatError, match=f"net: .*({message})"):
        load_network(tmp_path / "net")


def test_sizes_are_checked_before_anything_is_allocated(tmp_path):
    path = tmp_path / "net"
    path.write_bytes((1 << 62).to_bytes(8, "little") + b"{}")
    with pytest.raises(FileFormatError, match="no complete header"):
        load_network(path)
    save_network(random_net(), path)

    def enlarge(header, record):
        for shapes in (header["W"]["shape"], record["shapes"]["W"]):
            shapes[0] = 1 << 50

    rewrite(path, enlarge)
    with pytest.raises(FileFormatError, match="announces"):
        load_network(path)


@pytest.mark.parametrize("broken", ["os.replace", "os.fsync", "pathlib.Path.write_bytes"])
def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch, broken):
    path = tmp_path / "net"
    old = random_net(1)
    save_network(old, path)

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(broken, fail)
        with pytest.raises(OSError, match="No space"):
            save_network(random_net(2), path)
    assert_identical(load_network(path), old)
    assert os.listdir(tmp_path) == ["net"]


def test_numbers_that_come_back_different_are_not_kept(tmp_path, monkeypatch):
    path = tmp_path / "net"
    old = random_net(1)
    save_network(old, path)
    with monkeypatch.context() as patch:
        patch.setattr(
            "planted.io.networks._safetensors.format_tensors", lambda *args, **kwargs: path.read_bytes()
        )
        with pytest.raises(FileFormatError, match="read back differ"):
            save_network(random_net(2), path)
    assert_identical(load_network(path), old)


def test_permissions_and_links_are_kept(tmp_path):
    path, link = tmp_path / "net", tmp_path / "link"
    save_network(random_net(1), path)
    path.chmod(0o640)
    link.symlink_to(path)
    save_network(random_net(2), link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert_identical(load_network(path), random_net(2))
    with pytest.raises(IsADirectoryError):
        save_network(random_net(), tmp_path)


def test_the_temporary_file_keeps_the_suffix(tmp_path):
    names = []
    atomic_write(tmp_path / "table.npz", lambda partial: names.append(partial.name))
    assert names[0].endswith(".npz")
    assert names[0] != "table.npz"
