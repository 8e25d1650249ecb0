"""The rules of the house that no linter knows: docstrings, changelog, clean texts, numbers that agree."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

import planted

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "src" / "planted").rglob("*.py"))
FOLDERS = ("src", "tests", "docs", "examples", "benchmarks", ".ci")
GENERATED = {"_build", "generated", "gallery", "__pycache__"}
SUFFIXES = {
    ".py",
    ".md",
    ".rst",
    ".toml",
    ".txt",
    ".cff",
    ".bib",
    ".html",
    ".j2",
    ".css",
    ".js",
    ".json",
    ".csv",
}
WITHOUT_SUFFIX = {"Makefile", "LICENSE", "run", ".gitignore"}

# Put together here, so that this file does not contain what it forbids.
MACHINE_PATHS = ["/" + name + "/" for name in ("work", "root")]
REGISTRIES = [
    "py" + "pi.org",
    "python" + "hosted",
    "download." + "pytorch",
    "index" + "-url",
    "find" + "-links",
]


def house_texts() -> list[Path]:
    """Return every text file of the repository that people wrote."""
    # An HTML file at the top is a report that the program wrote.
    files = [path for path in ROOT.iterdir() if path.is_file() and path.suffix != ".html"]
    for folder in FOLDERS:
        files += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    return sorted(
        path for path in files if is_text(path) and not GENERATED & set(path.relative_to(ROOT).parts)
    )


def is_text(path: Path) -> bool:
    """Return whether a file is of a kind that people write."""
    return path.suffix in SUFFIXES or path.name in WITHOUT_SUFFIX


def forbidden_words(text: str) -> list[str]:
    """Return the forbidden words that a text contains."""
    return [word for word in MACHINE_PATHS + REGISTRIES if word in text]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_opens_with_a_docstring(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring, f"{path.name} has no module docstring"
    assert len(docstring.split()) >= 3, f"the docstring of {path.name} says nothing: {docstring!r}"


def test_forbidden_words_are_seen() -> None:
    planted_sins = "see " + MACHINE_PATHS[0] + "notes and " + REGISTRIES[0]
    assert forbidden_words(planted_sins) == [MACHINE_PATHS[0], REGISTRIES[0]]


def test_texts_name_no_machine_and_no_registry() -> None:
    texts = house_texts()
    assert ROOT / "Makefile" in texts and ROOT / ".ci" / "run" in texts and len(texts) > 10
    sins = {str(path.relative_to(ROOT)): forbidden_words(path.read_text(encoding="utf-8")) for path in texts}
    assert {name: words for name, words in sins.items() if words} == {}


def test_changelog_has_an_unreleased_section_and_knows_the_version() -> None:
    headings = re.findall(
        r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert headings[:1] == ["Unreleased"]
    released = headings[1:]
    assert not released or released[0] == planted.__version__


def test_the_guide_lists_the_layers_of_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (layers,) = [entry["layers"] for entry in contracts["contracts"] if entry["type"] == "layers"]
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Layers\n")[2]
    block = guide.partition("```\n")[2].partition("```")[0]
    assert [re.split(r"  +", line)[0] for line in block.splitlines()] == layers


def test_citation_file_has_the_version() -> None:
    assert f"version: {planted.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_every_cited_key_is_in_the_bibliography() -> None:
    keys = set(
        re.findall(
            r"^@\w+\{(\w+),", (ROOT / "references.bib").read_text(encoding="utf-8"), flags=re.MULTILINE
        )
    )
    cited = {
        key
        for path in MODULES
        for key in re.findall(r"\[([A-Z][A-Za-z]+\d{2,4})\]_", path.read_text(encoding="utf-8"))
    }
    assert keys >= {"GKLW19", "GLM18", "ATV21", "GWZ20", "BJW18"}
    assert cited <= keys, f"cited but not in references.bib: {sorted(cited - keys)}"


def test_constraints_pin_every_direct_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    names = {_normalised(re.split(r"[\[<>=~! ]", requirement)[0]) for requirement in wanted} - {"planted"}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert names <= {_normalised(name) for name in pins}
    assert not [name for name, version in pins.items() if "+" in version], "a local version is not portable"


def _normalised(name: str) -> str:
    """Return a distribution's name in its normal form."""
    return re.sub(r"[-_.]+", "-", name).lower()
