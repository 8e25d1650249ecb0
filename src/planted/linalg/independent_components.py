r"""Independent components by a symmetric fixed-point iteration.

Problem     Rows z = B s with B invertible and the entries of s independent and not normal. Find B⁻¹ up to order and
            scale of its rows.
Idea        Centre and whiten z; then B is a rotation. Every row w of it is a stationary point of E[log cosh(w'z)],
            found by

            .. math:: w \leftarrow E[z \tanh(w^\top z)] - E[1 - \tanh^2(w^\top z)]\, w ,                  \quad (1)

            for all rows at once, followed by W ← (W W')^{-1/2} W [Hyvarinen1999]_. Rows are signed so that the
            skewness of each component is positive, as it is for rectified variables.
Guarantee   Consistent for independent components as the number of rows grows; error of order n^{-1/2}. For dependent
            ones, none.
Departures  None from the cited iteration. It is written out here because the layers that recover networks do without
            scikit-learn, whose `FastICA` is the reference in the tests.
Cost        O(n k²) for each iteration.
References  [Hyvarinen1999]_
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array

__all__ = ["IndependentComponents", "independent_components"]


@dataclass(frozen=True, slots=True)
class IndependentComponents:
    """An unmixing matrix."""

    unmixing: Array  # (k, k): ``z @ unmixing.T`` are the components, of unit variance and positive skewness
    iterations: int  # steps of the iteration
    converged: bool  # whether its rows stopped moving


def independent_components(
    Z: Array, rng: np.random.Generator, *, max_iter: int = 200, tol: float = 1e-6
) -> IndependentComponents:
    """Separate the columns of Z into independent components.

    `tol`: stop when no row turns by more than this (one minus the cosine). Shapes: Z (n, k).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sources = np.maximum(rng.standard_normal((5000, 2)), 0)
    >>> found = independent_components(sources @ [[1.0, 2.0], [-1.0, 1.0]], np.random.default_rng(1))
    >>> found.converged
    True
    """
    n, k = Z.shape
    centred = Z - Z.mean(axis=0)
    _, values, right = np.linalg.svd(centred, full_matrices=False)
    whitening = right.T / values * np.sqrt(n)
    white = centred @ whitening
    W = _orthonormal_rows(rng.standard_normal((k, k)))
    iteration, turned = 0, np.inf
    while iteration < max_iter and turned > tol:
        iteration += 1
        slope = np.tanh(white @ W.T)
        step = slope.T @ white / n - (1 - slope**2).mean(axis=0)[:, None] * W  # (1)
        moved = _orthonormal_rows(step)
        turned = float(np.abs(1 - np.abs((moved * W).sum(axis=1))).max())
        W = moved
    unmixing = W @ whitening.T
    skewness = ((centred @ unmixing.T) ** 3).mean(axis=0)
    return IndependentComponents(
        unmixing * np.where(skewness < 0, -1.0, 1.0)[:, None], iteration, turned <= tol
    )


def _orthonormal_rows(W: Array) -> Array:
    """Return (W W')^{-1/2} W."""
    left, _, right = np.linalg.svd(W, full_matrices=False)
    return np.asarray(left @ right)
