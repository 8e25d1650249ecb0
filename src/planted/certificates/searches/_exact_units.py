"""From exact units to a certified network, for all methods for noiseless data without biases.

The methods of [BJW18]_ differ in how they find the units, but share what comes before and after. Before, the data
must be suitable: outputs that vary, a rank equal to the number of units, inputs that span their space, and enough
samples. `begin_search` checks this and refuses by name. After, `finish_search` searches at random for the units that
are still missing, solves for the output weights, refines everything on all rows and certifies it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array
from planted.certificates._exact import RIVAL_STARTS, certify_noiseless, pursuit_rows, uniqueness_of
from planted.checks import Check
from planted.fitting._refine import refine
from planted.fitting._run import MethodRun, Problem
from planted.fitting.units._pursuit import pursue_units
from planted.fitting.units._quantile_null_space import pursue_rectified_units, units_in_blocks
from planted.linalg import column_space, numerical_rank
from planted.networks import Activation, TwoLayerNetwork, parse_activation
from planted.outcomes import BadInputError, Outcome
from planted.results import Evidence, Recovery

__all__ = [
    "ExactSearch",
    "begin_search",
    "complete_units",
    "finish_search",
    "network_of_units",
    "units_as_printed",
]

SEARCH_ROWS = 4000  # rows for the search of units; all rows decide in the end
ROWS_PER_UNKNOWN = 4  # ℓ over the larger of d and k
HOPELESS_STARTS = 256  # when no unit is known and nothing shows that the outputs are noiseless


@dataclass(slots=True)
class ExactSearch:
    """A noiseless problem without biases, with what is known on the way."""

    run: MethodRun  # the run of the method that searches
    activation: Activation  # the rectified activation
    n_hidden: int  # number of units looked for
    X: Array  # (rows, d): rows to search on
    Q: Array  # (rows, rank): orthonormal basis of their outputs' column space

    @property
    def problem(self) -> Problem:
        """The standardised problem, nothing shifted."""
        return self.run.problem


def begin_search(run: MethodRun, activation: str, *, needs_rank: bool = True) -> ExactSearch:
    """Check what every exact method needs, and refuse by name.

    `needs_rank`: whether the outputs must span as many dimensions as there are units.
    """
    run.card.check_activation(activation)
    problem = run.problem
    X, Y = problem.X[:SEARCH_ROWS], problem.Y[:SEARCH_ROWS]
    Q, relative = column_space(Y)
    rank = numerical_rank(relative) if np.abs(Y).max() > 0 else 0
    k = run.n_hidden if isinstance(run.n_hidden, int) else rank
    run.note(Evidence("rank of the outputs", rank, key=Check.OUTPUT_RANK))
    _check_data(run, X, rank, k, needs_rank)
    return ExactSearch(run, parse_activation(activation), k, X, Q[:, :rank])


def _check_data(run: MethodRun, X: Array, rank: int, k: int, needs_rank: bool) -> None:
    """Refuse at the first requirement that the data fail."""
    (n, d), m = X.shape, run.problem.n_outputs
    nonzero = "outputs that are not all zero"
    run.refuse_unless(Evidence("rank of the outputs", rank, 1, ">=", nonzero, key=Check.OUTPUT_RANK))
    if needs_rank:
        run.refuse_unless(Evidence("outputs", m, k, ">=", "m >= k", key=Check.OUTPUTS))
    need = max((k * d + m * k - k) // m + 1, d + 1, k + 1)
    run.refuse_unless(
        Evidence("samples", n, need, ">=", "more equations than unknowns", key=Check.SAMPLES),
        outcome=Outcome.TOO_FEW_SAMPLES,
    )
    if needs_rank:
        run.refuse_unless(Evidence("rank of the outputs", rank, k, "==", "rank Y = k", key=Check.OUTPUT_RANK))
    values = linalg.svdvals(X, check_finite=False)
    spanned = numerical_rank(values / values[0]) if values[0] > 0 else 0
    run.refuse_unless(
        Evidence("dimensions spanned by the inputs", spanned, d, "==", "rank X = d", key=Check.INPUT_RANK)
    )


def network_of_units(search: ExactSearch, W: Array) -> TwoLayerNetwork:
    """Put least-squares output weights on hidden rows, units in the canonical order.

    The network is in standardised units. Shapes: W (k, d).
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
    rows = min(len(search.X), pursuit_rows(search.problem, search.n_hidden))
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
    search.run.trace.append({"search": "random starts", "starts": starts, "units": len(found)})
    return found


def units_as_printed(
    search: ExactSearch,
    box: Callable[[Array, Array, Array], Array],
    scores: Array,
    *,
    ell: int | str,
    in_blocks: bool,
) -> Array:
    """Apply the exact step of Algorithm 3 or 5 to the first ℓ rows, or to one block of ℓ rows after another.

    `ell`: rows of the exact step; by default four times the larger of d and k, so that a unit that is off on half of them
    leaves more rows than unknowns on either side. Shapes: scores (rows, s), result (found, d).
    """
    if ell != "auto" and not (isinstance(ell, int) and ell >= 1):
        raise BadInputError(f"ell={ell!r}; expected 'auto' or a number of rows of at least 1")
    size = ell if isinstance(ell, int) else ROWS_PER_UNKNOWN * max(search.X.shape[1], search.Q.shape[1])
    size = min(size, len(search.X))
    if in_blocks:
        return units_in_blocks(box, search.X, search.Q, scores, n_rows=size, activation=search.activation)
    return box(search.X[:size], search.Q[:size], scores[:size])


def finish_search(
    search: ExactSearch, W: Array, *, rivals: int | None = 0, further: Sequence[Evidence] = ()
) -> Recovery:
    """Refine the units on all rows and certify them; without k units there is no network.

    `rivals`: further units the method itself saw in the column space; a renewed search adds to them. None when the
    outputs' column space does not hold the units, as with fewer outputs than units.
    """
    k, run, problem = search.n_hidden, search.run, search.problem
    if len(W) < k:
        run.refuse(Outcome.STOPPED_EARLY, f"{len(W)} of {k} units were found; the others were not.")
    start = network_of_units(search, W[:k])
    fit = refine(problem.blocks, start, offset=False, biases=False)
    if rivals is not None:
        found = complete_units(search, fit.network.W, max_starts=RIVAL_STARTS, beyond=1)
        rivals += max(len(W), len(found)) - k
    verdict = certify_noiseless(
        problem,
        fit,
        offset=False,
        biases=False,
        uniqueness=uniqueness_of(problem, fit.network) if rivals is not None else (),
        rivals=rivals,
        further=further,
    )
    if verdict.outcome is Outcome.FITTED:
        run.refuse(Outcome.STOPPED_EARLY, f"{k} units were found, but: {verdict.detail}")
    return run.finish(fit.network, verdict, iterations=fit.iterations)
