"""The documentation builds without a warning. Its gallery is run by test_examples, here it is only read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import planted

ROOT = Path(__file__).resolve().parents[2]
MADE = shutil.ignore_patterns("_build", "generated", "gallery", "__pycache__")


def test_documentation_builds_without_warnings(tmp_path: Path) -> None:
    # A copy: generated pages are written beside the sources, and other tests run at the same time.
    for folder in ("docs", "examples", "benchmarks", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=MADE)
    for page in (*ROOT.glob("*.md"), ROOT / "references.bib", ROOT / "pyproject.toml"):
        shutil.copy(page, tmp_path)
    build = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", "site"],
        cwd=tmp_path,
        env=os.environ | {"PLANTED_GALLERY": "read", "MPLCONFIGDIR": str(tmp_path / "matplotlib")},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert build.returncode == 0, build.stderr
    methods = [f"theory/{name}" for name in planted.methods()] + ["generated/planted.methods.restarts"]
    pages = ("index", "start", "front-door", "generated/choosing", "generated/architecture", "gallery/index")
    for page in (*pages, *methods):
        assert (tmp_path / "site" / f"{page}.html").stat().st_size > 5000
