"""The section on the network itself: its units, weights and intervals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planted._typing import Array, IntArray
from planted.networks import DeepNetwork, TwoLayerNetwork, is_rectifier
from planted.outcomes import Outcome
from planted.reporting._outline import Figure, Section, Table, counted, format_number
from planted.results import Recovery, Uncertainty

__all__ = ["network_section"]

MAX_UNITS = 40
MAX_COLUMNS = 60
MAX_PARAMETERS = 300
MAX_TOLD, MAX_TERMS = 12, 4  # units told in words, and inputs of each
_LEGEND = "Blue is positive, orange negative; the stronger the colour, the larger."
Z_95 = 1.96  # two-sided 95 % point of the normal law


def network_section(
    recovery: Recovery, inputs: tuple[str, ...], outputs: tuple[str, ...], *, X: Array | None
) -> Section:
    """Describe the network of a result.

    Returns heat maps, the table of units and the intervals. Shapes: X (n, d).
    """
    net = recovery.network
    if net is None:
        raise ValueError("a network section needs a network")
    if isinstance(net, DeepNetwork):
        return _layers_section(net, X)
    if not net.n_hidden:
        slope = "" if net.B is None else ", and a linear function of the inputs"
        text = f"No hidden unit explains the outputs on other samples: the answer is a constant{slope}."
        table = _parameter_table(net, (inputs, outputs), None)
        return Section("network", "The network", (text,), (table,))
    if recovery.outcome is Outcome.FITTED and net.n_hidden > MAX_UNITS:
        text = (
            f"{net.n_hidden} hidden units with activation {net.activation.name}, fitted to predict: too many to be read one "
            "by one. What each input does is said below; more effort gives a smaller network."
        )
        return Section("network", "The network", (text,), (_parameter_table(net, (inputs, outputs), None),))
    share = None if X is None else net.patterns(X).mean(axis=0)
    strength = np.linalg.norm(net.A, axis=0) * (1.0 if share is None else share)
    order = np.argsort(-strength, kind="stable")
    measure = "the norm of its output weights" + (
        "" if share is None else " times the share of samples it is on"
    )
    text = (
        f"{net.n_hidden} hidden {_plural('unit', net.n_hidden)} with activation {net.activation.name}: "
        f"output = A·f(W·input + b) + {'' if net.B is None else 'B·input + '}c, each row of W of length one. A unit's "
        f"importance is {measure}; "
        "the most important stand first. Units are numbered as the rows of W, from 1, as in the evidence."
    )
    doubt = recovery.uncertainty
    bands = doubt if isinstance(doubt, Uncertainty) else None
    if bands is None:
        caveat = f"No intervals are given: {getattr(doubt, 'reason', '')}"
    else:
        caveat = f"Intervals are 95 % (estimate ± 1.96 standard errors, {bands.kind}); "
        if bands.kind == "information":
            caveat += "they come from the information of the labels."
        else:
            caveat += f"the noise of one output has standard deviation {format_number(bands.noise_std)}."
    shown = order[:MAX_UNITS]
    blocks = (
        _hidden_map(net, shown, inputs),
        _output_map(net, shown, outputs),
        _unit_table(net, order, (share, strength), inputs, bands),
        *_words_of_units(net, order, (inputs, outputs), X),
        *(() if bands is None else (_bias_figure(net, shown, bands),)),
        _parameter_table(net, (inputs, outputs), bands),
    )
    return Section("network", "The network", (text, caveat), blocks)


def _layers_section(net: DeepNetwork, X: Array | None) -> Section:
    """Describe a network of several hidden layers: one row for each layer."""
    shares = None if X is None else [on.mean(axis=0) for on in net.patterns(X)]
    rows = []
    for place, (W, b) in enumerate(net.layers):
        is_last = place == net.n_hidden_layers
        name = "output" if is_last else f"hidden {place + 1}"
        cells = [name, str(W.shape[1]), str(len(b)), format_number(float(np.abs(W).max(initial=0.0)))]
        if shares is not None:
            cells.append("" if is_last else format_number(float(shares[place].mean())))
        rows.append(tuple(cells))
    columns = ("layer", "inputs", "units", "largest weight", *(() if shares is None else ("share on",)))
    text = (
        f"{net.n_hidden_layers} hidden layers with activation {net.activation.name}; each row of weights in a hidden layer "
        "has length one."
    )
    return Section(
        "network", "The network", (text,), (Table("Layers", columns, tuple(rows), is_numeric=True),)
    )


def _plural(word: str, count: int) -> str:
    """The word in the number asked for."""
    return word if count == 1 else word + "s"


def _hidden_map(net: TwoLayerNetwork, shown: IntArray, inputs: tuple[str, ...]) -> Figure:
    """Heat map of the rows of W, most important unit first."""
    columns = _strongest(np.abs(net.W).max(axis=0), MAX_COLUMNS)
    values = net.W[np.ix_(shown, columns)]
    row, column = np.unravel_index(np.argmax(np.abs(values)), values.shape)
    alt = (
        f"Heat map of {counted(len(shown), 'unit')} by {counted(len(columns), 'input')}. The largest weight is "
        f"{format_number(values[row, column])}, from {inputs[columns[column]]} to unit {shown[row] + 1}. {_LEGEND}"
    )
    data = {
        "values": values.tolist(),
        "rows": [f"unit {i + 1}" for i in shown],
        "columns": [inputs[j] for j in columns],
    }
    return Figure("heatmap", f"Hidden weights W{_part(len(shown), net.n_hidden)}", alt, data)


def _output_map(net: TwoLayerNetwork, shown: IntArray, outputs: tuple[str, ...]) -> Figure:
    """Heat map of the columns of A, most important unit first."""
    columns = _strongest(np.abs(net.A).max(axis=1), MAX_COLUMNS)
    values = net.A[np.ix_(columns, shown)].T
    row, column = np.unravel_index(np.argmax(np.abs(values)), values.shape)
    alt = (
        f"Heat map of {counted(len(shown), 'unit')} by {counted(len(columns), 'output')}. The largest weight is "
        f"{format_number(values[row, column])}, from unit {shown[row] + 1} to {outputs[columns[column]]}. {_LEGEND}"
    )
    data = {
        "values": values.tolist(),
        "rows": [f"unit {i + 1}" for i in shown],
        "columns": [outputs[j] for j in columns],
    }
    return Figure("heatmap", f"Output weights A{_part(len(shown), net.n_hidden)}", alt, data)


def _strongest(strength: Array, limit: int) -> IntArray:
    """Indices of the strongest columns, in their own order."""
    return np.sort(np.argsort(-strength, kind="stable")[:limit])


def _part(shown: int, total: int) -> str:
    """A remark when not everything is shown."""
    return "" if shown == total else f" (the {shown} most important of {total} units)"


def _unit_table(
    net: TwoLayerNetwork,
    order: IntArray,
    activity: tuple[Array | None, Array],
    inputs: tuple[str, ...],
    bands: Uncertainty | None,
) -> Table:
    """One row per unit: importance, how often it is on, bias, strongest input."""
    share, strength = activity
    rows = []
    for i in order[:MAX_UNITS]:
        j = int(np.argmax(np.abs(net.W[i])))
        rows.append(
            (
                f"unit {i + 1}",
                format_number(strength[i], digits=3),
                "—" if share is None else f"{100 * share[i]:.0f} %",
                _with_band(net.b[i], None if bands is None else bands.standard_errors["b"][i]),
                f"{inputs[j]} ({format_number(net.W[i, j], digits=3)})",
            )
        )
    return Table(
        title=f"The units, most important first{_part(len(rows), net.n_hidden)}",
        columns=("Unit", "Importance", "On", "Bias", "Strongest input"),
        rows=tuple(rows),
        is_numeric=True,
    )


def _words_of_units(
    net: TwoLayerNetwork,
    order: IntArray,
    names: tuple[tuple[str, ...], tuple[str, ...]],
    X: Array | None,
) -> tuple[Table, ...]:
    """Say of each unit in the words of the columns where it is on and what it then adds."""
    if not is_rectifier(net.activation):
        return ()
    inputs, outputs = names
    spread = np.ones(net.n_features) if X is None else X.std(axis=0)
    rows = []
    for i in order[:MAX_TOLD]:
        weights = net.W[i]
        strongest = np.argsort(-np.abs(weights) * spread, kind="stable")[:MAX_TERMS]
        chosen = [j for j in strongest if abs(weights[j]) * spread[j] > 0]
        more = int(np.count_nonzero(np.abs(weights) * spread)) - len(chosen)
        terms = " ".join(_term(weights[j], inputs[j], is_first=place == 0) for place, j in enumerate(chosen))
        rest = f" and {more} smaller {_plural('term', more)}" if more else ""
        target = int(np.argmax(np.abs(net.A[:, i])))
        limit = format_number(-net.b[i], digits=3)
        rows.append(
            (
                f"unit {i + 1}",
                f"{terms or '0'}{rest} > {limit}",
                f"{format_number(net.A[target, i], digits=3)} to {outputs[target]} for each 1 beyond",
            )
        )
    return (
        Table(
            title=f"The units in words{_part(len(rows), net.n_hidden)}",
            columns=("Unit", "It is on where", "Then it adds"),
            rows=tuple(rows),
        ),
    )


def _term(weight: float, name: str, *, is_first: bool) -> str:
    """One term of a sum, with its sign."""
    sign = "−" if weight < 0 else "" if is_first else "+"
    size = name if abs(weight) == 1 else f"{format_number(abs(weight), digits=2)}·{name}"
    return f"{sign}{size}" if is_first else f"{sign} {size}"


def _with_band(value: float, error: float | None) -> str:
    """An estimate, with its interval if there is one."""
    if error is None:
        return format_number(value)
    return f"{format_number(value)} ± {format_number(Z_95 * error, digits=2)}"


def _bias_figure(net: TwoLayerNetwork, shown: IntArray, bands: Uncertainty) -> Figure:
    """Biases with their intervals."""
    value, half = net.b[shown], Z_95 * bands.standard_errors["b"][shown]
    widest = int(np.argmax(half))
    data = {
        "labels": [f"unit {i + 1}" for i in shown],
        "values": value.tolist(),
        "low": (value - half).tolist(),
        "high": (value + half).tolist(),
        "x_title": "bias",
    }
    alt = (
        f"Biases of {counted(len(shown), 'unit')} with intervals. The widest is that of unit {shown[widest] + 1}: "
        f"{format_number(value[widest])} ± {format_number(half[widest], digits=2)}."
    )
    return Figure("intervals", "Hidden biases with 95 % intervals", alt, data)


def _parameter_table(
    net: TwoLayerNetwork,
    names: tuple[tuple[str, ...], tuple[str, ...]],
    bands: Uncertainty | None,
) -> Table:
    """Every number of the network (the largest ones, if they are many), folded away."""
    cells = sorted(_parameters(net, names), key=lambda cell: -abs(cell[1]))
    rows = []
    for label, value, (key, place) in cells[:MAX_PARAMETERS]:
        error = None if bands is None else float(bands.standard_errors[key][place])
        rows.append((label, format_number(value, digits=8), _interval(error)))
    note = (
        ""
        if len(rows) == len(cells)
        else f"The {len(rows)} largest of {len(cells):,}; the file holds them all."
    )
    return Table(
        title="All parameters, largest first",
        columns=("Parameter", "Value", "95 % interval"),
        rows=tuple(rows),
        note=note,
        is_folded=True,
        is_numeric=True,
    )


def _parameters(
    net: TwoLayerNetwork, names: tuple[tuple[str, ...], tuple[str, ...]]
) -> Iterator[tuple[str, float, tuple[str, tuple[int, ...]]]]:
    """Label, value and place of every parameter."""
    inputs, outputs = names
    for i, j in np.ndindex(net.W.shape):
        yield f"{inputs[j]} → unit {i + 1}", float(net.W[i, j]), ("W", (i, j))
    for i in range(net.n_hidden):
        yield f"bias of unit {i + 1}", float(net.b[i]), ("b", (i,))
    for j, i in np.ndindex(net.A.shape):
        yield f"unit {i + 1} → {outputs[j]}", float(net.A[j, i]), ("A", (j, i))
    for j in range(net.n_outputs):
        yield f"offset of {outputs[j]}", float(net.c[j]), ("c", (j,))
    if net.B is not None:
        for j, i in np.ndindex(net.B.shape):
            yield f"slope of {outputs[j]} in {inputs[i]}", float(net.B[j, i]), ("B", (j, i))


def _interval(error: float | None) -> str:
    """Half the width of the interval as text, or a dash."""
    if error is None:
        return "—"
    return f"± {format_number(Z_95 * error, digits=2)}"
