r"""Tests whether rows that share inputs share a part of their noise.

Problem     Labels may come in groups: several measurements of one object, with equal inputs and an effect of the object that
            no input holds. Standard errors count every row as new, and are too small by the root of one plus the number of
            further rows in a group times their correlation. Where only some inputs belong to the object, the others may
            make every row different.
Idea        Rows are grouped by equal inputs: in all columns, and in each column alone. With u the whitened residual, the sum

            .. math:: s = \sum_g \sum_{i < j \in g} u_{io} u_{jo}                                              \quad (1)

            over the pairs within groups is zero on average if rows are independent, whatever their variances, and the sum
            of the squares of its terms is its variance. It is taken for each output o, and for all together. Sums of
            squares of a few groups are skewed: (1) is compared with a χ² of as many degrees of freedom as there are
            groups, counted by their parts of the variance.
Guarantee   The level of the test, about. Groups that share no input are not seen, nor fewer than `FEWEST` of them.
Cost        A sort of each column of the rows in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import special

from planted._typing import Array, IntArray
from planted.certificates._residual import inverse_root
from planted.checks import Check
from planted.results import Evidence

__all__ = ["grouped_rows_evidence"]

LEVEL = 0.005  # of all groupings and outputs together
FEWEST = 20  # groups of several rows, and rows beyond the first of their group


def grouped_rows_evidence(X: Array, residual: Array) -> tuple[Evidence, ...]:
    """Return the line on noise that rows with equal inputs share; nothing where no inputs are equal.

    Shapes: X (n, d), residual (n, m).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, noise = np.repeat(rng.standard_normal((60, 2)), 5, axis=0), rng.standard_normal((300, 1))
    >>> [line.passed for line in grouped_rows_evidence(X, noise)]
    [True]
    >>> [line.passed for line in grouped_rows_evidence(X, noise + np.repeat(noise[:60], 5, axis=0))]
    [False]
    >>> grouped_rows_evidence(rng.standard_normal((300, 2)), noise)
    ()
    """
    groupings = dict(_groupings(X))
    products = residual.T @ residual
    root = inverse_root(products, np.diag(products)) if groupings else products[:, :0]
    if not root.shape[1]:
        return ()
    columns = np.ascontiguousarray((residual @ root).T) * np.sqrt(len(residual))
    powers = (columns, columns**2, columns**2 * columns**2)
    p_values = {name: _shared_p_value(groups, powers) for name, groups in groupings.items()}
    name = min(p_values, key=lambda key: p_values[key])
    return (
        Evidence(
            f"p-value of the test that rows with {name} share no noise",
            min(1.0, len(p_values) * p_values[name]),
            LEVEL,
            ">=",
            "independent rows",
            key=Check.GROUPED_ROWS,
        ),
    )


def _groupings(X: Array) -> Iterator[tuple[str, IntArray]]:
    """Give the groups of rows with equal inputs, (n,): in all columns if each has some, and in each that has others."""
    repeated = [column for column in range(X.shape[1]) if _has_groups(np.sort(X[:, column]))]
    of_columns = [np.unique(X[:, column], return_inverse=True)[1] for column in repeated]
    n_groups = 0
    if len(repeated) == X.shape[1] > 1:
        groups = np.unique(np.column_stack(of_columns), axis=0, return_inverse=True)[1].ravel()
        if _has_groups(np.sort(groups)):
            n_groups = int(groups.max()) + 1
            yield "equal inputs", groups
    for column, groups in zip(repeated, of_columns, strict=True):
        if groups.max() + 1 != n_groups:  # else they are those of all columns
            yield f"an equal input {column}", groups


def _has_groups(ordered: Array | IntArray) -> bool:
    """Return whether some values in order have enough groups of equal ones."""
    is_again = ordered[1:] == ordered[:-1]
    if int(is_again.sum()) < FEWEST:
        return False
    return int((is_again & ~np.append(False, is_again[:-1])).sum()) >= FEWEST


def _shared_p_value(groups: IntArray, powers: tuple[Array, ...]) -> float:
    """Return the p-value of (1) over outputs and all of them together, the smallest times their number.

    `powers`: the whitened residual, its squares and fourth powers, (outputs, n).
    """
    sums, squares, fourths = (
        np.stack([np.bincount(groups, weights=column) for column in columns]) for columns in powers
    )
    pairs, variances = (sums**2 - squares) / 2, (squares**2 - fourths) / 2  # (outputs, groups)
    pairs = np.vstack([pairs, pairs.sum(axis=0)])
    variances = np.vstack([variances, variances.sum(axis=0)])
    total = np.maximum(variances.sum(axis=1), np.finfo(float).tiny)
    freedom = total**2 / np.maximum((variances**2).sum(axis=1), np.finfo(float).tiny)
    scores = pairs.sum(axis=1) / np.sqrt(total)
    p_values = special.chdtrc(freedom, np.maximum(freedom + np.sqrt(2 * freedom) * scores, 0.0))
    return float(min(1.0, len(p_values) * p_values.min()))
