"""The commands: what they accept, what they print where, and the exit codes they promise."""

from __future__ import annotations

import io
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import planted
from planted.cli import _console, app
from planted.io import load_network, read_table
from planted.networks import TwoLayerNetwork
from planted.outcomes import DataWarning, Guarantee, Outcome, RecoveryError
from planted.results import Evidence, Provenance, Recovery, Unavailable

NETWORK = TwoLayerNetwork(
    W=[[0.6, 0.8], [1.0, 0.0]], b=[0.5, -0.25], A=[[1.0, 2.0], [0.0, -1.0]], c=[0.0, 1.0]
)
CSV = "u,v,a,b\n1,2,3,4\n5,6,7,8\n9,1,2,3\n"


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "data.csv"
    file.write_text(CSV)
    return file


def make_record(outcome: Outcome, network: TwoLayerNetwork | None = NETWORK) -> Recovery:
    return Recovery(
        network=network,
        outcome=outcome,
        guarantee=Guarantee.EXACT,
        evidence=(Evidence("samples", 3, 2, ">="), Evidence("gap [bold]", 0.1)),
        uncertainty=Unavailable("There is no noise."),
        stats={"seconds": 0.1},
        provenance=Provenance("complementarity", "planted", {}, 5, (3, 2, 2)),
        detail="Three samples say so.",
    )


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """Let `planted.recover` give a prepared answer (or raise it) and note what it was asked."""

    def prepare(result: Recovery | BaseException) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = []

        def recover(X: Any, Y: Any, n_hidden: Any = "auto", **options: Any) -> Recovery:
            calls.append({"X": X, "Y": Y, "n_hidden": n_hidden, **options})
            options["progress"]("counting", 0.5)
            if isinstance(result, BaseException):
                raise result
            return result

        monkeypatch.setattr("planted.recovery._recover.recover", recover)
        return calls

    return prepare


@pytest.mark.parametrize(
    "arguments",
    [
        ("DATA", "--targets", "a", "b", "--seed", "3"),
        ("DATA", "--seed", "3", "--targets", "a", "b"),
        ("--targets", "a", "b", "DATA", "--seed", "3"),
        ("--seed", "3", "--targets", "a", "b", "--features", "u", "v", "DATA"),
        ("--targets", "a", "b", "--seed", "3", "--", "DATA"),
        ("DATA", "--targets", "a", "--seed", "3", "--targets", "b"),
        ("DATA", "--targets", "a,b", "--features", "u", "v", "--seed", "3"),
        ("DATA", "--targets", "a, b", "--features", "u,v", "--json", "--seed", "3"),
    ],
    ids=" ".join,
)
def test_targets_take_several_names(
    arguments: tuple[str, ...], table: Path, answer: Callable[..., list[dict[str, Any]]]
) -> None:
    calls = answer(make_record(Outcome.RECOVERED))
    result = invoke("recover", *(str(table) if word == "DATA" else word for word in arguments))
    assert result.exit_code == 0, result.output
    (call,) = calls
    np.testing.assert_array_equal(call["Y"], [[3, 4], [7, 8], [2, 3]])
    np.testing.assert_array_equal(call["X"], [[1, 2], [5, 6], [9, 1]])
    assert call["random_state"] == 3


def test_a_column_name_may_contain_a_comma(
    tmp_path: Path, answer: Callable[..., list[dict[str, Any]]]
) -> None:
    file = tmp_path / "data.csv"
    file.write_text('u,"a,b"\n1,2\n3,4\n')
    calls = answer(make_record(Outcome.RECOVERED))
    assert invoke("recover", str(file), "--targets", "a,b").exit_code == 0
    np.testing.assert_array_equal(calls[0]["Y"], [[2], [4]])


def test_options_reach_the_library(table: Path, answer: Callable[..., list[dict[str, Any]]]) -> None:
    calls = answer(make_record(Outcome.RECOVERED))
    options = ("--hidden", "7", "--method", "pursuit", "--activation", "leaky-relu:0.1")
    assert invoke("recover", str(table), *options).exit_code == 0
    (call,) = calls
    assert (call["n_hidden"], call["method"], call["activation"]) == (7, "pursuit", "leaky-relu:0.1")
    assert call["random_state"] is None


@pytest.mark.parametrize("outcome", Outcome)
def test_exit_code_says_whether_it_was_recovered(
    outcome: Outcome, table: Path, answer: Callable[..., list[dict[str, Any]]]
) -> None:
    answer(make_record(outcome))
    result = invoke("recover", str(table))
    assert result.exit_code == (0 if outcome is Outcome.RECOVERED else 1)
    assert outcome.name.replace("_", " ") in result.stdout
    assert "Three samples say so." in result.stdout


def test_brackets_in_names_are_not_markup(table: Path, answer: Callable[..., list[dict[str, Any]]]) -> None:
    answer(make_record(Outcome.RECOVERED))
    assert "gap [bold]" in invoke("recover", str(table)).stdout


def test_json_is_the_record_and_nothing_else(
    table: Path, tmp_path: Path, answer: Callable[..., list[dict[str, Any]]]
) -> None:
    answer(make_record(Outcome.FITTED))
    result = invoke("recover", str(table), "--json", "--out", str(tmp_path / "net.safetensors"))
    record = json.loads(result.stdout)
    assert (record["outcome"], record["evidence"][1]["required"]) == ("FITTED", None)
    assert result.exit_code == 1
    assert "net.safetensors" in result.stderr


def test_network_and_report_are_written(
    table: Path, tmp_path: Path, answer: Callable[..., list[dict[str, Any]]]
) -> None:
    answer(make_record(Outcome.RECOVERED))
    net, page = tmp_path / "net.safetensors", tmp_path / "report.html"
    result = invoke("recover", str(table), "--targets", "a", "b", "--out", str(net), "--report", str(page))
    assert result.exit_code == 0
    np.testing.assert_array_equal(load_network(net).W, NETWORK.W)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and "Predicted against observed" in text and ">u<" in text


def test_without_a_network_nothing_is_written(
    table: Path, tmp_path: Path, answer: Callable[..., list[dict[str, Any]]]
) -> None:
    answer(make_record(Outcome.TOO_FEW_SAMPLES, network=None))
    net = tmp_path / "net.safetensors"
    result = invoke("recover", str(table), "--out", str(net))
    assert result.exit_code == 1
    assert "no network to write" in result.stderr
    assert not net.exists()


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (RecoveryError(Outcome.SOLVER_FAILED, "It broke."), 1, "SOLVER_FAILED"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError("8 TB are needed."), 2, "8 TB are needed."),
        (ZeroDivisionError("division by zero"), 3, "fault of planted"),
    ],
    ids=["refused", "interrupted", "memory", "fault"],
)
def test_errors_are_one_line_and_a_code(
    error: BaseException, code: int, message: str, table: Path, answer: Callable[..., list[dict[str, Any]]]
) -> None:
    answer(error)
    result = invoke("recover", str(table))
    assert result.exit_code == code
    assert message in result.stderr and "Traceback" not in result.stderr
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1


def test_debug_shows_the_traceback(
    table: Path, answer: Callable[..., list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_DEBUG", "1")
    answer(ZeroDivisionError("division by zero"))
    assert isinstance(invoke("recover", str(table)).exception, ZeroDivisionError)


def test_warnings_of_planted_are_lines_on_stderr(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def recover(*_: Any, **__: Any) -> Recovery:
        for _repeat in range(2):
            warnings.warn("column 2 is constant", DataWarning, stacklevel=1)
        return make_record(Outcome.RECOVERED)

    monkeypatch.setattr("planted.recovery._recover.recover", recover)
    result = invoke("recover", str(table), "--json")
    assert result.stderr.count("warning: column 2 is constant") == 1
    json.loads(result.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("recover", "absent.csv"), "no file"),
        (("recover", "DATA", "--targets", "z"), "no column 'z'"),
        (("recover", "DATA", "--hidden", "none"), "expected 'auto' or a number"),
        (("recover", "DATA", "--hidden", "0"), "expected 'auto' or a number"),
        (("recover", "DATA", "--out", "absent/net.safetensors"), "no folder"),
        (("recover", "DATA", "--report", "."), "is a folder"),
        (("recover",), "or --sums FILE..., one of them"),
        (("recover", "DATA", "--targets"), "needs at least one name"),
        (("recover", "DATA", "--targets", "--seed", "3"), "needs at least one name"),
        (("recover", "DATA", "--sed", "3"), "No such option"),
        (("predict", "DATA", "DATA"), "DATA"),
        (("compare", "absent.safetensors", "absent.safetensors"), "absent.safetensors"),
        (("simulate", "world.csv", "--samples", "0"), "n_samples"),
        (("simulate", "world.doc"), "is written to a file named .csv"),
        (("simulate", "world.npz", "--law", "cubist"), "cubist"),
        (("simulate", "world.npz", "--truth", "world.npz"), "is written to a file named .safetensors"),
        (("demo", "--out", "absent/page.html"), "no folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_exit_code_2_with_a_reason(
    arguments: tuple[str, ...], message: str, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(table.parent)
    result = invoke(*(str(table.name) if word == "DATA" else word for word in arguments))
    assert result.exit_code == 2, result.output
    said = " ".join(result.stderr.replace("│", " ").split())
    assert message.replace("DATA", table.name) in said
    assert "Traceback" not in said and result.stdout == ""
    assert sorted(file.name for file in table.parent.iterdir()) == ["data.csv"]


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".parquet", ".feather"])
def test_a_simulated_world_is_what_its_network_says(suffix: str, tmp_path: Path) -> None:
    world, truth = tmp_path / f"world{suffix}", tmp_path / "truth.safetensors"
    shape = ("--samples", "40", "--features", "3", "--hidden", "2", "--outputs", "2", "--seed", "4")
    result = invoke("simulate", str(world), *shape, "--law", "exponential", "--truth", str(truth))
    assert result.exit_code == 0, result.output
    targets = "Y" if suffix == ".npz" else ["y1", "y2"]
    samples = read_table(world, targets=targets)
    assert (samples.X.shape, samples.Y.shape) == ((40, 3), (40, 2))
    np.testing.assert_array_equal(load_network(truth)(samples.X), samples.Y)


def test_the_seed_makes_the_world(tmp_path: Path) -> None:
    files = [tmp_path / f"{i}.csv" for i in range(3)]
    for file, seed in zip(files, ("1", "1", "2"), strict=True):
        assert invoke("simulate", str(file), "--samples", "5", "--seed", seed).exit_code == 0
    assert files[0].read_bytes() == files[1].read_bytes() != files[2].read_bytes()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    file = tmp_path / "net.safetensors"
    NETWORK.save(file)
    return file


@pytest.mark.parametrize(
    "arguments",
    [
        ("NET", "DATA", "--features", "u", "v"),
        ("--features", "u", "v", "NET", "DATA"),
        ("NET", "--features", "u,v", "DATA"),
    ],
    ids=" ".join,
)
def test_predictions_are_printed_to_the_last_digit(
    arguments: tuple[str, ...], saved: Path, table: Path
) -> None:
    words = {"NET": str(saved), "DATA": str(table)}
    result = invoke("predict", *(words.get(word, word) for word in arguments))
    assert result.exit_code == 0, result.output
    head, *rows = result.stdout.split()
    assert head == "y1,y2"
    values = np.array([[float(cell) for cell in row.split(",")] for row in rows])
    np.testing.assert_array_equal(values, NETWORK(np.array([[1.0, 2.0], [5.0, 6.0], [9.0, 1.0]])))


def test_predictions_of_a_table_of_inputs_alone(saved: Path, tmp_path: Path) -> None:
    inputs, out = tmp_path / "inputs.csv", tmp_path / "out.csv"
    inputs.write_text("u,v\n1,2\n5,6\n")
    assert invoke("predict", str(saved), str(inputs), "--out", str(out)).exit_code == 0
    predicted = read_table(out, targets="y2", features="y1")
    expected = NETWORK(np.array([[1.0, 2.0], [5.0, 6.0]]))
    np.testing.assert_array_equal(np.hstack([predicted.X, predicted.Y]), expected)


def test_predict_does_not_guess_the_inputs(saved: Path, table: Path) -> None:
    result = invoke("predict", str(saved), str(table))
    assert result.exit_code == 2
    assert "2 inputs" in result.stderr and "--features" in result.stderr


def test_compare_sees_through_order_and_scale(saved: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    scale = np.array([3.0, 0.5])
    W, b, A = NETWORK.W[::-1] * scale[:, None], NETWORK.b[::-1] * scale, NETWORK.A[:, ::-1] / scale
    TwoLayerNetwork(W, b, A, NETWORK.c).save(other)
    result = invoke("compare", str(saved), str(other))
    assert (result.exit_code, result.stdout.split()[0]) == (0, "EQUAL")


def test_compare_tells_the_largest_difference(saved: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    TwoLayerNetwork(NETWORK.W, NETWORK.b, NETWORK.A, NETWORK.c + np.array([0.0, 0.125])).save(other)
    result = invoke("compare", str(saved), str(other), "--json")
    assert result.exit_code == 1
    facts = json.loads(result.stdout)
    assert facts.pop("bound") >= 0.125 and facts == {"equal": False, "parameter_error": 0.125, "tol": None}
    assert "0.125" in invoke("compare", str(saved), str(other)).stdout
    assert invoke("compare", str(saved), str(other), "--tol", "0.5").exit_code == 0


def test_compare_of_other_shapes_is_an_answer(saved: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    TwoLayerNetwork([[1.0]], A=[[1.0]]).save(other)
    result = invoke("compare", str(saved), str(other))
    assert result.exit_code == 1 and "1 inputs and 1 outputs" in result.stdout


@pytest.mark.parametrize("B", [None, [[1.0, -2.0], [0.0, 1.0]]])
def test_networks_in_json_are_read_where_saved_ones_are(B: Any, tmp_path: Path) -> None:
    net = TwoLayerNetwork(NETWORK.W, NETWORK.b, NETWORK.A, NETWORK.c, B=B)
    changed = TwoLayerNetwork(NETWORK.W, NETWORK.b, NETWORK.A, NETWORK.c, B=np.full((2, 2), 0.25))
    for made, stem in ((net, "net"), (changed, "changed")):
        made.save(tmp_path / f"{stem}.safetensors")
        planted.export_network(made, tmp_path / f"{stem}.json")
    paths = [str(tmp_path / name) for name in ("net.json", "net.safetensors", "changed.json")]
    for other in paths[:2]:
        assert invoke("compare", paths[0], other).stdout.startswith("EQUAL  largest parameter difference 0\n")
    assert invoke("compare", paths[1], paths[2]).exit_code == 1
    (tmp_path / "rows.csv").write_text("u,v\n0.5,-1.5\n-3,0.25\n")
    answers = [invoke("predict", path, str(tmp_path / "rows.csv")).stdout for path in paths]
    assert answers[0] == answers[1] != answers[2] and answers[0].startswith("y1,y2\n")
    asked = invoke("identify", paths[0])
    assert asked.exit_code == 2 and "holds the weights" in asked.stderr


def test_deep_networks_are_compared_on_a_box(tmp_path: Path) -> None:
    planted.export_network(
        planted.DeepNetwork([(np.eye(2), None), (np.eye(2), None), ([[1.0, 1.0]], None)]),
        tmp_path / "n.json",
    )
    result = invoke("compare", str(tmp_path / "n.json"), str(tmp_path / "n.json"))
    assert result.exit_code == 2 and "a network of 3 layers" in result.stderr and "--box" in result.stderr


def test_version_and_help() -> None:
    assert invoke("--version").stdout == f"planted {planted.__version__}\n"
    help_text = invoke("--help").stdout
    assert all(name in help_text for name in ("demo", "recover", "simulate", "predict", "compare"))


def test_the_demo_does_not_overwrite_what_is_not_its_own(tmp_path: Path) -> None:
    page = tmp_path / "planted-demo.html"
    page.write_text('<meta name="generator" content="planted"><title>My notes</title>')
    result = invoke("demo", "--out", str(page))
    assert result.exit_code == 2 and "Choose another name" in result.stderr
    assert "My notes" in page.read_text()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_drawn_for_a_terminal_alone(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=is_terminal, width=80)
    monkeypatch.setattr(_console, "err_console", lambda: console)
    monkeypatch.setattr(_console, "PATIENCE_SECONDS", 0.0)
    with _console.progress_bar("starting [b]") as report:
        report("counting [odd]", 0.25)
        deadline = time.monotonic() + 20
        while is_terminal and "counting [odd]" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        report("no end in sight", float("nan"))
    assert ("counting [odd]" in stream.getvalue()) == is_terminal
    assert is_terminal or stream.getvalue() == ""


def test_short_work_draws_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80)
    monkeypatch.setattr(_console, "err_console", lambda: console)
    with _console.progress_bar("starting") as report:
        report("counting", 0.25)
    assert "counting" not in stream.getvalue()
