"""What is released: a wheel and an sdist that build, install and start; one version; the oldest libraries on record."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import planted

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LARGEST_WHEEL = 1_500_000  # bytes: code and templates, no data
FRESH = (
    "import sys, numpy as np, planted\n"
    "assert planted.__file__.startswith(sys.argv[1]), planted.__file__\n"
    "net = planted.simulate.teacher(4, 3, 3, bias=(-0.5, 0.5), random_state=0)\n"
    "X = planted.simulate.inputs(120, 4, law='exponential', random_state=0)\n"
    "answer = planted.recover(X, net(X), method='complementarity', random_state=1)\n"
    "assert planted.parameter_error(answer.network, net) < 1e-12\n"
    "print(planted.__version__)"
)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both, without the network."""
    folder = tmp_path_factory.mktemp("dist")
    code = "import hatchling.build as b, sys; b.build_wheel(sys.argv[1]); b.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", code, str(folder))
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


def test_the_wheel_is_small_typed_and_holds_the_package_alone(wheel: Path) -> None:
    assert wheel.stat().st_size < LARGEST_WHEEL
    with zipfile.ZipFile(wheel) as members:
        names = members.namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"planted", f"planted-{planted.__version__}.dist-info"}
    assert "planted/py.typed" in names
    assert any(name.startswith("planted/reporting/templates/") for name in names), (
        "the report needs its templates"
    )
    suffixes = {Path(name).suffix for name in names if name.startswith("planted/")}
    assert not suffixes & {".csv", ".npz", ".npy", ".parquet", ".gz", ".safetensors"}, "no data in the wheel"


def test_the_metadata_say_what_is_true(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as members:
        text = members.read(f"planted-{planted.__version__}.dist-info/METADATA").decode()
        entry_points = members.read(f"planted-{planted.__version__}.dist-info/entry_points.txt").decode()
    fields = email.message_from_string(text)
    assert (fields["Name"], fields["Version"]) == ("planted", planted.__version__)
    assert fields["Requires-Python"] == ">=3.11"
    classifiers = fields.get_all("Classifier") or []
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} <= set(classifiers)
    assert "Typing :: Typed" in classifiers and "planted = planted.cli:main" in entry_points


def test_the_sdist_can_be_tested_and_built_from(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as members:
        names = {name.partition("/")[2] for name in members.getnames()}
    needed = {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "SECURITY.md",
        "Makefile",
        "constraints.txt",
        "references.bib",
    }
    assert needed <= names
    assert {"src/planted/__init__.py", "tests/conftest.py", "docs/pages.py", "benchmarks/run.py"} <= names


def test_the_installed_wheel_recovers_a_network(wheel: Path, tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--no-deps", "--no-index", "--target", str(tmp_path), str(wheel))
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + FRESH
    finished = run(sys.executable, "-I", "-c", code, str(tmp_path))
    assert finished.stdout.strip() == planted.__version__


def test_the_version_is_written_once() -> None:
    assert PROJECT["dynamic"] == ["version"] and "version" not in PROJECT
    sources = (ROOT / "src" / "planted").rglob("*.py")
    holders = [
        path.name for path in sources if f'"{planted.__version__}"' in path.read_text(encoding="utf-8")
    ]
    assert holders == ["_version.py"]


def test_the_oldest_versions_are_those_of_the_requirements() -> None:
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["files"], *extras["report"], *extras["dev"]]
    least = dict(re.findall(r"^([\w-]+)>=([\d.]+)", "\n".join(wanted), flags=re.MULTILINE))
    lines = (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert {re.split(r"[>\[ ]", name)[0] for name in PROJECT["dependencies"]} <= set(pins)
    assert set(pins) - set(least) <= {"click"}
    for name, version in pins.items():
        if name not in least:
            continue
        assert numbers(version) == numbers(least[name]), (
            f"{name}: {version} here, {least[name]} in pyproject.toml"
        )


def numbers(version: str) -> tuple[int, int, int]:
    parts = [int(part) for part in version.split(".")]
    first, second, third = [*parts, 0, 0, 0][:3]
    return first, second, third
