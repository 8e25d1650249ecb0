"""`planted reproduce`: the list of papers, one figure with its files, the claim in a paper's text, unknown names."""

import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from planted.cli._main import app
from planted.reproduce import Agreement, Axes, Claim, Study, StudyOptions, find_study, studies
from planted.reproduce import _study as registry

run = CliRunner().invoke


def tiny_study(options: StudyOptions) -> Study:
    rows = [{"n": n, "error": 1 / n, "variant": v} for n in (10, 100) for v in ("a", "b")]
    panel = Axes("error", "n", "error", "variant", log_x=True)
    return Study(
        "tiny",
        f"quick {options.quick}, seed {options.seed}",
        rows,
        [panel],
        [Claim("0.15", "0.2", Agreement.DISAGREES)],
    )


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
    assert "0.15" in result.stdout and "disagrees" in result.stdout
    assert "| 0.15 | 0.2 | disagrees |" in (tmp_path / "tiny.md").read_text()
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".csv", ".md", ".svg"]
    assert (tmp_path / "tiny.csv").read_text().splitlines()[:2] == ["n,error,variant", "10,0.1,a"]


@pytest.mark.usefixtures("tiny")
def test_a_whole_paper_ends_with_one_table_of_all_claims(tmp_path: Path) -> None:
    result = run(app, ["reproduce", "symmetric-inputs", "--quick", "--out", str(tmp_path)])
    figures = studies()["symmetric-inputs"]
    assert result.exit_code == 0 and [figure for _, figure in asked] == list(figures)
    last = result.stdout[result.stdout.index("all figures") :]
    assert last.count("disagrees") == len(figures) and "the paper says" in last and "we measured" in last


@pytest.fixture
def sketched(tiny: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, and no time for drawing."""
    picture = "<svg>{title}</svg>"
    monkeypatch.setattr(
        "planted.reproduce._write.draw_panels", lambda rows, panels, *, title: picture.format(title=title)
    )


FILES = [f"{stem}{suffix}" for stem in ("tiny", "rectified-pair") for suffix in (".svg", ".csv", ".md")]
PAIR = ["reproduce", "rectified", "--figure", "pair", "--quick"]


@pytest.mark.usefixtures("sketched")
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "content", [b"precious", b"", b"<svg>mine</svg>\n<!-- written by planted reproduce; "]
)
def test_files_of_people_are_replaced_only_if_asked(tmp_path: Path, name: str, content: bytes) -> None:
    """Before the study, if its name is known before; else when it is written. Nothing else is written either."""
    (tmp_path / name).write_bytes(content)
    result = run(app, [*PAIR, "--out", str(tmp_path)])
    assert result.exit_code == 2 and "replace it with --force" in " ".join(result.stderr.split())
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [content]
    assert bool(asked) == name.startswith("tiny")
    assert run(app, [*PAIR, "--out", str(tmp_path), "--force"]).exit_code == 0


@pytest.mark.usefixtures("sketched")
@pytest.mark.parametrize("seed", range(4))
def test_own_figures_are_replaced_until_somebody_changes_them(tmp_path: Path, seed: int) -> None:
    """A run that was killed between two of its files is one's own, too."""
    draw = np.random.default_rng(seed)
    assert run(app, [*PAIR, "--out", str(tmp_path), "--seed", "1"]).exit_code == 0
    old = {name: (tmp_path / name).read_bytes() for name in FILES[:3]}
    assert run(app, [*PAIR, "--out", str(tmp_path), "--seed", "2"]).exit_code == 0
    for written in (1, 2):  # of three files, in their order
        for name in FILES[written:3]:
            (tmp_path / name).write_bytes(old[name])
        assert run(app, [*PAIR, "--out", str(tmp_path), "--seed", "3"]).exit_code == 0
    changed = tmp_path / FILES[int(draw.integers(3))]
    raw = bytearray(changed.read_bytes())
    place = int(draw.integers(len(raw)))
    raw[place : place + 1] = b"" if draw.random() < 0.5 else bytes([raw[place] ^ 1])
    changed.write_bytes(raw)
    result = run(app, [*PAIR, "--out", str(tmp_path), "--seed", "4"])
    assert result.exit_code == 2 and changed.name in result.stderr and changed.read_bytes() == bytes(raw)


@pytest.mark.usefixtures("sketched")
def test_a_place_that_cannot_be_a_folder_is_refused_before_the_work(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("mine")
    for place in ("file", "file/below", "file/below/further"):
        result = run(app, [*PAIR, "--out", str(tmp_path / place)])
        assert result.exit_code == 2 and "is a file; expected a folder" in " ".join(result.stderr.split())
    monkeypatch.setattr("os.access", lambda path, mode: not mode & os.W_OK)
    for place in ("", "new", "new/below"):
        result = run(app, [*PAIR, "--out", str(tmp_path / place)])
        assert result.exit_code == 2 and "may not be written to" in " ".join(result.stderr.split())
    assert not asked and [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("content", ["mine", "{}", "[1]", '{"settings": [], "runs": {}}', "[" * 100_000])
def test_runs_that_planted_did_not_keep_are_refused(tmp_path: Path, content: str) -> None:
    kept = tmp_path / "landscape-figure-1.runs.json"
    kept.write_text(content)
    result = run(app, ["reproduce", "landscape", "--figure", "1", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 2 and "holds no runs that planted kept" in " ".join(result.stderr.split())
    assert kept.read_text() == content


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
