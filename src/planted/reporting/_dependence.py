"""What each input does: the average answer of the network as one input moves and the others stay as they are.

For each of the inputs that matter most, the input of every row is set to one value after the other, and the answers are
averaged (partial dependence). An input of 0 and 1 is shown at these two values alone.
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array
from planted.networks import DeepNetwork, TwoLayerNetwork
from planted.reporting._outline import Figure, Section, format_number

__all__ = ["dependence_section"]

MAX_INPUTS, MAX_OUTPUTS = 6, 3
MAX_ROWS = 300
N_VALUES = 41
COMMON = (0.01, 0.99)  # quantiles between which an input is moved


def dependence_section(
    net: TwoLayerNetwork | DeepNetwork, X: Array | None, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> list[Section]:
    """Draw the average answer against each of the strongest inputs; nothing without rows. Shapes: X (n, d)."""
    if X is None or len(X) < 2 or len(inputs) < 1:
        return []
    rows = X[:: max(-(-len(X) // MAX_ROWS), 1)]
    drawn = []
    for j in range(min(X.shape[1], 50)):
        values = _values(X[:, j])
        if len(values) > 1:
            averages = np.array([_average(net, rows, j, value) for value in values])[:, :MAX_OUTPUTS]
            drawn.append((float(np.ptp(averages, axis=0).max()), j, values, averages))
    drawn.sort(key=lambda item: -item[0])
    if not drawn:
        return []
    figures = tuple(
        _figure(inputs[j], outputs[:MAX_OUTPUTS], values, averages)
        for _, j, values, averages in drawn[:MAX_INPUTS]
    )
    part = f"The {len(figures)} inputs" if len(figures) < X.shape[1] else "All inputs"
    text = (
        f"{part} by how far they move the answer: the average answer of the network over these samples as one input takes "
        "each value and the others stay as they are."
    )
    if len(outputs) > MAX_OUTPUTS:
        text += f" The first {MAX_OUTPUTS} of {len(outputs):,} outputs are drawn."
    return [Section("dependence", "What each input does", (text,), figures)]


def _values(column: Array) -> Array:
    """Return the values at which an input is shown: the two it has, or a grid over the common ones."""
    low, high = (float(value) for value in np.quantile(column, COMMON))
    if set(np.unique(column[:1000]).tolist()) <= {0.0, 1.0} and column.min() < column.max():
        return np.array([0.0, 1.0])
    return np.linspace(low, high, N_VALUES) if high > low else np.array([low])


def _average(net: TwoLayerNetwork | DeepNetwork, rows: Array, column: int, value: float) -> Array:
    """Return the average answer with one input set to a value. Shapes: result (m,)."""
    moved = rows.copy()
    moved[:, column] = value
    return np.asarray(net(moved).mean(axis=0))


def _figure(name: str, outputs: tuple[str, ...], values: Array, averages: Array) -> Figure:
    """One input against the average of each output."""
    data = {
        "series": [
            {"name": output, "x": values.tolist(), "y": averages[:, i].tolist()}
            for i, output in enumerate(outputs)
        ],
        "x_title": name,
        "y_title": f"average {outputs[0]}" if len(outputs) == 1 else "average answer",
    }
    first, last = averages[0, 0], averages[-1, 0]
    ends = f"from {format_number(values[0], digits=3)} to {format_number(values[-1], digits=3)}"
    alt = (
        f"As {name} goes {ends}, the average {outputs[0]} goes from {format_number(first, digits=3)} to "
        f"{format_number(last, digits=3)}; it lies between {format_number(averages[:, 0].min(), digits=3)} and "
        f"{format_number(averages[:, 0].max(), digits=3)}."
    )
    return Figure("lines", f"{name}", alt, data)
