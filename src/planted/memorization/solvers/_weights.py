"""Loss, gradient, signs and widths, for the solvers that train the weights.

Problem     Minimise f(W) = 1/(4n) Σ_j (Σ_i a_i (w_i'x_j)² - y_j)² over W, with a_i = +1 for the first half of the
            units and a_i = -1 for the rest.
Idea        With δ = output - label the gradient is diag(a) W (1/n) Σ δ_j x_j x_j'. Each output has units of its own,
            so that several outputs are trained one after the other.
Notation    paper: r units, W is d × r;  here: k units, W is k × q, and Z holds the rows.
Cost        2nq² + 2kq² flops per gradient.
References  [GWZ20]_
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from planted._typing import Array
from planted.memorization._task import MemoryFit, merge_curves, quadratic_forms, weighted_gram
from planted.outcomes import BadInputError

__all__ = ["check_width", "half_signs", "loss_and_gradient", "trained_fit"]


def loss_and_gradient(Z: Array, y: Array, W: Array, a: Array) -> tuple[float, Array]:
    """Return f(W) = 1/(4n) Σ δ² and its gradient diag(a) W (1/n) Σ δ_j z_j z_j'.

    Shapes: Z (n, q), y (n,), W (k, q), a (k,).
    """
    residual = quadratic_forms(Z, W.T @ (a[:, None] * W)) - y
    gradient = a[:, None] * (W @ weighted_gram(Z, residual / len(Z)))
    return float(residual @ residual) / (4 * len(Z)), gradient


def check_width(width: int | str, q: int) -> int:
    """Return the number of units per output: 2q+2 for "auto", else the number given."""
    if width == "auto":
        return 2 * q + 2
    if isinstance(width, str) or width < 2 or width % 2:
        raise BadInputError(f"width={width!r}; expected 'auto' or an even number of units, half of each sign")
    return int(width)


def half_signs(width: int) -> Array:
    """Return +1 for the first half and -1 for the second.

    Shapes: result (width,).
    """
    return np.repeat([1.0, -1.0], width // 2)


def trained_fit(
    runs: Sequence[tuple[Array, list[float]]], a: Array, *, every: int = 1, **facts: Any
) -> MemoryFit:
    """Put the units of several outputs below one another in W, their signs into A, and add their losses.

    `runs`: weights (k, q) and losses of each output. A is 0 where a unit belongs to another output. `every`: steps between
    recorded losses. Shapes: a (k,).
    """
    A = np.asarray(np.kron(np.eye(len(runs)), a), dtype=np.float64)
    curve = tuple((every * step, loss) for step, loss in merge_curves([losses for _, losses in runs]))
    return MemoryFit(np.vstack([weights for weights, _ in runs]), A, curve, width=len(a), **facts)
