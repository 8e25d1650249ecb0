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
    np.savetxt(path, values, delimiter=",", header=",".join(columns), comments="", fmt="%.17g")
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
