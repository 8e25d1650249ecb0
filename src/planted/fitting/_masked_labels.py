r"""Outputs of which some entries do not count, because they are missing or were found wrong.

If entries are left out, the outputs no longer share one matrix of normal equations. With :math:`Z_l, G_l` restricted
to the rows in which output l counts, the Gauss–Newton matrix of the hidden layer is

.. math:: N = \sum_l (a_l a_l^\top \otimes 1) \circ
          (Z_l^\top Z_l - Z_l^\top G_l (G_l^\top G_l)^{-1} G_l^\top Z_l) .                              \quad (1)

`masked_conditioning` decides from it whether the entries that count determine the network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from planted._typing import Array, BoolArray, IntArray
from planted.fitting._jacobian import tangent_basis
from planted.linalg.symmetric import solve_symmetric
from planted.moments import augment
from planted.networks import TwoLayerNetwork
from planted.rows import RowBlocks, Sums, accumulate

__all__ = ["complete_rows", "fill_unlisted", "label_counts", "masked_conditioning"]


def fill_unlisted(network: TwoLayerNetwork, tol: float) -> Callable[[Array, Array], tuple[Array, Array]]:
    """Return a map of rows that replaces labels a network does not reproduce, or that are missing, by its own."""

    def fill(X: Array, Y: Array) -> tuple[Array, Array]:
        fitted = network(X)
        return X, np.where(np.abs(Y - fitted) <= tol, Y, fitted)  # NaN compares false: filled too

    return fill


def masked_conditioning(X: Array, counts: BoolArray, network: TwoLayerNetwork, *, offset: bool) -> float:
    """Return the smallest relative singular value of the Jacobian on the entries that count.

    Shapes: X (n, d), counts (n, m).
    """
    k, p = network.n_hidden, network.n_features + 1
    t = network.preactivations(X)
    Z = (network.activation.derivative(t)[:, :, None] * augment(X)[:, None, :]).reshape(len(X), k * p)
    G = augment(network.activation(t)) if offset else network.activation(t)
    T = tangent_basis(network)
    N, squares = np.zeros((T.shape[1], T.shape[1])), np.zeros(T.shape[1])
    for row, marked in zip(network.A, counts.T, strict=True):
        moved = (Z[marked] * np.repeat(row, p)) @ T
        own = G[marked]
        cross = own.T @ moved
        products = moved.T @ moved
        squares += np.diag(products)
        N += products - cross.T @ solve_symmetric(own.T @ own, cross)
    if not (squares > 0).all():
        return 0.0
    lengths = np.sqrt(squares)
    smallest = linalg.eigvalsh(N / np.outer(lengths, lengths), check_finite=False)[0]
    return float(np.sqrt(max(smallest, 0.0)))


def label_counts(blocks: RowBlocks) -> tuple[int, int, IntArray]:
    """Count the rows, the rows without a missing label, and the missing labels of every output."""
    found = accumulate(blocks, _count_labels)
    return found.rows, found.complete, found.missing


@dataclass(frozen=True, slots=True)
class LabelSums(Sums):
    """Rows, complete rows, and missing labels of every output."""

    rows: int  # number of rows
    complete: int  # rows without a missing label
    missing: IntArray  # (m,): missing labels of each output


def _count_labels(first_row: int, X: Array, Y: Array) -> LabelSums:
    is_missing = np.isnan(Y)
    return LabelSums(len(X), int((~is_missing.any(axis=1)).sum()), is_missing.sum(axis=0))


def complete_rows(blocks: RowBlocks) -> RowBlocks:
    """Return the rows without a missing label."""

    def only(X: Array, Y: Array) -> tuple[Array, Array]:
        kept = ~np.isnan(Y).any(axis=1)
        return X[kept], Y[kept]

    return blocks.map(only)
