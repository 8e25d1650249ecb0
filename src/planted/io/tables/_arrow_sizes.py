"""What the pages of a Parquet file and the batches of a Feather file claim to expand to, read before Arrow expands them.

Arrow allocates as many bytes as a page or buffer claims to hold once it is decompressed. Its Python interface does not
show the claim of a page, and it aborts the process when asked for a column chunk whose statistics are damaged (Arrow 26).
Both claims stand uncompressed in the file: in the footer and page headers of Parquet (Thrift, compact protocol), and at
the head of each buffer of Feather, which the batch's metadata lists (FlatBuffers). This module reads just these. Whatever
does not parse is refused, since Arrow might read it otherwise.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

__all__ = ["Batch", "Chunk", "footer_bytes", "largest_page", "read_batches", "read_chunks"]

MAX_PAGE_HEADER = 1 << 20  # bytes; min and max of a page of numbers take a few dozen
MAX_BATCH_METADATA = 64 * 2**20  # bytes; 100 000 columns take 5 MB
MAX_DEPTH = 10  # of structs in structs
_FIRST_LOOK = 256


def footer_bytes(file: IO[bytes], *, ending: bytes) -> int:
    """Return the length of a footer, which stands before the last bytes of the file."""
    size = os.fstat(file.fileno()).st_size
    file.seek(max(size - len(ending) - 4, 0))
    tail = file.read(len(ending) + 4)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != ending or not 0 < length <= size - len(tail):
        raise ValueError(f"its last bytes are {tail[4:]!r} and claim a footer of {length:,} bytes")
    return length


# --- Parquet


@dataclass(frozen=True, slots=True)
class Chunk:
    """Where the pages of one column of one row group lie."""

    name: str
    n_values: int
    start: int
    n_bytes: int


def read_chunks(path: Path) -> list[list[Chunk]]:
    """Return the column chunks of every row group, as the footer lists them."""
    info = path.stat()
    return _read_chunks(path, info.st_size, info.st_mtime_ns)


@lru_cache(maxsize=32)  # a table is opened anew at every pass
def _read_chunks(path: Path, size: int, _time: int) -> list[list[Chunk]]:
    with path.open("rb") as file:
        length = footer_bytes(file, ending=b"PAR1")
        file.seek(size - length - 8)
        footer = _Compact(file.read(length))
    try:
        groups = footer.struct()[0].get(4)
        return [[_chunk(column) for column in _typed(group, 1, list)] for group in groups or []]
    except (IndexError, TypeError, AttributeError) as error:
        raise ValueError("its footer is damaged") from error


def _chunk(column: dict[int, Any]) -> Chunk:
    """Read what a column chunk's description says; Arrow begins at the dictionary where there is one before the data."""
    about = _typed(column, 3, dict)
    start = _count(about, 9)
    dictionary = _count(about, 11) if 11 in about else 0
    name = b".".join(_typed(about, 3, list)).decode()
    return Chunk(name, _count(about, 5), dictionary if 0 < dictionary < start else start, _count(about, 7))


def largest_page(file: IO[bytes], chunk: Chunk) -> int:
    """Return the bytes that a column chunk holds at once when read: its own, a dictionary and its largest page."""
    size = os.fstat(file.fileno()).st_size
    place, end = chunk.start, chunk.start + chunk.n_bytes
    if not 0 < place <= end <= size:
        raise ValueError(f"column {chunk.name!r} claims the bytes {place:,} to {end:,} of {size:,}")
    largest, dictionary, n_values = 0, 0, 0
    while n_values < chunk.n_values and place < end:
        header, length = _page_header(file, place)
        expanded, stored = _count(header, 2), _count(header, 3)
        if header.get(1) == 2:
            dictionary = max(dictionary, expanded)
        else:
            largest = max(largest, expanded)
            data_page = header.get(5, header.get(8))
            n_values += _count(data_page, 1) if isinstance(data_page, dict) else 0
        place += length + stored
    return chunk.n_bytes + largest + dictionary


def _count(fields: dict[int, Any], number: int) -> int:
    """Return a field that must be a number of bytes or values."""
    value: int = _typed(fields, number, int)
    if value < 0:
        raise ValueError(f"it claims {value:,} bytes or values")
    return value


def _typed(fields: dict[int, Any], number: int, kind: type) -> Any:
    value = fields.get(number)
    if type(value) is not kind:
        raise ValueError(f"a description of pages holds {str(value)[:40]!r} in its field {number}")
    return value


def _page_header(file: IO[bytes], place: int) -> tuple[dict[int, Any], int]:
    """Parse the header of the page at a place; return its fields and its length."""
    look = _FIRST_LOOK
    while True:
        file.seek(place)
        data = file.read(look)
        try:
            return _Compact(data).struct()
        except IndexError:
            if len(data) < look or look >= MAX_PAGE_HEADER:
                raise ValueError(f"there is no whole page header at byte {place:,}") from None
            look *= 16


class _Compact:
    """Thrift's compact protocol without maps, which Parquet does not use; IndexError where the bytes end too early."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self, depth: int = 0) -> tuple[dict[int, Any], int]:
        """Read fields until the struct ends; return them by number, and where the struct ends."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            if number in fields:
                raise ValueError(f"a struct has its field {number} twice")
            kind = head & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return fields, self.at

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (4, 5, 6):
            return self._integer()
        if kind in (1, 2, 3):
            return self._byte()
        if kind in (7, 8):
            return self._bytes(8 if kind == 7 else self._varint())
        if kind == 9 and depth < MAX_DEPTH:
            head = self._byte()
            n_items = head >> 4 if head >> 4 < 15 else self._varint()
            if n_items > len(self.data):
                raise IndexError
            return [self._value(head & 15, depth + 1) for _ in range(n_items)]
        if kind == 12 and depth < MAX_DEPTH:
            return self.struct(depth + 1)[0]
        raise ValueError(f"a struct holds a field of the unknown type {kind}")

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _bytes(self, length: int) -> bytes:
        self.at += length
        if self.at > len(self.data):
            raise IndexError
        return self.data[self.at - length : self.at]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a struct holds a number of more than 64 bits")

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


# --- Feather


@dataclass(frozen=True, slots=True)
class Batch:
    """What a record batch claims."""

    n_rows: int
    n_bytes: int  # of all its buffers, stored and expanded


def read_batches(file: IO[bytes]) -> tuple[int, list[Batch]]:
    """Return what the dictionaries of a Feather file take in all, and what each of its record batches claims."""
    length = footer_bytes(file, ending=b"ARROW1")
    file.seek(-length - 10, os.SEEK_END)
    footer = _Flat.root(file.read(length))
    dictionaries = [_read_batch(file, *block) for block in _blocks(footer, 2)]
    return sum(batch.n_bytes for batch in dictionaries), [
        _read_batch(file, *block) for block in _blocks(footer, 3)
    ]


def _blocks(footer: _Flat, number: int) -> Iterator[tuple[int, int, int]]:
    """List where batches lie: offset, length of the metadata, length of the body."""
    place, n_blocks = footer.vector(number, item_bytes=24)
    for i in range(n_blocks):
        yield struct.unpack_from("<qi4xq", footer.data, place + 24 * i)


def _read_batch(file: IO[bytes], offset: int, metadata_bytes: int, body_bytes: int) -> Batch:
    """Read the metadata of a batch and the length that each of its buffers claims."""
    size = os.fstat(file.fileno()).st_size
    body = offset + metadata_bytes
    if min(offset, metadata_bytes, body_bytes) < 0 or body + body_bytes > size:
        raise ValueError(
            f"a batch claims the bytes {offset:,} to {body + body_bytes:,}, the file has {size:,}"
        )
    if metadata_bytes > MAX_BATCH_METADATA:
        raise ValueError(
            f"a batch claims {metadata_bytes:,} bytes of metadata, expected at most {MAX_BATCH_METADATA:,}"
        )
    file.seek(offset)
    data = file.read(metadata_bytes)
    message = _Flat.root(data[8 if data[:4] == b"\xff\xff\xff\xff" else 4 :])
    header = message.table(2)
    batch = header.table(1) if message.number(1, "<B") == 2 else header  # a dictionary holds a batch
    place, n_buffers = batch.vector(2, item_bytes=16)
    is_compressed = batch.field(3) is not None
    n_bytes = body_bytes
    for i in range(n_buffers):
        at, length = struct.unpack_from("<qq", batch.data, place + 16 * i)
        if min(at, length) < 0 or at + length > body_bytes:
            raise ValueError(
                f"a buffer claims the bytes {at:,} to {at + length:,} of a body of {body_bytes:,}"
            )
        if is_compressed and length >= 8:
            file.seek(body + at)
            n_bytes += max(int.from_bytes(file.read(8), "little", signed=True), 0)
    return Batch(max(batch.number(0, "<q"), 0), n_bytes)


@dataclass(frozen=True, slots=True)
class _Flat:
    """A table of a FlatBuffers message: fields by number, each found through the table of offsets."""

    data: bytes
    place: int

    @classmethod
    def root(cls, data: bytes) -> _Flat:
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def field(self, number: int) -> int | None:
        """Return where a field lies, or None where it is left out."""
        offsets = self.place - struct.unpack_from("<i", self.data, self.place)[0]
        if offsets < 0:
            raise ValueError("a table of offsets lies before the message")
        if 4 + 2 * number >= struct.unpack_from("<H", self.data, offsets)[0]:
            return None
        step = struct.unpack_from("<H", self.data, offsets + 4 + 2 * number)[0]
        return self.place + step if step else None

    def number(self, number: int, kind: str) -> int:
        at = self.field(number)
        return 0 if at is None else int(struct.unpack_from(kind, self.data, at)[0])

    def table(self, number: int) -> _Flat:
        at = self.field(number)
        if at is None:
            raise ValueError(f"a message lacks its field {number}")
        return _Flat(self.data, at + struct.unpack_from("<I", self.data, at)[0])

    def vector(self, number: int, *, item_bytes: int) -> tuple[int, int]:
        """Return where the items of a vector of structs begin, and how many there are."""
        at = self.field(number)
        if at is None:
            return 0, 0
        at += struct.unpack_from("<I", self.data, at)[0]
        n_items = struct.unpack_from("<I", self.data, at)[0]
        if at + 4 + item_bytes * n_items > len(self.data):
            raise ValueError(f"a list claims {n_items:,} items of {item_bytes} bytes, more than there are")
        return at + 4, n_items
