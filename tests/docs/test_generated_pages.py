"""The pages made from results and tables: complete, and markup that parses."""

from __future__ import annotations

from types import ModuleType

import pytest
from docutils.core import publish_string

from pathology.matrix import CASES, ENTRIES, FAULTS, FILES


@pytest.mark.parametrize("name", ["benchmarks_page", "bad_input_page"])
def test_the_markup_parses_without_a_warning(pages: ModuleType, name: str) -> None:
    strict = {"report_level": 2, "halt_level": 2}  # a warning ends it
    assert publish_string(getattr(pages, name)(), writer="html", settings_overrides=strict)


def test_markup_in_results_is_text(pages: ModuleType) -> None:
    assert pages._escaped("a *b* |c| d_ `code_` \\") == "a \\*b\\* \\|c\\| d\\_ ``code_`` \\\\"


def test_the_benchmarks_page_shows_every_target(pages: ModuleType) -> None:
    page = pages.benchmarks_page()
    assert all(f"   * - T{i}\n" in page for i in range(1, 17))
    assert "python benchmarks/recovery.py" in page and "first seed 0" in page


def test_the_page_of_bad_input_shows_every_cell(pages: ModuleType) -> None:
    page = pages.bad_input_page()
    assert all(f"   * - {case.name}\n" in page for case in CASES)
    assert all(
        pages._escaped(text) in page for text in (*ENTRIES, *FILES, *(fault for fault, _, _ in FAULTS))
    )
