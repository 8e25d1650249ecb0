r"""Look for the units of the second layer, in coordinates in which all units of the first are on.

Where the rows of the first layer are independent, its pre-activations are free coordinates z > 0, and the units of the
second layer break the function of them along whole hyperplanes. Rays along all axes, from a place where all are barely on,
meet every unit that switches anywhere there. What bends belongs to higher layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from planted._typing import Array
from planted.identification.deep._layers import Base, Region
from planted.identification.deep._planes import (
    Survey,
    doubt_planes,
    drop_absent,
    find_planes,
    refine_planes,
    unexplained,
)
from planted.identification.deep._space import Records, Space
from planted.identification.deep.stages._first import line_across
from planted.identification.deep.stages._found import (
    CERTAIN,
    LayerFound,
    consistent_planes,
    orient_survey,
    shows_higher,
    signs,
)
from planted.identification.two_layer._jumps import Line
from planted.identification.two_layer._search import BlackBox
from planted.networks._deep import Layer

__all__ = ["CHORDS", "chords", "hidden_base", "orient_second", "survey_chords", "survey_second"]

MARGIN = 1e-6  # typical pre-activations: how far questions stay away from the switch of a lower unit
CORNER = 1e-4  # typical pre-activations: where rays along an axis begin
NEAR, FAR = 0.02, 400.0  # where chords begin and rays end
CHORDS, BOX_CHORDS = 4, 12  # without a box, and within one, where rays end early
ACROSS = np.array([-1.0, -0.3, -0.1, -0.03, -0.01, 0.0, 0.01, 0.03, 0.1, 0.3, 1.0])
MOST_ACROSS = 8  # such lines
ALONG = np.array([0.0, 0.0005, 0.002, 0.01, 0.04, 0.15, 0.45, 1.0])


def hidden_base(base: Base, layer: Layer, box: BlackBox, rng: np.random.Generator) -> Base:
    """Coordinates v >= 0 of the pre-activations of the first layer, in units of their typical sizes."""
    W, b = layer
    sizes = np.sqrt(((box.draw(200, rng) @ W.T + b) ** 2).mean(axis=0))
    inverse = np.linalg.pinv(W)
    matrix, shift = inverse * sizes, -inverse @ b
    k = len(b)
    sides = np.concatenate([-np.eye(k), base.sides @ matrix])
    return Base(matrix, shift, sides, np.concatenate([np.full(k, -MARGIN), base.limits - base.sides @ shift]))


def survey_second(records: Records, base: Base, survey: Survey, rng: np.random.Generator) -> Space:
    """Look for the units of the second layer where all units of the first are on, and put them into a survey."""
    p = base.matrix.shape[1]

    def ask(V: Array) -> Array:
        return records.ask(base.inputs(V))

    def draw(count: int, stream: np.random.Generator) -> Array:
        V = np.abs(stream.standard_normal((count, p))) * np.exp(stream.standard_normal((count, p)))
        return _pulled_in(base, V)

    reach, grid = FAR / np.sqrt(p), records.box.grid
    space = Space.calibrated(ask, draw, sides=base.sides, limits=base.limits, reach=reach, rng=rng, grid=grid)
    lines = list(_orthant_lines(base, rng))
    find_planes(
        space,
        lambda _: iter(lines),
        rng=rng,
        is_done=lambda survey, quiet: survey.n_lines >= len(lines),
        survey=survey,
    )
    if shows_higher(survey):
        _clean_second(space, survey, rng)
    refine_planes(space, survey.planes, rng)
    return space


def orient_second(survey: Survey, region: Region) -> LayerFound:
    """The units of the second layer; where they contradict each other, without flat parts of higher units."""
    layer = orient_survey(survey, region)
    if layer.has_higher and not (layer.is_independent and layer.shares.min(initial=1.0) >= CERTAIN):
        chosen = consistent_planes(survey)
        if chosen is not None:
            survey.planes.keep(chosen)
            return orient_survey(survey, region)
    return layer


def _clean_second(space: Space, survey: Survey, rng: np.random.Generator) -> None:
    """Drop hyperplanes that are flat parts of higher units, until the others explain all gradients; look for missing ones.

    Where what is left does not explain them, too many were dropped: those before are kept for `consistent_planes`.
    """
    for are_dropped in (False, True):
        if are_dropped:
            drop_absent(space, survey)
        chosen = None if _is_sound(survey) else consistent_planes(survey)
        if chosen is not None:
            survey.planes.keep(chosen)
        if _is_sound(survey):
            return
    before = replace(survey.planes)
    doubt_planes(space, survey.planes, rng)
    if len(unexplained(survey)[0]):
        survey.planes = before
        _survey_unexplained(space, survey, rng)


def _is_sound(survey: Survey) -> bool:
    """Whether the hyperplanes found explain all gradients, each on one side only."""
    return bool(signs(survey)[1].min(initial=1.0) >= CERTAIN) and not len(unexplained(survey)[0])


def _survey_unexplained(space: Space, survey: Survey, rng: np.random.Generator) -> None:
    """Look for units of the second layer along lines through places where gradients show that one is missing."""
    before = survey.n_lines

    def lines(known: Survey) -> Iterator[tuple[Line, Array]]:
        while len(known.planes.offsets) < space.dim and len(unexplained(known)[0]):
            yield line_across(space, known, rng), ACROSS

    find_planes(
        space, lines, rng=rng, is_done=lambda known, _: known.n_lines >= before + MOST_ACROSS, survey=survey
    )


def survey_chords(space: Space, base: Base, survey: Survey, rng: np.random.Generator) -> None:
    """Look for units of the second layer along further chords."""
    lines, before = list(chords(base, CHORDS, rng)), survey.n_lines
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
    yield from chords(base, CHORDS if len(base.sides) == p else BOX_CHORDS, rng)
    for axis in rng.permutation(p):
        yield Line(CORNER * rng.uniform(0.5, 1.5, p), np.eye(p)[axis]), ALONG


def chords(base: Base, count: int, rng: np.random.Generator) -> Iterator[tuple[Line, Array]]:
    """Chords between opposite corners."""
    p = int(base.matrix.shape[1])
    for _ in range(count):
        far = rng.permutation(p) < p / 2
        sizes = np.exp(1.5 * rng.standard_normal((2, p)))
        corners = [np.where(far, 8 * sizes[0], NEAR * sizes[1]), np.where(far, NEAR * sizes[0], 8 * sizes[1])]
        ends = _pulled_in(base, np.array(corners))
        direction = ends[1] - ends[0]
        length = float(np.linalg.norm(direction))
        if length > 0:  # a box may pull both into one corner
            yield Line(np.asarray(ends[0]), direction / length), np.linspace(0.0, 1.0, 9) ** 1.5
