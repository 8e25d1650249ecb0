"""The state of a search for kinks: its rows, the attempts so far, and the record made from a verdict.

A search is used by `_restarts`, which makes the attempts, and by `_kink_verdict`, which takes one to its verdict. It
is told of every attempt, so that it can count those that end at a known score and can return the best one when the
search is stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from planted.checks import Check
from planted.fitting._run import MethodRun, Problem
from planted.fitting.multistart._absolute_form import KinkFit
from planted.fitting.multistart._attempts import Attempt
from planted.fitting.multistart._orient_units import orient_noisily
from planted.fitting.multistart._rows import SearchRows
from planted.fitting.multistart._width_path import WidthPath
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Unavailable, Verdict
from planted.rows import RowWeights

__all__ = ["SAME_SCORE", "KinkSearch"]

SAME_SCORE = 1e-3  # relative difference of held-out scores at which two attempts ended at the same network


@dataclass(slots=True)
class KinkSearch:
    """Attempts at the kinks of a network, and the best so far."""

    run: MethodRun  # the run of the method that searches
    rows: SearchRows  # the rows in memory, split
    n_hidden: int | str  # what is looked for
    offset: bool | str  # whether c is free; "auto" keeps it when it is needed
    loss: str = "squared"  # the loss of the fits, or "auto"
    affine: bool | str = (
        False  # whether there is a linear part; "auto" keeps it when no orientation explains it
    )
    weights: RowWeights | None = None  # weights of all rows, mean one
    patience: int = 3  # further attempts that end no better before a doubtful answer is returned
    scores: list[float] = field(default_factory=list)  # held-out mean squares of the attempts
    waiting: list[Attempt] = field(default_factory=list)  # attempts to be judged before new ones are made
    best: Attempt | None = None  # the best attempt
    path: WidthPath | None = None  # how the number of units was chosen
    start: Callable[[int], Attempt | None] | None = None  # a first attempt at so many units, from elsewhere
    uniqueness: tuple[Evidence, ...] = ()  # lines of the method's own uniqueness theorem

    @property
    def problem(self) -> Problem:
        """The standardised problem."""
        return self.run.problem

    def widened(self, n_hidden: int | str) -> KinkSearch:
        """Return a new search on the same rows for a given number of units."""
        return replace(self, n_hidden=n_hidden, scores=[], waiting=[], best=None)

    def keep(self, fit: KinkFit, score: float) -> None:
        """Remember a fit of the search for a width, in case there is no time for more."""
        if self.best is None or score < self.best.score:
            self.best = Attempt(fit, score, False, 0, False, score)

    def note(self, attempt: Attempt) -> bool:
        """Remember an attempt; return whether an earlier one ended at the same held-out score."""
        is_repeated = any(abs(attempt.score - other) <= SAME_SCORE * attempt.score for other in self.scores)
        self.run.trace.append(attempt.record)
        self.scores.append(attempt.score)
        if self.best is None or attempt.score < self.best.score:
            self.best = attempt
        return is_repeated

    def record(self, network: TwoLayerNetwork | None, verdict: Verdict) -> Recovery:
        """Make the record of a verdict."""
        trace, scores = self.run.trace, {}
        if self.path is not None:
            scores = {str(k): float(np.sqrt(score)) for k, score in sorted(self.path.scores.items())}
            chosen = Evidence("units at the plateau of held-out error", self.path.n_hidden, key=Check.WIDTH)
            verdict = replace(verdict, evidence=(chosen, *verdict.evidence))
        return self.run.finish(
            network,
            verdict,
            restarts=sum(item["start"] in ("random", "warm") for item in trace),
            iterations=sum(len(item["costs"]) for item in trace),
            held_out_residual_by_width=scores,
        )

    def interrupted(self, reason: str) -> Recovery:
        """Return the best so far; nothing more is read."""
        doubt = Unavailable("The search was interrupted.")
        if self.best is None:
            text = f"{reason} No attempt had ended."
            return self.record(None, Verdict(Outcome.STOPPED_EARLY, Guarantee.NONE, (), text, doubt))
        name, error = "held-out residual, in output standard deviations", float(np.sqrt(self.best.score))
        level = Evidence(name, error, key=Check.HELD_OUT_ERROR)
        tried = len(self.run.trace)
        size = f"{error:.2g} output standard deviations"
        best = f"The best of {tried} attempt(s)" if tried else "The fit so far"
        text = f"{reason} {best} misses held-out rows by {size}."
        network = orient_noisily(self.best.fit, is_hasty=True).network  # time is up
        return self.record(network, Verdict(Outcome.STOPPED_EARLY, Guarantee.NONE, (level,), text, doubt))
