"""Every figure of every paper in its small version: it runs, its columns are there, its files are written."""

import csv
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from planted.cli._main import app
from planted.reproduce import find_study, studies

FIGURES = [(paper, figure) for paper, figures in studies().items() for figure in figures]


@pytest.mark.parametrize(("paper", "figure"), FIGURES)
def test_a_figure_is_made(paper: str, figure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    study = find_study(paper, figure)
    monkeypatch.setattr(
        "planted.reproduce.find_study", lambda *names: lambda options: made.append(study(options)) or made[0]
    )
    result = CliRunner().invoke(
        app, ["reproduce", paper, "--figure", figure, "--quick", "--out", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output
    files = {path.suffix: path for path in tmp_path.iterdir() if path.name.startswith(made[0].name)}
    assert {".csv", ".md", ".svg"} <= set(files)
    with files[".csv"].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(made[0].rows) > 0
    for panel in made[0].panels:
        shown = [row for row in made[0].rows if panel.where.items() <= row.items()]
        assert shown
        assert all(math.isfinite(row[panel.x]) for row in shown)
        assert any(math.isfinite(row[panel.y]) for row in shown)
    assert made[0].claims
    assert all(claim.ours for claim in made[0].claims)
