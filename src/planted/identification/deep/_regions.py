r"""The third and later layers: units read region by region, as rows with gaps that further regions fill.

Where some units of the layer below are off, the weights to them are not seen: a hyperplane in such a region gives a row with
gaps. Rows from different regions belong to the same unit if their common weights and biases are proportional. Regions come
from a sample of places: first the one in which most units below are on, then those that fill most gaps. A single gap is
filled by short lines: at a place of the unit's surface where unit j below is barely on, at height ε, the surface is shifted
by w_j ε along its normal. Two heights beside each other give w_j whatever the error of the other weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from scipy.optimize import linprog

from planted._typing import Array, BoolArray, as_array
from planted.identification._rounding import Rounding
from planted.identification.deep._layers import Base, Region, orientation_votes, region_at
from planted.identification.deep._planes import Planes, Survey, find_planes, refine_planes
from planted.identification.deep._space import Space, scan_line
from planted.identification.two_layer._jumps import Line
from planted.networks._deep import Layer

__all__ = ["PartialRows", "fill_gaps", "read_gap", "read_regions", "sample_places"]

Ask = Callable[[Array], Array]
SAMPLE = 4000  # places from which regions are chosen
MOST_REGIONS = 16
CAPS = (4.0, 40.0)  # how far regions are looked at, in typical pre-activations of the first layer
MARGIN = 1e-6
ENOUGH_ON = 0.4  # share of the units below that must be on for a new row
QUIET = 4  # regions in a row that show nothing new, before the search ends
AGREES = 1e-4  # relative difference of two measurements of one weight
SAME = 1e-5  # rows whose common parts differ by less, relative to their size, are the same
HEIGHTS = np.array([0.02, 0.01])  # ε, relative to the coordinates
STEEPEST = 10.0  # times the change of the other units along a line: that of unit j across it, with its weight
NARROW = 1e-3  # room around a place below which no line across the surface is long enough
SPREAD = np.array([0.0, 0.08, 0.25, 0.5, 0.75, 0.92, 1.0])


@dataclass(slots=True)
class PartialRows:
    """Units of one layer: weights with gaps, up to sign and scale."""

    weights: list[Array]
    biases: list[float]
    known: list[BoolArray]
    votes: list[float]
    cast: list[float]

    @classmethod
    def none(cls) -> PartialRows:
        """Return no units."""
        return cls([], [], [], [], [])

    @classmethod
    def of(cls, planes: tuple[Array, Array], known: BoolArray) -> PartialRows:
        """Return units of which some weights are known."""
        (W, b), none = planes, np.zeros(len(known))
        return cls(list(W), list(b), list(known), list(none), list(none))

    @property
    def is_complete(self) -> bool:
        """Whether no row has gaps."""
        return all(known.all() for known in self.known)

    def state(self) -> tuple[int, int]:
        """How many rows and how many gaps there are."""
        return len(self.biases), sum(int((~known).sum()) for known in self.known)

    def arrays(self) -> tuple[Array, Array]:
        """Weights and biases as arrays, rows of length one; gaps are zeros."""
        W, b = np.array(self.weights), np.array(self.biases)
        norms = np.linalg.norm(W, axis=1)
        return W / norms[:, None], b / norms

    def join_equal(self, *, is_scaled: bool = False) -> None:
        """Join rows that have turned out to be the same unit; `is_scaled`: as in `merge`."""
        old = list(zip(self.weights, self.biases, self.known, self.votes, self.cast, strict=True))
        for part in (self.weights, self.biases, self.known, self.votes, self.cast):
            part.clear()
        for weights, bias, known, votes, cast in old:
            number = self.merge(weights, bias, known, is_scaled=is_scaled)
            if number is not None:
                same = np.append(self.weights[number][known], self.biases[number]) @ np.append(
                    weights[known], bias
                )
                self.votes[number] += votes * np.sign(same)
                self.cast[number] += cast

    def merge(
        self, weights: Array, bias: float, on: BoolArray, *, is_new: bool = True, is_scaled: bool = False
    ) -> int | None:
        """Add what a region shows of a unit: to the row it belongs to, or as a new one; return its number.

        `is_new`: whether a new row may be made. `is_scaled`: whether the sizes of rows mean something, so that rows of one
        unit differ by their sign only.
        """
        for number, (row, own, known) in enumerate(zip(self.weights, self.biases, self.known, strict=True)):
            common = known & on
            if common.sum() < (1 if is_scaled else 2):
                continue
            one, other = np.append(row[common], own), np.append(weights[common], bias)
            factor = np.sign(one @ other) if is_scaled else (one @ other) / (other @ other)
            if np.linalg.norm(one - factor * other) > SAME * np.linalg.norm(one):
                continue
            self.weights[number] = np.where(known, row, factor * weights)
            self.known[number] = known | on
            return number
        if not is_new:
            return None
        self.weights.append(np.where(on, weights, 0.0))
        self.biases.append(bias)
        self.known.append(on.copy())
        self.votes.append(0.0)
        self.cast.append(0.0)
        return len(self.biases) - 1

    def fill(self, number: int, gap: int, value: float, others: list[float]) -> bool:
        """Fill a gap of a row if one of other measurements of the weight agrees; whether it does."""
        if not any(abs(value - old) <= AGREES * (1e-3 + abs(old)) for old in others):
            return False
        self.weights[number], self.known[number] = self.weights[number].copy(), self.known[number].copy()
        self.weights[number][gap], self.known[number][gap] = value, True
        return True


def read_regions(
    ask: Ask, base: Base, layers: list[Layer], rounding: Rounding, *, rng: np.random.Generator
) -> Iterator[tuple[PartialRows, Survey]]:
    """Read region after region, and yield the rows after each."""
    rows = PartialRows.none()
    sample = sample_places(base, rng)
    if not len(sample):
        return
    codes = _codes(base, layers, sample)
    used: set[bytes] = set()
    quiet = 0
    for number in range(MOST_REGIONS):
        place = _next_region(codes, rows, used, by_size=number % 2 == 1)
        if place is None:
            return
        used.add(codes[place].tobytes())
        region = region_at(base, layers, sample[place])
        before = rows.state()
        found = _read_region(ask, region, rows, rounding, rng)
        if found is None:
            continue
        fill_gaps(ask, base, layers, rows, sample, rounding)
        rows.join_equal()
        yield rows, found
        quiet = quiet + 1 if rows.state() == before else 0
        if quiet >= QUIET:
            return


def sample_places(base: Base, rng: np.random.Generator) -> Array:
    """Coordinates within a base: half have all units of the first layer on, half are as typical inputs are."""
    p = base.matrix.shape[1]
    sample = rng.standard_normal((SAMPLE, p)) * np.exp(rng.standard_normal((SAMPLE, p)))
    sample[::2] = np.abs(sample[::2])
    sample = np.maximum(sample, 2 * MARGIN)
    return np.asarray(sample[(sample @ base.sides.T <= base.limits).all(axis=1)])


def _codes(base: Base, layers: list[Layer], V: Array) -> BoolArray:
    """Patterns of all known layers after the first."""
    H, found = base.inputs(V), []
    for W, b in layers:
        T = H @ W.T + b
        found.append(T > 0)
        H = np.maximum(T, 0.0)
    return np.concatenate(found, axis=1)


def _next_region(codes: BoolArray, rows: PartialRows, used: set[bytes], *, by_size: bool) -> int | None:
    """The sampled place whose region fills most gaps, then has most units on below, then is largest; or is largest."""
    patterns, first, counts = np.unique(codes, axis=0, return_index=True, return_counts=True)
    last = patterns.shape[1] - (len(rows.known[0]) if rows.known else 0)
    best, choice = (-1.0, -1.0, -1.0), None
    for pattern, place, count in zip(patterns, first, counts, strict=True):
        if pattern.tobytes() in used:
            continue
        gaps = sum(float((pattern[last:] & ~known).sum()) for known in rows.known)
        score = (float(count), gaps, 0.0) if by_size else (gaps, float(pattern.sum()), float(count))
        if score > best:
            best, choice = score, int(place)
    return choice


def _read_region(
    ask: Ask, region: Region, rows: PartialRows, rounding: Rounding, rng: np.random.Generator
) -> Survey | None:
    """Find the hyperplanes of the next layer within a region and merge their rows."""
    corners = _corners(region, rng)
    if corners is None:
        return None
    centre, vertices = corners
    p = centre.size

    def draw(count: int, stream: np.random.Generator) -> Array:
        weights = stream.dirichlet(np.full(3, 0.6), count)
        chosen = vertices[stream.integers(len(vertices), size=(count, 3))]
        mixed = np.einsum("nv,nvp->np", weights, chosen)
        return np.asarray(centre + stream.uniform(0.05, 0.98, (count, 1)) * (mixed - centre))

    space = Space(ask, p, draw, region.sides, region.limits, rounding, 1e3)
    M = region.M[region.on]
    inverse = np.linalg.pinv(M)
    if len(M) > p or np.linalg.matrix_rank(M) < len(M):
        return None
    known = Planes.none(p)
    for weights, bias, seen in zip(rows.weights, rows.biases, rows.known, strict=True):
        if seen[region.on].all():
            normal, offset = weights @ region.M, bias + weights @ region.m
            size = np.linalg.norm(normal)
            if size <= 1e-9 * np.linalg.norm(weights):
                continue
            known.append(normal / size, float(offset / size), 1e-9, centre)
    lines = [_line_through(centre, vertex) for vertex in vertices]
    survey = find_planes(
        space,
        lambda _: iter(lines),
        rng=rng,
        is_done=lambda state, quiet: state.n_lines >= len(lines),
        survey=Survey(known),
    )
    refine_planes(space, survey.planes, rng)
    numbers = []
    for normal, offset in zip(survey.planes.normals, survey.planes.offsets, strict=True):
        part = normal @ inverse
        weights = np.zeros(len(region.on))
        weights[region.on] = part
        bias = float(offset - part @ region.m[region.on])
        number = rows.merge(weights, bias, region.on, is_new=region.on.mean() >= ENOUGH_ON)
        if number is not None:
            numbers.append(number)
    _vote(survey, rows, region, numbers)
    return survey


def _vote(survey: Survey, rows: PartialRows, region: Region, numbers: list[int]) -> None:
    """Let the gradients of a region vote for the orientation of its units."""
    if not survey.gradients or not numbers:
        return
    places, gradients = (np.concatenate(parts) for parts in zip(*survey.gradients, strict=True))
    chosen = [n for n in dict.fromkeys(numbers) if rows.known[n][region.on].all()]
    if not chosen:
        return
    normals = np.array([rows.weights[n] for n in chosen]) @ region.M
    offsets = np.array([rows.biases[n] + rows.weights[n] @ region.m for n in chosen])
    if np.linalg.matrix_rank(normals) < len(normals):
        return
    votes, cast = orientation_votes(
        normals, places @ normals.T + offsets, gradients, noise=1e-9 * float(np.abs(gradients).max())
    )
    for n, vote, count in zip(chosen, votes, cast, strict=True):
        rows.votes[n] += float(vote)
        rows.cast[n] += float(count)


def _corners(region: Region, rng: np.random.Generator) -> tuple[Array, Array] | None:
    """A place well within a region, and corners of it; None if it has no interior."""
    p = region.sides.shape[1]
    lengths = np.linalg.norm(region.sides, axis=1)
    kept = lengths > 0
    sides, limits = region.sides[kept] / lengths[kept, None], region.limits[kept] / lengths[kept]
    system = np.column_stack([sides, np.ones(len(sides))])
    found = linprog(
        np.append(np.zeros(p), -1.0), A_ub=system, b_ub=limits, bounds=[(0, CAPS[0])] * p + [(0, 1.0)]
    )
    if found.status != 0 or found.x[-1] < 10 * MARGIN:
        return None
    centre = found.x[:-1]
    corners = []
    for number in range(2 * p + 4):
        goal = rng.standard_normal(p)
        cap = CAPS[number % 2]
        answer = linprog(goal, A_ub=sides, b_ub=limits - MARGIN, bounds=[(0, cap)] * p)
        if answer.status == 0 and np.linalg.norm(answer.x - centre) > MARGIN:  # else it gives no line
            corners.append(answer.x)
    return (centre, np.array(corners)) if len(corners) > 1 else None


def _line_through(centre: Array, corner: Array) -> tuple[Line, Array]:
    """The line from the corner of a region through its centre."""
    one = centre + 0.999 * (corner - centre)
    direction = centre - corner
    return Line(one, direction / np.linalg.norm(direction)), SPREAD


def fill_gaps(
    ask: Ask, base: Base, layers: list[Layer], rows: PartialRows, sample: Array, rounding: Rounding
) -> None:
    """Fill gaps of rows one by one with short lines, where a sampled region allows it."""
    codes = _codes(base, layers, sample)
    width = len(layers[-1][1])
    patterns, first = np.unique(codes, axis=0, return_index=True)
    below = patterns[:, -width:]
    for number in range(len(rows.biases)):
        for j in np.flatnonzero(~rows.known[number]):
            others = below.copy()
            others[:, j] = False
            usable = np.flatnonzero(below[:, j] & ~(others & ~rows.known[number]).any(axis=1))
            order = usable[np.argsort(-below[usable].sum(axis=1), kind="stable")][:12]
            found: list[float] = []
            for place in order:
                region = region_at(base, layers, sample[first[place]])
                value = read_gap(ask, region, rows.weights[number], rows.biases[number], int(j), rounding)
                if value is None:
                    continue
                if rows.fill(number, int(j), value, found):
                    break
                found.append(value)


def read_gap(
    ask: Ask,
    region: Region,
    weights: Array,
    bias: float,
    j: int,
    rounding: Rounding,
    *,
    cap: float = CAPS[1],
) -> float | None:
    """The weight to unit j below, from two places of the surface at which that unit is barely on; None if not found.

    What is known of the unit may be off by δ at these places, which are close to each other: the two breaks give δ and the
    weight, and δ must be small. `cap`: how large coordinates may be.
    """
    p = region.sides.shape[1]
    others = np.where(np.arange(len(weights)) == j, 0.0, weights)
    normal, offset, row_j = others @ region.M, bias + others @ region.m, region.M[j]
    slope = float(np.linalg.norm(row_j))
    across = normal - (normal @ row_j) / slope**2 * row_j  # unit j does not change along the lines
    size = float(np.linalg.norm(across))
    if size <= MARGIN * np.linalg.norm(normal):
        return None
    lengths = np.linalg.norm(region.sides, axis=1)
    kept = lengths > 0
    # The side of unit j itself must not be kept away from.
    is_own = np.abs(region.sides @ row_j) >= (1 - 1e-9) * lengths * slope
    high, low = HEIGHTS * slope
    found = linprog(
        np.append(np.zeros(p), -1.0),
        A_ub=np.column_stack([region.sides[kept], np.where(is_own, 0.0, lengths)[kept]]),
        b_ub=region.limits[kept],
        A_eq=np.array([np.append(normal, 0.0), np.append(row_j, 0.0)]),
        b_eq=np.array([-offset, high - region.m[j]]),
        bounds=[(-cap, cap)] * p + [(0, 1.0)],
    )
    if found.status != 0:
        return None
    place = found.x[:-1]
    down = np.linalg.pinv(np.array([normal, row_j])) @ np.array([0.0, low - high])
    room = float(found.x[-1] - np.linalg.norm(down))
    if room < NARROW:
        return None
    shifts = []
    for start, height in zip((place, place + down), HEIGHTS, strict=True):
        reach = min(0.9 * room, STEEPEST * height)
        shifts.append(_breaks_within(ask, Line(start, across / size), reach, rounding))
    off = SAME * float(np.abs(others) @ np.abs(region.M @ place + region.m) + abs(bias))
    best = None
    for one, other in product(*shifts):
        system = np.array([[1.0, high], [1.0, low]])
        delta, value = np.linalg.solve(system, -size * np.array([one, other]))
        if abs(delta) <= off:
            off, best = abs(delta), float(value)
    return best


def _breaks_within(ask: Ask, line: Line, reach: float, rounding: Rounding) -> Array:
    """Where the function breaks on a line, at most so far from its origin."""
    direction, place = line.direction, line.origin
    segment = Space(
        ask,
        direction.size,
        partial(_on_segment, line, reach),
        np.array([direction, -direction]),
        np.array([direction @ place + reach, reach - direction @ place]),
        rounding,
        1e3,
    )
    scan = scan_line(segment, line, spread=np.linspace(-1.0, 1.0, 7), expected=np.zeros(0))
    return np.asarray(scan.breakpoints[np.isfinite(scan.breakpoints)])


def _on_segment(line: Line, reach: float, count: int, rng: np.random.Generator) -> Array:
    """Draw places on a segment. Shapes: result (count, p)."""
    return as_array(line.origin + rng.uniform(-reach, reach, (count, 1)) * line.direction)
