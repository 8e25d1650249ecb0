r"""Trace the surface of one unit of the second layer where the first has more units than there are inputs.

On a surface Σ α_i |t_i| + L x + c = 0 (eq. (1) of `_expansive`) the pre-activations t_i of the first layer are needed up to
sign only. Every place on it, with the tangents there, is d homogeneous equations. It is walked on without questions to a
hyperplane i whose bend is not known; beyond it a short line finds it again, bent by 2 α_i n_i. A surface whose places all
lie where some unit below is off is looked for beyond the hyperplane of that unit in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from planted._typing import Array, BoolArray
from planted.identification.deep._planes import Planes
from planted.identification.deep._space import Breaks, Space, measure_breaks, scan_line
from planted.identification.two_layer._jumps import Line
from planted.networks._deep import Layer

__all__ = ["DETERMINED", "Surface", "Tracer"]

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
SPREAD = np.array([-1.0, -0.3, -0.06, 0.06, 0.3, 1.0])
SAME = 1e-4  # relative distance from a known surface of a trace that is on it
TWICE = 1e-8  # one minus the cosine of two solutions that are the same
LOOKS = 3  # in vain, for one crossing


@dataclass(slots=True)
class Surface:
    """What is known of one surface: its equations, and the coefficients once they are unique."""

    places: list[Array] = field(default_factory=list)
    normals: list[Array] = field(default_factory=list)
    solution: Array | None = None


@dataclass(slots=True)
class Tracer:
    """The surfaces that are known, and what is needed to trace further ones."""

    space: Space
    planes: Planes
    rng: np.random.Generator
    sides: Array | None = None  # orientation of the first layer, once it is known
    surfaces: list[Surface] = field(default_factory=list)
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

    def equations(self, surface: Surface) -> Array:
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

    def solve(self, surface: Surface) -> str:
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

    def partial_solution(self, surface: Surface) -> tuple[Array, BoolArray] | None:
        """The coefficients of a surface to units that were on at some of its places, and which; None if not unique."""
        A = self.equations(surface)
        lengths = np.linalg.norm(A, axis=0)
        seen = lengths > 0
        if len(A) < seen.sum() or not seen[-1]:
            return None
        values, rows = np.linalg.svd(A[:, seen] / lengths[seen], full_matrices=False)[1:]
        if values[-2] < DETERMINED * values[0] or values[-1] > CONSISTENT * values[-2]:
            return None
        solution = np.zeros(len(seen))
        solution[seen] = rows[-1] / lengths[seen]
        return solution, seen[:-1]

    def explains(self, X: Array, slack: float) -> BoolArray:
        """Whether places lie on a surface that is known."""
        known = np.zeros(len(X), dtype=np.bool_)
        for surface in self.surfaces:
            if surface.solution is not None:
                known |= _off(self, surface, X) <= slack
        return known

    def holds_already(self, surface: Surface) -> bool:
        """Whether a surface is one of those that are known."""
        return any(
            other.solution is not None and bool((_off(self, other, np.array(surface.places)) <= SAME).all())
            for other in self.surfaces
        )

    def trace(self, place: Array, normal: Array) -> Surface | None:
        """Walk on a surface from crossing to crossing until its coefficients are unique."""
        surface = Surface([place], [normal])
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

    def complete(self, surface: Surface, solution: Array, settled: BoolArray) -> None:
        """Look for a surface beyond the hyperplanes of units that were off at all its places, and solve it then.

        `solution`: its coefficients, right for the units that are `settled`. The walk to a hyperplane asks nothing.
        """
        assert self.sides is not None
        bends = {int(i): -float(solution[i]) for i in np.flatnonzero(settled)}
        for _ in range(2 * int((~settled).sum())):
            unseen = self._unseen(surface)
            if not unseen:
                break
            place = surface.places[int(self.rng.integers(len(surface.places)))]
            on = self.values(place[None])[0] * self.sides > 0
            if not settled[on].all():
                continue
            normal = (solution[:-1] * self.sides * on) @ self.planes.normals
            found = self._next_crossing(place, normal, bends, unseen)
            if found is not None:
                surface.places.append(found[1])
                surface.normals.append(found[2] / np.linalg.norm(found[2]))
        self.solve(surface)

    def _unseen(self, surface: Surface) -> list[int]:
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


def _off(tracer: Tracer, surface: Surface, X: Array) -> Array:
    """How far places are from a known surface, relative to the terms of its equation."""
    assert surface.solution is not None
    F = tracer.features(X)
    return np.asarray(np.abs(F @ surface.solution) / (np.abs(F) @ np.abs(surface.solution)))


def _segment(space: Space, origin: Array, direction: Array, low: float, high: float) -> Space:
    """The space cut down to a segment of a line."""
    at = float(direction @ origin)
    sides = np.concatenate([space.sides, direction[None], -direction[None]])
    limits = np.concatenate([space.limits, [at + high, -at - low]])
    return Space(space.ask, space.dim, space.draw, sides, limits, space.rounding, space.reach)
