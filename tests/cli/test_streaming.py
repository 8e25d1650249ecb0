"""`planted recover` in blocks and within a budget."""

import json
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import planted
from planted.cli import app

DATA = planted.simulate.dataset(
    120, n_features=4, n_hidden=3, n_outputs=3, law="exponential", activity=(0.3, 0.7), random_state=11
)


def write(folder: Path) -> Path:
    path = folder / "samples.npy"
    np.save(path, np.hstack([DATA.X, DATA.Y]))
    return path


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout


def test_blocks_give_the_same_network_as_the_whole_file(tmp_path: Path) -> None:
    path = write(tmp_path)
    networks = []
    for name, extra in (("whole", []), ("blocks", ["--stream", "--report", str(tmp_path / "r.html")])):
        out = tmp_path / f"{name}.safetensors"
        code, _ = run(
            "recover", str(path), "--targets", "4", "5", "6", "--seed", "0", "--out", str(out), *extra
        )
        assert code == 0
        networks.append(planted.load_network(out))
    assert planted.parameter_error(*networks) < 1e-13
    assert planted.parameter_error(networks[1], DATA.network) < 1e-12
    assert "RECOVERED" in (tmp_path / "r.html").read_text()


def test_no_time_is_exit_code_one_with_the_reason(tmp_path: Path) -> None:
    code, text = run("recover", str(write(tmp_path)), "--targets", "4", "5", "6", "--budget", "0", "--json")
    assert code == 1
    assert json.loads(text)["outcome"] == "STOPPED_EARLY"
