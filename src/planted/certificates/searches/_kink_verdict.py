"""From a fit of absolute values to a verdict on a network.

A fit of absolute values has no orientations. Here its units are oriented, the network is refined on all rows and
certified, exactly or with noise; where the certificate fails, the evidence says why.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from scipy import stats

from planted._typing import IntArray
from planted.certificates._exact import RESIDUAL_TOL, certify_noiseless, hidden_kinks
from planted.certificates._few_outputs import (
    ORIENTATION_GAP,
    SIDE_ROWS,
    few_outputs_evidence,
    reproduced_rows,
    units_apart,
)
from planted.certificates._parts import CONDITIONING_TOL, UNDETERMINED, reproduces_rows
from planted.certificates._robust import certify_with_loss
from planted.certificates.noise._fitted_rows import FittedRows
from planted.certificates.searches._kink_search import KinkSearch
from planted.checks import Check
from planted.fitting._jacobian import degrees_of_freedom, information, polish
from planted.fitting._losses import RobustFit, refine_with_loss
from planted.fitting._refine import Refinement, refine
from planted.fitting._run import Problem
from planted.fitting.multistart._absolute_form import KinkFit, prune_units
from planted.fitting.multistart._attempts import POLISH_ITER, POLISH_TOL, Attempt
from planted.fitting.multistart._orient_units import (
    LINEAR_LEVEL,
    Oriented,
    as_network,
    leak_of,
    needs_linear_part,
    orient_exactly,
    orient_noisily,
    with_linear_part,
)
from planted.fitting.multistart._rows import EXACT_RMS, SearchRows
from planted.moments import check_rows_against
from planted.networks import TwoLayerNetwork, parameter_error
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Verdict

__all__ = ["finish_exactly", "finish_noisily", "may_be_units", "without_claim"]

AnyVerdict = TypeVar("AnyVerdict", Verdict, Recovery)

MOST_TURNED = 6  # units of which all orientations are tried
SAME_NETWORK = 1e-6  # parameter error of two exact fits of one network
ZERO_OFFSET = 1e-10  # an offset of an exact fit below this, in output standard deviations, is none
ROUGHLY_EXACT = 1e-6  # residual of a row that an exact fit reproduces, before the last polish
FINE_RMS = 1e-14  # residual after which refining an exact fit changes nothing
# Factor by which the sum of squares rises without a unit that is more than rounding; real ones raise it by thousands.
NEEDED_RISE = 4.0
LOW_RANK = 1e-8  # relative singular value of a linear part that is zero
IDLE = 0.1  # part of the exactness threshold that leaving a unit out may cost


def finish_exactly(search: KinkSearch, attempt: Attempt) -> tuple[Recovery, int]:
    """Orient, refine and certify a fit that reproduces its rows.

    Returns the record, and the number of rows that the network does not reproduce.
    """
    problem = search.problem
    search, attempt = _with_held_out_rows(search, attempt)
    fit = _without_idle_units(search.rows, attempt)
    oriented = orient_exactly(fit)
    bent = with_linear_part(fit, problem.scaling.x_scale)
    if not oriented.n_patterns and search.affine is not True:
        turned = _only_orientation(search, fit, bent)
        if turned is not None:
            return _finish_network(search, fit, turned, 1)
    # As many further units on known kinks as there are inputs make any linear part whatever: they are no evidence of units.
    further = oriented.network.n_hidden - fit.n_units
    is_own = search.affine == "auto" and not oriented.n_patterns and further >= problem.n_features
    if search.affine is True or (is_own and not may_be_units(bent)):
        return _finish_network(search, fit, bent, 0)
    if is_own:
        return _doubtful(*_finish_network(search, fit, bent, 0))
    plain = _finish_network(search, fit, oriented.network, oriented.n_patterns)
    if search.affine is False or oriented.n_patterns or plain[0].outcome is Outcome.RECOVERED:
        return plain
    return plain if may_be_units(bent) else _finish_network(search, fit, bent, 0)


def _with_held_out_rows(search: KinkSearch, attempt: Attempt) -> tuple[KinkSearch, Attempt]:
    """Fit the rows held out too if a few of them are missed and a fit to all rows reproduces all.

    Where few samples lie between two kinks, those of the search may leave a direction free which the others determine.
    """
    rows, everything = search.rows, np.arange(len(search.rows.Y))
    missed = np.flatnonzero(np.abs(rows.Y - attempt.fit(rows.rows)).max(axis=1) > ROUGHLY_EXACT)
    few = SIDE_ROWS * (search.problem.n_features + 1)
    if not 0 < len(missed) <= few or np.isin(missed, rows.pool).any() or rows.loss != "squared":
        return search, attempt
    whole = rows.fit(everything, attempt.fit.V, max_iter=POLISH_ITER, decrease_tol=POLISH_TOL)
    if np.abs(rows.Y - whole(rows.rows)).max() > ROUGHLY_EXACT:
        return search, attempt
    return replace(search, rows=replace(rows, pool=everything)), replace(attempt, fit=whole)


def _only_orientation(search: KinkSearch, fit: KinkFit, bent: TwoLayerNetwork) -> TwoLayerNetwork | None:
    """Return units without a linear part that reproduce all rows, where the linear part of a fit is one of many.

    Few samples between two kinks may leave the kinks and the linear part some freedom together. Then the linear part of the
    fit is made up by no orientation, but another one, as good, may be: each orientation is fitted without a linear part.
    `bent`: the fit as a network. None if no network, or more than one, reproduces all rows.
    """
    problem = search.problem
    if fit.n_units > MOST_TURNED:
        return None
    sums = refine(problem.blocks, bent, offset=True, max_iter=0).sums
    if information(sums, bent, offset=True).conditioning > CONDITIONING_TOL:
        return None
    found = []
    for flips in itertools.product((False, True), repeat=fit.n_units):
        start = as_network(fit, np.array(flips))
        turned = refine(problem.blocks, start, offset=search.offset is not False).network
        if not reproduces_rows(problem, turned)[0].missed:
            found.append(turned)
    is_one = bool(found) and all(parameter_error(other, found[0]) < SAME_NETWORK for other in found[1:])
    return found[0] if is_one else None


def _doubtful(recovery: Recovery, missed: int) -> tuple[Recovery, int]:
    """Take back a claim where the linear part may be that of units which no sample sees off."""
    if recovery.outcome is not Outcome.RECOVERED:
        return recovery, missed
    text = (
        "The linear part is of lower rank than it could be: units that are on in all samples leave it as well. "
        "With affine=True it is taken for a linear part."
    )
    doubtful = replace(recovery, outcome=Outcome.NOT_IDENTIFIABLE, guarantee=Guarantee.NONE, detail=text)
    return doubtful, missed


def may_be_units(network: TwoLayerNetwork) -> bool:
    """Whether the linear part is of lower rank than it could be, as units that are on in all samples leave it.

    With one input or one output it has rank one in any case, and nothing can be said.
    """
    if network.B is None or min(network.B.shape) == 1:
        return False
    values = np.linalg.svd(network.B, compute_uv=False)
    return bool(values[-1] <= LOW_RANK * values[0])


def _finish_network(
    search: KinkSearch, fit: KinkFit, network: TwoLayerNetwork, n_patterns: int
) -> tuple[Recovery, int]:
    """Refine and certify a network made from an exact fit."""
    problem = search.problem
    # The offset of standardised inputs is none of the user's: with a linear part it is always free.
    network, has_offset = _settle_offset(search, network) if network.B is None else (network, True)
    network = problem.scaling.in_order(network)
    missed = check_rows_against(problem.blocks, network, tol=RESIDUAL_TOL).missed
    # In a least-squares fit a missed row would disturb all units.
    weights = reproduced_rows(network, ROUGHLY_EXACT) if missed else None
    refined = refine(problem.blocks, network, offset=has_offset, max_iter=0, weights=weights)
    if refined.cost > FINE_RMS**2 * problem.n_samples * problem.n_outputs:
        refined = refine(problem.blocks, network, offset=has_offset, weights=weights)
    return _certify_exactly(search, refined, has_offset, n_kinks=fit.n_units, n_patterns=n_patterns)


def _certify_exactly(
    search: KinkSearch, refined: Refinement, has_offset: bool, *, n_kinks: int, n_patterns: int
) -> tuple[Recovery, int]:
    """Certify a network that seems to reproduce all rows; return how many it misses, too."""
    problem = search.problem
    rows = reproduces_rows(problem, refined.network)[0]
    if rows.missed == rows.n_samples or rows.missed > SIDE_ROWS * (problem.n_features + 1):
        network = polish(problem.X, problem.Y, refined.network, offset=has_offset)
        refined = refine(problem.blocks, network, offset=has_offset, max_iter=0)
        rows = reproduces_rows(problem, refined.network)[0]
    missed = rows.missed
    further = _conditions(problem, refined.network, rows.active)
    verdict = certify_noiseless(
        problem, refined, offset=has_offset, uniqueness=search.uniqueness, rivals=None, further=further
    )
    unused = len(np.setdiff1d(search.rows.held_out, search.rows.pool))
    verdict = _with_orientations(verdict, n_patterns, unused)
    verdict = _with_linear_part_named(problem, verdict, refined.network)
    if not missed:
        verdict = _against_request(search, verdict, refined.network, n_kinks)
    elif missed <= SIDE_ROWS * (problem.n_features + 1):
        text = _missed_text(search, n_kinks, missed)
        verdict = replace(verdict, outcome=Outcome.NOT_IDENTIFIABLE, detail=text)
    return search.record(refined.network, verdict), missed


def _conditions(problem: Problem, network: TwoLayerNetwork, active: IntArray) -> tuple[Evidence, ...]:
    """Return the conditions on a network with few outputs; with one input the samples of its pieces are counted instead."""
    lines = (*few_outputs_evidence(problem, network, active), *units_apart(FittedRows(problem, network)))
    return tuple(line for line in lines if problem.n_features > 1 or line.key is Check.CONTINUOUS_INPUTS)


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


def _with_linear_part_named(problem: Problem, verdict: Verdict, network: TwoLayerNetwork) -> Verdict:
    """Say how large the linear part is, and of which leaky units it is made if it is."""
    if network.B is None:
        return verdict
    lines = [linear_part_line(network)]
    leak = leak_of(problem.scaling.restore(network))
    detail = verdict.detail
    if leak is not None:
        name = "slope below the kink of the leaky units that make up this function"
        lines.append(Evidence(name, leak, comparison="info", key=Check.LEAK))
        kind = "absolute values" if leak == -1 else f"leaky units of slope {leak:.12g}"
        detail += f" The same function is made of {network.n_hidden} {kind}, without a linear part."
    return replace(verdict, evidence=(*verdict.evidence, *lines), detail=detail)


def linear_part_line(network: TwoLayerNetwork) -> Evidence:
    """Return the largest slope of the linear part, on standardised inputs."""
    assert network.B is not None
    name = "largest slope of the linear part, in output standard deviations per input standard deviation"
    return Evidence(name, float(np.abs(network.B).max()), comparison="info", key=Check.LINEAR_PART)


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
            "A unit that is never on, or that coincides with another, leaves no trace"
            f"{'' if network.B is None else ', and one that is always on is part of the linear part'}."
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
    robust = _refine_noisily(search, attempt, oriented)
    fit, has_offset = robust.fit, robust.has_offset
    network = fit.network
    if information(fit.sums, network, offset=has_offset).conditioning < CONDITIONING_TOL:
        network = polish(problem.X, problem.Y, network, offset=has_offset)
    if not reproduces_rows(problem, network)[0].missed:
        return _certify_to_rounding(search, attempt.fit, network, has_offset)
    active = check_rows_against(problem.blocks, fit.network).active
    gap = (
        Evidence(
            "rise of the cost when the least certain unit is turned round, in noise variances",
            oriented.gap / attempt.noise_variance,
            ORIENTATION_GAP,
            ">=",
            key=Check.ORIENTATION,
        )
        if network.B is None
        else linear_part_line(network)
    )
    further = (gap, *few_outputs_evidence(problem, fit.network, active))
    if problem.n_features == 1:  # several kinks may hide where no samples are
        distinct = np.unique(problem.X[:, 0], return_index=True)[1]
        further = (*further, *hidden_kinks(problem, fit.network, distinct)[0])
    verdict = certify_with_loss(problem, robust, further=further, asked=search.loss)
    if network.B is not None and search.affine == "auto":
        verdict = without_claim(verdict, fit.network.n_hidden)
    return search.record(fit.network, _cautious(verdict))


def without_claim(verdict: AnyVerdict, n_hidden: int) -> AnyVerdict:
    """Return FITTED instead of RECOVERED where nobody has said that there is a linear part.

    A unit that is on in nearly all samples looks like one, and noise hides the few samples on which it is off.
    """
    line = Evidence(
        "knowledge that there is a linear part, and not a unit that is on in nearly all samples",
        0,
        1,
        ">=",
        "affine=True",
        key=Check.KNOWN_LINEAR_PART,
    )
    verdict = replace(verdict, evidence=(*verdict.evidence, line))
    if verdict.outcome is not Outcome.RECOVERED:
        return verdict
    text = (
        f"Nothing in the residual speaks against {'this unit' if n_hidden == 1 else f'these {n_hidden} units'} and a linear "
        "part, but in noise a unit that is on "
        "in nearly all samples looks like one. Say affine=True if there is known to be a linear part."
    )
    return replace(verdict, outcome=Outcome.FITTED, guarantee=Guarantee.HEURISTIC, detail=text)


def _refine_noisily(search: KinkSearch, attempt: Attempt, oriented: Oriented) -> RobustFit:
    """Refine on all rows under the loss, with a linear part where one was asked for or where the data need it."""
    problem = search.problem
    settings: dict[str, Any] = {"loss": search.loss, "weights": search.weights}
    is_likely = search.affine == "auto" and needs_linear_part(attempt.fit, oriented, attempt.noise_variance)
    if search.affine is not True and not is_likely:
        return refine_with_loss(problem, oriented.network, search.offset, **settings)
    bent = with_linear_part(attempt.fit, problem.scaling.x_scale)
    robust = refine_with_loss(problem, bent, True, **settings)
    if search.affine is True or robust.loss != "squared":
        return robust
    plain = refine_with_loss(problem, oriented.network, search.offset, **settings)
    freedom = problem.n_samples * problem.n_outputs - robust.fit.network.n_parameters
    if freedom <= 0 or robust.fit.cost <= 0:
        return robust
    extra = robust.fit.network.n_parameters - degrees_of_freedom(plain.fit.network, offset=plain.has_offset)
    ratio = max(plain.fit.cost - robust.fit.cost, 0.0) / extra / (robust.fit.cost / freedom)
    if stats.f.sf(ratio, extra, freedom) >= LINEAR_LEVEL:
        return plain
    # What rounding of the labels may leave needs no linear part: decimals that were cut off leave one of less than a step.
    return robust if reproduces_rows(problem, plain.fit.network)[0].missed else plain


def _certify_to_rounding(
    search: KinkSearch, fit: KinkFit, network: TwoLayerNetwork, has_offset: bool
) -> Recovery:
    """Certify a network whose residual is the rounding of the labels, without units that only fit this rounding."""
    pool, units = search.rows.pool, fit.n_units
    while fit.n_units > 1:
        kept = prune_units(fit, fit.n_units - 1)[0]
        thinner = search.rows.fit(pool, fit.V[kept], max_iter=POLISH_ITER, decrease_tol=POLISH_TOL)
        if thinner.cost > NEEDED_RISE * fit.cost:
            break
        fit = thinner
    if fit.n_units < units:
        start = (
            orient_noisily(fit).network
            if network.B is None
            else with_linear_part(fit, search.problem.scaling.x_scale)
        )
        network = refine(search.problem.blocks, start, offset=has_offset).network
    network = search.problem.scaling.in_order(network)
    refined = refine(search.problem.blocks, network, offset=has_offset, max_iter=0)
    n_patterns = 1 if network.B is None else 0
    return _certify_exactly(search, refined, has_offset, n_kinks=fit.n_units, n_patterns=n_patterns)[0]


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
