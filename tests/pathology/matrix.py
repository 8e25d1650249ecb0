"""Public entry × bad input → behaviour: the one table that the tests run and the documentation prints.

An entry is a function of inputs and targets. A case spoils sound data and says what must happen; where an entry
differs, `EXCEPTIONS` says so. ``test_bad_input_matrix.py`` runs every cell, ``docs/pages.py`` prints them.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

import planted
from planted.outcomes import BadInputError, BadInputTypeError

__all__ = [
    "CASES",
    "ENTRIES",
    "FAULTS",
    "FILES",
    "LEFT_OUT",
    "NETWORK",
    "NO_ROWS",
    "ROW_ONLY",
    "SOUND",
    "Case",
    "cell",
    "cells",
    "sound_file",
]

Data = tuple[Any, Any]

SOUND = planted.simulate.dataset(
    60, n_features=3, n_hidden=2, n_outputs=2, law="exponential", activity=(0.3, 0.7), random_state=4
)
NETWORK = planted.simulate.teacher(3, 2, 2, bias=(-0.5, 0.5), random_state=9)
CLASSES = (SOUND.Y[:, 0] > np.median(SOUND.Y[:, 0])).astype(int)


@dataclass(frozen=True)
class Case:
    """A way to spoil data, and what must happen: an error with a text, a warning, or the same answer."""

    name: str
    spoil: Callable[[Any, Any], Data]
    behaviour: str
    error: type[Exception] | None = None
    says: str = ""
    targets_only: bool = False


def recover(X: Any, Y: Any) -> Any:
    return planted.recover(X, Y, method="complementarity", random_state=0).network(SOUND.X)


def diagnose(X: Any, Y: Any) -> Any:
    diagnosis = planted.diagnose(X, Y, random_state=0)
    return np.array([diagnosis.shape, (*diagnosis.n_hidden, 0)], dtype=float)


def memorize(X: Any, Y: Any) -> Any:
    return planted.memorize(X, Y, bias=True, random_state=0).network(SOUND.X)


def fit_regressor(X: Any, Y: Any) -> Any:
    return planted.TwoLayerRegressor(method="complementarity", random_state=0).fit(X, Y).predict(X)


def fit_memorizing(X: Any, Y: Any) -> Any:
    return planted.MemorizingRegressor(random_state=0).fit(X, Y).predict(X)


def fit_classifier(X: Any, Y: Any) -> Any:
    labels = CLASSES if np.shape(Y)[:1] == (60,) else CLASSES[: len(Y)]
    return planted.MemorizingClassifier(random_state=0).fit(X, labels).decision_function(X)


def partial_fit(X: Any, Y: Any) -> Any:
    model = planted.TwoLayerRegressor(method="complementarity", random_state=0)
    return model.partial_fit(X, Y).predict(SOUND.X)


@cache
def fitted(kind: type) -> Any:
    model = kind(random_state=0)
    return model.fit(SOUND.X, CLASSES if kind is planted.MemorizingClassifier else SOUND.Y)


def predict(X: Any, Y: Any) -> Any:
    return fitted(planted.TwoLayerRegressor).predict(X)


def predict_memorized(X: Any, Y: Any) -> Any:
    return fitted(planted.MemorizingRegressor).predict(X)


def predict_classes(X: Any, Y: Any) -> Any:
    return fitted(planted.MemorizingClassifier).decision_function(X)


def outliers(X: Any, Y: Any) -> Any:
    return planted.outliers(NETWORK, X, Y).limits


def evaluate(X: Any, Y: Any) -> Any:
    return NETWORK(X)


def standard_errors(X: Any, Y: Any) -> Any:
    return planted.standard_errors(NETWORK, X, Y).standard_errors["W"]


ENTRIES: dict[str, Callable[[Any, Any], Any]] = {
    "recover": recover,
    "diagnose": diagnose,
    "memorize": memorize,
    "standard_errors": standard_errors,
    "TwoLayerRegressor.fit": fit_regressor,
    "MemorizingRegressor.fit": fit_memorizing,
    "MemorizingClassifier.fit": fit_classifier,
    "TwoLayerRegressor.partial_fit": partial_fit,
    "outliers": outliers,
    "TwoLayerRegressor.predict": predict,
    "MemorizingRegressor.predict": predict_memorized,
    "MemorizingClassifier.predict": predict_classes,
    "TwoLayerNetwork(X)": evaluate,
}
INPUTS_ONLY = {name for name in ENTRIES if name.endswith(".predict")} | {"TwoLayerNetwork(X)"}
OWN_TARGETS = {"MemorizingClassifier.fit"}  # classes, which have rules of their own


def with_value(values: Any, row: int, column: int, value: Any) -> Any:
    spoiled = values.astype(object if isinstance(value, str) else float)
    spoiled[row, column] = value
    return spoiled


def as_frame(values: Any, **columns: Any) -> Any:
    return pd.DataFrame(values, columns=["a", "b", "c"]).assign(**columns)


def read_only(values: Any) -> Any:
    copy = values.copy()
    copy.flags.writeable = False
    return copy


def mapped(values: Any) -> Any:
    """Return a read-only memory map of a file that goes away with it."""
    with tempfile.TemporaryFile() as file:
        file.write(np.ascontiguousarray(values).tobytes())
        file.flush()
        return np.memmap(file, dtype=values.dtype, mode="r", shape=values.shape)


VALUE, TYPE, SAME = "ValueError", "TypeError", "same answer"
ROW_ONLY, NO_ROWS, LEFT_OUT = "not finite in that row alone", "no rows out", "that label is left out"
CASES = (
    Case("NaN in X", lambda X, Y: (with_value(X, 7, 1, np.nan), Y), VALUE, BadInputError, "row 7, column 1"),
    Case("inf in X", lambda X, Y: (with_value(X, 7, 1, np.inf), Y), VALUE, BadInputError, "row 7, column 1"),
    Case(
        "NaN in Y",
        lambda X, Y: (X, with_value(Y, 9, 0, np.nan)),
        VALUE,
        BadInputError,
        "row 9, column 0",
        True,
    ),
    Case("Y shorter than X", lambda X, Y: (X, Y[:-1]), VALUE, BadInputError, "60 rows but", True),
    Case("X one-dimensional", lambda X, Y: (X[:, 0], Y), VALUE, BadInputError, "2-d array"),
    Case("X three-dimensional", lambda X, Y: (X[None], Y), VALUE, BadInputError, "3-d"),
    Case("no rows", lambda X, Y: (X[:0], Y[:0]), VALUE, BadInputError, r"0 sample\(s\)"),
    Case("no columns", lambda X, Y: (X[:, :0], Y), VALUE, BadInputError, r"0 feature|features"),
    Case(
        "rows of unequal length",
        lambda X, Y: ([[1.0, 2.0], [3.0]], Y[:2]),
        VALUE,
        BadInputError,
        "rectangular",
    ),
    Case("complex", lambda X, Y: (X + 1j, Y), TYPE, BadInputTypeError, "[Cc]omplex"),
    Case("sparse", lambda X, Y: (scipy.sparse.csr_array(X), Y), TYPE, BadInputTypeError, "sparse"),
    Case("digit strings", lambda X, Y: (X.astype(str), Y), TYPE, BadInputTypeError, "digit strings"),
    Case(
        "text among numbers",
        lambda X, Y: (with_value(X, 3, 2, "high"), Y),
        TYPE,
        BadInputTypeError,
        "row 3, column 2",
    ),
    Case("dates", lambda X, Y: (X.astype("datetime64[s]"), Y), TYPE, BadInputTypeError, "datetime64"),
    Case("masked", lambda X, Y: (np.ma.masked_array(X, X > 1), Y), TYPE, BadInputTypeError, "masked array"),
    Case(
        "frame, missing value",
        lambda X, Y: (as_frame(with_value(X, 7, 1, np.nan)), Y),
        VALUE,
        BadInputError,
        "'b'",
    ),
    Case(
        "frame, categorical column",
        lambda X, Y: (as_frame(X, b=pd.Categorical(["u", "v"] * (len(X) // 2))), Y),
        TYPE,
        BadInputTypeError,
        "column 'b'",
    ),
    Case("Fortran order", lambda X, Y: (np.asfortranarray(X), np.asfortranarray(Y)), SAME),
    Case("negative strides", lambda X, Y: (X[::-1].copy()[::-1], Y[::-1].copy()[::-1]), SAME),
    Case(
        "not contiguous", lambda X, Y: (np.repeat(X, 2, axis=1)[:, ::2], np.repeat(Y, 2, axis=0)[::2]), SAME
    ),
    Case("read-only", lambda X, Y: (read_only(X), read_only(Y)), SAME),
    Case("read-only memory map", lambda X, Y: (mapped(X), mapped(Y)), SAME),
    Case("text", lambda X, Y: ("data.csv", Y), TYPE, BadInputTypeError, "of type str"),
    Case("frame of numbers", lambda X, Y: (as_frame(X), Y), SAME),
    Case("nested lists", lambda X, Y: (X.tolist(), Y.tolist()), SAME),
)

# Entry and case whose behaviour is another, with the reason in words.
EXCEPTIONS: dict[tuple[str, str], tuple[str, type[Exception] | None, str]] = {
    # scikit-learn's own checks ask for a ValueError here.
    **{
        (entry, "complex"): (VALUE, ValueError, "Complex data not supported")
        for entry in ENTRIES
        if entry.endswith("fit")
    },
    # A label that is missing is no outlier.
    ("outliers", "NaN in Y"): (LEFT_OUT, None, ""),
    # A network is a function: it computes what it is given, and says what shape it needs.
    **{
        ("TwoLayerNetwork(X)", name): (ROW_ONLY, None, "")
        for name in ("NaN in X", "inf in X", "frame, missing value")
    },
    ("TwoLayerNetwork(X)", "no rows"): (NO_ROWS, None, ""),
    **{
        ("TwoLayerNetwork(X)", name): (VALUE, BadInputError, r"expected \(n, 3\)")
        for name in ("X one-dimensional", "X three-dimensional", "no columns")
    },
}

# Damaged files, made from those of `sound_file`; every command that reads a table ends with exit code 2 and names the file.
FILES: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "truncated archive": (".npz", lambda whole: whole[: len(whole) // 2]),
    "truncated array": (".npy", lambda whole: whole[:-9]),
    "truncated parquet": (".parquet", lambda whole: whole[: len(whole) // 2]),
    "truncated feather": (".feather", lambda whole: whole[: len(whole) // 2]),
    "flipped byte in an archive": (
        ".npz",
        lambda whole: whole[:200] + bytes([whole[200] ^ 16]) + whole[201:],
    ),
    "noise called an array": (".npy", lambda whole: b"\x00" * 500),
    "noise called parquet": (".parquet", lambda whole: b"a,b\n1,2\n" * 20),
    "empty file": (".csv", lambda whole: b""),
    "header without rows": (".csv", lambda whole: b"a,b,y\n"),
    "missing value": (".csv", lambda whole: b"a,b,y\n1,,3\n4,5,6\n"),
    "text in a column": (".csv", lambda whole: b"a,b,y\n1,high,3\n4,5,6\n"),
    "rows of unequal length in text": (".csv", lambda whole: b"a,b,y\n1,2,3\n4,5\n"),
    "array of Python objects": (
        ".npy",
        lambda whole: _saved(np.array([[1.0, "x"], [2.0, "y"]], dtype=object)),
    ),
    "header that claims terabytes": (".npy", lambda whole: _claim((10**9, 10**4)) + b"\0" * 100),
    "archive that expands a thousandfold": (".npz", lambda whole: _bomb()),
    "unknown format": (".xlsx", lambda whole: b"PK"),
}

# Faults, what happens, and the test that makes it happen.
FAULTS = (
    ("Ctrl-C while working", "exit code 130, nothing half written",
     "cli/test_process.py::test_ctrl_c_ends_with_130"),
    ("Ctrl-C in a long run", "a checkpoint is left, exit code 130",
     "pathology/test_scale_interrupts.py::test_the_first_interrupt_leaves_a_checkpoint_and_exits_130"),
    ("Ctrl-C a second time", "ends at once", "pathology/test_faults.py::test_a_second_interrupt_ends_at_once"),
    ("interrupted or killed, then resumed", "the bytes of an uninterrupted run",
     "pathology/test_scale_interrupts.py::test_five_interruptions_cost_time_and_no_byte"),
    ("a checkpoint of other data, parameters or version", "refused, the difference is named",
     "io/state/test_checkpoint.py::test_a_checkpoint_of_something_else_is_refused"),
    ("a damaged checkpoint", "named", "io/state/test_checkpoint.py::test_a_damaged_checkpoint_is_named"),
    ("a worker of a cluster is killed", "recomputed, the same bits",
     "pathology/test_scale_cluster.py::test_a_killed_worker_costs_time_and_no_bit"),
    ("a block that kills or breaks every worker", "an error with the block's number",
     "pathology/test_scale_cluster.py::test_a_poison_block_is_named"),
    ("the scheduler is lost", "one line, exit code 2",
     "pathology/test_scale_cluster.py::test_started_by_hand_and_the_scheduler_lost"),
    ("killed or failed while writing a network", "the old file is intact",
     "io/networks/test_save_load.py::test_a_failed_write_leaves_the_old_file"),
    ("the disk is full", "old files are intact, the run goes on without checkpoints",
     "io/state/test_checkpoint.py::test_a_full_disk_leaves_old_files_and_does_not_stop_the_run"),
    ("no terminal, no home, a folder that cannot be written to", "works",
     "pathology/test_faults.py::test_without_terminal_home_or_writable_folder"),
    ("the reader of a pipe goes away", "no traceback",
     "cli/test_process.py::test_a_pipe_that_closes_early_is_not_a_crash"),
    ("not enough memory for a table", "refused with the number and the alternative",
     "pathology/test_bad_files.py::test_tables_larger_than_memory_are_refused_with_the_number"),
    ("not enough memory for the sums", "refused before anything is read",
     "recovery/test_cost.py::test_sums_that_do_not_fit_are_refused_before_anything_is_read"),
    ("a file may not be read", "named, with the reason", "pathology/test_bad_files.py::test_permission_is_named"),
    ("a column named like markup", "escaped in the report", "reporting/test_report.py::test_html_escapes_every_name"),
    ("a file is cut anywhere", "refused", "pathology/test_bad_files.py::test_truncation_anywhere_is_refused"),
    ("an archive that expands", "refused before it does",
     "pathology/test_bad_files.py::test_zip_bombs_are_refused_before_they_expand"),
    ("an ONNX file whose numbers are in another file", "named and not opened",
     "io/networks/test_exports.py::test_numbers_in_another_file_are_named_and_not_opened"),
    ("a damaged or malicious ONNX file", "a typed error",
     "io/networks/test_exports.py::test_broken_and_malicious_onnx_is_a_file_format_error"),
    ("a fault of planted itself", "exit code 3, one line",
     "cli/test_commands.py::test_errors_are_one_line_and_a_code"),
)  # fmt: skip


def cell(entry: str, case: Case) -> tuple[str, type[Exception] | None, str] | None:
    """Return behaviour, error and its text for an entry and a case; None where the case does not apply."""
    if case.targets_only and entry in INPUTS_ONLY | OWN_TARGETS:
        return None
    return EXCEPTIONS.get((entry, case.name), (case.behaviour, case.error, case.says))


def cells() -> list[tuple[str, Case]]:
    """Return every pair that applies."""
    return [(entry, case) for case in CASES for entry in ENTRIES if cell(entry, case) is not None]


def sound_file(suffix: str) -> bytes:
    """Return the bytes of a sound table."""
    buffer = io.BytesIO()
    if suffix == ".npz":
        np.savez(buffer, X=SOUND.X, Y=SOUND.Y)
    elif suffix == ".npy":
        np.save(buffer, np.hstack([SOUND.X, SOUND.Y]))
    elif suffix in (".parquet", ".feather"):
        import pyarrow
        from pyarrow import feather, parquet

        values = np.hstack([SOUND.X, SOUND.Y])
        table = pyarrow.table({name: values[:, j] for j, name in enumerate("abcuv")})
        (parquet.write_table if suffix == ".parquet" else feather.write_feather)(table, buffer)
    else:
        buffer.write(b"a,b,y\n1,2,3\n4,5,6\n")
    return buffer.getvalue()


def _saved(values: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=True)
    return buffer.getvalue()


def _claim(shape: tuple[int, int]) -> bytes:
    """Return the head of an array that claims a shape."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"shape": shape, "fortran_order": False, "descr": "<f8"})
    return buffer.getvalue()


def _bomb() -> bytes:
    """Return an archive of zeros that deflate shrinks a thousandfold: 256 MB and a row."""
    buffer = io.BytesIO()
    rows = 2**25 + 1
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as members, members.open("X.npy", "w") as member:
        member.write(_claim((rows, 1)))
        for _ in range(8):
            member.write(bytes(rows))
    return buffer.getvalue()
