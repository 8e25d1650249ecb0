"""What memorising returns: a network, how it ended, and the theorem's conditions with their numbers.

`planted.recover` claims to have found *the* network that made the labels; `planted.memorize` claims only to have
found *a* network that reproduces them. The two claims need different words, so memorising has outcomes and a record
of its own: `MemoryOutcome` says what each ending means and what to do, and `Memory` is a frozen record whose fields
are always there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from html import escape
from typing import Any

from planted._typing import Array
from planted.networks import ThreeLayerNetwork, TwoLayerNetwork
from planted.results import Evidence, Findings, Provenance

__all__ = ["Memory", "MemoryOutcome"]


class MemoryOutcome(Enum):
    """How memorising ended; each member carries its meaning and an advice, for two layers and for three."""

    MEMORISED = (
        "The network reproduces every label to the tolerance.",
        "Nothing to do. A perfect fit says nothing about new inputs: hold some rows out to see.",
    )
    FITTED = (
        "A deliberately smaller network that fits the labels without reproducing each of them.",
        "Judge it on rows held out. To reproduce every label use solver='auto'.",
    )
    CONVERGED = (
        "The printed descent ended by its own rule, with a loss of at most the ε that it was asked for.",
        "Ask for a smaller epsilon; to reproduce every label use solver='auto'.",
    )
    CONTRADICTION = (
        "Equal inputs carry different labels, so that no network of this kind can reproduce them.",
        "Remove or correct the rows named, or add a small noise to the inputs.",
    )
    TOO_MANY_SAMPLES = (
        "There are more samples than the quadratic forms have dimensions.",
        "Use layers=3, or fewer rows.",
        "Use more random features (n_random), a higher power, or fewer rows.",
    )
    DEPENDENT_INPUTS = (
        "The products x⊗x of the inputs are linearly dependent, and the labels do not obey the same dependence.",
        "Add a small noise to the inputs (0.01 of their norm is usual), or use layers=3.",
        "Add a small noise to the inputs (0.01 of their norm is usual), or use more random features or a higher power.",
    )
    STOPPED_EARLY = (
        "The solver ended, or was stopped, before the labels were reproduced to the tolerance.",
        "Allow more iterations with max_iter or more time with budget_seconds, add a small noise to the inputs, "
        "or use solver='direct'.",
    )

    def __init__(self, meaning: str, advice: str, with_three_layers: str = "") -> None:
        self.meaning = meaning
        self.advice = advice
        self.advice_for_three_layers = with_three_layers or advice


@dataclass(frozen=True, slots=True, eq=False)
class Memory(Findings):
    """The answer of `planted.memorize`, always whole.

    Parameters
    ----------
    network : TwoLayerNetwork or ThreeLayerNetwork
        The network; its hidden activation is quadratic and its output weights are +1, -1 or 0. A solver that was
        stopped before it found anything leaves a single hidden unit of weight zero, and `detail` says so.
    outcome : MemoryOutcome
        How it ended.
    evidence : tuple of Evidence
        The theorem's requirements with our numbers.
    loss_curve : ndarray of shape (t, 2)
        Iteration and loss ``1/(4n) Σ (f(x) - y)²``.
    conditions : mapping
        Smallest singular value of [x⊗x], rank, norms and counts, by name; NaN where it was too costly.
    stats : mapping
        Solver, iterations, seconds, further facts of the solver and, if it was stopped, ``interrupted_by``.
    provenance : Provenance
        Where this came from.
    detail : str
        The measured reason behind the outcome, as a sentence.

    Examples
    --------
    >>> import planted
    >>> X = planted.simulate.inputs(20, n_features=8, random_state=0)
    >>> memory = planted.memorize(X, X[:, 0])
    >>> memory.outcome.name, memory.network.n_hidden <= 8
    ('MEMORISED', True)
    """

    network: TwoLayerNetwork | ThreeLayerNetwork
    outcome: MemoryOutcome
    evidence: tuple[Evidence, ...]
    loss_curve: Array
    conditions: Mapping[str, float]
    stats: Mapping[str, Any]
    provenance: Provenance
    detail: str = ""

    @property
    def loss(self) -> float:
        """The loss of the returned network."""
        return float(self.conditions["loss"])

    @property
    def advice(self) -> str:
        """What to do next."""
        is_deep = isinstance(self.network, ThreeLayerNetwork)
        return self.outcome.advice_for_three_layers if is_deep else self.outcome.advice

    def __str__(self) -> str:
        lines = [f"{self.outcome.name}  ({self.provenance.algorithm})", self.detail, repr(self.network)]
        return "\n".join([*lines, *self._lines(), f"-> {self.advice}"])

    def _repr_html_(self) -> str:
        """Show the record in a notebook; every text is escaped."""
        return f"<pre>{escape(str(self))}</pre>"
