"""A run of the method `restarts` in progress: what was asked, what was tried, and the record made of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from planted.checks import Check
from planted.fitting._problem import Problem
from planted.fitting.multistart._absolute_form import KinkFit
from planted.fitting.multistart._attempts import Attempt
from planted.fitting.multistart._orient_units import orient_noisily
from planted.fitting.multistart._rows import SearchRows
from planted.fitting.multistart._width_path import WidthPath
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Requirements, Unavailable, Verdict
from planted.rows import RowWeights

__all__ = ["SAME_SCORE", "Run"]

SAME_SCORE = 1e-3  # relative difference of held-out scores at which two attempts ended at the same network


@dataclass(slots=True)
class Run:
    """A run in progress: what was asked, and the best so far."""

    problem: Problem  # the standardised problem
    search: SearchRows  # its rows, split
    n_hidden: int | str  # what was asked for
    offset: bool | str
    loss: str
    weights: RowWeights | None  # weights of all rows, mean one
    options: dict[str, Any]  # options of the method, for the provenance
    requires: Requirements  # card of the method
    trace: list[dict[str, Any]] = field(default_factory=list)  # what was tried
    scores: list[float] = field(default_factory=list)  # held-out mean squares of the attempts
    waiting: list[Attempt] = field(default_factory=list)  # attempts to be judged before new ones are made
    best: Attempt | None = None  # the best attempt
    path: WidthPath | None = None  # how the number of units was chosen

    def widened(self, n_hidden: int) -> Run:
        """Return a new run on the same rows for a given number of units, with the trace so far."""
        return replace(self, n_hidden=n_hidden, scores=[], waiting=[], best=None)

    def keep(self, fit: KinkFit, score: float) -> None:
        """Remember a fit of the search for a width, in case there is no time for more."""
        if self.best is None or score < self.best.score:
            self.best = Attempt(fit, score, False, 0, False, score)

    def note(self, attempt: Attempt) -> bool:
        """Remember an attempt.

        Returns whether an earlier one ended at the same held-out score.
        """
        is_repeated = any(abs(attempt.score - other) <= SAME_SCORE * attempt.score for other in self.scores)
        self.trace.append(attempt.record)
        self.scores.append(attempt.score)
        if self.best is None or attempt.score < self.best.score:
            self.best = attempt
        return is_repeated

    def record(self, network: TwoLayerNetwork | None, verdict: Verdict) -> Recovery:
        """Make the record of a verdict.

        Returns the record, in the user's units.
        """
        starts = sum(item["start"] in ("random", "warm") for item in self.trace)
        evidence = verdict.evidence
        if self.path is not None:
            scores = {str(k): float(np.sqrt(score)) for k, score in sorted(self.path.scores.items())}
            chosen = Evidence(
                "units at the plateau of held-out error",
                self.path.n_hidden,
                comparison="info",
                key=Check.WIDTH,
            )
            evidence = (chosen, *evidence)
        else:
            scores = {}
        return Recovery(
            network=None if network is None else self.problem.scaling.restore(network),
            outcome=verdict.outcome,
            guarantee=verdict.guarantee,
            evidence=evidence,
            uncertainty=verdict.uncertainty,
            stats=self.problem.stats(
                restarts=starts,
                iterations=sum(len(item["costs"]) for item in self.trace),
                held_out_residual_by_width=scores,
            ),
            provenance=self.problem.provenance(self.requires, self.options),
            detail=verdict.detail,
            trace=tuple(self.trace),
        )

    def interrupted(self) -> Recovery:
        """Return the best so far; nothing more is read."""
        reason = Unavailable("The search was interrupted.")
        if self.best is None:
            text = "Interrupted before the first attempt ended."
            return self.record(None, Verdict(Outcome.STOPPED_EARLY, Guarantee.NONE, (), text, reason))
        level = Evidence(
            "held-out residual, in output standard deviations",
            float(np.sqrt(self.best.score)),
            key=Check.HELD_OUT_ERROR,
        )
        text = f"Interrupted after {len(self.trace)} attempt(s); the best misses held-out rows by {level.measured:.2g}."
        network = orient_noisily(self.best.fit).network
        return self.record(network, Verdict(Outcome.STOPPED_EARLY, Guarantee.NONE, (level,), text, reason))
