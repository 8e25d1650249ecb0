"""A log of questions and answers that survives a crash.

The file opens with one line of JSON that names the format and the shapes. Each batch follows as one record: number of
rows, questions, answers (little-endian float64) and a CRC of these bytes. Records are appended and flushed to the disk
before the next batch is asked, so a run that dies loses at most the batch that was under way; a torn last record is
dropped when the log is opened again. Nothing in the file is executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from os import PathLike
from pathlib import Path
from typing import BinaryIO

import numpy as np

from planted._typing import Array
from planted.outcomes import BadInputError, FileFormatError

__all__ = ["QueryLog"]

FORMAT = "planted.identification"
SCHEMA = 1
LONGEST_HEADER = 4096
COUNT_BYTES, CRC_BYTES = 8, 4


class QueryLog:
    """Questions and answers on disk; those of an earlier run are read back and used again."""

    def __init__(self, path: str | PathLike[str], n_features: int) -> None:
        self.path = Path(path)
        self.n_features = n_features
        self._answers: dict[bytes, Array] = {}
        self._n_outputs: int | None = None
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
        body = np.ascontiguousarray(X, dtype="<f8").tobytes() + np.ascontiguousarray(Y, dtype="<f8").tobytes()
        with self.path.open("ab") as stream:
            if self._n_outputs is None:
                self._n_outputs = Y.shape[1]
                shapes = {"n_features": self.n_features, "n_outputs": Y.shape[1]}
                stream.write(json.dumps({"format": FORMAT, "schema": SCHEMA, **shapes}).encode() + b"\n")
            count, crc = len(X), zlib.crc32(body)
            stream.write(count.to_bytes(COUNT_BYTES, "little") + body + crc.to_bytes(CRC_BYTES, "little"))
            stream.flush()
            os.fsync(stream.fileno())
        self._remember(X, Y)

    def _remember(self, X: Array, Y: Array) -> None:
        for row, answer in zip(X, Y, strict=True):
            self._answers[_key(row)] = answer

    def _read(self) -> None:
        """Read the records of an earlier run; cut off a torn one at the end."""
        with self.path.open("r+b") as stream:
            self._read_header(stream)
            while True:
                good = stream.tell()
                batch = self._read_record(stream)
                if batch is None:
                    stream.truncate(good)
                    return
                self._remember(*batch)

    def _read_header(self, stream: BinaryIO) -> None:
        """Read the first line; raise if this is no log of queries, or one with another number of inputs."""
        line = stream.readline(LONGEST_HEADER)
        try:
            record = json.loads(line)
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise FileFormatError(f"{self.path}: not a log of queries: {error}") from error
        if not isinstance(record, dict) or record.get("format") != FORMAT or record.get("schema") != SCHEMA:
            raise FileFormatError(f"{self.path}: not a log of queries of schema {SCHEMA}")
        m = record.get("n_outputs")
        if type(m) is not int or m < 1:
            raise FileFormatError(f"{self.path}: the log names {m!r} outputs")
        if record.get("n_features") != self.n_features:
            raise BadInputError(
                f"{self.path} holds questions with {record.get('n_features')} inputs, not {self.n_features}; "
                "name another log"
            )
        self._n_outputs = m

    def _read_record(self, stream: BinaryIO) -> tuple[Array, Array] | None:
        """Return the next batch, or None at the end or where the rest is torn."""
        assert self._n_outputs is not None
        prefix = stream.read(COUNT_BYTES)
        count = int.from_bytes(prefix, "little")
        size = 8 * count * (self.n_features + self._n_outputs)
        left = os.fstat(stream.fileno()).st_size - stream.tell()
        if len(prefix) < COUNT_BYTES or size + CRC_BYTES > left:
            return None
        body = stream.read(size)
        if int.from_bytes(stream.read(CRC_BYTES), "little") != zlib.crc32(body):
            return None
        numbers = np.frombuffer(body, dtype="<f8").astype(np.float64)
        cut = count * self.n_features
        return numbers[:cut].reshape(count, -1), numbers[cut:].reshape(count, -1)


def _key(row: Array) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(row, dtype="<f8").tobytes(), digest_size=16).digest()
