r"""The first two layers where the first has more units than there are inputs.

The gradient then does not show which units of the first layer are on. But σ(t) = (t + |t|) / 2 makes a unit of the second
layer vanish on the surface

.. math:: \sum_i \alpha_i |t_i(x)| + L x + c = 0,                                                         \quad (1)

in which the pre-activations t_i of the first layer are needed up to sign only. A break with its normal gives d homogeneous
equations for α, L and c. Others come from tracing the surface: it is walked on without questions until it meets a hyperplane
i, and beyond it a short line finds it again, bent by 2 α_i n_i. Crossing by crossing the solution becomes unique. The
sides of the first layer follow from all surfaces j together, by least squares:

.. math:: L_j = \sum_i o_i \alpha_{ji} n_i, \qquad o_i = \pm 1.                                           \quad (2)

Once they are known, L and c are no longer free. If the second layer is the last, the gradient jumps by a constant multiple
of what (1) gives wherever the unit breaks, so that every break that was measured is d + 1 equations for one unit, not only
up to scale. Breaks of one unit are then recognised by their common solution, and few further units need to be traced.
Several outputs change in a proportion that is the unit's own: their breaks are put together before the sides are known, and
hardly any surface is traced.

Weights to units of the first layer that are off at all breaks of a unit are gaps, which answers fill (`missing`). Where
answers show that units are missing, further lines go through these places, those first at which other units below are on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.sparse.csgraph import connected_components

from planted._typing import Array, BoolArray, IntArray
from planted.identification.deep._gathered import switches_on
from planted.identification.deep._layers import Base
from planted.identification.deep._planes import Survey
from planted.identification.deep._space import Breaks, Space, measure_breaks, scan_line
from planted.identification.deep.missing import LastUnits
from planted.identification.deep.stages._tracing import DETERMINED, Surface, Tracer
from planted.identification.two_layer._jumps import Line
from planted.networks._deep import Layer

__all__ = ["read_expansive"]

MOST_LINES = 24
MOST_THROUGH = 8  # lines through places that show that units are missing
QUIET = 2
COMMON = 1e-6  # relative residual of equations with a common solution
TELLS = 1e-3  # part of the right-hand side of a break that another break's equations test
PROPORTIONAL = 1e-11  # one minus the cosine of changes of several outputs in the same proportion
FAILURES = 4  # of traces of what could not be put together
SHARP = 1e-7  # error of a normal above which a break is not put together by its outputs
TRIED = (
    8,
    12,
    18,
    27,
)  # breaks of a unit: a surface is looked for beyond units below that were off at all of them
PATIENT = 12  # lines before surfaces are traced, where several outputs tell units apart
NEAR = 1e-7  # of the terms of a pre-activation: where a unit switches
OUTWARD = np.array([0.0003, 0.001, 0.004, 0.015, 0.06])


def read_expansive(
    space: Space,
    survey: Survey,
    rng: np.random.Generator,
    *,
    explains: Callable[[Layer, LastUnits], bool],
    unexplained: Callable[[Layer, LastUnits], Array],
) -> tuple[Layer, LastUnits] | None:
    """Read the first two layers; the second up to the signs and scales of its units. None if that failed.

    `explains`: whether two layers explain all answers so far; then no further line is asked. `unexplained`: inputs at which
    they do not, through which further lines go.
    """
    tracer = Tracer(space, survey.planes, rng)
    _trace_all(tracer, survey.others)
    quiet = 0
    for _ in range(MOST_LINES):
        found = _units_so_far(tracer)
        if quiet >= QUIET or (found is not None and explains(*found)):
            break
        quiet = quiet + 1 if _trace_line(tracer) else 0
    if not tracer.orient() or tracer.sides is None:
        return None
    found = _units_so_far(tracer)
    if found is None or not explains(*found):
        _trace_rest(tracer)
    for _ in range(MOST_THROUGH):
        found = _units_so_far(tracer)
        if found is None or explains(*found):
            break
        places = unexplained(*found)
        if not len(places):
            break
        _trace_line(tracer, _farthest_pattern(tracer, places))
    return _units_so_far(tracer)


def _farthest_pattern(tracer: Tracer, places: Array) -> Array:
    """The place at which the units of the first layer differ most from those at all breaks that are unexplained."""
    met = tracer.values(_unexplained(tracer, Breaks.join(tracer.met)).places) > 0
    apart = (tracer.values(places)[:, None] > 0) != met[None]
    return np.asarray(places[apart.sum(axis=2).min(axis=1, initial=apart.shape[2]).argmax()])


def _units_so_far(tracer: Tracer) -> tuple[Layer, LastUnits] | None:
    """The first two layers, with units of the second some of whose weights no break has shown; None without orientation."""
    layers = tracer.layers()
    if layers is None:
        return None
    met = Breaks.join(tracer.met)
    m = len(met.strengths)
    units = LastUnits.whole(layers[1], m)
    rest = _unexplained(tracer, met)
    for members in _groups(tracer, rest):
        breaks = rest.select(members)
        found = tracer.partial_solution(Surface(list(breaks.places), list(breaks.normals)))
        found = found or _common_solution(*_jump_equations(tracer, breaks))
        if found is None or not found[1].any():
            continue
        solution, known = found
        row, bias = np.where(known, solution[:-1], 0.0), solution[-1]
        norm = float(np.linalg.norm(row))
        units = units.add(
            LastUnits(
                row[None] / norm,
                np.array([bias / norm]),
                known[None],
                np.full((1, m), np.nan),
                np.zeros(1),
            )
        )
    return layers[0], replace(units, alphas=_coefficients(layers[0], units, met))


def _coefficients(first: Layer, units: LastUnits, met: Breaks) -> Array:
    """The coefficients α of eq. (1) of `missing._search` from changes of the gradient at breaks; NaN where there are none.

    Shapes: result (k, m).
    """
    T = met.places @ first[0].T + first[1]
    H = np.maximum(T, 0.0)
    values = np.abs(H @ units.rows.T + units.biases)
    sizes = H @ np.abs(units.rows).T + np.abs(units.biases)
    is_own = (values <= NEAR * sizes) & ~((H > 0) @ ~units.known.T) & (met.errors < SHARP)[:, None]
    alphas = np.full(units.alphas.shape, np.nan)
    ahead = met.beside[:, 1] - met.beside[:, 0]
    for unit, row in enumerate(units.rows):
        own = np.flatnonzero(is_own[:, unit] & (is_own.sum(axis=1) == 1))
        if own.size:
            slopes = ((T[own] > 0) * row) @ first[0]
            turns = np.sign(np.einsum("np,np->n", slopes, ahead[own]))
            changes = np.einsum("np,np->n", slopes, met.normals[own]) * turns
            alphas[unit] = np.median(met.strengths[:, own] * changes / (2 * (slopes**2).sum(axis=1)), axis=1)
    return alphas


def _gather_by_outputs(tracer: Tracer, breaks: Breaks) -> None:
    """Put breaks down to units by the proportion in which several outputs change, before it is known which are on below.

    Places and tangents of many breaks of one unit solve (1) as a trace does, without questions. Units whose outputs change
    in the same proportion have no common solution.
    """
    if len(breaks.strengths) == 1 or not breaks.errors.size:
        return
    exact = _unexplained(tracer, breaks)
    if not exact.errors.size:
        return
    for members in _proportional(exact):
        surface = Surface(list(exact.places[members]), list(exact.normals[members]))
        if tracer.solve(surface) == "unique" and not tracer.holds_already(surface):
            tracer.surfaces.append(surface)
            if tracer.orient():
                return


def _unexplained(tracer: Tracer, breaks: Breaks) -> Breaks:
    """The breaks that were measured exactly and lie on no surface that is known."""
    return breaks.select((breaks.errors < SHARP) & ~tracer.explains(breaks.places, 1e-6))


def _groups(tracer: Tracer, breaks: Breaks) -> list[IntArray]:
    """Breaks that belong to common units, once it is known which units of the first layer are on."""
    count = breaks.errors.size
    if count < 2:
        return []
    if len(breaks.strengths) > 1:
        return _proportional(breaks)
    A, g = _jump_equations(tracer, breaks)
    together = np.eye(count, dtype=np.bool_)
    for i in range(count - 1):
        together[i, i + 1 :] = _share_solution(A[i], g[i], A[i + 1 :], g[i + 1 :])
    labels = connected_components(together, directed=False)[1]
    return [np.flatnonzero(labels == label) for label in range(labels.max() + 1)]


def _proportional(breaks: Breaks) -> list[IntArray]:
    """Groups of breaks at which several outputs change in the same proportion."""
    units = breaks.strengths / np.linalg.norm(breaks.strengths, axis=0)
    labels = connected_components(np.abs(units.T @ units) > 1 - PROPORTIONAL, directed=False)[1]
    return [np.flatnonzero(labels == label) for label in range(labels.max() + 1)]


def _gather(tracer: Tracer, breaks: Breaks, *, is_last: bool = False) -> None:
    """Put breaks down to common units, and add the surfaces of units that they determine.

    Two breaks belong together if the equations of both have a solution for one choice of sign, and none without the other
    break's scale; with several outputs if the outputs change in the same proportion. Where all places of many breaks of one
    unit lie where some unit below is off, the surface is looked for beyond the hyperplane of that unit; `is_last`: also
    where breaks are few.
    """
    breaks = _unexplained(tracer, breaks)
    if tracer.sides is None or breaks.errors.size < 2:
        return
    A, g = _jump_equations(tracer, breaks)
    for members in _groups(tracer, breaks):
        surface = Surface(list(breaks.places[members]), list(breaks.normals[members]))
        if tracer.solve(surface) == "open":
            found = _common_solution(A[members], g[members])
            if found is not None and found[1].all():
                surface.solution = found[0]
            elif is_last or len(members) in TRIED:
                found = found or tracer.partial_solution(surface)
                if found is not None:
                    tracer.complete(surface, *found)
        if surface.solution is not None and not tracer.holds_already(surface):
            tracer.surfaces.append(surface)


def _jump_equations(tracer: Tracer, breaks: Breaks) -> tuple[Array, Array]:
    """The equations A (w, b) = ±g of a unit from each break, by how the gradient changes there.

    Shapes: A (n, d + 1, k + 1), g (n, d + 1).
    """
    assert tracer.sides is not None
    count = breaks.errors.size
    T = tracer.values(breaks.places) * tracer.sides
    oriented = tracer.planes.normals * tracer.sides[:, None]
    slopes = oriented.T[None] * (T > 0)[:, None, :]  # (n, d, k)
    slopes = np.concatenate([slopes, np.zeros((count, slopes.shape[1], 1))], axis=2)
    holds = np.column_stack([np.maximum(T, 0.0), np.ones(count)])[:, None, :]
    sizes = np.linalg.norm(breaks.strengths, axis=0)
    g = np.column_stack([breaks.normals * sizes[:, None], np.zeros(count)])
    return np.concatenate([slopes, holds], axis=1), g


def _share_solution(A: Array, g: Array, others: Array, theirs: Array) -> BoolArray:
    """Which of some further equations have a common solution with given ones, up to the sign of their right-hand sides."""
    rows = len(A)
    stacked = np.concatenate([np.broadcast_to(A, others.shape), others], axis=1)
    left, values, _ = np.linalg.svd(stacked)
    full = np.zeros(left.shape[:2])
    full[:, : values.shape[1]] = values
    free = full <= 1e-9 * values[:, :1]  # what no solution reaches
    own = np.einsum("nrc,r->nc", left[:, :rows], g) * free
    other = np.einsum("nrc,nr->nc", left[:, rows:], theirs) * free
    size = np.linalg.norm(own, axis=1)
    off = np.minimum(np.linalg.norm(own - other, axis=1), np.linalg.norm(own + other, axis=1))
    return np.asarray((off <= COMMON * size) & (size > TELLS * np.linalg.norm(g)))


def _common_solution(A: Array, g: Array) -> tuple[Array, BoolArray] | None:
    """The solution (w, b) of the equations of all breaks of one unit, whose signs are free, and which weights are settled.

    None if there is no solution, or the bias is not settled.
    """
    signs = np.ones(len(A))
    for number in range(1, len(A)):
        system, ends = np.concatenate(A[: number + 1]), signs[: number + 1, None] * g[: number + 1]
        turned = ends * np.where(np.arange(number + 1) == number, -1.0, 1.0)[:, None]
        if _least(system, turned)[1] < _least(system, ends)[1]:
            signs[number] = -1.0
    system = np.concatenate(A)
    found, off = _least(system, signs[:, None] * g)
    lengths = np.linalg.norm(system, axis=0)
    values, rows = np.linalg.svd(system / np.where(lengths > 0, lengths, 1.0), full_matrices=False)[1:]
    settled = np.linalg.norm(rows[values > DETERMINED * values[0]], axis=0) > 1 - 1e-9
    return (found, settled[:-1]) if settled[-1] and off <= COMMON * float(np.linalg.norm(g)) else None


def _least(system: Array, ends: Array) -> tuple[Array, float]:
    """The shortest least-squares solution with columns scaled to one, and what it leaves over."""
    lengths = np.linalg.norm(system, axis=0)
    lengths[lengths == 0] = 1.0
    found = np.linalg.lstsq(system / lengths, ends.ravel(), rcond=DETERMINED)[0]
    return found / lengths, float(np.linalg.norm(system / lengths @ found - ends.ravel()))


def _trace_all(tracer: Tracer, parts: list[Breaks]) -> None:
    """Trace the surfaces of breaks that no known surface explains."""
    tracer.met += parts
    if tracer.sides is None:
        _gather_by_outputs(tracer, Breaks.join(tracer.met))
    several = len(tracer.space.rounding.level) > 1
    if tracer.sides is None and several and len(tracer.met) < PATIENT:
        return  # further lines cost less than traces
    for breaks in parts:
        for place, normal in zip(breaks.places, breaks.normals, strict=True):
            if tracer.sides is not None:
                return _gather(tracer, Breaks.join(tracer.met))
            if tracer.explains(place[None], 1e-6)[0]:
                continue
            surface = tracer.trace(place, normal)
            if surface is not None and not tracer.holds_already(surface):
                tracer.surfaces.append(surface)
                tracer.orient()


def _trace_rest(tracer: Tracer) -> None:
    """Trace the surfaces of breaks that could not be put together, until some traces have failed."""
    failures = 0
    met = Breaks.join(tracer.met)
    _gather(tracer, met, is_last=True)
    for place, normal in zip(met.places, met.normals, strict=True):
        if failures >= FAILURES:
            return
        if tracer.explains(place[None], 1e-6)[0]:
            continue
        surface = tracer.trace(place, normal)
        if surface is None:
            failures += 1
        elif not tracer.holds_already(surface):
            tracer.surfaces.append(surface)


def _trace_line(tracer: Tracer, through: Array | None = None) -> bool:
    """Scan a fresh line, through a given place, and trace what is unexplained on it; return whether all was explained."""
    space = tracer.space
    origin, direction = space.draw(2, tracer.rng)
    origin = origin if through is None else through
    line = Line(origin, direction / np.linalg.norm(direction))
    planes, known_layers = tracer.planes, tracer.layers()
    expected = -(planes.normals @ line.origin + planes.offsets) / (planes.normals @ line.direction)
    if known_layers is not None:
        whole = Base(np.eye(space.dim), np.zeros(space.dim), space.sides, space.limits)
        expected = switches_on(list(known_layers), whole, line, *space.room(line.origin, line.direction))
    spread = np.concatenate([-OUTWARD[::-1], [0.0], OUTWARD])
    scan = scan_line(space, line, spread=spread, expected=expected)
    usable = np.flatnonzero(np.isfinite(scan.breakpoints))
    places = line.at(scan.breakpoints[usable])
    known = planes.hold(places, 1e-6 * space.rounding.radius).any(axis=1) | tracer.explains(places, 1e-6)
    _trace_all(tracer, [measure_breaks(space, line, scan, usable[~known])])
    return bool(known.all())
