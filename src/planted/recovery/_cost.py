"""What a recovery costs before it is begun: seconds and bytes from the shape of the problem and measured constants.

Every pass reads d + m numbers of each row; most also sum the normal equations: with u = k (d + 1) they form u masked inputs
of each row and their symmetric product, u² operations with those of the outputs beside them. A search on at most
20,000 rows, on one core, comes before:

    seconds = n / workers · ( passes · 8 (d + m) / READ_RATE + steps · step ) + searches · min(n, 20,000) · step + 1,
    step    = (u² + 2 u (k + 1 + m)) / FLOP_RATE + u · FEATURE_SECONDS .

How many passes, steps and searches there are depends on the noise and was counted for the method `complementarity`; so were
the rates, on one core: `benchmarks/scale.py --only products`, `--only processes`, and `--only cost`, which compares whole
recoveries with this prediction. Memory is that of the sums, once for every open node of their tree, of the rows kept for the
search and of those being read; it does not depend on n but for the height of that tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log

from planted._conversion import available_memory
from planted.fitting._problem import SEARCH_ROWS
from planted.outcomes import BadInputError
from planted.rows import DEFAULT_BLOCK_ROWS, FAN_IN, PART_BLOCKS, RowBlocks

__all__ = ["Cost", "predict_cost", "require_room"]

FLOP_RATE = 3.6e10
"""Floating-point operations in a second of one core, of the bare matrix product (measured: 3.5e10, 3.6e10)."""

FEATURE_SECONDS = 2.5e-9
"""Time to build one masked input of one row (measured: 2.6e-9, 2.7e-9, from the difference to the bare product)."""

READ_RATE = 3.6e8
"""Bytes of float64 columns in a second that one core reads from Parquet, checks and standardises (measured: 3.6e8)."""

START_SECONDS = 1.0
"""Imports and small algebra (measured: 0.9)."""

READ_AHEAD = 4
"""Row groups of 65,536 rows that the reader of Parquet holds."""


@dataclass(frozen=True, slots=True)
class Work:
    """How often rows are read and normal equations are summed."""

    passes: int  # passes over all rows
    steps: int  # those that sum normal equations
    searches: int  # sums of normal equations over the rows of the search, with the algebra between them


EXACT_WORK = Work(5, 2, 10)
NOISY_WORK = Work(20, 16, 200)  # counted: 19 to 22 passes; a test of the residual costs one and a half steps


@dataclass(frozen=True, slots=True)
class Cost:
    """Predicted cost of a recovery."""

    seconds: float  # time of all passes and of the search
    # Memory of sums, blocks and sampled rows in one process, beside that of Python and its libraries.
    n_bytes: int
    passes: int  # passes assumed
    workers: int  # cores assumed, one task on each

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
    is_noisy: bool = True,
) -> Cost:
    """Predict seconds and bytes of a recovery from Parquet files by the method "complementarity".

    `is_noisy`: whether the outputs have noise; without it far fewer steps are enough.

    Examples
    --------
    >>> cost = predict_cost(1e9, 32, 16, n_outputs=16, workers=100)
    >>> cost.workers, cost.n_bytes < 1e9
    (100, True)
    """
    d, k, m = n_features, n_hidden, n_outputs
    unknowns = k * (d + 1)
    work = NOISY_WORK if is_noisy else EXACT_WORK
    step = (unknowns**2 + 2 * unknowns * (k + 1 + m)) / FLOP_RATE + unknowns * FEATURE_SECONDS
    read = 8 * (d + m) / READ_RATE
    seconds = n_samples / workers * (work.passes * read + work.steps * step)
    seconds += work.searches * min(n_samples, SEARCH_ROWS) * step + START_SECONDS
    sums = 8 * (unknowns * (unknowns + k + 1 + m) + (k + 1 + m) ** 2)
    parts = max(n_samples / (PART_BLOCKS * DEFAULT_BLOCK_ROWS), 1.0)
    nodes = 4 + ceil(log(parts, FAN_IN)) if parts > 1 else 4
    rows = 3 * SEARCH_ROWS + (2 + READ_AHEAD) * PART_BLOCKS * DEFAULT_BLOCK_ROWS
    return Cost(float(seconds), int(nodes * sums + 8 * rows * (d + m) + 16e6), work.passes, workers)


def require_room(blocks: RowBlocks, n_hidden: int | str) -> None:
    """Refuse, before anything is read, a recovery whose sums do not fit into memory.

    `n_hidden`: number of units; with "auto" as many as there are outputs are assumed.
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
