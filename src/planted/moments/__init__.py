"""Rows in, small arrays out: every sum over the data, mergeable and in blocks."""

from planted.moments._blocks import RowBlocks, sample_rows
from planted.moments._gram import RowMoments, joint_moments
from planted.moments._normal import NormalSums, accumulate_normal, augment

__all__ = [
    "NormalSums",
    "RowBlocks",
    "RowMoments",
    "accumulate_normal",
    "augment",
    "joint_moments",
    "sample_rows",
]
