"""Samples far from all others: one gross error hides a kink from the tests, or makes one.

The bootstrap of the tests for kinks changes signs of residuals. Where one residual is larger than all others together it
is large in every bootstrap sample, and a p-value says nothing about kinks.
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array
from planted.checks import Check
from planted.results import Evidence

__all__ = ["far_samples", "far_sentence"]

FAR = 10.0  # noise deviations
FEW = 0.02  # of all samples
NORMAL = 1.4826  # standard deviations of a normal law in its median absolute value


def far_samples(residual: Array) -> Evidence:
    """Count single residuals that are far larger than most; where they are many, they are the tails of the noise; (n, m)."""
    sizes = np.abs(residual).max(axis=1)
    count = int((sizes > FAR * NORMAL * np.median(sizes)).sum())
    name = f"single samples further from the fit than {FAR:.0f} noise deviations"
    is_few = count <= max(1, FEW * len(sizes))
    return Evidence(name, count if is_few else 0, comparison="info", key=Check.FAR_SAMPLES)


def far_sentence(line: Evidence) -> str:
    """Say what such samples do and what to do about them; empty without one."""
    count = int(line.measured)
    if not count:
        return ""
    start = f"{count} samples lie" if count > 1 else "1 sample lies"
    return (
        f"{start} more than {FAR:.0f} noise deviations from the fit and may hide kinks or make them: look at "
        f"{'them' if count > 1 else 'it'} (planted.outliers), or use a loss that forgives gross errors "
        '(method="restarts", loss="auto").'
    )
