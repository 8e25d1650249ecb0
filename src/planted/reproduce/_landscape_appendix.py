"""Appendix F of [GLM18]_ as a picture: the bad minimum of P′ seen along four segments, and the same point on G.

The truth is W = I with a = (1, 2 + δ, 2 + δ, 2 + δ); the point has rows e1, e1, e2, (e3 + e4)/√2. Two rows share the first
unit, and one row covers two units by halves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from planted._typing import Array
from planted.diagnostics import classify_point, landscape_slice
from planted.linalg.symmetric import unit_rows
from planted.methods.landscape._descent import descend
from planted.methods.landscape.objectives import Objective, population_objective
from planted.reproduce._study import Agreement, Axes, Claim, Study, StudyOptions

__all__ = ["appendix_study"]

EXCESS = 0.5  # δ
STEPS = 61
POINT = np.array([[1.0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 2**-0.5, 2**-0.5]])
ENDS = {
    "to the truth": np.eye(4)[[0, 3, 1, 2]],
    "the second row to e4": np.vstack([POINT[0], np.eye(4)[3], POINT[2:]]),
    "the second row to e2": np.vstack([POINT[0], np.eye(4)[1], POINT[2:]]),
    "the last row to e3 (flat)": np.vstack([POINT[:3], np.eye(4)[2]]),
}
Row = dict[str, Any]


def appendix_study(options: StudyOptions) -> Study:
    """Draw the slices and classify the point."""
    a = np.array([1.0, 2 + EXCESS, 2 + EXCESS, 2 + EXCESS])
    landscapes: dict[str, Objective] = {
        "P'": population_objective("P'", np.eye(4), a),
        "G": population_objective("G", np.eye(4), a, has_unit_rows=True, mu=1.0),
    }
    rows = [row for name, objective in landscapes.items() for row in _slices(name, objective, a)]
    options.progress("slices", 0.5)
    claims = [_claim(name, objective, a) for name, objective in landscapes.items()]
    title = "{} from the point of Appendix F"
    panels = tuple(
        Axes(title.format(name), "position", "value", "series", log_y=False, where={"landscape": name})
        for name in landscapes
    )
    return Study("landscape-appendix", "A bad minimum, seen along four segments", rows, panels, claims)


def _slices(name: str, objective: Objective, a: Array) -> list[Row]:
    rows: list[Row] = []
    for series, end in ENDS.items():
        line = landscape_slice((POINT, a), objective, [(end, a)], span=(-0.25, 1.25), steps=STEPS)
        rows += [
            {"landscape": name, "series": series, "position": float(t), "value": float(value)}
            for t, value in zip(line.positions, line.values, strict=True)
        ]
    return rows


def _claim(name: str, objective: Objective, a: Array) -> Claim:
    point = classify_point((POINT, a), objective, truth=(np.eye(4), a))
    nudged = POINT + 0.01 * np.random.default_rng(0).standard_normal(POINT.shape)
    end = descend(objective, unit_rows(nudged)[0], a)
    return Claim(
        "no descent direction at the point" if name == "P'" else "(the same point on G)",
        f"{name}: {point.kind}, value {point.value:.4g}, gradient {point.gradient_norm:.1e}, smallest eigenvalue "
        f"{point.smallest_eigenvalue:.2g}; descending from beside it ends at {end.value:.4g}, the floor is "
        f"{point.floor:.4g}",
        Agreement.of((end.value > point.floor + 1e-3) == (name == "P'")),
    )
