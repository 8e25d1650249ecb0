r"""From exact units to a certified network: what every method for noiseless data without biases shares.

The methods of [BJW18]_ differ in how they find the units. Before, the data must be fit for it (outputs that vary, rank
equal to the number of units, inputs that span, samples enough): `begin_search` checks this and refuses by name. After, the
units still missing are searched for at random, output weights are solved for, everything is refined on all rows and judged
(`finish_search`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg

from planted._typing import Array, Progress, Seed
from planted.certificates._certificate import certify_noiseless
from planted.checks import Check
from planted.fitting._problem import Problem, prepare_problem
from planted.fitting._refine import Refinement, refine
from planted.fitting.units._null_units import complementarity_null_space, uniqueness_evidence
from planted.fitting.units._pursuit import pursue_units
from planted.fitting.units._quantile_null_space import pursue_rectified_units
from planted.linalg import column_space, numerical_rank
from planted.networks import Activation, TwoLayerNetwork, parse_activation
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Requirements, Unavailable, Verdict
from planted.rows import RowBlocks

__all__ = ["ExactSearch", "begin_search", "complete_units", "finish_search", "give_up", "network_of_units"]

SEARCH_ROWS = 4000  # rows for the search of units; all rows decide in the end
RIVAL_STARTS = 128
HOPELESS_STARTS = 256  # when no unit is known and nothing shows that the outputs are noiseless
MAX_NULL_COLUMNS = 1000  # of the uniqueness theorem's linear system; beyond, it costs more than the rest


@dataclass(slots=True)
class ExactSearch:
    """A noiseless problem without biases, with what is known on the way."""

    problem: Problem  # the standardised problem, nothing shifted
    requires: Requirements  # card of the method
    activation: Activation  # the rectified activation
    n_hidden: int  # number of units looked for
    options: Mapping[str, Any]  # for the provenance
    X: Array  # (rows, d): rows to search on and an orthonormal basis of their outputs' column space
    Q: Array
    evidence: list[Evidence]  # what was checked so far
    trace: list[dict[str, Any]] = field(default_factory=list)  # what was tried


def begin_search(
    blocks: RowBlocks,
    requires: Requirements,
    options: Mapping[str, Any],
    *,
    random_state: Seed,
    progress: Progress | None,
    needs_rank: bool = True,
) -> ExactSearch | Recovery:
    """Check what every exact method needs; return the search, or the refusal.

    `needs_rank`: whether the outputs must span as many dimensions as there are units. Returns the search, or a record
    that names the first requirement that fails.
    """
    requires.check_activation(str(options["activation"]))
    activation = parse_activation(str(options["activation"]))
    problem = prepare_problem(blocks, random_state=random_state, progress=progress, centre=False)
    X, Y = problem.X[:SEARCH_ROWS], problem.Y[:SEARCH_ROWS]
    Q, relative = column_space(Y)
    rank = numerical_rank(relative) if np.abs(Y).max() > 0 else 0
    asked = options["n_hidden"]
    k = asked if isinstance(asked, int) else rank
    search = ExactSearch(problem, requires, activation, k, options, X, Q[:, :rank], [])
    search.evidence.append(Evidence("rank of the outputs", rank, key=Check.OUTPUT_RANK))
    refusal = _refuse_data(search, rank, needs_rank)
    return search if refusal is None else refusal


def _refuse_data(search: ExactSearch, rank: int, needs_rank: bool) -> Recovery | None:
    """Name the first requirement that the data fail, or return None."""
    problem, k = search.problem, search.n_hidden
    n, d, m = len(search.X), problem.n_features, problem.n_outputs
    if rank == 0:
        return _refusal(
            search,
            Evidence(
                "rank of the outputs", 0, 1, ">=", "outputs that are not all zero", key=Check.OUTPUT_RANK
            ),
        )
    if needs_rank and k > m:
        return _refusal(search, Evidence("outputs", m, k, ">=", "m >= k", key=Check.OUTPUTS))
    unknowns = k * d + m * k - k
    if n * m <= unknowns or n <= max(d, k):
        need = max(int(np.ceil((unknowns + 1) / m)), d + 1, k + 1)
        return _refusal(
            search,
            Evidence("samples", n, need, ">=", "more equations than unknowns", key=Check.SAMPLES),
            few=True,
        )
    if needs_rank and rank != k:
        return _refusal(
            search, Evidence("rank of the outputs", rank, k, "==", "rank Y = k", key=Check.OUTPUT_RANK)
        )
    values = linalg.svdvals(search.X, check_finite=False)
    spanned = numerical_rank(values / values[0]) if values[0] > 0 else 0
    if spanned < d:
        return _refusal(
            search,
            Evidence(
                "dimensions spanned by the inputs", spanned, d, "==", "rank X = d", key=Check.INPUT_RANK
            ),
        )
    return None


def network_of_units(search: ExactSearch, W: Array) -> TwoLayerNetwork:
    """Put least-squares output weights on hidden rows, units in the canonical order.

    Returns the network in standardised units. Shapes: W (k, d).
    """
    H = search.activation(search.X @ W.T)
    A = linalg.lstsq(H, search.problem.Y[: len(search.X)], check_finite=False)[0].T
    network = TwoLayerNetwork(W, None, A, None, search.activation)
    return search.problem.scaling.in_order(network)


def complete_units(search: ExactSearch, W: Array, *, max_starts: int = 2000, beyond: int = 0) -> Array:
    """Search at random for the units that are still missing.

    Shapes: W (found, d), result (found, d).
    """
    wanted = search.n_hidden + beyond
    if len(W) >= wanted:
        return W
    if not len(W) and search.Q.shape[1] == search.problem.n_outputs:
        max_starts = min(max_starts, HOPELESS_STARTS)
    rng = search.problem.rng
    rows = min(len(search.X), max(500, 12 * (search.X.shape[1] + 1 + search.n_hidden)))
    X, Q = search.X[:rows], linalg.orth(search.Q[:rows])
    if search.activation.is_piecewise_linear:
        known = np.hstack([W, np.zeros((len(W), 1))])
        pursuit = pursue_units(X, Q, wanted, rng=rng, max_starts=max_starts, known=known)
        found, starts = np.vstack([W, pursuit.V[len(W) :, :-1]]), pursuit.starts
    else:
        units = pursue_rectified_units(
            X, Q, wanted, activation=search.activation, rng=rng, known=W, max_starts=max_starts
        )
        found, starts = units.W, units.starts
    search.trace.append({"search": "random starts", "starts": starts, "units": len(found)})
    return found


def finish_search(
    search: ExactSearch, W: Array, *, rivals: int | None = 0, further: Sequence[Evidence] = ()
) -> Recovery:
    """Refine the units on all rows and certify them; without k units there is no network.

    `rivals`: further units the method itself saw in the column space; a renewed search adds to them. None when the
    outputs' column space does not hold the units, as with fewer outputs than units. Shapes: W (found, d).
    """
    k = search.n_hidden
    if len(W) < k:
        return give_up(search, f"{len(W)} of {k} units were found; the others were not.")
    problem = search.problem
    start = network_of_units(search, W[:k])
    fit = refine(problem.blocks, start, offset=False, biases=False)
    if rivals is not None:
        rivals += (
            max(len(W), len(complete_units(search, fit.network.W, max_starts=RIVAL_STARTS, beyond=1))) - k
        )
    verdict = certify_noiseless(
        problem,
        fit,
        offset=False,
        biases=False,
        uniqueness=_uniqueness(search, fit.network) if rivals is not None else (),
        rivals=rivals,
        further=further,
    )
    return _record(search, fit, verdict)


def _uniqueness(search: ExactSearch, network: TwoLayerNetwork) -> tuple[Evidence, ...]:
    """Return the lines of the uniqueness theorem of `null_units`, for ReLU and where its system is small enough."""
    k, d = network.n_hidden, network.n_features
    q = k * (k + 1) // 2 + k * (d + 1)
    if not search.activation.is_piecewise_linear or q > MAX_NULL_COLUMNS or len(search.X) < q - k:
        return ()
    rows = min(len(search.X), 2 * q + 50)
    y = search.problem.Y[:rows] @ linalg.pinv(network.A).T
    space = complementarity_null_space(search.X[:rows], y)
    return uniqueness_evidence(space, k) if space.dimension <= k else ()


def _record(search: ExactSearch, fit: Refinement, verdict: Verdict) -> Recovery:
    if verdict.outcome is Outcome.FITTED:
        return give_up(search, f"{search.n_hidden} units were found, but: {verdict.detail}")
    problem = search.problem
    outcome, guarantee = verdict.outcome, verdict.guarantee
    return Recovery(
        problem.scaling.restore(fit.network),
        outcome,
        guarantee,
        (*search.evidence, *verdict.evidence),
        verdict.uncertainty,
        problem.stats(iterations=fit.iterations),
        problem.provenance(search.requires, search.options),
        verdict.detail,
        tuple(search.trace),
    )


def give_up(search: ExactSearch, detail: str, *, outcome: Outcome = Outcome.STOPPED_EARLY) -> Recovery:
    """Return the record of a search without a network."""
    problem = search.problem
    return Recovery(
        None,
        outcome,
        Guarantee.NONE,
        tuple(search.evidence),
        Unavailable("There is no network."),
        problem.stats(),
        problem.provenance(search.requires, search.options),
        detail,
        tuple(search.trace),
    )


def _refusal(search: ExactSearch, failed: Evidence, *, few: bool = False) -> Recovery:
    """Refuse because of one line of evidence."""
    search.evidence.append(failed)
    text = (
        f"{failed.name}: {failed.measured:.0f}; the method needs {failed.comparison} {failed.required:.0f} "
        f"({failed.equation})."
    )
    return give_up(search, text, outcome=Outcome.TOO_FEW_SAMPLES if few else Outcome.ASSUMPTION_FAILED)
