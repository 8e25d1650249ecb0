"""The commands identify, export, simplify and compare on models: output, exit codes, files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from planted import TwoLayerNetwork, export_network, import_network, load_network, parameter_error, simulate
from planted.cli import app

NET = simulate.teacher(4, 3, 2, bias=(-0.5, 0.5), random_state=8)


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in arguments])


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "net.safetensors"
    NET.save(path)
    return path


def test_identify_an_onnx_file(tmp_path: Path) -> None:
    model, out, log = tmp_path / "net.onnx", tmp_path / "out.safetensors", tmp_path / "queries.log"
    export_network(NET, model)
    result = invoke("identify", model, "--seed", 1, "--out", out, "--log", log, "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert record["outcome"] == "RECOVERED" and record["stats"]["queries"] > 0
    assert parameter_error(load_network(out), NET) < 1e-11
    again = json.loads(invoke("identify", model, "--seed", 1, "--log", log, "--json").stdout)
    assert again["stats"]["reused"] > 0 and again["stats"]["queries"] < record["stats"]["queries"]


def test_identify_a_command(tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text("import sys\nfor line in sys.stdin:\n    print(max(float(line), 0.25))\n")
    result = invoke("identify", "--inputs", 1, "--seed", 0, "--", sys.executable, script)
    assert result.exit_code == 0, result.output
    assert "RECOVERED" in result.stdout


def test_identify_refuses_with_exit_code_1_and_bad_input_with_2(tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    export_network(TwoLayerNetwork(NET.W, NET.b, NET.A, activation="quadratic"), model)
    refused = invoke("identify", model, "--seed", 0)
    assert refused.exit_code == 1 and "ASSUMPTION FAILED" in refused.stdout
    model.write_bytes(b"no model")
    broken = invoke("identify", model)
    assert broken.exit_code == 2 and "net.onnx" in broken.stderr
    export_network(NET, model)
    assert invoke("identify", model, "--budget", 60, "--seed", 0).exit_code == 1


@pytest.mark.parametrize(
    ("to", "suffix"), [("onnx", ".onnx"), ("json", ".json"), ("torch", ".torch.safetensors")]
)
def test_export_writes_beside_the_network(to: str, suffix: str, saved: Path) -> None:
    result = invoke("export", saved, "--to", to)
    assert result.exit_code == 0, result.output
    target = saved.with_suffix(suffix)
    assert result.stdout.split() == [str(target)]
    assert parameter_error(import_network(target), NET) == 0.0


def test_export_states_the_rounding_error_and_refuses_unknown_formats(saved: Path, tmp_path: Path) -> None:
    result = invoke("export", saved, "--to", "c", "--precision", "float32", "--out", tmp_path / "a.h")
    assert result.exit_code == 0 and "changes outputs by up to" in result.stderr
    assert invoke("export", saved, "--to", "pickle").exit_code == 2
    assert invoke("export", tmp_path / "absent.safetensors", "--to", "c").exit_code == 2


def test_simplify_tells_what_happened(tmp_path: Path) -> None:
    path, out = tmp_path / "big.safetensors", tmp_path / "small.safetensors"
    TwoLayerNetwork(W=[[1.0], [2.0], [0.0]], A=[[1.0, 1.0, 5.0]]).save(path)
    result = invoke("simplify", path, "--out", out, "--json")
    assert result.exit_code == 0
    expected = {
        "units_before": 3,
        "units_after": 1,
        "dropped": [2],
        "merged": [[0, 1]],
        "cancelled": [],
        "equal": True,
    }
    assert json.loads(result.stdout) == expected
    assert load_network(out).n_hidden == 1
    assert "merged: (0, 1)" in invoke("simplify", path).stdout


def test_compare_a_network_with_an_onnx_file(saved: Path, tmp_path: Path) -> None:
    model = tmp_path / "copy.onnx"
    export_network(NET, model, precision="float32")
    assert invoke("compare", saved, model, "--tol", "1e-5").exit_code == 0
    result = invoke("compare", saved, model, "--json")
    answer = json.loads(result.stdout)
    assert result.exit_code == 1 and not answer["equal"] and len(answer["witness"]) == 4
    row = np.array([answer["witness"]])
    assert np.abs(NET(row) - import_network(model)(row)).max() > 0


def test_compare_shows_the_witness_and_the_units(saved: Path, tmp_path: Path) -> None:
    A = NET.A.copy()
    A[0, 1] += 1.0
    other = tmp_path / "other.safetensors"
    TwoLayerNetwork(NET.W, NET.b, A, NET.c).save(other)
    result = invoke("compare", saved, other)
    assert result.exit_code == 1
    assert (
        "witness: " in result.stdout and "unit 2 of the first against unit 2 of the second" in result.stdout
    )


def test_compare_says_what_rounding_hides_with_an_exit_code_of_its_own(tmp_path: Path) -> None:
    one, other = tmp_path / "one.safetensors", tmp_path / "other.safetensors"
    w = np.array([[1.0, 0.3]])
    TwoLayerNetwork(np.concatenate([w, w]), [0.1, 0.1], [[1e12, -1e12]]).save(one)
    TwoLayerNetwork(np.concatenate([w, 0.7 * w]), [0.1, 0.07], [[1e12, -1e12 / 0.7]]).save(other)
    result = invoke("compare", one, other)
    assert result.exit_code == 4 and "NOT DECIDED" in result.stdout
    answer = json.loads(invoke("compare", one, other, "--json").stdout)
    assert answer["equal"] is None and answer["bound"] > 0
    assert invoke("compare", one, one).exit_code == 0
