"""The linear problem behind memorising: find the symmetric matrix M with x'Mx = y.

Problem     A quadratic network ``Σ a_i (w_i'x)²`` with signs a_i = ±1 depends on its weights only through the
            symmetric matrix M = W'diag(a)W. Memorising n labels is therefore n linear equations in the d(d+1)/2
            entries of M.
Idea        Rows are brought to a root-mean-square norm of one and labels to a root mean square of one. A solver
            returns M (or weights that make it), and the eigendecomposition M = Σ λ_i u_i u_i' is read as at most d
            units √|λ_i| u_i with signs of λ_i.
Notation    Z = the rows the quadratic layer sees (inputs, or random features), n × q;  K = (ZZ')∘(ZZ'), the kernel
            of x⊗x; S = Z'diag(v)Z, so that Kv = rowsum((Z S)∘Z);  loss = 1/(4n) Σ (x'Mx - y)², equation of section
            2.2 of [GWZ20]_.
Cost        One product with K: 2nq² flops with triangular products, no n × n matrix.
References  [GWZ20]_
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import blas

from planted._clock import OutOfTime, check_time
from planted._typing import Array, Progress

__all__ = ["MemoryFit", "MemoryTask", "kernel_product", "quadratic_forms", "signed_units", "weighted_gram"]

BLOCK_ROWS = 8192
UNIT_TOL = 1e-14  # eigenvalues of M below this times the largest are rounding, and make no unit


@dataclass(frozen=True, slots=True)
class MemoryTask:
    """Labels to be memorised, in comfortable units."""

    Z: Array  # (n, q): rows of root-mean-square norm one
    Y: Array  # (n, m): labels of root mean square one
    rng: np.random.Generator  # the solver's random stream
    tol: float  # the loss, in these units, at which the labels count as memorised
    progress: Progress = field(default=lambda what, fraction: None)  # told what is being done
    interruptions: list[str] = field(default_factory=list)  # what ended the work before its time

    @property
    def capacity(self) -> int:
        """Dimension q(q+1)/2 of the symmetric matrices."""
        q = int(self.Z.shape[1])
        return q * (q + 1) // 2

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        """Keep what an iteration has reached when Ctrl-C or a time budget ends it."""
        try:
            yield
        except KeyboardInterrupt as interrupt:
            cause = "time budget" if isinstance(interrupt, OutOfTime) else "Ctrl-C"
            self.interruptions.append(cause)

    def check(self) -> None:
        """Raise if the work was interrupted or its time is used up."""
        check_time()
        if self.interruptions:
            raise KeyboardInterrupt

    def interruption(self) -> dict[str, str]:
        """Return what ended the work before its time, for the record."""
        return {"interrupted_by": self.interruptions[0]} if self.interruptions else {}


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """What a solver found."""

    W: Array  # (k, q): units, one per row
    A: Array  # (m, k): signs: +1, -1, or 0 where a unit belongs to another output
    curve: tuple[tuple[int, float], ...]  # iteration and loss, in the task's units
    # Rank, smallest eigenvalue and the like, where the solver knows them.
    facts: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)  # what the solver has to say


def kernel_product(Z: Array, v: Array) -> Array:
    """Return Kv for the kernel (z_i'z_j)² without forming it.

    Shapes: Z (n, q), v (n,), result (n,).
    """
    return quadratic_forms(Z, weighted_gram(Z, v))


def weighted_gram(Z: Array, v: Array) -> Array:
    """Return the symmetric matrix Σ_j v_j z_j z_j'.

    The result: the sum. Positive and negative weights are summed apart, each by a symmetric rank-k update: half the
    work of a general product. Shapes: Z (n, q), v (n,), result (q, q).
    """
    rank_update = blas.ssyrk if Z.dtype == np.float32 else blas.dsyrk
    total = np.zeros((Z.shape[1], Z.shape[1]), dtype=Z.dtype, order="F")
    for rows in _row_slices(len(Z)):
        for sign in (1.0, -1.0):
            chosen = np.flatnonzero(sign * v[rows] > 0)
            if len(chosen):
                part = Z[rows][chosen] * np.sqrt(np.abs(v[rows][chosen]))[:, None]
                total = rank_update(sign, part.T, beta=1.0, c=total, overwrite_c=True, lower=False)
    lower = np.triu(total, 1).T
    return np.asarray(np.triu(total) + lower)


def quadratic_forms(Z: Array, M: Array) -> Array:
    """Return z_j'M z_j for every row.

    The result: the forms, with M replaced by a triangle of equal form: half the work. Shapes: Z (n, q), M (q, q),
    result (n,).
    """
    multiply = blas.strmm if Z.dtype == np.float32 else blas.dtrmm
    triangle = np.asfortranarray(np.triu(2 * M, 1) + np.diag(np.diag(M)), dtype=Z.dtype)
    out = np.empty(len(Z), dtype=Z.dtype)
    for rows in _row_slices(len(Z)):
        block = Z[rows]
        product = multiply(1.0, triangle, block.T, side=0, lower=False)
        out[rows] = np.einsum("qj,jq->j", product, block)
    return out


def signed_units(matrices: Array) -> tuple[Array, Array]:
    """Read symmetric matrices as units with signs: M_o = Σ_i A_oi w_i w_i'.

    Returns W: units of all outputs, at most q for each; A: their signs, 0 where a unit belongs to another output.
    Shapes: matrices (m, q, q).

    Examples
    --------
    >>> W, A = signed_units(np.diag([4.0, -9.0])[None])
    >>> np.abs(W).tolist(), A.tolist()
    ([[0.0, 3.0], [2.0, 0.0]], [[-1.0, 1.0]])
    """
    units, signs = [], []
    for matrix in matrices:
        values, vectors = linalg.eigh(matrix)
        kept = np.abs(values) > UNIT_TOL * max(float(np.abs(values).max()), np.finfo(float).tiny)
        units.append(np.sqrt(np.abs(values[kept]))[:, None] * vectors[:, kept].T)
        signs.append(np.sign(values[kept]))
    return np.vstack(units), linalg.block_diag(*signs) if len(signs) > 1 else signs[0][None]


def _row_slices(n: int) -> Iterator[slice]:
    """Cut n rows into blocks."""
    for start in range(0, n, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, n))
