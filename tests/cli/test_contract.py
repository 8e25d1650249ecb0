"""What holds for every command: help with examples that parse, --json, exit codes, completion."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from planted import export_network
from planted.cli import app
from planted.cli._main import EXAMPLES
from planted.networks import TwoLayerNetwork

GROUP: Any = typer.main.get_command(app)
COMMANDS = sorted(GROUP.commands)
LINES = [line for lines in EXAMPLES.values() for line in lines]
NETWORK = TwoLayerNetwork(W=[[0.6, 0.8], [1.0, 0.0]], b=[0.5, -0.25], A=[[1.0, 2.0]])
# What each command does with a file that is not there, or the word that comes nearest to it.
ABSENT: dict[str, tuple[str, ...]] = {
    "bench": ("--only", "no-such-benchmark"),
    "compare": ("absent.safetensors", "absent.safetensors"),
    "demo": ("--out", "absent/page.html"),
    "diagnose": ("absent.csv",),
    "doctor": ("superfluous",),
    "export": ("absent.safetensors", "--to", "json"),
    "fetch-mnist": ("folder", "superfluous"),
    "identify": ("absent.onnx",),
    "memorize": ("absent.csv",),
    "methods": ("superfluous",),
    "predict": ("absent.safetensors", "absent.safetensors"),
    "recover": ("absent.csv",),
    "reproduce": ("no-such-paper",),
    "simplify": ("absent.safetensors",),
    "simulate": ("absent/world.csv",),
    "sums": ("absent.csv",),
    "verify": ("absent.vnnlib", "absent.safetensors"),
}


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_the_tables_of_this_file_name_every_command() -> None:
    assert sorted(ABSENT) == COMMANDS
    assert len(EXAMPLES) == len(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_explains_every_option_and_ends_with_examples(name: str) -> None:
    result = invoke(name, "--help")
    assert result.exit_code == 0 and result.stderr == ""
    assert "Examples:" in result.stdout and "$ planted " in result.stdout
    command = GROUP.commands[name]
    assert all(option.help for option in command.params if option.name != "help"), "an option without a word"
    assert "--json" in [word for option in command.params for word in option.opts]


@pytest.mark.parametrize("line", LINES)
def test_the_examples_of_the_help_parse(line: str) -> None:
    program, name, *arguments = shlex.split(line)
    assert program == "planted"
    context = GROUP.commands[name].make_context(name, arguments)
    assert context.args == []


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_is_exit_code_2(name: str) -> None:
    result = invoke(name, "--no-such-option")
    assert result.exit_code == 2 and result.stdout == ""
    assert "No such option" in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_not_there_is_exit_code_2_on_stderr_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(name, *ABSENT[name])
    said = result.stderr + capfd.readouterr().err  # the benchmarks run in a process of their own
    assert (result.exit_code, result.stdout) == (2, ""), said
    word = next(word for word in reversed(ABSENT[name]) if word != "json" and not word.startswith("-"))
    assert word.split("/")[0] in said and "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    NETWORK.save(tmp_path / "net.safetensors")
    (tmp_path / "inputs.csv").write_text("u,v\n1,2\n5,6\n")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("simulate", "w.csv", "--samples", "5", "--hidden", "2"),
            {"out": "w.csv", "truth": None, "samples": 5, "features": 10, "outputs": 5, "hidden": 2},
        ),
        (("predict", "net.safetensors", "inputs.csv", "--out", "p.csv"), {"out": "p.csv", "rows": 2}),
        (
            ("export", "net.safetensors", "--to", "json"),
            {"out": "net.json", "format": "json", "precision": "float64", "largest_difference": 0.0},
        ),
        (
            ("compare", "net.safetensors", "net.safetensors"),
            {"equal": True, "parameter_error": 0.0, "tol": None, "bound": 0.0},
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_json_is_one_object_on_stdout(
    arguments: tuple[str, ...], expected: dict[str, Any], folder: Path
) -> None:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == expected


def test_predictions_as_json_are_columns(folder: Path) -> None:
    result = invoke("predict", "net.safetensors", "inputs.csv", "--json")
    # relu(0.6 + 1.6 + 0.5) + 2 relu(1 - 0.25) = 2.7 + 1.5; relu(3 + 4.8 + 0.5) + 2 relu(5 - 0.25) = 8.3 + 9.5
    assert json.loads(result.stdout)["y1"] == pytest.approx([4.2, 17.8], rel=1e-14)


def test_the_list_of_papers_as_json() -> None:
    papers = json.loads(invoke("reproduce", "--json").stdout)
    assert "symmetric-inputs" in papers and all(papers.values())


@pytest.mark.parametrize(
    ("column", "place"),
    [("1,2,3\n4,,6\n", "row 1, column 1 ('b')"), ("1,2,3\n4,high,6\n", "'b'")],
    ids=["missing", "text"],
)
def test_errors_name_file_row_and_column(column: str, place: str, folder: Path) -> None:
    (folder / "gap.csv").write_text("a,b,y\n" + column)
    for name in ("recover", "diagnose", "memorize"):
        result = invoke(name, "gap.csv", "--targets", "y")
        assert result.exit_code == 2 and result.stdout == ""
        assert "gap.csv" in result.stderr and place in result.stderr


@pytest.mark.parametrize(
    ("library", "extra", "arguments"),
    [
        ("onnxruntime", "onnx", ("identify", "net.onnx")),
        ("onnx", "onnx", ("export", "net.safetensors", "--to", "onnx", "--out", "new.onnx")),
        ("pyarrow", "files", ("recover", "table.parquet")),
    ],
)
def test_a_missing_extra_is_exit_code_2_with_the_command_that_installs_it(
    library: str, extra: str, arguments: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_network(NETWORK, folder / "net.onnx")
    (folder / "table.parquet").write_bytes(b"PAR1")
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.stderr
    assert f"pip install 'planted[{extra}]'" in result.stderr and "not installed" in result.stderr


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("dia", "diagnose"),
        ("fetch", "fetch-mnist"),
        ("recover --meth", "--method"),
        ("recover --method comp", "complementarity"),
        ("export --to on", "onnx"),
    ],
)
def test_the_shell_completes_commands_options_and_names(typed: str, offered: str) -> None:
    words = str(len(typed.split()))
    extra = {"_PLANTED_COMPLETE": "complete_bash", "COMP_WORDS": f"planted {typed}", "COMP_CWORD": words}
    command = [sys.executable, "-c", "from planted.cli import main; main()"]
    finished = subprocess.run(
        command, env=os.environ | extra, capture_output=True, text=True, timeout=60, check=False
    )
    assert finished.stdout.split() == [offered]
