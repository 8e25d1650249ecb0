"""Tables in `.parquet` and `.feather` files, through Arrow (the extra `files`).

Only the chosen columns are read, one batch at a time. What pages and batches claim to expand to is compared with the
memory budget before Arrow expands them (`planted.io.tables._arrow_sizes`). Page checksums are verified where the writer
stored them, and every batch is validated before its buffers are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from planted._conversion import series_to_array
from planted._typing import Array
from planted.io._memory import Budget
from planted.io.tables._arrow_sizes import Chunk, footer_bytes, largest_page, read_batches, read_chunks
from planted.io.tables._source import (
    PLAIN,
    Coder,
    Reading,
    Source,
    arrow_file,
    damaged,
    refuse_width,
    require_arrow,
)
from planted.outcomes import BadInputTypeError, shown

__all__ = ["coded", "open_feather", "open_parquet"]

BYTES_PER_FOOTER_BYTE = 40
"""Memory that Arrow takes for a byte of a footer: measured 5 to 12 with sound footers of 1000 to 100 000 columns."""


def open_parquet(path: Path, budget: Budget, reading: Reading = PLAIN) -> Source:
    """Open a Parquet file as a table."""
    require_arrow(path)
    from pyarrow import parquet

    _require_footer(path, budget, ending=b"PAR1")
    with arrow_file(path) as raw, parquet.ParquetFile(raw) as file:
        metadata, schema = file.metadata, file.schema_arrow
    names, n_rows = tuple(schema.names), int(metadata.num_rows)
    refuse_width(len(names), shown(path))
    lengths = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    begins = np.cumsum([0, *lengths])
    if n_rows < 0 or min(lengths, default=0) < 0 or begins[-1] != n_rows:
        raise damaged(path, f"it claims {n_rows:,} rows, its row groups {begins[-1]:,}")

    def blocks_from(columns: Sequence[int], block_rows: int, row: int) -> Iterator[Array]:
        chosen = [names[j] for j in columns]
        _refuse_kinds(schema, [name for name in chosen if name not in reading.coders], path)
        step = budget.rows(8 * len(columns), block_rows)
        first = int(np.searchsorted(begins, row, side="right")) - 1
        to_drop = row - int(begins[first])
        chunks = read_chunks(path)
        with arrow_file(path) as raw, parquet.ParquetFile(raw, page_checksum_verification=True) as file:
            # One by one: a reader of several groups keeps them all.
            for place in range(first, len(lengths)):
                _require_group(path, chunks[place], set(chosen), budget)
                for batch in file.iter_batches(step, [place], columns=chosen, use_threads=False):
                    kept = batch.slice(to_drop)
                    to_drop = max(to_drop - batch.num_rows, 0)
                    if kept.num_rows:
                        yield _to_array(kept, chosen, path, reading)

    def blocks(columns: Sequence[int], block_rows: int) -> Iterator[Array]:
        return blocks_from(columns, block_rows, 0)

    return Source(path, names, n_rows, blocks, blocks_from=blocks_from, texts=_text_columns(schema))


def open_feather(path: Path, budget: Budget, reading: Reading = PLAIN) -> Source:
    """Open a Feather file (version 2, the Arrow file format) as a table."""
    pa = require_arrow(path)
    _require_footer(path, budget, ending=b"ARROW1")
    with path.open("rb") as file:
        dictionary_bytes, batches = read_batches(file)
    with arrow_file(path) as raw, pa.ipc.open_file(raw) as reader:
        schema = reader.schema
    names = tuple(schema.names)
    refuse_width(len(names), shown(path))
    largest = dictionary_bytes + max((batch.n_bytes for batch in batches), default=0)

    def blocks(columns: Sequence[int], block_rows: int) -> Iterator[Array]:
        chosen = [names[j] for j in columns]
        _refuse_kinds(schema, [name for name in chosen if name not in reading.coders], path)
        budget.require(
            largest, f"a record batch of {shown(path)}", instead="Write smaller batches (chunksize)."
        )
        step = budget.rows(8 * len(columns), block_rows)
        options = pa.ipc.IpcReadOptions(included_fields=sorted(columns), use_threads=False)
        with arrow_file(path) as raw, pa.ipc.open_file(raw, options=options) as reader:
            for i in range(reader.num_record_batches):
                batch = reader.get_batch(i)
                batch.validate(full=True)  # a forged length must not read past a buffer
                for start in range(0, batch.num_rows, step):
                    yield _to_array(batch.slice(start, step), chosen, path, reading)

    return Source(path, names, sum(batch.n_rows for batch in batches), blocks, texts=_text_columns(schema))


def _require_footer(path: Path, budget: Budget, *, ending: bytes) -> None:
    """Refuse a footer that takes too much memory once it is parsed: Arrow parses it whole."""
    with path.open("rb") as file:
        length = footer_bytes(file, ending=ending)
    budget.require(
        BYTES_PER_FOOTER_BYTE * length,
        f"the description of the columns of {shown(path)}",
        instead="Write fewer columns, or fewer row groups.",
    )


def _require_group(path: Path, chunks: Sequence[Chunk], chosen: set[str], budget: Budget) -> None:
    """Refuse a row group whose chosen columns do not fit: of each, Arrow holds all bytes and one expanded page."""
    needed = 0
    with path.open("rb") as file:
        for chunk in chunks:
            if chunk.name in chosen or chunk.name.partition(".")[0] in chosen:
                needed += largest_page(file, chunk)
    budget.require(
        needed, f"a row group of {shown(path)}", instead="Write smaller row groups, or choose fewer columns."
    )


def _refuse_kinds(schema: Any, chosen: Sequence[str], path: Path) -> None:
    """Refuse text, dates and categories by name before anything of them is read."""
    empty = schema.empty_table()
    for name in chosen:
        series_to_array(empty.column(name), f"column {shown(name)!r} of {shown(path)}")


def _text_columns(schema: Any) -> tuple[int, ...]:
    """Return the columns of text, categories, dates and times."""
    kinds = ("string", "large_string", "dictionary<values=string", "date32", "date64", "timestamp")
    return tuple(j for j, kind in enumerate(schema.types) if str(kind).startswith(kinds))


def _to_array(batch: Any, chosen: Sequence[str], path: Path, reading: Reading) -> Array:
    """Convert a record batch column by column."""
    columns = []
    for name in chosen:
        label = f"column {shown(name)!r} of {shown(path)}"
        coder = reading.coders.get(name)
        values = batch.column(name)
        columns.append(series_to_array(values, label) if coder is None else coded(values, coder, label))
    return np.column_stack(columns)


def coded(values: Any, coder: Coder, label: str) -> Array:
    """Turn an Arrow array of text, dates or categories into the numbers of a coder: each distinct text once."""
    import pyarrow as pa

    if pa.types.is_timestamp(values.type) and values.type.unit == "ns":  # Python reads microseconds
        values = values.cast(pa.timestamp("us", values.type.tz), safe=False)
    distinct = values.cast(pa.string()).dictionary_encode()
    texts = [str(text) for text in distinct.dictionary.to_pylist()]
    numbers = np.array([_number(coder, text, label) for text in texts] + [np.nan])
    places = distinct.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    return np.asarray(numbers[places])


def _number(coder: Coder, text: str, label: str) -> float:
    number = coder.code(text.strip())
    if number is None:
        raise BadInputTypeError(f"{label} holds {shown(text, longest=40)!r}, expected {coder.expected}.")
    return number
