"""Blocks of rows, passes over them, mergeable sums, samples and weights: the only way in which data are read."""

from planted.rows._blocks import RowBlocks
from planted.rows._passes import Engine, Journal, Passes, Summand, accumulate, sum_branch
from planted.rows._sample import RowSample, sample_rows
from planted.rows._sources import (
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
from planted.rows._sums import FAN_IN, Sums, SumTree, kind_of, pack_sums, unpack_sums
from planted.rows._views import root_of, with_root
from planted.rows._weights import RowWeights, StoredWeights

__all__ = [
    "DEFAULT_BLOCK_ROWS",
    "FAN_IN",
    "PART_BLOCKS",
    "ArraySource",
    "Block",
    "Engine",
    "HeldSource",
    "Journal",
    "Passes",
    "RowBlocks",
    "RowSample",
    "RowSource",
    "RowWeights",
    "StoredWeights",
    "SumTree",
    "Summand",
    "Sums",
    "accumulate",
    "checked_pair",
    "kind_of",
    "outline_rows",
    "pack_sums",
    "root_of",
    "sample_rows",
    "sum_branch",
    "unpack_sums",
    "weighed_block",
    "with_root",
]
