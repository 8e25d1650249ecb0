r"""When may a network be called *the* planted one?

Problem     A small residual is not recovery: at few samples wrong networks fit exactly. Decide, from the rows, between
            RECOVERED, FITTED and the refusals, and put every number behind the decision into the evidence.
Idea        *Noiseless.* (1) every sample is reproduced to rounding; (2) a random part of the distinct samples alone gives
            more equations than unknowns and a Jacobian of full rank, so that the network is locally determined by that
            part and the *other* samples are a test it passed (repeated rows would be no test); (3) every unit was seen on
            at least d + 2 distinct samples and off on at least k + 1: one more than its own linear system needs on each
            side; (4) a renewed search finds no further ReLU unit in the column space of the outputs; (5) where there are
            enough samples, the uniqueness theorem of
            `complementarity` (null space of dimension k).
            *Noisy.* The residual must look like noise that ignores x: functions of x, added to every output, must not
            explain more of it than chance (`_lack_of_fit`, an F test). The statistic grows like n when a unit is missing,
            misplaced or of another kind. Then every unit's kink must be significant and the Jacobian of full rank.
Guarantee   Noiseless with (5): EXACT and global. Without (5): EXACT in the sense of (1)–(4); local uniqueness is
            proved, global uniqueness is the outcome of a search that found nothing else. Noisy: ASYMPTOTIC.
Cost        Two passes over the rows; O((k p)³) algebra.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from planted._typing import IntArray
from planted.algorithms._lack_of_fit import lack_of_fit
from planted.algorithms._missing_unit import missing_unit_evidence
from planted.algorithms._problem import Problem
from planted.algorithms.refine import Refinement
from planted.algorithms.uncertainty import Information, information
from planted.moments import RowBlocks, RowWeights, accumulate_normal
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Unavailable, Uncertainty

__all__ = [
    "RowChecks",
    "Verdict",
    "certify_noiseless",
    "certify_noisy",
    "check_rows_against",
    "degrees_of_freedom",
]

RESIDUAL_TOL = 1e-9  # largest residual of a noiseless network, relative to the outputs' standard deviation
CONDITIONING_TOL = (
    1e-6  # relative singular value of the Jacobian; rounding leaves about 1e-8 for a singular one
)
WEAKEST_UNIT = (
    100 * RESIDUAL_TOL
)  # output weight in output standard deviations; a weaker unit is not told from rounding
FIT_PART = 0.9
SIGNIFICANCE = 0.02  # of the lack-of-fit test: one correct network in fifty is doubted
MIN_NOISY_ROWS = 40
HEAVY_TAILS = (
    0.3  # below, standard errors of least squares mean little: t with 3 degrees of freedom gives 0.44
)
KINK_SIGMAS = 5.0  # a unit's output weights must stand out from zero by this many standard errors
DIRECTION_ERROR = 0.25  # largest standard error of a unit's direction that still names a direction


@dataclass(frozen=True, slots=True)
class RowChecks:
    """What one pass over all rows says about a network.

    Parameters
    ----------
    largest_residual : float
        Largest absolute residual of one output of one sample.
    active : ndarray of shape (k,)
        Samples on which each unit is on.
    n_samples : int
        Number of samples.
    """

    largest_residual: float
    active: IntArray
    n_samples: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome with everything that led to it.

    Parameters
    ----------
    outcome : Outcome
        The decision.
    guarantee : Guarantee
        What is proved.
    evidence : tuple of Evidence
        The numbers.
    detail : str
        The reason in one sentence.
    uncertainty : Uncertainty or Unavailable
        Standard errors in the user's units.
    """

    outcome: Outcome
    guarantee: Guarantee
    evidence: tuple[Evidence, ...]
    detail: str
    uncertainty: Uncertainty | Unavailable


def check_rows_against(blocks: RowBlocks, network: TwoLayerNetwork) -> RowChecks:
    """Compare a network with every row.

    Parameters
    ----------
    blocks : RowBlocks
        All rows.
    network : TwoLayerNetwork
        The network, in the units of the rows.

    Returns
    -------
    RowChecks
        Largest residual and activity of the units.
    """
    largest, active, count = 0.0, np.zeros(network.n_hidden, dtype=np.intp), 0
    for X, Y in blocks:
        t = network.preactivations(X)
        active += (t > 0).sum(axis=0)
        residual = Y - network.activation(t) @ network.A.T - network.c
        largest = max(largest, float(np.abs(residual).max(initial=0.0)))
        count += len(X)
    return RowChecks(largest, active, count)


def degrees_of_freedom(network: TwoLayerNetwork, *, offset: bool, biases: bool = True) -> int:
    """Return the number of unknowns of a network up to the scale of its units.

    Parameters
    ----------
    network : TwoLayerNetwork
        The network.
    offset : bool
        Whether c is unknown.
    biases : bool
        Whether b is unknown.

    Returns
    -------
    int
        kd + mk - k, plus k with biases, plus m with an offset.
    """
    known = (0 if offset else network.n_outputs) + (0 if biases else network.n_hidden)
    return network.n_parameters - known


def certify_noiseless(
    problem: Problem,
    fit: Refinement,
    *,
    offset: bool,
    biases: bool = True,
    uniqueness: Sequence[Evidence] = (),
    rivals: int | None = 0,
    further: Sequence[Evidence] = (),
) -> Verdict:
    """Judge a network that claims to reproduce noiseless data.

    Parameters
    ----------
    problem : Problem
        The standardised problem.
    fit : Refinement
        The refined network.
    offset : bool
        Whether c was free.
    biases : bool
        Whether b was free; zero otherwise.
    uniqueness : sequence of Evidence
        Lines of the method's own uniqueness theorem; the guarantee is global when there are any and all hold.
    rivals : int or None
        Further units that a renewed search found in the column space of the outputs; None when there was no such search.
        The guarantee is then heuristic at best.
    further : sequence of Evidence
        Conditions of the method's own; the first that fails is named as the reason why the network is not identifiable.

    Returns
    -------
    Verdict
        The decision. ``FITTED`` means that the samples are not reproduced to rounding.
    """
    net = fit.network
    rows = check_rows_against(problem.blocks, net)
    distinct = np.sort(np.unique(problem.X, axis=0, return_index=True)[1])  # repeated rows are no evidence
    repeats = len(problem.X) - len(distinct)
    unrepeated = RowBlocks.from_arrays(problem.X[distinct], problem.Y[distinct])
    seen = check_rows_against(unrepeated, net) if repeats else rows
    chosen = distinct[problem.rng.permutation(len(distinct))[: int(np.ceil(FIT_PART * len(distinct)))]]
    part = RowBlocks.from_arrays(problem.X[chosen], problem.Y[chosen])
    local = information(accumulate_normal(part, net), net, offset=offset, biases=biases)
    unknowns = degrees_of_freedom(net, offset=offset, biases=biases)
    exact = Evidence(
        "largest residual of a sample, in output standard deviations",
        rows.largest_residual,
        RESIDUAL_TOL,
        "<=",
    )
    count = Evidence(
        f"equations from {len(chosen)} of the distinct samples",
        len(chosen) * net.n_outputs,
        unknowns + 1,
        ">=",
        "unknowns + 1",
    )
    rank = Evidence(
        "smallest relative singular value of the Jacobian on them", local.conditioning, CONDITIONING_TOL, ">="
    )
    sides = _both_sides(net, seen)
    search = _search_evidence(rivals)
    further = (_weakest_unit(net), *further)
    evidence = (exact, count, rank, *sides, *search, *further, *uniqueness)
    doubt = _uncertainty(problem, fit, offset, biases)
    if not exact.passed:
        text = f"The best network misses a sample by {rows.largest_residual:.2g} output standard deviations."
        return Verdict(Outcome.FITTED, Guarantee.NONE, evidence, text, doubt)
    if not count.passed:
        need = int(np.ceil((unknowns + 1) / net.n_outputs / FIT_PART))
        text = (
            f"{seen.n_samples} distinct samples cannot determine {unknowns} unknowns with redundancy; "
            f"at least {need} are needed."
        )
        return Verdict(Outcome.TOO_FEW_SAMPLES, Guarantee.NONE, evidence, text, doubt)
    failure = _named_failure(net, seen, local, (rank, *sides, *search)) or _first_failure(further)
    if failure:
        return Verdict(Outcome.NOT_IDENTIFIABLE, Guarantee.NONE, evidence, failure, doubt)
    proved = bool(uniqueness) and all(item.passed for item in uniqueness)
    searched = ", and a renewed search found no other" if rivals is not None else ""
    scope = (
        "no other network of this width can produce these samples" if proved else "locally unique" + searched
    )
    text = f"All {rows.n_samples} samples are reproduced to {rows.largest_residual:.1e} output standard deviations; {scope}."
    return Verdict(Outcome.RECOVERED, Guarantee.EXACT, evidence, text, doubt)


def certify_noisy(
    problem: Problem,
    fit: Refinement,
    *,
    offset: bool,
    biases: bool = True,
    weights: RowWeights | None = None,
    further: Sequence[Evidence] = (),
) -> Verdict:
    """Judge a network fitted to noisy data.

    Parameters
    ----------
    problem : Problem
        The standardised problem.
    fit : Refinement
        The refined network.
    offset : bool
        Whether c was free.
    biases : bool
        Whether b was free; zero otherwise.
    weights : callable, optional
        Weights with which the network was fitted: the noise of a row has variance inverse to its weight.
    further : sequence of Evidence
        Conditions of the method's own; the first that fails is named as the reason why the network is not identifiable.

    Returns
    -------
    Verdict
        RECOVERED (asymptotic), FITTED, or a refusal.
    """
    net = fit.network
    rows = check_rows_against(problem.blocks, net)
    unknowns = degrees_of_freedom(net, offset=offset, biases=biases)
    equations = rows.n_samples * net.n_outputs
    count = Evidence("equations", equations, 2 * unknowns, ">=", "twice the unknowns")
    enough = Evidence(
        "samples", rows.n_samples, MIN_NOISY_ROWS + 5 * unknowns / net.n_outputs, ">=", "40 + 5 unknowns / m"
    )
    info = information(fit.sums, net, offset=offset, biases=biases)
    rank = Evidence(
        "smallest relative singular value of the Jacobian", info.conditioning, CONDITIONING_TOL, ">="
    )
    sides = _both_sides(net, rows)
    doubt = _uncertainty(problem, fit, offset, biases)
    if not count.passed or info.variances is None:
        outcome = Outcome.TOO_FEW_SAMPLES if not count.passed else Outcome.NOT_IDENTIFIABLE
        text = (
            _named_failure(net, rows, info, (rank, *sides))
            or f"{equations} equations for {unknowns} unknowns."
        )
        return Verdict(outcome, Guarantee.NONE, (count, rank, *sides), text, doubt)
    noise = float(np.sqrt(fit.cost / (equations - unknowns)))
    fitting = _lack_of_fit(problem, fit, offset, biases, weights)
    missing = missing_unit_evidence(problem, net, offset=offset, noise=noise, biases=biases, weights=weights)
    tails = Evidence(
        "median absolute residual over its standard deviation", _tail_ratio(problem, net), HEAVY_TAILS, ">="
    )
    kink, direction = _unit_strengths(net, info, noise)
    level = Evidence("residual standard deviation, in output standard deviations", noise)
    reach = Evidence(
        "95 % upper bound on the network's mean squared error, in output variances",
        float(noise**2 * stats.chi2.ppf(0.95, unknowns) / equations),
        equation="normal noise of one variance",
    )
    checks = (enough, rank, *sides, fitting, missing, tails, kink, direction)
    evidence = (level, reach, count, *checks, *further)
    failed = [item for item in checks if not item.passed]
    if not failed and _first_failure(further):
        return Verdict(Outcome.NOT_IDENTIFIABLE, Guarantee.NONE, evidence, _first_failure(further), doubt)
    if not failed:
        text = f"The residual ({noise:.2g} output standard deviations) carries no trace of x; see the standard errors."
        return Verdict(Outcome.RECOVERED, Guarantee.ASYMPTOTIC, evidence, text, doubt)
    text = "; ".join(
        f"{item.name}: {item.measured:.3g}, needed {item.comparison} {item.required:.3g}" for item in failed
    )
    return Verdict(Outcome.FITTED, Guarantee.HEURISTIC, evidence, text + ".", doubt)


def _tail_ratio(problem: Problem, network: TwoLayerNetwork) -> float:
    """Return the median absolute residual over the root mean square: 0.67 for normal noise, 0 for gross errors alone."""
    residual = problem.Y - network(problem.X)
    level = np.sqrt((residual**2).mean())
    return float(np.median(np.abs(residual)) / level) if level > 0 else 0.0


def _weakest_unit(network: TwoLayerNetwork) -> Evidence:
    """Return the smallest output weight of a unit: one at rounding error has no hyperplane worth a claim."""
    sizes = np.linalg.norm(network.A, axis=0)
    unit = int(np.argmin(sizes))
    name = f"output weight of unit {unit}, in output standard deviations"
    return Evidence(name, float(sizes[unit]), WEAKEST_UNIT, ">=")


def _search_evidence(rivals: int | None) -> tuple[Evidence, ...]:
    if rivals is None:
        return ()
    return (Evidence("further units found in the column space of the outputs", rivals, 0, "=="),)


def _first_failure(checks: Sequence[Evidence]) -> str:
    """Return a sentence on the first check that fails, or nothing."""
    for item in checks:
        if not item.passed:
            return f"{item.name}: {item.measured:.4g}, needed {item.comparison} {item.required:.4g}."
    return ""


def _both_sides(network: TwoLayerNetwork, rows: RowChecks) -> tuple[Evidence, Evidence]:
    """Every unit needs d + 2 samples where it is on and k + 1 where it is off."""
    on, off = rows.active, rows.n_samples - rows.active
    return (
        Evidence(
            "samples on which the rarest unit is on", int(on.min()), network.n_features + 2, ">=", "d + 2"
        ),
        Evidence(
            "samples on which the most frequent unit is off",
            int(off.min()),
            network.n_hidden + 1,
            ">=",
            "k + 1",
        ),
    )


def _named_failure(
    network: TwoLayerNetwork, rows: RowChecks, info: Information, checks: tuple[Evidence, ...]
) -> str:
    """Return a sentence naming the unit at fault, or nothing if all checks hold."""
    rank, on, off, *search = checks
    if not on.passed:
        unit = int(np.argmin(rows.active))
        return f"Unit {unit} was active in {rows.active[unit]} of {rows.n_samples} samples; {on.required:.0f} are needed."
    if not off.passed:
        unit = int(np.argmax(rows.active))
        idle = rows.n_samples - rows.active[unit]
        return (
            f"Unit {unit} was inactive in {idle} of {rows.n_samples} samples ({off.required:.0f} are needed): "
            "it cannot be told from a linear part."
        )
    if not rank.passed:
        return (
            f"The samples leave a direction of unit {info.weakest_unit} undetermined: relative singular value "
            f"{info.conditioning:.1e}, needed {rank.required:.0e}."
        )
    if search and not search[0].passed:
        return f"{search[0].measured:.0f} further unit(s) explain the same samples equally well."
    return ""


def _uncertainty(problem: Problem, fit: Refinement, offset: bool, biases: bool) -> Uncertainty | Unavailable:
    unknowns = degrees_of_freedom(fit.network, offset=offset, biases=biases)
    freedom = problem.n_samples * problem.n_outputs - unknowns
    if freedom <= 0:
        return Unavailable("There are no more equations than unknowns, so the noise cannot be estimated.")
    info = information(fit.sums, fit.network, offset=offset, biases=biases, units=problem.scaling)
    if info.variances is None:
        return Unavailable(f"The information matrix is singular along unit {info.weakest_unit}.")
    variance = fit.cost / freedom
    errors = {name: np.sqrt(variance * value) for name, value in info.variances.items()}
    return Uncertainty(errors, float(np.sqrt(variance)) * problem.scaling.y_scale)


def _unit_strengths(network: TwoLayerNetwork, info: Information, noise: float) -> tuple[Evidence, Evidence]:
    """Return how many standard errors the weakest unit stands out by, and the largest error of a direction."""
    assert info.variances is not None
    sigmas = np.sqrt((network.A**2 / (noise**2 * info.variances["A"] + np.finfo(float).tiny)).sum(axis=0))
    direction = noise * np.sqrt(info.variances["W"].sum(axis=1)).max()
    return (
        Evidence(
            "standard errors by which the weakest unit stands out", float(sigmas.min()), KINK_SIGMAS, ">="
        ),
        Evidence(
            "largest standard error of a unit's direction (radians)", float(direction), DIRECTION_ERROR, "<="
        ),
    )


def _lack_of_fit(
    problem: Problem, fit: Refinement, offset: bool, biases: bool, weights: RowWeights | None
) -> Evidence:
    """Return the p-value of the test for traces of x in the residual."""
    p_value, tested = lack_of_fit(problem, fit.network, offset=offset, biases=biases, weights=weights)
    if not tested:
        return Evidence("functions of x left to test the residual with", 0, 1, ">=", "F test")
    return Evidence(
        "p-value of the test for traces of x in the residual", p_value, SIGNIFICANCE, ">=", "F test"
    )
