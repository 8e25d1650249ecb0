"""From a result to the content of its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from planted._typing import Array
from planted.networks import DeepNetwork
from planted.reporting._dependence import dependence_section
from planted.reporting._fit import fit_section, search_section
from planted.reporting._outliers import outlier_section
from planted.reporting._outline import Code, Report, Section, Table, format_number, outline
from planted.reporting._units import network_section
from planted.results import Recovery

__all__ = ["summarise"]

MAX_ROWS = 2000


def summarise(
    recovery: Recovery,
    *,
    data: tuple[Any, Any] | None = None,
    feature_names: Sequence[str] | None = None,
    target_names: Sequence[str] | None = None,
) -> Report:
    """Make a report of a result; it shows what the result holds and computes nothing new.

    `data`: ``(X, Y)`` of shapes (n, d) and (n, m), to show predictions and residuals. At most 2,000 evenly spaced
    rows are used. Returns the content, with the renderings ``text()``, ``html()`` and ``json()``.

    Examples
    --------
    >>> from planted.networks import TwoLayerNetwork
    >>> from planted.outcomes import Guarantee, Outcome
    >>> from planted.results import Provenance, Recovery, Unavailable
    >>> record = Recovery(
    ...     network=TwoLayerNetwork(W=[[1.0]], A=[[2.0]]), outcome=Outcome.FITTED,
    ...     guarantee=Guarantee.HEURISTIC, evidence=(), uncertainty=Unavailable("No noise was estimated."),
    ...     stats={}, provenance=Provenance("restarts", "planted", {}, 0, (5, 1, 1)))
    >>> summarise(record).verdict.outcome
    'FITTED'
    """
    n, d, m = recovery.provenance.shape
    inputs = _names(feature_names, d, "x")
    outputs = _names(target_names, m, "y")
    rows = None if data is None else _thin(data)
    short = outline(recovery)
    sections = list(short.sections)
    if recovery.network is not None:
        sections.append(network_section(recovery, inputs, outputs, X=None if rows is None else rows[0]))
        sections += _bends(recovery, inputs, outputs, rows)
        sections += dependence_section(recovery.network, None if rows is None else rows[0], inputs, outputs)
        sections.append(fit_section(recovery.network, rows, outputs, n_samples=n))
    outliers = outlier_section(recovery, outputs)
    if outliers is not None:
        sections.append(outliers)
    sections.append(search_section(recovery))
    if recovery.network is not None:
        sections.append(_use_section(recovery))
    sections.append(_provenance_section(recovery))
    return replace(short, sections=tuple(sections))


def _names(names: Sequence[str] | None, count: int, letter: str) -> tuple[str, ...]:
    """Given names as text, or numbered ones."""
    if names is not None and len(names) == count:
        return tuple(str(name) for name in names)
    return tuple(f"{letter}{i + 1}" for i in range(count))


def _bends(
    recovery: Recovery,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    rows: tuple[Array, Array] | None,
) -> list[Section]:
    """The section on kinks, for functions that are read by them."""
    if getattr(recovery.network, "B", None) is None and recovery.provenance.shape[1] > 1:
        return []
    from planted.reporting._kinks import kink_section

    section = kink_section(recovery, feature_names=inputs, target_names=outputs, data=rows)
    return [] if section is None else [section]


def _thin(data: tuple[Any, Any]) -> tuple[Array, Array]:
    """At most ``MAX_ROWS`` evenly spaced rows of X and Y, with Y as a matrix."""
    X, Y = (np.asarray(array, dtype=np.float64) for array in data)
    step = -(-len(X) // MAX_ROWS)
    chosen = slice(None, None, max(step, 1))
    return X[chosen], (Y if Y.ndim == 2 else Y[:, None])[chosen]


def _use_section(recovery: Recovery) -> Section:
    """How to load the network and use it."""
    python = (
        "import planted\n\n"
        'network = planted.load_network("net.safetensors")\n'
        "Y = network(X)        # one sample per row\n"
    )
    if isinstance(recovery.network, DeepNetwork):
        python += "network.layers        # weights and biases, layer by layer"
    else:
        python += "network.W, network.b  # hidden units\nnetwork.A, network.c  # output weights"
    shell = (
        "planted predict net.safetensors data.csv --out predictions.csv\n"
        "planted compare net.safetensors other.safetensors"
    )
    text = (
        "Save the network with --out net.safetensors on the command line or network.save(path) in Python: "
        "64-bit numbers, every digit kept, no code inside the file."
    )
    return Section(
        "use", "Use it", (text,), (Code("In Python", "python", python), Code("In a terminal", "shell", shell))
    )


def _provenance_section(recovery: Recovery) -> Section:
    """Everything needed to make the result again."""
    source = recovery.provenance
    rows: list[tuple[str, str]] = [
        ("method", source.algorithm),
        ("reference", source.reference),
        ("seed of the solver", "not recorded" if source.seed is None else str(source.seed)),
        ("data (samples × inputs, outputs)", "{:,} × {:,}, {:,}".format(*source.shape)),
        ("started", source.started),
    ]
    rows += [(f"option {_words(name)}", format_number(value)) for name, value in source.parameters.items()]
    rows += [
        (_words(name), format_number(value)) for name, value in recovery.stats.items() if _is_short(value)
    ]
    rows += [(f"version of {name}", version) for name, version in source.versions.items()]
    text = "The same data, options, seed and versions give the same network."
    table = Table("Where this came from", ("Item", "Value"), tuple(rows))
    return Section("provenance", "Provenance", (text,), (table,))


def _words(name: str) -> str:
    """The name of an option or a number as words."""
    return {"n_hidden": "hidden units", "seconds": "seconds taken", "tol": "tolerance"}.get(
        name, name.replace("_", " ")
    )


def _is_short(value: Any) -> bool:
    """Whether a statistic fits in a cell."""
    return isinstance(value, str | int | float | bool | np.generic) and len(str(value)) <= 80
