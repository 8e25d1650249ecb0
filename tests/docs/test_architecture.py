"""The page of the architecture: drawn from the import contract, the import graph and traced runs."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import grimp
import pytest
from docutils.core import publish_string

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def house_pages() -> ModuleType:
    """Return the module that writes the page."""
    spec = importlib.util.spec_from_file_location("planted_house_pages", ROOT / "docs" / "house_pages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def graph() -> Any:
    """Return the import graph of planted."""
    return grimp.build_graph("planted")


def contract() -> dict[str, Any]:
    """Return the import contract between the rooms."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    (found,) = [entry for entry in entries if entry["type"] == "layers"]
    return dict(found)


def texts(picture: str) -> list[str]:
    """Return the texts of a drawing, which must be well-formed."""
    return [element.text or "" for element in ElementTree.fromstring(picture).iter() if element.text]


def test_every_room_is_in_a_layer_and_says_what_it_is_for(house_pages: ModuleType, graph: Any) -> None:
    rooms = [room for layer in house_pages.layers() for room in layer]
    assert sorted(rooms) == sorted(name.partition(".")[2] for name in graph.find_children("planted"))
    for room in rooms:
        sentence, count = house_pages.sentence_of(room)
        assert len(sentence.split()) >= 3 and count >= 1, room
    total = sum(house_pages.sentence_of(room)[1] for room in rooms)
    assert total == len(graph.modules) - 1  # all but the package itself


def test_no_room_imports_upwards_but_through_the_doors_of_the_contract(
    house_pages: ModuleType, graph: Any
) -> None:
    storey = {room: number for number, layer in enumerate(house_pages.layers()) for room in layer}
    imports = house_pages.count_imports(graph)
    up = {pair for pair in imports if storey[pair[1]] <= storey[pair[0]]}
    doors = [line.split(" -> ") for line in contract()["ignore_imports"]]
    assert up == {
        (house_pages.room_of(importer), house_pages.room_of(imported)) for importer, imported in doors
    }


def test_the_picture_shows_every_room_with_its_sentence(house_pages: ModuleType) -> None:
    shown = texts(house_pages.rooms_picture(house_pages.layers()))
    joined = " ".join(shown)
    for layer in house_pages.layers():
        for room in layer:
            sentence, count = house_pages.sentence_of(room)
            assert room in shown and str(count) in shown and sentence in joined


def test_the_matrix_tells_down_from_up(house_pages: ModuleType) -> None:
    picture = house_pages.matrix_picture((("a",), ("b", "c")), Counter({("a", "c"): 7, ("b", "a"): 1}))
    cells = {
        element[0].text: element.get("class")
        for element in ElementTree.fromstring(picture).iter()
        if len(element) == 1
    }
    assert cells == {"a imports c: 7": "down", "b imports a: 1": "up"}


def test_calls_are_sorted_by_their_way(house_pages: ModuleType) -> None:
    calls = (
        ("planted.cli._main", "main", "planted.recovery._recover", "recover", 2),
        ("planted.rows._passes", "accumulate", "planted.moments._gram", "Sum.__call__", 5),
        ("planted.networks._network", "TwoLayerNetwork.save", "planted.io.networks._safetensors", "save", 1),
        ("planted.networks._network", "f", "planted.networks._kinks", "g", 9),
    )
    graph = grimp.ImportGraph()
    graph.add_import(importer="planted.networks._network", imported="planted.io.networks._safetensors")
    for name in ("planted.cli._main", "planted.rows._passes"):
        graph.add_module(name)
    found = house_pages.crossings_of(SimpleNamespace(calls=calls), graph)
    assert found.down == 2
    assert found.imported == {"networks/_network:TwoLayerNetwork.save": {"io/networks/_safetensors:save"}}
    assert found.called_back == {"rows/_passes:accumulate": {"moments/_gram:Sum.__call__"}}
    page = house_pages.path_section([("rows", ["_passes:accumulate"])], found)
    assert "#. **rows**: ``_passes:accumulate``\n" in page
    assert "2 go down; 1 go up by an import" in page
    assert "- ``rows/_passes:accumulate`` calls back ``moments/_gram:Sum.__call__``\n" in page


def test_visits_are_gathered_by_room(house_pages: ModuleType) -> None:
    entered = (
        ("planted", "__getattr__"),
        ("planted.cli._main", "main"),
        ("planted.cli.commands._recover", "recover"),
        ("planted.results", "Evidence.passed"),
        ("planted.cli._data", "read"),
    )
    assert house_pages.visits_of(SimpleNamespace(entered=entered)) == [
        ("cli", ["_main:main", "commands/_recover:recover"]),
        ("results", ["Evidence.passed"]),
        ("cli", ["_data:read"]),
    ]


def test_the_markup_parses_without_a_warning(
    house_pages: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimpleNamespace(entered=(("planted.cli._main", "main"),), calls=(), exit_code=0)
    monkeypatch.setattr(house_pages.load_house(), "trace", lambda script, setup: run)
    page = house_pages.architecture_page() + ".. [GKLW19] A reference.\n"
    strict = {"report_level": 2, "halt_level": 2}  # a warning ends it
    html = publish_string(page, writer="html", settings_overrides=strict).decode()
    assert html.count("<svg") == 2 and all(path.title in page for path in house_pages.PATHS)


def test_a_run_that_fails_is_not_drawn(house_pages: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    run = SimpleNamespace(entered=(), calls=(), exit_code=1, output="the reason")
    monkeypatch.setattr(house_pages.load_house(), "trace", lambda script, setup: run)
    with pytest.raises(RuntimeError, match="the reason"):
        house_pages.architecture_page()
