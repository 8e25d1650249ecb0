"""The page of all items of the papers: every row is filled, every file, test and figure exists, and it is up to date."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from planted.reproduce import studies

ROOT = Path(__file__).resolve().parents[2]
VERDICTS = {"agrees", "false as printed", "not measured", "missing", "drawing"}
# What the papers number, by hand from their pages; of ATV21 only the appendix and what it restates.
NUMBERED = {
    "GKLW19": {
        "Algorithm": "1 2 3 4",
        "Theorem": "1 2 3 4 5 6 7 8 9 10",
        "Corollary": "1",
        "Figure": "1 2 3 4 5",
    },
    "GLM18": {
        "Algorithm": "1 2",
        "Theorem": "2.1 2.2 2.3 2.6 2.7 A.4 A.5 A.6 B.1 C.1 C.2 C.4 C.5 C.9 E.1 E.3",
        "Corollary": "2.4 C.3 E.4",
        "Figure": "1 2 3 4",
    },
    "ATV21": {"Algorithm": "1 2 3 4 5 6", "Theorem": "3.1 3.2 4.2 A.5 D.1", "Corollary": "3.3"},
    "GWZ20": {"Algorithm": "1", "Theorem": "1 2 3 4 5 6", "Figure": "1 2 3 4 5 6 7 8 9 10"},
    "BJW18": {
        "Algorithm": "1 2 3 4 5 6 7 8",
        "Theorem": "1 2 3 4 5 6 7 8 9 10 11 12 13 14",
        "Corollary": "1 2 3 4 5 6 7 8",
    },
}


@pytest.fixture(scope="module")
def papers(request):
    sys.path.insert(0, str(ROOT / "benchmarks"))
    request.addfinalizer(lambda: sys.path.remove(str(ROOT / "benchmarks")))
    spec = importlib.util.spec_from_file_location("papers_page", ROOT / "benchmarks" / "papers.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["papers_page"] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_is_stored(papers):
    assert papers.PAGE.read_text(encoding="utf-8") == papers.page(), "run python benchmarks/papers.py"


def test_no_row_is_empty(papers):
    rows = [
        line for line in papers.page().splitlines() if line.startswith("|") and not line.startswith("|--")
    ]
    assert len(rows) > 100
    for row in rows:
        cells = re.split(r"(?<!\\)\|", row)[1:-1]
        assert len(cells) in (4, 5) and all(cell.strip() for cell in cells), row


def test_every_source_and_every_test_exists(papers):
    for item in papers.items():
        assert (ROOT / "src" / "planted" / item.source).is_file(), item
        if "::" in item.check:
            path, name = item.check.split("::")
            assert re.search(rf"^def {name}\(", (ROOT / "tests" / path).read_text(encoding="utf-8"), re.M), (
                item
            )
            assert item.verdict in VERDICTS


def test_every_figure_is_an_item_and_was_run(papers):
    asked = {(papers.STUDIES[item.paper], item.check) for item in papers.items() if "::" not in item.check}
    assert asked == {(paper, figure) for paper, figures in studies().items() for figure in figures}
    claims = papers.stored()
    for paper, figure in asked:
        assert claims[f"{paper}/{figure}"]["claims"]
        assert {line[2] for line in claims[f"{paper}/{figure}"]["claims"]} <= {
            "agrees",
            "disagrees",
            "not run to the end",
        }


def test_figures_named_in_docs_and_help_exist():
    places = [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "src" / "planted" / "cli").rglob("*.py"),
    ]
    found = [
        (paper, figure, place)
        for place in places
        for paper, figure in re.findall(
            r"planted reproduce ([a-z-]+)(?: --figure (\w+))?", place.read_text(encoding="utf-8")
        )
    ]
    assert len(found) > 10
    for paper, figure, place in found:
        assert paper in studies(), place
        assert not figure or figure in studies()[paper] or figure == "N", (figure, place)


def test_nothing_that_the_papers_number_is_left_out(papers):
    for paper, kinds in NUMBERED.items():
        names = [item.name for item in papers.items() if item.paper == paper]
        for kind, numbers in kinds.items():
            word = "Corollar(?:y|ies)" if kind == "Corollary" else f"{kind}s?"
            lists = re.findall(rf"{word} ((?:[A-F]?[.\d]+(?:, (?=[A-F.\d])| and )?)+)", " ; ".join(names))
            found = {number for text in lists for number in re.split(", | and ", text)}
            assert set(numbers.split()) <= found, (paper, kind, set(numbers.split()) - found)
