"""Every example of the gallery runs on its own, warnings included, and opens with its question."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("plot_*.py"))
LIMIT_SECONDS = 300  # against a hang; an example takes some ten seconds on one core


@cache
def matplotlib_folder() -> str:
    """Return the folder of the list of fonts, which is made once and not by every example."""
    return tempfile.mkdtemp()


def run_example(path: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in an empty folder, without a display, on one thread, with warnings as errors."""
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    return subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=folder,
        env=os.environ | threads | {"MPLBACKEND": "Agg", "MPLCONFIGDIR": matplotlib_folder()},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )


def files_left(folder: Path) -> list[str]:
    """Return what a script left behind."""
    return sorted(path.name for path in folder.iterdir())


def test_the_gallery_is_there() -> None:
    assert len(EXAMPLES) >= 12


@pytest.mark.parametrize(
    "text", ["raise SystemExit(3)", "import warnings\nwarnings.warn('a sign of trouble', stacklevel=1)"]
)
def test_a_failing_example_is_seen(text: str, tmp_path: Path) -> None:
    script = tmp_path / "plot_bad.py"
    script.write_text(text, encoding="utf-8")
    assert run_example(script, tmp_path).returncode != 0


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path: Path, tmp_path: Path) -> None:
    run = run_example(path, tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip(), "an example prints the numbers it speaks of"
    assert files_left(tmp_path) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_a_title_cells_and_a_figure(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    title, underline, *_ = (ast.get_docstring(ast.parse(text)) or "\n").splitlines()
    assert set(underline) == {"="} and len(underline) == len(title), (
        "sphinx-gallery takes the title from here"
    )
    assert text.count("\n# %%\n") >= 2
    assert "plt.show()" in text
