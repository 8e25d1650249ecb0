"""`planted reproduce`: the list of papers, one figure with its files, the claim in a paper's text, unknown names."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from planted.cli._main import app
from planted.reproduce import Axes, Claim, Study, StudyOptions, find_study, studies
from planted.reproduce import _study as registry

run = CliRunner().invoke


def tiny_study(options: StudyOptions) -> Study:
    rows = [{"n": n, "error": 1 / n, "variant": v} for n in (10, 100) for v in ("a", "b")]
    panel = Axes("error", "n", "error", "variant", log_x=True)
    return Study("tiny", f"quick {options.quick}, seed {options.seed}", rows, [panel], [Claim("0.15", "0.2")])


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every name of a figure the same small study."""
    monkeypatch.setattr(
        "planted.reproduce.find_study", lambda paper, figure: asked.append((paper, figure)) or tiny_study
    )
    asked.clear()


asked: list[tuple[str, str]] = []


def test_papers_are_listed_with_their_figures() -> None:
    result = run(app, ["reproduce"])
    assert result.exit_code == 0
    for paper in studies():
        assert paper in result.stdout


@pytest.mark.usefixtures("tiny")
def test_a_figure_is_written_with_its_numbers_and_claims(tmp_path: Path) -> None:
    result = run(
        app,
        ["reproduce", "symmetric-inputs", "--figure", "2", "--quick", "--seed", "4", "--out", str(tmp_path)],
    )
    assert result.exit_code == 0, result.output
    assert asked == [("symmetric-inputs", "2")]
    assert "quick True, seed 4" in result.stdout
    assert "0.15" in result.stdout
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".csv", ".md", ".svg"]
    assert (tmp_path / "tiny.csv").read_text().splitlines()[:2] == ["n,error,variant", "10,0.1,a"]


@pytest.mark.usefixtures("tiny")
def test_text_is_the_claim_in_the_text(tmp_path: Path) -> None:
    assert (
        run(app, ["reproduce", "symmetric-inputs", "--text", "--quick", "--out", str(tmp_path)]).exit_code
        == 0
    )
    assert asked == [("symmetric-inputs", "text")]


@pytest.mark.parametrize("arguments", [["nobody21"], ["symmetric-inputs", "--figure", "99"]])
def test_unknown_names_are_refused_with_the_known_ones(arguments: list[str]) -> None:
    result = run(app, ["reproduce", *arguments])
    assert result.exit_code == 2
    assert "symmetric-inputs" in result.output


@pytest.mark.parametrize("paper", registry._MODULES)
def test_every_registered_figure_exists(paper: str) -> None:
    assert studies()[paper]
    for figure in studies()[paper]:
        assert callable(find_study(paper, figure))


def test_the_claim_of_the_text_is_measured() -> None:
    """Three trials of Algorithm 2 as printed: the paper's variant is orders of magnitude behind the efficient one."""
    study = find_study("symmetric-inputs", "text")(StudyOptions(quick=True, seed=3))
    errors: dict[str, list[float]] = {}
    for row in study.rows:
        if row["quantity"] == "A":
            errors.setdefault(row["variant"], []).append(row["error"])
    assert len(errors["paper"]) == 3
    assert max(errors["efficient"]) < 1e-20
    assert min(errors["paper"]) > 1e-3
