r"""Recover a network from noisy data: several starts, refined, chosen by rows they have not seen.

Problem     Y = f(X W' + b) A' + c + ξ with m ≥ k. Find the least-squares network, the number of units included.
Idea        1. k = number of output directions in which x explains more than noise would
               (`instruments.rank_of_signal`), unless it is given.
            2. Candidates: the instrumental start and random ones, each refined on a part of the rows and scored by its
               mean squared residual on rows held out. Stop as soon as two starts end at the same best score: a global
               minimum is reached from many starts, local ones differ.
            3. The best is refined on all rows, without the offset c when it does not earn its place (an F-test), and
               certified, with outputs whitened where their noise is correlated or unequal (`output_covariance`); if x still
               shows in the residual, one more unit is tried while m allows.
Guarantee   None that the global minimum is found; the certificate decides. Given the right basin, the answer is the
            maximum-likelihood estimate for Gaussian noise, efficient up to O(1/n).
Cost        n_restarts refinements on `CANDIDATE_ROWS` rows and one on all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from scipy import linalg, stats

from planted._typing import Array
from planted.certificates._certificate import certify_noisy
from planted.certificates._output_covariance import certify_whitened
from planted.checks import Check
from planted.fitting._problem import Problem, without_network
from planted.fitting._refine import Refinement, refine
from planted.fitting.units._instruments import FirstStage, first_stage, instrumental_start, rank_of_signal
from planted.moments import augment
from planted.networks import TwoLayerNetwork
from planted.outcomes import Outcome
from planted.results import Evidence, Recovery, Requirements, Verdict
from planted.rows import RowBlocks, RowWeights

__all__ = ["best_candidate", "recover_from_noise", "refine_on_all_rows"]

CANDIDATE_ROWS = 4000
ROWS_PER_UNKNOWN = 6  # equations per unknown of the rows on which candidates are compared
HELD_OUT = 0.25
SAME_SCORE = 1e-3  # relative difference of held-out scores at which two candidates are the same network
MIN_ROWS = 8
OFFSET_SIGNIFICANCE = 0.01


def recover_from_noise(
    problem: Problem,
    n_hidden: int | str,
    offset: bool | str,
    n_restarts: int,
    *,
    requires: Requirements,
    options: dict[str, Any],
) -> Recovery:
    """Fit, choose and certify a network on noisy rows.

    `offset`: whether c is free; "auto" keeps it when it lowers the residual significantly. Returns the network with
    its evidence.
    """
    stage = first_stage(problem.X, problem.Y, problem.rng)
    rank = rank_of_signal(stage)
    k = n_hidden if isinstance(n_hidden, int) else max(rank, 1)
    if len(problem.X) < MIN_ROWS or problem.n_samples * problem.n_outputs <= k * (problem.n_features + 1):
        return _too_few(problem, k, requires, options)
    trace: list[dict[str, Any]] = []
    while True:
        best = best_candidate(
            problem, k, offset=offset is not False, n_restarts=n_restarts, stage=stage, trace=trace
        )
        fit, has_offset = refine_on_all_rows(problem, best, offset)
        verdict = certify_noisy(problem, fit, offset=has_offset)
        network, verdict = certify_whitened(problem, fit, verdict, offset=has_offset)
        if verdict.outcome is not Outcome.FITTED or n_hidden != "auto" or k >= problem.n_outputs:
            break
        k += 1
    spectrum = Evidence(
        "output directions explained by x beyond noise", rank, comparison="info", key=Check.SIGNAL_RANK
    )
    stats_ = problem.stats(
        starts=len(trace),
        iterations=fit.iterations,
        signal_spectrum=[float(v) for v in stage.signal],
    )
    return Recovery(
        network=problem.scaling.restore(network),
        outcome=_outcome(verdict, fit),
        guarantee=verdict.guarantee,
        evidence=(spectrum, *verdict.evidence),
        uncertainty=verdict.uncertainty,
        stats=stats_,
        provenance=problem.provenance(requires, options),
        detail=verdict.detail,
        trace=tuple(trace),
    )


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
    train, test = _split(problem, k)
    scores: list[float] = []
    best, best_score = None, np.inf
    for name, V in chain(given, _starts(problem, k, n_restarts, stage)):
        fit = refine(train, _with_outputs(train, V, offset), offset=offset, max_iter=60)
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
    assert best is not None
    return best


def _split(problem: Problem, k: int) -> tuple[RowBlocks, RowBlocks]:
    unknowns = k * (problem.n_features + 1 + problem.n_outputs)
    rows = min(len(problem.X), max(CANDIDATE_ROWS, ROWS_PER_UNKNOWN * unknowns // problem.n_outputs))
    order = problem.rng.permutation(len(problem.X))[:rows]
    cut = max(int(HELD_OUT * rows), 1)
    test, train = np.sort(order[:cut]), np.sort(order[cut:])
    return tuple(RowBlocks.from_arrays(problem.X[i], problem.Y[i]) for i in (train, test))  # type: ignore[return-value]


def _starts(problem: Problem, k: int, n_restarts: int, stage: FirstStage) -> Iterator[tuple[str, Array]]:
    """Yield named rows (w, b): the instrumental start, then random half-spaces through the bulk of the inputs."""
    q = k * (k + 1) // 2 + k * (problem.n_features + 1)
    if k <= problem.n_outputs and len(problem.X) > 4 * q:
        yield "instruments", instrumental_start(problem.X, problem.Y, k, stage=stage, rng=problem.rng)
    for index in range(n_restarts):
        W = problem.rng.standard_normal((k, problem.n_features))
        W /= np.linalg.norm(W, axis=1, keepdims=True)
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

    Returns fit: the refined network; has_offset: whether c was kept free.
    """
    problem.progress("refining on all rows", float("nan"))
    full = refine(
        problem.blocks, problem.scaling.in_order(network), offset=offset is not False, weights=weights
    )
    if offset != "auto" or problem.scaling.y_shift.any():
        return full, offset is not False
    plain = TwoLayerNetwork(full.network.W, full.network.b, full.network.A, None, full.network.activation)
    without = refine(problem.blocks, plain, offset=False, weights=weights)
    m = problem.n_outputs
    freedom = problem.n_samples * m - full.network.n_parameters
    if freedom <= 0 or full.cost <= 0:
        return full, True
    ratio = max(without.cost - full.cost, 0.0) / m / (full.cost / freedom)
    needed = stats.f.sf(ratio, m, freedom) < OFFSET_SIGNIFICANCE
    return (full, True) if needed else (without, False)


def _mean_square(rows: RowBlocks, network: TwoLayerNetwork) -> float:
    total, count = 0.0, 0
    for X, Y in rows:
        total += float(((Y - network(X)) ** 2).sum())
        count += Y.size
    return total / count


def _outcome(verdict: Verdict, fit: Refinement) -> Outcome:
    """An unfinished refinement is never called recovered."""
    return (
        verdict.outcome
        if fit.converged or verdict.outcome is not Outcome.RECOVERED
        else Outcome.STOPPED_EARLY
    )


def _too_few(problem: Problem, k: int, requires: Requirements, options: dict[str, Any]) -> Recovery:
    need = k * (problem.n_features + 1) // problem.n_outputs + MIN_ROWS
    evidence = (Evidence("samples", problem.n_samples, need, ">=", "k(d+1)/m and some", key=Check.SAMPLES),)
    text = f"{problem.n_samples} samples for {k} units of {problem.n_features} inputs; at least {need} are needed."
    return without_network(
        problem, requires, options, outcome=Outcome.TOO_FEW_SAMPLES, evidence=evidence, detail=text
    )
