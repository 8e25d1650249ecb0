r"""Units of the last hidden layer that no line has met, from what the others leave unexplained.

If some units of the last hidden layer are known, with pre-activations t_j = w_j h + b_j, then

.. math:: f - \sum_j \alpha_j |t_j| - L h - c                                                             \quad (1)

vanishes wherever the missing units are on the side on which they mostly are, for the right α, L and c: they are linear
there. Absolute regression, which most answers fit exactly, finds these coefficients. On the other side of one missing unit
(1) is a linear function of h that vanishes on its hyperplane. It is fitted to answers around a place where (1) does not
vanish.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from planted._typing import Array, BoolArray
from planted.identification.deep._layers import pass_layers
from planted.identification.deep._records import Records
from planted.identification.deep._regions import PartialRows
from planted.networks._deep import Layer

__all__ = ["MissingUnits"]

PER_COEFFICIENT, MORE = 3, 60  # typical answers for the regression
VANISHES = 1e-7  # of the spread of the answers
MOSTLY = 0.55  # of the answers must be explained
SURE = 0.9  # of the places around must be as a unit foretells
MOST_UNITS = 6  # that are added
FAR = 8.0  # typical inputs
STARTS = 6  # places around which a unit is fitted, at most
ROUNDS = 5  # of answers around a place
SEGMENTS, POINTS = 400, 60  # looked through for places where a unit below is barely on
ASKED = 5  # such places
GAP_ALIKE = 1e-3  # difference of what they say, relative to the largest weight
SWEEPS = 4
SIZES = (-5.0, 0.0)  # log2 of the distances from it, in typical inputs


@dataclass(slots=True)
class MissingUnits:
    """Typical answers, asked once, and the search for missing units."""

    records: Records
    rng: np.random.Generator
    X: Array | None = None
    Y: Array | None = None

    def complete(self, layers: list[Layer], planes: tuple[Array, Array]) -> tuple[Array, Array] | None:
        """Add units until the typical answers are explained; None if they cannot be."""
        rows, biases = planes
        for _ in range(MOST_UNITS):
            features = self._features(layers, rows, biases)
            coefficients = self._explain_most(features)
            if coefficients is None:
                return None
            starts = self._unexplained(layers, (rows, biases), coefficients)
            if not len(starts):
                return rows, biases
            found = self._fit_unit(layers, (rows, biases), coefficients, starts)
            if found is None:
                return None
            rows, biases = np.vstack([rows, found[:-1]]), np.append(biases, found[-1])
        return None

    def _features(self, layers: list[Layer], rows: Array, biases: Array) -> Array:
        """The features of (1) at the typical inputs; asks them first."""
        count = PER_COEFFICIENT * (len(biases) + rows.shape[1]) + MORE
        if self.X is None or self.Y is None or len(self.X) < count:
            box = self.records.box
            X = box.snap(box.draw(count - (0 if self.X is None else len(self.X)), self.rng))
            if not box.has_box:
                X = box.snap(X * 2.0 ** self.rng.uniform(-1, 2, (len(X), 1)))
            Y = self.records.ask(X)
            self.X = X if self.X is None else np.concatenate([self.X, X])
            self.Y = Y if self.Y is None else np.concatenate([self.Y, Y])
        return _features_at(layers, rows, biases, self.X)

    def _explain_most(self, features: Array) -> Array | None:
        """Coefficients of (1), shape (features, m), that explain most answers exactly; None if there are none."""
        assert self.X is not None and self.Y is not None
        found = []
        lengths = np.linalg.norm(features, axis=0)
        lengths[lengths == 0] = 1.0
        scaled = features / lengths
        for y in self.Y.T:
            size = float(np.abs(y).max()) or 1.0
            coefficients = _absolute_regression(scaled, y / size)
            if coefficients is None:
                return None
            near = np.abs(y / size - scaled @ coefficients) <= 1e-6
            for _ in range(2):
                if near.sum() < max(MOSTLY * len(y), features.shape[1]):
                    return None
                coefficients = np.linalg.lstsq(scaled[near], y[near] / size, rcond=1e-13)[0]
                near = np.abs(y / size - scaled @ coefficients) <= VANISHES
            found.append(coefficients * size / lengths)
        return np.array(found).T

    def _unexplained(self, layers: list[Layer], planes: tuple[Array, Array], coefficients: Array) -> Array:
        """Some of all inputs that were asked at which (1) does not vanish, typical ones first."""
        X, Y = self.records.all()
        off = X[self._differs(Y - _features_at(layers, *planes, X) @ coefficients, X, Y)]
        far = np.linalg.norm(off, axis=1) > FAR * np.sqrt(X.shape[1])
        return self.rng.permutation(off[~far] if not far.all() else off)

    @staticmethod
    def _differs(left: Array, X: Array, Y: Array) -> BoolArray:
        """Where (1) does not vanish."""
        growth = 1 + np.linalg.norm(X, axis=1, keepdims=True) / np.sqrt(X.shape[1])
        spread = np.abs(Y - np.median(Y, axis=0)).max(axis=0)
        return np.asarray((np.abs(left) > VANISHES * np.where(spread > 0, spread, 1.0) * growth).any(axis=1))

    def _fit_unit(
        self, layers: list[Layer], planes: tuple[Array, Array], coefficients: Array, starts: Array
    ) -> Array | None:
        """A row with its bias, from answers around places where (1) does not vanish, with more units below on each time."""
        found, where = PartialRows.none(), dict[int, Array]()
        on = pass_layers(layers, starts) > 0
        wanted = np.ones(on.shape[1], dtype=np.bool_)
        for _ in range(min(STARTS, len(starts))):
            chosen = int((on & wanted).sum(axis=1).argmax())
            row = self._fit_around(layers, planes, coefficients, starts[chosen])
            on[chosen] = False
            if row is None:
                continue
            number = found.merge(row[0][:-1], float(row[0][-1]), row[1])
            assert number is not None
            where[number] = np.concatenate([where[number], row[2]]) if number in where else row[2]
            wanted = ~found.known[number]
            if not (on & wanted).any():
                break
        if not where:
            return None
        best = max(where, key=lambda number: int(found.known[number].sum()))
        whole = np.append(found.weights[best], found.biases[best])
        self._fill_gaps(layers, planes, coefficients, (whole, found.known[best], where[best]))
        return np.asarray(whole / np.linalg.norm(whole[:-1]))

    def _fill_gaps(
        self,
        layers: list[Layer],
        planes: tuple[Array, Array],
        coefficients: Array,
        row: tuple[Array, BoolArray, Array],
    ) -> None:
        """Fill the gaps of a row one after the other; each makes more places known at which the unit is on."""
        whole, known, X = row
        for _ in range(0 if known.all() else SWEEPS):
            before = known.sum()
            for gap in np.flatnonzero(~known):
                known = self._fill_gap(layers, planes, coefficients, (whole, known, X), int(gap))
            if known.all():
                return
            around = X[self.rng.integers(len(X), size=4 * SEGMENTS)]
            around = around + 2.0 ** self.rng.uniform(-4, 2, (len(around), 1)) * self.records.box.draw(
                len(around), self.rng
            )
            around = np.clip(around, -self.records.box.room, self.records.box.room)
            H, H_on = pass_layers(layers, around), pass_layers(layers, X)
            side = np.sign(np.median(H_on[:, known] @ whole[:-1][known] + whole[-1]))
            is_on = side * (H[:, known] @ whole[:-1][known] + whole[-1]) > 0
            fresh = around[is_on & ~(H[:, ~known] > 0).any(axis=1)]
            if known.sum() == before and not len(fresh):
                return
            X = np.concatenate([X, fresh])

    def _fill_gap(
        self,
        layers: list[Layer],
        planes: tuple[Array, Array],
        coefficients: Array,
        row: tuple[Array, BoolArray, Array],
        gap: int,
    ) -> BoolArray:
        """Write the weight to a unit below into a row, from places where that unit is barely on; which are known then.

        The row comes with what is known of it and with places at which the unit is on. Segments that leave them are looked
        through without questions.
        """
        whole, known, X = row
        box = self.records.box
        starts = X[self.rng.integers(len(X), size=SEGMENTS)]
        ends = starts + 2.0 ** self.rng.uniform(-4, 2, (SEGMENTS, 1)) * box.draw(SEGMENTS, self.rng)
        shares = self.rng.uniform(0, 1, (SEGMENTS, POINTS, 1)) ** 2
        places = (starts[:, None] + shares * (ends - starts)[:, None]).reshape(-1, X.shape[1])
        places = box.snap(np.clip(places, -box.room, box.room))
        H = pass_layers(layers, places)
        values = H[:, known] @ whole[:-1][known] + whole[-1]
        side = np.sign(np.median(pass_layers(layers, X)[:, known] @ whole[:-1][known] + whole[-1]))
        others = ~known & (np.arange(len(known)) != gap)
        usable = (H[:, gap] > 0) & ~(H[:, others] > 0).any(axis=1) & (side * values > 0)
        ratios = np.where(usable, H[:, gap] / np.where(usable, side * values, 1.0), np.inf)
        chosen = np.argsort(ratios)[:ASKED]
        chosen = chosen[np.isfinite(ratios[chosen])]
        if not chosen.size:
            return known
        near = X[self.rng.integers(len(X), size=ASKED)]
        Z = np.concatenate([near, places[chosen]])
        left = self.records.ask(Z) - _features_at(layers, *planes, Z) @ coefficients
        at = pass_layers(layers, near)[:, known] @ whole[:-1][known] + whole[-1]
        strengths = left[:ASKED].T @ at / (at @ at)
        place = int(np.abs(strengths).argmax())
        seen = np.abs(left[ASKED:, place]) > 1e-9 * np.abs(left).max()
        weights = (left[ASKED:, place] / strengths[place] - values[chosen])[seen] / H[chosen, gap][seen]
        size = GAP_ALIKE * float(np.abs(whole[:-1]).max())
        if weights.size >= 3 and np.ptp(weights) <= size:
            whole[gap] = np.median(weights)
            return np.asarray(known | (np.arange(len(known)) == gap))
        return known

    def _fit_around(
        self, layers: list[Layer], planes: tuple[Array, Array], coefficients: Array, start: Array
    ) -> tuple[Array, BoolArray, Array] | None:
        """A row with its bias, which of its weights were seen, and where it is on, from answers around a place."""
        box = self.records.box
        X, R = start[None], np.zeros((0, coefficients.shape[1]))
        kept = np.ones(1, dtype=np.bool_)
        found: tuple[Array, BoolArray, Array] | None = None
        for number in range(ROUNDS):
            count = planes[0].shape[1] + 4
            sizes = 2.0 ** self.rng.uniform(SIZES[0], SIZES[1] - ROUNDS + 2 + number, (count, 1))
            around = X[kept][self.rng.integers(kept.sum(), size=count)] + sizes * box.draw(count, self.rng)
            around = box.snap(np.clip(around, -1, 1) if box.has_box else around)
            Y = self.records.ask(around)
            left = Y - _features_at(layers, *planes, around) @ coefficients
            differs = self._differs(left, around, Y)
            if len(R):
                around, left = np.concatenate([X, around]), np.concatenate([R, left])
                differs = np.append(kept, differs)
            X, R, kept = around, left, differs
            if not kept.any():
                break
            H = pass_layers(layers, X)
            row = _common_row(H, R, kept)
            if row is not None:
                found = row, np.asarray((H[kept] > 0).any(axis=0)), X[kept]
                if found[1].all():
                    break
        return found


def _features_at(layers: list[Layer], rows: Array, biases: Array, X: Array) -> Array:
    """The features of (1)."""
    H = pass_layers(layers, X)
    return np.column_stack([np.abs(H @ rows.T + biases), H, np.ones(len(H))])


def _absolute_regression(features: Array, y: Array) -> Array | None:
    """Minimise the sum of absolute residuals by a linear program."""
    n, p = features.shape
    system = np.hstack([features, np.eye(n), -np.eye(n)])
    cost = np.concatenate([np.zeros(p), np.ones(2 * n)])
    bounds = [(None, None)] * p + [(0, None)] * (2 * n)
    found = linprog(cost, A_eq=system, b_eq=y, bounds=bounds)
    return np.asarray(found.x[:p]) if found.status == 0 else None


def _common_row(H: Array, R: Array, kept: BoolArray) -> Array | None:
    """The row (w, b) with unit w of a unit that explains what is left at most places; None if there is none.

    What is left must be a multiple of w h + b on one side of the unit, where it does not vanish (`kept`), and vanish on the
    other side. Shapes: H (n, k), R (n, m), kept (n,).
    """
    seen = np.append((H[kept] > 0).any(axis=0), True)
    design = np.column_stack([H, np.ones(len(H))])[:, seen]
    if kept.sum() < design.shape[1] + 3:
        return None
    lengths = np.linalg.norm(design[kept], axis=0)
    place = int(np.abs(R).max(axis=0).argmax())
    size = float(np.abs(R[:, place]).max())
    found = _absolute_regression(design[kept] / lengths, R[kept, place] / size)
    if found is None:
        return None
    near = np.flatnonzero(kept)[np.abs(design[kept] / lengths @ found - R[kept, place] / size) <= 1e-6]
    if near.size < max(MOSTLY * kept.sum(), design.shape[1] + 3):
        return None
    rows, _, rank, _ = np.linalg.lstsq(design[near] / lengths, R[near], rcond=1e-10)
    if rank < design.shape[1]:
        return None
    left, sizes, _ = np.linalg.svd(rows / lengths[:, None], full_matrices=False)
    if (sizes[1:] > 1e-5 * sizes[0]).any():
        return None
    values = (design / lengths) @ rows[:, place]
    side = np.sign(np.median(values[near]))
    foretold = side * np.maximum(side * values, 0.0)
    covered = ~(H[:, ~seen[:-1]] > 0).any(axis=1)
    if (np.abs(foretold - R[:, place])[covered] <= 1e-5 * size).mean() < SURE:
        return None
    row = np.zeros(seen.size)
    row[seen] = left[:, 0]
    norm = float(np.linalg.norm(row[:-1]))
    return row / norm if norm > 0 else None
