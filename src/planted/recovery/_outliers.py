"""`planted.outliers`: which labels does a network not believe?"""

from __future__ import annotations

from typing import Any

import numpy as np

from planted._threads import one_thread_inside
from planted._typing import Seed
from planted.certificates._exact import RESIDUAL_TOL
from planted.fitting._losses import check_loss, choose_loss, output_scales
from planted.fitting._outlier_table import OutlierTable, find_outliers
from planted.fitting._run import prepare_problem
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError
from planted.recovery._missing import masked_blocks

__all__ = ["outliers"]


@one_thread_inside
def outliers(
    network: TwoLayerNetwork,
    X: Any,
    Y: Any = None,
    *,
    threshold: float = 4.0,
    loss: str = "auto",
    limit: int | None = None,
    random_state: Seed = 0,
) -> OutlierTable:
    """List the labels that a network does not believe, with the weight a robust loss gives them.

    Parameters
    ----------
    network : TwoLayerNetwork
        A network, as `recover` returns it.
    X : array_like of shape (n, d), DataFrame or RowBlocks
        Inputs, or a source that carries outputs too; read in blocks.
    Y : array_like of shape (n, m) or (n,), optional
        Outputs; NaN where a label is missing, which is no outlier.
    threshold : float
        Robust standard deviations of an output's residual beyond which a label is listed. Where most labels are
        reproduced to rounding, all others are listed.
    loss : {"auto", "squared", "huber", "cauchy", "sharp-cauchy", "l1"}
        The loss whose weights are listed; "auto" chooses by the residual's tails.
    limit : int, optional
        List only so many of the largest; counts cover all. All are listed if omitted.
    random_state : int, Generator, SeedSequence or None
        Chooses the rows from which the scales are estimated when there are many.

    Returns
    -------
    OutlierTable
        Rows, outputs, residuals and weights, largest residual first; ``mask()`` gives a matrix of truth values.

    Examples
    --------
    >>> import planted
    >>> data = planted.simulate.dataset(200, n_features=3, n_hidden=2, n_outputs=4, random_state=0)
    >>> Y = data.Y.copy()
    >>> Y[7, 2] += 5.0
    >>> table = planted.outliers(data.network, data.X, Y)
    >>> table.n_entries, int(table.rows[0]), int(table.outputs[0]), round(float(table.residuals[0]), 6)
    (1, 7, 2, 5.0)
    """
    check_loss(loss)
    if not threshold > 0:
        raise BadInputError(f"threshold={threshold}; expected a positive number of standard deviations")
    blocks = masked_blocks(X, Y, keep_empty=True)
    problem = prepare_problem(blocks, random_state=random_state, form="clipped")
    unit = problem.scaling.y_scale
    residual = (problem.Y - problem.scaling.standardise(network)(problem.X)) * unit
    scales = output_scales(residual / unit) * unit
    if np.median(scales) <= RESIDUAL_TOL * unit:
        limits = np.maximum(threshold * scales, RESIDUAL_TOL * unit)
        return find_outliers(blocks, network, limits=limits, keep=limit)
    name = choose_loss(residual)[0] if loss == "auto" else loss
    return find_outliers(blocks, network, limits=threshold * scales, loss=name, scales=scales, keep=limit)
