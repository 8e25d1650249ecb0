r"""Units of the last hidden layer that no line has met, from what the others leave unexplained.

If some units of the last hidden layer are known, with pre-activations t_j = w_j h + b_j, then

.. math:: f - \sum_j \alpha_j |t_j| - L h - c                                                             \quad (1)

vanishes wherever the missing units are on the side on which they mostly are, for the right α, L and c: they are linear
there. Absolute regression, which most answers fit exactly, finds these coefficients, and Gauss–Newton steps on the answers
that it explains restore the digits of the known units. On the other side of one missing unit (1) is a linear function of h
that vanishes on its hyperplane. It is fitted to answers around a place where (1) does not vanish. Weights to units below
that are off there are read at places where these are on: a mixed-integer program finds such places without questions
(`_patterns`).

Known units may have gaps: weights to units below that no break has shown. Often the unit is on one side wherever such a unit
below is on. Then its part is linear there, the regression shows which side it is, and the linear part shows the weight
(`_top`); the few answers on the other side are the rest (`_gaps`). A unit that is nearly always on is read from the linear
part (`_always_on`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from planted._typing import Array, BoolArray
from planted.identification._rounding import Rounding
from planted.identification.deep._gaps import ask_beside_gaps, filled_from_answers
from planted.identification.deep._layers import pass_layers
from planted.identification.deep._patterns import Sought, barely_on
from planted.identification.deep._regions import PartialRows
from planted.identification.deep._space import Records
from planted.identification.deep._surfaces import fill_on_surfaces
from planted.identification.deep._top import EXPLAINED, fit_top
from planted.identification.deep.ending._polish import refined_top
from planted.identification.deep.missing._always_on import unit_always_on
from planted.identification.deep.missing._rows import (
    MOSTLY,
    ROUGHLY,
    absolute_regression,
    common_row,
    solve_gaps,
)
from planted.identification.deep.missing._units import LastUnits
from planted.identification.two_layer._search import BlackBox
from planted.networks._deep import Layer

__all__ = ["MissingUnits"]

PER_COEFFICIENT, MORE = 3, 60  # typical answers for the regression
LOGGED = 9  # for each coefficient: answers that have been asked before and take part
CLEARLY = 30.0  # times what the answers that are explained leave over: what is not
LARGE = 0.03  # of the largest: answers that are off by so much are looked at first
SEGMENTS, POINTS = 300, 400  # looked through for places where one known unit alone switches
PLACES = 3  # such places for each unit: at one, a missing unit may switch beside
MEETS = 1e-3  # of the change of slope: how far lines on both sides may miss each other
SETTLED = 1e-7  # relative singular value of a direction in which that refinement moves
REFINED = 6  # rows for each parameter of that refinement, at most
VANISHES = 1e-7  # of the spread of the answers
MIXED = 3  # for each weight: answers beyond gaps that are not explained, above which a unit is read afresh
MOST_UNITS = 6  # that are added
FAR = 8.0  # typical inputs
SAMPLED = 12  # answers that have been asked, for each unit below
STARTS = 6  # places around which a unit is fitted, at most
AROUND = 5  # answers around each of them that show weights
ROUNDS = 5  # of answers around a place
SWEEPS = 3
ROOMS = [20.0, 400.0]  # typical inputs: how far out places are looked for
HEIGHTS = (0.05, 0.02)  # of a unit below that is barely on, relative to what is known of the unit above
FEW, NARROWER = 0.25, 0.3  # where so few places around are off, the next ones are closer
SIZES = (-5.0, -1.0)  # log2 of the distances from it, in typical inputs


@dataclass(slots=True)
class MissingUnits:
    """Typical answers, asked once, and the search for missing units."""

    records: Records
    rng: np.random.Generator
    rounding: Rounding | None = None  # of the answers; without it no line is scanned
    X: Array | None = None
    Y: Array | None = None

    def complete(
        self, layers: list[Layer], known: tuple[Array, Array] | LastUnits
    ) -> tuple[tuple[Array, Array], BoolArray] | None:
        """Add units until all answers are explained, and say which of their weights are known; None if they cannot be.

        Units that were added have few digits. Where they nearly explain all answers, all layers are refined in place.
        """
        units = (
            known if isinstance(known, LastUnits) else LastUnits.whole(known, self.records.all()[1].shape[1])
        )
        given = len(units.biases)
        added = 0
        while True:
            explained = self._explain_most(layers, units)
            if explained is None and not units.known.all():  # a unit may be on both sides beyond its gaps
                units = units.select(np.asarray(units.known.all(axis=1)))
                given = len(units.biases)
                explained = self._explain_most(layers, units) if given else None
            if explained is None:
                return None
            filled = self._without_gaps(layers, *explained)
            explained = (None if filled is None else self._explain_most(layers, filled)) or explained
            units, coefficients = explained
            starts = self._unexplained(layers, units, coefficients)
            if not len(starts):
                return (units.rows, units.biases), units.known
            refined = refined_top(self.records.all(), layers, (units.rows, units.biases), units.known)
            if refined is not None and not refined[0].passing and refined[0].residual <= EXPLAINED:
                top, layers[:] = refined
                return top.layer, ~top.gaps
            given = min(given, len(units.biases))
            kept = self._without_mixed(layers, units, coefficients, given)
            if not kept.all():  # what is left shows all of their weights
                units, given = units.select(kept), given - int((~kept).sum())
                continue
            if added == MOST_UNITS:
                return None
            found = self._from_rest(layers, units, coefficients)
            if found is None or not found.known.all():
                found = self._fit_unit(layers, units, coefficients, starts) or found
            if found is None:
                return None
            units, added = units.add(self._on_surface(layers, found)), added + 1

    def places(self, layers: list[Layer], units: LastUnits) -> Array:
        """Some of the inputs that were asked at which the answers show that units are missing, shape (n, d)."""
        explained = self._explain_most(layers, units)
        return (
            np.zeros((0, layers[0][0].shape[1]))
            if explained is None
            else self._unexplained(layers, *explained)
        )

    def _without_mixed(
        self, layers: list[Layer], units: LastUnits, coefficients: Array, given: int
    ) -> BoolArray:
        """Which units to keep: those without gaps, and those that are on one side beyond their gaps as far as answers say.

        Only the first `given` units are looked at.
        """
        X, Y = self.records.all()
        H = pass_layers(layers, X)
        differs = self._differs(Y - units.features(H) @ coefficients, X, Y)
        beyond = ((H[differs] > 0) @ ~units.known.T).sum(axis=0)
        beyond[given:] = 0
        kept = np.ones(len(beyond), dtype=np.bool_)
        if beyond.max(initial=0) > MIXED * (H.shape[1] + 1):
            kept[int(beyond.argmax())] = False
        return kept

    def _without_gaps(self, layers: list[Layer], units: LastUnits, coefficients: Array) -> LastUnits | None:
        """The units with all gaps filled, by the linear part of the answers that are explained or by others; None if not."""
        if units.known.all():
            return None
        X, Y = self.records.all()
        near = ~self._differs(Y - units.features(pass_layers(layers, X)) @ coefficients, X, Y)
        top = fit_top((X[near], Y[near]), layers, (units.rows, units.biases), units.known)
        if top is not None and not (top.passing or top.unseen) and top.is_unique:
            # At few places, or none, does a rare unit switch alone: its coefficient is not to be measured again.
            return replace(LastUnits.whole(top.layer, Y.shape[1]), alphas=top.output[0].T / 2)
        if top is None or top.passing:
            return None
        rows = PartialRows.of((units.rows, units.biases), units.known)
        for is_second in (False, True):
            if is_second:
                ask_beside_gaps(self.records, layers, rows, self.rng)
                self._ask_around(X[~near & _typical(X)])
            filled = filled_from_answers(self.records.all(), layers, rows, self.rng)
            if filled.is_complete:
                return LastUnits.whole(filled.arrays(), Y.shape[1])
        return None

    def _on_surface(self, layers: list[Layer], unit: LastUnits) -> LastUnits:
        """A unit that was found, with the gaps filled that breaks on its surface show."""
        if self.rounding is None or unit.known.all():
            return unit
        rows = PartialRows.of((unit.rows, unit.biases), unit.known)
        fill_on_surfaces(self.records, layers, rows, self.rounding, self.rng)
        return replace(unit, rows=np.array(rows.weights), known=np.array(rows.known))

    def _ask_around(self, X: Array) -> None:
        """Ask around some inputs at which (1) does not vanish."""
        box, count = self.records.box, STARTS * AROUND
        if len(X):
            starts = X[self.rng.integers(len(X), size=count)]
            moved = starts + 2.0 ** self.rng.uniform(*SIZES, (count, 1)) * box.draw(count, self.rng)
            self.records.ask(np.clip(moved, -box.room, box.room))

    def _sample(self, n_features: int) -> tuple[Array, Array]:
        """Typical inputs with their answers, which are asked first, and others that have been asked before."""
        box, count = self.records.box, PER_COEFFICIENT * n_features + MORE
        if self.X is None or self.Y is None or len(self.X) < count:
            X = box.snap(box.draw(count - (0 if self.X is None else len(self.X)), self.rng))
            if not box.has_box:
                X = box.snap(X * 2.0 ** self.rng.uniform(-1, 2, (len(X), 1)))
            Y = self.records.ask(X)
            self.X = X if self.X is None else np.concatenate([self.X, X])
            self.Y = Y if self.Y is None else np.concatenate([self.Y, Y])
        X, Y = self.records.all()
        near = self.rng.permutation(np.flatnonzero(_typical(X)))[: LOGGED * n_features]
        return np.concatenate([self.X, X[near]]), np.concatenate([self.Y, Y[near]])

    def _explain_most(self, layers: list[Layer], units: LastUnits) -> tuple[LastUnits, Array] | None:
        """Coefficients of (1), shape (features, m), that explain most answers exactly, and the units refined; or None."""
        units = self._measured(layers, units)
        k, p = units.rows.shape
        X, Y = self._sample(k + p + 1)
        H = pass_layers(layers, X)
        features = units.features(H)
        open_ones = np.flatnonzero(~units.known.all(axis=1) & (units.mostly == 0))
        beyond = (H @ units.rows.T + units.biases) * ((H > 0) @ ~units.known.T)
        linear = np.column_stack([features[:, k:], beyond[:, open_ones]])
        lengths = np.linalg.norm(linear, axis=0)
        lengths[lengths == 0] = 1.0
        found = []
        for y in (Y - features[:, :k] @ units.alphas).T:
            size = float(np.abs(y).max()) or 1.0
            rest = absolute_regression(linear / lengths, y / size)
            if rest is None:
                return None
            found.append(rest * size / lengths)
        parts = np.array(found).T
        coefficients = np.vstack([units.alphas, parts[: p + 1]])
        if open_ones.size:
            mostly = units.mostly.copy()
            mostly[open_ones] = np.sign((parts[p + 1 :] * units.alphas[open_ones]).sum(axis=1))
            units = replace(units, mostly=np.where(units.known.all(axis=1) | (mostly != 0), mostly, 1.0))
            features = units.features(H)
        sizes = np.abs(Y).max(axis=0)
        left = (np.abs(Y - features @ coefficients) / np.where(sizes > 0, sizes, 1.0)).max(axis=1)
        near = left <= min(ROUGHLY, CLEARLY * float(np.quantile(left, MOSTLY)) + np.finfo(float).eps)
        if near.sum() < max(MOSTLY * len(Y), features.shape[1]):
            return None
        explained = 0
        for _ in range(3):
            near |= ~self._differs(Y - units.features(H) @ coefficients, X, Y)
            moved = _refined(H, Y, units, coefficients, near)
            now = ~self._differs(Y - moved[0].features(H) @ moved[1], X, Y)
            if now.sum() <= explained:
                break
            (units, coefficients), near, explained = moved, now, int(now.sum())
        if explained < max(MOSTLY * len(Y), features.shape[1]):
            return None
        return units, coefficients

    def _measured(self, layers: list[Layer], units: LastUnits) -> LastUnits:
        """The units with the coefficients α that changes of slope across them show; without units that show none."""
        if np.isfinite(units.alphas).all():
            return units
        places, directions, halves, rates = _crossings(layers, units, self.records.box, self.rng)
        steps = halves[:, None] * np.array([-2.0, -1.0, 1.0, 2.0])
        rows = places[:, None, :] + steps[:, :, None] * directions[:, None, :]
        answers = self.records.ask(rows.reshape(-1, places.shape[1])).reshape(len(places), 4, -1)
        left, right = answers[:, 1] - answers[:, 0], answers[:, 3] - answers[:, 2]
        # The lines on both sides must meet at the place itself.
        gap = np.abs((answers[:, 2] - right) - (answers[:, 1] + left)).max(axis=1)
        jumps = (right - left) / (2 * halves * rates)[:, None]
        is_met = gap <= MEETS * np.abs(right - left).max(axis=1)
        alphas = units.alphas.copy()
        found, met = jumps.reshape(-1, PLACES, jumps.shape[1]), is_met.reshape(-1, PLACES)
        for unit in np.flatnonzero(met.any(axis=1) & np.isnan(alphas).any(axis=1)):
            alphas[unit] = np.median(found[unit][met[unit]], axis=0)
        units = replace(units, alphas=alphas)
        return units.select(np.asarray(np.isfinite(alphas).all(axis=1)))

    def _unexplained(self, layers: list[Layer], units: LastUnits, coefficients: Array) -> Array:
        """Some of all inputs that were asked at which (1) does not vanish, typical ones and those that are far off first."""
        X, Y = self.records.all()
        left = Y - units.features(pass_layers(layers, X)) @ coefficients
        differs = self._differs(left, X, Y)
        growth = 1 + np.linalg.norm(X, axis=1) / np.sqrt(X.shape[1])
        sizes = (np.abs(left) / np.median(np.abs(Y), axis=0)).max(axis=1) / growth
        X, sizes = X[differs], sizes[differs]
        near = _typical(X)
        if near.any():
            X, sizes = X[near], sizes[near]
        return self.rng.permutation(X[sizes >= LARGE * sizes.max(initial=0.0)])

    @staticmethod
    def _differs(left: Array, X: Array, Y: Array) -> BoolArray:
        """Where (1) does not vanish."""
        growth = 1 + np.linalg.norm(X, axis=1, keepdims=True) / np.sqrt(X.shape[1])
        spread = np.median(np.abs(Y - np.median(Y, axis=0)), axis=0)
        return np.asarray((np.abs(left) > VANISHES * np.where(spread > 0, spread, 1.0) * growth).any(axis=1))

    def _from_rest(self, layers: list[Layer], units: LastUnits, coefficients: Array) -> LastUnits | None:
        """A unit that is nearly always on, from the linear part that the others leave; None if there is none."""
        X, Y = self.records.all()
        H = pass_layers(layers, X)
        left = Y - units.features(H) @ coefficients
        return unit_always_on(units, coefficients, H, left, self._differs(left, X, Y) & _typical(X))

    def _fit_unit(
        self, layers: list[Layer], units: LastUnits, coefficients: Array, starts: Array
    ) -> LastUnits | None:
        """A unit, from answers around places where (1) does not vanish, with more units below on each time."""
        logged = self._fit_logged(layers, units, coefficients)
        if logged is not None:
            return logged
        found, where = PartialRows.none(), dict[int, tuple[Array, Array]]()
        on = pass_layers(layers, starts) > 0
        wanted = np.ones(on.shape[1], dtype=np.bool_)
        for _ in range(min(STARTS, len(starts))):
            chosen = int((on & wanted).sum(axis=1).argmax())
            part = self._fit_around(layers, units, coefficients, starts[chosen])
            on[chosen] = False
            if part is None:
                continue
            row, known, X, left = part
            number = found.merge(row[:-1], float(row[-1]), known)
            assert number is not None
            before = where.get(number, (np.zeros((0, X.shape[1])), np.zeros((0, left.shape[1]))))
            where[number] = np.concatenate([before[0], X]), np.concatenate([before[1], left])
            wanted = ~found.known[number]
            if not wanted.any() or not (on & wanted).any():
                break
        if not where:
            return None
        number = max(where, key=lambda number: int(found.known[number].sum()))
        row = np.append(found.weights[number], found.biases[number])
        return self._filled(layers, units, coefficients, row, found.known[number], where[number])

    def _fit_logged(self, layers: list[Layer], units: LastUnits, coefficients: Array) -> LastUnits | None:
        """A unit that explains what is left of most answers so far, or of most with the same sign; None if there is none."""
        X, Y = self.records.all()
        near = self.rng.permutation(np.flatnonzero(_typical(X)))
        X, Y = X[near], Y[near]
        H = pass_layers(layers, X)
        left = Y - units.features(H) @ coefficients
        differs = self._differs(left, X, Y)
        leading = left[:, int(np.abs(left).sum(axis=0).argmax())]
        for chosen in (differs, differs & (leading > 0), differs & (leading < 0)):
            most = SAMPLED * H.shape[1]
            rows = np.concatenate([np.flatnonzero(chosen)[:most], np.flatnonzero(~differs)[:most]])
            found = common_row(H[rows], left[rows], chosen[rows])
            if found is not None:
                own = rows[chosen[rows]]
                return self._filled(layers, units, coefficients, *found, (X[own], left[own]))
        return None

    def _filled(
        self,
        layers: list[Layer],
        units: LastUnits,
        coefficients: Array,
        row: Array,
        known: BoolArray,
        places: tuple[Array, Array],
    ) -> LastUnits | None:
        """The unit of a row with its bias; weights to units below that were not seen are looked for.

        `places`: at which the unit is on the side on which (1) does not vanish, with what is left there. At two places for
        each gap, at which the unit below is barely on, (1) is asked; together they are linear equations for the gaps. Where
        there is no such place, the gap remains.
        """
        whole, known = row.copy(), known.copy()
        X, left = places
        box = self.records.box
        H = pass_layers(layers, X)
        used = ~(H[:, ~known] > 0).any(axis=1)
        values = H[used] @ whole[:-1] + whole[-1]
        side, size = float(np.sign(np.median(values))), float(np.median(np.abs(values)))
        strengths = np.median(left[used] / values[:, None], axis=0)
        output = int(np.abs(strengths).argmax())
        if not used.any() or not strengths[output]:
            return None
        for _ in range(0 if known.all() else SWEEPS):
            gaps = np.flatnonzero(~known)
            sought = Sought(np.where(known, whole[:-1], 0.0) * side, whole[-1] * side, gaps)
            room = [1.0] if box.has_box else ROOMS
            found = [
                place
                for gap in gaps
                for height in HEIGHTS
                if (place := barely_on(layers, sought, int(gap), size=size, height=height, rooms=room))
                is not None
            ]
            if not found:
                break
            Z = box.snap(np.array(found))
            H = pass_layers(layers, Z)
            over = self.records.ask(Z) - units.features(H) @ coefficients
            rest = over[:, output] / strengths[output] - H[:, known] @ whole[:-1][known] - whole[-1]
            before = known.sum()
            known = solve_gaps(H[:, gaps], rest, whole, known, gaps)
            if known.all() or known.sum() == before:
                break
        norm = float(np.linalg.norm(whole[:-1]))
        return LastUnits(
            whole[None, :-1] / norm,
            whole[-1:] / norm,
            known[None],
            strengths[None] * side * norm / 2,
            np.array([-side]),
        )

    def _fit_around(
        self, layers: list[Layer], units: LastUnits, coefficients: Array, start: Array
    ) -> tuple[Array, BoolArray, Array, Array] | None:
        """A row with its bias, which of its weights were seen, where it is on, and what is left there."""
        box = self.records.box
        X, kept = start[None], np.ones(1, dtype=np.bool_)
        R = self.records.ask(X) - units.features(pass_layers(layers, X)) @ coefficients
        far = max(1.0, float(np.linalg.norm(start)) / np.sqrt(start.size) / 2)
        found: tuple[Array, BoolArray, Array, Array] | None = None
        for _ in range(ROUNDS):
            count = units.rows.shape[1] + 4
            sizes = far * 2.0 ** self.rng.uniform(*SIZES, (count, 1))
            around = X[kept][self.rng.integers(kept.sum(), size=count)] + sizes * box.draw(count, self.rng)
            around = box.snap(np.clip(around, -1, 1) if box.has_box else around)
            Y = self.records.ask(around)
            left = Y - units.features(pass_layers(layers, around)) @ coefficients
            differs = self._differs(left, around, Y)
            share = float(differs.mean())
            far *= NARROWER if share < FEW else 1 / NARROWER if share > 1 - FEW else 1.0
            X, R, kept = np.concatenate([X, around]), np.concatenate([R, left]), np.append(kept, differs)
            H = pass_layers(layers, X)
            common = common_row(H, R, kept)
            if common is not None:
                found = *common, X[kept], R[kept]
                if found[1].all():
                    break
        return found


def _crossings(
    layers: list[Layer], units: LastUnits, box: BlackBox, rng: np.random.Generator
) -> tuple[Array, Array, Array, Array]:
    """Places on the surfaces of known units away from all other known ones, `PLACES` for each; no questions.

    Returns places and directions, both of shape (PLACES k, d), how far on both sides nothing else that is known switches,
    and the derivative of the unit's pre-activation along the direction.
    """
    rows, biases = units.rows, units.biases
    ends = box.draw(2 * SEGMENTS, rng)
    if not box.has_box:
        ends *= 2.0 ** rng.uniform(-1, 3, (len(ends), 1))
    starts, ends = ends[:SEGMENTS], ends[SEGMENTS:]
    shares = np.linspace(0.02, 0.98, POINTS)
    X = starts[:, None] + shares[:, None] * (ends - starts)[:, None]
    codes = []
    H = X.reshape(-1, X.shape[2])
    for W, b in [*layers, (rows, biases)]:
        T = H @ W.T + b
        codes.append(T)
        H = np.maximum(T, 0.0)
    T = np.concatenate(codes, axis=1).reshape(SEGMENTS, POINTS, -1)
    changes = (T[:, 1:] > 0) != (T[:, :-1] > 0)
    alone = changes.sum(axis=2) == 1
    own = changes[:, :, -len(biases) :]
    # Steps of the grid in which one unit alone switches, and none in the steps beside.
    quiet = ~changes.any(axis=2)
    clear = alone.copy()
    clear[:, 1:] &= quiet[:, :-1]
    clear[:, :-1] &= quiet[:, 1:]
    lengths = np.linalg.norm(ends - starts, axis=1) * (shares[1] - shares[0])
    found = []
    for unit in range(len(biases)):
        where = np.argwhere(own[:, :, unit] & clear)
        if len(where) < PLACES:
            where = np.argwhere(own[:, :, unit])
        if not len(where):
            where = np.zeros((1, 2), dtype=np.intp)
        values = T[:, :, T.shape[2] - len(biases) + unit]
        for segment, step in where[rng.integers(len(where), size=PLACES)]:
            one, other = values[segment, step], values[segment, step + 1]
            share = one / (one - other) if one != other else 0.0
            place = X[segment, step] + share * (X[segment, step + 1] - X[segment, step])
            direction = (ends - starts)[segment] / np.linalg.norm((ends - starts)[segment])
            half = 0.3 * lengths[segment] * max(min(share, 1 - share), 0.05)
            found.append((place, direction, half, abs(other - one) / lengths[segment]))
    places, directions, halves, rates = (np.array(part) for part in zip(*found, strict=True))
    return places, directions, halves, np.where(rates == 0, 1.0, rates)


def _typical(X: Array) -> BoolArray:
    """Which inputs are not far out."""
    return np.asarray(np.linalg.norm(X, axis=1) <= FAR * np.sqrt(X.shape[1]))


def _refined(
    H: Array, Y: Array, units: LastUnits, coefficients: Array, near: BoolArray
) -> tuple[LastUnits, Array]:
    """One Gauss–Newton step of the units and coefficients of (1) on the answers that they explain nearly."""
    (k, p), m = units.rows.shape, Y.shape[1]
    count = k * (p + 1) + coefficients.size
    chosen = np.flatnonzero(near)[: REFINED * count // m + 1]
    H, Y = H[chosen], Y[chosen]
    features, signs = units.features(H), units.sides(H)
    inner = np.einsum("nk,np->nkp", signs, np.column_stack([H, np.ones(len(H))]))
    inner[:, :, :p] *= units.known
    blocks = np.einsum("nkp,km->nmkp", inner, coefficients[:k]).reshape(len(H) * m, -1)
    outer = np.kron(features, np.eye(m))
    J = np.hstack([blocks, outer])
    lengths = np.linalg.norm(J, axis=0)
    lengths[lengths == 0] = 1.0
    step = linalg.lstsq(
        J / lengths, (Y - features @ coefficients).ravel(), cond=SETTLED, lapack_driver="gelsy"
    )[0]
    step = step / lengths
    change = step[: k * (p + 1)].reshape(k, p + 1)
    moved = coefficients + step[k * (p + 1) :].reshape(coefficients.shape)
    rows, biases = units.rows + change[:, :p], units.biases + change[:, p]
    return replace(units, rows=rows, biases=biases, alphas=moved[:k]), moved
