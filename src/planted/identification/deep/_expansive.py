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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse.csgraph import connected_components

from planted._typing import Array, BoolArray
from planted.identification.deep._gathered import switches_on
from planted.identification.deep._layers import Base
from planted.identification.deep._planes import Planes, Survey
from planted.identification.deep._space import Breaks, Space, measure_breaks, scan_line
from planted.identification.two_layer._jumps import Line
from planted.networks._deep import Layer

__all__ = ["read_expansive"]

ALIKE = 1e-5  # relative: a normal that is a bent one of the surface that is traced
DETERMINED = 1e-7  # the second smallest singular value of the equations, relative
CONSISTENT = 1e-4  # the smallest, relative to the second smallest
BEYOND = (
    0.3,
    0.04,
    0.005,
)  # of the way to the next hyperplane: where the surface is looked for beyond a crossing
CROSSINGS = 2.5  # of a trace, for each unit of the first layer, at most
WALKS = 400  # steps of a walk without questions
FARTHEST = 30.0  # radii: how far a walk goes
ORIENTED = 0.2  # how far from ±1 a solution of (2) may be
FITS = 1e-4  # relative residual of (2)
SURFACES = 2  # before (2) is tried
MOST_LINES = 24
QUIET = 2
SPREAD = np.array([-1.0, -0.3, -0.06, 0.06, 0.3, 1.0])
SAME = 1e-4  # relative distance from a known surface of a trace that is on it
TWICE = 1e-8  # one minus the cosine of two solutions that are the same
COMMON = 1e-6  # relative residual of equations with a common solution
TELLS = 1e-3  # part of the right-hand side of a break that another break's equations test
PROPORTIONAL = 1e-11  # one minus the cosine of changes of several outputs in the same proportion
FAILURES = 4  # of traces of what could not be put together
LOOKS = 3  # in vain, for one crossing


@dataclass(slots=True)
class _Surface:
    """What is known of one surface: its equations, and the coefficients once they are unique."""

    places: list[Array] = field(default_factory=list)
    normals: list[Array] = field(default_factory=list)
    solution: Array | None = None


@dataclass(slots=True)
class _Tracer:
    space: Space
    planes: Planes
    rng: np.random.Generator
    sides: Array | None = None  # orientation of the first layer, once it is known
    surfaces: list[_Surface] = field(default_factory=list)
    met: list[Breaks] = field(default_factory=list)  # all breaks that were measured on lines

    def values(self, X: Array) -> Array:
        """Pre-activations up to sign, shape (n, k)."""
        return np.asarray(X @ self.planes.normals.T + self.planes.offsets)

    def features(self, X: Array) -> Array:
        """What the coefficients of a surface are multiplied with, shape (n, unknowns)."""
        T, ones = self.values(X), np.ones((len(X), 1))
        if self.sides is None:
            return np.hstack([np.abs(T), X, ones])
        return np.hstack([np.maximum(T * self.sides, 0.0), ones])

    def equations(self, surface: _Surface) -> Array:
        """The homogeneous equations of a surface: it holds its places, and its tangents there."""
        X = np.array(surface.places)
        rows = [self.features(X)]
        for x, normal in zip(X, surface.normals, strict=True):
            tangents = np.linalg.svd(normal[None])[2][1:]
            slopes = tangents @ self.planes.normals.T
            signs = np.sign(self.values(x[None])[0])
            if self.sides is None:
                parts = [slopes * signs, tangents, np.zeros((len(tangents), 1))]
            else:
                parts = [
                    slopes * np.where(signs * self.sides > 0, self.sides, 0.0),
                    np.zeros((len(tangents), 1)),
                ]
            rows.append(np.hstack(parts))
        return np.concatenate(rows)

    def solve(self, surface: _Surface) -> str:
        """Solve the equations of a surface: "open" if further places are needed, "unique", or "wrong"."""
        A = self.equations(surface)
        if len(A) < A.shape[1]:
            return "open"
        lengths = np.linalg.norm(A, axis=0)
        if (lengths == 0).any():
            return "open"
        values, rows = np.linalg.svd(A / lengths, full_matrices=False)[1:]
        if values[-2] < DETERMINED * values[0]:
            return "open"
        if values[-1] > CONSISTENT * values[-2]:
            return "wrong"
        surface.solution = rows[-1] / lengths
        return "unique"

    def explains(self, X: Array, slack: float) -> BoolArray:
        """Whether places lie on a surface that is known."""
        known = np.zeros(len(X), dtype=np.bool_)
        for surface in self.surfaces:
            if surface.solution is not None:
                known |= _off(self, surface, X) <= slack
        return known

    def holds_already(self, surface: _Surface) -> bool:
        """Whether a surface is one of those that are known."""
        return any(
            other.solution is not None and bool((_off(self, other, np.array(surface.places)) <= SAME).all())
            for other in self.surfaces
        )

    def trace(self, place: Array, normal: Array) -> _Surface | None:
        """Walk on a surface from crossing to crossing until its coefficients are unique."""
        surface = _Surface([place], [normal])
        bends: dict[int, float] = {}  # -2 α_i, in the scale of the first normal
        start = place, normal
        for _ in range(int(CROSSINGS * self.planes.offsets.size)):
            found = self._next_crossing(*start, bends, self._unseen(surface))
            if found is None:
                return None
            i, beyond, bent, bend = found
            bends[i] = bend
            surface.places.append(beyond)
            surface.normals.append(bent / np.linalg.norm(bent))
            state = self.solve(surface)
            if state == "wrong":
                return None
            if state == "unique":
                return surface
            start = beyond, bent
        return None

    def _unseen(self, surface: _Surface) -> list[int]:
        """Units of the first layer that were off at all places of a surface; none if it is not known which are on."""
        if self.sides is None:
            return []
        on = (self.values(np.array(surface.places)) * self.sides > 0).any(axis=0)
        return [int(i) for i in np.flatnonzero(~on)]

    def _next_crossing(
        self, place: Array, normal: Array, bends: dict[int, float], wanted: list[int]
    ) -> tuple[int, Array, Array, float] | None:
        """Walk to a hyperplane whose bend is not known, and find the surface beyond it."""
        count = self.planes.offsets.size
        open_ones = wanted or [i for i in range(count) if i not in bends]
        if not open_ones:
            return None
        looks = 0
        x, n = place, normal
        distances = np.abs(self.values(x[None])[0])
        target = min(open_ones, key=lambda i: distances[i] * self.rng.uniform(0.5, 2.0))
        for step in range(WALKS):
            if step % 40 == 39:
                target = int(self.rng.choice(open_ones))
            t = self.values(x[None])[0]
            direction = -np.sign(t[target]) * self.planes.normals[target]
            direction = direction + 0.1 * self.rng.standard_normal(direction.size) / np.sqrt(direction.size)
            direction -= (direction @ n) / (n @ n) * n
            direction /= np.linalg.norm(direction)
            along = self.planes.normals @ direction
            with np.errstate(divide="ignore", invalid="ignore"):
                ahead = np.where(np.abs(along) > 1e-9, -t / along, np.inf)
            ahead = np.where(ahead > 1e-12, ahead, np.inf)
            order = np.argsort(ahead)
            first, second = order[0], order[1]
            if not np.isfinite(ahead[first]):
                continue
            gap = min(ahead[second] - ahead[first], self.space.rounding.radius)
            if (
                ahead[first] > FARTHEST * self.space.rounding.radius
                or gap <= 1e-7 * self.space.rounding.radius
            ):
                continue
            sign = np.sign(t[first])
            if first in bends:
                n = n + bends[first] * sign * self.planes.normals[first]
                p = x + ahead[first] * direction
                onto = self._onto(p, direction, n, 0.3 * gap, int(first))
                x = place if onto is None else onto
                if onto is None or np.linalg.norm(x) > FARTHEST * self.space.rounding.radius:
                    x, n = place, normal
                continue
            found = self._look_beyond(x + ahead[first] * direction, direction, gap, n, int(first))
            if found is None:
                looks += 1
                x, n = place, normal
                target = int(self.rng.choice(open_ones))
                if looks >= LOOKS:
                    return None
                continue
            beyond, bent, change = found
            return int(first), beyond, bent, change / sign
        return None

    def _onto(self, p: Array, direction: Array, n: Array, step: float, i: int) -> Array | None:
        """Step from a place on hyperplane i onto the bent surface beyond it, into the region on the other side."""
        tangent = direction - (direction @ n) / (n @ n) * n
        size = np.linalg.norm(tangent)
        if size < 1e-9 or (tangent @ self.planes.normals[i]) * (direction @ self.planes.normals[i]) <= 0:
            return None
        tangent /= size
        t, along = self.values(p[None])[0], self.planes.normals @ tangent
        with np.errstate(divide="ignore", invalid="ignore"):
            ahead = np.where(np.abs(along) > 1e-9, -t / along, np.inf)
        ahead[i] = np.inf
        room = float(np.where(ahead > 1e-12, ahead, np.inf).min())
        return np.asarray(p + min(step, 0.5 * room) * tangent)

    def _look_beyond(
        self, p: Array, direction: Array, gap: float, n: Array, i: int
    ) -> tuple[Array, Array, float] | None:
        """Find the surface beyond hyperplane i on a short line along the old normal."""
        across = n / np.linalg.norm(n)
        for share in BEYOND:
            origin = p + share * gap * direction
            t, along = self.values(origin[None])[0], self.planes.normals @ across
            with np.errstate(divide="ignore", invalid="ignore"):
                meets = np.where(np.abs(along) > 1e-9, -t / along, np.inf)
            low, high = meets[meets < 0].max(initial=-np.inf), meets[meets > 0].min(initial=np.inf)
            reach = min(40 * share * gap, self.space.rounding.radius)
            low, high = max(0.98 * low, -reach), min(0.98 * high, reach)
            segment = _segment(self.space, origin, across, low, high)
            line = Line(origin, across)
            scan = scan_line(segment, line, spread=SPREAD, expected=np.zeros(0))
            places = scan.breakpoints[np.isfinite(scan.breakpoints)]
            for place in places[np.argsort(np.abs(places))][:3]:
                wanted = np.flatnonzero(scan.breakpoints == place)
                breaks = measure_breaks(self.space, line, scan, wanted)
                if not breaks.errors.size:
                    continue
                bent = breaks.normals[0]
                basis = np.column_stack([n, self.planes.normals[i]])
                (a, b), *_ = np.linalg.lstsq(basis, bent, rcond=None)
                off = float(np.linalg.norm(basis @ [a, b] - bent))
                if off <= ALIKE + 30 * float(breaks.errors[0]) and abs(a) > 1e-9:
                    return breaks.places[0], bent / a, float(b / a)
        return None

    def orient(self) -> bool:
        """Solve (2) for the sides of the first layer; whether they are settled."""
        k, d = self.planes.normals.shape
        solutions = [s.solution for s in self.surfaces if s.solution is not None]
        if self.sides is not None or len(solutions) < SURFACES or len(solutions) * d <= k:
            return self.sides is not None
        rows, targets = [], []
        for solution in solutions:
            scale = np.linalg.norm(solution[:k])
            rows.append((self.planes.normals * solution[:k, None]).T / scale)
            targets.append(solution[k : k + d] / scale)
        A, b = np.concatenate(rows), np.concatenate(targets)
        found, _, rank, _ = np.linalg.lstsq(A, b, rcond=1e-9)
        off = float(np.linalg.norm(A @ np.sign(found) - b)) / float(np.linalg.norm(b))
        if rank < k or np.abs(np.abs(found) - 1).max() > ORIENTED or off > FITS:
            return False
        self.sides = np.sign(found)
        for surface in self.surfaces:
            if surface.solution is not None:
                alphas, constant = surface.solution[:k], surface.solution[-1]
                surface.solution = np.append(
                    2 * alphas, constant - (alphas * self.sides) @ self.planes.offsets
                )
                self.solve(surface)
        return True

    def layers(self) -> tuple[Layer, Layer] | None:
        """The first two layers as far as they are known; None without orientation or surfaces."""
        solutions = np.array([s.solution for s in self.surfaces if s.solution is not None])
        if self.sides is None or not len(solutions):
            return None
        weights, biases = solutions[:, :-1], solutions[:, -1]
        norms = np.linalg.norm(weights, axis=1)
        rows = solutions / np.linalg.norm(solutions, axis=1)[:, None]
        alike = np.triu(np.abs(rows @ rows.T) > 1 - TWICE, 1).any(axis=0)
        weights, biases, norms = weights[~alike], biases[~alike], norms[~alike]
        first = self.planes.normals * self.sides[:, None], self.planes.offsets * self.sides
        return first, (weights / norms[:, None], biases / norms)


def _off(tracer: _Tracer, surface: _Surface, X: Array) -> Array:
    """How far places are from a known surface, relative to the terms of its equation."""
    assert surface.solution is not None
    F = tracer.features(X)
    return np.asarray(np.abs(F @ surface.solution) / (np.abs(F) @ np.abs(surface.solution)))


def read_expansive(
    space: Space, survey: Survey, rng: np.random.Generator, *, explains: Callable[[Layer, Layer], bool]
) -> tuple[Layer, Layer] | None:
    """Read the first two layers; the second up to the signs and scales of its units. None if that failed.

    `explains`: whether two layers explain all answers so far; then no further line is asked.
    """
    tracer = _Tracer(space, survey.planes, rng)
    _trace_all(tracer, survey.others)
    quiet = 0
    for _ in range(MOST_LINES):
        found = tracer.layers()
        if quiet >= QUIET or (found is not None and explains(*found)):
            break
        quiet = quiet + 1 if _trace_line(tracer) else 0
    if not tracer.orient() or tracer.sides is None:
        return None
    found = tracer.layers()
    if found is None or not explains(*found):
        _trace_rest(tracer)
    return tracer.layers()


def _gather(tracer: _Tracer, breaks: Breaks) -> None:
    """Put breaks down to common units, without questions, and add the surfaces of units that they determine.

    Two breaks belong together if the equations of both have a solution for one choice of sign, and none without the other
    break's scale; with several outputs also if the outputs change in the same proportion.
    """
    breaks = breaks.select(~tracer.explains(breaks.places, 1e-6))
    count = breaks.errors.size
    if tracer.sides is None or count < 2:
        return
    T = tracer.values(breaks.places) * tracer.sides
    oriented = tracer.planes.normals * tracer.sides[:, None]
    slopes = oriented.T[None] * (T > 0)[:, None, :]  # (n, d, k)
    slopes = np.concatenate([slopes, np.zeros((count, slopes.shape[1], 1))], axis=2)
    holds = np.column_stack([np.maximum(T, 0.0), np.ones(count)])[:, None, :]
    A = np.concatenate([slopes, holds], axis=1)  # (n, d + 1, k + 1)
    sizes = np.linalg.norm(breaks.strengths, axis=0)
    g = np.column_stack([breaks.normals * sizes[:, None], np.zeros(count)])
    links = np.abs((breaks.strengths / sizes).T @ (breaks.strengths / sizes))
    together = links > 1 - PROPORTIONAL if len(breaks.strengths) > 1 else np.eye(count, dtype=np.bool_)
    if len(breaks.strengths) == 1:
        for i in range(count - 1):
            together[i, i + 1 :] = _share_solution(A[i], g[i], A[i + 1 :], g[i + 1 :])
    for label in range((labels := connected_components(together, directed=False)[1]).max() + 1):
        members = np.flatnonzero(labels == label)
        found = _common_solution(A[members], g[members])
        if found is None:
            continue
        solution, settled = found
        if settled.all():
            surface = _Surface(list(breaks.places[members]), list(breaks.normals[members]), solution)
            if not tracer.holds_already(surface):
                tracer.surfaces.append(surface)


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


def _trace_all(tracer: _Tracer, parts: list[Breaks]) -> None:
    """Trace the surfaces of breaks that no known surface explains."""
    tracer.met += parts
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


def _trace_rest(tracer: _Tracer) -> None:
    """Trace the surfaces of breaks that could not be put together, until some traces have failed."""
    failures = 0
    met = Breaks.join(tracer.met)
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


def _trace_line(tracer: _Tracer) -> bool:
    """Scan a fresh line and trace what is unexplained on it; return whether all was explained."""
    space = tracer.space
    origin, direction = space.draw(2, tracer.rng)
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


OUTWARD = np.array([0.0003, 0.001, 0.004, 0.015, 0.06])


def _segment(space: Space, origin: Array, direction: Array, low: float, high: float) -> Space:
    """The space cut down to a segment of a line."""
    at = float(direction @ origin)
    sides = np.concatenate([space.sides, direction[None], -direction[None]])
    limits = np.concatenate([space.limits, [at + high, -at - low]])
    return Space(space.ask, space.dim, space.draw, sides, limits, space.rounding, space.reach)
