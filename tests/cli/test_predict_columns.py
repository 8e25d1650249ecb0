"""`planted predict` finds the inputs by name: columns in any order, others left out, missing ones refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from planted import simulate
from planted.cli import app

RUNNER = CliRunner()


def table_of(columns: dict[str, np.ndarray], path: Path) -> Path:
    values = np.column_stack(list(columns.values()))
    np.savetxt(
        path,
        values,
        delimiter=",",
        header=",".join(f'"{name}"' for name in columns),
        comments="",
        fmt="%.17g",
    )
    return path


@pytest.mark.parametrize("seed", range(3))
def test_columns_are_found_by_name(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([9, seed])
    d = int(rng.integers(3, 6))
    data = simulate.dataset(
        200, n_features=d, n_hidden=2, n_outputs=3, activity=(0.3, 0.7), random_state=seed
    )
    inputs = {f"in_{j}": data.X[:, j] * 10.0**j for j in range(d)}
    outputs = {name: data.Y[:, j] for j, name in enumerate(("a", "b", "c"))}
    source, net = table_of(inputs | outputs, tmp_path / "rows.csv"), tmp_path / "net.safetensors"
    answer = RUNNER.invoke(
        app, ["recover", str(source), "--targets", *outputs, "--seed", "0", "--out", str(net)]
    )
    assert answer.exit_code == 0, answer.output
    order = rng.permutation(d)
    mixed = {"more": np.ones(200)} | {f"in_{j}": inputs[f"in_{j}"] for j in order}
    out = tmp_path / "predicted.csv"
    call = ["predict", str(net), str(table_of(mixed, tmp_path / "mixed.csv")), "--out", str(out)]
    answer = RUNNER.invoke(app, call)
    assert answer.exit_code == 0, answer.output
    assert out.read_text().splitlines()[0].replace('"', "") == "a,b,c"
    np.testing.assert_allclose(np.loadtxt(out, delimiter=",", skiprows=1), data.Y, atol=1e-9)
    del mixed["in_1"]
    lacking = table_of(mixed, tmp_path / "lacking.csv")
    answer = RUNNER.invoke(app, ["predict", str(net), str(lacking)])
    assert answer.exit_code == 2
    assert "in_1" in answer.output


WAYS = {
    "in blocks": ["--stream"],
    "checkpoint": ["--checkpoint", "kept"],
    "weights": ["--weights", "w"],
    "folder": [],
    "sums": [],
}


@pytest.mark.parametrize("way", WAYS)
def test_rows_that_are_not_read_whole_keep_their_names(way: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng([10, len(way)])
    data = simulate.dataset(300, n_features=3, n_hidden=2, n_outputs=2, random_state=len(way))
    names = [str(name) for name in rng.permutation(["mass", "age", "b"])]
    targets = ["y", "z"] if len(way) % 2 else ["y,z", "z"]  # a comma in a name is part of it
    columns = {name: data.X[:, j] for j, name in enumerate(names)}
    columns |= {name: data.Y[:, j] for j, name in enumerate(targets)}
    weights = {"w": np.ones(300)} if way == "weights" else {}
    (tmp_path / "rows").mkdir()
    source = str(table_of(columns | weights, tmp_path / "rows" / "rows.csv"))
    words = ["recover", "rows" if way == "folder" else source, "--targets", *targets]
    if way == "sums":
        for out in ("a.sums", "b.sums"):
            assert RUNNER.invoke(app, ["sums", source, "--targets", *targets, "--out", out]).exit_code == 0
        words = ["recover", "--sums", "a.sums", "b.sums"]
    answer = RUNNER.invoke(
        app, [*words, *WAYS[way], "--hidden", "2", "--seed", "0", "--out", "net.safetensors"]
    )
    assert answer.exit_code in (0, 1), answer.output
    mixed = table_of({name: columns[name] for name in sorted(columns)}, tmp_path / "mixed.csv")
    answer = RUNNER.invoke(app, ["predict", "net.safetensors", str(mixed), "--out", "answers.csv"])
    assert answer.exit_code == 0, answer.output
    assert Path("answers.csv").read_text().splitlines()[0].replace('"', "") == ",".join(targets)
    np.testing.assert_allclose(np.loadtxt("answers.csv", delimiter=",", skiprows=1), data.Y, atol=1e-6)


@pytest.mark.parametrize("changed", ["features", "targets"])
def test_sums_of_different_columns_are_not_merged(changed: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng([11, len(changed)])
    for out, names in (
        ("a", ["p", "q", "y"]),
        ("b", ["q", "p", "y"] if changed == "features" else ["p", "q", "z"]),
    ):
        source = table_of(
            dict(zip(names, rng.standard_normal((3, 20)), strict=True)), tmp_path / f"{out}.csv"
        )
        assert RUNNER.invoke(app, ["sums", str(source), "--out", f"{out}.sums"]).exit_code == 0
    answer = RUNNER.invoke(app, ["recover", "--sums", "a.sums", "b.sums"])
    assert answer.exit_code == 2 and f"b.sums has the {changed}" in " ".join(answer.stderr.split())


def test_names_that_cannot_be_kept_are_left_out_with_a_word(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(12)
    source = table_of({"a\x1b[2J": rng.random(20), "y": rng.random(20)}, tmp_path / "rows.csv")
    answer = RUNNER.invoke(app, ["sums", str(source), "--out", "a.sums"])
    assert answer.exit_code == 0 and "names of the columns are not kept" in " ".join(answer.stderr.split())
    assert RUNNER.invoke(app, ["recover", "--sums", "a.sums", "--hidden", "1", "--seed", "0"]).exit_code in (
        0,
        1,
    )


@pytest.mark.parametrize("seed", range(2))
def test_intervals_hold_as_many_new_outputs_as_they_say(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([17, seed])
    x = rng.uniform(0, 10, 700)
    y = 1.5 * x - 2 * np.maximum(x - 4, 0) + 0.5 * rng.standard_normal(700)
    source, net = table_of({"x": x[:300], "y": y[:300]}, tmp_path / "rows.csv"), tmp_path / "net.safetensors"
    RUNNER.invoke(app, ["recover", str(source), "--targets", "y", "--seed", "0", "--out", str(net)])
    fresh = table_of({"x": x[300:]}, tmp_path / "fresh.csv")
    answer = RUNNER.invoke(app, ["predict", str(net), str(fresh), "--interval", "0.9"])
    assert answer.exit_code == 0, answer.output
    head, *rows = answer.output.splitlines()
    assert head == "y,y_low,y_high"
    middle, low, high = np.array([row.split(",") for row in rows], dtype=float).T
    np.testing.assert_allclose(middle, (low + high) / 2)
    covered = ((low <= y[300:]) & (y[300:] <= high)).mean()
    assert abs(covered - 0.9) < 4 * np.sqrt(0.9 * 0.1 / 400) + 0.02  # the noise itself is estimated


def test_a_file_without_noise_has_no_intervals(tmp_path: Path) -> None:
    net = tmp_path / "net.safetensors"
    simulate.teacher(1, 1, 1, random_state=0).save(net)
    fresh = table_of({"x": np.arange(3.0)}, tmp_path / "fresh.csv")
    answer = RUNNER.invoke(app, ["predict", str(net), str(fresh), "--interval", "0.9"])
    assert answer.exit_code == 2 and "noise" in answer.output + str(answer.exception)
    simulate.teacher(1, 1, 1, random_state=0).save(net, noise=(0.5, 20.0))
    assert RUNNER.invoke(app, ["predict", str(net), str(fresh), "--interval", "0.9"]).exit_code == 0
    wrong = RUNNER.invoke(app, ["predict", str(net), str(fresh), "--interval", "1.5"])
    assert wrong.exit_code == 2
