"""Tests whether what a network leaves of rounded labels is rounding, and nothing that depends on x.

Problem     Labels on a grid (`_parts.LabelGrid`) tolerate a residual of several steps, since a label may have been computed
            in the precision in which it is stored. A smooth function of x of that size, which is no part of the network,
            could hide there.
Idea        *Size.* A label that was rounded to nearest misses the network by a uniform number of variance step² / 12, the
            step being that of the label itself. The sum of squares of an output is compared with the sum of these. Labels
            that were computed in single or half precision miss it by more, and by how much is known too: the network is
            computed in that precision `REPEATS` times, its units scaled and its sums ordered at random, and compared with
            the same numbers in double precision. Labels rounded to nearest gave at most 1.3 times the one, and labels
            computed by three programs at most 1.3 times the other.
            *Traces of x.* Errors of rounding are as good as independent of x, but their size is not: it changes with the
            labels, by which the F test of `_residual` would be misled. The rows are therefore weighted by the variance
            that the size of their errors says. Right networks then gave a p-value as noise does. Labels of so many
            significant digits have steps that differ by ten within a row, which weights of rows cannot follow: there the
            size alone is tested.
Guarantee   Heuristic. A term far below a step of most labels leaves no trace, and is not excluded.
Cost        One pass with `REPEATS` evaluations of the network, and the pass of the F test.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array, IntArray, as_array
from planted.certificates._parts import LabelGrid
from planted.certificates._residual import lack_of_fit, residual_sums
from planted.checks import Check
from planted.fitting._run import Problem
from planted.networks import TwoLayerNetwork
from planted.results import Evidence
from planted.rows import Sums, accumulate

__all__ = ["rounding_evidence"]

REPEATS = 4
# Mean squared residual of an output, over that of rounding: see above.
NEAREST, COMPUTED = 1.5, 2.0
TRACE_LEVEL = 1e-3
LEAST_VARIANCE = 1 / 256  # of a row, in those of the mean row: labels of zero have no step


def rounding_evidence(
    problem: Problem, network: TwoLayerNetwork, grid: LabelGrid, *, biases: bool
) -> tuple[Evidence, ...]:
    """Return the lines on the size of the residual and on traces of x in it; none in double precision."""
    if grid.is_double:
        return ()
    errors: _Nearest = _Nearest(problem, grid)
    sums = accumulate(problem.blocks, _SizeSummand(network, errors))
    name, limit = "labels rounded to nearest", NEAREST
    if sums.ratio > limit and grid.format is not None:
        errors = _Computed.drawn(problem, network, grid)
        sums = accumulate(problem.blocks, _SizeSummand(network, errors))
        name, limit = f"labels computed in {grid.name}", COMPUTED
    name = f"mean squared residual of an output, over that of {name}"
    size = Evidence(name, sums.ratio, limit, "<=", key=Check.ROUNDING)
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
    return size, Evidence(trace, p_value, TRACE_LEVEL, ">=", "F test", key=Check.LACK_OF_FIT)


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
        return _Sizes(len(X), (residual**2).sum(axis=0), variances.sum(axis=0))
