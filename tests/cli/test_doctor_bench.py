"""`planted doctor` finds what is broken; `planted bench` shows every target and what became worse."""

from __future__ import annotations

import importlib.util
import json
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from planted.cli import app
from planted.cli.commands import _bench, _doctor

ROOT = Path(__file__).resolve().parents[2]


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def doctor_with(monkeypatch: pytest.MonkeyPatch, *requirements: str) -> tuple[int, dict[str, Any]]:
    """Let the doctor believe that planted has these requirements."""
    monkeypatch.setattr(metadata, "requires", lambda name: list(requirements))
    result = invoke("doctor", "--json")
    found = json.loads(result.stdout)
    assert found["healthy"] == (result.exit_code == 0)
    return result.exit_code, {check["name"]: check for check in found["checks"]}


def test_a_healthy_installation_recovers_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    code, checks = doctor_with(
        monkeypatch, "numpy>=2.0", "scikit-learn>=1.6", "pytest<9.2,>=8; extra == 'dev'"
    )
    assert code == 0
    assert checks["recovery"]["detail"].startswith("RECOVERED")
    assert checks["numpy"]["status"] == checks["scikit-learn"]["status"] == "ok"
    assert not any("pytest" in name for name in checks), "what only developers need is no business of users"


def test_a_missing_extra_is_told_but_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    code, checks = doctor_with(monkeypatch, "no-such-library>=1; extra == 'onnx'")
    check = checks["no-such-library (onnx)"]
    assert code == 0 and check["status"] == "missing"
    assert "ONNX files" in check["detail"] and check["fix"] == "pip install 'planted[onnx]'"


@pytest.mark.parametrize(
    ("requirement", "detail"),
    [("no-such-library>=1", "not installed"), ("numpy>=999.1", "is older than 999.1")],
)
def test_a_missing_or_old_requirement_fails(
    requirement: str, detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, checks = doctor_with(monkeypatch, requirement)
    check = checks[requirement.partition(">")[0]]
    assert code == 1 and check["status"] == "FAILED" and detail in check["detail"] and check["fix"]


def test_a_library_that_does_not_load_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> ModuleType:
        raise ImportError("libgomp.so.1: cannot open shared object file")

    monkeypatch.setattr(_doctor, "import_module", refuse)
    code, checks = doctor_with(monkeypatch, "numpy>=2.0")
    assert code == 1 and "libgomp" in checks["numpy"]["detail"]


def test_folders_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(_doctor.tempfile, "NamedTemporaryFile", refuse)
    needed = _doctor._check_folder("temporary folder", tmp_path, is_needed=True)
    other = _doctor._check_folder("this folder", tmp_path, is_needed=False)
    assert (needed.status, other.status) == ("FAILED", "missing")
    assert str(tmp_path) in needed.detail and "Permission denied" in needed.detail


def test_a_wrong_recovery_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_doctor, "TOLERANCE", -1.0)
    assert _doctor._check_recovery().status == "FAILED"


def test_the_findings_are_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        _doctor, "examine", lambda: iter([_doctor.Check("x", "FAILED", "broken", "mend [it]")])
    )
    result = invoke("doctor")
    assert result.exit_code == 1 and "mend [it]" in result.stdout and "does not work here" in result.stdout


# --- bench


@pytest.fixture(scope="module")
def targets() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "planted_benchmark_targets", ROOT / "benchmarks" / "targets.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def record(name: str, *lines: tuple[str, str, bool]) -> dict[str, Any]:
    keys = ("target", "measured", "passed")
    return {
        "benchmark": name,
        "quick": False,
        "targets": [dict(zip(keys, line, strict=True)) for line in lines],
    }


def test_without_the_sources_bench_says_where_to_get_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_bench, "__file__", str(tmp_path / "lib" / "planted" / "cli" / "_bench.py"))
    result = invoke("bench", "--collect")
    assert (result.exit_code, result.stdout) == (2, "") and "Get the sources" in result.stderr


def test_collecting_shows_all_targets(capfd: pytest.CaptureFixture[str]) -> None:
    result = invoke("bench", "--collect", "--json")
    rows = json.loads(capfd.readouterr().out)["targets"]
    assert [row["name"] for row in rows] == [f"T{i}" for i in (*range(1, 23), 26)]
    assert result.exit_code == int(any(row["verdict"] == "RED" for row in rows))


def test_verdicts(targets: ModuleType) -> None:
    asked = targets.Target("T0", "both", (targets.Source("a", "^x"), targets.Source("b", at_most=1.05)))
    met = record("a", ("x1", "1/1", True)), record("b", ("ratio <= 1.1", "1.02, k right", False))
    cases = {
        "not measured": (),
        "in part": (met[0],),
        "met": met,
        "RED": (met[0], record("b", ("ratio <= 1.1", "1.08, k right", True))),
    }
    for verdict, records in cases.items():
        (row,) = targets.collect({item["benchmark"]: item for item in records}, (asked,))
        assert row.verdict == verdict
        assert bool(row.explanation) == (verdict != "met")


def test_what_became_worse_is_named(targets: ModuleType) -> None:
    before = {"a": record("a", ("x", "9/10", True), ("y", "1/10", False), ("z", "3", True))}
    after = {
        "a": record("a", ("x", "2/10", False), ("y", "9/10", True), ("z", "4", True), ("new", "0", False))
    }
    assert targets.changes(before, after) == [
        "WORSE: a: x: 9/10 before, 2/10 now",
        "better: a: y: 1/10 before, 9/10 now",
    ]
    assert targets.changes({}, after) == []


def test_quick_runs_never_count(targets: ModuleType, tmp_path: Path) -> None:
    for name, quick in (("a", True), ("b", False)):
        (tmp_path / f"{name}.json").write_text(json.dumps(record(name, ("x", "1", True)) | {"quick": quick}))
    (tmp_path / "old.json").write_text("[]")
    assert list(targets.load_results(tmp_path)) == ["b"]


def test_red_lines_are_listed_with_their_reasons(targets: ModuleType) -> None:
    results = {
        "speed": record(
            "speed", ("certificate, its share", "3", False), ("other", "0", False), ("x", "", True)
        )
    }
    lines = targets.red_lines(results)
    assert [line[1] for line in lines] == ["certificate, its share: 3", "other: 0"]
    assert "smaller its share" in lines[0][2] and lines[1][2] == "Not explained yet."


def test_every_red_line_is_explained(targets: ModuleType) -> None:
    rows = targets.collect(targets.load_results())
    assert [row.name for row in rows if "Not explained yet" in row.explanation] == []
    assert [
        line for line in targets.red_lines(targets.load_results()) if line[2] == "Not explained yet."
    ] == []
