"""Every figure of every paper, smaller still than with `--quick`: it runs, its columns are there, its files are written.

What the studies say is stored and shown in docs/papers.md (benchmarks/papers.py); here only that they can be made.
"""

import csv
import math
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from planted.cli._main import app
from planted.reproduce import find_study, studies

FIGURES = [(paper, figure) for paper, figures in studies().items() for figure in figures]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer steps, trials, epochs, units, rows and laws: whatever a study's numbers are, its steps are the same."""
    from planted.methods.symmetric_inputs import printed
    from planted.reproduce import (
        _images,
        _landscape_theorem,
        general_relu,
        landscape,
        rectified,
        symmetric_inputs,
    )

    stage, plan = landscape.Stage, landscape._Plan
    monkeypatch.setattr(landscape, "Stage", lambda steps, *rates: stage(max(steps // 50, 10), *rates))
    monkeypatch.setattr(
        landscape, "_Plan", lambda *given: replace(plan(*given), runs=2, size=4, record_every=5)
    )
    monkeypatch.setattr(_landscape_theorem, "QUICK_STARTS", 2)
    monkeypatch.setattr(_images, "QUICK_EPOCHS", 2)
    monkeypatch.setattr(printed, "SECTION_4_RUNS", 1)
    for module in (general_relu, rectified, symmetric_inputs):
        monkeypatch.setattr(module, "QUICK_TRIALS", 1)
    monkeypatch.setattr(rectified, "LAWS", ("gaussian", "rademacher"))
    monkeypatch.setattr(general_relu, "FRESH_ROWS", 4000)
    world, answer = symmetric_inputs.dataset, symmetric_inputs.recover
    for module, most in ((general_relu, 2000), (rectified, 200)):
        monkeypatch.setattr(
            module, "dataset", lambda n, *network, most=most, **given: world(min(n, most), *network, **given)
        )
    sizes = ("n_features", "n_hidden", "n_outputs")

    def few(n, *network, **given):
        return world(min(n, 1000), *network, **given | {name: 4 for name in sizes if name in given})

    monkeypatch.setattr(symmetric_inputs, "dataset", few)
    monkeypatch.setattr(
        symmetric_inputs, "recover", lambda X, Y, k, **given: answer(X, Y, min(k, Y.shape[1]), **given)
    )


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("paper", "figure"), FIGURES)
def test_a_figure_is_made(paper: str, figure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    study = find_study(paper, figure)
    monkeypatch.setattr(
        "planted.reproduce.find_study", lambda *names: lambda options: made.append(study(options)) or made[0]
    )
    result = CliRunner().invoke(
        app, ["reproduce", paper, "--figure", figure, "--quick", "--rows", "400", "--out", str(tmp_path)]
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
