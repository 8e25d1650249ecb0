"""A browser test that is skipped counts as failed where a browser is promised, and only there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"
SKIPPING = """
import pytest

@pytest.mark.browser
def test_in_a_browser():
    pytest.skip("no Chromium")

def test_elsewhere():
    pytest.skip("for another reason")
"""


@pytest.mark.parametrize(
    ("promise", "summary"),
    [("1", "1 failed, 1 skipped"), ("", "2 skipped")],
    ids=["promised", "not promised"],
)
def test_skipping_a_browser_test(promise: str, summary: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "test_skipping.py").write_text(SKIPPING, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = browser: needs a browser\n", encoding="utf-8")
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=tmp_path,
        env={**os.environ, "PLANTED_REQUIRE_BROWSER": promise},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert summary in finished.stdout
    assert finished.returncode == (1 if promise else 0)
