"""Importing the package and asking for help stay light: no heavy library is loaded on the way."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "sklearn",
    "torch",
    "dask",
    "distributed",
    "pyarrow",
    "matplotlib",
    "jinja2",
    "onnx",
    "onnxruntime",
    "pandas",
)
IMPORT = "import planted"
HELP = """
import sys
from planted.cli import main
sys.argv = ["planted", "--help"]
try:
    main()
except SystemExit as ending:
    assert not ending.code, ending.code
"""
REPORT = """
import sys
print("HEAVY:" + ",".join(sorted(name for name in {heavy!r} if name in sys.modules)))
"""


def heavy_modules_after(code: str) -> list[str]:
    """Run ``code`` in a fresh interpreter and return the heavy libraries it loaded."""
    command = [sys.executable, "-c", code + REPORT.format(heavy=HEAVY)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == 0, finished.stderr
    line = finished.stdout.splitlines()[-1]
    assert line.startswith("HEAVY:")
    return [name for name in line.removeprefix("HEAVY:").split(",") if name]


@pytest.mark.parametrize("code", [IMPORT, HELP], ids=["import", "help"])
def test_loads_no_heavy_library(code: str) -> None:
    assert heavy_modules_after(code) == []


def test_a_heavy_import_would_be_seen() -> None:
    assert heavy_modules_after("import jinja2") == ["jinja2"]
