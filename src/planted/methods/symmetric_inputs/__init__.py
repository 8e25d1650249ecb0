r"""Recover a two-layer ReLU network without biases when the inputs are symmetric.

Problem     y = A σ(W x) + ξ with x and -x equally likely, no biases, no offset, k ≤ d and k ≤ m, A and W of full rank,
            ξ of mean zero and independent of x. Sought: W and A up to order and scale of units.
Idea        Symmetry turns odd moments of the outputs into moments without the ReLU: twice the regression of y on x is
            the slope B = A W. With q = B x / 2 a linear map of symmetric matrices U, the detector

            .. math:: T(U) = \mathrm{Cov}(2 y^\top U q - y^\top U y,\; x \otimes x), \quad (1)

            vanishes exactly on the span of z_i z_i', z_i the rows of A⁻¹; joint diagonalisation reads them off, and W =
            Z B.
            1. Estimate B, with even functions of x held fixed (`_slope`).
            2. Decide k, the rank of A W above noise, or of Y where Y is exactly of low rank; require the assumptions
               that can be tested: symmetry of x, k ≤ d, k ≤ m.
            3. Run the variant asked for on (1): the paper's boxes (`printed`) or ours (`_moments`). With few rows the
               samples themselves take the place of their moments (`_few_rows`).
            4. Refine on all rows with b = 0 held (`efficient`; on request for the others); on noiseless rows first make
               the units exact (Corollary 5 of [BJW18]_).
            5. Certify, with random restarts while the certificate fails.
Guarantee   Theorems 4 to 6 of [GKLW19]_: exact moments give the exact network when E[x x'], A, W and the augmented
            distinguishing matrix have full rank. Theorem 7: polynomially many samples suffice. These hold for step 3;
            the answer has the guarantee of its certificate, exact on noiseless rows, asymptotic on noisy ones.
            Unrefined answers are consistent and never certified. Not promised: k > d, k > m, biases, inputs that are
            not symmetric.
Notation    ==========  ===========================================  =====================
            paper       here                                         shape
            ==========  ===========================================  =====================
            W, A        ``W``, ``A``                                 (k, d), (m, k)
            l           m, number of outputs
            E[x x']     ``C``                                        (d, d)
            z_i, Z      rows of ``Z``                                (k, k)
            T           detector                                     (d(d+1)/2, k(k+1)/2)
            N           distinguishing matrix                        (d(d+1)/2, k(k-1)/2)
            M           augmented matrix: N and E[x ⊗ x]             one column more
            ==========  ===========================================  =====================
Departures  Those of each variant are listed in `printed` and `_moments`. Finding k, refinement and certificates are
            ours. Data are scaled, never shifted: a shift would create biases.
Cost        Four passes for the sums, O(n k⁴/4), then a few passes of the refinement, O(n (k d)²). Fewest rows,
            noiseless, orthonormal weights: about max(3d + 2k, k(k-1)/2).
References  [GKLW19]_, [BJW18]_
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planted._validation import check_choice
from planted.certificates._exact import certify_noiseless, count_rivals, pursuit_rows, uniqueness_of
from planted.certificates._noisy import certify_noisy
from planted.checks import Check
from planted.fitting._refine import Refinement, refine
from planted.fitting._run import MethodRun, Problem
from planted.linalg import column_space, numerical_rank
from planted.methods.symmetric_inputs._few_rows import (
    KERNEL_ROWS,
    bootstrap_exactly,
    kernel_slope,
    network_of_rows,
    recover_from_rows,
)
from planted.methods.symmetric_inputs._slope import Slope, controlled_slope
from planted.methods.symmetric_inputs._spectral import Spectral
from planted.methods.symmetric_inputs._theory import rank_evidence, symmetry_test, theorem_evidence
from planted.methods.symmetric_inputs._variants import VARIANTS, recover_from_moments
from planted.moments import SampleMoments
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Unavailable, Verdict
from planted.rows import RowBlocks

__all__ = ["recover"]

SYMMETRY_LEVEL = 1e-6  # p-value below which the inputs are called asymmetric
# Root mean square, in standard deviations of the outputs: candidates for the exact certificate.
EXACT_RESIDUAL = 1e-9
BOOTSTRAP_STARTS = 2000
RESTART_ROWS = 4000


@dataclass(slots=True)
class _Search:
    """The run, its moments, and the best candidate so far."""

    run: MethodRun
    moments: SampleMoments
    n_hidden: int
    output_rank: int
    best: Refinement | None = None
    gap: float = float("nan")

    @property
    def problem(self) -> Problem:
        """The standardised problem, not centred."""
        return self.run.problem

    @property
    def is_low_rank(self) -> bool:
        """Whether the outputs span fewer dimensions than there are: noise would fill them all."""
        return bool(self.output_rank < min(self.problem.Y.shape))

    def consider(self, name: str, network: TwoLayerNetwork) -> bool:
        """Refine a candidate on all rows, keep it if it is the best; return whether it reproduces the samples."""
        self.problem.progress(f"refining the {name} candidate", float("nan"))
        fit = refine(self.problem.blocks, network, offset=False, biases=False)
        self.run.trace.append({"start": name, "k": network.n_hidden, "cost": fit.cost, "passes": fit.passes})
        if self.best is None or fit.cost < self.best.cost:
            self.best = fit
        return self.is_exact

    @property
    def is_exact(self) -> bool:
        """Whether the best candidate reproduces the samples."""
        size = self.problem.n_samples * self.problem.n_outputs
        return self.best is not None and self.best.cost <= EXACT_RESIDUAL**2 * size


def recover(
    run: MethodRun,
    n_hidden: int | str = "auto",
    *,
    variant: str = "efficient",
    noise: str = "auto",
    refined: bool | None = None,
    n_restarts: int = 6,
    precision: str = "double",
) -> Recovery:
    """Recover a network without biases from symmetric inputs.

    Parameters
    ----------
    run : MethodRun
        The run, with its problem.
    n_hidden : int or "auto"
        Number of units; the rank of A W if "auto".
    variant : {"efficient", "practical", "paper"}
        Our pipeline, that of the paper's experiments, or its algorithm boxes.
    noise : {"auto", "none", "present"}
        Whether the outputs carry noise: Algorithm 2 or 3 in the paper's variants, which take "auto" for "present";
        ours tries to reproduce the samples first.
    refined : bool, optional
        Whether the answer is refined on all rows and certified; by default only that of the efficient variant.
    n_restarts : int
        Random starts when the certificate fails.
    precision : {"double", "single"}
        Number format of the features that are summed; sums are double always.

    Returns
    -------
    Recovery
        The network with its evidence.
    """
    check_choice("variant", variant, VARIANTS)
    check_choice("noise", noise, ("auto", "none", "present"))
    check_choice("precision", precision, ("double", "single"))
    moments = SampleMoments(run.problem.blocks, precision)
    slope = controlled_slope(moments, n_hidden if isinstance(n_hidden, int) else None)  # step 1
    search = _begin(run, moments, slope)  # step 2
    if variant == "efficient" and refined is not False:
        _find_efficiently(search, slope, noise)  # steps 3 and 4
        return _certify(search, n_restarts)  # step 5
    k, rank = search.n_hidden, search.output_rank
    if not (k <= rank and slope.is_of_rank(k)):
        text, measured = "A and W of full rank", min(rank, slope.rank)
        run.require(Evidence("rank of A W", measured, k, ">=", text, key=Check.SIGNAL_RANK))
    noisy, rng = noise != "none", run.problem.rng
    spectral = recover_from_moments(moments, k, variant=variant, noisy=noisy, rng=rng)  # step 3
    search.gap = spectral.gap
    if not refined:
        return _unrefined(search, spectral)
    search.consider(variant, spectral.network)  # step 4
    return _certify(search, n_restarts)  # step 5


def _begin(run: MethodRun, moments: SampleMoments, slope: Slope) -> _Search:
    """Decide k and require the assumptions (steps 1 and 2)."""
    problem, (n, d, m) = run.problem, run.problem.shape
    rank = numerical_rank(column_space(problem.Y)[1])
    found = rank if rank < min(problem.Y.shape) else slope.rank
    k = run.n_hidden if isinstance(run.n_hidden, int) else found
    test = symmetry_test(problem.blocks, distinct=len(np.unique(problem.X, axis=0)) / len(problem.X))
    name = "p-value of the test for symmetry of x"
    symmetry = Evidence(name, test.p_value, SYMMETRY_LEVEL, ">=", "Hotelling", key=Check.SYMMETRIC_INPUTS)
    if np.isnan(test.p_value):
        symmetry = Evidence("samples too few to test symmetry of x", n, key=Check.SYMMETRIC_INPUTS)
    run.require(
        Evidence("samples", n, d + 1, ">=", "E[x x'] of full rank", key=Check.SAMPLES),
        outcome=Outcome.TOO_FEW_SAMPLES,
    )
    run.require(
        symmetry,
        Evidence("hidden units", min(k, rank), 1, ">=", "rank of A W above noise", key=Check.UNITS),
        Evidence("inputs", d, k, ">=", "k <= d", key=Check.INPUTS),
        Evidence("outputs", m, k, ">=", "k <= m", key=Check.OUTPUTS),
    )
    return _Search(run, moments, k, rank)


def _find_efficiently(search: _Search, slope: Slope, noise: str) -> None:
    """Find a network from few rows or from moments, and refine it (steps 3 and 4)."""
    problem, asked = search.problem, search.run.n_hidden
    k = search.n_hidden = min(search.n_hidden, search.output_rank)
    few = problem.holds_all_rows and problem.n_features < len(problem.X) <= KERNEL_ROWS
    slope = kernel_slope(problem.X, problem.Y) if few else slope
    if noise != "present" and few:
        may_fill = asked == "auto" and not search.is_low_rank and problem.n_outputs <= problem.n_features
        tried = search.output_rank if may_fill else k
        if slope.is_of_rank(tried):  # look for a network that reproduces few rows
            found = recover_from_rows(problem.X, problem.Y, tried, slope=slope, rng=problem.rng)
            search.gap = found.gap
            if not search.consider("samplewise", found.network):
                _bootstrap(search, found.network)
    if not search.is_exact:
        search.best = search.best if search.best and search.best.network.n_hidden == k else None
        if slope.is_of_rank(k):
            spectral = recover_from_moments(search.moments, k, noisy=True, rng=problem.rng, slope=slope)
            search.gap, name, start = spectral.gap, "spectral", spectral.network
        else:
            name, start = "random", _random_start(search)
        search.consider(name, start)
        if not search.is_exact and search.is_low_rank:
            _bootstrap(search, start)


def _bootstrap(search: _Search, network: TwoLayerNetwork) -> None:
    """Make an approximate network exact on noiseless rows (Corollary 5 of [BJW18]_), and refine what was found."""
    problem = search.problem
    rows = pursuit_rows(problem, network.n_hidden)
    problem.progress("bootstrapping exact units", float("nan"))
    exact = bootstrap_exactly(
        problem.X[:rows], problem.Y[:rows], network, rng=problem.rng, max_starts=BOOTSTRAP_STARTS
    )
    if exact is not None:
        search.consider("bootstrap", exact)


def _certify(search: _Search, n_restarts: int) -> Recovery:
    """Certify the best candidate; look for better ones at random while the certificate fails."""
    verdict = _judge(search)
    for index in range(n_restarts):
        if verdict.outcome is not Outcome.FITTED:
            break
        assert search.best is not None
        before = search.best.cost
        search.consider(f"random {index}", _random_start(search))
        if search.best.cost < before * (1 - 1e-9):
            verdict = _judge(search)
    return _record(search, verdict)


def _judge(search: _Search) -> Verdict:
    """Judge the best candidate: exact if it reproduces the rows; otherwise by residuals and by the rank of A W."""
    assert search.best is not None
    problem, fit = search.problem, search.best
    if search.is_exact:
        unique = uniqueness_of(problem, fit.network)
        rivals = count_rivals(problem, fit.network, np.maximum(problem.X @ fit.network.W.T, 0.0))
        verdict = certify_noiseless(
            problem, fit, offset=False, biases=False, uniqueness=unique, rivals=rivals
        )
        if verdict.outcome is not Outcome.FITTED:
            return verdict
    verdict = certify_noisy(problem, fit, offset=False, biases=False)
    rank, resolution = rank_evidence(search.moments, fit.network)
    verdict = replace(verdict, evidence=(*verdict.evidence, rank, resolution))
    if rank.passed or verdict.outcome is not Outcome.RECOVERED:
        return verdict
    text = f"Only {rank.measured:.0f} of {rank.required:.0f} units leave a trace in A W above noise."
    return replace(verdict, outcome=Outcome.FITTED, guarantee=Guarantee.HEURISTIC, detail=text)


def _random_start(search: _Search) -> TwoLayerNetwork:
    """Refine a random network on some rows."""
    problem, k = search.problem, search.n_hidden
    rows = problem.rng.permutation(len(problem.X))[:RESTART_ROWS]
    X, Y = problem.X[np.sort(rows)], problem.Y[np.sort(rows)]
    start = network_of_rows(X, Y, problem.rng.standard_normal((k, problem.n_features)))
    return refine(RowBlocks.from_arrays(X, Y), start, offset=False, biases=False, max_iter=60).network


def _record(search: _Search, verdict: Verdict) -> Recovery:
    """Return the record of the best candidate; what the certificate does not see changes the outcome."""
    fit, asked = search.best, search.run.n_hidden
    assert fit is not None
    outcome, guarantee, detail = verdict.outcome, verdict.guarantee, verdict.detail
    k = fit.network.n_hidden
    if outcome is Outcome.RECOVERED and not fit.converged:
        outcome, guarantee = Outcome.STOPPED_EARLY, Guarantee.NONE
        detail = "The refinement did not converge."
    elif isinstance(asked, int) and asked > k and search.is_exact:
        outcome, guarantee = Outcome.NOT_IDENTIFIABLE, Guarantee.NONE
        detail = f"{k} units reproduce all samples; {asked} were asked for, and the others leave no trace."
    elif outcome is Outcome.FITTED and search.is_low_rank:
        outcome, guarantee = Outcome.ASSUMPTION_FAILED, Guarantee.NONE
        detail = (
            f"The outputs span exactly {search.output_rank} dimension(s), so they carry no noise, yet {k} unit(s) do "
            "not reproduce them: the columns of A are linearly dependent, or this is not such a network."
        )
    theorem = theorem_evidence(search.problem, fit.network, gap=search.gap)
    evidence = (*verdict.evidence, *theorem)
    verdict = Verdict(outcome, guarantee, evidence, detail, verdict.uncertainty)
    return search.run.finish(fit.network, verdict, starts=len(search.run.trace), iterations=fit.iterations)


def _unrefined(search: _Search, spectral: Spectral) -> Recovery:
    """Return the moments' own answer."""
    theorem = theorem_evidence(search.problem, spectral.network, gap=spectral.gap)
    text = (
        "The moments' own answer, consistent as samples grow; it was not refined, so nothing was certified."
    )
    doubt = Unavailable("Standard errors belong to the refined answer.")
    verdict = Verdict(Outcome.FITTED, Guarantee.ASYMPTOTIC, theorem, text, doubt)
    return search.run.finish(spectral.network, verdict, diagonalisation_residual=spectral.residual)
