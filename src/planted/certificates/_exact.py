"""The certificate for data without noise: see `planted.certificates`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planted._typing import IntArray
from planted.certificates._parts import (
    CONDITIONING_TOL,
    both_sides,
    first_failure,
    model_uncertainty,
    named_failure,
)
from planted.checks import Check
from planted.fitting._problem import Problem
from planted.fitting._refine import Refinement
from planted.fitting._standard_errors import Information, degrees_of_freedom, information
from planted.moments import RowChecks, accumulate_normal, check_rows_against
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Verdict
from planted.rows import RowBlocks

__all__ = ["RESIDUAL_TOL", "certify_noiseless"]

RESIDUAL_TOL = 1e-9  # largest residual of a noiseless network, relative to the outputs' standard deviation
# Output weight in output standard deviations; a weaker unit cannot be distinguished from rounding.
WEAKEST_UNIT = 100 * RESIDUAL_TOL
FIT_PART = 0.9
# Part of a unit's largest pre-activation below which a sample lies on neither side of its kink.
ON_KINK = 1e-9


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

    `uniqueness` holds lines of the method's own uniqueness theorem; the guarantee is global when there are any and
    all hold. `rivals` is the number of further units that a renewed search found in the column space of the outputs,
    or None when there was no such search. `further` holds conditions of the method's own; the first that fails is
    named as the reason why the network is not identifiable.

    The outcome FITTED means that the samples are not reproduced to rounding.
    """
    net = fit.network
    rows = check_rows_against(problem.blocks, net)
    distinct = _telling_rows(problem, net)
    seen = rows if len(distinct) == len(problem.X) else check_rows_against(_part(problem, distinct), net)
    n_fit = int(np.ceil(FIT_PART * len(distinct)))
    chosen = _determining_rows(problem, net, distinct, n_fit)
    local = information(accumulate_normal(_part(problem, chosen), net), net, offset=offset, biases=biases)
    unknowns = degrees_of_freedom(net, offset=offset, biases=biases)
    exact, count, rank = _local_evidence(rows, local, (n_fit, len(chosen)), unknowns, net.n_outputs)
    sides, search = both_sides(net, seen), _search_evidence(rivals)
    further = (_weakest_unit(net), *further)
    evidence = (exact, count, rank, *sides, *search, *further, *uniqueness)
    doubt = model_uncertainty(problem, fit, offset, biases)
    if not exact.passed:
        text = f"The best network misses a sample by {rows.largest_residual:.2g} output standard deviations."
        return Verdict(Outcome.FITTED, Guarantee.NONE, evidence, text, doubt)
    if not count.passed:
        text = _too_few(seen.n_samples, unknowns, net.n_outputs)
        return Verdict(Outcome.TOO_FEW_SAMPLES, Guarantee.NONE, evidence, text, doubt)
    failure = named_failure(seen, local, rank, *sides, *search)
    if failure is None and first_failure(further):
        failure = Outcome.NOT_IDENTIFIABLE, first_failure(further)
    if failure is not None:
        outcome, text = failure
        return Verdict(outcome, Guarantee.NONE, evidence, text, doubt)
    text = _claim(rows, uniqueness, searched=rivals is not None)
    return Verdict(Outcome.RECOVERED, Guarantee.EXACT, evidence, text, doubt)


def _telling_rows(problem: Problem, network: TwoLayerNetwork) -> IntArray:
    """Return the places of rows that are evidence: repeated ones are not, nor those that lie on a unit's kink.

    A kink that can move without changing any output comes to rest on a sample; counted as seen on, that sample would
    make the unit look determined.
    """
    distinct = np.sort(np.unique(problem.X, axis=0, return_index=True)[1])
    t = np.abs(network.preactivations(problem.X[distinct]))
    telling: IntArray = distinct[(t >= ON_KINK * t.max(axis=0)).all(axis=1)]
    return telling


def _determining_rows(problem: Problem, network: TwoLayerNetwork, distinct: IntArray, n_fit: int) -> IntArray:
    """Draw about `n_fit` of the rows so that every unit is on in at least d + 1 of them, if it is on in so many.

    The network must be determined by these rows alone; that it reproduces the others is then a test. Rows of a rare
    unit are added until it has enough: a unit that is on in d + 2 rows has one to spare.
    """
    shuffled = problem.rng.permutation(distinct)
    is_chosen = np.arange(len(shuffled)) < n_fit
    active = network.patterns(problem.X[shuffled])
    for unit in range(network.n_hidden):
        missing = network.n_features + 1 - int(active[is_chosen, unit].sum())
        is_chosen[np.flatnonzero(active[:, unit] & ~is_chosen)[: max(missing, 0)]] = True
    return shuffled[is_chosen]


def _part(problem: Problem, chosen: IntArray) -> RowBlocks:
    return RowBlocks.from_arrays(problem.X[chosen], problem.Y[chosen])


def _local_evidence(
    rows: RowChecks, local: Information, sizes: tuple[int, int], unknowns: int, n_outputs: int
) -> tuple[Evidence, Evidence, Evidence]:
    """Return the lines on exactness, on the number of equations and on the rank of the Jacobian."""
    exact = "largest residual of a sample, in output standard deviations"
    count = f"equations from {sizes[0]} of the distinct samples"
    more = sizes[1] - sizes[0]
    rank = "smallest relative singular value of the Jacobian on them" + (f" and {more} more" if more else "")
    return (
        Evidence(exact, rows.largest_residual, RESIDUAL_TOL, "<=", key=Check.RESIDUAL),
        Evidence(count, sizes[0] * n_outputs, unknowns + 1, ">=", "unknowns + 1", key=Check.EQUATIONS),
        Evidence(rank, local.conditioning, CONDITIONING_TOL, ">=", key=Check.JACOBIAN),
    )


def _too_few(n_distinct: int, unknowns: int, n_outputs: int) -> str:
    need = int(np.ceil((unknowns + 1) / n_outputs / FIT_PART))
    return (
        f"{n_distinct} distinct samples cannot determine {unknowns} unknowns with redundancy; "
        f"at least {need} are needed."
    )


def _claim(rows: RowChecks, uniqueness: Sequence[Evidence], *, searched: bool) -> str:
    """Return what may be said of a network that passed every check."""
    if uniqueness and all(item.passed for item in uniqueness):
        scope = "no other network of this width can produce these samples"
    else:
        scope = "locally unique" + (", and a renewed search found no other" if searched else "")
    size = f"{rows.largest_residual:.1e} output standard deviations"
    return f"All {rows.n_samples} samples are reproduced to {size}; {scope}."


def _weakest_unit(network: TwoLayerNetwork) -> Evidence:
    """Return the smallest output weight of a unit: at rounding error its hyperplane means nothing."""
    sizes = np.linalg.norm(network.A, axis=0)
    unit = int(np.argmin(sizes))
    name = f"output weight of unit {unit}, in output standard deviations"
    return Evidence(name, float(sizes[unit]), WEAKEST_UNIT, ">=", key=Check.WEAKEST_UNIT)


def _search_evidence(rivals: int | None) -> tuple[Evidence, ...]:
    if rivals is None:
        return ()
    return (
        Evidence(
            "further units found in the column space of the outputs", rivals, 0, "==", key=Check.RIVAL_UNITS
        ),
    )
