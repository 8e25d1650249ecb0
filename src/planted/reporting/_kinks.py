"""The section on slopes and kinks, where a function is read by them: with one input, or with a linear part.

The pictures show the samples, the fit, and the kinks with bands for the intervals of their places. With several inputs each
is a partial plot along the column of a kink, or along its normal: what the rest of the network does not explain, against
what this part of it adds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planted._typing import Array, as_array
from planted.networks import TwoLayerNetwork
from planted.outcomes import Outcome
from planted.recovery._kinks import HEADS, SEGMENT_HEADS, Kink, KinkTable, kinks
from planted.reporting._outline import Figure, Section, Table
from planted.results import Recovery

__all__ = ["kink_section"]

MAX_KINKS = 40
MAX_PICTURES = 6
MAX_POINTS = 2000
LINE_POINTS = 200
SHOWN = (Outcome.RECOVERED, Outcome.FITTED)


def kink_section(
    recovery: Recovery,
    *,
    feature_names: Sequence[str] | None = None,
    target_names: Sequence[str] | None = None,
    data: tuple[Array, Array] | None = None,
) -> Section | None:
    """Return the table of kinks, or None where a network is not read by them.

    It is shown for functions of one input, and for networks with a linear part, if the samples were fitted; not for a fit
    by so many units that their kinks mean nothing. `data`: samples for the pictures; there are none without.
    """
    net = recovery.network
    if not isinstance(net, TwoLayerNetwork) or not net.activation.is_piecewise_linear:
        return None
    if (net.B is None and net.n_features > 1) or recovery.outcome not in SHOWN:
        return None
    if recovery.outcome is Outcome.FITTED and net.n_hidden > MAX_KINKS:
        return None
    has_names = feature_names is not None and len(feature_names) == net.n_features
    has_targets = target_names is not None and len(target_names) == net.n_outputs
    table = kinks(
        recovery,
        features=feature_names if has_names else None,
        targets=target_names if has_targets else None,
    )
    lead = "Where the slope changes, and by how much. A dash stands for what is not known, a question mark for an open end."
    pictures = [] if data is None else _pictures(net, table, *data)
    return Section("kinks", "Slopes and kinks", (lead, *table.notes), (*_tables(table), *pictures))


def _tables(table: KinkTable) -> list[Table]:
    """The kinks and, with one input, the slopes between them."""
    note = "" if len(table) <= MAX_KINKS else f"The first {MAX_KINKS} of {len(table)}."
    blocks = [Table("Kinks", HEADS, tuple(table.cells()[:MAX_KINKS]), note=note)]
    if table.slopes:
        blocks.append(Table("Slopes between the kinks", SEGMENT_HEADS, tuple(table.segments())))
    return blocks


def _pictures(net: TwoLayerNetwork, table: KinkTable, X: Array, Y: Array) -> list[Figure]:
    """One picture for each column with kinks of its own and for each other kink, and for each output."""
    columns = list(dict.fromkeys(row.column for row in table if row.column is not None))
    parts = [([row for row in table if row.column == name], name) for name in columns]
    parts += [([row], row.where.partition(" = ")[0]) for row in table if row.column is None]
    outputs = range(min(net.n_outputs, MAX_PICTURES))
    figures = [_picture(net, table, rows, name, j, X, Y) for rows, name in parts for j in outputs]
    return figures[:MAX_PICTURES]


def _picture(
    net: TwoLayerNetwork, table: KinkTable, rows: list[Kink], name: str, output: int, X: Array, Y: Array
) -> Figure:
    """Draw the samples against one column, or one normal, and what the units that bend along it add there."""
    normal = np.asarray(rows[0].normal)
    if rows[0].column is not None:
        normal = np.eye(net.n_features)[np.abs(normal).argmax()]
    is_alone = net.n_features == 1
    units = [row.unit for row in rows]
    t = X @ normal
    line = np.linspace(t.min(), t.max(), LINE_POINTS)
    line = np.unique(np.concatenate([line, [_place(net, row, normal) for row in rows]]))
    line = line[(line >= t.min()) & (line <= t.max())]

    def part(at: Array) -> Array:
        """What these units and the linear part add along the normal."""
        hidden = net.activation(np.outer(at, net.W[units] @ normal) + net.b[units])
        slope = 0.0 if net.B is None else float(net.B[output] @ normal)
        return as_array(hidden @ net.A[output, units] + slope * at)

    own = part(t) if not is_alone else net(X)[:, output]
    observed = Y[:, output] - net(X)[:, output] + own
    fitted = part(line) if not is_alone else net(line[:, None])[:, output]
    step = max(-(-len(t) // MAX_POINTS), 1)
    target = table.targets[output]
    data = {
        "x": t[::step].tolist(),
        "y": observed[::step].tolist(),
        "line_x": line.tolist(),
        "line_y": fitted.tolist(),
        "kinks": [{"place": _place(net, row, normal), "low": row.low, "high": row.high} for row in rows],
        "x_title": name,
        "y_title": target if is_alone else f"{target}, less what other parts explain",
    }
    places = "; ".join(row.where for row in rows)
    alt = f"Samples of {target} against {name}, the fit through them, and the kinks: {places}."
    return Figure("bends", f"{target} along {name}", alt, data)


def _place(net: TwoLayerNetwork, row: Kink, normal: Array) -> float:
    """Return where a kink lies along its normal."""
    if row.place is not None:
        return row.place
    return float(-net.b[row.unit] / (net.W[row.unit] @ normal))
