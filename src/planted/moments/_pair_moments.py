"""The moments that the method of symmetric inputs needs, estimated from row blocks.

`SampleMoments` is all that the method knows of its data. The tests put the closed forms of a law in its place, so that the
same algebra runs on n samples and on n = ∞.
Regressions of y on x hold even functions of x fixed ("controls"). For symmetric x these are uncorrelated with x, so
that they change no expectation, but they take the even part of y, the larger part of its variance, out of the error
of the slope.

Cost: one pass over the rows for each answer; the joint second moments are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from planted._typing import Array
from planted.linalg.symmetric import solve_symmetric
from planted.moments._gram import RegressionSums, RowMoments, joint_moments
from planted.moments._paired import PairedSums, PairMaps, accumulate_pairs, fill_products, slice_rows
from planted.rows._blocks import RowBlocks
from planted.rows._passes import Sums, accumulate

__all__ = ["ControlledSlope", "SampleMoments", "second_moments"]

Fill = Callable[[Array, npt.NDArray[Any]], None]

# Relative eigenvalue of a Gram matrix below which features are collinear, as |x|² and 1 are on a sphere.
_RANK_TOL = 1e-11


@dataclass(frozen=True, slots=True)
class ControlledSlope:
    """A linear regression of the outputs with further functions of x held fixed."""

    B: Array  # (m, d): twice the coefficients of x; an estimate of A W for symmetric x
    residual_variance: float  # mean square of what remains, per output


@dataclass(frozen=True)
class SampleMoments:
    """What the method of symmetric inputs asks of its rows."""

    blocks: RowBlocks  # the data
    precision: str = "double"  # number format of the features; sums are float64 always
    rows: tuple[int, int] | None = None  # numbers of the first row and of the one after the last; all if None

    @cached_property
    def n_features(self) -> int:
        """Number of inputs, d."""
        return self.blocks.widths()[0]

    @cached_property
    def _joint(self) -> RowMoments:
        return joint_moments(self._chosen)

    def joint(self) -> RowMoments:
        """Return count, mean and scatter of the rows (x, y), read once."""
        return self._joint

    def slope(self, V: Array) -> ControlledSlope:
        """Regress y on x with a constant and the products of V'x as controls; one pass.

        Shapes: V (d, r).
        """
        n_controls = V.shape[1] * (V.shape[1] + 1) // 2
        return _regress_with_controls(self._chosen, partial(_fill_squares, V), n_controls, self._dtype)

    def slope_beside(self, W: Array) -> ControlledSlope:
        """Regress y on x with a constant and |W x| as controls; one pass.

        Once W is right, |W x| explains all of the even part. Shapes: W (k, d).
        """
        return _regress_with_controls(self._chosen, partial(_fill_sizes, W), len(W), np.float64)

    def pairs(self, maps: PairMaps, *, spread: bool = True) -> PairedSums:
        """Sum the paired features, one pass."""
        return accumulate_pairs(self._chosen, maps, spread=spread, precision=self.precision)

    def hidden_gradient(self, W: Array, A: Array) -> Array:
        """Return the gradient in W of half the mean squared residual, one pass.

        Shapes: W (k, d), A (m, k), result (k, d).
        """
        sums = accumulate(self._chosen, partial(_sum_gradient, W, A))
        return sums.gradient / sums.count

    def halves(self) -> tuple[SampleMoments, SampleMoments]:
        """Return the first and the second half of the rows, split in the middle of their order."""
        first, count = self.rows[0] if self.rows else 0, self.joint().count
        middle = first + count // 2
        return replace(self, rows=(first, middle)), replace(self, rows=(middle, first + count))

    @cached_property
    def _chosen(self) -> RowBlocks:
        """The rows, cut from the source itself: a half of a half keeps the source's numbers."""
        return self.blocks if self.rows is None else self.blocks.map_numbered(partial(_cut_rows, *self.rows))

    @property
    def _dtype(self) -> npt.DTypeLike:
        return np.float32 if self.precision == "single" else np.float64


def second_moments(joint: RowMoments, d: int) -> tuple[Array, Array]:
    """Return C = E[x x'] and R = E[y x'], about zero.

    Shapes: C (d, d), R (m, d).
    """
    second = joint.covariance + np.outer(joint.mean, joint.mean)
    return second[:d, :d], second[d:, :d]


def _regress_with_controls(
    blocks: RowBlocks, fill: Fill, n_controls: int, dtype: npt.DTypeLike
) -> ControlledSlope:
    """Regress y on [x, 1, controls]; ``fill`` writes the controls of a slice, one row for each."""
    d = blocks.widths()[0]
    sums = accumulate(blocks, partial(_sum_regression, fill, n_controls, dtype))
    coefficients = solve_symmetric(sums.GG, sums.GY, tol=_RANK_TOL)
    freedom = max(sums.count - len(sums.GG), 1) * sums.GY.shape[1]
    left = max(float(np.trace(sums.YY) - (coefficients * sums.GY).sum()), 0.0)
    return ControlledSlope(2.0 * coefficients[:d].T, left / freedom)


def _fill_squares(V: Array, X: Array, out: npt.NDArray[Any]) -> None:
    """Write the products of V'x."""
    fill_products((V.T @ X.T).astype(out.dtype), out)


def _fill_sizes(W: Array, X: Array, out: npt.NDArray[Any]) -> None:
    """Write |W x|."""
    out[:] = np.abs(W @ X.T)


def _sum_regression(
    fill: Fill, n_controls: int, dtype: npt.DTypeLike, first_row: int, X: Array, Y: Array
) -> RegressionSums:
    """Sum the products of [x, 1, controls] with each other and with y; the features of all slices share one buffer."""
    d, size = X.shape[1], X.shape[1] + 1 + n_controls
    rows = slice_rows(size, dtype)
    features = np.ones((size, rows), dtype)

    def of_slice(start: int) -> RegressionSums:
        inputs = X[start : start + rows]
        part = features[:, : len(inputs)]
        part[:d] = inputs.T
        fill(inputs, part[d + 1 :])
        return RegressionSums.of(part.T, Y[start : start + rows])

    return reduce(RegressionSums.merge, map(of_slice, range(0, len(X), rows)))


@dataclass(frozen=True, slots=True)
class GradientSums(Sums):
    """Sum of the gradient in W of half the squared residual."""

    count: int  # number of rows
    gradient: Array  # (k, d): the sum


def _sum_gradient(W: Array, A: Array, first_row: int, X: Array, Y: Array) -> GradientSums:
    """Sum the gradient in W at a network without biases over a block."""
    t = X @ W.T
    residual = np.maximum(t, 0.0) @ A.T - Y
    return GradientSums(len(X), ((residual @ A) * (t > 0)).T @ X)


def _cut_rows(start: int, stop: int, first_row: int, X: Array, Y: Array) -> tuple[Array, Array]:
    """Return the rows start, ..., stop - 1 of a source that are in a block."""
    low, high = max(start - first_row, 0), max(min(stop - first_row, len(X)), 0)
    return X[low:high], Y[low:high]
