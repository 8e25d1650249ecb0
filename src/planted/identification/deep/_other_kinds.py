"""Say what kind of function it is whose first layer is known, if it is no deep ReLU network.

In a ReLU network the gradient is a combination of the rows of units that are on. A part across the rows that is the same
everywhere belongs to a connection that skips the first layer. A unit whose row takes part on both sides of its hyperplane is
leaky, and the ratio of the two parts is its slope.
"""

from __future__ import annotations

import numpy as np

from planted.identification.deep._planes import Survey

__all__ = ["name_other_kind"]

ACROSS = 1e-6  # of a gradient: a part across the rows that is no rounding
SAME = 1e-3  # relative difference of slopes that are the same
BOTH = 1e-4  # of the larger side: a part that a unit lets through on the other side


def name_other_kind(survey: Survey, number: int = 1, *, is_certain: bool = False) -> str:
    """Return the reason why the function is no deep ReLU network; empty if none was found.

    `number`: of the layer that was surveyed. `is_certain`: leave out the reason that missing units would explain as well.
    """
    planes = survey.planes
    places, gradients = (np.concatenate(parts) for parts in zip(*survey.gradients, strict=True))
    inverse = np.linalg.pinv(planes.normals)
    parts = gradients @ inverse
    across = gradients - parts @ planes.normals
    sizes = np.linalg.norm(gradients, axis=(1, 2))
    outside = np.linalg.norm(across, axis=(1, 2))
    largest = float(sizes.max())
    if (outside > ACROSS * largest).any():
        typical = np.median(across, axis=0)
        scatter = np.linalg.norm(across - typical, axis=(1, 2)).max()
        if scatter <= SAME * float(np.linalg.norm(typical)):
            return "a linear part of the inputs is added to the outputs: a connection skips the hidden layers"
        if is_certain:
            return ""
        return (
            f"gradients have parts that the {len(parts[0][0])} rows of hidden layer {number} do not explain: "
            "connections skip it, or some of its units were not found"
        )
    return _name_leak(planes.normals, planes.offsets, places, parts, number)


def _name_leak(
    normals: np.ndarray, offsets: np.ndarray, places: np.ndarray, parts: np.ndarray, number: int
) -> str:
    """Compare the two sides of each unit's own break; gradients come in pairs, one from each side."""
    values = places @ normals.T + offsets
    strengths = np.linalg.norm(parts, axis=1)
    ratios = []
    for one in range(0, len(places) - 1, 2):
        changed = np.flatnonzero((values[one] > 0) != (values[one + 1] > 0))
        for unit in changed[:1] if changed.size == 1 else []:
            low, high = sorted((strengths[one, unit], strengths[one + 1, unit]))
            if high > ACROSS * strengths.max():
                ratios.append(low / high)
    if len(ratios) < 2 or np.median(ratios) < BOTH:
        return ""
    if np.ptp(ratios) <= SAME * max(ratios):
        slope = f"leaky-relu:{np.mean(ratios):.4g}"
        return f"all units of hidden layer {number} let a part of what is below zero through, as {slope} does"
    return (
        f"units of hidden layer {number} take part on both sides of their hyperplanes: connections skip the layer, or its "
        "units are not ReLU units"
    )
