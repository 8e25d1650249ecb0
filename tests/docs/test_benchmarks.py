"""Every benchmark can still be started: its imports, its options, and what it runs in other processes."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import planted

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks"
# A rival that is installed apart from planted is imported by this one.
APART = {"_pyscnn_fit"}
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in APART)
HELP = """
import contextlib, io, json, runpy, sys
folder, names, said = sys.argv[1], sys.argv[2:], {}
sys.path.insert(0, folder)
for name in names:
    text = io.StringIO()
    sys.argv = [name, "--help"]
    try:
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            runpy.run_path(f"{folder}/{name}.py", run_name=name if name.startswith("_") else "__main__")
        said[name] = text.getvalue()
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""
# Imported by others.
NOT_STARTED = {
    "targets",
    "families_doors",
    "families_exact",
    "families_noisy",
    *(name for name in NAMES if name.startswith("_")),
}


@pytest.fixture(scope="module")
def helps() -> dict[str, str]:
    """Return what each benchmark prints for ``--help``, all asked in one process."""
    command = [sys.executable, "-c", HELP, str(FOLDER), *NAMES]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, cwd=FOLDER)
    return dict(json.loads(run.stdout.splitlines()[-1]))


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_imports_and_shows_its_options(name: str, helps: dict[str, str]) -> None:
    if name in NOT_STARTED:
        assert helps[name] == ""
    else:
        assert helps[name].startswith(f"usage: {name}.py ") and "--help" in helps[name], helps[name]


@pytest.mark.parametrize(
    "path", sorted([*FOLDER.glob("*.py"), *(ROOT / "examples").glob("plot_*.py")]), ids=str
)
def test_names_that_a_script_takes_from_planted_exist(path: Path, trees: dict[Path, ast.Module]) -> None:
    """Also those of scripts in texts, which no import of the file itself would reach."""
    tree = trees[path]
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    lines = [line for text in texts for line in text.splitlines()]
    inner = [
        ast.parse(line.strip())
        for line in lines
        if re.fullmatch(r"\s*from planted[\w.]* import [\w, ]+", line)
    ]
    for node in [found for part in (tree, *inner) for found in ast.walk(part)]:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("planted"):
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                is_there = hasattr(module, alias.name) or importlib.util.find_spec(
                    f"{node.module}.{alias.name}"
                )
                assert is_there, f"{node.module} has no {alias.name}"


def test_methods_that_a_script_asks_for_exist(trees: dict[Path, ast.Module]) -> None:
    asked = set()
    for tree in trees.values():
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        for call in [call for call in calls if ast.unparse(call.func).endswith("recover")]:
            names = {word.arg: word.value for word in call.keywords}
            if isinstance(method := names.get("method"), ast.Constant):
                asked.add(method.value)
    assert len(asked) >= 4
    assert asked <= {"auto", *planted.methods()}


def test_evidence_is_asked_for_by_key(house: ModuleType) -> None:
    for folder in (FOLDER, ROOT / "examples"):
        found = [
            line for line in house.evidence_by_text_or_position(folder) if not line.startswith("house.py")
        ]
        assert found == []


@pytest.fixture(scope="module")
def house() -> ModuleType:
    """Return the program that measures the source tree, as a module."""
    return load(FOLDER / "house.py")


@pytest.fixture(scope="module")
def trees(house: ModuleType) -> dict[Path, ast.Module]:
    """Return every benchmark and every example, parsed once for all tests."""
    return {path: tree for folder in (FOLDER, ROOT / "examples") for path, tree in house._trees(folder)}


def load(path: Path) -> ModuleType:
    """Import a file that is not part of the package."""
    spec = importlib.util.spec_from_file_location(f"planted_benchmark_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_mutants_are_made_of_rooms_that_have_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    mutation = load(FOLDER / "mutation.py")
    source = Path(planted.__file__ or "").parent
    assert all((source / name).is_dir() for name in mutation.PACKAGES)
    assert mutation.test_folders() == [f"tests/{name}" for name in mutation.PACKAGES]
    monkeypatch.setattr(mutation, "PACKAGES", ("networks", "no_such_room"))
    with pytest.raises(SystemExit, match="tests/no_such_room"):
        mutation.test_folders()


def test_the_truth_is_what_samples_show_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two units between whose parallel hyperplanes no sample lies, on at opposite sides: one unit beside a linear part."""
    monkeypatch.syspath_prepend(FOLDER)
    calibration = load(FOLDER / "calibration.py")
    for seed in range(5):
        rng = np.random.default_rng([seed, 31])
        net = planted.simulate.teacher(3, 3, 1, activity=(0.4, 0.6), random_state=rng)
        X = rng.standard_normal((100, 3))
        nearest = np.abs(X @ net.W[0]).min()
        W, b = net.W.copy(), net.b.copy()
        W[1] = -W[0]
        b[:2] = rng.uniform(-0.5, 0.5) * nearest
        net = planted.TwoLayerNetwork(W, b, net.A)
        seen = calibration.as_seen(net, X, folded=True)
        assert seen.n_hidden == net.n_hidden - 1
        np.testing.assert_allclose(seen(X), net(X), atol=1e-12 * np.abs(net(X)).max())
        assert calibration.as_seen(net, X, folded=False).n_hidden == net.n_hidden
        b[1] += 2 * np.sort(np.abs(X @ net.W[0]))[5]  # now samples lie between them
        net = planted.TwoLayerNetwork(W, b, net.A)
        assert calibration.as_seen(net, X, folded=True).n_hidden == net.n_hidden
