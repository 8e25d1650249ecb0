"""The words of the command line: examples of the help that run, formats by name, programs kept alive, tolerances, widths."""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from planted import TwoLayerNetwork, export_network, simulate
from planted.cli import app
from planted.cli._main import EXAMPLES
from planted.io import load_network, write_sums, write_table
from planted.moments import summarise_rows
from planted.rows import RowBlocks

# What needs a cluster, a download or minutes; each is run by a test of its own.
ELSEWHERE = re.compile(r"--cluster|mnist|planted (demo|bench|reproduce|doctor)|samples.parquet --law")
LINES = [line for lines in EXAMPLES.values() for line in lines if not ELSEWHERE.search(line)]
NETWORK = TwoLayerNetwork([[1.0, -0.5, 0.25], [-0.75, 1.0, 0.5]], [0.25, -0.5], [[1.0, 2.0], [0.5, -1.0]])
MODEL = """
import sys
W, b, A = [[1.0, -0.5, 0.25], [-0.75, 1.0, 0.5]], [0.25, -0.5], [1.0, 2.0]
for line in sys.stdin:
    x = [float(cell) for cell in line.split(",")]
    hidden = [max(sum(w * v for w, v in zip(row, x)) + c, 0.0) for row, c in zip(W, b)]
    print(repr(sum(a * h for a, h in zip(A, hidden))))
"""


# No input of the unit box gives a first output of a million, and none tells a network from its copy.
PROPERTY = (
    "".join(f"(declare-const X_{i} Real)" for i in range(3))
    + "(declare-const Y_0 Real)(declare-const Y_1 Real)"
)
PROPERTY += (
    "".join(f"(assert (>= X_{i} 0))(assert (<= X_{i} 1))" for i in range(3)) + "(assert (>= Y_0 1000000))"
)
EQUAL = """(vnnlib-version <2.0>)
(declare-network f (declare-input A real [3]) (declare-output P real [2]))
(declare-network g (isomorphic-to f) (declare-input B real [3]) (declare-output Q real [2]))
(assert (and (== A[0] B[0]) (== A[1] B[1]) (== A[2] B[2])))
"""
EQUAL += (
    "".join(f"(assert (and (>= A[{i}] 0) (<= A[{i}] 1)))\n" for i in range(3))
    + "(assert (> P[0] (+ Q[0] 1)))"
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files that the examples name."""
    place = tmp_path_factory.mktemp("examples")
    X = simulate.inputs(120, 3, law="exponential", random_state=1)
    Y = NETWORK(X)
    columns = {f"x{j}": X[:, j] for j in range(3)} | {"y1": Y[:, 0], "y2": Y[:, 1]}
    for name in ("samples.csv", "samples.parquet", "part1.parquet", "new.csv", "samples.npz"):
        write_table(place / name, columns)
    np.savez(place / "samples.npz", X=X, Y=Y)
    rng = np.random.default_rng(3)
    write_table(
        place / "table.csv",
        {"a": rng.standard_normal(8), "b": rng.standard_normal(8), "label": rng.random(8)},
    )
    rows = [f"{'' if i % 9 == 0 else i % 7},{'ab'[i % 2]},person {i},{i % 5}" for i in range(90)]
    (place / "prices.csv.gz").write_bytes(gzip.compress("\n".join(["size,kind,name,price", *rows]).encode()))
    for name in ("net.safetensors", "truth.safetensors"):
        NETWORK.save(place / name, features=["x0", "x1", "x2"], targets=["y1", "y2"])
    for name in ("model.onnx", "copy.onnx", "reference.onnx", "deployed.onnx", "int8.onnx"):
        export_network(NETWORK, place / name)
    (place / "model.py").write_text(MODEL)
    (place / "property.vnnlib").write_text(PROPERTY)
    (place / "equal.vnnlib").write_text(EQUAL)
    halves = (RowBlocks.from_arrays(X[:60], Y[:60]), RowBlocks.from_arrays(X[60:], Y[60:]))
    for name, half in zip(("a.sums", "b.sums"), halves, strict=True):
        write_sums(place / name, summarise_rows(half, 1000))
    return place


@pytest.fixture(autouse=True)
def folder(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy them for each test, since examples write what others read."""
    place = Path(shutil.copytree(written, tmp_path / "files"))
    monkeypatch.chdir(place)
    return place


@pytest.mark.parametrize("line", LINES)
def test_the_examples_of_the_help_run(line: str) -> None:
    words = [sys.executable if word == "python" else word for word in shlex.split(line)[1:]]
    if words[0] in ("recover", "diagnose", "identify"):
        words[1:1] = ["--seed", "0"] if "--seed" not in words else []
    words += ["--force"] if words[0] in ("simulate", "predict", "export") else []
    answer = CliRunner().invoke(app, words)
    # Some of these small files hold no planted network, and the answer is then no.
    expected = (0, 1) if words[0] in ("recover", "memorize") and "--accept" not in words else (0,)
    assert answer.exit_code in expected, answer.output + answer.stderr


def test_few_examples_are_run_elsewhere() -> None:
    assert len(LINES) >= 20


@pytest.mark.parametrize(
    "name, form", [("copy.onnx", "onnx"), ("copy.json", "json"), ("copy.torch.safetensors", "torch")]
)
def test_the_name_says_the_format(name: str, form: str) -> None:
    answer = CliRunner().invoke(app, ["export", "net.safetensors", "--out", name, "--json"])
    assert answer.exit_code == 0 and f'"format": "{form}"' in answer.stdout


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "give --to FORMAT or --out FILE"),
        (["--out", "copy.safetensors"], "--to torch or --to planted"),
        (["--out", "copy.tar"], "stands for no format"),
    ],
)
def test_a_name_that_says_nothing(words: list[str], message: str) -> None:
    answer = CliRunner().invoke(app, ["export", "net.safetensors", *words])
    assert answer.exit_code == 2 and message in answer.stderr


def test_a_program_is_started_once_and_asked_line_by_line(folder: Path) -> None:
    (folder / "counted.py").write_text("open('starts.txt', 'a').write('x')\n" + MODEL)
    words = ["identify", "--inputs", "3", "--seed", "1", "--out", "alive.safetensors", "--force"]
    answer = CliRunner().invoke(app, [*words, "--alive", "--", sys.executable, "counted.py"])
    assert answer.exit_code == 0, answer.output + answer.stderr
    assert (folder / "starts.txt").read_text() == "x"
    one = TwoLayerNetwork(NETWORK.W, NETWORK.b, NETWORK.A[:1])
    assert load_network(folder / "alive.safetensors").is_equivalent(one, tol=1e-8)


@pytest.mark.parametrize(
    "body, message",
    [
        ("raise SystemExit('no licence')", "no licence"),
        ("import sys\nprint(sys.stdin.readline() and 1.0)", "ended after 1 answers"),
        ("import sys\nsys.stdout.write('1' * 200_000)", "more than 100,000 bytes"),
        ("import sys\n[print('word') for line in sys.stdin]", "rows of numbers"),
    ],
)
def test_programs_that_break_the_protocol(folder: Path, body: str, message: str) -> None:
    (folder / "broken.py").write_text(body)
    words = ["identify", "--inputs", "2", "--seed", "1", "--alive", "--", sys.executable, "broken.py"]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code in (1, 2) and "Traceback" not in answer.output + answer.stderr
    assert message in re.sub(r"\s+", " ", answer.output + answer.stderr)


@pytest.mark.parametrize("n_answers", [0, 3])
def test_a_program_that_falls_silent_is_named_within_the_time_limit(folder: Path, n_answers: int) -> None:
    (folder / "mute.py").write_text(
        f"import sys, time\nfor i, line in enumerate(sys.stdin):\n    time.sleep(1000 * (i >= {n_answers}))\n    print(1)\n"
    )
    words = ["identify", "--inputs", "2", "--seed", "1", "--budget-seconds", "1", "--alive"]
    answer = CliRunner().invoke(app, [*words, "--", sys.executable, "mute.py"])
    assert answer.exit_code == 2 and "silent for 1 seconds after" in answer.stderr


@pytest.mark.parametrize("extra", [[], ["--alive"]])
def test_a_program_that_hangs_is_ended_with_its_children(folder: Path, extra: list[str]) -> None:
    hang = "sleep 1000 & echo $! >> children.txt; wait"
    words = ["identify", "--inputs", "2", "--seed", "1", "--timeout", "0.3", *extra, "--", "sh", "-c", hang]
    answer = CliRunner().invoke(app, words)
    said = re.sub(r"\s+", " ", answer.stderr)
    assert answer.exit_code == 2 and "0.3 seconds" in said and "--timeout SECONDS" in said
    children = list(map(int, (folder / "children.txt").read_text().split()))
    for _ in range(200):  # a killed process takes a moment to end
        if all(map(is_dead, children)):
            break
        time.sleep(0.05)
    assert all(map(is_dead, children))


def is_dead(process: int) -> bool:
    """Whether a process has ended, if it is not yet buried."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e9"])
def test_times_in_which_nothing_can_be_answered(text: str) -> None:
    answer = CliRunner().invoke(app, ["identify", "--inputs", "2", "--timeout", text, "--", "cat"])
    assert answer.exit_code == 2 and "timeout=" in answer.stderr


@pytest.mark.parametrize("number", ["3", "0.25", "1e300"])
@pytest.mark.parametrize("extra", [[], ["--alive"]])
def test_a_program_that_repeats_a_number_for_ever_is_no_constant(number: str, extra: list[str]) -> None:
    answer = CliRunner().invoke(
        app, ["identify", "--inputs", "2", "--seed", "1", *extra, "--", "yes", number]
    )
    assert answer.exit_code == 2 and "RECOVERED" not in answer.output
    assert ("more lines than it was asked" if extra else "more than") in answer.stderr


def test_answers_to_questions_that_were_not_read(folder: Path) -> None:
    """It writes as many lines as it is asked and reads none: its numbers say nothing about the inputs."""
    (folder / "deaf.py").write_text("import time\nwhile True:\n    print(3.0)\n    time.sleep(0.02)\n")
    words = ["identify", "--inputs", "2", "--seed", "1", "--alive", "--", sys.executable, "deaf.py"]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 2 and "not read" in answer.stderr.replace("\n", " ")


def test_a_program_that_reads_and_answers_the_same_is_a_constant(folder: Path) -> None:
    (folder / "constant.py").write_text("import sys\nfor line in sys.stdin:\n    print(3.0)\n")
    words = ["identify", "--inputs", "2", "--seed", "1", "--alive", "--", sys.executable, "constant.py"]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0 and "RECOVERED" in answer.stdout


def test_compare_prints_its_tolerance(folder: Path) -> None:
    export_network(NETWORK, folder / "single.onnx", precision="float32")
    answer = CliRunner().invoke(app, ["compare", "net.safetensors", "single.onnx"])
    if answer.exit_code == 1:
        assert "--tol 1e-5" in answer.stdout.replace("\n", "")
    assert "tolerance: 1e-09" in answer.stdout
    close = TwoLayerNetwork(NETWORK.W * (1 + 1e-7), NETWORK.b, NETWORK.A)
    close.save(folder / "close.safetensors")
    answer = CliRunner().invoke(app, ["compare", "net.safetensors", "close.safetensors"])
    assert answer.exit_code == 1 and "only rounding of 64-bit numbers" in answer.stdout
    assert "32-bit numbers" in answer.stdout and "--tol 1e-5" in answer.stdout.replace("\n", "")
    answer = CliRunner().invoke(app, ["compare", "net.safetensors", "close.safetensors", "--tol", "1e-5"])
    assert answer.exit_code == 0 and "tolerance: 1e-05" in answer.stdout


@pytest.mark.parametrize("columns", [60, 80, 132])
def test_tables_keep_to_the_width_that_is_given(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    answer = CliRunner().invoke(app, ["recover", "samples.csv", "--targets", "y1", "y2", "--seed", "0"])
    assert answer.exit_code == 0
    lengths = [len(line.rstrip()) for line in answer.stdout.splitlines()]
    assert max(lengths) <= columns and max(lengths) > 40
