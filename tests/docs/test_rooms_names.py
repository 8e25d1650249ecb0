"""One name for a method: on the command line, of its package, of its page of theory and of its folder of tests."""

from __future__ import annotations

from pathlib import Path

import pytest

import planted

ROOT = Path(__file__).resolve().parents[2]
METHODS = sorted(planted.methods())
# Theory of what is no method: the page of `planted.memorize`.
OTHER_PAGES = {"memorize"}


def packages_in(folder: Path) -> set[str]:
    """Return the names of the folders that hold Python files."""
    return {path.name for path in folder.iterdir() if path.is_dir() and any(path.glob("*.py"))}


def underscored(names: list[str]) -> set[str]:
    """Return names as a package writes them."""
    return {name.replace("-", "_") for name in names}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_one_name_everywhere(name: str) -> None:
    package = name.replace("-", "_")
    assert (ROOT / "src" / "planted" / "methods" / package / "__init__.py").is_file()
    assert (ROOT / "src" / "planted" / "methods" / "cards" / f"{package}.py").is_file()
    assert list((ROOT / "tests" / "methods" / package).glob("test_*.py"))
    assert (ROOT / "docs" / "theory" / f"{name}.md").is_file()


def test_there_are_no_others() -> None:
    assert packages_in(ROOT / "src" / "planted" / "methods") - {"cards"} == underscored(METHODS)
    assert packages_in(ROOT / "tests" / "methods") == underscored(METHODS)
    assert {path.stem for path in (ROOT / "docs" / "theory").glob("*.md")} == {*METHODS} | OTHER_PAGES


def test_every_page_of_theory_is_in_the_table_of_contents() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").splitlines()
    listed = [line.removeprefix("theory/") for line in index if line.startswith("theory/")]
    assert sorted(listed) == sorted({*METHODS} | OTHER_PAGES)
