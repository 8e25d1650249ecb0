"""What a recovery returns: one frozen record, always whole.

`Recovery` has the same eight fields for every method. What could not be computed is a value that says why
(`Unavailable`), never a missing attribute. The record holds numbers and texts only; reports are made from it by
`planted.reporting`, which computes nothing.
"""

from __future__ import annotations

import operator
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from html import escape
from typing import Any

import numpy as np
import scipy

from planted._typing import Array, Json
from planted._version import __version__
from planted.checks import Check
from planted.networks import (
    DeepNetwork,
    TwoLayerNetwork,
    activation_names,
    parse_activation,
    plain_parameters,
)
from planted.outcomes import BadInputError, Guarantee, Outcome

__all__ = ["Evidence", "Provenance", "Recovery", "Requirements", "Unavailable", "Uncertainty", "Verdict"]

SCHEMA_VERSION = 1
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "info": lambda measured, required: True,
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """One line of the certificate: what is needed, what was measured, and whether it holds.

    Parameters
    ----------
    name : str
        What was measured, in words.
    measured : float
        The number the data gave.
    required : float
        The number it is compared with; NaN for information without a threshold.
    comparison : str
        One of ``>=``, ``<=``, ``>``, ``<``, ``==`` or ``info``.
    equation : str
        Where the requirement comes from.
    key : Check
        What the line is about, for programs: texts may change, keys do not.

    Examples
    --------
    >>> Evidence("samples", 120, 90, ">=", key=Check.SAMPLES).passed
    True
    """

    name: str
    measured: float
    required: float = float("nan")
    comparison: str = "info"
    equation: str = ""
    key: Check = field(default=Check.NOTE, kw_only=True)

    def __post_init__(self) -> None:
        if self.comparison not in _COMPARISONS:
            raise BadInputError(f"unknown comparison {self.comparison!r}")

    @property
    def passed(self) -> bool:
        """Whether the measured number satisfies the requirement (information always does)."""
        return bool(_COMPARISONS[self.comparison](self.measured, self.required))  # JSON holds no NumPy ones

    @property
    def shortfall(self) -> str:
        """What was measured and what was needed, in words."""
        source = f" ({self.equation})" if self.equation else ""
        return f"{self.name}: {self.measured:.4g}, needed {self.comparison} {self.required:.4g}{source}"


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A quantity that could not be computed, and why.

    Parameters
    ----------
    reason : str
        A full sentence.
    """

    reason: str

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Standard errors of the parameters in the gauge of unit rows of W.

    Parameters
    ----------
    standard_errors : mapping
        Keys ``W, b, A, c``; arrays of those shapes.
    noise_std : float
        Estimated standard deviation of the noise of one output.
    kind : str
        ``"model"`` for the Gaussian information matrix, ``"generalised"`` with outputs weighed by the covariance of
        their noise, ``"sandwich"`` for noise of unequal variance, ``"newey-west"`` for rows whose noise is correlated,
        ``"bootstrap"`` from refits, ``"information"`` for labels, whose noise their law gives.
    """

    standard_errors: Mapping[str, Array]
    noise_std: float
    kind: str = "model"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome with everything that led to it; `Recovery` is a verdict with its network and where it came from."""

    outcome: Outcome
    guarantee: Guarantee
    evidence: tuple[Evidence, ...]
    detail: str  # the reason in one sentence
    uncertainty: Uncertainty | Unavailable  # in the user's units

    @classmethod
    def refusal(cls, outcome: Outcome, detail: str, *evidence: Evidence) -> Verdict:
        """Return the verdict of a method that has no network to show."""
        return cls(outcome, Guarantee.NONE, evidence, detail, Unavailable("There is no network."))

    def record(
        self,
        network: TwoLayerNetwork | DeepNetwork | None,
        stats: Mapping[str, Any],
        provenance: Provenance,
        *,
        trace: tuple[Mapping[str, Any], ...] = (),
        held_out_mse: float | None = None,
    ) -> Recovery:
        """Return the verdict on a network as the record that users get."""
        return Recovery(
            network,
            self.outcome,
            self.guarantee,
            self.evidence,
            self.uncertainty,
            stats,
            provenance,
            self.detail,
            trace,
            held_out_mse,
        )


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a method needs of the data; read by the docs, `diagnose` and the error texts.

    Parameters
    ----------
    method : str
        The name under which `planted.recover` knows the method.
    summary : str
        One line: what it does.
    input_law : str
        ``"any"``, ``"symmetric"`` or ``"gaussian"``.
    n_outputs : str
        The relation to the number of hidden units, such as ``"m >= k"``.
    activations : tuple of str
        Names of the activations it handles (without parameters).
    biases : bool
        Whether hidden biases are allowed.
    noise : str
        ``"none"``, ``"mean-zero"``, ``"sparse"`` (gross errors in some entries) or ``"any"``.
    samples : str
        How many samples it needs, as a formula.
    guarantee : Guarantee
        The best that can be claimed when its conditions are met.
    reference : str
        Key in ``references.bib``, or ``"planted"``.
    samples_needed : callable, optional
        ``samples_needed(d, k, m, is_noisy)``: about how many samples the method needs; the information limit if omitted.
    tries_anyway : bool
        Whether ``method="auto"`` tries the method with fewer samples than it needs: its certificate decides then.
    order : int
        Place among the methods that ``method="auto"`` tries: cheap and exact ones first.
    form : str
        How its data are prepared: ``"centred"``, ``"uncentred"`` or ``"clipped"``.
    takes_weights : bool
        Whether it can weigh rows.
    likelihoods : tuple of str
        Laws of the outputs it handles: ``"gaussian"`` for numbers, ``"logistic"`` and ``"multinomial"`` for classes,
        ``"poisson"`` for counts.
    is_quick : bool
        Whether ``effort="quick"`` tries it.
    """

    method: str
    summary: str
    input_law: str
    n_outputs: str
    activations: tuple[str, ...]
    biases: bool
    noise: str
    samples: str
    guarantee: Guarantee
    reference: str
    samples_needed: Callable[[int, int, int, bool], float] | None = None
    tries_anyway: bool = True
    order: int = 100
    form: str = "centred"
    takes_weights: bool = False
    likelihoods: tuple[str, ...] = ("gaussian",)
    is_quick: bool = False

    def predict_samples(self, d: int, k: int, m: int, *, is_noisy: bool) -> int:
        """Predict how many samples the method needs.

        Parameters
        ----------
        d, k, m : int
            Inputs, hidden units and outputs.
        is_noisy : bool
            Whether the outputs are noisy.

        Returns
        -------
        int
            The number, never below the information limit (k(d+1) + mk - k) / m.
        """
        limit = (k * (d + 1) + m * k - k) / m
        need = limit if self.samples_needed is None else self.samples_needed(d, k, m, is_noisy)
        return int(np.ceil(max(need, limit)))

    def takes(self, activation: str) -> bool:
        """Return whether the method handles an activation.

        Parameters
        ----------
        activation : str
            The activation's name, with or without its parameter.

        Returns
        -------
        bool
            Whether its name is on the card, or the method handles functions that users register and it is one.
        """
        name = activation.partition(":")[0]
        if name in activation_names(built_in=True):
            # A card names "leaky-relu:SLOPE" where the slope must be given, "leaky-relu" where it may.
            return name in self.activations or (activation != name and f"{name}:SLOPE" in self.activations)
        kind = "registered" if parse_activation(activation).inverse is None else "rectified"
        return kind in self.activations

    def check_activation(self, name: str) -> None:
        """Raise if the method does not handle the activation.

        Parameters
        ----------
        name : str
            The activation's name, with or without its parameter.
        """
        if not self.takes(name):
            raise BadInputError(
                f"method {self.method!r} needs an activation among {', '.join(self.activations)}; got {name!r}. "
                "`planted.methods()` lists what each method requires."
            )


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a result came from, enough to make it again.

    Parameters
    ----------
    algorithm : str
        The method that produced the network.
    reference : str
        Bibliography key.
    parameters : mapping
        The options it ran with.
    seed : int or None
        Entropy of the solver's random stream.
    shape : tuple of int
        Samples, inputs and outputs of the data.
    versions : mapping
        Library versions.
    started : str
        UTC time at which the work began, ISO format.
    """

    algorithm: str
    reference: str
    parameters: Mapping[str, Any]
    seed: int | None
    shape: tuple[int, int, int]
    versions: Mapping[str, str] = field(
        default_factory=lambda: {
            "planted": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "python": platform.python_version(),
        }
    )
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))


class Findings:
    """A record with lines of evidence."""

    __slots__ = ()
    evidence: tuple[Evidence, ...]

    def find(self, key: Check) -> tuple[Evidence, ...]:
        """Return the lines of evidence about one thing.

        Parameters
        ----------
        key : Check
            What they are about.

        Returns
        -------
        tuple of Evidence
            The lines, in order; empty if there is none.
        """
        return tuple(item for item in self.evidence if item.key is key)

    def _lines(self, most: int | None = None) -> list[str]:
        """Return the evidence as text, at most so many lines."""
        lines = []
        for item in self.evidence[:most]:
            is_judged = item.comparison != "info"
            need = f"  needs {item.comparison} {item.required:.3g}" if is_judged else ""
            mark = ("+" if item.passed else "x") if is_judged else " "
            lines.append(f" {mark} {item.name}: {item.measured:.4g}{need}")
        return lines


@dataclass(frozen=True, slots=True)
class Recovery(Findings):
    """The answer of every method, always whole.

    Parameters
    ----------
    network : TwoLayerNetwork, DeepNetwork or None
        The network in canonical form, or None if there is none to show.
    outcome : Outcome
        How it ended; ``RECOVERED`` alone claims that this is the planted network.
    guarantee : Guarantee
        What was proved for the conditions that were met.
    evidence : tuple of Evidence
        The inequalities behind the outcome, with our numbers.
    uncertainty : Uncertainty or Unavailable
        Standard errors, or why there are none.
    stats : mapping
        Iterations, restarts, passes over the data, seconds.
    provenance : Provenance
        Where this came from.
    detail : str
        The measured reason behind the outcome, as a sentence.
    trace : tuple of mapping
        What happened to each candidate, in order.
    held_out_mse : float, optional
        Mean squared error on rows that the fit did not see, where the method has measured one; in the outputs' own units.
    """

    # TwoLayerNetwork | None from every method; `planted.identify` may give a DeepNetwork, which only its callers know.
    network: Any
    outcome: Outcome
    guarantee: Guarantee
    evidence: tuple[Evidence, ...]
    uncertainty: Uncertainty | Unavailable
    stats: Mapping[str, Any]
    provenance: Provenance
    detail: str = ""
    trace: tuple[Mapping[str, Any], ...] = ()
    held_out_mse: float | None = None

    @property
    def failed(self) -> tuple[Evidence, ...]:
        """The lines of evidence that do not hold."""
        return tuple(item for item in self.evidence if not item.passed)

    def fails_only(self, *keys: Check) -> bool:
        """Return whether every line of evidence holds but one, or one about each of several things.

        Parameters
        ----------
        *keys : Check
            What these lines are about.

        Returns
        -------
        bool
            Whether at least one line does not hold, and no other than one about each.
        """
        found = [item.key for item in self.failed]
        return bool(found) and len(found) == len(set(found)) and set(found) <= set(keys)

    def __str__(self) -> str:
        lines = [f"{self.outcome.name}  ({self.provenance.algorithm}; guarantee {self.guarantee.value})"]
        lines.append(self.detail or self.outcome.meaning)
        if self.network is not None:
            lines.append(repr(self.network))
        lines += self._lines(most=8)
        if len(self.evidence) > 8:
            lines.append(f"   … and {len(self.evidence) - 8} more lines of evidence")
        lines.extend([self._scope] if self._scope else [])
        lines.append(f"-> {self.outcome.advice}")
        return "\n".join(lines)

    @property
    def _scope(self) -> str:
        """The networks that a claim is about; empty without a claim."""
        if self.outcome is not Outcome.RECOVERED or not isinstance(self.network, TwoLayerNetwork):
            return ""
        kind = f"{self.network.n_hidden} {self.network.activation.name} unit(s)"
        if self.network.B is not None:
            kind += " and a linear part, to which units that are on in all samples belong"
        return f"The claim is about networks of {kind}; a finite sample cannot exclude wider ones."

    def _repr_html_(self) -> str:
        """Show the verdict and its evidence in a notebook; every text is escaped."""
        head = "".join(f'<th scope="col">{text}</th>' for text in ("Checked", "Needed", "Measured", "Holds"))
        rows = ""
        for item in self.evidence:
            is_judged = item.comparison != "info"
            need = escape(f"{item.comparison} {item.required:.3g}") if is_judged else ""
            holds = ("yes" if item.passed else "no") if is_judged else ""
            cells = "".join(f"<td>{text}</td>" for text in (need, f"{item.measured:.4g}", holds))
            rows += f'<tr><th scope="row">{escape(item.name)}</th>{cells}</tr>'
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
        network = "" if self.network is None else f"<p><code>{escape(repr(self.network))}</code></p>"
        return (
            f"<div><p><strong>{self.outcome.name}</strong> {escape(self.outcome.meaning)}</p>"
            f"<p>{escape(self.detail)} {escape(self._scope)}</p>{network}{table}"
            f"<p>Method {escape(self.provenance.algorithm)}; guarantee {escape(self.guarantee.value)}. "
            f"{escape(self.outcome.advice)}</p></div>"
        )

    def to_dict(self) -> Json:
        """Return the record as plain data that JSON can hold.

        Returns
        -------
        dict
            The record with its schema version.
        """
        net = self.network
        network = None if net is None else plain_parameters(net) | {"activation": net.activation.name}
        if isinstance(self.uncertainty, Uncertainty):
            uncertainty: Json = {
                "standard_errors": {key: v.tolist() for key, v in self.uncertainty.standard_errors.items()},
                "noise_std": self.uncertainty.noise_std,
                "kind": self.uncertainty.kind,
            }
        else:
            uncertainty = {"reason": self.uncertainty.reason}
        return {
            "schema": SCHEMA_VERSION,
            "network": network,
            "outcome": self.outcome.name,
            "guarantee": self.guarantee.name,
            "evidence": [
                asdict(item) | {"key": item.key.value, "passed": item.passed} for item in self.evidence
            ],
            "uncertainty": uncertainty,
            "stats": dict(self.stats),
            "provenance": {name: getattr(self.provenance, name) for name in Provenance.__slots__}
            | {"shape": list(self.provenance.shape)},
            "detail": self.detail,
            "trace": [dict(item) for item in self.trace],
            "held_out_mse": self.held_out_mse,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Recovery:
        """Rebuild a record written by `to_dict`.

        Parameters
        ----------
        record : mapping
            What `to_dict` returned.

        Returns
        -------
        Recovery
            The same record.
        """
        if record.get("schema") != SCHEMA_VERSION:
            raise BadInputError(
                f"unknown schema {record.get('schema')!r}; this version reads {SCHEMA_VERSION}"
            )
        net, doubt = record["network"], record["uncertainty"]
        uncertainty: Uncertainty | Unavailable
        if "reason" in doubt:
            uncertainty = Unavailable(doubt["reason"])
        else:
            errors = {key: np.asarray(v, dtype=np.float64) for key, v in doubt["standard_errors"].items()}
            uncertainty = Uncertainty(errors, doubt["noise_std"], doubt["kind"])
        return cls(
            network=None if net is None else (DeepNetwork if "layers" in net else TwoLayerNetwork)(**net),
            outcome=Outcome[record["outcome"]],
            guarantee=Guarantee[record["guarantee"]],
            evidence=tuple(_evidence_from(item) for item in record["evidence"]),
            uncertainty=uncertainty,
            stats=dict(record["stats"]),
            provenance=Provenance(**(record["provenance"] | {"shape": tuple(record["provenance"]["shape"])})),
            detail=record["detail"],
            trace=tuple(record["trace"]),
            held_out_mse=record.get("held_out_mse"),
        )


def _evidence_from(item: Mapping[str, Any]) -> Evidence:
    """Rebuild a line of evidence; strict JSON writes a missing number as null."""
    measured, required = (
        float("nan") if item[name] is None else item[name] for name in ("measured", "required")
    )
    key = Check(item.get("key", Check.NOTE.value))  # records of 0.1 have none
    return Evidence(item["name"], measured, required, item["comparison"], item["equation"], key=key)
