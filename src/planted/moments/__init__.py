"""Rows in, small arrays out: every sum over the data, mergeable and in blocks."""

from planted.moments._blocks import (
    DEFAULT_BLOCK_ROWS,
    PART_BLOCKS,
    ArraySource,
    Block,
    RowBlocks,
    RowSource,
    checked_pair,
)
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
from planted.moments._passes import Engine, Journal, Passes, Summand, accumulate, sum_branch
from planted.moments._sample import RowSample, sample_rows
from planted.moments._sums import FAN_IN, Sums, SumTree, pack_sums, unpack_sums

__all__ = [
    "DEFAULT_BLOCK_ROWS",
    "FAN_IN",
    "PART_BLOCKS",
    "ArraySource",
    "Block",
    "ControlledSlope",
    "Engine",
    "Journal",
    "LinearSums",
    "NormalSums",
    "PairMaps",
    "PairMoments",
    "PairedSums",
    "Passes",
    "RowBlocks",
    "RowMoments",
    "RowSample",
    "RowSource",
    "RowWeights",
    "SampleMoments",
    "SumTree",
    "Summand",
    "Sums",
    "accumulate",
    "accumulate_kinks",
    "accumulate_linear",
    "accumulate_normal",
    "accumulate_pairs",
    "augment",
    "checked_pair",
    "distinguishing_sums",
    "joint_moments",
    "masked_products",
    "pack_sums",
    "sample_rows",
    "second_moments",
    "sum_branch",
    "triangle_weights",
    "unpack_sums",
]
