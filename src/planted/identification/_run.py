"""One identification: what is asked and how, and the record that is made of its verdict."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from planted._clock import StopRequested
from planted._streams import seed_entropy
from planted._typing import Progress, Seed
from planted.identification._session import Domain, QuerySession
from planted.identification.two_layer import Identification, Refusal, Terms, judge_stop
from planted.networks import Activation, DeepNetwork, TwoLayerNetwork
from planted.results import Provenance, Recovery, Verdict

__all__ = ["QueryRun"]


@dataclass(frozen=True, slots=True)
class QueryRun:
    """The oracle, where it is asked, and the wishes of the caller."""

    session: QuerySession
    domain: Domain
    repeats: int
    random_state: Seed
    progress: Progress
    budget_seconds: float | None
    depth: int | str
    activation: Activation
    started: float = field(default_factory=perf_counter)

    @property
    def may_stop(self) -> bool:
        """Whether a budget may end the search."""
        return self.session.budget is not None or self.budget_seconds is not None

    def finish(
        self,
        found: Identification | Refusal | None,
        verdict: Verdict,
        network: TwoLayerNetwork | DeepNetwork | None,
        **counts: Any,
    ) -> Recovery:
        """Return the record of a verdict on what was found."""
        session = self.session
        if isinstance(found, Identification):
            counts = {"lines": found.n_lines, "n_hidden": found.network.n_hidden}
        parameters = {
            "budget": session.budget,
            "budget_seconds": self.budget_seconds,
            "has_box": self.domain.has_box,
            "repeats": self.repeats,
            "depth": self.depth,
            "activation": self.activation.name,
            "oracle": session.oracle.name,
        }
        shape = (session.queries, session.n_features, session.n_outputs or 0)
        seed = seed_entropy(self.random_state)
        provenance = Provenance("identify", "Carlini2020", parameters, seed, shape)
        return verdict.record(network, counts | self.counts(), provenance)

    def stop(self, stop: StopRequested, latest: Identification | Refusal | None) -> Recovery:
        """Return the record of a run that was stopped, with what is certain."""
        verdict, network = judge_stop(
            str(stop),
            latest,
            terms=Terms(self.session.queries, self.domain.has_box, self.domain.scale),
            budget=self.session.budget,
        )
        verdict = replace(verdict, detail=verdict.detail + self.session.log_note)
        return self.finish(latest, verdict, network)

    def counts(self) -> dict[str, Any]:
        """Return what the run has cost so far."""
        seconds = perf_counter() - self.started
        return {"queries": self.session.queries, "reused": self.session.reused, "seconds": seconds}
