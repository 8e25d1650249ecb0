r"""Recover a ReLU network with any number of outputs: expand, fit, prune, polish, and certify.

Problem     Y = f(X W' + b) A' + c + ξ with f the ReLU, any m ≥ 1, any law of x, k possibly above d. Most real problems have one
            output, where fits in the ReLU form end in local minima. Sought: W, b, A, c up to order and scale of units.
Idea        1. Write the network as absolute values and a linear part: no orientation to guess (`_absolute_form`).
            2. Fit k + extra hyperplanes by variable projection, take away the units that are missed least, polish; repeat from
               other starts until all rows are reproduced or what is left is noise (`_expand_search`).
            3. Orient the units by the linear part (`_orient_units`).
            4. Refine on all rows in the ReLU form, certify (`certificate`).
            Without a given k, the width with the plateau of held-out error is used (`_width_path`).
Guarantee   None that the search succeeds; a network is called recovered by its certificate alone: every row reproduced to
            rounding, among them rows the search never used; more equations than unknowns; Jacobian of full rank; every unit
            seen by 2(d+1) rows on either side. Kind: heuristic; with noise asymptotic.
            Not promised: units that fewer rows see on one side (the linear part absorbs them; the outcome names the
            unit), two-valued inputs (several networks agree on all of them).
Notation    V = (W, b) hyperplanes, β halves of the output weights, Λ linear part.
Departures  Ours; no paper. The ambiguity of orientations is Claim 4.8 of [ATV21]_.
Cost        Per step of the search n' (M(d+1))²/2 multiplications for M units on n' rows, about 4 equations per unknown; some 20–40
            steps; a few passes over all rows. Memory O((M(d+1))²) and one block.
References  [ATV21]_
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from planted._typing import Array, Progress, Seed
from planted.algorithms._absolute_form import KinkFit, prune_units
from planted.algorithms._expand_checks import (
    ORIENTATION_GAP,
    SIDE_ROWS,
    check_sample_weight,
    count_missed_rows,
    few_outputs_evidence,
    weights_in_memory,
)
from planted.algorithms._expand_search import (
    EXACT_RMS,
    POLISH_ITER,
    POLISH_TOL,
    Attempt,
    SearchRows,
    attempts,
    split_rows,
)
from planted.algorithms._orient_units import orient_exactly, orient_noisily
from planted.algorithms._problem import Problem, prepare_problem
from planted.algorithms._robust_loss import check_loss, refine_with_loss
from planted.algorithms._width_path import WidthPath, follow_widths
from planted.algorithms.certificate import Verdict, certify_noiseless, certify_noisy
from planted.algorithms.refine import Refinement, refine
from planted.moments import RowBlocks
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Requirements, Unavailable

__all__ = ["REQUIRES", "recover_restarts"]

REQUIRES = Requirements(
    method="restarts",
    summary="expand, fit without signs, prune, polish: any inputs, any number of outputs, judged by its certificate",
    input_law="any",
    n_outputs="m >= 1",
    activations=("relu",),
    biases=True,
    noise="mean-zero",
    samples="noiseless about 3(k+1)(d+1)/m and more for k > d; noisy some 12 times as many as unknowns",
    guarantee=Guarantee.HEURISTIC,
    reference="planted",
    samples_needed=lambda d, k, m, is_noisy: (12.0 if is_noisy else 3.0) * (k + 1) * (d + 1) / m,
)

ZERO_OFFSET = 1e-10  # an offset of an exact fit below this, in output standard deviations, is none
FINE_RMS = 1e-13  # residual after which refining an exact fit changes nothing
SAME_SCORE = 1e-3  # relative difference of held-out scores at which two attempts ended at the same network
IDLE = 0.1  # part of the exactness threshold that leaving a unit out may cost
MAX_REPEATS = 2  # further attempts that end at the same score as a finished fit before it is returned
MIN_ROWS = 8


def recover_restarts(
    blocks: RowBlocks,
    n_hidden: int | str = "auto",
    *,
    n_restarts: int = 10,
    extra: int | str = "auto",
    offset: bool | str = "auto",
    loss: str = "squared",
    sample_weight: Any = None,
    random_state: Seed = None,
    progress: Progress | None = None,
) -> Recovery:
    """Recover a network with any number of outputs by restarts of an expanded fit.

    Parameters
    ----------
    blocks : RowBlocks
        The data.
    n_hidden : int or "auto"
        Number of units; chosen by held-out error if "auto".
    n_restarts : int
        Largest number of attempts.
    extra : int or "auto"
        Units beyond ``n_hidden`` in the expanded fit; half as many again, at least four, if "auto".
    offset : bool or "auto"
        Whether the outputs may have an unknown constant; "auto" keeps it when it is needed.
    loss : {"squared", "huber", "cauchy"}
        Loss of the fit; the last two forgive outliers.
    sample_weight : array_like of shape (n,), optional
        Weights of the samples, inverse to the variance of their noise.
    random_state : int, Generator, SeedSequence or None
        Seed of the solver.
    progress : callable, optional
        Told what is being done, with the best residual so far.

    Returns
    -------
    Recovery
        The network with its evidence. Interrupted by Ctrl-C, the best network so far with outcome ``STOPPED_EARLY``.
    """
    check_loss(loss)
    problem = prepare_problem(blocks, random_state=random_state, progress=progress)
    omega = check_sample_weight(sample_weight, problem.n_samples)
    problem, local = weights_in_memory(problem, omega)
    options = {
        "n_hidden": n_hidden,
        "n_restarts": n_restarts,
        "extra": extra,
        "offset": offset,
        "loss": loss,
        "sample_weight": "given" if omega is not None else None,
    }
    refusal = _too_few_samples(problem, n_hidden, options)
    if refusal is not None:
        return refusal
    search = split_rows(problem, loss=loss, omega=local)
    run = _Run(problem, search, n_hidden, offset, loss, omega, options)
    try:
        return _recover(run, n_restarts, extra)
    except KeyboardInterrupt:
        return run.interrupted()


@dataclass(slots=True)
class _Run:
    """A run in progress: what was asked, and the best so far."""

    problem: Problem
    search: SearchRows
    n_hidden: int | str
    offset: bool | str
    loss: str
    omega: Array | None
    options: dict[str, Any]
    trace: list[dict[str, Any]] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    best: Attempt | None = None
    path: WidthPath | None = None

    def note(self, attempt: Attempt) -> None:
        """Remember an attempt."""
        self.trace.append(attempt.record)
        if self.best is None or attempt.score < self.best.score:
            self.best = attempt
        self.scores.append(attempt.score)

    def has_seen(self, score: float) -> bool:
        """Whether an earlier attempt ended at the same held-out score."""
        return any(abs(score - other) <= SAME_SCORE * score for other in self.scores)

    def record(self, network: TwoLayerNetwork | None, verdict: Verdict) -> Recovery:
        """Make the record of a verdict on a network of the standardised problem."""
        starts = sum(item["start"] in ("random", "warm") for item in self.trace)
        evidence = verdict.evidence
        if self.path is not None:
            scores = {str(k): float(np.sqrt(score)) for k, score in sorted(self.path.scores.items())}
            chosen = Evidence("units at the plateau of held-out error", self.path.n_hidden, comparison="info")
            evidence = (chosen, *evidence)
        else:
            scores = {}
        return Recovery(
            network=None if network is None else self.problem.scaling.restore(network),
            outcome=verdict.outcome,
            guarantee=verdict.guarantee,
            evidence=evidence,
            uncertainty=verdict.uncertainty,
            stats=self.problem.stats(
                restarts=starts,
                iterations=sum(len(item["costs"]) for item in self.trace),
                held_out_residual_by_width=scores,
            ),
            provenance=self.problem.provenance(REQUIRES, self.options),
            detail=verdict.detail,
            trace=tuple(self.trace),
        )

    def interrupted(self) -> Recovery:
        """Return the best so far; nothing more is read."""
        reason = Unavailable("The search was interrupted.")
        if self.best is None:
            text = "Interrupted before the first attempt ended."
            return self.record(None, Verdict(Outcome.STOPPED_EARLY, Guarantee.NONE, (), text, reason))
        level = Evidence("held-out residual, in output standard deviations", float(np.sqrt(self.best.score)))
        text = f"Interrupted after {len(self.trace)} attempt(s); the best misses held-out rows by {level.measured:.2g}."
        network = orient_noisily(self.best.fit).network
        return self.record(network, Verdict(Outcome.STOPPED_EARLY, Guarantee.NONE, (level,), text, reason))


def _recover(run: _Run, n_restarts: int, extra: int | str) -> Recovery:
    """Attempt until a certificate holds; else return the best with what speaks against it."""
    k, first = _starting_width(run)
    if k == 0:
        return run.record(None, _no_kink_verdict())
    answer, answer_score, repeats = None, np.inf, 0
    tries = attempts(run.problem, run.search, k, extra=extra, n_restarts=n_restarts)
    for attempt in chain(first, tries):
        is_repeated = run.has_seen(attempt.score)
        run.note(attempt)
        repeats += int(abs(attempt.score - answer_score) <= SAME_SCORE * attempt.score)
        exact = attempt if attempt.is_exact else explain_bulk(run.search, attempt.fit)
        if exact is not None:
            recovery = _finish_exactly(run, exact)
            if recovery.outcome is not Outcome.FITTED:
                return recovery
        elif attempt.score < (1 - SAME_SCORE) * answer_score and (attempt.is_settled or is_repeated):
            answer, answer_score, repeats = _finish_noisily(run, attempt), attempt.score, 0
            if answer.outcome is Outcome.RECOVERED:
                return answer
        if repeats >= MAX_REPEATS:
            break
    if answer is None:
        assert run.best is not None
        answer = replace(_finish_noisily(run, run.best), outcome=Outcome.STOPPED_EARLY, guarantee=Guarantee.NONE)
    return answer


def _starting_width(run: _Run) -> tuple[int, list[Attempt]]:
    """Return the number of units to look for and, if it was chosen by a path, the path's own fit as first attempt."""
    rows = run.search.rows
    linear = np.linalg.lstsq(rows, run.search.Y, rcond=None)[0]
    if np.abs(run.search.Y - rows @ linear).max() <= EXACT_RMS:
        return 0, []
    if isinstance(run.n_hidden, int):
        return run.n_hidden, []
    run.path = path = follow_widths(run.problem, run.search)
    run.trace.extend(path.records)
    score, missed = run.search.judge(path.fit)
    record = {"start": "path", "k": path.n_hidden, "residual": float(np.sqrt(score)), "costs": []}
    is_exact = run.loss == "squared" and path.is_exact
    return path.n_hidden, [Attempt(path.fit, score, is_exact, missed, True, score, record)]


def _finish_exactly(run: _Run, attempt: Attempt) -> Recovery:
    """Orient, refine and certify a fit that reproduces its rows."""
    problem = run.problem
    fit = _without_idle_units(run.search, attempt)
    oriented = orient_exactly(fit)
    network, has_offset = _settle_offset(run, oriented.network)
    refined = refine(problem.blocks, network, offset=has_offset, max_iter=0)
    if refined.cost > FINE_RMS**2 * problem.n_samples * problem.n_outputs:
        refined = refine(problem.blocks, network, offset=has_offset)
    return _certify_exactly(run, refined, has_offset, n_kinks=fit.n_units, n_patterns=oriented.n_patterns)


def _certify_exactly(
    run: _Run, refined: Refinement, has_offset: bool, *, n_kinks: int, n_patterns: int
) -> Recovery:
    """Certify a network that seems to reproduce all rows."""
    problem = run.problem
    missed, active = count_missed_rows(problem, refined.network)
    further = few_outputs_evidence(problem, refined.network, active)
    verdict = certify_noiseless(problem, refined, offset=has_offset, rivals=None, further=further)
    verdict = _with_orientations(verdict, n_patterns, len(run.search.held_out))
    if verdict.outcome is Outcome.FITTED and missed <= SIDE_ROWS * (problem.n_features + 1):
        verdict = replace(
            verdict, outcome=Outcome.NOT_IDENTIFIABLE, detail=_missed_text(run, n_kinks, missed)
        )
    return run.record(refined.network, _against_request(run, verdict, refined.network, n_kinks))


def _without_idle_units(search: SearchRows, attempt: Attempt) -> KinkFit:
    """Polish an exact fit to the end and take away units that it does not need: dead, or coincident with another."""
    fit, cells = attempt.fit, len(search.pool) * search.Y.shape[1]
    if attempt.missed or fit.cost > FINE_RMS**2 * cells:
        fit = search.fit(search.pool, fit.V, max_iter=POLISH_ITER, decrease_tol=POLISH_TOL)
    kept, losses = prune_units(fit, 1, tol=(IDLE * EXACT_RMS) ** 2 * cells)
    if not losses.size:
        return fit
    thinner = search.fit(search.pool, fit.V[kept], max_iter=POLISH_ITER, decrease_tol=POLISH_TOL)
    return thinner if thinner.cost <= EXACT_RMS**2 * cells else fit


def _settle_offset(run: _Run, network: TwoLayerNetwork) -> tuple[TwoLayerNetwork, bool]:
    """Decide whether an exact network has an offset."""
    if run.offset is True or run.problem.scaling.y_shift.any():
        return network, True
    if run.offset is False or np.abs(network.c).max() <= ZERO_OFFSET:
        return TwoLayerNetwork(network.W, network.b, network.A, None), False
    return network, True


def _with_orientations(verdict: Verdict, n_patterns: int, held_out: int) -> Verdict:
    """Add what was held out, and say when the signs of the units are a matter of choice."""
    lines = (
        Evidence("samples that the search did not use", held_out, comparison="info"),
        Evidence("sign patterns of the units that give this function", n_patterns, comparison="info"),
    )
    detail = verdict.detail
    if n_patterns > 1:
        detail += f" {n_patterns} sign patterns of its units give the same function; the simplest is shown."
    return replace(verdict, evidence=(*verdict.evidence, *lines), detail=detail)


def _missed_text(run: _Run, n_kinks: int, missed: int) -> str:
    return (
        f"{n_kinks} units reproduce all but {missed} of {run.problem.n_samples} samples; "
        f"{SIDE_ROWS * (run.problem.n_features + 1)} are needed to place a further unit."
    )


def _against_request(run: _Run, verdict: Verdict, network: TwoLayerNetwork, n_kinks: int) -> Verdict:
    """A network with another number of units than asked for is not the one that was asked for."""
    if not isinstance(run.n_hidden, int) or network.n_hidden == run.n_hidden:
        return verdict
    if verdict.outcome not in (Outcome.RECOVERED, Outcome.NOT_IDENTIFIABLE):
        return verdict
    if network.n_hidden < run.n_hidden:
        text = (
            f"{network.n_hidden} units reproduce all samples; {run.n_hidden} were asked for. "
            "A unit that is never on, or that coincides with another, leaves no trace."
        )
    else:
        text = (
            f"{n_kinks} kinks and a linear part reproduce all samples, but no orientation of {run.n_hidden} units "
            "gives that linear part: a unit that is on in nearly every sample cannot be told from it. "
            f"{verdict.detail if verdict.outcome is Outcome.NOT_IDENTIFIABLE else ''}"
        )
    return replace(verdict, outcome=Outcome.NOT_IDENTIFIABLE, guarantee=Guarantee.NONE, detail=text)


def _finish_noisily(run: _Run, attempt: Attempt) -> Recovery:
    """Orient, refine and certify a fit to noisy rows."""
    problem = run.problem
    oriented = orient_noisily(attempt.fit)
    fit, has_offset, weights = refine_with_loss(
        problem, oriented.network, run.offset, loss=run.loss, omega=run.omega
    )
    if run.loss == "squared" and fit.cost <= EXACT_RMS**2 * problem.n_samples * problem.n_outputs:
        return _certify_exactly(run, fit, has_offset, n_kinks=fit.network.n_hidden, n_patterns=1)
    active = count_missed_rows(problem, fit.network)[1]
    gap = Evidence(
        "rise of the cost when the least certain unit is turned round, in noise variances",
        oriented.gap / attempt.noise_variance,
        ORIENTATION_GAP,
        ">=",
    )
    further = (gap, *few_outputs_evidence(problem, fit.network, active))
    verdict = certify_noisy(problem, fit, offset=has_offset, weights=weights, further=further)
    return run.record(fit.network, _cautious(run, verdict, fit))


def _cautious(run: _Run, verdict: Verdict, fit: Refinement) -> Verdict:
    """Never call recovered an unfinished refinement or a loss without a residual test; nor blame the data for a local minimum.

    Two units that came to coincide leave a singular Jacobian. Whether the data or the search are to blame is not known then.
    """
    if verdict.outcome is Outcome.NOT_IDENTIFIABLE and not _has_full_rank(verdict):
        return replace(verdict, outcome=Outcome.FITTED, guarantee=Guarantee.HEURISTIC)
    if verdict.outcome is not Outcome.RECOVERED:
        return verdict
    if not fit.converged:
        return replace(verdict, outcome=Outcome.STOPPED_EARLY, guarantee=Guarantee.NONE)
    if run.loss != "squared":
        text = f"Fitted with the {run.loss} loss; the test of the residual is made for least squares."
        return replace(verdict, outcome=Outcome.FITTED, guarantee=Guarantee.HEURISTIC, detail=text)
    return verdict


def _has_full_rank(verdict: Verdict) -> bool:
    return all(item.passed for item in verdict.evidence if "singular value" in item.name)


def _no_kink_verdict() -> Verdict:
    text = "The outputs are a linear function of the inputs on all samples: no unit is seen both on and off."
    reason = Unavailable("There is no network.")
    return Verdict(Outcome.NOT_IDENTIFIABLE, Guarantee.NONE, (), text, reason)


def _too_few_samples(problem: Problem, n_hidden: int | str, options: dict[str, Any]) -> Recovery | None:
    """Refuse when there are fewer equations than unknowns, or hardly any rows."""
    d, m = problem.n_features, problem.n_outputs
    k = n_hidden if isinstance(n_hidden, int) else 1
    need = max((k * (d + m)) // m + 1, d + 2, MIN_ROWS)
    if problem.n_samples > need:
        return None
    line = Evidence("samples", problem.n_samples, need + 1, ">=", "(k(d+1) + mk - k)/m and one more")
    text = f"{problem.n_samples} samples for {k} unit(s) of {d} inputs; at least {need + 1} are needed."
    reason = Unavailable("There is no network.")
    return Recovery(
        None,
        Outcome.TOO_FEW_SAMPLES,
        Guarantee.NONE,
        (line,),
        reason,
        problem.stats(restarts=0),
        problem.provenance(REQUIRES, options),
        text,
    )
