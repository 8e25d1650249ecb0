"""The linear problem behind memorising: find the symmetric matrix M with x'Mx = y.

Problem     A quadratic network ``Σ a_i (w_i'x)²`` with signs a_i = ±1 depends on its weights only through the
            symmetric matrix M = W'diag(a)W. Memorising n labels is therefore a system of n linear equations in the
            d(d+1)/2 entries of M.
Idea        A solver receives a `MemoryTask`, whose rows have a root-mean-square norm of one and whose labels have a
            root mean square of one, and returns a `MemoryFit`. It either trains weights or finds M itself; the
            eigendecomposition M = Σ λ_i u_i u_i' is then read as at most d units √|λ_i| u_i with the signs of the
            λ_i. A solver calls `MemoryTask.check` between its steps, inside `MemoryTask.stoppable`: a deadline, a
            stop that the progress callback asks for, and Ctrl-C then end it with what it has reached.
Notation    Z are the rows that the quadratic layer sees (inputs or random features), n × q. K = (ZZ')∘(ZZ') is the
            kernel of x⊗x, and with S = Z'diag(v)Z a product with it is Kv = rowsum((ZS)∘Z). The loss is
            1/(4n) Σ (x'Mx - y)², as in section 2.2 of [GWZ20]_.
Cost        One product with K takes 2nq² flops with triangular products, and no n × n matrix. More rows than a block
            are computed on several threads where BLAS has them; the bits do not depend on their number.
References  [GWZ20]_
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import blas

from planted._clock import StopRequested, check_time
from planted._threads import side_by_side
from planted._typing import Array, Progress

__all__ = [
    "MemoryFit",
    "MemoryTask",
    "kernel_product",
    "merge_curves",
    "quadratic_forms",
    "signed_units",
    "weighted_gram",
]

BLOCK_ROWS = 8192
UNIT_TOL = 1e-14  # eigenvalues of M below this times the largest are rounding, and make no unit


@dataclass(frozen=True, slots=True)
class MemoryTask:
    """Standardised rows and labels to be memorised, with what a solver needs beside them."""

    Z: Array  # (n, q): rows of root-mean-square norm one
    Y: Array  # (n, m): labels of root mean square one
    rng: np.random.Generator  # the solver's random stream
    tol: float  # the loss, in these units, at which the labels count as memorised
    progress: Progress = field(default=lambda what, fraction: None)  # callback `progress(message, fraction)`
    interruptions: list[str] = field(default_factory=list)  # what has stopped the solver, in order

    @property
    def capacity(self) -> int:
        """Dimension q(q+1)/2 of the symmetric matrices."""
        q = int(self.Z.shape[1])
        return q * (q + 1) // 2

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        """Leave the block when Ctrl-C or a request to stop ends it, and remember the cause."""
        try:
            yield
        except KeyboardInterrupt:
            self.interruptions.append("Ctrl-C")
        except StopRequested as stop:
            self.note_stop(stop)

    def note_stop(self, stop: StopRequested) -> None:
        """Remember why the solver was asked to stop."""
        self.interruptions.append(str(stop) if self.has_time() else "time budget")

    def check(self) -> None:
        """Raise `StopRequested` if the time is used up or an earlier part of the work was interrupted."""
        check_time()
        if self.interruptions:
            raise StopRequested("an earlier part of the work was interrupted")

    def has_time(self) -> bool:
        """Return whether the deadline of the enclosing time budget is still to come."""
        try:
            check_time()
        except StopRequested:
            return False
        return True


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """What a solver found."""

    W: Array  # (k, q): units, one per row
    A: Array  # (m, k): signs: +1, -1, or 0 where a unit belongs to another output
    curve: tuple[tuple[int, float], ...]  # iteration and loss, in the task's units
    width: int | None = None  # units per output, of a solver that trains weights
    # Rank and smallest eigenvalue of the kernel where they were computed, else an upper bound of the latter if known.
    spectrum: tuple[int, float] | None = None
    eigenvalue_bound: float = float("nan")
    promised_loss: float | None = None  # of each output, at which the printed descent ends by its own rule
    fallback: str = ""  # what a linear solver did instead because the kernel is singular
    notes: Mapping[str, Any] = field(default_factory=dict)  # further facts for the record

    @classmethod
    def zero(cls, task: MemoryTask) -> MemoryFit:
        """Return a single unit of weight zero: what is left to return when there is no unit."""
        curve = ((0, float(np.sum(task.Y**2)) / (4 * len(task.Y))),)
        return cls(np.zeros((1, task.Z.shape[1])), np.ones((task.Y.shape[1], 1)), curve)


def kernel_product(Z: Array, v: Array) -> Array:
    """Return Kv for the kernel (z_i'z_j)² without forming it.

    Shapes: Z (n, q), v (n,), result (n,).
    """
    return quadratic_forms(Z, weighted_gram(Z, v))


def weighted_gram(Z: Array, v: Array) -> Array:
    """Return the symmetric matrix Σ_j v_j z_j z_j'.

    Positive and negative weights are summed apart, each by a symmetric rank-k update, which takes half the work of a
    general product. Shapes: Z (n, q), v (n,), result (q, q).
    """
    rank_update = blas.ssyrk if Z.dtype == np.float32 else blas.dsyrk
    size = Z.shape[1]

    def of_block(rows: slice) -> Array:
        block: Any = np.zeros((size, size), dtype=Z.dtype, order="F")
        for sign in (1.0, -1.0):
            chosen = np.flatnonzero(sign * v[rows] > 0)
            if len(chosen):
                part = Z[rows][chosen] * np.sqrt(np.abs(v[rows][chosen]))[:, None]
                block = rank_update(sign, part.T, beta=1.0, c=block, overwrite_c=True, lower=False)
        return np.asarray(block)

    total = sum(side_by_side(of_block, _row_slices(len(Z))), start=np.zeros((size, size), dtype=Z.dtype))
    lower = np.triu(total, 1).T
    return np.asarray(np.triu(total) + lower)


def quadratic_forms(Z: Array, M: Array) -> Array:
    """Return z_j'M z_j for every row.

    M is replaced by a triangular matrix with the same quadratic form, which halves the work. Shapes: Z (n, q),
    M (q, q), result (n,).
    """
    multiply = blas.strmm if Z.dtype == np.float32 else blas.dtrmm
    triangle = np.asfortranarray(np.triu(2 * M, 1) + np.diag(np.diag(M)), dtype=Z.dtype)

    def of_block(rows: slice) -> Array:
        product = multiply(1.0, triangle, Z[rows].T, side=0, lower=False)
        return np.asarray(np.einsum("qj,jq->j", product, Z[rows]))

    return np.concatenate(list(side_by_side(of_block, _row_slices(len(Z)))))


def signed_units(matrices: Array) -> tuple[Array, Array]:
    """Read symmetric matrices as units with signs: M_o = Σ_i A_oi w_i w_i'.

    The rows of W are the units of all outputs, at most q for each; A has their signs, and 0 where a unit belongs to
    another output. Shapes: matrices (m, q, q), W (k, q), A (m, k).
    """
    units, signs = [], []
    for matrix in matrices:
        values, vectors = linalg.eigh(matrix)
        kept = np.abs(values) > UNIT_TOL * max(float(np.abs(values).max()), np.finfo(float).tiny)
        units.append(np.sqrt(np.abs(values[kept]))[:, None] * vectors[:, kept].T)
        signs.append(np.sign(values[kept]))
    return np.vstack(units), linalg.block_diag(*signs) if len(signs) > 1 else signs[0][None]


def merge_curves(curves: Sequence[list[float]]) -> tuple[tuple[int, float], ...]:
    """Add the losses of several outputs step by step; a curve that has ended counts with its last value."""
    padded = zip_longest(*curves)
    last = [curve[-1] for curve in curves]
    return tuple(
        (step, float(sum(end if value is None else value for value, end in zip(losses, last, strict=True))))
        for step, losses in enumerate(padded)
    )


def _row_slices(n: int) -> Iterator[slice]:
    """Cut n rows into blocks."""
    for start in range(0, n, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, n))
