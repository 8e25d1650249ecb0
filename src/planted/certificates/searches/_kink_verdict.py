"""From a fit of absolute values to a verdict on a network.

A fit of absolute values has no orientations. Here its units are oriented, the network is refined on all rows and
certified, exactly or with noise; where the certificate fails, the evidence says why.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planted.certificates._exact import RESIDUAL_TOL, certify_noiseless
from planted.certificates._few_outputs import (
    ORIENTATION_GAP,
    SIDE_ROWS,
    few_outputs_evidence,
    reproduced_rows,
)
from planted.certificates._parts import UNDETERMINED
from planted.certificates._robust import certify_with_loss
from planted.certificates.searches._kink_search import KinkSearch
from planted.checks import Check
from planted.fitting._losses import refine_with_loss
from planted.fitting._refine import Refinement, refine
from planted.fitting.multistart._absolute_form import KinkFit, prune_units
from planted.fitting.multistart._attempts import POLISH_ITER, POLISH_TOL, Attempt
from planted.fitting.multistart._orient_units import orient_exactly, orient_noisily
from planted.fitting.multistart._rows import EXACT_RMS, SearchRows
from planted.moments import check_rows_against
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Verdict

__all__ = ["finish_exactly", "finish_noisily"]

ZERO_OFFSET = 1e-10  # an offset of an exact fit below this, in output standard deviations, is none
ROUGHLY_EXACT = 1e-6  # residual of a row that an exact fit reproduces, before the last polish
FINE_RMS = 1e-13  # residual after which refining an exact fit changes nothing
IDLE = 0.1  # part of the exactness threshold that leaving a unit out may cost


def finish_exactly(search: KinkSearch, attempt: Attempt) -> tuple[Recovery, int]:
    """Orient, refine and certify a fit that reproduces its rows.

    Returns the record, and the number of rows that the network does not reproduce.
    """
    problem = search.problem
    fit = _without_idle_units(search.rows, attempt)
    oriented = orient_exactly(fit)
    network, has_offset = _settle_offset(search, oriented.network)
    network = problem.scaling.in_order(network)
    missed = check_rows_against(problem.blocks, network, tol=RESIDUAL_TOL).missed
    # In a least-squares fit a missed row would disturb all units.
    weights = reproduced_rows(network, ROUGHLY_EXACT) if missed else None
    refined = refine(problem.blocks, network, offset=has_offset, max_iter=0, weights=weights)
    if refined.cost > FINE_RMS**2 * problem.n_samples * problem.n_outputs:
        refined = refine(problem.blocks, network, offset=has_offset, weights=weights)
    return _certify_exactly(search, refined, has_offset, n_kinks=fit.n_units, n_patterns=oriented.n_patterns)


def _certify_exactly(
    search: KinkSearch, refined: Refinement, has_offset: bool, *, n_kinks: int, n_patterns: int
) -> tuple[Recovery, int]:
    """Certify a network that seems to reproduce all rows; return how many it misses, too."""
    problem = search.problem
    rows = check_rows_against(problem.blocks, refined.network, tol=RESIDUAL_TOL)
    missed = rows.missed
    further = few_outputs_evidence(problem, refined.network, rows.active)
    verdict = certify_noiseless(problem, refined, offset=has_offset, rivals=None, further=further)
    verdict = _with_orientations(verdict, n_patterns, len(search.rows.held_out))
    if not missed:
        verdict = _against_request(search, verdict, refined.network, n_kinks)
    elif missed <= SIDE_ROWS * (problem.n_features + 1):
        text = _missed_text(search, n_kinks, missed)
        verdict = replace(verdict, outcome=Outcome.NOT_IDENTIFIABLE, detail=text)
    return search.record(refined.network, verdict), missed


def _without_idle_units(rows: SearchRows, attempt: Attempt) -> KinkFit:
    """Polish an exact fit to the end and take away units that it does not need: dead, or coincident with another.

    Rows that the fit misses are left aside, because in a least-squares fit they would disturb all units.
    """
    fit, m = attempt.fit, rows.Y.shape[1]
    residual = np.abs(rows.Y[rows.pool] - fit(rows.rows[rows.pool])).max(axis=1)
    kept_rows = rows.pool[residual <= ROUGHLY_EXACT]
    if residual.max() > FINE_RMS:
        fit = rows.fit(kept_rows, fit.V, max_iter=POLISH_ITER, decrease_tol=POLISH_TOL)
    kept, losses = prune_units(fit, 1, tol=(IDLE * EXACT_RMS) ** 2 * len(kept_rows) * m)
    if not losses.size:
        return fit
    thinner = rows.fit(kept_rows, fit.V[kept], max_iter=POLISH_ITER, decrease_tol=POLISH_TOL)
    return thinner if thinner.cost <= EXACT_RMS**2 * len(kept_rows) * m else fit


def _settle_offset(search: KinkSearch, network: TwoLayerNetwork) -> tuple[TwoLayerNetwork, bool]:
    """Decide whether an exact network has an offset."""
    if search.offset is True or search.problem.scaling.y_shift.any():
        return network, True
    if search.offset is False or np.abs(network.c).max() <= ZERO_OFFSET:
        return TwoLayerNetwork(network.W, network.b, network.A, None), False
    return network, True


def _with_orientations(verdict: Verdict, n_patterns: int, held_out: int) -> Verdict:
    """Add what was held out, and say when several choices of the units' signs fit equally well."""
    lines = (
        Evidence(
            "samples that the search did not use", held_out, comparison="info", key=Check.HELD_OUT_SAMPLES
        ),
        Evidence(
            "sign patterns of the units that give this function",
            n_patterns,
            comparison="info",
            key=Check.SIGN_PATTERNS,
        ),
    )
    detail = verdict.detail
    if n_patterns > 1:
        detail += f" {n_patterns} sign patterns of its units give the same function; the simplest is shown."
    return replace(verdict, evidence=(*verdict.evidence, *lines), detail=detail)


def _missed_text(search: KinkSearch, n_kinks: int, missed: int) -> str:
    return (
        f"{n_kinks} units reproduce all but {missed} of {search.problem.n_samples} samples; "
        f"{SIDE_ROWS * (search.problem.n_features + 1)} are needed to place a further unit."
    )


def _against_request(search: KinkSearch, verdict: Verdict, network: TwoLayerNetwork, n_kinks: int) -> Verdict:
    """A network with another number of units than asked for is not the one that was asked for."""
    if not isinstance(search.n_hidden, int) or network.n_hidden == search.n_hidden:
        return verdict
    if verdict.outcome not in (Outcome.RECOVERED, *UNDETERMINED):
        return verdict
    if network.n_hidden < search.n_hidden:
        text = (
            f"{network.n_hidden} units reproduce all samples; {search.n_hidden} were asked for. "
            "A unit that is never on, or that coincides with another, leaves no trace."
        )
    else:
        text = (
            f"{n_kinks} kinks and a linear part reproduce all samples, but no orientation of {search.n_hidden} units "
            "gives that linear part: a unit that is on in nearly every sample cannot be told from it. "
            f"{verdict.detail if verdict.outcome in UNDETERMINED else ''}"
        )
    return replace(verdict, outcome=Outcome.NOT_IDENTIFIABLE, guarantee=Guarantee.NONE, detail=text)


def finish_noisily(search: KinkSearch, attempt: Attempt) -> Recovery:
    """Orient, refine and certify a fit to noisy rows."""
    problem = search.problem
    oriented = orient_noisily(attempt.fit)
    robust = refine_with_loss(
        problem, oriented.network, search.offset, loss=search.loss, weights=search.weights
    )
    fit, has_offset = robust.fit, robust.has_offset
    if robust.loss == "squared" and fit.cost <= EXACT_RMS**2 * problem.n_samples * problem.n_outputs:
        return _certify_exactly(search, fit, has_offset, n_kinks=fit.network.n_hidden, n_patterns=1)[0]
    active = check_rows_against(problem.blocks, fit.network).active
    gap = Evidence(
        "rise of the cost when the least certain unit is turned round, in noise variances",
        oriented.gap / attempt.noise_variance,
        ORIENTATION_GAP,
        ">=",
        key=Check.ORIENTATION,
    )
    further = (gap, *few_outputs_evidence(problem, fit.network, active))
    verdict = certify_with_loss(problem, robust, further=further, asked=search.loss)
    return search.record(fit.network, _cautious(verdict))


def _cautious(verdict: Verdict) -> Verdict:
    """Return FITTED instead of NOT_IDENTIFIABLE when the Jacobian is singular.

    Two units that came to coincide leave a singular Jacobian. This may be due to the data or to a local minimum of
    the search, and the certificate cannot tell which.
    """
    if verdict.outcome in UNDETERMINED and not _has_full_rank(verdict):
        return replace(verdict, outcome=Outcome.FITTED, guarantee=Guarantee.HEURISTIC)
    return verdict


def _has_full_rank(verdict: Verdict) -> bool:
    return all(item.passed for item in verdict.evidence if item.key is Check.JACOBIAN)
