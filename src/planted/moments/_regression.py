r"""Products of regressors and outputs summed over rows: all that a least-squares regression needs of the data.

For regressors g(x) and outputs y the regression of y on g and the variance of its residual follow from the sums of
:math:`g g^\top`, :math:`g y^\top` and :math:`y y^\top`. Every regression on functions of the rows uses the same
`RegressionSums`; the summand that fills them decides what is regressed on what. If the outputs are residuals of a
network that is nearly right, they are formed before they are summed, so that nothing cancels.

Features may be float32. Their products are then formed in float32 for one slice of rows; what is carried from slice
to slice is float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from planted._typing import Array, as_array
from planted.rows._sums import Sums

__all__ = ["RegressionSums"]


@dataclass(frozen=True, slots=True)
class RegressionSums(Sums):
    """Products of p regressors G and m outputs Y, summed over rows.

    Examples
    --------
    >>> G, Y = np.array([[1.0, 0.0], [1.0, 2.0]]), np.array([[3.0], [7.0]])
    >>> sums = RegressionSums.of(G[:1], Y[:1]).merge(RegressionSums.of(G[1:], Y[1:]))
    >>> np.linalg.solve(sums.GG, sums.GY).ravel(), sums.count
    (array([3., 2.]), 2)
    """

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
