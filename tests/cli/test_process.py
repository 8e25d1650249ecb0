"""The installed command in a process of its own: streams, colours, exit codes, imports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from planted.io import load_network
from planted.networks import parameter_error

PLANTED = [sys.executable, "-m", "planted"]
ESCAPE = "\x1b"
WORLD = ("--samples", "200", "--features", "4", "--hidden", "3", "--outputs", "3", "--law", "exponential")
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "PLANTED_DEBUG")}


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [*PLANTED, *arguments]
    return subprocess.run(
        command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("world")
    finished = run("simulate", "data.csv", *WORLD, "--seed", "21", "--truth", "truth.safetensors", cwd=place)
    assert finished.returncode == 0, finished.stderr
    return place


def test_the_promised_line_recovers_the_planted_network(folder: Path) -> None:
    line = "recover data.csv --targets y1 y2 y3 --seed 5 --out net.safetensors --report report.html --json"
    finished = run(*line.split(), cwd=folder)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    record = json.loads(finished.stdout)
    assert (record["outcome"], record["provenance"]["shape"]) == ("RECOVERED", [200, 4, 3])
    found, truth = load_network(folder / "net.safetensors"), load_network(folder / "truth.safetensors")
    # Noiseless float64 data of order one: rounding, with three decades to spare.
    assert parameter_error(found, truth) <= 1e-12
    np.testing.assert_array_equal(found.W, record["network"]["W"])
    assert ">y3<" in (folder / "report.html").read_text(encoding="utf-8")
    assert "net.safetensors" in finished.stderr and ESCAPE not in finished.stdout + finished.stderr
    assert run("compare", "net.safetensors", "truth.safetensors", cwd=folder).returncode == 0


def test_too_few_samples_is_exit_code_1_with_the_reason(folder: Path) -> None:
    rows = (folder / "data.csv").read_text().splitlines(keepends=True)
    (folder / "few.csv").write_text("".join(rows[:6]))
    finished = run("recover", "few.csv", "--targets", "y1", "y2", "y3", cwd=folder)
    assert finished.returncode == 1
    assert "RECOVERED" not in finished.stdout
    assert "What to do" in finished.stdout and "Traceback" not in finished.stderr


def test_answers_and_complaints_go_to_their_own_streams(folder: Path) -> None:
    finished = run("recover", "data.csv", "--targets", "z", cwd=folder)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr.startswith("error: ") and finished.stderr.count("\n") == 1
    assert ESCAPE not in finished.stderr


def test_what_a_library_prints_on_its_own_stays_out_of_the_answer(tmp_path: Path) -> None:
    script = (
        "import os, planted.cli._main as cli\n"
        "cli.app = lambda prog_name: (os.write(1, b'HighsMipSolverData\\n'), print('the answer µ'))\n"
        "cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.decode().splitlines(), done.stderr) == (0, ["the answer µ"], b"")


def test_a_truncated_network_is_bad_input(folder: Path) -> None:
    (folder / "broken.safetensors").write_bytes((folder / "truth.safetensors").read_bytes()[:-9])
    finished = run("predict", "broken.safetensors", "data.csv", cwd=folder)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert "broken.safetensors" in finished.stderr and "Traceback" not in finished.stderr


def test_a_pipe_that_closes_early_is_not_a_crash(folder: Path) -> None:
    command = [*PLANTED, "predict", "truth.safetensors", "data.csv", "--features", "x1", "x2", "x3", "x4"]
    with subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        complaint = process.stderr.read()
    assert "Traceback" not in complaint


def test_ctrl_c_ends_with_130(folder: Path) -> None:
    code = (
        "import planted, time\n"
        "def wait(*a, **k):\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "import planted.recovery._recover\n"
        "planted.recovery._recover.recover = wait\n"
        "from planted.cli import main\nmain()"
    )
    command = [sys.executable, "-c", code, "recover", "data.csv"]
    with subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        complaint = process.stderr.read()
        assert process.wait(timeout=60) == 130
    assert "interrupted" in complaint and "Traceback" not in complaint


def test_help_loads_neither_scikit_learn_nor_optimisers() -> None:
    code = (
        "import sys\nfrom planted.cli import main\nsys.argv = ['planted', 'recover', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = ('sklearn', 'scipy.optimize', 'matplotlib', 'jinja2', 'pyarrow', 'torch')\n"
        "print('LOADED', [name for name in heavy if name in sys.modules])"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert finished.stdout.splitlines()[-1] == "LOADED []"


def test_colour_appears_only_where_it_is_asked_for(folder: Path) -> None:
    command = [*PLANTED, "compare", "truth.safetensors", "truth.safetensors"]
    for extra, is_coloured in (
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ):
        finished = subprocess.run(
            command,
            cwd=folder,
            env={**ENVIRONMENT, **extra},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert (f"{ESCAPE}[1;32m" in finished.stdout) == is_coloured, extra
