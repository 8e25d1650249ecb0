"""List the entries of the outputs that a network does not explain, in one pass.

Problem     Given a network and n × m outputs, some of them wrong, list the entries whose residual is far beyond that
            of the others, with the weight that a robust loss gives them.
Idea        An entry is an outlier when its residual exceeds a limit of its output: a number of scales where the
            inliers are noisy, and rounding where they are reproduced exactly, as for gross errors on exact labels.
            The pass keeps counts and the largest residuals; all entries are kept only when the whole table is asked
            for.
Cost        One pass, O(n m k). Memory: one block and 24 bytes for each outlier that is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planted._typing import Array, BoolArray, IntArray, Json
from planted.fitting._losses import entry_weights
from planted.networks import TwoLayerNetwork
from planted.rows import RowBlocks, Sums, accumulate

__all__ = ["OutlierTable", "find_outliers"]

LISTED = 50  # entries kept when counts are what is wanted


@dataclass(frozen=True, slots=True)
class OutlierTable:
    """Entries of the outputs that a network does not explain."""

    shape: tuple[int, int]  # samples and outputs looked at
    loss: str  # the loss whose weights are listed; ``"exact"`` where inliers are reproduced to rounding
    limits: Array  # (m,): residual of each output above which an entry is listed
    by_output: IntArray  # (m,): number of outliers of each output
    n_rows: int  # samples with at least one outlier
    # (entries,): rows of the outliers, largest residual first; all of them, or the largest when only some were kept.
    rows: IntArray
    outputs: IntArray  # (entries,): their outputs
    residuals: Array  # (entries,): output minus prediction
    weights: Array  # (entries,): weight of the entry in the fit: zero for a gross error

    @property
    def n_entries(self) -> int:
        """Number of outliers, listed or not."""
        return int(self.by_output.sum())

    @property
    def is_complete(self) -> bool:
        """Whether every outlier is listed."""
        return len(self.rows) == self.n_entries

    def mask(self) -> BoolArray:
        """Return a matrix that is true where an entry is an outlier.

        Shapes: result (n, m).
        """
        assert self.is_complete, "a table of the largest outliers has no mask; ask for all of them"
        marked = np.zeros(self.shape, dtype=np.bool_)
        marked[self.rows, self.outputs] = True
        return marked

    def to_dict(self, limit: int = LISTED, *, unit: float = 1.0) -> Json:
        """Return counts and the largest outliers as plain data, residuals multiplied by a unit."""
        return {
            "entries": self.n_entries,
            "rows": self.n_rows,
            "share": self.n_entries / max(self.shape[0] * self.shape[1], 1),
            "loss": self.loss,
            "by_output": [int(count) for count in self.by_output],
            "largest": [
                {
                    "row": int(row),
                    "output": int(output),
                    "residual": float(residual) * unit,
                    "weight": float(weight),
                }
                for row, output, residual, weight in zip(
                    self.rows[:limit],
                    self.outputs[:limit],
                    self.residuals[:limit],
                    self.weights[:limit],
                    strict=True,
                )
            ],
        }

    def __str__(self) -> str:
        n, m = self.shape
        lines = [
            f"{self.n_entries:,} of {n * m:,} entries in {self.n_rows:,} of {n:,} samples are outliers ({self.loss})"
        ]
        lines.append(f"{'sample':>10} {'output':>7} {'residual':>12} {'weight':>8}")
        for item in self.to_dict(10)["largest"]:
            lines.append(
                f"{item['row']:>10} {item['output']:>7} {item['residual']:>12.4g} {item['weight']:>8.2g}"
            )
        return "\n".join(lines)


def find_outliers(
    blocks: RowBlocks,
    network: TwoLayerNetwork,
    *,
    limits: Array,
    loss: str = "exact",
    scales: Array | None = None,
    keep: int | None = LISTED,
) -> OutlierTable:
    """List the entries whose residual exceeds the limit of their output; one pass.

    `loss`: name of the loss whose weights are listed; "exact" for weights of zero. Shapes: limits (m,), scales (m,).
    """
    found = accumulate(blocks, _OutlierSummand(network, limits, keep))
    rows, outputs = np.divmod(found.places, network.n_outputs)
    weights = np.zeros(len(rows))
    if scales is not None:
        weights = entry_weights(loss, found.residuals / scales[outputs])
    return OutlierTable(
        (found.count, network.n_outputs),
        loss,
        limits,
        found.by_output,
        found.n_rows,
        rows,
        outputs,
        found.residuals,
        weights,
    )


@dataclass(frozen=True, slots=True)
class OutlierSums(Sums):
    """Outliers of consecutive rows: counts, and the largest of them with their place among these rows' entries."""

    keep: int  # at most so many; -1 for all
    count: int  # number of rows
    by_output: IntArray  # (m,): outliers of each output
    n_rows: int  # rows with at least one outlier
    places: IntArray  # (kept,): row times m plus output of the outliers that are kept
    residuals: Array  # (kept,): their residuals

    def merge(self, other: OutlierSums) -> OutlierSums:
        """Put later rows behind these; largest residual first."""
        places = np.concatenate([self.places, other.places + self.count * len(self.by_output)])
        residuals = np.concatenate([self.residuals, other.residuals])
        counts = self.count + other.count, self.by_output + other.by_output, self.n_rows + other.n_rows
        return OutlierSums(self.keep, *counts, places, residuals).cut()

    def cut(self) -> OutlierSums:
        """Sort by size and keep the largest."""
        order = np.argsort(-np.abs(self.residuals), kind="stable")[: None if self.keep < 0 else self.keep]
        return replace(self, places=self.places[order], residuals=self.residuals[order])


@dataclass(frozen=True, slots=True)
class _OutlierSummand:
    """Outliers of a block."""

    network: TwoLayerNetwork
    limits: Array
    keep: int | None

    def __call__(self, first_row: int, X: Array, Y: Array) -> OutlierSums:
        residual = Y - self.network(X)
        is_out = np.abs(residual) > self.limits
        places = np.flatnonzero(is_out)
        counts = len(X), is_out.sum(axis=0), int(is_out.any(axis=1).sum())
        keep = -1 if self.keep is None else self.keep
        return OutlierSums(keep, *counts, places, residual.ravel()[places]).cut()
