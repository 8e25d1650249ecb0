r"""Weights of the last hidden layer that no break has shown, from answers where they have an effect.

Where every unit below whose weights have gaps is off, the units of the last hidden layer are known: least squares on such
answers gives the output layer and the orientation (`_top`). Where one such unit i below is on, and no other,

.. math:: f - c - \sum_{j \text{ known}} a_j σ(w_j h + b_j) = \sum_{j \text{ gap}} a_j σ(t_j + w_{ji} h_i)         \quad (1)

with t_j what is known of unit j. The units of a set S that are on make (1) a linear equation for their weights. Answers in
which the same units are on have a common solution, which a few of them show and the others confirm; smaller sets are tried
first. Where the right-hand side vanishes the unit is off, and the answer says nothing. Few answers need be asked for this,
and the digits of the weights are as good as those of the answers.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from planted._typing import Array, BoolArray
from planted.identification.deep._layers import pass_layers
from planted.identification.deep._patterns import corner_places
from planted.identification.deep._regions import PartialRows
from planted.identification.deep._space import Records
from planted.identification.deep._top import fit_top
from planted.networks._deep import Layer

__all__ = ["ask_beside_gaps", "filled_from_answers"]

OFF = 1e-8  # of the spread of the answers: what vanishes
CONFIRMED = 3  # answers more than there are unknowns
MOST_ROWS = 300  # answers for one column
TRIALS = 60  # small samples of answers for each set of units
MOST_GAPS = 4  # in one column
WANTED = 6  # answers for each gap
POOL, CORNERS = 20_000, 300  # places looked through for answers to ask, drawn and at corners


def filled_from_answers(
    answers: tuple[Array, Array], layers: list[Layer], rows: PartialRows, rng: np.random.Generator
) -> PartialRows:
    """Return the units with the gaps filled that answers so far settle."""
    Z, Y = answers
    H = pass_layers(layers, Z)
    W, b = rows.arrays()
    known = np.array(rows.known)
    is_open = ~known.all(axis=0)
    unaffected = ~(H[:, is_open] > 0).any(axis=1)
    top = fit_top((Z[unaffected], Y[unaffected]), layers, (W, b), known) if unaffected.any() else None
    if top is None or top.passing or not top.is_unique:
        return rows
    (W, b), (A, c) = top.layer, top.output
    growth = 1.0 + np.linalg.norm(Z, axis=1) / np.sqrt(Z.shape[1])
    slack = OFF * float(np.median(np.abs(Y - np.median(Y, axis=0)), axis=0).max()) * growth
    while is_open.any():
        column = min(np.flatnonzero(is_open), key=lambda i: int((~known[:, i]).sum()))
        is_open[column] = False
        gaps = np.flatnonzero(~known[:, column])
        used = np.flatnonzero((H[:, column] > 0) & ~(H[:, is_open] > 0).any(axis=1))
        used = rng.permutation(used)[:MOST_ROWS]
        T = H[used] @ W.T + b
        others = np.setdiff1d(np.arange(len(b)), gaps)
        left = Y[used] - c - np.maximum(T[:, others], 0.0) @ A[:, others].T
        found = _solve_column(left, T[:, gaps], H[used, column], A[:, gaps], slack[used], rng)
        W[gaps, column] = np.where(np.isfinite(found), found, 0.0)
        known[gaps, column] = np.isfinite(found)
        if not np.isfinite(found).all():
            break  # what is read from answers beyond this column would be wrong
    return PartialRows(list(W), list(b), list(known), list(np.zeros(len(b))), list(np.zeros(len(b))))


def _solve_column(left: Array, T: Array, h: Array, A: Array, slack: Array, rng: np.random.Generator) -> Array:
    """Solve (1) for the weights of one column; NaN where they are not settled.

    Shapes: left (n, m), T (n, g), h (n,), A (m, g), slack (n,), result (g,).
    """
    g = T.shape[1]
    found = np.full(g, np.nan)
    left = left.copy()
    while g <= MOST_GAPS:
        open_ones = np.flatnonzero(np.isnan(found))
        active = np.flatnonzero(np.abs(left).max(axis=1) > slack)
        sets = (
            np.array(units)
            for size in range(1, open_ones.size + 1)
            for units in combinations(open_ones, size)
        )
        common = (_common_weights(left, T, h, A, slack, active, units, rng) for units in sets)
        units, weights = next((each for each in common if each is not None), (None, None))
        if units is None or weights is None:
            return found
        found[units] = weights
        left -= np.maximum(T[:, units] + h[:, None] * weights, 0.0) @ A[:, units].T
    return found


def _common_weights(
    left: Array,
    T: Array,
    h: Array,
    A: Array,
    slack: Array,
    active: Array,
    units: Array,
    rng: np.random.Generator,
) -> tuple[Array, Array] | None:
    """The weights of a set of units that explain several of the answers which are not yet explained; None if none do."""
    size, m = units.size, len(A)
    need = -(-size // m)
    if active.size < need + CONFIRMED:
        return None
    # Equations of answer n: sum over the units of a_j h w_j = what is left - a_j t_j.
    system = h[active, None, None] * A[None, :, units]  # (n, m, s)
    ends = left[active] - T[active][:, units] @ A[:, units].T
    for _ in range(TRIALS):
        few = rng.choice(active.size, need, replace=False)
        weights = np.linalg.lstsq(system[few].reshape(-1, size), ends[few].ravel(), rcond=1e-9)[0]
        agree = _agree(system, ends, weights, slack[active]) & (
            T[active][:, units] + h[active, None] * weights > 0
        ).all(axis=1)
        if agree.sum() < need + CONFIRMED or _are_alike(T[active][agree][:, units], h[active][agree]):
            continue
        weights, _, rank, _ = np.linalg.lstsq(
            system[agree].reshape(-1, size), ends[agree].ravel(), rcond=1e-9
        )
        if rank == size:
            return units, weights
    return None


def _agree(system: Array, ends: Array, weights: Array, slack: Array) -> BoolArray:
    return np.asarray(np.abs(system @ weights - ends).max(axis=1) <= slack)


def _are_alike(T: Array, h: Array) -> bool:
    """Whether answers are so close to each other that weights of other units would explain them as well."""
    shares = T / h[:, None]
    return bool((np.ptp(shares, axis=0) <= 1e-3 * np.abs(shares).max(axis=0)).any())


def ask_beside_gaps(
    records: Records, layers: list[Layer], rows: PartialRows, rng: np.random.Generator
) -> bool:
    """Ask at places at which one unit below with gaps is on, and no other such; whether there were any."""
    box = records.box
    X = box.draw(POOL, rng)
    if not box.has_box:
        X *= 2.0 ** rng.uniform(-1, 3, (POOL, 1))
    X = box.snap(np.concatenate([X, corner_places(layers, box, CORNERS, rng)]))
    known = np.array(rows.known)
    H, asked = pass_layers(layers, X), pass_layers(layers, records.all()[0])
    is_open = ~known.all(axis=0)
    wanted: list[Array] = []
    for column in sorted(np.flatnonzero(is_open), key=lambda i: int((~known[:, i]).sum())):
        is_open[column] = False
        need = WANTED * int((~known[:, column]).sum())
        have = ((asked[:, column] > 0) & ~(asked[:, is_open] > 0).any(axis=1)).sum()
        beside = np.flatnonzero((H[:, column] > 0) & ~(H[:, is_open] > 0).any(axis=1))
        wanted.append(X[rng.permutation(beside)[: max(0, need - have // 4)]])
    chosen = np.concatenate(wanted) if wanted else X[:0]
    if len(chosen):
        records.ask(chosen)
    return bool(len(chosen))
