"""Sums over rows on more than one machine, through Dask (the extra `dask`); nothing below knows that it exists."""

from planted.distributed._collections import blocks_of_collections
from planted.distributed._engine import DaskEngine, on_cluster

__all__ = ["DaskEngine", "blocks_of_collections", "on_cluster"]
