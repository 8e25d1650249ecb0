"""Refine several candidates on some rows, choose by rows they have not seen, refine the winner on all.

Problem     Y = f(X W' + b) A' + c + ξ with m ≥ k units, k known. Find the least-squares network.
Idea        1. Candidates are the instrumental start and random ones. Each is refined on a part of the rows and scored
               by its mean squared residual on rows held out.
            2. The search stops as soon as two starts end at the same best score, because a global minimum is reached
               from many starts while local ones differ. With many equations for each unknown it stops at the first
               candidate whose residual shows no trace of the instruments: local minima leave one.
            3. The best candidate is refined on all rows, without the offset c at first. An F-test of the fall that c
               would bring there, to first order, decides whether it is refined with it instead.
Guarantee   The global minimum may be missed. In the right basin the answer is the maximum-likelihood estimate for
            Gaussian noise, efficient up to O(1/n).
Cost        n_restarts refinements on `CANDIDATE_ROWS` rows and one on all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from scipy import linalg, stats

from planted._typing import Array, IntArray, as_array
from planted.fitting._refine import Refinement, refine, weigh_blocks
from planted.fitting._run import Problem
from planted.fitting.units._instruments import FirstStage, instrumental_start
from planted.linalg.symmetric import column_spectrum, solve_symmetric, spectrum_of, unit_rows
from planted.moments import augment
from planted.networks import TwoLayerNetwork
from planted.rows import RowBlocks, RowWeights

__all__ = ["best_candidate", "refine_on_all_rows"]

CANDIDATE_ROWS = 4000
ROWS_PER_UNKNOWN = 6  # equations per unknown of the rows on which candidates are compared
HELD_OUT = 0.25
SAME_SCORE = 1e-3  # relative difference of held-out scores at which two candidates are the same network
OFFSET_SIGNIFICANCE = 0.01
MANY_EQUATIONS = 50  # for each unknown: so many show what a local minimum leaves
TRACE_LEVEL = 0.05  # of the test for traces: one right candidate in twenty waits for a second one
RANK_TOL = 1e-10
ROUGHLY = 0.1  # residual variances: steps that gain less change neither a score nor a test


def best_candidate(
    problem: Problem,
    k: int,
    *,
    offset: bool,
    n_restarts: int,
    stage: FirstStage,
    trace: list[dict[str, Any]],
    given: Sequence[tuple[str, Array]] = (),
) -> TwoLayerNetwork:
    """Refine candidates on some rows, score them on others, return the best (step 2).

    Shapes: given (k, d + 1).
    """
    chosen, judges = _split(problem, k)
    train, test = _rows_of(problem, chosen), _rows_of(problem, judges)
    scores: list[float] = []
    best, best_score = None, np.inf
    spanned = _span_of(augment(problem.X[chosen]))
    for name, V in chain(given, _starts(problem, k, n_restarts, stage)):
        start = _with_outputs(train, V if spanned is None else V @ spanned, offset)
        fit = refine(train, start, offset=offset, max_iter=60, decrease_tol=ROUGHLY)
        score = _mean_square(test, fit.network)
        trace.append(
            {"start": name, "k": k, "score": score, "costs": list(fit.costs), "converged": fit.converged}
        )
        problem.progress(
            f"refining candidate {len(scores) + 1} with {k} units", (len(scores) + 1) / (n_restarts + 1)
        )
        agrees = any(abs(score - other) <= SAME_SCORE * score for other in scores)
        scores.append(score)
        if score < best_score:
            best, best_score = fit.network, score
        if agrees and score <= best_score * (1 + SAME_SCORE):
            break
        if _leaves_no_trace(problem, fit.network, chosen, stage):
            break
    assert best is not None
    return best


def _split(problem: Problem, k: int) -> tuple[IntArray, IntArray]:
    """Draw the rows that candidates are refined on, and those that judge them."""
    unknowns = k * (problem.n_features + 1 + problem.n_outputs)
    rows = min(len(problem.X), max(CANDIDATE_ROWS, ROWS_PER_UNKNOWN * unknowns // problem.n_outputs))
    order = problem.rng.permutation(len(problem.X))[:rows]
    cut = max(int(HELD_OUT * rows), 1)
    return np.sort(order[cut:]), np.sort(order[:cut])


def _span_of(rows: Array) -> Array | None:
    """The projection on what dependent inputs span; None for independent ones.

    What a row of W has beside it changes no output; a row that has hardly anything else needs output weights without
    bound, and is taken for a unit with a direction of its own.
    """
    kept = spectrum_of(rows.T @ rows).regular()
    return None if len(kept.values) == rows.shape[1] else as_array(kept.vectors @ kept.vectors.T)


def _rows_of(problem: Problem, chosen: IntArray) -> RowBlocks:
    return RowBlocks.from_arrays(problem.X[chosen], problem.Y[chosen])


def _leaves_no_trace(problem: Problem, network: TwoLayerNetwork, chosen: IntArray, stage: FirstStage) -> bool:
    """Whether there are many equations for each unknown, and the instruments explain no more of the residual than of noise.

    Pillai's trace of the regression, times the rows, is about a χ² with one degree of freedom for each coefficient.
    """
    Q = stage.instruments(chosen)
    freedom = Q.shape[1] * network.n_outputs
    if len(chosen) * network.n_outputs < MANY_EQUATIONS * max(network.n_parameters, freedom / 4):
        return False
    residual = problem.Y[chosen] - network(problem.X[chosen])
    products = Q.T @ residual
    explained = products.T @ solve_symmetric(Q.T @ Q, products)
    trace = float(np.trace(solve_symmetric(residual.T @ residual, explained)))
    return bool(stats.chi2.sf(len(chosen) * trace, freedom) >= TRACE_LEVEL)


def _starts(problem: Problem, k: int, n_restarts: int, stage: FirstStage) -> Iterator[tuple[str, Array]]:
    """Yield named rows (w, b): the instrumental start, then random half-spaces through the bulk of the inputs."""
    q = k * (k + 1) // 2 + k * (problem.n_features + 1)
    if k <= problem.n_outputs and len(problem.X) > 4 * q:
        yield "instruments", instrumental_start(problem.X, problem.Y, k, stage=stage, rng=problem.rng)
    for index in range(n_restarts):
        W = unit_rows(problem.rng.standard_normal((k, problem.n_features)))[0]
        t = problem.X[:CANDIDATE_ROWS] @ W.T
        cuts = np.array([np.quantile(t[:, j], u) for j, u in enumerate(problem.rng.uniform(0.25, 0.75, k))])
        yield f"random {index}", np.hstack([W, -cuts[:, None]])


def _with_outputs(rows: RowBlocks, V: Array, offset: bool) -> TwoLayerNetwork:
    X, Y = (np.concatenate(part) for part in zip(*rows, strict=True))
    H = np.maximum(augment(X) @ V.T, 0.0)
    B = linalg.lstsq(augment(H) if offset else H, Y, check_finite=False)[0].T
    return TwoLayerNetwork(V[:, :-1], V[:, -1], B[:, : len(V)], B[:, -1] if offset else None)


def refine_on_all_rows(
    problem: Problem, network: TwoLayerNetwork, offset: bool | str, *, weights: RowWeights | None = None
) -> tuple[Refinement, bool]:
    """Refine the winner on all rows; drop c when an F-test says it is not needed (step 3).

    Returns the refined network, and whether c was kept free.
    """
    problem.progress("refining on all rows", float("nan"))
    start = problem.scaling.in_order(network)
    if offset != "auto" or problem.scaling.y_shift.any() or network.B is not None:
        return refine(problem.blocks, start, offset=offset is not False, weights=weights), offset is not False
    without = refine(problem.blocks, replace(start, c=np.zeros_like(start.c)), offset=False, weights=weights)
    freedom = problem.n_samples * problem.n_outputs - start.n_parameters

    def is_needless(rest: float) -> bool:
        if freedom <= 0 or rest <= 0:
            return False
        ratio = max(without.cost - rest, 0.0) / problem.n_outputs / (rest / freedom)
        return bool(stats.f.sf(ratio, problem.n_outputs, freedom) >= OFFSET_SIGNIFICANCE)

    # Without c the fit may end far off, at units that are always on, where c adds nothing: so it is compared with the start.
    if is_needless(without.cost - _fall_with_offset(without)) and is_needless(
        refine(problem.blocks, start, max_iter=0, weights=weights).cost
    ):
        return without, False
    return refine(problem.blocks, start, weights=weights), True


def _fall_with_offset(fit: Refinement) -> float:
    """Return how much a free c lowers the sum of squares at a minimum without one, to first order in all parameters.

    The output layer is eliminated, then the hidden one, as in `planted.fitting._refine`; what is left of the constant
    is that of G'1 and Z'1, weighted by the output weights.
    """
    sums, A, k = fit.sums, fit.network.A, fit.network.n_hidden
    outer = column_spectrum(sums.GG[:k, :k]).regular()
    lifted = outer.solve(sums.GG[:k, -1:])[:, 0]
    GZ = sums.GZ[:k]
    N = column_spectrum(weigh_blocks(sums.ZZ - GZ.T @ outer.solve(GZ), A)).regular(RANK_TOL)
    weighted = np.repeat(A.T, fit.network.n_features + 1, axis=0)
    cross = (sums.GZ[-1] - GZ.T @ lifted)[:, None] * weighted
    slope = ((sums.ZR - GZ.T @ outer.solve(sums.GR[:k])) * weighted).sum(axis=1)
    u = sums.GR[-1] - sums.GR[:k].T @ lifted - cross.T @ N.solve(slope[:, None])[:, 0]
    S = (sums.GG[-1, -1] - sums.GG[:k, -1] @ lifted) * np.eye(len(u)) - cross.T @ N.solve(cross)
    left = spectrum_of(S, np.full(len(u), np.sqrt(sums.GG[-1, -1]))).above(RANK_TOL).whitening()
    return float(((left.T @ u) ** 2).sum())


def _mean_square(rows: RowBlocks, network: TwoLayerNetwork) -> float:
    total, count = 0.0, 0
    for X, Y in rows:
        total += float(((Y - network(X)) ** 2).sum())
        count += Y.size
    return total / count
