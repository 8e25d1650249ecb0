"""The documentation builds without a warning. Its gallery is run by test_examples, here it is only read."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import planted
from reporting.test_report import CHROMIUM, CHROMIUM_FLAGS, WORST_CONTRAST

ROOT = Path(__file__).resolve().parents[2]
# Programs and tables of which a part can be seen only by scrolling sideways.
CUT = """[...document.querySelectorAll('article pre, article .table-wrapper')]
    .filter(box => box.scrollWidth > box.clientWidth + 1).map(box => box.innerText.slice(0, 60))"""
QUICK = {"PLANTED_GALLERY": "read", "PLANTED_DOCS": "quick"}
# The rooms that a run cannot do without, in the order in which it enters them.
STATIONS = {
    "A table is recovered": [
        "cli",
        "io",
        "recovery",
        "rows",
        "methods",
        "fitting",
        "certificates",
        "reporting",
    ],
    "A paper's algorithm as printed": ["recovery", "rows", "methods", "linalg", "networks"],
    "A black box is asked": ["identification", "linalg", "networks", "results"],
    "Labels are memorised": ["memorization", "networks", "results"],
}
MADE = shutil.ignore_patterns("_build", "generated", "gallery", "__pycache__")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Build the documentation once."""
    tmp_path = tmp_path_factory.mktemp("documentation")
    # A copy: generated pages are written beside the sources, and other tests run at the same time.
    for folder in ("docs", "examples", "benchmarks", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=MADE)
    for page in (*ROOT.glob("*.md"), ROOT / "references.bib", ROOT / "pyproject.toml"):
        shutil.copy(page, tmp_path)
    build = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", "site"],
        cwd=tmp_path,
        env=os.environ | QUICK | {"MPLCONFIGDIR": str(tmp_path / "matplotlib")},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    return tmp_path / "site", build


def test_documentation_builds_without_warnings(
    built: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    site, build = built
    assert build.returncode == 0, build.stderr
    methods = [f"theory/{name}" for name in planted.methods()] + ["generated/planted.methods.restarts"]
    pages = ("index", "start", "front-door", "generated/choosing", "generated/architecture", "gallery/index")
    for page in (*pages, *methods):
        assert (site / f"{page}.html").stat().st_size > 5000


def is_subsequence(wanted: list[str], found: list[str]) -> bool:
    rest = iter(found)
    return all(name in rest for name in wanted)


@pytest.mark.parametrize("title", STATIONS)
def test_a_path_is_that_of_a_run_that_succeeds(
    built: tuple[Path, subprocess.CompletedProcess[str]], title: str
) -> None:
    # The build runs the four paths itself, and ends where one of them fails: see test_architecture.
    page = (built[0].parent / "docs" / "generated" / "architecture.rst").read_text(encoding="utf-8")
    section = re.split(r"\n\^{5,}\n", page.partition(f"\n{title}\n^")[2].partition("\n")[2])[0]
    rooms = re.findall(r"^#\. \*\*(\w+)\*\*: ", section, flags=re.MULTILINE)
    assert is_subsequence(STATIONS[title], rooms), rooms
    (down,) = re.findall(r"room: ([\d,]+) go down; none goes up by an import", section)
    assert int(down.replace(",", "")) > 20


@pytest.mark.browser
def test_the_start_page_in_a_browser(built: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed")
    playwright = pytest.importorskip("playwright.sync_api")
    page_file = built[0] / "index.html"
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=str(CHROMIUM), args=CHROMIUM_FLAGS)
        for scheme in ("light", "dark"):
            page = chromium.new_page(color_scheme=scheme, viewport={"width": 400, "height": 900})
            page.goto(page_file.as_uri(), wait_until="domcontentloaded")
            for width in (400, 800, 1280):
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (scheme, width)
                assert page.evaluate(CUT) == [], (scheme, width)
                ratio, text = page.evaluate(WORST_CONTRAST)
                assert 4.5 <= ratio < 99, (scheme, width, text)
            # Of the two drawings that of the scheme is seen.
            seen = page.locator("article img[src*=picture]:visible")
            assert seen.count() == 1 and ("dark" in str(seen.get_attribute("src"))) == (scheme == "dark")
            # Pictures of the gallery have their title as a link below them.
            assert page.evaluate(
                "[...document.querySelectorAll('article img')].every(one => one.alt.length > 20 || "
                "one.closest('.sphx-glr-thumbcontainer')?.innerText.length > 10)"
            )
            assert page.locator(".sphx-glr-thumbcontainer img").count() == 6
            assert (
                page.locator("article img").count() >= 1
                and page.locator("article table tbody tr").count() == 4
            )
            page.close()
        chromium.close()
