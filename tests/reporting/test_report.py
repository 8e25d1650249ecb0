"""The report says what the record says, in text, JSON and HTML, whatever the record lacks."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.reporting import Contender, Figure, Report, Section, Table, compare_section, summarise, to_plain
from planted.results import Evidence, Provenance, Recovery, Unavailable, Uncertainty

CHROMIUM = Path("/usr/bin/chromium")
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
HOSTILE = "<script>alert(1)</script>"
ATTRIBUTE_BREAKER = '"><img src=x onerror=alert(2)>'
MATHS = "$\\frac{$"  # would break a parser of mathematics
NAMES = (
    HOSTILE,
    ATTRIBUTE_BREAKER,
    MATHS,
    "price & tax",
    "a_rather_long_column_name_without_any_spaces_in_it_at_all",
)
TARGETS = ("first", HOSTILE, "third")
N_SAMPLES = 300


def make_network() -> TwoLayerNetwork:
    rng = np.random.default_rng(11)
    W = rng.normal(size=(4, len(NAMES)))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    return TwoLayerNetwork(W, rng.normal(size=4), rng.normal(size=(3, 4)), rng.normal(size=3))


def make_data(noise: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(12)
    X = rng.normal(size=(N_SAMPLES, len(NAMES)))
    return X, make_network()(X) + noise * rng.normal(size=(N_SAMPLES, 3))


def make_record(**changes: object) -> Recovery:
    record = Recovery(
        network=make_network(),
        outcome=Outcome.RECOVERED,
        guarantee=Guarantee.EXACT,
        evidence=(
            Evidence("samples", N_SAMPLES, 35, ">=", "equation (2)"),
            Evidence(f"dimension {HOSTILE}", 4, 4, "=="),
            Evidence("residual", 3e-15, 1e-10, "<="),
            Evidence("condition number", 812.5),
        ),
        uncertainty=Unavailable("The data carry no noise."),
        stats={"seconds": 0.25, "singular_values": np.array([4.0, 2.0, 1.0, 1e-16]), "odd": object()},
        provenance=Provenance("complementarity", "planted", {"tol": 1e-9}, 7, (N_SAMPLES, len(NAMES), 3)),
        detail=f"All samples are reproduced {HOSTILE}.",
        trace=(
            {"candidate": HOSTILE, "held_out_residual": 2e-15},
            {"candidate": "b", "held_out_residual": 0.5, "costs": [9.0, 4.0, 1.0]},
        ),
    )
    return replace(record, **changes)  # type: ignore[arg-type]


def report_of(record: Recovery) -> Report:
    return summarise(record, data=make_data(), feature_names=NAMES, target_names=TARGETS)


def make_report(**changes: object) -> Report:
    return report_of(make_record(**changes))


def standard_errors(size: float) -> Uncertainty:
    net = make_network()
    return Uncertainty({key: np.full(getattr(net, key).shape, size) for key in "WbAc"}, 0.1)


def section(report: Report, name: str) -> Section:
    return next(item for item in report.sections if item.name == name)


def test_verdict_is_the_outcome_in_its_own_words() -> None:
    verdict = make_report(outcome=Outcome.NOT_IDENTIFIABLE, detail="Unit 3 is always on.").verdict
    assert (verdict.outcome, verdict.tone) == ("NOT_IDENTIFIABLE", "bad")
    assert verdict.sentence == Outcome.NOT_IDENTIFIABLE.meaning
    assert verdict.advice == Outcome.NOT_IDENTIFIABLE.advice
    assert verdict.detail == "Unit 3 is always on."


def test_only_recovered_looks_like_success() -> None:
    tones = {outcome: make_report(outcome=outcome).verdict.tone for outcome in Outcome}
    assert [outcome for outcome, tone in tones.items() if tone == "good"] == [Outcome.RECOVERED]
    assert tones[Outcome.FITTED] == "caution"


def test_evidence_table_has_need_measurement_and_verdict() -> None:
    failing = Evidence("held-out residual", 0.3, 1e-9, "<=")
    part = section(make_report(evidence=(*make_record().evidence, failing)), "evidence")
    table, measured = part.blocks
    assert isinstance(table, Table) and isinstance(measured, Table)
    assert table.columns[1] == "The theorem needs"
    assert table.rows[0] == ("samples — equation (2)", "≥ 35", "300", "holds")
    assert table.rows[3] == ("held-out residual", "≤ 1e-09", "0.3", "fails")
    assert table.marks == ("pass", "pass", "pass", "fail")
    assert measured.rows == (("condition number", "812.5"),)  # what has no limit stands apart
    assert part.paragraphs[0].startswith("3 of 4 requirements hold")


def test_a_method_without_a_theorem_claims_none() -> None:
    source = Provenance("small-network", "planted", {}, 0, (30, 2, 1))
    part = section(make_report(provenance=source, network=None), "evidence")
    assert part.blocks[0].columns[1] == "Needed" and "theorem" not in str(part)


def context(line: float, network: float) -> dict[str, object]:
    sizes = {"mean": 2.0, "line": line, "network": network}
    return {
        "context": [
            {"model": name, "parameters": 3, "r2": 0.5, "error": size} for name, size in sizes.items()
        ]
    }


@pytest.mark.parametrize(
    "line, network, words",
    [
        (1.0, 0.5, "75% below that of a straight line"),
        (1.0, 0.995, "A straight line predicts as well"),
        (0.5, 1.0, "Use a straight line: its squared error on new samples is 75% below"),
    ],
)
def test_a_fit_stands_beside_a_line(line: float, network: float, words: str) -> None:
    source = Provenance("small-network", "planted", {}, 0, (N_SAMPLES, len(NAMES), 3))
    report = make_report(outcome=Outcome.FITTED, provenance=source, stats=context(line, network))
    assert words in report.verdict.advice and "collect more samples" not in report.verdict.advice
    (table,) = section(report, "context").blocks
    assert [row[0] for row in table.rows] == ["the mean", "a straight line", "this network"]
    assert table.rows[1][3] == f"{line:g}"


def test_advice_names_options_that_the_entry_has() -> None:
    source = Provenance("identify", "Carlini2020", {}, 0, (30, 2, 1))
    asked = make_report(outcome=Outcome.STOPPED_EARLY, provenance=source, network=None).verdict.advice
    assert "--budget" in asked and "restarts" not in asked and "hidden" not in asked
    searched = make_report(outcome=Outcome.STOPPED_EARLY, network=None).verdict.advice
    assert "--effort thorough" in searched and "--hidden" in searched


def test_units_are_sorted_by_output_norm_times_activity() -> None:
    W = np.eye(3)
    net = TwoLayerNetwork(W, A=[[1.0, 5.0, 2.0]])
    X = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [1.0, -1.0, 1.0], [1.0, -1.0, -1.0]])
    record = make_record(network=net, provenance=Provenance("m", "planted", {}, 0, (4, 3, 1)))
    table = next(
        block
        for block in section(summarise(record, data=(X, net(X))), "network").blocks
        if isinstance(block, Table)
    )
    # Activity 1, 1/4, 3/4 times norm 1, 5, 2 is 1, 1.25, 1.5.
    assert [row[1] for row in table.rows] == ["1.5", "1.25", "1"]
    assert [row[2] for row in table.rows] == ["75 %", "25 %", "100 %"]
    assert [row[4] for row in table.rows] == ["x3 (1)", "x2 (1)", "x1 (1)"]


def test_intervals_are_given_or_their_absence_is_explained() -> None:
    without = section(make_report(), "network")
    assert "The data carry no noise." in without.paragraphs[1]
    assert not [block for block in without.blocks if isinstance(block, Figure) and block.kind == "intervals"]
    part = section(make_report(uncertainty=standard_errors(0.5)), "network")
    figure = next(block for block in part.blocks if isinstance(block, Figure) and block.kind == "intervals")
    np.testing.assert_allclose(
        np.subtract(figure.data["high"], figure.data["values"]), 1.96 * 0.5, rtol=1e-12
    )
    np.testing.assert_allclose(np.subtract(figure.data["values"], figure.data["low"]), 1.96 * 0.5, rtol=1e-12)


def test_predictions_come_from_the_network() -> None:
    X, Y = make_data(noise=0.1)
    record = make_record()
    part = section(summarise(record, data=(X, Y)), "fit")
    figure = part.blocks[0]
    assert isinstance(figure, Figure)
    assert record.network is not None
    (series,) = figure.data["series"]
    np.testing.assert_array_equal(series["x"], record.network(X).ravel())
    np.testing.assert_array_equal(series["y"], Y.ravel())
    assert f"{np.abs(Y - record.network(X)).max():.3g}" in part.paragraphs[0]


def test_many_rows_are_thinned_to_two_thousand() -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(5001, len(NAMES)))
    part = section(summarise(make_record(), data=(X, make_network()(X))), "fit")
    assert "1,667 evenly spaced rows" in part.paragraphs[0]


def test_the_gap_of_the_spectrum_is_named() -> None:
    figure = next(block for block in section(make_report(), "search").blocks if isinstance(block, Figure))
    assert "after position 3, from 1 to 1e-16" in figure.alt


def test_the_trace_shows_candidates_and_the_ends_of_lists() -> None:
    score, curves, table = section(make_report(), "search").blocks[1:]
    assert isinstance(score, Figure) and isinstance(curves, Figure) and isinstance(table, Table)
    assert score.title == "Candidates by held out residual" and score.data["series"][0]["y"] == [2e-15, 0.5]
    assert table.rows[1] == ("2", "b", "0.5", "9 → 1 in 3")


def test_the_loss_curves_of_all_attempts_are_drawn_the_best_on_top() -> None:
    attempts = (
        {"start": "random", "costs": [9.0, 1e-20], "dead_units": 2},
        {"start": "random", "costs": (8.0, 4.0, 0.0), "dead_units": 1},
        {"start": "path", "costs": []},
        {"start": "warm", "costs": "lost"},
    )
    report = make_report(trace=attempts, network=None)  # figures of the network are drawn elsewhere
    figure = next(b for b in section(report, "search").blocks if isinstance(b, Figure) and b.kind == "curves")
    assert figure.data["curves"] == [[8.0, 4.0], [9.0, 1e-20]]
    assert "2 attempts; the best, step 1, fell from 9 to 1e-20 in 2 steps" in figure.alt
    assert "taken away in all attempts: 3." in figure.alt
    drawing = next(
        d for d in re.findall(r"<svg.*?</svg>", report.html(), flags=re.DOTALL) if figure.alt[:20] in d
    )
    assert "accepted step" in drawing and drawing.count("var(--fig-accent)") >= 1


def test_a_narrow_logarithmic_axis_is_labelled_in_plain_numbers() -> None:
    report = make_report(stats={"spectrum": [400.0, 270.0, 135.0]}, network=None)
    drawing = re.findall(r"<svg.*?</svg>", report.html(), flags=re.DOTALL)[-3]
    labels = re.findall(r"<text[^>]*>([^<]*)</text>", drawing)
    assert "200" in labels and not [label for label in labels if "$" in label or "\\" in label]


@pytest.mark.parametrize(
    "changes",
    [
        {"network": None, "outcome": Outcome.SOLVER_FAILED},
        {"evidence": (), "stats": {}, "trace": (), "detail": ""},
        {
            "network": None,
            "stats": {
                "singular_values": "lost",
                "spectrum": [np.nan, 1.0],
                "eigenvalues": [[1.0]],
                "seconds": None,
            },
        },
        {"network": None, "trace": ({"loss": None}, {"other": "x"}, {})},
        {"network": None, "stats": {"singular_values": [0.0, 0.0]}},
    ],
    ids=["no network", "bare", "odd spectra", "odd trace", "zero spectrum"],
)
def test_a_record_that_lacks_things_is_still_reported(changes: dict[str, object]) -> None:
    report = make_report(**changes)
    page = report.html()
    assert page.count("<h1>") == 1
    assert report.verdict.outcome.replace("_", " ") in page
    assert json.loads(report.json())["verdict"]["outcome"] == report.verdict.outcome
    assert report.verdict.outcome in report.text()


def test_a_constant_output_and_a_zero_network_are_drawn() -> None:
    net = TwoLayerNetwork(np.zeros((1, len(NAMES))), A=np.zeros((3, 1)))
    X = make_data()[0]
    assert "<svg" in summarise(make_record(network=net), data=(X, np.zeros((N_SAMPLES, 3)))).html()


def test_json_is_strict_and_holds_the_record() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    content = json.loads(make_report().json(), parse_constant=refuse)
    assert content["record"]["outcome"] == "RECOVERED"
    assert content["record"]["evidence"][3]["required"] is None
    np.testing.assert_array_equal(content["record"]["network"]["W"], make_network().W)


def test_plain_data_keep_their_values() -> None:
    value = {
        "a": np.float64(1.5),
        "b": (np.int64(2), np.bool_(True)),
        "c": np.array([np.inf, 0.1]),
        "d": Outcome.FITTED,
    }
    assert to_plain(value) == {"a": 1.5, "b": [2, True], "c": [None, 0.1], "d": "FITTED"}


def test_html_is_the_same_twice() -> None:
    assert report_of(record_of("recovered")).html() == rendered("recovered")


def test_html_escapes_every_name() -> None:
    page = rendered("recovered")
    assert "<script" not in page
    assert "<img" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 3


def test_html_identifiers_are_unique_and_resolved() -> None:
    page = rendered("with intervals")
    identifiers = re.findall(r'\bid="([^"]*)"', page)
    assert len(identifiers) == len(set(identifiers))
    references = re.findall(r'url\(#([^)]*)\)|href="#([^"]*)"|aria-labelledby="([^"]*)"', page)
    assert {name for match in references for name in match if name} <= set(identifiers)


def test_figures_use_the_colours_of_the_page_alone() -> None:
    drawings = re.findall(r"<svg.*?</svg>", rendered("recovered"), flags=re.DOTALL)
    assert len(drawings) >= 5
    for drawing in drawings:
        ElementTree.fromstring(drawing)
        assert set(re.findall(r"#[0-9a-f]{6}\b", drawing)) <= {"#ffffff"}  # the transparent background
        assert "var(--fig-" in drawing


def test_notebook_forms_are_isolated_and_escaped() -> None:
    frame = make_report(network=None)._repr_html_()  # names stand in the evidence, too
    assert frame.startswith("<iframe") and 'sandbox=""' in frame and "<script" not in frame
    assert "script" in frame and "dimension" in frame
    markup = make_record()._repr_html_()
    assert "<script" not in markup
    assert "&lt;script&gt;" in markup
    assert "RECOVERED" in markup and "812.5" in markup
    ElementTree.fromstring(markup)


def test_a_comparison_shows_each_contender() -> None:
    weights = {"best run": ((1.0, 2.0), (1.0, 2.5))}
    contenders = (
        Contender("planted", (2e-14, 3e-14), (1e-28, 2e-28), 1.0, "this is the network", weights),
        Contender("rival", (float("inf"),), (0.2,), 9.0, "a fit", {}),
    )
    part = compare_section(contenders, title="The story", story=("Once.",))
    table, *figures = part.blocks
    assert isinstance(table, Table)
    assert table.rows[0] == ("planted", "2", "2e-14", "3e-14", "1e-28", "2e-28", "1", "this is the network")
    assert table.rows[1][2:4] == ("∞", "∞")
    assert [figure.title for figure in figures] == ["Weights found by planted"]
    assert isinstance(figures[0], Figure) and "0.5 in the best run" in figures[0].alt
    longer = make_report().with_sections(part, title="Planted, hidden, found")
    assert longer.sections[0] is part and len(longer.sections) == len(make_report().sections) + 1


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=str(CHROMIUM), args=CHROMIUM_FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: object, tmp_path: Path) -> Iterator[object]:
    """Open the report in a real browser; whatever it complains about, asks for or pops up is a failure."""
    faults: list[str] = []
    contexts = []

    def visit(kind: str, width: int = 1200, scheme: str = "light") -> object:
        file = tmp_path / "report.html"
        file.write_text(rendered(kind), encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[attr-defined]
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: faults.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        own = file.as_uri()

        def route(request: object) -> None:
            address = request.request.url  # type: ignore[attr-defined]
            if address == own:
                request.continue_()  # type: ignore[attr-defined]
            else:
                faults.append(f"request: {address}")
                request.abort()  # type: ignore[attr-defined]

        page.route("**/*", route)
        page.goto(own, wait_until="load")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert faults == []


KINDS: dict[str, dict[str, object]] = {
    "recovered": {},
    "with intervals": {"uncertainty": standard_errors(0.2), "outcome": Outcome.FITTED},
    "no network": {"network": None, "outcome": Outcome.TOO_FEW_SAMPLES},
}


@functools.cache
def record_of(kind: str) -> Recovery:
    return make_record(**KINDS[kind])


@functools.cache
def rendered(kind: str) -> str:
    return report_of(record_of(kind)).html()


@pytest.mark.browser
def test_hostile_names_are_text(open_page: object) -> None:
    page = open_page("recovered")  # type: ignore[operator]
    assert page.evaluate("document.querySelectorAll('script, img, iframe, object, embed').length") == 0
    cells = page.locator("th, td").all_text_contents()
    assert any(HOSTILE in cell for cell in cells)
    assert page.locator(".verdict").inner_text().count(HOSTILE) == 1
    assert (
        HOSTILE[:17] in page.locator("#network svg").first.text_content()
    )  # labels of figures are shortened


@pytest.mark.browser
@pytest.mark.parametrize("kind", KINDS)
def test_the_page_never_scrolls_sideways(open_page: object, kind: str) -> None:
    width = 390
    page = open_page(kind, width=width)  # type: ignore[operator]
    page.evaluate("document.querySelectorAll('details').forEach(item => item.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        """width => [...document.querySelectorAll('p, h1, h2, figure, svg, pre, dl, .table')]
        .filter(item => item.getBoundingClientRect().right > width + 0.5)
        .map(item => item.outerHTML.slice(0, 80))""",
        width,
    )
    assert outside == []


@pytest.mark.browser
def test_accessible_names_headings_and_tables(open_page: object) -> None:
    page = open_page("with intervals")  # type: ignore[operator]
    assert page.evaluate("document.documentElement.lang") == "en"
    n_figures = page.locator("figure").count()
    assert n_figures >= 6
    assert page.get_by_role("img").count() == n_figures
    names = page.evaluate(
        """[...document.querySelectorAll('svg')].map(
        item => document.getElementById(item.getAttribute('aria-labelledby'))?.textContent ?? '')"""
    )
    assert len(names) == n_figures and all(len(name.split()) >= 5 for name in names)
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(item => +item.tagName[1])")
    assert levels.count(1) == 1 and levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert page.evaluate(
        "[...document.querySelectorAll('th')].every(cell => cell.scope === 'row' || cell.scope === 'col')"
    )
    assert page.evaluate(
        "[...document.querySelectorAll('.table')].every(box => box.tabIndex === 0 && box.ariaLabel)"
    )


@pytest.mark.browser
def test_the_keyboard_reaches_the_content_and_shows_where_it_is(open_page: object) -> None:
    page = open_page("recovered")  # type: ignore[operator]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector('details').open")


# Contrast of WCAG 2: relative luminances of a text's colour and of the first opaque background behind it.
WORST_CONTRAST = """() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = item => {
    for (; item; item = item.parentElement) {
      const colour = parse(getComputedStyle(item).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  let worst = [99, ''];
  for (const item of document.querySelectorAll('body *')) {
    const own = [...item.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || item.tagName === 'title') continue;
    const inSvg = item.tagName === 'text' || item.tagName === 'tspan';
    const style = getComputedStyle(item);
    const pair = [light(parse(inSvg ? style.fill : style.color)), light(behind(item))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < worst[0]) worst = [ratio, item.tagName + ' ' + item.textContent.slice(0, 40)];
  }
  return worst;
}"""


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_text_has_a_contrast_of_at_least_4_5(open_page: object, scheme: str, kind: str) -> None:
    page = open_page(kind, scheme=scheme)  # type: ignore[operator]
    page.evaluate("document.querySelectorAll('details').forEach(item => item.open = true)")
    ratio, where = page.evaluate(WORST_CONTRAST)
    assert 4.5 <= ratio < 99, where


@pytest.mark.browser
def test_print_is_black_on_white_without_navigation(open_page: object) -> None:
    page = open_page("recovered", scheme="dark")  # type: ignore[operator]
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
