r"""Find ReLU units in the column space of the outputs (row-space pursuit).

Problem     Noiseless Y = f(X W' + b) A' + c with A of full column rank. The columns of H = f(X W' + b) lie in the
            column space of Y (of [Y, 1] when c is unknown). Find them from about 3 (d + k) samples.
Idea        One unit at a time, alternate between its activation pattern and the vector of the column space that it
            must be. Rows are :math:`\tilde x = (x, 1)`, Q is an orthonormal basis of the column space, and for a
            pattern s

            .. math:: G = \tilde X_s^\top \tilde X_s, \quad R = \tilde X_s^\top Q_s, \quad K = G - R R^\top, \quad
                      \rho(v) = v^\top K v \,/\, v^\top G v .                                            \quad (1)

            Here ρ is the squared sine of the angle between :math:`\sigma(\tilde X v)` and the column space. Iterate
            :math:`v \leftarrow (K + 0.3\,\rho\, G)^{-1} G v` (2), a shifted inverse iteration. When a pattern
            repeats, take the smallest eigenvector of (K, G); when it repeats again, give up this start. A unit is
            found when ρ vanishes. Many starts run at once: for a batch of patterns, the rows of a 0/1 matrix M, all G
            and R are one product M @ [x̃ ⊗ x̃, x̃ ⊗ Q].

            Once some units are known, up to half of the new starts are aimed at the others. A random vector of the column
            space is regressed on [X̃, known columns of H]; what X̃ explains is a mixture of the missing units alone.
Guarantee   The search is heuristic and may miss units. Every unit returned lies in the column space to a sine of
            1e-9, and the caller verifies it again on all samples.
Departures  Ours; no paper. Aimed starts cut the mean number of starts from 580 to 230 at (d, k, m) = (30, 20, 25), n
            = 264, and the misses from 3 of 30 to none.
Cost        O(n p (p/2 + k)) per start and iteration for p = d + 1, in products; a batch of 64 starts at (30, 20), n =
            264 takes tens of milliseconds. Memory: one n × p(p/2 + k) feature matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._clock import check_time
from planted._typing import Array, BoolArray, Progress, as_array
from planted.linalg.symmetric import unit_rows
from planted.moments import augment

__all__ = ["Pursuit", "pursue_units"]

BATCH = 64
SHIFT = 0.3  # of (2): 0.1 and 1.0 need more starts
FOUND_TOL = 1e-12  # ρ, a squared sine: the pattern is then right and least squares gives the rest
EXACT_SINE = 1e-9  # distance from the column space after polishing on the pattern; rounding leaves 1e-15
SAME_UNIT_COSINE = 1 - 1e-10
MAX_ITERATIONS = 40
START_QUANTILES = (0.25, 0.75)
AIMED_EACH = 16  # starts of a batch aimed at the missing units, for each of them
RANK_TOL = 1e-11


@dataclass(frozen=True, slots=True)
class Pursuit:
    """Units found in a column space."""

    V: Array  # (found, d + 1): hidden weights and biases (w, b), one unit per row
    starts: int  # random starts used


@dataclass(frozen=True, slots=True)
class _Space:
    """Whitened rows, the column space, and the feature matrix whose masked sums give G and R."""

    rows: Array  # (n, p), orthogonal columns of length sqrt(n); p is d for units through a point
    back: Array  # (p, d + 1): v in whitened coordinates -> (w, b)
    Q: Array
    features: Array


def pursue_units(
    X: Array,
    Q: Array,
    n_units: int,
    *,
    rng: np.random.Generator,
    max_starts: int = 4000,
    hopeless_after: int = 512,
    known: Array | None = None,
    starts: Array | None = None,
    origin: Array | None = None,
    progress: Progress | None = None,
) -> Pursuit:
    """Search for ReLU units whose activations lie in the span of Q.

    `hopeless_after`: give up after so many starts without a single unit: the data are then hardly noiseless.
    `origin`: the hyperplanes of all units pass through this point, so that d samples determine one; anywhere if
    omitted. Shapes: X (n, d), Q (n, r), known (units, d + 1), starts (s, d + 1), origin (d,).
    """
    space = _build_space(X, Q, origin)
    columns = _unit_columns(X, known)
    given_columns = columns.shape[1]
    seen = {(column > 0).tobytes() for column in columns.T}
    tried = 0
    given = None if starts is None else (augment(X) @ starts.T > 0).T
    while columns.shape[1] < n_units and tried < max_starts:
        if tried >= hopeless_after and columns.shape[1] == 0:
            break
        check_time()
        missing = n_units - columns.shape[1]
        patterns = _start_patterns(space, columns, missing, rng) if given is None else given
        given = None
        tried += len(patterns)
        for pattern in _run_batch(space, patterns):
            column = None if pattern.tobytes() in seen else _polished_column(space, pattern)
            seen.add(pattern.tobytes())
            if column is not None and (not columns.size or (column @ columns).max() < SAME_UNIT_COSINE):
                columns = np.column_stack([columns, column])
        if progress is not None:
            progress(
                f"pursuit: {columns.shape[1]} of {n_units} units, {tried} starts", columns.shape[1] / n_units
            )
    if origin is None or known is None:
        return Pursuit(_read_units(space, columns), tried)
    new = _read_units(space, columns[:, given_columns:])
    return Pursuit(np.vstack([known, new]), tried)  # known hyperplanes need not pass through the point


def _build_space(X: Array, Q: Array, origin: Array | None) -> _Space:
    n, d = X.shape
    plain = augment(X) if origin is None else X - origin
    left, values, right = linalg.svd(plain, full_matrices=False, check_finite=False)
    if origin is not None:  # w'(x - o) in terms of (x, 1)
        right = right @ np.hstack([np.eye(d), -origin[:, None]])
    rank = int((values > RANK_TOL * values[0]).sum())
    rows = left[:, :rank] * np.sqrt(n)
    upper = np.triu_indices(rank)
    features = np.hstack(
        [rows[:, upper[0]] * rows[:, upper[1]], (rows[:, :, None] * Q[:, None, :]).reshape(n, -1)]
    )
    return _Space(rows, right[:rank] / values[:rank, None] * np.sqrt(n), Q, features)


def _unit_columns(X: Array, known: Array | None) -> Array:
    if known is None or not len(known):
        return np.zeros((len(X), 0))
    columns = np.maximum(augment(X) @ known.T, 0.0)
    norms = np.linalg.norm(columns, axis=0)
    return as_array(columns[:, norms > 0] / norms[norms > 0])


def _start_patterns(space: _Space, columns: Array, missing: int, rng: np.random.Generator) -> BoolArray:
    """Return a batch of patterns: random half-spaces, up to half of them aimed at the units still missing.

    A mixture of few units has few directions: with one missing, all aimed starts are parallel.
    """
    aimed = min(BATCH // 2, AIMED_EACH * missing) if columns.shape[1] else 0
    direction = space.rows @ rng.standard_normal((space.rows.shape[1], BATCH))
    cuts = rng.uniform(*START_QUANTILES, size=BATCH)
    if aimed:
        mixtures = space.Q @ rng.standard_normal((space.Q.shape[1], aimed))
        fitted = linalg.lstsq(np.hstack([space.rows, columns]), mixtures, check_finite=False)[0]
        direction[:, :aimed] = space.rows @ fitted[: space.rows.shape[1]]
    thresholds = np.quantile(direction, cuts, axis=0)[np.arange(BATCH), np.arange(BATCH)]
    thresholds[: aimed // 2] = 0.0  # some aimed starts keep their own hyperplane
    return (direction > thresholds).T


def _run_batch(space: _Space, patterns: BoolArray) -> list[BoolArray]:
    """Iterate (2) from every pattern; return the patterns on which a unit lies in the column space."""
    n, p = space.rows.shape
    V = unit_rows((patterns - patterns.mean(axis=1, keepdims=True)) @ space.rows)[0]
    previous = np.zeros_like(patterns)
    repeats = np.zeros(len(patterns), dtype=int)
    found: list[BoolArray] = []
    for _ in range(MAX_ITERATIONS):
        counts = patterns.sum(axis=1)
        alive = (counts >= p) & (counts < n) & (repeats < 2)
        V, patterns, previous, repeats = V[alive], patterns[alive], previous[alive], repeats[alive]
        if not len(V):
            break
        G, K = _pattern_matrices(space, patterns)
        GV = np.einsum("sij,sj->si", G, V)
        size, outside = np.einsum("si,si->s", V, GV), np.einsum("si,sij,sj->s", V, K, V)
        # A unit that is zero wherever it is on, as between inputs of few values, lies in no space.
        rho = np.clip(np.divide(outside, size, out=np.ones_like(size), where=size > 0), 0.0, 1.0)
        done = rho < FOUND_TOL
        found += list(patterns[done])
        repeats = repeats + (patterns == previous).all(axis=1)
        keep = ~done
        V = _next_directions(G[keep], K[keep], GV[keep], rho[keep], stuck=repeats[keep] == 1)
        previous, repeats = patterns[keep], repeats[keep]
        patterns = (V @ space.rows.T) > 0
    return found


def _pattern_matrices(space: _Space, patterns: BoolArray) -> tuple[Array, Array]:
    """Return G and K of (1) for every pattern."""
    p = space.rows.shape[1]
    upper = np.triu_indices(p)
    sums = patterns.astype(np.float64) @ space.features
    G = np.empty((len(patterns), p, p))
    G[:, upper[0], upper[1]] = G[:, upper[1], upper[0]] = sums[:, : len(upper[0])]
    R = sums[:, len(upper[0]) :].reshape(len(patterns), p, -1)
    return G, G - R @ R.transpose(0, 2, 1)


def _next_directions(G: Array, K: Array, GV: Array, rho: Array, *, stuck: BoolArray) -> Array:
    """Apply (2), or the smallest eigenvector of (K, G) where the pattern repeated; keep the side v was on."""
    if not len(G):
        return np.zeros(GV.shape)
    p = G.shape[1]
    ridge = 1e-13 * np.trace(G, axis1=1, axis2=2)
    shifted = K + (SHIFT * rho)[:, None, None] * G + ridge[:, None, None] * np.eye(p)
    V = np.linalg.solve(shifted, GV[:, :, None])[:, :, 0]
    for index in np.flatnonzero(stuck):
        regular = G[index] + ridge[index] * np.eye(p)
        V[index] = linalg.eigh(K[index], regular, subset_by_index=[0, 0], check_finite=False)[1][:, 0]
    side = np.where(np.einsum("si,si->s", V, GV) < 0, -1.0, 1.0)
    return unit_rows(V * side[:, None])[0]


def _polished_column(space: _Space, pattern: BoolArray) -> Array | None:
    """Return the unit-norm activation column that lies in the column space and has this pattern, or None.

    The masked rows are projected off the column space explicitly, so that the smallest singular vector is accurate to
    rounding, which K is not.
    """
    masked = space.rows * pattern[:, None]
    inside = linalg.qr(masked, mode="economic", check_finite=False)[0]
    outside = inside - space.Q @ (space.Q.T @ inside)
    _, sines, right = linalg.svd(outside, full_matrices=False, check_finite=False)
    h = inside @ right[-1]
    h = h if h.sum() >= 0 else -h
    if sines[-1] > EXACT_SINE or h[pattern].min(initial=0.0) < -EXACT_SINE:
        return None
    return np.where(pattern, np.maximum(h, 0.0), 0.0)


def _read_units(space: _Space, columns: Array) -> Array:
    """Least squares of each column on its active rows gives (w, b)."""
    units = []
    for h in columns.T:
        active = h > 0
        units.append(linalg.lstsq(space.rows[active], h[active], check_finite=False)[0] @ space.back)
    return np.array(units).reshape(len(units), space.back.shape[1])
