"""Make an `Oracle` of functions, PyTorch modules, ONNX files, scikit-learn models and commands.

An oracle is a function from rows to answers, with the precision in which it takes its inputs. Only the answers are used;
weights that happen to be accessible are not read.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any

import numpy as np

from planted._typing import Array
from planted.outcomes import BadInputError, BadInputTypeError, FileFormatError

__all__ = ["Oracle", "as_oracle", "live_command", "log_odds"]

COMMAND_SECONDS = 60.0  # for one batch of questions; of silence, for a command that is kept running
LONGEST_TIMEOUT = 1e6  # seconds; Python's locks take no more than a few times that
LAST_SECONDS = 2.0  # for a command that was kept running to end by itself
LINE_BYTES, ANSWER_BYTES = 100_000, 1 << 28  # that a command may answer to a question, and in all
LONGEST_COMMAND = 1000  # characters of a command line that a log keeps as they are
KINDS = ("probabilities", "log-odds", "logits")  # what answers may be
WHOLE = 1e-4  # by which the probabilities of all classes may differ from one in sum


@dataclass(frozen=True, slots=True)
class Oracle:
    """A black box that can be asked."""

    # Takes rows of shape (n, d), float64, and returns answers of shape (n, m) or (n,).
    call: Callable[[Array], Any]
    n_features: int | None  # number of inputs, if the object tells
    is_single: bool  # whether inputs are rounded to single precision
    name: str  # what it is, for the record
    # What answers, so that a log of another black box is refused: a command line, or the hash of a file. None if unknown.
    identity: str | None = None
    is_log_odds: bool = False  # whether answers are log-odds, infinite where probabilities are 0 or 1

    def snap(self, X: Array) -> Array:
        """Round numbers to single precision if the black box does."""
        return X.astype(np.float32).astype(np.float64) if self.is_single else X


def as_oracle(source: Any, *, outputs: str = "auto", timeout: float = COMMAND_SECONDS) -> Oracle:
    """Make an oracle of something that can be asked.

    Parameters
    ----------
    source : callable, torch.nn.Module, path of an ONNX file, fitted regressor or classifier, list of str, or Oracle
        What is to be asked. A list of str is a command that reads rows as CSV without header and writes answers in the
        same form.
    outputs : str, default="auto"
        "probabilities" if the answers are probabilities: they are turned into log-odds. "log-odds" if they are log-odds,
        infinite where a probability is 0 or 1. "logits" if neither. "auto" asks classifiers for probabilities, or for
        their decision function. For an ONNX file also the name of the output, which may be omitted if there is only one.
    timeout : float, default=60
        Seconds that a command may take to answer one batch of questions.

    Returns
    -------
    Oracle
        A function from rows of shape (n, d) to answers, and what is known about it.

    Examples
    --------
    >>> as_oracle(lambda X: X.sum(axis=1)).call(np.ones((2, 3)))
    array([3., 3.])
    """
    if isinstance(source, Oracle):
        return source
    is_file = isinstance(source, str | PathLike)
    if outputs not in ("auto", *KINDS) and not is_file:
        kinds = ", ".join(("auto", *KINDS))
        raise BadInputError(f"outputs={outputs!r} names an output of an ONNX file; else: {kinds}")
    if outputs in ("auto", "probabilities") and hasattr(source, "predict_proba"):
        features = getattr(source, "n_features_in_", None)
        return _of_log_odds(Oracle(source.predict_proba, features, False, type(source).__name__))
    made = _asked_as_it_is(source, outputs, is_file=is_file, timeout=timeout)
    is_odds = outputs == "log-odds"
    return _of_log_odds(made) if outputs == "probabilities" else replace(made, is_log_odds=is_odds)


def _asked_as_it_is(source: Any, outputs: str, *, is_file: bool, timeout: float) -> Oracle:
    """Make an oracle whose answers are taken as they are."""
    if is_file:
        if Path(source).suffix.lower() != ".onnx":
            raise BadInputError(
                f"{os.fspath(source)} is not an .onnx file; give a command as a list of words"
            )
        return _onnx_oracle(source, outputs)
    if isinstance(source, Sequence):
        return _command_oracle(source, timeout)
    if _is_torch_module(source):
        return _torch_oracle(source)
    if hasattr(source, "decision_function"):
        features = getattr(source, "n_features_in_", None)
        return Oracle(source.decision_function, features, False, type(source).__name__)
    if hasattr(source, "predict"):
        return Oracle(source.predict, getattr(source, "n_features_in_", None), False, type(source).__name__)
    if callable(source):
        features = getattr(source, "n_features", None)
        return Oracle(source, features if isinstance(features, int) else None, False, type(source).__name__)
    raise BadInputTypeError(
        f"an oracle of type {type(source).__name__} cannot be asked; expected a function, a PyTorch module, the path of "
        "an ONNX file, a fitted regressor or a command as a list of words"
    )


def _of_log_odds(oracle: Oracle) -> Oracle:
    """An oracle that answers with the log-odds of the probabilities that another one gives."""
    identity = None if oracle.identity is None else f"{oracle.identity}, log-odds"
    call = oracle.call
    return replace(oracle, call=lambda X: log_odds(call(X)), identity=identity, is_log_odds=True)


def log_odds(answers: Any) -> Array:
    """Turn probabilities into log-odds: of each class against the last, or of each output if they do not sum to one.

    Probabilities of zero or one give infinite numbers. Shapes: (n, m) to (n, m - 1), or to (n, m).

    Examples
    --------
    >>> log_odds([[0.5, 0.25, 0.25]]).round(6).tolist()
    [[0.693147, 0.0]]
    >>> log_odds([0.5, 1.0]).tolist()
    [[0.0], [inf]]
    """
    P = np.asarray(answers, dtype=np.float64)
    P = P.reshape(-1, 1) if P.ndim == 1 else P
    if P.ndim != 2 or not ((P >= 0) & (P <= 1 + WHOLE)).all():
        raise BadInputError("outputs: the answers are no probabilities, they are not between 0 and 1")
    with np.errstate(divide="ignore", invalid="ignore"):
        if P.shape[1] > 1 and (np.abs(P.sum(axis=1) - 1) <= WHOLE).all():
            logs = np.log(P)
            odds = logs[:, :-1] - logs[:, -1:]
            return np.where(np.isnan(odds), np.inf, odds)
        P = np.minimum(P, 1.0)
        return np.asarray(np.log(P) - np.log1p(-P))


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


def _onnx_oracle(path: str | PathLike[str], output: str) -> Oracle:
    """Ask one output of a model in an ONNX file with onnxruntime."""
    from planted.io.networks._onnx_models import (
        check_answers,
        read_onnx_model,
        rows_at_once,
    )  # lazy door: io stands above this room

    model = read_onnx_model(path)
    rows_at_once(model, path)  # a model that would take all memory is not loaded
    session = _open_onnx(model, path)
    inputs = session.get_inputs()
    asked = _asked_output([item.name for item in session.get_outputs()], output, path)
    kinds = ("tensor(float)", "tensor(double)")
    if len(inputs) != 1 or len(inputs[0].shape) != 2 or inputs[0].type not in kinds:
        given = ", ".join(f"{item.type} {item.shape}" for item in inputs)
        raise FileFormatError(
            f"{os.fspath(path)}: its inputs are {given or 'none'}; expected one of shape (rows, features), float or double"
        )
    is_single = inputs[0].type == "tensor(float)"
    rows, features = inputs[0].shape
    fixed = rows if isinstance(rows, int) and rows > 0 else None
    steps: dict[int, int] = {}  # rows at once, for inputs of each width

    def call(X: Array) -> Array:
        cast = X.astype(np.float32 if is_single else np.float64)
        run = [asked]
        width = X.shape[1]
        if width not in steps:
            steps[width] = fixed or rows_at_once(model, path, width)
        step = steps[width]
        if fixed is None and len(cast) <= step:
            return np.asarray(session.run(run, {inputs[0].name: cast})[0])
        missing = -len(cast) % step if fixed is not None else 0
        padded = np.concatenate([cast, np.repeat(cast[-1:], missing, axis=0)])
        parts: list[Any] = []
        for i in range(0, len(padded), step):
            parts.append(session.run(run, {inputs[0].name: padded[i : i + step]})[0])
            if i == 0:
                check_answers(np.size(parts[0]) * (len(padded) // step), path)
        return np.concatenate(parts)[: len(X)]

    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    identity = f"ONNX file with SHA-256 {digest}, output {asked!r:.200}"
    known = features if isinstance(features, int) else None
    return Oracle(call, known, is_single, Path(path).name, identity)


def _asked_output(names: list[str], output: str, path: str | PathLike[str]) -> str:
    """The output that is meant: the only one, or the one that was named."""
    known = ", ".join(f"{name!r:.60}" for name in names[:20])
    if output in KINDS and output not in names:
        output = "auto"
    if output == "auto" and len(names) != 1:
        raise BadInputError(
            f"{os.fspath(path)} has {len(names)} outputs: {known}; name the one to ask with outputs=NAME (--outputs NAME)"
        )
    if output != "auto" and output not in names:
        raise BadInputError(f"{os.fspath(path)} has no output {output!r:.60}; its outputs are {known}")
    return names[0] if output == "auto" else output


def _open_onnx(model: Any, path: str | PathLike[str]) -> Any:
    """Load a model into onnxruntime, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), sess_options=options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime has one class for each of its error codes and no common base
        raise FileFormatError(f"{os.fspath(path)}: onnxruntime cannot load it: {error}") from error


def _command_oracle(words: Sequence[Any], timeout: float) -> Oracle:
    """Ask a command, started once per batch without a shell: CSV in, CSV out."""
    command = _checked_command(words, timeout)

    def call(X: Array) -> Array:
        text = "".join(",".join(map(repr, row)) + "\n" for row in X.tolist())
        try:
            most = min(LINE_BYTES * (len(X) + 10), ANSWER_BYTES)
            code, answers, said = _run_limited(command, text, most, timeout)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(
                f"the command {command[0]!r} did not answer {len(X)} questions within {timeout:g} seconds and was ended. It "
                "must read rows until its input ends, write the answers and end; one that takes longer needs a longer "
                "timeout (--timeout SECONDS)"
            ) from error
        except OSError as error:
            raise RuntimeError(f"the command {command[0]!r} did not answer: {error}") from error
        if code != 0:
            last = (said.decode(errors="replace").strip().splitlines() or ["it printed nothing"])[-1]
            raise RuntimeError(
                f"the command {command[0]!r} ended with code {code}: {last[-LONGEST_COMMAND:]}"
            )
        return _parse_answers(answers.decode())

    return Oracle(call, None, False, Path(command[0]).name, _identity_of(command))


def _checked_command(words: Sequence[Any], timeout: float) -> list[str]:
    """Return the words of a command; refuse an empty one, and a time in which nothing can be answered."""
    if not words:
        raise BadInputError("the command is empty; expected a program and its arguments")
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not 0 < timeout <= LONGEST_TIMEOUT:
        raise BadInputError(
            f"timeout={timeout!r}; expected seconds, above 0 and at most {LONGEST_TIMEOUT:,.0f}"
        )
    return [os.fspath(word) for word in words]


def _identity_of(command: list[str]) -> str:
    """Name a command line for a log; a long one by its hash."""
    line = json.dumps(command)
    if len(line) > LONGEST_COMMAND:
        line = f"{line[:LONGEST_COMMAND]}... with SHA-256 {hashlib.sha256(line.encode()).hexdigest()}"
    return f"command {line}"


@contextmanager
def live_command(words: Sequence[Any], *, timeout: float = COMMAND_SECONDS) -> Iterator[Oracle]:
    """Start a command once and ask it line by line, until the block ends.

    The protocol: a line in is a question, its numbers separated by commas; a line out is the answer to it, in the same form
    and order. There is no header. The command must answer each line when it has read it (Python's output is not buffered
    here; `stdbuf -oL` helps other programs), and it ends when its input ends. One that is silent for `timeout`
    seconds is ended, and one that answers without being asked is refused.
    """
    command = _checked_command(words, timeout)
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
        except OSError as error:
            raise BadInputError(f"the command {command[0]!r} cannot be started: {error}") from error

        def call(X: Array) -> Array:
            return _ask_lines(process, X, command[0], said, timeout)

        try:
            yield Oracle(call, None, False, Path(command[0]).name, _identity_of(command))
        finally:
            _end(process)


def _ask_lines(
    process: subprocess.Popen[bytes], X: Array, name: str, said: IO[bytes], timeout: float
) -> Array:
    """Write a line for each row and read a line for each; a thread writes, so that neither side waits for the other."""
    assert process.stdin is not None and process.stdout is not None
    questions = "".join(",".join(map(repr, row)) + "\n" for row in X.tolist()).encode()
    writer = Thread(target=_write_all, args=(process.stdin, questions), daemon=True)
    answers: list[bytes] = []
    finished, silent = Event(), Event()

    def watch() -> None:
        known = 0
        while not finished.wait(timeout):
            if len(answers) == known:
                silent.set()
                _kill(process)
                return
            known = len(answers)

    Thread(target=watch, daemon=True).start()
    writer.start()
    try:
        for _ in range(len(X)):
            line = process.stdout.readline(LINE_BYTES + 1)
            if not line.endswith(b"\n"):
                what = f"wrote a line of more than {LINE_BYTES:,} bytes" if line else "ended"
                what = f"was silent for {timeout:g} seconds" if silent.is_set() else what
                said.seek(0)
                words = said.read(ANSWER_BYTES).decode(errors="replace").strip().splitlines()
                last = words[-1][-LONGEST_COMMAND:] if words else "it printed nothing"
                longer = "; --timeout SECONDS waits longer" if silent.is_set() else ""
                raise RuntimeError(
                    f"the command {name!r} {what} after {len(answers)} answers of {len(X)} ({last}); it must answer "
                    f"each line as it is read, until its input ends{longer}"
                )
            answers.append(line)
        _refuse_unasked(process, name)
    except BaseException:
        _kill(process)  # it may never read what the writer still has to say
        raise
    finally:
        finished.set()
    writer.join()
    return _parse_answers(b"".join(answers).decode())


def _refuse_unasked(process: subprocess.Popen[bytes], name: str) -> None:
    """Refuse a command whose answers are not answers: it wrote more lines than it was asked, or did not read what was asked.

    Called when a line was read for each question. Whoever has answered the last question has read it, but for its newline,
    and waits for another one.
    """
    if sys.platform == "win32":
        return
    import fcntl
    import termios

    assert process.stdin is not None and process.stdout is not None
    waiting = fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4))
    n_unread = int.from_bytes(waiting, sys.byteorder)
    os.set_blocking(process.stdout.fileno(), False)
    try:
        more = process.stdout.peek(1)  # type: ignore[attr-defined]  # a buffered reader
    finally:
        os.set_blocking(process.stdout.fileno(), True)
    if n_unread > 1 or more:
        what = (
            "wrote more lines than it was asked questions"
            if more
            else "answered questions that it had not read"
        )
        raise RuntimeError(f"the command {name!r} {what}; it must write one line for each line that it reads")


def _write_all(pipe: IO[bytes], text: bytes) -> None:
    """Write questions; whoever reads the answers notices that the command is gone."""
    try:
        pipe.write(text)
        pipe.flush()
    except (BrokenPipeError, ValueError):
        return


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close the input of a command, which ends it, and end it ourselves if it does not."""
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.close()
        process.wait(LAST_SECONDS)
    except (BrokenPipeError, subprocess.TimeoutExpired):
        _kill(process)
        process.wait()
    finally:
        process.stdout.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a command and the programs it started, which have its session to themselves."""
    if sys.platform == "win32":
        process.kill()
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _run_limited(command: list[str], text: str, most: int, timeout: float) -> tuple[int, bytes, bytes]:
    """Run a command; return its code, what it answered and what it said. One that answers or says more is ended."""
    with tempfile.TemporaryFile() as questions:
        questions.write(text.encode())
        questions.seek(0)
        with subprocess.Popen(
            command, stdin=questions, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        ) as process:
            assert process.stdout is not None and process.stderr is not None
            heard: list[bytearray] = [bytearray(), bytearray()]

            def listen(pipe: IO[bytes], words: bytearray) -> None:
                while len(words) <= most and (piece := os.read(pipe.fileno(), 1 << 16)):
                    words += piece
                if len(words) > most:
                    _kill(process)

            pairs = zip((process.stdout, process.stderr), heard, strict=True)
            listeners = [Thread(target=listen, args=pair, daemon=True) for pair in pairs]
            try:
                for listener in listeners:
                    listener.start()
                code = process.wait(timeout)
                for listener in listeners:
                    listener.join(timeout)
            except BaseException:
                _kill(process)
                raise
    if max(map(len, heard)) > most:
        raise OSError(f"it wrote more than {most:,} bytes")
    return code, bytes(heard[0]), bytes(heard[1])


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
