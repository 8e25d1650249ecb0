"""Start an exact method from an approximate network (BJW18 §4.3).

Problem     Another method, or the user, knows A or W to some per cent, perhaps without the signs of W. The data are
            noiseless, Y = f(X W') A', of full column rank. Find the network exactly, for any law of x.
Idea        Either matrix ranks the samples for each unit: by w_i'x, or by coordinate i of A⁺y, which is the
            activation itself if A is right. The unit is off in the lowest samples, and the null space on them gives
            the unit exactly (`quantile_null_space`).
Guarantee   Corollary 5 of [BJW18]_: exact with high probability if the approximation is good enough. The certificate
            decides.
Departures  Algorithm 3's threshold is replaced by a quantile, and units that were not reached are searched for at
            random.
References  [BJW18]_
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import linalg

from planted._typing import Array, as_array
from planted.certificates.searches._exact_units import ExactSearch
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError, BadInputTypeError
from planted.results import Recovery

__all__ = ["WarmStart", "scores_of_start"]

WarmStart = TwoLayerNetwork | Recovery | Mapping[str, Any]
"""An approximate network, a recovery that holds one, or a mapping with one of the keys ``"W"`` and ``"A"``."""


def scores_of_start(search: ExactSearch, start: WarmStart) -> Array:
    """Rank the samples for every unit of an approximate answer; scores are low where the unit is off.

    `start` is the approximate answer in the user's units. From a network or ``{"W": W}`` the hidden weights are used,
    with both signs; from ``{"A": A}`` the output weights. Shapes: result (rows, starts).
    """
    matrices = _matrices_of(start)
    problem = search.problem
    if "W" in matrices:
        W = _checked("W", matrices["W"], (None, problem.n_features)) * problem.scaling.x_scale
        forward = search.X @ W.T
        return np.hstack([forward, -forward])
    A = _checked("A", matrices["A"], (problem.n_outputs, None))
    return as_array(problem.Y[: len(search.X)] @ linalg.pinv(A).T)


def _matrices_of(start: WarmStart) -> Mapping[str, Any]:
    network = start.network if isinstance(start, Recovery) else start
    if isinstance(network, TwoLayerNetwork):
        return {"W": network.W}
    if isinstance(network, Mapping) and set(network) in ({"W"}, {"A"}):
        return network
    if network is None:
        raise BadInputError("warm_start is a recovery without a network; give one that has a network")
    raise BadInputTypeError(
        "warm_start must be a TwoLayerNetwork, a Recovery, or a mapping with the single key 'W' (shape (k, d)) "
        f"or 'A' (shape (m, k)); got {type(start).__name__}"
    )


def _checked(name: str, values: Any, shape: tuple[int | None, int | None]) -> Array:
    matrix = as_array(values)
    expected = tuple("k" if size is None else str(size) for size in shape)
    is_right = matrix.ndim == 2 and all(
        size in (None, got) for size, got in zip(shape, matrix.shape, strict=True)
    )
    if not is_right or not matrix.size:
        raise BadInputError(
            f"warm_start {name} has shape {matrix.shape}; expected ({expected[0]}, {expected[1]})"
        )
    if not np.isfinite(matrix).all():
        raise BadInputError(f"warm_start {name} contains NaN or infinity")
    return matrix
