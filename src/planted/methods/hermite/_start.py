"""Two ways from rows to units: the paper's, with plain averages, and ours, with the variance taken out.

The paper's way is Algorithm 4 on averages of y He_j(x), with signs by Algorithm 3 where the rows are independent
(Algorithm 6); see `printed`. Ours is the following.

1. Regress y on all Hermite products of degree ≤ 2 (≤ 1 when there are too many): T_1 and T_2 with the variance of what is
   left over. As many units are visible as singular values of T_2 are beyond the edge 2 s √(d/n) that residual noise of
   standard deviation s alone would reach.
2. k ≤ d: within the leading eigenspace of T_2 regress on all degrees ≤ 4 (or average over the residual when there would be
   more than `LARGEST_DESIGN` columns), solve the eigenproblem of `_matching` for several draws, match moments, keep the
   best. Then subtract the network so found, whose moments are known exactly, from y and estimate the rest again: each sweep
   removes most of the variance that is left.
3. k > d: regress on all degrees ≤ 4 in all inputs where there are at most `LARGEST_DESIGN` columns, contract orders 4, 5, 6
   of what is left over, diagonalise them together (`recover_units`), and match orders 2 to 4 when all k units were seen.
   Signs stay open.

Contracted along random directions, T_{2l}, T_{2l+1} and T_{2l+2} are matrices between products of l inputs that all
have the form Σ_i c_i z_i z_i', z_i = w_i^{⊗l}. [ATV21]_ decomposes the two upper orders separately, each by one random
pair, and merges what they show (Algorithm 4, `printed`). Ours weighs each matrix of the three orders by its sampling
error and diagonalises all of them together: there is nothing to merge, no unit is missed by a root of one Hermite
polynomial, and every draw adds to the accuracy instead of being a chance to be nearly degenerate. Both end with
RecoverScalars.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from planted._typing import Array, Progress
from planted.linalg import decompose_shared_terms, roots_of_powers, unit_rows
from planted.methods.hermite._matching import MatchedUnits, match_moments, solve_eigenproblem
from planted.methods.hermite.printed import (
    EXACT_FLOOR,
    Thresholds,
    Units,
    algorithm_2,
    algorithm_3,
    algorithm_4,
    algorithm_6,
    noise_edge,
)
from planted.moments import (
    Contractions,
    Draws,
    HermiteMoments,
    HermiteTensors,
    PolynomialFit,
    Project,
    Residual,
    SampleHermite,
    accumulate_grams,
    design_size,
    fit_polynomial,
    leading_span,
)
from planted.moments.population_hermite import relu_tensors
from planted.networks import TwoLayerNetwork
from planted.rows import RowBlocks

__all__ = [
    "EFFICIENT_DRAWS",
    "REDUCTIONS",
    "Sample",
    "Start",
    "best_of_draws",
    "recover_units",
    "start_as_printed",
    "start_efficiently",
]

REDUCTIONS = ("none", "linear", "quadratic", "joint")
LARGEST_DESIGN = 1200  # columns of a joint regression of degree 4: ten inputs have 1001
LARGEST_QUADRATIC = 2600  # columns of a regression of degree 2: seventy inputs have 2556
ROWS_PER_COLUMN = 4  # fewer, and a regression costs more variance than it saves
VISIBLE = 1.2  # singular values of T_2 over the edge of noise
EIGEN_DRAWS = 10
EFFICIENT_DRAWS = 6  # of orders that are decomposed together
DRAW_STEPS = 25  # steps of moment matching by which draws are compared
LINEAR_PART = 0.3  # share of T_1 that visible units may leave over before a linear part is assumed
START_BIAS = 2.5  # biases of a start are clipped here; moment matching moves them on


_Parts = tuple[Array, Array, Array]  # W, b, A


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows with white inputs, and what is known about them."""

    blocks: RowBlocks  # the rows
    n_samples: int  # their number
    shape: tuple[int, int]  # numbers of inputs and outputs
    progress: Progress  # called as progress(message, fraction)


@dataclass(frozen=True, slots=True)
class Start:
    """Units read from moments, in white coordinates."""

    units: Units  # the units
    order: int  # the paper's l
    signed: bool  # whether the signs are known
    n_visible: int  # units that stand out of the sampling error
    noise: float  # sampling error of T_2 as a spectral norm
    sign_margin: float = float("nan")  # smallest |x_i| of Algorithm 3; NaN when it did not run
    counts: dict[str, float] = field(default_factory=dict)  # what was done, for the record's stats


def start_as_printed(
    sample: Sample,
    n_hidden: int | None,
    *,
    order: int,
    reduction: str,
    rng: np.random.Generator,
    thresholds: Thresholds | None = None,
) -> Start:
    """Run Algorithm 6 for l = 1, whose signs are known, or Algorithm 4 for l ≥ 2."""
    sample.progress("averaging Hermite tensors", float("nan"))
    moments = SampleHermite(sample.blocks, sample.shape, _fit(sample, reduction))
    if order > 1:
        units = algorithm_4(moments, order, rng=rng, n_hidden=n_hidden, thresholds=thresholds)
        return Start(units, order, False, len(units.W), units.noise)
    units, margin = algorithm_6(moments, rng=rng, n_hidden=n_hidden, thresholds=thresholds)
    return Start(units, order, len(units.W) > 0, len(units.W), units.noise, margin)


def start_efficiently(
    sample: Sample,
    n_hidden: int | None,
    *,
    order: int | None,
    reduction: str,
    sweeps: int,
    rng: np.random.Generator,
) -> Start:
    """Find units with the variance taken out of the moments.

    `order`: the paper's l; chosen by the number of visible units if None. `sweeps`: how often the last network is subtracted
    and the rest estimated again, for k ≤ d and "joint".
    """
    d = sample.shape[0]
    sample.progress("regressing out low degrees", float("nan"))
    second, edge = _second_order(sample, _fit(sample, min(reduction, "quadratic", key=REDUCTIONS.index)))
    visible = int((leading_span(second, d)[1] > VISIBLE * edge).sum())
    if order is None:
        order = 1 if (n_hidden or visible) <= d and (n_hidden is not None or visible < d) else 2
    if order > 1:
        return _start_overcomplete(sample, n_hidden, order, reduction, rng, noise=edge)
    k = min(n_hidden or visible, visible, d)
    if k == 0:
        nothing = Units(np.zeros((0, d)), np.zeros(0), np.zeros((sample.shape[1], 0)), np.zeros(0), edge)
        return Start(nothing, 1, True, 0, edge)
    return _start_full_rank(
        sample, k, reduction, rng, sweeps=sweeps, edge=edge, visible=visible, second=second
    )


def best_of_draws(tensors: HermiteTensors, rng: np.random.Generator) -> tuple[_Parts, float]:
    """Solve the eigenproblem for several draws, match moments, and keep the best units, signs included.

    Returned with them: the margin of their signs in Algorithm 3.
    """
    best: MatchedUnits | None = None
    best_margin = float("nan")
    for _ in range(EIGEN_DRAWS):
        W = solve_eigenproblem(tensors, rng)
        b, A = algorithm_2(1, W, tensors)
        signs, margin = algorithm_3(W, A, tensors.first)
        start = (W * signs[:, None], np.clip(b * signs, -START_BIAS, START_BIAS), A)
        found = match_moments(tensors, start, lowest=1, max_iter=DRAW_STEPS)
        if best is None or found.cost < best.cost:
            best, best_margin = found, margin
    assert best is not None
    return (best.W, best.b, best.A), best_margin


def recover_units(
    moments: HermiteMoments, order: int, *, rng: np.random.Generator, n_hidden: int | None = None
) -> Units:
    """Recover the visible units up to sign, with three orders decomposed together.

    `n_hidden`: at most so many units; what the thresholds leave if omitted.
    """
    found = moments.contract(order, Draws.random(EFFICIENT_DRAWS, *moments.shape, rng=rng))
    W, values = _decompose_together(found, order, rng, n_hidden)
    b, A = algorithm_2(order, W, moments)
    return Units(W, b, A, values, 1.0)


def _decompose_together(
    found: Contractions, order: int, rng: np.random.Generator, n_hidden: int | None
) -> tuple[Array, Array]:
    """Return the rows that three orders share, each weighed by its sampling error, and the singular values per draw."""
    stacks = (found.base, found.odd, found.even)
    sizes = np.array([np.linalg.norm(stack, 2, axis=(1, 2)).max() for stack in stacks])
    errors = np.maximum(found.noise, EXACT_FLOOR * sizes)
    weighed = np.concatenate([stack / error for stack, error in zip(stacks, errors, strict=True)])
    threshold = Thresholds().rank * noise_edge(len(weighed))
    largest = weighed.shape[1] if n_hidden is None else n_hidden
    terms = decompose_shared_terms(weighed, rng, threshold=threshold, largest_rank=largest)
    return roots_of_powers(terms.Z.T, order), terms.values / np.sqrt(len(weighed))


def _fit(sample: Sample, reduction: str) -> PolynomialFit | None:
    """Regress on the largest degree that the option, the number of columns and the number of rows allow."""
    d = sample.shape[0]
    limits = {4: LARGEST_DESIGN, 2: LARGEST_QUADRATIC, 1: np.inf}
    highest = {"none": 0, "linear": 1, "quadratic": 2, "joint": 4}[reduction]
    for degree, limit in limits.items():
        columns = design_size(d, degree)
        if degree <= highest and columns <= limit and sample.n_samples >= ROWS_PER_COLUMN * columns:
            return fit_polynomial(sample.blocks, degree)
    return None


def _second_order(sample: Sample, fit: PolynomialFit | None) -> tuple[Array, float]:
    """Return T_2 of every output and the edge of its noise."""
    d, m = sample.shape
    if fit is not None and fit.degree >= 2:
        second, variance = fit.tensors().second, fit.residual_variance
    else:
        sums = accumulate_grams(sample.blocks, Residual(fit), quadratic=False)
        second = np.stack([sums.moment(output, 2) for output in range(m)])
        variance = np.ones(m) if fit is None else fit.residual_variance  # outputs have variance one
    edge = float(2 * np.sqrt(d * variance.sum() / sample.n_samples))
    return second, max(edge, EXACT_FLOOR)  # a variance left over is a difference: zero, or rounding


def _start_full_rank(
    sample: Sample,
    k: int,
    reduction: str,
    rng: np.random.Generator,
    *,
    sweeps: int,
    edge: float,
    visible: int,
    second: Array,
) -> Start:
    """Solve the eigenproblem in the span of the units, then sweep."""
    control: TwoLayerNetwork | None = None
    lowest, margin = 1, float("nan")
    for sweep in range(sweeps + 1):
        sample.progress(f"matching moments, sweep {sweep}", float("nan"))
        span = leading_span(second, k)[0]
        tensors = _tensors_in_span(sample, span, reduction, control)
        if control is None:
            start, margin = best_of_draws(tensors, rng)
            lowest = 2 if _has_linear_part(tensors, start) else 1
        else:
            start = (unit_rows(control.W @ span)[0], control.b, control.A)
        found = match_moments(tensors, start, lowest=lowest)
        control = TwoLayerNetwork(found.W @ span.T, found.b, found.A)
        if reduction != "joint" or sweep == sweeps:
            break
        rest = replace(sample, blocks=sample.blocks.map(partial(_subtract, control)))
        second = _second_order(rest, _fit(rest, "quadratic"))[0]
        second = second + relu_tensors(control.W, control.b, control.A).second
    assert control is not None
    units = Units(control.W, control.b, control.A, np.zeros(0), edge)
    return Start(units, 1, lowest == 1, visible, edge, margin, {"matching_cost": found.cost})


def _tensors_in_span(
    sample: Sample, span: Array, reduction: str, control: TwoLayerNetwork | None
) -> HermiteTensors:
    """Estimate orders 0 to 4 in the coordinates of a subspace, of the outputs or of what a known network leaves."""
    blocks = sample.blocks if control is None else sample.blocks.map(partial(_subtract, control))
    inner = replace(sample, blocks=blocks.map(Project(span)), shape=(span.shape[1], sample.shape[1]))
    tensors = SampleHermite(inner.blocks, inner.shape, _fit(inner, reduction)).tensors()
    if control is None:
        return tensors
    known = relu_tensors(control.W @ span, control.b, control.A)  # exact, also for rows that leave the span
    return tensors.plus(known)


def _has_linear_part(tensors: HermiteTensors, units: _Parts) -> bool:
    """Return whether order 1 contradicts the orders above: some units are always on, and the signs cannot be read."""
    blind = match_moments(tensors, units, lowest=2)
    known = relu_tensors(blind.W, blind.b, blind.A)
    signs = algorithm_3(blind.W, blind.A, tensors.first)[0]
    turned = relu_tensors(blind.W * signs[:, None], blind.b * signs, blind.A)
    rest = min(np.linalg.norm(tensors.first - part.first) for part in (known, turned))
    return bool(rest > LINEAR_PART * np.linalg.norm(tensors.first))


def _start_overcomplete(
    sample: Sample,
    n_hidden: int | None,
    order: int,
    reduction: str,
    rng: np.random.Generator,
    *,
    noise: float,
) -> Start:
    """Diagonalise orders 2l, 2l + 1 and 2l + 2 together."""
    fit = _fit(sample, reduction)
    sample.progress(f"contracting orders {2 * order} to {2 * order + 2}", float("nan"))
    moments = SampleHermite(sample.blocks, sample.shape, fit)
    units = recover_units(moments, order, rng=rng, n_hidden=n_hidden)
    n_visible = len(units.W)
    if fit is not None and fit.degree == 4 and n_hidden == n_visible:
        start = (units.W, np.clip(units.b, -START_BIAS, START_BIAS), units.A)
        found = match_moments(fit.tensors(), start, lowest=2)
        units = replace(units, W=found.W, b=found.b, A=found.A)
    return Start(units, order, False, n_visible, noise)


def _subtract(network: TwoLayerNetwork, X: Array, Y: Array) -> tuple[Array, Array]:
    """Return the outputs minus those of a known network."""
    return X, Y - network(X)
