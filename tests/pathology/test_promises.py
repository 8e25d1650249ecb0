"""Every promise of SECURITY.md has a line in the documentation, and every line a test that exists."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from pathology.mutations import BUDGET, READERS, SEEDS
from pathology.test_fuzz import TRIES
from pathology.tries import LINE, PAGE, tried

ROOT = Path(__file__).resolve().parents[2]
STORED = json.loads(SEEDS.read_text(encoding="utf-8"))


def table() -> list[tuple[str, str, str, int]]:
    page = PAGE.read_text(encoding="utf-8")
    return [
        (promise, file, test, int(tries.replace(",", "")))
        for promise, file, test, tries in LINE.findall(page)
    ]


def test_every_promise_has_a_test_and_every_test_exists() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    promised = text[text.index("## What is promised") : text.index("## What is not promised")]
    promises = re.findall(r"^- \*\*(.+?)\.\*\*", promised, re.MULTILINE)
    assert len(promises) == promised.count("\n- ") > 5
    assert {promise for promise, *_ in table()} == set(promises)
    for _, file, test, tries in table():
        names = {
            node.name
            for node in ast.walk(ast.parse((ROOT / file).read_text()))
            if isinstance(node, ast.FunctionDef)
        }
        assert test in names and tries > 0, (file, test)


def test_the_numbers_of_mutated_files_are_those_of_the_tests_and_of_the_stored_run() -> None:
    (tries,) = [tries for *_, test, tries in table() if test.startswith("test_mutated_files")]
    assert tries == sum(TRIES.get(reader, 300) for reader in READERS)
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    study = json.loads((ROOT / "benchmarks" / "results" / "fuzz.json").read_text(encoding="utf-8"))
    rows = {part["section"]: part["rows"][0] for part in study["rows"]}
    assert set(rows) == set(READERS) and not any(row["failures"] for row in rows.values())
    counts: dict[int, list[str]] = {}
    for kind in READERS:
        counts.setdefault(rows[kind]["files"], []).append(kind)
    groups = [f"{count:,} each of {', '.join(counts[count])}" for count in sorted(counts, reverse=True)]
    read, refused = (sum(row[what] for row in rows.values()) for what in ("read", "refused"))
    slowest = max(row["slowest_seconds"] for row in rows.values())
    grown = max(row["megabytes_grown"] for row in rows.values())
    said = (
        f"with seed {study['seed']}, {'; '.join(groups)}. Of these {read:,} gave a right answer and {refused:,} were "
        f"refused; the slowest took {slowest:.2f} seconds of processor time, and memory grew by at most {grown:.0f} MB over "
        f"all of a kind, with a budget of {BUDGET // 10**6} MB."
    )
    assert said in page, said
    assert f"In all runs together {len(STORED['once_failed'])} files broke a promise" in page


def test_the_numbers_of_disturbed_runs_are_those_of_the_stored_study() -> None:
    stored = json.loads((ROOT / "benchmarks" / "results" / "kills.json").read_text(encoding="utf-8"))
    assert not stored["quick"] and all(line["passed"] for line in stored["targets"])
    counts = {line["target"]: int(re.match(r"(\d+)/\1\b", line["measured"])[1]) for line in stored["targets"]}
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    signals = {count for target, count in counts.items() if "honest" in target}
    ends = {count for target, count in counts.items() if "bytes equal" in target}
    crowds = {count for target, count in counts.items() if "at once" in target}
    starved = [
        count for target, count in counts.items() if target.startswith(("full", "read-only", "standard"))
    ]
    assert len(counts) == 14 and f"`reproduce` got {signals.pop()} signals each" in page and not signals
    assert f"to their end {ends.pop()} times each" in page and not ends
    assert len(crowds) == 1 and page.count(f"{crowds.pop()} times on") == 2
    assert f"closed or unread {sum(starved)} times" in page and len(starved) == 3


# Audit events of what must not happen: connections, other programs, and classes found by a pickle.
WATCHED = """
import sys
seen = []
def watch(event, args):
    if event.startswith(("socket.connect", "socket.sendto", "socket.bind", "subprocess.", "os.system", "os.exec", "os.fork",
                         "os.posix_spawn", "pickle.find_class", "urllib.", "http.", "ftplib.", "smtplib.")):
        seen.append((event, repr(args)[:200]))
sys.addaudithook(watch)
from typer.testing import CliRunner
from planted.cli import app
for words in CALLS:
    before = len(seen)
    result = CliRunner().invoke(app, words)
    assert result.exit_code in (0, 1), (words, result.output, result.exception)
    assert len(seen) == before, (words, seen[before:])
print("nothing")
"""


def test_reading_and_writing_starts_nothing(tmp_path) -> None:
    """Simulate, recover from every format, predict, export and report in a process that watches itself."""
    sizes = ["--samples", "120", "--features", "2", "--hidden", "2", "--outputs", "2", "--seed", "1"]
    calls = [["simulate", f"rows{kind}", *sizes] for kind in (".csv", ".npz", ".parquet", ".feather")]
    calls[0] += ["--truth", "truth.safetensors"]
    names = ["--targets", "y1", "y2", "--hidden", "2", "--seed", "1"]
    calls += [["recover", "rows.csv", *names, "--out", "net.safetensors", "--report", "page.html"]]
    calls += [["diagnose", "rows.parquet", *names[:3]], ["diagnose", "rows.feather", *names[:3]]]
    calls += [["predict", "truth.safetensors", "rows.csv", "--out", "answers.csv"]]
    calls += [["export", "truth.safetensors", "--to", "json", "--out", "net.json"]]
    code = WATCHED.replace("CALLS", repr(calls))
    tried(len(calls))
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert run.stdout == "nothing\n", run.stderr[-2000:]


FORBIDDEN = {
    "pickle",
    "cPickle",
    "cloudpickle",
    "dill",
    "joblib",
    "shelve",
    "marshal",
    "urllib",
    "http",
    "requests",
    "ftplib",
}


def test_the_sources_neither_unpickle_nor_evaluate() -> None:
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = (
                    [node.module or ""]
                    if isinstance(node, ast.ImportFrom)
                    else [item.name for item in node.names]
                )
                assert not {name.partition(".")[0] for name in names} & FORBIDDEN, (path, node.lineno)
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {
                    "eval",
                    "exec",
                    "os.system",
                    "torch.load",
                    "np.load",
                    "numpy.load",
                    "__import__",
                }, (path, called)
                given = {
                    word.arg: ast.unparse(word.value)
                    for word in node.keywords
                    if word.arg in ("allow_pickle", "shell")
                }
                assert (
                    given.get("allow_pickle", "False") == "False" and given.get("shell", "False") == "False"
                ), (path, node.lineno)
