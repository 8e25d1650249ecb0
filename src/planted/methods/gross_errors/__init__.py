r"""Recover a network from labels some of which are grossly wrong (BJW18 §8).

Problem     Y = f(X W' + b) A' + c + E with m > k and E zero in most entries, of any size in the others. Some entries may be
            missing. Sought: the network exactly, and the list of wrong entries.
Idea        1. The true labels have rank k (k + 1 with an offset) and the errors are sparse: split Y into a low-rank and a
               sparse part (`programs.low_rank_sparse`), on some rows: alternating projections by default, or
               principal component pursuit. Without a given k the smallest rank that reproduces more than half of
               the entries to rounding.
            2. Recover exactly from the low-rank part, with any method for noiseless labels (`complementarity`).
            3. Compare the network with every entry of every row, in one streaming pass: what is not reproduced to
               rounding is wrong. Entries need no redundancy any more, the function decides.
Guarantee   Theorem 14 of [BJW18]_ for pursuit: exact for incoherent A, normal x and a constant fraction of errors. Here the
            answer is certified by itself: more than half of the entries of every output of *all* rows are reproduced to
            rounding, the clean entries alone outnumber the unknowns, their Jacobian has full rank, and the places of the
            errors ignore x and one another: what is wrong on one side of a hyperplane, or in all outputs of a few samples,
            is a unit, not an error. Kind: exact.
            Not promised: m = k (every matrix has that rank), a unit that only one output sees (its errors cannot be told
            from it), errors in half of the entries or more, noise on top.
Notation    paper: A (ours Y'), U (A), V (W), E (Y' - L'), λ (weight of the sparse part).
Departures  The theorem's rank bound k ≤ m / (μ̄ log² n) is below one at m = 50, n = 2,000, and the split at the printed λ is
            wrong in some entries at 5 % of errors; it still gives the hidden layer, and the output weights are fitted
            again to the labels themselves (`regress_despite_errors`). Alternating projections are the default; the printed
            λ is ``decomposition="pursuit-printed"``.
Cost        About a second for 2,000 rows of 50 outputs, then one pass, O(n m k), memory one block.
References  [BJW18]_, [CLMW11]_, [NNSAJ14]_
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from planted._clock import check_time
from planted._typing import Array
from planted._validation import check_choice
from planted.certificates._exact import RESIDUAL_TOL
from planted.certificates._error_places import errors_ignore_each_other, errors_ignore_inputs
from planted.checks import Check
from planted.fitting._masked_labels import fill_unlisted, label_counts, masked_conditioning
from planted.fitting._outlier_table import OutlierTable, find_outliers
from planted.fitting._problem import Problem
from planted.fitting._refine import refine
from planted.fitting._run import MethodRun
from planted.fitting._standard_errors import degrees_of_freedom
from planted.linalg.low_rank_sparse import (
    LowRankSparse,
    alternating_projections,
    polish_low_rank,
    principal_component_pursuit,
    regress_despite_errors,
    tuned_weight,
)
from planted.moments import augment
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Verdict
from planted.rows import RowBlocks

__all__ = ["recover"]

DECOMPOSITIONS = ("alternating", "pursuit", "pursuit-printed")
SPLIT_ROWS = 2000
MAJORITY = 0.5
CONDITIONING_TOL = 1e-6
NEARLY = 1e-6  # residual of a right label before the last polish, in output standard deviations
COHERENT = 1 - 1e-6  # leverage of an output that alone sees a direction


def recover(
    run: MethodRun,
    n_hidden: int | str = "auto",
    *,
    decomposition: str = "alternating",
    offset: bool | str = "auto",
    max_rank: int = 20,
) -> Recovery:
    """Recover a network from labels with gross errors, and count them.

    Parameters
    ----------
    run : MethodRun
        The run, with its problem.
    n_hidden : int or "auto"
        Number of units; the rank of the true labels if "auto".
    decomposition : {"alternating", "pursuit", "pursuit-printed"}
        Alternating projections, or principal component pursuit with the tuned or the printed weight.
    offset : bool or "auto"
        Whether the outputs may have an unknown constant.
    max_rank : int
        Largest rank tried if ``n_hidden`` is "auto".

    Returns
    -------
    Recovery
        The network with its evidence; ``stats["outliers"]`` counts and lists wrong entries. `planted.outliers` gives all
        of them, and their mask.
    """
    check_choice("decomposition", decomposition, DECOMPOSITIONS)
    search = _Search(run, decomposition, offset, max_rank)
    _require(search)
    best, doubtful = 0.0, None
    for split in _splits(search):
        best = max(best, split.clean_share)
        if split.clean_share > MAJORITY:
            answer = _recover_from(search, split)
            if answer.outcome is Outcome.RECOVERED:
                return answer
            if doubtful is None or doubtful.outcome is not Outcome.NOT_IDENTIFIABLE:
                doubtful = answer  # where a unit is off the rank is lower: a higher one may explain all rows
    return doubtful or _no_majority(run, best)


@dataclass(frozen=True, slots=True)
class _Search:
    """What was asked, and the rows to split."""

    run: MethodRun
    decomposition: str
    offset: bool | str
    max_rank: int

    @property
    def problem(self) -> Problem:
        return self.run.problem

    @property
    def rows(self) -> slice:
        need = 12 * (self.problem.n_features + 1 + self.problem.n_outputs)
        return slice(0, max(SPLIT_ROWS, need))

    @property
    def X(self) -> Array:
        return self.problem.X[self.rows]

    @property
    def Y(self) -> Array:
        return self.problem.Y[self.rows]


def _require(search: _Search) -> None:
    """Refuse labels without redundancy, and too few samples."""
    run, (_, d, m), n = search.run, search.problem.shape, len(search.X)
    k = run.n_hidden if isinstance(run.n_hidden, int) else 1
    run.refuse_unless(
        Evidence("outputs", m, k + 1, ">=", "m > k", key=Check.OUTPUTS),
        detail=f"{m} output(s): labels of full rank have no redundancy by which errors could be told.",
    )
    run.refuse_unless(
        Evidence("samples", n, d + 3, ">=", key=Check.SAMPLES),
        outcome=Outcome.TOO_FEW_SAMPLES,
        detail=f"{n} samples; at least {d + 3} are needed.",
    )


def _no_majority(run: MethodRun, best: float) -> NoReturn:
    """Refuse labels most of which no low-rank matrix reproduces."""
    name = "share of the labels that one low-rank matrix reproduces"
    text = (
        f"No matrix of rank below {run.problem.n_outputs} reproduces more than half of the labels to rounding (at most "
        f"{best:.0%}): too many are wrong, or there is noise on all of them, or there are as many units as outputs."
    )
    line = Evidence(name, best, MAJORITY, ">", "majority", key=Check.LOW_RANK_SHARE)
    run.refuse(Outcome.ASSUMPTION_FAILED, text, line)


def _splits(search: _Search) -> Iterator[LowRankSparse]:
    """Splits of increasing rank; pursuit finds the rank itself."""
    asked, m = search.run.n_hidden, search.problem.n_outputs
    known, Y = np.isfinite(search.Y), np.nan_to_num(search.Y)
    if search.decomposition != "alternating":
        search.problem.progress("principal component pursuit", float("nan"))
        printed = search.decomposition == "pursuit-printed"
        L, _ = principal_component_pursuit(Y, weight=tuned_weight(Y.shape, as_printed=printed), known=known)
        values = np.linalg.svd(L, compute_uv=False)
        rank = int((values > 1e-4 * values[0]).sum()) if values[0] > 0 else 1
        if rank < m:
            yield polish_low_rank(Y, L, rank, known=known)
        return
    extra = 0 if search.offset is False else 1
    ranks = range(asked, asked + extra + 1) if isinstance(asked, int) else range(1, search.max_rank + 1)
    for rank in ranks:
        if rank >= min(m, len(Y)):
            return
        check_time()
        search.problem.progress(f"splitting the labels at rank {rank}", float("nan"))
        yield alternating_projections(Y, rank, known=known)


def _recover_from(search: _Search, split: LowRankSparse) -> Recovery:
    """Recover from the low-rank part (step 2), compare with all rows (step 3), and decide."""
    run, problem = search.run, search.problem
    leverage = (split.basis**2).sum(axis=1)
    worst = int(np.argmax(leverage))
    coherence = Evidence(
        f"largest leverage of an output (here {worst})",
        float(leverage[worst]),
        COHERENT,
        "<=",
        "incoherent A",
        key=Check.LEVERAGE,
    )
    if not coherence.passed:
        text = (
            f"Output {worst} alone sees a direction of the hidden layer (leverage {leverage[worst]:.6f}): its errors "
            "cannot be told from it."
        )
        return run.finish(None, Verdict.refusal(Outcome.NOT_IDENTIFIABLE, text, coherence))
    rows = split.is_decided
    inner = run.solve(
        "complementarity",
        RowBlocks.from_arrays(search.X[rows], split.L[rows]),
        run.n_hidden,
        noise="none",
        offset=search.offset,
        random_state=problem.rng,
        progress=problem.progress,
    )
    if inner.network is None or inner.outcome is not Outcome.RECOVERED:
        return _pass_on(search, inner, coherence)
    network = problem.scaling.in_order(_with_robust_outputs(problem, inner.network))
    in_memory = RowBlocks.from_arrays(*fill_unlisted(network, NEARLY)(problem.X, problem.Y))
    fit = refine(in_memory, network, offset=bool(network.c.any()))
    return _decide(search, inner, fit.network, coherence)


def _with_robust_outputs(problem: Problem, network: TwoLayerNetwork) -> TwoLayerNetwork:
    """Fit the output weights again to the labels themselves: a unit that the split took for errors comes back."""
    H, offset = network.activation(network.preactivations(problem.X)), bool(network.c.any())
    known = np.isfinite(problem.Y)
    B = regress_despite_errors(augment(H) if offset else H, np.nan_to_num(problem.Y), known=known)
    return TwoLayerNetwork(network.W, network.b, B[: network.n_hidden].T, B[-1] if offset else None)


def _pass_on(search: _Search, inner: Recovery, coherence: Evidence) -> Recovery:
    """Hand on why the cleaned labels gave no certified network."""
    outcome = inner.outcome
    if outcome in (Outcome.STOPPED_EARLY, Outcome.FITTED, Outcome.RECOVERED):
        outcome = Outcome.ASSUMPTION_FAILED
    text = f"The labels were cleaned, but no ReLU network was found behind them: {inner.detail}"
    answer = search.run.finish(None, Verdict.refusal(outcome, text, coherence, *inner.evidence))
    return replace(answer, trace=inner.trace)


def _decide(search: _Search, inner: Recovery, network: TwoLayerNetwork, coherence: Evidence) -> Recovery:
    """Judge the network on all entries of all rows."""
    problem, (n, _, m) = search.problem, search.problem.shape
    table = find_outliers(problem.blocks, network, limits=np.full(m, RESIDUAL_TOL))
    lines = (coherence, *_checks(search, table, network))
    failed = [line for line in lines if not line.passed]
    outcome, guarantee = inner.outcome, inner.guarantee
    detail = (
        f"{table.n_entries:,} of {n * m:,} labels ({table.n_entries / (n * m):.1%}), in "
        f"{table.n_rows:,} samples, are wrong; all others are reproduced to {RESIDUAL_TOL:.0e} output standard deviations."
    )
    if failed:
        outcome, guarantee = Outcome.NOT_IDENTIFIABLE, Guarantee.NONE
        detail = "; ".join(line.shortfall for line in failed)
    verdict = Verdict(outcome, guarantee, (*lines, *inner.evidence), detail, inner.uncertainty)
    outliers = table.to_dict(unit=problem.scaling.y_scale)
    answer = search.run.finish(network, verdict, rows_split=len(search.X), outliers=outliers)
    return replace(answer, trace=inner.trace)


def _checks(search: _Search, table: OutlierTable, network: TwoLayerNetwork) -> tuple[Evidence, ...]:
    """The conditions on the labels that are right."""
    n = table.shape[0]
    offset = bool(network.c.any())
    missing = label_counts(search.problem.blocks)[2]
    wrong = table.by_output + missing
    worst = int(np.argmax(wrong))
    counts = np.abs(search.Y - network(search.X)) <= RESIDUAL_TOL
    unknowns = degrees_of_freedom(network, offset=offset)
    conditioning = masked_conditioning(search.X, counts, network, offset=offset)
    is_wrong = np.abs(search.problem.Y - network(search.problem.X)) > RESIDUAL_TOL
    return (
        errors_ignore_inputs(search.problem.X, is_wrong, network),
        errors_ignore_each_other(is_wrong),
        Evidence("wrong labels", table.n_entries, key=Check.WRONG_LABELS),
        Evidence("samples with a wrong label", table.n_rows, key=Check.WRONG_SAMPLES),
        Evidence("missing labels", int(missing.sum()), key=Check.MISSING_LABELS),
        Evidence(
            f"share of right labels of output {worst}",
            1 - float(wrong[worst]) / n,
            MAJORITY,
            ">",
            "majority",
            key=Check.RIGHT_SHARE,
        ),
        Evidence(
            "right labels among the rows split",
            int(counts.sum()),
            2 * unknowns,
            ">=",
            "twice the unknowns",
            key=Check.EQUATIONS,
        ),
        Evidence(
            "smallest relative singular value of the Jacobian on them",
            conditioning,
            CONDITIONING_TOL,
            ">=",
            key=Check.JACOBIAN,
        ),
    )
