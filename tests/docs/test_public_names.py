"""One set of public names: what ``__all__`` promises, what imports, and what the API page shows."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import planted
from planted.outcomes import Guarantee, Outcome

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = {
    "TwoLayerNetwork",
    "load_network",
    "parameter_error",
    "recover",
    "Recovery",
    "Outcome",
    "diagnose",
    "Diagnosis",
    "identify",
    "memorize",
    "Memory",
    "TwoLayerClassifier",
    "TwoLayerRegressor",
    "MemorizingRegressor",
    "simulate",
    "methods",
}


def test_the_contract_is_kept() -> None:
    assert set(planted.__all__) >= CONTRACT


def test_names_are_listed_once() -> None:
    assert len(planted.__all__) == len(set(planted.__all__))


@pytest.mark.parametrize("name", sorted(getattr(planted, "__all__", [])))
def test_every_promised_name_is_there(name: str) -> None:
    assert getattr(planted, name) is not None
    assert name in dir(planted)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        planted.no_such_name  # noqa: B018


def test_the_api_page_shows_every_public_name_and_no_other(pages: ModuleType) -> None:
    shown = pages.api_names()
    modules = {name for name in planted.__all__ if isinstance(getattr(planted, name), ModuleType)}
    inner = {f"{name}.{entry}" for name in modules for entry in getattr(planted, name).__all__}
    assert len(shown) == len(set(shown))
    assert set(shown) == (set(planted.__all__) - modules - {"__version__"}) | inner
    assert all(f"planted.{name}\n" in pages.api_page() for name in modules)


def test_the_outcomes_page_words_every_member(pages: ModuleType) -> None:
    page = pages.outcomes_page()
    for outcome in Outcome:
        assert f"\n{outcome.name}\n---" in page
        assert outcome.meaning in page
    assert all(f"``{guarantee.name}``" in page for guarantee in Guarantee)


@cache
def produced_outcomes() -> set[str]:
    """Return the outcomes that the source gives to a record, not those that it only compares with."""
    found = set()
    for path in (ROOT / "src" / "planted").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        compared = {
            id(part) for node in ast.walk(tree) if isinstance(node, ast.Compare) for part in ast.walk(node)
        }
        names = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and node.attr in Outcome.__members__
            and id(node) not in compared
        ]
        found |= {node.attr for node in names if ast.unparse(node.value) in ("Outcome", "planted.Outcome")}
    return found


def test_every_outcome_can_happen() -> None:
    assert produced_outcomes() == {outcome.name for outcome in Outcome}


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda path: path.name
)
def test_the_outcomes_that_a_page_names_can_happen(path: Path) -> None:
    named = set(re.findall(r"`([A-Z_]+)`", path.read_text(encoding="utf-8")))
    assert named & set(Outcome.__members__) <= produced_outcomes()


def test_the_references_page_lists_every_entry(pages: ModuleType) -> None:
    bibliography = (ROOT / "references.bib").read_text(encoding="utf-8")
    page = pages.references_page(bibliography)
    assert page.count("\n.. [") == bibliography.count("\n@")
    assert ".. [GLM18] Rong Ge, Jason D. Lee, Tengyu Ma. Learning One-hidden-layer" in page


def test_the_columns_of_a_module_docstring_become_rubrics(pages: ModuleType) -> None:
    docstring = "One line.\n\nIdea    First\n        1. deeper\n           still\nCost    Low.\n\nEnd."
    expected = "One line.\n\n\n.. rubric:: Idea\n\nFirst\n\n1. deeper\n   still\n\n.. rubric:: Cost\n\nLow.\n\n\nEnd."
    assert "\n".join(pages.columns_to_rubrics(docstring.split("\n"))) == expected


def test_any_word_with_a_column_beside_it_is_a_label_but_no_row_of_a_table(pages: ModuleType) -> None:
    table = ["======  =====", "paper   here", "======  =====", "Gram    ``G``", "======  ====="]
    lines = ["One.", "", "Slope   First.", "        Second.", "", *table]
    rubrics = ["One.", "", "", ".. rubric:: Slope", "", "First.", "Second.", "", "", *table]
    assert pages.columns_to_rubrics(lines) == rubrics


def test_bars_of_absolute_values_are_no_substitutions(pages: ModuleType) -> None:
    lines = ["a |x\u0303| and ``|x|`` of :math:`|y|`", "", ".. math:: |z|", "   + |t|", "", "again |x|"]
    assert pages.columns_to_rubrics(lines) == [
        "a \\|x\u0303\\| and ``|x|`` of :math:`|y|`",
        *lines[1:5],
        "again \\|x\\|",
    ]


def test_modules_that_explain_something_have_a_page(pages: ModuleType) -> None:
    written = pages.method_pages()
    explained = ("linalg.signs", "fitting._refine", "certificates._resolution", "moments._paired")
    assert {f"planted.{name}.rst" for name in explained} <= set(written)
    assert "planted.methods.cards.rst" not in written and "planted.fitting.rst" not in written
    index = written["methods.rst"].splitlines()
    for name in written:
        lines = (f"   {name.removesuffix('.rst')}", f"- :doc:`{name.removesuffix('.rst')}`")
        shown = [line for page in written.values() for line in page.splitlines() if line in lines]
        assert name == "methods.rst" or len(shown) == 1, f"{name} is in {len(shown)} lists"
    for method in planted.methods():
        package = f"planted.methods.{method.replace('-', '_')}"
        assert f"   {package}" in index
        assert f".. autofunction:: {package}.recover" in written[f"{package}.rst"]
        assert f":doc:`/theory/{method}`" in written[f"{package}.rst"]


def test_the_page_on_choosing_shows_every_card_and_where_to_read_on(pages: ModuleType) -> None:
    page = pages.choosing_page()
    for method, card in planted.methods().items():
        assert f"\n{method}\n---" in page and f"     - {card.input_law}\n" in page
        assert f":doc:`the theory </theory/{method}>`" in page
