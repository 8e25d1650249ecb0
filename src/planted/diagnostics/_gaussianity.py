r"""Is x Gaussian? A test of exact level whatever the mean and covariance.

Problem     Methods built on Hermite polynomials need x ~ N(μ, Σ). Decide it from n rows at a stated level.
Idea        With z the rows whitened by the *sample* mean and covariance, affine-invariant numbers see most departures:
            the skewness vector :math:`s = \| n^{-1} \sum z |z|^2 \|^2` and the kurtosis
            :math:`\kappa = n^{-1} \sum |z|^4` (Mardia). Two more see a departure in a single direction: the extreme
            eigenvalues of :math:`n^{-1} \sum |z|^2 z z^\top`, which is (d + 2) I for a normal law. Their joint law under
            normality depends on n and d alone, so it is simulated: the same numbers of `SIMULATIONS` standard normal
            samples of the same shape. The statistic is the largest departure in robust units, the p-value its rank among
            the simulated ones.
Guarantee   Level exact up to 1 / (SIMULATIONS + 1); affine invariant. Power: not against laws whose third and fourth moments
            are those of a normal law.
Cost        O(SIMULATIONS n d²) on at most `MAX_ROWS` rows.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from planted._threads import one_thread_inside
from planted._typing import Array
from planted.checks import Check
from planted.results import Evidence

__all__ = ["gaussianity_test"]

SIMULATIONS = 199
MAX_ROWS = 2000
LEVEL = 0.05


@one_thread_inside
def gaussianity_test(X: Array, rng: np.random.Generator, *, level: float = LEVEL) -> Evidence:
    """Test whether the rows are a sample of a normal law.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs; constant and collinear columns are allowed.
    rng : numpy.random.Generator
        Draws the simulated samples, and the rows when there are many.
    level : float
        The level of the test.

    Returns
    -------
    Evidence
        The p-value, which must be at least the level.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> gaussianity_test(rng.exponential(size=(400, 3)), rng).passed
    False
    """
    rows = X if len(X) <= MAX_ROWS else X[rng.choice(len(X), MAX_ROWS, replace=False)]
    z = _whitened(rows)
    n, d = z.shape
    name, source = "p-value of the test that x is Gaussian", "Mardia, simulated"
    if d == 0 or n < d + 3:
        name += " (too few rows to test)"
        return Evidence(name, float("nan"), level, ">=", source, key=Check.NORMAL_INPUTS)
    observed = _departures(z)
    simulated = np.array([_departures(_whitened(rng.standard_normal((n, d)))) for _ in range(SIMULATIONS)])
    together = np.vstack([observed, simulated])
    centre = np.median(together, axis=0)
    spread = np.median(np.abs(together - centre), axis=0)
    scores = np.abs((together - centre) / spread).max(axis=1)
    p_value = float((scores >= scores[0]).sum() / len(scores))
    return Evidence(name, p_value, level, ">=", source, key=Check.NORMAL_INPUTS)


def _whitened(rows: Array) -> Array:
    centred = rows - rows.mean(axis=0)
    left, values, _ = linalg.svd(centred, full_matrices=False, check_finite=False)
    rank = int((values > 1e-10 * values[0]).sum()) if values.size and values[0] > 0 else 0
    return np.asarray(left[:, :rank] * np.sqrt(len(rows)))


def _departures(z: Array) -> Array:
    """Return the logarithms of the four numbers, which are closer to symmetric than the numbers themselves."""
    squares = (z**2).sum(axis=1)
    weighed = z * squares[:, None]
    skewness = (weighed.mean(axis=0) ** 2).sum()
    extremes = linalg.eigvalsh(weighed.T @ z / len(z), check_finite=False)[[0, -1]]
    return np.log([skewness, (squares**2).mean(), *extremes])
