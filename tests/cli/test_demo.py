"""The demonstration finds what it planted, says how it knows, and leaves a page behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from planted.cli import app
from planted.cli.commands import _rivals


@pytest.fixture(autouse=True)
def one_quick_rival(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_rivals, "N_RUNS", 1)
    monkeypatch.setattr(_rivals, "RIVALS", {"lbfgs": {"max_iter": 20}})


def cells(line: str) -> list[str]:
    return line.split()


def test_the_demo_tells_its_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["demo", "--seed", "31"])
    assert result.exit_code == 0, result.output
    assert [word for word in ("Planted.", "Seen.", "Asked.", "Found.") if word not in result.stdout] == []
    assert "RECOVERED" in result.stdout
    table = result.stdout.partition("several answers")[2].splitlines()
    ours = next(cells(line) for line in table if line.strip().startswith("planted"))
    rival = next(cells(line) for line in table if line.strip().startswith("MLPRegressor"))
    # Noiseless data of order one are recovered to rounding; twenty iterations of a rival cannot be.
    assert float(ours[2]) <= 1e-12 < 1e-3 < float(rival[2])
    page = (tmp_path / "planted-demo.html").read_text(encoding="utf-8")
    assert "<title>Planted, hidden, found" in page
    assert "Weights found by planted" in page and "Weights found by MLPRegressor" in page
    again = CliRunner().invoke(app, ["demo", "--seed", "32"])
    assert again.exit_code == 0, again.output
    assert (tmp_path / "planted-demo.html").read_text(encoding="utf-8") != page
