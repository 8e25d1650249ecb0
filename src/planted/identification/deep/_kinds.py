"""What kind of function a black box is: whether it has more than one hidden layer, and whether it is a ReLU network at all.

A two-layer network changes its slope along a line by a_i |w_i u| at hyperplane i, wherever the line lies: parallel lines
have the same changes of slope. In a deeper network they depend on the units that are on above. The answer is a guess that
decides which search comes first; neither search trusts it.

A deep network whose upper units do not switch at typical inputs is a two-layer network there. Once one was found, its
breaks on fresh lines are foretold; one answer on each piece and some beyond the last ones show whether they are all.

In a ReLU network the gradient is a combination of the rows of units that are on. A part across the rows that is the same
everywhere belongs to a connection that skips the first layer. A unit whose row takes part on both sides of its hyperplane is
leaky, and the ratio of the two parts is its slope.
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array
from planted.identification._rounding import Rounding
from planted.identification.deep._planes import Survey
from planted.identification.two_layer._breakpoints import LineScan, find_breakpoints
from planted.identification.two_layer._jumps import Line
from planted.identification.two_layer._search import PREDICTED, BlackBox
from planted.networks import TwoLayerNetwork

__all__ = ["leak_of", "looks_deep", "miss_on_lines", "name_other_kind", "sides_of_leaky"]

ALIKE = 1e-3  # relative difference of two changes of slope that are the same
SHARE = 0.75  # of the breaks that must be the same on both lines
FEWEST = 3  # breaks on a line that say something
FARTHER = (1.0, 4.0, 16.0, 64.0)  # where fresh lines begin, in typical inputs
ACROSS = 1e-6  # of a gradient: a part across the rows that is no rounding
SAME = 1e-3  # relative difference of slopes that are the same
BOTH = 1e-4  # of the larger side: a part that a unit lets through on the other side
STEEPEST, LEAST = (
    0.95,
    0.03,
)  # slopes of leaky units that are read: inverting smaller ones loses too many digits
INDEPENDENT = 1e-7  # smallest singular value of unit rows
FAR_PLACES = 64  # a tenth of all directions is missed once in a thousand times
FAR_DISTANCES = (1.0, 14.0)  # log2, in typical inputs
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
    """Ask on every piece that a two-layer network foretells on fresh lines, and farther out; how many answers do not match.

    Also returns of how many.
    """
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
    X = np.concatenate([*rows, *([] if box.has_box else [_far_places(box, network, rng)])])
    truth = box.ask(X)
    growth = (1 + np.linalg.norm(X, axis=1) / rounding.radius)[:, None]
    spread = (np.abs(truth - truth.mean(axis=0)) / growth).max(axis=0)
    allowed = PREDICTED * rounding.seen(X, truth).at(X) + 1e-9 * np.where(spread > 0, spread, 1.0) * growth
    return int((np.abs(truth - network(X)) > allowed).any(axis=1).sum()), len(X)


def _far_places(box: BlackBox, network: TwoLayerNetwork, rng: np.random.Generator) -> Array:
    """Places beyond typical inputs: in random directions, and where random units are on and the others off, if they can be.

    What is on where several units are on together may be rare at typical inputs and fill a cone far out.
    """
    half, k = FAR_PLACES // 2, network.n_hidden
    corners = rng.standard_normal((half, k)) @ np.linalg.pinv(network.W).T
    sizes = np.linalg.norm(corners, axis=1, keepdims=True)
    typical = box.draw(FAR_PLACES, rng)
    lengths = np.linalg.norm(typical[:half], axis=1, keepdims=True)
    typical[:half] = np.where(sizes > 0, corners * lengths / np.where(sizes > 0, sizes, 1.0), typical[:half])
    return np.asarray(box.snap(typical * 2.0 ** rng.uniform(*FAR_DISTANCES, (FAR_PLACES, 1))))


def name_other_kind(
    survey: Survey, number: int = 1, *, is_certain: bool = False, is_quiet: bool = True
) -> str:
    """Return the reason why the function is no deep ReLU network; empty if none was found.

    `number`: of the layer that was surveyed. `is_certain`: leave out the reason that missing units would explain as well.
    `is_quiet`: whether the last line showed no new unit.
    """
    planes = survey.planes
    places, gradients = (np.concatenate(parts) for parts in zip(*survey.gradients, strict=True))
    inverse = np.linalg.pinv(planes.normals)
    parts = gradients @ inverse
    across = gradients - parts @ planes.normals
    sizes = np.linalg.norm(gradients, axis=(1, 2))
    outside = np.linalg.norm(across, axis=(1, 2))
    largest = float(sizes.max())
    if (outside > ACROSS * largest).any():
        typical = np.median(across, axis=0)
        scatter = np.linalg.norm(across - typical, axis=(1, 2)).max()
        if scatter <= SAME * float(np.linalg.norm(typical)):
            return (
                "a linear part of the inputs is added to the outputs: a connection skips the hidden layers, or units of all "
                "layers are always on"
            )
        if is_certain:
            return ""
        return (
            f"gradients have parts that the {len(parts[0][0])} rows of hidden layer {number} do not explain: "
            "connections skip it, or some of its units were not found"
        )
    slopes = _slopes_below(planes.normals, planes.offsets, places, parts)
    if len(slopes) < 2 or np.median(np.abs(slopes)) < BOTH:
        return ""
    slope = float(np.mean(slopes))
    if np.ptp(slopes) <= SAME * abs(slope):
        name = "absolute" if abs(slope + 1) <= SAME else f"leaky-relu:{slope:.4g}"
        return f"all units of hidden layer {number} let a part of what is below zero through, as {name} does"
    # Rows that span all inputs explain every gradient, with wrong parts if a unit is missing.
    if is_certain and not is_quiet and len(planes.normals) >= planes.normals.shape[1]:
        return ""
    return (
        f"units of hidden layer {number} take part on both sides of their hyperplanes: connections skip the layer, two "
        "units look opposite ways along one hyperplane, its units are not ReLU units, or some of them were not found"
    )


def _slopes_below(
    normals: np.ndarray, offsets: np.ndarray, places: np.ndarray, parts: np.ndarray
) -> list[float]:
    """Slopes of units below zero, from the two sides of their own breaks; gradients come in pairs, one from each side."""
    values = places @ normals.T + offsets
    strengths = np.linalg.norm(parts, axis=1)
    slopes = []
    for one in range(0, len(places) - 1, 2):
        changed = np.flatnonzero((values[one] > 0) != (values[one + 1] > 0))
        for unit in changed[:1] if changed.size == 1 else []:
            low, high = sorted((strengths[one, unit], strengths[one + 1, unit]))
            if high > ACROSS * strengths.max():
                slopes.append(float(low / high * np.sign(parts[one, :, unit] @ parts[one + 1, :, unit])))
    return slopes


def leak_of(survey: Survey) -> float | None:
    """The slope below zero of all units of a surveyed layer; None if they have none in common, or are not leaky."""
    _, slopes = sides_of_leaky(survey)
    slopes = slopes[np.isfinite(slopes)]
    if slopes.size < 2:
        return None
    slope = float(np.median(slopes))
    is_leaky = LEAST <= slope <= STEEPEST
    return slope if is_leaky and np.ptp(slopes) <= SAME * slope else None


def sides_of_leaky(survey: Survey) -> tuple[np.ndarray, np.ndarray]:
    """On which side each unit is on, and its slope on the other, from gradients beside its own break; NaN if not seen.

    The rows are independent. Gradients come in pairs, one from each side.
    """
    planes = survey.planes
    count, dim = planes.normals.shape
    signs, slopes = np.ones(count), np.full(count, np.nan)
    if (
        not survey.gradients
        or not 0 < count <= dim
        or np.linalg.svd(planes.normals, compute_uv=False).min() < INDEPENDENT
    ):
        return signs, slopes
    places, gradients = (np.concatenate(parts) for parts in zip(*survey.gradients, strict=True))
    values = places @ planes.normals.T + planes.offsets
    parts = gradients @ np.linalg.pinv(planes.normals)
    strengths = np.linalg.norm(parts, axis=1)
    best = np.zeros(count)
    for one in range(0, len(places) - 1, 2):
        changed = np.flatnonzero((values[one] > 0) != (values[one + 1] > 0))
        if changed.size != 1:
            continue
        unit = int(changed[0])
        pair = strengths[one : one + 2, unit]
        if pair.max() > max(ACROSS * strengths.max(), best[unit]):
            turned = np.sign(parts[one, :, unit] @ parts[one + 1, :, unit])
            best[unit], slopes[unit] = pair.max(), turned * pair.min() / pair.max()
            signs[unit] = np.sign(values[one + int(pair.argmax()), unit])
    return signs, slopes
