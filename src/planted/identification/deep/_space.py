r"""Ask a piecewise-linear function within a polytope: scan lines, measure gradients, look for breaks.

All layers of a deep network are read in the same way, the first in the inputs and later ones in the pre-activations of the
layer below. A `Space` holds what both need: the function, the polytope in which it may be asked, and its rounding error.

The gradient of a linear piece is exact for any step that stays on the piece. The scan of a line gives the value at the base
and the derivative along the line, so a gradient costs one question for each coordinate, and the derivative along the line
checks it. A step that left the piece is shortened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from planted._typing import Array, BoolArray, IntArray
from planted.identification._grid import DOUBLES, Grid
from planted.identification._rounding import N_SEGMENTS, Rounding, calibrate_rounding
from planted.identification.two_layer._breakpoints import LineScan, Piece, find_breakpoints
from planted.identification.two_layer._jumps import Line
from planted.identification.two_layer._search import BlackBox

__all__ = [
    "Breaks",
    "Records",
    "Space",
    "look_for_breaks",
    "measure_breaks",
    "scan_between",
    "scan_line",
    "slopes_across",
]

MAX_POINTS = 40_000  # on one line
LONGEST_STEP = 0.01  # of a gradient, in radii; the longest part of a piece is the other limit
PART_OF_PIECE = 0.02
SHORTENINGS = (1.0, 0.1, 0.01, 0.001)  # of the step of a gradient that left its piece
KNOTS = np.array([0.1, 0.45, 0.9])  # first points between two breaks that are expected
CHECKED = 40.0  # rounding errors by which a gradient may miss the derivative along its line
PROBE = 1e-4  # radii: half the length of a segment on which a break is looked for
STEEP = 20.0  # times that change: a slope beside which a break would be seen
SEEN = 60.0  # rounding errors above which a change of slope is a break


class Records:
    """All questions, in the units of the search, and their answers."""

    def __init__(self, box: BlackBox) -> None:
        self.box = box
        self.parts: list[tuple[Array, Array]] = []
        self.tell: Callable[[], None] | None = None  # called after every answer

    def ask(self, Z: Array) -> Array:
        """Ask and remember, numbers as the black box takes them."""
        Z = self.box.snap(Z)
        Y = self.box.ask(Z)
        self.parts.append((Z, Y))
        if self.tell is not None:
            self.tell()
        return Y

    def all(self) -> tuple[Array, Array]:
        """Return everything asked so far."""
        return np.concatenate([Z for Z, _ in self.parts]), np.concatenate([Y for _, Y in self.parts])


@dataclass(frozen=True, slots=True)
class Space:
    """A function that is asked within ``sides u <= limits``."""

    ask: Callable[[Array], Array]  # rows of shape (n, p) in, answers of shape (n, m) out
    dim: int  # number of coordinates, p
    draw: Callable[[int, np.random.Generator], Array]  # typical rows within the polytope
    sides: Array  # (c, p)
    limits: Array  # (c,)
    rounding: Rounding  # the error of its answers
    reach: float  # lines end this many radii away from their origin

    @classmethod
    def calibrated(
        cls,
        ask: Callable[[Array], Array],
        draw: Callable[[int, np.random.Generator], Array],
        *,
        sides: Array,
        limits: Array,
        reach: float,
        rng: np.random.Generator,
        grid: Grid = DOUBLES,
    ) -> Space:
        """Measure the rounding error of a function and return it as a space."""
        centres = draw(N_SEGMENTS, rng)
        far = np.zeros((0, centres.shape[1]))
        rounding = calibrate_rounding(ask, centres, far=far, rng=rng, grid=grid)
        return cls(ask, centres.shape[1], draw, sides, limits, rounding, reach)

    def room(self, origin: Array, direction: Array) -> tuple[float, float]:
        """Return the range of parameters of a line that stays within the polytope and the reach."""
        ends = self.reach * self.rounding.radius / float(np.linalg.norm(direction))
        slack, along = self.limits - self.sides @ origin, self.sides @ direction
        with np.errstate(divide="ignore", invalid="ignore"):
            bounds = slack / along
        high = min(ends, float(bounds[along > 0].min(initial=np.inf)))
        low = max(-ends, float(bounds[along < 0].max(initial=-np.inf)))
        return low, high

    def holds(self, U: Array) -> BoolArray:
        """Whether rows are within the polytope."""
        return np.asarray((self.limits + 1e-12 >= U @ self.sides.T).all(axis=1))


@dataclass(frozen=True, slots=True)
class Breaks:
    """Places on a line where the gradient jumps by ``strengths normal'``, with what was measured on both sides."""

    normals: Array  # (k, p): unit vectors
    strengths: Array  # (m, k)
    places: Array  # (k, p)
    errors: Array  # (k,): of the normals
    gradients: Array  # (k, 2, m, p): gradients on both sides
    beside: Array  # (k, 2, p): where they were measured

    @property
    def offsets(self) -> Array:
        """Offsets of the hyperplanes through the places."""
        return np.asarray(-np.einsum("kp,kp->k", self.normals, self.places))

    def select(self, which: IntArray | BoolArray) -> Breaks:
        """Return some of the breaks."""
        return Breaks(
            self.normals[which],
            self.strengths[:, which],
            self.places[which],
            self.errors[which],
            self.gradients[which],
            self.beside[which],
        )

    @classmethod
    def join(cls, parts: list[Breaks]) -> Breaks:
        """Return the breaks of several lines."""
        return cls(
            np.concatenate([part.normals for part in parts]),
            np.concatenate([part.strengths for part in parts], axis=1),
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("places", "errors", "gradients", "beside")
            ),
        )


def scan_line(space: Space, line: Line, *, spread: Array, expected: Array) -> LineScan:
    """Find the breaks on a line within the polytope.

    `spread`: first points as fractions of the range on either side of the origin, between -1 and 1. `expected`: where known
    hyperplanes cross the line; between them the first points are placed by these crossings.
    """
    low, high = space.room(line.origin, line.direction)
    start = np.unique(np.where(spread < 0, -spread * low, spread * high) * (1 - 1e-9))
    crossings = np.sort(expected[(expected > start[0]) & (expected < start[-1])])
    if crossings.size > 1:
        widths = np.diff(crossings)
        wide = widths > 1e-6 * space.rounding.radius
        inner = (crossings[:-1] + np.outer(KNOTS, widths))[:, wide].ravel()
        outer = start[(start < crossings[0]) | (start > crossings[-1])]
        start = np.unique(np.concatenate([outer, inner]))
    return scan_between(space, line, start, MAX_POINTS)


def scan_between(space: Space, line: Line, start: Array, most: int) -> LineScan:
    """Find the breaks of a line between its first points and the last, with so many questions at most."""
    values = space.ask(line.at(start))
    rounding = space.rounding.seen(line.at(start), values)
    return find_breakpoints(
        lambda t: space.ask(line.at(t)),
        start,
        noise=lambda t: rounding.at(line.at(t)) + rounding.of_places(np.linalg.norm(line.origin) + np.abs(t)),
        values=values,
        max_points=most,
    )


def measure_breaks(space: Space, line: Line, scan: LineScan, wanted: IntArray) -> Breaks:
    """Measure the gradients on both sides of some breaks of a scanned line; breaks that cannot be measured are left out."""
    pieces = sorted({int(i) for i in wanted} | {int(i) + 1 for i in wanted})
    measured = {i: _gradient(space, line, scan, i) for i in pieces}
    parts = []
    for i in wanted:
        one, other = measured[int(i)], measured[int(i) + 1]
        if one is None or other is None:
            continue
        jump = other[0] - one[0]
        left, sizes, rows = np.linalg.svd(jump, full_matrices=False)
        error = (one[1] + other[1]) * np.sqrt(space.dim) / max(sizes[0], np.finfo(float).tiny)
        if sizes[0] <= 0 or (sizes[1:] > max(20 * error, 1e-7) * sizes[0]).any() or error > 1e-3:
            continue
        place = line.at(scan.breakpoints[[i]])
        parts.append(
            Breaks(
                rows[:1],
                left[:, :1] * sizes[0],
                place,
                np.array([error]),
                np.array([[one[0], other[0]]]),
                np.array([[one[2], other[2]]]),
            )
        )
    m = scan.pieces[0].slope.size
    nothing = Breaks(
        np.zeros((0, space.dim)),
        np.zeros((m, 0)),
        np.zeros((0, space.dim)),
        np.zeros(0),
        np.zeros((0, 2, m, space.dim)),
        np.zeros((0, 2, space.dim)),
    )
    return Breaks.join([nothing, *parts])


def slopes_across(space: Space, line: Line, scan: LineScan, pieces: IntArray, direction: Array) -> BoolArray:
    """Whether the function changes in a direction, beside each of some pieces of a line; one question for each."""
    if not pieces.size:
        return np.zeros(0, dtype=np.bool_)
    middles = [_middle(space, line, scan, int(i)) for i in pieces]
    steps = np.array([min(LONGEST_STEP * space.rounding.radius, PART_OF_PIECE * part[3]) for part in middles])
    bases = np.array([part[1] for part in middles])
    rows = bases + steps[:, None] * direction
    outside = ~space.holds(rows)
    rows[outside] = bases[outside] - steps[outside, None] * direction
    gaps = np.abs(space.ask(rows) - np.array([part[2] for part in middles]))
    return np.asarray((gaps > CHECKED * space.rounding.at(bases)).any(axis=1))


def _middle(space: Space, line: Line, scan: LineScan, place: int) -> tuple[Piece, Array, Array, float]:
    """A piece of a line with a place well within it, the value there, and the width of the piece."""
    piece, count = scan.pieces[place], len(scan.pieces)
    low = scan.breakpoints[place - 1] if place else piece.left
    high = scan.breakpoints[place] if place + 1 < count else piece.right
    low, high = (
        float(low if np.isfinite(low) else piece.left),
        float(high if np.isfinite(high) else piece.right),
    )
    middle = 0.5 * (low + high)
    if place == 0:
        middle = max(middle, high - space.rounding.radius)
    if place == count - 1:
        middle = min(middle, low + space.rounding.radius)
    return piece, line.at(np.array([middle]))[0], piece.at(middle), high - low


def _gradient(space: Space, line: Line, scan: LineScan, place: int) -> tuple[Array, float, Array] | None:
    """The gradient on one piece of a line, of shape (m, p), its error and where; None if no step stays on the piece."""
    piece, base, value, width = _middle(space, line, scan, place)
    longest = min(LONGEST_STEP * space.rounding.radius, PART_OF_PIECE * width)
    is_axis = np.sort(np.abs(line.direction))[space.dim // 2] < 1e-3 / np.sqrt(space.dim)
    for factor in SHORTENINGS:
        steps = np.eye(space.dim) * longest * factor
        rows = base + steps
        outside = ~space.holds(rows)
        rows[outside] = base - steps[outside]
        signed = np.where(outside, -1.0, 1.0) * longest * factor
        # The derivative along an axis says nothing about the others; there, one more answer at their mean does.
        answers = space.ask(np.concatenate([rows, rows.mean(axis=0)[None]]) if is_axis else rows)
        middle = answers[-1] - answers[: space.dim].mean(axis=0) if is_axis else np.zeros(1)
        gradient = ((answers[: space.dim] - value) / signed[:, None]).T
        error = float(space.rounding.at(base[None]).max())
        noise = error / (longest * factor)
        slack = CHECKED * noise + 1e-9 * np.abs(piece.slope).max(initial=0.0)
        off = np.abs(gradient @ line.direction - piece.slope).max()
        if off <= slack and np.abs(middle).max() <= 8 * error:
            return gradient, noise, base
    return None


def look_for_breaks(
    space: Space, places: Array, normals: Array, doubts: Array
) -> tuple[BoolArray, BoolArray]:
    """Ask across hyperplanes at some places: whether a break is there, and whether its absence means something.

    `doubts`: how far the hyperplane may be off at each place. Without a break the absence means something if the function
    is not flat there. Shapes: places (n, p), normals (n, p), doubts (n,), results (n,).
    """
    rooms = np.array([space.room(place, normal) for place, normal in zip(places, normals, strict=True)])
    # Far out, breaks are farther apart and rounding errors larger.
    half = PROBE * np.maximum(space.rounding.radius, np.linalg.norm(places, axis=1))
    half = np.maximum(half, 30 * doubts)
    half = np.minimum(half, 0.45 * np.maximum(np.minimum(-rooms[:, 0], rooms[:, 1]), 1e-9))
    steps = np.array([-2.0, -1.0, 1.0, 2.0])
    rows = places[:, None, :] + (half[:, None] * steps)[:, :, None] * normals[:, None, :]
    answers = space.ask(rows.reshape(-1, space.dim)).reshape(len(places), 4, -1)
    left = (answers[:, 1] - answers[:, 0]) / half[:, None]
    right = (answers[:, 3] - answers[:, 2]) / half[:, None]
    limit = SEEN * space.rounding.at(places) / half[:, None]
    jump = right - left
    is_bent = (np.abs(jump) > limit).any(axis=1)
    # The lines on both sides must meet at the hyperplane, not elsewhere within the segment.
    size = np.einsum("nm,nm->n", jump, jump)
    gap = (answers[:, 2] - right * half[:, None]) - (answers[:, 1] + left * half[:, None])
    with np.errstate(divide="ignore", invalid="ignore"):
        meeting = -np.einsum("nm,nm->n", jump, gap) / size
    is_there = is_bent & (np.abs(meeting) < 0.2 * half)
    is_steep = (np.maximum(np.abs(left), np.abs(right)) > STEEP * limit).any(axis=1)
    return is_there, ~is_there & is_steep
