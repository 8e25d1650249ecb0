r"""Look at the landscape of an objective: slices between networks, curvature, and the kind of a stationary point.

Problem     A training has stopped at a network. Is the point a minimum, a saddle, or not stationary? Is there a lower
            minimum? How does the objective change between two networks?
Idea        A slice evaluates the objective on the segment through two networks or on the plane through three, with rows
            put back on the sphere where the objective lives there. A stationary point is classified by the norm of the
            gradient, the smallest eigenvalue of the Hessian, and its value compared with the one reached from the truth.
            Where that eigenvalue is zero the Hessian does not decide; descents from random places in a small ball around
            the point then look for a lower value.
Guarantee   Up to the tolerances that the answer states. A minimum is called spurious when the descent from the truth ends
            lower.
Cost        One value per point of the slice; 4(kd + k) gradients and one eigenvalue problem for the Hessian.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planted._threads import one_thread_inside
from planted._typing import Array
from planted.linalg import unit_rows
from planted.methods.landscape._descent import descend, smallest_curvature, tangent_gradient
from planted.methods.landscape.objectives import Objective, population_objective
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError

__all__ = ["LandscapeSlice", "StationaryPoint", "classify_point", "landscape_slice"]

Point = TwoLayerNetwork | tuple[Array, Array]
GRADIENT_TOL = 1e-6  # relative to the largest eigenvalue of the Hessian: a Newton step of this length
CURVATURE_TOL = 1e-7  # relative; below, an eigenvalue is zero
VALUE_TOL = 1e-8
BALL, BALL_STARTS, BALL_STEPS = 1e-3, 16, 400  # radius of the ball in which descent is looked for
BALL_TOL = 1e-13  # a fall of third order in the radius is 1e-9


@dataclass(frozen=True, slots=True)
class LandscapeSlice:
    """Values of an objective on a segment or a plane.

    Parameters
    ----------
    positions : ndarray of shape (steps,)
        0 at the first network, 1 at the second.
    other_positions : ndarray of shape (steps,) or (0,)
        0 at the first network, 1 at the third; empty for a segment.
    values : ndarray of shape (steps,) or (steps, steps)
        The objective; ``values[i, j]`` belongs to ``positions[i]`` and ``other_positions[j]``.
    """

    positions: Array
    other_positions: Array
    values: Array

    @property
    def barrier(self) -> float:
        """How far the objective rises above the higher end on the way from 0 to 1 of a segment."""
        line = self.values
        if line.ndim == 2:
            line = line[:, int(np.abs(self.other_positions).argmin())]
        inside = (self.positions >= 0) & (self.positions <= 1)
        ends = max(line[int(np.abs(self.positions - end).argmin())] for end in (0.0, 1.0))
        return float(max(line[inside].max() - ends, 0.0))


@dataclass(frozen=True, slots=True)
class StationaryPoint:
    """What kind of point it is, with the numbers behind it.

    Parameters
    ----------
    kind : str
        ``"not stationary"``, ``"saddle"``, ``"minimum"``, and with a truth to compare with ``"global minimum"`` or
        ``"spurious minimum"``.
    value : float
        The objective.
    gradient_norm : float
        Norm of its gradient.
    smallest_eigenvalue, largest_eigenvalue : float
        Of the Hessian.
    is_strict : bool
        Whether the smallest eigenvalue is not zero; at a minimum that is not strict there are flat directions, and no
        descent was found in a ball around it.
    floor : float
        The value reached from the truth; NaN without a truth.
    direction : tuple of ndarray
        The direction of the smallest eigenvalue in W and a: from a saddle the objective falls along it.
    """

    kind: str
    value: float
    gradient_norm: float
    smallest_eigenvalue: float
    largest_eigenvalue: float
    is_strict: bool
    floor: float
    direction: tuple[Array, Array]


@one_thread_inside
def landscape_slice(
    network: Point,
    objective: Objective | str,
    towards: Sequence[Point],
    *,
    truth: TwoLayerNetwork | None = None,
    span: tuple[float, float] = (-0.25, 1.25),
    steps: int = 61,
) -> LandscapeSlice:
    """Return values of an objective between two networks, or on the plane through three.

    Parameters
    ----------
    network : TwoLayerNetwork or (W, a)
        The point at position 0.
    objective : Objective or str
        What to evaluate; a name such as ``"G"`` stands for the population form at ``truth``.
    towards : sequence of one or two networks
        The points at position 1: one for a segment, two for a plane.
    truth : TwoLayerNetwork, optional
        The planted network, if the objective is given by name.
    span : (low, high)
        First and last position.
    steps : int
        Points in each direction.

    Returns
    -------
    LandscapeSlice
        Positions and values.

    Examples
    --------
    >>> import planted
    >>> truth = planted.TwoLayerNetwork(np.eye(2), A=[[1.0, 1.0]])
    >>> turned = planted.TwoLayerNetwork(np.eye(2)[::-1], A=[[1.0, 1.0]])
    >>> landscape_slice(truth, "f'", [turned], truth=truth, steps=7).values.round(3)
    array([0.026, 0.   , 0.064, 0.186, 0.064, 0.   , 0.026])
    """
    if not 1 <= len(towards) <= 2 or steps < 2 or not span[0] < span[1]:
        raise BadInputError(
            f"towards has {len(towards)} network(s), steps={steps}, span={span}; expected one or two networks, at least "
            "two steps, and a span that rises"
        )
    resolved = _resolve(objective, truth)
    W, a = _parts(network)
    ends = [_parts(point) for point in towards]
    if any(V.shape != W.shape for V, _ in ends):
        raise BadInputError("all networks of a slice need the same number of inputs and units")
    moves = [(V - W, c - a) for V, c in ends]
    positions = np.linspace(*span, steps)
    grid = [(s,) for s in positions] if len(moves) == 1 else [(s, t) for s in positions for t in positions]
    values = np.array([_value_at(resolved, W, a, moves, weights) for weights in grid])
    shape = (steps,) * len(moves)
    return LandscapeSlice(positions, positions if len(moves) == 2 else np.zeros(0), values.reshape(shape))


@one_thread_inside
def classify_point(
    network: Point,
    objective: Objective | str,
    *,
    truth: Point | None = None,
    gradient_tol: float = GRADIENT_TOL,
) -> StationaryPoint:
    """Say what kind of point a network is on a landscape.

    Parameters
    ----------
    network : TwoLayerNetwork or (W, a)
        The point.
    objective : Objective or str
        The landscape; a name stands for the population form at ``truth``.
    truth : TwoLayerNetwork or (W, a), optional
        The planted network, to tell global from spurious minima.
    gradient_tol : float
        Largest norm of the gradient at a stationary point, relative to the largest eigenvalue of the Hessian.

    Returns
    -------
    StationaryPoint
        The kind and its numbers.

    Examples
    --------
    >>> import planted
    >>> truth = planted.TwoLayerNetwork(np.eye(3), A=[[1.0, 1.0, 1.0]])
    >>> twice = planted.TwoLayerNetwork(np.eye(3)[[0, 0, 1]], A=[[1.0, 1.0, 1.0]])
    >>> [classify_point(net, "G", truth=truth).kind for net in (truth, twice)]
    ['not stationary', 'not stationary']
    >>> [classify_point(net, "P'", truth=truth).kind for net in (truth, twice)]
    ['global minimum', 'saddle']
    """
    known = truth if isinstance(truth, TwoLayerNetwork) else None
    resolved = _resolve(objective, known)
    W, a = _parts(network)
    value, dW, da = tangent_gradient(resolved, W, a)
    norm = float(np.sqrt((dW**2).sum() + (da**2).sum()))
    curvature = smallest_curvature(resolved, W, a)
    scale = max(abs(curvature.largest), abs(curvature.smallest), np.finfo(float).tiny)
    floor = float("nan") if truth is None else descend(resolved, *_parts(truth)).value
    lowest = curvature.smallest / scale
    kind = _kind(value, floor, norm / scale > gradient_tol, lowest)
    if "minimum" in kind and abs(lowest) <= CURVATURE_TOL and _falls_nearby(resolved, W, a, 1.0 / scale):
        kind = "saddle"
    extremes, is_strict = (curvature.smallest, curvature.largest), abs(lowest) > CURVATURE_TOL
    return StationaryPoint(kind, value, norm, *extremes, is_strict, floor, (curvature.W, curvature.a))


def _kind(value: float, floor: float, is_moving: bool, lowest: float) -> str:
    if is_moving:
        return "not stationary"
    if lowest < -CURVATURE_TOL:
        return "saddle"
    if np.isnan(floor):
        return "minimum"
    is_best = value <= floor + VALUE_TOL * max(1.0, abs(floor))
    return "global minimum" if is_best else "spurious minimum"


def _falls_nearby(objective: Objective, W: Array, a: Array, rate: float) -> bool:
    """Return whether projected descent from random places finds a lower value in a ball around a point."""
    rng = np.random.default_rng(0)  # a fixed set of places: the answer is a function of the point
    value = objective(W, a)[0]
    for _ in range(BALL_STARTS):
        move = BALL * rng.standard_normal(W.size + a.size) / np.sqrt(W.size + a.size)
        for _ in range(BALL_STEPS):
            V, c = W + move[: W.size].reshape(W.shape), a + move[W.size :]
            if objective.has_unit_rows:
                V = unit_rows(V)[0]
            lower, dW, da = tangent_gradient(objective, V, c)
            if lower < value - BALL_TOL * max(1.0, abs(value)):
                return True
            move = np.concatenate([(V - W).ravel(), c - a]) - rate * np.concatenate([dW.ravel(), da])
            move *= min(1.0, BALL / max(float(np.linalg.norm(move)), BALL))
    return False


def _resolve(objective: Objective | str, truth: TwoLayerNetwork | None) -> Objective:
    """Return the objective, made for the truth when it is given by name."""
    if not isinstance(objective, str):
        return objective
    if truth is None:
        raise BadInputError(f"objective={objective!r} is a name; give the planted network as truth")
    W, a = _parts(truth)
    return population_objective(objective, W, a, activation=truth.activation.name)


def _parts(point: Point) -> tuple[Array, Array]:
    """Return unit rows and output weights of a network with one output and no biases, or the pair as it is."""
    if not isinstance(point, TwoLayerNetwork):
        return np.asarray(point[0], dtype=np.float64), np.asarray(point[1], dtype=np.float64)
    if point.n_outputs != 1 or point.b.any() or point.c.any():
        raise BadInputError("the objectives are for networks with one output, without biases and offset")
    rows, norms = unit_rows(point.W)
    return rows, point.A[0] * norms**point.activation.degree


def _value_at(
    objective: Objective, W: Array, a: Array, moves: list[tuple[Array, Array]], weights: tuple[float, ...]
) -> float:
    for (dW, da), weight in zip(moves, weights, strict=True):
        W, a = W + weight * dW, a + weight * da
    if objective.has_unit_rows:
        W = unit_rows(W)[0]
    return objective(W, a)[0]
