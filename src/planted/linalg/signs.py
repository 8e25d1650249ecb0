"""Which units can be turned round without changing the function?

Turning a unit of a piecewise-linear network, ``a f(t)`` to ``a f(-t)``, changes the function by a linear
term: with ``f(t) = kink |t| + slope t`` the change is ``-2 slope a t``. So a set of turned units takes
up a linear rest ``R x`` (up to a constant, which the offset takes) exactly if

    sum_i z_i q_i = vec(R),    z_i in {0, 1},    q_i = vec(-2 slope a_i n_i')                         (1)

Columns ``q_i`` outside every linear dependence have a unique coefficient, found by least squares and rounded.
The others fall into blocks whose spans are independent; each block is searched by meeting in the middle, and
of several solutions the first in a fixed order is returned. Several solutions are the ambiguity of Claim 4.8
of [ATV21]_: the function does not determine the orientation of these units.

Limit: blocks of more than `LARGEST_BLOCK` units are not searched; they keep the orientation they have.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky
from scipy.sparse.csgraph import connected_components

from planted._typing import Array, BoolArray, IntArray

__all__ = ["LARGEST_BLOCK", "enumerate_flips", "find_flips"]

LARGEST_BLOCK = 28  # two tables of 2**14 partial sums
INDEPENDENT = 1e-10  # smallest eigenvalue of the Gram matrix of unit columns that settles independence
DEPENDENT = 1e-9  # singular values of unit columns below this fraction of the largest are zero
ROUNDING = 1e-13  # a block's share of the target below this fraction of the target is zero
LINKED = 1e-7  # entries of the null projector above this link two units of one block


def find_flips(columns: Array, target: Array, *, preferred: BoolArray, tol: float) -> BoolArray | None:
    """Choose columns that sum to the target, as near to ``preferred`` as a fixed order allows.

    `columns`: the vectors ``q_i`` of (1); exact zeros are units that turn freely. `preferred`: of several solutions,
    the one that agrees with this choice at the first unit where they differ. `tol`: the sum must agree with the
    target to this fraction of its terms. Returns the chosen columns; None if there is no solution or the search is
    too large. Shapes: columns (p, h), target (p,), preferred (h,), result (h,).
    """
    if not target.any() and _are_independent(columns):
        return np.zeros(columns.shape[1], dtype=np.bool_)
    found = enumerate_flips(columns, target, preferred=preferred, tol=tol, limit=1)
    return found[0] if found else None


def enumerate_flips(
    columns: Array,
    target: Array,
    *,
    preferred: BoolArray,
    tol: float,
    limit: int,
    largest_block: int = LARGEST_BLOCK,
) -> list[BoolArray]:
    """List choices of columns that sum to the target, the preferred one first.

    `tol`: the sum must agree with the target to this fraction of its terms. Returns the choices; empty if there is
    none or the search is too large. Shapes: columns (p, h), target (p,), preferred (h,), result (h,).
    """
    count = columns.shape[1]
    sizes = np.linalg.norm(columns, axis=0)
    unit = columns / np.where(sizes > 0, sizes, 1.0)
    solution, row_space = _least_squares(unit, target)
    choices = [np.zeros(count, dtype=np.bool_)]
    for block in _dependent_blocks(row_space):
        part = unit[:, block] @ solution[block]
        if np.linalg.norm(part) <= ROUNDING * np.linalg.norm(target):
            part = np.zeros_like(part)
        if len(block) > largest_block:
            answers = _unsearched(columns[:, block], part, tol=tol)
        else:
            answers = _solve_block(columns[:, block], part, preferred=preferred[block], tol=tol, limit=limit)
        choices = [_with_block(choice, block, answer) for choice in choices for answer in answers][:limit]
    return [choice for choice in choices if _fits(columns[:, choice], target, tol)]


def _with_block(choice: BoolArray, block: IntArray, answer: BoolArray) -> BoolArray:
    extended = choice.copy()
    extended[block] = answer
    return extended


def _are_independent(columns: Array) -> bool:
    """Whether the unit columns are clearly independent, from their Gram matrix."""
    sizes = np.linalg.norm(columns, axis=0)
    if columns.shape[1] > columns.shape[0] or (sizes == 0).any():
        return False
    unit = columns / sizes
    try:
        cholesky(unit.T @ unit - INDEPENDENT * np.eye(unit.shape[1]), check_finite=False)
    except LinAlgError:
        return False
    return True


def _least_squares(unit: Array, target: Array) -> tuple[Array, Array]:
    """Return the shortest least-squares solution and an orthonormal basis (rank, h) of the row space."""
    left, values, right = np.linalg.svd(unit, full_matrices=False)
    rank = int((values > DEPENDENT * values.max(initial=0.0)).sum())
    solution = right[:rank].T @ ((left[:, :rank].T @ target) / values[:rank])
    return solution, right[:rank]


def _dependent_blocks(row_space: Array) -> list[IntArray]:
    """Split the columns into blocks with independent spans; a column in no dependence is its own block."""
    null_projector = np.eye(row_space.shape[1]) - row_space.T @ row_space
    linked = np.abs(null_projector) > LINKED
    labels = connected_components(linked, directed=False)[1]
    order = np.argsort(labels, kind="stable")
    return list(np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)) if order.size else []


def _unsearched(columns: Array, target: Array, *, tol: float) -> list[BoolArray]:
    """A block too large to search stays as it is, if that is a solution."""
    is_met = np.abs(target).max(initial=0.0) <= tol * np.abs(columns).max(initial=0.0)
    return [np.zeros(columns.shape[1], dtype=np.bool_)] if is_met else []


def _solve_block(
    columns: Array, target: Array, *, preferred: BoolArray, tol: float, limit: int
) -> list[BoolArray]:
    if columns.shape[1] == 1 and columns.any():
        share = float(columns[:, 0] @ target / (columns[:, 0] @ columns[:, 0]))
        # Rounding errors of other, larger units may blur the share; the whole sum is checked at the end.
        nearest = round(share)
        return [np.array([nearest == 1])] if nearest in (0, 1) and abs(share - nearest) < 0.1 else []
    return _meet_in_the_middle(columns, target, preferred=preferred, tol=tol, limit=limit)


def _meet_in_the_middle(
    columns: Array, target: Array, *, preferred: BoolArray, tol: float, limit: int
) -> list[BoolArray]:
    """Solutions of (1) in the order "preferred first, earlier units first".

    Only one number is kept for each of the partial sums, its component along a generic line; what agrees there is
    checked in full.
    """
    count = columns.shape[1]
    triangle = np.asarray(
        np.linalg.qr(np.column_stack([columns, target]), mode="r")
    )  # same geometry, few rows
    system, goal = triangle[:, :count], triangle[:, count]
    half = (count + 1) // 2
    line = 1.0 / np.sqrt(np.arange(len(goal)) + np.sqrt(2.0))
    shares = line @ system
    reach = 2 * tol * np.abs(triangle).sum()
    keys = _all_sums(shares[half:], preferred[half:])
    order = np.argsort(keys, kind="stable")
    wanted = goal @ line - _all_sums(shares[:half], preferred[:half])
    first = np.searchsorted(keys[order], wanted - reach, side="left")
    last = np.searchsorted(keys[order], wanted + reach, side="right")
    found: list[BoolArray] = []
    for index in np.flatnonzero(last > first):
        for candidate in np.sort(order[first[index] : last[index]]):
            choice = np.concatenate(
                [_choice(int(index), preferred[:half]), _choice(int(candidate), preferred[half:])]
            )
            if _fits(system[:, choice], goal, tol):
                found.append(choice)
                if len(found) == limit:
                    return found
    return found


def _all_sums(shares: Array, preferred: BoolArray) -> Array:
    """The sums of the chosen shares for all choices, the preferred one first, departures in lexicographic order."""
    sums = np.zeros(1)
    for share, is_preferred in zip(shares, preferred, strict=True):
        step = np.array([share, 0.0]) if is_preferred else np.array([0.0, share])
        sums = (sums[:, None] + step).ravel()
    return sums


def _choice(code: int, preferred: BoolArray) -> BoolArray:
    """The choice at a place of `_all_sums`."""
    departures = (code >> np.arange(preferred.size)[::-1]) & 1
    return np.asarray(departures.astype(np.bool_) ^ preferred)


def _fits(chosen: Array, target: Array, tol: float) -> bool:
    """Whether the chosen columns sum to the target, relative to the sizes of the terms."""
    scale = np.linalg.norm(chosen, axis=0).sum() + np.linalg.norm(target)
    return bool(np.linalg.norm(chosen.sum(axis=1) - target) <= 10 * tol * scale)
