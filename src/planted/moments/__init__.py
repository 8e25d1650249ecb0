"""Rows in, small arrays out: every sum over the data, mergeable and in blocks."""

from planted.moments._blocks import RowBlocks, sample_rows
from planted.moments._gram import RowMoments, joint_moments
from planted.moments._kink_normal import LinearSums, accumulate_kinks, accumulate_linear, masked_products
from planted.moments._normal import NormalSums, RowWeights, accumulate_normal, augment

__all__ = [
    "LinearSums",
    "NormalSums",
    "RowBlocks",
    "RowMoments",
    "SampleMoments",
    "RowWeights",
    "accumulate_kinks",
    "accumulate_linear",
    "accumulate_normal",
    "accumulate_pairs",
    "augment",
    "distinguishing_sums",
    "joint_moments",
    "masked_products",
    "sample_rows",
    "second_moments",
    "triangle_weights",
]
