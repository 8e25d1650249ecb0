"""Files in and out: saved networks, and tables of data."""

from planted.io._memory import memory_budget
from planted.io.networks._columns import Labels, SavedNetwork, check_columns
from planted.io.networks._exports import (
    Export,
    export_network,
    import_network,
    load_with_columns,
    to_sklearn,
    to_torch,
)
from planted.io.networks._safetensors import load_network, save_network
from planted.io.state._atomic import atomic_write
from planted.io.state._checkpoint import Checkpoint, checkpointed
from planted.io.state._sums import write_sums
from planted.io.tables._blocks import open_blocks
from planted.io.tables._learn import learn_recipe
from planted.io.tables._recipe import PreparedColumn, Recipe
from planted.io.tables._tables import Table, iter_table, read_table
from planted.io.tables._write import write_table

__all__ = [
    "Checkpoint",
    "Export",
    "Labels",
    "PreparedColumn",
    "Recipe",
    "SavedNetwork",
    "Table",
    "atomic_write",
    "check_columns",
    "checkpointed",
    "export_network",
    "import_network",
    "iter_table",
    "learn_recipe",
    "load_network",
    "load_with_columns",
    "memory_budget",
    "open_blocks",
    "read_table",
    "save_network",
    "to_sklearn",
    "to_torch",
    "write_sums",
    "write_table",
]
