"""The method that CONTRIBUTING.md adds: its files, put into a copy of planted, are all that it takes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
COPIED = ("pyproject.toml", "references.bib", "docs", "tests/contract/test_method_packages.py")
MADE = shutil.ignore_patterns("_build", "generated", "gallery", "__pycache__")
Run = Callable[..., str]

USE = """
import numpy as np
import planted

truth = planted.TwoLayerNetwork([[1.0, -2.0]], [0.5], [[3.0]], [4.0])
X = np.random.default_rng(0).uniform(-1, 1, size=(50, 2))
answer = planted.recover(X, truth(X), method="one-unit", random_state=0, tol=1e-8)
print(answer.outcome.name, answer.provenance.algorithm, answer.provenance.parameters["tol"])
print(planted.parameter_error(answer.network, truth) < 1e-12)
(check,) = [check for check in planted.diagnose(X, truth(X), 1, random_state=0).methods if check.method == "one-unit"]
print(check.applies)
"""
PAGES = """
import sys
sys.path.insert(0, "docs")
import pages
print(pages.choosing_page())
print("PAGE", "planted.methods.one_unit.rst" in pages.method_pages())
"""


def blocks_with_paths(text: str) -> dict[str, str]:
    """Return the fenced Python blocks that open with the path of a file, by path."""
    blocks = re.findall(
        r"^```python\n# ((?:src|tests)/\S+\.py)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL
    )
    assert len(blocks) == len(dict(blocks))
    return dict(blocks)


FILES = blocks_with_paths(GUIDE)


def test_the_method_is_a_package_a_card_and_tests() -> None:
    assert set(FILES) == {
        "src/planted/methods/one_unit/__init__.py",
        "src/planted/methods/cards/one_unit.py",
        "tests/methods/one_unit/test_theorem.py",
    }
    body = FILES["src/planted/methods/one_unit/__init__.py"].partition("def recover")[2]
    code = re.sub(r'""".*?"""', "", body, flags=re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    assert not any((ROOT / path).exists() for path in FILES)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the sources with the files of the guide."""
    folder = tmp_path_factory.mktemp("planted")
    shutil.copytree(ROOT / "src", folder / "src", ignore=MADE)
    for name in COPIED:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=MADE)
        else:
            shutil.copy(ROOT / name, target)
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(copy: Path) -> Run:
    """Return a function that runs Python in the copy, against the copy."""

    def in_copy(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=copy,
            env=os.environ | {"PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert in_copy("-c", "import planted; print(planted.__file__)").startswith(str(copy))
    return in_copy


def test_it_recovers_and_is_diagnosed(run: Run) -> None:
    assert run("-c", USE).split() == ["RECOVERED", "one-unit", "1e-08", "True", "True"]


def test_the_command_line_lists_it(run: Run) -> None:
    cards = json.loads(run("-m", "planted", "methods", "--json"))
    assert cards["one-unit"]["outputs"] == "m = 1"
    assert list(cards)[-1] == "one-unit", "it comes where its order puts it"


def test_the_documentation_shows_it(run: Run) -> None:
    page = run("-c", PAGES)
    assert (
        "\none-unit\n--------\n" in page
        and ":doc:`the algorithm and its options </generated/planted.methods.one_unit>`" in page
    )
    assert page.rstrip().endswith("PAGE True")


def test_its_own_tests_and_those_of_every_method_pass(run: Run) -> None:
    tests = ("tests/methods/one_unit", "tests/contract/test_method_packages.py")
    said = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests)
    assert " passed" in said and "failed" not in said


def test_the_tests_of_every_method_would_notice_an_option_that_is_not_a_keyword(copy: Path, run: Run) -> None:
    path = copy / "src/planted/methods/one_unit/__init__.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("*, tol", "tol"), encoding="utf-8")
    try:
        with pytest.raises(AssertionError, match="test_a_method_is_one_function"):
            run(
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "-p",
                "no:xdist",
                "tests/contract",
                "-k",
                "one-unit",
            )
    finally:
        path.write_text(text, encoding="utf-8")


def test_it_keeps_to_style_types_and_layers(copy: Path, run: Run) -> None:
    paths = sorted(FILES)
    run("-m", "ruff", "check", *paths)
    run("-m", "ruff", "format", "--check", *paths)
    said = run("-c", "from importlinter.cli import lint_imports; lint_imports()")
    assert "Methods do not know one another KEPT" in said
