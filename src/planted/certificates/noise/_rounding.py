"""Tests whether what a network leaves of rounded labels is rounding, and nothing that depends on x.

Problem     Labels on a grid (`_parts.LabelGrid`) tolerate a residual of several steps, since a label may have been computed
            in the precision in which it is stored. A smooth function of x of that size, which is no part of the network,
            could hide there.
Idea        *Size.* A label that was rounded to nearest misses the network by a uniform number of variance step² / 12, the
            step being that of the label itself. The sum of squares of an output is compared with the sum of these: it is
            normal about it, with 4/5 of the sum of their squares as variance. Labels that were computed in single or half
            precision miss it by more, and by how much is known too: the network is computed in that precision `REPEATS`
            times, its units scaled and its sums ordered at random, and compared with the same numbers in double precision.
            Labels computed by three programs gave at most 1.3 times that.
            *Traces of x.* Errors of rounding are as good as independent of x, but their size is not: it changes with the
            labels, by which the F test of `_residual` would be misled. The rows are therefore weighted by the variance
            that the size of their errors says. Right networks then gave a p-value as noise does. Labels of so many
            significant digits have steps that differ by ten within a row, which weights of rows cannot follow: there the
            size alone is tested.
            *Half a step.* Labels that were cut off after so many decimals, down or towards zero, lie half a step below
            those that were rounded. An offset, or a bias, takes that up, and nothing is left to tell by. Standard errors
            are therefore enlarged by what half a step in all labels would do to a parameter, downwards or towards zero. The
            same holds for labels with noise that have few values.
Guarantee   Heuristic. A term far below a step of most labels leaves no trace, and is not excluded.
Cost        One pass with `REPEATS` evaluations of the network, and the pass of the F test.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from planted._typing import Array, IntArray, as_array
from planted.certificates._parts import LabelGrid
from planted.certificates._residual import input_trace_evidence, lack_of_fit, residual_sums
from planted.certificates.noise._beside import Beside, Departure
from planted.certificates.noise._fitted_rows import FittedRows
from planted.checks import Check
from planted.fitting._jacobian import degrees_of_freedom
from planted.fitting._run import Problem
from planted.networks import TwoLayerNetwork
from planted.results import Evidence, Unavailable, Uncertainty
from planted.rows import Sums, accumulate

__all__ = ["half_steps", "rounding_evidence", "with_half_step"]

REPEATS = 4
COMPUTED = 2.0  # mean squared residual of an output, over that of its computation
TRACE_LEVEL = 1e-3
SIZE_LEVEL = 1e-3  # of the sizes of all outputs
UNIFORM = 0.8  # variance of the square of a uniform number, over the square of its mean
FEWEST_VALUES, FEW_VALUES = (
    3,
    0.5,
)  # of labels with noise that are on a grid: so many, and so many for each row at most
LEAST_VARIANCE = 1 / 256  # of a row, in those of the mean row: labels of zero have no step


def rounding_evidence(
    problem: Problem, network: TwoLayerNetwork, grid: LabelGrid, *, biases: bool
) -> tuple[Evidence, ...]:
    """Return the lines on the size of the residual and on traces of x in it; none in double precision."""
    if grid.is_double:
        return ()
    errors: _Nearest = _Nearest(problem, grid)
    sums = accumulate(problem.blocks, _SizeSummand(network, errors))
    freedom = 1 - degrees_of_freedom(network, offset=True, biases=biases) / (sums.count * network.n_outputs)
    ratio, limit = sums.largest(max(freedom, 1 / sums.count))
    name = "labels rounded to nearest"
    if ratio > limit and grid.format is not None:
        errors = _Computed.drawn(problem, network, grid)
        sums = accumulate(problem.blocks, _SizeSummand(network, errors))
        name, limit = f"labels computed in {grid.name}", COMPUTED
        ratio = sums.ratio
    name = f"mean squared residual of an output, over that of {name}"
    size = Evidence(name, ratio, limit, "<=", key=Check.ROUNDING)
    if grid.digits:
        return (size,)
    least = LEAST_VARIANCE * float(sums.expected.sum()) / max(sums.count, 1)

    def weights(first_row: int, X: Array, Y: Array) -> Array:
        return as_array(least / np.maximum(errors.variances(X, Y).sum(axis=1), least))

    sums_of_residual = residual_sums(problem, network, offset=True, biases=biases, weights=weights)
    p_value, tested = lack_of_fit(sums_of_residual)
    if not tested:
        return (size,)
    trace = "p-value of the test for traces of x in the rounding of the labels"
    inputs = input_trace_evidence(problem.X, problem.Y - network(problem.X))
    return size, Evidence(trace, p_value, TRACE_LEVEL, ">=", "F test", key=Check.LACK_OF_FIT), *inputs


def half_steps(problem: Problem, grid: LabelGrid | None = None, *, ordered: Array | None = None) -> Array:
    """Return half the step of every label in memory, in standardised units: of a grid, or of labels that have few values.

    `ordered`: the labels of every output in order, if they were sorted already. Shapes: ordered (m, n), result (n, m); zero
    where labels have no step.
    """
    units = problem.scaling
    if grid is not None:
        return as_array(grid.spacing(problem.Y * units.y_scale + units.y_shift) / units.y_scale / 2)
    steps = np.zeros(problem.n_outputs)
    for output, labels in enumerate(np.sort(problem.Y.T, axis=1) if ordered is None else ordered):
        gaps = np.diff(labels)
        if FEWEST_VALUES <= 1 + np.count_nonzero(gaps) <= FEW_VALUES * len(labels):
            steps[output] = gaps[gaps > 0].min()
    return np.broadcast_to(steps / 2, problem.Y.shape)


def with_half_step(
    doubt: Uncertainty | Unavailable,
    problem: Problem,
    network: TwoLayerNetwork,
    half: Array,
    *,
    offset: bool,
    biases: bool = True,
) -> Uncertainty | Unavailable:
    """Enlarge standard errors by what half a step in all labels does to the parameters.

    Shapes: half (n, m), as `half_steps` returns it.
    """
    if isinstance(doubt, Unavailable) or not half.any():
        return doubt
    units, each = problem.scaling, np.eye(network.n_outputs)
    labels = problem.Y * units.y_scale + units.y_shift
    steps = np.hstack([half, half * np.sign(labels)])
    beside = Beside.of(FittedRows(problem, network), steps.T, offset=offset, biases=biases)
    errors, places = dict(doubt.standard_errors), np.arange(2 * len(each)).reshape(2, -1)
    downwards, inwards = (beside.shifts(Departure("half a step", row, each), units) for row in places)
    for name, error in errors.items():
        if name in downwards:
            shift = np.maximum(np.abs(downwards[name]), np.abs(inwards[name]))
            errors[name] = np.where(error > 0, np.hypot(error, shift), 0.0)
    return replace(doubt, standard_errors=errors)


@dataclass(frozen=True, slots=True)
class _Nearest:
    """The errors of labels that were rounded to nearest."""

    problem: Problem
    grid: LabelGrid

    def variances(self, X: Array, Y: Array) -> Array:
        """Return the variance of every label's error, in standardised units.

        Shapes: X (n, d), Y (n, m), both standardised, result (n, m).
        """
        units = self.problem.scaling
        steps = self.grid.spacing(Y * units.y_scale + units.y_shift) / units.y_scale
        return as_array(steps**2 / 12)


@dataclass(frozen=True, slots=True)
class _Computed(_Nearest):
    """The errors of labels that were computed in the precision in which they are stored, and rounded to it."""

    network: TwoLayerNetwork  # in the user's units
    scales: Array  # (repeats, k): of the units, each time that the network is computed
    orders: tuple[tuple[IntArray, IntArray], ...]  # of the inputs and of the units, each time

    @classmethod
    def drawn(cls, problem: Problem, network: TwoLayerNetwork, grid: LabelGrid) -> _Computed:
        rng, (k, d) = problem.rng, network.W.shape
        scales = rng.uniform(0.5, 2.0, (REPEATS, k))
        orders = tuple((rng.permutation(d), rng.permutation(k)) for _ in range(REPEATS))
        return cls(problem, grid, problem.scaling.restore(network), scales, orders)

    def variances(self, X: Array, Y: Array) -> Array:
        units = self.problem.scaling
        inputs = X * units.x_scale + units.x_mean
        misses = [self._miss(inputs, *how) for how in zip(self.scales, self.orders, strict=True)]
        squares = sum((miss / units.y_scale) ** 2 for miss in misses) / REPEATS
        return as_array(_Nearest.variances(self, X, Y) + squares)

    def _miss(self, X: Array, scale: Array, order: tuple[IntArray, IntArray]) -> Array:
        """Return by how much the network, computed in the labels' precision, misses itself; 0 where that overflows."""
        net, kind = self.network, self.grid.format
        assert kind is not None
        degree = net.activation.degree
        scale = scale if degree else np.ones_like(scale)
        with np.errstate(over="ignore", invalid="ignore"):
            W, b, A, c = (
                part.astype(kind)
                for part in (net.W * scale[:, None], net.b * scale, net.A / scale**degree, net.c)
            )
            B = None if net.B is None else net.B.astype(kind)
            x, t, y = X.astype(kind), b, c
            for place in order[0]:
                t = t + x[:, [place]] * W[:, place]
            h = net.activation(t).astype(kind)
            for unit in order[1]:
                y = y + h[:, [unit]] * A[:, unit]
            y = y if B is None else y + x @ B.T
            exact = net.activation(X @ W.T.astype(np.float64) + b) @ A.T.astype(np.float64) + c
            exact = exact if B is None else exact + X @ B.T.astype(np.float64)
            miss = y.astype(np.float64) - exact
        return as_array(np.where(np.isfinite(miss), miss, 0.0))


@dataclass(frozen=True, slots=True)
class _Sizes(Sums):
    """Sums of squares of each output, (m,): of the residual, and of what is expected of it."""

    count: int
    residual: Array
    expected: Array
    squares: Array  # of what is expected of every label

    def largest(self, freedom: float) -> tuple[float, float]:
        """Return the residual that is most beyond rounding to nearest, over what is expected, and the largest it may be.

        `freedom`: part of it that a fit leaves.
        """
        varies = self.expected > 0
        if not varies.any():
            return 0.0, 1.0
        level = float(special.ndtri(1 - SIZE_LEVEL / varies.sum()))
        ratios = self.residual[varies] / (freedom * self.expected[varies])
        limits = 1 + level * np.sqrt(UNIFORM * self.squares[varies]) / self.expected[varies]
        worst = int(np.argmax(ratios / limits))
        return float(ratios[worst]), float(limits[worst])

    @property
    def ratio(self) -> float:
        """The largest residual of an output, over what is expected of it; labels without a step are all zero."""
        varies = self.expected > 0
        return float((self.residual[varies] / self.expected[varies]).max(initial=0.0))


@dataclass(frozen=True, slots=True)
class _SizeSummand:
    """The sums of a block of standardised rows."""

    network: TwoLayerNetwork
    errors: _Nearest

    def __call__(self, first_row: int, X: Array, Y: Array) -> _Sizes:
        residual, variances = Y - self.network(X), self.errors.variances(X, Y)
        return _Sizes(len(X), (residual**2).sum(axis=0), variances.sum(axis=0), (variances**2).sum(axis=0))
