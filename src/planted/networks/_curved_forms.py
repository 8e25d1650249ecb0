"""Canonical form, matching and equality of networks with curved activations.

Problem     The activation is not homogeneous: rows of W keep their scale. Which networks are the same function?
Idea        Analytic activations in common use leave two freedoms only: the order of units, and turning a unit round where
            f(-t) = sign f(t) + constant + slope t, [Sussmann1992]_ for tanh and [Albertini1993]_ for others:

                a f(t) = sign a f(-t) + a constant - a slope t                                            (1)

            With a slope the linear part must take up the last term, so that orientation is a gauge for networks with B, and
            determined for networks without. Equal units, and units that face each other where orientation is a gauge, add
            up; constant units go to the offset. The canonical orientation has the first weight that is not zero positive.
            If turning units round removes B altogether, the network without B is the canonical one.
Guarantee   The function is kept to rounding. Equal canonical forms are equal functions. The converse is a theorem for the
            activations above and not for any function a user may give, so that networks with different canonical forms are
            called different only where an input shows it, and undecided otherwise.
References  [Albertini1993]_, [Sussmann1992]_
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from planted._typing import Array, BoolArray, as_array
from planted.linalg.signs import find_flips
from planted.networks._activations import parse_activation
from planted.networks._kinks import has_positive_lead, joined_points, looks_ahead, sum_labels, unit_order

if TYPE_CHECKING:
    from planted.networks._equivalence import Agreement
    from planted.networks._network import TwoLayerNetwork

__all__ = [
    "curved_agreement",
    "curved_form",
    "linear_part",
    "one_spelling",
    "simplify_curved",
    "turn_units",
    "turned_away",
    "turned_towards",
]

ROUNDING = 2.0**-46  # relative error of a parameter, or of a term of an output, that is put down to rounding
FACING_TOL = 1e-10  # part of a unit's largest weight below which a weight is zero
BOX = 3.0  # in units of the typical inputs
N_WITNESSES = 2000


def one_spelling(net: TwoLayerNetwork, other: TwoLayerNetwork) -> tuple[TwoLayerNetwork, TwoLayerNetwork]:
    """Return two networks with the same activation where one is the other's in another spelling: sigmoid as tanh."""
    if net.activation == other.activation:
        return net, other
    return _respelled(net), _respelled(other)


def _respelled(net: TwoLayerNetwork) -> TwoLayerNetwork:
    known = net.activation.respelled
    if known is None:
        return net
    name, inner, outer, offset = known
    return replace(
        net,
        W=inner * net.W,
        b=inner * net.b,
        A=outer * net.A,
        c=net.c + offset * net.A.sum(axis=1),
        activation=parse_activation(name),
    )


def simplify_curved(net: TwoLayerNetwork, *, tol: float, affine: bool | None = None) -> TwoLayerNetwork:
    """Return an equal network without constant, equal or cancelling units, or the network itself if none can be saved."""
    may_have_linear = net.B is not None if affine is None else affine
    merged = _merged(net, tol, free=_is_free(net, may_have_linear))
    return net if merged.n_hidden == net.n_hidden else merged


def curved_form(net: TwoLayerNetwork, *, tol: float) -> TwoLayerNetwork:
    """Return the canonical form: merged units, first weights positive where orientation is a gauge, units sorted."""
    is_free = _is_free(net, net.B is not None)
    net = _merged(net, tol, free=is_free)
    if is_free:
        net = turn_units(net, _looks_back(net, tol))
        net = _without_linear_part(net, tol)
    order = unit_order(net.W, net.b)
    return replace(net, W=net.W[order], b=net.b[order], A=net.A[:, order])


def turned_away(net: TwoLayerNetwork) -> BoolArray:
    """Mark the units that the canonical form turns round, where orientation is a gauge."""
    if not _is_free(net, net.B is not None):
        return np.zeros(net.n_hidden, dtype=np.bool_)
    if net.activation.is_curved:
        return _looks_back(net, FACING_TOL)
    return ~looks_ahead(net.W) if _is_free(net, may_have_linear=False) else ~has_positive_lead(net.W)


def turn_units(net: TwoLayerNetwork, flips: BoolArray) -> TwoLayerNetwork:
    """Turn the marked units round by (1); a linear part is added where the activation needs one."""
    if not flips.any():
        return net
    mirror = net.activation.mirror
    assert mirror is not None
    signs = np.where(flips, -1.0, 1.0)
    moved = net.A * flips
    B = net.B
    if mirror.slope:
        B = (0.0 if B is None else B) - mirror.slope * moved @ net.W
    return replace(
        net,
        W=net.W * signs[:, None],
        b=net.b * signs,
        A=np.where(flips, mirror.sign, 1.0) * net.A,
        c=net.c + moved.sum(axis=1) * mirror.constant - mirror.slope * moved @ net.b,
        B=B,
    )


def turned_towards(net: TwoLayerNetwork, truth: TwoLayerNetwork, costs: Any) -> TwoLayerNetwork:
    """Turn the units of a network to look as the nearest units of another one do, where orientation is a gauge.

    `costs(truth, net)`: distances between units.
    """
    from scipy.optimize import linear_sum_assignment

    if not _is_free(net, net.B is not None or truth.B is not None):
        return net
    every = np.ones(net.n_hidden, dtype=np.bool_)
    ways = [costs(truth, net), costs(truth, turn_units(net, every))]
    rows, columns = linear_sum_assignment(np.minimum(*ways))
    flips = np.zeros(net.n_hidden, dtype=np.bool_)
    flips[columns] = ways[1][rows, columns] < ways[0][rows, columns]
    return turn_units(net, flips)


def linear_part(net: TwoLayerNetwork) -> Array:
    """Return B, or zeros where there is none."""
    return np.zeros((net.n_outputs, net.n_features)) if net.B is None else net.B


def _is_free(net: TwoLayerNetwork, may_have_linear: bool) -> bool:
    """Whether units can be turned round."""
    mirror = net.activation.mirror
    return mirror is not None and (mirror.slope == 0 or may_have_linear)


def _merged(net: TwoLayerNetwork, tol: float, *, free: bool) -> TwoLayerNetwork:
    """Fold constant units into the offset, drop those without effect and add up equal ones."""
    is_flat = ~net.W.any(axis=1)
    live = ~is_flat & net.A.any(axis=0)
    if not live.all():
        c = net.c + net.A[:, is_flat] @ net.activation(net.b[is_flat])
        net = replace(net, W=net.W[live], b=net.b[live], A=net.A[:, live], c=c)
    rows = np.arcsinh(np.column_stack([net.W, net.b]))  # large weights differ by their ratio
    labels, signs = joined_points(rows, tol, up_to_sign=free)
    if free:
        net = turn_units(net, signs < 0)
    count = int(labels.max(initial=-1)) + 1
    first = np.array([np.flatnonzero(labels == label)[0] for label in range(count)], dtype=np.intp)
    total, size = sum_labels(net.A, labels, count), sum_labels(np.abs(net.A), labels, count)
    kept = (np.abs(total) > tol * size).any(axis=0)
    first = first[kept]
    B = None if net.B is None or not net.B.any() else net.B
    return replace(net, W=net.W[first], b=net.b[first], A=total[:, kept], B=B)


def _looks_back(net: TwoLayerNetwork, tol: float) -> BoolArray:
    """Mark the units whose first weight that is not zero is negative."""
    sizes = np.abs(net.W)
    leading = (sizes > tol * sizes.max(axis=1, keepdims=True, initial=0.0)).argmax(axis=1)
    return np.asarray(net.W[np.arange(net.n_hidden), leading] < 0)


def _without_linear_part(net: TwoLayerNetwork, tol: float) -> TwoLayerNetwork:
    """Turn units round so that B vanishes, if that can be done."""
    mirror = net.activation.mirror
    if net.B is None or mirror is None or not mirror.slope:
        return net
    columns = mirror.slope * np.einsum("li,ij->lji", net.A, net.W).reshape(net.B.size, net.n_hidden)
    flips = find_flips(columns, net.B.ravel(), preferred=np.zeros(net.n_hidden, dtype=np.bool_), tol=tol)
    return net if flips is None else replace(turn_units(net, flips), B=None)


def curved_agreement(
    nets: tuple[TwoLayerNetwork, TwoLayerNetwork],
    *,
    tol: float | None,
    sizes: Array,
    rng: np.random.Generator,
) -> Agreement:
    """Compare two networks of which one at least is curved; `Agreement` says what the fields are.

    `tol`: differences up to this part of an output's scale are none; if None, only what rounding explains.
    Shapes: sizes (d,), of typical inputs.
    """
    from planted.networks._equivalence import HIDDEN, Agreement

    rows = rng.standard_normal((N_WITNESSES, sizes.size)) * sizes
    values = [net(rows) for net in nets]
    scale = np.maximum(*(np.ptp(one, axis=0) / 2 for one in values))
    share = (HIDDEN if tol is None else tol) * scale
    bound, is_rounding = _bound(*nets, BOX * sizes)
    relative = float((bound / np.where(scale > 0, scale, np.inf)).max(initial=0.0))
    largest = float(bound.max(initial=0.0))
    if (bound <= share).all() and (tol is not None or is_rounding):
        return Agreement(True, False, largest, relative, 0.0, None)
    gaps = np.abs(values[0] - values[1])
    needed = ROUNDING * (_terms(nets[0], rows) + _terms(nets[1], rows)) + (0.0 if tol is None else share)
    excess = np.where(gaps > needed, gaps, 0.0).max(axis=1, initial=0.0)
    row = int(np.argmax(excess))
    if excess[row] > 0:
        return Agreement(False, False, largest, relative, float(gaps[row].max()), rows[row])
    return Agreement(None, False, largest, relative, 0.0, None)


def _bound(net: TwoLayerNetwork, other: TwoLayerNetwork, box: Array) -> tuple[Array, bool]:
    """Bound the difference on a box by the differences of matched parameters; infinite if units cannot be matched.

    Also returns whether rounding explains every difference.
    """
    from planted.networks._matching import match_units
    from planted.outcomes import BadInputError

    net, other = one_spelling(net, other)
    nowhere = np.full(net.n_outputs, np.inf), False
    if net.activation != other.activation:
        return nowhere
    try:
        matching = match_units(net, other)
    except BadInputError:  # different numbers of units
        return nowhere
    one, truth, order = matching.network, matching.truth, matching.permutation
    one = replace(one, W=one.W[order], b=one.b[order], A=one.A[:, order])
    pairs = [(one.W, truth.W), (one.b, truth.b), (one.A, truth.A), (one.c, truth.c)]
    pairs.append((linear_part(one), linear_part(truth)))
    dW, db, dA, dc, dB = (np.abs(first - second) for first, second in pairs)
    is_rounding = all(
        (np.abs(first - second) <= ROUNDING * (np.abs(first).max(initial=0.0) + np.abs(second))).all()
        for first, second in pairs
    )
    reach = np.abs(one.W) @ box + np.abs(one.b)
    steepest = one.activation.steepest_up_to(float(reach.max(initial=0.0)))
    values = np.abs(one.activation(np.zeros(one.n_hidden))) + steepest * reach
    bound = dA @ values + np.abs(truth.A) @ (steepest * (dW @ box + db)) + dc + dB @ box
    return as_array(bound), is_rounding


def _terms(net: TwoLayerNetwork, rows: Array) -> Array:
    """Sizes of the terms of the outputs whose rounding matters; (n, m)."""
    sizes = np.abs(rows) @ np.abs(net.W).T + np.abs(net.b)
    terms = net.activation.rounding_terms(net.preactivations(rows), sizes) @ np.abs(net.A).T + np.abs(net.c)
    return as_array(terms if net.B is None else terms + np.abs(rows) @ np.abs(net.B).T)
