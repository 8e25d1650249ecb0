"""Robust units for outputs with gross errors or heavy tails.

A few wild values determine the mean and the variance of an output that contains them. The scale of the problem is
therefore taken from outputs clipped at a few robust standard deviations, and the outputs themselves are then
expressed on that scale. The clipped outputs have moments and serve methods that need them.
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array
from planted.rows import RowBlocks, sample_rows

__all__ = ["clip_outputs"]

CLIP = 3.0  # robust standard deviations
LIMIT_ROWS = 20_000
NORMAL_RANGE = 3.29  # from the 5 % to the 95 % quantile, in standard deviations of a normal law


def clip_outputs(blocks: RowBlocks, rng: np.random.Generator) -> RowBlocks:
    """Clip every output at a few robust standard deviations about its median, where missing labels are put.

    If labels are missing at random, this shrinks an output's mean given x towards the median and leaves the hidden
    units as they are. The inputs are unchanged.
    """
    Y = sample_rows(blocks, LIMIT_ROWS, rng)[1]
    Y = np.where(np.isfinite(Y).any(axis=0), Y, 0.0)  # an output without a label is a constant
    centre = np.nanmedian(Y, axis=0)
    spread = 1.4826 * np.nanmedian(np.abs(Y - centre), axis=0)
    low, high = np.nanquantile(Y, [0.05, 0.95], axis=0)
    reach = CLIP * np.where(spread > 0, spread, (high - low) / NORMAL_RANGE)  # mostly one value

    def clip(X: Array, Y: Array) -> tuple[Array, Array]:
        return X, np.clip(np.where(np.isnan(Y), centre, Y), centre - reach, centre + reach)

    return blocks.map(clip)
