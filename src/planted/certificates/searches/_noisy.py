"""Recover a network from noisy data when there are at least as many outputs as units.

Problem     Y = f(X W' + b) A' + c + ξ with m ≥ k. Find the least-squares network, including the number of units.
Idea        Unless it is given, the number of units is the number of output directions in which x explains more than
            noise would (`rank_of_signal`). The best of several candidates is refined on all rows
            (`planted.fitting.multistart._candidates`) and certified. If the noise is correlated or unequal between
            outputs, this is repeated with whitened outputs (`noise._covariance`). If the residual still depends on
            x, one more unit is tried, as long as m allows it.
Guarantee   The global minimum may be missed; the certificate decides.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planted.certificates._exact import certify_noiseless
from planted.certificates._noisy import certify_noisy
from planted.certificates._parts import model_uncertainty, reproduces_rows
from planted.certificates.noise._covariance import certify_whitened
from planted.checks import Check
from planted.fitting._refine import Refinement, refine
from planted.fitting._run import MethodRun, Problem
from planted.fitting.multistart._candidates import best_candidate, refine_on_all_rows
from planted.fitting.units._instruments import first_stage, rank_of_signal
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Unavailable, Verdict

__all__ = ["MIN_ROWS", "recover_from_noise"]

MIN_ROWS = 8


def recover_from_noise(run: MethodRun, n_hidden: int | str, offset: bool | str, n_restarts: int) -> Recovery:
    """Fit, choose and certify a network on noisy rows.

    `offset`: whether c is free; "auto" keeps it when it lowers the residual significantly.
    """
    problem = run.problem
    stage = first_stage(problem.X, problem.Y, problem.rng)
    rank = rank_of_signal(stage)
    k = n_hidden if isinstance(n_hidden, int) else max(rank, 1)
    require_equations(run, k)
    while True:
        best = best_candidate(
            problem, k, offset=offset is not False, n_restarts=n_restarts, stage=stage, trace=run.trace
        )
        fit, has_offset = refine_on_all_rows(problem, best, offset)
        network = fit.network
        if reproduces_rows(problem, network)[0].missed:
            verdict = certify_noisy(problem, fit, offset=has_offset)
            network, verdict = certify_whitened(problem, fit, verdict, offset=has_offset)
        else:  # what is left is the rounding of the labels
            fit = _without_rounding_units(problem, fit, has_offset)
            network = fit.network
            verdict = certify_noiseless(problem, fit, offset=has_offset, rivals=None)
        if verdict.outcome is not Outcome.FITTED or n_hidden != "auto" or k >= problem.n_outputs:
            break
        k += 1
    if offset == "auto" and not has_offset:
        verdict = _with_error_of_offset(problem, fit, verdict)
    run.note(Evidence("output directions explained by x beyond noise", rank, key=Check.SIGNAL_RANK))
    return run.finish(
        network,
        _unless_unfinished(verdict, fit),
        starts=len(run.trace),
        iterations=fit.iterations,
        signal_spectrum=[float(v) for v in stage.signal],
    )


def _with_error_of_offset(problem: Problem, fit: Refinement, verdict: Verdict) -> Verdict:
    """Give a c that was left out, because nothing shows it, the standard error that it has where it is free."""
    free = model_uncertainty(problem, fit, offset=True, biases=True)
    known = verdict.uncertainty
    if (
        isinstance(known, Unavailable)
        or isinstance(free, Unavailable)
        or verdict.guarantee is Guarantee.EXACT
    ):
        return verdict
    errors = {**known.standard_errors, "c": free.standard_errors["c"]}
    return replace(verdict, uncertainty=replace(known, standard_errors=errors))


def _without_rounding_units(problem: Problem, fit: Refinement, offset: bool) -> Refinement:
    """Take away the weakest units while all samples are reproduced to the rounding of their labels."""
    while fit.network.n_hidden > 1:
        net = fit.network
        kept = np.delete(np.arange(net.n_hidden), np.argmin(np.linalg.norm(net.A, axis=0)))
        fewer = replace(net, W=net.W[kept], b=net.b[kept], A=net.A[:, kept])
        thinner = refine(problem.blocks, fewer, offset=offset)
        if reproduces_rows(problem, thinner.network)[0].missed:
            break
        fit = thinner
    return fit


def require_equations(run: MethodRun, k: int) -> None:
    """Refuse when there are hardly more equations than k units have unknowns."""
    n, d, m = run.problem.shape
    if n < MIN_ROWS or n * m <= k * (d + 1):
        need = k * (d + 1) // m + MIN_ROWS
        run.require(
            Evidence("samples", n, need, ">=", "k(d+1)/m and some", key=Check.SAMPLES),
            outcome=Outcome.TOO_FEW_SAMPLES,
            detail=f"{n} samples for {k} units of {d} inputs; at least {need} are needed.",
        )


def _unless_unfinished(verdict: Verdict, fit: Refinement) -> Verdict:
    """An unfinished refinement is never called recovered."""
    if fit.converged or verdict.outcome is not Outcome.RECOVERED:
        return verdict
    return replace(verdict, outcome=Outcome.STOPPED_EARLY)
