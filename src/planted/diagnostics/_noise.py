r"""How noisy are the outputs? Three estimates that need no model.

*Replicates*   Rows with equal x and different y: their spread about the common mean is noise alone.
*Rank*         With more outputs than units the noiseless outputs fill a space of dimension k < m; exact zeros among the
               singular values of Y mean that there is no noise.
*Neighbours*   The mean squared difference of outputs of nearest neighbours, extrapolated to distance zero by regression
               on the squared distance. Only an upper bound: the 95 % limit of that intercept.

The best fit gives a fourth: `planted.diagnose(..., network=...)` takes it from the residual.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.spatial import cKDTree

from planted._threads import one_thread_inside
from planted._typing import Array

__all__ = ["NoiseEstimate", "estimate_noise"]

MAX_ROWS = 2000
RANK_GAP = 1e-10
MIN_REPLICATES = 10
UPPER = 1.645  # standard errors of a one-sided limit of 95 %


@dataclass(frozen=True, slots=True)
class NoiseEstimate:
    """A standard deviation of the noise, relative to that of the outputs.

    Parameters
    ----------
    relative_std : float
        Estimated noise over output standard deviation, 0 for exact data.
    kind : str
        ``"replicates"``, ``"rank"``, ``"neighbours"`` or ``"the fitted network"``.
    is_bound : bool
        Whether it is only an upper bound.
    """

    relative_std: float
    kind: str
    is_bound: bool


@one_thread_inside
def estimate_noise(X: Array, Y: Array, rng: np.random.Generator) -> NoiseEstimate:
    """Estimate the noise without fitting a network, by the most direct evidence there is.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Standardised inputs.
    Y : ndarray of shape (n, m)
        Outputs.
    rng : numpy.random.Generator
        Chooses rows when there are many.

    Returns
    -------
    NoiseEstimate
        The estimate and where it comes from.
    """
    rows = rng.choice(len(X), MAX_ROWS, replace=False) if len(X) > MAX_ROWS else np.arange(len(X))
    X, Y = X[rows], Y[rows] - Y[rows].mean(axis=0)
    level = float(np.sqrt((Y**2).mean()))
    if level == 0:
        return NoiseEstimate(0.0, "rank", False)
    replicates = _from_replicates(X, Y)
    if replicates is not None:
        return NoiseEstimate(replicates / level, "replicates", False)
    values = linalg.svdvals(Y, check_finite=False)
    if len(X) > Y.shape[1] > 1 and values[-1] < RANK_GAP * values[0]:
        return NoiseEstimate(0.0, "rank", False)
    return NoiseEstimate(_from_neighbours(X, Y) / level, "neighbours", True)


def _from_replicates(X: Array, Y: Array) -> float | None:
    _, group, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    freedom = int((counts - 1).sum())
    if freedom < MIN_REPLICATES:
        return None
    means = np.zeros((len(counts), Y.shape[1]))
    np.add.at(means, group.ravel(), Y)
    within = Y - (means / counts[:, None])[group.ravel()]
    return float(np.sqrt((within**2).sum() / (freedom * Y.shape[1])))


def _from_neighbours(X: Array, Y: Array) -> float:
    if len(X) < 3:
        return float(np.sqrt((Y**2).mean()))
    distances, index = cKDTree(X).query(X, k=2)
    squares = distances[:, 1] ** 2
    halves = ((Y - Y[index[:, 1]]) ** 2).mean(axis=1) / 2
    design = np.column_stack([np.ones_like(squares), squares])
    inverse = linalg.pinvh(design.T @ design)
    coefficients = inverse @ (design.T @ halves)
    # White's standard error: differences grow with the distance, and so does their spread.
    scores = inverse[0] @ (design * (halves - design @ coefficients)[:, None]).T
    upper = max(float(coefficients[0]), 0.0) + UPPER * float(np.sqrt((scores**2).sum()))
    return float(np.sqrt(min(upper, halves.mean())))
