"""One run of one method: what was asked, what is known so far, and the record made of it.

A method receives a `MethodRun`, whose problem is prepared in the form that the method's card asks for. It notes lines
of evidence (`note`), refuses by name when one does not hold (`require`, `refuse`), and ends with `finish`. Options,
provenance, counts and trace are filled in here; no method builds a `Recovery` itself. A method that can return the
best so far when it is stopped says how in `on_stop`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from numpy.linalg import LinAlgError

from planted._clock import StopRequested
from planted.fitting._problem import Preparation, Problem
from planted.networks import TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Provenance, Recovery, Requirements, Unavailable, Verdict

__all__ = ["MethodRun", "Solve"]

Solve = Callable[..., Recovery]
"""``solve(method, blocks, n_hidden, random_state=..., **options)``: another method on other rows, by its name."""


class _Refused(Exception):  # carries an answer, not an error
    """A refusal on its way to the end of the run."""

    def __init__(self, recovery: Recovery) -> None:
        super().__init__(recovery.detail)
        self.recovery = recovery


@dataclass(slots=True)
class MethodRun:
    """A run in progress."""

    card: Requirements  # what the method needs
    data: Preparation  # the data, prepared once for every method that is tried
    n_hidden: int | str  # number of units asked for
    options: Mapping[str, Any]  # of the method, defaults included
    solve: Solve  # runs another method on other rows
    evidence: list[Evidence] = field(default_factory=list)  # lines noted so far
    trace: list[dict[str, Any]] = field(default_factory=list)  # one record for each attempt or step
    # Makes the record of the best so far from the reason for stopping; None while there is nothing to show.
    on_stop: Callable[[str], Recovery] | None = None
    _problem: Problem | None = None  # None until it is first looked at

    @property
    def problem(self) -> Problem:
        """The data in the form that the method's card asks for; prepared when it is first looked at."""
        if self._problem is None:
            self._problem = self.data.problem(self.card.form)
        return self._problem

    @problem.setter
    def problem(self, problem: Problem) -> None:
        self._problem = problem

    def note(self, *lines: Evidence) -> None:
        """Add lines of evidence."""
        self.evidence += lines

    def require(
        self, *lines: Evidence, outcome: Outcome = Outcome.ASSUMPTION_FAILED, detail: str = ""
    ) -> None:
        """Add lines of evidence; end the run at the first that does not hold."""
        for line in lines:
            self.note(line)
            if not line.passed:
                self.refuse(outcome, detail or _unmet(line))

    def refuse_unless(
        self, *lines: Evidence, outcome: Outcome = Outcome.ASSUMPTION_FAILED, detail: str = ""
    ) -> None:
        """End the run at the first line that does not hold; lines that hold go without saying."""
        self.require(*[line for line in lines if not line.passed][:1], outcome=outcome, detail=detail)

    def refuse(self, outcome: Outcome, detail: str, *lines: Evidence) -> NoReturn:
        """End the run without a network."""
        raise _Refused(self.finish(None, Verdict.refusal(outcome, detail, *lines)))

    def finish(self, network: TwoLayerNetwork | None, verdict: Verdict, **counts: Any) -> Recovery:
        """Return the record of a verdict on a network of the standardised problem, in the user's units."""
        return self.finish_restored(
            None if network is None else self.problem.scaling.restore(network), verdict, **counts
        )

    def finish_restored(
        self,
        network: TwoLayerNetwork | None,
        verdict: Verdict,
        *,
        held_out_mse: float | None = None,
        **counts: Any,
    ) -> Recovery:
        """Return the record of a verdict on a network that is in the user's units already."""
        parameters = {"n_hidden": self.n_hidden, **self.options}
        shape = (0, 0, 0) if self._problem is None else self._problem.shape
        return replace(verdict, evidence=(*self.evidence, *verdict.evidence)).record(
            network,
            counts if self._problem is None else self._problem.stats(**counts),
            Provenance(self.card.method, self.card.reference, parameters, self.data.seed, shape),
            trace=tuple(self.trace),
            held_out_mse=held_out_mse,
        )

    def interrupted(
        self, reason: str, network: TwoLayerNetwork | None = None, *lines: Evidence, **counts: Any
    ) -> Recovery:
        """Return the record of a run that was stopped, with what it has."""
        doubt = Unavailable("The search was interrupted.")
        verdict = Verdict(Outcome.STOPPED_EARLY, Guarantee.NONE, lines, reason, doubt)
        return self.finish(network, verdict, **counts)

    def execute(self, recover: Callable[..., Recovery], **options: Any) -> Recovery:
        """Run a method to its end: an answer, a refusal, or the best so far when it is stopped.

        Ctrl-C ends in the best so far too where the method keeps one, and is passed on where it does not.
        """
        try:
            return recover(self, self.n_hidden, **options)
        except _Refused as refused:
            return refused.recovery
        except LinAlgError as error:
            text = f"A decomposition broke down: {error}."
            return self.finish(None, Verdict.refusal(Outcome.SOLVER_FAILED, text))
        except StopRequested as stop:
            reason = f"Stopped: {stop}."
            return self.interrupted(reason) if self.on_stop is None else self.on_stop(reason)
        except KeyboardInterrupt:
            if self.on_stop is None:
                raise
            return self.on_stop("Interrupted.")


def _unmet(line: Evidence) -> str:
    """Say what the method needs and what the data have."""
    source = f" ({line.equation})" if line.equation else ""
    return (
        f"{line.name}: {line.measured:.3g}; the method needs {line.comparison} {line.required:.3g}{source}."
    )
