"""Where to ask a black box, and asking it in batches: count questions, keep limits and the log, check every answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from planted._clock import StopRequested, check_time
from planted._typing import Array
from planted.fitting._run import Scaling
from planted.identification._oracles import Oracle
from planted.networks import TwoLayerNetwork
from planted.networks._deep import Layer
from planted.outcomes import BadInputError, PlantedError

if TYPE_CHECKING:
    from planted.io.state._query_log import QueryLog

__all__ = ["N_REPEATED", "Domain", "OracleError", "QuerySession", "make_domain", "unsaturated_domain"]

N_REPEATED = 8  # questions asked twice, at the start and at the end, to see whether answers change
UNCHANGED = 1e-5  # relative difference of two answers to one question that is put down to rounding
FINITE_LOG_ODDS = 600.0  # beyond, probabilities are zero
LARGEST_LOG_ODDS = 30.0  # of several classes
LARGEST_OF_TWO = 12.0  # of one output: a probability near 1 has lost the digits of its distance from 1
N_SATURATION = 32  # questions in each box that is tried
FARTHEST_POWER = 20  # of two, by which the scale is doubled or halved
KEPT_NUMBERS = 8_000_000  # questions and answers kept in memory for the refinement


@dataclass(frozen=True, slots=True)
class Domain:
    """Units of the search: x = centre + scale z, with z of order one, or within [-1, 1] if there is a box."""

    centre: Array
    scale: Array
    has_box: bool
    is_single: bool
    bounds: tuple[Array, Array] | None = None  # the box as it was given: its centre and its scale are rounded

    def rows(self, Z: Array) -> Array:
        X = self.centre + self.scale * Z
        if not self.has_box:
            return X
        return np.clip(X, *(self.bounds or (self.centre - self.scale, self.centre + self.scale)))

    def snap(self, Z: Array) -> Array:
        """Round to single precision if the oracle does; without a box the scale is a power of two then."""
        return Z.astype(np.float32).astype(np.float64) if self.is_single and not self.has_box else Z

    def restore(self, network: TwoLayerNetwork) -> TwoLayerNetwork:
        """Write a network in the units of the inputs."""
        return Scaling(self.centre, self.scale, np.zeros(network.n_outputs), 1.0).restore(network)

    def restore_layers(self, layers: Sequence[Layer]) -> list[Layer]:
        """Write the layers of a deep network in the units of the inputs."""
        (W, b), *others = layers
        return [(W / self.scale, b - (W / self.scale) @ self.centre), *others]

    def adapt(self, network: TwoLayerNetwork) -> TwoLayerNetwork:
        """Write a network in the units of the search."""
        return TwoLayerNetwork(
            network.W * self.scale, network.b + network.W @ self.centre, network.A, network.c
        )


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
        if not np.isfinite(X).all():  # ours, not the oracle's fault: what is certain so far is still true
            raise StopRequested("the search came to a question that is not finite")
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

    def largest_log_odds(self, X: Array) -> tuple[float, int]:
        """Ask, and return the largest log-odds, infinite for probabilities of zero or one, and how many each answer has."""
        if self.budget is not None and self.queries + len(X) > self.budget:
            raise StopRequested(f"the budget of {self.budget} questions does not allow the next {len(X)}")
        check_time()
        try:
            answers = np.asarray(self.oracle.call(np.array(X)), dtype=np.float64)
        except PlantedError:
            raise
        except Exception as error:  # an oracle is foreign code and may raise anything
            raise OracleError(f"the oracle raised {type(error).__name__}: {error}") from error
        self.queries += len(X)
        return float(np.abs(answers).max(initial=0.0)), answers.shape[-1]

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
            why = ": a probability is 0 or 1; choose a smaller box" if self.oracle.is_log_odds else ""
            if np.isinf(answers[row, output]) and not why:
                why = '; if the answers are log-odds, say outputs="log-odds"'
            raise OracleError(
                f"the oracle answered question {self.queries + row} with {answers[row, output]} in output {output}{why}"
                f"{self.log_note}"
            )
        self.n_outputs = answers.shape[1]
        return answers


def make_domain(d: int, box: tuple[Any, Any] | None, scale: Any, oracle: Oracle) -> Domain:
    """Return the units of the search, from the box or from the size of typical inputs."""
    if box is None:
        sizes: Array = np.broadcast_to(np.asarray(scale, dtype=np.float64), (d,))
        if not (np.isfinite(sizes) & (sizes > 0)).all():
            raise BadInputError(f"scale={scale!r}; expected positive numbers")
        if oracle.is_single:
            sizes = np.exp2(np.round(np.log2(sizes)))
        return Domain(np.zeros(d), np.array(sizes), False, oracle.is_single)
    if len(box) != 2:
        raise BadInputError(f"box has {len(box)} parts; expected (low, high)")
    low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (d,)) for end in box)
    if not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
        raise BadInputError("box: every lower bound must be finite and below its upper bound")
    return Domain((low + high) / 2, (high - low) / 2, True, oracle.is_single, (low, high))


def unsaturated_domain(
    session: QuerySession, domain: Domain, rng: np.random.Generator, *, farthest: int = FARTHEST_POWER
) -> Domain:
    """Choose a box in which probabilities do not come too close to 0 or 1, by asking: the scale is doubled or halved.

    `farthest`: most doublings.
    """
    at_centre, n_outputs = session.largest_log_odds(session.oracle.snap(domain.centre[None]))
    # A softmax keeps the digits of small probabilities: if log-odds are large everywhere, larger ones are taken.
    most = max(LARGEST_LOG_ODDS, min(4 * at_centre, FINITE_LOG_ODDS)) if n_outputs > 1 else LARGEST_OF_TWO

    def is_saturated(power: int) -> bool:
        rows = rng.uniform(-1, 1, (N_SATURATION, session.n_features)) * domain.scale * 2.0**power
        return not session.largest_log_odds(session.oracle.snap(rows))[0] <= most

    if is_saturated(0):
        power = next((p for p in range(-1, -FARTHEST_POWER, -1) if not is_saturated(p)), -FARTHEST_POWER)
    else:
        power = next((p for p in range(farthest) if is_saturated(p + 1)), farthest)
    return replace(domain, scale=domain.scale * 2.0**power, has_box=True)


def _open_log(path: str | PathLike[str], n_features: int, identity: str | None) -> QueryLog:
    from planted.io.state._query_log import QueryLog  # lazy door: io stands above this room

    return QueryLog(path, n_features, oracle=identity)
