"""Reduce a network to fewer units without changing its function, and say what became of each unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted.networks import TwoLayerNetwork
from planted.networks._kinks import group_units, scale_units, sum_groups

__all__ = ["Simplification", "simplify"]


@dataclass(frozen=True, slots=True)
class Simplification:
    """The smallest equal network that was found, and what became of the units.

    Parameters
    ----------
    network : TwoLayerNetwork
        The simplified network.
    dropped : tuple of int
        Units without effect: no output weight, or no input weight (a constant, which the offset takes).
    merged : tuple of tuple of int
        Units that share a hyperplane and are one or two units now.
    cancelled : tuple of tuple of int
        Units that share a hyperplane and leave no break there: nothing, or a linear part.
    is_equal : bool
        Whether the two networks were proved on their parameters to be the same function.
    """

    network: TwoLayerNetwork
    dropped: tuple[int, ...]
    merged: tuple[tuple[int, ...], ...]
    cancelled: tuple[tuple[int, ...], ...]
    is_equal: bool


def simplify(net: TwoLayerNetwork, *, tol: float = 1e-10) -> Simplification:
    """Reduce a network to its smallest equal.

    Parameters
    ----------
    net : TwoLayerNetwork
        The network.
    tol : float, default=1e-10
        Two hyperplanes whose unit normals and offsets differ by less are the same.

    Returns
    -------
    Simplification
        The smaller network, what became of the units, and whether equality was proved.

    Examples
    --------
    >>> net = TwoLayerNetwork(W=[[1.0], [2.0], [0.0]], A=[[1.0, 1.0, 5.0]])
    >>> found = simplify(net)
    >>> found.network.n_hidden, found.dropped, found.merged, found.is_equal
    (1, (2,), ((0, 1),), True)
    """
    small = net.simplify(tol=tol)
    norms = np.linalg.norm(net.W, axis=1)
    is_live = (norms > 0) & (net.A != 0).any(axis=0)
    live = np.flatnonzero(is_live)
    units = scale_units(net)
    groups = group_units(units, tol=tol)
    total, size = sum_groups(units.outputs, groups), sum_groups(np.abs(units.outputs), groups)
    merged, cancelled = [], []
    for h in range(groups.offsets.size):
        members = tuple(int(i) for i in live[groups.labels == h])
        if (np.abs(total[:, h]) <= tol * size[:, h]).all():
            cancelled.append(members)
        elif len(members) > 1:
            merged.append(members)
    return Simplification(
        network=small,
        dropped=tuple(int(i) for i in np.flatnonzero(~is_live)),
        merged=tuple(sorted(merged)),
        cancelled=tuple(sorted(cancelled)),
        is_equal=net.is_equivalent(small, tol=max(tol, 1e-9)),
    )
