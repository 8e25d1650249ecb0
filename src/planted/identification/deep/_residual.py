r"""Units of the last hidden layer that no line has met, from what the others leave unexplained.

If some units of the last hidden layer are known, with pre-activations t_j = w_j h + b_j, then

.. math:: f - \sum_j \alpha_j |t_j| - L h - c                                                             \quad (1)

vanishes wherever the missing units are on the side on which they mostly are, for the right α, L and c: they are linear
there. Absolute regression, which most answers fit exactly, finds these coefficients, and Gauss–Newton steps on the answers
that it explains restore the digits of the known units. On the other side of one missing unit (1) is a linear function of h
that vanishes on its hyperplane. It is fitted to answers around a place where (1) does not vanish. Weights to units below
that are off there are read at places where these are on: a mixed-integer program finds such places without questions
(`_patterns`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.optimize import linprog

from planted._typing import Array, BoolArray, IntArray
from planted.identification.deep._layers import pass_layers
from planted.identification.deep._patterns import Sought, barely_on
from planted.identification.deep._regions import PartialRows
from planted.identification.deep._space import Records
from planted.identification.two_layer._search import BlackBox
from planted.networks._deep import Layer

__all__ = ["MissingUnits"]

PER_COEFFICIENT, MORE = 3, 60  # typical answers for the regression
LOGGED = 9  # for each coefficient: answers that have been asked before and take part
ROUGHLY = 1e-5  # of the largest answer: what is explained before the known units are refined
CLEARLY = 30.0  # times what the answers that are explained leave over: what is not
SEGMENTS, POINTS = 300, 400  # looked through for places where one known unit alone switches
TWICE = 2  # such places for each unit
MEETS = 1e-3  # of the change of slope: how far lines on both sides may miss each other
SETTLED = 1e-7  # relative singular value of a direction in which that refinement moves
REFINED = 6  # rows for each parameter of that refinement, at most
VANISHES = 1e-7  # of the spread of the answers
MOSTLY = 0.55  # of the answers must be explained
SURE = 0.9  # of the places around must be as a unit foretells
MOST_UNITS = 6  # that are added
FAR = 8.0  # typical inputs
SAMPLED = 12  # answers that have been asked, for each unit below
STARTS = 6  # places around which a unit is fitted, at most
ROUNDS = 5  # of answers around a place
GAP_ALIKE = 1e-4  # difference of what two places say of a weight, relative to the largest weight
SWEEPS = 3
ROOMS = [20.0, 400.0]  # typical inputs: how far out places are looked for
HEIGHTS = (0.05, 0.02)  # of a unit below that is barely on, relative to what is known of the unit above
SIZES = (-5.0, 1.0)  # log2 of the distances from it, in typical inputs


@dataclass(slots=True)
class MissingUnits:
    """Typical answers, asked once, and the search for missing units."""

    records: Records
    rng: np.random.Generator
    X: Array | None = None
    Y: Array | None = None

    def complete(self, layers: list[Layer], planes: tuple[Array, Array]) -> tuple[Array, Array] | None:
        """Add units until all answers are explained; None if they cannot be."""
        for _ in range(MOST_UNITS):
            explained = self._explain_most(layers, planes)
            if explained is None:
                return None
            planes, coefficients = explained
            starts = self._unexplained(layers, planes, coefficients)
            if not len(starts):
                return planes
            found = self._fit_unit(layers, planes, coefficients, starts)
            if found is None:
                return None
            planes = np.vstack([planes[0], found[:-1]]), np.append(planes[1], found[-1])
        return None

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

    def _explain_most(
        self, layers: list[Layer], planes: tuple[Array, Array]
    ) -> tuple[tuple[Array, Array], Array] | None:
        """Coefficients of (1), shape (features, m), that explain most answers exactly, and the units refined; or None."""
        kept, alphas = self._strengths(layers, planes)
        planes = planes[0][kept], planes[1][kept]
        k, p = planes[0].shape
        X, Y = self._sample(k + p + 1)
        features = _features_at(layers, *planes, X)
        linear = features[:, k:]
        lengths = np.linalg.norm(linear, axis=0)
        lengths[lengths == 0] = 1.0
        found = []
        for y in (Y - features[:, :k] @ alphas).T:
            size = float(np.abs(y).max()) or 1.0
            rest = _absolute_regression(linear / lengths, y / size)
            if rest is None:
                return None
            found.append(rest * size / lengths)
        coefficients = np.vstack([alphas, np.array(found).T])
        sizes = np.abs(Y).max(axis=0)
        left = (np.abs(Y - features @ coefficients) / np.where(sizes > 0, sizes, 1.0)).max(axis=1)
        near = left <= min(ROUGHLY, CLEARLY * float(np.quantile(left, MOSTLY)) + np.finfo(float).eps)
        if near.sum() < max(MOSTLY * len(Y), features.shape[1]):
            return None
        H = pass_layers(layers, X)
        explained = 0
        for _ in range(3):
            left = Y - _features_of(H, *planes) @ coefficients
            near |= ~self._differs(left, X, Y)
            moved = _refined(H, Y, planes, coefficients, near)
            left = Y - _features_of(H, *moved[0]) @ moved[1]
            now = ~self._differs(left, X, Y)
            if now.sum() <= explained:
                break
            (planes, coefficients), near, explained = moved, now, int(now.sum())
        if explained < max(MOSTLY * len(Y), features.shape[1]):
            return None
        return planes, coefficients

    def _strengths(self, layers: list[Layer], planes: tuple[Array, Array]) -> tuple[BoolArray, Array]:
        """The coefficients α of known units, from the changes of slope across them: which have one, and shape (kept, m)."""
        places, directions, halves, rates = _crossings(layers, planes, self.records.box, self.rng)
        steps = halves[:, None] * np.array([-2.0, -1.0, 1.0, 2.0])
        rows = places[:, None, :] + steps[:, :, None] * directions[:, None, :]
        answers = self.records.ask(rows.reshape(-1, places.shape[1])).reshape(len(places), 4, -1)
        left, right = answers[:, 1] - answers[:, 0], answers[:, 3] - answers[:, 2]
        # The lines on both sides must meet at the place itself.
        gap = np.abs((answers[:, 2] - right) - (answers[:, 1] + left)).max(axis=1)
        jumps = (right - left) / (2 * halves * rates)[:, None]
        is_met = gap <= MEETS * np.abs(right - left).max(axis=1)
        found = jumps.reshape(-1, TWICE, jumps.shape[1])
        met = is_met.reshape(-1, TWICE)
        alphas = np.array(
            [part[good][0] if good.any() else part[0] for part, good in zip(found, met, strict=True)]
        )
        return met.any(axis=1), alphas[met.any(axis=1)]

    def _unexplained(self, layers: list[Layer], planes: tuple[Array, Array], coefficients: Array) -> Array:
        """Some of all inputs that were asked at which (1) does not vanish, typical ones first."""
        X, Y = self.records.all()
        off = X[self._differs(Y - _features_at(layers, *planes, X) @ coefficients, X, Y)]
        near = _typical(off)
        return self.rng.permutation(off[near] if near.any() else off)

    @staticmethod
    def _differs(left: Array, X: Array, Y: Array) -> BoolArray:
        """Where (1) does not vanish."""
        growth = 1 + np.linalg.norm(X, axis=1, keepdims=True) / np.sqrt(X.shape[1])
        spread = np.median(np.abs(Y - np.median(Y, axis=0)), axis=0)
        return np.asarray((np.abs(left) > VANISHES * np.where(spread > 0, spread, 1.0) * growth).any(axis=1))

    def _fit_unit(
        self, layers: list[Layer], planes: tuple[Array, Array], coefficients: Array, starts: Array
    ) -> Array | None:
        """A row with its bias, from answers around places where (1) does not vanish, with more units below on each time."""
        whole = self._fit_logged(layers, planes, coefficients)
        if whole is not None:
            return whole
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
            if not wanted.any() or not (on & wanted).any():
                break
        for number in sorted(where, key=lambda number: -int(found.known[number].sum())):
            whole = np.append(found.weights[number], found.biases[number])
            row = whole, found.known[number], where[number]
            if self._fill_gaps(layers, planes, coefficients, row):
                return np.asarray(whole / np.linalg.norm(whole[:-1]))
        return None

    def _fit_logged(
        self, layers: list[Layer], planes: tuple[Array, Array], coefficients: Array
    ) -> Array | None:
        """A row with its bias that explains what is left of most answers so far, or of most with the same sign; or None."""
        X, Y = self.records.all()
        near = self.rng.permutation(np.flatnonzero(_typical(X)))
        X, Y = X[near], Y[near]
        H = pass_layers(layers, X)
        left = Y - _features_of(H, *planes) @ coefficients
        differs = self._differs(left, X, Y)
        leading = left[:, int(np.abs(left).sum(axis=0).argmax())]
        for chosen in (differs, differs & (leading > 0), differs & (leading < 0)):
            most = SAMPLED * H.shape[1]
            rows = np.concatenate([np.flatnonzero(chosen)[:most], np.flatnonzero(~differs)[:most]])
            row = _common_row(H[rows], left[rows], chosen[rows])
            if row is not None:
                seen = np.asarray((H[rows][chosen[rows]] > 0).any(axis=0))
                if self._fill_gaps(layers, planes, coefficients, (row, seen, X[rows][chosen[rows]])):
                    return np.asarray(row / np.linalg.norm(row[:-1]))
        return None

    def _fill_gaps(
        self,
        layers: list[Layer],
        planes: tuple[Array, Array],
        coefficients: Array,
        row: tuple[Array, BoolArray, Array],
    ) -> bool:
        """Write the weights to units below that were not seen into a row; whether all are known then.

        The row comes with what is known of it and with places at which the unit is on. At two places for each gap, at which
        the unit below is barely on, (1) is asked; together they are linear equations for the gaps.
        """
        whole, known, X = row
        box = self.records.box
        for _ in range(0 if known.all() else SWEEPS):
            gaps = np.flatnonzero(~known)
            H = pass_layers(layers, X)
            values = H[:, known] @ whole[:-1][known] + whole[-1]
            side, size = float(np.sign(np.median(values))), float(np.median(np.abs(values)))
            sought = Sought(np.where(known, whole[:-1], 0.0) * side, whole[-1] * side, gaps)
            room = [1.0] if box.has_box else ROOMS
            places = [
                place
                for gap in gaps
                for height in HEIGHTS
                if (place := barely_on(layers, sought, int(gap), size=size, height=height, rooms=room))
                is not None
            ]
            if not places:
                return False
            near = X[self.rng.integers(len(X), size=3)]
            Z = box.snap(np.concatenate([near, np.array(places)]))
            left = self.records.ask(Z) - _features_at(layers, *planes, Z) @ coefficients
            H = pass_layers(layers, Z)
            values = H[:, known] @ whole[:-1][known] + whole[-1]
            strengths = left[:3].T @ values[:3] / (values[:3] @ values[:3])
            output = int(np.abs(strengths).argmax())
            before = known.sum()
            rest = left[3:, output] / strengths[output] - values[3:]
            known = _solve_gaps(H[3:, gaps], rest, whole, known, gaps)
            if known.all():
                return True
            if known.sum() == before:
                return False
        return bool(known.all())

    def _fit_around(
        self, layers: list[Layer], planes: tuple[Array, Array], coefficients: Array, start: Array
    ) -> tuple[Array, BoolArray, Array] | None:
        """A row with its bias, which of its weights were seen, and where it is on, from answers around a place."""
        box = self.records.box
        X, R = start[None], np.zeros((0, coefficients.shape[1]))
        kept = np.ones(1, dtype=np.bool_)
        far = max(1.0, float(np.linalg.norm(start)) / np.sqrt(start.size) / 2)
        found: tuple[Array, BoolArray, Array] | None = None
        for number in range(ROUNDS):
            count = planes[0].shape[1] + 4
            sizes = far * 2.0 ** self.rng.uniform(SIZES[0], SIZES[1] - ROUNDS + 2 + number, (count, 1))
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


def _crossings(
    layers: list[Layer], planes: tuple[Array, Array], box: BlackBox, rng: np.random.Generator
) -> tuple[Array, Array, Array, Array]:
    """Places on the surfaces of known units away from all other known ones, `TWICE` for each; no questions.

    Returns places and directions, both of shape (TWICE k, d), how far on both sides nothing else that is known switches, and
    the derivative of the unit's pre-activation along the direction.
    """
    rows, biases = planes
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
        if len(where) < TWICE:
            where = np.argwhere(own[:, :, unit])
        if not len(where):
            where = np.zeros((1, 2), dtype=np.intp)
        values = T[:, :, T.shape[2] - len(biases) + unit]
        for segment, step in where[rng.integers(len(where), size=TWICE)]:
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


def _features_at(layers: list[Layer], rows: Array, biases: Array, X: Array) -> Array:
    """The features of (1) at some inputs."""
    return _features_of(pass_layers(layers, X), rows, biases)


def _features_of(H: Array, rows: Array, biases: Array) -> Array:
    """The features of (1)."""
    return np.column_stack([np.abs(H @ rows.T + biases), H, np.ones(len(H))])


def _refined(
    H: Array, Y: Array, planes: tuple[Array, Array], coefficients: Array, near: BoolArray
) -> tuple[tuple[Array, Array], Array]:
    """One Gauss–Newton step of the units and coefficients of (1) on the answers that they explain nearly."""
    rows, biases = planes
    (k, p), m = rows.shape, Y.shape[1]
    count = k * (p + 1) + coefficients.size
    chosen = np.flatnonzero(near)[: REFINED * count // m + 1]
    H, Y = H[chosen], Y[chosen]
    features = _features_of(H, rows, biases)
    signs = np.sign(H @ rows.T + biases)
    inner = np.einsum("nk,np->nkp", signs, np.column_stack([H, np.ones(len(H))]))
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
    moved = rows + change[:, :p], biases + change[:, p]
    return moved, coefficients + step[k * (p + 1) :].reshape(coefficients.shape)


def _solve_gaps(A: Array, y: Array, whole: Array, known: BoolArray, gaps: IntArray) -> BoolArray:
    """Solve ``A w = y`` for the weights of gaps and write those that are determined into a row; which are known then."""
    known = known.copy()
    used = (A > 0).any(axis=0)
    A, gaps = A[:, used], gaps[used]
    if not gaps.size or len(y) < gaps.size + 1:
        return known
    lengths = np.linalg.norm(A, axis=0)
    values, rows = np.linalg.svd(A / lengths, full_matrices=False)[1:]
    rank = int((values > 1e-6 * values[0]).sum())
    settled = np.linalg.norm(rows[:rank], axis=0) > 1 - 1e-9
    found = np.linalg.lstsq(A / lengths, y, rcond=1e-6)[0] / lengths
    largest = max(float(np.abs(whole[:-1]).max()), float(np.abs(found).max()))
    off = np.abs(A @ found - y) / A.max(axis=1)
    if (off > GAP_ALIKE * largest).any():
        return known
    whole[gaps[settled]] = found[settled]
    known[gaps[settled]] = True
    return known


def _absolute_regression(features: Array, y: Array) -> Array | None:
    """Minimise the sum of absolute residuals: the multipliers of ``max y λ, features' λ = 0, |λ| <= 1``."""
    found = linprog(-y, A_eq=features.T, b_eq=np.zeros(features.shape[1]), bounds=[(-1.0, 1.0)] * len(y))
    return -np.asarray(found.eqlin.marginals) if found.status == 0 else None


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
