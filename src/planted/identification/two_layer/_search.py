r"""Read a two-layer ReLU network back from a black box by choosing the questions.

Problem     A function x -> y can be evaluated anywhere, or within a box. It is a two-layer ReLU network with an unknown
            number of units. Find all its parameters with few questions.
Idea        1. Measure the rounding error of the answers, and test whether the function is piecewise linear
               (`_rounding`).
            2. Search along a random line. It meets every hyperplane once; find where (`_breakpoints`).
            3. The gradient jumps by a_i w_i at the breakpoint of unit i. Measure each jump roughly beside the line, and
               again with long steps where the hyperplane is far from all others (`_gradient_jumps`).
            4. The linear rest of the function decides on which side of its hyperplane each unit is active
               (`_orientation`).
            5. Ask fresh random questions and compare the answers with the prediction of the network. If some do not
               match, draw a further line through the worst of these places and measure only the breakpoints that are
               not yet known. Repeat until all answers match.
Guarantee   If the black box is a two-layer ReLU network, a random line of infinite length meets every hyperplane with
            probability one. Step 5 is a test that does not rely on this: if N fresh random inputs all match at the j-th
            attempt, then with confidence 1 - δ the network agrees with the black box on all but a fraction
            1 - (δ/j)^(1/N) of such inputs; a difference on fewer of them is not excluded. A function of another kind is
            refused because of curvature (step 1), discontinuities (step 2), breaks that are not hyperplanes (step 3), or a
            linear part that the units do not explain (step 4). Kind: statistical.
Departures  [Carlini2020]_ measure every unit with two questions per coordinate around its own breakpoint, where the
            neighbouring breakpoints limit the step, and estimate slopes along the line by small differences. Here slopes
            come from chords, the gradient of a region serves both its neighbours, and the final measurement is made
            where steps can be long.
Cost        About 8 questions per breakpoint, d per region and 2d per unit; a matrix of size (m d) × k for step 4.
References  [Carlini2020]_, [ATV21]_
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from planted._typing import Array, IntArray, Progress
from planted.identification._grid import Grid
from planted.identification._rounding import N_SEGMENTS, Rounding, calibrate_rounding
from planted.identification.two_layer._breakpoints import LineScan, find_breakpoints
from planted.identification.two_layer._gradient_jumps import measure_units, rough_units
from planted.identification.two_layer._jumps import Jumps, Line, Measurement
from planted.identification.two_layer._orientation import (
    Orientation,
    build_network,
    estimate_rest,
    orient_units,
)
from planted.identification.two_layer._refine_answers import Deviation
from planted.networks import DeepNetwork, TwoLayerNetwork

__all__ = ["BlackBox", "Checks", "Deeper", "Identification", "Refusal", "check_network", "search_lines"]

FARTHEST = 20  # lines reach 2**20 radii: a hyperplane is missed with probability about 1e-6
NEAREST, NEAR = -3, 3  # and begin with steps of 2**-3 radii, which double up to 2**3, then grow fourfold
CENTRAL = 0.1  # part of the box in which lines pass the centre
BOX_POINTS = 33  # first questions on a line within a box
MAX_POINTS = 16_000  # on one line; a network of 1000 units needs about half
FEW_BREAKS = 8  # on a line: to read their units costs hardly more than a parallel line that says whether there are layers
MAX_LINES = 12
MAX_BOX_LINES = 60
MEASUREMENTS = 3  # of a unit, at most, after the rough one
# A unit is measured again while its error exceeds `ENOUGH` relative rounding errors or `FINE`, whichever is smaller.
ENOUGH = 2e4
FINE = 1e-6
NARROWING = 8.0  # a unit that was not found is looked for this many times closer to where it was seen
COARSE = 1e-10  # relative rounding error above which answers are not in double precision
TOO_COARSE = 1e-4  # relative error above which answers say too little
PREDICTED = 16.0  # rounding errors by which an answer may be off and still match the prediction
# Spreads of the outputs: an answer that is off by more does not match, whatever the rounding error, unless it is a step of
# the grid on which the answers lie.
FARTHEST_OFF = 1e-3
CONSTANT = (
    1e-12  # of the size of the answers: an output that varies by less is constant, and its spread is rounding
)
STEPS_OFF = 2.0  # steps of the grid of decimals by which an answer may differ from a refined network
N_CHECKS = 96  # fresh questions after each line
N_CORNERS = 64  # of a box, at most
WHAT_IS_READ = 'Curved units are read if they are named (activation="tanh"), and probabilities with outputs="probabilities"'
DEEPER = (
    "It has more than two layers, units too close to be told apart, or is piecewise linear in another way."
)


@dataclass(frozen=True, slots=True)
class BlackBox:
    """The function in the units of the search."""

    ask: Callable[[Array], Array]  # rows of shape (n, d) in, answers of shape (n, m) out
    n_features: int  # number of inputs, d
    has_box: bool  # whether inputs must stay within [-1, 1] in every coordinate
    snap: Callable[[Array], Array]  # rounds numbers to those that the function takes as they are
    grid: Grid  # how its answers are rounded

    @property
    def room(self) -> float:
        """Half the side of the box, or infinity."""
        return 1.0 if self.has_box else float("inf")

    def draw(self, count: int, rng: np.random.Generator) -> Array:
        """Draw typical inputs: standard normal rows, or uniform ones in the box.

        Shapes: result (count, d).
        """
        shape = (count, self.n_features)
        return rng.uniform(-1.0, 1.0, shape) if self.has_box else rng.standard_normal(shape)

    def corners(self, rng: np.random.Generator) -> Array:
        """Return the corners of the box, or some of many: a unit that cuts off a part of it switches before one of them."""
        if 2**self.n_features <= N_CORNERS:
            return np.array(list(product((-1.0, 1.0), repeat=self.n_features)))
        return rng.choice([-1.0, 1.0], (N_CORNERS, self.n_features))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the black box is not a two-layer ReLU network."""

    reason: str  # a sentence with the numbers
    rounding: Rounding | None = None  # how exactly it answers, if it may have several hidden layers


@dataclass(frozen=True, slots=True)
class Deeper:
    """The black box is piecewise linear, and parallel lines say that it has several hidden layers."""

    rounding: Rounding  # how exactly it answers
    scans: list[tuple[Line, LineScan]]  # the lines that say so


@dataclass(frozen=True, slots=True)
class Identification:
    """A network, how it was found, and how well it predicts fresh answers."""

    network: TwoLayerNetwork  # the network
    orientation: Orientation  # on which sides its units are active
    jumps: Jumps  # its units up to orientation
    rounding: Rounding  # how exactly the black box answers
    n_lines: int  # lines that were searched
    unresolved: int  # gaps between breakpoints on the last line that were too narrow
    n_attempts: int  # how often fresh questions were asked, so that chance had as many opportunities
    misfits: int  # fresh answers that did not match the prediction, of `N_CHECKS`
    largest_misfit: float  # largest error of a fresh answer, relative to the outputs' spread
    deviation: Deviation | None = None  # standard errors, if it was refined on many answers


def search_lines(
    box: BlackBox,
    *,
    rng: np.random.Generator,
    progress: Progress,
    looks_deep: Callable[[Line, LineScan, Rounding], list[tuple[Line, LineScan]]] | None = None,
) -> Iterator[Identification | Refusal | Deeper]:
    """Search along line after line, and yield what is known after each; the last is the answer.

    The search ends with a refusal, when all fresh answers match the prediction, or after the last line. `looks_deep` is
    asked after the first line, or if that has few breaks only when fresh answers do not match; if it returns lines that say
    so, the search ends there.
    """
    progress("measuring the rounding error", 0.0)
    rounding = _calibrate(box, rng)
    refusal = _refuse_rounding(rounding)
    if refusal is not None:
        yield refusal
        return
    jumps = Jumps.none(box.n_features, rounding.level.size)
    through, towards = box.draw(1, rng)[0], None
    if box.has_box:  # from corner to corner, past the centre: it meets most hyperplanes
        through, towards = CENTRAL * through, np.copysign(1.0, box.draw(1, rng)[0])
    lines = MAX_BOX_LINES if box.has_box else MAX_LINES
    for number in range(lines):
        progress(f"searching line {number + 1}", number / lines)
        line = _draw_line(box, through, towards, rng)
        scan, rounding = _scan_line(box, line, rounding)
        fresh, absent = _compare_with_known(scan, line, jumps)
        refusal = _refuse_scan(scan) or _refuse_absent(absent, jumps, rounding)
        if refusal is not None:
            yield refusal
            return
        guess = looks_deep if number == 0 else None
        has_few = int(np.isfinite(scan.breakpoints).sum()) < FEW_BREAKS
        scans = guess(line, scan, rounding) if guess is not None and not has_few else []
        if scans:
            yield Deeper(rounding, scans)
            return
        room = min(box.room, rounding.radius)
        rough = rough_units(box.ask, line, scan, wanted=fresh, rounding=rounding, room=room)
        progress(f"measuring {rough.offsets.size} units", number / lines)
        measured = _measure(box, jumps.join(rough), rounding, rng)
        refusal = _refuse_measurement(measured, rounding)
        if refusal is not None:
            yield refusal
            return
        jumps = measured.jumps.select(measured.is_confirmed)
        found = _assemble(jumps, measured)
        checks = check_network(box, found[0], rounding, rng)
        close = int(np.isnan(scan.breakpoints).sum())
        network = found[0] if checks.misfits else replace(found[0], c=found[0].c + checks.offset)
        yield Identification(
            network, found[1], jumps, rounding, number + 1, close, number + 1, checks.misfits, checks.largest
        )
        if checks.misfits == 0:
            return
        scans = guess(line, scan, rounding) if guess is not None and has_few else []
        if scans:
            yield Deeper(rounding, scans)
            return
        through, towards = checks.worst, checks.best


@dataclass(frozen=True, slots=True)
class Checks:
    """Fresh answers against the prediction: how many do not match, and where the worst and the best are."""

    misfits: int
    largest: float
    worst: Array
    best: Array | None
    offset: Array  # (m,): by how much the answers exceed the prediction, in the median


def _calibrate(box: BlackBox, rng: np.random.Generator) -> Rounding:
    """Measure the rounding error at typical inputs and, without a box, far from them."""
    centres = box.draw(N_SEGMENTS, rng) * (0.5 if box.has_box else 1.0)
    far = np.zeros((0, box.n_features)) if box.has_box else box.draw(2, rng) * 2.0**FARTHEST
    return calibrate_rounding(box.ask, centres, far=far, rng=rng, grid=box.grid)


def _draw_line(box: BlackBox, through: Array, towards: Array | None, rng: np.random.Generator) -> Line:
    """Draw a line through a place: towards another place if one is given, otherwise in a random direction.

    In a box it passes the centre: in many dimensions a random direction soon leaves the box.
    """
    if towards is None and box.has_box:
        towards = CENTRAL * box.draw(1, rng)[0]
    direction = rng.standard_normal(box.n_features) if towards is None else towards - through
    return Line(through, direction / np.linalg.norm(direction))


def _scan_line(box: BlackBox, line: Line, rounding: Rounding) -> tuple[LineScan, Rounding]:
    """Search a line: geometric steps out to `FARTHEST` radii, or even steps within the box.

    The first answers show how large outputs get, and hence their rounding errors.
    """
    if box.has_box:
        with np.errstate(divide="ignore"):
            ends = np.stack([(-1 - line.origin) / line.direction, (1 - line.origin) / line.direction])
        start = np.linspace(ends.min(axis=0).max(), ends.max(axis=0).min(), BOX_POINTS)
    else:
        powers = [*range(NEAREST, NEAR), *range(NEAR, FARTHEST, 2), FARTHEST]
        outward = rounding.radius * 2.0 ** np.array(powers)
        start = np.concatenate([-outward[::-1], [0.0], outward])
    values = box.ask(line.at(start))
    rounding = rounding.seen(line.at(start), values)
    scan = find_breakpoints(
        lambda t: box.ask(line.at(t)),
        start,
        noise=lambda t: rounding.at(line.at(t)),
        values=values,
        max_points=MAX_POINTS,
    )
    return scan, rounding


def _refuse_rounding(rounding: Rounding) -> Refusal | None:
    """Refuse a function that is curved, or whose answers are too coarse."""
    if rounding.is_curved:
        return Refusal(
            "it bends between breakpoints: it is not piecewise linear, so its units are not ReLU units. "
            + WHAT_IS_READ
        )
    if rounding.relative > TOO_COARSE:
        return Refusal(
            f"its answers are uncertain by {rounding.relative:.1e} of their size, too much to see breaks by"
        )
    return None


def _refuse_scan(scan: LineScan) -> Refusal | None:
    """Refuse a function that is discontinuous, or has pieces without end."""
    if scan.jumps:
        return Refusal(
            f"it jumps, or seems to: {len(scan.jumps)} times on one line answers change faster than their digits resolve, "
            "as those of a tree or a forest do; a network is continuous"
        )
    if not scan.is_complete:
        return Refusal(
            f"{scan.n_points} questions on one line found {len(scan.pieces)} linear pieces and no end: it is not "
            f"piecewise linear, or has more units than can be told apart. {WHAT_IS_READ}"
        )
    return None


def _compare_with_known(scan: LineScan, line: Line, known: Jumps) -> tuple[IntArray, int]:
    """Return the breakpoints that no known hyperplane explains, and how many hyperplanes were not met."""
    usable = np.flatnonzero(np.isfinite(scan.breakpoints))
    if known.offsets.size == 0 or usable.size == 0:
        return usable, 0
    along = known.normals @ line.direction
    with np.errstate(divide="ignore"):
        expected = -(known.normals @ line.origin + known.offsets) / along
    places = line.at(scan.breakpoints[usable])
    distance = np.abs(places @ known.normals.T + known.offsets)
    near = distance <= 3 * known.doubts(places) + 1e-6 * np.abs(along) * (1 + np.abs(expected))
    bends = np.stack([scan.pieces[i + 1].slope - scan.pieces[i].slope for i in usable])
    predicted = (known.strengths * np.abs(along)).T
    misfit = np.linalg.norm(bends[:, None, :] - predicted[None], axis=2)
    is_known = near & (misfit <= 0.05 * np.linalg.norm(predicted, axis=1))
    is_on_line = (expected > scan.pieces[0].centre) & (expected < scan.pieces[-1].centre)
    is_hidden = np.isnan(scan.breakpoints).any()
    absent = 0 if is_hidden else int((is_on_line & ~near.any(axis=0)).sum())
    return usable[~is_known.any(axis=1)], absent


def _refuse_absent(absent: int, known: Jumps, rounding: Rounding) -> Refusal | None:
    """Refuse a function whose breaks are missing where their hyperplanes cross a further line."""
    if absent > max(1, known.offsets.size / 4):
        return Refusal(
            f"{absent} of {known.offsets.size} hyperplanes were not met by a further line that crosses them: its breaks "
            f"are not hyperplanes. {DEEPER}",
            rounding,
        )
    return None


def _refuse_measurement(measured: Measurement, rounding: Rounding) -> Refusal | None:
    """Refuse a function whose breaks are missing elsewhere on their hyperplanes."""
    missed = int((measured.is_missed & ~measured.is_confirmed).sum())
    if missed > max(2, measured.is_missed.size / 2):
        return Refusal(
            f"{missed} of {measured.is_missed.size} breaks were not found again elsewhere on their hyperplanes. {DEEPER}",
            rounding,
        )
    return None


def _measure(box: BlackBox, jumps: Jumps, rounding: Rounding, rng: np.random.Generator) -> Measurement:
    """Measure units, those with large errors several times; a unit is confirmed once it was found again elsewhere."""
    if jumps.offsets.size == 0:
        return _measure_nothing(box, jumps, rounding, rng)
    confirmed, missed = np.zeros((2, jumps.offsets.size), dtype=np.bool_)
    parts: list[Measurement] = []
    for attempt in range(MEASUREMENTS):
        which = np.flatnonzero(~confirmed | (jumps.errors > min(ENOUGH * rounding.relative, FINE)))
        if which.size == 0:
            break
        # A hyperplane that is not known yet may have disturbed the measurement of a unit that was not found: look for it
        # closer to where it was seen.
        reach = np.where(confirmed[which], 1.0, NARROWING**-attempt)
        part = measure_units(
            box.ask, jumps, which, rounding=rounding, rng=rng, room=box.room, reach=reach, snap=box.snap
        )
        jumps, confirmed = part.jumps, confirmed | part.is_confirmed
        missed = part.is_missed
        parts.append(part)
    return Measurement(
        jumps,
        confirmed,
        missed,
        np.concatenate([part.places for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.gradients for part in parts]),
        np.concatenate([part.errors for part in parts]),
    )


def _measure_nothing(
    box: BlackBox, jumps: Jumps, rounding: Rounding, rng: np.random.Generator
) -> Measurement:
    """Measure the gradient at one place; where no break was seen there is nothing else to measure."""
    base = box.snap(box.draw(1, rng) / 2)
    steps = np.eye(box.n_features) * rounding.radius / 4
    ahead, behind = box.ask(base + steps), box.ask(base - steps)
    gradient = ((ahead - behind) / (rounding.radius / 2)).T
    error = float(rounding.at(base).max() / rounding.radius)
    return Measurement(
        jumps,
        np.zeros(0, dtype=np.bool_),
        np.zeros(0, dtype=np.bool_),
        base,
        box.ask(base),
        gradient[None],
        np.array([error]),
    )


def _assemble(jumps: Jumps, measured: Measurement) -> tuple[TwoLayerNetwork, Orientation]:
    """Orient the units by the linear rest of the function and write the network."""
    rest, error = estimate_rest(measured, jumps)
    orientation = orient_units(jumps, rest, error=error)
    return build_network(jumps, orientation, rest=rest, measured=measured), orientation


def check_network(
    box: BlackBox,
    network: TwoLayerNetwork | DeepNetwork,
    rounding: Rounding,
    rng: np.random.Generator,
    *,
    is_fine: bool = False,
) -> Checks:
    """Ask fresh questions at several distances and compare the answers with the network's; in a box at its corners too.

    `is_fine`: whether answers must match to `STEPS_OFF` steps of the grid, if they lie on one of decimals.
    """
    rows = box.draw(N_CHECKS, rng)
    if box.has_box:
        checks = _compare(box, network, rounding, box.snap(rows), is_fine)
        at_corners = None if checks.misfits else box.snap(box.corners(rng))
        corners = checks if at_corners is None else _compare(box, network, rounding, at_corners, is_fine)
        return replace(corners, best=checks.best) if corners.misfits else checks
    rows *= 2.0 ** rng.uniform(-2, 2, (N_CHECKS, 1))
    return _compare(box, network, rounding, box.snap(rows), is_fine)


def _compare(
    box: BlackBox, network: TwoLayerNetwork | DeepNetwork, rounding: Rounding, rows: Array, is_fine: bool
) -> Checks:
    """Compare the answers at some places with the network's."""
    truth = box.ask(rows)
    gap = np.abs(truth - network(rows))
    spread, size = truth.std(axis=0), np.abs(truth).max(axis=0)
    is_constant = spread <= CONSTANT * size  # to rounding: its scale is its size
    scale = np.where(is_constant, np.where(size > 0, size, 1.0), spread)
    growth = (1 + np.linalg.norm(rows, axis=1) / rounding.radius)[:, None]
    allowed = PREDICTED * rounding.at(rows) + 1e-9 * scale * growth
    if rounding.relative > COARSE:
        allowed = allowed * 16
    farthest = np.maximum(FARTHEST_OFF * scale * growth, box.grid.step)
    if is_fine and box.grid.step > 0:
        farthest = np.minimum(farthest, STEPS_OFF * box.grid.steps(np.abs(truth)))
    over = (gap / np.minimum(allowed, farthest)).max(axis=1)
    best = rows[int(np.argmin(over))] if over.min() <= 1 else None
    worst, offset = rows[int(np.argmax(over))], np.median(truth - network(rows), axis=0)
    return Checks(int((over > 1).sum()), float((gap / scale).max()), worst, best, offset)
