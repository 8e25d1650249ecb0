r"""Read a deep ReLU network layer by layer, from the input to the output, by choosing what to ask.

Problem     f(x) = A σ(W_L … σ(W_1 x + b_1) … + b_L) + c can be asked anywhere, or within a box. Depth and widths are not
            known. Find all parameters with few questions.
Idea        1. The units of the first layer break f along whole hyperplanes (`_planes`).
            2. The gradient is a combination of the rows of units that are on. If the rows are independent, every gradient
               shows which units are on, hence on which side each is (`_layers`).
            3. Then h -> f(x(h)) for pre-activations h > 0 is a network with one layer less, and step 1 finds its first
               layer. From the third layer on the regions in which all lower units are on are polytopes.
            4. After each layer: do the features |t_j|, h and 1, with t the pre-activations of this layer, explain every
               answer so far? Then it is the last one. Their coefficients give its orientation and the output layer.
            5. Gauss–Newton steps on all answers restore the digits that were lost from layer to layer (`_polish`).
Guarantee   None of the steps is trusted: the network is judged by fresh answers (`_verdict`). Kind: statistical.
References  [Carlini2020]_
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from math import comb

import numpy as np

from planted._typing import Array, BoolArray, Progress
from planted.identification._rounding import Rounding
from planted.identification.deep._expansive import read_expansive
from planted.identification.deep._gaps import ask_beside_gaps, filled_from_answers
from planted.identification.deep._gathered import explained_by, gather_units, switches_on
from planted.identification.deep._kinds import leak_of, name_other_kind
from planted.identification.deep._layers import Base, Region, orientation_votes, region_at
from planted.identification.deep._planes import (
    Planes,
    Survey,
    check_planes,
    doubt_planes,
    drop_absent,
    find_planes,
    refine_planes,
    unexplained,
)
from planted.identification.deep._regions import PartialRows, fill_gaps, read_regions, sample_places
from planted.identification.deep._residual import MissingUnits
from planted.identification.deep._space import Breaks, Records, Space, measure_breaks, scan_line
from planted.identification.deep._top import EXPLAINED, Top, fit_top
from planted.identification.deep.ending._confirm import confirming_places
from planted.identification.deep.ending._polish import polish
from planted.identification.two_layer._breakpoints import LineScan
from planted.identification.two_layer._jumps import Line
from planted.identification.two_layer._search import BlackBox
from planted.networks import DeepNetwork
from planted.networks._deep import Layer
from planted.outcomes import Outcome

__all__ = ["Reading", "breaks_bend", "read_layers", "survey_layer"]

REACH = 1024.0  # radii: how far lines in the inputs go
MARGIN = 1e-6  # typical pre-activations: how far questions stay away from the switch of a lower unit
CORNER = 1e-4  # typical pre-activations: where rays along an axis begin
NEAR, FAR = 0.02, 400.0  # where chords begin and rays end
CHORDS, BOX_CHORDS = 4, 12  # without a box, and within one, where rays end early
FURTHER = 5  # times as many chords where the units found leave something unexplained
LINES, BOX_LINES, MOST_LINES = 3, 4, 12  # through the inputs: without a box, within one, and at most
MOST_LAYERS = 12
NEARLY, FINELY = 1e-3, 1e-9  # residuals, relative, between which the units are refined
ROUNDS = 4  # of further chords for the last layer
HIGHER = 2  # breaks that bend, to say that there are higher layers
FEW_BREAKS = 5  # whose hyperplanes are tested before anything else
FIRST_REGIONS = 3  # surveys before units of the last layer are looked for in what is unexplained
MOST_SUBSETS = 300  # of hyperplanes that are tried as the first layer
ATTEMPTS = 4  # to find the first layer
MANY = 12  # gradients that say so together
SKIPS = 1e-3  # relative scatter of the part of gradients that is the same everywhere, as of a connection that skips
CERTAIN = 0.9  # of the votes for an orientation
INDEPENDENT = 1e-7  # smallest singular value of unit rows
OUTWARD = np.array([0.0003, 0.001, 0.004, 0.015, 0.06, 0.25, 1.0])
ACROSS = np.array([-1.0, -0.3, -0.1, -0.03, -0.01, 0.0, 0.01, 0.03, 0.1, 0.3, 1.0])
MOST_ACROSS = 8  # such lines
ALONG = np.array([0.0, 0.0005, 0.002, 0.01, 0.04, 0.15, 0.45, 1.0])


def breaks_bend(box: BlackBox, rng: np.random.Generator) -> bool:
    """Whether some breaks of one line are missing elsewhere on their hyperplanes: there are higher layers."""
    space = _input_space(Records(box), rng)
    line, spread = next(_lines(space, rng, Survey(Planes.none(space.dim))))
    scan = scan_line(space, line, spread=spread, expected=np.zeros(0))
    usable = np.flatnonzero(np.isfinite(scan.breakpoints))[:FEW_BREAKS]
    breaks = measure_breaks(space, line, scan, usable)
    return bool(breaks.errors.size and (check_planes(space, breaks, rng) < 0).any())


@dataclass(slots=True)
class Reading:
    """What has been read so far."""

    layers: list[Layer] = field(default_factory=list)  # hidden layers that are known with orientation
    top: Top | None = None  # the output layer, once the last hidden layer is known
    surveys: list[Survey] = field(default_factory=list)  # one for each layer looked at
    rounding: Rounding | None = None  # the error of the answers at typical inputs
    reason: str = ""  # why reading ended before the last layer
    outcome: Outcome | None = None  # what follows from the reason, where it is known
    slope: float | None = None  # below zero, of leaky units: other steps go on from the first layer
    certain: list[Layer] = field(
        default_factory=list
    )  # the first layers, as far as fresh answers confirm them
    places: list[int] = field(default_factory=list)  # of these answers, for each such layer
    bent: int = 0  # breaks that do not go on along their hyperplanes, where no survey counts them

    def confirm(self, box: BlackBox, rng: np.random.Generator) -> None:
        """Ask of each layer read so far, as long as those below it are confirmed, whether the answers show no more.

        A last layer that all answers seemed to explain is left out.
        """
        for number in range(len(self.certain), len(self.layers) - (self.top is not None)):
            if self.rounding is None:
                return
            places = confirming_places(box, self.layers[: number + 1], self.rounding, rng.spawn(1)[0])
            if not places:
                return
            self.certain.append(self.layers[number])
            self.places.append(places)

    @property
    def passing(self) -> int:
        """Units of the last hidden layer that stand for those that never switch."""
        return 0 if self.top is None else self.top.passing

    @property
    def is_deep(self) -> bool:
        """Whether breaks were seen that do not go on along their hyperplanes, as those of higher layers."""
        if self.layers or self.surveys[0].copies:
            return True
        return self.bent + sum(part.errors.size for part in self.surveys[0].others) >= HIGHER


def read_layers(
    records: Records,
    scans: Sequence[tuple[Line, LineScan]] = (),
    *,
    rng: np.random.Generator,
    progress: Progress,
    is_dense: bool = False,
    may_stop: bool = False,
) -> Iterator[Reading]:
    """Read layer after layer, and yield what is known after each; the last is the answer.

    `scans`: lines that have been scanned already. `is_dense`: read a convolution as the dense layer that it is. `may_stop`:
    confirm each layer at once, since there may be no questions left for it later.
    """
    reading = Reading()
    box = records.box
    space = _input_space(records, rng)
    base = Base(np.eye(space.dim), np.zeros(space.dim), space.sides, space.limits)
    inputs, asked = base, replace(box, ask=records.ask)
    reading.rounding = space.rounding
    progress("looking for the units of layer 1", 0.0)
    survey = Survey(Planes.none(space.dim), watches_copies=not is_dense)
    reading.surveys.append(survey)
    yield reading  # what the survey finds is kept if it is stopped
    layer = _survey_first(space, survey, _all_on(base, []), scans, rng, has_box=box.has_box)
    if survey.copies:
        reading.reason = (
            f"{survey.copies} breaks on one line have the same few weights at shifted places, as the windows of a "
            "convolution have; such layers are read as dense ones if the depth is given"
        )
        reading.outcome = Outcome.ASSUMPTION_FAILED
        yield reading
        return
    while True:
        number = len(reading.layers) + 1
        top = fit_top(records.all(), reading.layers, layer.planes, layer.known) if len(layer.signs) else None
        if top is not None:
            reading.layers.append(top.layer)
            reading.top = top
            yield reading
            return
        if number == 1 and not layer.is_independent and layer.has_higher:
            progress("tracing the units of layer 2", 0.0)
            _read_widening(records, space, reading, rng)
            yield reading
            return
        reading.reason = layer.problem(number)
        is_settled = layer.shares.min(initial=1.0) >= CERTAIN
        if not reading.reason and (number == 1 or (number == 2 and not is_settled)):
            unsettled = f"which side of the units of layer {number} is on was not settled"
            reading.reason = name_other_kind(survey, number) or ("" if is_settled else unsettled)
            if reading.reason and number == 1 and not (box.has_box or len(unexplained(survey)[0])):
                reading.slope = leak_of(survey)
        if reading.reason or number >= MOST_LAYERS:
            reading.outcome = Outcome.ASSUMPTION_FAILED if number == 1 else None
            yield reading
            return
        rows, biases = layer.planes
        reading.layers.append((rows * layer.signs[:, None], biases * layer.signs))
        if may_stop:
            reading.confirm(asked, rng)
        yield reading
        progress(f"looking for the units of layer {number + 1}", 0.0)
        if number == 1:
            base = _hidden_base(base, reading.layers[0], box, rng)
            space, survey = _survey_second(records, base, rng)
            reading.surveys.append(survey)
            layer = _orient_second(survey, _all_on(base, reading.layers))
            for _ in range(FURTHER):
                if (
                    _has_higher(survey)
                    or not len(layer.signs)
                    or fit_top(records.all(), reading.layers, layer.planes) is not None
                ):
                    break
                _survey_chords(space, base, survey, rng)
                layer = _orient_second(survey, _all_on(base, reading.layers))
        else:
            layer = _read_last(records, space, (inputs, base), reading, rng) or _read_later(
                records, base, reading, space.rounding, rng
            )


def _read_widening(records: Records, space: Space, reading: Reading, rng: np.random.Generator) -> None:
    """Read the first two layers where the first is wider than the inputs; the second must be the last."""
    survey = reading.surveys[0]
    count, d = survey.planes.normals.shape

    def explains(first: Layer, second: Layer) -> bool:
        return fit_top(records.all(), [first], second) is not None

    found = read_expansive(space, survey, rng, explains=explains)
    if found is None:
        reading.reason = (
            f"hidden layer 1 has {count} units on {d} inputs and no independent rows, and which side of them is on was not "
            "settled by tracing the units above"
        )
        reading.outcome = Outcome.ASSUMPTION_FAILED
        return
    first, second = found
    reading.layers.append(first)
    top = fit_top(records.all(), reading.layers, second)
    if top is None:
        completed = MissingUnits(records, rng).complete(reading.layers, second)
        top = None if completed is None else fit_top(records.all(), reading.layers, *completed)
    if top is None:
        reading.reason = f"the {len(second[1])} units found in layer 2 do not explain all answers"
        return
    reading.layers.append(top.layer)
    reading.top = top


def _input_space(records: Records, rng: np.random.Generator) -> Space:
    """The function of the inputs, within the box if there is one."""
    box = records.box
    d = box.n_features
    sides = np.concatenate([np.eye(d), -np.eye(d)]) if box.has_box else np.zeros((0, d))
    return Space.calibrated(
        records.ask, box.draw, sides=sides, limits=np.ones(len(sides)), reach=REACH, rng=rng, grid=box.grid
    )


def _survey_first(
    space: Space,
    survey: Survey,
    region: Region,
    scans: Sequence[tuple[Line, LineScan]],
    rng: np.random.Generator,
    *,
    has_box: bool,
) -> _LayerFound:
    """Look for the units of the first layer; where they contradict each other, doubt them and look again."""
    is_done = partial(_is_quiet, fewest=BOX_LINES if has_box else LINES)
    for attempt in range(ATTEMPTS):
        further = partial(_lines, space, rng)
        find_planes(space, further, rng=rng, is_done=is_done, scans=() if attempt else scans, survey=survey)
        if survey.copies:
            return _orient_survey(survey, region)
        refine_planes(space, survey.planes, rng)
        layer = _orient_survey(survey, region)
        is_sound = layer.is_independent and layer.shares.min(initial=1.0) >= CERTAIN
        is_other = layer.is_independent and survey.gradients and name_other_kind(survey, is_certain=True)
        if is_sound or is_other or not doubt_planes(space, survey.planes, rng):
            break
    chosen = None if is_sound else _consistent_planes(survey)
    if chosen is not None:
        survey.planes.keep(chosen)
    return _orient_survey(survey, region)


def survey_layer(space: Space, rng: np.random.Generator) -> Survey:
    """Look for the hyperplanes along which a function of a whole space breaks everywhere."""
    survey = Survey(Planes.none(space.dim))
    base = Base(np.eye(space.dim), np.zeros(space.dim), space.sides, space.limits)
    _survey_first(space, survey, _all_on(base, []), (), rng, has_box=False)
    return survey


def _consistent_planes(survey: Survey) -> BoolArray | None:
    """The hyperplanes that may all be of one layer, if others are flat parts of higher ones; None if there are no such.

    As many are chosen as there are dimensions. Every unit must take part in the gradients on one side only, and where it is
    on it should take part wherever the others do.
    """
    normals, offsets = survey.planes.normals, survey.planes.offsets
    count, rank = len(offsets), _rank(normals)
    if not survey.gradients or not rank < count or comb(count, rank) > MOST_SUBSETS:
        return None
    places, gradients = (np.concatenate(parts) for parts in zip(*survey.gradients, strict=True))
    noise = 1e-9 * float(np.abs(gradients).max())
    best, found = 0.0, None
    for subset in combinations(range(count), rank):
        rows, ends = normals[list(subset)], offsets[list(subset)]
        if np.linalg.svd(rows, compute_uv=False).min() < INDEPENDENT:
            continue
        values = places @ rows.T + ends
        votes, cast = orientation_votes(rows, values, gradients, noise=noise)
        if cast.min() == 0 or (np.abs(votes) < CERTAIN * cast).any():
            continue
        is_bent = np.abs(gradients).max(axis=(1, 2)) > noise
        idle = ((values * np.sign(votes) > 0) & is_bent[:, None]).sum() - cast.sum()
        score = float(cast.sum() / (1 + cast.sum() + idle))
        if score > best:
            best, found = score, np.isin(np.arange(count), subset)
    return found


@dataclass(frozen=True, slots=True)
class _LayerFound:
    """The units of one layer, up to scale, and the votes for their orientation."""

    planes: tuple[Array, Array]  # weights (k, k below) and biases (k,)
    signs: Array  # (k,)
    shares: Array  # (k,): of the votes, for these signs
    has_higher: bool  # whether breaks of higher layers were seen beside
    known: BoolArray | None = None  # which weights were seen, if not all

    @property
    def is_independent(self) -> bool:
        """Whether the rows are independent."""
        return _is_independent(self.planes[0])

    def problem(self, number: int) -> str:
        """Why the next layer cannot be read; empty if it can."""
        rows = self.planes[0]
        if not rows.size:
            return f"no unit of layer {number} was found"
        if not self.has_higher and number > 1:
            return f"the {len(rows)} units found in layer {number} do not explain all answers, and no layer above was seen"
        if self.known is not None and not self.known.all():
            return f"{(~self.known).sum()} weights of layer {number} were not seen"
        if not self.is_independent:
            return (
                f"hidden layer {number} has {len(rows)} units on {rows.shape[1]} inputs and no independent rows: it widens, "
                "or connections skip it, and neither is read"
            )
        if self.shares.min() < CERTAIN and number > 2:
            return f"which side of the units of layer {number} is on was not settled"
        return ""


def _is_independent(rows: Array) -> bool:
    """Whether rows are independent."""
    return _rank(rows) == len(rows)


def _rank(rows: Array) -> int:
    """The rank of unit rows that were measured."""
    return int((np.linalg.svd(rows, compute_uv=False) >= INDEPENDENT).sum()) if len(rows) else 0


def _all_on(base: Base, layers: list[Layer]) -> Region:
    """The region in which all units of the known layers are on."""
    patterns = [np.ones(len(b), dtype=np.bool_) for _, b in layers]
    return region_at(base, layers, np.zeros(base.matrix.shape[1]), patterns)


def _orient_survey(survey: Survey, region: Region) -> _LayerFound:
    """The units whose hyperplanes a survey of one region has found."""
    return _LayerFound(_rows_of(survey.planes, region), *_signs(survey), _has_higher(survey))


def _signs(survey: Survey) -> tuple[Array, Array]:
    """The orientations of hyperplanes that gradients vote for, and the shares of the votes for them; 0 if there are none."""
    planes, k = survey.planes, survey.planes.offsets.size
    if not k or not survey.gradients or _rank(planes.normals) < k:
        return np.ones(k), np.zeros(k)
    places, gradients = (np.concatenate(parts) for parts in zip(*survey.gradients, strict=True))
    values = places @ planes.normals.T + planes.offsets
    noise = 1e-9 * float(np.abs(gradients).max())
    votes, cast = orientation_votes(planes.normals, values, gradients, noise=noise)
    return np.where(votes >= 0, 1.0, -1.0), np.abs(votes) / np.maximum(cast, 1)


def _is_sound(survey: Survey) -> bool:
    """Whether the hyperplanes found explain all gradients, each on one side only."""
    return bool(_signs(survey)[1].min(initial=1.0) >= CERTAIN) and not len(unexplained(survey)[0])


def _orient_second(survey: Survey, region: Region) -> _LayerFound:
    """The units of the second layer; where they contradict each other, without flat parts of higher units."""
    layer = _orient_survey(survey, region)
    if layer.has_higher and not (layer.is_independent and layer.shares.min(initial=1.0) >= CERTAIN):
        chosen = _consistent_planes(survey)
        if chosen is not None:
            survey.planes.keep(chosen)
            return _orient_survey(survey, region)
    return layer


def _has_higher(survey: Survey) -> bool:
    return any(part.errors.size for part in survey.others)


def _read_last(
    records: Records, space: Space, bases: tuple[Base, Base], reading: Reading, rng: np.random.Generator
) -> _LayerFound | None:
    """Read the third or a later layer as the last one, from breaks that lines have met and further ones; None if it is not.

    `bases`: of the first survey and of the second.
    """
    parts = [
        (breaks, base)
        for survey, base in zip(reading.surveys, bases, strict=False)
        for breaks in (*survey.others, *survey.unsure)
    ]
    layers, base = reading.layers, bases[1]
    missing, sample = MissingUnits(records, rng), sample_places(base, rng)
    for number in range(ROUNDS):
        if number:
            rows, _ = gather_units(parts, layers)
            parts += [
                (_scan_chord(space, base, layers, rows, each), base) for each in _chords(base, CHORDS, rng)
            ]
        rows, is_last = gather_units(parts, layers)
        if not is_last:
            return None
        found = _as_last(records, layers, rows)
        for step in (None, ask_beside_gaps, fill_gaps):
            if found is not None or rows.is_complete:
                break
            if step is ask_beside_gaps:
                ask_beside_gaps(records, layers, rows, rng)
            elif step is fill_gaps:
                fill_gaps(space.ask, base, layers, rows, sample, space.rounding)
                rows.join_equal(is_scaled=True)
            found = _as_last(records, layers, filled_from_answers(records.all(), layers, rows, rng))
        if found is None:
            found = _as_last(records, layers, rows, may_hide=True)
        if found is not None:
            return found
        whole = np.array([known.all() for known in rows.known])
        W, b = rows.arrays()
        completed = missing.complete(layers, (W[whole], b[whole])) if whole.any() else None
        if completed is not None and fit_top(records.all(), layers, *completed) is not None:
            units, seen = completed
            return _LayerFound(units, np.ones(len(seen)), np.zeros(len(seen)), False, seen)
    return None


def _as_last(
    records: Records, layers: list[Layer], rows: PartialRows, *, may_hide: bool = False
) -> _LayerFound | None:
    """The units as the last layer; None if they do not explain all answers, or some of their weights have no effect.

    Weights that fill gaps have few digits: where the units nearly explain the answers, all layers are refined on them.
    """
    (X, Y), planes, known = records.all(), rows.arrays(), np.array(rows.known)
    top = fit_top((X, Y), layers, planes, known, explained=NEARLY)
    if top is not None and top.residual > FINELY and not (top.passing or top.unseen):
        net, weights = DeepNetwork([*layers, top.layer, top.output]), 1 / (1 + np.linalg.norm(X, axis=1))
        *refined, planes, _ = polish(net, X, Y, weights).layers
        better = fit_top((X, Y), refined, planes)
        if better is not None:
            layers[:], top, known = refined, better, np.ones(planes[0].shape, dtype=np.bool_)
        else:
            planes = rows.arrays()
    if top is None or top.residual > EXPLAINED or (top.unseen and not may_hide):
        return None
    count = len(known)
    return _LayerFound(planes, np.ones(count), np.zeros(count), False, known)


def _scan_chord(
    space: Space, base: Base, layers: list[Layer], rows: PartialRows, chord: tuple[Line, Array]
) -> Breaks:
    """Scan a line in the coordinates of the second survey; the breaks that neither lower nor gathered units explain."""
    line, spread = chord
    low, high = space.room(line.origin, line.direction)
    lower = switches_on(layers, base, line, low, high)
    scan = scan_line(space, line, spread=spread, expected=lower)
    usable = np.flatnonzero(np.isfinite(scan.breakpoints))
    places = scan.breakpoints[usable]
    slack = 1e-6 * space.rounding.radius
    is_lower = np.abs(places[:, None] - lower).min(axis=1, initial=np.inf) <= slack
    fresh = usable[~is_lower & ~explained_by(rows, layers, base.inputs(line.at(places)))]
    return measure_breaks(space, line, scan, fresh)


def _read_later(
    records: Records, base: Base, reading: Reading, rounding: Rounding, rng: np.random.Generator
) -> _LayerFound:
    """Read the third or a later layer, until it explains all answers or there are no more regions."""

    def ask(V: Array) -> Array:
        return records.ask(base.inputs(V))

    found = _LayerFound((np.zeros((0, 0)), np.zeros(0)), np.zeros(0), np.zeros(0), False)
    has_higher, missing = False, MissingUnits(records, rng)
    for rows, survey in read_regions(ask, base, reading.layers, rounding, rng=rng):
        reading.surveys.append(survey)
        has_higher |= _has_higher(survey)
        if not rows.biases:
            continue
        votes, cast = np.array(rows.votes), np.array(rows.cast)
        signs = np.where(votes >= 0, 1.0, -1.0)
        found = _LayerFound(
            rows.arrays(), signs, np.abs(votes) / np.maximum(cast, 1), has_higher, np.array(rows.known)
        )
        if fit_top(records.all(), reading.layers, found.planes, found.known) is not None:
            break
        whole = np.array([known.all() for known in rows.known])
        if len(reading.surveys) > FIRST_REGIONS and whole.any():
            planes = found.planes[0][whole], found.planes[1][whole]
            completed = missing.complete(reading.layers, planes)
            if completed is not None and fit_top(records.all(), reading.layers, *completed) is not None:
                units, seen = completed
                count = len(seen)
                return _LayerFound(units, np.ones(count), np.zeros(count), has_higher, seen)
    return found


def _is_quiet(survey: Survey, quiet: int, *, fewest: int) -> bool:
    """Whether enough lines have shown no new unit, and the units found explain all gradients, or none of them."""
    places, across = unexplained(survey)
    total = sum(len(part) for part, _ in survey.gradients)
    if len(places) == total >= MANY and np.ptp(across, axis=0).max() <= SKIPS * np.abs(across).max():
        return True  # what is left is the same everywhere: a connection skips the layer
    count, dim = survey.planes.normals.shape
    if (
        count == dim
        and total
        and _is_independent(survey.planes.normals)
        and name_other_kind(survey, is_certain=True)
    ):
        return True
    if count > dim:
        fewest += 2  # gradients do not show what is missing
    if survey.n_lines < fewest or quiet < fewest - 1:
        return False
    return not len(places) or survey.n_lines >= MOST_LINES * (1 + (fewest >= BOX_LINES))


def _lines(space: Space, rng: np.random.Generator, survey: Survey) -> Iterator[tuple[Line, Array]]:
    """Lines through typical places, or where a gradient shows that a unit is missing, in the direction that shows it."""
    spread = np.concatenate([-OUTWARD[::-1], [0.0], OUTWARD])
    while True:
        origin, direction = space.draw(1, rng)[0], rng.standard_normal(space.dim)
        if space.limits.size:  # within a box the longest lines pass by its centre
            direction = -origin + 0.4 * space.draw(1, rng)[0]
        if survey.n_lines >= LINES and len(unexplained(survey)[0]):
            yield _line_across(space, survey, rng), spread
        else:
            yield Line(origin, direction / np.linalg.norm(direction)), spread


def _rows_of(planes: Planes, region: Region) -> tuple[Array, Array]:
    """Weights and biases of the units of a layer from their hyperplanes, up to orientation and scale; eq. (1)."""
    rows = planes.normals @ np.linalg.pinv(region.M)
    biases = planes.offsets - rows @ region.m
    norms = np.linalg.norm(rows, axis=1)
    return rows / norms[:, None], biases / norms


def _hidden_base(base: Base, layer: Layer, box: BlackBox, rng: np.random.Generator) -> Base:
    """Coordinates v >= 0 of the pre-activations of the first layer, in units of their typical sizes."""
    W, b = layer
    sizes = np.sqrt(((box.draw(200, rng) @ W.T + b) ** 2).mean(axis=0))
    inverse = np.linalg.pinv(W)
    matrix, shift = inverse * sizes, -inverse @ b
    k = len(b)
    sides = np.concatenate([-np.eye(k), base.sides @ matrix])
    return Base(matrix, shift, sides, np.concatenate([np.full(k, -MARGIN), base.limits - base.sides @ shift]))


def _survey_second(records: Records, base: Base, rng: np.random.Generator) -> tuple[Space, Survey]:
    """Look for the units of the second layer where all units of the first are on."""
    p = base.matrix.shape[1]

    def ask(V: Array) -> Array:
        return records.ask(base.inputs(V))

    def draw(count: int, stream: np.random.Generator) -> Array:
        V = np.abs(stream.standard_normal((count, p))) * np.exp(stream.standard_normal((count, p)))
        return _pulled_in(base, V)

    reach, grid = FAR / np.sqrt(p), records.box.grid
    space = Space.calibrated(ask, draw, sides=base.sides, limits=base.limits, reach=reach, rng=rng, grid=grid)
    lines = list(_orthant_lines(base, rng))
    survey = find_planes(
        space, lambda _: iter(lines), rng=rng, is_done=lambda survey, quiet: survey.n_lines >= len(lines)
    )
    if _has_higher(survey):
        _clean_second(space, survey, rng)
    refine_planes(space, survey.planes, rng)
    return space, survey


def _clean_second(space: Space, survey: Survey, rng: np.random.Generator) -> None:
    """Drop hyperplanes that are flat parts of higher units, until the others explain all gradients; look for missing ones.

    Where what is left does not explain them, too many were dropped: those before are kept for `_consistent_planes`.
    """
    for are_dropped in (False, True):
        if are_dropped:
            drop_absent(space, survey)
        chosen = None if _is_sound(survey) else _consistent_planes(survey)
        if chosen is not None:
            survey.planes.keep(chosen)
        if _is_sound(survey):
            return
    before = replace(survey.planes)
    doubt_planes(space, survey.planes, rng)
    if len(unexplained(survey)[0]):
        survey.planes = before
        _survey_unexplained(space, survey, rng)


def _survey_unexplained(space: Space, survey: Survey, rng: np.random.Generator) -> None:
    """Look for units of the second layer along lines through places where gradients show that one is missing."""
    before = survey.n_lines

    def lines(known: Survey) -> Iterator[tuple[Line, Array]]:
        while len(known.planes.offsets) < space.dim and len(unexplained(known)[0]):
            yield _line_across(space, known, rng), ACROSS

    find_planes(
        space, lines, rng=rng, is_done=lambda known, _: known.n_lines >= before + MOST_ACROSS, survey=survey
    )


def _line_across(space: Space, survey: Survey, rng: np.random.Generator) -> Line:
    """A line through a place where a gradient shows that a unit is missing, about in the direction that shows it."""
    places, across = unexplained(survey)
    chosen = rng.integers(len(places))
    direction = across[chosen] / np.linalg.norm(across[chosen])
    direction = direction + 0.3 * rng.standard_normal(space.dim) / np.sqrt(space.dim)
    return Line(places[chosen], direction / np.linalg.norm(direction))


def _survey_chords(space: Space, base: Base, survey: Survey, rng: np.random.Generator) -> None:
    """Look for units of the second layer along further chords."""
    lines, before = list(_chords(base, CHORDS, rng)), survey.n_lines
    find_planes(
        space,
        lambda _: iter(lines),
        rng=rng,
        is_done=lambda survey, quiet: survey.n_lines >= before + CHORDS,
        survey=survey,
    )
    refine_planes(space, survey.planes, rng)


def _pulled_in(base: Base, V: Array) -> Array:
    """Pull coordinates that leave the box towards the corner at which all units are barely on, until they are within."""
    p = V.shape[1]
    if len(base.sides) == p:
        return V
    corner = np.full(p, CORNER)
    slack = base.limits[p:] - base.sides[p:] @ corner
    along = (V - corner) @ base.sides[p:].T
    with np.errstate(divide="ignore"):
        share = np.where(along > 0, slack / along, np.inf).min(axis=1)
    return np.asarray(corner + np.minimum(1.0, 0.98 * np.maximum(share, 0.0))[:, None] * (V - corner))


def _orthant_lines(base: Base, rng: np.random.Generator) -> Iterator[tuple[Line, Array]]:
    """Chords between opposite corners, then one ray along each axis: every unit that switches anywhere meets a ray."""
    p = int(base.matrix.shape[1])
    yield from _chords(base, CHORDS if len(base.sides) == p else BOX_CHORDS, rng)
    for axis in rng.permutation(p):
        yield Line(CORNER * rng.uniform(0.5, 1.5, p), np.eye(p)[axis]), ALONG


def _chords(base: Base, count: int, rng: np.random.Generator) -> Iterator[tuple[Line, Array]]:
    """Chords between opposite corners."""
    p = int(base.matrix.shape[1])
    for _ in range(count):
        far = rng.permutation(p) < p / 2
        sizes = np.exp(1.5 * rng.standard_normal((2, p)))
        corners = [np.where(far, 8 * sizes[0], NEAR * sizes[1]), np.where(far, NEAR * sizes[0], 8 * sizes[1])]
        ends = _pulled_in(base, np.array(corners))
        direction = ends[1] - ends[0]
        yield (
            Line(np.asarray(ends[0]), direction / np.linalg.norm(direction)),
            np.linspace(0.0, 1.0, 9) ** 1.5,
        )
