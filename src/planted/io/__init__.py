"""Files in and out: saved networks, and tables of data."""

from planted.io._atomic import atomic_write
from planted.io._networks import load_network, save_network
from planted.io._tables import Table, iter_table, read_table, write_table

__all__ = ["Table", "atomic_write", "iter_table", "load_network", "read_table", "save_network", "write_table"]
