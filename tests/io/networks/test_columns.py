"""Names of the columns travel with a saved network; names that mislead are refused; older files load without any."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planted import ThreeLayerNetwork, TwoLayerNetwork, export_network, import_network
from planted.io import SavedNetwork, load_network, load_with_columns, save_network
from planted.outcomes import BadInputError, BadInputTypeError, FileFormatError

BAD_CHARACTERS = [
    "\x00",
    "\x1b",
    "\n",
    "\t",
    "\x7f",
    "\x9b",
    "\u2028",
    "\u202e",
    "\u2066",
    "\ufeff",
    "\ud800",
]


def random_net(rng: np.random.Generator, d: int, m: int) -> TwoLayerNetwork:
    k = int(rng.integers(1, 5))
    draws = [rng.standard_normal(shape) for shape in ((k, d), k, (m, k), m)]
    return TwoLayerNetwork(*draws)


def write(net: Any, path: Path, **names: Any) -> None:
    if path.suffix == ".json":
        export_network(net, path, **names)
    else:
        net.save(path, **names)


# Any text without the characters that are refused: controls, surrogates, separators and marks of direction.
TEXT = st.text(
    st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp", "Cf"), max_codepoint=0x1FFFF),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(TEXT, min_size=2, max_size=9, unique=True),
    st.integers(1, 8),
    st.sampled_from([".json", ".net"]),
    st.sampled_from(["both", "features", "targets"]),
)
def test_names_come_back_as_they_were(
    tmp_path_factory: Any, names: list[str], n_targets: int, suffix: str, given_names: str
) -> None:
    cut = max(1, len(names) - n_targets)
    features, targets = names[:cut], names[cut:]
    net = random_net(np.random.default_rng(len(names)), len(features), len(targets))
    kept = {"features": features, "targets": targets}
    if given_names != "both":
        kept = {given_names: kept[given_names]}
    path = tmp_path_factory.mktemp("nets") / f"net{suffix}"
    write(net, path, **kept)
    saved = load_with_columns(path)
    assert isinstance(saved, SavedNetwork)
    assert saved.features == (tuple(features) if "features" in kept else None)
    assert saved.targets == (tuple(targets) if "targets" in kept else None)
    again = import_network(path) if suffix == ".json" else load_network(path)
    for name in "WbAc":
        assert getattr(again, name).tobytes() == getattr(net, name).tobytes()
        assert getattr(saved.network, name).tobytes() == getattr(net, name).tobytes()


def test_three_layers_have_columns_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    net = ThreeLayerNetwork(rng.standard_normal((3, 2)), rng.standard_normal(3), 2, random_net(rng, 3, 1))
    net.save(tmp_path / "net", features=["a", "b"], targets=("y",))
    saved = load_with_columns(tmp_path / "net")
    assert (saved.features, saved.targets) == (("a", "b"), ("y",))
    assert isinstance(saved.network, ThreeLayerNetwork)


@pytest.mark.parametrize("suffix", [".json", ".net"])
def test_files_without_names_load_as_before(tmp_path: Path, suffix: str) -> None:
    net = random_net(np.random.default_rng(1), 3, 2)
    path = tmp_path / f"net{suffix}"
    write(net, path)
    saved = load_with_columns(path)
    assert (saved.features, saved.targets) == (None, None)
    assert b"features" not in path.read_bytes() and b"targets" not in path.read_bytes()
    if suffix == ".net":  # the schema of older releases, which read such a file as ever
        assert b'\\"schema\\": 1' in path.read_bytes()


def bad_names() -> list[tuple[str, Any]]:
    """Lists of three names, each wrong in one way."""
    cases: list[tuple[str, Any]] = [
        (f"{char!a} in a name", ["a", f"b{char}c", "d"]) for char in BAD_CHARACTERS
    ]
    cases += [
        ("twice", ["a", "b", "a"]),
        ("empty", ["a", "", "c"]),
        ("endless", ["a", "b" * 1001, "c"]),
        ("too few", ["a", "b"]),
        ("too many", list("abcd")),
        ("a million", [str(i) for i in range(10**6)]),
        ("one text", "abc"),
        ("bytes", [b"a", b"b", b"c"]),
        ("numbers", [1, 2, 3]),
        ("a set", {"a", "b", "c"}),
        ("nested", [["a"], "b", "c"]),
    ]
    return cases


@pytest.mark.parametrize("suffix", [".json", ".net"])
@pytest.mark.parametrize("role", ["features", "targets"])
@pytest.mark.parametrize(("case", "names"), bad_names(), ids=[case for case, _ in bad_names()])
def test_names_that_mislead_are_not_written(
    tmp_path: Path, case: str, names: Any, role: str, suffix: str
) -> None:
    net = random_net(np.random.default_rng(2), 3, 3)
    path = tmp_path / f"net{suffix}"
    write(net, path)
    before = path.read_bytes()
    with pytest.raises((BadInputError, BadInputTypeError), match=role) as caught:
        write(net, path, **{role: names})
    assert str(caught.value).isprintable() and len(str(caught.value)) < 2000
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_one_name_for_an_input_and_an_output_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="'b' is given to a feature and to a target"):
        random_net(np.random.default_rng(2), 2, 1).save(tmp_path / "net", features=["a", "b"], targets=["b"])


FORGED_NAMES = [
    *(case for case in bad_names() if case[0] not in ("bytes", "a set", "a million")),
    ("a number", 7),
    ("a table", {"a": 1}),
    ("deep", json.loads("[" * 400 + "]" * 400)),
]


def forge(path: Path, names: Any, role: str) -> None:
    """Put names into a file past the checks of the writer, with a digest that fits."""
    from planted.io.networks import _safetensors as room

    net = load_network(path)
    arrays, fields = room._take_apart(net)
    record = room._record(arrays, fields | {role: names})
    path.write_bytes(room.format_tensors(arrays, metadata={"planted": json.dumps(record, sort_keys=True)}))


@pytest.mark.parametrize("suffix", [".json", ".net"])
@pytest.mark.parametrize("role", ["features", "targets"])
@pytest.mark.parametrize(("case", "names"), FORGED_NAMES, ids=[case for case, _ in FORGED_NAMES])
def test_names_that_mislead_are_not_read(
    tmp_path: Path, case: str, names: Any, role: str, suffix: str
) -> None:
    net = random_net(np.random.default_rng(2), 3, 3)
    path = tmp_path / f"net{suffix}"
    write(net, path)
    if suffix == ".json":
        path.write_text(json.dumps(json.loads(path.read_text()) | {role: names}))
    else:
        forge(path, names, role)
    with pytest.raises(FileFormatError, match=r"net\.(json|net): "):
        load_with_columns(path)
    with pytest.raises(FileFormatError, match=r"net\.(json|net): "):
        import_network(path) if suffix == ".json" else load_network(path)


def test_names_are_part_of_the_digest(tmp_path: Path) -> None:
    net = random_net(np.random.default_rng(3), 2, 1)
    save_network(net, tmp_path / "net", features=["mass", "speed"])
    contents = (tmp_path / "net").read_bytes()
    (tmp_path / "net").write_bytes(contents.replace(b"mass", b"maps"))
    with pytest.raises(FileFormatError, match="checksum"):
        load_with_columns(tmp_path / "net")


def test_many_names_and_their_limits(tmp_path: Path) -> None:
    d = 20_000
    net = TwoLayerNetwork(np.ones((1, d)), A=[[1.0]])
    names = [f"column number {j}" for j in range(d)]
    net.save(tmp_path / "net", features=names)
    assert load_with_columns(tmp_path / "net").features == tuple(names)
    with pytest.raises(BadInputError, match="take more than 4194304 bytes"):
        net.save(tmp_path / "net", features=[name + string.ascii_letters * 10 for name in names])
    assert load_with_columns(tmp_path / "net").features == tuple(names)
    wide = TwoLayerNetwork(np.zeros((0, 10**6)), A=np.zeros((1, 0)))
    with pytest.raises(BadInputError, match="100000 at most"):
        wide.save(tmp_path / "net", features=[str(j) for j in range(10**6)])


@pytest.mark.parametrize("suffix", [".onnx", ".py", ".h", ".safetensors"])
def test_formats_without_room_for_names_say_so(tmp_path: Path, suffix: str) -> None:
    net = random_net(np.random.default_rng(4), 2, 1)
    with pytest.raises(BadInputError, match="keeps no names of columns"):
        export_network(net, tmp_path / f"net{suffix}", features=["a", "b"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("noise", [(-1.0, 3.0), (1.0, 0.0), (float("nan"), 3.0), (1.0,), "ab", (True, 2.0)])
def test_noise_is_a_standard_deviation_and_degrees_of_freedom(noise, tmp_path):
    net = TwoLayerNetwork(W=[[1.0]], A=[[1.0]])
    with pytest.raises(BadInputError, match="noise"):
        net.save(tmp_path / "net.safetensors", noise=noise)
    net.save(tmp_path / "net.safetensors", noise=(0.5, 7))
    assert load_with_columns(tmp_path / "net.safetensors").noise == (0.5, 7.0)
