"""Progress of a deep reading: the layer, the units found, the questions asked and about how many are left."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

from planted import DeepNetwork, Outcome, identify

REPORT = re.compile(r"(.+): (?:(\d+) units? found, )?([\d,]+) questions asked, about ([\d,]+) left")


@pytest.mark.parametrize("widths", [(10, 8, 6, 1), (20, 10, 5, 3), (30, 16, 8, 1)])
def test_reports_tell_what_was_found_and_about_how_much_is_left(widths: tuple[int, ...]) -> None:
    rng = np.random.default_rng([77, *widths])
    net = DeepNetwork(
        [
            (rng.standard_normal((out, into)) * np.sqrt(2 / into), 0.5 * rng.standard_normal(out))
            for into, out in pairwise(widths)
        ]
    )
    said: list[tuple[str, float]] = []
    found = identify(
        net, widths[0], random_state=1, progress=lambda what, fraction: said.append((what, fraction))
    )
    assert found.outcome is Outcome.RECOVERED
    total = found.stats["queries"]
    reports = [(REPORT.fullmatch(what), fraction) for what, fraction in said if "questions asked" in what]
    assert len(reports) > 10 and all(match for match, _ in reports)
    told = [
        (match[1], int(match[2] or -1), *(int(match[i].replace(",", "")) for i in (3, 4)), fraction)
        for match, fraction in reports
        if match
    ]
    for layer, width in enumerate(widths[1:3], start=1):
        assert [units for stage, units, *_ in told if stage == f"layer {layer}"][-1] in (width - 1, width)
    asked, left, fractions = (np.array([row[column] for row in told]) for column in (2, 3, 4))
    assert (np.diff(asked) >= 0).all() and asked[-1] <= total
    assert (np.diff(fractions) >= 0).all() and fractions[-1] < 1
    # "About": the whole that a report foretells, within a factor of two for most of them.
    ratios = (asked + left) / total
    assert np.mean((ratios > 0.5) & (ratios < 2)) > 0.8, ratios
