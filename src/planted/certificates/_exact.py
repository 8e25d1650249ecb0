"""The certificate for data without noise: `planted.certificates` says what it asks for; this is how it excludes rivals.

Problem     A network reproduces every sample. Does the column space of the outputs hold a further ReLU unit, and do
            the samples determine the network among all networks of its width?
Idea        *Search.* With the found units known, pursuit looks for one more unit in the column space of the outputs.
            *Theorem.* The null space of the complementarity system contains one vector for each unit of every network
            that explains the outputs. If its dimension is k, there is no other network of k units (`_null_units`).
            *Gaps.* Parallel kinks between two neighbouring samples, along the normal of a unit, cannot be told from
            one kink with the same total change of slope and the same moment. Samples from a density leave such gaps
            too, of the size of their spacing. The gap that holds a kink is the sum of two exponential variables, so
            that, divided by the mean of the s spacings beside it, it has twice the distribution F(4, 2s). In one
            wider than its quantile at the level `GAP_LEVEL` for all units together several kinks may hide, and it is
            named. With several inputs kinks are rarely parallel, and the level is smaller for a unit that is parallel to no
            other. With one input the samples of every linear piece are counted as well: two determine a line, the
            third tests it.
Guarantee   The theorem is a proof. The search is evidence, since it may miss a unit.
Cost        `RIVAL_STARTS` starts of pursuit on some hundred rows, and one singular value decomposition with q =
            k(k+1)/2 + k(d+1) columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import linalg, special

from planted._typing import Array, BoolArray, IntArray, as_array
from planted.certificates._parts import (
    LabelGrid,
    RoundingChecks,
    both_sides,
    first_failure,
    model_uncertainty,
    named_failure,
    reproduces_rows,
)
from planted.certificates.noise._rounding import half_steps, rounding_evidence, with_half_step
from planted.checks import Check
from planted.fitting._jacobian import Information, degrees_of_freedom, jacobian_conditioning, rounding_level
from planted.fitting._refine import Refinement
from planted.fitting._run import Problem
from planted.fitting.units._null_units import complementarity_null_space, uniqueness_evidence
from planted.fitting.units._pursuit import pursue_units
from planted.linalg.symmetric import unit_rows
from planted.moments import check_rows_against, hidden_rows
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Unavailable, Verdict
from planted.rows import RowBlocks

__all__ = [
    "RESIDUAL_TOL",
    "RIVAL_STARTS",
    "certify_noiseless",
    "count_rivals",
    "gap_evidence",
    "hidden_kinks",
    "output_limits",
    "pursuit_rows",
    "uniqueness_of",
]

RIVAL_STARTS = 128
# How often a network with one kink in each gap is refused. Of several inputs hardly any two kinks are parallel: where none
# are, none are expected to hide in one gap.
GAP_LEVEL, GAP_LEVEL_ALONE = 1e-2, 1e-3
PARALLEL = 1e-9  # by which the cosine of the angle of two kinks that have one direction may differ from one
NEIGHBOURS = 8  # spacings on each side of a gap that tell the usual one
SAME_KINK = 1e-9  # distance of kinks of one input that are one
PIECE_SAMPLES = 3  # on every linear piece of a function of one input
MAX_NULL_COLUMNS = 1000  # of the theorem's linear system; beyond, it costs more than the rest


def pursuit_rows(problem: Problem, k: int) -> int:
    """Return how many rows a search for k units looks at first: ample for each of them, and few."""
    return min(len(problem.X), max(500, 12 * (problem.n_features + 1 + k)))


def count_rivals(problem: Problem, network: TwoLayerNetwork, Q: Array) -> int:
    """Count further ReLU units in a column space, with the units of the network known.

    Shapes: Q (rows, rank), an orthonormal basis on all rows in memory.
    """
    k, rows = network.n_hidden, pursuit_rows(problem, network.n_hidden)
    known = hidden_rows(network)
    found = pursue_units(
        problem.X[:rows],
        linalg.orth(Q[:rows]),
        k + 1,
        rng=problem.rng,
        max_starts=RIVAL_STARTS,
        known=known,
    )
    return max(len(found.V) - k, 0)


def uniqueness_of(problem: Problem, network: TwoLayerNetwork) -> tuple[Evidence, ...]:
    """Return the lines of the uniqueness theorem for ReLU units without biases; none if its system is too large."""
    k, d = network.n_hidden, network.n_features
    q = k * (k + 1) // 2 + k * (d + 1)
    if not network.activation.is_piecewise_linear or q > MAX_NULL_COLUMNS or len(problem.X) < q - k:
        return ()
    rows = min(len(problem.X), 2 * q + 50)
    y = problem.Y[:rows] @ linalg.pinv(network.A).T
    space = complementarity_null_space(problem.X[:rows], y)
    return uniqueness_evidence(space, k) if space.dimension <= k else ()


def hidden_kinks(
    problem: Problem, network: TwoLayerNetwork, distinct: IntArray
) -> tuple[tuple[Evidence, ...], str]:
    """Look for gaps between the samples in which several kinks may hide.

    `distinct`: places of the samples that count. Returns the evidence, and a sentence that names the first gap or
    piece at fault in the user's units; it is empty if there is none.
    """
    if not network.n_hidden or not network.activation.is_piecewise_linear or len(distinct) < 2:
        return (), ""
    line, unit, gap = _widest_gap(network, network.preactivations(problem.X[distinct]).T)
    lines = [line]
    text = "" if line.passed else _gap_text(problem, network, unit, gap)
    if network.n_features == 1:
        fewest = _fewest_on_a_piece(problem.X[distinct, 0], -network.b / network.W[:, 0])
        piece = Evidence(
            "samples on the shortest linear piece", fewest, PIECE_SAMPLES, ">=", "d + 2", key=Check.PIECE
        )
        lines.append(piece)
        if not piece.passed:
            text = text or (
                f"A linear piece between two kinks holds {fewest} sample(s); {PIECE_SAMPLES} are needed to tell it "
                "from several pieces."
            )
    return tuple(lines), text


def gap_evidence(network: TwoLayerNetwork, t: Array) -> tuple[Evidence, ...]:
    """Return the line on the widest gap between samples at a kink; none for units without kinks.

    Shapes: t (k, n), pre-activations.
    """
    if not network.n_hidden or not network.activation.is_piecewise_linear:
        return ()
    return (_widest_gap(network, t)[0],)


class _Gap(NamedTuple):
    """The gap between the negative and the positive numbers of a list."""

    low: float = 0.0
    high: float = 0.0
    spacings: float = 0.0  # its width, in spacings of the numbers beside it
    usual: float = 1.0  # the widest that a list without a gap has at the level asked for


def _widest_gap(network: TwoLayerNetwork, t: Array) -> tuple[Evidence, int, _Gap]:
    """Return the line on the gap that is widest for its level, its unit, and the gap. Shapes: t (k, n)."""
    levels = np.where(_have_parallels(network), GAP_LEVEL, GAP_LEVEL_ALONE) / network.n_hidden
    gaps = [_gap_at_zero(row, level) for row, level in zip(t, levels, strict=True)]
    unit = int(np.argmax([gap.spacings / gap.usual for gap in gaps]))
    gap = gaps[unit]
    name = f"gap between the samples at the kink of unit {unit + 1}, in spacings beside it"
    return Evidence(name, gap.spacings, gap.usual, "<=", key=Check.GAP), unit, gap


def _have_parallels(network: TwoLayerNetwork) -> BoolArray:
    """Which units have kinks of the direction of another; of one input, all."""
    W = unit_rows(network.W)[0]
    cosines = np.abs(W @ W.T) - np.eye(len(W))
    return np.asarray((cosines.max(axis=1) >= 1 - PARALLEL) | (network.n_features == 1))


def _gap_at_zero(t: Array, level: float) -> _Gap:
    """Return the gap about zero; none if all numbers have one sign."""
    ordered = np.sort(t)
    first, last = np.searchsorted(ordered, 0.0), np.searchsorted(ordered, 0.0, side="right")
    sides = _smallest(ordered[last:]), _smallest(-ordered[:first][::-1])
    if not all(side.size for side in sides):
        return _Gap()
    above, below = (float(side[0]) for side in sides)
    n_spacings = sum(len(side) - 1 for side in sides)
    if not n_spacings:
        return _Gap(-below, above, np.inf)
    spacing = sum(float(np.ptp(side)) for side in sides) / n_spacings
    usual = 2.0 * float(special.fdtri(4, 2 * n_spacings, 1 - level))
    return _Gap(-below, above, (above + below) / spacing, usual)


def _smallest(values: Array) -> Array:
    """Return the smallest distinct ones of ordered numbers, one more than `NEIGHBOURS`."""
    wanted = NEIGHBOURS + 1
    few = np.unique(values[: 2 * wanted])
    return (few if len(few) >= wanted else np.unique(values))[:wanted]


def _gap_text(problem: Problem, network: TwoLayerNetwork, unit: int, gap: _Gap) -> str:
    """Say between which inputs samples are missing, in the user's units."""
    restored = problem.scaling.restore(network)
    norm = np.linalg.norm(network.W[unit] / problem.scaling.x_scale)
    low, high = (end / norm - restored.b[unit] for end in (gap.low, gap.high))
    if problem.n_features == 1:
        low, high = sorted(float(restored.W[unit, 0]) * np.array([low, high]))
        where = f"x in [{low:.6g}, {high:.6g}]"
    else:
        where = f"w'x in [{low:.6g}, {high:.6g}] for the weights w of unit {unit + 1}"
    return (
        f"No sample has {where}, a gap of {gap.spacings:.3g} spacings of the samples beside it. Any number of "
        "parallel kinks there with the same total change of slope reproduces the samples; ask for samples in the gap."
    )


def _fewest_on_a_piece(x: Array, kinks: Array) -> int:
    """Count the samples between neighbouring kinks, and beyond the outermost; coinciding kinks are one."""
    places = np.sort(kinks)
    apart = np.append(True, np.diff(places) > SAME_KINK * (1 + np.abs(places[1:])))
    counts = np.bincount(np.searchsorted(places[apart], x), minlength=int(apart.sum()) + 1)
    return int(counts.min())


RESIDUAL_TOL = (
    1e-9  # residual of a row that counts as reproduced during a search, in output standard deviations
)
# Output weight in output standard deviations; a weaker unit cannot be distinguished from rounding.
WEAKEST_UNIT = 100 * RESIDUAL_TOL
WEAK_STEPS = 100.0  # the same in residual standard deviations
FIT_PART = 0.9
DRAWS = 4  # of sets of that part of the rows, until one determines the network
# Part of a unit's largest pre-activation below which a sample lies on neither side of its kink.
ON_KINK = 1e-9
# An error u of the outputs moves parameters by u / σ, and the Jacobian by as much: for σ² below a multiple of u the
# nearest solution need not be the only one nearby (Newton-Kantorovich).
KANTOROVICH = 10.0


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
    rows, grid = reproduces_rows(problem, net)
    distinct = _telling_rows(problem, net)
    if not len(distinct):
        text = "Every sample lies on the kink of a unit: none tells where it is."
        return Verdict(
            Outcome.NOT_IDENTIFIABLE, Guarantee.NONE, (_exactness(rows, grid),), text, Unavailable(text)
        )
    seen = rows if len(distinct) == len(problem.X) else check_rows_against(_part(problem, distinct), net)
    n_fit = int(np.ceil(FIT_PART * len(distinct)))
    need = max(rounding_level(net, problem.scaling), KANTOROVICH * float(np.sqrt(rows.noise)))
    unknowns = degrees_of_freedom(net, offset=offset, biases=biases)
    # A method for networks without biases does not know that there are none: enough samples must tell them from weights.
    may_have_biases = biases or n_fit * net.n_outputs > degrees_of_freedom(net, offset=offset)
    for _ in range(DRAWS):
        chosen = _determining_rows(problem, net, distinct, n_fit)
        local = jacobian_conditioning(
            problem.X[chosen], net, offset=offset, biases=may_have_biases, need=need
        )
        if local.conditioning >= need or len(chosen) == len(distinct):
            break
    exact = _exactness(rows, grid)
    count, rank = _local_evidence(local, need, (n_fit, len(chosen)), unknowns, net.n_outputs)
    sides, search = both_sides(net, seen), _search_evidence(rivals)
    hidden, where = hidden_kinks(problem, net, distinct)
    further = (_weakest_unit(net, rows.noise), *further, *_resolution(problem, net, rows, grid, biases))
    trace = rounding_evidence(problem, net, grid, biases=biases) if exact.passed else ()
    evidence = (exact, *trace, count, rank, *sides, *search, *hidden, *further, *uniqueness)
    doubt = model_uncertainty(problem, fit, offset, biases)
    if not grid.is_double:
        half = half_steps(problem, grid)
        doubt = with_half_step(doubt, problem, net, half, offset=offset, biases=biases)
    if not exact.passed:
        return Verdict(Outcome.FITTED, Guarantee.NONE, evidence, _miss(rows), doubt)
    if not count.passed:
        text = _too_few(seen.n_samples, unknowns, net.n_outputs)
        return Verdict(Outcome.TOO_FEW_SAMPLES, Guarantee.NONE, evidence, text, doubt)
    if first_failure(trace):
        return Verdict(Outcome.FITTED, Guarantee.NONE, evidence, first_failure(trace), doubt)
    singular = rounding_level(net, problem.scaling)
    failure = named_failure(seen, local, rank, *sides, *search, singular=singular)
    if failure is None and where:
        failure = Outcome.NOT_IDENTIFIABLE, where
    if failure is None and first_failure(further):
        failure = Outcome.NOT_IDENTIFIABLE, first_failure(further)
    if failure is not None:
        outcome, text = failure
        return Verdict(outcome, Guarantee.NONE, evidence, text, doubt)
    text = _claim(rows, grid, uniqueness, searched=rivals is not None)
    guarantee = Guarantee.EXACT if grid.is_double else Guarantee.ASYMPTOTIC
    return Verdict(Outcome.RECOVERED, guarantee, evidence, text, doubt)


def output_limits(Y: Array) -> Array:
    """Return the residual up to which a label counts as right among wrong and missing ones, for each output.

    It is `RESIDUAL_TOL` times the spread of the output itself, by the median, which half of the labels determine.
    Shapes: Y (n, m), result (m,).

    Examples
    --------
    >>> output_limits(np.array([[1.0, 1e-10], [2.0, 2e-10], [3.0, 3e-10], [900.0, np.nan]]))
    array([1.e-09, 1.e-19])
    """
    spread = np.nanmedian(np.abs(Y - np.nanmedian(Y, axis=0)), axis=0)
    return as_array(RESIDUAL_TOL * np.where(spread > 0, np.minimum(spread, 1.0), 1.0))


def _telling_rows(problem: Problem, network: TwoLayerNetwork) -> IntArray:
    """Return the places of rows that are evidence: repeated ones are not, nor those that lie on a unit's kink.

    A kink that can move without changing any output comes to rest on a sample; counted as seen on, that sample would
    make the unit look determined.
    """
    distinct = _distinct_rows(problem.X)
    t = np.abs(network.preactivations(problem.X[distinct]))
    telling: IntArray = distinct[(t >= ON_KINK * t.max(axis=0)).all(axis=1)]
    return telling


def _distinct_rows(X: Array) -> IntArray:
    """Return the places of the first of equal rows; a column without repeated values shows that there are none."""
    for column in X.T[:2]:
        values = np.sort(column)
        if (values[1:] > values[:-1]).all():
            return np.arange(len(X))
    return np.sort(np.unique(X, axis=0, return_index=True)[1])


def _determining_rows(problem: Problem, network: TwoLayerNetwork, distinct: IntArray, n_fit: int) -> IntArray:
    """Draw about `n_fit` of the rows so that every unit is on in at least d + 1 of them, if it is on in so many.

    The network must be determined by these rows alone; that it reproduces the others is then a test. Rows of a rare
    unit are added until it has enough: a unit that is on in d + 2 rows has one to spare. Of few rows, those drawn may by
    chance leave a unit free that all of them determine, so that another set is drawn. That some set determines the network
    is a fact about inputs and network alone: every row outside it is an equation to spare, whichever set it was.
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


def _exactness(rows: RoundingChecks, grid: LabelGrid) -> Evidence:
    """Return the line on exactness, which the worst entry decides."""
    name = "largest residual of a sample, over what rounding may leave of it"
    where = "" if grid.is_double else f"labels of {grid.name}"
    return Evidence(name, float(rows.excess.max()), 1.0, "<=", where, key=Check.RESIDUAL)


def _miss(rows: RoundingChecks) -> str:
    worst = int(np.argmax(rows.excess))
    text = f"The best network misses a sample by {rows.largest_residual:.2g} output standard deviations"
    if len(rows.excess) == 1:
        return f"{text}, {rows.excess[worst]:.2g} times what rounding may leave."
    return f"{text}; output {worst} is missed by {rows.excess[worst]:.2g} times what rounding may leave."


def _local_evidence(
    local: Information, need: float, sizes: tuple[int, int], unknowns: int, n_outputs: int
) -> tuple[Evidence, Evidence]:
    """Return the lines on the number of equations and on the rank of the Jacobian."""
    count = f"equations from {sizes[0]} of the distinct samples"
    more = sizes[1] - sizes[0]
    rank = "smallest relative singular value of the Jacobian on them" + (f" and {more} more" if more else "")
    return (
        Evidence(count, sizes[0] * n_outputs, unknowns + 1, ">=", "unknowns + 1", key=Check.EQUATIONS),
        Evidence(rank, local.conditioning, need, ">=", "rounding", key=Check.JACOBIAN),
    )


def _resolution(
    problem: Problem, network: TwoLayerNetwork, rows: RoundingChecks, grid: LabelGrid, biases: bool
) -> tuple[Evidence, ...]:
    """Return how many pairs of units the rounding of the labels would hide; nothing in double precision."""
    if grid.is_double:
        return ()
    from planted.certificates._resolution import resolution_evidence  # only rounded labels need it

    return (resolution_evidence(problem, network, noise=rows.noise, biases=biases),)


def _too_few(n_distinct: int, unknowns: int, n_outputs: int) -> str:
    need = int(np.ceil((unknowns + 1) / n_outputs / FIT_PART))
    return (
        f"{n_distinct} distinct samples cannot determine {unknowns} unknowns with redundancy; "
        f"at least {need} are needed."
    )


def _claim(rows: RoundingChecks, grid: LabelGrid, uniqueness: Sequence[Evidence], *, searched: bool) -> str:
    """Return what may be said of a network that passed every check."""
    if uniqueness and all(item.passed for item in uniqueness):
        scope = "no other network of this width can produce these samples"
    else:
        scope = "locally unique" + (", and a renewed search found no other" if searched else "")
    size = f"{rows.largest_residual:.1e} output standard deviations"
    if not grid.is_double:
        size += f", the rounding of labels of {grid.name}"
    return f"All {rows.n_samples} samples are reproduced to {size}; {scope}."


def _weakest_unit(network: TwoLayerNetwork, noise: float) -> Evidence:
    """Return the smallest output weight of a unit: at rounding error its hyperplane means nothing."""
    sizes = np.linalg.norm(network.A, axis=0)
    unit = int(np.argmin(sizes))
    name = f"output weight of unit {unit + 1}, in output standard deviations"
    needed = max(WEAKEST_UNIT, WEAK_STEPS * noise)
    return Evidence(name, float(sizes[unit]), needed, ">=", key=Check.WEAKEST_UNIT)


def _search_evidence(rivals: int | None) -> tuple[Evidence, ...]:
    if rivals is None:
        return ()
    return (
        Evidence(
            "further units found in the column space of the outputs", rivals, 0, "==", key=Check.RIVAL_UNITS
        ),
    )
