"""Standardise rows and labels, draw random features, and convert networks back to the user's units.

Problem     Solvers of the quadratic layer expect rows and labels of root mean square one. Users have rows, offsets
            and scales of their own and, with three layers, a first layer of random features in between.
Idea        z = features((x - shift)/scale)/feature_scale and y = label_scale y' + offset. Both are undone on the
            weights afterwards, so that the network that is returned takes the user's inputs.
Notation    G = weights of the random features on standardised rows (q × d);  R, s = the same on the user's rows.
Departures  With a bias the rows are centred and a constant as large as a typical row is appended; the paper has none.
Cost        nqd flops for random features, and little beside.
References  [GWZ20]_
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from planted._typing import Array
from planted._validation import CheckedData
from planted.memorization._task import MemoryFit
from planted.networks import ThreeLayerNetwork, TwoLayerNetwork
from planted.networks._three_layers import LARGEST_POWER
from planted.outcomes import BadInputError

__all__ = ["Features", "Frame", "draw_features", "restore", "standardise"]

LARGEST_LABEL = 1e150


@dataclass(frozen=True, slots=True)
class Features:
    """Random features z = (G u)^p of standardised rows u."""

    G: Array
    power: int
    smoothing: float  # standard deviation of the noise that the user's rows carry


@dataclass(frozen=True, slots=True)
class Frame:
    """Standardised rows and labels, and what converts a network back to the user's units."""

    Z: Array  # (n, q): rows of the quadratic layer, of root-mean-square norm one
    Y: Array  # (n, m): labels of root mean square one
    inputs: Array  # (n, d): standardised rows; Z itself with two layers
    shift: Array  # (d,): subtracted from the user's rows
    scale: float  # divisors of rows, features and labels
    feature_scale: float
    label_scale: float
    offset: Array  # (m,): subtracted from the labels
    has_bias: bool  # whether a constant was appended to the rows
    features: Features | None  # the random features of three layers


def standardise(
    data: CheckedData, rng: np.random.Generator, *, bias: bool, features: Mapping[str, Any] | None
) -> Frame:
    """Bring rows to a root-mean-square norm of one and labels to a root mean square of one."""
    X, Y = data.X, data.Y
    shift = X.mean(axis=0) if bias else np.zeros(X.shape[1])
    offset = Y.mean(axis=0) if bias else np.zeros(Y.shape[1])
    rows = X - shift if bias else X
    scale = _root_mean_square_norm(rows)
    label_scale = _root_mean_square_norm(Y - offset) / float(np.sqrt(Y.shape[1]))
    if label_scale > LARGEST_LABEL:
        raise BadInputError(
            f"the labels have a root mean square of {label_scale:.1e}, whose square is no finite number; "
            f"divide them by a constant so that it is at most {LARGEST_LABEL:.0e}"
        )
    inputs = rows / scale
    if bias:
        inputs = np.column_stack([inputs, np.ones(len(inputs))]) / np.sqrt(2.0)
    drawn = None if features is None else draw_features(inputs, rng, **features)
    Z = inputs if drawn is None else (inputs @ drawn.G.T) ** drawn.power
    feature_scale = 1.0 if drawn is None else _root_mean_square_norm(Z)
    return Frame(
        Z=Z / feature_scale,
        Y=(Y - offset) / label_scale,
        inputs=inputs,
        shift=shift,
        scale=scale,
        feature_scale=feature_scale,
        label_scale=label_scale,
        offset=offset,
        has_bias=bias,
        features=drawn,
    )


def draw_features(
    inputs: Array,
    rng: np.random.Generator,
    *,
    power: int = 2,
    n_random: int | str = "auto",
    feature_std: float = 1.0,
    smoothing: float = 0.0,
) -> Features:
    """Draw the first layer of a three-layer network.

    `smoothing` is the standard deviation of the noise that the user's rows carry. Shapes: inputs (n, d).
    """
    if type(power) is not int or not 2 <= power <= LARGEST_POWER:
        raise BadInputError(f"power={power!r}; expected an integer from 2 to {LARGEST_POWER}")
    count = 2 * int(np.ceil(np.sqrt(len(inputs)))) if n_random == "auto" else n_random
    if isinstance(count, str) or count < 1:
        raise BadInputError(f"n_random={n_random!r}; expected 'auto' or a number of at least 1")
    if not feature_std > 0 or smoothing < 0:
        raise BadInputError(
            f"feature_std={feature_std}, smoothing={smoothing}; expected a positive number and one not negative"
        )
    return Features(feature_std * rng.standard_normal((count, inputs.shape[1])), power, smoothing)


def restore(fit: MemoryFit, frame: Frame) -> TwoLayerNetwork | ThreeLayerNetwork:
    """Return the network in the user's units."""
    W = fit.W * (np.sqrt(frame.label_scale) / frame.feature_scale)
    if frame.features is not None:
        R, s = _restore_affine(frame.features.G, frame)
        head = TwoLayerNetwork(W=W, A=fit.A, c=frame.offset, activation="quadratic")
        return ThreeLayerNetwork(R, s, frame.features.power, head)
    weights, b = _restore_affine(W, frame)
    return TwoLayerNetwork(W=weights, b=b, A=fit.A, c=frame.offset, activation="quadratic")


def _restore_affine(rows: Array, frame: Frame) -> tuple[Array, Array]:
    """Return weights and biases on the user's inputs for rows that act on standardised ones."""
    d = len(frame.shift)
    if not frame.has_bias:
        return rows / frame.scale, np.zeros(len(rows))
    weights = rows[:, :d] / (np.sqrt(2.0) * frame.scale)
    return weights, rows[:, d] / np.sqrt(2.0) - weights @ frame.shift


def _root_mean_square_norm(rows: Array) -> float:
    """Return the root-mean-square norm of the rows without overflow; 1 if all are zero."""
    largest = float(np.abs(rows).max())
    if largest == 0:
        return 1.0
    return largest * float(np.sqrt(np.mean(np.sum((rows / largest) ** 2, axis=1))))
