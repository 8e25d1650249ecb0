r"""Weights of the last hidden layer that no break has shown, from answers where they have an effect.

Where every unit below whose weights have gaps is off, the units of the last hidden layer are known: least squares on such
answers gives the output layer and the orientation (`_top`). Where one such unit i below is on, and no other,

.. math:: f - c - \sum_{j \text{ known}} a_j σ(w_j h + b_j) = \sum_{j \text{ gap}} a_j σ(t_j + w_{ji} h_i)         \quad (1)

with t_j what is known of unit j. Where unit i is barely on, t_j says which of the units j are on, and (1) is a linear
equation for their weights. Least squares on the answers where the smallest |t_j| is largest beside h_i comes first, and with
its weights more answers follow. Nearly all must agree in the end. Few answers need be asked for this.

A unit j may be on beyond the gap only where t_j < 0, in few answers. Each of those gives its weight by itself; where several
agree, they are where least squares begins.
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array, IntArray
from planted.identification.deep._layers import pass_layers
from planted.identification.deep._patterns import corner_places
from planted.identification.deep._regions import PartialRows
from planted.identification.deep._space import Records
from planted.identification.deep._top import fit_top
from planted.identification.two_layer._search import BlackBox
from planted.networks._deep import Layer

__all__ = ["ask_beside_gaps", "filled_from_answers"]

OFF, WORSE = 1e-6, 1e3  # of the spread of the answers, and of what the known units leave over: what agrees
SURE = 0.9  # of the answers must agree
MOST_ROWS = 600  # answers for one column
BARELY = 1e-3  # of the median of a unit below: where its weights are lost in rounding
FIRST = 6  # answers for each gap that come first
CONFIRMED = 3  # answers in which a unit must be on: one at its switch would agree with any that is off
TURNS = 4  # of least squares with the same answers
WANTED = 6  # answers for each gap that are asked
POOL, CORNERS = 20_000, 300  # places looked through for answers to ask, drawn and at corners
NEAREST, AROUND = 20, 20  # others: around so many that were asked, so many each


def filled_from_answers(
    answers: tuple[Array, Array], layers: list[Layer], rows: PartialRows, rng: np.random.Generator
) -> PartialRows:
    """Return the units with the gaps filled that answers so far settle."""
    Z, Y = answers
    H = pass_layers(layers, Z)
    W, b = rows.arrays()
    known = np.array(rows.known)
    is_open = np.asarray(~known.all(axis=0))
    unaffected = ~(H[:, is_open] > 0).any(axis=1)
    top = fit_top((Z[unaffected], Y[unaffected]), layers, (W, b), known) if unaffected.any() else None
    if top is None or top.passing or not top.is_unique or len(top.layer[1]) != len(known):
        return rows  # units without effect on these answers are left out of the top layer
    (W, b), (A, c) = top.layer, top.output
    growth = 1.0 + np.linalg.norm(Z, axis=1) / np.sqrt(Z.shape[1])
    slack = max(OFF, WORSE * top.residual) * float((Y / growth[:, None]).std(axis=0).max()) * growth
    while is_open.any():
        column = min(np.flatnonzero(is_open), key=lambda i: int((~known[:, i]).sum()))
        is_open[column] = False
        gaps = np.flatnonzero(~known[:, column])
        used = np.flatnonzero((H[:, column] > 0) & ~(H[:, is_open] > 0).any(axis=1))
        used = used[H[used, column] > BARELY * np.median(H[used, column])] if used.size else used
        used = rng.permutation(used)
        T = H[used] @ W.T + b
        others = np.setdiff1d(np.arange(len(b)), gaps)
        left = Y[used] - c - np.maximum(T[:, others], 0.0) @ A[:, others].T
        # Few answers may show that a unit is on beyond its gap: they come first.
        chosen = np.argsort(np.abs(left).max(axis=1) <= slack[used], kind="stable")[:MOST_ROWS]
        left, T, h = left[chosen], T[chosen][:, gaps], H[used[chosen], column]
        found = _solve_column(left, T, h, A[:, gaps], slack[used[chosen]])
        W[gaps, column] = np.where(np.isfinite(found), found, 0.0)
        known[gaps, column] = np.isfinite(found)
        if not np.isfinite(found).all():
            break  # what is read from answers beyond this column would be wrong
    return PartialRows.of((W, b), known)


def _solve_column(left: Array, T: Array, h: Array, A: Array, slack: Array) -> Array:
    """Solve (1) for the weights of one column; NaN where they are not settled.

    Shapes: left (n, m), T (n, g), h (n,), A (m, g), slack (n,), result (g,).
    """
    order = np.argsort(-np.abs(T).min(axis=1) / h)
    found = _improve(left, T, h, A, slack, order, np.zeros(T.shape[1]))
    if np.isfinite(found).all():
        return found
    # Where the known weights say that a unit is off, answers that they do not explain show its weight one by one.
    is_odd = np.abs(left).max(axis=1) > slack
    guess = np.zeros(T.shape[1])
    for unit, column in enumerate(A.T):
        values = left @ column / (column @ column)
        own = is_odd & (np.abs(left - values[:, None] * column).max(axis=1) <= slack)
        if own.sum() >= CONFIRMED:
            guess[unit] = np.median((values - T[:, unit])[own] / h[own])
    again = _improve(left, T, h, A, slack, np.argsort(~is_odd, kind="stable"), guess)
    return again if np.isfinite(again).sum() > np.isfinite(found).sum() else found


def _improve(
    left: Array, T: Array, h: Array, A: Array, slack: Array, order: IntArray, weights: Array
) -> Array:
    """Solve (1) by turns for sides and weights, with more and more answers in a given order; NaN where not settled."""
    n, g = T.shape
    count = FIRST * (g + 1)
    settled = np.zeros(g, dtype=np.bool_)
    while n:
        rows = order[:count]
        for _ in range(TURNS):
            on = T[rows] + h[rows, None] * weights > 0
            system = ((on * h[rows, None])[:, None, :] * A).reshape(-1, g)
            ends = (left[rows] - (on * T[rows]) @ A.T).ravel()
            lengths = np.linalg.norm(system, axis=0)
            lengths[lengths == 0] = 1.0
            weights, _, rank, _ = np.linalg.lstsq(system / lengths, ends, rcond=1e-8)
            weights = weights / lengths
            if (on == (T[rows] + h[rows, None] * weights > 0)).all():
                break
        values = np.maximum(T[rows] + h[rows, None] * weights, 0.0)
        shown = (values * np.abs(A).max(axis=0) > slack[rows, None]).sum(axis=0)
        settled = (shown >= CONFIRMED) & (rank == on.any(axis=0).sum())
        off = np.abs(left[rows] - values @ A.T).max(axis=1)
        if (off <= slack[rows]).mean() < SURE:
            return np.full(g, np.nan)
        if count >= n:
            break
        count *= 4
    return np.asarray(np.where(settled, weights, np.nan))


def ask_beside_gaps(
    records: Records, layers: list[Layer], rows: PartialRows, rng: np.random.Generator
) -> bool:
    """Ask at places at which one unit below with gaps is on, and no other such; whether there were any."""
    box = records.box
    drawn = box.draw(POOL, rng)
    if not box.has_box:
        drawn *= 2.0 ** rng.uniform(-1, 3, (POOL, 1))
    (W, b), known = rows.arrays(), np.array(rows.known)
    is_open = np.asarray(~known.all(axis=0))
    Z = records.all()[0]
    asked = pass_layers(layers, Z)
    around = [_around(Z[asked[:, column] > 0], box, rng) for column in np.flatnonzero(is_open)]
    X = box.snap(np.concatenate([drawn, corner_places(layers, box, CORNERS, rng), *around]))
    H = pass_layers(layers, X)
    wanted: list[Array] = []
    for column in sorted(np.flatnonzero(is_open), key=lambda i: int((~known[:, i]).sum())):
        is_open[column] = False
        need = WANTED * int((~known[:, column]).sum())
        have = ((asked[:, column] > 0) & ~(asked[:, is_open] > 0).any(axis=1)).sum()
        beside = np.flatnonzero((H[:, column] > 0) & ~(H[:, is_open] > 0).any(axis=1))
        T = np.abs(H[beside] @ W.T + b)[:, ~known[:, column]]
        order = np.argsort(-T.min(axis=1) / H[beside, column])
        wanted.append(X[beside[order[: max(0, need - have // 4)]]])
    chosen = np.concatenate(wanted) if wanted else X[:0]
    if len(chosen):
        records.ask(chosen)
    return bool(len(chosen))


def _around(Z: Array, box: BlackBox, rng: np.random.Generator) -> Array:
    """Places around those of some inputs that are closest to the origin: a unit below may be on far out only."""
    sizes = np.linalg.norm(Z, axis=1)
    starts = np.repeat(Z[np.argsort(sizes, kind="stable")[:NEAREST]], AROUND, axis=0)
    far = np.linalg.norm(starts, axis=1, keepdims=True) / np.sqrt(box.n_features)
    moved = starts + far * 2.0 ** rng.uniform(-6, 0, (len(starts), 1)) * box.draw(len(starts), rng)
    return np.asarray(np.clip(moved, -box.room, box.room))
