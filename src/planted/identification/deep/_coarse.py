r"""Read two hidden layers from answers in single precision: rough hyperplanes first, then all parameters by least squares.

Problem     Single precision leaves about seven digits of an answer. Gradients by short steps have three of them, and every
            change of coordinates loses more. A deep network cannot be read layer by layer to many digits.
Idea        It need not be. A rough network, right to a part in a hundred, is enough for Gauss–Newton steps on all answers to
            find the rest (`_polish`), and the covariance of that fit bounds the error of every parameter.
            1. A gradient is measured by steps as long as each axis allows: the answers ahead, behind and at the base lie on
               a line as long as no unit switches between. Long steps make its error small.
            2. Two lines meet a unit of the first layer on one hyperplane, and it is there at other places. Those of higher
               layers bend. The layer is complete once its rows explain all gradients.
            3. Beside its own break a unit takes part in the gradient on one side only: there it is on.
            4. The function of the pre-activations of the first layer, where all of them are positive, breaks along the
               hyperplanes of the second layer. Rays along all axes meet every unit that ever switches there.
            5. Its units are oriented in the same way, or by least squares (`_top`), which gives the output layer too.
Guarantee   None of the steps is trusted: the fit must leave residuals of the size of the rounding errors, on answers that
            were not used as well (`_single`). Kind: statistical.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from planted._typing import Array, IntArray, Progress
from planted.identification.deep._layers import Base, pass_layers
from planted.identification.deep._planes import Planes, Survey, place_on_plane
from planted.identification.deep._space import Records, Space, scan_between
from planted.identification.deep._top import Top, fit_top
from planted.identification.deep.stages._state import Reading
from planted.identification.two_layer._breakpoints import LineScan
from planted.identification.two_layer._jumps import Line
from planted.networks._deep import Layer
from planted.outcomes import Outcome

__all__ = ["read_coarse"]

REACH = 8.0  # radii: how far lines in the inputs go
OUTWARD = np.array([0.02, 0.06, 0.15, 0.3, 0.6, 1.0])  # of the reach: first points of a line on either side
LINES, MOST_LINES = 3, 14
STEPS = (0.5, 0.15, 0.04, 0.012, 0.004)  # of half a piece: steps of a gradient along an axis, longest first
LONGEST = 0.5  # radii: of such a step
STRAIGHT = 2.0  # rounding errors by which three answers may be off a line
VAGUE = 0.05  # error of a normal above which it says nothing
NEAR, FARTHEST = 1e-4, 2e-3  # radii: how far from a hyperplane a break may be that is put down to it
APART = 0.5  # radii: between two places of one hyperplane; a surface that bends is flat where it is small
SAME = 0.01  # error of a normal above which it is not compared with others
ACROSS = 4.0  # errors of a gradient: a part across the known normals that shows a missing unit
HITS, MANY, MISSES = (
    3,
    12,
    2,
)  # places at which a hyperplane is looked for again: found, found in doubt, missed
AROUND = 0.05  # radii: how far around
FLAT = 8.0  # rounding errors: a function that changes less is flat
FEW_LEFT = 0.02  # of the gradients: so many may be wrong
OFF = 0.1  # of the part on one side: on the other, units that are off take no larger part, in the median
INDEPENDENT = 1e-3  # smallest singular value of unit rows
MARGIN = 0.02  # typical pre-activations: how far questions stay away from the switch of a lower unit
CHORDS = 4
FURTHER = 4  # times as many chords, where the units found do not explain all answers
FEW = 6  # breaks whose hyperplanes are tested to see that there are higher layers
FAR = 64.0  # where rays end, in typical pre-activations
ALONG = np.array([0.0, 0.004, 0.015, 0.05, 0.15, 0.45, 1.0])
ROUGHLY, ROUGHLY_NONE = 3e-3, 3e-2  # limits of `fit_top`, far wider than in double precision
EXPLAINED = 1e-2  # root mean square of what rough layers leave of the answers, relative to their spread
MAX_POINTS, SHORT_POINTS = 2_000, 120  # on a line, and on a short one across a hyperplane


def read_coarse(records: Records, *, rng: np.random.Generator, progress: Progress) -> Iterator[Reading]:
    """Read both layers roughly, and yield what is known after each step, until the caller is content with the network."""
    reading = Reading()
    space = _input_space(records, rng)
    reading.rounding = space.rounding
    progress("layer 1", 0.0)
    first = _Layer(space, Planes.none(space.dim))
    reading.surveys.append(Survey(first.planes))
    yield reading
    reading.reason = _find_first(first, rng)
    signs = np.ones(0)
    if not reading.reason:
        signs, shares = _orient(first)
        reading.reason = _name_sides(shares)
    if reading.reason:
        reading.outcome = Outcome.ASSUMPTION_FAILED
        reading.bent = first.count_bent(rng)
        yield reading
        return
    layer = signs[:, None] * first.planes.normals, signs * first.planes.offsets
    reading.top = _fit_oriented(records, [], layer)
    reading.layers.append(layer)
    yield reading
    if reading.top is not None:  # it is the only one
        return
    progress("layer 2", 0.0)
    base = _hidden_base(layer, records, rng)
    second = _Layer(_hidden_space(records, base, rng), Planes.none(base.matrix.shape[1]))
    reading.surveys.append(Survey(second.planes))
    for number in range(1 + FURTHER):
        for line, spread in _chords(base, rng) if number else _orthant_lines(base, rng):
            if second.scan(line, spread):
                second.add_all(len(second.scans) - 1)
        reading.top = _fit_second(records, reading, second, base)
        if reading.top is not None:
            reading.layers.append(reading.top.layer)
            yield reading  # where it is not right, units are missing
            reading.layers.pop()
    count = second.planes.offsets.size
    reading.reason = (
        f"the {count} units found in layer 2 do not explain all answers, or there are more layers"
    )
    reading.top = None
    yield reading


@dataclass(slots=True)
class _Layer:
    """The hyperplanes of one layer, and the lines on which they were looked for."""

    space: Space
    planes: Planes
    scans: list[tuple[Line, LineScan]] = field(default_factory=list)
    found: list[_Break] = field(default_factory=list)  # the break of each unit
    pool: list[_Break] = field(default_factory=list)  # everything that was measured in the inputs

    def scan(self, line: Line, spread: Array) -> bool:
        """Scan a line; whether it could be scanned to its end."""
        space = self.space
        low, high = space.room(line.origin, line.direction)
        start = np.unique(np.where(spread < 0, -spread * low, spread * high) * (1 - 1e-6))
        scan = scan_between(space, line, start, MAX_POINTS)
        if scan.jumps or not scan.is_complete:
            return False
        self.scans.append((line, scan))
        return True

    def unknown(self, number: int) -> IntArray:
        """The breaks of a line that no known hyperplane explains."""
        line, scan = self.scans[number]
        usable = np.flatnonzero(np.isfinite(scan.breakpoints))
        places = line.at(scan.breakpoints[usable])
        planes, radius = self.planes, self.space.rounding.radius
        off = np.abs(places @ planes.normals.T + planes.offsets)
        return usable[
            ~(off <= NEAR * radius + np.minimum(planes.doubts(places), FARTHEST * radius)).any(axis=1)
        ]

    def add_all(self, number: int) -> None:
        """Add the hyperplanes of all unknown breaks of a line."""
        for i in self.unknown(number):
            if i in self.unknown(number):  # an earlier one may have explained it
                found = _measure(self.space, *self.scans[number], int(i))
                if found is not None:
                    self._add_or_improve(found)

    def _add_or_improve(self, found: _Break) -> None:
        """Add the hyperplane of a break; if it was found before, keep the more exact of the two."""
        for place, other in enumerate(self.found):
            if found.is_same(other, 0.0, most=VAGUE):
                if found.error < other.error:
                    self.planes.normals[place], self.planes.offsets[place] = found.normal, found.offset
                    self.planes.errors[place], self.planes.anchors[place] = found.error, found.place
                    self.found[place] = found
                return
        self._add(found)

    def add_met_twice(self, number: int, rng: np.random.Generator) -> int:
        """Add the hyperplanes of unknown breaks of a line that earlier lines have met as well; return how many."""
        count = 0
        for i in self.unknown(number):
            found = _measure(self.space, *self.scans[number], int(i))
            if found is None:
                continue
            earlier = [other for other in self.pool if other.line != number]
            same = [other for other in earlier if found.is_same(other, APART * self.space.rounding.radius)]
            if same and self.goes_on(found := found.mean(same[0]), rng):
                self._add(found)
                count += 1
            self.pool.append(replace(found, line=number))
        return count

    def count_bent(self, rng: np.random.Generator) -> int:
        """Of a few breaks on no known hyperplane: how many are missing at other places of theirs."""
        radius = self.space.rounding.radius
        places = np.array([found.place for found in self.pool]).reshape(-1, self.space.dim)
        off = np.abs(places @ self.planes.normals.T + self.planes.offsets).min(axis=1, initial=np.inf)
        chosen = np.flatnonzero(off > FARTHEST * radius)[:FEW]
        return sum(not self.goes_on(self.pool[i], rng) for i in chosen)

    def goes_on(self, found: _Break, rng: np.random.Generator, hits: int = HITS) -> bool:
        """Whether the hyperplane of a break is met at random other places of it; where the function is flat says nothing."""
        space, seen, misses = self.space, 0, 0
        for _ in range(3 * hits):
            place = place_on_plane(space, found.normal, found.place, rng)
            doubt = 4 * found.error * float(np.linalg.norm(place - found.place))
            reach = max(AROUND * space.rounding.radius, 4 * doubt)
            start = reach * np.array([-1.0, -0.6, -0.2, 0.2, 0.6, 1.0])
            line = Line(place, found.normal)
            scan = scan_between(space, line, start, SHORT_POINTS)
            values = space.ask(line.at(start[[0, -1]]))
            if (np.abs(scan.breakpoints) <= doubt + NEAR * space.rounding.radius).any():
                seen += 1
            elif (np.abs(values[1] - values[0]) > FLAT * space.rounding.at(place[None])).any():
                misses += 1
            if seen == hits or misses == MISSES:
                break
        return seen > 1 and misses < MISSES

    def unexplained(self) -> list[tuple[Array, Array]]:
        """Places, and the parts of gradients there that the known normals do not explain."""
        if not self.planes.offsets.size:
            return []
        rows = np.linalg.svd(self.planes.normals, full_matrices=False)[2]
        worst = float(self.planes.errors.max())
        left = []
        for found in self.pool:
            for gradient in found.gradients:
                across = gradient - gradient @ rows.T @ rows
                size = float(np.linalg.norm(across))
                if size > ACROSS * max(worst * float(np.linalg.norm(gradient)), found.noise):
                    left.append((found.place, across[np.linalg.norm(across, axis=1).argmax()]))
        return left

    def _add(self, found: _Break) -> None:
        self.planes.append(found.normal, found.offset, found.error, found.place)
        self.found.append(found)


@dataclass(frozen=True, slots=True)
class _Break:
    """A break of a line: the normal of its hyperplane, its error, where it is, and the gradients on both sides."""

    normal: Array
    error: float
    place: Array
    gradients: tuple[Array, Array]
    noise: float  # of the gradients
    line: int = -1  # on which it was met

    @property
    def offset(self) -> float:
        """Offset of the hyperplane."""
        return -float(self.normal @ self.place)

    def is_same(self, other: _Break, distance: float, most: float = SAME) -> bool:
        """Whether the other break lies on the same hyperplane, at some distance; `most`: the largest error to tell."""
        if max(self.error, other.error) > most:
            return False
        sign = np.copysign(1.0, self.normal @ other.normal)
        if np.linalg.norm(self.normal - sign * other.normal) > 3 * (self.error + other.error):
            return False
        apart = other.place - self.place
        if np.linalg.norm(apart) < distance:
            return False
        offs = abs(float(self.normal @ apart)), abs(float(other.normal @ apart))
        return max(offs) <= 3 * (self.error + other.error) * (0.02 + float(np.linalg.norm(apart)))

    def mean(self, other: _Break) -> _Break:
        """Return the break with the mean normal of both, weighted by their errors."""
        shares = np.array([self.error, other.error]) ** -2.0
        sign = np.copysign(1.0, self.normal @ other.normal)
        normal = shares[0] * self.normal + shares[1] * sign * other.normal
        return replace(self, normal=normal / np.linalg.norm(normal), error=float(shares.sum() ** -0.5))


def _measure(space: Space, line: Line, scan: LineScan, number: int) -> _Break | None:
    """Measure the gradients on both sides of a break, and the normal; None if it is too vague."""
    one, other = (_gradient(space, line, scan, place) for place in (number, number + 1))
    if one is None or other is None:
        return None
    jump = other[0] - one[0]
    _, sizes, rows = np.linalg.svd(jump, full_matrices=False)
    error = float(np.linalg.norm(one[1] + other[1])) / max(float(sizes[0]), np.finfo(float).tiny)
    if error > VAGUE or (sizes[1:] > 4 * error * sizes[0]).any():
        return None
    place = line.at(scan.breakpoints[[number]])[0]
    normal = np.copysign(1.0, rows[0] @ line.direction) * rows[0]  # it points to the second side
    noise = float(np.linalg.norm(one[1] + other[1]))
    return _Break(normal, error, place, (one[0], other[0]), noise)


def _gradient(space: Space, line: Line, scan: LineScan, place: int) -> tuple[Array, Array] | None:
    """The gradient on one piece of a line, of shape (m, p), and its errors, of shape (p,); None if no step stays on it."""
    piece, count = scan.pieces[place], len(scan.pieces)
    low = float(scan.breakpoints[place - 1]) if place else piece.left
    high = float(scan.breakpoints[place]) if place + 1 < count else piece.right
    if not np.isfinite([low, high]).all():
        return None
    if place == 0:  # the piece goes on; stay near its break
        low = max(low, high - 2 * space.rounding.radius)
    if place == count - 1:
        high = min(high, low + 2 * space.rounding.radius)
    base = line.at(np.array([(low + high) / 2]))[0]
    longest = min((high - low) / 2, LONGEST * space.rounding.radius)
    value = space.ask(base[None])[0]
    p = space.dim
    gradient, errors = np.zeros((value.size, p)), np.full(p, np.inf)
    for part in STEPS:
        axes = np.flatnonzero(~np.isfinite(errors))
        if not axes.size:
            break
        steps = part * longest * np.eye(p)[axes]
        inside = space.holds(base + steps) & space.holds(base - steps)
        axes, steps = axes[inside], steps[inside]
        if not axes.size:
            continue
        answers = space.ask(np.concatenate([base + steps, base - steps]))
        ahead, behind = answers[: axes.size], answers[axes.size :]
        noise = space.rounding.seen(base[None], value[None]).at(base[None])[0]
        is_straight = (np.abs(ahead + behind - 2 * value) <= STRAIGHT * noise).all(axis=1)
        chosen = axes[is_straight]
        gradient[:, chosen] = ((ahead - behind)[is_straight] / (2 * part * longest)).T
        errors[chosen] = float(np.linalg.norm(noise)) / 4 / (part * longest)
    return (gradient, errors) if np.isfinite(errors).all() else None


def _input_space(records: Records, rng: np.random.Generator) -> Space:
    d = records.box.n_features
    return Space.calibrated(
        records.ask,
        records.box.draw,
        sides=np.zeros((0, d)),
        limits=np.zeros(0),
        reach=REACH,
        rng=rng,
        grid=records.box.grid,
    )


def _find_first(layer: _Layer, rng: np.random.Generator) -> str:
    """Find the hyperplanes of the first layer; return why it failed, or nothing."""
    space = layer.space
    spread = np.concatenate([-OUTWARD[::-1], [0.0], OUTWARD])
    quiet = 0
    left: list[tuple[Array, Array]] = []
    for number in range(MOST_LINES):
        direction = rng.standard_normal(space.dim)
        origin = space.draw(1, rng)[0]
        if left and number >= LINES:
            origin, across = left[rng.integers(len(left))]
            direction = across / np.linalg.norm(across) + 0.3 * direction / np.sqrt(space.dim)
        if not layer.scan(Line(origin, direction / np.linalg.norm(direction)), spread):
            return "a line through the inputs has jumps, or breaks without end"
        quiet = 0 if layer.add_met_twice(number, rng) else quiet + 1
        left = layer.unexplained()
        if quiet and number >= LINES and not left:
            break
    if layer.found and not _is_independent(layer.planes.normals):  # some may be flat parts of higher units
        kept = [layer.goes_on(found, rng, hits=MANY) for found in layer.found]
        layer.planes.keep(np.array(kept, dtype=np.bool_))
        layer.found = [found for found, is_kept in zip(layer.found, kept, strict=True) if is_kept]
        left = layer.unexplained()
    if len(left) > FEW_LEFT * 2 * len(layer.pool):
        return f"gradients have parts that the {layer.planes.offsets.size} rows found in hidden layer 1 do not explain"
    rows = layer.planes.normals
    if not len(rows):
        return "no unit of layer 1 was found"
    return _name_dependence(rows)


def _name_dependence(rows: Array) -> str:
    """Say why the rows of a layer are not independent; nothing if they are."""
    k, p = rows.shape
    if k > p:
        return f"hidden layer 1 has {k} units on {p} inputs, and in single precision a layer that widens is not read"
    if _is_independent(rows):
        return ""
    least = float(np.linalg.svd(rows, compute_uv=False).min())
    return (
        f"the rows of the {k} units found in hidden layer 1 are nearly dependent (smallest singular value {least:.0e} of "
        f"unit rows, {INDEPENDENT:g} is needed): the errors of single precision are larger than what tells them apart"
    )


def _is_independent(rows: Array) -> bool:
    k, p = rows.shape
    return 0 < k <= p and bool(np.linalg.svd(rows, compute_uv=False).min() >= INDEPENDENT)


def _orient(layer: _Layer) -> tuple[Array, Array]:
    """On which side each unit is on, by its part in the gradients beside its own break, and the part on the other side.

    The rows are independent. Normals point to the second side.
    """
    inverse = np.linalg.pinv(layer.planes.normals)
    parts = np.array(
        [
            [np.linalg.norm(gradient @ inverse[:, i]) for gradient in found.gradients]
            for i, found in enumerate(layer.found)
        ]
    )
    return np.where(parts[:, 1] > parts[:, 0], 1.0, -1.0), parts.min(axis=1) / np.maximum(
        parts.max(axis=1), np.finfo(float).tiny
    )


def _name_sides(shares: Array) -> str:
    """Say why a layer has no ReLU units; nothing if each takes part on one side only."""
    both = int((shares > OFF).sum())
    if np.median(shares) <= OFF:
        return ""
    return (
        f"{both} units of hidden layer 1 take part on both sides of their hyperplanes: connections skip it, or they are no "
        "ReLU units"
    )


def _hidden_base(layer: tuple[Array, Array], records: Records, rng: np.random.Generator) -> Base:
    """Coordinates v >= MARGIN of the pre-activations of the first layer, in units of their typical sizes."""
    W, b = layer
    sizes = np.sqrt(((records.box.draw(200, rng) @ W.T + b) ** 2).mean(axis=0))
    inverse = np.linalg.pinv(W)
    k = len(b)
    return Base(inverse * sizes, -inverse @ b, -np.eye(k), np.full(k, -MARGIN))


def _hidden_space(records: Records, base: Base, rng: np.random.Generator) -> Space:
    p = base.matrix.shape[1]

    def draw(count: int, stream: np.random.Generator) -> Array:
        return MARGIN + np.abs(stream.standard_normal((count, p)))

    def ask(V: Array) -> Array:
        return records.ask(base.inputs(V))

    return Space.calibrated(
        ask,
        draw,
        sides=base.sides,
        limits=base.limits,
        reach=FAR / np.sqrt(p),
        rng=rng,
        grid=records.box.grid,
    )


def _orthant_lines(base: Base, rng: np.random.Generator) -> Iterator[tuple[Line, Array]]:
    """Chords, then one ray along each axis."""
    yield from _chords(base, rng)
    p = int(base.matrix.shape[1])
    for axis in rng.permutation(p):
        yield Line(MARGIN * rng.uniform(1.1, 2.0, p), np.eye(p)[axis]), ALONG


def _chords(base: Base, rng: np.random.Generator) -> Iterator[tuple[Line, Array]]:
    """Chords between opposite corners."""
    p = int(base.matrix.shape[1])
    for _ in range(CHORDS):
        far = rng.permutation(p) < p / 2
        sizes = np.exp(rng.standard_normal((2, p)))
        low = 2 * MARGIN * np.exp(np.abs(rng.standard_normal(p)))
        ends = np.where(far, 6 * sizes[0], low), np.where(far, low, 6 * sizes[1])
        direction = ends[1] - ends[0]
        yield Line(ends[0], direction / np.linalg.norm(direction)), np.linspace(0.0, 1.0, 9) ** 1.5


def _fit_second(records: Records, reading: Reading, second: _Layer, base: Base) -> Top | None:
    """The second layer as the last one, and the output layer; None if they do not explain all answers."""
    if not second.found:
        return None
    rows = second.planes.normals @ np.linalg.pinv(reading.layers[0][0] @ base.matrix)
    biases = second.planes.offsets
    if _is_independent(second.planes.normals):
        signs, shares = _orient(second)
        if np.median(shares) <= OFF:
            top = _fit_oriented(records, reading.layers, (signs[:, None] * rows, signs * biases))
            if top is not None:
                return top
        return fit_top(records.all(), reading.layers, (rows, biases), explained=ROUGHLY, no_rest=ROUGHLY_NONE)
    top = fit_top(records.all(), reading.layers, (rows, biases), explained=ROUGHLY, no_rest=ROUGHLY_NONE)
    if top is not None and top.passing:  # rough rows do not tell a wrong side from a unit that never switches
        return replace(top, passing=0, is_unique=False)
    return top


def _fit_oriented(records: Records, layers: list[Layer], last: Layer) -> Top | None:
    """The output layer above a last hidden layer with known sides; None if it does not explain all answers."""
    X, Y = records.all()
    H = pass_layers([*layers, last], X)
    weights = 1.0 / (1.0 + np.linalg.norm(X, axis=1, keepdims=True) / np.sqrt(X.shape[1]))
    features = np.column_stack([H, np.ones(len(H))])
    coefficients = np.linalg.lstsq(features * weights, Y * weights, rcond=None)[0]
    left = ((features @ coefficients - Y) * weights).std(axis=0)
    spread = (Y * weights).std(axis=0)
    residual = float((left / np.where(spread > 0, spread, 1.0)).max())
    if residual > EXPLAINED:
        return None
    return Top(
        last,
        (coefficients[:-1].T, coefficients[-1]),
        0.0,
        0,
        True,
        residual,
        np.zeros(last[0].shape, dtype=np.bool_),
    )
