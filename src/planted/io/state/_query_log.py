"""A log of questions and answers that survives a crash.

The file opens with one line of JSON that names the format, the shapes and the oracle. Each batch follows as one record: a
marker, the number of rows and a CRC of it, questions and answers (little-endian float64), and a CRC of these. Records are
appended and flushed to the disk before the next batch is asked, so a run that dies loses at most the batch that was under
way. Nothing is ever cut off: what is torn or damaged is passed over when the log is read, up to the next marker, and its
questions are asked again. Records of planted 0.1.0 (schema 1) have neither marker nor CRC of their length; they are read
too, and found again after damage by trying every place where one may begin. Nothing in the file is executed.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import struct
import warnings
import zlib
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from planted._typing import Array
from planted.outcomes import BadInputError, DataWarning, FileFormatError

__all__ = ["QueryLog"]

FORMAT = "planted.identification"
SCHEMA = 2
LONGEST_HEADER = 4096
MARKER = b"\x93PLQ\r\n\x1a\xf1"
HEAD = struct.Struct("<8sQI")  # marker, rows, CRC of these 16 bytes
COUNT, CRC = struct.Struct("<Q"), struct.Struct("<I")
ROWS_OF_SCHEMA_1 = 1 << 20  # more than any batch of schema 1 has
# In the search for records of schema 1 the file is read at most so many times, for places where another record follows
# and for others.
TRIES = {"likely": 16, "unlikely": 4}
_ROW_COUNT = re.compile(rb"(?s)(?=.{3}\0{5})(?!\0{8})")  # below 2^24, and not 0


class QueryLog:
    """Questions and answers on disk; those of an earlier run are read back and used again.

    `oracle`: a name of the black box; a log with another name is refused. ``damaged_bytes`` says how much of the file
    could not be read.
    """

    def __init__(self, path: str | PathLike[str], n_features: int, *, oracle: str | None = None) -> None:
        self.path = Path(path)
        self.n_features = n_features
        self.oracle = oracle
        self.damaged_bytes = 0
        self._answers: dict[bytes, Array] = {}
        self._n_outputs: int | None = None
        self._schema = SCHEMA
        if self.path.exists() and not self.path.is_file():
            raise BadInputError(f"{self.path} is not a file; name another log")
        if self.path.exists() and self.path.stat().st_size:
            self._read()

    def __len__(self) -> int:
        return len(self._answers)

    def find(self, row: Array) -> Array | None:
        """Return the answer to a question, if it was asked before.

        Shapes: row (d,), result (m,).
        """
        return self._answers.get(_key(row))

    def append(self, X: Array, Y: Array) -> None:
        """Write a batch and make sure that it has reached the disk.

        Shapes: X (n, d), Y (n, m).
        """
        if len(X) != len(Y) or not len(X) or X.shape[1] != self.n_features:
            raise BadInputError(f"{self.path}: a batch has questions {X.shape} and answers {Y.shape}")
        if self._n_outputs not in (None, Y.shape[1]):
            raise BadInputError(
                f"{self.path} holds answers with {self._n_outputs} outputs, not {Y.shape[1]}: it is the log of another "
                "oracle; name another log"
            )
        body = np.ascontiguousarray(X, dtype="<f8").tobytes() + np.ascontiguousarray(Y, dtype="<f8").tobytes()
        head = struct.pack("<8sQ", MARKER, len(X))
        record = head + CRC.pack(zlib.crc32(head)) + body + CRC.pack(zlib.crc32(body))
        if self._n_outputs is None:
            record = self._header(Y.shape[1]) + record
            self._n_outputs = Y.shape[1]
        elif self._schema == 1:
            self._raise_schema()
        with self.path.open("ab") as stream:
            stream.write(record)
            stream.flush()
            os.fsync(stream.fileno())
        self._remember(X, Y)

    def _header(self, n_outputs: int) -> bytes:
        shapes = {"n_features": self.n_features, "n_outputs": n_outputs}
        name = {} if self.oracle is None else {"oracle": self.oracle}
        return json.dumps({"format": FORMAT, "schema": SCHEMA, **shapes, **name}).encode() + b"\n"

    def _raise_schema(self) -> None:
        """Change one byte of an old log's first line: records of schema 2 follow, and older versions refuse it."""
        with self.path.open("r+b") as stream:
            line = stream.readline(LONGEST_HEADER)
            place = line.find(b'"schema": 1')
            if place < 0:
                raise FileFormatError(f"{self.path}: the first line of the log was changed; name another log")
            stream.seek(place + len(b'"schema": '))
            stream.write(b"2")
            stream.flush()
            os.fsync(stream.fileno())
        self._schema = SCHEMA

    def _remember(self, X: Array, Y: Array) -> None:
        for row, answer in zip(X, Y, strict=True):
            self._answers[_key(row)] = answer

    def _read(self) -> None:
        """Read the records of earlier runs and pass over what is damaged."""
        with self.path.open("rb") as stream:
            line = stream.readline(LONGEST_HEADER)
            self._read_header(line)
            assert self._n_outputs is not None
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                reader = _Reader(data, self.path, self.n_features, self._n_outputs)
                ends = [len(line)]
                for found in reader.records(len(line)):
                    self.damaged_bytes += found.start - ends[-1]
                    ends.append(found.end)
                    self._remember(found.X, found.Y)
                if self.damaged_bytes:
                    warnings.warn(
                        f"{self.path}: {self.damaged_bytes:,} bytes between whole records are damaged and were passed over; "
                        f"the {len(self)} answers of the others are used.",
                        DataWarning,
                        stacklevel=4,
                    )
                self.damaged_bytes += len(data) - ends[-1]  # a torn end is what a crash leaves: no warning

    def _read_header(self, line: bytes) -> None:
        """Read the first line; raise if this is no log of queries, or one of another oracle."""
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FileFormatError(f"{self.path}: not a log of queries: {error}") from error
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise FileFormatError(f"{self.path}: not a log of queries")
        if record.get("schema") not in (1, SCHEMA) or not line.endswith(b"\n"):
            raise FileFormatError(f"{self.path}: not a log of queries of schema 1 or {SCHEMA}")
        m = record.get("n_outputs")
        if type(m) is not int or m < 1:
            raise FileFormatError(f"{self.path}: the log names {m!r:.60} outputs")
        if record.get("n_features") != self.n_features:
            raise BadInputError(
                f"{self.path} holds questions with {record.get('n_features')!r:.60} inputs, not {self.n_features}; "
                "name another log"
            )
        name = record.get("oracle")
        if name is not None and self.oracle is not None and name != self.oracle:
            raise BadInputError(
                f"{self.path} holds answers of the oracle {name!r:.200}, not of {self.oracle!r:.200}; name another log"
            )
        self._n_outputs, self._schema = m, record["schema"]


class _Record(NamedTuple):
    """A whole record and where it stands in the file."""

    start: int
    end: int
    X: Array
    Y: Array


class _Reader:
    """Finds the whole records in the bytes of a log."""

    def __init__(self, data: mmap.mmap, path: Path, n_features: int, n_outputs: int) -> None:
        self.data, self.path = data, path
        self.n_features, self.n_outputs = n_features, n_outputs
        self.row_bytes = 8 * (n_features + n_outputs)
        # Bytes that may still be read in search of records of schema 1, so that no file takes hours.
        self.work = {kind: tries * len(data) for kind, tries in TRIES.items()}

    def records(self, place: int) -> list[_Record]:
        """Return the whole records from a place on, in order."""
        found = []
        while place < len(self.data):
            record = self._record_at(place)
            if record is None and not any(self.data[place : place + COUNT.size + CRC.size]):
                self._refuse_zero(place)
            while record is None and (place := self._next_place(place + 1)) < len(self.data):
                record = self._record_at(place)
            if record is not None:
                found.append(record)
                place = record.end
        return found

    def _record_at(self, place: int) -> _Record | None:
        """Return the record of either schema that begins here, if it is whole."""
        if self.data[place : place + len(MARKER)] != MARKER:
            return self._body(place, place + COUNT.size, self._count_at(place))
        if place + HEAD.size > len(self.data):
            return None
        head = self.data[place : place + HEAD.size]
        _, count, crc = HEAD.unpack(head)
        if zlib.crc32(head[: -CRC.size]) != crc:
            return None
        if not count:
            raise FileFormatError(f"{self.path}: the record at byte {place} holds 0 questions")
        return self._body(place, place + HEAD.size, count)

    def _body(self, start: int, place: int, count: int) -> _Record | None:
        """Return the record whose numbers begin at a place, if it is whole."""
        end = place + count * self.row_bytes
        if not count or end + CRC.size > len(self.data):
            return None
        body = self.data[place:end]
        if CRC.unpack(self.data[end : end + CRC.size])[0] != zlib.crc32(body):
            return None
        numbers = np.frombuffer(body, dtype="<f8").astype(np.float64)
        cut = count * self.n_features
        return _Record(
            start, end + CRC.size, numbers[:cut].reshape(count, -1), numbers[cut:].reshape(count, -1)
        )

    def _count_at(self, place: int) -> int:
        """Return the number of rows of a record of schema 1 that may begin here; 0 if none may."""
        if place + COUNT.size > len(self.data):
            return 0
        (count,) = COUNT.unpack(self.data[place : place + COUNT.size])
        return int(count) if count <= ROWS_OF_SCHEMA_1 else 0

    def _next_place(self, place: int) -> int:
        """Return the next place where a record may begin: a marker, or what may be a number of rows of schema 1."""
        marker = self.data.find(MARKER, place)
        end = len(self.data) if marker < 0 else marker
        while (found := _ROW_COUNT.search(self.data, place, min(end + 8, len(self.data)))) is not None:
            place = found.start()
            if place >= end:
                break
            if self._may_begin(place):
                return place
            place += 1
        return end

    def _may_begin(self, place: int) -> bool:
        """Return whether a record of schema 1 here is worth a CRC; where another follows, it is nearly always."""
        count = self._count_at(place)
        end = place + COUNT.size + count * self.row_bytes + CRC.size
        if not count or end > len(self.data):
            return False
        is_followed = end == len(self.data) or self._count_at(end) or self.data[end : end + 8] == MARKER
        kind = "likely" if is_followed else "unlikely"
        self.work[kind] -= end - place
        return self.work[kind] >= 0

    def _refuse_zero(self, place: int) -> None:
        """Refuse a record of no question; a longer stretch of zeros is damage like any other."""
        end = place + COUNT.size + CRC.size
        if end == len(self.data) or (end < len(self.data) and self._record_at(end) is not None):
            raise FileFormatError(f"{self.path}: the record at byte {place} holds 0 questions")


def _key(row: Array) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(row, dtype="<f8").tobytes(), digest_size=16).digest()
