"""Tell from two parallel lines whether a piecewise-linear function has more than one hidden layer.

A two-layer network changes its slope along a line by a_i |w_i u| at hyperplane i, wherever the line lies: parallel lines
have the same changes of slope. In a deeper network they depend on the units that are on above. The answer is a guess that
decides which search comes first; neither search trusts it.
"""

from __future__ import annotations

import numpy as np

from planted.identification._breakpoints import LineScan, find_breakpoints
from planted.identification._jumps import Line
from planted.identification._rounding import Rounding
from planted.identification._search import BlackBox

__all__ = ["looks_deep"]

ALIKE = 1e-3  # relative difference of two changes of slope that are the same
SHARE = 0.75  # of the breaks that must be the same on both lines
FEWEST = 3  # breaks on a line that say something


def looks_deep(
    box: BlackBox, line: Line, scan: LineScan, rounding: Rounding, rng: np.random.Generator
) -> list[tuple[Line, LineScan]]:
    """Scan a parallel line and compare the changes of slope; return both lines if they say that there are more layers."""
    if box.has_box or box.n_features < 2:
        return []
    bends = _bends(scan)
    if len(bends) < FEWEST:
        return []
    known = scan.breakpoints[np.isfinite(scan.breakpoints)]
    reach = float(np.abs(known).max()) + rounding.radius
    outward = np.array([0.02, 0.1, 0.4, 1.0, 3.0, 30.0]) * reach
    start = np.concatenate([-outward[::-1], [0.0], outward])
    other = Line(box.draw(1, rng)[0], line.direction)
    again = find_breakpoints(
        lambda t: box.ask(other.at(t)), start, noise=lambda t: rounding.at(other.at(t)), max_points=16_000
    )
    others = _bends(again)
    if again.jumps or not again.is_complete:
        return []
    lines = [(line, scan), (other, again)]
    if not len(others):
        return lines
    gaps = np.linalg.norm(bends[:, None, :] - others[None], axis=2)
    same = gaps.min(axis=1) <= ALIKE * np.linalg.norm(bends, axis=1)
    return lines if same.mean() < SHARE else []


def _bends(scan: LineScan) -> np.ndarray:
    """Changes of slope at the breaks of a line, shape (breaks, m)."""
    usable = np.flatnonzero(np.isfinite(scan.breakpoints))
    m = scan.pieces[0].slope.size if scan.pieces else 1
    return np.array([scan.pieces[i + 1].slope - scan.pieces[i].slope for i in usable]).reshape(-1, m)
