r"""Read units beside a linear part from one null space, with as many outputs as units and without noise.

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
from planted.fitting._run import MethodRun
from planted.fitting.multistart._attempts import POLISH_ITER, POLISH_TOL, Attempt
from planted.fitting.multistart._rows import EXACT_RMS, split_rows
from planted.fitting.units._null_units import scaled_null_space, uniqueness_evidence
from planted.linalg import (
    NullSpace,
    column_space,
    diagonalise_by_congruence,
    numerical_rank,
    smat,
    svec_outer,
)
from planted.outcomes import Outcome
from planted.results import Recovery

__all__ = ["bent_units", "recover_with_linear_part"]

ROWS = 1.3  # times q: rows that the null space is taken of, beside those held out
MAX_COLUMNS = 1500  # q beyond which the null space costs more than a search
LINEAR_TOL = 1e-10  # part of the outputs that affine functions of x leave, where they leave rounding alone


def recover_with_linear_part(run: MethodRun, n_hidden: int | str, *, affine: bool | str) -> Recovery | None:
    """Recover units beside a linear part; None where there are too few samples, or no such network reproduces them."""
    problem = run.problem
    if len(problem.X) < ROWS * (problem.n_features + 2):
        return None
    # A copy of the stream: where nothing is read, what follows is the same as without this attempt.
    rows = split_rows(replace(problem, rng=copy_stream(problem.rng)), loss="squared", omega=None)
    inputs, outputs = rows.rows[rows.pool], rows.Y[rows.pool]
    used = inputs[:, rows.varies > 0]
    y = _beside_affine_functions(used, outputs)
    n, k, p = len(used), y.shape[1], used.shape[1]
    n_columns = k * (k + 1) // 2 + k * p + p * (p + 1) // 2
    is_narrower = isinstance(n_hidden, int) and n_hidden < k
    if not k or is_narrower or n < ROWS * n_columns or n_columns > MAX_COLUMNS:
        return None
    check_time()
    problem.progress("complementarity null space with a linear part", float("nan"))
    some = slice(0, 2 * n_columns + 50)
    space = scaled_null_space(_products(used[some], y[some]))
    if space.dimension != k:
        return None
    V = np.zeros((k, inputs.shape[1]))
    V[:, rows.varies > 0] = bent_units(space, p, problem.rng)
    fit = rows.fit(rows.pool, V, max_iter=POLISH_ITER, decrease_tol=POLISH_TOL)
    variance = fit.cost / outputs.size
    if variance > EXACT_RMS**2:
        return None
    score, missed = rows.judge(fit)
    record = {"start": "null space", "k": k, "residual": float(np.sqrt(score)), "costs": list(fit.costs)}
    search = KinkSearch(run, rows, n_hidden, "auto", affine=affine, uniqueness=uniqueness_evidence(space, k))
    attempt = Attempt(fit, score, True, missed, True, variance, record)
    search.note(attempt)
    answer, _ = finish_exactly(search, attempt)
    return None if answer.outcome is Outcome.FITTED else answer


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
