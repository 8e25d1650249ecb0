"""What the tests of the house share."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs" / "pages.py"


@pytest.fixture(scope="session")
def pages() -> ModuleType:
    """Return the module that writes the generated pages of the documentation."""
    spec = importlib.util.spec_from_file_location("planted_docs_pages", PAGES)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
