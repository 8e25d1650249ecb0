r"""Read units beside a linear part from one null space or by pursuit, with as many outputs as units and without noise.

Problem     Y = f(X W' + b) A' + X B' + c with f the ReLU, A of full column rank k ≤ m, no noise, any law of x. Sought: the
            hyperplanes of the units. With B free a unit may be turned round, since f(t) = t + f(-t), so that W and b are
            sought up to sign.
Idea        What affine functions of x leave of Y spans k columns y, one for each unit. With x̃ = (x, 1) a unit is
            h = z'y - p'x̃ for some z and p, and h - t = z'y - q'x̃ with q = p + (w, b). One of the two vanishes on every
            sample:

            .. math:: (z^\top y - p^\top \tilde x)(z^\top y - q^\top \tilde x) = 0,                          \quad (1)

            which is linear in zz', z(p + q)' and the symmetric part Q of pq'. The null space of the products svec(yy'),
            y ⊗ x̃, svec(x̃x̃') holds one vector for each unit. Joint diagonalisation of its first blocks gives the z; the
            vector whose first block is zz' has the others -z(p + q)' and Q, and

            .. math:: (p + q)(p + q)^\top - 4 Q = (p - q)(p - q)^\top = (w, b)(w, b)^\top .                  \quad (2)

            With fewer samples than (1) has unknowns, units are pursued (`fitting.units._pursuit`) in the span of the outputs
            and of x̃, which holds f(t) and f(-t) of every unit. Samples with noise have the number of units read from
            what affine functions of x leave of the outputs, and the search of `restarts` finds them.
Guarantee   *If the null space has dimension exactly k, every network of k units and a linear part that fits the samples is
            the same function*, if its units are linearly independent beside the affine functions. Its vectors lie in the
            span of those of (1); as in `fitting.units._null_units`, zz' determines which, and a product of two linear
            forms in (y, x̃) determines its factors up to order and scale. The order is the orientation of the unit.
Departures  Ours; no paper.
Cost        O(n q²) for q = k(k+1)/2 + k(d+1) + (d+1)(d+2)/2.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import linalg

from planted._clock import check_time
from planted._streams import copy_stream
from planted._typing import Array, as_array
from planted.certificates.searches._kink_search import KinkSearch
from planted.certificates.searches._kink_verdict import finish_exactly
from planted.certificates.searches._restarts import search_with_restarts
from planted.checks import Check
from planted.fitting._run import MethodRun, Problem
from planted.fitting.multistart._attempts import POLISH_ITER, POLISH_TOL, Attempt
from planted.fitting.multistart._rows import EXACT_RMS, SearchRows, split_rows
from planted.fitting.units._instruments import first_stage, rank_of_signal
from planted.fitting.units._null_units import scaled_null_space, uniqueness_evidence
from planted.fitting.units._pursuit import pursue_units
from planted.linalg import (
    NullSpace,
    column_space,
    diagonalise_by_congruence,
    numerical_rank,
    smat,
    svec_outer,
)
from planted.outcomes import Outcome
from planted.results import Evidence, Recovery

__all__ = ["bent_units", "recover_from_noise_with_linear_part", "recover_with_linear_part"]

ROWS = 1.3  # times q: rows that the null space is taken of, beside those held out
MAX_COLUMNS = 1500  # q beyond which the null space costs more than a search
PURSUIT_ROWS = 3  # rows for each input and unit: fewer tell a unit from chance too rarely
FURTHER = 2  # units that chance leaves: so many more are looked for while one of a pair is missing
SAME_UNIT = 1 - 1e-9  # cosine of two hyperplanes that are one, turned round or not
LINEAR_TOL = 1e-10  # part of the outputs that affine functions of x leave, where they leave rounding alone


def recover_with_linear_part(
    run: MethodRun, n_hidden: int | str, *, affine: bool | str, max_starts: int
) -> Recovery | None:
    """Recover units beside a linear part; None where there are too few samples, or no such network reproduces them."""
    problem = run.problem
    if len(problem.X) < ROWS * (problem.n_features + 2):
        return None
    # A copy of the stream: where nothing is read, what follows is the same as without this attempt.
    rows = split_rows(replace(problem, rng=copy_stream(problem.rng)), loss="squared", omega=None)
    inputs, outputs = rows.rows[rows.pool], rows.Y[rows.pool]
    used = inputs[:, rows.varies > 0]
    y = _beside_affine_functions(used, outputs)
    k = y.shape[1]
    if not k or (isinstance(n_hidden, int) and n_hidden < k):
        return None
    check_time()
    V, space = _hyperplanes(problem, used, y, max_starts)
    if V is None:
        return None
    whole = np.zeros((k, inputs.shape[1]))
    whole[:, rows.varies > 0] = V
    attempt = _polished(rows, whole, "pursuit" if space is None else "null space")
    if not attempt.is_exact:
        return None
    uniqueness = () if space is None else uniqueness_evidence(space, k)
    search = KinkSearch(run, rows, n_hidden, "auto", affine=affine, uniqueness=uniqueness)
    search.note(attempt)
    answer, _ = finish_exactly(search, attempt)
    return None if answer.outcome is Outcome.FITTED else answer


def recover_from_noise_with_linear_part(run: MethodRun, n_hidden: int | str, *, n_restarts: int) -> Recovery:
    """Recover units beside a linear part that is known to be there from noisy samples."""
    problem = run.problem
    if n_hidden == "auto":
        Q = linalg.orth(np.column_stack([problem.X, np.ones(len(problem.X))]))
        stage = first_stage(problem.X, problem.Y - Q @ (Q.T @ problem.Y), problem.rng)
        n_hidden = max(rank_of_signal(stage), 1)
        name = "output directions beside affine functions of x, explained by x beyond noise"
        run.note(Evidence(name, n_hidden, key=Check.SIGNAL_RANK))
    rows = split_rows(problem, loss="squared", omega=None)
    search = KinkSearch(run, rows, n_hidden, "auto", affine=True)
    return search_with_restarts(search, n_restarts=max(n_restarts, 1))


def _hyperplanes(
    problem: Problem, inputs: Array, y: Array, max_starts: int
) -> tuple[Array | None, NullSpace | None]:
    """Return the hyperplanes of all units and, where they were read from it, the null space; None where some are missing.

    Shapes: inputs (n, p), y (n, k), result (k, p).
    """
    (n, p), k = inputs.shape, y.shape[1]
    n_columns = k * (k + 1) // 2 + k * p + p * (p + 1) // 2
    if n >= ROWS * n_columns and n_columns <= MAX_COLUMNS:
        problem.progress("complementarity null space with a linear part", float("nan"))
        some = slice(0, 2 * n_columns + 50)
        space = scaled_null_space(_products(inputs[some], y[some]))
        if space.dimension == k:
            return bent_units(space, p, problem.rng), space
        if not space.dimension:  # a network of at most m units leaves one vector for each: this is noise
            return None, None
    if p <= 2 or n < PURSUIT_ROWS * (p + k):  # with one input `restarts` reads the units off the lines
        return None, None
    some = slice(0, 2 * PURSUIT_ROWS * (p + k))
    Q = linalg.orth(np.hstack([y[some], inputs[some]]))
    rng, found = copy_stream(problem.rng), None
    for further in range(FURTHER + 1):
        # The inputs hold the constant as their last column; both orientations of a unit are found.
        found = pursue_units(
            inputs[some, :-1],
            Q,
            2 * k + further,
            rng=rng,
            max_starts=max_starts,
            known=found,
            progress=problem.progress,
        ).V
        unit = found / np.linalg.norm(found, axis=1, keepdims=True)
        same = np.abs(unit @ unit.T) >= SAME_UNIT
        different = ~np.tril(same, -1).any(axis=1)
        for is_unit in (
            different,
            different & (same.sum(axis=1) > 1),
        ):  # chance leaves no unit in both orientations
            if is_unit.sum() == k:
                return unit[is_unit], None
        if len(found) < 2 * k + further:
            break
    return None, None


def _polished(rows: SearchRows, V: Array, start: str) -> Attempt:
    """Fit from given hyperplanes, and judge on the rows held out."""
    fit = rows.fit(rows.pool, V, max_iter=POLISH_ITER, decrease_tol=POLISH_TOL)
    variance = fit.cost / rows.Y[rows.pool].size
    score, missed = rows.judge(fit)
    record = {"start": start, "k": len(V), "residual": float(np.sqrt(score)), "costs": list(fit.costs)}
    return Attempt(fit, score, variance <= EXACT_RMS**2, missed, True, variance, record)


def bent_units(space: NullSpace, p: int, rng: np.random.Generator) -> Array:
    """Read the hyperplanes of the units, up to sign, from a null space with one vector for each.

    `p`: number of columns of x̃. Shapes: result (k, p).
    """
    k = space.dimension
    n_squares = k * (k + 1) // 2
    Z = diagonalise_by_congruence(smat(space.basis[:n_squares].T), rng).Z
    mixing = linalg.lstsq(space.basis[:n_squares], svec_outer(Z.T).T, check_finite=False)[0]
    units = []
    for z, vector in zip(Z.T, (space.basis @ mixing).T, strict=True):
        total = -z @ vector[n_squares : n_squares + k * p].reshape(k, p)  # z has length one
        Q = smat(vector[n_squares + k * p :])
        values, vectors = linalg.eigh(np.outer(total, total) - 4 * Q, check_finite=False)  # (2)
        largest = int(np.abs(values).argmax())
        units.append(np.sqrt(np.abs(values[largest])) * vectors[:, largest])
    return np.array(units)


def _beside_affine_functions(inputs: Array, Y: Array) -> Array:
    """Return a basis of what affine functions of x leave of the outputs, columns of mean square one.

    Shapes: inputs (n, p), Y (n, m), result (n, k).
    """
    Q = linalg.orth(inputs)
    rest = Y - Q @ (Q.T @ Y)
    if np.abs(rest).max() <= LINEAR_TOL * np.abs(Y).max():
        return np.zeros((len(Y), 0))
    basis, relative = column_space(rest)
    return as_array(basis[:, : numerical_rank(relative)] * np.sqrt(len(Y)))


def _products(inputs: Array, y: Array) -> Array:
    """Return the rows of (1), [svec(yy'), y ⊗ x̃, svec(x̃x̃')].

    Shapes: inputs (n, p), y (n, k), result (n, q).
    """
    mixed = (y[:, :, None] * inputs[:, None, :]).reshape(len(y), -1)
    return np.hstack([svec_outer(y), mixed, svec_outer(inputs)])
