"""Make a network as small as it can be, and say what happened to each unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted.networks import TwoLayerNetwork
from planted.networks._kinks import group_units, scale_units, sum_groups

__all__ = ["Simplification", "simplify"]


@dataclass(frozen=True, slots=True)
class Simplification:
    """The smallest equal network that was found, and the way there."""

    network: TwoLayerNetwork  # the simplified network
    # Units without effect: no output weight, or no input weight (a constant, folded into the offset).
    dropped: tuple[int, ...]
    merged: tuple[tuple[int, ...], ...]  # units that share a hyperplane, and are one or two units now
    # Units that share a hyperplane and leave no break there: nothing, or a linear part.
    cancelled: tuple[tuple[int, ...], ...]
    is_equal: bool  # whether the two were proved to be the same function, on their parameters


def simplify(net: TwoLayerNetwork, *, tol: float = 1e-10) -> Simplification:
    """Reduce a network to its smallest equal.

    `tol`: two hyperplanes whose unit normals and offsets differ by less are the same. Returns the network, what
    became of the units, and whether equality was proved.

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
