"""What all tests share: a required browser test may not be skipped, and every run draws the same numbers."""

from __future__ import annotations

import os
import random
from collections.abc import Generator

import numpy.random.bit_generator
import pytest
from hypothesis import settings

# The same examples at every run: a red test is red for everyone. Set HYPOTHESIS_PROFILE=explore to look for new ones.
settings.register_profile("fixed", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# The command line respects the width of a terminal; that of whoever runs the tests (pytest-xdist sets one) is not theirs.
os.environ.pop("COLUMNS", None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped browser test into a failure where ``PLANTED_REQUIRE_BROWSER=1`` promises a browser."""
    report = yield
    is_required = os.environ.get("PLANTED_REQUIRE_BROWSER") == "1" and item.get_closest_marker("browser")
    if is_required and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, but PLANTED_REQUIRE_BROWSER=1: {report.longrepr}"
    return report


@pytest.fixture(autouse=True)
def _entropy_of_the_test(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take what NumPy draws without a seed, as commands without ``--seed`` do, from the name of the test."""
    drawn = random.Random(request.node.nodeid)
    monkeypatch.setattr(numpy.random.bit_generator, "randbits", drawn.getrandbits)
