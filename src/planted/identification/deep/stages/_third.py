r"""Read the third or a later layer: as the last one from breaks that lines have met, otherwise region by region.

If the layer is the last one, every break gives a part of a row with its size (`_gathered`). Weights that no break has shown
are gaps: they come from the linear part (`_top`), from answers where they have an effect (`_gaps`), or from breaks beside
them (`_regions`). Otherwise regions in which many lower units are on are surveyed one after the other (`_regions`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planted._typing import Array
from planted.identification._rounding import Rounding
from planted.identification.deep._gaps import ask_beside_gaps, filled_from_answers
from planted.identification.deep._gathered import explained_by, gather_units, switches_on
from planted.identification.deep._layers import Base
from planted.identification.deep._regions import PartialRows, fill_gaps, read_regions, sample_places
from planted.identification.deep._space import Breaks, Records, Space, measure_breaks, scan_line
from planted.identification.deep._surfaces import fill_on_surfaces
from planted.identification.deep._top import EXPLAINED, fit_top
from planted.identification.deep.ending._polish import refined_top
from planted.identification.deep.missing import LastUnits, MissingUnits
from planted.identification.deep.stages._found import LayerFound, shows_higher
from planted.identification.deep.stages._second import CHORDS, chords
from planted.identification.deep.stages._state import Reading
from planted.identification.two_layer._jumps import Line
from planted.networks._deep import Layer

__all__ = ["read_last", "read_later"]

FEW_GAPS = 2  # of a unit that is taken for one before they are filled
ROUNDS = 4  # of further chords for the last layer
FIRST_REGIONS = 3  # surveys before units of the last layer are looked for in what is unexplained


def read_last(
    records: Records, space: Space, bases: tuple[Base, Base], reading: Reading, rng: np.random.Generator
) -> LayerFound | None:
    """Read the third or a later layer as the last one, from breaks that lines have met and further ones; None if it is not.

    `bases`: of the first survey and of the second.
    """
    parts = [
        (breaks, base)
        for survey, base in zip(reading.surveys, bases, strict=False)
        for breaks in (*survey.others, *survey.unsure)
    ]
    layers, base = reading.layers, bases[1]
    rounding = reading.rounding
    assert rounding is not None  # measured before the first layer was read
    missing, sample = MissingUnits(records, rng, rounding), sample_places(base, rng)
    rows: PartialRows | None = None
    for _ in range(ROUNDS):
        if rows is not None:
            parts += [
                (_scan_chord(space, base, layers, rows, each), base) for each in chords(base, CHORDS, rng)
            ]
        rows, is_last = gather_units(parts, layers, rows)
        if not is_last:
            return None
        reading.gathered = len(rows.known)
        found = _as_last(records, layers, rows)
        for step in (None, ask_beside_gaps, fill_gaps, fill_on_surfaces):
            if found is not None or rows.is_complete:
                break
            if step is ask_beside_gaps:
                ask_beside_gaps(records, layers, rows, rng)
            elif step is fill_gaps:
                fill_gaps(space.ask, base, layers, rows, sample, space.rounding)
                rows.join_equal(is_scaled=True)
            elif step is fill_on_surfaces:
                fill_on_surfaces(records, layers, rows, rounding, rng)
                rows.join_equal(is_scaled=True)
            found = _as_last(records, layers, filled_from_answers(records.all(), layers, rows, rng))
        if found is None:
            found = _as_last(records, layers, rows, may_hide=True)
        if found is not None:
            return found
        known = np.array(rows.known)
        units = LastUnits.whole(rows.arrays(), records.all()[1].shape[1])
        units = replace(units, known=known).select((~known).sum(axis=1) <= FEW_GAPS)
        completed = missing.complete(layers, units) if units.known.all(axis=1).any() else None
        if completed is not None and fit_top(records.all(), layers, *completed) is not None:
            planes, seen = completed
            return LayerFound(planes, np.ones(len(seen)), np.zeros(len(seen)), False, seen)
    return None


def _as_last(
    records: Records, layers: list[Layer], rows: PartialRows, *, may_hide: bool = False
) -> LayerFound | None:
    """The units as the last layer; None if they do not explain all answers, or some of their weights have no effect.

    Weights that fill gaps have few digits: where the units nearly explain the answers, all layers are refined on them.
    """
    planes, known = rows.arrays(), np.array(rows.known)
    found = refined_top(records.all(), layers, planes, known)
    if found is None:
        return None
    top, refined = found
    if refined is not layers:
        layers[:], planes, known = refined, top.layer, np.ones(top.gaps.shape, dtype=np.bool_)
    if top.residual > EXPLAINED or (top.unseen and not may_hide):
        return None
    count = len(known)
    return LayerFound(planes, np.ones(count), np.zeros(count), False, known)


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


def read_later(
    records: Records, base: Base, reading: Reading, rounding: Rounding, rng: np.random.Generator
) -> LayerFound:
    """Read the third or a later layer, until it explains all answers or there are no more regions."""

    def ask(V: Array) -> Array:
        return records.ask(base.inputs(V))

    found = LayerFound((np.zeros((0, 0)), np.zeros(0)), np.zeros(0), np.zeros(0), False)
    has_higher, missing = False, MissingUnits(records, rng, reading.rounding)
    for rows, survey in read_regions(ask, base, reading.layers, rounding, rng=rng):
        reading.surveys.append(survey)
        has_higher |= shows_higher(survey)
        reading.gathered = len(rows.known)
        if not rows.biases:
            continue
        votes, cast = np.array(rows.votes), np.array(rows.cast)
        signs = np.where(votes >= 0, 1.0, -1.0)
        found = LayerFound(
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
                return LayerFound(units, np.ones(count), np.zeros(count), has_higher, seen)
    return found
