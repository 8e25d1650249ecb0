"""Outputs never destroy: every way to name an input, another output, a device or a foreign file is refused, before the work.

Files are compared before and after by their bytes; every command that writes is tried with every way to do harm.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from pathology.tries import tried
from planted import TwoLayerNetwork, export_network, load_network
from planted.cli import app
from planted.io import load_with_columns, write_table

NETWORK = TwoLayerNetwork(W=[[0.6, 0.8], [1.0, 0.0]], b=[0.5, -0.25], A=[[1.0, 2.0]])
COMMAND = Path(sys.executable).parent / "planted"
SUFFIXES = {
    "table": ".csv",
    "network": ".safetensors",
    "report": ".html",
    "sums": ".sums",
    "log": ".log",
    "json": ".json",
}
# Every option that names a file to write: command, its other words, the option, and the kind of the file.
WRITERS: list[tuple[str, list[str], str, str]] = [
    ("recover", ["data.csv", "--targets", "y"], "--out", "network"),
    ("recover", ["data.csv", "--targets", "y"], "--report", "report"),
    ("diagnose", ["data.csv", "--targets", "y"], "--report", "report"),
    ("memorize", ["data.csv", "--targets", "y"], "--out", "network"),
    ("identify", ["net.onnx"], "--out", "network"),
    ("identify", ["net.onnx"], "--report", "report"),
    ("identify", ["net.onnx"], "--log", "log"),
    ("predict", ["net.safetensors", "data.csv"], "--out", "table"),
    ("export", ["net.safetensors", "--to", "json"], "--out", "json"),
    ("simplify", ["net.safetensors"], "--out", "network"),
    ("sums", ["data.csv", "--targets", "y"], "--out", "sums"),
    ("simulate", ["--samples", "20"], "", "table"),
    ("simulate", ["world.csv", "--samples", "20"], "--truth", "network"),
    ("demo", [], "--out", "report"),
]
IDS = [f"{command} {option}".strip() for command, _, option, _ in WRITERS]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).exponential(size=(60, 2)) - 1.0
    write_table(tmp_path / "data.csv", {"a": X[:, 0], "b": X[:, 1], "y": NETWORK(X)[:, 0]})
    NETWORK.save(tmp_path / "net.safetensors", features=["a", "b"], targets=["y"])
    export_network(NETWORK, tmp_path / "net.onnx")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def words_of(writer: tuple[str, list[str], str, str], target: str, *more: str) -> list[str]:
    command, words, option, _ = writer
    return [command, *words, *([option] if option else []), target, *more]


def invoke(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def assert_refused(folder: Path, words: list[str], message: str) -> None:
    tried()
    before = contents(folder)
    result = invoke(*words)
    said = " ".join(result.stderr.split())
    assert result.exit_code == 2 and message in said, (words, result.output)
    assert result.stdout == "" and contents(folder) == before


@pytest.mark.parametrize("writer", WRITERS, ids=IDS)
def test_folders_pipes_devices_and_other_formats_are_refused(folder, writer) -> None:
    suffix = SUFFIXES[writer[3]]
    (folder / f"folder{suffix}").mkdir()
    assert_refused(folder, words_of(writer, f"folder{suffix}"), "is a folder")
    os.mkfifo(folder / f"pipe{suffix}")
    (folder / f"null{suffix}").symlink_to("/dev/null")
    for name in ("pipe", "null"):
        assert_refused(folder, words_of(writer, f"{name}{suffix}", "--force"), "is a pipe or a device")
    assert_refused(folder, words_of(writer, f"absent/new{suffix}"), "no folder")
    assert_refused(folder, words_of(writer, "new\0" + suffix), "null byte")
    if writer[3] != "log":
        for other in (".pdf", ".exe", ""):
            assert_refused(folder, words_of(writer, f"new{other}", "--force"), "is written to a file named")


@pytest.mark.parametrize("writer", WRITERS, ids=IDS)
@pytest.mark.parametrize("content", [b"precious", b"", b'{"format": "mine"}', b"<!doctype html><p>mine"])
def test_what_planted_did_not_write_is_kept_unless_asked(folder, writer, content) -> None:
    target = folder / f"mine{SUFFIXES[writer[3]]}"
    target.write_bytes(content)
    if writer[3] == "log":
        if content:
            assert_refused(folder, words_of(writer, target.name), "not a log of queries")
    elif content or writer[3] != "table":
        assert_refused(folder, words_of(writer, target.name), "replace it with --force")
    link = folder / f"link{SUFFIXES[writer[3]]}"
    link.symlink_to(target.name)
    if content:
        assert_refused(folder, words_of(writer, link.name), "")


QUICK = [writer for writer in WRITERS if writer[0] != "demo" and writer[3] != "log"]


@pytest.mark.parametrize(
    "writer", QUICK, ids=[f"{command} {option}".strip() for command, _, option, _ in QUICK]
)
def test_own_files_are_replaced_and_foreign_ones_by_force(folder, writer) -> None:
    target = folder / f"result{SUFFIXES[writer[3]]}"
    target.write_bytes(b"mine")
    first = invoke(*words_of(writer, target.name, "--force", "--json"))
    assert first.exit_code in (0, 1), first.output
    made = target.read_bytes()
    assert made != b"mine" and json.loads(first.stdout)
    again = invoke(
        *words_of(
            writer, target.name, *(["--force"] if writer[3] == "table" or writer[0] == "simulate" else [])
        )
    )
    assert again.exit_code == first.exit_code, again.output
    assert not list(folder.glob(".*.part*"))


LINKS = {
    "itself": lambda path, link: link,
    "another way": lambda path, link: Path("sub") / ".." / path.name,
    "symlink": lambda path, link: link.symlink_to(path.name) or link,
    "hard link": lambda path, link: link.hardlink_to(path) or link,
    "chain": lambda path, link: (
        path.with_name("middle").symlink_to(path.name) or link.symlink_to("middle") or link
    ),
}


@pytest.mark.parametrize("way", LINKS)
@pytest.mark.parametrize(
    ("source", "words", "option"),
    [
        ("net.safetensors", ["simplify", "INPUT"], "--out"),
        ("net.safetensors", ["export", "INPUT", "--to", "planted"], "--out"),
        ("data.csv", ["predict", "net.safetensors", "INPUT"], "--out"),
        ("net.json", ["export", "INPUT", "--to", "json"], "--out"),
        ("net.onnx", ["export", "INPUT", "--to", "onnx"], "--out"),
        ("net.onnx", ["identify", "INPUT"], "--log"),
        ("part.sums", ["sums", "FOLDER", "--targets", "y"], "--out"),
        ("rows.html", ["identify", "--inputs", "2", "OPTION", "--", "cat", "INPUT"], "--report"),
    ],
)
def test_an_output_that_is_an_input_is_refused_by_whatever_name(folder, way, source, words, option) -> None:
    (folder / "sub").mkdir()
    export_network(NETWORK, folder / "net.json")
    (folder / "rows.html").write_text("1,2")
    (folder / "tables").mkdir()
    (folder / "part.sums").write_bytes(b"")
    (folder / "tables" / "data.sums").hardlink_to(folder / "part.sums")
    path = folder / source
    link = path if way == "itself" else folder / f"link{path.suffix}"
    target = LINKS[way](path, link)
    typed = {"INPUT": [source], "FOLDER": ["tables"], "OPTION": [option, str(target)]}
    if "OPTION" not in words:
        words = [*words, "OPTION"]
    said = [part for word in words for part in typed.get(word, [word])]
    said.insert(1, "--force")
    assert_refused(folder, said, "this file is read")


@pytest.mark.parametrize("way", ["itself", "another way", "symlink", "dangling"])
@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["identify", "net.onnx"], ("--out", "--log")),
        (["identify", "net.onnx"], ("--report", "--log")),
    ],
)
def test_two_outputs_that_are_one_file_are_refused(folder, way, words, options) -> None:
    (folder / "sub").mkdir()
    suffix = ".safetensors" if options[0] == "--out" else ".html"
    one = folder / f"one{suffix}"
    if way == "symlink":
        one.write_bytes(b"")
    if way in ("symlink", "dangling"):
        (folder / "two").symlink_to(one.name)
    other = {"itself": one.name, "another way": f"sub/../{one.name}"}.get(way, "two")
    assert_refused(
        folder, [*words, options[0], one.name, options[1], other, "--force"], "names the same file"
    )


def test_read_only_files_and_folders_are_refused(folder, monkeypatch) -> None:
    NETWORK.save(folder / "kept.safetensors")
    real = os.access
    blocked = {"kept.safetensors"}
    monkeypatch.setattr(
        os,
        "access",
        lambda path, mode: not (mode & os.W_OK and Path(path).name in blocked) and real(path, mode),
    )
    assert_refused(folder, ["simplify", "net.safetensors", "--out", "kept.safetensors"], "is read-only")
    with pytest.raises(PermissionError, match="read-only"):
        NETWORK.save(folder / "kept.safetensors")
    blocked.add(folder.name)
    assert_refused(
        folder, ["simplify", "net.safetensors", "--out", "new.safetensors"], "may not be written to"
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_failed_export_leaves_the_old_file(folder, seed) -> None:
    """A weight beyond single precision, somewhere: nothing of the file of the earlier export changes."""
    rng = np.random.default_rng(seed)
    for form, suffix in (("onnx", ".onnx"), ("torch", ".safetensors"), ("c", ".h")):
        target = folder / f"old{suffix}"
        first = invoke(
            "export", "net.safetensors", "--to", form, "--out", target.name, "--precision", "float32"
        )
        assert first.exit_code == 0, first.output
        W = NETWORK.W.copy()
        W[tuple(int(rng.integers(side)) for side in W.shape)] = 10.0 ** rng.uniform(39, 300)
        TwoLayerNetwork(W, NETWORK.b, NETWORK.A).save(folder / "large.safetensors")
        words = [
            "export",
            "large.safetensors",
            "--to",
            form,
            "--out",
            target.name,
            "--precision",
            "float32",
            "--force",
        ]
        assert_refused(folder, words, "float32 ends at")


def test_a_checkpoint_folder_is_neither_a_file_nor_the_data(folder) -> None:
    (folder / "tables").mkdir()
    (folder / "data.csv").rename(folder / "tables" / "data.csv")
    (folder / "same").symlink_to("tables")
    for name, message in (
        ("tables", "is read as data"),
        ("same", "is read as data"),
        ("net.onnx", "is a file"),
    ):
        assert_refused(folder, ["recover", "tables", "--targets", "y", "--checkpoint", name], message)


def test_names_of_columns_are_kept_by_every_command_that_writes_a_network(folder) -> None:
    for words in (
        ["recover", "data.csv", "--targets", "y", "--seed", "1", "--out", "a.safetensors"],
        ["memorize", "data.csv", "--targets", "y", "--seed", "1", "--out", "b.safetensors"],
        ["export", "net.safetensors", "--to", "json", "--out", "c.json"],
        ["export", "net.safetensors", "--to", "planted", "--out", "d.safetensors"],
        ["simplify", "net.safetensors", "--out", "e.safetensors"],
    ):
        assert invoke(*words).exit_code in (0, 1), words
        saved = load_with_columns(folder / words[-1])
        assert (saved.features, saved.targets) == (("a", "b"), ("y",)), words
    world = [
        "simulate",
        "world.csv",
        "--samples",
        "5",
        "--features",
        "2",
        "--outputs",
        "1",
        "--truth",
        "t.safetensors",
    ]
    assert invoke(*world).exit_code == 0
    assert load_with_columns(folder / "t.safetensors").features == ("x1", "x2")
    predicted = invoke("predict", "c.json", "data.csv")
    assert predicted.exit_code == 0 and predicted.stdout.startswith("y\n")


@pytest.mark.parametrize(
    "words", [words_of(writer, "") for writer in WRITERS if writer[0] not in ("simulate", "demo")]
)
def test_memory_is_an_option_of_every_command_that_reads(folder, words) -> None:
    command, *rest = words[
        : words.index(next(word for word in words if word.startswith("--") and word != "--to"))
    ]
    targets = ["--targets", "y"] if command in ("recover", "diagnose", "memorize", "sums") else []
    tried(2)
    result = invoke(command, *rest, *targets, "--memory", "10")
    assert result.exit_code == 2 and "the budget is 10 bytes" in result.stderr, result.output
    result = invoke(command, *rest, *targets, "--memory", "much")
    assert result.exit_code == 2 and "memory='much'" in result.stderr


def test_drawing_more_samples_than_fit_is_refused_at_once(folder) -> None:
    assert_refused(folder, ["simulate", "world.csv", "--samples", str(10**13)], "but the budget is")


# --- streams that end


RECOVER = [str(COMMAND), "recover", "data.csv", "--targets", "y", "--seed", "1", "--out", "n.safetensors"]


@pytest.mark.parametrize(("closed", "end"), [((1,), "pipe"), ((1, 2), "pipe"), ((1, 2), "closed")])
def test_a_reader_that_goes_away_changes_neither_files_nor_the_exit_code(folder, closed, end) -> None:
    ends = " ".join(f"{number}>&-" for number in closed) if end == "closed" else ""
    read, write = os.pipe()
    os.close(read)
    streams = {
        name: write if number in closed else subprocess.DEVNULL
        for name, number in (("stdout", 1), ("stderr", 2))
    }
    more = ["--report", "r.html"] if closed == (1,) else []
    line = ["sh", "-c", f'exec "$@" {ends}', "sh", *RECOVER, *more]
    code = subprocess.run(line, **streams, check=False).returncode
    os.close(write)
    assert code == 0
    assert load_network(folder / "n.safetensors").n_hidden == 2
    assert not more or (folder / "r.html").read_text().rstrip().endswith("</html>")


def test_answers_that_cannot_be_printed_are_an_error(folder) -> None:
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [str(COMMAND), "predict", "net.safetensors", "data.csv"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert run.returncode == 2 and run.stderr.startswith("error: No space left on device")


# --- names that a terminal would obey


@pytest.mark.parametrize(
    "name", ["\x1b[2J\x1b[31mred", "a\rb", "back\x08\x08", "\u202eevil", "bell\x07", "csi\x9b31m"]
)
def test_control_characters_are_shown_escaped(folder, name) -> None:
    X = np.random.default_rng(0).exponential(size=(60, 2)) - 1.0
    write_table(folder / "odd.csv", {name: X[:, 0], "b": X[:, 1] * 0, "y": NETWORK(X)[:, 0]})
    (folder / f"{name}.csv").write_bytes(b"not a table")
    for words in (
        ["recover", "odd.csv", "--targets", "y", "--seed", "1", "--out", "odd.safetensors"],
        ["diagnose", "odd.csv", "--targets", "y"],
        ["recover", "odd.csv", "--targets", name + "!"],
        ["recover", f"{name}.csv"],
        ["simulate", f"{name}.exe"],
        ["predict", f"{name}.safetensors", "data.csv"],
        ["compare", f"{name}.onnx", f"{name}.onnx"],
        ["recover", "data.csv", "--method", name],
        ["recover", "data.csv", "--activation", name],
    ):
        tried()
        result = invoke(*words)
        assert result.exit_code in (0, 1, 2), (words, result.output)
        hidden = [
            char
            for char in result.stdout + result.stderr
            if not char.isprintable() and char not in "\n\xa0\u2009\u202f"
        ]
        assert not hidden, (words, hidden, result.output)
