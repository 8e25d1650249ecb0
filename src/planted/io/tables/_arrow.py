"""Tables in `.parquet` and `.feather` files, through Arrow (the extra `files`).

Only the chosen columns are read, one batch at a time. Page checksums are verified where the writer stored
them, and every batch is validated before its buffers are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from planted._conversion import require_memory
from planted._frames import series_to_array
from planted._typing import Array
from planted.io.tables._source import Source, damaged
from planted.outcomes import BadInputError, PlantedError

__all__ = ["open_feather", "open_parquet", "require_arrow"]


def require_arrow(path: Path) -> Any:
    """Import Arrow, or say how to install it."""
    try:
        import pyarrow
    except ImportError as error:
        raise BadInputError(
            f"{path}: {path.suffix.lower()} files need pyarrow, which is not installed. "
            "Install it with: pip install 'planted[files]'"
        ) from error
    return pyarrow


def open_parquet(path: Path) -> Source:
    """Open a Parquet file as a table."""
    pa = require_arrow(path)
    from pyarrow import parquet

    errors = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)
    try:
        with parquet.ParquetFile(path) as file:
            names, n_rows = tuple(file.schema_arrow.names), int(file.metadata.num_rows)
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
            largest = max((group.total_byte_size for group in groups), default=0)
    except errors as error:
        raise damaged(path, error) from error

    def blocks_from(columns: Sequence[int], block_rows: int, row: int) -> Iterator[Array]:
        # One row group is decompressed at a time, and its size is the writer's claim.
        require_memory((max(largest, 0) // 8,), f"a row group of {path}", remedy="Write smaller row groups.")
        chosen = [names[j] for j in columns]
        begins = np.cumsum([0, *(group.num_rows for group in groups)])
        group = int(np.searchsorted(begins, row, side="right")) - 1
        to_drop = row - int(begins[group])
        try:
            with parquet.ParquetFile(path, page_checksum_verification=True) as file:
                for place in range(
                    group, len(groups)
                ):  # one by one: a reader of several groups keeps them all
                    for batch in file.iter_batches(block_rows, [place], columns=chosen, use_threads=False):
                        kept = batch.slice(to_drop)
                        to_drop = max(to_drop - batch.num_rows, 0)
                        if kept.num_rows:
                            yield _to_array(kept, chosen, path)
        except PlantedError:
            raise
        except errors as error:
            raise damaged(path, error) from error

    def blocks(columns: Sequence[int], block_rows: int) -> Iterator[Array]:
        return blocks_from(columns, block_rows, 0)

    return Source(path, names, n_rows, blocks, blocks_from=blocks_from)


def open_feather(path: Path) -> Source:
    """Open a Feather file (version 2, the Arrow file format) as a table."""
    pa = require_arrow(path)
    errors = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)
    try:
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
            names = tuple(reader.schema.names)
    except errors as error:
        raise damaged(path, error) from error

    def blocks(columns: Sequence[int], block_rows: int) -> Iterator[Array]:
        chosen = [names[j] for j in columns]
        options = pa.ipc.IpcReadOptions(included_fields=sorted(columns), use_threads=False)
        try:
            with pa.OSFile(str(path)) as file, pa.ipc.open_file(file, options=options) as reader:
                for i in range(reader.num_record_batches):
                    batch = reader.get_batch(i)
                    batch.validate(full=True)  # a forged length must not read past a buffer
                    for start in range(0, batch.num_rows, block_rows):
                        yield _to_array(batch.slice(start, block_rows), chosen, path)
        except PlantedError:
            raise
        except errors as error:
            raise damaged(path, error) from error

    return Source(path, names, None, blocks)


def _to_array(batch: Any, chosen: Sequence[str], path: Path) -> Array:
    """Convert a record batch column by column; text, dates and categories are refused by name."""
    columns = [series_to_array(batch.column(name), f"column {name!r} of {path}") for name in chosen]
    return np.column_stack(columns)
