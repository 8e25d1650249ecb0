"""What the pages of a Parquet file and the batches of a Feather file claim to expand to, read before Arrow expands them.

Arrow allocates as many bytes as a page or buffer claims to hold once it is decompressed, and its Python interface does
not show the claim. Both claims stand uncompressed in the file: in the page headers of Parquet (Thrift, compact protocol)
and at the head of each buffer of Feather, which the batch's metadata lists (FlatBuffers). This module reads just these.
Whatever does not parse is refused, since Arrow might read it otherwise.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

__all__ = ["Batch", "footer_bytes", "largest_page", "read_batches"]

MAX_PAGE_HEADER = 1 << 20  # bytes; min and max of a page of numbers take a few dozen
MAX_BATCH_METADATA = 64 * 2**20  # bytes; 100 000 columns take 5 MB
_FIRST_LOOK = 256
_LAST_MEMBER = 12  # type number of a nested struct, the last that page headers use


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


def largest_page(file: IO[bytes], chunk: Any) -> int:
    """Return the bytes that a column chunk holds at once when read: its own, a dictionary and its largest page."""
    size = os.fstat(file.fileno()).st_size
    starts = [place for place in (chunk.dictionary_page_offset, chunk.data_page_offset) if place]
    place = min(starts, default=0)
    end = place + chunk.total_compressed_size
    if not 0 < place <= end <= size:
        raise ValueError(f"column {chunk.path_in_schema!r} claims the bytes {place:,} to {end:,} of {size:,}")
    largest, dictionary, n_values = 0, 0, 0
    while n_values < chunk.num_values and place < end:
        header, length = _page_header(file, place)
        expanded, stored = header.get(2, -1), header.get(3, -1)
        if min(expanded, stored) < 0:
            raise ValueError(f"a page of column {chunk.path_in_schema!r} claims {expanded:,} bytes")
        if header.get(1) == 2:
            dictionary = max(dictionary, expanded)
        else:
            largest = max(largest, expanded)
            counts = header.get(5) or header.get(8) or {}
            n_values += max(counts.get(1, 0), 0)
        place += length + stored
    return int(chunk.total_compressed_size) + largest + dictionary


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
    """The part of Thrift's compact protocol that page headers use: integers, texts and structs."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self, depth: int = 0) -> tuple[dict[int, Any], int]:
        """Read fields until the struct ends; return them by number, and where the struct ends."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            fields[number] = self._value(head & 15, depth)
        return fields, self.at

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._integer()
        if kind in (7, 8):
            length = 8 if kind == 7 else self._varint()
            self.at += length
            if self.at > len(self.data):
                raise IndexError
            return None
        if kind == _LAST_MEMBER and depth < 4:
            return self.struct(depth + 1)[0]
        raise ValueError(f"a page header holds a field of the unknown type {kind}")

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a page header holds a number of more than 64 bits")

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
