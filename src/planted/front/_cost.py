"""What a recovery costs before it is begun: seconds and bytes from the shape of the problem and measured constants.

A pass of the refinement sums the normal equations: for p = d + 1 it forms k p masked inputs for every row and their
symmetric product, (k p)² operations with those of the outputs beside them, and reads d + m numbers:

    seconds = passes · n / workers · ( flops / FLOP_RATE + 8 (d + m) / READ_RATE ),

memory is that of the sums, once for every open node of their tree, with the rows kept for the search, and does not depend
on n but for the height of that tree. Constants are those that `benchmarks/scale.py` measures on one core.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log

from planted._conversion import available_memory
from planted.algorithms._problem import SEARCH_ROWS
from planted.moments import DEFAULT_BLOCK_ROWS, FAN_IN, PART_BLOCKS, RowBlocks
from planted.outcomes import BadInputError

__all__ = ["Cost", "predict_cost", "require_room"]

FLOP_RATE = 3.0e10
"""Floating-point operations in a second of one core, building of the features included."""

READ_RATE = 3.0e8
"""Bytes of float64 columns in a second that one core reads from Parquet, checks and standardises."""

PASSES = 12
"""Passes of a usual run: two to standardise and sample, some of refinement, two of certificates."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Predicted cost of a recovery.

    Parameters
    ----------
    seconds : float
        Time of all passes.
    n_bytes : int
        Memory of sums, blocks and sampled rows in one process.
    passes : int
        Passes assumed.
    workers : int
        Cores assumed, one task on each.
    """

    seconds: float
    n_bytes: int
    passes: int
    workers: int

    def __str__(self) -> str:
        cores = "one core" if self.workers == 1 else f"{self.workers} cores"
        return (
            f"about {_duration(self.seconds)} on {cores} ({self.passes} passes), {self.n_bytes / 1e6:,.0f} MB"
        )


def predict_cost(
    n_samples: float,
    n_features: int,
    n_hidden: int,
    *,
    n_outputs: int,
    workers: int = 1,
    passes: int = PASSES,
) -> Cost:
    """Predict seconds and bytes of a recovery from files.

    Parameters
    ----------
    n_samples : float
        Rows.
    n_features : int
        Inputs, d.
    n_hidden : int
        Units, k.
    n_outputs : int
        Outputs, m.
    workers : int
        Cores that share the rows.
    passes : int
        Passes over the rows.

    Returns
    -------
    Cost
        The prediction.

    Examples
    --------
    >>> cost = predict_cost(1e9, 32, 16, n_outputs=16, workers=100)
    >>> cost.workers, cost.n_bytes < 1e9
    (100, True)
    """
    d, k, m = n_features, n_hidden, n_outputs
    unknowns = k * (d + 1)
    flops = unknowns**2 + 2 * unknowns * (k + 1 + m)
    seconds = passes * n_samples / workers * (flops / FLOP_RATE + 8 * (d + m) / READ_RATE)
    sums = 8 * (unknowns * (unknowns + k + 1 + m) + (k + 1 + m) ** 2)
    parts = max(n_samples / (PART_BLOCKS * DEFAULT_BLOCK_ROWS), 1.0)
    nodes = 4 + ceil(log(parts, FAN_IN)) if parts > 1 else 4
    rows = 3 * SEARCH_ROWS + 2 * PART_BLOCKS * DEFAULT_BLOCK_ROWS
    return Cost(float(seconds), int(nodes * sums + 8 * rows * (d + m) + 16e6), passes, workers)


def require_room(blocks: RowBlocks, n_hidden: int | str) -> None:
    """Refuse, before anything is read, a recovery whose sums do not fit into memory.

    Parameters
    ----------
    blocks : RowBlocks
        The data.
    n_hidden : int or "auto"
        Number of units; with "auto" as many as there are outputs are assumed.
    """
    free = available_memory()
    if free is None:
        return
    d, m = blocks.widths()
    k = n_hidden if isinstance(n_hidden, int) else m
    needed = predict_cost(1.0, d, k, n_outputs=m).n_bytes
    if needed > free:
        raise BadInputError(
            f"the sums for {k} units of {d} inputs need {needed / 1e9:,.1f} GB, but {free / 1e9:,.1f} GB of memory "
            "are available. Use fewer inputs or units, or run on a cluster whose client and workers have so much memory."
        )


def _duration(seconds: float) -> str:
    for size, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {name}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
