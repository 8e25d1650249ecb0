"""Rows in, small arrays out: every sum over the data, mergeable and in blocks."""

from planted.moments._blocks import RowBlocks, sample_rows
from planted.moments._gram import RowMoments, joint_moments
from planted.moments._kink_normal import LinearSums, accumulate_kinks, accumulate_linear, masked_products
from planted.moments._normal import NormalSums, RowWeights, accumulate_normal, augment
from planted.moments._pair_moments import ControlledSlope, PairMoments, SampleMoments, second_moments
from planted.moments._paired import (
    PairedSums,
    PairMaps,
    accumulate_pairs,
    distinguishing_sums,
    triangle_weights,
)

__all__ = [
    "ControlledSlope",
    "LinearSums",
    "NormalSums",
    "PairMaps",
    "PairMoments",
    "PairedSums",
    "RowBlocks",
    "RowMoments",
    "RowWeights",
    "SampleMoments",
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
