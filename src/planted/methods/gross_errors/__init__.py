r"""Recover a network from labels some of which are grossly wrong (BJW18 §8).

Problem     Y = f(X W' + b) A' + c + E with m > k and E zero in most entries, of any size in the others. Some entries may
            be missing. Sought: the network exactly, and the list of wrong entries.
Idea        1. The true labels have rank k (k + 1 with an offset) and the errors are sparse: split Y, on some rows, into a
               low-rank and a sparse part (`linalg.low_rank_sparse`), by alternating projections (default) or by
               principal component pursuit. Without a given k take the smallest rank that reproduces more than half of
               the entries to rounding.
            2. Recover exactly from the low-rank part, with a method for noiseless labels.
            3. Fit the output weights again to the labels themselves: a unit that the split took for errors comes back.
            4. Compare the network with every entry of every row, in one streaming pass: what is not reproduced to
               rounding is wrong. The function decides, so that no redundancy is needed any more.
Guarantee   Theorem 14 and Corollary 8 of [BJW18]_ for pursuit (`printed`): exact for incoherent A, normal x and a constant
            fraction of errors. Here the answer is certified by itself: more than half of the entries of every output of
            *all* rows are reproduced to rounding, the clean entries alone outnumber the unknowns, their Jacobian has full
            rank, and the places of the errors are independent of x and of one another. What is wrong on one side of a
            hyperplane, or in all outputs of a few samples at the rim of x, may be a unit and not an error. A sample among
            the others cannot (`no_unit_explains`), and a sample at the rim only if a unit is on there
            alone (`needs_a_unit_each`): it is an error if k is given, or if units are assumed to be on in two samples or
            more, which no data can show (``rare_units=False``). Kind: exact.
            Not promised: m = k (every matrix has that rank), a unit that only one output sees (its errors cannot be told
            from it), errors in half of the entries or more, noise on top.
Notation    paper: A (ours Y'), U (A), V (W), E (Y' - L').
Departures  Alternating projections are the default; ``decomposition="pursuit-printed"`` has the weight λ of the theorem,
            ``"pursuit"`` two and a half times that. The theorem's rank bound k ≤ m / (μ̄ log² n) is below one at m = 50,
            n = 2,000, and the split at the printed λ is wrong in some entries at 5 % of errors. So pursuit's L is
            polished at one rank after the other, like the projections'; step 3 repairs the rest.
Cost        About a second for 2,000 rows of 50 outputs, then one pass, O(n m k), memory one block.
References  [BJW18]_, [CLMW11]_, [NNSAJ14]_
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from planted._clock import check_time
from planted._typing import Array, BoolArray
from planted._validation import check_choice
from planted.certificates._error_places import (
    errors_ignore_each_other,
    errors_ignore_inputs,
    unit_among_outliers,
)
from planted.certificates._exact import RESIDUAL_TOL, output_limits
from planted.checks import Check
from planted.fitting._jacobian import degrees_of_freedom
from planted.fitting._masked_labels import fill_unlisted, label_counts, masked_conditioning
from planted.fitting._outlier_table import OutlierTable, find_outliers
from planted.fitting._refine import refine
from planted.fitting._run import MethodRun, Problem
from planted.linalg import unit_rows
from planted.linalg._highs import LinearProgram, ProgramStatus, solve_program
from planted.linalg.low_rank_sparse import (
    LowRankSparse,
    alternating_projections,
    polish_low_rank,
    principal_component_pursuit,
    regress_despite_errors,
    tuned_weight,
)
from planted.methods.gross_errors.printed import corollary_8, theorem_14
from planted.moments import augment
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError, Guarantee, Outcome
from planted.results import Evidence, Recovery, Verdict
from planted.rows import RowBlocks

__all__ = ["needs_a_unit_each", "no_unit_explains", "recover"]

DECOMPOSITIONS = ("alternating", "pursuit", "pursuit-printed")
SPLIT_ROWS = 2000
MAJORITY = 0.5
CONDITIONING_TOL = 1e-6
ROUGHLY = 0.5  # robust sizes by which pursuit may miss a right label: far from its theorem it is not exact
NEARLY = 1e-6  # residual of a right label before the last polish, in output standard deviations
WHOLLY_WRONG = 200  # samples wrong in all outputs that are looked at one by one
# Smallest singular value of unit residuals; units that share a direction leave rounding error.
INDEPENDENT = 1e-3
COHERENT = 1 - 1e-6  # leverage of an output that alone sees a direction


def recover(
    run: MethodRun,
    n_hidden: int | str = "auto",
    *,
    decomposition: str = "alternating",
    weight: float | None = None,
    offset: bool | str = "auto",
    max_rank: int = 20,
    rare_units: bool = False,
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
    weight : float, optional
        λ of the tuned pursuit; 2.5/√max(n, m) if omitted.
    offset : bool or "auto"
        Whether the outputs may have an unknown constant.
    max_rank : int
        Largest rank tried if ``n_hidden`` is "auto".
    rare_units : bool
        Whether a unit may be on in one sample alone. A sample at the rim of x that is wrong in all outputs may then be a
        unit, and nothing is claimed unless ``n_hidden`` is given. ``method="auto"`` asks for this.

    Returns
    -------
    Recovery
        The network with its evidence; ``stats["outliers"]`` counts and lists wrong entries. `planted.outliers` gives all
        of them, and their mask.
    """
    check_choice("decomposition", decomposition, DECOMPOSITIONS)
    if weight is not None and not (decomposition == "pursuit" and 0 < weight < np.inf):
        raise BadInputError(f"weight={weight!r}; expected a positive number, with decomposition='pursuit'")
    search = _Search(run, decomposition, weight, offset, max_rank, rare_units)
    _require(search)
    best, doubtful = 0.0, None
    for split in _splits(search):  # step 1
        best = max(best, split.clean_share)
        if split.clean_share > MAJORITY:
            answer = _recover_from(search, split)  # steps 2 to 4
            if answer.outcome is Outcome.RECOVERED:
                return answer
            if doubtful is None or doubtful.outcome is not Outcome.NOT_IDENTIFIABLE:
                doubtful = answer  # where a unit is off the rank is lower: a higher one may explain all rows
    if doubtful is not None:
        return doubtful
    name = "share of the labels that one low-rank matrix reproduces"
    line = Evidence(name, best, MAJORITY, ">", "majority", key=Check.LOW_RANK_SHARE)
    text = (
        f"No matrix of rank below {run.problem.n_outputs} reproduces more than half of the labels to rounding (at most "
        f"{best:.0%}): too many are wrong, or there is noise on all of them, or there are as many units as outputs."
    )
    run.refuse(Outcome.ASSUMPTION_FAILED, text, line)


@dataclass(frozen=True, slots=True)
class _Search:
    """What was asked, and the rows to split."""

    run: MethodRun
    decomposition: str
    weight: float | None  # λ of pursuit
    offset: bool | str
    max_rank: int
    rare_units: bool  # whether a unit may be on in one sample alone

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

    def recover_exactly(self, X: Array, L: Array) -> Recovery:
        """Recover the network behind exact labels."""
        problem = self.problem
        return self.run.solve(
            "complementarity",
            RowBlocks.from_arrays(X, L),
            self.run.n_hidden,
            noise="none",
            offset=self.offset,
            random_state=problem.rng,
            progress=problem.progress,
        )


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


def _splits(search: _Search) -> Iterator[LowRankSparse]:
    """Yield splits of increasing rank below the number of outputs."""
    asked, m = search.run.n_hidden, search.problem.n_outputs
    known, Y = np.isfinite(search.Y), np.nan_to_num(search.Y)
    L = _pursue(search, Y, known)
    extra = 0 if search.offset is False else 1
    ranks = range(asked, asked + extra + 1) if isinstance(asked, int) else range(1, search.max_rank + 1)
    for rank in ranks:
        if rank >= min(m, len(Y)):
            return
        check_time()
        search.problem.progress(f"splitting the labels at rank {rank}", float("nan"))
        if L is None:
            yield alternating_projections(Y, rank, known=known)
        else:
            yield polish_low_rank(Y, L, rank, known=known, threshold=ROUGHLY)


def _pursue(search: _Search, Y: Array, known: BoolArray) -> Array | None:
    """Return the low-rank part of labels by principal component pursuit, if that was asked for."""
    if search.decomposition == "alternating":
        return None
    search.problem.progress("principal component pursuit", float("nan"))
    if search.decomposition == "pursuit-printed":
        return theorem_14(Y, known=known)
    weight = tuned_weight(Y.shape) if search.weight is None else search.weight
    return principal_component_pursuit(Y, weight=weight, known=known)[0]


def _recover_from(search: _Search, split: LowRankSparse) -> Recovery:
    """Recover from the low-rank part (step 2), fit the outputs again (3), and compare with all rows (4)."""
    run, problem = search.run, search.problem
    coherence, worst = _coherence(split)
    if not coherence.passed:
        text = (
            f"Output {worst} alone sees a direction of the hidden layer (leverage {coherence.measured:.6f}): its errors "
            "cannot be told from it."
        )
        return run.finish(None, Verdict.refusal(Outcome.NOT_IDENTIFIABLE, text, coherence))
    inner = corollary_8(search.X, split, search.recover_exactly)
    if inner.network is None or inner.outcome is not Outcome.RECOVERED:
        return _pass_on(search, inner, coherence)
    network = problem.scaling.in_order(_with_robust_outputs(problem, inner.network))
    in_memory = RowBlocks.from_arrays(*fill_unlisted(network, NEARLY)(problem.X, problem.Y))
    fit = refine(in_memory, network, offset=bool(network.c.any()))
    return _decide(search, inner, fit.network, coherence)


def _coherence(split: LowRankSparse) -> tuple[Evidence, int]:
    """Return the largest leverage of an output on the low-rank part, and the output."""
    leverage = (split.basis**2).sum(axis=1)
    worst = int(np.argmax(leverage))
    name, equation = f"largest leverage of an output (here {worst})", "incoherent A"
    size = float(leverage[worst])
    return Evidence(name, size, COHERENT, "<=", equation, key=Check.LEVERAGE), worst


def _with_robust_outputs(problem: Problem, network: TwoLayerNetwork) -> TwoLayerNetwork:
    """Fit the output weights again to the labels themselves: a unit that the split took for errors comes back."""
    H, offset = network.activation(network.preactivations(problem.X)), bool(network.c.any())
    known = np.isfinite(problem.Y)
    B = regress_despite_errors(augment(H) if offset else H, np.nan_to_num(problem.Y), known=known)
    return TwoLayerNetwork(network.W, network.b, B[: network.n_hidden].T, B[-1] if offset else None)


def _pass_on(search: _Search, inner: Recovery, coherence: Evidence) -> Recovery:
    """Return why the cleaned labels gave no certified network."""
    outcome = inner.outcome
    if outcome in (Outcome.STOPPED_EARLY, Outcome.FITTED, Outcome.RECOVERED):
        outcome = Outcome.ASSUMPTION_FAILED
    text = f"The labels were cleaned, but no ReLU network was found behind them: {inner.detail}"
    answer = search.run.finish(None, Verdict.refusal(outcome, text, coherence, *inner.evidence))
    return replace(answer, trace=inner.trace)


def _decide(search: _Search, inner: Recovery, network: TwoLayerNetwork, coherence: Evidence) -> Recovery:
    """Judge the network on all entries of all rows."""
    problem, (n, _, m) = search.problem, search.problem.shape
    table = find_outliers(problem.blocks, network, limits=output_limits(problem.Y))
    sure, note = _errors_for_sure(search, network)
    lines = (coherence, *_checks(search, table, network, ~sure))
    failed = [line for line in lines if not line.passed]
    outcome, guarantee = inner.outcome, inner.guarantee
    detail = (
        f"{table.n_entries:,} of {n * m:,} labels ({table.n_entries / (n * m):.1%}), in "
        f"{table.n_rows:,} samples, are wrong; all others are reproduced to {RESIDUAL_TOL:.0e} output standard deviations."
        f"{note}"
    )
    if failed:
        outcome, guarantee = Outcome.NOT_IDENTIFIABLE, Guarantee.NONE
        detail = "; ".join(line.shortfall for line in failed) + note
    verdict = Verdict(outcome, guarantee, (*lines, *inner.evidence), detail, inner.uncertainty)
    outliers = table.to_dict(unit=problem.scaling.y_scale)
    answer = search.run.finish(network, verdict, rows_split=len(search.X), outliers=outliers)
    return replace(answer, trace=inner.trace)


def no_unit_explains(X: Array, is_wrong: BoolArray) -> BoolArray:
    """Return which samples are wrong in all outputs although no unit can be on there and off on the samples that are not.

    A unit that was taken for errors makes every sample wrong on which it is on, in all outputs that see it. If x is a convex
    combination of samples that are not wrong in all outputs, no half-space has x on one side and all of these on the other.
    Shapes: X (n, d), is_wrong (n, m), result (n,).

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, 1.0], [0.0, -1.0], [3.0, 0.0]])
    >>> no_unit_explains(X, np.array([[True], [False], [False], [False], [True]])).tolist()
    [True, False, False, False, False]
    """
    wholly = is_wrong.all(axis=1)
    others = X[~wholly]
    found = np.zeros(len(X), dtype=np.bool_)
    size = len(others)
    for row in np.flatnonzero(wholly)[:WHOLLY_WRONG]:
        check_time()
        program = LinearProgram(
            c=np.zeros(size),
            G=np.zeros((0, size)),
            g=np.zeros(0),
            E=np.vstack([others.T, np.ones(size)]),
            e=np.append(X[row], 1.0),
            lower=np.zeros(size),
            upper=np.full(size, np.inf),
        )
        found[row] = solve_program(program).status is ProgramStatus.OPTIMAL
    return found


def needs_a_unit_each(residual: Array) -> bool:
    """Tell whether samples that are wrong in all outputs have independent residuals.

    A unit leaves multiples of its output weights wherever it is on. Where no sample's residual is a combination of the
    others', units could explain r samples only if there were r of them beyond those asked for, each on in one sample.
    Shapes: residual (r, m).

    Examples
    --------
    >>> needs_a_unit_each(np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]]))
    True
    >>> needs_a_unit_each(np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]]))
    False
    """
    if not 0 < len(residual) < residual.shape[1]:
        return False
    return bool(np.linalg.svd(unit_rows(residual)[0], compute_uv=False)[-1] > INDEPENDENT)


def _errors_for_sure(search: _Search, network: TwoLayerNetwork) -> tuple[BoolArray, str]:
    """Return which samples are wrong in all outputs and no unit of the network sought, and a note where its size decides."""
    X, k = search.problem.X, network.n_hidden
    residual = search.problem.Y - network(X)
    is_wrong = np.abs(residual) > output_limits(search.problem.Y)
    sure = no_unit_explains(X, is_wrong)
    at_rim = is_wrong.all(axis=1) & ~sure
    if not needs_a_unit_each(residual[at_rim]):
        return sure, ""
    places = ", ".join(map(str, np.flatnonzero(at_rim)))
    text = f" Wrong in all outputs at the rim of x, sample(s) {places}: "
    if isinstance(search.run.n_hidden, int):
        return sure | at_rim, f"{text}errors, because there are {k} units; otherwise each might be a unit."
    if not search.rare_units:
        return sure | at_rim, f"{text}errors, unless a unit is on there alone (rare_units)."
    return sure, (
        f"{text}errors, or a unit each that is on there alone. If there are {k} units, give n_hidden={k}; "
        "method='gross-errors' takes them for errors."
    )


def _checks(
    search: _Search, table: OutlierTable, network: TwoLayerNetwork, kept: BoolArray
) -> tuple[Evidence, ...]:
    """Return the conditions on the labels that are right; the tests of places are made on the samples kept."""
    n = table.shape[0]
    offset = bool(network.c.any())
    missing = label_counts(search.problem.blocks)[2]
    wrong = table.by_output + missing
    worst = int(np.argmax(wrong))
    limits = output_limits(search.problem.Y)
    counts = np.abs(search.Y - network(search.X)) <= limits
    unknowns = degrees_of_freedom(network, offset=offset)
    conditioning = masked_conditioning(search.X, counts, network, offset=offset)
    X, residual = search.problem.X, search.problem.Y - network(search.problem.X)
    is_wrong = np.abs(residual) > limits
    share, n_right, n_missing = 1 - float(wrong[worst]) / n, int(counts.sum()), int(missing.sum())
    of_output, of_rows = f"share of right labels of output {worst}", "right labels among the rows split"
    twice, of_jacobian = "twice the unknowns", "smallest relative singular value of the Jacobian on them"
    return (
        errors_ignore_inputs(X[kept], is_wrong[kept], network),
        errors_ignore_each_other(is_wrong[kept]),
        unit_among_outliers(X[kept], np.where(is_wrong, residual, 0.0)[kept], limits),
        Evidence("wrong labels", table.n_entries, key=Check.WRONG_LABELS),
        Evidence("samples with a wrong label", table.n_rows, key=Check.WRONG_SAMPLES),
        Evidence("missing labels", n_missing, key=Check.MISSING_LABELS),
        Evidence(of_output, share, MAJORITY, ">", "majority", key=Check.RIGHT_SHARE),
        Evidence(of_rows, n_right, 2 * unknowns, ">=", twice, key=Check.EQUATIONS),
        Evidence(of_jacobian, conditioning, CONDITIONING_TOL, ">=", key=Check.JACOBIAN),
    )
