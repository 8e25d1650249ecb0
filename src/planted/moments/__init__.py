"""Rows in, small arrays out: every sum over the data, mergeable and in blocks."""

from planted.moments._blocks import RowBlocks
from planted.moments._gram import RowMoments, joint_moments
from planted.moments._hermite import (
    Contractions,
    Draws,
    HermiteMoments,
    Residual,
    SampleHermite,
    whitening_map,
)
from planted.moments._hermite_fit import (
    PolynomialFit,
    Project,
    design_size,
    fit_polynomial,
    hermite_design,
    leading_span,
)
from planted.moments._hermite_sums import RowFunction, WeightedGrams, accumulate_grams
from planted.moments._hermite_tensors import (
    HermiteTensors,
    hermite_values,
    rank_one_squares,
    relu_coefficients,
)
from planted.moments._kink_normal import LinearSums, accumulate_kinks, accumulate_linear, masked_products
from planted.moments._normal import NormalSums, accumulate_normal, augment
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
from planted.moments._sources import (
    DEFAULT_BLOCK_ROWS,
    PART_BLOCKS,
    ArraySource,
    Block,
    HeldSource,
    RowSource,
    checked_pair,
    outline_rows,
    weighed_block,
)
from planted.moments._summary import RowSummary, row_keys, summarise_rows
from planted.moments._sums import FAN_IN, Sums, SumTree, kind_of, pack_sums, unpack_sums
from planted.moments._views import root_of, with_root
from planted.moments._weights import RowWeights, StoredWeights

__all__ = [
    "DEFAULT_BLOCK_ROWS",
    "FAN_IN",
    "PART_BLOCKS",
    "ArraySource",
    "Block",
    "Contractions",
    "ControlledSlope",
    "Draws",
    "Engine",
    "HeldSource",
    "HermiteMoments",
    "HermiteTensors",
    "Journal",
    "LinearSums",
    "NormalSums",
    "PairMaps",
    "PairMoments",
    "PairedSums",
    "Passes",
    "PolynomialFit",
    "Project",
    "Residual",
    "RowBlocks",
    "RowFunction",
    "RowMoments",
    "RowSample",
    "RowSource",
    "RowSummary",
    "RowWeights",
    "SampleHermite",
    "SampleMoments",
    "StoredWeights",
    "SumTree",
    "Summand",
    "Sums",
    "WeightedGrams",
    "accumulate",
    "accumulate_grams",
    "accumulate_kinks",
    "accumulate_linear",
    "accumulate_normal",
    "accumulate_pairs",
    "augment",
    "checked_pair",
    "design_size",
    "distinguishing_sums",
    "fit_polynomial",
    "hermite_design",
    "hermite_values",
    "joint_moments",
    "kind_of",
    "leading_span",
    "masked_products",
    "outline_rows",
    "pack_sums",
    "rank_one_squares",
    "relu_coefficients",
    "root_of",
    "row_keys",
    "sample_rows",
    "second_moments",
    "sum_branch",
    "summarise_rows",
    "triangle_weights",
    "unpack_sums",
    "weighed_block",
    "whitening_map",
    "with_root",
]
