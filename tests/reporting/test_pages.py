"""Every kind of page in a real browser, at three widths, light and dark: nothing cut, all pictures named, contrast AA."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planted
from planted.reporting import compare_section, summarise, summarise_diagnosis
from planted.reporting._comparison import Contender
from planted.reporting._outline import Figure, Table
from reporting.test_report import (
    CHROMIUM,
    CHROMIUM_FLAGS,
    WORST_CONTRAST,
    context,
    make_data,
    make_record,
    section,
)

WIDTHS = (400, 800, 1280)
INPUTS = ("living area in m²", "region=south", "year", "rooms", "garden")


def house_report() -> Any:
    """A report on columns as people name them."""
    X, Y = make_data(noise=0.3)
    X[:, 1] = X[:, 1] > 0
    record = make_record(stats={"seconds": 0.25, **context(1.0, 0.4)}, held_out_mse=0.16)
    return summarise(record, data=(X, Y), feature_names=INPUTS, target_names=("price", "rent", "tax"))


@cache
def page_of(kind: str) -> str:
    if kind == "recovery":
        return str(house_report().html())
    if kind == "comparison":
        weights = {"best run": ((1.0, 2.0, -1.0), (1.0, 2.5, -0.9))}
        contenders = (
            Contender("planted", (2e-14, 3e-14), (1e-28, 2e-28), 1.0, "this is the network", weights),
            Contender("scikit-learn MLPRegressor, lbfgs", (0.4, 0.9), (0.2, 0.3), 9.0, "a fit", weights),
        )
        story = ("Planted. A network.", "Seen. Samples.", "Found. It agrees to 3e-14.")
        return str(
            house_report().with_sections(compare_section(contenders, title="The story", story=story)).html()
        )
    if kind == "diagnosis":
        data = planted.simulate.dataset(60, n_features=3, n_hidden=2, n_outputs=2, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return str(summarise_diagnosis(planted.diagnose(data.X, data.Y, random_state=0)).html())
    x = np.linspace(-2, 2, 60)[:, None]
    y = 0.5 * x + 2 * np.maximum(x - 0.3, 0) - np.maximum(x + 1, 0)
    found = planted.recover(x, y, random_state=0)
    return str(summarise(found, data=(x, y), feature_names=("dose in mg",), target_names=("effect",)).html())


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=str(CHROMIUM), args=CHROMIUM_FLAGS)
        yield chromium
        chromium.close()


@pytest.mark.browser
@pytest.mark.parametrize("kind", ["recovery", "comparison", "diagnosis", "kinks"])
def test_pages_at_every_width(kind: str, browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_of(kind), encoding="utf-8")
    for scheme in ("light", "dark"):
        context = browser.new_context(viewport={"width": WIDTHS[0], "height": 900}, color_scheme=scheme)
        page = context.new_page()
        page.goto(file.as_uri(), wait_until="load")
        page.evaluate("document.querySelectorAll('details').forEach(item => item.open = true)")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            where = f"{kind} at {width} px, {scheme}"
            assert page.evaluate("document.documentElement.scrollWidth") <= width, where
            cut = page.evaluate(
                "[...document.querySelectorAll('.table')].filter(box => box.scrollWidth > box.clientWidth + 1)"
                ".map(box => box.ariaLabel)"
            )
            assert cut == [], where
            ratio, text = page.evaluate(WORST_CONTRAST)
            assert 4.5 <= ratio < 99, f"{where}: {text}"
        names = page.evaluate(
            "[...document.querySelectorAll('svg')].map("
            "item => document.getElementById(item.getAttribute('aria-labelledby'))?.textContent ?? '')"
        )
        assert all(len(name.split()) >= 5 for name in names)
        context.close()


def test_what_each_input_does() -> None:
    report = house_report()
    figures = [block for block in section(report, "dependence").blocks if isinstance(block, Figure)]
    assert len(figures) == 5 and {figure.title for figure in figures} == set(INPUTS)
    record, (X, _) = make_record(), make_data(noise=0.3)
    X[:, 1] = X[:, 1] > 0
    figure = next(item for item in figures if item.title == "region=south")
    assert figure.data["series"][0]["x"] == [0.0, 1.0]
    for value, average in zip((0.0, 1.0), figure.data["series"][1]["y"], strict=True):
        moved = X.copy()
        moved[:, 1] = value
        assert record.network is not None
        assert average == pytest.approx(record.network(moved)[:, 1].mean())
    reach = [max(np.ptp(line["y"]) for line in item.data["series"]) for item in figures]
    assert reach == sorted(reach, reverse=True)


def test_units_are_told_in_the_words_of_the_columns() -> None:
    net = planted.TwoLayerNetwork([[0.6, -0.8, 0.0, 0.0, 0.0]], [-2.5], [[0.0], [-3.0], [1.0]])
    table = next(
        block
        for block in section(
            summarise(
                make_record(network=net), data=make_data(), feature_names=INPUTS, target_names=list("abc")
            ),
            "network",
        ).blocks
        if isinstance(block, Table) and block.title.startswith("The units in words")
    )
    assert table.rows == (
        ("unit 1", "−0.8·region=south + 0.6·living area in m² > 2.5", "−3 to b for each 1 beyond"),
    )


def test_units_have_the_numbers_of_their_rows() -> None:
    """The stronger unit stands first and is still unit 2, as in the evidence."""
    net = planted.TwoLayerNetwork(np.eye(2, 5), [0.0, 0.0], [[0.5, 2.0]])
    tables = [
        block
        for block in section(summarise(make_record(network=net)), "network").blocks
        if isinstance(block, Table) and block.columns[0] == "Unit"
    ]
    assert len(tables) == 2
    assert all([row[0] for row in table.rows] == ["unit 2", "unit 1"] for table in tables)


def test_a_fit_of_many_units_is_not_read_one_by_one() -> None:
    rng = np.random.default_rng(3)
    net = planted.TwoLayerNetwork(rng.standard_normal((60, 5)), None, rng.standard_normal((1, 60)))
    fitted = section(summarise(make_record(network=net, outcome=planted.Outcome.FITTED)), "network")
    assert "too many to be read one by one" in fitted.paragraphs[0] and len(fitted.blocks) == 1
    assert (
        len(section(summarise(make_record(network=net)), "network").blocks) > 1
    )  # a network that is the one


def test_no_raw_names_of_statistics() -> None:
    page = page_of("recovery")
    assert (
        "held_out_mse" not in page
        and "statistic" not in page
        and "e+0" not in page
        and "for information" not in page
    )
