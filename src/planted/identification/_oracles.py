"""Make an `Oracle` of functions, PyTorch modules, ONNX files, scikit-learn models and commands.

An oracle is a function from rows to answers, with the precision in which it takes its inputs. Only the answers are used;
weights that happen to be accessible are not read.
"""

from __future__ import annotations

import csv
import io
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from planted._typing import Array
from planted.outcomes import BadInputError, BadInputTypeError, FileFormatError

__all__ = ["Oracle", "as_oracle"]

COMMAND_SECONDS = 600.0  # for one batch of questions


@dataclass(frozen=True, slots=True)
class Oracle:
    """A black box that can be asked."""

    # Takes rows of shape (n, d), float64, and returns answers of shape (n, m) or (n,).
    call: Callable[[Array], Any]
    n_features: int | None  # number of inputs, if the object tells
    is_single: bool  # whether inputs are rounded to single precision
    name: str  # what it is, for the record

    def snap(self, X: Array) -> Array:
        """Round numbers to single precision if the black box does."""
        return X.astype(np.float32).astype(np.float64) if self.is_single else X


def as_oracle(source: Any) -> Oracle:
    """Make an oracle of something that can be asked.

    Parameters
    ----------
    source : callable, torch.nn.Module, path of an ONNX file, fitted regressor, or list of str
        What is to be asked. A list of str is a command that reads rows as CSV without header and writes answers in the
        same form.

    Returns
    -------
    Oracle
        A function from rows of shape (n, d) to answers, and what is known about it.

    Examples
    --------
    >>> as_oracle(lambda X: X.sum(axis=1)).call(np.ones((2, 3)))
    array([3., 3.])
    """
    if isinstance(source, str | PathLike):
        if Path(source).suffix.lower() != ".onnx":
            raise BadInputError(
                f"{os.fspath(source)} is not an .onnx file; give a command as a list of words"
            )
        return _onnx_oracle(source)
    if isinstance(source, Sequence):
        return _command_oracle(source)
    if _is_torch_module(source):
        return _torch_oracle(source)
    if hasattr(source, "predict"):
        return Oracle(source.predict, getattr(source, "n_features_in_", None), False, type(source).__name__)
    if callable(source):
        features = getattr(source, "n_features", None)
        return Oracle(source, features if isinstance(features, int) else None, False, type(source).__name__)
    raise BadInputTypeError(
        f"an oracle of type {type(source).__name__} cannot be asked; expected a function, a PyTorch module, the path of "
        "an ONNX file, a fitted regressor or a command as a list of words"
    )


def _is_torch_module(source: Any) -> bool:
    """Whether this is a PyTorch module; PyTorch itself is not imported."""
    return any(base.__module__ == "torch.nn.modules.module" for base in type(source).__mro__)


def _torch_oracle(module: Any) -> Oracle:
    """Ask a PyTorch module in evaluation mode and without gradients."""
    import torch

    first = next(iter(module.parameters()), None)
    dtype = torch.float32 if first is None else first.dtype
    device = "cpu" if first is None else first.device

    def call(X: Array) -> Array:
        was_training = module.training
        module.eval()
        try:
            with torch.no_grad():
                return np.asarray(
                    module(torch.as_tensor(X, dtype=dtype, device=device)).cpu().double().numpy()
                )
        finally:
            module.train(was_training)

    linear = next((layer for layer in module.modules() if isinstance(layer, torch.nn.Linear)), None)
    features = None if linear is None else int(linear.in_features)
    return Oracle(call, features, dtype != torch.float64, type(module).__name__)


def _onnx_oracle(path: str | PathLike[str]) -> Oracle:
    """Ask a model in an ONNX file with onnxruntime."""
    session = _open_onnx(path)
    inputs, outputs = session.get_inputs(), session.get_outputs()
    kinds = ("tensor(float)", "tensor(double)")
    if len(inputs) != 1 or len(inputs[0].shape) != 2 or inputs[0].type not in kinds:
        given = ", ".join(f"{item.type} {item.shape}" for item in inputs)
        raise FileFormatError(
            f"{os.fspath(path)}: its inputs are {given or 'none'}; expected one of shape (rows, features), float or double"
        )
    is_single = inputs[0].type == "tensor(float)"
    rows, features = inputs[0].shape
    step = rows if isinstance(rows, int) and rows > 0 else None

    def call(X: Array) -> Array:
        cast = X.astype(np.float32 if is_single else np.float64)
        run = [outputs[0].name]
        if step is None:
            return np.asarray(session.run(run, {inputs[0].name: cast})[0])
        padded = np.concatenate([cast, np.repeat(cast[-1:], -len(cast) % step, axis=0)])
        parts = [
            session.run(run, {inputs[0].name: padded[i : i + step]})[0] for i in range(0, len(padded), step)
        ]
        return np.concatenate(parts)[: len(X)]

    return Oracle(call, features if isinstance(features, int) else None, is_single, Path(path).name)


def _open_onnx(path: str | PathLike[str]) -> Any:
    """Load a model into onnxruntime, on one thread."""
    import onnxruntime

    from planted.io.networks._onnx_models import read_onnx_model  # lazy door: io stands above this room

    model = read_onnx_model(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), sess_options=options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime has one class for each of its error codes and no common base
        raise FileFormatError(f"{os.fspath(path)}: onnxruntime cannot load it: {error}") from error


def _command_oracle(words: Sequence[Any]) -> Oracle:
    """Ask a command, started once per batch without a shell: CSV in, CSV out."""
    command = [os.fspath(word) for word in words]
    if not command:
        raise BadInputError("the command is empty; expected a program and its arguments")

    def call(X: Array) -> Array:
        text = "".join(",".join(map(repr, row)) + "\n" for row in X.tolist())
        try:
            done = subprocess.run(
                command, input=text, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RuntimeError(f"the command {command[0]!r} did not answer: {error}") from error
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            raise RuntimeError(f"the command {command[0]!r} ended with code {done.returncode}: {last}")
        return _parse_answers(done.stdout)

    return Oracle(call, None, False, Path(command[0]).name)


def _parse_answers(text: str) -> Array:
    """Read rows of numbers; a first line of other cells is a header."""
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    if rows and not _are_numbers(rows[0]):
        rows = rows[1:]
    try:
        return np.array([[float(cell) for cell in row] for row in rows])
    except ValueError as error:
        raise RuntimeError(
            f"the command answered with something other than rows of numbers: {error}"
        ) from error


def _are_numbers(cells: list[str]) -> bool:
    """Whether every cell is a number."""
    try:
        [float(cell) for cell in cells]
    except ValueError:
        return False
    return True
