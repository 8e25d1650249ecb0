"""Pictures can be read: what is exact to rounding is named and does not flatten the other curves."""

import re

import pytest

from planted.reporting import draw_panels
from planted.reproduce import Axes

ROWS = [
    {"n": n, "series": name, "error": scale / n}
    for name, scale in (("paper", 1.0), ("ours", 3e-30), ("falls", 1e-3))
    for n in (1, 10, 100)
]


def lowest_tick(svg: str) -> int:
    """Return the smallest exponent on a logarithmic axis."""
    return min(int(found.replace("−", "-")) for found in re.findall(r"10\^\{([-−]?\d+)\}", svg))


@pytest.mark.parametrize("log_y", [True, False])
def test_a_curve_at_rounding_error_is_named_and_not_drawn(log_y: bool) -> None:
    svg = draw_panels(ROWS, [Axes("error", "n", "error", "series", log_x=True, log_y=log_y)], title="t")
    assert ("ours ≤ 3e-30" in svg) == log_y
    assert "paper" in svg and "falls" in svg
    if log_y:
        assert lowest_tick(svg) > -12


def test_a_curve_that_falls_to_rounding_error_ends_at_the_floor() -> None:
    rows = [
        *ROWS,
        *({"n": n, "series": "deep", "error": 10.0 ** (-15 * i)} for i, n in enumerate((1, 10, 100))),
    ]
    svg = draw_panels(rows, [Axes("error", "n", "error", "series")], title="t")
    assert "deep" in svg and "deep ≤" not in svg
    assert lowest_tick(svg) > -12


@pytest.mark.parametrize(
    "name, one_below_another", [("a short name", False), ("a name of many more letters", True)]
)
def test_long_names_of_curves_stand_one_below_another(name: str, one_below_another: bool) -> None:
    rows = [{"n": n, "series": f"{name} {which}", "error": 1.0 / n} for which in "ab" for n in (1, 10)]
    svg = draw_panels(rows, [Axes("error", "n", "error", "series")], title="t")
    heights = [re.search(rf'y="([\d.]+)"[^>]*>{name} {which}<', svg)[1] for which in "ab"]
    assert (heights[0] != heights[1]) == one_below_another
