"""Noise of bootstrap samples: residuals of a fit with random signs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planted._typing import Array

__all__ = ["SAMPLES", "wild_samples"]

SAMPLES = 999
LARGEST_REST = 0.5  # largest leverage that a residual is divided by one minus of
CHUNK = 20_000_000  # numbers of bootstrap samples in memory at once


def wild_samples(
    residual: Array, Q: Array, rng: np.random.Generator, n_samples: int = SAMPLES
) -> Iterator[Array]:
    """Yield bootstrap noise: residuals over one minus their leverage, with random signs; (n, r) each."""
    leverage = np.minimum((Q**2).sum(axis=1), LARGEST_REST)
    sizes = residual / (1 - leverage)
    rows = max(1, min(n_samples, CHUNK // max(len(residual), 1)))
    left = n_samples
    while left:
        count = min(rows, left)
        signs = rng.integers(0, 2, (len(residual), count)).astype(np.float64) * 2 - 1
        yield sizes[:, None] * signs
        left -= count
