"""Error metrics of the papers, for comparison with their figures.

Recovery itself is judged by `planted.parameter_error`; each metric here says what it cannot see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from planted._threads import one_thread_inside
from planted._typing import as_array
from planted.linalg.symmetric import unit_rows
from planted.networks._network import TwoLayerNetwork
from planted.outcomes import BadInputError

__all__ = ["GklwError", "gklw_error", "glm_error", "relative_mse"]


@dataclass(frozen=True, slots=True)
class GklwError:
    """Squared distances between two networks' normalised weights after matching."""

    W: float  # squared Frobenius distance of the hidden weights with unit rows
    A: float  # squared Frobenius distance of the output weights with unit columns


@one_thread_inside
def gklw_error(net: TwoLayerNetwork, truth: TwoLayerNetwork) -> GklwError:
    """Return the error of Section 4 of [GKLW19]_: squared distance of normalised rows of W and columns of A.

    The metric sees neither the sizes of the units nor the biases. Units are paired by the assignment with the
    smallest sum of both distances. Both errors are infinite when the shapes or the numbers of units differ.
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    if net.W.shape != truth.W.shape or net.A.shape != truth.A.shape:
        return GklwError(W=float("inf"), A=float("inf"))
    of_rows = cdist(unit_rows(truth.W)[0], unit_rows(net.W)[0], "sqeuclidean")
    of_columns = cdist(unit_rows(truth.A.T)[0], unit_rows(net.A.T)[0], "sqeuclidean")
    pairs = linear_sum_assignment(of_rows + of_columns)
    return GklwError(W=float(of_rows[pairs].sum()), A=float(of_columns[pairs].sum()))


@one_thread_inside
def glm_error(B: Any, B_true: Any) -> float:
    """Return the error (4.1) of [GLM18]_, which asks whether ``B inv(B_true)`` is a signed permutation.

    With ``Q = B inv(B_true)`` scaled to unit rows it is the smaller of
    ``1 - min_i max_j |Q_ij|`` and ``1 - min_j max_i |Q_ij|``. Because the smaller one counts, it has a flaw: it is
    zero when all rows of ``B`` are the same row of ``B_true``. It is blind to signs and sizes as well. Report it
    beside the paper's figures; judge recovery by `planted.parameter_error`.

    `B_true`: true hidden weights, of full row rank; a right inverse stands for the inverse when k < d. Shapes: B
    (k, d), B_true (k, d).
    """
    estimate, true = as_array(B), as_array(B_true)
    if estimate.ndim != 2 or estimate.shape != true.shape:
        raise BadInputError(f"B has shape {estimate.shape} and B_true {true.shape}; expected the same (k, d)")
    rank = int(np.linalg.matrix_rank(true))
    if rank < true.shape[0]:
        raise BadInputError(
            f"B_true has rank {rank} but {true.shape[0]} rows; the metric needs full row rank"
        )
    alignment = np.abs(unit_rows(estimate @ np.linalg.pinv(true))[0])
    return float(min(1 - alignment.max(axis=1).min(), 1 - alignment.max(axis=0).min()))


@one_thread_inside
def relative_mse(net: TwoLayerNetwork, truth: TwoLayerNetwork | Any, X: Any) -> float:
    """Return the mean squared error of a network divided by the variance of the targets.

    This is the residual sum of squares over the total sum of squares about the mean, summed over outputs; the mean
    alone reaches 1. For constant targets it is 0 if they are met exactly, else infinite. Shapes: truth (n, m), X
    (n, d).
    """
    outputs = net(X)
    targets = truth(X) if isinstance(truth, TwoLayerNetwork) else as_array(truth)
    if targets.shape != outputs.shape:
        raise BadInputError(f"the targets have shape {targets.shape}; the network's outputs {outputs.shape}")
    if outputs.shape[0] == 0:
        raise BadInputError("X has 0 rows; expected at least one")
    residual = float(((outputs - targets) ** 2).sum())
    total = float(((targets - targets.mean(axis=0)) ** 2).sum())
    if total == 0:
        return 0.0 if residual == 0 else float("inf")
    return residual / total
