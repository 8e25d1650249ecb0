"""Three-layer networks come back bit by bit; damaged, foreign or oversized files are refused."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planted
from planted.io import export_network, import_network, load_network
from planted.io.networks import _safetensors
from planted.networks import ThreeLayerNetwork, TwoLayerNetwork
from planted.outcomes import BadInputError, BadInputTypeError, FileFormatError


def random_net(seed=0, d=3, q=4, k=5, m=2, power=3):
    rng = np.random.default_rng(seed)
    head = TwoLayerNetwork(
        W=rng.standard_normal((k, q)), A=np.sign(rng.standard_normal((m, k))), activation="quadratic"
    )
    return ThreeLayerNetwork(
        np.asfortranarray(rng.standard_normal((q, d))), rng.standard_normal(q), power, head
    )


def parts(net):
    return [array.tobytes() for array in (net.R, net.s, net.head.W, net.head.b, net.head.A, net.head.c)]


def assert_identical(one, other):
    assert parts(one) == parts(other)
    assert (one.R.shape, one.power, one.head.activation) == (
        other.R.shape,
        other.power,
        other.head.activation,
    )


@pytest.mark.parametrize("shape", [(3, 4, 5, 2), (1, 1, 1, 1), (2, 7, 0, 3)])
@pytest.mark.parametrize("power", [2, 5, 64])
def test_round_trip_is_bitwise(tmp_path, shape, power):
    net = random_net(1, *shape, power=power)
    net.save(tmp_path / "net.safetensors")
    loaded = planted.load_network(tmp_path / "net.safetensors")
    assert type(loaded) is ThreeLayerNetwork
    assert_identical(loaded, net)


def test_a_memory_of_three_layers_predicts_the_same_from_its_file(tmp_path):
    X = planted.simulate.inputs(60, n_features=6, random_state=0)
    memory = planted.memorize(X, np.arange(60.0) % 7, layers=3, bias=True, random_state=1)
    memory.network.save(tmp_path / "net")
    np.testing.assert_array_equal(load_network(tmp_path / "net")(X), memory.network(X))


def test_every_truncation_is_refused(tmp_path):
    random_net().save(tmp_path / "net")
    contents = (tmp_path / "net").read_bytes()
    for length in range(len(contents)):
        (tmp_path / "cut").write_bytes(contents[:length])
        with pytest.raises(FileFormatError, match="cut: "):
            load_network(tmp_path / "cut")
    (tmp_path / "cut").write_bytes(contents + b"\0")
    with pytest.raises(FileFormatError, match="announces"):
        load_network(tmp_path / "cut")


def test_every_flipped_byte_is_refused_or_harmless(tmp_path):
    net = random_net()
    net.save(tmp_path / "net")
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


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_random_damage_never_ends_in_another_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("nets") / "net"
    net = random_net()
    net.save(path)
    contents = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(contents) - 1))
        contents[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
        if not contents:
            break
    path.write_bytes(contents)
    try:
        loaded = load_network(path)
    except FileFormatError:
        return
    assert_identical(loaded, net)


def rewrite(path, change, *, sign=False):
    """Change the header of a saved network with a function of (header, record); sign it again if asked."""

    contents = path.read_bytes()
    end = 8 + int.from_bytes(contents[:8], "little")
    header = json.loads(contents[8:end])
    record = json.loads(header["__metadata__"]["planted"])
    change(header, record)
    if sign:
        arrays = _safetensors.parse_tensors(contents)
        record = _safetensors._record(arrays, {key: record[key] for key in ("format", "activation", "power")})
    header["__metadata__"]["planted"] = json.dumps(record)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + contents[end:])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header, record: record.update(schema=5), "schema 5"),
        (lambda header, record: record.update(format="planted.network"), "tensors"),
        (lambda header, record: record.update(format="planted.four-layer-network"), "format"),
        (lambda header, record: record.update(format=["planted.network"]), "format"),
        (lambda header, record: record.update(power=4), "checksum"),
        (lambda header, record: record.update(power="3"), "no power"),
        (lambda header, record: record.update(power=True), "no power"),
        (lambda header, record: record.pop("power"), "no power"),
        (lambda header, record: record.update(extra=1), "checksum"),
        (lambda header, record: header.pop("R"), "tensors"),
        (lambda header, record: header["R"].update(dtype="F32"), "float64"),
        (lambda header, record: header["s"].update(shape=[2, 2]), "shape"),
    ],
)
def test_headers_that_contradict_themselves(tmp_path, change, message):
    random_net().save(tmp_path / "net")
    rewrite(tmp_path / "net", change)
    with pytest.raises(FileFormatError, match=f"net: .*{message}"):
        load_network(tmp_path / "net")


@pytest.mark.parametrize("power", [1, 65, 10**30, -2])
def test_powers_out_of_range_are_refused_even_with_a_right_checksum(tmp_path, power):
    random_net().save(tmp_path / "net")
    rewrite(tmp_path / "net", lambda header, record: record.update(power=power), sign=True)
    with pytest.raises(FileFormatError, match="from 2 to 64"):
        load_network(tmp_path / "net")


def test_sizes_are_checked_before_anything_is_allocated(tmp_path):
    path = tmp_path / "net"
    random_net().save(path)

    def enlarge(header, record):
        for shapes in (header["R"]["shape"], record["shapes"]["R"]):
            shapes[0] = 1 << 50

    rewrite(path, enlarge)
    with pytest.raises(FileFormatError, match="announces"):
        load_network(path)


def test_doors_for_two_layers_say_that_there_are_three(tmp_path):
    path = tmp_path / "net.safetensors"
    random_net().save(path)
    with pytest.raises(FileFormatError, match="three layers"):
        import_network(path)
    with pytest.raises(BadInputTypeError, match="ThreeLayerNetwork given"):
        export_network(random_net(), tmp_path / "net.onnx")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"R": np.ones(4)}, "1 dimension"),
        ({"s": np.ones((4, 1))}, "2 dimension"),
        ({"s": np.ones(3)}, "same number"),
        ({"R": np.full((4, 3), np.nan)}, "NaN"),
        ({"power": 2.0}, "from 2 to 64"),
        ({"power": True}, "from 2 to 64"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change, message):
    net = random_net()
    whole = {"R": net.R, "s": net.s, "power": net.power, "head": net.head}
    with pytest.raises(BadInputError, match=message):
        ThreeLayerNetwork(**(whole | change))
