r"""Independent components of the sketched outputs, by scikit-learn's FastICA.

Problem     Rows z = B s with B invertible and the entries of s independent and not normal. Find B⁻¹ up to order and
            scale of its rows.
Idea        Centre and whiten z; then B is a rotation. Every row w of it is a stationary point of E[log cosh(w'z)],
            found by the fixed-point iteration of [Hyvarinen1999]_ for all rows at once. Rows are signed so that the
            skewness of each component is positive, as it is for rectified variables.
Guarantee   Consistent for independent components as the number of rows grows, with an error of order n^{-1/2}. For
            dependent ones, none.
Departures  None from the cited iteration. Of 200 units (40 problems with n = 3,000 to 10,000, d = 10, k = m = 5,
            orthonormal W, November 2026) these components led to 178 by the quantile rule, in 13 ms in the median; an
            iteration of our own with the same contrast led to 176 in 10 ms. Other contrasts: ``cube`` 182, but with twice
            the error for squared and cubed ReLUs; ``exp`` 169; one row after the other (deflation) 167.
Cost        O(n k²) for each iteration. scikit-learn is imported at the first call, which takes 0.7 s once.
References  [Hyvarinen1999]_
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from planted._typing import Array

__all__ = ["IndependentComponents", "separate"]


@dataclass(frozen=True, slots=True)
class IndependentComponents:
    """An unmixing matrix."""

    unmixing: Array  # (k, k): ``z @ unmixing.T`` are the components, of unit variance and positive skewness
    iterations: int  # steps of the iteration
    converged: bool  # whether its rows stopped moving before the last step allowed


def separate(
    Z: Array, rng: np.random.Generator, *, max_iter: int = 200, tol: float = 1e-6
) -> IndependentComponents:
    """Separate the columns of Z into independent components.

    `tol`: stop when no row turns by more than this (one minus the cosine). Shapes: Z (n, k).
    """
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    seed = int(rng.integers(2**31))
    model = FastICA(whiten="unit-variance", fun="logcosh", max_iter=max_iter, tol=tol, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # told by `converged`
        model.fit(Z)
    skewness = (((Z - Z.mean(axis=0)) @ model.components_.T) ** 3).mean(axis=0)
    unmixing = model.components_ * np.where(skewness < 0, -1.0, 1.0)[:, None]
    return IndependentComponents(unmixing, int(model.n_iter_), int(model.n_iter_) < max_iter)
