r"""Recover a ReLU network with biases, also with more units than inputs, from Hermite tensors of normal inputs.

Problem     y = A σ(W x + b) + ξ with x ~ N(μ, Σ), one output or several, rows of W of unit norm after whitening, k
            possibly above d, ξ of mean zero and independent of x. Sought: W, b, A up to order of units (and their
            scale).
Idea        For x ~ N(0, I) the Hermite coefficients of the outputs are symmetric tensors of the rows,

            .. math:: T_j = E[y\, He_j(x)] = \sum_i a_i\, \eta_j(b_i)\, w_i^{\otimes j}, \quad (1)

            with known functions η_j, so that directions come from tensor decompositions, biases from ratios of orders,
            and signs from T_1.
            1. Whiten x, and test that it is normal.
            2. Find units from (1), of order l = 1 where the rows are independent (k ≤ d), l = 2 where their squares are
               (k up to about d(d+1)/2), any l where their l-th powers are (k up to about C(d+l-1, l)): the paper's
               boxes (`printed`), or ours, which take the variance out of the moments by regressions (`_start`), solve
               one eigenproblem and match moments (`_matching`).
            3. Signs: Algorithm 3 for k ≤ d. For k > d moments do not determine them; Algorithm 5 regresses on both
               signs and a linear part, which also absorbs units whose |b| is too large to be seen (`_regression`).
            4. The units found are the start of the search of `restarts`: polished, completed where some are missing,
               oriented, refined on all rows.
            5. Certify.
Guarantee   Theorems 3.1 and 3.2 of [ATV21]_ for the start: polynomially many samples in d, k, 1/s_k(W^{⊙l}) and the
            bounds on a and b. For the answer that of its certificate: exact on noiseless rows, asymptotic on noisy
            ones. Without refinement nothing is certified. Not promised: inputs that are not normal. They are refused
            with the statistic unless the refined answer is certified, which no law of x can invalidate; inputs of a
            few values, and those whose fourth moments are far above the normal ones, are refused at once.
Notation    ============  ==========================================  ==============
            paper         here                                        shape
            ============  ==========================================  ==============
            m             k, number of units
            w_i, W'       rows of ``W``                               (k, d)
            a             ``A``, one row for each output              (m, k)
            b             ``b``                                       (k,)
            l             ``order``
            f̂_j, T_j      T_j; never formed beyond j = 4
            G             visible units, `Start.units`
            ξ_i           signs
            ============  ==========================================  ==============
Departures  Those of the boxes are listed in `printed`, those of the efficient variant in `_start` and `_matching`; the
            largest are the regressions that take the variance out of the moments (a factor of about 50 in samples) and
            the certificate. `variant="paper"` has neither.
Cost        efficient, k ≤ d: a pass of n C(k+4, 4)², two if not refined; l = 2: one of n C(d+4, 4)² and one of 19 n D²,
            D = d(d+1)/2; l ≥ 3: one of n C(d+2l+1, 2l+2); then the refinement's. Memory O(38 D²).
References  [ATV21]_
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np

from planted._validation import check_choice
from planted.certificates.searches._kink_search import KinkSearch
from planted.certificates.searches._restarts import search_with_restarts
from planted.checks import Check
from planted.fitting._run import MethodRun
from planted.fitting.multistart._attempts import attempt_from
from planted.fitting.multistart._rows import split_rows
from planted.methods.hermite._bound import bound_error
from planted.methods.hermite._regression import Approximation, approximate_function
from planted.methods.hermite._start import (
    EFFICIENT_DRAWS,
    REDUCTIONS,
    Start,
    start_as_printed,
    start_efficiently,
)
from planted.methods.hermite._theory import (
    distinct_values_evidence,
    fourth_moments,
    identifiability_evidence,
    largest_visible_bias,
    normality_evidence,
    offer_alternatives,
    tail_evidence,
)
from planted.methods.hermite._whitening import White, whiten_problem
from planted.methods.hermite.printed import Thresholds
from planted.moments import relu_coefficients
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError, Guarantee, Outcome
from planted.results import Evidence, Recovery, Unavailable, Verdict

__all__ = ["recover"]

VARIANTS = ("efficient", "paper")
SWEEPS = 1  # of an answer that is not refined; it lowers the error several times without noise
MEMORY_LIMIT = 4e9  # bytes of the contracted sums of order 2
LAW = (Check.CONTINUOUS_INPUTS, Check.FOURTH_MOMENTS, Check.NORMAL_INPUTS)
WORST_ERROR = 1.0  # output variances on fresh rows; an answer that is worse than a constant is refused


def recover(
    run: MethodRun,
    n_hidden: int | str = "auto",
    *,
    variant: str = "efficient",
    order: int | str = "auto",
    reduction: str = "auto",
    refined: bool | None = None,
    offset: bool | str = "auto",
    n_restarts: int = 10,
    eta_1: float = 1.1,
    eta_2: float = 1.0,
    eta_3: float = 0.1,
    tau: float | None = None,
    radius: float | None = None,
) -> Recovery:
    """Recover a network with biases from normal inputs.

    Parameters
    ----------
    run : MethodRun
        The run, with its problem.
    n_hidden : int or "auto"
        Number of units; what the moments show, or else the search of `restarts`, if "auto".
    variant : {"efficient", "paper"}
        Our pipeline, or the paper's algorithm boxes on plain averages.
    order : int or "auto"
        The paper's l: 1 needs k ≤ d, 2 allows about d(d+1)/2 units and l about C(d+l-1, l), for more samples. If "auto",
        1 or 2, by the number of units.
    reduction : {"auto", "none", "linear", "quadratic", "joint"}
        Degrees regressed out before moments are taken: none, 1, 2 or all up to 4. "auto" is "joint" for the efficient
        variant and "none" for the paper's.
    refined : bool, optional
        Whether the answer is completed, refined on all rows and certified; by default only that of the efficient variant.
    offset : bool or "auto"
        Whether the outputs may have an unknown constant; "auto" keeps it when it is needed.
    n_restarts : int
        Attempts of the search when the start from moments does not end at a certificate.
    eta_1 : float
        The paper's threshold of singular values, as a multiple of the measured sampling error; of its variant.
    eta_2 : float
        The same for the terms of the decomposition.
    eta_3 : float
        Distance of unit rows, up to sign, that count as one unit in the paper's variant.
    tau : float, optional
        Length of the features of Algorithm 5 beyond which its regression leaves a row out; by default the printed one.
    radius : float, optional
        Length of the output weights that Algorithm 5 allows; by default the printed one.

    Returns
    -------
    Recovery
        The network with its evidence. ``stats["alternatives"]`` holds other networks that are the same function,
        ``stats["seen"]`` the hyperplanes that the moments alone show, up to sign.
    """
    check_choice("variant", variant, VARIANTS)
    if order != "auto" and (isinstance(order, bool) or not isinstance(order, int) or order < 1):
        raise BadInputError(f"order={order!r}; expected 1, 2, ... or 'auto'")
    check_choice("reduction", reduction, ("auto", *REDUCTIONS))
    bounds = {name: value for name, value in (("tau", tau), ("radius", radius)) if value is not None}
    for name, value in {"eta_1": eta_1, "eta_2": eta_2, "eta_3": eta_3, **bounds}.items():
        if not 0 < value < np.inf:
            raise BadInputError(f"{name}={value!r}; expected a positive number")
    is_refined = variant == "efficient" if refined is None else refined
    n, d, _ = run.problem.shape
    run.refuse_unless(
        Evidence("samples", n, d + 3, ">=", "covariance of the inputs and one more", key=Check.SAMPLES),
        outcome=Outcome.TOO_FEW_SAMPLES,
        detail=f"{n} samples of {d} inputs; at least {d + 3} are needed to whiten them.",
    )
    run.on_stop = lambda reason: run.interrupted(f"{reason} The moments had not been summed.")
    white = whiten_problem(run.problem)  # step 1
    normal = _test_law(run, white, is_refined=is_refined)
    sweeps = 0 if is_refined else SWEEPS  # steps 2 and 3
    try:
        if variant == "paper":
            thresholds = Thresholds(rank=eta_1, weight=eta_2, angle=eta_3)
            start = _find_units_as_printed(
                run, white, order=order, reduction=reduction, thresholds=thresholds
            )
        else:
            start = _find_units(run, white, order=order, reduction=reduction, sweeps=sweeps)
    except np.linalg.LinAlgError:  # such as inputs ±1, whose squares are constant
        _refuse_law(run, normal)
    if variant == "paper":
        name = "distance of unit rows below which two units are taken for one"
        run.note(Evidence(name, eta_3, equation="η₃ of Algorithm 4", key=Check.HIDDEN_ANGLE))
    report = _Report(run, white, normal, start, variant == "paper", offset, bounds)
    run.on_stop = partial(_interrupted, report)
    return _refine_and_certify(report, n_restarts) if is_refined else _unrefined(report)  # steps 4 and 5


@dataclass(frozen=True, slots=True)
class _Report:
    """What is known after step 3, from which every record of this method is made."""

    run: MethodRun
    white: White
    normal: Evidence  # of the test of normality
    start: Start
    is_printed: bool  # whether the moments are those of half the rows, as Algorithm 5 prints
    offset: bool | str
    bounds: Mapping[str, float]  # τ and the radius of Algorithm 5, where they are not the printed ones

    @property
    def n_hidden(self) -> int | None:
        """The number of units that was asked for."""
        return self.run.n_hidden if isinstance(self.run.n_hidden, int) else None

    @property
    def n_unseen(self) -> int:
        """Units asked for beyond those that the moments show; one may always be there when no number was given."""
        seen = len(self.start.units.W)
        return max(self.n_hidden - seen, 0) if self.n_hidden is not None else 1

    def approximate(self) -> Approximation:
        """Run steps 3 and 4 of Algorithm 5, judged on a quarter of the rows; printed, on rows that the moments left out."""
        fitted, judged = self.white.part(*((2,) if self.is_printed else (0, 1, 2))), self.white.part(3)
        return approximate_function(fitted, judged, self.start.units, self.n_unseen, **self.bounds)

    def seen(self) -> dict[str, Any]:
        """Return the hyperplanes that the moments show, up to sign, in the user's units and as plain numbers."""
        units = self.start.units
        network = self.white.restore(TwoLayerNetwork(units.W, units.b, units.A))
        restored = self.run.problem.scaling.restore(network)
        return {"W": restored.W.tolist(), "b": restored.b.tolist()}

    def evidence(self) -> tuple[Evidence, ...]:
        """Return the lines on inputs, visibility and identifiability."""
        return (self.normal, *self.visibility())

    def visibility(self) -> tuple[Evidence, ...]:
        """Return the lines on what the moments show and on whether it is determined by them."""
        start, bias = self.start, largest_visible_bias(self.start.noise)
        hidden = 0 if self.n_hidden is None else self.n_hidden - start.n_visible
        name = "units that stand out of the sampling error of the moments"
        lines = [Evidence(name, start.n_visible, key=Check.VISIBLE_UNITS)]
        name = "largest |b| at which a unit of output weight 1 would stand out"
        lines.append(Evidence(name, bias, equation="φ(b) = sampling error of T_2", key=Check.VISIBLE_BIAS))
        if hidden > 0:
            name = "units asked for that the moments do not show; a linear part absorbs them"
            lines.append(Evidence(name, hidden, equation="Lemma D.13", key=Check.INVISIBLE_UNITS))
        if not np.isnan(start.sign_margin):
            name, margin = "smallest margin of the signs", start.sign_margin
            lines.append(Evidence(name, margin, equation="Algorithm 3", key=Check.ORIENTATION))
        return (*lines, *identifiability_evidence(start.units.W, start.order, np.random.default_rng(0)))


def _test_law(run: MethodRun, white: White, *, is_refined: bool) -> Evidence:
    """Return the test of normality; refuse inputs that fail it where nothing will be certified, hopeless ones at once.

    Hopeless are inputs of a few values, and of fourth moments far above those of normal ones: their Hermite tensors mean
    nothing, whereas those of light tails, such as uniform ones, still give a start.
    """
    n = run.problem.n_samples
    G = fourth_moments(white.sample.blocks, n)
    normal, tails = normality_evidence(G, n), tail_evidence(G)
    spread = distinct_values_evidence(run.problem.X)
    if not (spread.passed and tails.passed and (is_refined or normal.passed)):
        _refuse_law(run, normal, *(line for line in (spread, tails) if not line.passed))
    return normal


def _find_units(run: MethodRun, white: White, *, order: int | str, reduction: str, sweeps: int) -> Start:
    """Find units from moments with the variance taken out (steps 2 and 3)."""
    sample, d = white.sample, white.sample.shape[0]
    k = run.n_hidden if isinstance(run.n_hidden, int) else None
    order = _affordable_order(order, d, k)
    reduction = "joint" if reduction == "auto" else reduction
    known = None if order == "auto" else int(order)
    return start_efficiently(sample, k, order=known, reduction=reduction, sweeps=sweeps, rng=run.problem.rng)


def _find_units_as_printed(
    run: MethodRun, white: White, *, order: int | str, reduction: str, thresholds: Thresholds
) -> Start:
    """Find units by the paper's boxes, on plain averages (steps 2 and 3)."""
    sample, d = white.sample, white.sample.shape[0]
    k = run.n_hidden if isinstance(run.n_hidden, int) else None
    order = _affordable_order(order, d, k)
    order = (2 if k is not None and k > d else 1) if order == "auto" else order
    if int(order) > 1:  # Algorithm 5 takes the moments from one half of the rows and regresses on the other
        rows = (sample.n_samples + 2) // 4 + (sample.n_samples + 3) // 4
        sample = replace(sample, blocks=white.part(0, 1), n_samples=rows)
    reduction = "none" if reduction == "auto" else reduction
    return start_as_printed(
        sample, k, order=int(order), reduction=reduction, rng=run.problem.rng, thresholds=thresholds
    )


def _affordable_order(order: int | str, d: int, k: int | None) -> int | str:
    """Return the order, 1 where the sums of order 2 would not fit and nobody asked for them; refuse it otherwise."""
    features = 1 + d + d * (d + 1) // 2
    need = 8.0 * 2 * 4 * EFFICIENT_DRAWS * features**2  # two halves, four weights for each draw
    if need <= MEMORY_LIMIT:
        return order
    if order == "auto" and k is None:
        return 1
    if order == 2 or (order == "auto" and k is not None and k > d):
        raise BadInputError(
            f"order 2 with {d} inputs needs {need / 1e9:.1f} GB for its sums, more than {MEMORY_LIMIT / 1e9:.0f} GB; "
            "use order=1 (k <= d) or method='restarts'"
        )
    return order


def _refine_and_certify(report: _Report, n_restarts: int) -> Recovery:
    """Polish, complete, orient, refine and certify from the units found (steps 4 and 5)."""
    run, start = report.run, report.start
    k = report.n_hidden or max(len(start.units.W), 1)
    # Without normal inputs the start means little. It may still be certified; a search is left to `restarts`.
    n_restarts = n_restarts if report.normal.passed else 0
    rows = split_rows(run.problem, loss="squared", omega=None)
    V = report.white.hyperplanes(start.units.W, start.units.b)
    first = attempt_from(run.problem, rows, V, n_hidden=k)
    search = KinkSearch(run, rows, k, report.offset, start=lambda _: first)
    answer = search_with_restarts(search, n_restarts=n_restarts if report.n_hidden else 0)
    if not report.n_hidden and n_restarts and answer.outcome is not Outcome.RECOVERED:
        answer = search_with_restarts(KinkSearch(run, rows, "auto", report.offset), n_restarts=n_restarts)
    if answer.outcome is Outcome.RECOVERED or report.normal.passed:
        return offer_alternatives(_with_reach(report, answer))
    _refuse_law(run, report.normal, *report.visibility(), *answer.evidence)


def _interrupted(report: _Report, reason: str) -> Recovery:
    """Return the moments' own network, if its signs are known; no more rows are read."""
    has_network = report.start.signed and len(report.start.units.W) > 0
    return report.run.interrupted(
        f"{reason} What the moments show was not refined.",
        report.white.restore(_signed_network(report)) if has_network else None,
        *report.evidence(),
        seen=report.seen(),
    )


def _with_reach(report: _Report, answer: Recovery) -> Recovery:
    """Add this method's evidence; where the network is not certified, how far Algorithm 5's function reaches."""
    evidence = (*answer.evidence, *report.evidence())
    detail, stats = answer.detail, {**answer.stats, "seen": report.seen()}
    is_open = answer.outcome not in (Outcome.RECOVERED, Outcome.STOPPED_EARLY)
    if is_open and len(report.start.units.W):
        approximation = report.approximate()
        evidence = (*evidence, *approximation.evidence("these units and a linear part"))
        detail += (
            f" {len(report.start.units.W)} unit(s) and a linear part predict the outputs with a squared error of at most "
            f"{approximation.error.bound:.2g} output variances (95 %)."
        )
    return replace(answer, evidence=evidence, detail=detail, stats=stats)


def _unrefined(report: _Report) -> Recovery:
    """Return the moments' own answer: Algorithm 6 where the signs are known, Algorithm 5 otherwise."""
    start, run = report.start, report.run
    run.note(*report.evidence())
    if not len(start.units.W):
        text = f"No unit stands out of the sampling error of {run.problem.n_samples} samples."
        run.refuse(Outcome.TOO_FEW_SAMPLES, text)
    if start.signed and len(start.units.W) == (report.n_hidden or len(start.units.W)):
        network = _signed_network(report)
        judged = bound_error(network, report.white.part(3), network.A, report.n_unseen).evidence()
        text = "The moments' own answer (Algorithm 6), consistent as samples grow"
    else:
        approximation = report.approximate()
        network, judged = approximation.network, approximation.evidence()
        text = (
            f"{len(start.units.W)} unit(s) that the moments show, with a linear part for the rest and for signs that they "
            "do not tell (Algorithm 5): close to the function, not its parameters"
        )
    doubt = Unavailable("Standard errors belong to the refined answer.")
    worst = next(line for line in judged if line.key is Check.HELD_OUT_ERROR)
    if not worst.measured <= WORST_ERROR:
        run.note(*judged)
        text = (
            f"The moments' own answer errs by {worst.measured:.2g} output variances on rows that it was not fitted to; a "
            f"constant errs by one. The moments of {run.problem.n_samples} samples are too rough."
        )
        run.refuse(Outcome.TOO_FEW_SAMPLES, text)
    text += "; it was not refined, so nothing was certified."
    verdict = Verdict(Outcome.FITTED, Guarantee.ASYMPTOTIC, judged, text, doubt)
    return offer_alternatives(
        run.finish(report.white.restore(network), verdict, **start.counts, seen=report.seen())
    )


def _signed_network(report: _Report) -> TwoLayerNetwork:
    """Return the network of signed units; its offset is read from T_0 where one was asked for."""
    units = report.start.units
    offset = None
    if report.offset is True:
        offset = report.white.mean - units.A @ relu_coefficients(units.b, 1)[0]
    return TwoLayerNetwork(units.W, units.b, units.A, offset)


def _refuse_law(run: MethodRun, normal: Evidence, *lines: Evidence) -> NoReturn:
    """Refuse inputs of another law: a line of evidence says so, or a regression on their Hermite products is singular."""
    dependent = (
        "The Hermite products of the inputs are linearly dependent on these rows, as never for normal inputs"
    )
    failed = [line.shortfall for line in (*lines, normal) if line.key in LAW and not line.passed]
    text = f"{'; '.join(failed) or dependent}. "
    text += "Hermite tensors mean nothing for such inputs, and no network was certified."
    run.refuse(Outcome.ASSUMPTION_FAILED, text, normal, *lines)
