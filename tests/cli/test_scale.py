"""`planted sums`, `recover --sums` and folders, on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import planted
from planted.cli import app
from planted.distributed import _engine
from planted.io import write_table
from planted.recovery import predict_cost

DATA = planted.simulate.dataset(
    240, n_features=4, n_hidden=3, n_outputs=3, law="exponential", activity=(0.3, 0.7), random_state=11
)
NAMES = ["a", "b", "c", "d", "y0", "y1", "y2"]
COMMON = ["--hidden", "3", "--method", "complementarity", "--seed", "0"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows").mkdir()
    values = np.hstack([DATA.X, DATA.Y])
    for name, part in (("first", values[:100]), ("second", values[100:])):
        write_table(tmp_path / "rows" / f"{name}.parquet", dict(zip(NAMES, part.T, strict=True)))
    return tmp_path


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    return result.exit_code, result.output


def test_sums_of_two_machines_give_the_network_of_all_rows(folder: Path) -> None:
    for name in ("first", "second"):
        file, out = folder / "rows" / f"{name}.parquet", folder / f"{name}.sums"
        code, text = run("sums", file, "--targets", "y0", "y1", "y2", "-o", out, "--json")
        assert code == 0
        record = next(line for line in text.splitlines() if line.startswith("{"))
        assert json.loads(record)["rows"] == (100 if name == "first" else 140)
    networks = []
    for order in (("first", "second"), ("second", "first")):
        out = folder / f"{order[0]}.safetensors"
        code, text = run(
            "recover", "--sums", *(folder / f"{name}.sums" for name in order), *COMMON, "--out", out
        )
        assert code == 0, text
        networks.append(out.read_bytes())
    assert networks[0] == networks[1]
    assert planted.parameter_error(planted.load_network(out), DATA.network) < 1e-12


def test_a_sample_says_that_it_is_one(folder: Path) -> None:
    run("sums", folder / "rows", "--targets", "y0", "y1", "y2", "-o", folder / "all.sums", "--rows", "150")
    code, text = run("recover", "--sums", folder / "all.sums", *COMMON)
    assert code == 0
    assert "Judged on 150 of 240 rows: a unit that is on in fewer than" in " ".join(text.split())


def test_a_folder_is_one_table(folder: Path) -> None:
    out = folder / "net.safetensors"
    code, text = run("recover", folder / "rows", "--targets", "y0", "y1", "y2", *COMMON, "--out", out)
    assert code == 0, text
    assert planted.parameter_error(planted.load_network(out), DATA.network) < 1e-12


def test_a_folder_is_diagnosed_with_its_cost(folder: Path) -> None:
    code, text = run(
        "diagnose", folder / "rows", "--targets", "y0", "y1", "y2", "--hidden", "2", "--seed", "0"
    )
    assert code == 0, text
    cost = predict_cost(240, 4, 2, n_outputs=3, in_process=True)
    assert f"Predicted cost of a recovery: {cost}" in " ".join(text.split())
    # As many outputs as units: noise cannot be excluded, and then there is a search.
    _, text = run("diagnose", folder / "rows", "--targets", "y0", "y1", "y2", "--hidden", "3", "--seed", "0")
    assert "Predicted cost of a recovery: none" in " ".join(text.split())


def test_a_finished_run_leaves_no_checkpoint(folder: Path) -> None:
    code, _ = run(
        "recover", folder / "rows", "--targets", "y0", "y1", "y2", *COMMON, "--checkpoint", folder / "ck", "--resume"
    )  # fmt: skip
    assert code == 0
    assert not (folder / "ck").exists()


def test_data_and_sums_together_are_refused(folder: Path) -> None:
    assert run("recover")[0] == 2
    code, text = run("recover", folder / "rows", "--sums", folder / "x.sums")
    assert code == 2 and "one of them" in text
    assert run("sums", folder / "rows", "--rows", "0")[0] == 2


def test_a_cluster_that_does_not_answer_is_exit_code_two(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_engine, "CONNECT_SECONDS", 0.5)
    code, text = run("recover", folder / "rows", "--targets", "y0", "--cluster", "tcp://127.0.0.1:1")
    assert code == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:1" in " ".join(text.split())


def test_a_column_of_weights_leaves_spoilt_rows_out(folder: Path) -> None:
    values = np.column_stack([DATA.X, DATA.Y, np.linspace(1.0, 2.0, 240)])
    values[::9, 4:7] += 5.0
    values[::9, 7] = 0.0
    write_table(folder / "weighted.csv", dict(zip([*NAMES, "w"], values.T, strict=True)))
    out = folder / "net.safetensors"
    command = [
        "recover",
        folder / "weighted.csv",
        "--targets",
        "y0",
        "y1",
        "y2",
        "--hidden",
        "3",
        "--seed",
        "0",
    ]
    command += ["--checkpoint", folder / "ck"]
    code, text = run(*command, "--weights", "w", "--out", out)
    assert code == 0, text
    assert planted.parameter_error(planted.load_network(out), DATA.network) < 1e-11
    code, text = run(*command, "--weights", "w", "--method", "ica")
    assert code == 2 and "'ica' cannot weigh rows; 'restarts' can" in " ".join(text.split())
    code, text = run(*command, "--weights", "nothing")
    assert code == 2 and "no column 'nothing' (weights, --weights)" in " ".join(text.split())
