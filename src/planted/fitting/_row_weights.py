"""Sample weights: put beside the rows, scaled to mean one, and drawn with the rows in memory.

With weights of mean one, sums of squares and counts keep their size, so that tolerances and standard errors mean the
same with and without weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np

from planted._typing import Array
from planted._validation import check_weights
from planted.fitting._run import Problem
from planted.moments import joint_moments
from planted.outcomes import BadInputError
from planted.rows import ArraySource, RowBlocks, RowWeights, StoredWeights, Sums, accumulate, sample_rows

__all__ = ["weigh_rows", "weights_in_memory"]


def weigh_rows(blocks: RowBlocks, sample_weight: Any) -> tuple[RowBlocks, StoredWeights | None]:
    """Put weights beside the rows, unless they carry some already, and scale them to mean one; one pass.

    Returns the rows that count, without those of weight zero, and their weights of mean one. Shapes: sample_weight
    (n,).
    """
    tag = ""
    if sample_weight is not None:
        if blocks.is_weighted:
            raise BadInputError("the rows carry weights already; give either these or sample_weight")
        given = np.asarray(check_weights(sample_weight, _count_rows(blocks)))
        blocks, tag = blocks.weighted(given), sha256(given.tobytes()).hexdigest()
    if not blocks.is_weighted:
        return blocks, None
    sums = accumulate(blocks, _WeightSummand(StoredWeights(), tag))
    return blocks, StoredWeights(sums.count / sums.total)


def _count_rows(blocks: RowBlocks) -> int:
    source = blocks.source
    return len(source.X) if isinstance(source, ArraySource) else joint_moments(blocks).count


@dataclass(frozen=True, slots=True)
class WeightSums(Sums):
    """Rows that count, and the sum of their weights."""

    count: int  # rows of positive weight
    total: float  # sum of their weights


@dataclass(frozen=True, slots=True)
class _WeightSummand:
    """The weights of rows; a checkpoint knows weights that are no part of the data by their tag."""

    weights: RowWeights
    tag: str

    def __call__(self, first_row: int, X: Array, Y: Array) -> WeightSums:
        return WeightSums(len(X), float(self.weights(first_row, X, Y).sum()))


def weights_in_memory(problem: Problem, weights: StoredWeights | None) -> tuple[Problem, Array | None]:
    """Sample rows anew with their weights, if there are any.

    Returns the problem with rows that belong to the weights, and their weights on the scale of `weights`.
    """
    if weights is None:
        return problem, None
    beside = problem.blocks.map_numbered(_WeightsBeside(StoredWeights()))
    X, Y = sample_rows(beside, len(problem.X), problem.rng, n_rows=problem.n_samples)
    w = np.ascontiguousarray(Y[:, -1])
    return replace(problem, X=X, Y=np.ascontiguousarray(Y[:, :-1]), w=w), weights.scale * w


@dataclass(frozen=True, slots=True)
class _WeightsBeside:
    """Weights as one more output."""

    weights: RowWeights

    def __call__(self, first_row: int, X: Array, Y: Array) -> tuple[Array, Array]:
        return X, np.hstack([Y, self.weights(first_row, X, Y)[:, None]])
