r"""Products of rows as mergeable sums: means and scatter, regressions, and one pass that judges a network.

Naive sums of squares lose all digits when the mean is large (at an offset of 1e8 they return a variance of 2 for 1).
`RowMoments` keeps the count, the mean and the scatter about the mean, and merges two parts with the formulas of Chan,
Golub and LeVeque:

.. math:: S = S_1 + S_2 + \frac{n_1 n_2}{n_1 + n_2} \delta\delta^\top, \qquad \delta = \mu_2 - \mu_1 .

For regressors g(x) and outputs y the regression of y on g and the variance of its residual follow from the sums of
:math:`g g^\top`, :math:`g y^\top` and :math:`y y^\top`. Every regression on functions of the rows uses the same
`RegressionSums`; the summand that fills them decides what is regressed on what. If the outputs are residuals of a
network that is nearly right, they are formed before they are summed, so that nothing cancels. Features may be
float32. Their products are then formed in float32 for one slice of rows; what is carried from slice to slice is
float64.

The certificates, the searches and the diagnosis of a fitted network ask different questions of the same pass over the
rows, so `check_rows_against` answers all of them: the largest residual, the number of rows beyond a tolerance, the
sum of squares, and the activity of the units.

Cost: one symmetric product per block, O(rows · p²) time, O(p²) memory for rows of length p.

The normal equations of a two-layer network are sums of the same kind (`NormalSums`). At parameters (W, b, A, c) one
pass gives every product that Gauss–Newton needs. With the rows :math:`\tilde x = (x, 1)`, the activations :math:`H =
f(\tilde X V^\top)` and one, the slopes :math:`S = f'(\tilde X V^\top)`, the masked inputs :math:`Z = [S_1 \circ \tilde
X, \dots, S_k \circ \tilde X]` and the residual :math:`R = Y - H B^\top`:

    ZZ = Z'Z (kp × kp),  GZ = G'Z (g × kp),  GG = G'G,  ZR = Z'R (kp × m),  GR = G'R,  RR = R'R,   G = [H, 1].

If the network has a linear part, B is free as well and G = [H, X, 1]; g is the number of columns of G.

The residual is formed explicitly on every block, never as a difference of accumulated products. The gradient is then
accurate to rounding of the *residual*, which lets the refinement end at 1e-15 although the normal matrix squares the
condition number.

Memory: O((kp)²) plus one block; time: one symmetric product of width kp per block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from planted._typing import Array, IntArray, Json, as_array
from planted.networks import TwoLayerNetwork
from planted.rows._blocks import RowBlocks
from planted.rows._passes import Sums, accumulate
from planted.rows._sources import RowWeights

__all__ = [
    "NormalSums",
    "RegressionSums",
    "RowChecks",
    "RowMoments",
    "accumulate_normal",
    "augment",
    "beside_simple_models",
    "check_rows_against",
    "hidden_rows",
    "joint_moments",
    "mask_rows",
    "n_output_columns",
    "output_columns",
    "output_weights",
    "say_beside_a_line",
    "sum_joint",
    "with_output_weights",
]


@dataclass(frozen=True, slots=True)
class RowMoments(Sums):
    """Count, mean and scatter of a set of rows."""

    count: int  # number of rows
    mean: Array  # (p,): their mean
    scatter: Array  # (p, p): sum of outer products of the centred rows

    @classmethod
    def of(cls, rows: Array) -> RowMoments:
        """Sum one block.

        Shapes: rows (rows, p).
        """
        mean = rows.mean(axis=0)
        centred = rows - mean
        return cls(len(rows), mean, centred.T @ centred)

    def merge(self, other: RowMoments) -> RowMoments:
        """Return the sums of both sets of rows together."""
        total = self.count + other.count
        step = other.mean - self.mean
        mean = self.mean + step * (other.count / total)
        scatter = self.scatter + other.scatter + np.outer(step, step) * (self.count * other.count / total)
        return RowMoments(total, mean, scatter)

    @property
    def covariance(self) -> Array:
        """Scatter divided by the count."""
        return self.scatter / self.count


def joint_moments(blocks: RowBlocks) -> RowMoments:
    """Sum the joint rows ``(x, y)`` of a source, of length d + m, in one pass."""
    return accumulate(blocks, sum_joint)


def sum_joint(first_row: int, X: Array, Y: Array) -> RowMoments:
    """Sum the joint rows ``(x, y)`` of a block."""
    return RowMoments.of(np.hstack([X, Y]))


LINE_FOLDS = 10
CLEAR_GAIN = 0.02  # of the squared error; less is not worth a bend
LINE_INPUTS = 500  # more inputs make a straight line as costly as the recovery


def beside_simple_models(network: Any, X: Array, Y: Array, held_out_mse: float | None = None) -> list[Json]:
    """Put a network beside the mean of the outputs and a straight line through them.

    Each model with its parameters, its R² on these rows and its root mean square error on new ones. For the mean and the
    line the error is by ten-fold cross-validation, from the sums of each fold; for the network it is `held_out_mse` where
    its search has that, else the residual with its parameters accounted for. Shapes: X (n, d), Y (n, m).
    """
    (n, d), m = X.shape, Y.shape[1]
    folds = np.random.default_rng(0).permutation(n) % LINE_FOLDS
    spread = X.std(axis=0)
    joint = np.hstack([(X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), Y])
    parts = [RowMoments.of(joint[folds == fold]) for fold in range(LINE_FOLDS) if (folds == fold).any()]
    whole = RowMoments.of(joint)
    total = float(np.trace(whole.scatter[d:, d:]))
    if n < 2 * LINE_FOLDS or n < d + 3 or d > LINE_INPUTS or not total > 0:
        return []
    zero = np.zeros((d, m))
    mean_error = line_error = 0.0
    for place, part in enumerate(parts):
        others = reduce(RowMoments.merge, parts[:place] + parts[place + 1 :])
        mean_error += _squares(part, others, zero)
        line_error += _squares(part, others, _slopes(others, d))
    line_left = _squares(whole, whole, _slopes(whole, d))
    left = float(((Y - network(X)) ** 2).sum())
    free = max(n - network.n_parameters / m, 1.0)
    error = left / (free * m) if held_out_mse is None else held_out_mse
    rows = (
        ("mean", m, 0.0, mean_error / (n * m)),
        ("line", m * (d + 1), 1 - line_left / total, line_error / (n * m)),
        ("network", int(network.n_parameters), 1 - left / total, error),
    )
    return [
        {"model": name, "parameters": count, "r2": r2, "error": float(np.sqrt(max(square, 0.0)))}
        for name, count, r2, square in rows
    ]


def say_beside_a_line(context: Sequence[Json]) -> str:
    """Return whether a network predicts better than a straight line, in one sentence; nothing if that is not known.

    Examples
    --------
    >>> say_beside_a_line([{"model": "line", "error": 2.0}, {"model": "network", "error": 1.0}])
    'Use it for prediction: its squared error on new samples is 75% below that of a straight line.'
    """
    errors = {item["model"]: item["error"] for item in context}
    if not errors.get("line", 0) > 0 or "network" not in errors:
        return ""
    gain = 1 - (errors["network"] / errors["line"]) ** 2
    if gain >= CLEAR_GAIN:
        return f"Use it for prediction: its squared error on new samples is {gain:.0%} below that of a straight line."
    if gain > -CLEAR_GAIN:
        return "A straight line predicts as well as this network: use the line unless you need the bends."
    loss = 1 - (errors["line"] / errors["network"]) ** 2
    return f"Use a straight line: its squared error on new samples is {loss:.0%} below that of this network."


def _slopes(sums: RowMoments, d: int) -> Array:
    """Return the slopes of the line through joint rows. Shapes: result (d, m)."""
    return np.asarray(np.linalg.lstsq(sums.scatter[:d, :d], sums.scatter[:d, d:], rcond=1e-12)[0])


def _squares(rows: RowMoments, known: RowMoments, slopes: Array) -> float:
    """Return the squared residuals of rows about the line of these slopes through the mean of others."""
    d = len(slopes)
    scatter = rows.scatter
    about = np.trace(scatter[d:, d:]) - 2 * np.sum(slopes * scatter[:d, d:])
    about += np.sum(slopes * (scatter[:d, :d] @ slopes))
    shift = rows.mean - known.mean
    return float(about + rows.count * np.sum((shift[d:] - shift[:d] @ slopes) ** 2))


@dataclass(frozen=True, slots=True)
class RegressionSums(Sums):
    """Products of p regressors G and m outputs Y, summed over rows."""

    count: int  # number of rows
    GG: Array  # (p, p): products of the regressors
    GY: Array  # (p, m): products of the regressors with the outputs
    YY: Array  # (m, m): products of the outputs

    @classmethod
    def of(cls, G: npt.NDArray[Any], Y: Array, weights: Array | None = None) -> RegressionSums:
        """Sum some rows; both factors are multiplied by the root of the weights, so that GG is symmetric to the bit.

        Shapes: G (rows, p), Y (rows, m), weights (rows,).
        """
        if weights is not None:
            root = np.sqrt(weights)[:, None]
            G, Y = G * root, Y * root
        return cls(len(G), as_array(G.T @ G), as_array(G.T @ Y.astype(G.dtype, copy=False)), Y.T @ Y)


@dataclass(frozen=True, slots=True)
class RowChecks(Sums):
    """What one pass over all rows says about a network."""

    n_samples: int  # number of rows
    largest_residual: float  # largest absolute residual of one output of one row
    missed: int  # rows with a residual beyond the tolerance
    squares: float  # sum of squared residuals
    active: IntArray  # (k,): rows on which each unit is on

    def merge(self, other: RowChecks) -> RowChecks:
        """Return the checks of both sets of rows: the larger residual, the sums of the rest."""
        return RowChecks(
            self.n_samples + other.n_samples,
            max(self.largest_residual, other.largest_residual),
            self.missed + other.missed,
            self.squares + other.squares,
            self.active + other.active,
        )


def check_rows_against(blocks: RowBlocks, network: TwoLayerNetwork, *, tol: float = np.inf) -> RowChecks:
    """Compare a network with every row, one pass.

    `tol`: a row is missed if one of its residuals is larger; no row is if omitted.
    """
    return accumulate(blocks, partial(_check_block, network, tol))


def _check_block(network: TwoLayerNetwork, tol: float, first_row: int, X: Array, Y: Array) -> RowChecks:
    """Return the residuals and the activity of a block at a network."""
    t = network.preactivations(X)
    residual = network.less_linear(X, Y) - network.activation(t) @ network.A.T - network.c
    sizes = np.abs(residual).max(axis=1, initial=0.0)
    return RowChecks(
        len(X),
        float(sizes.max(initial=0.0)),
        int((sizes > tol).sum()),
        float((residual**2).sum()),
        (t > 0).sum(axis=0),
    )


_SLICE_BYTES, _MIN_SLICE = 1_000_000, 1024  # masked inputs of one slice stay in the cache
_MANY_UNKNOWNS = 400  # from here on the products of pairs of slopes and pairs of inputs are clearly cheaper


@dataclass(frozen=True, slots=True)
class NormalSums(Sums):
    """The sums described in this module, for p = d + 1."""

    count: float  # number of rows (sum of weights)
    ZZ: Array  # (k*p, k*p): products of masked inputs
    GZ: Array  # (g, k*p): products of activations (and one) with masked inputs
    GG: Array  # (g, g): products of activations (and one)
    ZR: Array  # (k*p, m): products of masked inputs with the residual
    GR: Array  # (g, m): products of activations (and one) with the residual
    RR: Array  # (m, m): products of the residual with itself


def augment(X: Array) -> Array:
    """Append a column of ones: rows (x, 1).

    Shapes: X (n, d), result (n, d + 1).
    """
    return np.concatenate([X, np.ones((len(X), 1))], axis=1)


def hidden_rows(network: TwoLayerNetwork) -> Array:
    """Return weights and biases of the units, which rows of `augment` are multiplied with; (k, d + 1)."""
    return np.concatenate([network.W, network.b[:, None]], axis=1)


def output_columns(network: TwoLayerNetwork, H: Array, X: Array, *, offset: bool = True) -> Array:
    """Return the regressors of the output layer: activations, inputs if there is a linear part, and one for an offset.

    Shapes: H (n, k), X (n, d), result (n, g).
    """
    inputs = [] if network.B is None else [X]
    ones = [np.ones((len(X), 1))] if offset else []
    return np.concatenate([H, *inputs, *ones], axis=1)


def n_output_columns(network: TwoLayerNetwork, *, offset: bool) -> int:
    """Return the number of columns of `output_columns`."""
    return network.n_hidden + (0 if network.B is None else network.n_features) + int(offset)


def output_weights(network: TwoLayerNetwork) -> Array:
    """Return the weights of `output_columns`: [A, c], or [A, B, c] if there is a linear part; (m, g)."""
    linear = [] if network.B is None else [network.B]
    return np.concatenate([network.A, *linear, network.c[:, None]], axis=1)


def with_output_weights(network: TwoLayerNetwork, weights: Array) -> TwoLayerNetwork:
    """Return a network with other weights of the output layer, as `output_weights` orders them."""
    k = network.n_hidden
    linear = None if network.B is None else weights[:, k:-1]
    return TwoLayerNetwork(network.W, network.b, weights[:, :k], weights[:, -1], network.activation, linear)


def accumulate_normal(
    blocks: RowBlocks, network: TwoLayerNetwork, *, weights: RowWeights | None = None
) -> NormalSums:
    """Sum the normal equations of a network over all rows, one pass."""
    return accumulate(blocks, NormalSummand(network, weights))


@dataclass(frozen=True, slots=True)
class NormalSummand:
    """The normal equations at a network."""

    network: TwoLayerNetwork  # the parameters at which to linearise
    weights: RowWeights | None = None  # weights of the rows

    def __call__(self, first_row: int, X: Array, Y: Array) -> NormalSums:
        """Sum a block, slice by slice; for many unknowns by the products of pairs."""
        unknowns = self.network.n_hidden * (self.network.n_features + 1)
        if unknowns > _MANY_UNKNOWNS:
            return _normal_by_pairs(X, Y, self.network, self.weights and self.weights(first_row, X, Y))
        rows = max(_MIN_SLICE, _SLICE_BYTES // (8 * max(unknowns, 1)))
        masked = np.empty(
            (unknowns, min(rows, len(X)))
        )  # one for all slices: fresh memory takes longer than the products

        def of_slice(start: int) -> NormalSums:
            inputs, outputs = X[start : start + rows], Y[start : start + rows]
            w = None if self.weights is None else self.weights(first_row + start, inputs, outputs)
            return _normal_of_slice(inputs, outputs, self.network, w, masked)

        return reduce(NormalSums.merge, map(of_slice, range(0, len(X), rows)))


def mask_rows(slopes: Array, rows: Array, memory: Array) -> Array:
    """Return the rows masked by the slopes of every unit, turned: long rows are faster.

    `memory`: where they are written, (k p, n) or wider. Shapes: slopes (n, k), rows (n, p), result (k p, n).
    """
    (n, k), p = slopes.shape, rows.shape[1]
    masked = memory.ravel()[: k * p * n].reshape(k, p, n)
    np.multiply(np.ascontiguousarray(slopes.T)[:, None], np.ascontiguousarray(rows.T), out=masked)
    return masked.reshape(k * p, n)


def _normal_of_slice(
    X: Array, Y: Array, network: TwoLayerNetwork, w: Array | None, memory: Array
) -> NormalSums:
    n = len(X)
    rows = augment(X)
    t = rows @ hidden_rows(network).T
    G = output_columns(network, network.activation(t), X)
    R = Y - G @ output_weights(network).T
    Z = mask_rows(network.activation.derivative(t), rows, memory)
    if w is None:
        return NormalSums(float(n), Z @ Z.T, G.T @ Z.T, G.T @ G, Z @ R, G.T @ R, R.T @ R)
    wR, wG = w[:, None] * R, w[:, None] * G
    return NormalSums(float(w.sum()), (w * Z) @ Z.T, wG.T @ Z.T, wG.T @ G, Z @ wR, G.T @ wR, R.T @ wR)


def _normal_by_pairs(X: Array, Y: Array, network: TwoLayerNetwork, w: Array | None) -> NormalSums:
    """Sum a block without forming Z, which takes half of the multiplications (`planted.moments._kink_normal`)."""
    from planted.moments._kink_normal import masked_products

    rows = augment(X)
    t = rows @ hidden_rows(network).T
    G = output_columns(network, network.activation(t), X)
    S = network.activation.derivative(t)
    R = Y - G @ output_weights(network).T
    wG, wR = (G, R) if w is None else (w[:, None] * G, w[:, None] * R)
    ZZ = masked_products(S, rows, weights=w)
    GZ = np.hstack([wG.T @ (S[:, [unit]] * rows) for unit in range(network.n_hidden)])
    ZR = np.stack([((S * residual[:, None]).T @ rows).ravel() for residual in wR.T], axis=1)
    count = float(len(X)) if w is None else float(w.sum())
    return NormalSums(count, ZZ, GZ, wG.T @ G, ZR, G.T @ wR, R.T @ wR)
