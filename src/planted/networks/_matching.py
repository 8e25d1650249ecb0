"""Matching the units of two networks, and the parameter error after it.

Two networks are compared unit by unit after the gauge is removed. Two pairs of representatives are tried and the
better one counts: the canonical forms, and the networks as they are with unit rows of W. The second matters for an
estimate of a network whose orientations are ambiguous (Claim 4.8 of [ATV21]_): the estimate is near one of the equal
representatives and equal to none, so its canonical form may be near another one.

If one of the two networks has a linear part B, orientation is a gauge. Both are then written with a linear part, units
are assigned whichever way they look, and those of the estimate are turned to look as those of the truth do.

The assignment minimises, summed over units, squared distances in which every part is free of scale: rows of W have
unit norm, biases are compared on the scale of arcsinh, columns of A relative to their sizes. Curved activations keep the
rows of W as they are, and their weights are compared on the scale of arcsinh too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._threads import one_thread_inside
from planted._typing import Array, IntArray, as_array
from planted.networks._curved_forms import linear_part, one_spelling, turned_towards
from planted.networks._deep import DeepNetwork
from planted.networks._deep_forms import deep_parameter_error
from planted.networks._kinks import scale_units
from planted.networks._network import TwoLayerNetwork
from planted.networks._simplify import canonical_form, facing_form
from planted.outcomes import BadInputError

__all__ = ["UnitMatching", "match_units", "parameter_error"]


@dataclass(frozen=True, slots=True)
class UnitMatching:
    """Which unit of one network corresponds to which of another.

    Parameters
    ----------
    network, truth : TwoLayerNetwork
        The representatives that were compared: equal to the networks given, with unit rows of W.
    permutation : ndarray of int, shape (k,)
        Unit ``i`` of ``truth`` corresponds to unit ``permutation[i]`` of ``network``.
    unit_errors : ndarray of shape (k,)
        Largest absolute difference over W, b and A for each unit of ``truth``.
    offset_error : float
        Largest absolute difference over c.
    linear_error : float
        Largest absolute difference over B; zero if neither network has a linear part.
    """

    network: TwoLayerNetwork
    truth: TwoLayerNetwork
    permutation: IntArray
    unit_errors: Array
    offset_error: float
    linear_error: float = 0.0

    @property
    def error(self) -> float:
        """The largest of all differences."""
        return float(max(self.unit_errors.max(initial=0.0), self.offset_error, self.linear_error))


@one_thread_inside
def match_units(net: TwoLayerNetwork, truth: TwoLayerNetwork, *, tol: float = 1e-10) -> UnitMatching:
    """Match the units of a network with those of another one.

    Parameters
    ----------
    net, truth : TwoLayerNetwork
        Networks with the same inputs, outputs and activation, and the same number of units once simplified.
    tol : float, default=1e-10
        Two hyperplanes whose unit normals and offsets differ by less are the same.

    Returns
    -------
    UnitMatching
        The matching with the smallest error.

    Examples
    --------
    >>> truth = TwoLayerNetwork(W=[[1.0, 0.0], [0.0, 1.0]], A=[[1.0, 2.0]])
    >>> matching = match_units(TwoLayerNetwork(W=[[0.0, 4.0], [1.0, 0.0]], A=[[0.5, 1.25]]), truth)
    >>> matching.unit_errors, matching.error
    (array([0.25, 0.  ]), 0.25)
    """
    if not _are_comparable(net, truth):
        raise BadInputError(
            f"{net!r} and {truth!r} cannot be matched; inputs, outputs and activation must be the same"
        )
    matching = _best_matching(net, truth, tol)
    if matching is None:
        counts = net.canonical(tol=tol).n_hidden, truth.canonical(tol=tol).n_hidden
        raise BadInputError(
            f"the networks have {counts[0]} and {counts[1]} units once simplified; "
            "only networks with the same number can be matched"
        )
    return matching


@one_thread_inside
def parameter_error(
    net: TwoLayerNetwork | DeepNetwork, truth: TwoLayerNetwork | DeepNetwork, *, tol: float = 1e-10
) -> float:
    """Return the largest absolute difference over all weights and biases after matching canonical units.

    Parameters
    ----------
    net, truth : TwoLayerNetwork or DeepNetwork
        The networks to compare.
    tol : float, default=1e-10
        Two hyperplanes whose unit normals and offsets differ by less are the same.

    Returns
    -------
    float
        The error; infinite when the shapes, the activations or the numbers of units differ.

    Examples
    --------
    >>> truth = TwoLayerNetwork(W=[[1.0, 0.0], [0.0, 1.0]], A=[[1.0, 2.0]])
    >>> parameter_error(TwoLayerNetwork(W=[[0.0, 4.0], [1.0, 0.0]], A=[[0.5, 1.25]]), truth)
    0.25
    """
    if not (isinstance(net, TwoLayerNetwork) and isinstance(truth, TwoLayerNetwork)):
        return deep_parameter_error(net, truth, tol=tol)
    net, truth = one_spelling(net, truth)
    if not _are_comparable(net, truth):
        return float("inf")
    matching = _best_matching(net, truth, tol)
    return float("inf") if matching is None else matching.error


def _are_comparable(net: TwoLayerNetwork, truth: TwoLayerNetwork) -> bool:
    shapes = {(each.n_features, each.n_outputs, each.activation) for each in (net, truth)}
    return len(shapes) == 1


def _best_matching(net: TwoLayerNetwork, truth: TwoLayerNetwork, tol: float) -> UnitMatching | None:
    """The better of the two matchings of the module's docstring; None if the numbers of units differ."""
    if net.activation.is_curved or net.B is not None or truth.B is not None:
        return _match_turned(net, truth, tol)
    pairs = [(net.canonical(tol=tol), truth.canonical(tol=tol)), (_unit_rows(net), _unit_rows(truth))]
    matchings = [_assign(one, other) for one, other in pairs if one.n_hidden == other.n_hidden]
    return min(matchings, key=lambda matching: matching.error, default=None)


def _match_turned(net: TwoLayerNetwork, truth: TwoLayerNetwork, tol: float) -> UnitMatching | None:
    """Match networks that are curved or of which one has a linear part; orientation is no difference where it is a gauge."""
    form = facing_form if net.activation.is_piecewise_linear else canonical_form
    one, other = form(net, tol=tol), form(truth, tol=tol)
    if one.n_hidden != other.n_hidden:
        return None
    if net.activation.is_curved or (net.activation.is_piecewise_linear and net.activation.slope):
        one = turned_towards(one, other, _costs)
    return _assign(one, other)


def _unit_rows(net: TwoLayerNetwork) -> TwoLayerNetwork:
    """The same units with unit rows of W; constant units folded away, nothing merged."""
    units = scale_units(net)
    return TwoLayerNetwork(
        W=units.normals, b=units.offsets, A=units.outputs, c=units.constant, activation=net.activation
    )


def _assign(net: TwoLayerNetwork, truth: TwoLayerNetwork) -> UnitMatching:
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(_costs(truth, net))
    order = np.argsort(rows)
    permutation = columns[order].astype(np.intp)
    gaps = np.column_stack(
        [truth.W - net.W[permutation], truth.b - net.b[permutation], (truth.A - net.A[:, permutation]).T]
    )
    return UnitMatching(
        network=net,
        truth=truth,
        permutation=permutation,
        unit_errors=np.abs(gaps).max(axis=1, initial=0.0),
        offset_error=float(np.abs(truth.c - net.c).max(initial=0.0)),
        linear_error=float(np.abs(linear_part(truth) - linear_part(net)).max(initial=0.0)),
    )


def _costs(truth: TwoLayerNetwork, net: TwoLayerNetwork) -> Array:
    """Squared scale-free distances between the units of two networks with unit rows of W, shape (k, k)."""
    from scipy.spatial.distance import cdist

    rows = [np.arcsinh(each.W) if each.activation.is_curved else each.W for each in (truth, net)]
    planes = [np.column_stack([W, np.arcsinh(each.b)]) for W, each in zip(rows, (truth, net), strict=True)]
    scale = max(np.abs(truth.A).max(initial=0.0), np.abs(net.A).max(initial=0.0)) or 1.0
    columns = [each.A.T / scale for each in (truth, net)]
    sizes = [np.linalg.norm(each, axis=1) for each in columns]
    total = sizes[0][:, None] + sizes[1][None, :]
    relative = cdist(*columns) / np.where(total > 0, total, 1.0)
    return as_array(cdist(*planes, "sqeuclidean") + relative**2)
