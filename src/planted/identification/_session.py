"""Asking a black box: batches, budget, log, and what to do when it misbehaves."""

from __future__ import annotations

from os import PathLike

import numpy as np

from planted._typing import Array
from planted.identification._oracles import Oracle
from planted.io.state._query_log import QueryLog
from planted.outcomes import PlantedError

__all__ = ["BudgetSpentError", "OracleError", "QuerySession"]

UNCHANGED = 1e-5  # relative difference of two answers to one question that is put down to rounding
KEPT_NUMBERS = 8_000_000  # questions and answers kept in memory for the refinement


class OracleError(PlantedError, RuntimeError):
    """The black box raised, gave an answer that is none, or changed its mind."""


class BudgetSpentError(PlantedError, RuntimeError):
    """The next batch would exceed the budget."""


class QuerySession:
    """Questions to one black box, counted and checked.

    `log`: file that keeps questions and answers; answers it already holds are used again.
    """

    def __init__(
        self,
        oracle: Oracle,
        n_features: int,
        *,
        budget: int | None,
        batch_rows: int,
        log: str | PathLike[str] | None,
    ) -> None:
        self.oracle = oracle
        self.n_features = n_features
        self.budget = budget
        self.batch_rows = batch_rows
        self.log = None if log is None else QueryLog(log, n_features)
        self.queries = 0
        self.reused = 0
        self.n_outputs: int | None = None
        self.kept: list[tuple[Array, Array]] = []

    def ask(self, X: Array, *, fresh: bool = False) -> Array:
        """Return the answers to questions, in order.

        Shapes: X (n, d), result (n, m).
        """
        parts = [
            self._ask_batch(X[i : i + self.batch_rows], fresh) for i in range(0, len(X), self.batch_rows)
        ]
        answers = np.concatenate(parts)
        if sum(rows.size + values.size for rows, values in self.kept) < KEPT_NUMBERS:
            self.kept.append((X, answers))
        return answers

    def check_unchanged(self, X: Array, Y: Array) -> None:
        """Ask questions again and raise if the answers differ by more than rounding.

        Shapes: X (n, d), Y (n, m).
        """
        again = self.ask(X, fresh=True)
        scale = np.abs(Y).max(axis=0)
        gap = np.abs(again - Y) / np.where(scale > 0, scale, 1.0)
        if gap.max() > UNCHANGED:
            raise OracleError(
                f"the oracle changes its answers: the same question gave answers {gap.max():.2g} of their size apart. "
                "If it is noisy, set repeats to a number above 1." + self._kept_where()
            )

    def _ask_batch(self, X: Array, fresh: bool) -> Array:
        """Take from the log what it knows and ask the rest."""
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
        """Call the oracle once and check what it says."""
        if self.budget is not None and self.queries + len(X) > self.budget:
            raise BudgetSpentError(
                f"the budget of {self.budget} questions does not allow the next {len(X)}; {self.queries} were asked."
                + self._kept_where()
            )
        try:
            raw = self.oracle.call(np.array(X))
        except PlantedError:
            raise
        except Exception as error:
            raise OracleError(
                f"the oracle raised {type(error).__name__} after {self.queries} answers: {error}"
                + self._kept_where()
            ) from error
        answers = self._checked(raw, len(X))
        self.queries += len(X)
        return answers

    def _checked(self, raw: object, count: int) -> Array:
        try:
            answers = np.asarray(raw, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise OracleError(f"the oracle answered with no numbers: {error}" + self._kept_where()) from error
        if answers.ndim == 1:
            answers = answers.reshape(-1, 1)
        wanted = (
            count,
            self.n_outputs if self.n_outputs is not None else answers.shape[-1] if answers.ndim else 0,
        )
        if answers.ndim != 2 or answers.shape != wanted or answers.shape[1] == 0:
            raise OracleError(
                f"the oracle answered {count} questions with an array of shape {answers.shape}; expected "
                f"({count}, {self.n_outputs or 'm'})" + self._kept_where()
            )
        if not np.isfinite(answers).all():
            row, output = (int(i) for i in np.argwhere(~np.isfinite(answers))[0])
            raise OracleError(
                f"the oracle answered question {self.queries + row} with {answers[row, output]} in output {output}"
                + self._kept_where()
            )
        self.n_outputs = answers.shape[1]
        return answers

    def _kept_where(self) -> str:
        return "" if self.log is None else f" The {len(self.log)} answers so far are in {self.log.path}."
