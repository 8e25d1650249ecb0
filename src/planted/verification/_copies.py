"""Match the units of two networks layer by layer, and say what the matching costs in rounding.

Units are assigned by their rows and biases, scaled to unit norm, once the columns are in the order and scale of the layer
below. A unit of g that is a positive multiple of one of f is divided by that factor, which moves into the layer above. The
division rounds: `rewritten` bounds by how much the rewritten network differs from g on a box. A network whose units are
only permuted, or scaled by powers of two, is rewritten exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from planted._typing import Array, IntArray
from planted.outcomes import BadInputError
from planted.verification._backward import UNIT, Domain
from planted.verification._limits import find_limits, open_signs
from planted.verification._stages import Plain, single_stages

__all__ = [
    "KINDS",
    "UNDERFLOW",
    "Match",
    "Provenance",
    "match_copies",
    "rewriting_error",
    "rounded_copy",
    "trace_copy",
]

POWER_TOL = 1e-12  # factors that are powers of two up to this are taken to be
UNDERFLOW = 2.0**-1000  # more than what is lost where numbers far below one underflow
KINDS = ("float32", "float16", "int8 per tensor", "int8 per channel")
EXPLAINED = 0.1  # distance of two unit rows with biases up to which they are versions of one unit
SAME = 1e-6  # and up to which they are the same unit
LARGEST_ASSIGNED = 3000  # units in one layer; larger layers are taken in the order they have


@dataclass(frozen=True, slots=True)
class Match:
    """The second network in the order and scale of the first."""

    network: Plain
    orders: tuple[IntArray, ...]  # for every hidden layer: unit i of f corresponds to unit order[i] of g
    factors: tuple[Array, ...]  # and is this many times smaller
    distances: tuple[Array, ...]  # between unit rows with biases
    is_exact: bool  # whether the rewritten network equals g


def match_copies(f: Plain, g: Plain, *, keep_order: bool = False) -> Match | None:
    """Match two networks of the same widths and slopes; None if they have others. `keep_order`: unit by unit as they are.

    Examples
    --------
    >>> from planted.networks import TwoLayerNetwork
    >>> from planted.verification._stages import as_plain
    >>> one = TwoLayerNetwork(W=[[1.0, 0.0], [0.0, 1.0]], A=[[1.0, 2.0]])
    >>> other = TwoLayerNetwork(W=[[0.0, 4.0], [1.0, 0.0]], A=[[0.5, 1.0]])
    >>> match_copies(as_plain(one), as_plain(other)).orders[0].tolist()
    [1, 0]
    """
    if f.widths != g.widths or any((a != b).any() for a, b in zip(f.slopes, g.slopes, strict=True)):
        return None
    layers, orders, factors, distances = [], [], [], []
    order, factor = np.arange(f.widths[0]), np.ones(f.widths[0])
    is_exact = True
    for place, ((W, b), (V, c)) in enumerate(zip(f.layers, g.layers, strict=True)):
        weights, biases = V[:, order] * factor, c
        is_exact &= bool((weights / factor == V[:, order]).all())
        if place == len(f.layers) - 1:
            layers.append((weights, biases))
            break
        order, gaps = _assigned(W, b, weights, biases, f.slopes[place], keep_order)
        weights, biases = weights[order], biases[order]
        factor = np.ones(len(order)) if keep_order else _factors(W, b, weights, biases)
        scaled = weights / factor[:, None], biases / factor
        back = scaled[0] * factor[:, None], scaled[1] * factor
        is_exact &= bool(
            (np.frexp(factor)[0] == 0.5).all() and (back[0] == weights).all() and (back[1] == biases).all()
        )
        layers.append(scaled)
        orders.append(order)
        factors.append(factor)
        distances.append(gaps)
    if not all(np.isfinite(part).all() for layer in layers for part in layer):
        return None
    return Match(Plain(tuple(layers), f.slopes), tuple(orders), tuple(factors), tuple(distances), is_exact)


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the second of two networks may come from, layer by layer."""

    relation: str  # "identical", "rearranged", "changed", "partly related" or "unrelated"
    share: float  # of the hidden units that are versions of a unit of the first network
    is_permuted: bool
    is_rescaled: bool
    layers: tuple[tuple[int, int, int, float], ...]  # units, the same, versions of one, median distance
    last_change: float  # of the last layer, relative to its size


def trace_copy(f: Plain, g: Plain) -> Provenance | None:
    """Match the units of two networks and say how they are related; None if their widths or activations differ.

    Examples
    --------
    >>> from planted.networks import TwoLayerNetwork
    >>> from planted.verification._stages import as_plain
    >>> one = TwoLayerNetwork(W=[[1.0, 0.0], [0.0, 1.0]], A=[[1.0, 2.0]])
    >>> other = TwoLayerNetwork(W=[[0.0, 4.0], [1.0, 0.0]], A=[[0.5, 1.0]])
    >>> trace_copy(as_plain(one), as_plain(other)).relation
    'rearranged'
    """
    match = match_copies(f, g)
    if match is None:
        return None
    layers = tuple(
        (len(gaps), int((gaps <= SAME).sum()), int((gaps <= EXPLAINED).sum()), float(np.median(gaps)))
        for gaps in match.distances
    )
    units = sum(entry[0] for entry in layers)
    share = sum(entry[2] for entry in layers) / units
    last, copied = f.layers[-1][0], match.network.layers[-1][0]
    change = float(np.linalg.norm(last - copied)) / max(float(np.linalg.norm(last)), 1e-300)
    is_permuted = any((order != np.arange(len(order))).any() for order in match.orders)
    # A changed unit has another length too: only what is more than the change of its direction is a factor.
    pairs = zip(match.factors, match.distances, strict=True)
    is_rescaled = any((np.abs(np.log(factor)) > 2 * gap).any() for factor, gap in pairs)
    if share < 0.5:
        relation = "unrelated"
    elif share < 0.9:
        relation = "partly related"
    elif sum(entry[1] for entry in layers) < units or change > SAME:
        relation = "changed"
    else:
        relation = "rearranged" if is_permuted or is_rescaled else "identical"
    return Provenance(relation, share, is_permuted, is_rescaled, layers, change)


def rounded_copy(net: Plain, kind: str) -> Plain:
    """Return a copy with rounded weights; biases are kept in single precision for int8.

    Examples
    --------
    >>> from planted.networks import TwoLayerNetwork
    >>> from planted.verification._stages import as_plain
    >>> net = as_plain(TwoLayerNetwork(W=[[1.0, 0.3]], A=[[1.0]]))
    >>> (rounded_copy(net, "int8 per tensor").layers[0][0] * 127).round(9).tolist()
    [[127.0, 38.0]]
    """
    layers = tuple(
        (_rounded(W, kind), _rounded(b, "float16" if kind == "float16" else "float32")) for W, b in net.layers
    )
    return Plain(layers, net.slopes)


def _rounded(values: Array, kind: str) -> Array:
    """Round to a floating-point type, or to 255 equal steps."""
    if kind in ("float32", "float16"):
        with np.errstate(over="ignore"):
            found = values.astype(kind).astype(np.float64)
        if not np.isfinite(found).all():
            raise BadInputError(f"a weight is too large for {kind}")
        return np.asarray(found)
    size = (
        np.abs(values).max(axis=1, keepdims=True)
        if kind == "int8 per channel"
        else np.abs(values).max(initial=0.0)
    )
    step = np.where(size > 0, size / 127, 1.0)
    return np.asarray(np.round(values / step) * step)


def rewriting_error(match: Match, low: Array, high: Array) -> Array:
    """Bound the difference between g and the rewritten network on a box, for every output."""
    m = match.network.widths[-1]
    if match.is_exact:
        return np.zeros(m)
    domain = Domain(low[None], high[None], np.zeros((0, len(low))), np.zeros(0))
    stages = single_stages(match.network)
    limits, _ = find_limits(stages, domain, open_signs(stages, 1))
    size = np.maximum(np.abs(low), np.abs(high))
    error = np.zeros(len(low))
    for place, (W, b) in enumerate(match.network.layers):
        # Each weight was multiplied and divided once, each bias divided once: at most four roundings, with the sum's.
        rounding = (8 + len(size)) * UNIT * (np.abs(W) @ (size + error) + np.abs(b)) + UNDERFLOW * (
            1 + size.sum()
        )
        error = (np.abs(W) @ error) * (1 + 8 * UNIT) + rounding
        if place < len(limits):
            steepest = np.maximum(1.0, np.abs(match.network.slopes[place]))
            error = steepest * error
            size = steepest * np.maximum(np.abs(limits[place].z_low[0]), np.abs(limits[place].z_high[0]))
    return np.asarray(error * (1 + 16 * UNIT))


def _assigned(
    W: Array, b: Array, V: Array, c: Array, slopes: Array, keep_order: bool
) -> tuple[IntArray, Array]:
    """Assign rows of the second layer to those of the first with the same slope, and say how far apart they are."""
    one, other = _directions(W, b), _directions(V, c)
    same = np.arange(len(b))
    if keep_order or len(b) > LARGEST_ASSIGNED:
        return same, np.linalg.norm(one - other, axis=1)
    cost = cdist(one, other)
    # Unit rows are at most two apart, so one forbidden pair costs more than any order within the slopes.
    forbidden = np.where(slopes[:, None] == slopes, 0.0, 8.0 * len(b))
    order = linear_sum_assignment(cost**2 + forbidden)[1]
    if (cost[same, same] ** 2).sum() <= (cost[same, order] ** 2).sum():
        order = same
    return order, cost[same, order]


def _directions(W: Array, b: Array) -> Array:
    """Rows with their biases, scaled to unit norm; rows of zeros stay."""
    rows = np.column_stack([W, b])
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = rows / np.where(largest > 0, largest, 1.0)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1.0))


def _factors(W: Array, b: Array, V: Array, c: Array) -> Array:
    """By how much rows of the second are larger; one unless dividing by it brings the rows nearer by half.

    The median of the ratios, weighted by the sizes: a few changed weights do not move it, as they would the ratio of norms,
    so the others are still equal after division.
    """
    one, other = np.column_stack([W, b]), np.column_stack([V, c])
    with np.errstate(all="ignore"):
        ratios = np.where(one != 0, other / one, np.inf)
        order = np.argsort(ratios, axis=1)
        sums = np.cumsum(np.take_along_axis(np.abs(one), order, axis=1), axis=1)
        middle = (sums >= 0.5 * sums[:, -1:]).argmax(axis=1)[:, None]
        factor = np.take_along_axis(ratios, np.take_along_axis(order, middle, axis=1), axis=1)[:, 0]
        # A power of two, if it is one up to rounding, is divided out exactly.
        power = np.exp2(np.round(np.log2(factor)))
        factor = np.where(np.abs(factor / power - 1) < POWER_TOL, power, factor)
        left = np.linalg.norm(other / factor[:, None] - one, axis=1)
        is_scaled = np.isfinite(factor) & (factor > 0) & (left < 0.5 * np.linalg.norm(other - one, axis=1))
    return np.where(is_scaled, factor, 1.0)
