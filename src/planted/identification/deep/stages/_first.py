"""Look for the units of the first layer, along lines through the inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from planted._typing import Array
from planted.identification.deep._kinds import name_other_kind
from planted.identification.deep._layers import Base, Region
from planted.identification.deep._planes import (
    Planes,
    Survey,
    check_planes,
    doubt_planes,
    find_planes,
    refine_planes,
    unexplained,
)
from planted.identification.deep._space import Records, Space, measure_breaks, scan_line
from planted.identification.deep.stages._found import (
    CERTAIN,
    LayerFound,
    all_on,
    consistent_planes,
    is_independent,
    orient_survey,
)
from planted.identification.two_layer._breakpoints import LineScan
from planted.identification.two_layer._jumps import Line
from planted.identification.two_layer._search import BlackBox

__all__ = ["breaks_bend", "input_space", "line_across", "survey_first", "survey_layer"]

REACH = 1024.0  # radii: how far lines in the inputs go
LINES, BOX_LINES, MOST_LINES = 3, 4, 12  # through the inputs: without a box, within one, and at most
FEW_BREAKS = 5  # whose hyperplanes are tested before anything else
ATTEMPTS = 4  # to find the first layer
MANY = 12  # gradients that say so together
SKIPS = 1e-3  # relative scatter of the part of gradients that is the same everywhere, as of a connection that skips
OUTWARD = np.array([0.0003, 0.001, 0.004, 0.015, 0.06, 0.25, 1.0])


def input_space(records: Records, rng: np.random.Generator) -> Space:
    """The function of the inputs, within the box if there is one."""
    box = records.box
    d = box.n_features
    sides = np.concatenate([np.eye(d), -np.eye(d)]) if box.has_box else np.zeros((0, d))
    return Space.calibrated(
        records.ask, box.draw, sides=sides, limits=np.ones(len(sides)), reach=REACH, rng=rng, grid=box.grid
    )


def breaks_bend(box: BlackBox, rng: np.random.Generator) -> bool:
    """Whether some breaks of one line are missing elsewhere on their hyperplanes: there are higher layers."""
    space = input_space(Records(box), rng)
    line, spread = next(_lines(space, rng, Survey(Planes.none(space.dim))))
    scan = scan_line(space, line, spread=spread, expected=np.zeros(0))
    usable = np.flatnonzero(np.isfinite(scan.breakpoints))[:FEW_BREAKS]
    breaks = measure_breaks(space, line, scan, usable)
    return bool(breaks.errors.size and (check_planes(space, breaks, rng) < 0).any())


def survey_layer(space: Space, rng: np.random.Generator) -> Survey:
    """Look for the hyperplanes along which a function of a whole space breaks everywhere."""
    survey = Survey(Planes.none(space.dim))
    base = Base(np.eye(space.dim), np.zeros(space.dim), space.sides, space.limits)
    survey_first(space, survey, all_on(base, []), (), rng, has_box=False)
    return survey


def survey_first(
    space: Space,
    survey: Survey,
    region: Region,
    scans: Sequence[tuple[Line, LineScan]],
    rng: np.random.Generator,
    *,
    has_box: bool,
) -> LayerFound:
    """Look for the units of the first layer; where they contradict each other, doubt them and look again."""
    is_done = partial(_is_quiet, fewest=BOX_LINES if has_box else LINES)
    for attempt in range(ATTEMPTS):
        further = partial(_lines, space, rng)
        find_planes(space, further, rng=rng, is_done=is_done, scans=() if attempt else scans, survey=survey)
        if survey.copies:
            return orient_survey(survey, region)
        refine_planes(space, survey.planes, rng)
        layer = orient_survey(survey, region)
        is_sound = layer.is_independent and layer.shares.min(initial=1.0) >= CERTAIN
        is_other = layer.is_independent and survey.gradients and name_other_kind(survey, is_certain=True)
        if is_sound or is_other or not doubt_planes(space, survey.planes, rng):
            break
    chosen = None if is_sound else consistent_planes(survey)
    if chosen is not None:
        survey.planes.keep(chosen)
    return orient_survey(survey, region)


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
        and is_independent(survey.planes.normals)
        and name_other_kind(survey, is_certain=True, is_quiet=quiet > 0)
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
            yield line_across(space, survey, rng), spread
        else:
            yield Line(origin, direction / np.linalg.norm(direction)), spread


def line_across(space: Space, survey: Survey, rng: np.random.Generator) -> Line:
    """A line through a place where a gradient shows that a unit is missing, about in the direction that shows it."""
    places, across = unexplained(survey)
    chosen = rng.integers(len(places))
    direction = across[chosen] / np.linalg.norm(across[chosen])
    direction = direction + 0.3 * rng.standard_normal(space.dim) / np.sqrt(space.dim)
    return Line(places[chosen], direction / np.linalg.norm(direction))
