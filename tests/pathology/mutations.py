"""Small files with changed bytes, for every table format, reproducible from a seed.

``python tests/pathology/mutations.py --seconds 60 --seed 3`` reads mutated files until the time is over and ends with
code 1 at the first one that gives neither a table nor a typed error; the file is kept. Tests run a few thousand.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import feather, parquet

from planted.io import memory_budget, read_table
from planted.outcomes import PlantedError

__all__ = ["FORMATS", "Failure", "mutate", "read_mutants", "sound_files"]

FORMATS = (".npy", ".npz", ".csv", ".parquet", ".feather")
BUDGET = 200_000_000
LONGEST_READ = 10.0  # seconds
_INTERESTING = (
    0,
    1,
    2,
    127,
    128,
    255,
    2**15,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**62,
    2**63,
    2**64 - 1,
)
_TOKENS = (
    b"True",
    b"-1",
    b"99999999999",
    b"\n",
    b'"',
    b",",
    b"\0",
    b"\xff",
    b"PK\x05\x06",
    b"PAR1",
    b"ARROW1",
    b"nan",
)


@dataclass(frozen=True)
class Failure:
    """A mutated file that was not read as promised."""

    suffix: str
    seed: tuple[int, ...]
    reason: str


def sound_files(suffix: str) -> list[bytes]:
    """Return the contents of sound files of a format, one for each way of writing it."""
    values = np.random.default_rng(12).integers(-9, 9, (12, 3)) / 4.0
    table = pa.table(
        {
            "a": values[:, 0],
            "b": values[:, 1].astype("float32"),
            "c": pa.array([1, None] * 6),
            "y": values[:, 2],
        }
    )
    buffers = [io.BytesIO() for _ in range(4)]
    if suffix == ".npy":
        np.save(buffers[0], values)
        np.save(buffers[1], np.asfortranarray(values.astype(">i2")))
    elif suffix == ".npz":
        np.savez(buffers[0], X=values[:, :2], y=values[:, 2])
        np.savez_compressed(buffers[1], X=np.asfortranarray(values[:, :2]), Y=values[:, 2:])
    elif suffix == ".csv":
        lines = [",".join(map(repr, row)) for row in values.tolist()]
        buffers[0].write("\n".join(["a,b,y", *lines, ""]).encode())
        buffers[1].write(b'"a ""1""";"b";y\r\n"1";2;3\r\n4;"5";6e3\r\n')
    elif suffix == ".parquet":
        for buffer, compression in zip(buffers, ("none", "snappy", "gzip", "zstd"), strict=True):
            parquet.write_table(
                table,
                buffer,
                compression=compression,
                use_dictionary=compression in {"snappy", "zstd"},
                data_page_version="2.0" if compression == "zstd" else "1.0",
                write_page_checksum=compression == "gzip",
            )
    else:
        for buffer, compression in zip(buffers, ("uncompressed", "lz4", "zstd"), strict=False):
            feather.write_feather(table.drop_columns("c"), buffer, compression=compression, chunksize=5)
    return [buffer.getvalue() for buffer in buffers if buffer.getvalue()]


def mutate(content: bytes, rng: np.random.Generator) -> bytes:
    """Change a few places: bytes, numbers of interesting size, tokens, pieces that are cut, copied or appended."""
    data = bytearray(content)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3, 8]))):
        at = int(rng.integers(len(data))) if data else 0
        # Headers and footers decide what is allocated: half of the changes go there.
        if rng.random() < 0.5:
            at = (
                min(int(rng.integers(200)), len(data))
                if rng.random() < 0.5
                else max(len(data) - int(rng.integers(1, 300)), 0)
            )
        match int(rng.integers(7)):
            case 0:
                data[at : at + 1] = bytes([int(rng.integers(256))])
            case 1 if data:
                data[min(at, len(data) - 1)] ^= 1 << int(rng.integers(8))
            case 2:
                width = int(rng.choice([1, 2, 4, 8]))
                number = int(_INTERESTING[rng.integers(len(_INTERESTING))]) % 2 ** (8 * width)
                data[at : at + width] = number.to_bytes(width, "little")
            case 3:
                token = _TOKENS[rng.integers(len(_TOKENS))]
                data[at : at + (len(token) if rng.random() < 0.5 else 0)] = token
            case 4:
                del data[at : at + int(rng.integers(1, 40))]
            case 5:
                source = int(rng.integers(len(data) + 1))
                data[at:at] = data[source : source + int(rng.integers(1, 60))]
            case _:
                del data[max(at, 1) :]
    return bytes(data)


def read_mutants(suffix: str, seed: int, folder: Path) -> Iterator[Failure | None]:
    """Read mutated files for ever; yield a failure for each that breaks the promise, else nothing."""
    sound = sound_files(suffix)
    file = folder / f"mutant{suffix}"
    number = 0
    while True:
        rng = np.random.default_rng((seed, FORMATS.index(suffix), number))
        file.write_bytes(mutate(sound[number % len(sound)], rng))
        reason = _broken_promise(file)
        yield None if reason is None else Failure(suffix, (seed, FORMATS.index(suffix), number), reason)
        number += 1


def _broken_promise(file: Path) -> str | None:
    """Read a file; say what was wrong with the table or the error, if anything was."""
    began = time.monotonic()
    try:
        with memory_budget(BUDGET):
            table = read_table(file)
        if not (
            np.isfinite(table.X).all() and np.isfinite(table.Y).all() and len(table.X) == len(table.Y) > 0
        ):
            return "a table with values that are not finite, or without rows"
    except PlantedError as error:
        if file.name not in str(error) or not str(error).isprintable():
            return f"an error that does not name the file, or cannot be printed: {error!r}"
    except Exception as error:
        return f"a foreign error: {error!r}"
    seconds = time.monotonic() - began
    return f"{seconds:.0f} seconds" if seconds > LONGEST_READ else None


def main() -> int:
    """Read mutated files of all formats in turn until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    streams = [read_mutants(suffix, options.seed, folder) for suffix in FORMATS]
    tries, end = 0, time.monotonic() + options.seconds
    while time.monotonic() < end:
        for stream in streams:
            failure = next(stream)
            tries += 1
            if failure is not None:
                print(f"{failure}\nThe file is kept in {folder}.")
                return 1
    print(f"{tries:,} mutated files, seed {options.seed}: tables or typed errors only.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
