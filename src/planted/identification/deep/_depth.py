"""Tell whether a piecewise-linear function has more than one hidden layer: by parallel lines, or by fresh ones afterwards.

A two-layer network changes its slope along a line by a_i |w_i u| at hyperplane i, wherever the line lies: parallel lines
have the same changes of slope. In a deeper network they depend on the units that are on above. The answer is a guess that
decides which search comes first; neither search trusts it.

A deep network whose upper units do not switch at typical inputs is a two-layer network there. Once one was found, its
breaks on fresh lines are foretold; one answer on each piece and some beyond the last ones show whether they are all.
"""

from __future__ import annotations

import numpy as np

from planted.identification._rounding import Rounding
from planted.identification.two_layer._breakpoints import LineScan, find_breakpoints
from planted.identification.two_layer._jumps import Line
from planted.identification.two_layer._search import PREDICTED, BlackBox
from planted.networks import TwoLayerNetwork

__all__ = ["looks_deep", "miss_on_lines"]

ALIKE = 1e-3  # relative difference of two changes of slope that are the same
SHARE = 0.75  # of the breaks that must be the same on both lines
FEWEST = 3  # breaks on a line that say something
FARTHER = (1.0, 4.0, 16.0, 64.0)  # where fresh lines begin, in typical inputs
BEYOND = 2.0 ** np.arange(0.0, 11.0, 2.0)  # radii beyond the last foretold break


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


def miss_on_lines(
    box: BlackBox, network: TwoLayerNetwork, rounding: Rounding, rng: np.random.Generator
) -> tuple[int, int]:
    """Ask on every piece that a two-layer network foretells on fresh lines; how many answers do not match, of how many."""
    rows = []
    for farther in FARTHER:
        origin, direction = box.draw(2, rng)
        line = Line(origin if box.has_box else farther * origin, direction)
        with np.errstate(divide="ignore", invalid="ignore"):
            breaks = -(network.W @ line.origin + network.b) / (network.W @ line.direction)
            ends = (np.sign(line.direction) * [[-1.0], [1.0]] - line.origin) / line.direction
        low, high = (ends[0].max(), ends[1].min()) if box.has_box else (-np.inf, np.inf)
        breaks = np.sort(breaks[(breaks > low) & (breaks < high)])
        first, last = (breaks[0], breaks[-1]) if breaks.size else (0.0, 0.0)
        beyond = BEYOND * rng.uniform(0.3, 0.7, BEYOND.size)
        knots = np.concatenate([first - beyond, breaks, last + beyond, [low, high]])
        knots = np.sort(knots[(knots >= low) & (knots <= high) & np.isfinite(knots)])
        t = knots[:-1] + rng.uniform(0.1, 0.9, knots.size - 1) * np.diff(knots)
        rows.append(box.snap(line.at(t)))
    X = np.concatenate(rows)
    truth = box.ask(X)
    growth = (1 + np.linalg.norm(X, axis=1) / rounding.radius)[:, None]
    spread = (np.abs(truth - truth.mean(axis=0)) / growth).max(axis=0)
    allowed = PREDICTED * rounding.seen(X, truth).at(X) + 1e-9 * np.where(spread > 0, spread, 1.0) * growth
    return int((np.abs(truth - network(X)) > allowed).any(axis=1).sum()), len(X)
