"""The rules of the source tree, measured by benchmarks/house.py; and faults planted to see that each is found."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def house() -> ModuleType:
    """Return the program that measures the source tree, as a module."""
    spec = importlib.util.spec_from_file_location("planted_house", ROOT / "benchmarks" / "house.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def plant(folder: Path, **files: str) -> Path:
    """Write modules into a package and return it."""
    package = folder / "planted"
    package.mkdir()
    for name, text in files.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    return package


def test_no_folder_is_crowded(house: ModuleType) -> None:
    limit = house.LIMITS["largest folder"]
    assert {name: size for name, size in house.folder_sizes(house.SOURCE).items() if size > limit} == {}


def test_methods_do_not_import_one_another(house: ModuleType) -> None:
    assert house.imports_between_methods() == []


def test_an_import_of_another_method_is_seen(house: ModuleType) -> None:
    graph = grimp.ImportGraph()
    graph.add_module("planted.methods")
    for name in ("a", "a._own", "b", "b.printed"):
        graph.add_module(f"planted.methods.{name}")
    graph.add_import(importer="planted.methods.a._own", imported="planted.methods.a")
    assert house.imports_between_methods(graph) == []
    graph.add_import(importer="planted.methods.a._own", imported="planted.methods.b.printed")
    assert house.imports_between_methods(graph) == ["planted.methods.a._own -> planted.methods.b.printed"]


def test_evidence_is_asked_for_by_key(house: ModuleType) -> None:
    assert house.evidence_by_text_or_position(house.SOURCE) == []


def test_one_object_makes_the_record_of_a_run(house: ModuleType) -> None:
    assert house.built_records(house.SOURCE) == []


def test_docstrings_do_not_outgrow_the_code(house: ModuleType) -> None:
    share, n_lines = house.docstring_share(house.SOURCE)
    assert 0.1 < share <= house.LIMITS["docstring lines per code line"]
    assert n_lines > 10_000


def test_a_recovery_runs_through_few_files(house: ModuleType) -> None:
    files = house.files_of(house.csv_recovery())
    assert files[0] == "planted.cli._main" and "planted.recovery._recover" in files

    assert len(files) <= house.LIMITS["files executed"], files


def test_a_recovery_loads_few_modules(house: ModuleType) -> None:
    modules = house.loaded_modules(house.csv_recovery())
    assert [name for name in modules if name.startswith("planted.methods.")] == [
        "planted.methods.complementarity"
    ]
    assert len(modules) <= house.LIMITS["modules loaded"], modules


@pytest.mark.parametrize(
    "body",
    [
        "return [item for item in r.evidence if item.name == 'samples']",
        "return any(item.name.startswith('largest') for item in r.evidence)",
        "return [item for item in r.evidence if 'value' in item.name]",
        "return {item.name: item.measured for item in r.evidence}",
        "for item in r.findings:\n        if re.match('largest', item.name):\n            return item",
        "lines = r.evidence\n    return lines[0]",
        "return r.evidence[-1]",
        "return r.evidence()[1:]",
        "first, *rest = r.evidence\n    return first",
        "return 'held_out_mse' in r.stats",
        "return r.evidence[0].name == 'samples'",
    ],
)
def test_evidence_found_by_text_or_position_is_seen(house: ModuleType, tmp_path: Path, body: str) -> None:
    package = plant(tmp_path, one=f"import re\n\ndef f(r):\n    {body}\n")
    assert len(house.evidence_by_text_or_position(package)) >= 1


@pytest.mark.parametrize(
    "body",
    [
        "return [item for item in r.evidence if item.key is Check.SAMPLES]",
        "return r.find(Check.SAMPLES)[0].measured",
        "return [f'{item.name}: {item.measured}' for item in r.evidence[:8]]",
        "return (*r.evidence, r.other)",
        "return {item.name: item for item in fields(r)}",
        "return r.activation.name == 'relu'",
    ],
)
def test_showing_evidence_is_no_fault(house: ModuleType, tmp_path: Path, body: str) -> None:
    package = plant(
        tmp_path, one=f"def g(r):\n    for item in r.evidence:\n        pass\n\ndef f(r):\n    {body}\n"
    )
    assert house.evidence_by_text_or_position(package) == []


def test_a_parameter_of_evidence_is_known_by_its_annotation(house: ModuleType, tmp_path: Path) -> None:
    one = "def f(line: Evidence, checks: tuple[Evidence, ...]):\n    a, b = checks\n    return line.name == 'x'\n"
    assert house.evidence_by_text_or_position(plant(tmp_path, one=one)) == [
        "one.py:2: checks",
        "one.py:3: line.name == 'x'",
    ]


def test_a_record_built_by_hand_is_seen(house: ModuleType, tmp_path: Path) -> None:
    package = plant(tmp_path, results="x = Recovery(1)\n", one="y = 1\nx = results.Recovery(2)\n")
    assert house.built_records(package) == ["one.py:2"]


def test_lines_are_counted_by_kind(house: ModuleType, tmp_path: Path) -> None:
    text = '"""One.\n\nThree."""\n\n# a comment\nX = """a text\nof two lines"""\n"""What X is."""\n'
    assert house.docstring_share(plant(tmp_path, one=text)) == (4 / 2, 8)


def test_folders_are_counted_apart(house: ModuleType, tmp_path: Path) -> None:
    package = plant(tmp_path, one="", two="")
    (package / "inner").mkdir()
    (package / "inner" / "three.py").touch()
    assert house.folder_sizes(package) == {"planted": 2, "planted/inner": 1}


def test_a_trace_tells_functions_from_imports(house: ModuleType) -> None:
    script = (
        "from planted._clock import check_time, time_budget\n"
        "with time_budget(60.0):\n    check_time()\nraise SystemExit(3)\n"
    )
    run = house.trace(script)
    assert run.exit_code == 3
    assert run.entered == (("planted._clock", "time_budget"),)
    assert {"planted", "planted._clock", "planted.outcomes"} <= set(run.loaded)
    assert "planted.networks" not in run.loaded and run.calls == ()


def test_a_trace_knows_who_called(house: ModuleType) -> None:
    setup = "import pathlib; pathlib.Path('noise.txt').write_text('x')"
    script = (
        "import os\nfrom planted._validation import check_finite\nimport numpy as np\nassert os.path.exists('noise.txt')\n"
        "from planted.networks import TwoLayerNetwork\n"
        "TwoLayerNetwork(np.ones((1, 2)), np.zeros(1), np.ones((1, 1)), np.zeros(1))(np.ones((3, 2)))\n"
    )
    run = house.trace(script, setup=setup)
    assert run.exit_code == 0, run.output
    assert run.entered[0] == ("planted.networks._network", "TwoLayerNetwork.__init__")
    assert any(
        caller == "planted.networks._network" and callee == "planted.networks._activations"
        for caller, _, callee, _, _ in run.calls
    )
