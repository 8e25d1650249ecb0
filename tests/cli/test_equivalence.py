"""`compare --box`, `--match` and `export --check`: exit codes, what is printed, and that the two ends enclose the truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from planted import DeepNetwork
from planted.cli._main import app


def invoke(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def nets(tmp_path: Path) -> dict[str, Path]:
    rng = np.random.default_rng(5)
    layers = [(rng.standard_normal((6, 3)), rng.standard_normal(6)), (rng.standard_normal((4, 6)), None)]
    layers.append((rng.standard_normal((2, 4)), rng.standard_normal(2)))
    order = rng.permutation(6)
    (W, b), (V, c), last = layers
    moved = [((3 * W)[order], (3 * b)[order]), ((V / 3)[:, order], c), last]
    shifted = [(W, b), (V, c), (last[0], last[1] + [0.25, 0.0])]
    other = [(rng.standard_normal(W.shape), b), (rng.standard_normal(V.shape), c), last]
    paths = {}
    for name, made in (("net", layers), ("moved", moved), ("shifted", shifted), ("other", other)):
        paths[name] = tmp_path / f"{name}.safetensors"
        DeepNetwork(made).save(paths[name])
    return paths


def test_compare_proves_and_refutes_on_a_box(nets: dict[str, Path]) -> None:
    assert invoke("compare", nets["net"], nets["moved"], "--box", -1, 1, "--tol", 1e-9).exit_code == 0
    result = invoke("compare", nets["net"], nets["shifted"], "--box", -1, 1, "--tol", 0.2, "--json")
    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert answer["difference"] == pytest.approx(0.25) and answer["bound"] == pytest.approx(0.25, rel=1e-6)
    assert answer["equal"] is False and answer["bounds"][1] == pytest.approx(0.0, abs=1e-12)
    assert invoke("compare", nets["net"], nets["shifted"], "--box", -1, 1, "--tol", 0.3).exit_code == 0
    undecided = invoke("compare", nets["net"], nets["other"], "--box", -1, 1, "--tol", 1e3, "--budget", 0)
    assert undecided.exit_code in (0, 4)


def test_a_box_from_a_table(nets: dict[str, Path], tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("a,b,c\n0,0,0\n1,0.5,2\n")
    result = invoke("compare", nets["net"], nets["shifted"], "--box-from", table, "--tol", 0.3, "--json")
    assert result.exit_code == 0 and json.loads(result.stdout)["bound"] == pytest.approx(0.25, rel=1e-6)


def test_match_tells_copies_from_others(nets: dict[str, Path]) -> None:
    copied = invoke("compare", nets["net"], nets["moved"], "--match", "--json")
    assert copied.exit_code == 0 and json.loads(copied.stdout)["relation"] == "rearranged"
    assert (
        json.loads(invoke("compare", nets["net"], nets["shifted"], "--match", "--json").stdout)["share"]
        == 1.0
    )
    strange = invoke("compare", nets["net"], nets["other"], "--match")
    assert strange.exit_code == 1 and "UNRELATED" in strange.stdout


def test_export_checks_rounded_copies(nets: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "net.onnx"
    words = ("export", nets["net"], "--to", "onnx", "--precision", "float32", "--out", out, "--json")
    kept = invoke(*words, "--check", 1e-3, "--box", -1, 1)
    assert kept.exit_code == 0
    copies = json.loads(kept.stdout)["copies"]
    assert copies["float32"]["is_equal"] is True
    assert all(copy["difference"] <= copy["bound"] for copy in copies.values())
    assert copies["int8 per tensor"]["is_equal"] is False
    assert invoke(*words, "--check", 1e-12, "--box", -1, 1, "--force").exit_code == 1


@pytest.mark.parametrize(
    "words",
    [
        ("--box", 1, -1),
        ("--box", "nan", 1),
        ("--box", 0, "inf"),
        ("--budget", 3),
        ("--box", 0, 1, "--budget", -1),
    ],
)
def test_bad_boxes_are_bad_input(words: tuple[Any, ...], nets: dict[str, Path]) -> None:
    assert invoke("compare", nets["net"], nets["moved"], *words).exit_code == 2
