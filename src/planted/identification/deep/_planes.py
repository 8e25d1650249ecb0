r"""Find the hyperplanes along which a function breaks everywhere: the units of the lowest layer that is not yet known.

Problem     A function of u is piecewise linear within a polytope. Units of its lowest layer break it along whole
            hyperplanes; units of higher layers along surfaces that bend wherever a lower unit switches. Find the former.
Idea        Scan lines. Every break has a normal, the difference of the gradients on its two sides, hence a hyperplane. Look
            for a break at random other places of that hyperplane, in other regions. A place where the function is flat
            says nothing. `MISSES` places without a break reject the hyperplane, `HITS` with one accept it.
Guarantee   A unit of a higher layer is accepted only if its surface happens to be flat between all these places.
            Completeness rests on the lines: the search ends after `QUIET` lines in a row without a new hyperplane.
            Kind: statistical.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from planted._typing import Array, BoolArray, IntArray
from planted.identification.deep._space import (
    SEEN,
    Breaks,
    Space,
    look_for_breaks,
    measure_breaks,
    scan_line,
    slopes_across,
)
from planted.identification.two_layer._breakpoints import LineScan
from planted.identification.two_layer._jumps import Line

__all__ = [
    "Planes",
    "Survey",
    "check_planes",
    "count_copies",
    "doubt_planes",
    "drop_absent",
    "find_planes",
    "place_on_plane",
    "refine_planes",
    "unexplained",
]

HITS, MISSES = 5, 2
ROUNDS = 16  # of places at which a hyperplane is looked for
POOL = 64  # places drawn to find points on a hyperplane
NEAR = 1e-6  # radii: how far a break may be from the hyperplane to which it is put down, besides its error
ENOUGH = 3  # drawn places on either side of a hyperplane
FINE = 3e-8  # error of a normal above which it is measured again
ACROSS = 1e-6  # of the largest gradient: a part across the known normals that is no rounding
VAGUE = 1e-5  # error above which it is no hyperplane
REMEASURED = 3  # times, at most
AROUND = np.array([-0.5, -0.2, -0.06, -0.02, 0.02, 0.06, 0.2, 0.5])  # radii: first points of such a line
DOUBTS = 3  # rounds in which hyperplanes are doubted
DRAWN, ASKED = 40, 4  # places drawn on a hyperplane in each round, and asked
STEPS = 6  # of a walk on a hyperplane
COPIES = 3  # shifted copies on one line that show a convolution
SPARSE = 1e-6  # of the largest weight of a row: weights that are zero


@dataclass(slots=True)
class Planes:
    """Hyperplanes ``normals u + offsets = 0`` and how well they are known."""

    normals: Array  # (k, p): unit vectors
    offsets: Array  # (k,)
    errors: Array  # (k,): of the normals
    anchors: Array  # (k, p): where they were measured

    @classmethod
    def none(cls, p: int) -> Planes:
        """Return no hyperplanes."""
        return cls(np.zeros((0, p)), np.zeros(0), np.zeros(0), np.zeros((0, p)))

    def add(self, breaks: Breaks) -> None:
        """Add the hyperplanes of some breaks."""
        self.normals = np.concatenate([self.normals, breaks.normals])
        self.offsets = np.concatenate([self.offsets, breaks.offsets])
        self.errors = np.concatenate([self.errors, breaks.errors])
        self.anchors = np.concatenate([self.anchors, breaks.places])

    def append(self, normal: Array, offset: float, error: float, anchor: Array) -> None:
        """Add one hyperplane."""
        self.normals = np.concatenate([self.normals, normal[None]])
        self.offsets, self.errors = np.append(self.offsets, offset), np.append(self.errors, error)
        self.anchors = np.concatenate([self.anchors, anchor[None]])

    def keep(self, which: BoolArray) -> None:
        """Drop all others."""
        self.normals, self.offsets = self.normals[which], self.offsets[which]
        self.errors, self.anchors = self.errors[which], self.anchors[which]

    def doubts(self, U: Array) -> Array:
        """How far each hyperplane may be off at each row, shape (n, k)."""
        apart = np.linalg.norm(U[:, None, :] - self.anchors[None], axis=2)
        return np.asarray(4 * self.errors * (0.02 + apart))

    def spreads(self, radius: float) -> Array:
        """The errors of normals and offsets, whichever are larger."""
        return np.asarray(self.errors * (1 + np.linalg.norm(self.anchors, axis=1) / radius))

    def hold(self, U: Array, slack: float) -> BoolArray:
        """Which rows lie on which hyperplanes, shape (n, k)."""
        return np.asarray(np.abs(U @ self.normals.T + self.offsets) <= self.doubts(U) + slack)


@dataclass(slots=True)
class Survey:
    """What the lines through a space have shown."""

    planes: Planes  # hyperplanes found again elsewhere
    others: list[Breaks] = field(default_factory=list)  # breaks of higher layers, by line
    unsure: list[Breaks] = field(default_factory=list)  # breaks that were found too rarely to decide
    gradients: list[tuple[Array, Array]] = field(default_factory=list)  # places (n, p), gradients (n, m, p)
    scans: list[tuple[Line, LineScan]] = field(default_factory=list)  # the lines
    is_jumping: bool = False  # whether a discontinuity was met
    watches_copies: bool = False  # whether to stop where breaks show a convolution
    copies: int = 0  # normals on one line that are those of others, shifted
    close: int = 0  # breaks too close to each other to be told apart
    n_lines: int = 0


def find_planes(
    space: Space,
    lines: Callable[[Survey], Iterator[tuple[Line, Array]]],
    *,
    rng: np.random.Generator,
    is_done: Callable[[Survey, int], bool],
    scans: Sequence[tuple[Line, LineScan]] = (),
    survey: Survey | None = None,
) -> Survey:
    """Scan lines until `is_done` says so; it is told how many lines in a row have shown no new hyperplane.

    `lines`: chooses further lines by what is known. `scans`: lines that have been scanned already; `survey`: what is known.
    """
    survey = survey or Survey(Planes.none(space.dim))
    quiet = 0
    further = ((line, _scan(space, line, spread, survey)) for line, spread in lines(survey))
    for line, scan in chain(scans, further):
        survey.n_lines += 1
        if scan.jumps or not scan.is_complete:
            survey.is_jumping = bool(scan.jumps)
            return survey
        found = _read_line(space, line, scan, survey, rng)
        if survey.copies:
            return survey
        quiet = 0 if found else quiet + 1
        if is_done(survey, quiet):
            break
    return survey


def _scan(space: Space, line: Line, spread: Array, survey: Survey) -> LineScan:
    """Scan a line, with first points between the crossings of the hyperplanes that are known."""
    planes = survey.planes
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = -(planes.normals @ line.origin + planes.offsets) / (planes.normals @ line.direction)
    return scan_line(space, line, spread=spread, expected=expected[np.isfinite(expected)])


def _read_line(space: Space, line: Line, scan: LineScan, survey: Survey, rng: np.random.Generator) -> int:
    """Put the breaks of a line down to known hyperplanes, and test the others; return how many are new."""
    usable = np.flatnonzero(np.isfinite(scan.breakpoints))
    survey.close += scan.breakpoints.size - usable.size
    places = line.at(scan.breakpoints[usable])
    known = survey.planes.hold(places, NEAR * space.rounding.radius)
    survey.scans.append((line, scan))
    fresh = usable[~known.any(axis=1)]
    if survey.planes.offsets.size < space.dim and survey.n_lines > 1:
        fresh = _outside_span(space, line, scan, fresh, survey.planes.normals, rng)
    breaks = measure_breaks(space, line, scan, fresh)
    if not breaks.errors.size:
        return 0
    survey.gradients.append((breaks.beside.reshape(-1, space.dim), np.concatenate(list(breaks.gradients))))
    if survey.watches_copies and (copies := count_copies(breaks.normals)) >= COPIES:
        survey.copies = copies
        return 0
    verdicts = check_planes(space, breaks, rng)
    verdicts[(verdicts == 0) & _met_before(space, breaks, survey)] = 1.0
    survey.planes.add(breaks.select(verdicts > 0))
    survey.others.append(breaks.select(verdicts < 0))
    survey.unsure.append(breaks.select(verdicts == 0))
    return int((verdicts > 0).sum())


def count_copies(normals: Array) -> int:
    """Count the rows with many zeros that are, up to sign, rows of other places shifted: windows of one convolution.

    Rows with one weight only, and copies at the same place, do not count. Shapes: normals (n, p).
    """
    kinds: dict[tuple[int, ...], list[tuple[int, Array]]] = {}
    for row in normals:
        support = np.flatnonzero(np.abs(row) > SPARSE * np.abs(row).max())
        if 2 <= support.size <= len(row) / 2:
            weights = row[support] * np.sign(row[support[0]])
            kinds.setdefault(tuple(np.diff(support).tolist()), []).append((int(support[0]), weights))
    count = 0
    for members in kinds.values():
        starts, weights = np.array([start for start, _ in members]), np.array([row for _, row in members])
        same = np.abs(weights[:, None] - weights[None]).max(axis=2) <= SPARSE
        count += int((same & (starts[:, None] != starts[None])).any(axis=1).sum())
    return count


def _met_before(space: Space, breaks: Breaks, survey: Survey) -> BoolArray:
    """Which breaks lie on a hyperplane that an earlier line met, where too much is flat to find it again at random."""
    before = Planes.none(space.dim)
    for part in survey.unsure:
        before.add(part)
    near = before.hold(breaks.places, NEAR * space.rounding.radius)
    alike = np.abs(breaks.normals @ before.normals.T) > 1 - 1e-10
    return np.asarray((near & alike).any(axis=1))


def unexplained(survey: Survey) -> tuple[Array, Array]:
    """Places, and the largest parts of the gradients there that the known normals do not explain, shapes (n, p).

    In a deep network whose first layer is known there are none.
    """
    p = survey.planes.normals.shape[1]
    if not survey.gradients:
        return np.zeros((0, p)), np.zeros((0, p))
    places, gradients = (np.concatenate(parts) for parts in zip(*survey.gradients, strict=True))
    rows = np.linalg.svd(survey.planes.normals, full_matrices=False)[2]
    across = gradients - gradients @ rows.T @ rows
    sizes = np.linalg.norm(across, axis=2)
    largest = sizes.max(axis=1)
    chosen = np.flatnonzero(largest > ACROSS * np.linalg.norm(gradients, axis=(1, 2)).max())
    return places[chosen], across[chosen, sizes[chosen].argmax(axis=1)]


def _outside_span(
    space: Space, line: Line, scan: LineScan, wanted: IntArray, normals: Array, rng: np.random.Generator
) -> IntArray:
    """Leave out breaks on whose both sides the gradient is a combination of known normals, by one question for each side.

    The gradient of a deep network is a combination of the rows of its first layer. Where it has no component across the
    known ones, no unit is missing, and all further breaks belong to higher layers.
    """
    direction = rng.standard_normal(space.dim)
    if len(normals):
        direction -= np.linalg.pinv(normals) @ (normals @ direction)
    direction /= np.linalg.norm(direction)
    pieces = np.unique(np.concatenate([wanted, wanted + 1]))
    slopes = slopes_across(space, line, scan, pieces, direction)
    is_outside = dict(zip(pieces.tolist(), slopes.tolist(), strict=True))
    return np.array([i for i in wanted if is_outside[int(i)] or is_outside[int(i) + 1]], dtype=np.intp)


def refine_planes(space: Space, planes: Planes, rng: np.random.Generator) -> None:
    """Measure hyperplanes with large errors again, at other places, along their normals."""
    for _ in range(REMEASURED):
        for i in np.flatnonzero(planes.spreads(space.rounding.radius) > FINE):
            normal, anchor = planes.normals[i], planes.anchors[i]
            line = Line(place_on_plane(space, normal, anchor, rng), normal)
            scan = scan_line(space, line, spread=AROUND / space.reach, expected=np.zeros(0))
            doubt = planes.doubts(line.origin[None])[0, i] + NEAR * space.rounding.radius
            near = np.flatnonzero(np.abs(scan.breakpoints) <= doubt)
            breaks = measure_breaks(space, line, scan, near[:1]) if near.size == 1 else None
            if breaks is None or not breaks.errors.size:
                continue
            spread = breaks.errors[0] * (1 + np.linalg.norm(breaks.places[0]) / space.rounding.radius)
            if spread >= planes.spreads(space.rounding.radius)[i]:
                continue
            if abs(breaks.normals[0] @ normal) > 1 - 100 * planes.errors[i] ** 2 - 1e-12:
                planes.normals[i], planes.offsets[i] = breaks.normals[0], breaks.offsets[0]
                planes.errors[i], planes.anchors[i] = breaks.errors[0], breaks.places[0]
    planes.keep(planes.spreads(space.rounding.radius) <= VAGUE)


def check_planes(space: Space, breaks: Breaks, rng: np.random.Generator) -> Array:
    """Look for breaks at other places of their hyperplanes: 1 where found again, -1 where not, 0 where undecided."""
    count = breaks.errors.size
    hits, misses = np.zeros(count, dtype=np.intp), np.zeros(count, dtype=np.intp)
    for _ in range(ROUNDS):
        # After one miss, only many more hits make it plausible that the miss was an accident of rounding.
        open_ones = np.flatnonzero((hits < HITS * (1 + misses)) & (misses < MISSES))
        if not open_ones.size:
            break
        places = []
        for i in open_ones:
            places.append(place_on_plane(space, breaks.normals[i], breaks.places[i], rng))
        rows, chosen = np.array(places), open_ones
        doubts = 4 * breaks.errors[chosen] * (0.02 + np.linalg.norm(rows - breaks.places[chosen], axis=1))
        found, absent = look_for_breaks(space, rows, breaks.normals[chosen], doubts)
        np.add.at(hits, chosen[found], 1)
        np.add.at(misses, chosen[absent], 1)
    verdicts = np.zeros(count)
    verdicts[misses > 0] = -1.0
    verdicts[(hits >= 2) & (misses == 0)] = 1.0
    verdicts[(misses < MISSES) & (hits >= HITS * (1 + misses))] = 1.0
    return verdicts


def drop_absent(space: Space, survey: Survey) -> None:
    """Drop hyperplanes that were missing where they cross the scanned lines; where the function is flat says nothing."""
    planes = survey.planes
    met, absent = np.zeros((2, planes.offsets.size))
    for line, scan in survey.scans:
        with np.errstate(divide="ignore", invalid="ignore"):
            crossings = -(planes.normals @ line.origin + planes.offsets) / (planes.normals @ line.direction)
        ends = scan.pieces[0].left, scan.pieces[-1].right
        finite = np.flatnonzero(np.isfinite(scan.breakpoints))
        on_plane = planes.hold(line.at(scan.breakpoints[finite]), 10 * NEAR * space.rounding.radius)
        starts = np.array([piece.left for piece in scan.pieces])
        for i in np.flatnonzero((crossings > ends[0]) & (crossings < ends[1])):
            if on_plane[:, i].any():
                met[i] += 1
                continue
            piece = scan.pieces[max(int(np.searchsorted(starts, crossings[i])) - 1, 0)]
            is_inside = piece.left < crossings[i] < piece.right
            error = space.rounding.at(line.at(np.array([crossings[i]]))).max()
            absent[i] += is_inside and np.abs(piece.slope).max() * (piece.right - piece.left) > SEEN * error
    planes.keep((absent < MISSES) | (met > 2 * absent))


def doubt_planes(space: Space, planes: Planes, rng: np.random.Generator) -> int:
    """Look for breaks again on the far sides of other hyperplanes, and drop hyperplanes that are missed there.

    The surface of a unit of a higher layer bends where it crosses a true hyperplane: beyond it, the unit is not found.
    Places are drawn without questions, and those asked whose sides differ from the anchor's in most hyperplanes. Returns
    how many were dropped.
    """
    dropped = 0
    for _ in range(DOUBTS):
        count = planes.offsets.size
        misses = np.zeros(count, dtype=np.intp)
        rows, chosen = [], []
        for i in range(count):
            anchor, normal = planes.anchors[i], planes.normals[i]
            places = np.array([place_on_plane(space, normal, anchor, rng) for _ in range(DRAWN)])
            home = anchor @ planes.normals.T + planes.offsets > 0
            sides = places @ planes.normals.T + planes.offsets > 0
            sides[:, i] = home[i]
            distance = (sides != home).sum(axis=1)
            order = np.argsort(-distance, kind="stable")[:ASKED]
            # A place beyond some single hyperplane may tell more than one beyond many, where all is flat.
            crossed = (sides != home).argmax(axis=0)[(sides != home).any(axis=0)]
            single = rng.permutation(crossed)[:ASKED]
            picked = list(dict.fromkeys([*order[distance[order] > 0].tolist(), *single.tolist()]))
            rows += [places[k] for k in picked]
            chosen += [i] * len(picked)
        if not chosen:
            break
        which = np.array(chosen)
        places = np.array(rows)
        doubts = 4 * planes.errors[which] * (0.02 + np.linalg.norm(places - planes.anchors[which], axis=1))
        _, absent = look_for_breaks(space, places, planes.normals[which], doubts)
        np.add.at(misses, which[absent], 1)
        if not (misses >= MISSES).any():
            break
        dropped += int((misses >= MISSES).sum())
        planes.keep(misses < MISSES)
    return dropped


def place_on_plane(space: Space, normal: Array, anchor: Array, rng: np.random.Generator) -> Array:
    """A random place of a hyperplane within the polytope: between two drawn places, or a walk from a place on it."""
    pool = space.draw(POOL, rng)
    if not space.limits.size:
        # Where all is flat at typical places, the breaks are farther out, and so are the places to look at.
        pool *= max(1.0, rng.uniform(0.0, 1.0) * float(np.linalg.norm(anchor)) / space.rounding.radius)
    values = (pool - anchor) @ normal
    above, below = np.flatnonzero(values > 0), np.flatnonzero(values < 0)
    if min(above.size, below.size) >= ENOUGH:
        one, other = rng.choice(above), rng.choice(below)
        share = values[one] / (values[one] - values[other])
        return np.asarray(pool[one] + share * (pool[other] - pool[one]))
    if not space.limits.size:
        # A hyperplane far from typical places: as far from the foot of its perpendicular as that is from the origin.
        size = max(1.0, abs(float(anchor @ normal)) / space.rounding.radius)
        place = pool[0] * size * 2.0 ** rng.uniform(-2, 1)
        return np.asarray(place - ((place - anchor) @ normal) * normal)
    place = anchor
    for step in range(STEPS):
        # Towards a drawn place first: a random direction leads nowhere from a corner of the polytope.
        direction = rng.standard_normal(space.dim) if step % 2 else pool[step] - place
        direction -= (direction @ normal) * normal
        if not direction.any():
            continue
        low, high = space.room(place, direction)
        end = rng.choice([low, high]) if step % 2 else min(high, 1.0)
        place = place + end * rng.uniform(0.1, 0.9) * direction
        place -= ((place - anchor) @ normal) * normal
    return np.asarray(place)
