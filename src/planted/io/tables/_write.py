"""Write tables of numbers: `.csv`, `.npz`, `.parquet` and `.feather`."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planted.io.state._atomic import atomic_write
from planted.io.tables._source import require_arrow
from planted.outcomes import BadInputError, FileFormatError, shown

__all__ = ["write_table"]


def write_table(path: str | os.PathLike[str], columns: Mapping[str, npt.ArrayLike]) -> None:
    """Write columns of numbers; an existing file is replaced as a whole or not at all.

    Shapes: columns (n,).

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = Path(folder.name) / "predictions.csv"
    >>> write_table(file, {"x": [1.0, 2.0], "y": [0.1, 0.2]})
    >>> file.read_text().split()
    ['x,y', '1.0,0.1', '2.0,0.2']
    >>> folder.cleanup()
    """
    target = Path(path)
    writer = _WRITERS.get(target.suffix.lower())
    if writer is None:
        raise FileFormatError(
            f"{shown(target)}: cannot write files named {target.suffix!r}, expected one of "
            f"{', '.join(sorted(_WRITERS))}."
        )
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    if not arrays or len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
        raise BadInputError(f"the columns to write have the shapes {shapes}, expected vectors of one length.")
    if not target.parent.is_dir():
        raise BadInputError(f"there is no folder {target.parent} to write {target.name} in. Create it first.")
    if target.suffix.lower() in {".feather", ".parquet"}:
        require_arrow(target)
    atomic_write(target, lambda partial: writer(partial, arrays))


def _write_csv(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write the shortest decimals that read back to the same bits."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(arrays)
        writer.writerows(zip(*(array.tolist() for array in arrays.values()), strict=True))


def _write_npz(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    with path.open("wb") as file:  # np.savez would add its own suffix to a temporary name
        np.savez(file, allow_pickle=False, **arrays)


def _write_parquet(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    with path.open("wb") as file:  # Arrow cannot name a path that is not UTF-8
        parquet.write_table(pa.table(dict(arrays)), file, write_page_checksum=True)


def _write_feather(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    import pyarrow as pa
    from pyarrow import feather

    with path.open("wb") as file:
        feather.write_feather(pa.table(dict(arrays)), file)


_WRITERS: dict[str, Callable[[Path, Mapping[str, npt.NDArray[Any]]], None]] = {
    ".csv": _write_csv,
    ".feather": _write_feather,
    ".npz": _write_npz,
    ".parquet": _write_parquet,
}
