"""Ask a black box in batches: count the questions, keep the limits and the log, and check every answer."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from planted._clock import StopRequested, check_time
from planted._typing import Array
from planted.identification._oracles import Oracle
from planted.outcomes import PlantedError

if TYPE_CHECKING:
    from planted.io.state._query_log import QueryLog

__all__ = ["OracleError", "QuerySession"]

UNCHANGED = 1e-5  # relative difference of two answers to one question that is put down to rounding
KEPT_NUMBERS = 8_000_000  # questions and answers kept in memory for the refinement


class OracleError(PlantedError, RuntimeError):
    """The black box raised an exception, gave an invalid answer, or answered the same question differently."""


class QuerySession:
    """Questions to one black box, counted and checked.

    `log`: file that keeps questions and answers; answers it already holds are used again. `StopRequested` ends the
    session when the next batch would exceed the budget of questions, and when the time budget is used up.
    """

    def __init__(
        self,
        oracle: Oracle,
        n_features: int,
        *,
        budget: int | None = None,
        batch_rows: int = 4096,
        log: str | PathLike[str] | None = None,
    ) -> None:
        self.oracle = oracle
        self.n_features = n_features
        self.budget = budget
        self.batch_rows = batch_rows
        self.log = None if log is None else _open_log(log, n_features, oracle.identity)
        self.queries = 0
        self.reused = 0
        self.n_outputs: int | None = None
        self.unrepeatable = 0.0  # largest difference of two answers to one question, relative to the answers
        self.kept: list[tuple[Array, Array]] = []

    def ask(self, X: Array, *, fresh: bool = False) -> Array:
        """Return the answers to questions, in order; `fresh` asks even what the log knows.

        Shapes: X (n, d), result (n, m).
        """
        parts = [
            self._ask_batch(X[i : i + self.batch_rows], fresh) for i in range(0, len(X), self.batch_rows)
        ]
        answers = np.concatenate(parts)
        if sum(rows.size + values.size for rows, values in self.kept) < KEPT_NUMBERS:
            self.kept.append((X, answers))
        return answers

    def check_unchanged(self, X: Array, Y: Array, *, batches: int = 1) -> None:
        """Ask questions again and raise if the answers differ by more than rounding.

        In several `batches`, answers that depend on the other rows of a batch differ too. Shapes: X (n, d), Y (n, m).
        """
        again = np.concatenate([self.ask(part, fresh=True) for part in np.array_split(X, batches)])
        scale = np.abs(Y).max(axis=0)
        gap = np.abs(again - Y) / np.where(scale > 0, scale, 1.0)
        self.unrepeatable = max(self.unrepeatable, float(gap.max()))
        if gap.max() > UNCHANGED:
            raise OracleError(
                f"the oracle changes its answers: the same question gave answers {gap.max():.2g} of their size apart. "
                "If it is noisy, set repeats to a number above 1; if the answer to one row depends on the others, ask one "
                f"at a time with batch_rows=1.{self.log_note}"
            )

    @property
    def log_note(self) -> str:
        """A sentence that says where the answers so far are kept; empty if there is no log."""
        return "" if self.log is None else f" The {len(self.log)} answers so far are in {self.log.path}."

    def _ask_batch(self, X: Array, fresh: bool) -> Array:
        """Take from the log what it knows and ask the rest."""
        check_time()
        known = [None if self.log is None or fresh else self.log.find(row) for row in X]
        unknown = np.array([answer is None for answer in known], dtype=np.bool_)
        if not unknown.any():
            self.reused += len(X)
            return np.stack([answer for answer in known if answer is not None])
        asked = self._call(X[unknown])
        if self.log is not None:
            self.log.append(X[unknown], asked)
        answers = np.empty((len(X), asked.shape[1]))
        answers[unknown] = asked
        for index in np.flatnonzero(~unknown):
            answers[index] = known[index]
        self.reused += int((~unknown).sum())
        return answers

    def _call(self, X: Array) -> Array:
        """Call the oracle once and check its answers."""
        if self.budget is not None and self.queries + len(X) > self.budget:
            raise StopRequested(f"the budget of {self.budget} questions does not allow the next {len(X)}")
        try:
            raw = self.oracle.call(np.array(X))
        except (PlantedError, StopRequested):
            raise
        except Exception as error:  # an oracle is foreign code and may raise anything
            raise OracleError(
                f"the oracle raised {type(error).__name__} after {self.queries} answers: {error}{self.log_note}"
            ) from error
        answers = self._checked(raw, len(X))
        self.queries += len(X)
        return answers

    def _checked(self, raw: object, count: int) -> Array:
        """Return answers as an array (count, m); raise if they are not numbers, not of this shape or not finite."""
        try:
            answers = np.asarray(raw, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise OracleError(f"the oracle answered with no numbers: {error}{self.log_note}") from error
        if answers.ndim == 1:
            answers = answers.reshape(-1, 1)
        is_table = answers.ndim == 2 and len(answers) == count and answers.shape[1] > 0
        if not is_table or self.n_outputs not in (None, answers.shape[1]):
            raise OracleError(
                f"the oracle answered {count} questions with an array of shape {answers.shape}; expected "
                f"({count}, {self.n_outputs or 'm'}){self.log_note}"
            )
        if not np.isfinite(answers).all():
            row, output = (int(i) for i in np.argwhere(~np.isfinite(answers))[0])
            raise OracleError(
                f"the oracle answered question {self.queries + row} with {answers[row, output]} in output {output}"
                f"{self.log_note}"
            )
        self.n_outputs = answers.shape[1]
        return answers


def _open_log(path: str | PathLike[str], n_features: int, identity: str | None) -> QueryLog:
    from planted.io.state._query_log import QueryLog  # lazy door: io stands above this room

    return QueryLog(path, n_features, oracle=identity)
