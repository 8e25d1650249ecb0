"""What a network with few outputs must show beyond a small residual, and the weights of samples.

With fewer outputs than units there is no column space to search again. A unit that few rows see on one side is told
from a linear part by those rows alone: below `SIDE_ROWS` (d+1) of them it is not identifiable. On inputs that take
two values every function is piecewise linear in many ways: a unit must depend on an input with more values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from planted._typing import Array, BoolArray, IntArray
from planted.algorithms._problem import Problem
from planted.algorithms.certificate import RESIDUAL_TOL
from planted.moments import RowBlocks, RowWeights, Sums, accumulate, joint_moments, sample_rows
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError
from planted.results import Evidence

__all__ = [
    "ORIENTATION_GAP",
    "SIDE_ROWS",
    "count_missed_rows",
    "few_outputs_evidence",
    "reproduced_rows",
    "weigh_blocks_of_rows",
    "weights_in_memory",
]

SIDE_ROWS = 2  # times d + 1: rows on the rarer side of a unit
MANY_VALUED = 1e-6  # smallest weight of a unit on inputs with more than two values
ORIENTATION_GAP = 25.0  # five standard errors, squared


def few_outputs_evidence(
    problem: Problem, network: TwoLayerNetwork, active: IntArray
) -> tuple[Evidence, ...]:
    """Return the conditions on sides and on values of the inputs, each naming its weakest unit.

    Parameters
    ----------
    problem : Problem
        The standardised problem.
    network : TwoLayerNetwork
        The network.
    active : ndarray of int, shape (k,)
        Rows on which each unit is on.

    Returns
    -------
    tuple of Evidence
        Rows on the rarer side; weight on inputs with more than two values.
    """
    rarer = np.minimum(active, problem.n_samples - active)
    unit = int(np.argmin(rarer))
    sides = Evidence(
        f"samples on the rarer side of unit {unit} (active in {active[unit]} of {problem.n_samples})",
        int(rarer[unit]),
        SIDE_ROWS * (problem.n_features + 1),
        ">=",
        "2(d + 1)",
    )
    lowest, highest = problem.X.min(axis=0), problem.X.max(axis=0)
    is_many_valued = ((lowest < problem.X) & (highest > problem.X)).any(axis=0)
    weight = np.linalg.norm(network.W[:, is_many_valued], axis=1)
    least = int(np.argmin(weight))
    values = Evidence(
        f"weight of unit {least} on inputs with more than two values", float(weight[least]), MANY_VALUED, ">="
    )
    return sides, values


def count_missed_rows(problem: Problem, network: TwoLayerNetwork) -> tuple[int, IntArray]:
    """Return how many rows an exact network misses, and on how many each unit is on; one pass.

    Parameters
    ----------
    problem : Problem
        The standardised problem.
    network : TwoLayerNetwork
        The network.

    Returns
    -------
    missed : int
        Rows not reproduced to rounding.
    active : ndarray of int, shape (k,)
        Activity of the units.
    """
    sums = accumulate(problem.blocks, _MissedSummand(network))
    return sums.missed, sums.active


@dataclass(frozen=True, slots=True)
class MissedSums(Sums):
    """Rows that are not reproduced, and activity of the units."""

    missed: int
    active: IntArray


@dataclass(frozen=True, slots=True)
class _MissedSummand:
    """Rows that a network misses."""

    network: TwoLayerNetwork

    def __call__(self, first_row: int, X: Array, Y: Array) -> MissedSums:
        t = self.network.preactivations(X)
        residual = Y - self.network.activation(t) @ self.network.A.T - self.network.c
        missed = int((np.abs(residual).max(axis=1) > RESIDUAL_TOL).sum())
        return MissedSums(missed, (t > 0).sum(axis=0))


def reproduced_rows(network: TwoLayerNetwork, tol: float) -> RowWeights:
    """Return weights that are one on rows a network reproduces and zero on those it misses.

    Parameters
    ----------
    network : TwoLayerNetwork
        The network.
    tol : float
        Largest residual of a reproduced row.

    Returns
    -------
    callable
        The weights, for sums over rows.
    """

    def weights(start: int, X: Array, Y: Array) -> Array:
        return np.asarray((np.abs(Y - network(X)).max(axis=1) <= tol).astype(np.float64))

    return weights


def weigh_blocks_of_rows(blocks: RowBlocks, sample_weight: Any) -> tuple[RowBlocks, Array | None]:
    """Validate weights, leave out rows of weight zero, and scale the others to mean one.

    Parameters
    ----------
    blocks : RowBlocks
        The data.
    sample_weight : array_like of shape (n,) or None
        The user's weights.

    Returns
    -------
    blocks : RowBlocks
        The rows that count.
    omega : ndarray of shape (rows,) or None
        Their weights.
    """
    if sample_weight is None:
        return blocks, None
    weights = np.asarray(sample_weight, dtype=np.float64)
    n_samples = joint_moments(blocks).count
    if weights.shape != (n_samples,):
        raise BadInputError(f"sample_weight has shape {weights.shape}; expected ({n_samples},)")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise BadInputError("sample_weight must be finite and non-negative, and not all zero")
    counts = weights > 0
    omega = weights[counts] / weights[counts].mean()
    return (blocks if counts.all() else _only(blocks, counts)), omega


def _only(blocks: RowBlocks, counts: BoolArray) -> RowBlocks:
    """The rows that are marked, numbered anew: a plain stream, read where it is asked for."""

    def marked() -> Iterator[tuple[Array, Array]]:
        start = 0
        for X, Y in blocks:
            chosen = counts[start : start + len(X)]
            start += len(X)
            if chosen.any():
                yield X[chosen], Y[chosen]

    return RowBlocks(marked)


def weights_in_memory(problem: Problem, omega: Array | None) -> tuple[Problem, Array | None]:
    """Return the weights of the rows in memory; rows are sampled anew with their weights if not all are held.

    Parameters
    ----------
    problem : Problem
        The standardised problem.
    omega : ndarray of shape (n,) or None
        Weights of all rows.

    Returns
    -------
    problem : Problem
        The problem, with rows that belong to the weights.
    local : ndarray of shape (rows,) or None
        Their weights.
    """
    if omega is None or problem.holds_all_rows:
        return problem, omega
    weighted = problem.blocks.map_numbered(partial(_with_weights, omega))
    X, Y = sample_rows(weighted, len(problem.X), problem.rng, n_rows=problem.n_samples)
    return replace(problem, X=X, Y=np.ascontiguousarray(Y[:, :-1])), np.ascontiguousarray(Y[:, -1])


def _with_weights(omega: Array, first_row: int, X: Array, Y: Array) -> tuple[Array, Array]:
    return X, np.hstack([Y, omega[first_row : first_row + len(X), None]])
