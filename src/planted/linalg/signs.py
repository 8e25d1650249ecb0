r"""Sign systems: choose 0 or 1 for every column so that the chosen columns sum to a target.

Problem     Given columns q_i and a target R, find

            .. math:: \sum_i z_i q_i = R, \qquad z_i \in \{0, 1\}.                                        \quad (1)

            Such systems arise wherever a piecewise-linear unit may look either way. Turning a unit round, from
            ``a f(t)`` to ``a f(-t)``, changes a network by a linear function: with ``f(t) = kink |t| + slope t`` the
            change is ``-2 slope a t``. A set of turned units therefore takes up a linear rest ``R x`` (up to a constant,
            which the offset of the network takes) exactly if (1) holds with ``q_i = vec(-2 slope a_i n_i')``. The same
            system in signs, Σ ξ_i q_i = R with ξ_i = ±1, is (1) with columns ``-2 q_i`` and target ``R - Σ q_i``.
Idea        Four situations, one function each.
            1. The numbers are exact to rounding (`find_flips`, `enumerate_flips`). Columns outside every linear
               dependence have a unique coefficient, found by least squares and rounded. The others fall into blocks
               whose spans are independent; each block is searched by meeting in the middle: all sums over the first
               half of its columns are compared with what the second half must still contribute. Several solutions
               are listed in a fixed order. They are the ambiguity of Claim 4.8 of [ATV21]_: the function does not
               determine the orientation of these units.
            2. The numbers have a known error, and there are at least as many equations as columns (`round_shares`).
               Least squares gives every coefficient, called a share here. A share within its own error of 0 or 1 is
               rounded; any other is returned as it is, since two units may lie on one hyperplane and look opposite
               ways.
            3. The numbers have a known error, and there are more columns than equations (`search_corners`). A corner
               of the cube that satisfies (1) within the error is found by mixed-integer programming. The linear
               relaxation has a single point once the number of equations exceeds about half the number of columns
               [Mangasarian2011]_; below that, branch and bound gets a limited number of nodes.
            4. The numbers are noisy and (1) need not hold at all (`nearest_sign_sums`). The two halves are compared as
               points: for every sum over the first half the nearest sum over the second half is taken, and the best
               of these pairs are returned.
Limits      `enumerate_flips` does not search blocks of more than `LARGEST_BLOCK` columns; they keep the orientation they
            have. `nearest_sign_sums` makes a table of 2^(k/2) points for k columns, so k should not exceed 30.
References  [ATV21]_, [Mangasarian2011]_
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky
from scipy.sparse.csgraph import connected_components

from planted._clock import seconds_left
from planted._typing import Array, BoolArray, IntArray

__all__ = [
    "LARGEST_BLOCK",
    "enumerate_flips",
    "find_flips",
    "nearest_sign_sums",
    "round_shares",
    "search_corners",
]

LARGEST_BLOCK = 28  # two tables of 2**14 partial sums
INDEPENDENT = 1e-10  # smallest eigenvalue of the Gram matrix of unit columns that settles independence
DEPENDENT = 1e-9  # singular values of unit columns below this fraction of the largest are zero
ROUNDING = 1e-13  # a block's share of the target below this fraction of the target is zero
LINKED = 1e-7  # entries of the null projector above this link two units of one block

# Least squares with errors:
SINGULAR = 1e-12  # part of the largest singular value of unit columns below which shares are not determined
SHARE_TOL = 1e-6  # distance of a share from 0 or 1 that is put down to rounding, at least
UNDECIDED = 0.1  # error of a share above which 0 and 1 are not told from what lies between

# Search among corners:
MOST_COLUMNS_SEARCHED = 1000
SLACK = 1e-6  # by which an equation of length one may be off in the program, at least
# Of branch and bound; a limit in seconds would give different answers on different days.
SEARCH_NODES = 100_000


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
        own = columns[:, block]
        if len(block) > largest_block:  # too large to search: it stays as it is, if that is a solution
            is_met = np.abs(part).max(initial=0.0) <= tol * np.abs(own).max(initial=0.0)
            answers = [np.zeros(len(block), dtype=np.bool_)] if is_met else []
        else:
            answers = _solve_block(own, part, preferred=preferred[block], tol=tol, limit=limit)
        choices = [_with_block(choice, block, answer) for choice in choices for answer in answers][:limit]
    return [choice for choice in choices if _fits(columns[:, choice], target, tol)]


def round_shares(columns: Array, target: Array, *, error: float) -> Array | None:
    """Solve (1) by least squares and round the shares that are 0 or 1 within their error.

    `error`: bound on the norm of the error of the target. Returns None if the columns are dependent or the error leaves
    a share undecided. Shapes: columns (p, h), target (p,), result (h,).
    """
    if columns.shape[1] > columns.shape[0]:
        return None
    sizes = np.linalg.norm(columns, axis=0)
    unit = columns / np.where(sizes > 0, sizes, 1.0)
    left, singular, right = np.linalg.svd(unit, full_matrices=False)
    if singular.min(initial=np.inf) <= SINGULAR * singular.max(initial=0.0):
        return None
    inverse = (right.T / singular) @ left.T
    shares = (inverse @ target) / sizes
    doubt = np.maximum(SHARE_TOL, error * np.linalg.norm(inverse, axis=1) / sizes)
    nearest = np.round(shares)
    is_whole = (np.abs(shares - nearest) <= np.minimum(doubt, UNDECIDED)) & ((nearest == 0) | (nearest == 1))
    if (doubt[~is_whole] > UNDECIDED).any():
        return None
    return np.asarray(np.where(is_whole, nearest + 0.0, shares))


def search_corners(columns: Array, target: Array, *, error: float) -> tuple[Array, float] | None:
    """Search the corners of the cube for a solution of (1) within an error.

    `error`: bound on the norm of the error of the target. Returns the corner, with entries 0 and 1, and the logarithm to
    base 10 of the expected number of other corners that fit as well by accident, about 2^h times the part of each
    equation's range that the error leaves. None if no corner was found or there are too many columns to search. Shapes:
    columns (p, h), target (p,), result (h,).
    """
    count = columns.shape[1]
    if count > MOST_COLUMNS_SEARCHED:
        return None
    left, singular, _ = np.linalg.svd(columns, full_matrices=False)
    basis = left[:, singular > 10 * error]
    rows, goal = basis.T @ columns, basis.T @ target
    lengths = np.linalg.norm(rows, axis=1)
    slack = np.maximum(SLACK, 10 * error / lengths)
    corner = _feasible_corner(rows / lengths[:, None], goal / lengths, slack)
    if corner is None or np.linalg.norm(columns @ corner - target) > error:
        return None
    misses = np.log10(np.minimum(np.sqrt(count) * error / lengths, 1.0))
    return corner, float(count * np.log10(2.0) + misses.sum())


def nearest_sign_sums(columns: Array, target: Array, *, count: int) -> list[BoolArray]:
    """List choices of signs, Σ ξ_i q_i with ξ_i = ±1, whose sums come near to the target, the nearest first.

    `count`: how many to list, at most. For every choice of the first half of the signs only the best choice of the
    second half is considered, so the nearest is exact and the others are near. Returns for each choice which signs are
    -1. Shapes: columns (p, h), target (p,), results (h,).
    """
    from scipy.spatial import KDTree  # loaded when it is needed

    half = columns.shape[1] // 2
    early, late = _all_signs(half), _all_signs(columns.shape[1] - half)
    tree = KDTree(late @ columns[:, half:].T)
    distances, indices = tree.query(target - early @ columns[:, :half].T)
    best = np.argsort(distances, kind="stable")[:count]
    return [np.concatenate([early[i], late[indices[i]]]) < 0 for i in best]


def _with_block(choice: BoolArray, block: IntArray, answer: BoolArray) -> BoolArray:
    """Return a choice with the answer of one block filled in."""
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


def _solve_block(
    columns: Array, target: Array, *, preferred: BoolArray, tol: float, limit: int
) -> list[BoolArray]:
    """List the solutions of (1) within one block."""
    if columns.shape[1] == 1 and columns.any():
        size = np.abs(columns).max()  # its square may be too small for a number
        column = columns[:, 0] / size
        with np.errstate(over="ignore"):
            share = float((column @ target) / (column @ column) / size)
        # Rounding errors of other, larger units may blur the share; the whole sum is checked at the end.
        return [np.array([abs(share - 1) < 0.1])] if min(abs(share), abs(share - 1)) < 0.1 else []
    return _meet_in_the_middle(columns, target, preferred=preferred, tol=tol, limit=limit)


def _meet_in_the_middle(
    columns: Array, target: Array, *, preferred: BoolArray, tol: float, limit: int
) -> list[BoolArray]:
    """Solutions of (1) in the order "preferred first, earlier units first".

    Only one number is kept for each of the partial sums, its component along a generic line; what agrees there is
    checked in full.
    """
    count = columns.shape[1]
    # The triangle has the same geometry as the columns and the target, in few rows.
    triangle = np.asarray(np.linalg.qr(np.column_stack([columns, target]), mode="r"))
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


def _feasible_corner(rows: Array, goal: Array, slack: Array) -> Array | None:
    """Return a corner of the cube with ``|rows z - goal| <= slack``, if branch and bound finds one within its nodes.

    `planted.linalg._highs` has no limit on nodes and would restart an infeasible search without presolve; the caller
    checks the corner itself.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # loaded when it is needed

    count, left = rows.shape[1], seconds_left()
    answer = milp(
        np.zeros(count),
        integrality=np.ones(count),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(rows, goal - slack, goal + slack),
        options={"node_limit": SEARCH_NODES} | ({"time_limit": left} if np.isfinite(left) else {}),
    )
    return None if answer.x is None else np.round(answer.x) + 0.0


def _all_signs(count: int) -> Array:
    """All choices of signs, shape (2**count, count), the first of them all +1."""
    codes = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    return np.asarray(1.0 - 2.0 * codes)
